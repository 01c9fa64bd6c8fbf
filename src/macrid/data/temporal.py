"""Splits by time: what came before a moment and what came after it, or the last items of each user.

Users are trained on and scored: train, validation and test hold the same people at different times. An interaction
happened when its first event did. Nothing from the moment of a split on has an influence on what is trained on before
it, weights included. The items are those of the train data, in order of first appearance; others cannot be predicted.

A `Cut` says what each interaction is for. It looks at one user at a time, so users may be divided in several batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.interactions import HELDOUT, Interactions, ReadReport, csr_from_pairs
from macrid.data.split import HeldOut, Split
from macrid.data.times import moment_text, moments
from macrid.data.weighing import Occurrences
from macrid.errors import DataError

GROUPS = ("validation", "test")


def split_time(data: Interactions, at: Any = None, heldout: float = HELDOUT) -> Split:
    """Train on what came before T1; predict what came first in [T1, T2) from what came before T1 (validation), and what
    came first from T2 on from all that came before T2 (test).

    at: T2, or the pair (T1, T2). With T2 alone, as many interactions are between T1 and T2 as from T2 on, which makes
        the two scores about equally certain, but at most half of those before T2.
    heldout: without `at`, the share of the interactions between T1 and T2, and from T2 on.
    """
    log = _timed(data, "time")
    return _split(data, log, moments_of(Moments([np.sort(_first_times(log))]), at, heldout))


def split_last(data: Interactions, last: int = 1) -> Split:
    """The last `last` items of each user are the test, as many before them the validation, the rest is trained on.

    Users with fewer than 2 · `last` + 1 items are only trained on. Ties in time are resolved by the order of rows.
    """
    cut = LastItems(last)
    log = _timed(data, "last")
    counts = np.bincount(data.pairs[0], minlength=len(data.users))
    cut.check(_name(data), int(counts.max()))
    return _split(data, log, cut, cut.remarks(cut.short(counts)))


class Group(NamedTuple):
    """Which interactions are histories and targets: masks (pairs,)."""

    history: np.ndarray
    target: np.ndarray
    weights: np.ndarray | None
    """(pairs,) at the end of the histories"""


class Purposes(NamedTuple):
    """What interactions are for."""

    in_train: np.ndarray
    """(pairs,)"""
    train: Occurrences
    """The events that are trained on."""
    validation: Group
    """Its weights are those of the train data, too."""
    test: Group


class Cut(Protocol):
    """A way to divide by time."""

    @property
    def protocols(self) -> tuple[str, str]:
        """Of validation and test, in a few words."""
        ...

    def divide(self, rows: np.ndarray, log: Occurrences) -> Purposes:
        """rows: (pairs,) the user of each interaction; all interactions of a user are there, ties in order."""
        ...


@dataclass(frozen=True)
class TwoMoments:
    """Train before the first, validation until the second, test from then on; in microseconds."""

    start: int
    end: int

    @property
    def protocols(self) -> tuple[str, str]:
        start, end = moment_text(self.start), moment_text(self.end)
        return f"before and after {start}, until {end}", f"before and after {end}"

    def divide(self, rows: np.ndarray, log: Occurrences) -> Purposes:
        times = _first_times(log)
        assert log.times is not None
        in_train, in_test = times < self.start, times >= self.end
        train = log.only(log.times < self.start)
        validation = Group(in_train, ~in_train & ~in_test, train.pair_weights(self.start))
        test = Group(~in_test, in_test, log.only(log.times < self.end).pair_weights(self.end))
        return Purposes(in_train, train, validation, test)


@dataclass(frozen=True)
class LastItems:
    """The last items of each user are for the test, as many before them for the validation."""

    last: int
    now: tuple[int, int] | None = None
    """The latest events of train and of the test's histories, from which age is counted; None: of those at hand."""

    def __post_init__(self) -> None:
        if isinstance(self.last, bool) or not isinstance(self.last, int | np.integer) or self.last < 1:
            raise DataError(f"last is {self.last}; give a whole number of items, at least 1")

    @property
    def protocols(self) -> tuple[str, str]:
        items = "item" if self.last == 1 else "items"
        return f"{self.last} {items} before the last {self.last} of each user", f"last {self.last} {items} of each user"

    def divide(self, rows: np.ndarray, log: Occurrences) -> Purposes:
        times = _first_times(log)
        counts = np.bincount(rows)
        from_end = _places_from_end(rows, times, counts)
        predicted = counts[rows] > 2 * self.last
        is_test, is_later = predicted & (from_end < self.last), predicted & (from_end < 2 * self.last)
        train, before_test = (_until(log, times, rows, mask) for mask in (is_later, is_test))
        nows = self.now or (None, None)
        validation = Group(~is_later, is_later & ~is_test, train.pair_weights(nows[0]))
        test = Group(predicted & ~is_test, is_test, before_test.pair_weights(nows[1]))
        return Purposes(~is_later, train, validation, test)

    def latest(self, rows: np.ndarray, log: Occurrences) -> tuple[int, int]:
        """See `now`."""
        times = _first_times(log)
        counts = np.bincount(rows)
        from_end = np.where(counts[rows] > 2 * self.last, _places_from_end(rows, times, counts), 2 * self.last)
        first, second = (_until(log, times, rows, from_end < count * self.last).latest() for count in (2, 1))
        return first, second

    def check(self, source: str, longest: int) -> None:
        """An error if nobody has enough items."""
        if longest <= 2 * self.last:
            raise DataError(
                f"{source}: no user has the {2 * self.last + 1:,} items that a test on the last {self.last:,} takes;"
                f" the longest history has {longest:,}"
            )

    def short(self, counts: np.ndarray) -> int:
        """How many users are only trained on."""
        return int(np.count_nonzero((counts > 0) & (counts <= 2 * self.last)))

    def remarks(self, short: int) -> list[str]:
        return [f"{short:,} users with fewer than {2 * self.last + 1} items are only trained on"] if short else []


