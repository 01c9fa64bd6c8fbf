"""Whether a knob does what its name says, and nothing else, for held-out users.

A knob moves a user's component in one concept along a direction, over the range of real users, and lists the concept's
best items at every position. A knob of several concepts moves all of them together and lists the best of all items. An
attribute of a list is the mean over its items, in ranks with mean 0 and variance 1 over all items that could be listed.

monotonicity  rank correlation of the knob's position with its attribute, averaged over users
leakage       how far other attributes move from end to end, relative to the knob's attribute; absolute values, so that
              nothing cancels, and without attributes correlated with the knob's (rank correlation above 0.3)
drift         rank correlation of the position with other attributes, averaged over users, then in absolute value
moves         how far the knob's attribute moves from end to end, in standard deviations over the items
retention     share of NDCG@100 kept by a moderate move, a quarter of the range up or down
overlap       share of the ten best of all items kept by such a move
smoothness    share of a list kept from one position to the next
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from macrid.concepts.axes import direction_of, weights_of
from macrid.concepts.directions import Direction
from macrid.concepts.effects import KnobEffect
from macrid.concepts.space import USER_PERCENTILES, Space, draw, space_of
from macrid.control.state import placed
from macrid.data.attributes import Column
from macrid.errors import RequestError
from macrid.evaluation.accuracy import ndcg
from macrid.evaluation.agreement import scores_of, spearman
from macrid.evaluation.lists import hits_of
from macrid.models.multvae import MultVAE
from macrid.models.neighbours import Neighbours
from macrid.ops.topk import Decoder
from macrid.report.knobs import Knob, knobs_of
from macrid.report.moving import Moving

if TYPE_CHECKING:
    from macrid.data.split import HeldOut
    from macrid.models.base import Recommender

LIST = 10
POSITIONS = 9
MOST_USERS = 200
FEWEST_USERS = 10
MOST_LISTED = 20_000  # items
CONFIDENT = 3.0  # items of a history in a concept, for its component to be meaningful
SAME = 0.3  # rank correlation above which two attributes count as the same
RANDOM = 10  # directions per concept
LEAST_MOVE = 1e-3  # standard deviations; below that, relative leakage is meaningless
AT_ONCE = 2  # pairs of users and items: a concept's, and all that retention is measured on


@dataclass(frozen=True)
class Controllability:
    """All knobs of a model, compared with random directions."""

    knobs: tuple[KnobEffect, ...]
    random: float | None
    """Mean absolute monotonicity of random directions with the knobs' attributes."""
    beside: tuple[KnobEffect, ...] = ()
    """The same attributes in the same concepts, moved in a second model."""

    def mean(self, name: str, of: Sequence[KnobEffect] | None = None) -> float | None:
        """Mean over the knobs that have a value."""
        values = [getattr(knob, name) for knob in (self.knobs if of is None else of)]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else None

    def as_json(self) -> dict[str, Any]:
        names = ("monotonicity", "leakage", "drift", "moves", "retention", "overlap", "smoothness")
        return {
            "knobs": [knob.model_dump(mode="json") for knob in self.knobs],
            "mean": {name: self.mean(name) for name in names},
            "random": self.random,
            "beside": [knob.model_dump(mode="json") for knob in self.beside],
            "beside_mean": {name: self.mean(name, self.beside) for name in names} if self.beside else None,
        }


@dataclass(frozen=True, eq=False)
class _Group:
    """Items to list, and users to turn a knob for."""

    items: np.ndarray
    users: np.ndarray
    _scores: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def scores(self, column: Column) -> np.ndarray:
        """Ranks of the items by an attribute, with mean 0 and variance 1: (items,)."""
        if column.name not in self._scores:
            self._scores[column.name] = scores_of(column.values[self.items])
        return self._scores[column.name]

    def correlation(self, one: Column, other: Column) -> float:
        """Rank correlation of two attributes over the items where both are known."""
        first, second = self.scores(one), self.scores(other)
        if np.isfinite(first).all() and np.isfinite(second).all():
            return float(np.mean(first * second))
        return spearman(one.values[self.items], other.values[self.items])


