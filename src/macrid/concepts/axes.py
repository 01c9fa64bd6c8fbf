"""Axes that mean something: rotations of each concept, found after training, that change no score.

independence  popularity first, then axes as independent as can be (ICA made orthogonal) within the directions in which
              items differ more than by chance, then the rest by variance
attributes    popularity and attributes of items first, in order of how well they are told, each orthogonal to those
              before it; then the rest by variance

Dimensions that labels have tied to an attribute (`fit(..., labels=...)`) stay as they are, before all others, where the
items table does not know the attribute.

Popularity goes first because it is known of every item and is the strongest direction of all: left where it is, it
mixes with everything else. Rare items count less, their vectors being mostly noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm, rankdata

from macrid.concepts.meaning import Axes, Fit, meaning_of, unturned
from macrid.concepts.space import Space, space_of, with_range
from macrid.data.attributes import POPULARITY, Column, columns_of, named_column
from macrid.errors import RequestError
from macrid.evaluation.agreement import scores_of
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE

KINDS = ("original", "independence", "attributes")
RIDGE = 3.0  # strength of attributes hardly changes from 1 to 30
FOLDS = 5
SHUFFLES = 199
LEAST_STRENGTH = 0.2  # of an attribute that gets an axis; rank correlation, cross-validated
LEAST_P = 0.01
FEWEST_ITEMS = 40  # of a concept that has axes of its own
MOST_ITEMS = 5000  # of a concept that axes are found on


def find(
    model: MacridVAE,
    by: str,
    *,
    attributes: Sequence[str] | None = None,
    histories: sp.csr_array | None = None,
    seed: int = 0,
) -> Axes:
    """Axes of one kind for every concept.

    attributes: the names of columns to take with by="attributes"; all that say something unless given.
    histories: of users, in whose range moves are usual; those that the model keeps unless given.
    """
    space = space_of(model)
    if by not in KINDS:
        raise RequestError(f"axes by '{by}' are not known; choose from {', '.join(KINDS)}")
    if attributes is not None and by != "attributes":
        raise RequestError(f"attributes go with by='attributes', not with by='{by}'")
    columns = columns_of(model)
    if attributes is not None:
        attributes = [attributes] if isinstance(attributes, str) else list(dict.fromkeys(attributes))
        if not attributes:
            raise RequestError("no attributes to turn axes by; name some, or leave attributes away to take all")
        columns = [named_column(model, name, columns) for name in attributes]
    rotation, fits = [], []
    for k in range(space.concepts):
        turned, own_fits = of_concept(space, k, by, columns, seed)
        rotation.append(turned)
        fits += own_fits
    if attributes is not None and not fits:
        raise RequestError(f"none of {', '.join(attributes)} can be told from the item vectors; nothing was turned")
    found = Axes(by, np.stack(rotation).astype(np.float32), fits=tuple(fits))
    return with_range(found, space, model.sample if histories is None else histories)


def use(model: MacridVAE, axes: Axes, kinds: Sequence[str] | None = None) -> None:
    """Make them the model's axes: in every concept, or of each concept the kind that is named."""
    space = space_of(model)
    if axes.rotation.shape != (space.concepts, space.dim, space.dim):
        raise RequestError(f"axes of shape {axes.rotation.shape} do not fit {space.concepts} concepts of {space.dim}")
    meaning = meaning_of(model)
    chosen = (axes.by,) * space.concepts if kinds is None else tuple(kinds)
    unknown = [kind for kind in chosen if kind not in ("original", axes.by, *meaning.axes)]
    if unknown or len(chosen) != space.concepts:
        wrong = f"'{unknown[0]}' was not found yet" if unknown else f"these are {len(chosen)}"
        raise RequestError(f"kinds are those of the {space.concepts} concepts, one each; {wrong}")
    meaning.axes[axes.by] = axes
    space.towards.clear()
    meaning.in_use = chosen


