"""What goes with what, and how often chance does as well: log-odds of values, rank correlations with axes.

Log-odds follow Monroe, Colaresi and Quinn (2008), with an informative Dirichlet prior: each side gets `PRIOR` extra
items, divided as all items are, which keeps rare values from winning by accident. Counts are of items, each with or
without a value, and the variance keeps the terms for items without it: they matter where most items have the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from macrid.concepts.meaning import Axes
from macrid.concepts.space import Space, draw
from macrid.data.attributes import POPULARITY, Column
from macrid.evaluation.agreement import ranks_of

PRIOR = 20.0  # items
SHUFFLES = 199
CELLS = 20_000_000  # numbers held at once
LARGEST_P = 0.01  # of an attribute that names or gets an axis
LEAST_CORRELATION = 0.2  # likewise
FEWEST_MEMBERS = 40  # of a concept with axes of its own
MOST_CORRELATED_ITEMS = 2000  # in a concept
SAME = 0.7  # correlation of two values that mean the same


class LogOdds(NamedTuple):
    """Of having a value on one side rather than the other; all of shape (…, values)."""

    inside: np.ndarray
    """Share of the items on this side that have the value, among those where it is known."""
    outside: np.ndarray
    delta: np.ndarray
    z: np.ndarray
    """`delta` over its standard deviation."""

    def reversed(self) -> LogOdds:
        """The other side against this one."""
        return LogOdds(self.outside, self.inside, -self.delta, -self.z)


class Counts(NamedTuple):
    """Items that have a value, and items where it is known: (groups, values) each."""

    have: np.ndarray
    known: np.ndarray


class Correlations(NamedTuple):
    """Of columns with coordinates."""

    rho: np.ndarray
    """(columns, dimensions) rank correlation over the items where the column is known."""
    z: np.ndarray
    """(columns, dimensions) the same, times √(known items − 1), which makes chance equally large for all columns."""
    null: np.ndarray
    """(shuffles,) the largest |z| over all columns and dimensions when items are shuffled."""


@dataclass(frozen=True)
class Values:
    """Which items have which values: categories, tags and words."""

    columns: tuple[Column, ...]
    has: np.ndarray = field(repr=False)
    """(items, values) 1 if an item has the value, 0 if not or unknown."""
    known: np.ndarray = field(repr=False)
    """(items, patterns) 1 where known; all values of one attribute share a pattern."""
    pattern: np.ndarray = field(repr=False)
    """(values,) their columns of `known`."""

    @cached_property
    def _sparse(self) -> sp.csr_array:
        return sp.csr_array(self.has)

    @cached_property
    def total(self) -> Counts:
        """Over all items: (values,)."""
        return Counts(self.has.sum(axis=0), self.known.sum(axis=0)[self.pattern])

    def counts(self, groups: np.ndarray, items: np.ndarray, count: int, weights: np.ndarray | None = None) -> Counts:
        """The items at these positions, each in one of so many groups, counting 1 or their weight: (positions,) all."""
        weights = np.ones(len(items)) if weights is None else weights
        members = sp.csr_array((weights, (groups, items)), shape=(count, len(self.has)))
        return Counts((members @ self._sparse).toarray(), (members @ self.known)[:, self.pattern])

    def either(self, options: Sequence[tuple[int, ...]]) -> Values:
        """Each option as one value: whether an item has any of its values, all of one attribute."""
        has = np.stack([self.has[:, list(option)].max(axis=1) for option in options], axis=1)
        first = [option[0] for option in options]
        return Values(tuple(self.columns[place] for place in first), has, self.known, self.pattern[first])

    def are_same(self, one: int, other: int) -> bool:
        """Whether two values mean the same: a category and a word in all its titles, or one that contains the other."""
        first, second = self.columns[one], self.columns[other]
        if one == other:
            return True
        known = np.flatnonzero(self.known[:, self.pattern[one]] * self.known[:, self.pattern[other]])
        pair = self.has[known][:, [one, other]]
        if not len(known) or (np.ptp(pair, axis=0) == 0).any():
            return False
        nested = bool(pair.prod(axis=1).sum() == pair.sum(axis=0).min()) and first.attribute == second.attribute
        return nested or bool(np.corrcoef(pair.T)[0, 1] >= SAME)


def values_of(columns: Sequence[Column], items: np.ndarray) -> Values:
    """The columns of 0 and 1, for the items at these positions."""
    chosen = tuple(column for column in columns if column.value is not None)
    values = matrix_of(chosen, items)
    known = np.isfinite(values)
    patterns, pattern = _patterns(known)
    return Values(chosen, np.where(known, values, 0.0), patterns.astype(np.float64), pattern)


def matrix_of(columns: Sequence[Column], items: np.ndarray) -> np.ndarray:
    """Values of the items at these positions: (positions, columns)."""
    return np.stack([column.values[items] for column in columns], axis=1) if columns else np.zeros((len(items), 0))


def log_odds(inside: Counts, outside: Counts, total: Counts, prior: float = PRIOR) -> LogOdds:
    """The formula of Monroe, Colaresi and Quinn (2008), for each value separately.

    total: (values,) the counts that divide the prior.
    """
    share = (total.have + 0.5) / (total.known + 1)  # never 0 or 1
    delta, variance = np.zeros(inside.have.shape), np.zeros(inside.have.shape)
    for sign, side in ((1, inside), (-1, outside)):
        having, lacking = side.have + prior * share, side.known - side.have + prior * (1 - share)
        delta += sign * np.log(having / lacking)
        variance += 1 / having + 1 / lacking
    shares = [side.have / np.maximum(side.known, 1) for side in (inside, outside)]
    return LogOdds(shares[0], shares[1], delta, delta / np.sqrt(variance))


def of_labels(values: Values, labels: np.ndarray, count: int, weights: np.ndarray | None = None) -> LogOdds:
    """Items with each label against all others, each counting 1 or its weight: (labels, values)."""
    inside = values.counts(labels, np.arange(len(labels)), count, weights)
    total = Counts(*(part.sum(axis=0) for part in inside))
    return log_odds(inside, Counts(total.have - inside.have, total.known - inside.known), total)


def between(values: Values, low: np.ndarray, high: np.ndarray) -> LogOdds:
    """The items at some positions, the high end, against those at others, the low end: (values,)."""
    have, known = values.counts(np.repeat((0, 1), (len(low), len(high))), np.concatenate([low, high]), 2)
    return log_odds(Counts(have[1], known[1]), Counts(have[0], known[0]), values.total)


def null_of_labels(
    values: Values,
    labels: np.ndarray,
    count: int,
    random: np.random.Generator,
    shuffles: int = SHUFFLES,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """The largest z over all labels and values when labels are shuffled: (shuffles,)."""
    shuffled = (of_labels(values, random.permutation(labels), count, weights) for _ in range(shuffles))
    return np.array([odds.z.max(initial=-np.inf) for odds in shuffled])


def correlations(
    coordinates: np.ndarray, columns: np.ndarray, random: np.random.Generator, shuffles: int = SHUFFLES
) -> Correlations:
    """Rank correlations, and the largest that chance gives among so many.

    coordinates: (items, dimensions). columns: (items, columns), NaN where unknown. A shuffle reorders all columns that
    are known for the same items together, which keeps their correlations with each other.
    """
    (count, dimensions), width = coordinates.shape, columns.shape[1]
    rho, z = np.zeros((width, dimensions)), np.zeros((width, dimensions))
    null = np.zeros(shuffles)
    keys = random.random((shuffles, count), dtype=np.float32)
    for known, chosen in columns_by_pattern(columns):
        items = np.flatnonzero(known)
        if len(items) < 3:
            continue
        x, y = _ranks(coordinates[items]), _ranks(columns[np.ix_(items, chosen)])  # (known, …) each
        factor = np.sqrt(len(items) - 1)
        rho[chosen] = y.T @ x
        z[chosen] = rho[chosen] * factor
        block = max(1, CELLS // max(1, y.size))
        for begin in range(0, shuffles, block):
            order = np.argsort(keys[begin : begin + block, items], axis=1)  # (block, known)
            shuffled = y.T[:, order].transpose(1, 0, 2).reshape(-1, len(items))  # (block · chosen, known)
            largest = np.abs(shuffled @ x).reshape(len(order), -1).max(axis=1, initial=0)
            null[begin : begin + block] = np.maximum(null[begin : begin + block], largest * factor)
    return Correlations(rho, z, null)


def chance(statistic: float, null: np.ndarray) -> float:
    """How often shuffles give as much: a p-value, never 0, that rounding does not change."""
    return float((1 + (null >= statistic - 1e-6 * abs(statistic)).sum()) / (1 + len(null)))


def axes_evidence(space: Space, axes: Axes | None, seed: int = 0) -> np.ndarray:
    """How well axes follow attributes, for every concept: (concepts,); None for the original axes.

    Popularity does not count: all turned axes begin with it.
    """
    columns = [column for column in space.columns if column.kind != POPULARITY]
    return np.array([_concept_evidence(space, axes, k, columns, seed) for k in range(space.concepts)])


def _concept_evidence(space: Space, axes: Axes | None, k: int, columns: Sequence[Column], seed: int) -> float:
    usable, rho = axis_correlations(space, axes, k, columns, seed)
    if not usable:
        return float("nan")
    fits = {fit.attribute: fit.strength for fit in (() if axes is None else axes.fits) if fit.concept == k}
    known = np.array([np.isfinite(column.values[space.members(k)]).sum() for column in usable])
    known = known.clip(max=MOST_CORRELATED_ITEMS)
    by_chance = -ndtri(0.025 / space.dim) / np.sqrt(np.maximum(known - 1, 1))  # the best of so many dimensions
    best = np.abs(rho).max(axis=1)
    strongest = np.sqrt(np.maximum(best**2 - by_chance**2, 0)).tolist()
    return float(np.mean([fits.get(column.name, value) for column, value in zip(usable, strongest, strict=True)]))


def axis_correlations(
    space: Space, axes: Axes | None, k: int, columns: Sequence[Column], seed: int
) -> tuple[list[Column], np.ndarray]:
    """Attributes in which a concept's items differ, and their rank correlations with its axes: (columns, dim)."""
    random = np.random.default_rng([seed, k])
    items = draw(space.members(k), MOST_CORRELATED_ITEMS, random)
    usable = [column for column in columns if column.is_usable(items)]
    if not usable or len(items) < FEWEST_MEMBERS:
        return [], np.zeros((0, space.dim))
    coordinates = space.items[items] if axes is None else space.items[items] @ axes.rotation[k].T
    return usable, correlations(coordinates, matrix_of(usable, items), random, shuffles=0).rho


def columns_by_pattern(values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each pattern of known items (n,), the positions of the columns of values (n, columns) that have it."""
    patterns, pattern = _patterns(np.isfinite(values))
    for number, known in enumerate(patterns.T):
        yield known, np.flatnonzero(pattern == number)


def _patterns(known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct columns of a mask (items, columns): (items, patterns), and the one that each column equals."""
    first: dict[bytes, int] = {}
    packed = np.packbits(known, axis=0).T
    pattern = np.array([first.setdefault(row.tobytes(), len(first)) for row in packed], dtype=np.int64)
    places = np.unique(pattern, return_index=True)[1]
    return known[:, places], pattern


def _ranks(numbers: np.ndarray) -> np.ndarray:
    """Ranks in each column, with mean 0 and length 1; 0 in a constant column: (n, columns)."""
    ranks = ranks_of(numbers)
    ranks -= ranks.mean(axis=0)
    lengths = np.sqrt(np.square(ranks).sum(axis=0))
    return (ranks / np.maximum(lengths, 1e-12)).astype(np.float32)
