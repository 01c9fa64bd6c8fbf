"""Figure 3: traversals. Strips of items along named dimensions, and numbers that a few strips do not give.

Which strips are shown is a rule, not a choice: the strongest named dimension of each concept, popularity aside, each
attribute once, from the most popular item in the middle third of the dimension, of the half of the concept that is
surest to be in it, over items that 20 users had. The numbers are of every named dimension, from items drawn at random.
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
from macrid.recipe import Recipe

if TYPE_CHECKING:
    from macrid.data.ids import Ids
    from macrid.data.split import Split

DATA = ("shop", "ml-1m")
STRIPS = 4
STEPS = 8
STARTS = 20  # items that each dimension is measured from
LEAST = 0.3  # strength of a dimension that is measured
MIN_USERS = 20  # of items on the way: what fewer users had is hardly known


def config() -> Recipe:
    """Default settings."""
    return Recipe("macridvae", {})


def compute(split: Split, seed: int, **training: Any) -> dict[str, Any]:
    """Train, turn axes and name them, walk along them."""
    model = MacridVAE(**config().settings)
    model.fit(split.train, validation=split.validation, seed=seed, **training)
    understand(model, histories=split.validation.history)
    return {"seed": seed, "strips": [_strip(model, *chosen) for chosen in shown(model)], "measured": measured(model)}


def shown(model: MacridVAE) -> list[tuple[DimensionName, Any]]:
    """Dimensions, and the items to start from."""
    found: list[tuple[DimensionName, Any]] = []
    for entry in sorted(_named(model), key=lambda entry: -(entry.strength or 0)):
        known = [other for other, _ in found]
        if any(other.concept == entry.concept or other.attribute == entry.attribute for other in known):
            continue
        found.append((entry, _middle(model, entry)))
    return found[:STRIPS]


def measured(model: MacridVAE) -> dict[str, float | int]:
    """Of walks along every named dimension: does the attribute follow, and does the rest stay?"""
    space, random = space_of(model), np.random.default_rng(0)
    columns = {column.name: column for column in columns_of(model, words=True)}
    follows, alike, walks, dimensions = [], [], 0, 0
    for entry in _named(model):
        dimensions += 1
        own = space.members(entry.concept)
        own = own[model.popularity[own] >= MIN_USERS]
        for start in random.choice(own, min(STARTS, len(own)), replace=False):
            found = traverse(model, model.items[start], entry.dimension, STEPS, min_users=MIN_USERS)
            follows.append(_follows(model, found, columns[str(entry.attribute)], entry.direction or 1))
            alike.append(_alike(model, found, int(start)))
            walks += 1
    random_pairs = _random_cosine(model, random)
    return {
        "dimensions": dimensions,
        "walks": walks,
        "monotonicity": float(np.nanmean(follows)) if follows else 0.0,
        "cosine": float(np.mean(alike)) if alike else 0.0,
        "cosine_of_random_items": random_pairs,
    }


def strip_title(strip: dict[str, Any]) -> str:
    return f"{strip['concept_name']}: {strip['name']}"


def _strip(model: MacridVAE, entry: DimensionName, start: Any) -> dict[str, Any]:
    found = traverse(model, start, entry.dimension, STEPS, min_users=MIN_USERS, keep_start=True)
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
        "follows": _follows(model, found, columns[str(entry.attribute)], entry.direction or 1),
        **found.as_json(),
    }


def _named(model: MacridVAE) -> list[DimensionName]:
    """Dimensions with evidence, popularity aside."""
    return [
        e for e in meaning_of(model).dimensions if e.attribute not in (None, POPULARITY) and (e.strength or 0) >= LEAST
    ]


def _middle(model: MacridVAE, entry: DimensionName) -> Any:
    """The most popular item in the middle third of a dimension, of the half of a concept surest to be in it."""
    space = space_of(model)
    own = space.members(entry.concept)
    values = space.turned(entry.concept)[:, entry.dimension]
    sure = space.log_assignment[:, entry.concept].cpu().numpy()[own]
    low, high = np.quantile(values, [1 / 3, 2 / 3])
    inside = own[(values >= low) & (values <= high) & (sure >= np.median(sure))]
    inside = inside if len(inside) else own
    return model.items[int(inside[np.argmax(model.popularity[inside])])]


def _follows(model: MacridVAE, found: Traversal, column: Column, direction: int) -> float:
    """Rank correlation of the place in a walk with the attribute."""
    values = column.values[_positions(model.items, found)]
    known = np.isfinite(values)
    return direction * spearman(np.flatnonzero(known), values[known]) if known.sum() > 2 else float("nan")


def _alike(model: MacridVAE, found: Traversal, start: int) -> float:
    """The mean cosine of a walk's other items to its start, without the dimension."""
    space = space_of(model)
    positions = _positions(model.items, found)
    vectors = space.items[np.append(positions[positions != start], start)] @ space.axes(found.concept).T
    vectors = np.delete(vectors, found.dimension, axis=1)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float((vectors[:-1] @ vectors[-1]).mean()) if len(vectors) > 1 else 1.0


def _random_cosine(model: MacridVAE, random: np.random.Generator) -> float:
    """The mean cosine of two items of one concept."""
    space, found = space_of(model), []
    for k in range(space.concepts):
        own = space.items[space.members(k)]
        if len(own) > 1:
            a, b = random.integers(0, len(own), (2, 200))
            found.append(float((own[a] * own[b])[a != b].sum(axis=1).mean()))
    return float(np.mean(found)) if found else 0.0


def _positions(items: Ids, found: Traversal) -> np.ndarray:
    return items.positions(found.ids)