@dataclass(frozen=True)
class _Decoded:
    """A model and held-out users: item i scores log sum_k w_k c_ik exp(z_k · h_i / tau) + l_i, as in `State`."""

    heldout: HeldOut
    components: np.ndarray  # (users, concepts, dim)
    log_weights: np.ndarray  # (users, concepts)
    decoder: Decoder
    is_unit: bool
    common: np.ndarray
    """Positions of the items that retention and overlap are measured on: all, or the most popular."""
    neighbours: Neighbours | None = None
    _moving: dict[tuple[bytes, bytes], Moving] = field(default_factory=dict, repr=False)
    _unmoved: dict[bytes, np.ndarray] = field(default_factory=dict, repr=False)

    def moving(self, users: np.ndarray, items: np.ndarray) -> Moving:
        """These users and items, kept while knobs are turned for the same ones."""
        key = users.tobytes(), items.tobytes()
        if key not in self._moving:
            while len(self._moving) >= AT_ONCE:
                del self._moving[next(iter(self._moving))]
            self._moving[key] = Moving(
                self.decoder, self.components[users], self.log_weights[users], self.heldout.history[users], items,
                self.neighbours,
            )  # fmt: skip
        return self._moving[key]

    def unmoved(self, users: np.ndarray, n: int) -> np.ndarray:
        """(users, n) the best of the common items, computed once for all knobs turned for the same users."""
        key = users.tobytes()
        if key not in self._unmoved:
            best = self.moving(users, self.common).best(self.components[None, users], (), n)
            self._unmoved[key] = best[:, 0]
        return self._unmoved[key]

    def moved(
        self, users: np.ndarray, directions: Sequence[Direction], to: float | None = None, by: float = 0.0
    ) -> np.ndarray:
        """(users, concepts, dim) moved to a position between the ends of the range, 0 to 1, or by a part of it."""
        components = self.components[users].copy()
        for direction in directions:
            z = components[:, direction.concept]
            low = -0.4 if direction.low is None else direction.low
            high = 0.4 if direction.high is None else direction.high
            now, span = z @ direction.vector, high - low
            within = np.clip(now + by * span, np.minimum(low, now), np.maximum(high, now))
            value = within if to is None else low + to * span
            components[:, direction.concept] = placed(z, direction.vector, value, self.is_unit)
        return components

    def with_range(self, concept: int, vector: np.ndarray, users: np.ndarray) -> Direction:
        """A direction with the range of these users."""
        low, high = np.percentile(self.components[users, concept] @ vector, USER_PERCENTILES)
        return Direction(concept, None, vector, float(low), float(high))


def measure(
    model: Recommender,
    heldout: HeldOut,
    knobs: Sequence[Knob] | None = None,
    *,
    beside: Recommender | None = None,
    columns: Sequence[Column] | None = None,
    most_users: int = MOST_USERS,
    chance: bool = True,
    seed: int = 0,
    on_knob: Callable[[int, int], None] | None = None,
) -> Controllability:
    """Turn every knob for held-out users interested in its concept.

    knobs: by default `knobs_of`. columns: attributes that may leak, by default all. most_users: for a knob.
    chance: also measure random directions.
    beside: a MultVAE or MultDAE over the same items, in which the same attributes are moved for comparison (by concept
    activation vectors). on_knob: called with (knobs done, total).
    """
    space = space_of(model)
    knobs = knobs_of(model) if knobs is None else list(knobs)
    if not knobs:
        raise RequestError("no dimension has an attribute; run `macrid axes RUN --by attributes` first")
    columns = space.columns if columns is None else columns
    random = np.random.default_rng(seed)
    common = _popular(space, np.arange(len(space.concept_of)))
    encoded, neighbours = space.encode(heldout.history), space.model.neighbours
    decoded = _Decoded(heldout, *encoded, space.decoder, space.is_cosine, common, neighbours)
    other = None if beside is None else _decoded(beside, model, heldout, common)
    groups = _groups(space, heldout, most_users, random)
    controls, controls_beside = [], []
    for done, knob in enumerate(knobs, start=1):
        group = groups.get(knob.concept)
        if group is not None:
            controls.append(_turn(decoded, knob.directions, knob, group, columns))
            if other is not None:
                direction = _activation(other, space, group.items, knob.column, group.users)
                controls_beside.append(_turn(other, [direction], knob, group, columns))
        if on_knob is not None:
            on_knob(done, len(knobs))
    if not controls:
        raise RequestError(
            f"no concept has {FEWEST_USERS} held-out users with {CONFIDENT:g} items in it; hold out more users"
        )
    by_chance = _random(decoded, groups, knobs, random) if chance else None
    return Controllability(tuple(controls), by_chance, tuple(controls_beside))


