"""Vectors for items without training: a map from attributes to vectors, and another one where there are some events.

Both are ridge regressions on the trained items. The first sees the attributes, through a kernel whose sharpness is the
one with which users find their items best, each item placed without itself. The second sees what the first predicts and
the mean vector of the histories that contain the item; there is one for each number of events in LEVELS, fitted to
trained items of which only so many events are looked at.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from macrid.cold.features import Features
from macrid.cold.finding import Finders, pushed
from macrid.cold.judging import Judge, closeness
from macrid.cold.ridge import Kernel, Ridge
from macrid.models.macridvae import MacridVAE
from macrid.models.results import Placement

SHARPNESS = (0.5, 2.0, 6.0)  # of kernels to choose from
POWERS = (0.0, 0.5)  # of popularity, as the weight of an item
MOST_ITEMS = 10_000  # to learn from, the most popular
LEVELS = (1, 3, 10, 30)  # events
FEWEST_ITEMS = 50  # to learn from


@dataclass(frozen=True)
class Strength:
    """How well a map places items that it was not fitted to: each trained item without itself."""

    strength: float
    """Mean cosine of predicted and trained vectors, both without the mean vector; popular items count more. 0 is
    chance, 1 perfect."""
    concepts: float
    """Share of items whose concept is predicted right."""
    largest: float
    """Share of the largest concept, which is what always predicting it would give."""
    found: float | None
    """How often a user prefers one of their own items to another item, all placed by the map; 0.5 is chance. None if
    the run keeps no users."""
    found_trained: float | None
    """The same with trained vectors."""
    items: int
    """How many were placed."""
    attributes: tuple[str, ...]
    """Columns that the map knows."""
    with_events: dict[int, float] = field(default_factory=dict)
    """Number of events, beside attributes → strength."""
    events_only: dict[int, float] = field(default_factory=dict)
    """Number of events of items without attributes → strength."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Strength:
        levels = {
            name: {int(level): float(value) for level, value in content[name].items()}
            for name in ("with_events", "events_only")
        }
        return cls(**{**content, "attributes": tuple(content["attributes"]), **levels})

    def at(self, events: int, has_attributes: bool) -> float:
        """With this many events."""
        values = self.with_events if has_attributes else self.events_only
        known = [level for level in values if level <= events]
        return values[max(known)] if known else self.strength if has_attributes else 0.0


@dataclass(frozen=True)
class Placed:
    """New items and their vectors."""

    item_vectors: torch.Tensor
    """(new, dim)"""
    context_vectors: torch.Tensor
    """(new, dim)"""
    how: tuple[Placement, ...]


@dataclass(frozen=True)
class Map:
    """One way to place items."""

    ridge: Ridge
    push: float = 0.0
    """How far predictions are pushed from what suits everybody, see `Finders.push`."""


