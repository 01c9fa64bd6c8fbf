"""Users the service knows, and their events."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import AfterValidator

from macrid.serving.problems import answers
from macrid.serving.routes.common import Limit, Offset, PathId, Serves, Serving, Strict, listed, reply
from macrid.serving.schemas import about, requests
from macrid.serving.tastes import SORTS

MAY = "exporting and erasing events"  # what only those may do who may edit

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)
StoredId = Annotated[PathId, AfterValidator(requests.storable_key)]


@router.get("/users", response_model=about.UserPage, responses=answers(409), tags=["people"])
async def users(
    hosted: Serves,
    service: Serving,
    q: Annotated[
        str, Query(max_length=200, description="Start of the id, or a taste: words of a concept's name.")
    ] = "",
    limit: Limit = 20,
    offset: Offset = 0,
    sort: Annotated[str, Query(max_length=200, description=f"{SORTS}; most first, ids upwards.")] = "",
) -> Response:
    """Users whose histories the service knows: those of the file or the run, then those who only have events."""
    page = partial(hosted.users.page, hosted.tastes, q, limit, offset, sort)
    is_quick = not q and not sort
    found = await (service.waiting_for_events(page) if is_quick or service.events is not None else service.slowly(page))
    shares = hosted.tastes.shares(hosted.model.matrix([history for _, history in found.users]))
    amounts = [None] * len(found.users) if found.taste is None else [found.taste.share(h) for _, h in found.users]
    content = [
        {"id": user, "items": len(history), "shares": None if shares is None else _rounded(shares[at]), "taste": amount}
        for at, ((user, history), amount) in enumerate(zip(found.users, amounts, strict=True))
    ]
    taste = None if found.taste is None else {"name": found.taste.name, "concepts": list(found.taste.concepts)}
    about_page = {"total": found.total, "offset": offset, "compared": found.compared, "taste": taste}
    return reply(about_page | {"users": content})


def _rounded(shares: np.ndarray) -> list[float]:
    return [round(share, 4) for share in shares.tolist()]


@router.post(
    "/users/{user:path}/events", response_model=about.EventsAdded, responses=answers(404, 409), tags=["people"]
)
async def add_events(user: StoredId, body: requests.EventsRequest, hosted: Serves, service: Serving) -> Response:
    """Add events of a user, who may be new. They are on disk before the response, and the next request sees them."""
    events = [event.event() for event in body.events]
    added = await service.event_store().append(user, events)
    _, unknown = hosted.positions(event.item for event in events)
    content: dict[str, Any] = {"added": added, "known": len(events) - added}
    return reply(content | {"unknown_items": [str(item) for item in unknown]})


@router.get("/users/{user:path}/events", response_model=about.UserEvents, responses=answers(404, 409), tags=["people"])
async def export_events(user: StoredId, hosted: Serves, service: Serving) -> Response:
    """Everything that is stored about a user; for those who may edit."""
    service.check_may_edit(MAY)
    events = await service.event_store().export(user)
    from_file = await service.waiting_for_events(hosted.users.from_file, user)
    items = [str(hosted.model.items[int(at)]) for at in from_file]
    return reply({"user": user, "events": [event.as_json() for event in events], "items": items})


@router.delete(
    "/users/{user:path}/events", response_model=about.UserErased, responses=answers(404, 409), tags=["people"]
)
async def erase_events(user: StoredId, service: Serving) -> Response:
    """Erase a user: delete the events, and hide the user's rows of the file from now on; for those who may edit."""
    service.check_may_edit(MAY)
    return reply({"user": user, "deleted": await service.event_store().erase(user)})


@router.get("/users/{user:path}", response_model=about.UserHistory, responses=answers(404), tags=["people"])
async def user(user: PathId, hosted: Serves, service: Serving) -> Response:
    """The history of a known user."""
    found = await service.waiting_for_events(hosted.users.find, user)
    return reply({"id": user, "history": [listed(hosted, int(at)) for at in found.history]})
