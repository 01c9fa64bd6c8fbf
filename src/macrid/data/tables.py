"""Tables from files and frames: CSV, TSV, Parquet, MovieLens '::' files, pandas, polars and other Arrow sources."""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from macrid.data.columns import encode_ids, numbers, row_text, shown
from macrid.data.ids import Ids
from macrid.data.signatures import is_parquet, why_no_table
from macrid.data.texts import check_text, is_utf8
from macrid.data.types import as_attributes, simplified
from macrid.errors import DataError, MacridError, RequestError, first_line
from macrid.files import check_regular

USER_NAMES = ("user_id", "user", "uid", "userid", "visitor_id", "customer_id", "reviewer_id", "member_id", "account_id",
              "client_id", "customer", "visitor", "reviewer", "member", "client", "shopper", "session_id",
              "session")  # fmt: skip
ITEM_NAMES = ("item_id", "item", "iid", "sid", "movie_id", "product_id", "article_id", "track_id", "song_id",
              "artist_id", "book_id", "business_id", "video_id", "asin", "parent_asin", "sku", "isbn",
              "product", "movie", "film", "article", "track", "song", "book", "video", "id")  # fmt: skip
RATING_NAMES = ("rating", "ratings", "score", "stars", "overall", "rate", "value", "weight")
TIME_NAMES = ("timestamp", "time", "ts", "event_time", "event_timestamp", "datetime", "date_time", "date", "event_date",
              "created_at", "created", "occurred_at", "unix_time", "unix_timestamp", "unix_review_time", "review_time",
              "review_date", "order_date", "order_time", "purchase_date", "clicked_at", "viewed_at")  # fmt: skip
EVENT_NAMES = ("event", "event_type", "event_name", "event_kind", "action", "action_type", "behavior", "behaviour",
               "behavior_type", "behaviour_type", "interaction", "interaction_type", "type", "kind")  # fmt: skip
TITLE_NAMES = ("title", "name", "item_title", "item_name", "product_name", "product_title", "movie_title")

EVENT_COLUMNS = ("user", "item", "rating", "timestamp")  # of a '::' file without a header
MOVIE_COLUMNS = ("item", "title", "genres")
FrameKind = Literal["arrow", "pandas", "polars"]
RESERVED_COLUMNS = ("id", "popularity")  # used by prepared folders and runs


class Table(ABC):
    """A table whose columns can be listed before any of them is read."""

    are_typed = True  # whether the source distinguishes strings from numbers; text files do not
    name: str
    columns: list[str]
    """All distinct: a column without a name, or with the name of an earlier one, was renamed."""
    written: list[str]
    """The names of the columns in the source."""
    encoding: str | None = None
    """Of a text file."""
    note: str = ""
    """What a report should say about the source."""

    def _set_columns(self, names: Sequence[str]) -> None:
        self.written, self.columns = list(names), free_names(names)

    @abstractmethod
    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        """Read these columns; those in `text` stay as written, such as '007'."""

    @abstractmethod
    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        """The first rows of these columns, short where the source is, whatever comes later."""

    def place(self, row: int) -> str:
        """What to call a row, counted from 0, in a message."""
        return row_text(row)

    def read_ids(self, columns: pa.Table, name: str) -> tuple[np.ndarray, Ids]:
        """Codes and distinct ids of a column of this table; see `encode_ids`."""
        where = f"{self.name}, column '{name}'"
        return encode_ids(columns.column(name), where, typed=self.are_typed, place=self.place)

    def read_numbers(self, columns: pa.Table, name: str) -> np.ndarray:
        """A column of this table as finite numbers; see `numbers`."""
        return numbers(columns.column(name), f"{self.name}, column '{name}'", self.place)

    def find(self, column: str | int | None, names: Sequence[str], role: str) -> str:
        """The given column, or else the first that has one of these names."""
        if isinstance(column, int):
            if not 0 <= column < len(self.columns):
                raise DataError(f"{self.name}: no column {column}; it has {len(self.columns)} columns, counted from 0")
            return self.columns[column]
        if column is not None and column not in self.columns:
            raise DataError(f"{self.name}: no column '{column}' for the {role}; columns are {_listed(self.columns)}")
        chosen = self.guess(names) if column is None else column
        if chosen is None:
            raise DataError(
                f"{self.name}: no column looks like the {role}; choose one with --{role}-col ({role}= in Python):"
                f" {_listed(self.columns)}"
            )
        if self.written.count(chosen) > 1:
            raise DataError(f"{self.name}: several columns are called '{chosen}'; rename all but the {role}'s")
        return chosen

    def guess(self, names: Sequence[str]) -> str | None:
        """The column that has the first of these names."""
        by_plain_name = {_plain(name): name for name in reversed(self.columns)}
        return next((by_plain_name[name] for name in map(_plain, names) if name in by_plain_name), None)


