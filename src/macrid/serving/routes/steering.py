"""Recommending and steering."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError

from macrid.control.moves import Move
from macrid.control.state import State
from macrid.control.traverse import traverse
from macrid.errors import RequestError
from macrid.pictures import layout
from macrid.serving.explaining import MOST_EXPLAINED_ITEMS, check_explainable, explained
from macrid.serving.hosted import Hosted
from macrid.serving.problems import RefusedError, answers
from macrid.serving.recommending import Person, asked_by, batch, look_up, moves_of, person_of, recommend
from macrid.serving.routes.common import Serves, Serving, Strict, reply
from macrid.serving.schemas import lists, requests

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


class Direct(APIRoute):
    """A faster route that only parses its body, for the most frequent request."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        async def handle(request: Request) -> Response:
            content, service = await request.body(), request.app.state.service
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise RefusedError(422, "send a JSON object, with the header content-type: application/json")
            try:
                body = requests.RecommendRequest.model_validate_json(content)
            except ValidationError as error:
                raise RequestValidationError(error.errors(include_url=False)) from None
            return reply(await recommend(service, body))

        return handle


async def recommend_items(body: requests.RecommendRequest) -> None:
    """Items for a history or a known user, after any moves, with what the moves changed."""


router.add_api_route(
    "/recommend", recommend_items, methods=["POST"], response_model=lists.Recommended,
    responses=answers(404, 409), tags=["steering"], route_class_override=Direct,
)  # fmt: skip


@router.post("/recommend/batch", response_model=lists.BatchRecommended, tags=["steering"])
async def recommend_batch(body: requests.BatchRequest, hosted: Serves, service: Serving) -> Response:
    """Items for many histories."""
    return reply(await batch(hosted, service, body))


@router.post("/explain", response_model=lists.Explained, responses=answers(404, 409), tags=["steering"])
async def explain(body: requests.ExplainRequest, hosted: Serves, service: Serving) -> Response:
    """Why items have their places in a list, or are not in it: parts that add up."""
    if len(body.items) > MOST_EXPLAINED_ITEMS:
        raise RequestError(f"items has {len(body.items):,} ids; the limit is {MOST_EXPLAINED_ITEMS}")
    positions = hosted.all_known(body.items, "items")
    asked = await asked_by(hosted, service, body)
    check_explainable(asked.question)
    content = await service.at_length(explained, hosted, asked.question, positions)
    unknown = [str(value) for value in asked.person.unknown]
    return reply(content | {"unknown": unknown, "warnings": [*asked.warnings, *content["warnings"]]})


@router.post("/encode", response_model=lists.Encoded, responses=answers(404, 409), tags=["steering"])
async def encode(body: requests.EncodeRequest, hosted: Serves, service: Serving) -> Response:
    """A user's share and position in each concept."""
    hosted.concepts()
    person = await look_up(hosted, service, body)
    moves, carried = await moves_of(hosted, service, body)
    warnings = tuple(each.warning for each in carried)
    return reply(await service.slowly(_encode, hosted, person, moves, body.bounded, warnings))


@torch.no_grad()
def _encode(
    hosted: Hosted, person: Person, moves: tuple[Move, ...], bounded: bool, warnings: tuple[str, ...]
) -> dict[str, Any]:
    space, matrix = hosted.concepts(), hosted.model.matrix([person.history])
    confidence = space.confidence(matrix)[0]
    (start,) = State.all_of(space, matrix)
    moved = start.after(moves, bounded)
    components, recommended = moved.state.components.numpy(), moved.state.shares().numpy()
    places = np.full((space.concepts, 2), np.nan)
    state, placed, _ = hosted.map.get(start=False)
    if state == "ready" and placed is not None:
        places = layout.around(placed[0], placed[1], space.items[: len(placed[0])], components)
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
        "warnings": [*person.warnings, *warnings, *moved.warnings],
    }


@router.post("/traverse", response_model=lists.Traversed, responses=answers(404, 409), tags=["steering"])
async def walk(body: requests.TraverseRequest, hosted: Serves, service: Serving) -> Response:
    """Walk along one dimension: items that differ in little else."""
    hosted.concepts()
    return reply(await service.slowly(_traverse, hosted, body))


def _traverse(hosted: Hosted, body: requests.TraverseRequest) -> dict[str, Any]:
    model = hosted.model
    if sum(start is not None for start in (body.item, body.history, body.user)) != 1:
        raise RequestError("give exactly one of item, history and user to start from")
    start: dict[str, Any] = {"item": None}
    if body.item is not None:
        start["item"] = model.items[int(hosted.all_known([body.item], "item")[0])]
    else:
        person = person_of(hosted, body.history, body.user)
        start["history"] = [model.items[int(at)] for at in person.history]
    options = body.model_dump(include={"dimension", "steps", "concept", "min_users", "keep_start", "hold"})
    return traverse(model, **start, **options).as_json()
