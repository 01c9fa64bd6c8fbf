"""t-SNE maps by cosine, of items together with users' components."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from macrid.errors import MacridError

if TYPE_CHECKING:
    from macrid.models.macridvae import MacridVAE

PERPLEXITY = 30.0
FEWEST_POINTS = 4  # for fewer, the two main directions show everything


def positions(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """(points, 2) t-SNE of vectors (points, dim) by cosine; deterministic for a seed."""
    unit = _unit(vectors)
    start = _start(unit, seed)
    if len(unit) < FEWEST_POINTS:
        return start
    tsne = _openTSNE().TSNE(
        perplexity=min(PERPLEXITY, (len(unit) - 1) / 3),
        metric="euclidean",  # of unit vectors, squared: 2 − 2 cos
        neighbors="exact",  # approximate ones depend on thread timing
        initialization=1e-4 * start,  # small, so that initial distances do not pin points down
        n_jobs=-1,
        random_state=seed,
    )
    return np.asarray(tsne.fit(unit), dtype=np.float64)


def items_and_users(
    model: MacridVAE,
    histories: sp.csr_array,
    components: int = 2,
    most_items: int | None = None,
    most_users: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Items and each user's most confident components on one map, as JSON. An empty history has no components.

    most_items, most_users: if there are more, show a random sample of this size.
    """
    generator = np.random.default_rng(seed)
    shown = _some(np.arange(model.item_vectors().shape[0]), most_items, generator)
    items = model.item_vectors().cpu().numpy()[shown]  # (items, dim)
    users = _some(np.flatnonzero(np.diff(histories.indptr)), most_users, generator)
    concepts, vectors = _components(model, histories[users], components)
    placed = positions(np.concatenate([_unit(items), vectors]), seed)
    return {
        "items": {
            **_columns(placed[: len(shown)]),
            "concept": model.concepts_of_items()[shown].tolist(),
            "position": shown.tolist(),
        },
        "users": {**_columns(placed[len(shown) :]), "concept": concepts.tolist()},
    }


def _components(model: MacridVAE, histories: sp.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Concepts (points,) and unit vectors (points, dim) of the most confident components, user by user."""
    if not histories.shape[0]:
        return np.empty(0, dtype=np.int64), np.empty((0, model.item_vectors().shape[1]))
    best = np.argsort(-model.confidence(histories), axis=1, kind="stable")[:, :count]  # (users, count)
    mean = model.posterior(histories).mean  # (users, concepts, dim)
    return best.ravel(), _unit(np.take_along_axis(mean, best[:, :, None], axis=1).reshape(-1, mean.shape[2]))


def _start(unit: np.ndarray, seed: int) -> np.ndarray:
    """(points, 2) the two main directions, scaled to spread 1, with a little noise to separate equal points."""
    if not len(unit):
        return np.zeros((0, 2))
    start = main_coordinates(unit)
    start[:, start.var(axis=0) <= 1e-9] = 0  # nothing but rounding
    noise = np.random.default_rng(seed).normal(scale=1e-2, size=start.shape)
    return start / (start[:, 0].std() or 1.0) + noise


def main_coordinates(vectors: np.ndarray) -> np.ndarray:
    """(points, 2) along the two directions of largest spread."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))  # in ascending order
    main = directions[:, ::-1][:, :2]
    main = main * np.where(main.sum(axis=0) < 0, -1, 1)  # the sign of an eigenvector is arbitrary
    coordinates = np.zeros((len(vectors), 2))
    coordinates[:, : main.shape[1]] = centred @ main
    return coordinates


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; rows of zeros stay zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def _some(choices: np.ndarray, limit: int | None, generator: np.random.Generator) -> np.ndarray:
    """A sample of at most `limit` choices, in order."""
    if limit is None or len(choices) <= limit:
        return choices
    return np.sort(generator.choice(choices, limit, replace=False))


def _columns(placed: np.ndarray) -> dict[str, list[float]]:
    return {"x": np.round(placed[:, 0], 2).tolist(), "y": np.round(placed[:, 1], 2).tolist()}


def _openTSNE() -> Any:  # noqa: N802
    try:
        return import_module("openTSNE")
    except ModuleNotFoundError as error:
        raise MacridError("a map needs openTSNE; install it with `pip install 'macrid[plot]'`") from error