@dataclass(frozen=True)
class Placer:
    """The maps of one model."""

    model: MacridVAE
    """With trained items only."""
    features: Features
    kernel: Kernel | None
    """None if no column of the items table says anything."""
    by_attributes: Map | None
    by_events: dict[tuple[int, bool], Map]
    """By the number of events, and whether attributes are known, too."""
    mean: np.ndarray
    """(2 · dim,) of the trained vectors."""
    generic: np.ndarray | None
    """(concepts, dim) what suits everybody."""
    strength: Strength
    judge: Judge | None = None
    """Of items of which only some columns are known."""

    @classmethod
    def fit(cls, model: MacridVAE) -> Placer:
        """Learn from the items of a trained model."""
        return _Fitting(model).placer()

    def place(
        self, table: pa.Table, histories: sp.csr_array | None = None, owners: sp.csr_array | None = None
    ) -> Placed:
        """New items by their attributes and events.

        table: one row per new item, with the columns of the trained ones. histories: users × trained items of those who
        had new ones. owners: users × new items.
        """
        features, known = self.features.of(table)
        predicted, push = np.repeat(self.mean[None], table.num_rows, axis=0), np.zeros(table.num_rows)
        has_any = np.asarray(known.any(axis=1))
        if self.kernel is not None and self.by_attributes is not None and has_any.any():
            predicted[has_any] = self.by_attributes.ridge.predict(self.kernel.of(features[has_any]))
            push[has_any] = self.by_attributes.push
        events = np.zeros(table.num_rows, dtype=np.int64)
        if histories is not None and owners is not None:
            events, seen = event_means(directions_of(self.model), histories, owners)
            for item in np.flatnonzero(events):
                of_item = self._by_events(int(events[item]), bool(has_any[item]))
                if of_item is not None:
                    x = _event_features(predicted[[item]], seen[[item]], bool(has_any[item]))
                    predicted[item] += of_item.ridge.predict(x)[0]
                    push[item] = of_item.push
        names = np.array(self.features.names, dtype=object)
        how = []
        for of_item, count in zip(known, events.tolist(), strict=True):
            columns = tuple(names[of_item])
            how.append(Placement(columns, count, round(self._strength(columns, count), 3)))
        return Placed(*self._vectors(predicted, push), tuple(how))

    def _strength(self, columns: tuple[str, ...], events: int) -> float:
        """Of an item of which these columns are known."""
        if not columns or self.judge is None:
            return self.strength.at(events, bool(columns))
        by_both = self.judge.share(columns) * self.strength.at(events, True)
        return max(by_both, self.strength.at(events, False))

    def _by_events(self, events: int, has_attributes: bool) -> Map | None:
        levels = [level for level, kind in self.by_events if level <= events and kind == has_attributes]
        return self.by_events[max(levels), has_attributes] if levels else None

    def _vectors(self, predicted: np.ndarray, push: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Item and context vectors as the network has them: (items, dim) each."""
        vectors, contexts = (part.copy() for part in np.split(predicted, 2, axis=1))
        if self.generic is not None:
            for amount in np.unique(push):
                some = push == amount
                vectors[some] = pushed(self.model, self.generic, vectors[some], amount)
        if self.model.network.cosine:
            length = float(self.model.network.item_vectors.detach().norm(dim=1).mean())
            vectors = vectors * (length / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
        both = vectors, contexts / _context_scale(self.model)
        first, second = (torch.from_numpy(np.ascontiguousarray(part)).float() for part in both)
        return first, second


class _Fitting:
    """What is needed once, to fit the maps of a model."""

    def __init__(self, model: MacridVAE) -> None:
        self.model = model
        order = np.argsort(-model.popularity, kind="stable")
        used = order[model.popularity[order] > 0][:MOST_ITEMS]
        self.used = np.sort(used if len(used) else order[:MOST_ITEMS])
        self.popularity = np.maximum(model.popularity[self.used], 1).astype(np.float64)
        self.targets = _scaled(model, self.used)
        self.features = Features.fit(model.table)
        self.finders = Finders.of(model, self.used)

    def placer(self) -> Placer:
        y, dim = self.targets, self.model.settings.dim
        kernel = by_attributes = None
        mean = y.mean(axis=0)
        left_out = np.repeat(mean[None], len(y), axis=0)
        if self.features.columns and len(y) >= FEWEST_ITEMS:
            kernel, ridge = self._best(y)
            mean, left_out = ridge.mean, ridge.left_out
            by_attributes = Map(ridge, self._push(left_out, self.used))
        maps, strengths = self._by_events(y, mean, left_out)
        trained = self.model.network.concept_of().cpu().numpy()[self.used]
        predicted = self._concepts(left_out[:, :dim])
        strength = Strength(
            strength=0.0 if kernel is None else self._closeness(left_out, y, mean),
            concepts=round(float(np.average(predicted == trained)), 4),
            largest=round(float(np.bincount(trained).max() / len(trained)), 4),
            found=self._preferred(left_out[:, :dim]),
            found_trained=self._preferred(y[:, :dim]),
            items=len(y),
            attributes=self.features.names,
            with_events={level: value for (level, known), value in strengths.items() if known},
            events_only={level: value for (level, known), value in strengths.items() if not known},
        )
        generic = None if self.finders is None else self.finders.generic
        judge = None
        if kernel is not None and by_attributes is not None and self.model.table is not None:
            table = self.model.table.take(pa.array(self.used))
            weights = np.sqrt(self.popularity)
            judge = Judge.fit(self.features, kernel, by_attributes.ridge.penalty, table, y, weights)
        return Placer(self.model, self.features, kernel, by_attributes, maps, mean, generic, strength, judge)

    def _push(self, predicted: np.ndarray, items: np.ndarray) -> float:
        return 0.0 if self.finders is None else self.finders.push(predicted[:, : self.model.settings.dim], items)

    def _best(self, y: np.ndarray) -> tuple[Kernel, Ridge]:
        """The kernel and the weights of items with which users find their items best."""
        assert self.model.table is not None
        features, dim = self.features.of(self.model.table.take(pa.array(self.used)))[0], y.shape[1] // 2
        best: tuple[float, Kernel, Ridge] | None = None
        for sharpness in SHARPNESS:
            kernel = Kernel.fit(features, sharpness, np.sqrt(self.popularity))
            x = kernel.of(features)
            for power in POWERS:
                ridge = Ridge.fit(x, y, self.popularity**power)
                if self.finders is None:
                    quality = self._closeness(ridge.left_out, y, ridge.mean)
                else:
                    quality = self.finders.gain(ridge.left_out[:, :dim])
                if best is None or quality > best[0]:
                    best = quality, kernel, ridge
        assert best is not None
        return best[1:]

    def _by_events(
        self, y: np.ndarray, mean: np.ndarray, left_out: np.ndarray
    ) -> tuple[dict[tuple[int, bool], Map], dict[tuple[int, bool], float]]:
        """Maps by number of events and by whether attributes are known, and their strength."""
        maps: dict[tuple[int, bool], Map] = {}
        strengths: dict[tuple[int, bool], float] = {}
        if self.model.sample is None:
            return maps, strengths
        histories = sp.csr_array(self.model.sample[np.flatnonzero(np.diff(self.model.sample.indptr) > 1)])
        by_item, random = sp.csr_array(histories[:, self.used].T), np.random.default_rng(0)
        for level in LEVELS:
            some = np.flatnonzero(np.diff(by_item.indptr) >= level)
            if len(some) < FEWEST_ITEMS:
                break
            users = np.concatenate([random.choice(_row(by_item, int(item)), level, replace=False) for item in some])
            pairs = users, np.repeat(np.arange(len(some)), level)
            owners = sp.csr_array((np.ones(len(users), np.float32), pairs), shape=(histories.shape[0], len(some)))
            _, seen = event_means(directions_of(self.model), histories, owners, self.used[some])
            for known, before in ((True, left_out[some]), (False, np.repeat(mean[None], len(some), axis=0))):
                x = _event_features(before, seen, known)
                ridge = Ridge.fit(x, y[some] - before, np.sqrt(self.popularity[some]))
                after = before + ridge.left_out
                strength = self._closeness(after, y[some], mean, some)
                if strength > self._closeness(before, y[some], mean, some):
                    maps[level, known], strengths[level, known] = (
                        Map(ridge, self._push(after, self.used[some])),
                        strength,
                    )
        return maps, strengths

    def _closeness(self, predicted: np.ndarray, y: np.ndarray, mean: np.ndarray, some: Any = slice(None)) -> float:
        """Mean cosine of item vectors without their mean; popular items count more."""
        dim = self.model.settings.dim
        vectors = predicted[:, :dim] - mean[:dim], y[:, :dim] - mean[:dim]
        return round(closeness(*vectors, np.sqrt(self.popularity[some])), 4)

    def _preferred(self, directions: np.ndarray) -> float | None:
        return None if self.finders is None else round(self.finders.preferred(directions), 4)

    def _concepts(self, directions: np.ndarray) -> np.ndarray:
        network = self.model.network
        vectors = torch.from_numpy(directions).to(network.item_vectors)
        with torch.no_grad():
            return network.log_assignment(vectors=vectors).argmax(dim=1).cpu().numpy()


def _event_features(predicted: np.ndarray, seen: np.ndarray, has_attributes: bool) -> np.ndarray:
    """What attributes predict, if they are known, and the mean vector of histories: (items, features)."""
    return np.concatenate([predicted[:, : seen.shape[1]], seen], axis=1) if has_attributes else seen


def event_means(
    directions: np.ndarray, histories: sp.csr_array, owners: sp.csr_array, without: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """How many users with a history had each new item, and the mean of their histories' mean vectors: (new, dim).

    directions: (items, dim). histories: users × items. owners: users × new items.
    without: positions of the new items among the items, if they are in these histories, which then count without them.
    """
    sizes = np.diff(histories.indptr).astype(np.float64)
    sums = histories.astype(bool).astype(np.float64) @ directions  # (users, dim)
    by_item = sp.csr_array(owners.T)
    counts, means = np.zeros(by_item.shape[0], dtype=np.int64), np.zeros((by_item.shape[0], directions.shape[1]))
    for item in range(by_item.shape[0]):
        users = _row(by_item, item)
        total, size = sums[users], sizes[users]
        if without is not None:
            total, size = total - directions[without[item]], size - 1
        users_known = size > 0
        counts[item] = users_known.sum()
        if counts[item]:
            means[item] = (total[users_known] / size[users_known, None]).mean(axis=0)
    return counts, means


def _row(matrix: sp.csr_array, row: int) -> np.ndarray:
    return np.asarray(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]])


def directions_of(model: MacridVAE) -> np.ndarray:
    """(items, dim)"""
    network = model.network
    return network.direction(network.item_vectors.detach()).cpu().numpy()


def _context_scale(model: MacridVAE) -> float:
    """Makes context vectors as long as item vectors, on average."""
    network = model.network
    tables = network.direction(network.item_vectors.detach()), network.context_vectors.detach()
    lengths = [float(table.norm(dim=1).mean()) for table in tables]
    return lengths[0] / max(lengths[1], 1e-12)


def _scaled(model: MacridVAE, items: np.ndarray) -> np.ndarray:
    """Item and context vectors of some items side by side: (items, 2 · dim)."""
    contexts = model.network.context_vectors.detach().cpu().numpy()[items]
    both = [directions_of(model)[items], contexts * _context_scale(model)]
    return np.concatenate(both, axis=1).astype(np.float64)
