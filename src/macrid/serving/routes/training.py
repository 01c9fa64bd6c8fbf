"""Training on one's own file."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from macrid.serving.problems import answers
from macrid.serving.routes.common import Serving, Strict, reply
from macrid.serving.schemas import training
from macrid.serving.service import Service
from macrid.serving.training import File

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)
FileName = Annotated[str, Query(min_length=1, max_length=1_000, description="The name of the file.")]
CONTENT = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
UPLOAD: dict[str, Any] = {
    "response_model": training.Training,
    "responses": answers(409, 507),
    "openapi_extra": {"requestBody": {"content": CONTENT, "required": True}},
    "tags": ["training"],
}


@router.get("/training", response_model=training.Training, tags=["training"])
async def training_status(service: Serving) -> Response:
    """How far a training is, or what was understood of a file that was uploaded."""
    service.check_may_train()
    return reply(service.training.status())


@router.put("/training/events", **UPLOAD)
async def upload_events(name: FileName, request: Request, service: Serving) -> Response:
    """Upload a file of events as the body (CSV, TSV or Parquet), and read it; it replaces an earlier one."""
    return await _upload("events", name, request, service)


@router.put("/training/items", **UPLOAD)
async def upload_items(name: FileName, request: Request, service: Serving) -> Response:
    """Upload a table of items with titles and attributes, and read it with the events."""
    return await _upload("items", name, request, service)


async def _upload(what: File, name: str, request: Request, service: Service) -> Response:
    service.check_may_train()
    size = int(request.headers.get("content-length", "0"))
    await service.training.receive(what, name, size, request.stream())
    return reply(await service.training.settled())


@router.delete("/training/items", response_model=training.Training, responses=answers(409), tags=["training"])
async def remove_items_table(service: Serving) -> Response:
    """Do without the table of items."""
    service.check_may_train()
    await service.slowly(service.training.without_items)
    return reply(await service.training.settled())


@router.post("/training/read", response_model=training.Training, responses=answers(409), tags=["training"])
async def read_again(body: training.ReadRequest, service: Serving) -> Response:
    """Read the uploaded files again, with other columns or another threshold."""
    service.check_may_train()
    columns = None if body.columns is None else body.columns.model_dump()
    await service.slowly(service.training.read, columns, body.min_rating)
    return reply(await service.training.settled())


@router.post("/training", response_model=training.Training, responses=answers(409), tags=["training"])
async def start_training(body: training.TrainRequest, service: Serving) -> Response:
    """Train on the uploaded files, in the background; the new run appears beside the one being served."""
    service.check_may_train()
    await service.slowly(service.training.train, body.concepts, body.effort)
    return reply(service.training.status())


@router.delete("/training", response_model=training.Training, tags=["training"])
async def stop_training(
    service: Serving,
    keep: Annotated[bool, Query(description="Finish early and keep the best so far, if there is anything.")] = False,
) -> Response:
    """Stop, and remove the uploaded files and what is unfinished; finished runs stay."""
    service.check_may_train()
    await service.slowly(service.training.stop if keep else service.training.discard)
    return reply(service.training.status())
