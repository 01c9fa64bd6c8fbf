"""From requests to questions for the engine, and from its answers to JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
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
from macrid.serving import schemas
from macrid.serving.hosted import Hosted
from macrid.serving.problems import RefusedError
from macrid.serving.service import Service

LONGEST_EXPLAINED_HISTORY = 500  # each item is left out in turn
MOST_PULLS = 3
MOST_BATCH_ITEMS = 100_000  # in all lists together


@dataclass(frozen=True, eq=False)
class Person:
    """A user to recommend for."""

    history: np.ndarray
    """Positions of items."""
    unknown: list[Id]
    seen: np.ndarray
    """Positions that `exclude_seen` leaves out."""


def person_of(hosted: Hosted, service: Service, history: Sequence[Id] | None, user: Id | None) -> Person:
    """From a history or a known user."""
    if history is None:
        assert user is not None
        return Person(hosted.users.history(user), [], hosted.users.seen(user))
    check_length(service, history, "history")
    known, unknown = hosted.positions(history)
    if unknown and not len(known):
        raise RequestError(f"the history has no known item; {hosted.unknown(unknown)}")
    return Person(known, unknown, known)


def check_length(service: Service, ids: Sequence[Id] | None, what: str) -> None:
    if ids is not None and len(ids) > service.settings.max_history:
        raise RequestError(f"{what} has {len(ids):,} items; the limit is {service.settings.max_history:,}")


def check_n(service: Service, n: int) -> None:
    if n > service.settings.max_items:
        raise RequestError(f"n is {n:,}; the limit is {service.settings.max_items:,}")


async def moves_of(
    hosted: Hosted, service: Service, request: schemas.Moving
) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """The moves that apply to the run, and warnings about the others.

    Computes the directions of attributes here, so that batches do not wait for it.
    """
    if not request.moves:
        return (), ()
    if len(request.moves) > service.settings.max_moves:
        raise RequestError(f"{len(request.moves)} moves; the limit is {service.settings.max_moves}")
    space = hosted.concepts()
    moves = tuple(Move.read(move.model_dump(exclude_none=True)) for move in request.moves)
    is_same_run = request.run in (None, hosted.run_id)
    for move in moves:
        if move.towards is not None and move.towards not in space.towards:
            with nullcontext() if is_same_run else suppress(RequestError):
                await service.slowly(directions_towards, space, move.towards)
    return carried_over(space, moves, is_same_run)


def question_of(
    hosted: Hosted,
    service: Service,
    person: Person,
    n: int,
    exclude_seen: bool,
    include: Sequence[Id] | None = None,
    exclude: Sequence[Id] | None = None,
    **more: Any,
) -> Question:
    """more: other fields of `Question`."""
    for what, ids in (("include", include), ("exclude", exclude)):
        check_length(service, ids, what)
    check_n(service, n)
    hidden = person.seen if exclude_seen else person.seen[:0]
    if exclude:
        hidden = np.union1d(hidden, hosted.positions(exclude)[0])
    allowed = None
    if include is not None:
        allowed = np.zeros(len(hosted.model.items), dtype=bool)
        allowed[hosted.all_known(include, "include")] = True
    return Question(person.history, n, hidden, allowed, **more)


async def recommend(hosted: Hosted, service: Service, request: schemas.RecommendRequest) -> dict[str, Any]:
    """As the schema `Recommended`."""
    person = person_of(hosted, service, request.history, request.user)
    if request.explain and len(person.history) > LONGEST_EXPLAINED_HISTORY:
        raise RequestError(
            f"the history has {len(person.history):,} items; the limit with explain is {LONGEST_EXPLAINED_HISTORY}"
        )
    moves, warnings = await moves_of(hosted, service, request)
    if request.by_concept or request.concept is not None:
        hosted.concepts()
    question = question_of(
        hosted, service, person, request.n, request.exclude_seen, request.include, request.exclude, moves=moves,
        bounded=request.bounded, concept=request.concept, by_concept=request.by_concept,
    )  # fmt: skip
    if question.by_concept:  # slow, so kept out of the batches
        answer = await service.at_length(hosted.engine.ask, question)
    else:
        answer = await hosted.batcher.ask(question)
    reasons = None
    if request.explain and len(person.history):
        reasons = await service.at_length(_reasons, hosted, person, answer)
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
    items = [
        {**hosted.ref(position), "score": float(f"{score:.6g}")}
        for position, score in zip(ranking.positions.tolist(), ranking.scores.tolist(), strict=True)
    ]
    if reasons is not None:
        for position, item in zip(ranking.positions.tolist(), items, strict=True):
            item["reason"] = reasons[position]
    return items


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
    """By position, for every listed item."""
    model = hosted.model
    rankings = [answer.ranking, *answer.of_concepts.values()]
    listed = np.unique(np.concatenate([ranking.positions for ranking in rankings]))
    ids, history = ([model.items[int(at)] for at in positions] for positions in (listed, person.history))
    reasons = explain(model, history, ids, most=MOST_PULLS)
    return {
        int(at): {"share": reason.share, "pulls": [pull.as_json() for pull in reason.pulls]}
        for at, reason in zip(listed, reasons, strict=True)
    }


async def batch(hosted: Hosted, service: Service, request: schemas.BatchRequest) -> dict[str, Any]:
    """As the schema `BatchRecommended`."""
    count, most = len(request.histories), service.settings.max_batch
    if count > most:
        raise RequestError(f"{count:,} histories; the limit is {most:,}")
    if not count:
        raise RefusedError(422, "histories is empty; send at least one")
    if count * request.n > MOST_BATCH_ITEMS:
        raise RequestError(
            f"{count:,} lists of {request.n:,} items exceed the limit of {MOST_BATCH_ITEMS:,} items; ask for fewer"
        )
    check_length(service, request.exclude, "exclude")
    return await service.at_length(_batch, hosted, service, request)


def _batch(hosted: Hosted, service: Service, request: schemas.BatchRequest) -> dict[str, Any]:
    excluded = None if request.exclude is None else [hosted.model.items[int(at)] for at in
                                                     hosted.positions(request.exclude)[0]]  # fmt: skip
    questions, unknown, results = [], [], []
    for place, history in enumerate(request.histories):
        with _naming(place):
            person = person_of(hosted, service, history, None)
            questions.append(question_of(hosted, service, person, request.n, request.exclude_seen, exclude=excluded))
        unknown.append(person.unknown)
    for place, answer in enumerate(hosted.engine.answer(questions)):
        with _naming(place):
            if isinstance(answer, Exception):
                raise answer
        results.append(recommended(hosted, answer, unknown[place]))
    return {"results": results}


@contextmanager
def _naming(place: int) -> Iterator[None]:
    """Name the history that an error is about."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"histories[{place}]: {error}") from None
