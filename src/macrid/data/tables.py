"""Tables from files and frames: CSV, TSV, Parquet, MovieLens '::' files, and anything that speaks Arrow (pandas, polars, …)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from macrid.data.ids import Ids
from macrid.errors import DataError

USER_NAMES = ("user_id", "user", "uid", "userid", "visitor_id", "customer_id", "reviewer_id", "member_id", "account_id",
              "client_id", "session_id", "session")  # fmt: skip
ITEM_NAMES = ("item_id", "item", "iid", "sid", "movie_id", "product_id", "article_id", "track_id", "song_id", "artist_id",
              "book_id", "business_id", "video_id", "asin", "parent_asin", "sku", "isbn", "id")  # fmt: skip
RATING_NAMES = ("rating", "ratings", "score", "stars", "overall", "rate", "value", "weight")
TITLE_NAMES = ("title", "name", "item_title", "item_name", "product_name", "product_title", "movie_title")

EVENT_COLUMNS = ("user", "item", "rating", "timestamp")  # of a '::' file, which has no header
MOVIE_COLUMNS = ("item", "title", "genres")
MISSING_IDS = ("", "nan", "NaN", "null", "NULL")


class Table:
    """A table whose columns can be listed before any of them is read."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.name = name
        self.columns = list(columns)

    def read(self, columns: Sequence[str], ids: Sequence[str] = ()) -> pa.Table:
        """Only these columns; those among `ids` come as they were written, '007' included."""
        raise NotImplementedError  # pragma: no cover

    def find(self, asked: str | int | None, usual: Sequence[str], what: str, required: bool = True) -> str | None:
        """The column that was asked for, or the first with a usual name."""
        if isinstance(asked, int):
            if not 0 <= asked < len(self.columns):
                raise DataError(f"{self.name}: no column {asked}; it has {len(self.columns)} columns, counted from 0")
            return self.columns[asked]
        if asked is not None:
            if asked in self.columns:
                return asked
            raise DataError(f"{self.name}: no column '{asked}' for the {what}; the columns are {_listed(self.columns)}")
        by_plain_name = {_plain(column): column for column in reversed(self.columns)}
        for name in usual:
            if _plain(name) in by_plain_name:
                return by_plain_name[_plain(name)]
        if required:
            raise DataError(
                f"{self.name}: no column looks like the {what}; name it, the columns are {_listed(self.columns)}"
            )
        return None


class FrameTable(Table):
    """A frame in memory."""

    def __init__(self, table: pa.Table, name: str = "frame") -> None:
        super().__init__(name, table.column_names)
        self.table = table

    def read(self, columns: Sequence[str], ids: Sequence[str] = ()) -> pa.Table:
        return self.table.select(list(columns))


