"""The parts of a data set: Parquet files that DuckDB reads as they are, and others that are rewritten as such first.

Text files, queries, weights and unusual types go through the same code as data in memory, some rows at a time; so they
mean the same and have the same error messages.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from macrid.data.columns import WRITTEN_INTEGER
from macrid.data.ids import is_text
from macrid.data.large.engine import quoted, text
from macrid.data.reading import Columns, find_columns, is_numbered
from macrid.data.tables import ParquetTable, Table, open_table
from macrid.data.times import span_text
from macrid.data.weighing import Weighing
from macrid.errors import DataError

INTEGERS, TEXT = "integers", "text"
DIGITS, UNTYPED = "digits", "untyped"  # of a text file: all of them integers, or not
ROW_GROUP = 1 << 20
COUNTED = re.compile(r"\d (such rows?\b|of [\d,]+ rows\b)|\([\d,]+ rows?\)")  # in an error


@dataclass(frozen=True)
class Request:
    """Which events to read; see `Interactions.read`."""

    user: str | int | None = None
    item: str | int | None = None
    rating: str | int | None = None
    min_rating: float | None = None
    encoding: str | None = None
    weighing: Weighing = field(default_factory=Weighing)
    timed: bool = False
    """Whether the times of events are kept, which a split by time needs."""

    @property
    def keeps_times(self) -> bool:
        return self.timed or self.weighing.half_life is not None

    def open(self, path: Path, name: str) -> Table:
        header = not is_numbered(self.user, self.item, self.rating, self.weighing)
        table = open_table(path, header=header, encoding=self.encoding)
        table.name = name
        return table

    def find(self, table: Table) -> Columns:
        rated = self.min_rating is not None
        return find_columns(table, self.user, self.item, self.rating, rated, True, self.weighing)

    def is_enough(self, ratings: np.ndarray) -> np.ndarray:
        """Which ratings reach the threshold."""
        assert self.min_rating is not None
        return np.asarray(ratings >= self.min_rating)


@dataclass(frozen=True)
class Part:
    """A Parquet file of events as DuckDB reads it."""

    name: str
    path: Path
    columns: dict[str, str]
    """By role."""
    kinds: dict[str, str]
    """Of the ids, by role: user and item."""
    rows: int
    facts: dict[str, Any] = field(default_factory=dict)
    """What was noticed when it was rewritten; empty if it was not."""


def plain_part(table: Table, found: Columns, request: Request) -> Part | None:
    """The file itself, if DuckDB understands it as we do."""
    if not isinstance(table, ParquetTable) or not request.weighing.is_empty:
        return None
    names = [name.lower() for name in table.written]  # DuckDB ignores case
    if len(set(names)) < len(names) or "file_row_number" in names:
        return None
    with pa.parquet.ParquetFile(table.path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    kinds = {role: _kind(schema.field(found.roles[role]).type) for role in ("user", "item")}
    rating = found.roles.get("rating")
    if None in kinds.values() or (rating is not None and not _is_number(schema.field(rating).type)):
        return None
    known = {role: str(kind) for role, kind in kinds.items()}
    return Part(
        table.name, table.path, found.roles, known, rows, {"rating": str(schema.field(rating).type)} if rating else {}
    )


def _kind(kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return INTEGERS
    return TEXT if is_text(kind.value_type if pa.types.is_dictionary(kind) else kind) else None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64())) and kind != pa.uint64()


def rewritten(
    table: Table, found: Columns, request: Request, folder: Path, tell: Callable[[int], None]
) -> dict[str, Any]:
    """Write the events of a table as Parquet; what was noticed on the way. tell: is called with the rows read."""
    facts = _Facts(table)
    writer = None
    try:
        for columns, first in _rewritten(table, found, request, facts):
            writer = writer or pa.parquet.ParquetWriter(_file(folder), columns.schema, compression="snappy")
            if columns.schema != writer.schema:
                was, now = (" and ".join(map(str, schema.types)) for schema in (writer.schema, columns.schema))
                raise DataError(
                    f"{table.name}: columns of type {was} become {now} after {first:,} rows; give each one type"
                )
            writer.write_table(columns, row_group_size=ROW_GROUP)
            tell(facts.rows)
    finally:
        if writer is not None:
            writer.close()
    return {**facts.kept(), "stored": [] if writer is None else writer.schema.names}


class _Facts:
    """Of all rows of a table."""

    def __init__(self, table: Table) -> None:
        self._table, self.rows, self._highest = table, 0, -np.inf
        self._kinds: dict[str, str] = {}
        self._times: list[Any] | None = None
        self._notes: tuple[str, ...] | None = None

    def see_ids(self, role: str, distinct: pa.Array) -> None:
        kind = TEXT if is_text(distinct.type) else INTEGERS
        if kind == TEXT and not self._table.are_typed:
            is_written = pc.all(pc.match_substring_regex(distinct, WRITTEN_INTEGER)).as_py()
            kind = DIGITS if is_written and self._kinds.get(role, DIGITS) == DIGITS else UNTYPED
        self._kinds[role] = kind

    def see_ratings(self, ratings: np.ndarray) -> None:
        if len(ratings):
            self._highest = max(self._highest, float(ratings.max()))

    def see_notes(self, notes: Sequence[str]) -> None:
        """Such as that no event is of some kind, which counts if no batch has one."""
        self._notes = tuple(notes if self._notes is None else (note for note in self._notes if note in notes))

    def see_times(self, note: str, times: np.ndarray) -> None:
        """Times of all batches must be of a kind, such as milliseconds."""
        kind, first, last = note.partition(", ")[0], int(times.min()), int(times.max())
        if self._times is not None and self._times[0] != kind:
            other = kind.removeprefix("times are ")
            raise DataError(f"{self._table.name}: {self._times[0]}, but {other} after {self.rows:,} rows; use one kind")
        before = self._times or [kind, first, last]
        self._times = [kind, min(before[1], first), max(before[2], last)]

    def kept(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "kinds": self._kinds,
            "highest": self._highest if np.isfinite(self._highest) else None,
            "times": self._times,
            "encoding": self._table.encoding,
            "notes": list(self._notes or ()),
        }


class _Shifted(Table):
    """A batch of a table's rows, which messages number as the table does."""

    def __init__(self, table: Table, first: int) -> None:
        self._table, self._first, self.name = table, first, table.name

    def place(self, row: int) -> str:
        return self._table.place(row + self._first)

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        raise AssertionError("the rows of a batch have been read")

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        raise AssertionError("the rows of a batch have been read")