def remember_range(model: Recommender) -> None:
    """Keep where real users are along the original axes: a run may be opened where no user is at hand."""
    axes = meaning_of(model).axes
    if isinstance(model, MacridVAE) and model.sample is not None and "original" not in axes:
        space = space_of(model)
        axes["original"] = with_range(Axes("original", unturned(space.concepts, space.dim)), space, model.sample)


def of_concept(
    space: Space, k: int, by: str, columns: Sequence[Column], seed: int, items: np.ndarray | None = None
) -> tuple[np.ndarray, list[Fit]]:
    """Axes of one concept (dim, dim), and which of them were fitted to what; from these of its items, or from all."""
    random = np.random.default_rng([seed, k])
    own, popularity = space.own(k) if items is None else items, space.model.popularity
    if len(own) > MOST_ITEMS:
        own = np.sort(random.choice(own, MOST_ITEMS, replace=False))
    labelled = list(tied(space.model))
    if by == "original":
        return np.eye(space.dim), []
    if len(own) < FEWEST_ITEMS:
        return np.eye(space.dim)[[*labelled, *(j for j in range(space.dim) if j not in labelled)]], []
    vectors = space.items[own].astype(np.float64)
    weights = weights_of(popularity[own])
    if by != "attributes":
        columns = [column for column in columns if column.kind == POPULARITY]
    first, fits = attribute_axes(vectors, weights, own, columns, random, k, np.eye(space.dim)[labelled])
    centred = vectors - np.average(vectors, axis=0, weights=weights)
    left = (centred - centred @ first.T @ first) * np.sqrt(weights)[:, None]
    turned = np.linalg.eigh(left.T @ left)[1].T[::-1][: space.dim - len(first)]  # by variance, the largest first
    rank = 0 if by == "attributes" else significant(left @ turned.T, random)
    if rank > 1:
        inner = centred @ turned[:rank].T
        inner -= inner.mean(axis=0)
        turned = np.concatenate([_ordered(independent(inner, random), inner) @ turned[:rank], turned[rank:]])
    rest = _orthonormal(np.concatenate([first, turned]))[len(first) :]
    return np.concatenate([first, rest * _signs(centred @ rest.T)[:, None]]), fits


def tied(model: MacridVAE) -> dict[int, str]:
    """Dimensions that labels have tied to an attribute in training, of which the items table does not know."""
    named = [] if model.labelled is None else model.labelled["dimensions"]
    known = set() if model.table is None else set(model.table.column_names)
    return {dimension: str(name) for dimension, name in enumerate(named) if name not in known}


def attribute_axes(
    vectors: np.ndarray,
    weights: np.ndarray,
    own: np.ndarray,
    columns: Sequence[Column],
    random: np.random.Generator,
    concept: int = 0,
    before: np.ndarray | None = None,
) -> tuple[np.ndarray, list[Fit]]:
    """Directions (axes, dim) of what can be told from vectors (n, dim) of the items at positions `own`.

    before: axes (axes, dim) that go first as they are. Of the others, the one that is told best on items it was not
    fitted to goes first, and each is orthogonal to those before it; one that is left with no strength of its own, or
    that the best of as many shuffled attributes would reach, gets no axis.
    """
    fold = random.permutation(len(own)) % FOLDS
    usable = [column for column in columns if column.is_usable(own)]
    before = np.zeros((0, vectors.shape[1])) if before is None else before
    if not usable:
        return before, []
    scores = np.stack([scores_of(column.values[own]) for column in usable], axis=1)  # (n, columns)
    held_out = _from_others(vectors, fold)
    directions = _directions(vectors, scores, weights, fold)
    alone = _told(held_out, scores, directions, fold)
    axes = np.repeat(before[None], FOLDS + 1, axis=0)  # those of all items are the last
    fits: list[Fit] = []
    spread: dict[bytes, float] = {}
    for place in np.argsort(-alone, kind="stable").tolist():
        if alone[place] < LEAST_STRENGTH or axes.shape[1] == vectors.shape[1]:
            break
        own_scores = scores[:, [place]]
        each = _beside(directions[:, [place]], axes)
        told = float(_told(held_out, own_scores, each, fold)[0])
        if told < LEAST_STRENGTH or told < 0.5 * alone[place]:
            continue
        known = np.isfinite(own_scores).tobytes()
        if known not in spread:
            spread[known] = _spread(vectors, own_scores, weights, fold, random)
        p = _chance(told, spread[known], len(usable))
        if p > LEAST_P:
            continue
        fits.append(Fit(concept, axes.shape[1], usable[place].name, told, p))
        axes = np.concatenate([axes, each], axis=1)
    return axes[-1], fits


