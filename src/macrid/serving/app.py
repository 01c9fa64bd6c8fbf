"""The ASGI app: API and studio."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from macrid.serving import problems
from macrid.serving.guard import Guard, check_may_be_reached, check_may_train
from macrid.serving.routes import health, routers
from macrid.serving.schemas.about import Problem
from macrid.serving.service import Service
from macrid.settings import ServingSettings
from macrid.version import __version__

STATIC = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/docs": "docs/index.html"}
ABOUT = """Recommendations by concept, along dimensions that people can name and move.

Item and user ids are your own; responses return them as strings. Errors follow RFC 9457; `detail` says what to do.
"""


def create_app(
    run: str | Path,
    settings: ServingSettings | None = None,
    *,
    shared: Path | None = None,
    on_start: Callable[[Service], None] | None = None,
    on_stop: Callable[[], None] = lambda: None,
    on_reload: Callable[[], None] = lambda: None,
) -> FastAPI:
    """An ASGI app that serves a run, including the studio.

    shared, on_start, on_stop, on_reload: for servers with several processes, see `macrid.serving.workers`.
    """
    settings = settings or ServingSettings.make()
    check_may_be_reached(settings)
    check_may_train(settings)
    service = Service(run, settings, shared, on_reload)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        if on_start is not None:
            on_start(service)
        yield
        service.close()
        on_stop()

    app = FastAPI(
        title="macrid",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # would load scripts from another site; the studio has its own
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    problems.install(app)
    for router in (*routers, health):
        app.include_router(router)
    app.include_router(health, prefix="/v1", include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for path, page in PAGES.items():
        app.add_api_route(path, _shown(page), methods=["GET", "HEAD"], include_in_schema=False)
    _describe(app, settings)
    app.add_middleware(GZipMiddleware, minimum_size=1_024, compresslevel=5)
    app.add_middleware(Guard, service=service)
    if settings.origins:  # outside the guard, so that allowed pages can read its errors
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["authorization", "content-type"],
        )
    return app


def _shown(page: str) -> Callable[[], Awaitable[FileResponse]]:
    async def show() -> FileResponse:
        return FileResponse(STATIC / page, headers={"cache-control": "no-cache"})

    return show


def _describe(app: FastAPI, settings: ServingSettings) -> None:
    """Add the error format and the token to the OpenAPI description."""
    generate: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            parts = document.setdefault("components", {})
            parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
            for operation in (operation for methods in document["paths"].values() for operation in methods.values()):
                operation["summary"] = re.split(r"[.;:]", operation["description"])[0]
            for unused in ("HTTPValidationError", "ValidationError"):
                parts["schemas"].pop(unused, None)
            if settings.token is not None:
                parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                document["security"] = [{"token": []}]
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
