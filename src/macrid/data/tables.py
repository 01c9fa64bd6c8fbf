"""Tables from files and frames: CSV, TSV, Parquet, MovieLens '::' files, pandas, polars and other Arrow sources."""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from macrid.data.ids import Ids, is_text
from macrid.errors import DataError, MacridError, RequestError, first_line

USER_NAMES = ("user_id", "user", "uid", "userid", "visitor_id", "customer_id", "reviewer_id", "member_id", "account_id",
              "client_id", "session_id", "session")  # fmt: skip
ITEM_NAMES = ("item_id", "item", "iid", "sid", "movie_id", "product_id", "article_id", "track_id", "song_id",
              "artist_id", "book_id", "business_id", "video_id", "asin", "parent_asin", "sku", "isbn",
              "id")  # fmt: skip
RATING_NAMES = ("rating", "ratings", "score", "stars", "overall", "rate", "value", "weight")
TITLE_NAMES = ("title", "name", "item_title", "item_name", "product_name", "product_title", "movie_title")

EVENT_COLUMNS = ("user", "item", "rating", "timestamp")  # '::' files have no header
MOVIE_COLUMNS = ("item", "title", "genres")
FrameKind = Literal["arrow", "pandas", "polars"]
MISSING_IDS = ("", "nan", "NaN", "null", "NULL")


class Table(ABC):
    """A table whose columns can be listed before any of them is read."""

    are_typed = True  # whether the source distinguishes strings from numbers; text files do not
    name: str
    columns: list[str]

    @abstractmethod
    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        """Read these columns; those in `text` stay as written, such as '007'."""

    def read_ids(self, columns: pa.Table, name: str) -> tuple[np.ndarray, Ids]:
        """Codes and distinct ids of a column of this table; see `encode_ids`."""
        return encode_ids(columns.column(name), f"{self.name}, column '{name}'", typed=self.are_typed)

    def find(self, column: str | int | None, names: Sequence[str], role: str) -> str:
        """The given column, or else the first that has one of these names."""
        if isinstance(column, int):
            if not 0 <= column < len(self.columns):
                raise DataError(f"{self.name}: no column {column}; it has {len(self.columns)} columns, counted from 0")
            return self.columns[column]
        if column is not None:
            if column in self.columns:
                return column
            raise DataError(f"{self.name}: no column '{column}' for the {role}; columns are {_listed(self.columns)}")
        if guessed := self.guess(names):
            return guessed
        raise DataError(
            f"{self.name}: no column looks like the {role}; choose one with --{role}-col ({role}= in Python):"
            f" {_listed(self.columns)}"
        )

    def guess(self, names: Sequence[str]) -> str | None:
        """The column that has the first of these names."""
        by_plain_name = {_plain(name): name for name in reversed(self.columns)}
        return next((by_plain_name[name] for name in map(_plain, names) if name in by_plain_name), None)


class FrameTable(Table):
    """A frame in memory."""

    def __init__(self, table: pa.Table) -> None:
        self.name, self.columns = "frame", table.column_names
        for place, field in enumerate(table.schema):
            if pa.types.is_string_view(field.type):  # comes from polars; few Arrow functions support it
                table = table.set_column(place, field.name, table.column(place).cast(pa.large_string()))
        self.table = table

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        return self.table.select(list(columns))


class ParquetTable(Table):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        try:
            self.columns = pa.parquet.read_schema(path).names
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a readable Parquet file ({first_line(error)})") from error

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        try:
            return pa.parquet.read_table(self.path, columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: damaged Parquet file ({first_line(error)})") from error


class DelimitedTable(Table):
    """A text file with one row per line: CSV, TSV or '::', possibly compressed."""

    are_typed = False

    def __init__(self, path: Path, header: bool = True, no_header_names: Sequence[str] = EVENT_COLUMNS) -> None:
        self.path, self.name = path, path.name
        first = _first_row(path)
        self.double_colon = "::" in first
        has_tabs = any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes[-2:])
        self.delimiter = "\x1f" if self.double_colon else "\t" if has_tabs else max(",\t;|", key=first.count)
        cells = next(csv.reader([first.replace("::", "\x1f")], delimiter=self.delimiter))
        self.header = header and not self.double_colon
        more = [f"column{place}" for place in range(len(no_header_names), len(cells))]
        self.columns = cells if self.header else [*no_header_names, *more][: len(cells)]
        if len(set(self.columns)) < len(cells):
            raise DataError(f"{path}: two columns have the same name: {_listed(self.columns)}")

    def read(
        self, columns: Sequence[str], text: Sequence[str] = (), encoding: str = "utf8", threads: bool = True
    ) -> pa.Table:
        try:
            source: Any = self.path
            if self.double_colon:
                source = pa.BufferReader(_open_bytes(self.path).read().replace(b"::", b"\x1f"))
            table = pa.csv.read_csv(
                source,
                read_options=pa.csv.ReadOptions(
                    column_names=self.columns,
                    skip_rows=1 if self.header else 0,
                    encoding=encoding,
                    block_size=8 << 20,
                    use_threads=threads,
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=False if self.double_colon else '"',
                    newlines_in_values=not self.double_colon,
                ),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=list(columns), column_types=dict.fromkeys(text, pa.string())
                ),
            )
        except pa.ArrowInvalid as error:
            reason = first_line(error)
            if "invalid UTF8" in reason:
                return self.read(columns, text, "latin-1")
            if "Empty CSV file" in reason:
                raise DataError(f"{self.path}: no rows") from error
            if threads and "Expected" in reason:  # only a single thread knows the row number
                return self.read(columns, text, encoding, threads=False)
            reason = re.sub(r"Row #(\d+)", lambda match: f"row {int(match[1]) - self.header:,}", reason)
            raise DataError(f"{self.path}: {reason}") from error
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read to the end ({first_line(error)})") from error
        if encoding == "utf8" and any(pa.types.is_binary(field.type) for field in table.schema):
            return self.read(columns, text, "latin-1")
        return table