class Members(NamedTuple):
    """The users of a group who have both a history and something to predict, in known items."""

    users: np.ndarray
    """Their rows."""
    history: np.ndarray
    target: np.ndarray
    """(pairs,) masks of what they have"""
    lost: Counter[str]
    """Targets, those in unknown items, and users without a history."""


def members_of(group: Group, rows: np.ndarray, is_known: np.ndarray, users: int) -> Members:
    """rows: (pairs,) below `users`. is_known: (pairs,) whether the train data have the item."""
    history, target = group.history & is_known, group.target & is_known
    has_history, has_target = (np.bincount(rows[mask], minlength=users) > 0 for mask in (history, target))
    chosen = has_history & has_target
    lost = Counter(
        targets=int(np.count_nonzero(group.target)),
        unknown=int(np.count_nonzero(group.target & ~is_known)),
        without=len(np.unique(rows[group.target & ~has_history[rows]])),
    )
    mine = chosen[rows]
    return Members(np.flatnonzero(chosen), history & mine, target & mine, lost)


def remarks_on(group: str, lost: Counter[str]) -> Iterator[str]:
    """What a group leaves out; see `Members.lost`."""
    if lost["unknown"]:
        yield f"dropped {lost['unknown']:,} of {lost['targets']:,} {group} targets: unknown items"
    if lost["without"]:
        yield f"skipped {lost['without']:,} {group} users without a history"


def check_members(users: int, source: str, group: str, protocol: str) -> None:
    """An error if a group has none."""
    if not users:
        raise DataError(
            f"{source}: the {group} is empty, as nobody with a history before has a known item after ({protocol});"
            " choose another split"
        )


def _split(data: Interactions, log: Occurrences, cut: Cut, remarks: Sequence[str] = ()) -> Split:
    rows, columns = data.pairs
    purposes = cut.divide(rows, log)
    items, first_seen = np.unique(columns[purposes.in_train], return_index=True)
    items = items[np.argsort(first_seen)]
    number = np.full(len(data.items), -1, dtype=np.int32)
    number[items] = np.arange(len(items), dtype=np.int32)
    columns, notes = number[columns], list[str]()

    def group(name: str, group: Group, protocol: str) -> HeldOut:
        members = members_of(group, rows, columns >= 0, len(data.users))
        check_members(len(members.users), _name(data), name, protocol)
        notes.extend(remarks_on(name, members.lost))
        place = np.zeros(len(data.users), dtype=np.int64)
        place[members.users] = np.arange(len(members.users))

        def matrix(mask: np.ndarray, weights: np.ndarray | None) -> sp.csr_array:
            mine = None if weights is None else weights[mask]
            return csr_from_pairs(place[rows[mask]], columns[mask], (len(members.users), len(items)), mine)

        history, target = matrix(members.history, group.weights), matrix(members.target, None)
        return HeldOut(history, target, data.users.take(members.users), protocol)

    train = _train(data, purposes, columns, items)
    groups = (purposes.validation, purposes.test)
    validation, test = (group(*each) for each in zip(GROUPS, groups, cut.protocols, strict=True))
    report = data.report or ReadReport("interactions", len(data))
    weights = train.weights
    train.report = replace(
        report,
        notes=(*report.notes, *notes, *remarks),
        mean_weight=None if weights is None else float(weights.mean(dtype=np.float64)),
    )
    return Split(train, validation, test, data)


