"""Walking from an item along one dimension: the range to walk in, its subranges, the items on the way (section 2.4).

Arrays in, arrays out: ids, titles and models are the caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from macrid.errors import RequestError

PRECISION = 1e-9  # of the ends of a range, relative to how far items reach
TIE = 1e-6  # a prototype this little behind the closest is as close: vectors come in single precision

# With 8 steps, 0.3 gives the 28 pairs the weight of the 8 items. On walks from 60 items of the shop, 0.3 instead of 0
# takes the mean cosine to each other from 0.66 to 0.71 and that to the start from 0.76 to 0.68; 3 takes them to 0.75
# and 0.54.
GAMMA = 0.3
# What a width of 512 finds there is worth 7 % more than what 1 finds, 1.4 % more than 16, 0.7 % than 32, 0.4 % than 64.
WIDTH = 32


class Range(NamedTuple):
    """Where a coordinate can go without another prototype becoming the closest."""

    low: float
    high: float
    open_low: bool
    """Whether `low` is how far items reach, and no other prototype comes closer up to there."""
    open_high: bool


@dataclass(frozen=True, eq=False)
class Walk:
    """Items along one dimension, by growing coordinate; one for each subrange."""

    concept: int
    """The prototype closest to the start."""
    dimension: int
    low: float
    high: float
    open_low: bool
    open_high: bool
    edges: np.ndarray
    """(items + 1,) a_0 … a_B; empty if no item lies in the range."""
    positions: np.ndarray
    """(items,) rows of `own`."""
    values: np.ndarray
    """(items,) their coordinates, each larger than the one before."""


def walk(
    start: np.ndarray,
    dimension: int,
    own: np.ndarray,
    prototypes: np.ndarray,
    *,
    steps: int = 8,
    gamma: float = GAMMA,
    temperature: float = 0.1,
    width: int = WIDTH,
    limit: float = 1.0,
    keep: int | None = None,
) -> Walk:
    """Walk from `start` along a dimension over at most `steps` items that differ little in all others.

    start: (dim,), an item vector or a user's component, as long as an item vector.
    own: (n, dim), the vectors of the items whose concept is `closest_prototype(start, prototypes)`.
    prototypes: (concepts, dim), of unit length if closeness is a cosine.
    gamma: how much it counts that items are like each other, against that they are like the start.
    temperature: the smaller, the more the most alike count. width: of the beam.
    limit: how far items reach along a dimension, 1 for unit vectors; never less than `own` and `start` do.
    keep: a row of `own` to take from its subrange, whatever else is there.
    """
    start, prototypes = np.asarray(start, dtype=np.float64), np.asarray(prototypes, dtype=np.float64)
    own = np.asarray(own, dtype=np.result_type(own, np.float32))
    _check(start, dimension, own, prototypes)
    if not temperature > 0 or not 0 <= gamma < np.inf:
        raise RequestError(f"temperature {temperature} and gamma {gamma}: give a positive one, and 0 or more")
    values = own[:, dimension].astype(np.float64)
    limit = max(limit, float(np.abs(values).max(initial=0.0)))
    concept = closest_prototype(start, prototypes)
    found = probe(start, dimension, prototypes, concept, limit=limit)
    groups, edges = divide(values, found.low, found.high, steps, from_low=found.open_low)
    groups = [group if keep is None or keep not in group else np.array([keep]) for group in groups]
    vectors = directions_without(own, dimension)
    similar = vectors @ directions_without(start[None].astype(own.dtype), dimension)[0]
    positions = beam_search(similar, vectors, groups, temperature, gamma, width)
    return Walk(concept, dimension, *found, edges, positions, values[positions])


def closest_prototype(start: np.ndarray, prototypes: np.ndarray) -> int:
    """The position of the prototype with the largest inner product; the first of equals.

    start: (dim,); its length is common to all products. prototypes: (concepts, dim).
    """
    return int(np.argmax(np.asarray(prototypes, dtype=np.float64) @ np.asarray(start, dtype=np.float64)))


def probe(
    start: np.ndarray, dimension: int, prototypes: np.ndarray, closest: int | None = None, *, limit: float = 1.0
) -> Range:
    """The range (a, b) of the start's coordinate in which its closest prototype stays the closest, and outside not.

    start: (dim,). prototypes: (concepts, dim).
    closest: the prototype that is to stay the closest, if it is known.
    limit: how far items reach; the range ends at ±limit, or at the start's own coordinate if that is further out. An
    end where the prototype is still the closest is open. With one concept both are.

    Each product is a line in the coordinate, so that the range has no gaps and binary search finds its ends.
    """
    start, prototypes = np.asarray(start, dtype=np.float64), np.asarray(prototypes, dtype=np.float64)
    closest = closest_prototype(start, prototypes) if closest is None else closest
    ahead = prototypes[closest] - np.delete(prototypes, closest, axis=0)  # (concepts − 1, dim)
    lead, slope, here = ahead @ start, ahead[:, dimension], float(start[dimension])
    if lead.min(initial=0.0) < -TIE * np.abs(start).max():
        raise RequestError(f"prototype {closest} is not the closest to the start; leave it out to take the closest")

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
    """Divide what lies in (low, high] into subranges of about equally many items: positions by subrange, and the edges.

    values: (n,) coordinates. from_low: take `low` itself, too, as an open end asks for.
    Subrange t is (edges[t], edges[t + 1]], its positions by growing value. Equal values stay together and no subrange
    is empty, so that there are fewer than `steps` where there are fewer distinct values, and none for no values.
    Without equal values the counts differ by at most 1.
    """
    if steps < 1:
        raise RequestError(f"steps is {steps}; give 1 or more")
    values = np.asarray(values, dtype=np.float64)
    inside = np.flatnonzero(((values >= low) if from_low else (values > low)) & (values <= high))
    inside = inside[np.argsort(values[inside], kind="stable")]
    if not len(inside):
        return [], np.zeros(0)
    ordered = values[inside]
    allowed = np.append(np.flatnonzero(np.diff(ordered)) + 1, len(inside))  # ends at which no equals are parted
    steps = min(steps, len(allowed))
    cuts, place = [0], -1
    for left in range(steps, 0, -1):
        aim = cuts[-1] + (len(inside) - cuts[-1]) / left
        place = int(np.clip(_nearest(allowed, aim), place + 1, len(allowed) - left))  # at least one value for each
        cuts.append(int(allowed[place]))
    edges = np.concatenate([[low], ordered[np.array(cuts[1:-1], dtype=np.int64) - 1], [high]])
    return [inside[first:last] for first, last in pairwise(cuts)], edges


def directions_without(vectors: np.ndarray, dimension: int) -> np.ndarray:
    """h_{i,−j} with unit length, (n, dim) with 0 at the dimension: products are cosines, 0 for a vector of zeros.

    In the precision of the vectors, for products of many take time; what is summed over them is in float64.
    """
    rest = np.array(vectors)
    rest[:, dimension] = 0.0
    lengths = np.sqrt(np.einsum("ij,ij->i", rest, rest))
    rest /= np.maximum(lengths, 1e-12)[:, None]
    return rest


def objective(
    chosen: np.ndarray, similar_to_start: np.ndarray, vectors_without_j: np.ndarray, temperature: float, gamma: float
) -> float:
    """What a walk over the chosen items is worth, divided by e^{1/τ}.

    chosen: (steps,) positions. similar_to_start: (n,) cosines. vectors_without_j: (n, dim) of unit length.
    The divisor is the same for all walks and changes no comparison; with it no term exceeds 1, whatever τ is.
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
) -> np.ndarray:
    """One item of each group, such that `objective` is large: (groups,) positions.

    similar_to_start: (n,) cosines. vectors_without_j: (n, dim) of unit length. groups: positions, none empty.
    From group to group the `width` best beginnings are kept. Where two are worth the same, the better beginning goes
    first, then the item more similar to the start, then the one that comes first in its group.
    """
    if width < 1:
        raise RequestError(f"width is {width}; give 1 or more")
    totals, paths = np.zeros(1), np.zeros((1, 0), dtype=np.int64)  # (beam,), (beam, groups so far)
    for group in groups:
        ranked = group[np.argsort(-similar_to_start[group], kind="stable")]
        taken, which = np.unique(paths, return_inverse=True)  # beginnings have much in common
        holds = np.zeros((len(paths), len(taken)))  # 1 where a beginning holds an item
        np.put_along_axis(holds, which.reshape(paths.shape), 1.0, axis=1)
        alike = _strength(vectors_without_j[taken] @ vectors_without_j[ranked].T, temperature)  # (taken, group)
        gains = gamma * (holds @ alike) + _strength(similar_to_start[ranked], temperature)
        scores = (totals[:, None] + gains).ravel()
        kept = _best(scores, width)
        parents, items = np.divmod(kept, len(ranked))
        totals, paths = scores[kept], np.column_stack([paths[parents], ranked[items]])
    return paths[0]