def direction_of(vectors: np.ndarray, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The unit vector (dim,) along which values (n,) grow over vectors (n, dim), told well or not; NaN is unknown."""
    scores = scores_of(values)[:, None]
    return _ridge(vectors, scores, weights, np.isfinite(scores[:, 0]))[0]


def weights_of(popularity: np.ndarray) -> np.ndarray:
    """How much items count: by how often they were chosen, up to the most popular tenth; mean 1."""
    weights = np.minimum(popularity, np.quantile(popularity, 0.9)).astype(np.float64)
    return np.maximum(weights / max(float(weights.mean()), 1e-12), 1e-3)


def independent(points: np.ndarray, random: np.random.Generator, steps: int = 500) -> np.ndarray:
    """The rotation (rank, rank) nearest to independent coordinates: FastICA (Hyvärinen, 1999), then its polar factor.

    points: (n, rank), centred.
    """
    values, basis = np.linalg.eigh(points.T @ points / len(points))
    whitening = basis / np.sqrt(np.maximum(values, 1e-12)) @ basis.T
    white = points @ whitening
    turn = _orthonormal(random.standard_normal((points.shape[1], points.shape[1])))
    for _ in range(steps):
        tanh = np.tanh(white @ turn.T)  # (n, rank)
        new = _polar(tanh.T @ white / len(white) - (1 - tanh * tanh).mean(axis=0)[:, None] * turn)
        settled = np.abs(np.abs((new * turn).sum(axis=1)) - 1).max() < 1e-8
        turn = new
        if settled:
            break
    return _polar(turn @ whitening)


def significant(points: np.ndarray, random: np.random.Generator, draws: int = 10) -> int:
    """In how many directions points (n, dim), centred, differ more than by chance: parallel analysis (Horn, 1965).

    Chance is coordinates with random signs, along axes drawn anew each time. Shuffled coordinates would not do: what
    stands out along a single coordinate stands out of its shuffles as well, and points that lie further out than
    others, or weigh more, make directions differ by chance.
    """
    seen = _variances(points)
    shape = points.shape
    turns = (_orthonormal(random.standard_normal((shape[1], shape[1]))) for _ in range(draws))
    by_chance = [_variances(points @ turn.T * random.choice((-1.0, 1.0), shape)) for turn in turns]
    beyond = seen > np.quantile(by_chance, 0.95, axis=0)
    return int(np.argmin(beyond)) if not beyond.all() else shape[1]


def _variances(points: np.ndarray) -> np.ndarray:
    """Along principal directions, the largest first, times the number of points: (dim,)."""
    return np.linalg.eigvalsh(points.T @ points)[::-1]


def _directions(vectors: np.ndarray, scores: np.ndarray, weights: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Along which scores (n, columns) grow: by ridge regression without each fold, and with all.

    (folds + 1, columns, dim), of length 1.
    """
    found = np.zeros((FOLDS + 1, scores.shape[1], vectors.shape[1]))
    for known, own in _patterns(scores):
        for left_out in range(FOLDS + 1):
            found[left_out, own] = _ridge(vectors, scores[:, own], weights, known & (fold != left_out))
    return found


def _patterns(scores: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Which items are known (n,), and the places of all columns that are known of just these."""
    known = np.isfinite(scores)
    groups: dict[bytes, list[int]] = {}
    for place, column in enumerate(known.T):
        groups.setdefault(column.tobytes(), []).append(place)
    for places in groups.values():
        yield known[:, places[0]], np.array(places)


def _ridge(vectors: np.ndarray, scores: np.ndarray, weights: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Directions (columns, dim) of length 1 from the items of a mask, whose scores (n, columns) are known."""
    x, y, w = vectors[items], scores[items], weights[items]
    if not len(x):
        return np.zeros((scores.shape[1], vectors.shape[1]))
    x = x - np.average(x, axis=0, weights=w)
    weighted = x * w[:, None]  # its columns sum to 0: y need not be centred
    found = np.linalg.solve(weighted.T @ x + RIDGE * np.eye(x.shape[1]), weighted.T @ y).T
    return found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-12)


def _beside(directions: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """What of directions (folds + 1, …, dim) is orthogonal to axes (folds + 1, axes, dim), of length 1."""
    for _ in range(2):  # once more for what rounding leaves
        inner = np.einsum("f...d,fad->f...a", directions, axes)
        directions = directions - np.einsum("f...a,fad->f...d", inner, axes)
        directions = directions / np.maximum(np.linalg.norm(directions, axis=-1, keepdims=True), 1e-12)
    return directions


def _from_others(vectors: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Vectors less the mean of those in other folds: (n, dim)."""
    means = np.stack([vectors[fold != number].mean(axis=0) for number in range(FOLDS)])
    return vectors - means[fold]


def _told(held_out: np.ndarray, scores: np.ndarray, directions: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Rank correlation of scores with what the directions of each fold, fitted without it, say of it: (columns,)."""
    said, told = np.empty(scores.shape), np.zeros(scores.shape[1])
    for number in range(FOLDS):
        said[fold == number] = held_out[fold == number] @ directions[number].T
    for known, own in _patterns(scores):
        ranks = rankdata(said[np.ix_(known, own)], axis=0)
        ranks = (ranks - ranks.mean(axis=0)) / np.maximum(ranks.std(axis=0), 1e-12)
        told[own] = (ranks * scores[np.ix_(known, own)]).mean(axis=0)  # scores have mean 0 and variance 1
    return told


def _spread(
    vectors: np.ndarray, scores: np.ndarray, weights: np.ndarray, fold: np.ndarray, random: np.random.Generator
) -> float:
    """How far from 0 shuffled scores are told, fitted in the same way: the root of the mean square. scores: (n, 1)."""
    known = np.isfinite(scores[:, 0])
    shuffled = np.full((len(scores), SHUFFLES), np.nan)
    shuffled[known] = random.permuted(np.repeat(scores[known], SHUFFLES, axis=1), axis=0)
    each = _directions(vectors, shuffled, weights, fold)
    found = _told(_from_others(vectors, fold), shuffled, each, fold)
    return float(np.sqrt(np.mean(found * found)))


def _chance(told: float, spread: float, attributes: int) -> float:
    """How often the best of so many shuffled attributes is told as well; not less than shuffles can say."""
    return max(float(-np.expm1(attributes * np.log1p(-norm.sf(told / spread)))), 1 / (1 + SHUFFLES))


def _ordered(turn: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Rows by how much points vary along them, the most first."""
    return turn[np.argsort(-(points @ turn.T).var(axis=0), kind="stable")]


def _signs(coordinates: np.ndarray) -> np.ndarray:
    """±1 for each column, so that its longer tail is on the positive side: an axis has no sign of its own."""
    return np.where((coordinates * coordinates * coordinates).sum(axis=0) < 0, -1.0, 1.0)


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """The same rows without what rounding added: Gram-Schmidt."""
    q, r = np.linalg.qr(rows.T)
    return (q * np.where(np.diag(r) < 0, -1.0, 1.0)).T


def _polar(matrix: np.ndarray) -> np.ndarray:
    """The nearest rotation."""
    u, _, v = np.linalg.svd(matrix)
    return u @ v
