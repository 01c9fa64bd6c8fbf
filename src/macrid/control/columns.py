"""The columns of items as conditions see them: which items equal, exceed or contain a value, and which have none."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import scipy.sparse as sp

from macrid.data.attributes import is_date, kind_of, numbers_of, texts_of
from macrid.data.ids import Ids, whole_number


class Value(NamedTuple):
    """A value as it is written in a condition: '007' is not 7."""

    kind: Literal["text", "number", "truth"]
    text: str


ORDER: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Column(Protocol):
    """Each method gives (items,) whether an item meets it; a `ValueError` says why a comparison makes no sense."""

    known: np.ndarray
    """(items,) whether an item has a value."""

    def among(self, values: Sequence[Value]) -> np.ndarray: ...

    def compared(self, sign: str, value: Value) -> np.ndarray: ...

    def contains(self, text: str) -> np.ndarray: ...

    def unknown(self, values: Sequence[Value]) -> list[str]:
        """Those that no item has, where that looks like a mistake."""
        ...

    @property
    def texts(self) -> list[str]:
        """Values that may have been meant by unknown ones."""
        ...

    @property
    def kind(self) -> str:
        """number, date, boolean, text or id."""
        ...

    def values(self) -> sp.csr_array:
        """(items, distinct values) 1 where an item has a value."""
        ...


class NumberColumn:
    """Numbers, dates (as seconds) or booleans."""

    def __init__(self, numbers: np.ndarray, known: np.ndarray, kind: str = "number") -> None:
        self.numbers, self.kind, self.known = numbers, kind, known & np.isfinite(numbers)
        self.texts: list[str] = []

    def among(self, values: Sequence[Value]) -> np.ndarray:
        mask = np.zeros(len(self.numbers), dtype=bool)
        for value in values:
            mask |= self.numbers == self._number(value)
        return mask & self.known

    def compared(self, sign: str, value: Value) -> np.ndarray:
        if self.kind == "boolean":
            raise ValueError("is true or false; compare it with = or !=")
        return ORDER[sign](self.numbers, self._number(value)) & self.known

    def contains(self, text: str) -> NoReturn:
        raise ValueError(f"is a {self.kind}; 'contains' is for text")

    def unknown(self, values: Sequence[Value]) -> list[str]:
        return []

    def values(self) -> sp.csr_array:
        items = np.flatnonzero(self.known)
        return _ones(items, np.unique(self.numbers[items], return_inverse=True)[1], len(self.known))

    def _number(self, value: Value) -> float:
        if self.kind == "date":
            return _seconds(value)
        if self.kind == "boolean":
            if value.kind != "truth":
                raise ValueError("is true or false; compare it with one of them")
            return value.text.lower() == "true"
        if value.kind != "number":
            raise ValueError("is a number; compare it with one, without quotes")
        number = whole_number(value.text)
        return float(value.text) if number is None else number


class TextColumn:
    """One text per item, or several."""

    kind = "text"

    def __init__(self, texts: list[list[str]]) -> None:
        counts = np.array([len(values) for values in texts], dtype=np.int64)
        self.known = counts > 0
        self._code_of: dict[str, int] = {}
        number = self._code_of.setdefault
        codes = np.array([number(value, len(self._code_of)) for values in texts for value in values], dtype=np.int64)
        self.texts = list(self._code_of)
        self._items = np.repeat(np.arange(len(texts)), counts)[np.argsort(codes, kind="stable")]
        self._starts = np.searchsorted(np.sort(codes), np.arange(len(self.texts) + 1))

    def among(self, values: Sequence[Value]) -> np.ndarray:
        return self._with(self._code_of.get(value.text, -1) for value in values)

    def compared(self, sign: str, value: Value) -> NoReturn:
        raise ValueError("is text; compare it with =, !=, in or contains")

    def contains(self, text: str) -> np.ndarray:
        wanted = text.casefold()
        return self._with(code for value, code in self._code_of.items() if wanted in value.casefold())

    def unknown(self, values: Sequence[Value]) -> list[str]:
        return [value.text for value in values if value.text not in self._code_of]

    def values(self) -> sp.csr_array:
        codes = np.repeat(np.arange(len(self.texts)), np.diff(self._starts))
        return _ones(self._items, codes, len(self.known))

    def _with(self, codes: Iterable[int]) -> np.ndarray:
        mask = np.zeros(len(self.known), dtype=bool)
        for code in codes:
            if code >= 0:
                mask[self._items[self._starts[code] : self._starts[code + 1]]] = True
        return mask


class IdColumn:
    """The ids of items."""

    kind = "id"

    def __init__(self, ids: Ids) -> None:
        self._ids, self.known, self.texts = ids, np.ones(len(ids), dtype=bool), list[str]()

    def among(self, values: Sequence[Value]) -> np.ndarray:
        mask, positions = np.zeros(len(self._ids), dtype=bool), self._positions(values)
        mask[positions[positions >= 0]] = True
        return mask

    def compared(self, sign: str, value: Value) -> NoReturn:
        raise ValueError("has no order; compare it with =, !=, in or contains")

    def contains(self, text: str) -> np.ndarray:
        wanted = text.casefold()
        return np.array([wanted in str(value).casefold() for value in self._ids], dtype=bool)

    def unknown(self, values: Sequence[Value]) -> list[str]:
        return [value.text for value, at in zip(values, self._positions(values), strict=True) if at < 0]

    def values(self) -> sp.csr_array:
        places = np.arange(len(self._ids))
        return _ones(places, places, len(places))

    def _positions(self, values: Sequence[Value]) -> np.ndarray:
        return self._ids.positions(self._ids.parse(value.text) for value in values)


def read_column(column: pa.ChunkedArray, separator: str) -> Column:
    """A column of the items table; separator: between several values in one text, if not empty.

    A `ValueError` for a type that conditions cannot be about.
    """
    kind, numbers = kind_of(column), numbers_of(column)
    if types.is_boolean(kind):
        return _numbers(column.cast(pa.int8()), "boolean")
    if numbers is not None:
        return _numbers(numbers, "date" if is_date(kind) else "number")
    texts = [[]] * len(column) if types.is_null(kind) else texts_of(column, separator)
    if texts is None:
        raise ValueError(f"has type {kind}; use numbers, dates, text, booleans or lists")
    return TextColumn(texts)


def _ones(items: np.ndarray, codes: np.ndarray, count: int) -> sp.csr_array:
    """(items, values) for `count` items."""
    width = int(codes.max(initial=-1)) + 1
    return sp.csr_array((np.ones(len(items), dtype=np.float32), (items, codes)), (count, width))


def _numbers(column: pa.ChunkedArray, kind: str) -> NumberColumn:
    """Integers stay exact, also beyond 2^53."""
    values = column.fill_null(0).to_numpy()
    return NumberColumn(values, column.is_valid().to_numpy(), kind)


def _seconds(value: Value) -> float:
    if value.kind == "text":
        try:
            moment = datetime.fromisoformat(value.text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    raise ValueError("is a date; compare it with one such as '2026-01-31'")
