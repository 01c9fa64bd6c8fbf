"""Where items are on the map: by t-SNE, at once but roughly, and where the components of somebody belong.

All positions are within [−1, 1], y upwards, and the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from macrid.errors import RequestError

if TYPE_CHECKING:
    from macrid.concepts.space import Space
    from macrid.models.base import Recommender

MOST = 50_000  # items that t-SNE places all by itself; it takes 100 s for them on one core
SAMPLE = 20_000  # of more items, which take 40 s
WIDEST = 256  # dimensions; longer vectors, such as those of EASE, are cut down before
NEIGHBOURS = 15  # among which a component is put
FEW_NEIGHBOURS = 5  # among which an item is put that t-SNE did not place
BLOCK = 1000  # vectors compared with all items at once
GOLDEN = np.pi * (3 - np.sqrt(5))


def layout(model: Recommender) -> tuple[np.ndarray, np.ndarray]:
    """x and y (items,) by t-SNE; of very many items a sample, and the others where their nearest ones are."""
    from macrid.pictures.maps import positions

    vectors = _vectors(model)
    if vectors is None:
        return _sunflower(model.popularity)
    if len(vectors) <= MOST:
        return _scaled(positions(vectors))
    random = np.random.default_rng(0)
    chosen = np.sort(random.permutation(len(vectors))[:SAMPLE])
    placed = np.empty((len(vectors), 2))
    placed[chosen] = positions(vectors[chosen])
    others = np.setdiff1d(np.arange(len(vectors)), chosen)
    near = np.concatenate(
        [
            placed[chosen[_nearest(vectors[chosen], vectors[others[start : start + BLOCK]], FEW_NEIGHBOURS)]]
            for start in range(0, len(others), BLOCK)
        ]
    )  # (others, neighbours, 2)
    centre = _densest(near)
    spread = np.median(np.linalg.norm(near - centre[:, None], axis=2), axis=1, keepdims=True)
    placed[others] = centre + np.minimum(spread, np.median(spread)) * random.normal(scale=0.5, size=centre.shape)
    return _scaled(placed)


def rough(source: Space | Recommender) -> tuple[np.ndarray, np.ndarray]:
    """x and y (items,) at once: concepts around a circle, the items of each along its two main directions."""
    from macrid.concepts.space import Space, space_of
    from macrid.models.macridvae import MacridVAE

    if isinstance(source, MacridVAE):
        source = space_of(source)
    if not isinstance(source, Space):
        vectors = _vectors(source)
        return _sunflower(source.popularity) if vectors is None else _scaled(_blob(vectors))
    placed = np.zeros((len(source.items), 2))
    count = source.concepts
    main = _main(source.prototypes)
    order = np.argsort(np.argsort(np.arctan2(main[:, 1], main[:, 0]), kind="stable"))  # alike ones side by side
    angle = 2 * np.pi * order / count
    largest = max(len(source.members(k)) for k in range(count))
    for k in range(count):
        own = source.members(k)
        if not len(own):
            continue
        radius = 1.0 if count == 1 else 0.9 * np.sin(np.pi / count) * np.sqrt(max(len(own) / largest, 0.1))
        centre = 0.0 if count == 1 else np.array([np.cos(angle[k]), np.sin(angle[k])])
        placed[own] = centre + radius * _blob(source.items[own])
    return _scaled(placed)


def around(x: np.ndarray, y: np.ndarray, items: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Where vectors (n, dim) belong on the map of items (items, dim): amid those with the highest cosine, (n, 2).

    Amid the half of them that lie closest together, so that a few that are elsewhere do not count. A vector of zeros
    belongs in the middle of the map.
    """
    placed = np.column_stack([x, y])
    found = _densest(placed[_nearest(items, vectors, min(NEIGHBOURS, len(items)))])
    found[~np.any(vectors, axis=1)] = np.median(placed, axis=0)
    return found


def _vectors(model: Recommender) -> np.ndarray | None:
    """Of items, of length 1: (items, dim). None for a model that knows of no likeness."""
    try:
        vectors = model.item_vectors().detach().cpu().numpy()
    except RequestError:
        return None
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    if vectors.shape[1] <= WIDEST:
        return vectors
    random = np.random.default_rng(0).normal(size=(vectors.shape[1], WIDEST)).astype(np.float32)
    basis = np.linalg.qr(vectors.T @ (vectors @ random))[0]  # the main directions, nearly
    return vectors @ basis


def _nearest(items: np.ndarray, vectors: np.ndarray, count: int) -> np.ndarray:
    """Positions of the items with the highest cosine: (n, count)."""
    cosine = vectors @ items.T / np.maximum(np.linalg.norm(items, axis=1), 1e-12)
    return np.argpartition(-cosine, count - 1, axis=1)[:, :count]


def _densest(points: np.ndarray) -> np.ndarray:
    """The middle of the half of the points (n, count, 2) that lie closest together: (n, 2)."""
    half = points.shape[1] // 2 + 1
    apart = np.linalg.norm(points[:, :, None] - points[:, None], axis=3)  # (n, count, count)
    medoid = np.partition(apart, half - 1, axis=2)[:, :, half - 1].argmin(axis=1)
    closest = np.argsort(np.take_along_axis(apart, medoid[:, None, None], axis=1)[:, 0], axis=1)[:, :half]
    return np.take_along_axis(points, closest[:, :, None], axis=1).mean(axis=1)


def _blob(vectors: np.ndarray) -> np.ndarray:
    """The two main directions, each with the same spread, and far ones drawn in: (n, 2) within the unit circle."""
    main = _main(vectors)
    spread = main.std(axis=0)
    flat = spread <= 1e-6 * max(1.0, float(np.abs(vectors).max(initial=0)))
    main = np.where(flat, 0, main) / np.where(flat, 1, spread)
    length = np.linalg.norm(main, axis=1, keepdims=True)
    return main / np.sqrt(4 + length**2)


def _main(vectors: np.ndarray) -> np.ndarray:
    """Coordinates along the two directions of largest spread: (n, 2)."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))  # in ascending order
    main = directions[:, ::-1][:, :2]
    main = main * np.where(main.sum(axis=0) < 0, -1, 1)  # an eigenvector has no sign of its own
    found = np.zeros((len(vectors), 2))
    found[:, : main.shape[1]] = centred @ main
    return found


def _sunflower(popularity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most popular item in the middle, the others around it: all there is to say without likeness."""
    rank = np.argsort(np.argsort(-popularity, kind="stable"))
    radius, angle = np.sqrt((rank + 0.5) / max(1, len(rank))), GOLDEN * rank
    return (radius * np.cos(angle)).astype(np.float32), (radius * np.sin(angle)).astype(np.float32)


def _scaled(placed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middle at 0 and the farthest at 1."""
    if not len(placed):
        return np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32)
    placed = placed - (placed.min(axis=0) + placed.max(axis=0)) / 2
    x, y = (placed / max(float(np.abs(placed).max()), 1e-12)).astype(np.float32).T
    return np.ascontiguousarray(x), np.ascontiguousarray(y)
