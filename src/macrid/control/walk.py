"""Walking along one dimension, on arrays: the range, its subranges, and one item from each (section 2.4).

Beyond the paper, a walk may hold what is known about its start: see `Costs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from macrid.errors import RequestError

PRECISION = 1e-9  # of a range's ends, relative to the limit
TIE = 1e-6  # prototypes this near to the closest count as equally close: vectors are in single precision

# With 8 steps, 0.3 weighs the 28 pairs as much as the 8 items. On walks from 60 items of the shop, 0.3 instead of 0
# raises the mean cosine between items from 0.66 to 0.71 and lowers that to the start from 0.76 to 0.68; with 3 they are
# 0.75 and 0.54.
GAMMA = 0.3
# There, a width of 512 improves the objective by 7 % over 1, 1.4 % over 16, 0.7 % over 32 and 0.4 % over 64.
WIDTH = 32
BACK = 0.2  # spreads: as long a step back along the attribute costs as much as an attribute lost
# A stop from a neighbouring subrange must keep more than its own would, by this share of an attribute.
OUTSIDE = 0.1
MOST_CANDIDATES = 64  # for a stop of a walk that holds something: those that keep the most


class Range(NamedTuple):
    """Where a coordinate may lie while its prototype stays the closest."""

    low: float
    high: float
    open_low: bool
    """Whether `low` is the limit, with no other prototype closer."""
    open_high: bool


@dataclass(frozen=True, eq=False)
class Walk:
    """Items along one dimension, by increasing coordinate; as many as there are subranges."""

    concept: int
    """The prototype closest to the start."""
    dimension: int
    low: float
    high: float
    open_low: bool
    open_high: bool
    edges: np.ndarray
    """(items + 1,) a_0 … a_B; empty if the range has no item."""
    positions: np.ndarray
    """(items,) rows of `members`."""
    values: np.ndarray
    """(items,) their coordinates, strictly increasing."""


def walk(
    start: np.ndarray,
    dimension: int,
    members: np.ndarray,
    prototypes: np.ndarray,
    *,
    steps: int = 8,
    gamma: float = GAMMA,
    temperature: float = 0.1,
    width: int = WIDTH,
    limit: float = 1.0,
    keep: int | None = None,
    lost: np.ndarray | None = None,
    along: np.ndarray | None = None,
) -> Walk:
    """Walk from `start` along a dimension over at most `steps` items that differ little in all others.

    start: (dim,), an item vector or a user's component.
    members: (n, dim), the vectors of the items whose concept is `closest_prototype(start, prototypes)`.
    prototypes: (concepts, dim), of unit length if closeness is a cosine.
    gamma: weight of the items' similarity to each other, relative to their similarity to the start.
    temperature: the smaller, the more the closest matches count. width: of the beam.
    limit: how far the range may extend, 1 for unit vectors; at least as far as `members` and `start`.
    keep: a row of `members` that must be chosen from its subrange.
    lost, along: (n,), of `Costs`; without `lost`, the walk is the paper's.
    """
    start, prototypes = np.asarray(start, dtype=np.float64), np.asarray(prototypes, dtype=np.float64)
    members = np.asarray(members, dtype=np.result_type(members, np.float32))
    _check(start, dimension, members, prototypes)
    if not temperature > 0 or not 0 <= gamma < np.inf:
        raise RequestError(
            f"temperature {temperature} and gamma {gamma}: the first must be positive, the second at least 0"
        )
    values = members[:, dimension].astype(np.float64)
    limit = max(limit, float(np.abs(values).max(initial=0.0)))
    concept = closest_prototype(start, prototypes)
    interval = probe(start, dimension, prototypes, concept, limit=limit)
    groups, edges = divide(values, interval.low, interval.high, steps, from_low=interval.open_low)
    vectors = directions_without(members, dimension)
    similar = vectors @ directions_without(start[None].astype(members.dtype), dimension)[0]
    costs = None
    if lost is not None and groups:
        costs = Costs(values, subranges(groups, len(values)), lost, along, 1 + gamma * (len(groups) - 1))
        groups = costs.candidates(loosened(groups, values, keep), similar)
    else:
        groups = [group if keep is None or keep not in group else np.array([keep]) for group in groups]
    positions = beam_search(similar, vectors, groups, temperature, gamma, width, costs)
    return Walk(concept, dimension, *interval, edges, positions, values[positions])


def closest_prototype(start: np.ndarray, prototypes: np.ndarray) -> int:
    """The prototype (concepts, dim) with the largest inner product with start (dim,); the first of equals."""
    return int(np.argmax(np.asarray(prototypes, dtype=np.float64) @ np.asarray(start, dtype=np.float64)))


def probe(
    start: np.ndarray, dimension: int, prototypes: np.ndarray, closest: int | None = None, *, limit: float = 1.0
) -> Range:
    """The largest range (a, b) of the start's coordinate in which its closest prototype stays the closest.

    start: (dim,). prototypes: (concepts, dim). closest: the closest prototype, if known.
    limit: the range ends at ±limit, or at the start's own coordinate if that is further out. An end where the
    prototype is still the closest is open; with one concept both are.

    Each product is linear in the coordinate, so the range has no gaps and binary search finds its ends.
    """
    start, prototypes = np.asarray(start, dtype=np.float64), np.asarray(prototypes, dtype=np.float64)
    closest = closest_prototype(start, prototypes) if closest is None else closest
    ahead = prototypes[closest] - np.delete(prototypes, closest, axis=0)  # (concepts − 1, dim)
    lead, slope, here = ahead @ start, ahead[:, dimension], float(start[dimension])
    if lead.min(initial=0.0) < -TIE * np.abs(start).max():
        raise RequestError(f"prototype {closest} is not the closest to the start; omit it to use the closest")

    def still_closest(coordinate: float) -> bool:
        return bool(lead.size == 0 or (lead + (coordinate - here) * slope).min() >= 0)

    def end(furthest: float) -> tuple[float, bool]:
        if still_closest(furthest):
            return furthest, True
        inside, outside = here, furthest
        while abs(outside - inside) > PRECISION * limit:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if still_closest(middle) else (inside, middle)
        return inside, False

    (low, open_low), (high, open_high) = end(min(-limit, here)), end(max(limit, here))
    return Range(low, high, open_low, open_high)


def divide(
    values: np.ndarray, low: float, high: float, steps: int, *, from_low: bool = False
) -> tuple[list[np.ndarray], np.ndarray]:
    """Divide (low, high] into subranges with about equally many items: positions by subrange, and the edges.

    values: (n,) coordinates. from_low: include `low` itself, as for an open end.
    Subrange t is (edges[t], edges[t + 1]], its positions by increasing value. Equal values stay together and no
    subrange is empty, so there may be fewer than `steps`. Without equal values the counts differ by at most 1.
    """
    if steps < 1:
        raise RequestError(f"steps is {steps}; give 1 or more")
    values = np.asarray(values, dtype=np.float64)
    inside = np.flatnonzero(((values >= low) if from_low else (values > low)) & (values <= high))
    inside = inside[np.argsort(values[inside], kind="stable")]
    if not len(inside):
        return [], np.zeros(0)
    ordered = values[inside]
    allowed = np.append(np.flatnonzero(np.diff(ordered)) + 1, len(inside))  # cuts that separate no equal values
    steps = min(steps, len(allowed))
    cuts, place = [0], -1
    for left in range(steps, 0, -1):
        aim = cuts[-1] + (len(inside) - cuts[-1]) / left
        place = int(np.clip(_nearest(allowed, aim), place + 1, len(allowed) - left))  # leave a value for each
        cuts.append(int(allowed[place]))
    edges = np.concatenate([[low], ordered[np.array(cuts[1:-1], dtype=np.int64) - 1], [high]])
    return [inside[first:last] for first, last in pairwise(cuts)], edges


def subranges(groups: Sequence[np.ndarray], count: int) -> np.ndarray:
    """(count,) the group of each item, −1 if it has none."""
    places = np.full(count, -1)
    for place, group in enumerate(groups):
        places[group] = place
    return places


def loosened(groups: Sequence[np.ndarray], values: np.ndarray, keep: int | None = None) -> list[np.ndarray]:
    """Groups of `divide` that include their neighbours, except the first and the last, so that a walk has both ends.

    values: (n,) coordinates. keep: the only choice of its group; others are on their side of it.
    However far up a stop is chosen, the next group has a larger value.
    """
    place = next((at for at, group in enumerate(groups) if keep is not None and keep in group), None)
    loose = []
    for at, group in enumerate(groups):
        if at == place:
            group = np.array([keep])
        elif 0 < at < len(groups) - 1:
            above = groups[at + 1]
            group = np.concatenate([groups[at - 1], group, above[values[above] < values[above[-1]]]])
            if place is not None:
                is_before = values[group] < values[keep]
                group = group[is_before if at < place else values[group] > values[keep]]
        loose.append(group)
    return loose


@dataclass(frozen=True, eq=False)
class Costs:
    """What a walk pays for what it does not keep, in attributes, where one weighs more than all similarity of an item.

    A stop pays for what it lost of the start's attributes, and a little if it is not from its own subrange. Where the
    dimension follows an attribute, a step back along that costs 1, or less if it is short. Values must increase.
    """

    values: np.ndarray
    """(n,) coordinates."""
    subrange: np.ndarray
    """(n,) which an item is in."""
    lost: np.ndarray
    """(n,) attributes of the start that an item lacks."""
    along: np.ndarray | None
    """(n,) the attribute walked along, in spreads; NaN where unknown."""
    weight: float

    def candidates(self, groups: Sequence[np.ndarray], similar_to_start: np.ndarray) -> list[np.ndarray]:
        """Of each group those that lost the least, of equals the most similar, and the last: no path ends early."""
        return [self._candidates(group, similar_to_start) for group in groups]

    def _candidates(self, group: np.ndarray, similar_to_start: np.ndarray) -> np.ndarray:
        if len(group) <= MOST_CANDIDATES:
            return group
        order = np.argpartition(self.lost[group] - TIE * similar_to_start[group], MOST_CANDIDATES)
        return group[np.union1d(order[:MOST_CANDIDATES], len(group) - 1)]

    def between(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Of the steps from some items to others: (before, after), infinite unless the value increases."""
        steps = np.where(self.values[after] > self.values[before][:, None], 0.0, np.inf)
        if self.along is None:
            return steps
        back = (self.along[before][:, None] - self.along[after]) / BACK
        return steps + np.nan_to_num(np.clip(back, 0.0, 1.0))

    def at(self, step: int, items: np.ndarray) -> np.ndarray:
        """Of items as a stop."""
        return self.lost[items] + OUTSIDE * (self.subrange[items] != step)

    def ahead(self, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The least that a walk pays after each item of each group: exact, since a step depends on its two items."""
        ahead = [np.zeros(len(groups[-1]))]
        for step in range(len(groups) - 1, 0, -1):
            before, after = groups[step - 1], groups[step]
            ahead.append((self.between(before, after) + self.at(step, after) + ahead[-1]).min(axis=1))
        return ahead[::-1]


def directions_without(vectors: np.ndarray, dimension: int) -> np.ndarray:
    """h_{i,−j} with unit length, (n, dim) with 0 at the dimension: products are cosines, 0 for a vector of zeros.

    In the precision of the vectors, for speed; sums over products are in float64.
    """
    rest = np.array(vectors)
    rest[:, dimension] = 0.0
    lengths = np.sqrt(np.einsum("ij,ij->i", rest, rest))
    rest /= np.maximum(lengths, 1e-12)[:, None]
    return rest


def objective(
    chosen: np.ndarray, similar_to_start: np.ndarray, vectors_without_j: np.ndarray, temperature: float, gamma: float
) -> float:
    """The paper's objective for the chosen items, divided by e^{1/τ}.

    chosen: (steps,) positions. similar_to_start: (n,) cosines. vectors_without_j: (n, dim) of unit length.
    The divisor is the same for all walks, and keeps every term at most 1.
    """
    vectors = vectors_without_j[chosen]
    alike = _strength(vectors @ vectors.T, temperature)  # (steps, steps)
    return float(_strength(similar_to_start[chosen], temperature).sum() + gamma * np.triu(alike, 1).sum())


def beam_search(
    similar_to_start: np.ndarray,
    vectors_without_j: np.ndarray,
    groups: Sequence[np.ndarray],
    temperature: float,
    gamma: float,
    width: int,
    costs: Costs | None = None,
) -> np.ndarray:
    """One item per group, with a large `objective`, less what it costs: (groups,) positions.

    similar_to_start: (n,) cosines. vectors_without_j: (n, dim) of unit length. groups: positions, none empty.
    The `width` best paths are kept from group to group. Ties go to the better path so far, then to the item more
    similar to the start, then to the first in its group. What paths must still pay counts when they are compared.
    """
    if width < 1:
        raise RequestError(f"width is {width}; give 1 or more")
    totals, paths = np.zeros(1), np.zeros((1, 0), dtype=np.int64)  # (beam,), (beam, groups so far)
    ahead = None if costs is None else costs.ahead(groups)
    for step, group in enumerate(groups):
        order = np.argsort(-similar_to_start[group], kind="stable")
        ranked = group[order]
        taken, which = np.unique(paths, return_inverse=True)  # paths share most items
        holds = np.zeros((len(paths), len(taken)))  # 1 where a path contains an item
        np.put_along_axis(holds, which.reshape(paths.shape), 1.0, axis=1)
        alike = _strength(vectors_without_j[taken] @ vectors_without_j[ranked].T, temperature)  # (taken, group)
        gains = gamma * (holds @ alike) + _strength(similar_to_start[ranked], temperature)
        scores = totals[:, None] + gains
        promise = np.zeros(len(ranked))
        if costs is not None and ahead is not None:
            paid = costs.at(step, ranked) + (costs.between(paths[:, -1], ranked) if step else 0.0)
            scores, promise = scores - costs.weight * paid, costs.weight * ahead[step][order]
        kept = _best((scores - promise).ravel(), width)
        parents, items = np.divmod(kept, len(ranked))
        totals, paths = scores.ravel()[kept], np.column_stack([paths[parents], ranked[items]])
    return paths[0]


def _strength(cosines: np.ndarray, temperature: float) -> np.ndarray:
    """e^{cosine/τ} over e^{1/τ}: at most 1."""
    scaled = np.subtract(cosines, 1.0, dtype=np.float64)
    np.minimum(scaled, 0.0, out=scaled)  # rounding may take a cosine above 1
    scaled /= temperature
    return np.exp(scaled, out=scaled)


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    """Positions of the largest, best first; of equals the first, which `argpartition` does not guarantee."""
    kept = np.arange(len(scores))
    if count < len(scores):
        # each of `count` parts has a score at least as large as the smallest of their maxima: drop all below it
        parts = np.linspace(0, len(scores), count, endpoint=False).astype(np.int64)
        kept = np.flatnonzero(scores >= np.maximum.reduceat(scores, parts).min())
    return kept[np.argsort(-scores[kept], kind="stable")][:count]


def _nearest(ends: np.ndarray, aim: float) -> int:
    """Position of the end nearest to the aim, the lower of two; ends are sorted."""
    above = min(int(np.searchsorted(ends, aim)), len(ends) - 1)
    return above - 1 if above and aim - ends[above - 1] <= ends[above] - aim else above


def _check(start: np.ndarray, dimension: int, members: np.ndarray, prototypes: np.ndarray) -> None:
    dim = len(start)
    if members.ndim != 2 or prototypes.ndim != 2 or not members.shape[1] == prototypes.shape[1] == dim:
        raise RequestError(
            f"start ({dim},), items {members.shape} and prototypes {prototypes.shape} differ in dimensions"
        )
    if not 0 <= dimension < dim:
        raise RequestError(f"dimension is {dimension}; there are {dim}, from 0 to {dim - 1}")