class FrameTable(Table):
    """A frame in memory."""

    def __init__(self, table: pa.Table, name: str = "frame") -> None:
        """name: in messages."""
        self.name = name
        self._set_columns(table.column_names)
        self.table = simplified(table.rename_columns(self.columns))

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        return _checked(self.table.select(list(columns)), self.name)

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        return _as_rows(self.read(columns).slice(0, rows))


class ParquetTable(Table):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        try:
            self._set_columns(pa.parquet.read_schema(path).names)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise DataError(f"{path}: not a Parquet file, or not a whole one ({first_line(error)})") from error

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        wanted = [self.written[self.columns.index(name)] for name in columns]
        is_clear = all(self.written.count(name) == 1 for name in wanted)
        try:
            with pa.parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
                table = file.read(columns=wanted if is_clear else None)
            table = table.select(wanted).rename_columns(columns) if is_clear else table.rename_columns(self.columns)
            return _checked(simplified(table.select(columns)), self.name)
        except (pa.ArrowException, OSError, UnicodeError, KeyError) as error:
            raise DataError(f"{self.path}: damaged Parquet file ({first_line(error)})") from error

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        wanted = [self.written[self.columns.index(name)] for name in columns]
        if any(self.written.count(name) > 1 for name in wanted):
            return _as_rows(self.read(columns).slice(0, rows))
        try:
            with pa.parquet.ParquetFile(self.path) as file:
                first = next(file.iter_batches(rows, columns=wanted), None)
            return [] if first is None else _as_rows(simplified(pa.table(first).select(wanted)))
        except (pa.ArrowException, OSError, UnicodeError, KeyError) as error:
            raise DataError(f"{self.path}: damaged Parquet file ({first_line(error)})") from error


