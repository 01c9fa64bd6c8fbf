"""Why an item is recommended: its concept, that concept's share of the history, the items that raised its score, and
the account of its place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid import markup
from macrid.concepts.meaning import meaning_of
from macrid.control.account import Account, Part
from macrid.control.accounting import accounts_of
from macrid.control.engine import Answer, Engine, Question
from macrid.control.moves import Move
from macrid.control.recommend import all_rules, is_strict, warn
from macrid.control.rules import Rules
from macrid.data.ids import Id
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import RangeWarning, RequestError
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.results import ScoredItem

ITEM_COLUMNS = {"item": "id", "title": "title", "score": "score", "concept": "concept"}
PULL_COLUMNS = {"raised_by": "id", "raised_by_title": "title", "amount": "amount"}
PART_COLUMNS = ("kind", "label", "places", "amount")
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
    """With the score that the history gives it, whatever the moves and rules."""
    share: float | None
    """Of the history, in the item's concept; None for a model without concepts."""
    concept_name: str | None
    pulls: tuple[Pull, ...]
    """Strongest first; without moves."""
    account: Account
    """Of its place."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What its place is due to; their places add up."""
        return self.account.parts

    def as_json(self) -> dict[str, Any]:
        why = {"share": self.share, "concept_name": self.concept_name, "pulls": [p.as_json() for p in self.pulls]}
        return self.item.as_json() | why | {"account": self.account.as_json()}


class Reasons(list[Reason]):
    """Why each item of a list is recommended."""

    def to_frame(self, as_: FrameKind = "arrow") -> Any:
        """One row per item and pull: rank, item, title, score, concept, concept_name, share, raised_by, raised_by_title
        and amount; the last three are null for an item without pulls. as_: "arrow", "pandas" or "polars"."""
        rows = [(rank, reason, pull) for rank, reason in enumerate(self, 1) for pull in reason.pulls or (None,)]
        items = {name: [getattr(r.item, field) for _, r, _ in rows] for name, field in ITEM_COLUMNS.items()}
        why = {name: [getattr(r, name) for _, r, _ in rows] for name in ("concept_name", "share")}
        pulls = {name: [p and getattr(p, field) for *_, p in rows] for name, field in PULL_COLUMNS.items()}
        return to_frame(pa.table({"rank": [rank for rank, *_ in rows], **items, **why, **pulls}), as_)

    def to_parts(self, as_: FrameKind = "arrow") -> Any:
        """One row per item and part of its account: rank, item, title, kind, label, places and amount.

        The first part of each item is the list for everybody: its place there, negative, and its score. So places add
        up to the negative rank, amounts to the score.
        """
        rows = [(reason, part) for reason in self for part in (_first(reason.account), *reason.parts)]
        items = {"rank": [r.account.rank for r, _ in rows], "item": [r.item.id for r, _ in rows]}
        items["title"] = [r.item.title for r, _ in rows]
        return to_frame(pa.table(items | {name: [getattr(p, name) for _, p in rows] for name in PART_COLUMNS}), as_)

    def _repr_html_(self) -> str:
        rows = [
            (
                rank,
                reason.item.title or reason.item.id,
                "" if reason.share is None else f"{reason.share:.0%} {reason.concept_name or ''}",
                "; ".join(f"{pull.amount:+.2f} {pull.title or pull.id}" for pull in reason.pulls if pull.amount > 0),
                str(reason.account),
            )
            for rank, reason in enumerate(self, start=1)
        ]
        columns = ("#", "item", "because you have", "raised by", "place")
        return markup.fragment(markup.table(columns, rows, numbers=("#",)))


def explain(
    model: Recommender,
    history: Iterable[Id],
    items: Sequence[Id] | None = None,
    *,
    n: int = 10,
    most: int = 3,
    exclude_seen: bool = True,
    include: Iterable[Id] | None = None,
    exclude: Iterable[Id] | None = None,
    where: str | None = None,
    rules: Rules | Mapping[str, Any] | None = None,
    strict: bool = False,
    moves: Sequence[Move | Mapping[str, Any]] = (),
    bounded: bool = True,
) -> Reasons:
    """Why these items, or those of the list, are recommended for a history.

    An account says why an item has its place in the list, with the moves and by the rules: places of its parts add up,
    and so do amounts of score.
    For pulls, each item of the history is left out in turn and everything scored again: they are exact, but need not
    add up. Moves and rules do not change them.
    most: at most this many pulls per item.
    n, exclude_seen, include, exclude, where, rules, strict: the list, as for `model.recommend`.
    moves, bounded: as for `steer`.
    """
    if most < 0:
        raise RequestError(f"most is {most}; it must be at least 0")
    together = all_rules(include, exclude, where, rules, strict)
    known, unknown = model.lookup(history, required=is_strict(together))
    question = Question(
        known, n, known if exclude_seen else known[:0], moves=tuple(Move.read(move) for move in moves), bounded=bounded,
        rules=together,
    )  # fmt: skip
    answer = Engine(model).ask(question)
    if items is None:
        warn(answer.notes, bool(unknown), stacklevel=3)
        for note in answer.warnings:
            warnings.warn(note, RangeWarning, stacklevel=2)
    positions = answer.ranking.positions if items is None else model.positions(items, "items")
    return reasons_of(model, question, answer, positions, most)


def reasons_of(model: Recommender, question: Question, answer: Answer, positions: np.ndarray, most: int) -> Reasons:
    """Why some items have their places. answer: to the question. most: pulls per item."""
    known, accounts = question.history, accounts_of(model, question, answer, positions)
    left_out = [np.delete(known, place) for place in range(len(known))]
    scores = np.concatenate(list(_scores(model, model.matrix([known, *left_out]), positions)))  # (1 + history, items)
    described = model.describe(positions, scores[0])
    history_items = model.describe(known, np.zeros(len(known)))
    share = shares_of(model, known)
    reasons = Reasons()
    for place, item in enumerate(described):
        amount = scores[0, place] - scores[1:, place]
        strongest = np.argsort(-amount, kind="stable")[:most]
        pulls = tuple(Pull(history_items[at].id, history_items[at].title, float(amount[at])) for at in strongest)
        concept = item.concept
        name = None if concept is None else meaning_of(model).concept_name(concept)
        part = None if concept is None or share is None else float(share[concept])
        reasons.append(Reason(item, part, name, pulls, accounts[place]))
    return reasons


def _first(account: Account) -> Part:
    start = account.stages[0]
    return Part(start.kind, start.label, -start.rank, start.score)


def _scores(model: Recommender, histories: sp.csr_array, positions: np.ndarray) -> Iterator[np.ndarray]:
    at_once = max(1, SCORES_AT_ONCE // len(model.items))
    for start in range(0, histories.shape[0], at_once):
        yield model.scores(histories[start : start + at_once])[:, positions].cpu().numpy()


def shares_of(model: Recommender, known: np.ndarray) -> np.ndarray | None:
    """(concepts,) of a history; None for a model without concepts."""
    if not isinstance(model, MacridVAE):
        return None
    confidence = model.confidence(model.matrix([known]))[0]
    return confidence / max(float(confidence.sum()), 1e-12)
