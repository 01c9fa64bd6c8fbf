"""Axes that mean something: rotations of each concept, found after training, that change no score.

independence  popularity first, then axes as independent as possible (ICA made orthogonal) within the directions in
              which items differ more than by chance, then the rest by variance
attributes    popularity and attributes of items first, the best predicted ones leading, each orthogonal to those before
              it; then the rest by variance

Dimensions that labels have tied to an attribute (`fit(..., labels=...)`) come first and stay as they are, unless the
items table has that attribute.

Popularity comes first because it is known for every item and is the strongest direction of all: left in place, it
mixes with everything else. Rare items count less because their vectors are mostly noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr

from macrid.blas import one_blas_thread
from macrid.concepts.evidence import FEWEST_MEMBERS, LARGEST_P, LEAST_CORRELATION, SHUFFLES, columns_by_pattern
from macrid.concepts.meaning import Axes, Fit, meaning_of, unturned
from macrid.concepts.space import Space, draw, space_of, with_range
from macrid.data.attributes import POPULARITY, Column, columns_of, named_column
from macrid.errors import RequestError
from macrid.evaluation.agreement import ranks_of, scores_of
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE

KINDS = ("original", "independence", "attributes")
RIDGE = 3.0  # any value from 1 to 30 fits attributes about equally well
FOLDS = 5
MOST_FITTED_ITEMS = 5000  # in a concept


def find(
    model: MacridVAE,
    by: str,
    *,
    attributes: Sequence[str] | None = None,
    histories: sp.csr_array | None = None,
    seed: int = 0,
) -> Axes:
    """Axes of one kind for every concept.

    attributes: names of columns for by="attributes"; by default all that vectors predict.
    histories: of the users whose range limits moves; by default those that the model keeps.
    """
    space = space_of(model)
    if by not in KINDS:
        raise RequestError(f"unknown kind of axes '{by}'; choose from {', '.join(KINDS)}")
    if attributes is not None and by != "attributes":
        raise RequestError(f"attributes need by='attributes', not by='{by}'")
    columns = columns_of(model)
    if attributes is not None:
        attributes = [attributes] if isinstance(attributes, str) else list(dict.fromkeys(attributes))
        if not attributes:
            raise RequestError("attributes is empty; name some, or omit it to use all")
        columns = [named_column(model, name, columns) for name in attributes]
    turned = [concept_axes(space, k, by, columns, seed) for k in range(space.concepts)]
    fits = tuple(fit for _, of_concept in turned for fit in of_concept)
    if attributes is not None and not fits:
        raise RequestError(f"item vectors predict none of {', '.join(attributes)}; axes stay as they are")
    axes = Axes(by, np.stack([rotation for rotation, _ in turned]).astype(np.float32), fits=fits)
    return with_range(axes, space, model.sample if histories is None else histories)


def use(model: MacridVAE, axes: Axes, kinds: Sequence[str] | None = None) -> None:
    """Make these the model's axes in every concept, or give each concept its own kind."""
    space = space_of(model)
    if axes.rotation.shape != (space.concepts, space.dim, space.dim):
        expected = f"{space.concepts} concepts with {space.dim} dimensions"
        raise RequestError(f"axes of shape {axes.rotation.shape} do not fit {expected}")
    meaning = meaning_of(model)
    chosen = (axes.by,) * space.concepts if kinds is None else tuple(kinds)
    if len(chosen) != space.concepts:
        raise RequestError(f"{len(chosen)} kinds for {space.concepts} concepts; give one for each")
    unknown = [kind for kind in chosen if kind not in ("original", axes.by, *meaning.axes)]
    if unknown:
        raise RequestError(f"the model has no axes by '{unknown[0]}'; find them first")
    meaning.axes[axes.by] = axes
    space.towards.clear()
    meaning.in_use, meaning.effects = chosen, ()


def remember_range(model: Recommender) -> None:
    """Keep the range of real users along the original axes: a run may be opened without any users."""
    axes = meaning_of(model).axes
    if isinstance(model, MacridVAE) and model.sample is not None and "original" not in axes:
        space = space_of(model)
        axes["original"] = with_range(Axes("original", unturned(space.concepts, space.dim)), space, model.sample)