class ParquetTable(Table):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            super().__init__(path.name, pa.parquet.read_schema(path).names)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a readable Parquet file ({_first_line(error)})") from error

    def read(self, columns: Sequence[str], ids: Sequence[str] = ()) -> pa.Table:
        try:
            return pa.parquet.read_table(self.path, columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: damaged Parquet file ({_first_line(error)})") from error


class DelimitedTable(Table):
    """A text file with one row a line: CSV, TSV, or '::'. Integer column numbers mean that it has no header."""

    def __init__(self, path: Path, header: bool = True, no_header_names: Sequence[str] = EVENT_COLUMNS) -> None:
        self.path = path
        with _open_text(path) as file:
            try:
                first = file.readline().lstrip("\ufeff").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(f"{path}: not a text file ({error})") from error
        if not first.strip():
            raise DataError(f"{path}: the file is empty")
        self.double_colon = "::" in first
        self.delimiter = "\x1f" if self.double_colon else _delimiter(first, path)
        cells = next(csv.reader([first.replace("::", "\x1f")], delimiter=self.delimiter))
        self.header = header and not self.double_colon
        if self.header:
            names = cells
        else:
            names = [no_header_names[i] if i < len(no_header_names) else f"column{i}" for i in range(len(cells))]
        if len(set(names)) < len(names):
            raise DataError(f"{path}: two columns have the same name; the columns are {_listed(names)}")
        super().__init__(path.name, names)

    def read(self, columns: Sequence[str], ids: Sequence[str] = ()) -> pa.Table:
        types = dict.fromkeys(ids, pa.dictionary(pa.int32(), pa.string()))
        try:
            return self._read(columns, types, "utf8")
        except UnicodeError:
            return self._read(columns, types, "latin-1")
        except TypeError:  # a column that starts with numbers and goes on with something else
            return self._read(columns, dict.fromkeys(columns, pa.string()) | types, "utf8")

    def _read(self, columns: Sequence[str], types: dict[str, pa.DataType], encoding: str) -> pa.Table:
        source: Any = self.path
        if self.double_colon:
            source = pa.BufferReader(self.path.read_bytes().replace(b"::", b"\x1f"))
        try:
            return pa.csv.read_csv(
                source,
                read_options=pa.csv.ReadOptions(
                    column_names=self.columns, skip_rows=1 if self.header else 0, encoding=encoding, block_size=8 << 20
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=False if self.double_colon else '"',
                    newlines_in_values=len(types) < len(columns) - 1,  # items have prose in them, events do not
                ),
                convert_options=pa.csv.ConvertOptions(include_columns=list(columns), column_types=types),
            )
        except pa.ArrowInvalid as error:
            text = _first_line(error)
            if "invalid UTF8" in text or "UTF-8" in text:
                raise UnicodeError(text) from error
            if "conversion error" in text:
                raise TypeError(text) from error
            if "Empty CSV file" in text:
                raise DataError(f"{self.path}: the file has no rows") from error
            raise DataError(f"{self.path}: {text}") from error


def open_table(source: Any, header: bool = True, no_header_names: Sequence[str] = EVENT_COLUMNS) -> Table:
    """A path (its ending tells the format), a pandas or polars frame, or anything with the Arrow stream interface."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        if not path.exists():
            raise DataError(f"{path}: no such file; look at the path, relative paths start at {Path.cwd()}")
        if path.is_dir():
            raise DataError(f"{path}: is a folder, not a file of events")
        try:
            path.open("rb").close()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty")
        if path.suffix.lower() in (".parquet", ".pq"):
            return ParquetTable(path)
        return DelimitedTable(path, header, no_header_names)
    if isinstance(source, pa.Table):
        return FrameTable(source)
    if type(source).__module__.startswith("pandas"):
        return FrameTable(pa.Table.from_pandas(source, preserve_index=False))
    if hasattr(source, "__arrow_c_stream__"):
        return FrameTable(pa.table(source))
    raise DataError(
        f"cannot read events from {type(source).__name__}; give a path, a pandas or polars frame, an Arrow table or a scipy CSR"
    )


def encode_ids(column: pa.ChunkedArray, where: str) -> tuple[np.ndarray, Ids]:
    """Codes (int32, one a row, in order of first appearance) and the distinct ids behind them."""
    if pa.types.is_floating(column.type):  # integers with a gap become floats in pandas; the gap is found below
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if not pc.all(pc.equal(column, pc.round(column)), skip_nulls=True).as_py():
            raise DataError(f"{where}: ids with fractions; give strings or integers")
        column = column.cast(pa.int64())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], column.type)
    values = encoded.dictionary
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    missing = np.zeros(len(encoded), dtype=bool)
    if encoded.null_count:
        missing = encoded.indices.is_null().to_numpy(zero_copy_only=False)
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if pa.types.is_string(values.type):
        nameless = np.flatnonzero(pc.is_in(values, pa.array(MISSING_IDS)).to_numpy(zero_copy_only=False))
        if nameless.size:
            missing |= np.isin(codes, nameless)
    if missing.any():
        raise DataError(
            f"{where}: the id is empty in row {np.flatnonzero(missing)[0] + 1:,}"
            f" ({missing.sum():,} such rows, the header not counted); drop these rows or give ids"
        )
    if pa.types.is_string(values.type) and len(values):
        whole = pc.match_substring_regex(values, r"^(0|-?[1-9]\d{0,17})$")
        if pc.all(whole).as_py():
            values = values.cast(pa.int64())
    return codes, Ids(values)


def numbers(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """A column of numbers as float32; the first row that is none is named."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        plain = column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for row, value in enumerate(column.to_pylist(), start=1):
            if not _is_number(value):
                raise DataError(f"{where}: row {row:,} holds {value!r}, which is not a number") from None
        plain = pa.chunked_array([pa.array([float(value) for value in column.to_pylist()])])
    result = plain.to_numpy()
    if np.isnan(result).any():
        raise DataError(f"{where}: row {np.flatnonzero(np.isnan(result))[0] + 1:,} is empty, not a number")
    return result


def read_items(source: Any, item: str | int | None = None) -> tuple[Ids, pa.Table]:
    """An items table: its ids, and its other columns, with the one that names an item called 'title'."""
    table = open_table(source, no_header_names=MOVIE_COLUMNS)
    key = table.find(item, ITEM_NAMES, "item")
    assert key is not None
    columns = table.read(table.columns, ids=[key])
    codes, ids = encode_ids(columns.column(key), f"{table.name}, column '{key}'")
    if len(ids) < len(codes):
        seen = np.unique(codes, return_index=True)[1]
        twice = ids[int(codes[np.setdiff1d(np.arange(len(codes)), seen)[0]])]
        raise DataError(f"{table.name}: item {twice!r} has more than one row in column '{key}'; keep one row an item")
    columns = columns.drop_columns([key])
    title = table.find(None, TITLE_NAMES, "title", required=False)
    if title is not None and title != key:
        rest = [name for name in columns.column_names if name != title]
        columns = columns.select([title, *rest]).rename_columns(["title", *rest])
    return ids, columns


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _open_text(path: Path) -> io.TextIOWrapper:
    stream = pa.input_stream(str(path), compression="detect")
    return io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")


def _delimiter(line: str, path: Path) -> str:
    if path.suffix.lower() in (".tsv", ".tab"):
        return "\t"
    counts = {mark: line.count(mark) for mark in (",", "\t", ";", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","
