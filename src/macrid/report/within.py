"""DCI within concepts: along the original axes, and along those in use.

A concept's items are told apart by the attributes that its vectors tell at all; each is a factor. Axes that attributes
were used for are judged on items that they were not fitted to: found on one half, judged on the other, both ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from macrid.concepts.axes import concept_axes
from macrid.concepts.space import Space
from macrid.data.attributes import POPULARITY, Column, columns_of
from macrid.evaluation.factors import LEAST, dci

MOST_ITEMS = 400  # of a concept: forests take their time
MOST_FACTORS = 4  # of a concept, the best told


def dci_within(space: Space, seed: int = 0) -> dict[str, Any] | None:
    """Disentanglement, a mean over concepts by their items; None where no concept has two attributes to tell."""
    columns = columns_of(space.model)
    found: dict[str, list[float]] = {"original": [], "in_use": []}
    weights: list[int] = []
    for k in range(space.concepts):
        own = space.members(k)
        _, fits = concept_axes(space, k, "attributes", columns, seed)
        told = [fit.attribute for fit in fits if fit.attribute != POPULARITY][:MOST_FACTORS]
        factors = [column for column in columns if column.name in told]
        if len(own) > MOST_ITEMS:
            own = np.sort(np.random.default_rng([seed, k]).choice(own, MOST_ITEMS, replace=False))
        halves = np.random.default_rng([seed, k, 1]).permutation(len(own)) % 2
        parts = [own[halves == half] for half in (0, 1)]
        factors = [column for column in factors if all(column.is_usable(part, LEAST) for part in parts)]
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
                others = np.setdiff1d(space.members(k), part) if len(own) == len(space.members(k)) else parts[1 - half]
                rotation = concept_axes(space, k, "attributes", columns, seed, others)[0]
            scores["in_use"].append(_score(space.items[part] @ rotation.T, factors, part, seed))
        for kind, values in scores.items():
            found[kind].append(float(np.mean(values)))
        weights.append(len(own))
    if not weights:
        return None
    means = {kind: float(np.average(values, weights=weights)) for kind, values in found.items()}
    return {**means, "concepts": len(weights)}


def _score(vectors: np.ndarray, factors: list[Column], items: np.ndarray, seed: int) -> float:
    known = {column.name: column.values[items] for column in factors}
    return dci(vectors, known, seed=seed, folds=2, trees=10).disentanglement
