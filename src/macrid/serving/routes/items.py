"""Items, their pictures and their neighbours."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from macrid.control.contrasts import contrasts
from macrid.data.attributes import TITLE
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
async def lookup_items(body: requests.ItemsRequest, hosted: Serves, service: Serving) -> Response:
    """Items by id."""
    check_limits(hosted, ids=body.ids)
    positions, unknown = hosted.positions(body.ids)
    items = [listed(hosted, int(at)) for at in positions]
    if body.attributes:
        known = await service.slowly(_attributes, hosted, positions)
        items = [{**item, "attributes": values} for item, values in zip(items, known, strict=True)]
    return reply({"items": items, "unknown": [str(item) for item in unknown]})


@router.post("/contrast", response_model=lists.Contrasts, tags=["items"])
async def contrast(body: requests.ContrastRequest, hosted: Serves, service: Serving) -> Response:
    """What two lists of items differ in: years, prices, genres and other attributes."""
    check_limits(hosted, left=body.left, right=body.right)
    return reply(await service.slowly(_contrast, hosted, body))


def _contrast(hosted: Hosted, body: requests.ContrastRequest) -> dict[str, Any]:
    left, right = (hosted.positions(ids)[0] for ids in (body.left, body.right))
    found = [each.as_json() for each in contrasts(hosted.columns, left, right)]
    for each in (each for each in found if hosted.is_date(each["attribute"])):
        each["kind"] = "date"
    return {"both": len(np.intersect1d(left, right)), "attributes": found}


@router.get("/items/{item:path}", response_model=about.Item, responses=answers(404), tags=["items"])
async def item(item: PathId, hosted: Serves, service: Serving) -> Response:
    """Everything known about an item."""
    return reply(await service.slowly(_item, hosted, hosted.position(item)))


def _item(hosted: Hosted, position: int) -> dict[str, Any]:
    concepts, attributes = None, _attributes(hosted, np.array([position]))[0]
    if hosted.space is not None:
        concepts = [round(float(p), 6) for p in hosted.space.log_assignment[position].exp().cpu()]
    unknown = ("concept_share", "second_concept", "second_share", "facts", "new", "placed")
    found = {**dict.fromkeys(unknown), **listed(hosted, position)}
    picture = f"/v1/pictures/{quote(found['id'], safe='')}" if hosted.pictures.has(position) else None
    return {**found, "concepts": concepts, "attributes": attributes, "picture": picture}


def _attributes(hosted: Hosted, positions: np.ndarray) -> list[dict[str, Any]]:
    """The columns of the items table, without the title, of the items at these positions."""
    table = hosted.model.table
    if table is None:
        return [{} for _ in positions]
    columns = [name for name in table.column_names if name != TITLE]
    return table.select(columns).take(positions).to_pylist() if columns else [{} for _ in positions]


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
