"""The endpoints, under /v1; the most frequent come first, because they match soonest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import torch
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from pydantic_core import to_json

from macrid.control.moves import Move
from macrid.control.state import State
from macrid.control.traverse import traverse
from macrid.errors import RequestError
from macrid.pictures import layout
from macrid.serving import schemas
from macrid.serving import schemas_about as about
from macrid.serving.hosted import Hosted
from macrid.serving.problems import RefusedError, answers
from macrid.serving.recommending import Person, batch, check_limits, moves_of, person_of, recommend
from macrid.serving.service import Service
from macrid.version import __version__

NO_TOKEN: dict[str, Any] = {"security": []}
NO_STORE = {"cache-control": "no-store"}
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

router = APIRouter(prefix="/v1", responses=answers())
health = APIRouter(tags=["running"])
"""Probes and metrics; at the root and under /v1."""


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
PathId = Annotated[str, Path(max_length=schemas.LONGEST_ID)]


def _json(content: Any) -> Response:
    """Skips validation: tests check responses against their schemas."""
    body = to_json(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)
    return Response(body, headers=NO_STORE, media_type="application/json")


class Direct(APIRoute):
    """A faster route that only parses its body, for the most frequent request."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        async def handle(request: Request) -> Response:
            content, service = await request.body(), request.app.state.service
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise RefusedError(422, "send a JSON object, with the header content-type: application/json")
            try:
                body = schemas.RecommendRequest.model_validate_json(content)
            except ValidationError as error:
                raise RequestValidationError(error.errors(include_url=False)) from None
            return _json(await recommend(service.hosted, service, body))

        return handle


async def recommend_items(body: schemas.RecommendRequest) -> None:
    """Items for a history or a known user, after any moves, with what the moves changed."""


router.add_api_route(
    "/recommend", recommend_items, methods=["POST"], response_model=schemas.Recommended,
    responses=answers(404, 409), tags=["steering"], route_class_override=Direct,
)  # fmt: skip


@router.post("/recommend/batch", response_model=schemas.BatchRecommended, tags=["steering"])
async def recommend_batch(body: schemas.BatchRequest, hosted: Serves, service: Serving) -> Response:
    """Items for many histories."""
    return _json(await batch(hosted, service, body))


@router.post("/encode", response_model=schemas.Encoded, responses=answers(404, 409), tags=["steering"])
async def encode(body: schemas.EncodeRequest, hosted: Serves, service: Serving) -> Response:
    """A user's share and position in each concept."""
    hosted.concepts()
    person = person_of(hosted, body.history, body.user)
    moves, warnings = await moves_of(hosted, service, body)
    return _json(await service.slowly(_encode, hosted, person, moves, body.bounded, warnings))


@torch.no_grad()
def _encode(
    hosted: Hosted, person: Person, moves: tuple[Move, ...], bounded: bool, warnings: tuple[str, ...]
) -> dict[str, Any]:
    space, matrix = hosted.concepts(), hosted.model.matrix([person.history])
    confidence = space.confidence(matrix)[0]
    moved = State.of(space, space.components(matrix)[0]).after(moves, bounded)
    components, recommended = moved.state.components.numpy(), moved.state.shares().numpy()
    places = np.full((space.concepts, 2), np.nan)
    state, placed, _ = hosted.map.get(start=False)
    if state == "ready" and placed is not None:
        places = layout.around(placed[0], placed[1], space.items, components)
    concepts = [
        {
            "concept": k,
            "share": float(confidence[k] / max(float(confidence.sum()), 1e-12)),
            "confidence": float(confidence[k]),
            "recommended": float(recommended[k]),
            "coordinates": np.round((space.axes(k) @ components[k]).astype(float), 5).tolist(),
            "x": round(float(places[k, 0]), 4),
            "y": round(float(places[k, 1]), 4),
        }
        for k in range(space.concepts)
    ]
    return {
        "unknown": [str(value) for value in person.unknown],
        "concepts": concepts,
        "warnings": [*warnings, *moved.warnings],
    }


@router.post("/traverse", response_model=schemas.Traversed, responses=answers(404, 409), tags=["steering"])
async def walk(body: schemas.TraverseRequest, hosted: Serves, service: Serving) -> Response:
    """Walk along one dimension: items that differ in little else."""
    hosted.concepts()
    return _json(await service.slowly(_traverse, hosted, body))


def _traverse(hosted: Hosted, body: schemas.TraverseRequest) -> dict[str, Any]:
    model = hosted.model
    if sum(start is not None for start in (body.item, body.history, body.user)) != 1:
        raise RequestError("give exactly one of item, history and user to start from")
    start: dict[str, Any] = {"item": None}
    if body.item is not None:
        start["item"] = model.items[int(hosted.all_known([body.item], "item")[0])]
    else:
        person = person_of(hosted, body.history, body.user)
        start["history"] = [model.items[int(at)] for at in person.history]
    options = body.model_dump(include={"dimension", "steps", "concept", "min_users", "keep_start"})
    return traverse(model, **start, **options).as_json()


