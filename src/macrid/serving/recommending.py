"""From requests to questions for the engine, and from its answers to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from macrid.concepts.directions import directions_towards
from macrid.concepts.names import label
from macrid.control.contrasts import contrasts
from macrid.control.engine import Answer, Question, changes
from macrid.control.links import Carried, carried_over, carried_rules
from macrid.control.moves import Move
from macrid.control.recommend import shelf_name
from macrid.control.rules import Rules
from macrid.control.state import Ranking
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.serving.explaining import check_explainable, reasons
from macrid.serving.hosted import Hosted
from macrid.serving.problems import InvalidRulesError, RefusedError
from macrid.serving.schemas import requests
from macrid.serving.schemas import rules as schema
from macrid.serving.service import Service

MOST_DIFFERENCES = 3  # between a list and the one before its moves
MOST_BATCH_ITEMS = 100_000  # in all lists together


class Ruled(Protocol):
    """A request with rules."""

    rules: schema.Rules | None


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
    hosted: Hosted, service: Service, request: Ruled, is_same_run: bool = True
) -> tuple[tuple[Rules, ...], tuple[Rules, ...], tuple[Carried, ...]]:
    """The rules of a request, checked; the standing ones; and those left out.

    is_same_run: otherwise rules that the run cannot follow are left out. Applies them here, so that batches do not wait
    for it.
    """
    if service.standing.has_changed:
        await service.slowly(service.standing.refresh, service.hosted)
    standing, notes = service.standing.active, tuple[Carried, ...]()
    if hosted is not service.hosted:
        standing, notes = await service.slowly(_carried, hosted, standing)
    if request.rules is None:
        return (), standing, notes
    check_rule_limits(hosted, request.rules)
    try:
        rules: tuple[Rules, ...] = (Rules.read(request.rules.model_dump(exclude_none=True)),)
        if not is_same_run:
            rules, left = await service.slowly(_carried, hosted, rules)
            notes += left
        await service.slowly(hosted.engine.check_rules, rules, standing)
    except RequestError as error:
        raise InvalidRulesError(error, "rules") from None
    return rules, standing, notes


def _carried(hosted: Hosted, rules: Sequence[Rules]) -> tuple[tuple[Rules, ...], tuple[Carried, ...]]:
    results = [carried_rules(hosted.engine, each) for each in rules]
    return tuple(kept for kept, _ in results), tuple(note for _, notes in results for note in notes)


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
    hosted: Hosted, service: Service, request: requests.Movable
) -> tuple[tuple[Move, ...], tuple[Carried, ...]]:
    """The moves that apply to the run, and what became of the others.

    Computes the directions of attributes here, so that batches do not wait for it.
    """
    if not request.moves:
        return (), ()
    if len(request.moves) > service.settings.max_moves:
        raise RequestError(f"{len(request.moves)} moves; the limit is {service.settings.max_moves}")
    moves = tuple(Move(**dict(move)) for move in request.moves)
    is_same_run = is_of(hosted, service, request)
    if hosted.space is None and not is_same_run:
        return carried_over(None, moves, is_same_run)
    space = hosted.concepts()
    for move in moves:
        if move.towards is not None and move.towards not in space.towards:
            with nullcontext() if is_same_run else suppress(RequestError):
                await service.slowly(directions_towards, space, move.towards)
    return carried_over(space, moves, is_same_run)


def is_of(hosted: Hosted, service: Service, request: requests.Movable) -> bool:
    """Whether the moves and rules of a request were made with this run; by default, with the served one."""
    return (request.run or service.hosted.run_id) == hosted.run_id


async def recommend(service: Service, request: requests.RecommendRequest) -> dict[str, Any]:
    """As the schema `Recommended`."""
    if request.beside is None:
        return await _recommend(service.hosted, service, request)
    service.check_may_edit("lists of other runs")
    async with service.compared.using(service.beside(request.beside), service.hosted) as hosted:
        request = request.model_copy(update={"concept": _concept_in(hosted, service.hosted, request.concept)})
        content = await _recommend(hosted, service, request)
        names = [] if hosted.space is None else [label(entry) for entry in hosted.names.concepts]
        return content | {"answered_by": {"run": hosted.run.name, "run_id": hosted.run_id, "concepts": names}}


def _concept_in(hosted: Hosted, served: Hosted, concept: int | None) -> int | None:
    """A concept of the served run in another one, by its name."""
    if concept is None or hosted is served:
        return concept
    served.card.check(concept)
    name = label(served.names.concepts[concept])
    try:
        return hosted.concepts().concept_number(name)
    except RequestError:
        raise RefusedError(409, f"{hosted.run.name} has no concept {name!r}") from None


@dataclass(frozen=True, eq=False)
class Asked:
    """What a request asks, and about whom."""

    question: Question
    person: Person
    carried: tuple[Carried, ...]
    """Moves and rules that this run has under other numbers, or not at all."""
    ignored: tuple[str, ...]

    @property
    def warnings(self) -> list[str]:
        return [*self.person.warnings, *(each.warning for each in self.carried), *self.ignored]


async def asked_by(hosted: Hosted, service: Service, request: requests.Asking) -> Asked:
    """What a request asks of a run, which may be another than the served one."""
    rules, standing, left_out = await rules_of(hosted, service, request, is_of(hosted, service, request))
    required = any(each.strict for each in (*standing, *rules))
    person = await look_up(service.hosted, service, request, required and hosted is service.hosted)
    if hosted is not service.hosted:
        person = _person_in(hosted, service.hosted, person, required)
    check_limits(hosted, request.n, include=request.include, exclude=request.exclude)
    moves, carried = await moves_of(hosted, service, request)
    if request.concept is not None:
        hosted.concepts()
    allowed, excluded, ignored = filters_of(hosted, request, request.include)
    question = Question(
        person.history, request.n, person.hidden(request, excluded), allowed, moves=moves,
        bounded=request.bounded, concept=request.concept, rules=rules, standing=standing,
    )  # fmt: skip
    return Asked(question, person, carried + left_out, tuple(ignored))


async def _recommend(hosted: Hosted, service: Service, request: requests.RecommendRequest) -> dict[str, Any]:
    asked = await asked_by(hosted, service, request)
    question, person = asked.question, asked.person
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
    content = recommended(hosted, answer, person.unknown, request.before, why)
    if request.moves and not question.moves:
        content["moves"] = []
    is_same_run = is_of(hosted, service, request)
    if asked.carried or not is_same_run:
        content["carried"] = [each.as_json() for each in asked.carried]
    if not is_same_run:
        content["rules"] = question.rules[0].as_json() if question.rules else {}
    warnings = asked.warnings
    if person.unknown and not len(person.history) and not answer.is_fallback:
        warnings.append("no known item in the history: this is a user without tastes")
    return content | {"warnings": [*warnings, *content["warnings"]]}


def _person_in(hosted: Hosted, served: Hosted, person: Person, required: bool) -> Person:
    """A user of the served run in another one, by the ids of the items."""
    seen, _ = hosted.positions(str(served.model.items[int(at)]) for at in person.seen)
    ids = [str(served.model.items[int(at)]) for at in person.history]
    known, unknown = hosted.positions([*ids, *person.unknown])
    if required and unknown and not len(known):
        raise RequestError(f"the history has no known item; {hosted.unknown(unknown)}")
    return replace(person, history=known, seen=np.union1d(seen, known), unknown=unknown)


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
        content["differences"] = _differences(hosted, answer, answer.before)
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


def _differences(hosted: Hosted, answer: Answer, before: Ranking) -> list[dict[str, Any]]:
    """In the attributes' own terms; of what was moved first."""
    asked = {move.towards for move in answer.moves if move.towards is not None}
    found = contrasts(hosted.columns, before.positions, answer.ranking.positions, first=asked, most=MOST_DIFFERENCES)
    return [
        {
            "name": each.name,
            "value": each.value,
            "before": each.left if each.value is None else round(each.left * each.left_known),
            "after": each.right if each.value is None else round(each.right * each.right_known),
        }
        for each in found
    ]


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
    rules, standing, _ = await rules_of(hosted, service, request)
    return await service.at_length(_batch, hosted, request, rules, standing)


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