def _groups(space: Space, heldout: HeldOut, most_users: int, random: np.random.Generator) -> dict[int | None, _Group]:
    """By concept, and under None for all concepts together; only those large enough to measure."""
    confidence = space.confidence(heldout.history)
    groups: dict[int | None, _Group] = {}
    for k in (*range(space.concepts), None):
        items = _popular(space, np.arange(len(space.concept_of)) if k is None else space.members(k))
        enough = (confidence.sum(axis=1) if k is None else confidence[:, k]) >= CONFIDENT
        unseen = len(items) - np.diff(sp.csr_array(heldout.history[:, items]).indptr)
        users = draw(np.flatnonzero(enough & (unseen >= LIST)), most_users, random)
        if len(users) >= FEWEST_USERS and len(items) >= 2 * LIST:
            groups[k] = _Group(items, users)
    return groups


def _popular(space: Space, items: np.ndarray) -> np.ndarray:
    """The most popular of these items, in order, if they are more than can be listed in reasonable time."""
    if len(items) <= MOST_LISTED:
        return items
    return np.sort(items[np.argsort(-space.model.popularity[items], kind="stable")[:MOST_LISTED]])


def _turn(
    decoded: _Decoded, directions: Sequence[Direction], knob: Knob, group: _Group, columns: Sequence[Column]
) -> KnobEffect:
    """Turn a knob for some users: move their components along these directions."""
    items, users = group.items, group.users
    lists = _sweep(decoded, directions, users, items)  # (users, positions, n)
    values = _average(group.scores(knob.column), lists)  # (users, positions)
    moves = values[:, -1] - values[:, 0]
    others = {other.name: _average(group.scores(other), lists) for other in _others(knob.column, columns, group)}
    others = {name: each for name, each in others.items() if np.isfinite(each).all(axis=1).any()}  # in some lists
    shifts = {name: each[:, -1] - each[:, 0] for name, each in others.items()}
    most = max(shifts, key=lambda name: abs(_mean(shifts[name])), default=None)
    drift = [abs(_mean(_correlation(each))) for each in others.values()]
    far = _mean(np.abs(moves))
    leaks = float(np.mean([_mean(np.abs(shift)) for shift in shifts.values()])) if others else None
    retention, overlap = _kept(decoded, directions, users)
    low, high = _ends(knob, items, lists)
    return KnobEffect(
        name=knob.column.name,
        concept=knob.concept,
        dimension=knob.dimension,
        axis=knob.axis,
        users=len(users),
        low=low,
        high=high,
        is_share=knob.column.value is not None,
        moves=_mean(moves),
        monotonicity=_mean(_correlation(values)),
        other=most,
        other_moves=None if most is None else _mean(shifts[most]),
        leakage=leaks / far if leaks is not None and far >= LEAST_MOVE else None,
        drift=float(np.mean(drift)) if others else None,
        retention=retention,
        overlap=overlap,
        smoothness=_shared(lists[:, 1:], lists[:, :-1]),
    )


def _ends(knob: Knob, items: np.ndarray, lists: np.ndarray) -> tuple[float | None, float | None]:
    """The mean of the knob's attribute in the lists at its low and high end, in its own units."""
    ends = lists[:, [-1, 0] if knob.is_reversed else [0, -1]]
    means = _average(knob.column.values[items], ends)
    means = means[np.isfinite(means).all(axis=1)]
    return (float(means[:, 0].mean()), float(means[:, 1].mean())) if len(means) else (None, None)