@router.get("/users", response_model=about.UserPage, tags=["people"])
async def users(
    hosted: Serves,
    q: Annotated[str, Query(max_length=200, description="Start of the id.")] = "",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """Users whose histories the service knows."""
    page, total = hosted.users.page(q, limit, offset)
    return _json({"total": total, "offset": offset, "users": [{"id": user, "items": items} for user, items in page]})


@router.get("/users/{user:path}", response_model=about.UserHistory, responses=answers(404), tags=["people"])
async def user(user: PathId, hosted: Serves) -> Response:
    """The history of a known user."""
    history, _ = hosted.users.find(user)
    return _json({"id": user, "history": [_listed(hosted, int(at)) for at in history]})


@router.get("/model", response_model=about.Model, tags=["about"])
async def model_card(hosted: Serves, service: Serving) -> Response:
    """The model card: settings, scores, concepts and dimensions with names and evidence."""
    hosted.refresh_names()
    return _json(await service.slowly(hosted.card.model))


@router.get("/report", response_model=about.Report, tags=["about"])
async def report(hosted: Serves, service: Serving) -> Response:
    """How good the model is and how cleanly tastes are separated; the latter is computed on the first call."""
    state, inspection, message = await service.slowly(hosted.inspection.get)
    content = {"state": state, "message": hosted.without_paths(message), "inspection": inspection}
    return _json({**content, "metrics": hosted.metrics, "log": [asdict(epoch) for epoch in hosted.model.log]})


@router.get("/map", response_model=about.Map, tags=["about"])
async def item_map(hosted: Serves, service: Serving) -> Response:
    """All items on a plane; computed on the first call, rough until then."""
    return _json(await service.slowly(_map, hosted))


def _map(hosted: Hosted) -> dict[str, Any]:
    state, placed, message = hosted.map.get()
    x, y = (part[hosted.on_map] for part in (layout.rough(hosted.model) if placed is None else placed))
    concept = np.zeros(len(x), dtype=int) if hosted.concept_of is None else hosted.concept_of[hosted.on_map]
    return {
        "state": state, "message": hosted.without_paths(message), "concept": concept.tolist(),
        "x": np.round(x.astype(float), 4).tolist(), "y": np.round(y.astype(float), 4).tolist(),
        "id": [str(item) for item in hosted.model.items.take(hosted.on_map)],
    }  # fmt: skip


@router.get("/map/values", response_model=about.MapValues, responses=answers(404), tags=["about"])
async def map_values(by: Annotated[str, Query(max_length=200)], hosted: Serves, service: Serving) -> Response:
    """An attribute to colour the map by."""
    return _json(await service.slowly(hosted.card.values, by))


@router.get("/items", response_model=about.ItemPage, responses=answers(404, 409), tags=["items"])
async def search(
    hosted: Serves,
    service: Serving,
    q: Annotated[str, Query(max_length=1_000, description="Words, or the start of a word or id.")] = "",
    limit: Limit = 20,
    offset: Offset = 0,
    concept: Annotated[int | None, Query(ge=0, description="Only items of this concept.")] = None,
) -> Response:
    """Search items by title, tolerating typos; without a query, the most popular items."""
    among = None
    if concept is not None:
        hosted.card.check(concept)
        among = np.asarray(hosted.concept_of == concept)
    find = partial(hosted.search.find, q, limit=limit, offset=offset, among=among)
    positions, total = await service.slowly(find)
    return _json({"total": total, "offset": offset, "items": [_listed(hosted, int(at)) for at in positions]})


@router.post("/items", response_model=about.ItemList, tags=["items"])
async def items(body: schemas.ItemsRequest, hosted: Serves) -> Response:
    """Items by id."""
    check_limits(hosted, ids=body.ids)
    positions, unknown = hosted.positions(body.ids)
    return _json({"items": [_listed(hosted, int(at)) for at in positions], "unknown": [str(item) for item in unknown]})


def _listed(hosted: Hosted, position: int) -> dict[str, Any]:
    return {**hosted.ref(position), "popularity": int(hosted.model.popularity[position])}


@router.get("/items/{item:path}", response_model=about.Item, responses=answers(404), tags=["items"])
async def item(item: PathId, hosted: Serves) -> Response:
    """Everything known about an item."""
    position, table, concepts = hosted.position(item), hosted.model.table, None
    attributes = {} if table is None else table.slice(position, 1).to_pylist()[0]
    attributes.pop("title", None)
    if hosted.space is not None:
        concepts = [round(float(p), 6) for p in hosted.space.log_assignment[position].exp().cpu()]
    listed = {"concept_share": None, **_listed(hosted, position)}
    picture = f"/v1/pictures/{quote(listed['id'], safe='')}" if hosted.pictures.has(position) else None
    return _json({**listed, "concepts": concepts, "attributes": attributes, "picture": picture})


@router.get(
    "/pictures/{item:path}",
    response_class=Response,
    responses={**answers(404), 200: {"description": "A picture.", "content": {"image/*": {}}}, 304: {}},
    tags=["items"],
)
async def picture(item: PathId, request: Request, hosted: Serves) -> Response:
    """The picture of an item."""
    content, media_type = hosted.pictures.of(hosted.position(item)) or (None, None)
    if content is None:
        raise RefusedError(404, f"item {item[:80]!r} has no picture")
    etag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"etag": etag, "cache-control": "private, max-age=3600", "content-security-policy": PICTURE_POLICY}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


