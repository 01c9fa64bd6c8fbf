"""What is known about items, read once and looked at in two ways: in groups, and as numbers.

| a column of the items table | groups (`Attribute`) | numbers (`Column`) |
| --- | --- | --- |
| numbers, dates | their values up to 20, else ten groups of equal size | the number itself |
| text, true or false | its values | 1 or 0 for each value that is neither rare nor nearly universal |
| lists, or text separated by "|" | its values; an item with n values counts 1 / n for each | the same |
| title | none | 1 or 0 for each word of three letters or more, likewise |

Popularity, known for every item, comes first among the numbers; a column of that name becomes "popularity_". A missing
value is NaN in a `Column` and left out of an `Attribute`. A column is no attribute if it says nothing or everything:
one value for all items, or text (and whole numbers) with a different value for more than half of them, as titles, links
and ids have.
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

from macrid.errors import RequestError

Kind = Literal["popularity", "number", "category", "tag", "word"]
POPULARITY: Final = "popularity"
TITLE = "title"
FEW = 20  # numbers with no more values than this are groups as they are
BINS = 10
LEAST = 5  # items in a group of numbers
SEPARATOR = "|"
FREQUENT = 0.05  # share of items that must have a value of a list for it to be a factor of its own
FEWEST = 10  # items with a value, and without it
MOST_WORDS = 200  # the most frequent
MOST_VALUES = 200  # of an attribute, likewise
WORD = re.compile(r"[^\W\d_]{3,}")


class Catalogue(Protocol):
    """Anything with items: interactions, or a model."""

    @property
    def table(self) -> pa.Table | None: ...
    @property
    def popularity(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Attribute:
    """The values of those items that have one."""

    name: str
    items: np.ndarray  # (known,) positions
    shares: sp.csr_array = field(repr=False)  # (known, values), rows sum to 1
    values: tuple[str, ...]
    numbers: np.ndarray | None = field(default=None, repr=False)  # (known,) where the values are numbers or dates
    is_binned: bool = False  # into groups of numbers

    @property
    def has_several(self) -> bool:
        """Whether an item can have more than one value."""
        return self.shares.nnz > len(self.items)

    def factors(self, count: int) -> dict[str, np.ndarray]:
        """What can be predicted, for so many items, None or NaN where unknown: numbers, labels, or yes and no each."""
        if self.is_binned:
            return {self.name: self._spread(self.numbers, count, np.nan)}
        if not self.has_several:
            return {self.name: self._spread(np.array(self.values, dtype=object)[self.shares.indices], count, None)}
        has = self.shares.tocsc() > 0
        frequency = np.diff(has.indptr) / len(self.items)
        return {
            f"{self.name}: {self.values[value]}": self._spread(has[:, [value]].toarray()[:, 0], count, None)
            for value in np.flatnonzero((frequency >= FREQUENT) & (frequency <= 1 - FREQUENT))
        }

    def columns(self, count: int) -> list[Column]:
        """One number for each of so many items: the attribute itself, or one for each frequent value."""
        if self.numbers is not None:
            return [Column(self.name, self.name, "number", self._spread(self.numbers, count, np.nan))]
        has = (self.shares > 0).tocsc()
        counts = np.diff(has.indptr)
        frequent = np.flatnonzero((counts >= FEWEST) & (counts <= len(self.items) - FEWEST))
        frequent = np.sort(frequent[np.argsort(-counts[frequent], kind="stable")[:MOST_VALUES]])
        kind: Kind = "tag" if self.has_several else "category"
        return [
            Column(
                f"{self.name}: {self.values[at]}",
                self.name,
                kind,
                self._spread(has[:, [at]].toarray()[:, 0], count, np.nan),
            )
            for at in frequent
        ]

    def _spread(self, values: Any, count: int, missing: Any) -> np.ndarray:
        whole = np.full(count, missing, dtype=np.float64 if missing is not None else object)
        whole[self.items] = values
        return whole


@dataclass(frozen=True)
class Column:
    """One thing known about items."""

    name: str
    """Such as "year", or "genres: Comedy" for a value of an attribute."""
    attribute: str
    """The column of the items table."""
    kind: Kind
    values: np.ndarray = field(repr=False)
    """(items,) NaN where unknown; 0 and 1 unless it is a number."""

    @property
    def value(self) -> str | None:
        """Of a category, tag or word."""
        return None if self.kind in (POPULARITY, "number") else self.name.removeprefix(f"{self.attribute}: ")

    def is_usable(self, items: np.ndarray | slice = slice(None), fewest: int = FEWEST) -> bool:
        """Whether it tells some of these items from others."""
        own = self.values[items]
        own = own[np.isfinite(own)]
        if len(own) < 2 * fewest or np.ptp(own) == 0:
            return False
        return self.value is None or bool(fewest <= own.sum() <= len(own) - fewest)


def columns_of(items: Catalogue, words: bool = False) -> list[Column]:
    """Everything known about a model's items, popularity first."""
    found = [Column(POPULARITY, POPULARITY, POPULARITY, items.popularity.astype(np.float64))]
    if items.table is None:
        return found
    for name in items.table.column_names:
        if name != TITLE:
            attribute = read_attribute(f"{name}_" if name == POPULARITY else name, items.table.column(name))
            found += [] if attribute is None else attribute.columns(len(items.popularity))
    if words and TITLE in items.table.column_names:
        found += _words(items.table.column(TITLE).to_pylist())
    return found


