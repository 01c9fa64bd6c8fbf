"""Many vectors on one map: t-SNE by cosine, of items and of the components of users together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from macrid.errors import MacridError

if TYPE_CHECKING:
    from macrid.models.macridvae import MacridVAE

PERPLEXITY = 30.0
FEWEST = 4  # below that, neighbours say nothing and two directions show all there is


def positions(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """Where t-SNE puts every vector (points, dim), by cosine: (points, 2). The same for the same seed."""
    unit = _unit(vectors)
    start = _start(unit, seed)
    if len(unit) < FEWEST:
        return start
    tsne = _openTSNE().TSNE(
        perplexity=min(PERPLEXITY, (len(unit) - 1) / 3),
        metric="euclidean",  # of unit vectors, squared: 2 − 2 cos
        neighbors="exact",  # approximate ones depend on how threads take turns
        initialization=1e-4 * start,  # tiny, so that no early distance holds points where they are
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

    most_items, most_users: show that many at random, if there are more.
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
    """The concepts (points,) and the unit vectors (points, dim) of the most confident components, user by user."""
    if not histories.shape[0]:
        return np.empty(0, dtype=np.int64), np.empty((0, model.item_vectors().shape[1]))
    best = np.argsort(-model.confidence(histories), axis=1, kind="stable")[:, :count]  # (users, count)
    mean = model.posterior(histories).mean  # (users, concepts, dim)
    return best.ravel(), _unit(np.take_along_axis(mean, best[:, :, None], axis=1).reshape(-1, mean.shape[2]))


def _start(unit: np.ndarray, seed: int) -> np.ndarray:
    """The two main directions, scaled to spread 1, and a little noise that moves equal points apart: (points, 2)"""
    start = np.zeros((len(unit), 2))
    centred = unit - unit.mean(axis=0) if len(unit) else unit
    values, directions = np.linalg.eigh(centred.T @ centred)  # in ascending order
    main = directions[:, -2:][:, ::-1] * (values[-2:][::-1] > 1e-9 * max(len(unit), 1))
    main *= np.where(main.sum(axis=0) < 0, -1, 1)  # an eigenvector has no sign of its own
    start[:, : main.shape[1]] = centred @ main
    scale = start[:, 0].std() if len(unit) else 0.0
    noise = np.random.default_rng(seed).normal(scale=1e-2, size=start.shape)
    return start / (scale or 1.0) + noise


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length one; a row of zeros stays."""
    vectors = np.asarray(vectors, dtype=np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def _some(choices: np.ndarray, most: int | None, generator: np.random.Generator) -> np.ndarray:
    """At most so many of them, in their order."""
    if most is None or len(choices) <= most:
        return choices
    return np.sort(generator.choice(choices, most, replace=False))


def _columns(placed: np.ndarray) -> dict[str, list[float]]:
    return {"x": np.round(placed[:, 0], 2).tolist(), "y": np.round(placed[:, 1], 2).tolist()}


def _openTSNE() -> Any:  # noqa: N802
    try:
        return import_module("openTSNE")
    except ModuleNotFoundError as error:
        raise MacridError("a map needs openTSNE; install it with `pip install 'macrid[plot]'`") from error
