"""From a file, a frame or a matrix to events, and from events to interactions."""

from __future__ import annotations

from dataclasses import replace
from glob import has_magic
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport
from macrid.data.tables import ITEM_NAMES, RATING_NAMES, USER_NAMES, Table, open_table, read_items
from macrid.data.weighing import Measured, Weighing, occurrences_of
from macrid.errors import DataError


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
    measured: Measured = Measured()
    """Times and weights of every row, if they were asked for."""
    ignored_column: str | None = None
    """The column with ratings that were not read."""

    def unrated(self) -> Events:
        """All events; the report says if they had ratings."""
        if self.ignored_column is None:
            return self
        note = note_on_ignored(self.ignored_column)
        return self._replace(report=replace(self.report, notes=(*self.report.notes, note)))

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
        return self._replace(
            rows=self.rows[keep], columns=self.columns[keep], report=report, ratings=None, measured=self.measured[keep]
        )

    def of_some_weight(self) -> Events:
        """Without events of weight 0."""
        weights = self.measured.weights
        if weights is None or weights.all():
            return self
        keep = weights > 0
        if not keep.any():
            raise DataError(f"{self.report.source}: all {len(keep):,} events weigh 0; give some of them a weight")
        report = replace(self.report, zero_weights=int((~keep).sum()))
        ratings = None if self.ratings is None else self.ratings[keep]
        return self._replace(
            rows=self.rows[keep],
            columns=self.columns[keep],
            report=report,
            ratings=ratings,
            measured=self.measured[keep],
        )


def read_events(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    rated: bool = False,
    ratings_required: bool = True,
    encoding: str | None = None,
    weighing: Weighing = Weighing(),  # noqa: B008  (frozen)
) -> Events:
    """All rows of a file, a frame or a scipy CSR; see `Interactions.read`.

    rated: with their ratings. ratings_required: it is an error if there are none.
    """
    if sp.issparse(source):
        if not weighing.is_empty:
            raise DataError("a matrix has no columns of times or weights; pass a frame of events")
        return _from_csr(source, rated)
    if isinstance(source, str | PathLike) and _is_several(Path(source)):
        what = "folder" if Path(source).is_dir() else "pattern"
        raise DataError(
            f"{source}: is a {what}; give one file or, in Python, a frame with the rows of all files"
            f" (`macrid data prepare` reads {what}s, and `macrid recommend` where --output is one)"
        )
    table = open_table(source, header=not is_numbered(user, item, rating, weighing), encoding=encoding)
    roles, ignored, has_ratings = find_columns(table, user, item, rating, rated, ratings_required, weighing)
    user_column, item_column, rating_column = (roles.get(role) for role in ("user", "item", "rating"))
    assert user_column is not None
    assert item_column is not None
    wanted = list(dict.fromkeys(roles.values()))
    columns = table.read(wanted, text=wanted)  # Arrow would also take 0x10 for a number
    if columns.num_rows == 0:
        raise DataError(f"{table.name}: no rows")
    rows, users = table.read_ids(columns, user_column)
    cols, items = table.read_ids(columns, item_column)
    ratings = None if rating_column is None else table.read_numbers(columns, rating_column)
    measured = weighing.read(table, columns, roles)
    guessed = guessed_columns(roles, user, item, rating, weighing)
    notes = (*((table.note,) if table.note else ()), *measured.notes)
    report = report_of(table, len(rows), roles, guessed, weighing, notes)
    return Events(rows, cols, users, items, report, ratings, has_ratings, measured, ignored)


def _is_several(path: Path) -> bool:
    return path.is_dir() or (has_magic(str(path)) and not path.exists())


class Columns(NamedTuple):
    """The columns of a table of events."""

    roles: dict[str, str]
    """By role: user, item and, where they are read, rating, time, weight and event."""
    ignored: str | None
    """The column with ratings that are not read."""
    has_ratings: bool


def find_columns(
    table: Table,
    user: str | int | None,
    item: str | int | None,
    rating: str | int | None,
    rated: bool,
    ratings_required: bool,
    weighing: Weighing,
) -> Columns:
    """The columns to read; see `read_events`."""
    user_column = table.find(user, USER_NAMES, "user")
    item_column = table.find(item, ITEM_NAMES, "item")
    rating_column = table.guess(RATING_NAMES)
    if rating is not None or (rated and (ratings_required or rating_column is not None)):
        rating_column = table.find(rating, RATING_NAMES, "rating")
    if user_column == item_column:
        raise DataError(f"{table.name}: column '{user_column}' cannot be both user and item")
    more = weighing.find(table)
    ignored = None if rated or rating_column in more.values() else rating_column
    roles = {"user": user_column, "item": item_column}
    if rated and rating_column is not None:
        roles["rating"] = rating_column
    return Columns(roles | more, ignored, rating_column is not None)


def is_numbered(user: str | int | None, item: str | int | None, rating: str | int | None, weighing: Weighing) -> bool:
    """Whether columns are given by their numbers, as of a file without a header."""
    return any(isinstance(column, int) for column in (user, item, rating, *weighing.columns))


def guessed_columns(
    roles: dict[str, str],
    user: str | int | None,
    item: str | int | None,
    rating: str | int | None,
    weighing: Weighing,
) -> tuple[str, ...]:
    """Those that were found by their names."""
    names = (user, item, rating, *weighing.columns)
    named = dict(zip(("user", "item", "rating", "time", "weight", "event"), names, strict=True))
    return tuple(f"{role} = '{column}'" for role, column in roles.items() if named[role] is None)


def report_of(
    table: Table, rows: int, roles: dict[str, str], guessed: tuple[str, ...], weighing: Weighing, notes: tuple[str, ...]
) -> ReadReport:
    """What was read from a table."""
    return ReadReport(
        table.name,
        rows,
        roles["user"],
        roles["item"],
        roles.get("rating"),
        guessed,
        encoding=table.encoding,
        notes=notes,
        time_column=roles.get("time"),
        weight_column=roles.get("weight"),
        event_column=roles.get("event"),
        half_life=weighing.half_life,
    )


def note_on_ignored(name: str) -> str:
    """What a report says about a column of ratings that was not read."""
    if name.lower() == "weight":
        return f"every row counts the same; ignored column '{name}': use it with --weight-col (weight= in Python)"
    return (
        f"every row counts; ratings in column '{name}' were ignored: to keep only high ones, give a threshold"
        " such as --min-rating 4 (min_rating=4 in Python)"
    )


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
    measured: Measured = Measured(),  # noqa: B008  (frozen)
) -> Interactions:
    """Interactions from events (a user and an item position each), without duplicates, users with too few items, and
    unused ids."""
    keys = rows.astype(np.int64) * len(item_ids) + cols
    repeated = _repeated(keys)
    log = occurrences_of(keys, measured, report.half_life, has_repeats=bool(repeated.size))
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
        log = None if log is None else log.of(keep)
    rows, users = _compact(rows, users)
    cols, item_ids = _compact(cols, item_ids)
    table, notes = (None, ()) if items is None else join_items(item_ids, items, report.item_column, encoding)
    weights = None if log is None else log.pair_weights()
    report = replace(
        report,
        duplicates=len(repeated),
        dropped_users=dropped,
        dropped_rows=dropped_rows,
        notes=(*report.notes, *notes),
        mean_weight=None if weights is None else float(weights.mean(dtype=np.float64)),
    )
    return Interactions.from_pairs(rows, cols, users, item_ids, table, report, weights, log)


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
