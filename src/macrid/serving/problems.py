"""Errors as responses: one format (RFC 9457), with a message that people can act on."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from macrid.errors import MacridError, RequestError

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 10  # reported per request
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
COMMON = (400, 401, 403, 405, 408, 413, 421, 422, 429, 500, 503)  # of every endpoint
TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}  # older Pythons have older names


class RefusedError(MacridError):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers or {}


class InvalidRulesError(RefusedError):
    """Rules that make no sense for this run. at: where in the request."""

    def __init__(self, error: RequestError, at: str) -> None:
        found = re.match(r"[\w.\[\]]+(?=[,:])", str(error))
        self.errors = [{"at": f"{at}.{found[0]}".lstrip(".") if found else at, "message": str(error)}]
        super().__init__(422, f"{at}.{error}".lstrip(".") if found else f"{at}: {error}")


def problem(error: RefusedError, instance: str, **more: Any) -> Response:
    """An error response, with more members as needed."""
    content = {
        "type": "about:blank",
        "title": title(error.status),
        "status": error.status,
        "detail": str(error),
        "instance": quote(instance, errors="replace"),
        **more,
    }
    headers = {"cache-control": "no-store", **error.headers}
    return Response(json.dumps(content, default=str), error.status, headers, MEDIA_TYPE)


def answers(*statuses: int, common: tuple[int, ...] = COMMON) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route, for its OpenAPI description."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": title(status), "content": content} for status in sorted({*common, *statuses})}


def title(status: int) -> str:
    """The standard text of a status."""
    return TITLES.get(status) or HTTPStatus(status).phrase


def install(app: FastAPI) -> None:
    """Return every error of an app as a problem."""

    @app.exception_handler(MacridError)
    async def failed(request: Request, error: MacridError) -> Response:
        if not isinstance(error, RefusedError):
            error = RefusedError(422 if isinstance(error, RequestError) else 409, str(error))
        more = {"errors": error.errors} if isinstance(error, InvalidRulesError) else {}
        return problem(error, request.url.path, **more)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = [{"at": _place(entry["loc"]), "message": _message(entry)} for entry in error.errors()[:MOST_ERRORS]]
        detail = ": ".join(text for text in errors[0].values() if text) + (" (and more)" if len(errors) > 1 else "")
        return problem(RefusedError(422, detail), request.url.path, errors=errors)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        details = {
            400: "cannot read the body; send uncompressed JSON in UTF-8",
            404: "no such endpoint; see /docs or /v1/openapi.json",
        }
        detail, headers = details.get(error.status_code, str(error.detail)), dict(error.headers or {})
        if error.status_code == 405:
            headers = {"allow": ", ".join(_allowed(request))}
            detail = f"{request.method[:20]} is not possible here; use {headers['allow']}"
        return problem(RefusedError(error.status_code, detail, headers), request.url.path)


def _allowed(request: Request) -> list[str]:
    """The methods that an address has, on all of its routes; each route knows only its own."""
    scope = {name: request.scope[name] for name in ("type", "path", "root_path", "headers") if name in request.scope}
    possible = [
        method
        for method in METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]
    return possible or ["GET", "HEAD"]  # files


def _place(path: tuple[Any, ...]) -> str:
    """The location of an error in a request, such as moves[0].to."""
    parts = [part for part in path if part not in ("body", "query", "path", "header")]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


def _message(entry: dict[str, Any]) -> str:
    if entry["type"] == "model_attributes_type":
        return "send a JSON object, with the header content-type: application/json"
    if entry["type"] == "json_invalid":
        return "invalid JSON; send an object as described in /v1/openapi.json"
    message = str(entry["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
