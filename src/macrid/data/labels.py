"""Labels of items: the concept they belong to and the values of attributes. Any may be missing.

Give `{"concept": {item: name}, "size": {item: number}, …}`, a table with a column of item ids, or a CSV or Parquet file
of such a table. The column or name `concept` holds concept labels; every other one is an attribute.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from macrid.data.columns import MISSING_IDS
from macrid.data.ids import Id, Ids, first_few
from macrid.data.tables import ITEM_NAMES, Table, open_table
from macrid.errors import DataError

CONCEPT = "concept"
FEWEST_LABELS = 2


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels by item position."""

    concept: np.ndarray
    """(items,) position in `concept_names`; −1 where missing."""
    concept_names: tuple[Id, ...]
    attributes: dict[str, np.ndarray]
    """Name → (items,) numbers; NaN where missing."""

    @classmethod
    def read(cls, source: Any, items: Ids, concepts: int, dim: int) -> Labels:
        """Read labels and check them against the items and the size of the model.

        concepts, dim: the most concept labels and the most attributes.
        """
        labels = _from_mapping(source) if isinstance(source, Mapping) else _from_table(source)
        columns = {name: _positioned(name, pairs, items) for name, pairs in labels}
        if not columns:
            raise DataError("labels: empty; give {'concept': {item: name}} or {attribute: {item: number}}")
        concept, names = np.full(len(items), -1), tuple[Id, ...]()
        if CONCEPT in columns:
            concept, names = _concepts(columns.pop(CONCEPT), items, concepts)
        if len(columns) > dim:
            raise DataError(
                f"labels: {len(columns)} attributes ({first_few(list(columns), 3)}) need a dimension each, but the"
                f" model has {dim}; give fewer, or raise dim"
            )
        return cls(concept, names, {name: _attribute(name, values, items) for name, values in columns.items()})

    def digest(self) -> str:
        """Equal for equal labels."""
        digest = hashlib.sha256(repr([self.concept_names, *self.attributes]).encode())
        for values in (self.concept.astype(np.int64), *self.attributes.values()):
            digest.update(values.tobytes())
        return digest.hexdigest()

    @property
    def known(self) -> np.ndarray:
        """(items,) whether each has a concept label."""
        return self.concept >= 0


def _from_mapping(source: Mapping[Any, Any]) -> Iterator[tuple[str, list[tuple[Id, Any]]]]:
    for name, values in source.items():
        if not isinstance(name, str) or not isinstance(values, Mapping):
            raise DataError(
                f"labels: {name!r} is {_short(values)}; give a name and a mapping from item to value, such as"
                " {'concept': {'bag-0001': 'bags'}, 'size': {'bag-0001': 31.5}}"
            )
        yield name, [(item, value) for item, value in values.items() if value is not None]


def _from_table(source: Any) -> Iterator[tuple[str, list[tuple[Id, Any]]]]:
    table = open_table(source)
    key = table.find(table.guess(ITEM_NAMES) or table.columns[0], (), "item")
    rest = [name for name in table.columns if name != key]
    if not rest:
        raise DataError(f"{table.name}: only has the column '{key}'; add a column 'concept' or a column of numbers")
    columns = table.read(table.columns, text=[key, CONCEPT] if CONCEPT in rest else [key])
    codes, ids = table.read_ids(columns, key)
    id_list = ids[:]
    for name in rest:
        values = _values(columns.column(name), name, table)
        yield name, [(id_list[code], value) for code, value in zip(codes, values, strict=True) if value is not None]


