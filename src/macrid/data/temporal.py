"""Splits by time: what came before a moment and what came after it, or the last items of each user.

Users are trained on and scored: train, validation and test hold the same people at different times. An interaction
happened when its first event did. Nothing from the moment of a split on has an influence on what is trained on before
it, weights included. The items are those of the train data, in order of first appearance; others cannot be predicted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.interactions import Interactions, ReadReport, csr_from_pairs
from macrid.data.split import HeldOut, Split
from macrid.data.times import moment_text, moments
from macrid.data.weighing import Occurrences
from macrid.errors import DataError


def split_time(data: Interactions, at: Any = None, heldout: float = 0.1) -> Split:
    """Train on what came before T1; predict what came first in [T1, T2) from what came before T1 (validation), and what
    came first from T2 on from all that came before T2 (test).

    at: T2, or the pair (T1, T2). With T2 alone, as many interactions are between T1 and T2 as from T2 on, which makes
        the two scores about equally certain, but at most half of those before T2.
    heldout: without `at`, the share of the interactions between T1 and T2, and from T2 on.
    """
    log, times = _timed(data, "time")
    assert log.times is not None
    start, end = _moments(times, at, heldout)
    parts = _Parts(data, times < start)
    earlier = log.only(log.times < start)
    weights = earlier.pair_weights(start)
    train = parts.train(weights, earlier)
    later, before_test = (times >= start) & (times < end), log.only(log.times < end).pair_weights(end)
    until = f"before and after {moment_text(start)}, until {moment_text(end)}"
    validation = parts.group("validation", times < start, later, weights, until)
    test = parts.group("test", times < end, times >= end, before_test, f"before and after {moment_text(end)}")
    return parts.split(train, validation, test)


def split_last(data: Interactions, last: int = 1) -> Split:
    """The last `last` items of each user are the test, as many before them the validation, the rest is trained on.

    Users with fewer than 2 · `last` + 1 items are only trained on. Ties in time are resolved by the order of rows.
    """
    if isinstance(last, bool) or not isinstance(last, int | np.integer) or last < 1:
        raise DataError(f"last is {last}; give a whole number of items, at least 1")
    log, times = _timed(data, "last")
    rows, _ = data.pairs
    counts = np.bincount(rows, minlength=len(data.users))
    from_end = _places_from_end(rows, times, counts)
    predicted = counts[rows] > 2 * last
    is_test, is_later = predicted & (from_end < last), predicted & (from_end < 2 * last)
    if not is_test.any():
        raise DataError(
            f"{_name(data)}: no user has the {2 * last + 1:,} items that a test on the last {last:,} takes;"
            f" the longest history has {counts.max():,}"
        )
    parts = _Parts(data, ~is_later)
    kept = _until(log, times, rows, is_later)
    weights = kept.pair_weights()
    train = parts.train(weights, kept)
    items = "item" if last == 1 else "items"
    before = f"{last} {items} before the last {last} of each user"
    validation = parts.group("validation", ~is_later, is_later & ~is_test, weights, before)
    weights = _until(log, times, rows, is_test).pair_weights()
    test = parts.group("test", predicted & ~is_test, is_test, weights, f"last {last} {items} of each user")
    if short := int(np.count_nonzero((counts > 0) & (counts <= 2 * last))):
        parts.notes.append(f"{short:,} users with fewer than {2 * last + 1} items are only trained on")
    return parts.split(train, validation, test)


class _Parts:
    """The parts of a split over the items of the train data, and notes on what they leave out."""

    def __init__(self, data: Interactions, in_train: np.ndarray) -> None:
        """in_train: (pairs,) what is trained on."""
        self.data, self.in_train = data, in_train
        rows, columns = data.pairs
        items, first_seen = np.unique(columns[in_train], return_index=True)
        self._items = items[np.argsort(first_seen)]
        number = np.full(len(data.items), -1, dtype=np.int32)
        number[self._items] = np.arange(len(items), dtype=np.int32)
        self._rows, self._columns = rows, number[columns]
        self.notes: list[str] = []

    def train(self, weights: np.ndarray | None, log: Occurrences) -> Interactions:
        """weights: (pairs,)"""
        users, rows = np.unique(self._rows[self.in_train], return_inverse=True)
        data = self.data
        return Interactions.from_pairs(
            rows.astype(np.int32),
            self._columns[self.in_train],
            data.users.take(users),
            data.items.take(self._items),
            None if data.table is None else data.table.take(pa.array(self._items)),
            None,
            None if weights is None else weights[self.in_train],
            log.of(self.in_train),
        )

    def group(
        self, name: str, in_history: np.ndarray, is_target: np.ndarray, weights: np.ndarray | None, protocol: str
    ) -> HeldOut:
        """The users who have both a history and something to predict, in known items. All arrays are (pairs,)."""
        is_known = self._columns >= 0
        in_history, hidden = in_history & is_known, is_target & is_known
        has_history, has_target = (
            np.bincount(self._rows[mask], minlength=len(self.data.users)) > 0 for mask in (in_history, hidden)
        )
        chosen = has_history & has_target
        unknown = int(np.count_nonzero(is_target & ~is_known))
        if unknown:
            self.notes.append(f"dropped {unknown:,} of {np.count_nonzero(is_target):,} {name} targets: unknown items")
        without = np.unique(self._rows[is_target & ~has_history[self._rows]])
        if len(without):
            self.notes.append(f"skipped {len(without):,} {name} users without a history")
        if not chosen.any():
            raise DataError(
                f"{_name(self.data)}: the {name} is empty, as nobody with a history before has a known item after"
                f" ({protocol}); choose another split"
            )
        place = np.cumsum(chosen) - 1
        shape = (int(chosen.sum()), len(self._items))

        def matrix(mask: np.ndarray, values: np.ndarray | None) -> sp.csr_array:
            mine = mask & chosen[self._rows]
            return csr_from_pairs(
                place[self._rows[mine]], self._columns[mine], shape, None if values is None else values[mine]
            )

        users = self.data.users.take(np.flatnonzero(chosen))
        return HeldOut(matrix(in_history, weights), matrix(hidden, None), users, protocol)

    def split(self, train: Interactions, validation: HeldOut, test: HeldOut) -> Split:
        report = self.data.report or ReadReport("interactions", len(self.data))
        weights = train.weights
        train.report = replace(
            report,
            notes=(*report.notes, *self.notes),
            mean_weight=None if weights is None else float(weights.mean(dtype=np.float64)),
        )
        return Split(train, validation, test, self.data)


def _timed(data: Interactions, by: str) -> tuple[Occurrences, np.ndarray]:
    """The events, and when each interaction happened, in microseconds."""
    times = None if data.events is None else data.events.first_times()
    if data.events is None or times is None:
        raise DataError(
            f"{_name(data)}: a split by {by} needs the times of events; read them with time='COLUMN'"
            " (--time-col COLUMN), or time=True if the column has a usual name"
        )
    return data.events, times


def _name(data: Interactions) -> str:
    return "interactions" if data.report is None else data.report.source


def _moments(times: np.ndarray, at: Any, heldout: float) -> tuple[int, int]:
    """T1 and T2, checked against the times there are."""
    ordered = np.sort(times)
    first, latest = int(ordered[0]), int(ordered[-1])
    span = f"the data are from {moment_text(first)} to {moment_text(latest)}"
    if at is None:
        if not 0 < heldout < 0.5:
            raise DataError(
                f"heldout is {heldout}; for a split by time, give a share of the interactions, between 0 and 0.5"
            )
        count = len(ordered)
        start, end = (int(ordered[min(int((1 - part * heldout) * count), count - 1)]) for part in (2, 1))
    else:
        *given, end = moments(at)
        _check_inside(end, first, latest, span)
        before = int(np.searchsorted(ordered, end))
        start = given[0] if given else int(ordered[before - min(len(ordered) - before, max(before // 2, 1))])
    _check_inside(end, first, latest, span)
    if start >= end:
        raise DataError(
            f"validation begins at {moment_text(start)} and the test at {moment_text(end)}; {span}:"
            " give two moments, the earlier one first"
        )
    _check_inside(start, first, latest, span)
    return start, end


def _check_inside(moment: int, first: int, latest: int, span: str) -> None:
    if moment <= first:
        raise DataError(f"nothing happened before {moment_text(moment)}; {span}, choose a moment in between")
    if moment > latest:
        raise DataError(f"nothing happened from {moment_text(moment)} on; {span}, choose a moment in between")


def _places_from_end(rows: np.ndarray, times: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(pairs,) 0 for the last interaction of its user, 1 for the one before, …"""
    order = np.lexsort((np.arange(len(rows)), times, rows))
    ends = np.cumsum(counts)
    from_end = np.empty(len(rows), dtype=np.int64)
    from_end[order] = ends[rows[order]] - 1 - np.arange(len(rows))
    return from_end


def _until(log: Occurrences, times: np.ndarray, rows: np.ndarray, is_later: np.ndarray) -> Occurrences:
    """The events of what stays in the histories, from before the user's first interaction that does not.

    The first event of an interaction always stays, as it may share its time with the next one.
    """
    assert log.times is not None
    limit = np.full(int(rows.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(limit, rows[is_later], times[is_later])
    is_before = (log.times < limit[rows[log.pair]]) | (log.times == times[log.pair])
    return log.only(is_before & ~is_later[log.pair])
