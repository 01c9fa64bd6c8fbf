"""What stands between the network and the app: who may ask, how much, how long, and what every answer carries."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from macrid.serving.problems import RefusedError, problem
from macrid.settings import ServingSettings

if TYPE_CHECKING:
    from macrid.serving.service import Service

METHODS = ("GET", "HEAD", "POST", "PATCH", "OPTIONS")
LOCAL = ("localhost", "127.0.0.1", "::1")
log = logging.getLogger("macrid.serving")
OPEN = ("/healthz", "/readyz", "/v1/healthz", "/v1/readyz")  # asked by what keeps the service running
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
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_brackets(host: str) -> str:
    """As in a URL or Host header: an address of IP version 6 stands in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def may_edit(settings: ServingSettings) -> bool:
    """Whether whoever reaches the service may rename and reload."""
    if settings.edits == "auto":
        return settings.token is not None or is_local(settings.host)
    return settings.edits == "yes"


class Guard:
    """An ASGI middleware."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service, self.settings = app, service, service.settings
        local = (*LOCAL, self.settings.host) if is_local(self.settings.host) else ("*",)
        self.hosts = list(dict.fromkeys(map(in_brackets, self.settings.hosts or local)))
        self.host_check = TrustedHostMiddleware(_nothing, self.hosts, www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await _Exchange(self, scope, receive, send).run()


class _Exchange:
    """One request and its answer."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.headers = Headers(scope=scope)
        self.path = scope["path"].removeprefix(scope.get("root_path", ""))  # as the app has it, wherever it is mounted
        self.size, self.is_read, self.status = 0, False, 0
        self.refusal: RefusedError | None = None

    async def run(self) -> None:
        guard, began = self.guard, time.perf_counter()
        guard.service.metrics.began()
        try:
            await self._check()
            async with asyncio.timeout(guard.settings.timeout):
                await guard.app(self.scope, self.receive, self.send)
        except RefusedError as error:
            self.refusal = error
        except TimeoutError:
            self.refusal = self._late()
        except Exception as error:
            log.error("%s %s failed", self.scope["method"], self.path, exc_info=error)
            self.refusal = RefusedError(500, "the service failed; its log says why")
        finally:
            if self.refusal is not None and not self.status:
                await self._refuse(self.refusal)
            route = getattr(self.scope.get("route"), "path", "/static" if self.path.startswith("/static/") else "other")
            method = self.scope["method"] if self.scope["method"] in METHODS else "other"
            guard.service.metrics.ended(method, route, self.status, time.perf_counter() - began)
            guard.service.answered += 1

    async def receive(self) -> Message:
        """The body, as long as it is not too large."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.size += len(message.get("body", b""))
            self.is_read = not message.get("more_body", False)
            if self.size > self.guard.settings.max_body:
                self.refusal = self._too_large()
                raise self.refusal
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is not None and not self.status:  # whatever the app made of it
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.guard.service.is_draining:
                headers["connection"] = "close"
        await self._send(message)

    async def _refuse(self, error: RefusedError) -> None:
        headers = {**error.headers, **({} if self.is_read else {"connection": "close"})}
        self.refusal = None
        answer = problem(error.status, str(error), self.path, headers=headers)
        await answer(self.scope, self._receive, self.send)

    async def _check(self) -> None:
        guard, path, method = self.guard, self.path, self.scope["method"]
        if path not in OPEN:
            await guard.host_check(self.scope, self._receive, self._refuse_host)
        if method not in ("GET", "HEAD", "OPTIONS") and not self._is_own_page():
            raise RefusedError(403, "a page of another web site may not ask this; allow it with --origin")
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > guard.settings.max_body:
            raise self._too_large()
        if path not in (*OPEN, "/") and not path.startswith("/static/"):
            self._check_token()

    async def _refuse_host(self, _: Message) -> None:
        """In place of the plain text that Starlette would send."""
        host, names = self.headers.get("host", "")[:80], ", ".join(self.guard.hosts)
        raise RefusedError(421, f"this service is not called {host!r}; it goes by {names} (--name)")

    def _is_own_page(self) -> bool:
        """Browsers say which page a request comes from; other clients say nothing."""
        origin = self.headers.get("origin")
        if origin is None or origin in self.guard.settings.origins:
            return True
        try:
            return urlsplit(origin).netloc == self.headers.get("host")
        except ValueError:
            return False

    def _check_token(self) -> None:
        token = self.guard.settings.token
        if token is None:
            return
        scheme, _, given = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = ""
        if not hmac.compare_digest(given.strip().encode("latin-1"), token.encode()):
            raise RefusedError(
                401, "a token is needed: send the header 'Authorization: Bearer TOKEN'", {"www-authenticate": "Bearer"}
            )

    def _too_large(self) -> RefusedError:
        most = self.guard.settings.max_body
        return RefusedError(413, f"the request is larger than {most:,} bytes; send less at once")

    def _late(self) -> RefusedError:
        seconds = f"{self.guard.settings.timeout:g} s"
        if self.scope["method"] not in ("GET", "HEAD") and not self.is_read:
            return RefusedError(408, f"the request was not complete after {seconds}; send it again")
        return RefusedError(503, f"no answer after {seconds}; ask for less, or again later", {"retry-after": "1"})


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Behind the check of the host."""
