"""Every metric of rankings: its name, its definition in words, from which docs/metrics.md is made, and how to compute
it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from macrid.errors import SettingsError
from macrid.evaluation import accuracy, beyond
from macrid.evaluation.lists import Lists

PAPER_METRICS = ("ndcg@100", "recall@20", "recall@50")
SETS: dict[str, tuple[str, ...]] = {"paper": PAPER_METRICS, "graph": ("recall_all@20", "ndcg@20")}
"""Names for several metrics at once."""
NAME = re.compile(r"([a-z_]+)(?::(.+?))?(?:@([1-9]\d{0,17}))?")
WHOLE = 10**18  # k of a metric over the whole ranking
Of = Literal["accuracy", "list", "catalogue"]


@dataclass(frozen=True)
class Definition:
    """What a metric is."""

    name: str
    title: str
    text: str
    measure: Callable[..., Tensor]
    """(hits, targets, k) of accuracy; (lists, k) of a list, with attribute where `by_attribute`; (lists, k) of the
    catalogue, which returns the lists themselves."""
    of: Of = "accuracy"
    best: Literal["high", "low"] | None = "high"
    by_attribute: bool = False
    """Whether an attribute may be named, as in diversity:genres@10."""
    has_whole: bool = False
    """Whether k may be omitted, for the whole ranking."""
    finish: Callable[[np.ndarray, int], np.ndarray] | None = None
    """Of the catalogue: a value per user from all lists (users, k) and the number of items."""


DEFINITIONS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition(
            "ndcg",
            "NDCG",
            "Discounted cumulative gain of the first k, with discount 1 / log2(rank + 1), divided by the highest"
            " possible one: that of min(k, size of the target) hits in front. Also the definition of graph papers.",
            accuracy.ndcg,
        ),
        Definition(
            "recall",
            "Recall",
            "Hits in the first k, divided by min(k, size of the target), so that 1 is always possible. The definition"
            " of Liang et al. (2018) and of MacridVAE.",
            accuracy.recall,
        ),
        Definition(
            "recall_all",
            "Recall (all)",
            "Hits in the first k, divided by the size of the target, even if that is above k. The definition of NGCF,"
            " LightGCN and other graph papers.",
            accuracy.recall_all,
        ),
        Definition(
            "precision", "Precision", "Hits in the first k, divided by k, even if fewer are left.", accuracy.precision
        ),
        Definition(
            "map",
            "MAP",
            "Mean average precision: the sum, over the hits in the first k, of the precision at their rank, divided by"
            " min(k, size of the target).",
            accuracy.average_precision,
        ),
        Definition(
            "mrr",
            "MRR",
            "Mean reciprocal rank: 1 / rank of the first hit, 0 without a hit in the first k. `mrr` without k is over"
            " the whole ranking.",
            accuracy.reciprocal_rank,
            has_whole=True,
        ),
        Definition("hit_rate", "Hit rate", "Share of users with a hit in the first k.", accuracy.hit),
        Definition(
            "coverage",
            "Coverage",
            "Share of the catalogue that is among the first k of at least one user. It grows with the number of users,"
            " so compare models on the same users.",
            beyond.recommended,
            of="catalogue",
            finish=beyond.catalogue_coverage,
        ),
        Definition(
            "gini",
            "Gini",
            "Gini index of how often each item of the catalogue is among the first k: 0 if all equally often, near 1 if"
            " everyone gets the same few.",
            beyond.recommended,
            of="catalogue",
            best="low",
            finish=beyond.gini_index,
        ),
        Definition(
            "novelty",
            "Novelty",
            "Mean over the first k of −log2 of the item's share of all training interactions, in bits. An item without"
            " interactions counts as if it had one.",
            beyond.novelty,
            of="list",
            best=None,
        ),
        Definition(
            "diversity",
            "Diversity",
            "Mean of 1 − cosine over all pairs of the first k. `diversity@k` takes the model's own item vectors, so it"
            " cannot be compared between models; `diversity:genres@k` takes the values of an attribute: for an"
            " attribute with one value per item, the share of pairs that differ. Items without a value are left out.",
            beyond.diversity,
            of="list",
            by_attribute=True,
        ),
        Definition(
            "calibration",
            "Calibration",
            "Kullback–Leibler divergence, in nats, between the history's shares of concepts and those of the first k"
            " (Steck, 2018): the sum of p · ln(p / q'), q' = 0.99 q + 0.01 p. 0 if the list mirrors the history."
            " `calibration@k` takes the model's concepts; `calibration:genres@k` takes an attribute, which is"
            " comparable between models. An item with several values counts in parts.",
            beyond.calibration,
            of="list",
            best="low",
            by_attribute=True,
        ),
    )
}


@dataclass(frozen=True)
class Measure:
    """A metric with its k."""

    name: str
    definition: Definition
    k: int
    attribute: str | None = None

    def measure(self, lists: Lists) -> Tensor:
        """(users,), or (users, k) for a metric of the catalogue."""
        measure, of = self.definition.measure, self.definition.of
        if of == "accuracy":
            return measure(lists.hits, lists.targets, self.k)
        given: dict[str, Any] = {} if self.attribute is None else {"attribute": self.attribute}
        return measure(lists, self.k, **given)

    def finish(self, measured: np.ndarray, items: int) -> np.ndarray:
        """(users,) from all that was measured."""
        finish = self.definition.finish
        return measured.astype(np.float64) if finish is None else finish(measured, items)


def metric_names(metrics: str | Sequence[str]) -> tuple[str, ...]:
    """The names of metrics, each once: from a sequence, or from text separated by commas; sets are spelt out."""
    given = [part.strip() for part in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
    names = dict.fromkeys(name for part in given for name in (SETS.get(part, (part,)) if isinstance(part, str) else ()))
    if not given or not names:
        raise SettingsError("no metrics given; use some, such as ndcg@100")
    return tuple(names)


def parse(name: str) -> Measure:
    """A metric by its name, such as ndcg@100 or diversity:genres@10."""
    match = NAME.fullmatch(name)
    definition = None if match is None else DEFINITIONS.get(match[1])
    if match is None or definition is None:
        known = ", ".join(f"{known}@k" for known in DEFINITIONS)
        raise SettingsError(f"unknown metric '{name}'; use {known} with k at least 1, or {' or '.join(SETS)}")
    if match[3] is None and not definition.has_whole:
        raise SettingsError(f"metric '{name}' needs a k of at least 1, such as {match[1]}@20")
    if match[2] is not None and not definition.by_attribute:
        raise SettingsError(f"metric '{name}' takes no attribute; use {match[1]}@{match[3] or 20}")
    return Measure(name, definition, WHOLE if match[3] is None else int(match[3]), match[2])


def title_of(name: str) -> str:
    """A metric's name as people write it, such as NDCG@100."""
    kind, colon, rest = name.partition(":")
    if not colon:
        kind, at, k = name.partition("@")
        return f"{DEFINITIONS[kind].title}{at}{k}"
    return f"{DEFINITIONS[kind].title}:{rest}"
