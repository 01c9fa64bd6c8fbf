"""Figure 3: traversals. Strips of items along named dimensions, with scores that a few strips cannot give.

Strips are chosen by rule, not by hand: the strongest named dimension of each concept, except popularity, each attribute
once, over items with at least 20 users. A strip starts from the most popular item in the middle third of the dimension
among the half of the concept's items assigned to it most confidently. Scores cover every named dimension, from random
items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import DimensionName, ends, label
from macrid.concepts.space import space_of
from macrid.concepts.understanding import understand
from macrid.control.traverse import Traversal, traverse
from macrid.data.attributes import POPULARITY, Column, columns_of
from macrid.evaluation.agreement import spearman
from macrid.models.macridvae import MacridVAE
from macrid.recipe import ALGORITHM_1, PLAIN_TRAINING, Recipe

if TYPE_CHECKING:
    from macrid.data.split import Split

CONFIG = Recipe("macridvae", {**ALGORITHM_1, "start": "svd"}, PLAIN_TRAINING)
DATA = ("shop", "ml-1m")
STRIPS = 4
STEPS = 8
WALKS = 20  # per dimension
MIN_STRENGTH = 0.3  # of the dimensions measured
MIN_USERS = 20  # per item: little is known about rarer ones


def compute(split: Split, seed: int, **training: Any) -> dict[str, Any]:
    """Train, turn and name the axes, and walk along them."""
    model = MacridVAE(**CONFIG.settings)
    model.fit(split.train, validation=split.validation, **{**CONFIG.training, "seed": seed, **training})
    understand(model, histories=split.validation.history)
    return {"seed": seed, "strips": [_strip(model, *chosen) for chosen in shown(model)], "measured": measured(model)}


def shown(model: MacridVAE) -> list[tuple[DimensionName, Any]]:
    """Dimensions and the items to start from."""
    chosen: list[tuple[DimensionName, Any]] = []
    for entry in sorted(_named(model), key=lambda entry: -(entry.strength or 0)):
        if any(other.concept == entry.concept or other.attribute == entry.attribute for other, _ in chosen):
            continue
        chosen.append((entry, _middle(model, entry)))
    return chosen[:STRIPS]


def measured(model: MacridVAE) -> dict[str, float | int]:
    """For walks along every named dimension: does the attribute follow, and does the rest stay the same?"""
    space, random = space_of(model), np.random.default_rng(0)
    columns = {column.name: column for column in columns_of(model, words=True)}
    follows, alike, named = [], [], _named(model)
    for entry in named:
        items = space.members(entry.concept)
        items = items[model.popularity[items] >= MIN_USERS]
        for start in random.choice(items, min(WALKS, len(items)), replace=False):
            walk = traverse(model, model.items[start], entry.dimension, STEPS, min_users=MIN_USERS, hold=False)
            follows.append(_follows(model, walk, columns[str(entry.attribute)], entry.direction or 1))
            alike.append(_alike(model, walk, int(start)))
    return {
        "dimensions": len(named),
        "walks": len(follows),
        "monotonicity": float(np.nanmean(follows)) if follows else 0.0,
        "cosine": float(np.mean(alike)) if alike else 0.0,
        "cosine_of_random_items": _random_cosine(model, random),
    }


def _strip(model: MacridVAE, entry: DimensionName, start: Any) -> dict[str, Any]:
    walk = traverse(model, start, entry.dimension, STEPS, min_users=MIN_USERS, keep_start=True, hold=False)
    low, high = ends(entry)
    columns = {column.name: column for column in columns_of(model, words=True)}
    names = meaning_of(model).names
    assert names is not None
    return {
        "concept_name": label(names.concept(entry.concept)),
        "name": entry.name,
        "low": low,
        "high": high,
        "strength": entry.strength,
        "follows": _follows(model, walk, columns[str(entry.attribute)], entry.direction or 1),
        **walk.as_json(),
    }


def _named(model: MacridVAE) -> list[DimensionName]:
    """Dimensions with evidence, except popularity."""
    entries = meaning_of(model).dimensions
    return [e for e in entries if e.attribute not in (None, POPULARITY) and (e.strength or 0) >= MIN_STRENGTH]


def _middle(model: MacridVAE, entry: DimensionName) -> Any:
    """The most popular item in the middle third of a dimension, among the concept's most confident half."""
    space = space_of(model)
    items = space.members(entry.concept)
    values = space.turned(entry.concept)[:, entry.dimension]
    confidence = space.log_assignment[:, entry.concept].cpu().numpy()[items]
    low, high = np.quantile(values, [1 / 3, 2 / 3])
    inside = items[(values >= low) & (values <= high) & (confidence >= np.median(confidence))]
    inside = inside if len(inside) else items
    return model.items[int(inside[np.argmax(model.popularity[inside])])]


def _follows(model: MacridVAE, walk: Traversal, column: Column, direction: int) -> float:
    """Rank correlation of the attribute with the place in a walk."""
    values = column.values[model.items.positions(walk.ids)]
    known = np.isfinite(values)
    return direction * spearman(np.flatnonzero(known), values[known]) if known.sum() > 2 else float("nan")


def _alike(model: MacridVAE, walk: Traversal, start: int) -> float:
    """Mean cosine between a walk's items and its start, ignoring the dimension."""
    space = space_of(model)
    positions = model.items.positions(walk.ids)
    vectors = space.items[np.append(positions[positions != start], start)] @ space.axes(walk.concept).T
    vectors = np.delete(vectors, walk.dimension, axis=1)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float((vectors[:-1] @ vectors[-1]).mean()) if len(vectors) > 1 else 1.0


def _random_cosine(model: MacridVAE, random: np.random.Generator) -> float:
    """Mean cosine of two items of the same concept."""
    space, cosines = space_of(model), []
    for k in range(space.concepts):
        vectors = space.items[space.members(k)]
        if len(vectors) > 1:
            a, b = random.integers(0, len(vectors), (2, 200))
            cosines.append(float((vectors[a] * vectors[b])[a != b].sum(axis=1).mean()))
    return float(np.mean(cosines)) if cosines else 0.0
