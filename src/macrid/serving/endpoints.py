"""The endpoints under /v1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import torch
from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from macrid.control.moves import Move
from macrid.control.state import State
from macrid.control.traverse import traverse
from macrid.errors import RequestError
from macrid.pictures import layout
from macrid.serving import schemas, schemas_about
from macrid.serving.hosted import Hosted
from macrid.serving.problems import RefusedError, answers
from macrid.serving.recommending import Person, batch, check_limits, moves_of, person_of, recommend
from macrid.serving.service import Service
from macrid.version import __version__

Limit = Annotated[int, Query(ge=1, le=100, description="Page size.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many to skip.")]
Number = Annotated[int, Path(ge=0)]
NO_TOKEN: dict[str, Any] = {"security": []}
NO_STORE = {"cache-control": "no-store"}


def router(service: Service, on_reload: Callable[[], None] | None = None) -> APIRouter:
    """on_reload: called after a new run is loaded, so that other processes follow."""
    api = APIRouter(prefix="/v1", responses=answers())
    _people(api, service)  # first, because the most frequent requests then match soonest
    _about(api, service)
    _items(api, service)
    _concepts(api, service)
    _running(api, service, on_reload)
    return api


def _json(content: Any) -> Response:
    """Skips validation: tests check responses against their schemas."""
    body = to_json(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)
    return Response(body, headers=NO_STORE, media_type="application/json")


def _direct(schema: type[BaseModel]) -> type[APIRoute]:
    """A faster route that only parses its body: for the most frequent requests."""

    class Direct(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
            async def handle(request: Request) -> Response:
                content = await request.body()
                if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                    raise RefusedError(422, "send a JSON object, with the header content-type: application/json")
                try:
                    body = schema.model_validate_json(content)
                except ValidationError as error:
                    raise RequestValidationError(error.errors(include_url=False)) from None
                return await self.endpoint(body)

            return handle

    return Direct


def _about(router: APIRouter, service: Service) -> None:
    @router.get("/model", response_model=schemas_about.Model, tags=["about"])
    async def model_card() -> Response:
        """The model card: settings, scores, concepts and dimensions with names and evidence."""
        hosted = service.hosted
        hosted.refresh_names()
        return _json(await service.slowly(hosted.card.model))

    @router.get("/report", response_model=schemas_about.Report, tags=["about"])
    async def report() -> Response:
        """How good the model is and how cleanly tastes are separated; the latter is computed on the first call."""
        hosted = service.hosted
        state, inspection, message = await service.slowly(hosted.inspection.get)
        log = [{name: getattr(epoch, name) for name in epoch.__dataclass_fields__} for epoch in hosted.model.log]
        return _json(
            {
                "state": state,
                "message": hosted.without_paths(message),
                "metrics": hosted.metrics,
                "log": log,
                "inspection": inspection,
            }
        )

    @router.get("/map", response_model=schemas_about.Map, tags=["about"])
    async def item_map() -> Response:
        """All items on a plane; computed on the first call, rough until then."""
        return _json(await service.slowly(_map, service.hosted))

    @router.get("/map/values", response_model=schemas_about.MapValues, responses=answers(404), tags=["about"])
    async def map_values(by: Annotated[str, Query(max_length=200)]) -> Response:
        """An attribute to colour the map by."""
        return _json(await service.slowly(service.hosted.card.values, by))


def _map(hosted: Hosted) -> dict[str, Any]:
    state, placed, message = hosted.map.get()
    x, y = (part[hosted.on_map] for part in (layout.rough(hosted.model) if placed is None else placed))
    concept = np.zeros(len(x), dtype=int) if hosted.concept_of is None else hosted.concept_of[hosted.on_map]
    return {
        "state": state, "message": hosted.without_paths(message), "concept": concept.tolist(),
        "x": np.round(x.astype(float), 4).tolist(), "y": np.round(y.astype(float), 4).tolist(),
        "id": [str(item) for item in hosted.model.items.take(hosted.on_map)],
    }  # fmt: skip


def _items(router: APIRouter, service: Service) -> None:
    @router.get("/items", response_model=schemas_about.ItemPage, responses=answers(404, 409), tags=["items"])
    async def search(
        q: Annotated[str, Query(max_length=1_000, description="Words, or the start of a word or id.")] = "",
        limit: Limit = 20,
        offset: Offset = 0,
        concept: Annotated[int | None, Query(ge=0, description="Only items of this concept.")] = None,
    ) -> Response:
        """Search items by title, tolerating typos; without a query, the most popular items."""
        return _json(await service.slowly(_search, service.hosted, q, limit, offset, concept))

    @router.post("/items", response_model=schemas_about.ItemList, tags=["items"])
    async def items(body: schemas.ItemsRequest) -> Response:
        """Items by id."""
        hosted = service.hosted
        check_limits(hosted, ids=body.ids)
        positions, unknown = hosted.positions(body.ids)
        return _json(
            {"items": [_listed(hosted, int(at)) for at in positions], "unknown": [str(item) for item in unknown]}
        )

    @router.get("/items/{item:path}", response_model=schemas_about.Item, responses=answers(404), tags=["items"])
    async def item(item: Annotated[str, Path(max_length=schemas.LONGEST_ID)]) -> Response:
        """Everything known about an item."""
        hosted = service.hosted
        return _json(_item(hosted, hosted.position(item)))

    @router.get(
        "/pictures/{item:path}",
        response_class=Response,
        responses={**answers(404), 200: {"description": "A picture.", "content": {"image/*": {}}}, 304: {}},
        tags=["items"],
    )
    async def picture(item: Annotated[str, Path(max_length=schemas.LONGEST_ID)], request: Request) -> Response:
        """The picture of an item."""
        hosted = service.hosted
        position = hosted.position(item)
        etag = hosted.pictures.etag(position) or ""
        headers = {"etag": etag, "cache-control": "private, max-age=3600", "content-security-policy": PICTURE_POLICY}
        if etag and etag in request.headers.get("if-none-match", "") and hosted.pictures.has(position):
            return Response(status_code=304, headers=headers)
        content, media_type = hosted.pictures.of(position) or (None, None)
        if content is None:
            raise RefusedError(404, f"item {item[:80]!r} has no picture")
        return Response(content, headers=headers, media_type=media_type)

    @router.get("/similar", response_model=schemas.Similar, responses=answers(404), tags=["items"])
    async def similar(
        item: Annotated[str, Query(max_length=schemas.LONGEST_ID)], n: Annotated[int, Query(ge=1)] = 10
    ) -> Response:
        """Items similar to an item."""
        hosted = service.hosted
        check_limits(hosted, n)
        position = hosted.position(item)
        similar = await service.slowly(hosted.model.similar_items, hosted.model.items[position], n)
        return _json({"item": item, "items": [entry.as_json() for entry in similar]})

    @router.post("/traverse", response_model=schemas.Traversed, responses=answers(404, 409), tags=["steering"])
    async def walk(body: schemas.TraverseRequest) -> Response:
        """Walk along one dimension: items that differ in little else."""
        hosted = service.hosted
        hosted.concepts()
        return _json(await service.slowly(_traverse, hosted, body))


PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


def _search(hosted: Hosted, q: str, limit: int, offset: int, concept: int | None) -> dict[str, Any]:
    among = None
    if concept is not None:
        hosted.card.check(concept)
        among = np.asarray(hosted.concept_of == concept)
    positions, total = hosted.search.find(q, limit=limit, offset=offset, among=among)
    return {"total": total, "offset": offset, "items": [_listed(hosted, int(at)) for at in positions]}


def _listed(hosted: Hosted, position: int) -> dict[str, Any]:
    return {**hosted.ref(position), "popularity": int(hosted.model.popularity[position])}


def _item(hosted: Hosted, position: int) -> dict[str, Any]:
    table = hosted.model.table
    row = {} if table is None else table.slice(position, 1).to_pylist()[0]
    concepts = None
    if hosted.space is not None:
        concepts = [round(float(p), 6) for p in hosted.space.log_assignment[position].exp().cpu()]
    listed = {"concept_share": None, **_listed(hosted, position)}
    return {
        **listed, "concepts": concepts,
        "attributes": {name: value for name, value in row.items() if name != "title"},
        "picture": f"/v1/pictures/{quote(listed['id'], safe='')}" if hosted.pictures.has(position) else None,
    }  # fmt: skip


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
    walk = traverse(
        model, dimension=body.dimension, steps=body.steps, concept=body.concept, min_users=body.min_users,
        keep_start=body.keep_start, **start,
    )  # fmt: skip
    return walk.as_json()


def _people(router: APIRouter, service: Service) -> None:
    async def recommend_items(body: schemas.RecommendRequest) -> Response:
        """Items for a history or a known user, after any moves, with what the moves changed."""
        return _json(await recommend(service.hosted, service, body))

    router.add_api_route(
        "/recommend", recommend_items, methods=["POST"], response_model=schemas.Recommended,
        responses=answers(404, 409), tags=["steering"], route_class_override=_direct(schemas.RecommendRequest),
    )  # fmt: skip

    @router.post("/recommend/batch", response_model=schemas.BatchRecommended, tags=["steering"])
    async def recommend_batch(body: schemas.BatchRequest) -> Response:
        """Items for many histories."""
        return _json(await batch(service.hosted, service, body))

    @router.post("/encode", response_model=schemas.Encoded, responses=answers(404, 409), tags=["steering"])
    async def encode(body: schemas.EncodeRequest) -> Response:
        """A user's share and position in each concept."""
        hosted = service.hosted
        hosted.concepts()
        person = person_of(hosted, body.history, body.user)
        moves, warnings = await moves_of(hosted, service, body)
        return _json(await service.slowly(_encode, hosted, person, moves, body.bounded, warnings))

    @router.get("/users", response_model=schemas_about.UserPage, tags=["people"])
    async def users(
        q: Annotated[str, Query(max_length=200, description="Start of the id.")] = "",
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> Response:
        """Users whose histories the service knows."""
        page, total = service.hosted.users.page(q, limit, offset)
        listed = [{"id": user, "items": items} for user, items in page]
        return _json({"total": total, "offset": offset, "users": listed})

    @router.get("/users/{user:path}", response_model=schemas_about.UserHistory, responses=answers(404), tags=["people"])
    async def user(user: Annotated[str, Path(max_length=schemas.LONGEST_ID)]) -> Response:
        """The history of a known user."""
        hosted = service.hosted
        history, _ = hosted.users.find(user)
        return _json({"id": user, "history": [_listed(hosted, int(at)) for at in history]})


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
            "x": None if np.isnan(places[k, 0]) else round(float(places[k, 0]), 4),
            "y": None if np.isnan(places[k, 1]) else round(float(places[k, 1]), 4),
        }
        for k in range(space.concepts)
    ]
    return {
        "unknown": [str(value) for value in person.unknown],
        "concepts": concepts,
        "warnings": [*warnings, *moved.warnings],
    }


