"""From a request for recommendations to a question for the model, and from its answer to JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from macrid.control.moves import Move
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.interpret.directions import directions_towards
from macrid.interpret.explain import explain
from macrid.serving import schemas
from macrid.serving.problems import RefusedError
from macrid.serving.scoring import Answer, Ask, Ranking
from macrid.serving.service import Hosted, Service

MOST_EXPLAINED = 500  # items of a history: each is left out once
PULLS = 3
MOST_LISTED = 100_000  # items in all lists of a batch request


@dataclass(frozen=True, eq=False)
class Who:
    """Somebody: positions of the history, and ids that are unknown."""

    known: np.ndarray
    unknown: list[Id]
    seen: np.ndarray
    """What `exclude_seen` leaves out."""


def who(hosted: Hosted, service: Service, history: Sequence[Id] | None, user: Id | None) -> Who:
    """Of a history, or of a known user."""
    if history is None:
        assert user is not None
        users = hosted.served.users
        return Who(users.history(user), [], users.seen(user))
    check_length(service, history, "history")
    known, unknown = hosted.served.known(history)
    return Who(known, unknown, known)


def check_length(service: Service, ids: Sequence[Id] | None, what: str) -> None:
    if ids is not None and len(ids) > service.settings.max_history:
        raise RequestError(
            f"{what} has {len(ids):,} items; this service takes at most {service.settings.max_history:,}"
        )


def check_n(service: Service, n: int) -> None:
    if n > service.settings.max_items:
        raise RequestError(f"n is {n:,}; this service gives at most {service.settings.max_items:,} items")


async def moves_of(hosted: Hosted, service: Service, moves: Sequence[schemas.Move]) -> tuple[Move, ...]:
    """As the model takes them; the directions of attributes are worked out first, beside the batches."""
    if not moves:
        return ()
    if len(moves) > service.settings.max_moves:
        raise RequestError(f"there are {len(moves)} moves; this service takes at most {service.settings.max_moves}")
    space = hosted.served.concepts()
    given = tuple(Move.read(move.model_dump(exclude_none=True)) for move in moves)
    for move in given:
        if move.towards is not None and move.towards not in space.towards:
            await service.slowly(directions_towards, space, move.towards)
    return given


def question(
    hosted: Hosted,
    service: Service,
    own: Who,
    n: int,
    exclude_seen: bool,
    include: Sequence[Id] | None = None,
    exclude: Sequence[Id] | None = None,
    moves: tuple[Move, ...] = (),
    bounded: bool = True,
    by_concept: bool = False,
    concept: int | None = None,
) -> Ask:
    """Checked: there are n items to choose from."""
    served, allowed = hosted.served, None
    for what, ids in (("include", include), ("exclude", exclude)):
        check_length(service, ids, what)
    check_n(service, n)
    hidden = own.seen if exclude_seen else own.seen[:0]
    if exclude:
        hidden = np.union1d(hidden, served.positions(exclude)[0])
    count = len(served.model.items)
    left = count - len(hidden)
    if include is not None:
        allowed = np.zeros(count, dtype=bool)
        allowed[served.all_known(include, "include")] = True
        left = int(allowed.sum()) - int(allowed[hidden].sum())
    if left < n:
        raise RequestError(
            f"{n} items were asked for, but {left} of {count:,} are left after excluding"
            f" {'the history and ' if exclude_seen else ''}what was ruled out; ask for fewer or exclude less"
        )
    if by_concept:
        served.concepts()
    if concept is not None:
        served.concepts().check(concept)
    return Ask(own.known, n, hidden, allowed, moves, bounded, by_concept, concept)


async def recommend(hosted: Hosted, service: Service, asked: schemas.RecommendRequest) -> str:
    """The JSON of a `Recommended`."""
    own = who(hosted, service, asked.history, asked.user)
    if asked.explain and len(own.known) > MOST_EXPLAINED:
        raise RequestError(f"the history has {len(own.known):,} items; explanations are given for {MOST_EXPLAINED}")
    moves = await moves_of(hosted, service, asked.moves)
    ask = question(
        hosted, service, own, asked.n, asked.exclude_seen, asked.include, asked.exclude, moves, asked.bounded,
        asked.by_concept, asked.concept,
    )  # fmt: skip
    if ask.is_heavy:
        (answer,) = _answers(await service.at_length(hosted.served.scorer.answer, [ask]))
    else:
        answer = await hosted.batcher.ask(ask)
    reasons = await service.at_length(_reasons, hosted, own, answer) if asked.explain and len(own.known) else None
    return told(hosted, answer, own.unknown, asked.before, reasons)


def told(
    hosted: Hosted,
    answer: Answer,
    unknown: Sequence[Id] = (),
    before: bool = False,
    reasons: dict[int, dict[str, Any]] | None = None,
) -> str:
    """The JSON of a `Recommended`."""
    parts = [
        f'"unknown": {json.dumps([str(value) for value in unknown]) if unknown else "[]"}',
        f'"items": {_list(hosted, answer.best, reasons)}',
    ]
    if answer.of_concepts:
        rows = (
            f'{{"concept": {k}, "items": {_list(hosted, ranking, reasons)}'
            + (f', "moved": {json.dumps(_changes(hosted, unmoved, ranking))}}}' if unmoved else "}")
            for k, ranking in answer.of_concepts.items()
            for unmoved in [answer.of_concepts_before.get(k)]
        )
        parts.append(f'"concepts": [{", ".join(rows)}]')
    if answer.before is not None:
        parts.append(f'"moved": {json.dumps(_changes(hosted, answer.before, answer.best))}')
        parts.append(f'"moves": {json.dumps([move.as_json() for move in answer.moves])}')
        parts.append(f'"effects": {json.dumps([effect.as_json() for effect in answer.effects])}')
    if before:
        parts.append(f'"before": {_list(hosted, answer.before or answer.best)}')
    if answer.shares is not None:
        parts.append(f'"shares": {json.dumps([round(float(share), 6) for share in answer.shares])}')
    parts.append(f'"warnings": {json.dumps(answer.warnings) if answer.warnings else "[]"}')
    return f"{{{', '.join(parts)}}}"


def _list(hosted: Hosted, ranking: Ranking, reasons: dict[int, dict[str, Any]] | None = None) -> str:
    scored, pairs = hosted.served.scored, zip(ranking.positions.tolist(), ranking.scores.tolist(), strict=True)
    if reasons is None:
        return f"[{', '.join([scored(position, score) for position, score in pairs])}]"
    items = (f'{scored(at, score)[:-1]}, "reason": {json.dumps(reasons[at])}}}' for at, score in pairs)
    return f"[{', '.join(items)}]"


def _changes(hosted: Hosted, before: Ranking, after: Ranking) -> dict[str, list[dict[str, Any]]]:
    """Items that came in, went out, went up or down; ranks from 1."""
    was = {at: rank for rank, at in enumerate(before.positions.tolist(), start=1)}
    now = {at: rank for rank, at in enumerate(after.positions.tolist(), start=1)}
    found: dict[str, list[dict[str, Any]]] = {"in": [], "out": [], "up": [], "down": []}
    for at, rank in now.items():
        if was.get(at) != rank:
            found["in" if at not in was else "up" if rank < was[at] else "down"].append(_at_ranks(hosted, at, was, now))
    found["out"] = [_at_ranks(hosted, at, was, now) for at in was if at not in now]
    return found


def _at_ranks(hosted: Hosted, position: int, was: dict[int, int], now: dict[int, int]) -> dict[str, Any]:
    item = hosted.served.ref(position)
    return {"id": item["id"], "title": item["title"], "before": was.get(position), "after": now.get(position)}


def _reasons(hosted: Hosted, own: Who, answer: Answer) -> dict[int, dict[str, Any]]:
    """For every item that is shown."""
    model = hosted.served.model
    rankings = [answer.best, *answer.of_concepts.values()]
    shown = np.unique(np.concatenate([ranking.positions for ranking in rankings]))
    ids = [model.items[int(at)] for at in shown]
    history = [model.items[int(at)] for at in own.known]
    reasons = explain(model, history, ids, most=PULLS)
    return {
        int(at): {"share": reason.share, "pulls": [pull.as_json() for pull in reason.pulls]}
        for at, reason in zip(shown, reasons, strict=True)
    }


def _answers(found: Sequence[Answer | Exception]) -> list[Answer]:
    """All of them, unless something is wrong with one."""
    for answer in found:
        if isinstance(answer, Exception):
            raise answer
    return [answer for answer in found if isinstance(answer, Answer)]


async def batch(hosted: Hosted, service: Service, asked: schemas.BatchRequest) -> str:
    """The JSON of a `BatchRecommended`."""
    count, most = len(asked.histories), service.settings.max_batch
    if count > most:
        raise RequestError(f"there are {count:,} histories; this service takes {most:,} at once")
    if not count:
        raise RefusedError(422, "there are no histories; send at least one")
    if count * asked.n > MOST_LISTED:
        raise RequestError(f"{count:,} lists of {asked.n:,} items are more than {MOST_LISTED:,} in all; ask for fewer")
    check_length(service, asked.exclude, "exclude")
    return await service.at_length(_batch, hosted, service, asked)


def _batch(hosted: Hosted, service: Service, asked: schemas.BatchRequest) -> str:
    excluded = None if asked.exclude is None else [hosted.served.model.items[int(at)] for at in
                                                   hosted.served.positions(asked.exclude)[0]]  # fmt: skip
    asks, unknown = [], []
    for place, history in enumerate(asked.histories):
        try:
            own = who(hosted, service, history, None)
            asks.append(question(hosted, service, own, asked.n, asked.exclude_seen, exclude=excluded))
        except RequestError as error:
            raise RequestError(f"histories[{place}]: {error}") from None
        unknown.append(own.unknown)
    answers = _answers(hosted.served.scorer.answer(asks))
    parts = (told(hosted, answer, rest) for answer, rest in zip(answers, unknown, strict=True))
    return f'{{"results": [{", ".join(parts)}]}}'
