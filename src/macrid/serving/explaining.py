"""Why items have their places, as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from macrid.control.accounting import accounts_of
from macrid.control.engine import Answer, Question
from macrid.control.explain import Reason, reasons_of, shares_of
from macrid.errors import RequestError
from macrid.serving.hosted import Hosted

LONGEST_EXPLAINED_HISTORY = 500  # each item is left out in turn
MOST_EXPLAINED_ITEMS = 100
MOST_PULLS = 3


def check_explainable(question: Question) -> None:
    """Refuse a long history."""
    if len(question.history) > LONGEST_EXPLAINED_HISTORY:
        raise RequestError(
            f"the history has {len(question.history):,} items; the limit with explain is {LONGEST_EXPLAINED_HISTORY}"
        )


def reasons(hosted: Hosted, question: Question, answer: Answer) -> dict[int, dict[str, Any]]:
    """The field `reason` of every listed item, by position."""
    rankings = [answer.ranking, *answer.of_concepts.values(), *(shelf.ranking for shelf in answer.shelves)]
    listed = np.unique(np.concatenate([ranking.positions for ranking in rankings]))
    found = reasons_of(hosted.model, question, answer, listed, MOST_PULLS)
    return {int(at): {"reason": _reason(reason)} for at, reason in zip(listed, found, strict=True)}


def _reason(reason: Reason) -> dict[str, Any]:
    placed = {} if reason.item.new is None else {"placed": str(reason.item.new)}
    pulls = [pull.as_json() for pull in reason.pulls]
    return {"share": reason.share, "pulls": pulls, "account": reason.account.as_json(), **placed}


def explained(hosted: Hosted, question: Question, positions: np.ndarray) -> dict[str, Any]:
    """As the schema `Explained`, except what is unknown of a history."""
    model, answer = hosted.model, hosted.engine.ask(question)
    shares, concepts = shares_of(model, question.history), model.concepts_of_items()
    items = [
        {
            **hosted.ref(position),
            "share": None if shares is None or concepts is None else float(shares[concepts[position]]),
            "account": account.as_json(),
        }
        for position, account in zip(positions.tolist(), accounts_of(model, question, answer, positions), strict=True)
    ]
    content: dict[str, Any] = {"items": items}
    content |= {"moves": [move.as_json() for move in answer.moves]} if question.moves else {}
    content |= {"fallback": True} if answer.is_fallback else {}
    return content | {"warnings": [*answer.warnings, *answer.notes]}
