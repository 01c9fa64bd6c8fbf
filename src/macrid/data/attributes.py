"""Attributes of items as groups that concepts, and as factors that dimensions, can be held against.

| a column of | becomes |
| --- | --- |
| text, yes or no, numbers and dates of at most 20 values | its values |
| lists, or text some of which is separated by "|" | its values, an item of n values counting 1 / n for each |
| other numbers and dates | ten groups of equal size, fewer if a group were to have less than five items |

An item without a value is left out. A column that tells nothing or everything is no attribute: one value for all, or
text (and whole numbers) with a value of its own for more than half of the items, as titles, links and ids have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import scipy.sparse as sp

from macrid.evaluation.agreement import ari, matched_accuracy, nmi, purity

FEW = 20  # numbers of no more values than this are taken as they are
BINS = 10
LEAST = 5  # items in a group of numbers
SEPARATOR = "|"
FREQUENT = 0.05  # share of items that a value of a list must have to be a factor of its own


@dataclass(frozen=True)
class Attribute:
    """The values of those items that have one."""

    name: str
    items: np.ndarray  # (known,) positions
    shares: sp.csr_array = field(repr=False)  # (known, values), rows sum to 1
    values: tuple[str, ...]
    numbers: np.ndarray | None = field(default=None, repr=False)  # (known,) of an attribute that is not taken as it is

    @property
    def has_several(self) -> bool:
        """Whether an item can have more than one value."""
        return self.shares.nnz > len(self.items)

    def factors(self, count: int) -> dict[str, np.ndarray]:
        """What can be predicted, for so many items, None or NaN where unknown: numbers, labels, or yes and no each."""
        if self.numbers is not None:
            return {self.name: self._spread(self.numbers, count, np.nan)}
        if not self.has_several:
            return {self.name: self._spread(np.array(self.values, dtype=object)[self.shares.indices], count, None)}
        has = self.shares.tocsc() > 0
        frequency = np.diff(has.indptr) / len(self.items)
        return {
            f"{self.name}: {self.values[value]}": self._spread(has[:, [value]].toarray()[:, 0], count, None)
            for value in np.flatnonzero((frequency >= FREQUENT) & (frequency <= 1 - FREQUENT))
        }

    def _spread(self, values: np.ndarray, count: int, missing: Any) -> np.ndarray:
        whole = np.full(count, missing, dtype=np.float64 if missing is not None else object)
        whole[self.items] = values
        return whole


def agreement(concepts: np.ndarray, attribute: Attribute) -> dict[str, float]:
    """How well the concepts of items (items,) and their values of an attribute agree.

    Beside the scores: how many items and values there are, and the share of the largest value, which is the purity of
    one concept for all.
    """
    own = concepts[attribute.items]
    scores = {"nmi": nmi, "ari": ari, "purity": purity, "matched_accuracy": matched_accuracy}
    largest = float(attribute.shares.sum(axis=0).max() / len(own))
    about = {"items": len(own), "values": len(attribute.values), "largest": largest}
    return {**{name: score(own, attribute.shares) for name, score in scores.items()}, **about}


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
        return Attribute(name, items, _one_each(codes), tuple(map(say, different)))
    codes, edges = quantile_bins(known, min(BINS, max(2, len(items) // LEAST)))
    if len(edges) + 1 > most:
        return None
    names = [f"below {say(edges[0])}", *(f"from {say(edge)}" for edge in edges)]
    return Attribute(name, items, _one_each(codes), tuple(names), known.astype(np.float64))


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
