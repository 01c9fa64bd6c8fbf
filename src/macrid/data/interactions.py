"""Interactions, users × items: read, checked and binarised, with the caller's ids."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.tables import (
    ITEM_NAMES,
    RATING_NAMES,
    RESERVED_COLUMNS,
    USER_NAMES,
    free_names,
    open_table,
    read_items,
)
from macrid.errors import DataError

if TYPE_CHECKING:
    from macrid.data.split import Split


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

    def __post_init__(self) -> None:
        for name in ("guessed", "notes"):  # lists where a report comes from JSON
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.rows:,} rows"]
        if self.guessed:
            lines.append("guessed " + ", ".join(self.guessed))
        if self.below_min_rating:
            lines.append(f"dropped {self.below_min_rating:,} rows below the rating threshold")
        if self.duplicates:
            lines.append(f"dropped {self.duplicates:,} duplicates")
        if self.dropped_users:
            rows = f", {self.dropped_rows:,} rows" if self.dropped_rows else ""
            lines.append(f"dropped {self.dropped_users:,} users with too few items{rows}")
        return "; ".join([*lines, *self.notes])


class Interactions:
    """Users × items, binary and sparse.

    `pairs` holds the user and item position of every interaction in the order read; `matrix` is the same as CSR.
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
        self._pairs = pairs

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
    ) -> Interactions:
        """Read interactions from a file, a frame or a scipy CSR.

        source: a path to CSV, TSV, Parquet or a MovieLens '::' file; a pandas or polars frame; a scipy CSR.
        user, item, rating: column names; common names are guessed (see `report.guessed`). Column numbers, from 0,
            mean a text file without a header.
        min_rating: keep ratings at or above it; by default every row is an interaction.
        min_items: keep users with at least this many distinct items.
        items: a table, from any such source, with one row per item: id, title, any attributes.
        encoding: of text files; by default decided for each by its content (see `report.notes`).
        """
        if min_items < 1:
            raise DataError(f"min_items is {min_items}; it must be at least 1")
        if min_rating is not None and not math.isfinite(min_rating):
            raise DataError(f"min_rating is {min_rating}; it must be a finite number")
        columns: dict[str, Any] = {"user": user, "item": item, "rating": rating}
        events = read_events(source, **columns, rated=min_rating is not None, encoding=encoding)
        events = events if min_rating is None else events.at_least(min_rating)
        return clean_events(*events[:5], min_items=min_items, items=items, encoding=encoding)

    @classmethod
    def from_pairs(
        cls,
        rows: np.ndarray,
        columns: np.ndarray,
        users: Ids,
        items: Ids,
        table: pa.Table | None = None,
        report: ReadReport | None = None,
    ) -> Interactions:
        """From the user and item position of each interaction; pairs must be distinct."""
        matrix = csr_from_pairs(rows, columns, (len(users), len(items)))
        return cls(matrix, users, items, table, report, (rows, columns))

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """User and item position of every interaction, in the order read (matrix order if read from a store)."""
        if self._pairs is None:
            rows = np.repeat(np.arange(len(self.users), dtype=np.int32), np.diff(self.matrix.indptr))
            self._pairs = rows, np.asarray(self.matrix.indices)
        return self._pairs

    @property
    def popularity(self) -> np.ndarray:
        """Number of users per item."""
        return np.bincount(self.matrix.indices, minlength=len(self.items))

    def __len__(self) -> int:
        return int(self.matrix.nnz)

    def __repr__(self) -> str:
        return f"Interactions({len(self.users):,} users, {len(self.items):,} items, {len(self):,} interactions)"

    def split(self, heldout: int | float, seed: int = 98765) -> Split:
        """Hold out `heldout` users each for validation and test; see `macrid.data.split`."""
        from macrid.data.split import split_users

        return split_users(self, heldout, seed)


