"""Limits on connections: how long and how large a header may be, how many are open, how long an unread response waits.

uvicorn has such limits only for its slower parser, and none on idle connections. Those of requests are in `guard`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from contextlib import suppress
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from macrid.serving.guard import is_upload
from macrid.serving.problems import RefusedError, problem, title
from macrid.settings import ServingSettings

log = logging.getLogger("macrid.serving")
SWEEP = 0.5  # seconds between looks at the deadlines
GRACE = 5.0  # seconds for the rest of a body after the guard has given up on it
SPARE_FILES = 16  # for reading runs and pictures, besides those open at the start
FEWEST = 4  # connections, whatever the limit on open files
QUIET = 60.0  # seconds between two log lines about too many connections
FRAMING = 6  # bytes that a body of one-byte chunks takes per byte


class Door:
    """The connections of one process. It is pickled for worker processes, before the first connection."""

    def __init__(self, settings: ServingSettings) -> None:
        self.settings = settings
        self.waiting: dict[Connection, None] = {}
        """Those without a request in progress, in the order in which they began to wait."""
        self._most = 0
        self._quiet_until = 0.0

    def admit(self, new: Connection) -> None:
        """Make room by closing the connection that has waited longest, or else refuse the new one."""
        if not self._most:
            self._most = most_connections(self.settings.max_connections)
            new.loop.call_later(SWEEP, self._sweep, new.loop, new.connections)
        if len(new.connections) > self._most:
            self._report(new.loop.time())
            oldest = next((each for each in self.waiting if not each.transport.get_write_buffer_size()), None)
            if oldest is None:
                new.refuse(503, "too many connections; try again", {"retry-after": "1"})
                return
            self.waiting.pop(oldest)
            oldest.transport.abort()
        self.waiting[new] = None

    def _report(self, now: float) -> None:
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET
            log.warning(
                "%d connections are open, the most allowed (max_connections, open files);"
                " closing those that have waited longest",
                self._most,
            )

    def _sweep(self, loop: asyncio.AbstractEventLoop, connections: set[Any]) -> None:
        now = loop.time()
        for connection in list(connections):
            if connection.is_stalled(now):
                connection.transport.abort()
            elif connection.deadline <= now and not connection.transport.is_closing():
                connection.expire()
        loop.call_later(SWEEP, self._sweep, loop, connections)


class Connection(HttpToolsProtocol):
    """A connection with deadlines: for each header, for the rest of the request, and for closing."""

    def __init__(self, door: Door, **more: Any) -> None:
        super().__init__(**more)
        self.door, self.deadline = door, math.inf
        self._is_in_header = self._began_now = self._is_upload = False
        self._current: RequestResponseCycle | None = None
        self._received = self._body = 0  # bytes of the current request
        self._unread, self._read_at = 0, math.inf  # bytes that the client has yet to read, and when it last read some

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(self.door.settings.header_timeout)
        self.door.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.waiting.pop(self, None)
        if self._current is not None and not self._current.response_complete:
            self._current.disconnected = True  # uvicorn tells only the last of several requests sent at once
            self._current.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._began_now = False
        if self.deadline == math.inf and self in self.door.waiting:  # even if it sends only empty lines
            self._expect(self.door.settings.header_timeout)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # the request itself is answered, in plain HTTP
            self.parser = httptools.HttpRequestParser(self)
        except httptools.HttpParserError:
            if self._received > self.door.settings.max_header:
                self._refuse_header()
            else:
                self.refuse(400, "this is not HTTP/1.1")
            return
        if not self._began_now:  # otherwise the data may belong to earlier requests
            self._received += len(data)
        if self._received - FRAMING * self._body > self.door.settings.max_header:
            self._refuse_header()
        elif self._body > self.door.settings.max_body and self.cycle.response_complete:
            self.transport.close()  # still sending, although it has its response

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._began_now = self._is_in_header = True
        self._received = self._body = 0
        self._expect(self.door.settings.header_timeout)

    def on_headers_complete(self) -> None:
        self._is_in_header = False
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.door.settings.max_header:
            self._received = size
            raise ValueError  # ends the parser
        self.door.waiting.pop(self, None)
        self._expect(self.door.settings.timeout + GRACE)
        super().on_headers_complete()
        self._is_upload = is_upload(dict(self.scope))

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        if self._is_upload:  # the guard sees to it that it goes on
            self._expect(self.door.settings.timeout + GRACE)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._expect(math.inf)  # the guard limits the time for the response
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.door.waiting[self] = None

    def is_stalled(self, now: float) -> bool:
        """Whether the client has stopped reading its responses."""
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread or self._read_at == math.inf:
            self._read_at = now if unread else math.inf
        self._unread = unread
        return now - self._read_at > self.door.settings.timeout

    def expire(self) -> None:
        """End a request that is not complete in time."""
        if self._is_in_header:
            self.refuse(408, "the header was incomplete; send it again")
        else:
            self.transport.close()

    def refuse(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        """Respond without the app, and close."""
        if self.cycle is None or self.cycle.response_complete:  # no response is on its way
            answer = problem(RefusedError(status, detail, {"connection": "close", **(headers or {})}), "")
            lines = [f"HTTP/1.1 {status} {title(status)}".encode(), *(b": ".join(pair) for pair in answer.raw_headers)]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.door.waiting.pop(self, None)
        self.transport.close()

    def _refuse_header(self) -> None:
        self.refuse(431, f"the header exceeds {self.door.settings.max_header:,} bytes; send a shorter one")

    def _expect(self, seconds: float) -> None:
        """Set the deadline of what comes next."""
        self.deadline = self.loop.time() + seconds


def most_connections(wanted: int) -> int:
    """As many as wanted, or as the limit on open files leaves room for."""
    with suppress(ImportError, OSError, AttributeError):  # Windows
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit != resource.RLIM_INFINITY:
            return min(wanted, max(FEWEST, limit - len(os.listdir("/dev/fd")) - SPARE_FILES))
    return wanted
