"""What goes with what, and how often chance would do as well: log-odds of values, rank correlations of coordinates.

Log-odds are those of Monroe, Colaresi and Quinn (2008), with an informative Dirichlet prior: each side is taken to have
`PRIOR` items more, divided as all items are, so that rare values do not win by accident. An item has a value or not, so
the counts are of items, and the variance keeps the terms for items without it, which matter where most have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from macrid.data.attributes import Column

PRIOR = 20.0  # items
SHUFFLES = 199
CELLS = 20_000_000  # numbers held at once


class LogOdds(NamedTuple):
    """Of having a value on one side, against the other; each of the same shape (…, values)."""

    inside: np.ndarray
    """Share of the items on this side whose value is known."""
    outside: np.ndarray
    delta: np.ndarray
    z: np.ndarray
    """`delta` by its standard deviation."""


class Counts(NamedTuple):
    """(groups, values) each."""

    have: np.ndarray
    known: np.ndarray


class Correlations(NamedTuple):
    """Of columns with coordinates."""

    rho: np.ndarray
    """(columns, dimensions) rank correlation over items of which the column is known."""
    z: np.ndarray
    """(columns, dimensions) the same, times √(known items − 1): as large by chance for every column."""
    null: np.ndarray
    """(shuffles,) the largest |z| of all columns and dimensions when items are shuffled."""


@dataclass(frozen=True)
class Values:
    """Who has which values: categories, tags and words of some items, in the order of those items."""

    columns: tuple[Column, ...]
    has: np.ndarray = field(repr=False)
    """(items, values) 1 if an item has it, 0 if not or unknown."""
    known: np.ndarray = field(repr=False)
    """(items, patterns) 1 where known; values of one attribute are known of the same items."""
    pattern: np.ndarray = field(repr=False)
    """(values,) its column of `known`."""

    @cached_property
    def _sparse(self) -> sp.csr_array:
        return sp.csr_array(self.has)

    @cached_property
    def total(self) -> Counts:
        """(values,) of all items."""
        return Counts(self.has.sum(axis=0), self.known.sum(axis=0)[self.pattern])

    def counts(self, groups: np.ndarray) -> Counts:
        """groups: (groups, items), 1 for an item that is in it."""
        return Counts(groups @ self.has, (groups @ self.known)[:, self.pattern])

    def counts_of_labels(self, labels: np.ndarray, count: int) -> Counts:
        """Of groups that every item is in one of; labels: (items,)."""
        size = len(labels)
        groups = sp.csr_array((np.ones(size), (labels, np.arange(size))), shape=(count, size))
        return Counts((groups @ self._sparse).toarray(), (groups @ self.known)[:, self.pattern])


def values_of(columns: Sequence[Column], items: np.ndarray) -> Values:
    """The 0 and 1 columns among them, for the items at these positions."""
    chosen = tuple(column for column in columns if column.value is not None)
    if not chosen:
        return Values((), np.zeros((len(items), 0)), np.zeros((len(items), 0)), np.zeros(0, dtype=np.int64))
    whole = np.stack([column.values[items] for column in chosen], axis=1)
    known = np.isfinite(whole)
    patterns, pattern = _patterns(known)
    return Values(chosen, np.where(known, whole, 0.0), patterns.astype(np.float64), pattern)


def log_odds(inside: Counts, outside: Counts, total: Counts, prior: float = PRIOR) -> LogOdds:
    """The formula of Monroe, Colaresi and Quinn (2008), for each value on its own.

    total: (values,) of the items that the prior is divided as.
    """
    share = (total.have + 0.5) / (total.known + 1)  # never 0 nor 1
    delta, variance = np.zeros(inside.have.shape), np.zeros(inside.have.shape)
    for sign, side in ((1, inside), (-1, outside)):
        having, lacking = side.have + prior * share, side.known - side.have + prior * (1 - share)
        delta += sign * np.log(having / lacking)
        variance += 1 / having + 1 / lacking
    shares = [side.have / np.maximum(side.known, 1) for side in (inside, outside)]
    return LogOdds(shares[0], shares[1], delta, delta / np.sqrt(variance))


def of_labels(values: Values, labels: np.ndarray, count: int) -> LogOdds:
    """Items of each label against all others: (labels, values)."""
    inside = values.counts_of_labels(labels, count)
    total = values.total
    return log_odds(inside, Counts(total.have - inside.have, total.known - inside.known), total)


def null_of_labels(
    values: Values, labels: np.ndarray, count: int, random: np.random.Generator, shuffles: int = SHUFFLES
) -> np.ndarray:
    """The largest z of all labels and values when labels are shuffled: (shuffles,)."""
    if not values.columns:
        return np.zeros(shuffles)
    return np.array([of_labels(values, random.permutation(labels), count).z.max() for _ in range(shuffles)])


def correlations(
    coordinates: np.ndarray, columns: np.ndarray, random: np.random.Generator, shuffles: int = SHUFFLES
) -> Correlations:
    """Rank correlations, and what chance makes of so many.

    coordinates: (items, dimensions). columns: (items, columns), NaN where unknown. A shuffle gives all columns of one
    pattern of known items in the same new order, so that columns stay as alike as they are.
    """
    (count, dimensions), width = coordinates.shape, columns.shape[1]
    rho, z = np.zeros((width, dimensions)), np.zeros((width, dimensions))
    null = np.zeros(shuffles)
    keys = random.random((shuffles, count), dtype=np.float32)
    patterns, pattern = _patterns(np.isfinite(columns))
    for number in range(patterns.shape[1]):
        items, own = np.flatnonzero(patterns[:, number]), np.flatnonzero(pattern == number)
        if len(items) < 3:
            continue
        x, y = _ranks(coordinates[items]), _ranks(columns[np.ix_(items, own)])  # (known, …) each
        factor = np.sqrt(len(items) - 1)
        rho[own] = y.T @ x
        z[own] = rho[own] * factor
        block = max(1, CELLS // max(1, y.size))
        for begin in range(0, shuffles, block):
            order = np.argsort(keys[begin : begin + block, items], axis=1)  # (block, known)
            shuffled = y.T[:, order].transpose(1, 0, 2).reshape(-1, len(items))  # (block · own, known)
            largest = np.abs(shuffled @ x).reshape(len(order), -1).max(axis=1, initial=0)
            null[begin : begin + block] = np.maximum(null[begin : begin + block], largest * factor)
    return Correlations(rho, z, null)


def chance(found: float, null: np.ndarray) -> float:
    """How often shuffles give as much: a p-value, never 0. Rounding does not make a difference."""
    return float((1 + (null >= found - 1e-6 * abs(found)).sum()) / (1 + len(null)))


def _patterns(known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different columns of a mask (items, columns): (items, patterns), and which of them each column is."""
    first: dict[bytes, int] = {}
    packed = np.packbits(known, axis=0).T
    pattern = np.array([first.setdefault(row.tobytes(), len(first)) for row in packed], dtype=np.int64)
    places = np.unique(pattern, return_index=True)[1]
    return known[:, places], pattern


def _ranks(numbers: np.ndarray) -> np.ndarray:
    """Ranks in each column, with mean 0 and length 1; 0 for a constant column: (n, columns)."""
    ranks = rankdata(numbers, axis=0)
    ranks -= ranks.mean(axis=0)
    lengths = np.sqrt(np.square(ranks).sum(axis=0))
    return (ranks / np.maximum(lengths, 1e-12)).astype(np.float32)
