"""Users the service knows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from macrid.serving.problems import answers
from macrid.serving.routes.common import Limit, Offset, PathId, Serves, Strict, listed, reply
from macrid.serving.schemas import about

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.get("/users", response_model=about.UserPage, tags=["people"])
async def users(
    hosted: Serves,
    q: Annotated[str, Query(max_length=200, description="Start of the id.")] = "",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """Users whose histories the service knows."""
    page, total = hosted.users.page(q, limit, offset)
    return reply({"total": total, "offset": offset, "users": [{"id": user, "items": items} for user, items in page]})


@router.get("/users/{user:path}", response_model=about.UserHistory, responses=answers(404), tags=["people"])
async def user(user: PathId, hosted: Serves) -> Response:
    """The history of a known user."""
    history, _ = hosted.users.find(user)
    return reply({"id": user, "history": [listed(hosted, int(at)) for at in history]})