def _concepts(router: APIRouter, service: Service) -> None:
    @router.get(
        "/concepts/{concept}/dimensions",
        response_model=schemas_about.Dimensions,
        responses=answers(404, 409),
        tags=["about"],
    )
    async def dimensions(concept: Number) -> Response:
        """All dimensions of a concept, best evidence first."""
        card = service.hosted.card
        card.check(concept)
        return _json({"concept": concept, "dimensions": await service.slowly(card.dimensions, concept)})

    @router.patch(
        "/concepts/{concept}", response_model=schemas_about.Concept, responses=answers(404, 409), tags=["names"]
    )  # fmt: skip
    async def rename_concept(concept: Number, body: schemas.ConceptRename) -> Response:
        """Rename a concept; the name is saved in the run."""
        hosted = service.hosted
        service.check_may_edit()
        hosted.card.check(concept)
        await service.slowly(hosted.rename, lambda names: names.renamed(concept, body.name))
        return _json(await service.slowly(hosted.card.concept, hosted.names.concepts[concept]))

    @router.patch(
        "/concepts/{concept}/dimensions/{dimension}",
        response_model=schemas_about.Dimension,
        responses=answers(404, 409),
        tags=["names"],
    )
    async def rename_dimension(concept: Number, dimension: Number, body: schemas.DimensionRename) -> Response:
        """Rename a dimension or its ends; the names are saved in the run."""
        hosted = service.hosted
        service.check_may_edit()
        hosted.card.check(concept, dimension)
        texts = body.model_dump(exclude_none=True)
        await service.slowly(hosted.rename, lambda names: names.renamed_dimension(concept, dimension, **texts))
        return _json(await service.slowly(hosted.card.dimension, hosted.names.dimension(concept, dimension)))


