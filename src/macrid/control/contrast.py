"""How two lists differ in their items' attributes: "year 1996 → 1988", "4 more Comedy"."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from macrid.data.attributes import Column

MOST_NUMBERS = 20_000_000  # items × columns that are kept; on larger catalogues the last columns are left out
LEAST_MOVE = 0.25  # standard deviations over the items; less is not worth a word
FEWEST = 2  # items more or fewer, likewise


@dataclass(frozen=True)
class Difference:
    """One attribute in two lists."""

    name: str
    """Such as "year", or "genres: Comedy" for one value."""
    value: str | None
    """The value, if it counts items that have one."""
    before: float
    """The mean over the items that have a number, or how many have the value."""
    after: float

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "before": self.before, "after": self.after}


class Contrast:
    """Compares lists of one catalogue."""

    def __init__(self, columns: Sequence[Column]) -> None:
        items = len(columns[0].values) if columns else 0
        self._columns = columns[: MOST_NUMBERS // max(items, 1)]
        self._values = np.array([column.values for column in self._columns], dtype=np.float32).reshape(
            len(self._columns), items
        )
        self._spread = np.array([_spread(column) for column in self._columns])

    def differences(
        self, before: np.ndarray, after: np.ndarray, most: int = 3, first: Collection[str] = ()
    ) -> list[Difference]:
        """The largest differences between two lists of positions, relative to the spread over all items.

        first: attributes that come first, and count however little they differ.
        """
        if not len(before) or not len(after) or not self._columns:
            return []
        counts = np.array([column.value is not None for column in self._columns])
        old, new = (self._summary(positions, counts) for positions in (before, after))
        size = np.where(counts, len(after), 1)
        move = np.nan_to_num((new - old) / (self._spread * size))  # in standard deviations
        clear = (np.abs(move) >= LEAST_MOVE) & (~counts | (np.abs(new - old) >= FEWEST))
        asked = np.array([column.name in first for column in self._columns])
        order = np.lexsort((-np.abs(move), ~asked))
        chosen = [at for at in order.tolist() if clear[at] or (asked[at] and move[at] != 0)]
        return [
            Difference(self._columns[at].name, self._columns[at].value, float(old[at]), float(new[at]))
            for at in chosen[:most]
        ]

    def _summary(self, positions: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """(columns,) means of numbers, NaN if none is known; how many items have a value."""
        values = self._values[:, positions]
        known = np.isfinite(values)
        total = np.where(known, values, 0).sum(axis=1, dtype=np.float64)
        number = known.sum(axis=1)
        return np.where(counts, total, np.where(number > 0, total / np.maximum(number, 1), np.nan))


def _spread(column: Column) -> float:
    """Standard deviation over the items that have the attribute; infinite if they do not differ."""
    known = column.values[np.isfinite(column.values)]
    return float(known.std()) or np.inf if len(known) else np.inf
