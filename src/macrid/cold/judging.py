"""How much of a map's strength is left for items of which only some columns are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from macrid.cold.features import Features
from macrid.cold.ridge import Kernel, Ridge

MOST_ITEMS = 1_000  # to judge on
FEWEST_ITEMS = 20  # that have all the columns


@dataclass(frozen=True, eq=False)
class Judge:
    """A map fitted to half of the items, and the other half."""

    features: Features
    kernel: Kernel
    half: Ridge
    table: pa.Table
    """Of items that it was not fitted to."""
    vectors: np.ndarray
    """(items, dim) of these items."""
    weights: np.ndarray
    """(items,) how much each counts."""
    _shares: dict[tuple[str, ...], float] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(
        cls, features: Features, kernel: Kernel, penalty: float, table: pa.Table, y: np.ndarray, weights: np.ndarray
    ) -> Judge:
        """table, y (items, 2 · dim), weights (items,): of all items that a map was fitted to."""
        order = np.random.default_rng(0).permutation(len(y))
        fitted, judged = order[: len(order) // 2], order[len(order) // 2 :][:MOST_ITEMS]
        dim = y.shape[1] // 2
        x = kernel.of(features.of(table.take(pa.array(fitted)))[0])
        half = Ridge.fit(x, y[fitted, :dim], weights[fitted], (penalty,))
        return cls(features, kernel, half, table.take(pa.array(judged)), y[judged, :dim], weights[judged])

    def share(self, columns: tuple[str, ...]) -> float:
        """Strength with these columns only, as a share of that with all columns, on items that have them."""
        if columns not in self._shares:
            known = self.features.of(self.table)[1][:, [self.features.names.index(name) for name in columns]]
            rows = np.flatnonzero(known.all(axis=1))
            rows = rows if len(rows) >= FEWEST_ITEMS else np.arange(self.table.num_rows)
            table = self.table.take(pa.array(rows))
            some, everything = self._strength(table.select(list(columns)), rows), self._strength(table, rows)
            self._shares[columns] = float(np.clip(some / max(everything, 1e-12), 0, 1))
        return self._shares[columns]

    def _strength(self, table: pa.Table, rows: np.ndarray) -> float:
        predicted = self.half.predict(self.kernel.of(self.features.of(table)[0]))
        return closeness(predicted - self.half.mean, self.vectors[rows] - self.half.mean, self.weights[rows])


def closeness(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of the cosines of vectors (items, dim)."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(axis=1) / np.maximum(lengths, 1e-12)
    return float(np.average(cosines, weights=weights))