def _strength(cosines: np.ndarray, temperature: float) -> np.ndarray:
    """e^{cosine/τ} over e^{1/τ}: at most 1."""
    scaled = np.subtract(cosines, 1.0, dtype=np.float64)
    np.minimum(scaled, 0.0, out=scaled)  # a cosine of rounded numbers may be a little over 1
    scaled /= temperature
    return np.exp(scaled, out=scaled)


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    """Positions of the largest, best first; of equals the first, which `argpartition` alone does not promise."""
    kept = np.arange(len(scores))
    if count < len(scores):
        # each of `count` parts has a score as large as the least of their maxima, so that no smaller one is wanted
        parts = np.linspace(0, len(scores), count, endpoint=False).astype(np.int64)
        kept = np.flatnonzero(scores >= np.maximum.reduceat(scores, parts).min())
    return kept[np.argsort(-scores[kept], kind="stable")][:count]


def _nearest(ends: np.ndarray, aim: float) -> int:
    """The position of the end nearest to the aim, the lower of two; ends grow."""
    above = min(int(np.searchsorted(ends, aim)), len(ends) - 1)
    return above - 1 if above and aim - ends[above - 1] <= ends[above] - aim else above


def _check(start: np.ndarray, dimension: int, own: np.ndarray, prototypes: np.ndarray) -> None:
    dim = len(start)
    if own.ndim != 2 or prototypes.ndim != 2 or not own.shape[1] == prototypes.shape[1] == dim:
        raise RequestError(f"a start of {dim} dimensions, items {own.shape} and prototypes {prototypes.shape} differ")
    if not 0 <= dimension < dim:
        raise RequestError(f"dimension is {dimension}; there are {dim}, from 0 to {dim - 1}")
