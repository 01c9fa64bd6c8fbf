"""From requests to questions for the engine, and from its answers to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from macrid.concepts.directions import directions_towards
from macrid.control.engine import Answer, Question, changes
from macrid.control.links import carried_over
from macrid.control.moves import Move
from macrid.control.recommend import shelf_name
from macrid.control.rules import Rules
from macrid.control.state import Ranking
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.serving.explaining import check_explainable, reasons
from macrid.serving.hosted import Hosted
from macrid.serving.problems import InvalidRulesError
from macrid.serving.schemas import requests
from macrid.serving.schemas import rules as schema
from macrid.serving.service import Service

MOST_BATCH_ITEMS = 100_000  # in all lists together


@dataclass(frozen=True, eq=False)
class Person:
    """A user to recommend for; items are positions."""

    history: np.ndarray
    seen: np.ndarray
    """What `exclude_seen` leaves out."""
    unknown: Sequence[Id] = ()
    warnings: Sequence[str] = ()

    def hidden(self, request: requests.Listing, excluded: np.ndarray) -> np.ndarray:
        """What may not be listed. excluded: the known ones among those that the request excludes."""
        return np.union1d(self.seen if request.exclude_seen else self.seen[:0], excluded)


def person_of(hosted: Hosted, history: Sequence[Id] | None, user: Id | None, required: bool = True) -> Person:
    """From a history or a known user. required: a history without any known item is an error."""
    if history is None:
        assert user is not None
        return Person(*hosted.users.find(user))
    check_limits(hosted, history=history)
    known, unknown = hosted.positions(history)
    if required and unknown and not len(known):
        raise RequestError(f"the history has no known item; {hosted.unknown(unknown)}")
    return Person(known, known, unknown)


async def look_up(hosted: Hosted, service: Service, who: requests.Who, required: bool = True) -> Person:
    """As `person_of`, without keeping other requests waiting."""
    if who.user is None:
        return person_of(hosted, who.history, None, required)
    return await service.waiting_for_events(person_of, hosted, None, who.user)


def check_limits(hosted: Hosted, n: int = 1, **lists: Sequence[Id] | None) -> None:
    """Refuse a large n or long lists of ids, given by their names."""
    settings = hosted.settings
    if n > settings.max_items:
        raise RequestError(f"n is {n:,}; the limit is {settings.max_items:,}")
    for name, ids in lists.items():
        if ids is not None and len(ids) > settings.max_history:
            raise RequestError(f"{name} has {len(ids):,} items; the limit is {settings.max_history:,}")


def check_rule_limits(hosted: Hosted, rules: schema.Rules | None) -> None:
    """Refuse long lists of ids in rules."""
    if rules is not None:
        check_limits(hosted, 1, **{"rules.include": rules.include, "rules.exclude": rules.exclude})


async def rules_of(
    hosted: Hosted, service: Service, request: requests.Listing
) -> tuple[tuple[Rules, ...], tuple[Rules, ...]]:
    """The rules of a request, checked, and the standing ones.

    Applies them here, so that batches do not wait for it.
    """
    if service.standing.has_changed:
        await service.slowly(service.standing.refresh, hosted)
    standing = service.standing.active
    if request.rules is None:
        return (), standing
    check_rule_limits(hosted, request.rules)
    try:
        rules = (Rules.read(request.rules.model_dump(exclude_none=True)),)
        await service.slowly(hosted.engine.check_rules, rules, standing)
    except RequestError as error:
        raise InvalidRulesError(error, "rules") from None
    return rules, standing


def filters_of(
    hosted: Hosted, request: requests.Listing, include: Sequence[Id] | None = None
) -> tuple[np.ndarray | None, np.ndarray, list[str]]:
    """The items that a request allows (a mask), those it excludes (positions), and warnings about unknown ones."""
    allowed, warnings = None, []
    strict = request.rules is not None and request.rules.strict
    excluded, unknown = hosted.positions(request.exclude or ())
    missing = {"exclude": unknown}
    if include is not None:
        included, missing["include"] = hosted.positions(include)
        allowed = np.zeros(len(hosted.model.items), dtype=bool)
        allowed[included] = True
    for name, ids in missing.items():
        if ids and strict:
            raise RequestError(f"{name}: {hosted.unknown(ids)}")
        if ids:
            warnings.append(f"{name}: ignored {hosted.unknown(ids)}")
    return allowed, excluded, warnings


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


async def question_of(hosted: Hosted, service: Service, request: requests.Asking) -> tuple[Question, Person, list[str]]:
    """What a request asks, about whom, and warnings."""
    rules, standing = await rules_of(hosted, service, request)
    required = any(each.strict for each in (*standing, *rules))
    person = await look_up(hosted, service, request, required)
    check_limits(hosted, request.n, include=request.include, exclude=request.exclude)
    moves, warnings = await moves_of(hosted, service, request)
    if request.concept is not None:
        hosted.concepts()
    allowed, excluded, ignored = filters_of(hosted, request, request.include)
    question = Question(
        person.history, request.n, person.hidden(request, excluded), allowed, moves=moves,
        bounded=request.bounded, concept=request.concept, rules=rules, standing=standing,
    )  # fmt: skip
    return question, person, [*person.warnings, *warnings, *ignored]


async def recommend(hosted: Hosted, service: Service, request: requests.RecommendRequest) -> dict[str, Any]:
    """As the schema `Recommended`."""
    question, person, warnings = await question_of(hosted, service, request)
    if request.explain:
        check_explainable(question)
    if request.by_concept:
        hosted.concepts()
        question = replace(question, by_concept=True)
    if question.by_concept or any(each.shelves for each in (*question.standing, *question.rules)):
        # slow, so kept out of the batches
        answer = await service.at_length(hosted.engine.ask, question)
    else:
        answer = await hosted.batcher.ask(question)
    why = await service.at_length(reasons, hosted, question, answer) if request.explain else {}
    if person.unknown and not len(person.history) and not answer.is_fallback:
        warnings.append("no known item in the history: this is a user without tastes")
    content = recommended(hosted, answer, person.unknown, request.before, why)
    if request.moves and not question.moves:
        content["moves"] = []
    return content | {"warnings": [*warnings, *content["warnings"]]}


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
    if answer.is_fallback:
        content["fallback"] = True
    if answer.shelves:
        content["shelves"] = [
            {
                "concept": shelf.concept,
                "name": shelf_name(hosted.model, shelf.concept),
                "share": round(shelf.share, 6),
                "items": _items(hosted, shelf.ranking, reasons),
            }
            for shelf in answer.shelves
        ]
    if answer.cost is not None:
        content["diversity"] = {name: round(value, 6) for name, value in answer.cost.as_json().items()}
    return content | {"warnings": [*answer.warnings, *answer.notes]}


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
    rules = await rules_of(hosted, service, request)
    return await service.at_length(_batch, hosted, request, *rules)


def _batch(
    hosted: Hosted, request: requests.BatchRequest, rules: tuple[Rules, ...], standing: tuple[Rules, ...]
) -> dict[str, Any]:
    """What is wrong with one history is the error of its own result."""
    required = any(each.strict for each in (*standing, *rules))
    _, excluded, ignored = filters_of(hosted, request)
    results: dict[int, dict[str, Any]] = {}
    people: dict[int, Person] = {}
    for place, history in enumerate(request.histories):
        try:
            people[place] = person_of(hosted, history, None, required)
        except RequestError as error:
            results[place] = _failed(error)
    questions = [
        Question(person.history, request.n, person.hidden(request, excluded), rules=rules, standing=standing)
        for person in people.values()
    ]
    for (place, person), answer in zip(people.items(), hosted.engine.answer(questions), strict=True):
        if isinstance(answer, RequestError):
            results[place] = _failed(answer)
        elif isinstance(answer, Exception):
            raise answer
        else:
            content = recommended(hosted, answer, person.unknown)
            results[place] = content | {"warnings": [*ignored, *content["warnings"]]}
    return {"results": [results[place] for place in range(len(request.histories))]}


def _failed(error: RequestError) -> dict[str, Any]:
    return {"unknown": [], "items": [], "error": str(error), "warnings": []}