def csr_from_pairs(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """Binary CSR that keeps the order of the pairs within each row."""
    order = _stable_order(rows) if np.any(rows[1:] < rows[:-1]) else slice(None)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
    return binary_csr(indptr, columns[order].astype(np.int32, copy=False), shape)


def _stable_order(codes: np.ndarray) -> np.ndarray:
    """`np.argsort(codes, kind="stable")` for non-negative int32, three times as fast: numpy radix-sorts 16 bits."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    if codes.max() >> 16:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def binary_csr(indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """CSR of ones from its index arrays, without copying the indices if possible."""
    kind = np.int32 if max(len(indices), *shape) < 2**31 else np.int64  # scipy requires the same type for both
    matrix = sp.csr_array(shape, dtype=np.float32)
    matrix.indptr, matrix.indices = indptr.astype(kind, copy=False), indices.astype(kind, copy=False)
    matrix.data = np.ones(len(indices), dtype=np.float32)
    return matrix


class Events(NamedTuple):
    """Rows as they were read: one user position and one item position each."""

    rows: np.ndarray
    columns: np.ndarray
    users: Ids
    items: Ids
    report: ReadReport
    ratings: np.ndarray | None = None
    """Of every row, if they were asked for."""
    has_ratings: bool = False
    """Whether the source has any, read or not."""

    def at_least(self, min_rating: float) -> Events:
        """Events rated at least this high."""
        assert self.ratings is not None
        keep = self.ratings >= min_rating
        if not keep.any():
            raise DataError(
                f"{self.report.source}: all {len(keep):,} ratings are below min_rating {min_rating:g};"
                f" the highest is {self.ratings.max():g}; lower the threshold"
            )
        report = replace(self.report, min_rating=min_rating, below_min_rating=int((~keep).sum()))
        return Events(self.rows[keep], self.columns[keep], self.users, self.items, report, has_ratings=True)


def read_events(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    rated: bool = False,
    ratings_required: bool = True,
    encoding: str | None = None,
) -> Events:
    """All rows of a file, a frame or a scipy CSR; see `Interactions.read`.

    rated: with their ratings. ratings_required: it is an error if there are none.
    """
    if sp.issparse(source):
        return _from_csr(source, rated)
    numbered = any(isinstance(column, int) for column in (user, item, rating))
    table = open_table(source, header=not numbered, encoding=encoding)
    user_column = table.find(user, USER_NAMES, "user")
    item_column = table.find(item, ITEM_NAMES, "item")
    rating_column = table.guess(RATING_NAMES)
    if rating is not None or (rated and (ratings_required or rating_column is not None)):
        rating_column = table.find(rating, RATING_NAMES, "rating")
    if user_column == item_column:
        raise DataError(f"{table.name}: column '{user_column}' cannot be both user and item")
    has_ratings = rating_column is not None
    if not rated:
        rating_column = None
    wanted = [column for column in (user_column, item_column, rating_column) if column is not None]
    columns = table.read(wanted, text=wanted)  # Arrow would also take 0x10 for a number
    if columns.num_rows == 0:
        raise DataError(f"{table.name}: no rows")
    rows, users = table.read_ids(columns, user_column)
    cols, items = table.read_ids(columns, item_column)
    roles = (("user", user, user_column), ("item", item, item_column), ("rating", rating, rating_column))
    guessed = tuple(f"{role} = '{column}'" for role, name, column in roles if name is None and column is not None)
    chosen = user_column, item_column, rating_column
    report = ReadReport(
        table.name, len(rows), *chosen, guessed, encoding=table.encoding, notes=(table.note,) if table.note else ()
    )
    ratings = None if rating_column is None else table.read_numbers(columns, rating_column)
    return Events(rows, cols, users, items, report, ratings, has_ratings)


def _from_csr(source: Any, rated: bool) -> Events:
    if max(source.shape) >= 2**31:
        raise DataError(
            f"the matrix is {source.shape[0]:,} × {source.shape[1]:,}; at most 2^31 − 1 of each are possible"
        )
    matrix = source.tocoo()
    rows, cols = matrix.coords
    report = ReadReport(source="matrix", rows=int(matrix.nnz))
    if not np.all(np.isfinite(matrix.data)):
        raise DataError("the matrix contains NaN or infinite values; every value must be finite")
    stored = matrix.data != 0
    rows, cols, values = rows[stored], cols[stored], matrix.data[stored]
    if len(rows) == 0:
        raise DataError("the matrix is empty; it has no interactions")
    users, items = (Ids.range(count) for count in matrix.shape)
    return Events(rows.astype(np.int32), cols.astype(np.int32), users, items, report, values if rated else None, True)


def clean_events(
    rows: np.ndarray,
    cols: np.ndarray,
    users: Ids,
    item_ids: Ids,
    report: ReadReport,
    *,
    min_items: int,
    items: Any,
    encoding: str | None = None,
) -> Interactions:
    """Interactions from events (a user and an item position each), without duplicates, users with too few items, and
    unused ids."""
    repeated = _repeated(rows.astype(np.int64) * len(item_ids) + cols)
    if repeated.size:
        keep = np.ones(len(rows), dtype=bool)
        keep[repeated] = False
        rows, cols = rows[keep], cols[keep]
    counts = np.bincount(rows, minlength=len(users))
    enough = counts >= min_items
    if not enough.any():
        raise DataError(
            f"{report.source}: no user has {min_items} items; the longest history has {counts.max()}, lower min_items"
        )
    dropped, dropped_rows = int(np.count_nonzero((counts > 0) & ~enough)), int(counts[~enough].sum())
    if dropped:
        keep = enough[rows]
        rows, cols = rows[keep], cols[keep]
    rows, users = _compact(rows, users)
    cols, item_ids = _compact(cols, item_ids)
    table, notes = (None, ()) if items is None else join_items(item_ids, items, report.item_column, encoding)
    report = replace(
        report,
        duplicates=len(repeated),
        dropped_users=dropped,
        dropped_rows=dropped_rows,
        notes=(*report.notes, *notes),
    )
    return Interactions.from_pairs(rows, cols, users, item_ids, table, report)


def _repeated(keys: np.ndarray) -> np.ndarray:
    """Positions of keys that occurred earlier."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return order[1:][ordered[1:] == ordered[:-1]]


def _compact(codes: np.ndarray, ids: Ids) -> tuple[np.ndarray, Ids]:
    """Renumber, dropping unused ids."""
    used = np.bincount(codes, minlength=len(ids)) > 0
    if used.all():
        return codes, ids
    number = np.cumsum(used, dtype=np.int32) - 1
    return number[codes], ids.take(np.flatnonzero(used))


def join_items(
    item_ids: Ids, source: Any, same_column: str | None = None, encoding: str | None = None
) -> tuple[pa.Table | None, tuple[str, ...]]:
    """An items table in the order of `item_ids`, nulls for unknown items, and notes on it; None if it has only ids."""
    known, columns, notes = read_items(source, same_column, encoding)
    if columns.num_columns == 0:
        return None, notes
    if known.are_integers != item_ids.are_integers:
        known = Ids(known.array.cast(pa.string()))
        item_ids = Ids(item_ids.array.cast(pa.string()))
    positions = known.positions(item_ids)
    unknown = int((positions < 0).sum())
    if unknown == len(item_ids):
        raise DataError(
            f"none of the {len(item_ids):,} items in the events is in the items table; ids such as"
            f" {', '.join(map(repr, item_ids[:3]))} against {', '.join(map(repr, known[:3]))} in the items table"
        )
    if unknown:
        notes = (*notes, f"{unknown:,} of {len(item_ids):,} items are not in the items table")
    return columns.take(pa.array(positions, mask=positions < 0)), notes
