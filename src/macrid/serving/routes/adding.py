"""Items that came after training: add, change and remove them."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from fastapi.responses import Response

from macrid.additions import remove_items
from macrid.serving.problems import RefusedError, answers
from macrid.serving.recommending import check_limits
from macrid.serving.routes.common import PathId, Serves, Serving, Strict, reply
from macrid.serving.schemas import about, requests

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.post("/items", response_model=about.AddedItems, responses=answers(409), tags=["items"])
async def add_items(body: requests.AddItemsRequest, hosted: Serves, service: Serving) -> Response:
    """Add items that came after training, placed by their attributes and by histories; they are saved in the run."""
    service.check_may_edit()
    check_limits(hosted, items=range(len(body.items)))
    if body.histories is not None and len(body.histories) > service.settings.max_batch:
        most = service.settings.max_batch
        raise RefusedError(422, f"histories: {len(body.histories):,} lists; the limit is {most:,}")
    for history in body.histories or ():
        check_limits(hosted, histories=history)
    add = partial(hosted.add_items, body.items, body.histories, update=body.update, dry_run=body.dry_run)
    report = await (service.at_length(add) if body.dry_run else service.change(add))
    return reply(report.as_json() | {"total": len(service.hosted.model.items)})


@router.delete("/items/{item:path}", response_model=about.RemovedItems, responses=answers(404, 409), tags=["items"])
async def remove_item(item: PathId, hosted: Serves, service: Serving) -> Response:
    """Remove an item that was added after training."""
    service.check_may_edit()
    if hosted.model.placement(hosted.position(item)) is None:
        raise RefusedError(409, f"item {item[:80]!r} was there in training and cannot be removed; exclude it instead")
    removed = await service.change(remove_items, hosted.run, [item])
    return reply({"removed": [str(value) for value in removed], "total": len(service.hosted.model.items)})
