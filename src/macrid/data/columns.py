"""What is known about items, as one number for each: numbers as they are, 1 and 0 for having a value or a word.

| a column of the items table | becomes |
| --- | --- |
| numbers, dates | itself |
| text, yes or no | one for each value that is neither rare nor had by nearly all |
| lists, or text separated by "|" | the same |
| title | one for each word of three letters or more that is neither rare nor in nearly all titles |

Beside them popularity, which is known of every item; a column of that name goes by "popularity_". Unknown is NaN. What
is no attribute (see `macrid.data.attributes`) becomes nothing: one value for all, or an id of each item.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as types
from scipy.stats import rankdata

from macrid.data.attributes import read_attribute
from macrid.errors import RequestError

if TYPE_CHECKING:
    from macrid.models.base import Recommender

Kind = Literal["popularity", "number", "category", "tag", "word"]
POPULARITY: Final = "popularity"
TITLE = "title"
FEWEST = 10  # items that have a value, and that have it not
MOST_WORDS = 200  # the most frequent
MOST_VALUES = 200  # of an attribute, likewise
WORD = re.compile(r"[^\W\d_]{3,}")


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


def columns_of(model: Recommender, words: bool = False) -> list[Column]:
    """Everything known about a model's items, popularity first."""
    found = [Column(POPULARITY, POPULARITY, POPULARITY, model.popularity.astype(np.float64))]
    if model.table is None:
        return found
    for name in model.table.column_names:
        if name != TITLE:
            found += _read(f"{name}_" if name == POPULARITY else name, model.table.column(name))
    if words and TITLE in model.table.column_names:
        found += _words(model.table.column(TITLE).to_pylist())
    return found


def named_column(model: Recommender, name: str, columns: Sequence[Column] | None = None) -> Column:
    """One column by its name; a `RequestError` says what there is, or why this one cannot be used."""
    known = columns_of(model) if columns is None else columns
    for column in known:
        if column.name == name:
            if not column.is_usable():
                raise RequestError(_why_unusable(column))
            return column
    table = model.table
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


def scores_of(values: np.ndarray) -> np.ndarray:
    """Ranks with mean 0 and variance 1; NaN stays: (items,)."""
    known = np.isfinite(values)
    scores = np.full(len(values), np.nan)
    if not known.any():
        return scores
    ranks = rankdata(values[known])
    scores[known] = (ranks - ranks.mean()) / max(float(ranks.std()), 1e-12)
    return scores


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation of two sequences of numbers; 0 if one is constant."""
    a, b = scores_of(x), scores_of(y)
    return float(np.mean(a * b)) if len(a) else 0.0


def _read(name: str, column: pa.ChunkedArray) -> list[Column]:
    attribute = read_attribute(name, column)
    if attribute is None:
        return []
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = column.cast(kind).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return [Column(name, name, "number", np.where(np.isfinite(numbers), numbers, np.nan))]
    if types.is_timestamp(kind) or types.is_date(kind):
        seconds = column.cast(kind).cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        return [Column(name, name, "number", seconds.cast(pa.float64()).to_numpy(zero_copy_only=False))]
    has = (attribute.shares > 0).tocsc()
    counts = np.diff(has.indptr)
    frequent = np.flatnonzero((counts >= FEWEST) & (counts <= len(attribute.items) - FEWEST))
    frequent = np.sort(frequent[np.argsort(-counts[frequent], kind="stable")[:MOST_VALUES]])
    columns = []
    for value in frequent:
        values = np.full(len(column), np.nan)
        values[attribute.items] = has[:, [value]].toarray()[:, 0]
        own: Kind = "tag" if attribute.has_several else "category"
        columns.append(Column(f"{name}: {attribute.values[value]}", name, own, values))
    return columns


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
