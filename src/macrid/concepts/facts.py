"""The attributes of a concept's items, to be compared: how much of what one item has another one lacks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from macrid.concepts.space import Space
from macrid.data.attributes import BINS, Attribute, is_date, kind_of, quantile_bins
from macrid.evaluation.agreement import scores_of

NEAR = 0.1  # of the spread: numbers no further apart count as equal
FAR = 0.5  # numbers as far apart as this have nothing in common
ROUNDING = 1e-9
SPREAD = (5, 95)  # percentiles, so that a few items of another kind do not widen it
WIDE = 10.0  # ratio of these percentiles from which numbers are compared by their ratio
TIED = 0.5  # share of a column's variance: an attribute that explains as much of it moves with it


@dataclass(frozen=True, eq=False)
class Number:
    """A number per item of a concept."""

    name: str
    values: np.ndarray = field(repr=False)
    """(members,) NaN where unknown."""
    is_interval: bool = False
    """Whether only differences mean something, not ratios: a date, a coordinate."""

    @cached_property
    def scaled(self) -> np.ndarray:
        """In spreads: how far apart nearly all items are. Over orders of magnitude, such as prices, ratios count."""
        known = self.values[np.isfinite(self.values)]
        if not len(known):
            return self.values
        low, high = np.percentile(known, SPREAD)
        if not self.is_interval and known.min() > 0 and high > WIDE * low:
            return np.log(self.values) / np.log(high / low)
        return self.values / (high - low or np.ptp(known) or 1.0)

    def is_known(self, item: int) -> bool:
        return bool(np.isfinite(self.values[item]))

    def lost(self, item: int) -> np.ndarray:
        """(members,) how much of an item's value each one lacks: 0 to 1."""
        return np.nan_to_num(loss(np.abs(self.scaled - self.scaled[item])), nan=1.0)

    def apart_from(self, scores: np.ndarray) -> Number | None:
        known = np.isfinite(self.values) & np.isfinite(scores)
        if not known.any() or np.ptp(self.values[known]) == 0:
            return self
        return self if _explained(quantile_bins(self.values[known], BINS)[0], scores[known]) < TIED else None


@dataclass(frozen=True, eq=False)
class Values:
    """A category per item of a concept, or several tags."""

    name: str
    flags: sp.csr_array = field(repr=False)
    """(members, values) 1 where an item has a value."""
    known: np.ndarray = field(repr=False)
    """(members,) whether an item has values, those left out included."""
    has_several: bool = False
    is_part: bool = False
    """Whether values that move with something else are left out."""

    def is_known(self, item: int) -> bool:
        return bool(self.known[item])

    def lost(self, item: int) -> np.ndarray:
        """(members,) 1 − the Jaccard similarity to an item's values; items without values are alike."""
        own = self.flags[[item]].toarray()[0]
        shared = self.flags @ own
        either = np.diff(self.flags.indptr) + own.sum() - shared
        alike = np.divide(shared, either, out=np.ones(len(shared)), where=either > 0)
        return np.where(self.known, 1 - alike, 1.0)

    def apart_from(self, scores: np.ndarray) -> Values | None:
        known = np.isfinite(scores) & self.known
        flags, scores = self.flags[known], scores[known]
        if not self.has_several:
            return self if _explained(flags.indices, scores) < TIED else None
        rate, deviation = flags.sum(axis=0) / max(len(scores), 1), scores - (scores.mean() if len(scores) else 0.0)
        covariance, spread = flags.T @ deviation, np.square(deviation).sum() * len(scores) * rate * (1 - rate)
        is_apart = covariance**2 < TIED * np.maximum(spread, 1e-12)
        if is_apart.all():
            return self
        return replace(self, flags=self.flags[:, is_apart], is_part=True) if is_apart.any() else None


Fact = Number | Values


class Apart(NamedTuple):
    """The attributes that stay where they are when one of them moves, and the names of those that do not."""

    facts: list[Fact]
    tied: list[str]


class Facts:
    """The attributes of a concept's items, without popularity and titles."""

    def __init__(self, space: Space, concept: int) -> None:
        self.all = [_fact(attribute, space, space.members(concept)) for attribute in space.attributes]
        self._apart: dict[str, Apart] = {}

    def apart_from(self, key: str, values: np.ndarray) -> Apart:
        """Those that some values (members,), NaN where unknown, can change without; computed once per key.

        Tied is an attribute whose values, or ten bins, explain half the variance of their ranks. Of several tags, only
        those that do so are left out.
        """
        if key not in self._apart:
            scores = scores_of(values.astype(np.float64))
            found = {fact.name: fact.apart_from(scores) for fact in self.all}
            tied = [name for name, fact in found.items() if fact is None]
            self._apart[key] = Apart([fact for fact in found.values() if fact is not None], tied)
        return self._apart[key]


def facts_of(space: Space, concept: int) -> Facts:
    """Computed once."""
    if concept not in space.facts:
        space.facts[concept] = Facts(space, concept)
    return space.facts[concept]


def _fact(attribute: Attribute, space: Space, members: np.ndarray) -> Fact:
    rows = np.full(len(space.concept_of), -1)
    rows[attribute.items] = np.arange(len(attribute.items))
    rows = rows[members]
    known = rows >= 0
    if attribute.numbers is not None:
        table = space.model.table
        has_dates = table is not None and is_date(kind_of(table.column(attribute.name)))
        return Number(attribute.name, np.where(known, attribute.numbers[rows], np.nan), has_dates)
    lengths = np.zeros(len(members), dtype=np.int64)
    lengths[known] = np.diff(attribute.shares.indptr)[rows[known]]
    indices, ends = attribute.shares[rows[known]].indices, np.append(0, lengths.cumsum())
    flags = sp.csr_array((np.ones(len(indices)), indices, ends), (len(members), len(attribute.values)))
    return Values(attribute.name, flags, known, attribute.has_several)


def loss(distance: np.ndarray) -> np.ndarray:
    """What a difference of numbers, in spreads, loses: nothing while they are near, all of it when they are far."""
    return np.clip((distance - NEAR - ROUNDING) / (FAR - NEAR), 0.0, 1.0)


def _explained(groups: np.ndarray, scores: np.ndarray) -> float:
    """Share of the variance of scores between groups, less what as many random groups would explain."""
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    within = np.square(scores - (np.bincount(codes, scores) / sizes)[codes]).sum()
    total, free = np.square(scores - scores.mean()).sum() if len(scores) else 0.0, len(scores) - len(sizes)
    return float(1 - within / free / (total / (len(scores) - 1))) if free > 0 and total > 0 else 0.0