def _running(router: APIRouter, service: Service, on_reload: Callable[[], None] | None) -> None:
    @router.post("/reload", response_model=schemas_about.Reloaded, responses=answers(404, 409), tags=["running"])
    async def reload(body: schemas.ReloadRequest) -> Response:
        """Load another run, or the same one again, without dropping a request."""
        service.check_may_edit()
        run = None if body.run is None else service.beside(body.run)
        if run is not None and not run.is_dir():
            raise RefusedError(404, f"no run {run.name[:80]!r} beside the current one")
        hosted = await service.reload(run)
        if run is not None:
            service.agree_on(run)
        if on_reload is not None:
            on_reload()
        return _json({"run": hosted.run.name, "digest": hosted.digest})


def health(service: Service) -> APIRouter:
    """Probes and metrics; at the root and under /v1."""
    api = APIRouter(tags=["running"])

    @api.head("/healthz", include_in_schema=False)
    @api.get("/healthz", response_model=schemas_about.Health, openapi_extra=NO_TOKEN)
    async def healthz() -> Response:
        """Whether the process is alive."""
        return _json({"status": "ok", "version": __version__})

    @api.head("/readyz", include_in_schema=False)
    @api.get("/readyz", response_model=schemas_about.Ready, responses=answers(503, common=()), openapi_extra=NO_TOKEN)
    async def readyz() -> Response:
        """Whether the process takes requests; not during shutdown."""
        if service.is_draining:
            raise RefusedError(503, "this process is shutting down", {"retry-after": "1"})
        hosted = service.hosted
        content = {"status": "ok", "version": __version__, "run": hosted.run.name, "digest": hosted.digest}
        return _json(content)

    @api.get("/metrics", response_class=Response, responses={**answers(), 200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Prometheus metrics."""
        content, kind = service.metrics.text()
        return Response(content, media_type=kind, headers=NO_STORE)

    return api
