"""Moves and rules tried on many users."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Event
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from macrid.data.ids import first_few
from macrid.errors import MacridError, RequestError
from macrid.serving.cohorts import warnings_of
from macrid.serving.guard import GONE
from macrid.serving.hosted import Hosted
from macrid.serving.problems import answers
from macrid.serving.recommending import check_limits, is_of, moves_of, rules_of
from macrid.serving.routes.common import Serves, Serving, Strict, reply
from macrid.serving.schemas.cohort import CohortRequest, CohortResult
from macrid.serving.service import Service

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


class NoLongerWantedError(MacridError):
    """Nobody waits for the answer."""


@router.post("/cohort", response_model=CohortResult, responses=answers(404, 409), tags=["steering"])
async def try_on_a_cohort(body: CohortRequest, request: Request, hosted: Serves, service: Serving) -> Response:
    """What moves and rules would do to many users: how lists change, what accuracy it costs, who gains and loses."""
    content = await _while_connected(request, _tried(hosted, service, body))
    return Response(status_code=GONE) if content is None else reply(content)


async def _tried(hosted: Hosted, service: Service, body: CohortRequest) -> dict[str, Any]:
    """As the schema `CohortResult`. When it is cancelled, its thread stops soon."""
    if not len(hosted.users) and hosted.users.events is None:
        raise RequestError("no users are known: the run keeps no held-out users; start the service with --users FILE")
    check_limits(hosted, items=body.items)
    rules, standing, left_out = await rules_of(hosted, service, body, is_of(hosted, service, body))
    moves, carried = await moves_of(hosted, service, body)
    cohorts = hosted.cohorts
    choose = service.slowly if service.events is None else service.waiting_for_events
    chosen = await choose(cohorts.choose, body)
    if not len(chosen):
        named = f"none of them is known: {first_few(chosen.unknown)}" if chosen.unknown else "the list is empty"
        why = "no user has this taste or these items; lower at_least" if body.users is None else f"users: {named}"
        raise RequestError(why)
    people = await choose(cohorts.gather, chosen.drawn(min(body.most, cohorts.most())))
    gone = Event()

    def check() -> None:
        if gone.is_set():
            raise NoLongerWantedError

    try:
        content = await service.at_length(cohorts.tried, people, body, moves, (rules, standing), check)
    finally:
        gone.set()
    applied = hosted.engine.check_rules(rules, standing)
    carried += left_out
    warnings = [*(each.warning for each in carried), *applied.warnings, *warnings_of(chosen, len(people.ids))]
    return content | {"chosen": len(chosen), "warnings": warnings}


async def _while_connected(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
    """The result of some work; None if the client went away first, which cancels it."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
