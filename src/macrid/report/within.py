"""DCI within concepts, along the original axes and along those in use.

The factors are the attributes that a concept's vectors predict. Axes fitted to attributes are cross-validated: fitted
on one half of the items and scored on the other, both ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from macrid.concepts.axes import concept_axes
from macrid.concepts.space import Space
from macrid.data.attributes import POPULARITY, Column, columns_of
from macrid.evaluation.factors import FEWEST_KNOWN, dci

MOST_FOREST_ITEMS = 400  # per concept, because forests are slow
MOST_FACTORS = 4  # per concept


def dci_within(space: Space, seed: int = 0) -> dict[str, Any] | None:
    """Mean disentanglement over concepts, weighted by items; None if no concept predicts two attributes."""
    columns = columns_of(space.model)
    by_concept: dict[str, list[float]] = {"original": [], "in_use": []}
    weights: list[int] = []
    for k in range(space.concepts):
        items = space.members(k)
        _, fits = concept_axes(space, k, "attributes", columns, seed)
        predicted = [fit.attribute for fit in fits if fit.attribute != POPULARITY][:MOST_FACTORS]
        factors = [column for column in columns if column.name in predicted]
        if len(items) > MOST_FOREST_ITEMS:
            items = np.sort(np.random.default_rng([seed, k]).choice(items, MOST_FOREST_ITEMS, replace=False))
        halves = np.random.default_rng([seed, k, 1]).permutation(len(items)) % 2
        parts = [items[halves == half] for half in (0, 1)]
        factors = [column for column in factors if all(column.is_usable(part, FEWEST_KNOWN) for part in parts)]
        if len(factors) < 2:
            continue
        turned = space.axes_in_use(k)
        scores: dict[str, list[float]] = {"original": [], "in_use": []}
        for half, part in enumerate(parts):
            scores["original"].append(_score(space.items[part], factors, part, seed))
            if turned is None:
                scores["in_use"].append(scores["original"][-1])
                continue
            rotation = turned.rotation[k]
            if turned.by == "attributes":
                others = (
                    np.setdiff1d(space.members(k), part) if len(items) == len(space.members(k)) else parts[1 - half]
                )
                rotation = concept_axes(space, k, "attributes", columns, seed, others)[0]
            scores["in_use"].append(_score(space.items[part] @ rotation.T, factors, part, seed))
        for kind, values in scores.items():
            by_concept[kind].append(float(np.mean(values)))
        weights.append(len(items))
    if not weights:
        return None
    means = {kind: float(np.average(values, weights=weights)) for kind, values in by_concept.items()}
    return {**means, "concepts": len(weights)}


def _score(vectors: np.ndarray, factors: list[Column], items: np.ndarray, seed: int) -> float:
    known = {column.name: column.values[items] for column in factors}
    return dci(vectors, known, seed=seed, folds=2, trees=10).disentanglement
