"""Positions of items on the studio's map, by t-SNE or by a quick approximation, and of users' components among them.

All positions are within [−1, 1], y upwards, and deterministic.
"""

from __future__ import annotations

import numpy as np

from macrid.concepts.space import space_of
from macrid.errors import RequestError
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.pictures.maps import main_coordinates, positions

MOST_TSNE_ITEMS = 50_000  # 100 s on one core
SAMPLE = 20_000  # of larger catalogues; 40 s
MOST_DIMENSIONS = 256  # longer vectors, such as those of EASE, are projected
COMPONENT_NEIGHBOURS = 15
ITEM_NEIGHBOURS = 5  # of items outside the sample
BLOCK = 1000  # vectors compared with all items at once
GOLDEN = np.pi * (3 - np.sqrt(5))


def layout(model: Recommender) -> tuple[np.ndarray, np.ndarray]:
    """x and y (items,) by t-SNE; in large catalogues only for a sample, with the others next to their neighbours."""
    vectors = _vectors(model)
    if vectors is None:
        return _sunflower(model.popularity)
    if len(vectors) <= MOST_TSNE_ITEMS:
        return _scaled(positions(vectors))
    random = np.random.default_rng(0)
    sample = np.sort(random.permutation(len(vectors))[:SAMPLE])
    placed = np.empty((len(vectors), 2))
    placed[sample] = positions(vectors[sample])
    others = np.setdiff1d(np.arange(len(vectors)), sample)
    near = np.concatenate(
        [
            placed[sample[_nearest(vectors[sample], vectors[others[start : start + BLOCK]], ITEM_NEIGHBOURS)]]
            for start in range(0, len(others), BLOCK)
        ]
    )  # (others, neighbours, 2)
    centre = _densest(near)
    spread = np.median(np.linalg.norm(near - centre[:, None], axis=2), axis=1, keepdims=True)
    placed[others] = centre + np.minimum(spread, np.median(spread)) * random.normal(scale=0.5, size=centre.shape)
    return _scaled(placed)


def rough(model: Recommender) -> tuple[np.ndarray, np.ndarray]:
    """x and y (items,) quickly: concepts in a circle, each concept's items along its two main directions."""
    if not isinstance(model, MacridVAE):
        vectors = _vectors(model)
        return _sunflower(model.popularity) if vectors is None else _scaled(_blob(vectors))
    space = space_of(model)
    placed, count = np.zeros((len(space.items), 2)), space.concepts
    main = main_coordinates(space.prototypes)
    order = np.argsort(np.argsort(np.arctan2(main[:, 1], main[:, 0]), kind="stable"))  # similar concepts side by side
    angle = 2 * np.pi * order / count
    largest = max(len(space.members(k)) for k in range(count))
    for k in range(count):
        items = space.members(k)
        if not len(items):
            continue
        radius = 1.0 if count == 1 else 0.9 * np.sin(np.pi / count) * np.sqrt(max(len(items) / largest, 0.1))
        centre = 0.0 if count == 1 else np.array([np.cos(angle[k]), np.sin(angle[k])])
        placed[items] = centre + radius * _blob(space.items[items])
    return _scaled(placed)


def around(x: np.ndarray, y: np.ndarray, items: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(n, 2) positions of vectors (n, dim) on the map of items (items, dim): among the items with the highest cosine.

    Only the half of these items that lie closest together counts, so a few outliers do no harm. A vector of zeros goes
    to the middle of the map.
    """
    placed = np.column_stack([x, y])
    positions = _densest(placed[_nearest(items, vectors, min(COMPONENT_NEIGHBOURS, len(items)))])
    positions[~np.any(vectors, axis=1)] = np.median(placed, axis=0)
    return positions


def with_new(x: np.ndarray, y: np.ndarray, model: Recommender) -> tuple[np.ndarray, np.ndarray]:
    """The map of trained items, with items added since then among the trained ones most like them: (items,) each."""
    vectors, count = _vectors(model), len(x)
    if vectors is None or count >= len(vectors):
        return x, y
    new = around(x, y, vectors[:count], vectors[count:]).astype(np.float32)
    return np.concatenate([x, new[:, 0]]), np.concatenate([y, new[:, 1]])


def _vectors(model: Recommender) -> np.ndarray | None:
    """(items, dim) unit vectors of items; None for a model without item vectors."""
    try:
        vectors = model.item_vectors().detach().cpu().numpy()
    except RequestError:
        return None
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    if vectors.shape[1] <= MOST_DIMENSIONS:
        return vectors
    random = np.random.default_rng(0).normal(size=(vectors.shape[1], MOST_DIMENSIONS)).astype(np.float32)
    basis = np.linalg.qr(vectors.T @ (vectors @ random))[0]  # approximately the main directions
    return vectors @ basis


def _nearest(items: np.ndarray, vectors: np.ndarray, count: int) -> np.ndarray:
    """(n, count) positions of the items with the highest cosine."""
    cosine = vectors @ items.T / np.maximum(np.linalg.norm(items, axis=1), 1e-12)
    return np.argpartition(-cosine, count - 1, axis=1)[:, :count]


def _densest(points: np.ndarray) -> np.ndarray:
    """(n, 2) the centre of the half of the points (n, count, 2) that lie closest together."""
    half = points.shape[1] // 2 + 1
    distances = np.linalg.norm(points[:, :, None] - points[:, None], axis=3)  # (n, count, count)
    medoid = np.partition(distances, half - 1, axis=2)[:, :, half - 1].argmin(axis=1)
    closest = np.argsort(np.take_along_axis(distances, medoid[:, None, None], axis=1)[:, 0], axis=1)[:, :half]
    return np.take_along_axis(points, closest[:, :, None], axis=1).mean(axis=1)


def _blob(vectors: np.ndarray) -> np.ndarray:
    """(n, 2) the two main directions with equal spread, outliers pulled in to the unit circle."""
    main = main_coordinates(vectors)
    spread = main.std(axis=0)
    flat = spread <= 1e-6 * max(1.0, float(np.abs(vectors).max(initial=0)))
    main = np.where(flat, 0, main) / np.where(flat, 1, spread)
    length = np.linalg.norm(main, axis=1, keepdims=True)
    return main / np.sqrt(4 + length**2)


def _sunflower(popularity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most popular item in the middle, the others around it, for models without item vectors."""
    rank = np.argsort(np.argsort(-popularity, kind="stable"))
    radius, angle = np.sqrt((rank + 0.5) / max(1, len(rank))), GOLDEN * rank
    return (radius * np.cos(angle)).astype(np.float32), (radius * np.sin(angle)).astype(np.float32)


def _scaled(placed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centred at 0, with the farthest coordinate at 1."""
    if not len(placed):
        return np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32)
    placed = placed - (placed.min(axis=0) + placed.max(axis=0)) / 2
    x, y = (placed / max(float(np.abs(placed).max()), 1e-12)).astype(np.float32).T
    return np.ascontiguousarray(x), np.ascontiguousarray(y)
