"""Item attributes, read once and viewed in two ways: as groups and as numbers.

| column of the items table | groups (`Attribute`) | numbers (`Column`) |
| --- | --- | --- |
| numbers, dates | up to 20 distinct values as they are, else ten groups of equal size | the number itself |
| text, booleans | its values | 1 or 0 per value that is neither rare nor nearly universal |
| lists, or text separated by "|" | its values; an item with n values counts 1 / n in each | the same |
| title | none | 1 or 0 per word of at least three letters, likewise |

Popularity, known for every item, is the first `Column`; `Interactions` renames a table column of that name. A missing
value is NaN in a `Column` and left out of an `Attribute`. Columns that distinguish no items or every item are not
attributes: one value for all items, or text (or integers) with more distinct values than half the items, such as
titles, links and ids.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import scipy.sparse as sp

from macrid.data.ids import is_text
from macrid.errors import RequestError

Kind = Literal["popularity", "number", "category", "tag", "word"]
POPULARITY: Final = "popularity"
TITLE = "title"
MOST_DISTINCT = 20  # numbers with more distinct values are binned
BINS = 10
FEWEST_PER_BIN = 5
SEPARATOR = "|"
FREQUENT_SHARE = 0.05  # of items that must have a list value, and lack it, for it to be a factor
FEWEST_ITEMS = 10  # that have a value, and that lack it
MOST_WORDS = 200
MOST_VALUES = 200
WORD = re.compile(r"[^\W\d_]{3,}")


class Catalogue(Protocol):
    """Anything with items, such as interactions or a model."""

    @property
    def table(self) -> pa.Table | None: ...
    @property
    def popularity(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Attribute:
    """An attribute of the items that have it, as groups."""

    name: str
    items: np.ndarray  # (known,) positions
    shares: sp.csr_array = field(repr=False)  # (known, values), rows sum to 1
    values: tuple[str, ...]
    numbers: np.ndarray | None = field(default=None, repr=False)  # (known,) if the values are numbers or dates
    is_binned: bool = False

    @property
    def has_several(self) -> bool:
        """Whether an item can have more than one value."""
        return self.shares.nnz > len(self.items)

    def factors(self, count: int) -> dict[str, np.ndarray]:
        """Prediction targets for `count` items, None or NaN where unknown: numbers, labels, or a boolean per value."""
        if self.is_binned:
            return {self.name: self._spread(self.numbers, count, np.nan)}
        if not self.has_several:
            return {self.name: self._spread(np.array(self.values, dtype=object)[self.shares.indices], count, None)}
        is_present = self.shares.tocsc() > 0
        shares = np.diff(is_present.indptr) / len(self.items)
        return {
            f"{self.name}: {self.values[value]}": self._spread(is_present[:, [value]].toarray()[:, 0], count, None)
            for value in np.flatnonzero((shares >= FREQUENT_SHARE) & (shares <= 1 - FREQUENT_SHARE))
        }

    def columns(self, count: int) -> list[Column]:
        """Numbers for `count` items: the attribute itself, or one column per frequent value."""
        if self.numbers is not None:
            return [Column(self.name, self.name, "number", self._spread(self.numbers, count, np.nan))]
        is_present = (self.shares > 0).tocsc()
        counts = np.diff(is_present.indptr)
        frequent = np.flatnonzero((counts >= FEWEST_ITEMS) & (counts <= len(self.items) - FEWEST_ITEMS))
        frequent = np.sort(frequent[np.argsort(-counts[frequent], kind="stable")[:MOST_VALUES]])
        kind: Kind = "tag" if self.has_several else "category"
        flags = {self.values[value]: is_present[:, [value]].toarray()[:, 0] for value in frequent}
        return [
            Column(f"{self.name}: {value}", self.name, kind, self._spread(present, count, np.nan))
            for value, present in flags.items()
        ]

    def _spread(self, values: Any, count: int, missing: Any) -> np.ndarray:
        all_values = np.full(count, missing, dtype=np.float64 if missing is not None else object)
        all_values[self.items] = values
        return all_values


@dataclass(frozen=True)
class Column:
    """One number per item."""

    name: str
    """Such as "year", or "genres: Comedy" for one value of an attribute."""
    attribute: str
    """The column of the items table."""
    kind: Kind
    values: np.ndarray = field(repr=False)
    """(items,) NaN where unknown; 0 or 1 unless the kind is number or popularity."""

    @property
    def value(self) -> str | None:
        """The category, tag or word that it marks."""
        return None if self.kind in (POPULARITY, "number") else self.name.removeprefix(f"{self.attribute}: ")

    def is_usable(self, items: np.ndarray | slice = slice(None), fewest: int = FEWEST_ITEMS) -> bool:
        """Whether it distinguishes some of these items from others."""
        known = self.values[items]
        known = known[np.isfinite(known)]
        if len(known) < 2 * fewest or np.ptp(known) == 0:
            return False
        return self.value is None or bool(fewest <= known.sum() <= len(known) - fewest)


def columns_of(items: Catalogue, words: bool = False, attributes: Sequence[Attribute] | None = None) -> list[Column]:
    """All columns of the items, popularity first. attributes: those of the items table, if they have been read."""
    columns = [Column(POPULARITY, POPULARITY, POPULARITY, items.popularity.astype(np.float64))]
    for attribute in read_attributes(items.table) if attributes is None else attributes:
        columns += attribute.columns(len(items.popularity))
    if words and items.table is not None and TITLE in items.table.column_names:
        columns += _words(items.table.column(TITLE).to_pylist())
    return columns


def named_column(items: Catalogue, name: str, columns: Sequence[Column] | None = None) -> Column:
    """A column by name; a `RequestError` says which exist, or why this one cannot be used."""
    known = columns_of(items) if columns is None else columns
    for column in known:
        if column.name == name:
            if not column.is_usable():
                raise RequestError(_why_unusable(column))
            return column
    table = items.table
    if table is not None and name in table.column_names and name != TITLE:
        of_attribute = [column.name for column in known if column.attribute == name]
        if of_attribute:
            raise RequestError(f"attribute '{name}' has several values; choose one, such as '{of_attribute[0]}'")
        raise RequestError(f"attribute '{name}' {_why_none(table.column(name))}")
    names = [column.name for column in known if column.kind != "word"]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    raise RequestError(f"unknown attribute '{name}'; items have {', '.join(names[:12])}{more}")


def _why_unusable(column: Column) -> str:
    known = int(np.isfinite(column.values).sum())
    if known < 2 * FEWEST_ITEMS:
        return f"attribute '{column.name}' is known for only {known} items; fill in more or choose another"
    return f"attribute '{column.name}' is the same for nearly all items; choose another"


def _why_none(column: pa.ChunkedArray) -> str:
    """Why a column of the items table is not an attribute."""
    values = [value for value in column.to_pylist() if not _is_missing(value)]
    if not values:
        return "is missing for all items; fill it in or choose another"
    counts = Counter(map(str, values))
    if len(counts) == 1:
        return f"is {values[0]!r} for all items; choose another"
    if len(counts) > len(values) / 2:
        return "is different for nearly all items, so it defines no groups; choose another"
    if any(FEWEST_ITEMS <= count <= len(values) - FEWEST_ITEMS for count in counts.values()):
        return f"has type {column.type}; use numbers, dates, text, booleans or lists"
    return f"has no value that at least {FEWEST_ITEMS} items have and {FEWEST_ITEMS} lack; choose another"


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == [] or (isinstance(value, float) and not math.isfinite(value))


def read_attributes(table: pa.Table | None) -> list[Attribute]:
    """The columns of an items table that are attributes."""
    if table is None:
        return []
    attributes = (read_attribute(name, table.column(name)) for name in table.column_names if name != TITLE)
    return [attribute for attribute in attributes if attribute is not None]


def read_attribute(name: str, column: pa.ChunkedArray) -> Attribute | None:
    """A table column as an attribute; None if it defines no groups of items."""
    kind, numbers = kind_of(column), numbers_of(column)
    if numbers is not None:
        return _of_numbers(name, numbers, types.is_integer(kind), _date_text if is_date(kind) else _number_text)
    texts = texts_of(column)
    return None if texts is None else _of_values(name, texts)


def kind_of(column: pa.ChunkedArray) -> pa.DataType:
    """The type of its values, dictionary-encoded or not."""
    return column.type.value_type if types.is_dictionary(column.type) else column.type


def is_date(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def numbers_of(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A column of numbers, or of dates as seconds since 1970; None for other types."""
    kind = kind_of(column)
    if types.is_integer(kind) or types.is_floating(kind):
        return column.cast(kind)
    if types.is_decimal(kind):
        return column.cast(pa.float64())
    if is_date(kind):
        return column.cast(kind).cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    return None