def _rewritten(table: Table, found: Columns, request: Request, facts: _Facts) -> Iterator[tuple[pa.Table, int]]:
    """Batches with ids of a known type, whether each row reaches the rating, and its weight; and their first rows."""
    wanted = list(dict.fromkeys(found.roles.values()))
    batches = iter(table.batches(wanted, text=wanted))
    for columns in batches:
        first = facts.rows
        try:
            part = _rewritten_batch(_Shifted(table, first), columns, found, request, facts)
        except DataError as error:
            is_all = first == 0 and next(batches, None) is None
            if is_all or COUNTED.search(str(error)) is None:
                raise
            raise DataError(f"{error} (counted in rows {first + 1:,} to {first + columns.num_rows:,})") from error
        facts.rows += columns.num_rows
        yield part, first


def _rewritten_batch(batch: Table, columns: pa.Table, found: Columns, request: Request, facts: _Facts) -> pa.Table:
    parts: dict[str, Any] = {}
    for role in ("user", "item"):
        codes, ids = batch.read_ids(columns, found.roles[role])
        facts.see_ids(role, ids.array)
        parts[role] = ids.array.take(pa.array(codes))
    if "rating" in found.roles:
        ratings = batch.read_numbers(columns, found.roles["rating"])
        facts.see_ratings(ratings)
        parts["rated"] = pa.array(request.is_enough(ratings))
    measured = request.weighing.read(batch, columns, found.roles)
    if measured.weights is not None:
        parts["weight"] = pa.array(measured.weights)
    if measured.times is not None and len(measured.times):
        facts.see_times(measured.notes[0], measured.times)
        if request.keeps_times:
            parts["time"] = pa.array(measured.times)
    facts.see_notes(measured.notes[measured.times is not None :])
    return pa.table(parts)


