"""Events of files that need not fit in memory, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from macrid.data.columns import encode_ids, numbers
from macrid.data.ids import Ids
from macrid.data.tables import ITEM_NAMES, RATING_NAMES, USER_NAMES, Table
from macrid.errors import DataError


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


def read_batches(table: Table, columns: Columns) -> Iterator[Batch]:
    """All rows, in order; an error names the first that is not an event."""
    done = 0
    names = [name for name in columns if name is not None]
    for part in table.batches(names, text=names):
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
