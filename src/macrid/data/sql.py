"""Tables from a query to PostgreSQL or SQLite, read in batches. The database is opened for reading only.

PostgreSQL sends the rows through a cursor on the server, SQLite reads them as they are asked for: a result may be
larger than memory.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from macrid.data.databases import (
    EXAMPLES,
    hidden_password,
    is_postgres,
    open_postgres,
    open_sqlite,
    reachable,
    sqlite_path,
)
from macrid.data.tables import FrameTable, Table
from macrid.data.types import simplified
from macrid.errors import DatabaseError, DataError

BATCH = 50_000  # rows
ARROW_KINDS = (bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal, list)
SQLITE_FILE = b"SQLite format 3\0"


def read_sql(query: str, url: str) -> pa.Table:
    """The result of a query; pass it to `Interactions.read`, for example.

    url: such as postgresql://user@host/name or sqlite:///shop.db. UUIDs and JSON objects become text.
    """
    return QueryTable(query, url).whole()


class QueryTable(Table):
    """The result of a query, read once: some rows at a time, or as a whole."""

    def __init__(self, query: str, url: str, name: str = "query") -> None:
        """name: in messages."""
        self.name, self._url = name, url
        self._rows = _from_postgres(query, url) if is_postgres(url) else _from_sqlite(query, url)
        self._names: list[str] = next(self._rows)
        self._set_columns(self._names)
        self._first: list[list[pa.Array]] = []

    def whole(self) -> pa.Table:
        """Columns under the names they have in the query."""
        parts = [*self._taken(), *self._arrays()]
        columns = [_joined(name, [part[place] for part in parts]) for place, name in enumerate(self._names)]
        return pa.Table.from_arrays(columns, names=self._names)

    def within(self, rows: int) -> FrameTable | None:
        """All of it, if there are at most so many rows; otherwise None, and `batches` has them all."""
        read = 0
        for part in self._arrays():
            self._first.append(part)
            read += len(part[0])
            if read > rows:
                return None
        return FrameTable(self.whole(), self.name)

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        return FrameTable(self.whole(), self.name).read(columns, text)

    def batches(self, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[pa.Table]:
        for first in self._taken():
            yield self._table(first).select(list(columns))
        for part in self._arrays():
            yield self._table(part).select(list(columns))

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        raise NotImplementedError("a query is read once")

    def _table(self, arrays: list[pa.Array]) -> pa.Table:
        return simplified(pa.Table.from_arrays(arrays, names=self.columns))

    def _taken(self) -> Iterator[list[pa.Array]]:
        """What was read before, which need not be kept any longer."""
        while self._first:
            yield self._first.pop(0)

    def _arrays(self) -> Iterator[list[pa.Array]]:
        with reachable(self._url, "the query failed"):
            for rows in self._rows:
                columns = zip(*rows, strict=True)
                yield [_array(name, values) for name, values in zip(self._names, columns, strict=True)]


def read_url(text: str | None, file: Path | None, variable: str) -> str:
    """The URL of a database from an environment variable, or from a file that has it or is a SQLite database."""
    if file is None:
        if not text:
            raise DatabaseError(f"no database; set {variable} to a URL such as {EXAMPLES}, or give --database-file")
        return text
    try:
        with file.open("rb") as opened:
            start = opened.read(10_000)
        if start.startswith(SQLITE_FILE):
            return f"sqlite:///{file}"
        return start.decode("utf-8-sig").strip()
    except OSError as error:
        raise DatabaseError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeError:
        raise DatabaseError(f"{file}: neither a SQLite database nor a text file with a URL") from None


def _from_postgres(query: str, url: str) -> Iterator[Any]:
    """The names of the columns, then rows; with a cursor on the server, so that they need not fit into memory."""
    with reachable(url, "cannot open the database"):
        connection = open_postgres(url, {"default_transaction_read_only": "on", "TimeZone": "UTC"})
    with (
        closing(connection),
        reachable(url, "the query failed"),
        connection.transaction(),
        connection.cursor(name="macrid") as cursor,
    ):
        cursor.execute(query.strip().rstrip(";"))
        yield [column.name for column in cursor.description]
        while rows := cursor.fetchmany(BATCH):
            yield rows


def _from_sqlite(query: str, url: str) -> Iterator[Any]:
    path = sqlite_path(url)
    if not path.is_file():
        raise DatabaseError(f"{hidden_password(url)}: no such file; check the path (relative to {Path.cwd()})")
    with reachable(url, "cannot open the database"):
        connection = open_sqlite(path, "ro")
    with closing(connection), reachable(url, "the query failed"):
        try:
            cursor = connection.execute(query)
        except sqlite3.Warning as error:  # several statements; an error of its own kind
            raise sqlite3.Error(str(error)) from None
        if cursor.description is None:
            raise DatabaseError(f"{hidden_password(url)}: the query returns no table; use a SELECT")
        yield [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(BATCH):
            yield rows


def _array(name: str, values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values}
    if not all(kind in ARROW_KINDS or kind is type(None) for kind in kinds):
        values = [_plain(value) for value in values]
    elif Decimal in kinds and not all(value is None or value.is_finite() for value in values if type(value) is Decimal):
        values = [None if value is None else float(value) for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        raise _mixed(name, {type(value).__name__ for value in values if value is not None}) from None


def _plain(value: Any) -> Any:
    """As text what Arrow has no type for."""
    if value is None or isinstance(value, ARROW_KINDS):
        return value
    if isinstance(value, UUID):
        return str(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _joined(name: str, parts: Sequence[pa.Array]) -> pa.ChunkedArray:
    """Batches as one column: one may have only nulls, or decimals with fewer digits."""
    kinds = list(dict.fromkeys(part.type for part in parts)) or [pa.null()]
    kind = kinds[0]
    if len(kinds) > 1:
        try:
            kind = pa.unify_schemas([pa.schema([("", each)]) for each in kinds], promote_options="permissive")[0].type
            parts = [part.cast(kind) for part in parts]
        except pa.ArrowException:
            raise _mixed(name, map(str, kinds)) from None
    return pa.chunked_array(parts, kind)


def _mixed(name: str, kinds: Iterable[str]) -> DataError:
    found = " and ".join(sorted(kinds))
    return DataError(f"query, column '{name}': values of type {found} do not fit together; CAST them in the query")
