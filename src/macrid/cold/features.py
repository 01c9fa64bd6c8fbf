"""Rows of an items table as vectors whose inner products say how alike two items are.

Every column has a block of features, all of the same length, or 0 where its value is missing or unknown:

| column | features |
| --- | --- |
| numbers, dates | how close the number is to each of up to eleven quantiles (linear interpolation) |
| text, booleans, lists | its values, rare ones weighing more |
| title | its words, likewise |

Items have length 1, so their inner product is the share of known columns in which they agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import scipy.sparse as sp

from macrid.data.attributes import SEPARATOR, TITLE, WORD, is_date, kind_of, numbers_of, texts_of
from macrid.data.columns import row_text
from macrid.data.ids import is_text
from macrid.errors import DataError

REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
KNOTS = 11
FEWEST_ITEMS = 2  # that have a value
MOST_VALUES = 5_000  # per column


@dataclass(frozen=True)
class Numbers:
    """A column of numbers or dates."""

    name: str
    kind: pa.DataType
    knots: np.ndarray
    """Increasing, at least two."""

    @property
    def width(self) -> int:
        return len(self.knots)

    def of(self, column: pa.ChunkedArray) -> sp.csr_array:
        """(items, knots), rows that sum to 1, or to 0 where unknown."""
        values = _numbers(column)
        assert values is not None
        items = np.flatnonzero(np.isfinite(values))
        known = np.clip(values[items], self.knots[0], self.knots[-1])
        left = np.clip(np.searchsorted(self.knots, known, side="right") - 1, 0, len(self.knots) - 2)
        share = (known - self.knots[left]) / (self.knots[left + 1] - self.knots[left])
        entries = np.concatenate([1 - share, share]), (np.tile(items, 2), np.concatenate([left, left + 1]))
        return sp.csr_array(entries, shape=(len(values), self.width))


@dataclass(frozen=True)
class Values:
    """A column of text, booleans or lists, or the words of titles."""

    name: str
    kind: pa.DataType
    weights: dict[str, float]
    """Of each known value."""

    @property
    def width(self) -> int:
        return len(self.weights)

    def of(self, column: pa.ChunkedArray) -> sp.csr_array:
        """(items, values)"""
        place = {value: number for number, value in enumerate(self.weights)}
        texts = _texts(self.name, column) or []
        known = [[value for value in values if value in place] for values in texts]
        rows = np.repeat(np.arange(len(texts)), [len(values) for values in known])
        columns = [place[value] for values in known for value in values]
        weights = [self.weights[value] for values in known for value in values]
        return sp.csr_array((np.array(weights, dtype=np.float64), (rows, columns)), shape=(len(texts), self.width))


@dataclass(frozen=True)
class Features:
    """What the items of a training have in common, column by column."""

    columns: tuple[Numbers | Values, ...]

    @classmethod
    def fit(cls, table: pa.Table | None) -> Features:
        """From the table of trained items; columns that distinguish no items are left out."""
        if table is None:
            return cls(())
        columns = (_column(name, table.column(name)) for name in table.column_names)
        return cls(tuple(column for column in columns if column is not None))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def of(self, table: pa.Table) -> tuple[sp.csr_array, np.ndarray]:
        """Features (items, features), and whether each column is known of each item (items, columns)."""
        blocks, known = [], np.zeros((table.num_rows, len(self.columns)), dtype=bool)
        for place, column in enumerate(self.columns):
            if column.name not in table.column_names:
                blocks.append(sp.csr_array((table.num_rows, column.width)))
                continue
            block = column.of(table.column(column.name))
            length = np.sqrt(np.asarray(block.multiply(block).sum(axis=1)).ravel())
            known[:, place] = length > 0
            blocks.append(sp.diags_array(1 / np.where(length > 0, length, 1)) @ block)
        if not blocks:
            return sp.csr_array((table.num_rows, 0)), known
        parts = np.maximum(known.sum(axis=1), 1)
        return sp.csr_array(sp.diags_array(1 / np.sqrt(parts)) @ sp.hstack(blocks)), known


def _column(name: str, column: pa.ChunkedArray) -> Numbers | Values | None:
    values = _numbers(column) if name != TITLE else None
    if values is not None and (known := values[np.isfinite(values)]).size:
        knots = np.unique(np.quantile(known, np.linspace(0, 1, KNOTS)))
        return Numbers(name, kind_of(column), knots) if len(knots) > 1 else None
    texts = _texts(name, column)
    if texts is None:
        return None
    counts = Counter(value for values in texts for value in values)
    known_items = sum(map(bool, texts))
    frequent = [(value, count) for value, count in counts.most_common() if FEWEST_ITEMS <= count < known_items]
    weights = {value: float(np.log(known_items / count)) for value, count in frequent[:MOST_VALUES]}
    return Values(name, kind_of(column), weights) if weights else None


def _numbers(column: pa.ChunkedArray) -> np.ndarray | None:
    """(items,) NaN where unknown; None for other types."""
    numbers = numbers_of(column)
    if numbers is None:
        return None
    values = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _texts(name: str, column: pa.ChunkedArray) -> Sequence[Sequence[str]] | None:
    if name == TITLE:
        return [sorted(set(WORD.findall(str(title).lower()))) if title else [] for title in column.to_pylist()]
    return texts_of(column)


def conformed(table: pa.Table, schema: pa.Schema, source: str) -> tuple[pa.Table, list[str]]:
    """New items with the columns and types of the trained ones, and the names of unknown columns, which are dropped.

    Missing columns are null. A value of another type is a `DataError` that names row and column.
    """
    unknown = [name for name in table.column_names if name not in schema.names]
    columns = {
        field.name: _cast(table.column(field.name), field, source)
        if field.name in table.column_names
        else pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        for field in schema
    }
    return pa.table(columns), unknown


def _cast(column: pa.ChunkedArray, field: pa.Field, source: str) -> pa.ChunkedArray:
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if column.type == kind:
        return column
    if is_text(kind) and _is_list(column.type):
        column = pa.chunked_array(
            [[None if row is None else SEPARATOR.join(map(str, row)) for row in column.to_pylist()]]
        )
    elif _is_list(kind) and is_text(column.type):
        column = pa.chunked_array([[None if row is None else row.split(SEPARATOR) for row in column.to_pylist()]])
    elif types.is_integer(kind) and types.is_floating(column.type):
        kind = pa.float64()  # such as the first price with cents
    try:
        return column.cast(kind)
    except REFUSALS:
        row, value = next(entry for entry in enumerate(column) if not _can_cast(entry[1], kind))
        raise DataError(
            f"{source}, {row_text(row)}: '{field.name}' is {str(value)[:60]!r}, but in training it was {_called(kind)};"
            " correct it, or remove the column"
        ) from None


def _called(kind: pa.DataType) -> str:
    """A type in words."""
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "a number"
    return (
        "a date"
        if is_date(kind)
        else "true or false"
        if types.is_boolean(kind)
        else "a list"
        if _is_list(kind)
        else str(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _can_cast(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        pa.array([value.as_py()], value.type).cast(kind)
    except REFUSALS:
        return False
    return True
