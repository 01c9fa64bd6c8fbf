"""When events happened and how much each counts: the columns to read, and the weights that follow from them.

An interaction weighs as much as the heaviest of its events. With a half-life, an event loses half its weight in that
many days; its age is counted from a moment that depends on what is trained on, so times and weights of events are kept
until the data are split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.columns import shown
from macrid.data.tables import EVENT_NAMES, TIME_NAMES, Table
from macrid.data.times import DAY, SECOND, read_times, rows_text
from macrid.errors import DataError

OLDEST = 20  # half-lives after which an event loses no more weight: a history of old events still is one
SMALLEST = float(np.finfo(np.float32).tiny)
LISTED = 10
EARLIEST = int(np.iinfo(np.int64).min)  # before all moments


@dataclass(frozen=True)
class Weighing:
    """Which columns to read of events besides user, item and rating, and how to weigh the events.

    time: a column, or True to find it by its name. weight, event: columns. weights: of each kind of event.
    half_life: in days.
    """

    time: str | int | bool | None = None
    weight: str | int | None = None
    event: str | int | None = None
    weights: Mapping[str, float] | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        if self.half_life is not None and not (math.isfinite(self.half_life) and self.half_life > 0):
            raise DataError(f"half_life is {self.half_life}; give a number of days above 0")
        if self.event is not None and self.weights is None:
            raise DataError(f"event is {self.event!r}, but no kind has a weight; give weights such as view=1,cart=3")
        if self.weights is not None:
            if not isinstance(self.weights, Mapping) or not self.weights:
                raise DataError(f"weights is {shown(self.weights)}; give each kind of event one, such as view=1,cart=3")
            for kind, weight in self.weights.items():
                is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
                if not is_number or not (math.isfinite(weight) and weight >= 0):
                    raise DataError(f"the weight of {kind!r} is {shown(weight)}; give a finite number, 0 or more")

    @property
    def columns(self) -> tuple[Any, ...]:
        """Those that were named or numbered."""
        return tuple(None if isinstance(name, bool) else name for name in (self.time, self.weight, self.event))

    @property
    def is_empty(self) -> bool:
        return self == Weighing() or (self.time is False and replace(self, time=None) == Weighing())

    def find(self, table: Table) -> dict[str, str]:
        """The columns to read, by role."""
        time, weight, event = self.columns
        found = {}
        if time is not None or self.time is True or self.half_life is not None:
            found["time"] = table.find(time, TIME_NAMES, "time")
        if weight is not None:
            found["weight"] = table.find(weight, (), "weight")
        if self.weights is not None:
            found["event"] = table.find(event, EVENT_NAMES, "event")
        return found

    def read(self, table: Table, columns: pa.Table, found: dict[str, str]) -> Measured:
        """Times and weights of every row."""
        times, weights, notes = None, None, []
        if "time" in found:
            where = f"{table.name}, column '{found['time']}'"
            times, note = read_times(columns.column(found["time"]), where, table.place)
            notes.append(note)
        if "weight" in found:
            weights = _weights(table, columns, found["weight"])
        if "event" in found:
            assert self.weights is not None
            of_kinds, unused = _weights_of_kinds(table, columns, found["event"], self.weights)
            weights = of_kinds if weights is None else weights * of_kinds
            notes += [f"no event is a {kind!r}" for kind in unused]
        return Measured(times, weights, tuple(notes))


@dataclass(frozen=True)
class Measured:
    """Of every row, where asked for: microseconds (int64) and weights (float64)."""

    times: np.ndarray | None = None
    weights: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, keep: np.ndarray) -> Measured:
        times, weights = (None if part is None else part[keep] for part in (self.times, self.weights))
        return replace(self, times=times, weights=weights)


def _weights(table: Table, columns: pa.Table, name: str) -> np.ndarray:
    weights = table.read_numbers(columns, name).astype(np.float64)
    where = f"{table.name}, column '{name}'"
    if (negative := np.flatnonzero(weights < 0)).size:
        raise DataError(
            f"{where}: {table.place(int(negative[0]))} is {weights[negative[0]]:g} ({len(negative):,} such"
            f" row{'s' * (len(negative) > 1)}); a weight is 0 or more, where 0 drops the event"
        )
    if (large := np.flatnonzero(weights > np.finfo(np.float32).max)).size:
        raise DataError(f"{where}: {table.place(int(large[0]))} is {weights[large[0]]:g}, which is too large a weight")
    return weights


def _weights_of_kinds(
    table: Table, columns: pa.Table, name: str, weights: Mapping[str, float]
) -> tuple[np.ndarray, list[str]]:
    """Of every row, by its kind of event; and the kinds that no row has."""
    where = f"{table.name}, column '{name}'"
    try:
        kinds = columns.column(name).cast(pa.string()).dictionary_encode().combine_chunks()
    except pa.ArrowException as error:
        raise DataError(f"{where}: kinds of events have type {columns.column(name).type}; use strings") from error
    missing = np.flatnonzero(pc.fill_null(pc.equal(kinds.cast(pa.string()), ""), True).to_numpy(zero_copy_only=False))
    if missing.size:
        raise DataError(
            f"{where}: {rows_text(missing, table.place)} {'has' if len(missing) == 1 else 'have'} no kind of event;"
            " drop these rows or fill in the kinds"
        )
    codes, names = kinds.indices.to_numpy(), kinds.dictionary.to_pylist()
    known = {str(kind): float(weight) for kind, weight in weights.items()}
    counts = np.bincount(codes, minlength=len(names))
    if unknown := {kind: int(counts[code]) for code, kind in enumerate(names) if kind not in known}:
        listed = ", ".join(
            f"{shown(kind)} ({count:,} row{'s' * (count > 1)})" for kind, count in list(unknown.items())[:LISTED]
        )
        more = f" and {len(unknown) - LISTED:,} more kinds" if len(unknown) > LISTED else ""
        raise DataError(f"{where}: no weight for {listed}{more}; give each one, or 0 to drop its events")
    return np.array([known[kind] for kind in names])[codes], [kind for kind in known if kind not in names]


@dataclass(frozen=True)
class Occurrences:
    """The events behind interactions: which interaction each belongs to, when it happened and what it weighs."""

    pair: np.ndarray
    """(events,) the interaction's place in `Interactions.pairs`"""
    pairs: int
    times: np.ndarray | None
    """(events,) microseconds since 1970, int64"""
    weights: np.ndarray | None
    """(events,) without recency"""
    half_life: float | None = None
    """In days."""

    @property
    def are_weighted(self) -> bool:
        return self.weights is not None or self.half_life is not None

    def first_times(self) -> np.ndarray | None:
        """(pairs,) microseconds of each interaction's earliest event."""
        if self.times is None:
            return None
        first = np.full(self.pairs, np.iinfo(np.int64).max)
        np.minimum.at(first, self.pair, self.times)
        return first

    def pair_weights(self, now: int | None = None) -> np.ndarray | None:
        """(pairs,) the weight of each interaction's heaviest event, float32; None if nothing is weighted.

        now: the moment from which age is counted, by default the latest event.
        """
        if not self.are_weighted:
            return None
        weights = np.ones(len(self.pair)) if self.weights is None else self.weights
        if self.half_life is not None:
            assert self.times is not None
            weights = aged(weights, self.times, self.latest() if now is None else now, self.half_life)
        heaviest = np.full(self.pairs, SMALLEST)
        np.maximum.at(heaviest, self.pair, weights)
        return heaviest.astype(np.float32)

    def latest(self) -> int:
        """The moment of the last event; EARLIEST if there are none."""
        assert self.times is not None
        return int(self.times.max(initial=EARLIEST))

    def of(self, keep: np.ndarray) -> Occurrences:
        """Of some interactions, by a mask (pairs,)."""
        mine = self.only(keep[self.pair])
        return replace(mine, pair=(np.cumsum(keep) - 1)[mine.pair], pairs=int(keep.sum()))

    def only(self, keep: np.ndarray) -> Occurrences:
        """With some of the events, by a mask (events,)."""
        times, weights = (None if part is None else part[keep] for part in (self.times, self.weights))
        return replace(self, pair=self.pair[keep], times=times, weights=weights)

    def seconds(self) -> np.ndarray | None:
        """(pairs,) epoch seconds of each interaction's earliest event."""
        first = self.first_times()
        return None if first is None else first // SECOND


def aged(weights: np.ndarray, times: np.ndarray, now: int, half_life: float) -> np.ndarray:
    """What events weigh at a moment, by their weights when they happened."""
    ages = np.maximum(now - times, 0) / (half_life * DAY)
    return np.asarray(weights * 0.5 ** np.minimum(ages, OLDEST))


def occurrences_of(
    keys: np.ndarray, measured: Measured, half_life: float | None, has_repeats: bool
) -> Occurrences | None:
    """Of events whose keys say which belong together; interactions are in the order of their first rows."""
    if measured.times is None and measured.weights is None:
        return None
    if not has_repeats:
        return Occurrences(np.arange(len(keys)), len(keys), measured.times, measured.weights, half_life)
    pair, first = distinct(keys)
    return Occurrences(pair, len(first), measured.times, measured.weights, half_life)


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which distinct key each one is, numbered in the order of their first rows; and these rows, ascending."""
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(first), dtype=np.int64)
    place[order] = np.arange(len(first))
    return place[groups], first[order]
