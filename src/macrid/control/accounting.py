"""Accounts of items: every stage of a question ranked, and what the history changed split among its items.

Where rules place items (limits, diversity, pins), their list comes first, and all others follow by score. An item that
may not be listed gets the place that it would have if it alone might.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from macrid.concepts.meaning import meaning_of
from macrid.concepts.space import space_of
from macrid.control.account import Account, Kind, Part, Stage
from macrid.control.engine import Answer, Question
from macrid.control.listing import both, listed
from macrid.control.moves import Move
from macrid.control.rulebook import NO_RULES, Applied, rulebook_of
from macrid.control.sources import OneAlone, popular_scores
from macrid.control.splitting import (
    Additions,
    Crossing,
    Split,
    additions_of_history,
    additions_of_neighbours,
    apportioned,
    split,
)
from macrid.control.state import State
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE

NAMED = 6  # items of a history; the others are one part
FEWEST_NAMED = 3  # even if they changed no place
THOUSANDTHS = 1000
LARGEST_SCORE = 1e6  # a score may be −inf


def accounts_of(
    model: Recommender, question: Question, answer: Answer, positions: np.ndarray, named: int = NAMED
) -> list[Account]:
    """Accounts of some items. answer: to the question. named: how many items of the history get a part of their own."""
    if not len(positions):
        return []
    steps, items = list(_steps(model, question, answer)), positions.tolist()
    together = list(_orders(model, question, answer, steps))
    orders = [
        together if steps[-1].may[item] else list(_orders(model, question, answer, steps, item)) for item in items
    ]
    splits = {}
    for at, added in _additions(model, question, steps).items():
        pairs = zip(orders, items, strict=True)
        splits[at] = split(added, [_crossing(own[at - 1], own[at], item) for own, item in pairs])
    accounts = []
    for place, item in enumerate(items):
        divided = {at: of_items[place] for at, of_items in splits.items()}
        accounts.append(_account(model, question, answer, steps, orders[place], divided, item, named))
    return accounts


@dataclass(frozen=True, eq=False)
class _Step:
    """A stage for all items."""

    kind: Kind
    label: str
    values: np.ndarray
    """What items are ranked by: (items,)."""
    may: np.ndarray
    """(items,) which of them may be listed."""
    rules: Applied = NO_RULES
    """Those that place items."""
    rule: str | None = None
    is_standing: bool = False
    move: Move | None = None


class _Order(NamedTuple):
    """Candidates in order: those placed by rules, then the others by their values."""

    values: np.ndarray
    may: np.ndarray
    tie: np.ndarray
    """(items,) which comes first of equal ones."""
    placed: np.ndarray

    def ahead(self, item: int) -> np.ndarray:
        """(items,) which candidates come before an item."""
        ahead = np.zeros(len(self.may), dtype=bool)
        place = np.flatnonzero(self.placed == item)
        if len(place):
            ahead[self.placed[: place[0]]] = True
            return ahead
        value = self.values[item]
        better = (self.values > value) | ((self.values == value) & (self.tie < self.tie[item]))
        ahead = better & self.may
        ahead[self.placed] = True
        return ahead


@torch.no_grad()
def _steps(model: Recommender, question: Question, answer: Answer) -> Iterator[_Step]:
    q, is_known = question, len(question.history) > 0
    state, may = None, _candidates(model, q)
    if isinstance(model, MacridVAE):
        (state,) = State.all_of(space_of(model), model.matrix([q.history]))
    scores = _numbers(model.scores(model.matrix([q.history]))[0] if state is None else state.scores)
    step = _Step("everybody", "everybody", scores, may)
    if is_known or answer.is_fallback:
        step = replace(step, values=_without_history(model))
    yield step
    if is_known:
        has_linear = state is not None and state.linear is not None
        values = _numbers(state.log_p) if state is not None and has_linear else scores
        yield (step := replace(step, kind="history", label="the history", values=values))
        if has_linear:
            yield (step := replace(step, kind="neighbours", label="the history, by neighbours", values=scores))
    plain, boost = step.values, np.zeros_like(step.values)
    for rule in rulebook_of(model).one_by_one(q.rules, q.standing):
        applied = rule.applied
        boost = boost if applied.boost is None else applied.boost
        is_filter = applied.allowed is not None
        step = replace(
            step, kind="rule", label=rule.label, rule=rule.rule, is_standing=rule.is_standing, values=plain + boost,
            may=step.may if applied.allowed is None else step.may & applied.allowed,
            rules=step.rules if is_filter else applied,
        )  # fmt: skip
        yield step
    for asked, move in zip(q.moves, answer.moves, strict=True):
        assert state is not None
        state = state.after([asked], q.bounded).state
        yield _Step(
            "move", label_of(model, move), _numbers(state.scores) + boost, step.may, rules=step.rules, move=move
        )


def _candidates(model: Recommender, question: Question) -> np.ndarray:
    """(items,) which may be listed, rules apart."""
    q, allowed = question, question.allowed
    if q.concept is not None:
        allowed = both(allowed, space_of(model).concept_of == q.concept)
    may = np.ones(len(model.items), dtype=bool) if allowed is None else allowed.copy()
    may[q.hidden] = False
    return may


def _without_history(model: Recommender) -> np.ndarray:
    """What the engine ranks by if it knows nothing of somebody: (items,)."""
    if model.falls_back or len(model.popularity) != len(model.items):
        return _numbers(model.scores(model.matrix([np.zeros(0, dtype=np.int64)]))[0])
    return _numbers(popular_scores(model))


def _numbers(scores: torch.Tensor) -> np.ndarray:
    return scores.cpu().numpy()


def _orders(
    model: Recommender, question: Question, answer: Answer, steps: Sequence[_Step], blocked: int | None = None
) -> Iterator[_Order]:
    """One for each step. blocked: an item that may not be listed, as if it might."""
    found, nothing = answer.ranking.positions, np.zeros(0, dtype=np.int64)
    tie = len(found) + np.arange(len(model.items))
    tie[found] = np.arange(len(found))
    for step in steps:
        may, placed = step.may, nothing
        if blocked is not None:
            may = may.copy()
            may[blocked] = True
        if step is steps[-1] and blocked is None:
            placed = found
        elif step.rules.reorders:
            values = torch.from_numpy(step.values)
            source = OneAlone(values, values, None, may, nothing)
            placed = listed(model, source, question.n, source.left, step.rules, may, nothing).ranking.positions
        yield _Order(step.values, may, tie, placed)


def _additions(model: Recommender, question: Question, steps: Sequence[_Step]) -> dict[int, Additions]:
    """What each item of the history adds, for the steps that are due to them."""
    additions: dict[int, Additions] = {}
    for at, step in enumerate(steps):
        if step.kind == "history":
            additions[at] = additions_of_history(model, question.history, steps[0].values, step.values)
        elif step.kind == "neighbours":
            assert isinstance(model, MacridVAE)
            additions[at] = additions_of_neighbours(model, question.history)
    return additions


def _crossing(before: _Order, after: _Order, item: int) -> Crossing:
    was, is_ = before.ahead(item), after.ahead(item)
    return Crossing(item, np.flatnonzero(was & ~is_), np.flatnonzero(is_ & ~was))


def _account(
    model: Recommender,
    question: Question,
    answer: Answer,
    steps: Sequence[_Step],
    orders: Sequence[_Order],
    splits: dict[int, Split],
    item: int,
    named: int,
) -> Account:
    ranks = [1 + int(order.ahead(item).sum()) for order in orders]
    scores = [_thousandths(step.values[item]) for step in steps]
    pairs = zip(steps, ranks, scores, strict=True)
    stages = [Stage(step.kind, step.label, rank, score / THOUSANDTHS) for step, rank, score in pairs]
    changes = [(one - other) for one, other in pairwise(ranks)], [other - one for one, other in pairwise(scores)]
    whole = {
        at: Split(_added(own.scores, changes[1][at - 1]), apportioned(own.places, changes[0][at - 1]))
        for at, own in splits.items()
    }
    chosen = _named(list(whole.values()), named)
    parts: list[Part] = []
    for at, (step, places, amount) in enumerate(zip(steps[1:], *changes, strict=True), start=1):
        if at in whole:
            parts += _of_history(model, question.history, step.kind, whole[at], chosen)
            rest = amount - int(whole[at].scores.sum())
            parts.append(Part(step.kind, "the history as a whole", 0, rest / THOUSANDTHS))
        else:
            label = "pinned" if step.rule == "pins" and _is_pinned(step.rules, item) else step.label
            about: dict[str, Any] = {"move": step.move, "rule": step.rule, "is_standing": step.is_standing}
            parts.append(Part(step.kind, label, places, amount / THOUSANDTHS, **about))
    left_out = () if steps[-1].may[item] else tuple(_left_out(model, question, item))
    return Account(
        ranks[-1], int(orders[-1].may.sum()), item in answer.ranking.positions, tuple(stages),
        tuple(part for part in parts if part.places or part.amount), left_out,
    )  # fmt: skip


def _thousandths(score: float) -> int:
    return round(THOUSANDTHS * float(np.clip(score, -LARGEST_SCORE, LARGEST_SCORE)))


def _added(scores: np.ndarray, total: int) -> np.ndarray:
    """What items of a history add to a score, in thousandths; a single one adds it all."""
    return np.rint(THOUSANDTHS * scores).astype(np.int64) if len(scores) > 1 else np.array([total])


def _named(splits: Sequence[Split], most: int) -> np.ndarray:
    """Which items of the history get parts of their own: those with the most places, then with the largest scores."""
    if not splits:
        return np.zeros(0, dtype=np.int64)
    scores, places = (np.abs(sum(getattr(each, name) for each in splits)) for name in ("scores", "places"))
    order = np.lexsort((-scores, -places))
    count = min(most, max(int((places > 0).sum()), FEWEST_NAMED))
    return order if count == len(order) - 1 else order[:count]


def _of_history(model: Recommender, history: np.ndarray, kind: Kind, own: Split, chosen: np.ndarray) -> Iterator[Part]:
    items = model.describe(history[chosen], np.zeros(len(chosen)))
    for at, item in zip(chosen.tolist(), items, strict=True):
        amount = int(own.scores[at]) / THOUSANDTHS
        yield Part(kind, (item.title or "").strip() or str(item.id), int(own.places[at]), amount, item.id)
    others = np.delete(np.arange(len(history)), chosen)
    if len(others):
        label = f"{len(others):,} {'other ' * bool(len(chosen))}items of the history"
        amount = int(own.scores[others].sum()) / THOUSANDTHS
        yield Part(kind, label, int(own.places[others].sum()), amount, count=len(others))


def _is_pinned(rules: Applied, item: int) -> bool:
    return any(pin.position == item for pin in rules.pins)


def _left_out(model: Recommender, question: Question, item: int) -> Iterator[str]:
    q = question
    if item in q.hidden:
        yield "in the history" if item in q.history else "excluded"
    if q.allowed is not None and not q.allowed[item]:
        yield "not among the items to choose from"
    if q.concept is not None and space_of(model).concept_of[item] != q.concept:
        yield "in another concept"
    for step in rulebook_of(model).one_by_one(q.rules, q.standing):
        if step.applied.allowed is not None and not step.applied.allowed[item]:
            yield step.label


def label_of(model: Recommender, move: Move) -> str:
    """What a move is about: "year", "size in bags", "share of bags"."""
    concept = move.concept_name or move.concept
    if isinstance(concept, int):
        concept = meaning_of(model).concept_name(concept) or f"concept {concept}"
    if move.share is not None:
        return f"share of {concept}"
    number = move.dimension if isinstance(move.dimension, str) else f"dimension {move.dimension}"
    name = move.towards or move.name or number
    return name if concept is None else f"{name} in {concept}"
