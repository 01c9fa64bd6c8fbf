"""What sets some items apart from the rest: values they have more or less often, numbers that are higher or lower.

Shares of values come with shrunken log-odds (`macrid.concepts.evidence`), numbers are compared by ranks (Mann and
Whitney). A difference is reported if it is large enough to matter and chance rarely does as well, given how many
differences are looked at: items drawn at random have any in fewer than `LARGEST_P` of all cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import bdtr, bdtrc, ndtr

from macrid.concepts.claims import claim_text, number_format
from macrid.concepts.evidence import LARGEST_P, Counts, LogOdds, log_odds
from macrid.data.attributes import POPULARITY, Attribute, Catalogue, Column, read_attributes

FEWEST = 3  # items that have a value, for it to be compared
LEAST_ODDS = 1.5  # ratio of odds here to odds elsewhere
LEAST_USUAL = 0.05  # share elsewhere of a value that is rarer here
LEAST_LEAD = 0.1  # over one half: how often an item here has the higher, or the lower, of two numbers
CONCEPT = "concept"


class ValueShare(NamedTuple):
    """How many items have a value, here and elsewhere; among those where the attribute is known."""

    attribute: str
    value: str
    concept: int | None
    """If it is a concept."""
    text: str
    """The value in words."""
    items: int
    """Of these items, those that have it."""
    inside: float
    outside: float
    lift: float | None
    """`inside` over `outside`; None if no other item has it."""
    z: float
    """Standard deviations from what chance would give."""


class NumberShift(NamedTuple):
    """A number of these items and of all others."""

    attribute: str
    inside: float
    """Median."""
    outside: float
    inside_mean: float
    outside_mean: float
    inside_text: str
    """The median as people write it, also of dates."""
    outside_text: str
    higher: float
    """How often an item here has a higher number than one elsewhere, ties counting half."""
    z: float


class Profile(NamedTuple):
    """The clearest differences first."""

    items: int
    more: tuple[ValueShare, ...]
    """Values that these items have more often than the rest."""
    less: tuple[ValueShare, ...]
    numbers: tuple[NumberShift, ...]


class _Number(NamedTuple):
    name: str
    values: np.ndarray
    """(items,) NaN where unknown."""
    ranks: np.ndarray
    """(items,) among known items, from 1; ties share their mean rank."""
    ties: float
    """By how much ties reduce the variance of rank sums: 1 without any."""


class Profiler:
    """Compares any items of a catalogue with the rest."""

    def __init__(
        self, catalogue: Catalogue, concept_of: np.ndarray | None = None, attributes: Sequence[Attribute] | None = None
    ) -> None:
        """concept_of: (items,). attributes: of the catalogue, if they are known already."""
        count = len(catalogue.popularity)
        attributes = read_attributes(catalogue.table) if attributes is None else attributes
        groups = [attribute for attribute in attributes if attribute.numbers is None]
        if concept_of is not None:
            groups.insert(0, _as_attribute(concept_of))
        self._format = number_format(catalogue.table)
        self._numbers = [_number(POPULARITY, catalogue.popularity.astype(np.float64))]
        for attribute in attributes:
            if attribute.numbers is not None:
                values = np.full(count, np.nan)
                values[attribute.items] = attribute.numbers
                self._numbers.append(_number(attribute.name, values))
        self._names = [(group.name, value) for group in groups for value in group.values]
        self._has_concepts = concept_of is not None
        self._group_of = np.repeat(np.arange(len(groups)), [len(group.values) for group in groups])
        self._has = _stacked(groups, count)
        self._known = np.zeros((count, len(groups)), dtype=bool)
        for place, group in enumerate(groups):
            self._known[group.items, place] = True
        self._total = self._counts(np.arange(count))
        self._tested = 2 * int((self._total.have >= FEWEST).sum()) + len(self._numbers)  # more often, and less often

    def of(self, items: np.ndarray) -> Profile:
        """items: distinct positions."""
        more, less = self._values(items)
        return Profile(len(items), more, less, self._shifts(items))

    def _counts(self, items: np.ndarray) -> Counts:
        """(values,) of the items at these positions."""
        have = np.bincount(self._has[items].indices, minlength=len(self._names)).astype(np.float64)
        return Counts(have, self._known[items].sum(axis=0)[self._group_of].astype(np.float64))

    def _values(self, items: np.ndarray) -> tuple[tuple[ValueShare, ...], tuple[ValueShare, ...]]:
        inside, total = self._counts(items), self._total
        outside = Counts(total.have - inside.have, total.known - inside.known)
        odds = log_odds(inside, outside, total)
        share = total.have / np.maximum(total.known, 1)
        z = (inside.have - share * inside.known) / np.sqrt(np.maximum(share * (1 - share) * inside.known, 1e-12))
        is_tested = (total.have >= FEWEST) & (inside.known > 0) & (outside.known > 0)
        limit = LARGEST_P / max(1, self._tested)
        known = inside.known.astype(np.int64)
        by_chance = bdtrc(inside.have - 1, known, share)  # so many or more
        by_chance[inside.have == 0] = 1.0
        more = is_tested & (inside.have >= FEWEST) & (odds.delta >= np.log(LEAST_ODDS)) & (by_chance <= limit)
        less = is_tested & (odds.outside >= LEAST_USUAL) & (odds.delta <= -np.log(LEAST_ODDS))
        less &= bdtr(inside.have, known, share) <= limit

        by_z = np.argsort(-np.abs(z), kind="stable")
        clearest = (by_z[chosen[by_z]].tolist() for chosen in (more, less))
        first, second = (tuple(self._share(at, inside, odds, z) for at in places) for places in clearest)
        return first, second

    def _share(self, at: int, counts: Counts, odds: LogOdds, z: np.ndarray) -> ValueShare:
        attribute, value = self._names[at]
        is_concept = self._has_concepts and self._group_of[at] == 0
        column = Column(f"{attribute}: {value}", attribute, "category", np.empty(0))
        inside, outside = float(odds.inside[at]), float(odds.outside[at])
        return ValueShare(
            attribute,
            value,
            int(value) if is_concept else None,
            claim_text([column]),
            int(counts.have[at]),
            inside,
            outside,
            inside / outside if outside else None,
            float(z[at]),
        )

    def _shifts(self, items: np.ndarray) -> tuple[NumberShift, ...]:
        shifts = (self._shift(number, items) for number in self._numbers)
        return tuple(sorted((shift for shift in shifts if shift is not None), key=lambda shift: -abs(shift.z)))

    def _shift(self, number: _Number, items: np.ndarray) -> NumberShift | None:
        is_outside = np.isfinite(number.values)
        items = items[is_outside[items]]
        is_outside[items] = False
        here, there = len(items), int(is_outside.sum())
        if min(here, there) < FEWEST:
            return None
        excess = float(number.ranks[items].sum()) - here * (here + there + 1) / 2
        deviation = np.sqrt(here * there * (here + there + 1) / 12 * number.ties)
        z, lead = excess / max(float(deviation), 1e-12), excess / (here * there)
        if abs(lead) < LEAST_LEAD or 2 * ndtr(-abs(z)) > LARGEST_P / self._tested:
            return None
        inside, outside = number.values[items], number.values[is_outside]
        middle, usual = float(np.median(inside)), float(np.median(outside))
        return NumberShift(
            number.name,
            inside=middle,
            outside=usual,
            inside_mean=float(inside.mean()),
            outside_mean=float(outside.mean()),
            inside_text=self._format(number.name, middle),
            outside_text=self._format(number.name, usual),
            higher=0.5 + lead,
            z=z,
        )


def _as_attribute(concept_of: np.ndarray) -> Attribute:
    count = len(concept_of)
    shares = sp.csr_array((np.ones(count), concept_of, np.arange(count + 1)))
    return Attribute(CONCEPT, np.arange(count), shares, tuple(str(k) for k in range(shares.shape[1])))


def _stacked(groups: list[Attribute], count: int) -> sp.csr_array:
    """(items, values of all groups) whether an item has a value."""
    parts = []
    for group in groups:
        entries = group.shares.tocoo()
        place = (group.items[entries.row], entries.col)
        parts.append(sp.csr_array((np.ones(entries.nnz, dtype=bool), place), shape=(count, len(group.values))))
    return sp.csr_array(sp.hstack(parts)) if parts else sp.csr_array((count, 0), dtype=bool)


def _number(name: str, values: np.ndarray) -> _Number:
    known = np.isfinite(values)
    _, place, sizes = np.unique(values[known], return_inverse=True, return_counts=True)
    ranks = np.zeros(len(values))
    ranks[known] = (np.cumsum(sizes) - (sizes - 1) / 2)[place]
    count = int(known.sum())
    ties = 1 - float((sizes.astype(np.float64) ** 3 - sizes).sum()) / max(1.0, float(count) ** 3 - count)
    return _Number(name, values, ranks, ties)
