"""Wishes in words."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from macrid.serving.hosted import Hosted
from macrid.serving.problems import answers
from macrid.serving.routes.common import Serves, Serving, Strict, reply
from macrid.serving.schemas import words as schemas

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.post("/words", response_model=schemas.Wishes, tags=["steering"])
async def read_words(body: schemas.WordsRequest, hosted: Serves, service: Serving) -> Response:
    """Read a wish such as "like Alien, but newer" as moves, a condition and items, with all that was not understood."""
    return reply(await service.at_length(_read, hosted, body.text))


def _read(hosted: Hosted, text: str) -> dict[str, Any]:
    wishes = hosted.words()(text)
    positions, _ = hosted.positions(wishes.history)
    refs = (hosted.ref(int(at)) for at in positions)
    return {**wishes.as_json(), "history": [{"id": ref["id"], "title": ref["title"]} for ref in refs]}
