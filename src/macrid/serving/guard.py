"""Middleware: host, origin and token checks, size and time limits, security headers."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from macrid.errors import SettingsError
from macrid.serving.problems import METHODS, RefusedError, problem
from macrid.serving.tokens import Tokens
from macrid.settings import ServingSettings

if TYPE_CHECKING:
    from macrid.serving.service import Service

GONE = 499  # in the metrics, as in those of nginx: the client left before its request was complete
LONGEST_LENGTH = 18  # digits of a content-length
UPLOADS = ("/v1/training/events", "/v1/training/items")
LOCAL = ("localhost", "127.0.0.1", "::1")
log = logging.getLogger("macrid.serving")
PROBES = ("/healthz", "/readyz", "/v1/healthz", "/v1/readyz")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_local(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


def in_brackets(host: str) -> str:
    """A host as in a URL: IPv6 addresses get brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def may_edit(settings: ServingSettings) -> bool:
    """Whether clients may rename, reload, add items and change rules."""
    if settings.edits == "auto":
        return settings.token is not None or (is_local(settings.host) and not settings.hosts)  # names: behind a proxy
    return settings.edits == "yes"


def may_train(settings: ServingSettings) -> bool:
    """Whether clients may upload a file and train on it; their progress is known to one process only."""
    if settings.training == "auto":
        return may_edit(settings) and is_local(settings.host) and not settings.hosts and settings.workers == 1
    return settings.training == "yes"


def check_may_train(settings: ServingSettings) -> None:
    """Refuse settings that ask for training where it cannot be."""
    if settings.training == "yes" and not may_edit(settings):
        raise SettingsError("whoever trains must be allowed to edit; set a token, or do without --training")
    if settings.training == "yes" and settings.workers > 1:
        raise SettingsError(f"training takes one process, not {settings.workers}; drop --workers or --training")


def is_upload(scope: Scope) -> bool:
    """Whether a request sends a file, which may be large and take long."""
    return scope["method"] == "PUT" and scope.get("path", "").removeprefix(scope.get("root_path", "")) in UPLOADS


def check_may_be_reached(settings: ServingSettings) -> None:
    """Refuse an address beyond this machine without a token, unless anybody may come in."""
    if is_local(settings.host) or settings.token is not None or settings.open:
        return
    raise SettingsError(
        f"{settings.host} can be reached from other machines, and there is no token;"
        " set one (MACRID_TOKEN=…), or let anybody in (--open)"
    )


class Guard:
    """An ASGI middleware."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service, self.settings = app, service, service.settings
        local = (*LOCAL, self.settings.host) if is_local(self.settings.host) else ("*",)
        self.hosts = list(dict.fromkeys(map(in_brackets, self.settings.hosts or local)))
        self.host_check = TrustedHostMiddleware(_nothing, self.hosts, www_redirect=False)
        self.tokens = None if self.settings.token is None else Tokens(self.settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.service.start()  # if mounted in another app
        await _Exchange(self, scope, receive, send).run()


class _Exchange:
    """One request and its response."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.headers = Headers(scope=scope)
        self.path = scope["path"].removeprefix(scope.get("root_path", ""))  # relative to where the app is mounted
        self.size, self.is_read, self.is_gone, self.status = 0, False, False, 0
        self.is_upload = is_upload(scope) and may_train(guard.settings)
        self.most = guard.settings.max_upload if self.is_upload else guard.settings.max_body
        self.refusal: RefusedError | None = None
        self._deadline: asyncio.Timeout | None = None

    async def run(self) -> None:
        guard, metrics, began = self.guard, self.guard.service.metrics, time.perf_counter()
        metrics.in_flight.inc()
        try:
            await self._check()
            await self._respond()
        except RefusedError as error:
            self.refusal = error
        except ClientDisconnect:
            self.is_gone = True
        except TimeoutError:
            seconds = f"{guard.settings.timeout:g} s"
            if self.scope["method"] not in ("GET", "HEAD") and not self.is_read:
                self.refusal = RefusedError(408, f"the request was incomplete after {seconds}; send it again")
            else:
                detail = f"no response within {seconds}; ask for less or try later"
                self.refusal = RefusedError(503, detail, {"retry-after": "1"})
        except Exception as error:
            log.error("%s %s failed", self.scope["method"], quote(self.path, errors="replace"), exc_info=error)
            self.refusal = RefusedError(500, "internal error; see the log of the service")
        finally:
            if self.is_gone:
                self.status = self.status or GONE
            elif self.refusal is not None and not self.status:
                await self._refuse(self.refusal)
            route = getattr(self.scope.get("route"), "path", "/static" if self.path.startswith("/static/") else "other")
            method = self.scope["method"] if self.scope["method"] in (*METHODS, "OPTIONS") else "other"
            guard.service.answered += 1
            with suppress(OSError):  # the folder of shared counts has gone: lose counts, not responses
                metrics.in_flight.dec()
                metrics.requests.labels(method, route, self.status).inc()
                metrics.seconds.labels(route).observe(time.perf_counter() - began)

    async def _respond(self) -> None:
        async with asyncio.timeout(self.guard.settings.timeout) as self._deadline:
            try:
                await self.guard.app(self.scope, self.receive, self.send)
            finally:
                self._deadline = None

    async def receive(self) -> Message:
        """The next part of the body, up to the size limit."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.size += len(message.get("body", b""))
            self.is_read = not message.get("more_body", False)
            if self.is_upload and self._deadline is not None:  # as long as it goes on
                self._deadline.reschedule(asyncio.get_running_loop().time() + self.guard.settings.timeout)
            if self.size > self.most:
                self.refusal = self._too_large()
                raise self.refusal
        elif not self.is_read and not self.status:
            self.is_gone = True
        return message

    async def send(self, message: Message) -> None:
        if self.is_gone or (self.refusal is not None and not self.status):  # drop the response of the app
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._deadline is not None:
                self._deadline.reschedule(None)  # how long a client takes to read is up to its connection
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.guard.service.is_draining:
                headers["connection"] = "close"
        await self._send(message)

    async def _refuse(self, error: RefusedError) -> None:
        self.refusal = None
        answer = problem(error, self.path)
        if not self.is_read:
            answer.headers["connection"] = "close"
        await answer(self.scope, self._receive, self.send)

    async def _check(self) -> None:
        settings, path, headers = self.guard.settings, self.path, self.headers
        if path not in PROBES:
            await self.guard.host_check(self.scope, self._receive, self._refuse_host)
        if self.scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            origin = headers.get("origin")  # of the page, from a browser; other clients send none
            is_own = origin is None or origin.partition("://")[2] == headers.get("host")
            if not is_own and origin not in settings.origins:
                raise RefusedError(403, "requests from pages of other sites are refused; allow a site with --origin")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > LONGEST_LENGTH or int(length) > self.most:
            raise self._too_large()
        if self.guard.tokens is not None and path not in (*PROBES, "/", "/docs") and not path.startswith("/static/"):
            await self.guard.tokens.check(headers.get("authorization", ""), self.scope.get("client"))

    async def _refuse_host(self, _: Message) -> None:
        """Replaces Starlette's plain-text response."""
        host, names = self.headers.get("host", "")[:80], ", ".join(self.guard.hosts)
        raise RefusedError(421, f"unknown host {host!r}; this service answers to {names} (add names with --name)")

    def _too_large(self) -> RefusedError:
        remedy = "train on less, or raise --max-upload" if self.is_upload else "send less at once"
        return RefusedError(413, f"the request exceeds {self.most:,} bytes; {remedy}")


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """The app behind the host check."""