def named_column(items: Catalogue, name: str, columns: Sequence[Column] | None = None) -> Column:
    """One column by its name; a `RequestError` says what there is, or why this one cannot be used."""
    known = columns_of(items) if columns is None else columns
    for column in known:
        if column.name == name:
            if not column.is_usable():
                raise RequestError(_why_unusable(column))
            return column
    table = items.table
    if table is not None and name in table.column_names and name != TITLE:
        own = [column.name for column in known if column.attribute == name]
        if own:
            raise RequestError(f"attribute '{name}' has values; choose one, such as '{own[0]}'")
        raise RequestError(f"attribute '{name}' {_why_none(table.column(name))}")
    names = [column.name for column in known if column.kind != "word"]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    raise RequestError(f"no attribute '{name}'; items have {', '.join(names[:12])}{more}")


def _why_unusable(column: Column) -> str:
    known = int(np.isfinite(column.values).sum())
    if known < 2 * FEWEST:
        return f"attribute '{column.name}' is known of {known} items only, which are too few; fill it or choose another"
    return f"attribute '{column.name}' is the same for nearly all items; there is nothing to move along"


def _why_none(column: pa.ChunkedArray) -> str:
    """Why nothing came of a column of the items table."""
    values = [value for value in column.to_pylist() if not _is_missing(value)]
    if not values:
        return "is missing for all items; fill the column or choose another"
    counts = Counter(map(str, values))
    if len(counts) == 1:
        return f"is {values[0]!r} for all items; choose another"
    if len(counts) > len(values) / 2:
        return "is different for nearly all items; it says nothing about groups of them"
    if any(FEWEST <= count <= len(values) - FEWEST for count in counts.values()):
        return f"is of type {column.type}; give numbers, dates, text, yes or no, or lists"
    return f"has no value that {FEWEST} items have and {FEWEST} have not; choose another"


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or value == [] or (isinstance(value, float) and not math.isfinite(value))


def read_attributes(table: pa.Table | None, leave_out: Sequence[str] = ("title",)) -> list[Attribute]:
    """Those columns of a table of items that are attributes."""
    columns = [] if table is None else [name for name in table.column_names if name not in leave_out]
    found = (read_attribute(name, table.column(name)) for name in columns)  # type: ignore[union-attr]
    return [attribute for attribute in found if attribute is not None]


def read_attribute(name: str, column: pa.ChunkedArray) -> Attribute | None:
    """One column; None if it tells nothing about groups of items."""
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _of_numbers(name, column.cast(pa.float64() if types.is_decimal(kind) else kind), types.is_integer(kind))
    if types.is_timestamp(kind) or types.is_date(kind):
        seconds = column.cast(kind).cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        return _of_numbers(name, seconds, whole=False, say=_date)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_boolean(kind):
        texts = ["" if value is None else str(value) for value in column.to_pylist()]
        several = any(SEPARATOR in text for text in texts)
        return _of_values(name, [text.split(SEPARATOR) if several else [text] for text in texts])
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_values(name, [[str(value) for value in values or [] if value is not None]
                                 for values in column.to_pylist()])  # fmt: skip
    return None


def _of_values(name: str, lists: list[list[str]]) -> Attribute | None:
    sets = [sorted({value.strip() for value in values} - {""}) for values in lists]
    items = np.flatnonzero([len(values) > 0 for values in sets])
    values, codes = np.unique([value for values in sets for value in values] or [""], return_inverse=True)
    if not 2 <= len(values) <= len(items) / 2:
        return None
    counts = np.array([len(sets[item]) for item in items])
    shares = sp.csr_array((np.repeat(1 / counts, counts), codes, np.append(0, counts.cumsum())))
    return Attribute(name, items, shares, tuple(values.tolist()))


def _number(value: Any) -> str:
    """As short as it can be and still be told from every other."""
    return str(value).removesuffix(".0")


def _date(seconds: Any) -> str:
    return str(np.datetime64(int(seconds), "s")).removesuffix("T00:00:00")


def _of_numbers(
    name: str, column: pa.ChunkedArray, whole: bool, say: Callable[[Any], str] = _number
) -> Attribute | None:
    items = np.flatnonzero(column.is_valid().to_numpy())
    known = column.drop_null().to_numpy()
    items, known = items[np.isfinite(known)], known[np.isfinite(known)]
    different, codes = np.unique(known, return_inverse=True)
    most = len(items) / 2  # values: more of them tell of single items, not of groups
    if len(different) < 2 or (whole and len(different) > most):
        return None
    if len(different) <= min(FEW, most):
        return Attribute(name, items, _one_each(codes), tuple(map(say, different)), known.astype(np.float64))
    codes, edges = quantile_bins(known, min(BINS, max(2, len(items) // LEAST)))
    if len(edges) + 1 > most:
        return None
    names = [f"below {say(edges[0])}", *(f"from {say(edge)}" for edge in edges)]
    return Attribute(name, items, _one_each(codes), tuple(names), known.astype(np.float64), True)


def quantile_bins(numbers: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each number, and the inner edges, with which a bin begins.

    Bins are of equal size but for numbers that occur often. If nearly all numbers are the smallest one, there are two
    bins: that one, and the others.
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
    limit = np.isfinite(known).sum() - FEWEST
    often = sorted((word for word in where if FEWEST <= len(where[word]) <= limit), key=lambda w: (-len(where[w]), w))
    columns = []
    for word in often[:MOST_WORDS]:
        values = known.copy()
        values[where[word]] = 1.0
        columns.append(Column(f"{TITLE}: {word}", TITLE, "word", values))
    return columns