class DelimitedTable(Table):
    """A text file with one row per line: CSV, TSV or '::', possibly compressed."""

    are_typed = False

    def __init__(
        self,
        path: Path,
        header: bool = True,
        no_header_names: Sequence[str] = EVENT_COLUMNS,
        encoding: str | None = None,
    ) -> None:
        self.path, self.name = path, path.name
        if reason := why_no_table(path):
            raise DataError(f"{path}: {reason}")
        self.text = check_text(path, encoding)
        self.encoding, self.note = self.text.encoding, self.text.note
        first = self.text.first_line()
        self.double_colon = re.match(r"[^,\t;|]*::", first) is not None
        has_tabs = any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes[-2:])
        self.delimiter = "\x1f" if self.double_colon else "\t" if has_tabs else max(",\t;|", key=first.count)
        if not self.double_colon:
            self.text.check_quotes(self.delimiter)
        cells = self._cells(first)
        self.header = header and (not self.double_colon or _are_names(cells))
        if not header and _are_names(cells):
            raise DataError(f"{path}: starts with a header, {_listed(cells)}; give names of columns, not numbers")
        more = [f"column{place}" for place in range(len(no_header_names), len(cells))]
        self._set_columns(cells if self.header else [*no_header_names, *more][: len(cells)])

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line.replace("::", "\x1f")], delimiter=self.delimiter))
        except csv.Error as error:
            raise DataError(f"{self.path}, line 1: not the header of a table ({error})") from None

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        places = [self.columns.index(name) for name in columns]
        read: Any = self._lines if self.double_colon else self.text.records
        with read(self.delimiter) as records:
            try:
                first = list(islice(filter(None, records), rows + self.header))
            except csv.Error as error:
                raise DataError(f"{self.path}, line {records.line_num:,}: not a row of a table ({error})") from None
        return [[cells[place] for place in places if place < len(cells)] for cells in first[self.header :]]

    @contextmanager
    def _lines(self, _: str) -> Iterator[Iterator[list[str]]]:
        with self.text.lines() as lines:
            yield (line.rstrip("\r\n").split("::") for line in lines if line.strip())

    def place(self, row: int) -> str:
        mark = "\x1f" if self.double_colon else self.delimiter
        line = self.text.line_of(row + self.header, mark, quoted=not self.double_colon)
        return super().place(row) if line is None else f"{super().place(row)} (line {line:,})"

    def options(self, columns: Sequence[str], text: Sequence[str], threads: bool = True) -> dict[str, Any]:
        """How Arrow is to read these columns."""
        return {
            "read_options": pa.csv.ReadOptions(
                column_names=self.columns, skip_rows=1 if self.header else 0, block_size=8 << 20, use_threads=threads
            ),
            "parse_options": pa.csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=False if self.double_colon else '"',
                newlines_in_values=not self.double_colon,
            ),
            "convert_options": pa.csv.ConvertOptions(
                include_columns=list(columns), column_types=dict.fromkeys(text, pa.string())
            ),
        }

    def read(self, columns: Sequence[str], text: Sequence[str] = (), threads: bool = True) -> pa.Table:
        try:
            source: Any = self.text.open()
            if self.double_colon:
                source = pa.BufferReader(source.read().replace(b"::", b"\x1f"))
            return pa.csv.read_csv(source, **self.options(columns, text, threads))
        except pa.ArrowInvalid as error:
            reason = first_line(error)
            if "Empty CSV file" in reason:
                raise DataError(f"{self.path}: no rows") from error
            if threads and "Expected" in reason:  # only a single thread knows the row number
                return self.read(columns, text, threads=False)
            if row := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", reason):
                place, cells = self.place(int(row[1]) - self.header - 1), shown(row[4])
                reason = f"{place}: {row[3]} instead of {row[2]} cells: {cells}"
            raise DataError(f"{self.path}: {reason}") from error
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read to the end ({first_line(error)})") from error


def open_table(
    source: Any,
    header: bool = True,
    no_header_names: Sequence[str] = EVENT_COLUMNS,
    encoding: str | None = None,
) -> Table:
    """Open a path, a pandas or polars frame, or anything with the Arrow stream interface.

    A file is Parquet by its suffix or its content, otherwise text.
    encoding: of a text file; by default decided by its content, see `macrid.data.texts`.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, str | PathLike):
        path = Path(source)
        _check_readable(path)
        if path.suffix.lower() in (".parquet", ".pq") or is_parquet(path):
            return ParquetTable(path)
        return DelimitedTable(path, header, no_header_names, encoding)
    try:
        if hasattr(source, "__arrow_c_stream__") or type(source).__module__.startswith("pandas"):
            return FrameTable(pa.table(source))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise DataError(f"frame: a column mixes types or has an unsupported type ({reason})") from error
    raise DataError(
        f"cannot read a table from {type(source).__name__};"
        " pass a path, a pandas or polars frame, an Arrow table or, for events, a scipy CSR"
    )


def free_names(names: Sequence[str], reserved: Collection[str] = ()) -> list[str]:
    """Distinct names, none of them empty or reserved: underscores are added where needed."""
    free: dict[str, None] = {}
    for place, name in enumerate(names):
        name = name if name.strip() else f"column{place}"
        while name in free or name in reserved:
            name += "_"
        free[name] = None
    return list(free)


class Items(NamedTuple):
    """An items table."""

    ids: Ids
    columns: pa.Table
    """All but the ids; the one with the item's name is called 'title'."""
    notes: tuple[str, ...] = ()
    """What a report should say about it."""