def texts_of(column: pa.ChunkedArray, separator: str = SEPARATOR) -> list[list[str]] | None:
    """The distinct values of each item in a column of text, booleans or lists; None for other types."""
    kind = kind_of(column)
    if is_text(kind) or types.is_boolean(kind):
        texts = ["" if value is None else str(value) for value in column.to_pylist()]
        several = bool(separator) and any(separator in text for text in texts)
        lists = [text.split(separator) if several else [text] for text in texts]
    elif types.is_list(kind) or types.is_large_list(kind):
        lists = [[str(value) for value in values or [] if value is not None] for values in column.to_pylist()]
    else:
        return None
    return [sorted({value.strip() for value in values} - {""}) for values in lists]


def _of_values(name: str, texts: list[list[str]]) -> Attribute | None:
    items = np.flatnonzero([len(values) > 0 for values in texts])
    values, codes = np.unique([value for values in texts for value in values] or [""], return_inverse=True)
    if not 2 <= len(values) <= len(items) / 2:
        return None
    counts = np.array([len(texts[item]) for item in items])
    shares = sp.csr_array((np.repeat(1 / counts, counts), codes, np.append(0, counts.cumsum())))
    return Attribute(name, items, shares, tuple(values.tolist()))


def _number_text(value: Any) -> str:
    """As short as possible and still unique."""
    return str(value).removesuffix(".0")


