"""A model trained once more, on everybody, with what was chosen on the validation users of a first one.

The first model has the scores, since nobody is left to score the second one on.
"""

from __future__ import annotations

from typing import Any

from macrid.data.interactions import Interactions
from macrid.models import warm
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.settings import TrainingSettings

SCORES_ARE_OF = "the model trained without the held-out users"


def successor(first: Recommender, metrics: dict[str, Any]) -> Recommender:
    """An untrained model with the settings of a fitted one, the number of its concepts and the weight of its
    neighbours.

    metrics: of the first model.
    """
    settings = first.settings.model_dump()
    if isinstance(first, MacridVAE):
        settings["concepts"] = first.network.concepts
        if first.network.concepts == 1:
            settings["concept_shares"] = "off"  # the share of the only concept is always 1
    model = type(first)(**settings)
    if isinstance(model, MacridVAE):
        model.fixed_weight = metrics["training"].get("neighbours_weight")
    return model


def training_of(first: Recommender, metrics: dict[str, Any]) -> TrainingSettings:
    """As the first model was trained, for as many epochs as were best."""
    assert first.training is not None
    epochs = metrics["training"].get("best_epoch", first.training.epochs)
    chosen = {name: metrics["training"][name] for name in ("likelihood", "negatives") if name in metrics["training"]}
    return first.training.model_copy(update={"epochs": epochs, **chosen})


def keep_numbers(model: Recommender, first: Recommender) -> None:
    """Number concepts as in the first model: two that share most of their items get the same number.

    Concepts are interchangeable, so no score changes. Labels number them in both models.
    """
    if not isinstance(model, MacridVAE) or not isinstance(first, MacridVAE):
        return
    if model.labelled is not None and model.labelled["concepts"]:
        return
    warm.keep_numbers(model, first, warm.origin_of(model.items, first))


def described(everyone: Interactions, training: TrainingSettings, model: Recommender, seconds: float) -> dict[str, Any]:
    """What metrics.json says about the final model."""
    return {
        "users": len(everyone.users),
        "items": len(everyone.items),
        "interactions": len(everyone),
        **({"epochs": training.epochs} if model.has_epochs else {}),
        "seconds": round(seconds, 1),
        "scores_are_of": SCORES_ARE_OF,
    }
