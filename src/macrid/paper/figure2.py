"""Figure 2: a map of items and users by concept and by true category, with scores that a picture cannot give.

K = 7 concepts are learned on AliShop-7C without the categories, by cosine and by inner product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.evaluation.agreement import ari, effective_concepts, matched_accuracy, nmi, purity
from macrid.evaluation.ranking import evaluate
from macrid.models.macridvae import MacridVAE
from macrid.recipe import ALGORITHM_1, PLAIN_TRAINING, Recipe

if TYPE_CHECKING:
    from macrid.data.split import Split

DATA = "alishop-7c-4k"
CONCEPTS = 7
SHOWN_COMPONENTS = 2  # of every user, the most confident ones


def config(similarity: str) -> Recipe:
    """Algorithm 1 with soft assignment, started from an SVD; one concept per category."""
    settings = {**ALGORITHM_1, "concepts": CONCEPTS, "similarity": similarity, "start": "svd"}
    return Recipe("macridvae", settings, PLAIN_TRAINING)


def compute(split: Split, similarity: str, seed: int, points: int | None = 0, **training: Any) -> dict[str, Any]:
    """Train and score the concepts, with a map of `points` items (None: all; 0: no map)."""
    recipe = config(similarity)
    model = MacridVAE(**recipe.settings)
    model.fit(split.train, validation=split.validation, **{**recipe.training, "seed": seed, **training})
    result: dict[str, Any] = {"seed": seed, **agreement(model, split)}
    if points != 0:
        from macrid.pictures.maps import items_and_users

        users = None if points is None else points // 2
        result["map"] = items_and_users(model, split.train.matrix, SHOWN_COMPONENTS, points, users)
    return result


def categories(split: Split) -> np.ndarray:
    """(items,)"""
    assert split.table is not None
    return split.table.column("category").to_numpy(zero_copy_only=False)


def agreement(model: MacridVAE, split: Split) -> dict[str, float]:
    """How well concepts agree with categories, how many are in use, and how well the model ranks."""
    concepts, truth = model.concepts_of_items(), categories(split)
    return {
        **{each.__name__: each(concepts, truth) for each in (nmi, ari, purity, matched_accuracy)},
        "effective_concepts": effective_concepts(concepts),
        "ndcg@100": evaluate(model, split.test, ("ndcg@100",))["ndcg@100"].mean,
    }