def open_table(source: Any, header: bool = True, no_header_names: Sequence[str] = EVENT_COLUMNS) -> Table:
    """Open a path (format by suffix), a pandas or polars frame, or anything with the Arrow stream interface."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        _check_readable(path)
        if path.suffix.lower() in (".parquet", ".pq"):
            return ParquetTable(path)
        return DelimitedTable(path, header, no_header_names)
    try:
        if hasattr(source, "__arrow_c_stream__") or type(source).__module__.startswith("pandas"):
            return FrameTable(pa.table(source))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise DataError(f"frame: a column mixes types or has an unsupported type ({reason})") from error
    raise DataError(
        f"cannot read a table from {type(source).__name__};"
        " pass a path, a pandas or polars frame, an Arrow table or, for events, a scipy CSR"
    )


def encode_ids(column: pa.ChunkedArray, where: str, typed: bool = True) -> tuple[np.ndarray, Ids]:
    """Codes (int32, one per row) and the distinct ids they stand for.

    Ids without a type (from text files) are integers if all of them read the same when written back.
    """
    if pa.types.is_nested(column.type):
        raise DataError(f"{where}: contains lists; give one row per user and item (`explode` in pandas and polars)")
    encoded = _dictionary_encoded(column, where)
    values = encoded.dictionary
    nameless = pc.is_in(values, pa.array(MISSING_IDS)) if pa.types.is_string(values.type) else values.is_null()
    if encoded.null_count or pc.any(nameless).as_py():
        missing = np.flatnonzero(nameless.take(encoded.indices).fill_null(True).to_numpy(zero_copy_only=False))
        if missing.size:
            raise DataError(
                f"{where}: row {missing[0] + 1:,} has no id ({len(missing):,} such rows, not counting the header);"
                " drop these rows or fill in the ids"
            )
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if not typed and pa.types.is_string(values.type) and len(values):
        are_integers = pc.match_substring_regex(values, r"^(0|-?[1-9]\d{0,17})$")
        if pc.all(are_integers).as_py():
            values = values.cast(pa.int64())
    try:
        return codes, Ids(values)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _dictionary_encoded(column: pa.ChunkedArray, where: str) -> pa.DictionaryArray:
    """As a single chunk, strings as `pa.string()`."""
    if pa.types.is_floating(column.type):  # pandas turns integers with gaps into floats; gaps are reported later
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(f"{where}: ids have fractions; use strings or integers") from error
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if is_text(column.type.value_type):
        column = column.cast(pa.dictionary(column.type.index_type, pa.string()))
    return column.combine_chunks()


def numbers(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """A column as numbers; an error names the first row that is not one."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        column = _parsed(column, where)
    if column.null_count:
        column = column.cast(pa.float64())
    result = column.to_numpy()
    if result.dtype.kind == "f" and np.isnan(result).any():
        raise DataError(f"{where}: row {np.flatnonzero(np.isnan(result))[0] + 1:,} is empty; a number is required")
    return result


def _parsed(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = column.to_pylist()
    for row, value in enumerate(values):
        try:
            values[row] = None if value is None else float(value)
        except (TypeError, ValueError):
            raise DataError(f"{where}: row {row + 1:,} is {value!r}, which is not a number") from None
    return pa.chunked_array([pa.array(values, pa.float64())])


def read_items(source: Any, same_column: str | None = None) -> tuple[Ids, pa.Table]:
    """The ids of an items table, and its other columns; the one with the item's name is called 'title'.

    same_column: the item column of the events, used if the items table has it too.
    """
    table = open_table(source, no_header_names=MOVIE_COLUMNS)
    key = table.find(same_column if same_column in table.columns else None, ITEM_NAMES, "item")
    title = table.guess(TITLE_NAMES)
    titles = [] if title in (None, key) else [title]
    columns = table.read(table.columns, text=[key, *titles])
    codes, ids = table.read_ids(columns, key)
    if len(ids) < len(codes):
        seen = np.unique(codes, return_index=True)[1]
        repeated = ids[int(codes[np.setdiff1d(np.arange(len(codes)), seen)[0]])]
        raise DataError(f"{table.name}: item {repeated!r} in column '{key}' has several rows; keep one row per item")
    rest = [name for name in columns.column_names if name not in (key, *titles)]
    names = ["title"] * len(titles)
    for name in rest:  # another column named 'title' or 'id' gets a trailing underscore
        while name in names or name == "id":
            name += "_"
        names.append(name)
    return ids, columns.select([*titles, *rest]).rename_columns(names)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path}: is a folder, not a file")
        with path.open("rb") as file:
            if not file.read(1):
                raise DataError(f"{path}: the file is empty")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; check the path (relative to {Path.cwd()})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _open_bytes(path: Path) -> Any:
    return pa.input_stream(str(path), compression="detect")


def _first_row(path: Path) -> str:
    try:
        start: bytes = _open_bytes(path).read(1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read ({first_line(error)})") from error
    if b"\0" in start:
        raise DataError(f"{path}: not text in UTF-8 or Latin-1; save it as UTF-8 CSV or as Parquet")
    first = re.split(rb"[\r\n]", start, maxsplit=1)[0]
    try:
        line = first.decode("utf-8-sig")
    except UnicodeDecodeError:
        line = first.decode("latin-1")
    if not line.strip():
        raise DataError(f"{path}: the first line is empty; start the file with its header")
    return line


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
