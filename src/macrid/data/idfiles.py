"""Files of item ids, such as what is out of stock: one per line, or a table (CSV, TSV, Parquet) with an item column."""

from __future__ import annotations

from pathlib import Path

from macrid.data.ids import Id
from macrid.data.tables import ITEM_NAMES, open_table
from macrid.data.texts import check_text
from macrid.errors import DataError
from macrid.files import check_regular

TABLES = (".csv", ".tsv", ".parquet", ".pq")


def read_ids(path: Path) -> tuple[Id, ...]:
    """The distinct ids of a file, in order; an empty file has none."""
    try:
        check_regular(path, DataError)
        if path.stat().st_size == 0:
            return ()
        if path.suffix.lower() in TABLES:
            return _of_table(path)
        with check_text(path).lines() as stream:
            lines = stream.read().splitlines()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; check the path (relative to {Path.cwd()})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _of_table(path: Path) -> tuple[Id, ...]:
    table = open_table(path)
    if table.guess(ITEM_NAMES) is None:
        columns = ", ".join(f"'{name}'" for name in table.columns)
        raise DataError(f"{path}: no column looks like the item; call one of them item_id: {columns}")
    column = table.find(None, ITEM_NAMES, "item")
    _, ids = table.read_ids(table.read([column], text=[column]), column)
    return tuple(ids)