def rewritten_part(name: str, folder: Path, found: Columns, facts: dict[str, Any]) -> Part:
    """The part that `rewritten` wrote."""
    columns = {role: role for role in ("user", "item")}
    if "rating" in found.roles:
        columns["rated"] = "rated"
    if {"weight", "event"} & {*found.roles}:
        columns["weight"] = "weight"
    if "time" in facts["stored"]:
        columns["time"] = "time"
    return Part(name, _file(folder), columns, facts["kinds"], facts["rows"], facts)


def _file(folder: Path) -> Path:
    return folder / "events.parquet"


def kind_of_ids(parts: Sequence[Part], role: str, column: str) -> str:
    """Whether the ids of all parts are integers or text; an error that names a part which differs from the others."""
    by_kind: dict[str, Part] = {}
    for part in parts:
        if part.rows:
            by_kind.setdefault(part.kinds[role], part)
    for kind in (TEXT, UNTYPED):
        if kind in by_kind and INTEGERS in by_kind:
            first, second = sorted((by_kind[kind], by_kind[INTEGERS]), key=parts.index)
            names = {INTEGERS: "integers", TEXT: "text", UNTYPED: "text"}
            raise DataError(
                f"{second.name}, column '{column}': ids are {names[second.kinds[role]]}, but {names[first.kinds[role]]}"
                f" in {first.name}; write all parts with the same type"
            )
    return TEXT if {TEXT, UNTYPED} & {*by_kind} else INTEGERS


def note_on_times(parts: Sequence[Part]) -> str | None:
    """What a report says about the times of all parts; an error that names a part with times of another kind."""
    timed = [part for part in parts if part.facts.get("times")]
    if not timed:
        return None
    first = timed[0]
    for part in timed:
        if part.facts["times"][0] != first.facts["times"][0]:
            raise DataError(
                f"{part.name}: {part.facts['times'][0]}, but {first.facts['times'][0]} in {first.name}; write all parts"
                " with the same kind of times"
            )
    kinds, begins, ends = zip(*(part.facts["times"] for part in timed), strict=True)
    return f"{kinds[0]}, {span_text(min(begins), max(ends))}"


def check_alike(first: Table, first_found: Columns, table: Table, found: Columns) -> None:
    """An error if another part has other columns than the first."""
    for role, column in first_found.roles.items():
        other = found.roles.get(role)
        if other != column:
            raise DataError(
                f"{table.name}: its {role} column is '{other}', but '{column}' in {first.name}; give all parts the same"
                f" columns, or choose with --{role}-col"
            )


def events_query(parts: Sequence[Part], kinds: dict[str, str], request: Request, ordered: bool) -> str:
    """A query for the events of all parts: user, item and, where there are any, rated, weight and, if ordered, the
    number of the row in the (only) file, and the time."""
    groups: dict[tuple[Any, ...], list[Part]] = {}
    for part in parts:
        if part.rows:
            groups.setdefault((*part.columns.items(), part.facts.get("rating")), []).append(part)
    return " UNION ALL ".join(_select(group, kinds, request, ordered) for group in groups.values())


def _select(parts: Sequence[Part], kinds: dict[str, str], request: Request, ordered: bool) -> str:
    first = parts[0]
    types = {INTEGERS: "BIGINT", TEXT: "VARCHAR"}
    wanted = [f"CAST({quoted(first.columns[role])} AS {types[kinds[role]]}) AS {role}" for role in ("user", "item")]
    if "rating" in first.columns:
        wanted.append(f"{enough(first, request)} AS rated")
    wanted += [f"{name} AS {name}" for name in ("rated", "weight", "time") if name in first.columns]
    if ordered:
        wanted.append("file_row_number AS place")
    return f"SELECT {', '.join(wanted)} FROM {scan(parts, ordered)}"


def enough(part: Part, request: Request) -> str:
    """Whether a row reaches the rating; compared as numpy does it, in the type of the column."""
    assert request.min_rating is not None
    is_single = part.facts["rating"] == "float"
    limit = float(np.float32(request.min_rating)) if is_single else float(request.min_rating)
    return f"CAST({quoted(part.columns['rating'])} AS DOUBLE) >= CAST({text(repr(limit))} AS DOUBLE)"


def scan(parts: Sequence[Part], numbered: bool) -> str:
    """The rows of files in the FROM of a query."""
    files = ", ".join(text(glob.escape(str(part.path))) for part in parts)
    return f"read_parquet([{files}], hive_partitioning = false, file_row_number = {str(numbered).lower()})"
