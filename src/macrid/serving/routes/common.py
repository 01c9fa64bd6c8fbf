"""What all routes share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

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


def reply(content: Any) -> Response:
    """JSON, without validation: tests check responses against their schemas."""
    body = to_json(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)
    return Response(body, headers=NO_STORE, media_type="application/json")


def listed(hosted: Hosted, position: int) -> dict[str, Any]:
    """As the schema `Found`."""
    return {**hosted.ref(position), "popularity": int(hosted.model.popularity[position])}
