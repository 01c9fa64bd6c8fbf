"""Table 1: collaborative filtering. Every method with its tuned settings on the test users, averaged over seeds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.evaluation.metrics import PAPER_METRICS
from macrid.evaluation.ranking import evaluate
from macrid.models import model_class
from macrid.recipe import PLAIN_TRAINING, Recipe
from macrid.settings import ADDED
from macrid.tuning.space import config_of

if TYPE_CHECKING:
    from macrid.data.split import Split
    from macrid.models.base import Recommender

DATA = ("alishop-7c-4k", "alishop-7c", "ml-latest-small", "ml-1m", "ml-1m-ge3", "ml-20m", "netflix")
METHODS = {
    "popularity": "Popularity",
    "ease": "EASE",
    "multdae": "MultDAE",
    "multvae": "β-MultVAE",
    "macridvae-random": "MacridVAE, random start",
    "macridvae": "MacridVAE",
}
"""By name; after a dash comes a variant with the same tuned settings."""
FIXED = {"macridvae": {**ADDED, "temperature": 0.1, "start": "svd-encoder"}}
"""Settings that are not tuned."""
STARTS = ("svd-encoder", "ease")
"""After tuning, the one that does better on validation users is used."""
START_SEEDS = 3
PATIENCE = {name: PLAIN_TRAINING[name] for name in ("patience", "likelihood")}  # of every network
TRAINING: tuple[dict[str, Any], ...] = ({"balance": 0.0}, {"balance": 0.3})
"""Every network is tuned with each of these; the one that does better on validation users is used."""
PAPER: dict[str, dict[str, tuple[float, float, float]]] = {
    "alishop-7c": {
        "multdae": (0.23923, 0.15242, 0.24892),
        "multvae": (0.23875, 0.15040, 0.24589),
        "macridvae": (0.29148, 0.18616, 0.30256),
    },
    "ml-latest-small": {
        "multdae": (0.24487, 0.23794, 0.32279),
        "multvae": (0.27484, 0.24838, 0.35270),
        "macridvae": (0.28895, 0.30951, 0.41309),
    },
    "ml-1m": {
        "multdae": (0.40453, 0.34382, 0.46781),
        "multvae": (0.40555, 0.33960, 0.45825),
        "macridvae": (0.42740, 0.36046, 0.49039),
    },
    "ml-20m": {
        "multdae": (0.41900, 0.39169, 0.53054),
        "multvae": (0.41113, 0.38263, 0.51975),
        "macridvae": (0.42496, 0.39649, 0.52901),
    },
    "netflix": {
        "multdae": (0.37450, 0.33982, 0.43247),
        "multvae": (0.36291, 0.32792, 0.41960),
        "macridvae": (0.37987, 0.34587, 0.43478),
    },
}
"""The paper's NDCG@100, Recall@20 and Recall@50; its ML-100k is ml-latest-small."""


def tuned(data: str, model: str) -> Recipe:
    """Settings tuned on validation users; a data set without its own uses those of a similar one."""
    folder = files("macrid.paper") / "tuned"
    for name in (data, "alishop-7c-4k" if data == "alishop-7c" else "ml-1m"):
        file = folder / f"{name}.{model}.json"
        if file.is_file():
            with as_file(file) as path:
                recipe = Recipe.read(path)
                return replace(recipe, training={**PATIENCE, **recipe.training}) if has_epochs(model) else recipe
    return Recipe(model)


def has_epochs(model: str) -> bool:
    return model_class(model).has_epochs


def fitted(config: Recipe, items: int) -> Recipe:
    """The same settings, with the width that the parameter budget allows for this many items."""
    if "dim" not in config.settings:
        return config
    settings = {name: value for name, value in config.settings.items() if name != "dim"}
    within_budget = config_of(config.model, settings, {}, config.training, items)
    return config if within_budget is None else replace(config, settings=within_budget.settings)


def variant(config: Recipe, method: str) -> Recipe:
    """A method's settings: its model's, with a random start where the method says so."""
    if method.endswith("-random"):
        return replace(config, settings={**config.settings, "start": "random"})
    return config


def with_better_start(config: Recipe, score: Callable[[Recipe, int], float]) -> Recipe:
    """The same settings with the start that has the better mean over a few seeds; `about["starts"]` has all scores.

    score: the validation score of a config and a seed.
    """
    with_start = {start: replace(config, settings={**config.settings, "start": start}) for start in STARTS}
    scores = {start: [score(each, seed) for seed in range(START_SEEDS)] for start, each in with_start.items()}
    best = with_start[max(scores, key=lambda start: float(np.mean(scores[start])))]
    return replace(best, about={**config.about, "starts": scores})


def validation_score(split: Split, config: Recipe, seed: int, **training: Any) -> float:
    """Train with one seed; NDCG@100 of the validation users."""
    return evaluate(_trained(split, config, seed, training), split.validation, PAPER_METRICS[:1])["ndcg@100"].mean


def _trained(split: Split, config: Recipe, seed: int, training: dict[str, Any]) -> Recommender:
    model: Recommender = model_class(config.model)(**config.settings)
    model.fit(split.train, validation=split.validation, **{**config.training, "seed": seed, **training})
    return model


def measure(split: Split, config: Recipe, seed: int, **training: Any) -> dict[str, Any]:
    """Train with one seed and score on the test users."""
    began = time.monotonic()
    model = _trained(split, config, seed, training)
    seconds = time.monotonic() - began
    scores = evaluate(model, split.test, PAPER_METRICS)
    return {
        "seed": seed,
        "test": {name: scores[name].mean for name in PAPER_METRICS},
        "se": {name: scores[name].se for name in PAPER_METRICS},
        "validation": evaluate(model, split.validation, PAPER_METRICS[:1])["ndcg@100"].mean,
        "users": scores.users,
        "skipped": scores.skipped,
        "epochs": len(model.log),
        "parameters": sum(value.numel() for value in model.state().values()),
        "seconds": round(seconds, 1),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Metric → mean over seeds of the score and of its standard error over users."""
    return {
        name: (float(np.mean([run["test"][name] for run in runs])), float(np.mean([run["se"][name] for run in runs])))
        for name in PAPER_METRICS
    }