def read_items(source: Any, same_column: str | None = None, encoding: str | None = None) -> Items:
    """The ids of an items table, and its other columns.

    same_column: the item column of the events, used if the items table has it too.
    encoding: of the events; also of this table, unless it is plainly UTF-8.
    """
    if encoding is not None and isinstance(source, str | PathLike) and is_utf8(Path(source)):
        encoding = None
    table = open_table(source, no_header_names=MOVIE_COLUMNS, encoding=encoding)
    key = table.find(same_column if same_column in table.columns else None, ITEM_NAMES, "item")
    title = table.guess(TITLE_NAMES)
    titles = [] if title in (None, key) else [title]
    columns = table.read(table.columns, text=[key, *titles])
    codes, ids = table.read_ids(columns, key)
    if len(ids) < len(codes):
        seen = np.unique(codes, return_index=True)[1]
        repeated = ids[int(codes[np.setdiff1d(np.arange(len(codes)), seen)[0]])]
        raise DataError(f"{table.name}: item {repeated!r} in column '{key}' has several rows; keep one row per item")
    others = [name for name in columns.column_names if name not in (key, *titles)]
    attributes, left_out = as_attributes(columns.select([*titles, *others]))
    has_title = bool(titles) and attributes.column_names[:1] == titles
    rest = attributes.column_names[has_title:]
    names = free_names(["title"] * has_title + rest, RESERVED_COLUMNS)
    written = dict(zip(table.columns, table.written, strict=True))
    pairs = ((written.get(old, old), new) for old, new in zip(rest, names[has_title:], strict=True))
    notes = [*([table.note] if table.note else []), *left_out]
    notes += [f"column '{old}' renamed to '{new}'" for old, new in pairs if old != new]
    return Items(ids, attributes.rename_columns(names), tuple(f"{table.name}: {note}" for note in notes))


def _as_rows(table: pa.Table) -> list[list[Any]]:
    return [list(row.values()) for row in table.to_pylist()] if table.num_columns else []


def _are_names(cells: Sequence[str]) -> bool:
    """Whether cells are a header rather than the ids of a first row."""
    known = {_plain(name) for name in (*USER_NAMES, *ITEM_NAMES)}
    return any(_plain(cell) in known for cell in cells[:2])


def _checked(table: pa.Table, name: str) -> pa.Table:
    """A table whose text is UTF-8, which Arrow takes for granted."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        for column in table.column_names:
            for row, value in enumerate(table.column(column)):
                try:
                    value.as_py()
                except UnicodeDecodeError:
                    raise DataError(f"{name}, column '{column}': {row_text(row)} is not UTF-8; correct it") from None
        raise DataError(f"{name}: damaged ({first_line(error)})") from error
    return table


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _check_readable(path: Path) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in str(path)):  # Arrow takes names in UTF-8 only
        raise DataError(f"{path}: its name is not UTF-8; rename it, or choose a UTF-8 locale")
    try:
        check_regular(path, DataError)
        with path.open("rb") as file:
            if not file.read(1):
                raise DataError(f"{path}: the file is empty")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; check the path (relative to {Path.cwd()})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def to_frame(table: pa.Table, as_: FrameKind = "arrow") -> Any:
    """A `pyarrow.Table`, or a frame of pandas or polars."""
    if as_ == "arrow":
        return table
    if as_ not in ("pandas", "polars"):
        raise RequestError(f"as_ is {as_!r}; choose arrow, pandas or polars")
    try:
        library = import_module(as_)
    except ModuleNotFoundError:
        raise MacridError(f"{as_} is not installed; `pip install {as_}`, or take the Arrow table") from None
    return table.to_pandas() if as_ == "pandas" else library.from_arrow(table)