def _date_text(seconds: Any) -> str:
    return str(np.datetime64(int(seconds), "s")).removesuffix("T00:00:00")


def _of_numbers(
    name: str, column: pa.ChunkedArray, are_integers: bool, to_text: Callable[[Any], str]
) -> Attribute | None:
    items = np.flatnonzero(column.is_valid().to_numpy())
    known = column.drop_null().to_numpy()
    items, known = items[np.isfinite(known)], known[np.isfinite(known)]
    distinct, codes = np.unique(known, return_inverse=True)
    most_groups = len(items) / 2  # more would describe single items
    if len(distinct) < 2 or (are_integers and len(distinct) > most_groups):
        return None
    if len(distinct) <= min(MOST_DISTINCT, most_groups):
        return Attribute(name, items, _one_each(codes), tuple(map(to_text, distinct)), known.astype(np.float64))
    codes, edges = quantile_bins(known, min(BINS, max(2, len(items) // FEWEST_PER_BIN)))
    if len(edges) + 1 > most_groups:
        return None
    names = [f"below {to_text(edges[0])}", *(f"from {to_text(edge)}" for edge in edges)]
    return Attribute(name, items, _one_each(codes), tuple(names), known.astype(np.float64), True)


def quantile_bins(numbers: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each number, and the inner edges, each the start of a bin.

    Bins have equal size except for numbers that occur often. If nearly all numbers are equal to the smallest, there are
    two bins: the smallest number and the rest.
    """
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, bins + 1)[1:-1], method="higher"))
    above = numbers[numbers > numbers.min()]
    edges = edges[edges > numbers.min()] if edges[-1] > numbers.min() else np.sort(above)[:1]
    return np.searchsorted(edges, numbers, side="right"), edges


def _one_each(codes: np.ndarray) -> sp.csr_array:
    return sp.csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)))


def _words(titles: Sequence[str | None]) -> list[Column]:
    sets = [set(WORD.findall(str(title).lower())) if title is not None else None for title in titles]
    where: dict[str, list[int]] = {}
    for item, words in enumerate(sets):
        for word in words or ():
            where.setdefault(word, []).append(item)
    known = np.array([0.0 if words is not None else np.nan for words in sets])
    limit = np.isfinite(known).sum() - FEWEST_ITEMS
    frequent = sorted(
        (word for word in where if FEWEST_ITEMS <= len(where[word]) <= limit), key=lambda w: (-len(where[w]), w)
    )
    columns = []
    for word in frequent[:MOST_WORDS]:
        values = known.copy()
        values[where[word]] = 1.0
        columns.append(Column(f"{TITLE}: {word}", TITLE, "word", values))
    return columns
