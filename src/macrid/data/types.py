"""Column types: what any Arrow type is read as, wherever a table is read.

| type | as ids | as ratings | as an attribute of items |
| --- | --- | --- | --- |
| integers, also in a dictionary | integers | numbers | numbers |
| text of any kind, UUID | text | numbers, if they are written as such | text |
| floats, decimals | integers, if whole | numbers | numbers |
| booleans | refused | 0 and 1 | booleans |
| dates, timestamps | refused | refused | dates |
| durations | refused | refused | seconds |
| times of day | refused | refused | text |
| lists | refused | refused | lists of text or numbers |
| structs | refused | refused | one attribute per field |
| binary, maps, unions, intervals | refused | refused | left out, and said |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from macrid.data.ids import is_text

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799  # seconds since 1970: the years 1 to 9999, which Python knows


def simplified(table: pa.Table) -> pa.Table:
    """With types that Arrow's functions support, and UUIDs as text."""
    for place, field in enumerate(table.schema):
        column = _simplified(table.column(place))
        if column.type != field.type:
            table = table.set_column(place, field.name, column)
    return table


def _simplified(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        stored = column.cast(kind.storage_type)
        if kind.extension_name == "arrow.uuid":
            return _uuid_texts(stored)
        return stored.cast(pa.bool_()) if kind.extension_name == "arrow.bool8" else _simplified(stored)
    if types.is_run_end_encoded(kind):
        return pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type)
    if types.is_dictionary(kind) and is_text(kind.value_type):
        return column.cast(pa.dictionary(kind.index_type, pa.large_string()))
    if types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if types.is_string_view(kind):
        return column.cast(pa.large_string())
    if types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    if _is_list(kind):
        return _simplified_lists(column)
    return column


def _uuid_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of 16 bytes each; every distinct one is converted once."""
    encoded = column.combine_chunks().dictionary_encode()
    texts = pa.array([None if value is None else str(UUID(bytes=value)) for value in encoded.dictionary.to_pylist()])
    return pa.chunked_array([texts.cast(pa.string()).take(encoded.indices)])


def _simplified_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As lists of variable size, with simple types inside."""
    inner = _simplified(pa.chunked_array([], column.type.value_type)).type
    target = pa.large_list(inner)
    if types.is_list(column.type) and column.type.value_type == inner:
        return column
    are_views = types.is_list_view(column.type) or types.is_large_list_view(column.type)
    if are_views or isinstance(column.type.value_type, pa.BaseExtensionType):  # Arrow casts neither
        lists = [None if row is None else [_text(value) for value in row] for row in column.to_pylist()]
        return pa.chunked_array([pa.array(lists, target)])
    return column.cast(target)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def _is_list(kind: pa.DataType) -> bool:
    """Of any of the five kinds."""
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        or types.is_list_view(kind) or types.is_large_list_view(kind)
    )  # fmt: skip


def as_attributes(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The columns of an items table as attributes, which files and JSON can hold; and notes on those left out."""
    notes: list[str] = []
    columns = [part for name in table.column_names for part in _attributes(name, table.column(name), notes)]
    if not columns:
        return table.select([]), notes  # which still has rows
    arrays, names = [array for _, array in columns], [name for name, _ in columns]
    return pa.Table.from_arrays(arrays, names=names), notes


def _attributes(name: str, column: pa.ChunkedArray, notes: list[str]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """A column under its name, one per field of a struct, or none."""
    kind = column.type
    if types.is_struct(kind) and kind.num_fields:
        fields = simplified(pa.table({"": column}).flatten())
        for place, field in enumerate(kind):
            yield from _attributes(f"{name}.{field.name}", fields.column(place), notes)
        return
    attribute = _attribute(column)
    if attribute is None:
        notes.append(f"column '{name}' left out: items have no attributes of type {kind}")
        return
    lost = attribute.null_count - column.null_count
    if lost:
        notes.append(f"column '{name}': {lost:,} dates outside the years 1 to 9999 count as missing")
    yield name, attribute


def _attribute(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    kind = column.type
    if types.is_decimal(kind):
        return _numbers(column)
    if types.is_float16(kind):
        return column.cast(pa.float32())
    if types.is_timestamp(kind) or types.is_date(kind):
        return _dates(column)
    if types.is_duration(kind):
        return pc.divide(column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.float64()), 1e6)
    if types.is_time(kind):
        return column.cast(pa.time32("s"), safe=False).cast(pa.string())
    if types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
        if types.is_decimal(inner):
            return column.cast(pa.large_list(pa.float64()))
        return column if _attribute(pa.chunked_array([], inner)) is not None and not types.is_nested(inner) else None
    is_plain = is_text(kind) or types.is_primitive(kind) or types.is_null(kind)
    return column if (is_plain or types.is_dictionary(kind)) and not types.is_interval(kind) else None


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as integers if they have no fraction and fit, else as floats."""
    if column.type.scale <= 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            pass
    return column.cast(pa.float64())


def _dates(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates that Python can show: to the microsecond, of the years 1 to 9999."""
    seconds = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    is_shown = pc.and_(pc.greater_equal(seconds, EARLIEST), pc.less_equal(seconds, LATEST))
    if not pc.all(is_shown).as_py():
        column = pc.if_else(is_shown, column, pa.scalar(None, column.type))
    if types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column
