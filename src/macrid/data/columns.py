"""Columns of tables as ids and as numbers. An error names the first row that is neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.ids import Ids, is_text
from macrid.errors import DataError

MISSING_IDS = ("", "nan", "NaN", "null", "NULL")
WRITTEN_INTEGER = r"^(0|-?[1-9]\d{0,17})$"  # an integer that reads the same when written back
LARGEST_EXACT = 2**53  # integers up to which floats are distinct


def row_text(row: int) -> str:
    return f"row {row + 1:,}"


def encode_ids(
    column: pa.ChunkedArray, where: str, typed: bool = True, place: Callable[[int], str] = row_text
) -> tuple[np.ndarray, Ids]:
    """Codes (int32, one per row) and the distinct ids they stand for.

    Ids without a type (from text files) are integers if all of them read the same when written back.
    """
    if reason := _why_no_ids(column.type):
        raise DataError(f"{where}: {reason}")
    try:
        encoded = _dictionary_encoded(column, where)
    except pa.ArrowException as error:
        raise DataError(f"{where}: ids have type {column.type}; use strings or integers") from error
    values = encoded.dictionary
    nameless = pc.is_in(values, pa.array(MISSING_IDS)) if pa.types.is_string(values.type) else values.is_null()
    if encoded.null_count or pc.any(nameless).as_py():
        missing = np.flatnonzero(nameless.take(encoded.indices).fill_null(True).to_numpy(zero_copy_only=False))
        if missing.size:
            such = f"{len(missing):,} such row{'s' * (len(missing) > 1)}"
            header = "" if typed else ", not counting the header"
            raise DataError(
                f"{where}: {place(int(missing[0]))} has no id ({such}{header}); drop these rows or fill in the ids"
            )
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if not typed and pa.types.is_string(values.type) and len(values):
        are_integers = pc.match_substring_regex(values, WRITTEN_INTEGER)
        if pc.all(are_integers).as_py():
            values = values.cast(pa.int64())
    try:
        return codes, Ids(values)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _why_no_ids(kind: pa.DataType) -> str | None:
    """What to do about a type that ids cannot have."""
    types = pa.types
    if types.is_struct(kind) or types.is_map(kind) or types.is_union(kind):
        return f"ids have type {kind}; choose one field, as a column of strings or integers"
    if types.is_nested(kind):
        return "contains lists; give one row per user and item (`explode` in pandas and polars)"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return f"ids are bytes (type {kind}); write them as text, such as hexadecimal, or as integers"
    return None


def _dictionary_encoded(column: pa.ChunkedArray, where: str) -> pa.DictionaryArray:
    """As a single chunk, strings as `pa.string()`."""
    if pa.types.is_decimal(column.type):
        column = _whole_decimals(column, where)
    if pa.types.is_floating(column.type):  # pandas turns integers with gaps into floats; gaps are reported later
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if pc.any(pc.greater_equal(pc.abs(column.cast(pa.float64())), LARGEST_EXACT)).as_py():
            raise DataError(f"{where}: ids are floats beyond 2^53, where they run together; use strings or integers")
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(f"{where}: ids have fractions; use strings or integers") from error
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if is_text(column.type.value_type):
        column = column.cast(pa.dictionary(column.type.index_type, pa.string()))
    return column.combine_chunks()


def _whole_decimals(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Databases have integers of type NUMERIC."""
    whole = pc.round(column)
    if not pc.all(pc.equal(whole, column)).as_py():
        raise DataError(f"{where}: ids have fractions; use strings or integers")
    try:
        return whole.cast(pa.int64())
    except pa.ArrowInvalid:
        raise DataError(f"{where}: ids are decimals beyond 64 bits; use strings") from None


def numbers(column: pa.ChunkedArray, where: str, place: Callable[[int], str] = row_text) -> np.ndarray:
    """A column as finite numbers; an error names the first row that is not one."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        column = _parsed(column, where, place)
    if column.null_count:
        column = column.cast(pa.float64())
    result = column.to_numpy()
    if result.dtype.kind == "f" and not (finite := np.isfinite(result)).all():
        row = int(np.flatnonzero(~finite)[0])
        value = "empty or NaN" if np.isnan(result[row]) else str(result[row])
        raise DataError(f"{where}: {place(row)} is {value}; a finite number is required")
    return result


def _parsed(column: pa.ChunkedArray, where: str, place: Callable[[int], str]) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = column.to_pylist()
    for row, value in enumerate(values):
        try:
            values[row] = None if value is None else _number(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{where}: {place(row)} is {shown(value)}, which is not a number") from None
    return pa.chunked_array([pa.array(values, pa.float64())])


def _number(value: Any) -> float:
    """Python would also read '٣' and '1_000'."""
    if isinstance(value, bytes) or (isinstance(value, str) and (not value.isascii() or "_" in value)):
        raise ValueError
    return float(value)


def shown(value: Any) -> str:
    """A value in a message, in at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…{text[-1]}"
