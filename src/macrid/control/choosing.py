"""A list chosen item by item, where rules go beyond the order of scores: pins, at most k per value, diversity.

Pins come first. Every other place goes to the candidate i that no limit forbids and that has the largest

    (1 − d) · r_i − d · max_j s_ij        (maximal marginal relevance; Carbonell and Goldstein, 1998)

over the items j chosen so far, pins included; equal ones in the order of their scores. s_ij is a similarity from 0 to
1, and 0 if nothing was chosen yet. r_i is the score on a scale from 0 to 1, the lowest and the highest score of the
pool: the best candidates, five times as many as requested and at least 100. If limits forbid all that is left of the
pool, the next best candidates follow in the order of their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

FEWEST_IN_POOL = 100
POOL = 5  # times the number of items requested
FEW_VALUES = 4  # looked for one by one, which is faster
GROWTH = 4  # of the pool, where limits forbid too much of it


class Candidates(NamedTuple):
    """Positions of items, best first, and their scores with boosts."""

    positions: np.ndarray
    values: np.ndarray


class Pin(NamedTuple):
    position: int
    rank: int
    """From 1."""


@dataclass(frozen=True, eq=False)
class Limit:
    """At most k items per value of an attribute."""

    attribute: str
    most: int
    values: sp.csr_array
    """(items, values)"""


Similarities = Callable[[np.ndarray], np.ndarray]
"""Rows for items (…, dim) whose inner products, if positive, are similarities."""


@dataclass(frozen=True, eq=False)
class Demands:
    """What a list must be like, besides its candidates."""

    limits: tuple[Limit, ...] = ()
    diversity: float = 0.0
    rows: Similarities | None = None
    """With diversity."""


def pool_size(n: int) -> int:
    return max(FEWEST_IN_POOL, POOL * n)


def choose(best: Callable[[int], Candidates], left: int, n: int, pins: Sequence[Pin], demands: Demands) -> np.ndarray:
    """Positions of n items in order; fewer if fewer can be had.

    best: at least as many of the best candidates as asked for; there are `left`, pins included.
    """
    pinned = np.array([pin.position for pin in pins], dtype=np.int64)
    is_late = np.array([pin.rank > n for pin in pins], dtype=bool)
    others = n - int((~is_late).sum())
    chooser = _Chooser(demands, pinned[~is_late], pinned)
    depth = min(left, pool_size(n))
    chooser.from_pool(_first(best(depth), depth), others)
    while len(chooser.chosen) < others and depth < left:
        depth, before = min(left, depth * GROWTH), depth
        below = best(depth).positions[before:depth]
        chooser.in_order(below[~np.isin(below, pinned)], others)
    chooser.in_order(pinned[is_late], others)  # where there is nothing else
    return _placed(chooser.chosen, [pin for pin in pins if pin.rank <= n])


def _first(candidates: Candidates, count: int) -> Candidates:
    return Candidates(candidates.positions[:count], candidates.values[:count])


def _placed(others: Sequence[int], pins: Sequence[Pin]) -> np.ndarray:
    """Pins at their ranks, or the end of a short list, and the others around them."""
    waiting, pins, placed = list(others), list(pins), list[int]()
    while pins or waiting:
        is_next = bool(pins) and (pins[0].rank <= len(placed) + 1 or not waiting)
        placed.append(pins.pop(0).position if is_next else waiting.pop(0))
    return np.array(placed, dtype=np.int64)


class _Chooser:
    """Keeps count of what the items chosen so far allow."""

    def __init__(self, demands: Demands, chosen: np.ndarray, pinned: np.ndarray) -> None:
        """chosen: pins of this list. pinned: all pins, which no other place may have."""
        self._demands, self._pinned, self._start = demands, pinned, chosen
        self.chosen: list[int] = []
        self._counts = [np.asarray(limit.values[chosen].sum(axis=0)).astype(np.int64) for limit in demands.limits]

    def from_pool(self, pool: Candidates, count: int) -> None:
        """Choose this many from the pool, if limits allow."""
        is_open = ~np.isin(pool.positions, self._pinned)
        self._choose(pool.positions, is_open, _Worth(self._demands, pool, self._start), count)

    def in_order(self, positions: np.ndarray, count: int) -> None:
        """Choose from further candidates, best first."""
        by_order = _Worth(Demands(), Candidates(positions, positions), self._start)
        self._choose(positions, np.ones(len(positions), dtype=bool), by_order, count)

    def _choose(self, positions: np.ndarray, is_open: np.ndarray, worth: _Worth, count: int) -> None:
        limits = self._demands.limits
        members = [_Members(limit.values, positions) for limit in limits]
        for limit, counts, inside in zip(limits, self._counts, members, strict=True):
            is_open[inside.with_any(np.flatnonzero(counts >= limit.most))] = False
        while len(self.chosen) < count and is_open.any():
            at = worth.best(is_open)
            is_open[at] = False
            self.chosen.append(int(positions[at]))
            worth.chose(at)
            for limit, counts, inside in zip(limits, self._counts, members, strict=True):
                is_open[inside.with_any(self._counted(limit, counts, int(positions[at])))] = False

    def _counted(self, limit: Limit, counts: np.ndarray, position: int) -> np.ndarray:
        """Count an item; its values that have reached the limit."""
        values = _row(limit.values, position)
        counts[values] += 1
        return values[counts[values] >= limit.most]


class _Members:
    """Which items of a pool have a value."""

    def __init__(self, values: sp.csr_array, positions: np.ndarray) -> None:
        starts = values.indptr[positions]
        counts = values.indptr[positions + 1] - starts
        offsets = np.repeat(starts - np.cumsum(counts) + counts, counts)
        self._values = values.indices[offsets + np.arange(len(offsets))]
        self._places = np.repeat(np.arange(len(positions)), counts)

    def with_any(self, values: np.ndarray) -> np.ndarray:
        """Places in the pool of items that have one of some values."""
        if len(values) > FEW_VALUES:
            return self._places[np.isin(self._values, values)]
        return np.concatenate([self._places[:0], *(self._places[self._values == value] for value in values)])


class _Worth:
    """What candidates of a pool are worth, given what was chosen."""

    def __init__(self, demands: Demands, pool: Candidates, chosen: np.ndarray) -> None:
        self._diversity = demands.diversity
        self._worth = -np.arange(len(pool.positions), dtype=np.float64)  # without diversity, the order is enough
        if not self._diversity or not len(pool.positions):
            return
        assert demands.rows is not None
        values = pool.values.astype(np.float64)
        span = values[0] - values[-1]
        relevance = (values - values[-1]) / span if span > 0 else np.ones(len(values))
        self._relevance = (1 - self._diversity) * relevance
        rows = demands.rows(np.concatenate([pool.positions, chosen]))
        self._rows, start = rows[: len(values)], rows[len(values) :]
        self._closest = (self._rows @ start.T).max(axis=1, initial=0.0).astype(np.float64)
        self._worth = self._relevance - self._diversity * self._closest

    def best(self, is_open: np.ndarray) -> int:
        return int(np.argmax(np.where(is_open, self._worth, -np.inf)))

    def chose(self, at: int) -> None:
        if self._diversity:
            np.maximum(self._closest, self._rows @ self._rows[at], out=self._closest)
            self._worth = self._relevance - self._diversity * self._closest


def mean_similarity(rows: np.ndarray) -> float:
    """Between two different items, from their rows (items, dim); 0 for less than two."""
    count = len(rows)
    if count < 2:
        return 0.0
    similar = np.clip(rows @ rows.T, 0, None)
    return float((similar.sum() - np.trace(similar)) / (count * (count - 1)))


def _row(values: sp.csr_array, position: int) -> np.ndarray:
    return values.indices[values.indptr[position] : values.indptr[position + 1]]