def _values(column: pa.ChunkedArray, name: str, table: Table) -> list[Any]:
    """One per row, None if missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type):
        raise DataError(f"{table.name}, column '{name}': contains lists; give one value per row")
    values = column.to_pylist()
    if name == CONCEPT or not table.are_typed:
        values = [None if isinstance(value, str) and value in MISSING_IDS else value for value in values]
    if name == CONCEPT and pa.types.is_floating(column.type):  # pandas turns integers with gaps into floats
        values = [int(v) if v is not None and v.is_integer() else v for v in values]
    return values


def _positioned(name: str, pairs: Sequence[tuple[Id, Any]], items: Ids) -> dict[int, Any]:
    """Values by item position, one per item."""
    ids, known = [item for item, _ in pairs], items
    if ids and Ids(dict.fromkeys(ids)).are_integers != items.are_integers:
        known, ids = Ids(items.array.cast(pa.string())), [str(item) for item in ids]
    positions = known.positions(ids)
    unknown = list(dict.fromkeys(item for item, place in zip(ids, positions, strict=True) if place < 0))
    if unknown:
        kind = "integers" if items.are_integers else "strings"
        raise DataError(
            f"labels, '{name}': {len(unknown):,} of {len(set(ids)):,} labelled items are not among the"
            f" {len(items):,} items of the data: {first_few(unknown)}; its ids are {kind} such as"
            f" {', '.join(map(repr, items[:3]))}; correct or remove these labels"
        )
    values: dict[int, Any] = {}
    for place, (_, value) in zip(positions.tolist(), pairs, strict=True):
        earlier = values.setdefault(place, value)
        if earlier is not value and earlier != value:
            raise DataError(
                f"labels, '{name}': item {items[place]!r} is labelled both {earlier!r} and {value!r}; keep one"
            )
    return values


def _concepts(values: dict[int, Any], items: Ids, limit: int) -> tuple[np.ndarray, tuple[Id, ...]]:
    """Codes (items,) and the sorted names they stand for."""
    _check_enough(CONCEPT, values)
    for place, value in values.items():
        if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
            raise DataError(f"labels, '{CONCEPT}': item {items[place]!r} has {value!r}; use a string or an integer")
    plain = {place: value if isinstance(value, str) else int(value) for place, value in values.items()}
    kinds = {type(value) for value in plain.values()}
    if len(kinds) > 1:
        examples = [next(value for value in plain.values() if isinstance(value, kind)) for kind in (str, int)]
        raise DataError(f"labels, '{CONCEPT}': {examples[0]!r} is a string, {examples[1]!r} is not; use one type")
    names: list[Any] = sorted(set(plain.values()))
    if len(names) < FEWEST_LABELS:
        raise DataError(f"labels, '{CONCEPT}': all {len(plain):,} are {names[0]!r}; give at least two distinct ones")
    if len(names) > limit:
        raise DataError(
            f"labels, '{CONCEPT}': {len(names)} distinct labels ({first_few(names, 3)}), but the model has {limit}"
            f" concepts; set concepts to {len(names)} or more, or merge labels"
        )
    codes = np.full(len(items), -1)
    codes[list(plain)] = [names.index(value) for value in plain.values()]
    return codes, tuple(names)


def _attribute(name: str, values: dict[int, Any], items: Ids) -> np.ndarray:
    """(items,) numbers, NaN where missing."""
    _check_enough(name, values)
    numbers = np.full(len(items), np.nan)
    for place, value in values.items():
        try:
            number = math.nan if isinstance(value, bytes) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(
                f"labels, '{name}': item {items[place]!r} has {value!r}, which is not a finite number; attributes are"
                f" numbers, groups of items go under '{CONCEPT}'"
            )
        numbers[place] = number
    if np.nanmin(numbers) == np.nanmax(numbers):
        raise DataError(
            f"labels, '{name}': all {len(values):,} values are {np.nanmin(numbers):g}, so they distinguish no items;"
            " vary them or remove the attribute"
        )
    return numbers


def _check_enough(name: str, values: dict[int, Any]) -> None:
    if len(values) < FEWEST_LABELS:
        count = "only one item has" if values else "no item has"
        raise DataError(f"labels, '{name}': {count} a label; give at least {FEWEST_LABELS}, or remove it")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else type(value).__name__