def _sweep(decoded: _Decoded, directions: Sequence[Direction], users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """(users, positions, n) the best of these items at every position of a knob, as positions in `items`."""
    positions = np.stack([decoded.moved(users, directions, to=part) for part in np.linspace(0, 1, POSITIONS)])
    return decoded.moving(users, items).best(positions, [direction.concept for direction in directions], LIST)


def _kept(decoded: _Decoded, directions: Sequence[Direction], users: np.ndarray) -> tuple[float | None, float]:
    """Shares of NDCG@100 and of the ten best of all items kept by a moderate move, averaged over up and down."""
    target = sp.csr_array(decoded.heldout.target[users][:, decoded.common])
    depth = min(100, target.shape[1])  # seen items come last and are never targets
    with_target = np.flatnonzero(np.diff(target.indptr) > 0)
    counts = torch.from_numpy(np.diff(target.indptr)[with_target].astype(np.int64))
    moved = np.stack([decoded.moved(users, directions, by=part) for part in (-0.25, 0.25)])
    moving = decoded.moving(users, decoded.common)
    best = moving.best(moved, [direction.concept for direction in directions], depth)
    lists = [decoded.unmoved(users, depth), best[:, 0], best[:, 1]]
    n = min(LIST, depth)
    overlap = float(np.mean([_shared(lists[0][:, :n], each[:, :n]) for each in lists[1:]]))
    if not len(with_target):
        return None, overlap
    scores = [
        float(ndcg(hits_of(torch.from_numpy(each[with_target]), target[with_target]), counts, 100).mean())
        for each in lists
    ]
    return (float(np.mean(scores[1:])) / scores[0] if scores[0] > 0 else None), overlap


def _shared(one: np.ndarray, other: np.ndarray) -> float:
    """Mean share of each list (…, n) that is in another (…, n)."""
    return float((one[..., :, None] == other[..., None, :]).any(axis=-1).mean())


def _random(
    decoded: _Decoded, groups: Mapping[int | None, _Group], knobs: Sequence[Knob], random: np.random.Generator
) -> float | None:
    """Mean absolute monotonicity of random directions with the attributes of each concept's knobs."""
    correlations = []
    for k, group in groups.items():
        items, users = group.items, group.users
        attributes = {knob.column.name: group.scores(knob.column) for knob in knobs if knob.concept == k}
        if k is None or not attributes:
            continue
        for _ in range(RANDOM):
            vector = random.standard_normal(decoded.components.shape[2:]).astype(np.float32)
            direction = decoded.with_range(k, vector / np.linalg.norm(vector), users)
            lists = _sweep(decoded, [direction], users, items)
            correlations += [abs(_mean(_correlation(_average(each, lists)))) for each in attributes.values()]
    return float(np.mean(correlations)) if correlations else None


def _activation(decoded: _Decoded, space: Space, items: np.ndarray, column: Column, users: np.ndarray) -> Direction:
    """The direction in which an attribute of these items grows in another model."""
    vectors = decoded.decoder.items[torch.from_numpy(items)].cpu().numpy().astype(np.float64)
    scale = np.linalg.norm(vectors, axis=1).mean()
    weights = weights_of(space.model.popularity[items])
    vector = direction_of(vectors / max(float(scale), 1e-12), weights, column.values[items])
    return decoded.with_range(0, vector.astype(np.float32), users)


def _decoded(beside: Recommender, model: Recommender, heldout: HeldOut, common: np.ndarray) -> _Decoded:
    if not isinstance(beside, MultVAE) or len(beside.network.decoder):
        raise RequestError(
            f"cannot compare with {type(beside).__name__}; use a multvae or multdae without hidden layers"
        )
    if beside.items != model.items:
        raise RequestError("the two models have different items; train both on the same data")
    network = beside.network
    decoder = Decoder(network.item_vectors.detach(), network.item_bias.detach()[:, None], 1.0)
    components = beside.posterior(heldout.history).mean
    log_weights = np.zeros(components.shape[:2], np.float32)
    return _Decoded(heldout, components, log_weights, decoder, is_unit=False, common=common)


def _others(column: Column, columns: Sequence[Column], group: _Group) -> list[Column]:
    """Those that are not nearly the same as this one over a group's items."""
    usable = (other for other in columns if other.name != column.name and other.is_usable(group.items))
    return [other for other in usable if abs(group.correlation(column, other)) <= SAME]


def _average(scores: np.ndarray, lists: np.ndarray) -> np.ndarray:
    """(users, positions) mean over the known scores of each list; NaN if none is known."""
    values = scores[lists]
    known = np.isfinite(values)
    return np.where(known, values, 0).sum(axis=2) / np.where(known.any(axis=2), known.sum(axis=2), np.nan)


def _mean(values: np.ndarray) -> float:
    """Mean over users with a value; 0 if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _correlation(values: np.ndarray) -> np.ndarray:
    """(users,) rank correlation of each row (users, positions) with its positions; 0 if constant, NaN if unknown."""
    higher = np.sign(values[:, :, None] - values[:, None, :]).sum(axis=2)  # a rank, times 2 and less its mean
    steps = np.arange(values.shape[1]) - (values.shape[1] - 1) / 2
    length = np.sqrt((higher**2).sum(axis=1) * (steps**2).sum())
    return np.where(np.isnan(length), np.nan, higher @ steps / np.maximum(length, 1e-12))