@one_blas_thread
def concept_axes(
    space: Space, k: int, by: str, columns: Sequence[Column], seed: int, items: np.ndarray | None = None
) -> tuple[np.ndarray, list[Fit]]:
    """Axes of one concept (dim, dim), and the attributes that some were fitted to; from all its items or only these."""
    random = np.random.default_rng([seed, k])
    items = draw(space.members(k) if items is None else items, MOST_FITTED_ITEMS, random)
    labelled = list(tied_dimensions(space.model))
    if by == "original":
        return np.eye(space.dim), []
    if len(items) < FEWEST_MEMBERS:
        return np.eye(space.dim)[[*labelled, *(j for j in range(space.dim) if j not in labelled)]], []
    vectors = space.items[items].astype(np.float64)
    weights = weights_of(space.model.popularity[items])
    if by != "attributes":
        columns = [column for column in columns if column.kind == POPULARITY]
    first, fits = attribute_axes(vectors, weights, items, columns, random, k, np.eye(space.dim)[labelled])
    centred = vectors - np.average(vectors, axis=0, weights=weights)
    left = (centred - centred @ first.T @ first) * np.sqrt(weights)[:, None]
    turned = np.linalg.eigh(left.T @ left)[1].T[::-1][: space.dim - len(first)]  # by variance, largest first
    rank = 0 if by == "attributes" else significant(left @ turned.T, random)
    if rank > 1:
        inner = centred @ turned[:rank].T
        inner -= inner.mean(axis=0)
        turn = independent(inner, random)
        turn = turn[np.argsort(-(inner @ turn.T).var(axis=0), kind="stable")]  # likewise
        turned = np.concatenate([turn @ turned[:rank], turned[rank:]])
    rest = _orthonormal(np.concatenate([first, turned]))[len(first) :]
    coordinates = centred @ rest.T  # an axis has no sign of its own: the longer tail gets the positive side
    signs = np.where((coordinates * coordinates * coordinates).sum(axis=0) < 0, -1.0, 1.0)
    return np.concatenate([first, rest * signs[:, None]]), fits


def tied_dimensions(model: MacridVAE) -> dict[int, str]:
    """Dimensions that training has tied to a labelled attribute missing from the items table."""
    labelled = [] if model.labelled is None else model.labelled["dimensions"]
    columns = set() if model.table is None else set(model.table.column_names)
    return {dimension: str(name) for dimension, name in enumerate(labelled) if name not in columns}


@one_blas_thread
def attribute_axes(
    vectors: np.ndarray,
    weights: np.ndarray,
    items: np.ndarray,
    columns: Sequence[Column],
    random: np.random.Generator,
    concept: int = 0,
    before: np.ndarray | None = None,
) -> tuple[np.ndarray, list[Fit]]:
    """Directions (axes, dim) of the attributes that vectors (n, dim) of the items at these positions predict.

    before: axes (axes, dim) that come first as they are. The others are ordered by how well they predict items they
    were not fitted to, each orthogonal to those before it. An attribute gets no axis if too little strength is left
    for it, or if the best of as many shuffled attributes would reach that strength.
    """
    fold = random.permutation(len(items)) % FOLDS
    usable = [column for column in columns if column.is_usable(items)]
    before = np.zeros((0, vectors.shape[1])) if before is None else before
    if not usable:
        return before, []
    scores = np.stack([scores_of(column.values[items]) for column in usable], axis=1)  # (n, columns)
    held_out = _centred_by_fold(vectors, fold)
    directions = _directions(vectors, scores, weights, fold)
    alone = _strengths(held_out, scores, directions, fold)
    axes = np.repeat(before[None], FOLDS + 1, axis=0)  # the last are fitted to all items
    fits: list[Fit] = []
    spreads: dict[bytes, float] = {}
    for place in np.argsort(-alone, kind="stable").tolist():
        if alone[place] < LEAST_CORRELATION or axes.shape[1] == vectors.shape[1]:
            break
        column = scores[:, [place]]
        direction = _orthogonal_to(axes, directions[:, [place]])
        strength = float(_strengths(held_out, column, direction, fold)[0])
        if strength < LEAST_CORRELATION or strength < 0.5 * alone[place]:
            continue
        known = np.isfinite(column).tobytes()
        if known not in spreads:
            spreads[known] = _spread(vectors, column, weights, fold, random)
        p = _p_value(strength, spreads[known], len(usable))
        if p > LARGEST_P:
            continue
        fits.append(Fit(concept, axes.shape[1], usable[place].name, strength, p))
        axes = np.concatenate([axes, direction], axis=1)
    return axes[-1], fits


