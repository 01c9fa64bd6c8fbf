"""The events of users while the service runs: read on every request, cached while nothing has changed.

While the database is away, requests get what was read before, and new events are tried for some seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from macrid.data.eventlog import Event, UserState, open_log
from macrid.errors import DatabaseError
from macrid.models.forks import new_lock
from macrid.serving.metrics import Metrics
from macrid.serving.problems import RefusedError
from macrid.settings import ServingSettings

T = TypeVar("T")
log = logging.getLogger("macrid.serving")
THREADS = 4  # that wait for the database, each with a connection
MOST_CACHED = 200_000  # events
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between tries
LONGEST_TRYING = 10.0  # seconds
STATEMENT_TIMEOUT = 5.0  # seconds
RETRY = {"retry-after": "5"}
AWAY = "the event store is not available; events since the last request may be missing"


class Recorded(NamedTuple):
    """What the store knows about a user."""

    items: Sequence[tuple[str, float | None]] = ()
    """Of the latest events, with their ratings, newest first."""
    is_erased: bool = False
    """Whether to hide what other sources know."""
    is_current: bool = True
    """False while the database is away: it may have more."""


class EventStore:
    """One per process."""

    def __init__(self, url: str, settings: ServingSettings, metrics: Metrics) -> None:
        self.log = open_log(url, patience=STATEMENT_TIMEOUT)
        self._erased = self.log.erased()
        self.log.close()  # a forked process must not share a connection
        self._settings, self._metrics = settings, metrics
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="macrid-events")
        self._waiting, self._lock = 0, new_lock()
        self._cache: OrderedDict[str, tuple[UserState, list[tuple[str, float | None]]]] = OrderedDict()
        self._cached = 0
        self.problem: str | None = None
        """Why the database is not available."""
        metrics.event_store.set(1)

    async def on_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that waits for the database."""
        if self._waiting >= self._settings.max_waiting:
            raise RefusedError(503, "too many requests are waiting; try again", {"retry-after": "1"})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*arguments))
        finally:
            self._waiting -= 1

    # Reading

    def read(self, user: str) -> Recorded:
        """What is known about a user; never an error."""
        if "\0" in user:  # which no event has, and which PostgreSQL refuses
            return Recorded()
        if self.problem is None:
            try:
                return self._read(user)
            except DatabaseError as error:
                self._set_problem(error)
        with self._lock:
            _, items = self._cache.get(user, (None, []))
        return Recorded(items, self.log.hash_of(user) in self._erased, is_current=False)

    def _read(self, user: str) -> Recorded:
        state = self.log.state(user)
        with self._lock:
            cached = self._cache.get(user)
            if cached is not None and cached[0] == state:
                self._cache.move_to_end(user)
                return Recorded(cached[1], state.is_erased)
        items = [] if state.stamp is None else self.log.latest(user, self._settings.max_history)
        self._keep(user, state, items)
        return Recorded(items, state.is_erased)

    def _keep(self, user: str, state: UserState, items: list[tuple[str, float | None]]) -> None:
        with self._lock:
            self._drop(user)
            if items:
                self._cache[user] = state, items
                self._cached += len(items)
            while self._cached > MOST_CACHED:
                self._drop(next(iter(self._cache)))

    def _drop(self, user: str) -> None:
        _, items = self._cache.pop(user, (None, ()))
        self._cached -= len(items)

    def users(self, prefix: str, limit: int) -> list[str]:
        """Users with events whose id starts with a prefix; none while the database is away."""
        try:
            return self.log.users(prefix, limit) if self.problem is None and "\0" not in prefix else []
        except DatabaseError as error:
            self._set_problem(error)
            return []

    def erased(self) -> set[str]:
        """Hashes of the ids of erased users."""
        return self._erased

    # Writing

    async def append(self, user: str, events: Sequence[Event]) -> int:
        """Store events; returns how many were new. They are on disk then."""
        added = await self._persistently(self.log.append, user, events)
        self._metrics.events.labels("added").inc(added)
        self._metrics.events.labels("known").inc(len(events) - added)
        return added

    async def export(self, user: str) -> list[Event]:
        return await self._persistently(self.log.events, user)

    async def erase(self, user: str) -> int:
        """Delete a user's events; other processes drop theirs from memory within seconds, and show none of them."""
        deleted = await self._persistently(self.log.erase, user)
        with self._lock:
            self._drop(user)
            self._erased = self._erased | {self.log.hash_of(user)}
        return deleted

    async def _persistently(self, function: Callable[..., T], *arguments: Any) -> T:
        """Try until the database is back, for some seconds."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        deadline = loop.time() + min(LONGEST_TRYING, 0.6 * self._settings.timeout)
        while True:
            try:
                result = await self.on_thread(function, *arguments)
                self._clear_problem()
                return result
            except DatabaseError as error:
                self._set_problem(error)
                if loop.time() + pause > deadline:
                    self._metrics.events.labels("failed").inc()
                    detail = "the event store is not available; send the same request again later"
                    raise RefusedError(503, detail, RETRY) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    # The database comes and goes

    def look(self) -> None:
        """Called every few seconds: try again if the database was away, and forget users erased by other processes."""
        try:
            erased = self.log.erased() if self.problem is not None or self.log.erasures() != len(self._erased) else None
        except DatabaseError as error:
            self._set_problem(error)
            return
        self._clear_problem()
        if erased is None:
            return
        with self._lock:
            new, self._erased = erased - self._erased, erased
            for user in [user for user in self._cache if new and self.log.hash_of(user) in new]:
                self._drop(user)

    def _set_problem(self, error: DatabaseError) -> None:
        with self._lock:
            is_new, self.problem = self.problem is None, str(error)
        if is_new:
            log.error("%s; serving what was read before", error)
            self._metrics.event_store.set(0)

    def _clear_problem(self) -> None:
        with self._lock:
            was_away, self.problem = self.problem is not None, None
        if was_away:
            log.info("the event store is available again")
            self._metrics.event_store.set(1)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.log.close()
