"""Reloading, probes and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from macrid.serving.problems import RefusedError, answers
from macrid.serving.routes.common import NO_STORE, Serves, Serving, Strict, reply
from macrid.serving.schemas import about, requests
from macrid.version import __version__

NO_TOKEN: dict[str, Any] = {"security": []}

router = APIRouter(prefix="/v1", responses=answers(), route_class=Strict)
health = APIRouter(tags=["running"])
"""Probes and metrics; at the root and under /v1."""


@router.post("/reload", response_model=about.Reloaded, responses=answers(404, 409), tags=["running"])
async def reload(body: requests.ReloadRequest, service: Serving) -> Response:
    """Load another run, or the same one again, without dropping a request."""
    service.check_may_edit()
    run = None if body.run is None else service.beside(body.run)
    hosted = await service.reload(run)
    if run is not None:
        service.agree_on(run)
    service.on_reload()
    return reply({"run": hosted.run.name, "digest": hosted.digest})


@health.head("/healthz", include_in_schema=False)
@health.get("/healthz", response_model=about.Health, openapi_extra=NO_TOKEN)
async def healthz() -> Response:
    """Whether the process is alive."""
    return reply({"status": "ok", "version": __version__})


@health.head("/readyz", include_in_schema=False)
@health.get("/readyz", response_model=about.Ready, responses=answers(503, common=()), openapi_extra=NO_TOKEN)
async def readyz(hosted: Serves, service: Serving) -> Response:
    """Whether the process takes requests; not during shutdown."""
    if service.is_draining:
        raise RefusedError(503, "this process is shutting down", {"retry-after": "1"})
    if service.standing.has_changed:
        await service.slowly(service.standing.refresh, hosted)
    content = {"status": "ok", "version": __version__, "run": hosted.run.name, "digest": hosted.digest}
    return reply(content | {"warnings": service.warnings()})


@health.get("/metrics", response_class=Response, responses={**answers(), 200: {"content": {"text/plain": {}}}})
async def metrics(service: Serving) -> Response:
    """Prometheus metrics."""
    content, kind = service.metrics.text()
    return Response(content, media_type=kind, headers=NO_STORE)
