"""Figure 4: independence of the dimensions against accuracy, over random beta and sigma_0.

Every configuration uses the method's tuned settings except for beta (and sigma_0, and K), and gives one point: the
independence of the means of all training users, and NDCG@100 of the test users.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.errors import TrainingError
from macrid.evaluation.agreement import independence
from macrid.evaluation.ranking import evaluate
from macrid.models import model_class
from macrid.models.devices import choose_device
from macrid.recipe import Recipe
from macrid.tuning.search import default_jobs
from macrid.tuning.workers import run_all

if TYPE_CHECKING:
    from macrid.data.split import Split

DATA = "ml-latest-small"  # the paper's ML-100k
METHODS = {"macridvae-7": "MacridVAE, K = 7", "macridvae-1": "MacridVAE, K = 1", "multvae": "β-MultVAE"}
BETA, PRIOR_STD = (0.0, 100.0), (0.075, 0.5)  # the paper's space
BETA_MULTVAE = (1e-3, 100.0)  # on a log scale, because it works below 1
PART = 50  # configurations kept at once: the most that an interruption loses


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
    """Train every configuration; one point each, without those that diverged.

    A small data set does not fill a GPU, so several processes share one there.
    """
    training = {**tuned.training, **training}
    task = partial(point, tuned.model, training=training)
    if choose_device(training.get("device", "auto")).type == "cpu":
        points: list[Any] = [task(split, own) for own in settings]
    else:
        points = [found for _, found in sorted(run_all(task, settings, default_jobs(), split), key=itemgetter(0))]
    return [found for found in points if isinstance(found, dict)]


def point(name: str, split: Split, settings: dict[str, Any], *, training: dict[str, Any]) -> dict[str, Any] | None:
    """What one configuration reaches; None if it diverges."""
    model: Any = model_class(name)(**settings)
    try:
        model.fit(split.train, validation=split.validation, **training)
    except TrainingError:
        return None
    mean = model.posterior(split.train.matrix).mean  # (users, concepts, dim)
    return {
        **{name: settings[name] for name in ("beta", "prior_std") if name in settings},
        "independence": independence(mean.reshape(len(mean), -1)),
        "independence_per_concept": float(np.mean([independence(mean[:, k]) for k in range(mean.shape[1])])),
        "ndcg@100": evaluate(model, split.test, ("ndcg@100",))["ndcg@100"].mean,
        "validation": evaluate(model, split.validation, ("ndcg@100",))["ndcg@100"].mean,
    }
