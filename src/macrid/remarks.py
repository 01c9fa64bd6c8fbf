"""A trained model beside simple ones on the same users; and what to try where one of them is ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut
from macrid.errors import MacridError
from macrid.evaluation.ranking import Evaluation, evaluate
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.reference import EASE, Popularity

METRIC = "ndcg@100"


def compare(
    model: Recommender,
    train: Interactions,
    heldout: dict[str, HeldOut],
    own: dict[str, Evaluation],
    training: dict[str, Any],
    ease_items: int,
    say: Callable[[Literal["comparing", "note"], str], None],
) -> dict[str, Any]:
    """Scores of simple models, how far they lead on test users, and remarks, for metrics.json.

    own: scores of the model, where they are known. training: as in metrics.json.
    ease_items: EASE is left out beyond so many, as it takes too much time or memory.
    """
    kinds = [EASE, Popularity] if len(train.items) <= ease_items else [Popularity]
    scores: dict[str, Any] = {}
    leads: dict[str, dict[str, float]] = {}
    for kind in kinds:
        if type(model) is kind:
            continue
        say("comparing", f"scoring {kind.__name__} on the same users")
        try:
            baseline = kind().fit(train, device=str(model.device))
            found = {name: evaluate(baseline, group) for name, group in heldout.items()}
        except MacridError as error:
            say("note", f"skipped the baseline {kind.__name__}: {error}")
            continue
        scores[kind.__name__] = {name: each.as_json() for name, each in found.items()}
        if "test" in found:
            own = own if "test" in own else {"test": evaluate(model, heldout["test"], (METRIC,))}
            ahead = lead(found["test"].per_user[METRIC], own["test"].per_user[METRIC])
            leads |= {} if ahead is None else {kind.__name__: ahead}
    return {"baselines": scores, "leads": leads, "remarks": remarks_on(model, training, leads, ease_items)}


def lead(baseline: np.ndarray, own: np.ndarray) -> dict[str, float] | None:
    """How far a baseline is ahead, user by user: the mean difference and its standard error; None for fewer than two.

    baseline, own: a score of each user, (users,).
    """
    if len(own) < 2:
        return None
    difference = baseline - own
    return {"mean": float(difference.mean()), "se": float(difference.std(ddof=1) / len(own) ** 0.5)}


def remarks_on(
    model: Recommender,
    training: dict[str, Any],
    leads: dict[str, dict[str, float]],
    ease_items: int,
) -> list[str]:
    """One line if baselines are ahead by more than a standard error, the best first, and one if EASE was left out."""
    items = len(model.items)
    ahead = {name: by for name, by in leads.items() if by["mean"] > by["se"]}
    remarks = []
    if ahead:
        best, *others = sorted(ahead, key=lambda name: -ahead[name]["mean"])
        by = {name: f"by {each['mean']:.4f} ± {each['se']:.4f}" for name, each in ahead.items()}
        who = f"{best} is ahead {by[best]}" + "".join(f" and {name} {by[name]}" for name in others)
        ideas = ", ".join(_ideas(model, training))
        remarks.append(f"{who} NDCG@100 on the test users; try {ideas}, or --model {best.lower()}")
    if items > ease_items and not isinstance(model, EASE):
        remarks.append(
            f"EASE was left out, since {items:,} items are more than {ease_items:,};"
            " train it with `macrid train --model ease` to compare"
        )
    return remarks


def _ideas(model: Recommender, training: dict[str, Any]) -> list[str]:
    ideas = []
    if model.has_epochs and training.get("best_epoch") == training.get("epochs"):
        ideas.append("more epochs (--epochs)")
    if isinstance(model, MacridVAE):
        ideas.append("another number of concepts (--concepts)")
    if model.settings_class.model_fields:
        ideas.append("other settings (macrid tune)")
    return [*ideas, "more users or longer histories"]