@router.get("/similar", response_model=schemas.Similar, responses=answers(404), tags=["items"])
async def similar(
    item: Annotated[str, Query(max_length=schemas.LONGEST_ID)],
    hosted: Serves,
    service: Serving,
    n: Annotated[int, Query(ge=1)] = 10,
) -> Response:
    """Items similar to an item."""
    check_limits(hosted, n)
    similar = await service.slowly(hosted.model.similar_items, hosted.model.items[hosted.position(item)], n)
    return _json({"item": item, "items": [entry.as_json() for entry in similar]})


@router.get(
    "/concepts/{concept}/dimensions", response_model=about.Dimensions, responses=answers(404, 409), tags=["about"]
)
async def dimensions(concept: Number, hosted: Serves, service: Serving) -> Response:
    """All dimensions of a concept, best evidence first."""
    hosted.card.check(concept)
    return _json({"concept": concept, "dimensions": await service.slowly(hosted.card.dimensions, concept)})


@router.patch("/concepts/{concept}", response_model=about.Concept, responses=answers(404, 409), tags=["names"])
async def rename_concept(concept: Number, body: schemas.ConceptRename, hosted: Serves, service: Serving) -> Response:
    """Rename a concept; the name is saved in the run."""
    service.check_may_edit()
    hosted.card.check(concept)
    await service.slowly(hosted.rename, lambda names: names.renamed(concept, body.name))
    return _json(await service.slowly(hosted.card.concept, hosted.names.concepts[concept]))


@router.patch(
    "/concepts/{concept}/dimensions/{dimension}", response_model=about.Dimension, responses=answers(404, 409),
    tags=["names"],
)  # fmt: skip
async def rename_dimension(
    concept: Number, dimension: Number, body: schemas.DimensionRename, hosted: Serves, service: Serving
) -> Response:
    """Rename a dimension or its ends; the names are saved in the run."""
    service.check_may_edit()
    hosted.card.check(concept, dimension)
    texts = body.model_dump(exclude_none=True)
    await service.slowly(hosted.rename, lambda names: names.renamed_dimension(concept, dimension, **texts))
    return _json(await service.slowly(hosted.card.dimension, hosted.names.dimension(concept, dimension)))


@router.post("/reload", response_model=about.Reloaded, responses=answers(404, 409), tags=["running"])
async def reload(body: schemas.ReloadRequest, service: Serving) -> Response:
    """Load another run, or the same one again, without dropping a request."""
    service.check_may_edit()
    run = None if body.run is None else service.beside(body.run)
    hosted = await service.reload(run)
    if run is not None:
        service.agree_on(run)
    service.on_reload()
    return _json({"run": hosted.run.name, "digest": hosted.digest})


@health.head("/healthz", include_in_schema=False)
@health.get("/healthz", response_model=about.Health, openapi_extra=NO_TOKEN)
async def healthz() -> Response:
    """Whether the process is alive."""
    return _json({"status": "ok", "version": __version__})


@health.head("/readyz", include_in_schema=False)
@health.get("/readyz", response_model=about.Ready, responses=answers(503, common=()), openapi_extra=NO_TOKEN)
async def readyz(hosted: Serves, service: Serving) -> Response:
    """Whether the process takes requests; not during shutdown."""
    if service.is_draining:
        raise RefusedError(503, "this process is shutting down", {"retry-after": "1"})
    return _json({"status": "ok", "version": __version__, "run": hosted.run.name, "digest": hosted.digest})


@health.get("/metrics", response_class=Response, responses={**answers(), 200: {"content": {"text/plain": {}}}})
async def metrics(service: Serving) -> Response:
    """Prometheus metrics."""
    content, kind = service.metrics.text()
    return Response(content, media_type=kind, headers=NO_STORE)
