"""Events of files that need not fit in memory, a batch of rows at a time."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from macrid.data.columns import encode_ids, numbers
from macrid.data.ids import Ids
from macrid.data.signatures import is_parquet
from macrid.data.tables import (
    ITEM_NAMES,
    RATING_NAMES,
    USER_NAMES,
    DelimitedTable,
    ParquetTable,
    Table,
)
from macrid.data.types import simplified
from macrid.errors import DataError, first_line

ROWS = 1 << 20  # read at once
BYTES_PER_ROW = 20  # of a text file, to guess how many rows it has


class Columns(NamedTuple):
    """What the columns of a source are called."""

    user: str
    item: str
    rating: str | None = None
    """None if there are none, or they do not matter."""


class Batch(NamedTuple):
    """Some rows of a table, one user and one item each, as positions among their distinct ids."""

    rows: np.ndarray
    columns: np.ndarray
    users: Ids
    items: Ids
    """Text where a file stores no types."""
    ratings: np.ndarray | None


def files_of(source: Path) -> list[Path]:
    """A file; the files of a folder, those in folders of it, too; or the files that a pattern such as day-*.csv means.

    Hidden files, and those whose name begins with an underscore, are no data.
    """
    if source.is_dir():
        found = [path for path in sorted(source.rglob("*")) if path.is_file() and not _is_hidden(path, source)]
    elif not source.exists() and glob.has_magic(str(source)):
        found = [Path(name) for name in sorted(glob.glob(str(source), recursive=True)) if Path(name).is_file()]
    else:
        return [source]
    if not found:
        raise DataError(f"{source}: no files; check the path (relative to {Path.cwd()})")
    return found


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def find_columns(
    table: Table, user: str | int | None, item: str | int | None, rating: str | int | None, rated: bool
) -> Columns:
    """As `macrid.data.reading.read_events` finds them. rated: whether ratings matter, if there are any."""
    user_column = table.find(user, USER_NAMES, "user")
    item_column = table.find(item, ITEM_NAMES, "item")
    if user_column == item_column:
        raise DataError(f"{table.name}: column '{user_column}' cannot be both user and item")
    rating_column = table.guess(RATING_NAMES) if rating is None else table.find(rating, RATING_NAMES, "rating")
    return Columns(user_column, item_column, rating_column if rated else None)


def guess_rows(path: Path) -> int:
    """About how many rows a file has, without reading it; 0 if it cannot be read."""
    try:
        if path.suffix.lower() in (".parquet", ".pq") or is_parquet(path):
            return int(pa.parquet.read_metadata(path).num_rows)
        return path.stat().st_size // BYTES_PER_ROW
    except (pa.ArrowException, OSError):
        return 0


def read_batches(table: Table, columns: Columns) -> Iterator[Batch]:
    """All rows, in order; an error names the first that is not an event."""
    done = 0
    for part in _parts(table, [name for name in columns if name is not None]):
        first = done
        done += part.num_rows

        def place(row: int, first: int = first) -> str:
            return table.place(first + row)

        codes = {}
        for name in (columns.user, columns.item):
            codes[name] = encode_ids(part.column(name), f"{table.name}, column '{name}'", typed=True, place=place)
        ratings = None
        if columns.rating is not None:
            ratings = numbers(part.column(columns.rating), f"{table.name}, column '{columns.rating}'", place)
        (rows, users), (cols, items) = codes[columns.user], codes[columns.item]
        yield Batch(rows, cols, users, items, ratings)


def _parts(table: Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """These columns, some rows at a time."""
    try:
        if isinstance(table, ParquetTable) and all(table.written.count(name) == 1 for name in columns):
            yield from _parts_of_parquet(table, columns)
        elif isinstance(table, DelimitedTable) and not table.double_colon:
            yield from _parts_of_text(table, columns)
        else:
            yield table.read(columns, text=columns)
    except (pa.ArrowException, OSError, UnicodeError, KeyError) as error:
        table.read(columns, text=columns)  # which knows what to say about it
        raise DataError(f"{table.name}: cannot be read to the end ({first_line(error)})") from error


def _parts_of_parquet(table: ParquetTable, columns: Sequence[str]) -> Iterator[pa.Table]:
    with pa.parquet.ParquetFile(table.path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            part = pa.Table.from_batches([batch]).select(list(columns))
            part.validate(full=True)  # such as text that is not UTF-8
            yield simplified(part)


def _parts_of_text(table: DelimitedTable, columns: Sequence[str]) -> Iterator[pa.Table]:
    with pa.csv.open_csv(table.text.open(), **table.options(columns, columns)) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])
