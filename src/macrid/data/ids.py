"""The caller's ids (strings or integers) and their positions in arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.errors import DataError

Id = str | int


class Ids(Sequence[Id]):
    """Distinct ids in a fixed order, all strings or all integers; position i belongs to row or column i of a matrix."""

    def __init__(self, values: Iterable[Id] | pa.Array | np.ndarray) -> None:
        array = values if isinstance(values, pa.Array) else _to_array(values)
        if pa.types.is_integer(array.type):
            target = pa.int64()
        elif is_text(array.type):
            target = pa.string()
        else:
            raise DataError(f"ids have type {array.type}; use strings or integers")
        if array.null_count:
            raise DataError(f"{array.null_count:,} of {len(array):,} ids are missing; every row needs an id")
        try:
            self.array: pa.Array = array.cast(target)
        except pa.ArrowInvalid as error:
            raise DataError(f"ids do not fit in 64 bits ({error}); use strings") from error

    @classmethod
    def range(cls, count: int) -> Ids:
        """The integers 0 … count − 1."""
        return cls(np.arange(count))

    @property
    def are_integers(self) -> bool:
        return bool(pa.types.is_integer(self.array.type))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return self.array[position].to_pylist()
        return self.array[int(position)].as_py()

    def __iter__(self) -> Iterator[Id]:
        return iter(self.array.to_pylist())

    def __contains__(self, value: object) -> bool:
        return value in self._position_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and bool(self.array.equals(other.array))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ids({len(self):,} {'integers' if self.are_integers else 'strings'})"

    @cached_property
    def _position_of(self) -> dict[Id, int]:
        return {value: position for position, value in enumerate(self.array.to_pylist())}

    def positions(self, values: Iterable[Id]) -> np.ndarray:
        """The position of each value, −1 if unknown."""
        find = self._position_of.get
        return np.array([find(value, -1) for value in values], dtype=np.int64)

    def take(self, positions: np.ndarray) -> Ids:
        return Ids(self.array.take(pa.array(positions)))

    def parse(self, text: str) -> Id:
        """Convert an id given as text (on the command line, say) to the type of these ids; '007' is not 7."""
        number = whole_number(text) if self.are_integers else None
        return text if number is None else number

    def order(self) -> np.ndarray:
        """Positions sorted by id: integers by value, strings by code point."""
        return pc.sort_indices(self.array).to_numpy().astype(np.int64)


def whole_number(text: str) -> int | None:
    """The integer of 64 bits that is written exactly like this, in ASCII: not '007', '+7', '²' or '٣١٨'."""
    number = int(text) if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def places_in(whole: Ids, part: Ids) -> np.ndarray:
    """Positions of another table's ids; the two may differ in type, as text files do not store types."""
    if part.are_integers == whole.are_integers:
        return whole.positions(part)
    return whole.positions(whole.parse(str(value)) for value in part)


def first_few(ids: Sequence[Id], limit: int = 5) -> str:
    """A few ids for a message: 'a', 'b', 'c' and 17 more."""
    return ", ".join(map(repr, ids[:limit])) + (f" and {len(ids) - limit:,} more" if len(ids) > limit else "")


def _to_array(values: Iterable[Id] | np.ndarray) -> pa.Array:
    values = values if isinstance(values, np.ndarray) else list(values)
    if isinstance(values, list) and not values:
        return pa.array([], type=pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataError(f"ids must be all strings or all integers: {error}") from error
