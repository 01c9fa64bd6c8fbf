"""Figure 4: independence of the dimensions against accuracy, over random beta and sigma_0.

Every configuration uses the method's tuned settings except for beta (and sigma_0, and K), and gives one point: the
independence of the means of all training users, and NDCG@100 of the test users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.evaluation.agreement import independence
from macrid.evaluation.ranking import evaluate
from macrid.models import model_class
from macrid.recipe import Recipe
from macrid.training.many import fit_many

if TYPE_CHECKING:
    from macrid.data.split import Split

DATA = "ml-latest-small"  # the paper's ML-100k
METHODS = {"macridvae-7": "MacridVAE, K = 7", "macridvae-1": "MacridVAE, K = 1", "multvae": "β-MultVAE"}
BETA, PRIOR_STD = (0.0, 100.0), (0.075, 0.5)  # the paper's space
BETA_MULTVAE = (1e-3, 100.0)  # on a log scale, because it works below 1
TOGETHER = 50  # models trained side by side on a GPU, and the most that an interruption loses


def configurations(method: str, tuned: Recipe, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random settings for a method."""
    generator = np.random.default_rng([seed, list(METHODS).index(method)])
    fixed = {key: value for key, value in tuned.settings.items() if key not in ("beta", "prior_std", "concepts")}
    drawn = []
    for _ in range(count):
        if method == "multvae":
            low, high = np.log(BETA_MULTVAE)
            drawn.append({**fixed, "beta": float(np.exp(generator.uniform(low, high)))})
        else:
            random = {"beta": float(generator.uniform(*BETA)), "prior_std": float(generator.uniform(*PRIOR_STD))}
            drawn.append({**fixed, **random, "concepts": int(method.rsplit("-", 1)[1])})
    return drawn


def compute(split: Split, tuned: Recipe, settings: list[dict[str, Any]], **training: Any) -> list[dict[str, Any]]:
    """Train every configuration; one point each, except for those that diverged."""
    models = [model_class(tuned.model)(**each) for each in settings]
    errors = fit_many(
        models,  # type: ignore[arg-type]
        split.train,
        validation=split.validation,
        training=[{**tuned.training, **training}] * len(models),
    )
    trained = zip(models, settings, errors, strict=True)
    return [point(model, split, configuration) for model, configuration, error in trained if error is None]


def point(model: Any, split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    mean = model.posterior(split.train.matrix).mean  # (users, concepts, dim)
    return {
        **{name: settings[name] for name in ("beta", "prior_std") if name in settings},
        "independence": independence(mean.reshape(len(mean), -1)),
        "independence_per_concept": float(np.mean([independence(mean[:, k]) for k in range(mean.shape[1])])),
        "ndcg@100": evaluate(model, split.test, ("ndcg@100",))["ndcg@100"].mean,
        "validation": evaluate(model, split.validation, ("ndcg@100",))["ndcg@100"].mean,
    }
