"""From requests to questions for the engine, and from its answers to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from macrid.concepts.directions import directions_towards
from macrid.control.engine import Answer, Question, changes
from macrid.control.explain import explain
from macrid.control.links import carried_over
from macrid.control.moves import Move
from macrid.control.state import Ranking
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.serving.hosted import Hosted
from macrid.serving.schemas import requests
from macrid.serving.service import Service

LONGEST_EXPLAINED_HISTORY = 500  # each item is left out in turn
MOST_PULLS = 3
MOST_BATCH_ITEMS = 100_000  # in all lists together


@dataclass(frozen=True, eq=False)
class Person:
    """A user to recommend for; items are positions."""

    history: np.ndarray
    seen: np.ndarray
    """What `exclude_seen` leaves out."""
    unknown: Sequence[Id] = ()

    def hidden(self, request: requests.Listing, excluded: np.ndarray) -> np.ndarray:
        """What may not be listed. excluded: the known ones among those that the request excludes."""
        return np.union1d(self.seen if request.exclude_seen else self.seen[:0], excluded)


def person_of(hosted: Hosted, history: Sequence[Id] | None, user: Id | None) -> Person:
    """From a history or a known user."""
    if history is None:
        assert user is not None
        return Person(*hosted.users.find(user))
    check_limits(hosted, history=history)
    known, unknown = hosted.positions(history)
    if unknown and not len(known):
        raise RequestError(f"the history has no known item; {hosted.unknown(unknown)}")
    return Person(known, known, unknown)


def check_limits(hosted: Hosted, n: int = 1, **lists: Sequence[Id] | None) -> None:
    """Refuse a large n or long lists of ids, given by their names."""
    settings = hosted.settings
    if n > settings.max_items:
        raise RequestError(f"n is {n:,}; the limit is {settings.max_items:,}")
    for name, ids in lists.items():
        if ids is not None and len(ids) > settings.max_history:
            raise RequestError(f"{name} has {len(ids):,} items; the limit is {settings.max_history:,}")


async def moves_of(
    hosted: Hosted, service: Service, request: requests.Moving
) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """The moves that apply to the run, and warnings about the others.

    Computes the directions of attributes here, so that batches do not wait for it.
    """
    if not request.moves:
        return (), ()
    if len(request.moves) > service.settings.max_moves:
        raise RequestError(f"{len(request.moves)} moves; the limit is {service.settings.max_moves}")
    space = hosted.concepts()
    moves = tuple(Move(**dict(move)) for move in request.moves)
    is_same_run = request.run in (None, hosted.run_id)
    for move in moves:
        if move.towards is not None and move.towards not in space.towards:
            with nullcontext() if is_same_run else suppress(RequestError):
                await service.slowly(directions_towards, space, move.towards)
    return carried_over(space, moves, is_same_run)


async def recommend(hosted: Hosted, service: Service, request: requests.RecommendRequest) -> dict[str, Any]:
    """As the schema `Recommended`."""
    person = person_of(hosted, request.history, request.user)
    check_limits(hosted, request.n, include=request.include, exclude=request.exclude)
    if request.explain and len(person.history) > LONGEST_EXPLAINED_HISTORY:
        raise RequestError(
            f"the history has {len(person.history):,} items; the limit with explain is {LONGEST_EXPLAINED_HISTORY}"
        )
    moves, warnings = await moves_of(hosted, service, request)
    if request.by_concept or request.concept is not None:
        hosted.concepts()
    allowed, (excluded, _) = None, hosted.positions(request.exclude or ())
    if request.include is not None:
        allowed = np.zeros(len(hosted.model.items), dtype=bool)
        allowed[hosted.all_known(request.include, "include")] = True
    question = Question(
        person.history, request.n, person.hidden(request, excluded), allowed, moves=moves,
        bounded=request.bounded, concept=request.concept, by_concept=request.by_concept,
    )  # fmt: skip
    if question.by_concept:  # slow, so kept out of the batches
        answer = await service.at_length(hosted.engine.ask, question)
    else:
        answer = await hosted.batcher.ask(question)
    has_reasons = request.explain and len(person.history)
    reasons = await service.at_length(_reasons, hosted, person, answer) if has_reasons else {}
    content = recommended(hosted, answer, person.unknown, request.before, reasons)
    if request.moves and not moves:
        content["moves"] = []
    return content | {"warnings": [*warnings, *answer.warnings]}


def recommended(
    hosted: Hosted,
    answer: Answer,
    unknown: Sequence[Id] = (),
    before: bool = False,
    reasons: dict[int, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """As the schema `Recommended`."""
    content: dict[str, Any] = {
        "unknown": [str(value) for value in unknown],
        "items": _items(hosted, answer.ranking, reasons),
    }
    if answer.of_concepts:
        content["concepts"] = [
            {"concept": k, "items": _items(hosted, ranking, reasons)}
            | _moved(hosted, answer.of_concepts_before.get(k), ranking)
            for k, ranking in answer.of_concepts.items()
        ]
    if answer.before is not None:
        content |= _moved(hosted, answer.before, answer.ranking)
        content["moves"] = [move.as_json() for move in answer.moves]
        content["effects"] = [effect.as_json() for effect in answer.effects]
    if before:
        content["before"] = _items(hosted, answer.before or answer.ranking)
    if answer.shares is not None:
        content["shares"] = [round(float(share), 6) for share in answer.shares]
    return content | {"warnings": list(answer.warnings)}


def _items(hosted: Hosted, ranking: Ranking, reasons: dict[int, dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    return [
        {**hosted.ref(position), "score": float(f"{score:.6g}"), **(reasons or {}).get(position, {})}
        for position, score in zip(ranking.positions.tolist(), ranking.scores.tolist(), strict=True)
    ]


def _moved(hosted: Hosted, before: Ranking | None, after: Ranking) -> dict[str, Any]:
    """The field `moved`: items that came in, went out, up or down; empty without moves."""
    if before is None:
        return {}
    kinds = changes(before.positions.tolist(), after.positions.tolist())
    moved = {
        kind: [
            {"id": ref["id"], "title": ref["title"], "before": change.before, "after": change.after}
            for change in group
            for ref in [hosted.ref(change.item)]
        ]
        for kind, group in kinds.items()
    }
    return {"moved": moved}


def _reasons(hosted: Hosted, person: Person, answer: Answer) -> dict[int, dict[str, Any]]:
    """The field `reason` of every listed item, by position."""
    model = hosted.model
    rankings = [answer.ranking, *answer.of_concepts.values()]
    listed = np.unique(np.concatenate([ranking.positions for ranking in rankings]))
    ids, history = ([model.items[int(at)] for at in positions] for positions in (listed, person.history))
    reasons = explain(model, history, ids, most=MOST_PULLS)
    return {
        int(at): {"reason": {"share": reason.share, "pulls": [pull.as_json() for pull in reason.pulls]}}
        for at, reason in zip(listed, reasons, strict=True)
    }


async def batch(hosted: Hosted, service: Service, request: requests.BatchRequest) -> dict[str, Any]:
    """As the schema `BatchRecommended`."""
    count, most = len(request.histories), service.settings.max_batch
    if count > most:
        raise RequestError(f"{count:,} histories; the limit is {most:,}")
    if not count:
        raise RequestError("histories is empty; send at least one")
    if count * request.n > MOST_BATCH_ITEMS:
        raise RequestError(
            f"{count:,} lists of {request.n:,} items exceed the limit of {MOST_BATCH_ITEMS:,} items; ask for fewer"
        )
    check_limits(hosted, request.n, exclude=request.exclude)
    return await service.at_length(_batch, hosted, request)


def _batch(hosted: Hosted, request: requests.BatchRequest) -> dict[str, Any]:
    place, people, results = 0, [], []
    excluded, _ = hosted.positions(request.exclude or ())
    try:
        for place, history in enumerate(request.histories):  # noqa: B007  # named in the error
            people.append(person_of(hosted, history, None))
        questions = [Question(person.history, request.n, person.hidden(request, excluded)) for person in people]
        for place, answer in enumerate(hosted.engine.answer(questions)):
            if isinstance(answer, Exception):
                raise answer
            results.append(recommended(hosted, answer, people[place].unknown))
    except RequestError as error:
        raise RequestError(f"histories[{place}]: {error}") from None
    return {"results": results}
