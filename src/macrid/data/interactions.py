"""Interactions, users × items: read and checked, with the caller's ids; each counts once, unless weighted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.tables import (
    RESERVED_COLUMNS,
    FrameKind,
    free_names,
    to_frame,
)
from macrid.data.weighing import Occurrences, Weighing
from macrid.errors import DataError

if TYPE_CHECKING:
    from macrid.data.split import Split


MANY = 1 << 24  # interactions from which memory is saved where possible
HELDOUT = 0.1


@dataclass(frozen=True)
class ReadReport:
    """What was read, guessed and dropped: every row is an interaction, or counted among the dropped ones."""

    source: str
    rows: int
    user_column: str | None = None
    item_column: str | None = None
    rating_column: str | None = None
    guessed: tuple[str, ...] = ()
    min_rating: float | None = None
    below_min_rating: int = 0
    duplicates: int = 0
    dropped_users: int = 0
    dropped_rows: int = 0
    """Of these users."""
    encoding: str | None = None
    """Of a text file."""
    notes: tuple[str, ...] = ()
    """Whatever else a reader should know, such as renamed columns."""
    time_column: str | None = None
    weight_column: str | None = None
    event_column: str | None = None
    half_life: float | None = None
    """In days."""
    zero_weights: int = 0
    """Rows dropped because they weigh nothing."""
    mean_weight: float | None = None
    """Of the interactions, if they are weighted."""

    def __post_init__(self) -> None:
        for name in ("guessed", "notes"):  # lists where a report comes from JSON
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __str__(self) -> str:
        lines = [f"{self.source}: {_counted(self.rows, 'row')}"]
        if self.guessed:
            lines.append("guessed " + ", ".join(self.guessed))
        if self.below_min_rating:
            lines.append(f"dropped {_counted(self.below_min_rating, 'row')} below the rating threshold")
        if self.zero_weights:
            lines.append(f"dropped {_counted(self.zero_weights, 'row')} of weight 0")
        if self.duplicates and (self.time_column or self.mean_weight is not None):
            lines.append(
                f"merged {_counted(self.duplicates, 'repeated event')} (the highest weight and the earliest time count)"
            )
        elif self.duplicates:
            lines.append(f"dropped {_counted(self.duplicates, 'duplicate')}")
        if self.dropped_users:
            rows = f", {_counted(self.dropped_rows, 'row')}" if self.dropped_rows else ""
            lines.append(f"dropped {_counted(self.dropped_users, 'user')} with too few items{rows}")
        if self.mean_weight is not None:
            recency = (
                "" if self.half_life is None else f", half-life {self.half_life:g} day{'s' * (self.half_life != 1)}"
            )
            lines.append(f"mean weight {self.mean_weight:.3g}{recency}")
        return "; ".join([*lines, *self.notes])


class Interactions:
    """Users × items, sparse.

    `pairs` holds the user and item position of every interaction in the order read; `matrix` is the same as CSR, whose
    values are the weights of the interactions: 1, unless they were read with weights or a half-life.
    `users` and `items` map positions to ids. `table`, if any, has one row per item: title and attributes. A column
    whose name is empty, repeated or reserved ("id", "popularity") gets another one.
    """

    def __init__(
        self,
        matrix: sp.csr_array,
        users: Ids,
        items: Ids,
        table: pa.Table | None = None,
        report: ReadReport | None = None,
        pairs: tuple[np.ndarray, np.ndarray] | None = None,
        weights: np.ndarray | None = None,
        events: Occurrences | None = None,
    ) -> None:
        if matrix.shape != (len(users), len(items)):
            raise DataError(f"the matrix is {matrix.shape}, but there are {len(users)} users and {len(items)} items")
        if table is not None and table.num_rows != len(items):
            raise DataError(f"the items table has {table.num_rows} rows for {len(items)} items")
        self.matrix = matrix
        self.users = users
        self.items = items
        self.table = None if table is None else table.rename_columns(free_names(table.column_names, RESERVED_COLUMNS))
        self.report = report
        self.events = events
        """Of the interactions, if read with times or weights."""
        if pairs is None and are_weighted(matrix):
            weights = matrix.data
        self._pairs, self._weights = pairs, weights

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        rating: str | int | None = None,
        min_rating: float | None = None,
        min_items: int = 5,
        items: Any = None,
        encoding: str | None = None,
        time: str | int | bool | None = None,
        weight: str | int | None = None,
        weights: Mapping[str, float] | None = None,
        event: str | int | None = None,
        half_life: float | None = None,
    ) -> Interactions:
        """Read interactions from a file, a frame or a scipy CSR.

        source: a path to CSV, TSV, Parquet or a MovieLens '::' file; a pandas or polars frame; a scipy CSR.
        user, item, rating: column names; common names are guessed (see `report.guessed`). Column numbers, from 0,
            mean a text file without a header.
        min_rating: keep ratings at or above it; by default every row is an interaction, and the report says so if
            there are ratings.
        min_items: keep users with at least this many distinct items.
        items: a table, from any such source, with one row per item: id, title, any attributes.
        encoding: of text files; by default decided for each by its content (see `report.notes`).
        time: the column with the times of events, which `split(by="time")` needs; True to find it by its name.
        weight: a column with the weight of each event. weights: by kind of event, {"view": 1, "cart": 3}, where
            `event` is the column with the kind, by default found by its name. With both, they are multiplied. An
            event of weight 0 is dropped; an interaction weighs as much as its heaviest event.
        half_life: days in which an event loses half its weight.
        """
        from macrid.data.reading import clean_events, read_events

        if min_items < 1:
            raise DataError(f"min_items is {min_items}; it must be at least 1")
        if min_rating is not None and not math.isfinite(min_rating):
            raise DataError(f"min_rating is {min_rating}; it must be a finite number")
        weighing = Weighing(time, weight, event, weights, half_life)
        columns: dict[str, Any] = {"user": user, "item": item, "rating": rating, "weighing": weighing}
        events = read_events(source, **columns, rated=min_rating is not None, encoding=encoding)
        events = events.unrated() if min_rating is None else events.at_least(min_rating)
        events = events.of_some_weight()
        return clean_events(*events[:5], min_items=min_items, items=items, encoding=encoding, measured=events.measured)

    @classmethod
    def from_pairs(
        cls,
        rows: np.ndarray,
        columns: np.ndarray,
        users: Ids,
        items: Ids,
        table: pa.Table | None = None,
        report: ReadReport | None = None,
        weights: np.ndarray | None = None,
        events: Occurrences | None = None,
    ) -> Interactions:
        """From the user and item position of each interaction; pairs must be distinct."""
        matrix = csr_from_pairs(rows, columns, (len(users), len(items)), weights)
        return cls(matrix, users, items, table, report, (rows, columns), weights, events)

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """User and item position of every interaction, in the order read (matrix order if read from a store)."""
        if self._pairs is None:
            rows = np.repeat(np.arange(len(self.users), dtype=np.int32), np.diff(self.matrix.indptr))
            self._pairs = rows, np.asarray(self.matrix.indices)
        return self._pairs

    @property
    def weights(self) -> np.ndarray | None:
        """The weight of every interaction, in the order of `pairs`; None if all are 1."""
        return self._weights

    @property
    def times(self) -> np.ndarray | None:
        """Epoch seconds of each interaction's first event, in the order of `pairs`; None if they were not read."""
        return None if self.events is None else self.events.seconds()

    @property
    def popularity(self) -> np.ndarray:
        """Number of users per item."""
        counts = np.zeros(len(self.items), dtype=np.int64)
        for part in _slices(self.matrix.indices):  # numpy counts copies of eight bytes each
            counts += np.bincount(part, minlength=len(self.items))
        return counts

    def __len__(self) -> int:
        return int(self.matrix.nnz)

    def __repr__(self) -> str:
        return f"Interactions({len(self.users):,} users, {len(self.items):,} items, {len(self):,} interactions)"

    def to_frame(self, as_: FrameKind = "arrow") -> Any:
        """One row per interaction, in the order of `pairs`: user, item and, where there are any, weight and time.

        as_: "arrow" for a `pyarrow.Table`, "pandas" or "polars".
        """
        rows, columns = self.pairs
        frame = {"user": self.users.array.take(pa.array(rows)), "item": self.items.array.take(pa.array(columns))}
        more = {"weight": self.weights, "time": self.times}
        frame |= {name: pa.array(values) for name, values in more.items() if values is not None}
        return to_frame(pa.table(frame), as_)

    def split(
        self,
        heldout: int | float | None = None,
        seed: int = 98765,
        *,
        by: Literal["users", "stable", "time", "last"] = "users",
        at: Any = None,
        last: int | None = None,
    ) -> Split:
        """Divide into train, validation and test; see `macrid.data.split` and `macrid.data.temporal`.

        by: "users" holds out `heldout` users each for validation and test (below 1, a share of them; default 0.1; 0:
            nobody). "stable" chooses them by their ids alone: the same users every night, whoever joins or leaves.
            "time" trains on what came before a moment and predicts what came after: `at` is the moment of the test, or
            a pair with that of the validation first; by default, each has the share `heldout` of the interactions.
            "last" predicts the last items of each user: `last` of them for the test, as many before for validation.
        """
        from macrid.data.split import split_users
        from macrid.data.temporal import split_last, split_time

        check_split(heldout, by, at, last)
        if by == "last":
            return split_last(self, 1 if last is None else last)
        share = HELDOUT if heldout is None else heldout
        return split_time(self, at, share) if by == "time" else split_users(self, share, seed, stable=by == "stable")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def check_split(heldout: int | float | None, by: str, at: Any, last: int | None) -> None:
    """A `DataError` if these do not go together; see `Interactions.split`."""
    if by not in ("users", "stable", "time", "last"):
        raise DataError(f"by is {by!r}; choose users, stable, time or last")
    if at is not None and by != "time":
        raise DataError(f"at is {at!r}, but the split is by {by}; choose by='time' (--split time)")
    if last is not None and by != "last":
        raise DataError(f"last is {last}, but the split is by {by}; choose by='last' (--split last)")
    if heldout is not None and by == "last":
        raise DataError(f"heldout is {heldout}, but the split is by last; give the number of items with last")