@one_blas_thread
def direction_of(vectors: np.ndarray, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The unit vector (dim,) along which values (n,) grow over vectors (n, dim), however weakly; NaN is unknown."""
    scores = scores_of(values)[:, None]
    return _ridge(vectors, scores, weights, np.isfinite(scores[:, 0]))[0]


def weights_of(popularity: np.ndarray) -> np.ndarray:
    """How much items count: their popularity, capped at that of the most popular tenth; mean 1."""
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
    """The number of directions in which points (n, dim), centred, differ more than by chance (Horn, 1965).

    Parallel analysis, with chance simulated by random signs along random axes. Shuffling coordinates would not do:
    variance along a single coordinate survives its shuffling, and outlying or heavy points make directions differ by
    chance.
    """
    observed = _variances(points)
    shape = points.shape
    turns = (_orthonormal(random.standard_normal((shape[1], shape[1]))) for _ in range(draws))
    by_chance = [_variances(points @ turn.T * random.choice((-1.0, 1.0), shape)) for turn in turns]
    beyond = observed > np.quantile(by_chance, 0.95, axis=0)
    return int(np.argmin(beyond)) if not beyond.all() else shape[1]


def _variances(points: np.ndarray) -> np.ndarray:
    """Along principal directions, largest first, times the number of points: (dim,)."""
    return np.linalg.eigvalsh(points.T @ points)[::-1]


def _directions(vectors: np.ndarray, scores: np.ndarray, weights: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Unit vectors along which scores (n, columns) grow, by ridge regression: (folds + 1, columns, dim).

    Each is fitted without one fold, the last to all items.
    """
    directions = np.zeros((FOLDS + 1, scores.shape[1], vectors.shape[1]))
    for known, columns in columns_by_pattern(scores):
        for left_out in range(FOLDS + 1):
            directions[left_out, columns] = _ridge(vectors, scores[:, columns], weights, known & (fold != left_out))
    return directions


def _ridge(vectors: np.ndarray, scores: np.ndarray, weights: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Unit directions (columns, dim) from the items of a mask, whose scores (n, columns) are known."""
    x, y, w = vectors[items], scores[items], weights[items]
    if not len(x):
        return np.zeros((scores.shape[1], vectors.shape[1]))
    x = x - np.average(x, axis=0, weights=w)
    weighted = x * w[:, None]  # its columns sum to 0: y need not be centred
    slopes = np.linalg.solve(weighted.T @ x + RIDGE * np.eye(x.shape[1]), weighted.T @ y).T
    return slopes / np.maximum(np.linalg.norm(slopes, axis=-1, keepdims=True), 1e-12)


def _orthogonal_to(axes: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The part of directions (folds + 1, …, dim) orthogonal to axes (folds + 1, axes, dim), of length 1."""
    for _ in range(2):  # the second time against rounding
        inner = np.einsum("f...d,fad->f...a", directions, axes)
        directions = directions - np.einsum("f...a,fad->f...d", inner, axes)
        directions = directions / np.maximum(np.linalg.norm(directions, axis=-1, keepdims=True), 1e-12)
    return directions


def _centred_by_fold(vectors: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Vectors less the mean of the other folds: (n, dim)."""
    means = np.stack([vectors[fold != number].mean(axis=0) for number in range(FOLDS)])
    return vectors - means[fold]


def _strengths(held_out: np.ndarray, scores: np.ndarray, directions: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Rank correlation of scores with their predictions, each from directions fitted without its fold: (columns,)."""
    predictions, strengths = np.empty(scores.shape), np.zeros(scores.shape[1])
    for number in range(FOLDS):
        predictions[fold == number] = held_out[fold == number] @ directions[number].T
    for known, columns in columns_by_pattern(scores):
        ranks = ranks_of(predictions[np.ix_(known, columns)])
        ranks = (ranks - ranks.mean(axis=0)) / np.maximum(ranks.std(axis=0), 1e-12)
        strengths[columns] = (ranks * scores[np.ix_(known, columns)]).mean(axis=0)  # scores: mean 0, variance 1
    return strengths


def _spread(
    vectors: np.ndarray, scores: np.ndarray, weights: np.ndarray, fold: np.ndarray, random: np.random.Generator
) -> float:
    """The root mean square strength of shuffled scores, fitted in the same way; scores: (n, 1)."""
    known = np.isfinite(scores[:, 0])
    shuffled = np.full((len(scores), SHUFFLES), np.nan)
    shuffled[known] = random.permuted(np.repeat(scores[known], SHUFFLES, axis=1), axis=0)
    directions = _directions(vectors, shuffled, weights, fold)
    strengths = _strengths(_centred_by_fold(vectors, fold), shuffled, directions, fold)
    return float(np.sqrt(np.mean(strengths * strengths)))


def _p_value(strength: float, spread: float, attributes: int) -> float:
    """How often the best of so many shuffled attributes is as strong; no smaller than shuffles can show."""
    return max(float(-np.expm1(attributes * np.log1p(-ndtr(-strength / spread)))), 1 / (1 + SHUFFLES))


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """The same rows without rounding errors: Gram-Schmidt."""
    q, r = np.linalg.qr(rows.T)
    return (q * np.where(np.diag(r) < 0, -1.0, 1.0)).T


def _polar(matrix: np.ndarray) -> np.ndarray:
    """The nearest rotation."""
    u, _, v = np.linalg.svd(matrix)
    return u @ v
