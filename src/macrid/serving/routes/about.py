"""The model, its report and its map."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response

from macrid.differences import compare
from macrid.pictures import layout
from macrid.runs import load, read_diff
from macrid.serving.beside import runs_beside
from macrid.serving.hosted import Hosted
from macrid.serving.problems import answers
from macrid.serving.routes.common import Serves, Serving, Strict, reply
from macrid.serving.schemas import about

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)


@router.get("/model", response_model=about.Model, tags=["about"])
async def model_card(hosted: Serves, service: Serving) -> Response:
    """The model card: settings, scores, concepts and dimensions with names and evidence."""
    hosted.refresh_names()
    return reply(await service.slowly(hosted.card.model))


@router.get("/report", response_model=about.Report, tags=["about"])
async def report(hosted: Serves, service: Serving) -> Response:
    """How good the model is and how cleanly tastes are separated; the latter is computed on the first call."""
    state, inspection, message = await service.slowly(hosted.inspection.get)
    content = {"state": state, "message": hosted.without_paths(message), "inspection": inspection}
    return reply({**content, "metrics": hosted.metrics, "log": [asdict(epoch) for epoch in hosted.model.log]})


@router.get("/diff", response_model=about.Diff, responses=answers(403, 404), tags=["about"])
async def diff(
    hosted: Serves,
    service: Serving,
    run: Annotated[str | None, Query(max_length=200, description="A run beside the served one.")] = None,
) -> Response:
    """How the run differs from the one its training started from, or from another one, which takes some seconds."""
    if run is None:
        return reply(await service.slowly(_stored_diff, hosted))
    service.check_may_edit()
    return reply(await service.at_length(_diff, hosted, service.beside(run)))


def _stored_diff(hosted: Hosted) -> dict[str, Any]:
    stored = read_diff(hosted.run)
    before = None if stored is None else Path(str(stored.get("before"))).name
    return {"before": before, "after": hosted.run.name, "diff": _without_folders(stored)}


def _diff(hosted: Hosted, run: Path) -> dict[str, Any]:
    result = compare(load(run, hosted.settings.device), hosted.model, run, hosted.run)
    return {"before": run.name, "after": hosted.run.name, "diff": _without_folders(result)}


def _without_folders(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Clients need not know where runs are."""
    if result is None:
        return None
    return {**result, **{side: Path(str(result.get(side))).name for side in ("before", "after")}}


@router.get("/runs", response_model=about.RunsBeside, responses=answers(403), tags=["about"])
async def runs(hosted: Serves, service: Serving) -> Response:
    """The runs beside the served one, whose lists `POST /v1/recommend` can be asked for; for those who may edit."""
    service.check_may_edit("lists of other runs")
    return reply({"runs": await service.slowly(runs_beside, service.current(), hosted)})


@router.get("/map", response_model=about.Map, tags=["about"])
async def item_map(hosted: Serves, service: Serving) -> Response:
    """All items on a plane; computed on the first call, rough until then."""
    return reply(await service.slowly(_map, hosted))


def _map(hosted: Hosted) -> dict[str, Any]:
    state, placed, message = hosted.map.get()
    everything = layout.rough(hosted.model) if placed is None else layout.with_new(placed[0], placed[1], hosted.model)
    x, y = (part[hosted.on_map] for part in everything)
    concept = np.zeros(len(x), dtype=int) if hosted.concept_of is None else hosted.concept_of[hosted.on_map]
    return {
        "state": state, "message": hosted.without_paths(message), "concept": concept.tolist(),
        "x": np.round(x.astype(float), 4).tolist(), "y": np.round(y.astype(float), 4).tolist(),
        "id": [str(item) for item in hosted.model.items.take(hosted.on_map)],
    }  # fmt: skip


@router.get("/map/values", response_model=about.MapValues, responses=answers(404), tags=["about"])
async def map_values(by: Annotated[str, Query(max_length=200)], hosted: Serves, service: Serving) -> Response:
    """An attribute to colour the map by."""
    return reply(await service.slowly(hosted.card.values, by))