def are_weighted(matrix: sp.csr_array) -> bool:
    """Whether some interactions weigh more than others."""
    if not len(matrix.data) or matrix.data.strides == (0,):  # one number for all
        return False
    first = matrix.data[0]
    return any(np.any(part != first) for part in _slices(matrix.data))


def csr_from_pairs(
    rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None = None
) -> sp.csr_array:
    """CSR that keeps the order of the pairs within each row; binary without weights."""
    order = stable_order(rows) if np.any(rows[1:] < rows[:-1]) else slice(None)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
    ordered = None if weights is None else weights[order]
    return binary_csr(indptr, columns[order].astype(np.int32, copy=False), shape, ordered)


def stable_order(codes: np.ndarray) -> np.ndarray:
    """`np.argsort(codes, kind="stable")` for non-negative int32, three times as fast: numpy radix-sorts 16 bits."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    if codes.max() >> 16:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def binary_csr(
    indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None = None
) -> sp.csr_array:
    """CSR of ones, or of weights, from its index arrays, without copying the indices if possible."""
    kind = np.int32 if max(len(indices), *shape) < 2**31 else np.int64  # scipy requires the same type for both
    matrix = sp.csr_array(shape, dtype=np.float32)
    matrix.indptr, matrix.indices = indptr.astype(kind, copy=False), indices.astype(kind, copy=False)
    matrix.data = ones(len(indices)) if weights is None else weights.astype(np.float32, copy=False)
    return matrix


def ones(count: int) -> np.ndarray:
    """Float32; many of them are the same number in memory, which cannot be changed."""
    return np.ones(count, np.float32) if count < MANY else np.broadcast_to(np.float32(1), (count,))


def _slices(array: np.ndarray) -> Iterator[np.ndarray]:
    return (array[start : start + MANY] for start in range(0, len(array), MANY))
