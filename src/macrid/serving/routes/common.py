"""What all routes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic_core import from_json, to_json

from macrid.serving.hosted import Hosted
from macrid.serving.schemas.wire import LONGEST_ID
from macrid.serving.service import Service

NO_STORE = {"cache-control": "no-store"}


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _hosted(request: Request) -> Hosted:
    service: Service = request.app.state.service
    return service.hosted


Serving = Annotated[Service, Depends(_service)]
Serves = Annotated[Hosted, Depends(_hosted)]
Limit = Annotated[int, Query(ge=1, le=100, description="Page size.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many to skip.")]
Number = Annotated[int, Path(ge=0)]
PathId = Annotated[str, Path(max_length=LONGEST_ID)]


class _StrictRequest(Request):
    async def json(self) -> Any:
        """The body. Python's own parser accepts NaN, half characters (\\ud800), and any depth the stack allows."""
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


class Strict(APIRoute):
    """A route whose JSON body is parsed strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def reply(content: Any) -> Response:
    """JSON, without validation: tests check responses against their schemas."""
    try:
        body = _as_json(content)
    except ValueError:  # half a character in a file of the run, or in its name
        body = _as_json(_repaired(content))
    return Response(body, headers=NO_STORE, media_type="application/json")


def _as_json(content: Any) -> bytes:
    return to_json(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)


def _repaired(value: Any) -> Any:
    """With question marks for halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_repaired(name): _repaired(entry) for name, entry in value.items()}
    return [_repaired(entry) for entry in value] if isinstance(value, list | tuple) else value


def listed(hosted: Hosted, position: int) -> dict[str, Any]:
    """As the schema `Found`."""
    return {**hosted.ref(position), "popularity": int(hosted.model.popularity[position])}
