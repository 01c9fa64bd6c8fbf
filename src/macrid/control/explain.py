"""Why an item is recommended: its concept, that concept's share of the history, and the items that raised its score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from macrid.concepts.meaning import meaning_of
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.models.base import Recommender, ScoredItem
from macrid.models.macridvae import MacridVAE

SCORES_AT_ONCE = 1 << 22  # users × items


@dataclass(frozen=True)
class Pull:
    """An item of the history, and its effect on a recommended item's score."""

    id: Id
    title: str | None
    amount: float
    """The score minus what it would be without this item; in log-probability where the model has one."""

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.id), "title": self.title, "amount": self.amount}


@dataclass(frozen=True)
class Reason:
    """Why one item is recommended."""

    item: ScoredItem
    share: float | None
    """Of the history, in the item's concept; None for a model without concepts."""
    concept_name: str | None
    pulls: tuple[Pull, ...]
    """Strongest first."""

    def as_json(self) -> dict[str, Any]:
        why = {"share": self.share, "concept_name": self.concept_name, "pulls": [p.as_json() for p in self.pulls]}
        return self.item.as_json() | why


def explain(
    model: Recommender,
    history: Iterable[Id],
    items: Sequence[Id] | None = None,
    *,
    n: int = 10,
    most: int = 3,
    exclude_seen: bool = True,
) -> list[Reason]:
    """Why these items, or the n best, are recommended for a history.

    Each item of the history is left out in turn and everything scored again: pulls are exact, but need not add up.
    most: at most this many pulls per item.
    """
    if most < 0:
        raise RequestError(f"most is {most}; it must be at least 0")
    known, _ = model.lookup(history)
    if items is None:
        (positions,), _ = model.top(model.matrix([known]), n, exclude_seen=exclude_seen)
    else:
        positions = model.positions(items, "items")
    left_out = [np.delete(known, place) for place in range(len(known))]
    scores = np.concatenate(list(_scores(model, model.matrix([known, *left_out]), positions)))  # (1 + history, items)
    described = model.describe(positions, scores[0])
    history_items = model.describe(known, np.zeros(len(known)))
    share = _shares(model, known)
    reasons = []
    for place, item in enumerate(described):
        amount = scores[0, place] - scores[1:, place]
        strongest = np.argsort(-amount, kind="stable")[:most]
        pulls = tuple(Pull(history_items[at].id, history_items[at].title, float(amount[at])) for at in strongest)
        concept = item.concept
        name = None if concept is None else meaning_of(model).concept_name(concept)
        reasons.append(Reason(item, None if concept is None or share is None else float(share[concept]), name, pulls))
    return reasons


def _scores(model: Recommender, histories: sp.csr_array, positions: np.ndarray) -> Iterator[np.ndarray]:
    at_once = max(1, SCORES_AT_ONCE // len(model.items))
    for start in range(0, histories.shape[0], at_once):
        yield model.scores(histories[start : start + at_once])[:, positions].cpu().numpy()


def _shares(model: Recommender, known: np.ndarray) -> np.ndarray | None:
    """(concepts,) of a history."""
    if not isinstance(model, MacridVAE):
        return None
    confidence = model.confidence(model.matrix([known]))[0]
    return confidence / max(float(confidence.sum()), 1e-12)
