"""Items, their pictures and their neighbours."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from macrid.serving.hosted import Hosted
from macrid.serving.problems import RefusedError, answers
from macrid.serving.recommending import check_limits
from macrid.serving.routes.common import Limit, Offset, PathId, Serves, Serving, Strict, listed, reply
from macrid.serving.schemas import about, lists, requests
from macrid.serving.schemas.wire import LONGEST_ID

PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.get("/items", response_model=about.ItemPage, responses=answers(404, 409), tags=["items"])
async def search(
    hosted: Serves,
    service: Serving,
    q: Annotated[str, Query(max_length=1_000, description="Words of titles and attributes, or an id.")] = "",
    limit: Limit = 20,
    offset: Offset = 0,
    concept: Annotated[int | None, Query(ge=0, description="Only items of this concept.")] = None,
) -> Response:
    """Search items by title, attributes or id, tolerating typos; without a query, the most popular items."""
    among = None
    if concept is not None:
        hosted.card.check(concept)
        among = np.asarray(hosted.concept_of == concept)
    hits = await service.slowly(partial(hosted.search.hits, q, limit=limit, offset=offset, among=among))
    found = zip(hits.positions.tolist(), hits.matched, strict=True)
    items = [{**listed(hosted, at), "matched": matched} for at, matched in found]
    return reply({"total": hits.total, "offset": offset, "items": items})


@router.post("/items/lookup", response_model=about.ItemList, tags=["items"])
async def lookup_items(body: requests.ItemsRequest, hosted: Serves) -> Response:
    """Items by id."""
    check_limits(hosted, ids=body.ids)
    positions, unknown = hosted.positions(body.ids)
    return reply({"items": [listed(hosted, int(at)) for at in positions], "unknown": [str(item) for item in unknown]})


@router.get("/items/{item:path}", response_model=about.Item, responses=answers(404), tags=["items"])
async def item(item: PathId, hosted: Serves, service: Serving) -> Response:
    """Everything known about an item."""
    return reply(await service.slowly(_item, hosted, hosted.position(item)))


def _item(hosted: Hosted, position: int) -> dict[str, Any]:
    table, concepts = hosted.model.table, None
    attributes = {} if table is None else table.slice(position, 1).to_pylist()[0]
    attributes.pop("title", None)
    if hosted.space is not None:
        concepts = [round(float(p), 6) for p in hosted.space.log_assignment[position].exp().cpu()]
    unknown = ("concept_share", "second_concept", "second_share", "new", "placed")
    found = {**dict.fromkeys(unknown), **listed(hosted, position)}
    picture = f"/v1/pictures/{quote(found['id'], safe='')}" if hosted.pictures.has(position) else None
    return {**found, "concepts": concepts, "attributes": attributes, "picture": picture}


@router.get(
    "/pictures/{item:path}",
    response_class=Response,
    responses={**answers(404), 200: {"description": "A picture.", "content": {"image/*": {}}}, 304: {}},
    tags=["items"],
)
async def picture(item: PathId, request: Request, hosted: Serves, service: Serving) -> Response:
    """The picture of an item."""
    content, media_type = await service.slowly(hosted.pictures.of, hosted.position(item)) or (None, None)
    if content is None:
        raise RefusedError(404, f"item {item[:80]!r} has no picture")
    etag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"etag": etag, "cache-control": "private, max-age=3600", "content-security-policy": PICTURE_POLICY}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


@router.get("/similar", response_model=lists.Similar, responses=answers(404), tags=["items"])
async def similar(
    item: Annotated[str, Query(max_length=LONGEST_ID)],
    hosted: Serves,
    service: Serving,
    n: Annotated[int, Query(ge=1)] = 10,
) -> Response:
    """Items similar to an item."""
    check_limits(hosted, n)
    similar = await service.slowly(hosted.model.similar_items, hosted.model.items[hosted.position(item)], n)
    return reply({"item": item, "items": [entry.as_json() for entry in similar]})