def _train(data: Interactions, purposes: Purposes, columns: np.ndarray, items: np.ndarray) -> Interactions:
    """columns: (pairs,) positions among the items."""
    mask, weights = purposes.in_train, purposes.validation.weights
    users, rows = np.unique(data.pairs[0][mask], return_inverse=True)
    return Interactions.from_pairs(
        rows.astype(np.int32),
        columns[mask],
        data.users.take(users),
        data.items.take(items),
        None if data.table is None else data.table.take(pa.array(items)),
        None,
        None if weights is None else weights[mask],
        purposes.train.of(mask),
    )


def _timed(data: Interactions, by: str) -> Occurrences:
    """The events, which must have times."""
    if data.events is None or data.events.times is None:
        raise DataError(
            f"{_name(data)}: a split by {by} needs the times of events; read them with time='COLUMN'"
            " (--time-col COLUMN), or time=True if the column has a usual name"
        )
    return data.events


def _first_times(log: Occurrences) -> np.ndarray:
    times = log.first_times()
    assert times is not None
    return times


def _name(data: Interactions) -> str:
    return "interactions" if data.report is None else data.report.source


class Moments:
    """When interactions happened, in order, from arrays that are sorted and need not be in memory."""

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        """parts: microseconds, in order; only one of them is held at a time."""
        self._parts = parts
        ends = [(len(part), int(part[0]), int(part[-1])) for part in parts if len(part)]
        lengths, firsts, lasts = zip(*ends, strict=True)
        self._length, self.first, self.latest = sum(lengths), min(firsts), max(lasts)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> int:
        """The moment that as many others precede."""
        candidates = range(self.first, self.latest + 1)
        return candidates[bisect_left(candidates, place + 1, key=lambda moment: self.before(moment + 1))]

    def before(self, moment: int) -> int:
        """How many are earlier."""
        return sum(int(np.searchsorted(part, moment)) for part in self._parts)


def moments_of(times: Moments, at: Any, heldout: float = HELDOUT) -> TwoMoments:
    """T1 and T2, checked against the times there are; see `split_time`."""
    first, latest = times.first, times.latest
    span = f"the data are from {moment_text(first)} to {moment_text(latest)}"
    if at is None:
        check_share(heldout)
        count = len(times)
        start, end = (times[min(int((1 - part * heldout) * count), count - 1)] for part in (2, 1))
    else:
        *given, end = moments(at)
        _check_inside(end, first, latest, span)
        before = times.before(end)
        start = given[0] if given else times[before - min(len(times) - before, max(before // 2, 1))]
    _check_inside(end, first, latest, span)
    if start >= end:
        raise DataError(
            f"validation begins at {moment_text(start)} and the test at {moment_text(end)}; {span}:"
            " give two moments, the earlier one first"
        )
    _check_inside(start, first, latest, span)
    return TwoMoments(start, end)


def check_share(heldout: float) -> None:
    """An error if this is no share of the interactions for each of validation and test."""
    if not 0 < heldout < 0.5:
        raise DataError(
            f"heldout is {heldout}; for a split by time, give a share of the interactions, between 0 and 0.5"
        )


def _check_inside(moment: int, first: int, latest: int, span: str) -> None:
    if moment <= first:
        raise DataError(f"nothing happened before {moment_text(moment)}; {span}, choose a moment in between")
    if moment > latest:
        raise DataError(f"nothing happened from {moment_text(moment)} on; {span}, choose a moment in between")


def _places_from_end(rows: np.ndarray, times: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(pairs,) 0 for the last interaction of its user, 1 for the one before, …"""
    order = np.lexsort((times, rows))
    ends = np.cumsum(counts)
    from_end = np.empty(len(rows), dtype=np.int64)
    from_end[order] = ends[rows[order]] - 1 - np.arange(len(rows))
    return from_end


def _until(log: Occurrences, times: np.ndarray, rows: np.ndarray, is_later: np.ndarray) -> Occurrences:
    """The events of what stays in the histories, from before the user's first interaction that does not.

    The first event of an interaction always stays, as it may share its time with the next one.
    """
    assert log.times is not None
    limit = np.full(int(rows.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(limit, rows[is_later], times[is_later])
    is_before = (log.times < limit[rows[log.pair]]) | (log.times == times[log.pair])
    return log.only(is_before & ~is_later[log.pair])
