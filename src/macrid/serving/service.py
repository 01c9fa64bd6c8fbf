"""The service: the run it serves, its threads, and reloading."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

from macrid.cold import Placer
from macrid.data.databases import NETWORK_TIMEOUT
from macrid.errors import MacridError, RunError
from macrid.files import write_atomically
from macrid.serving.beside import Beside
from macrid.serving.events import AWAY, EventStore
from macrid.serving.guard import may_edit, may_train
from macrid.serving.hosted import Hosted
from macrid.serving.metrics import Metrics
from macrid.serving.problems import RefusedError
from macrid.serving.standing import Standing
from macrid.serving.training import Training
from macrid.settings import ServingSettings

T = TypeVar("T")
log = logging.getLogger("macrid.serving")
SLOW_THREADS = 2  # for work of some milliseconds: cards, searches, walks
LOOK = 2.0  # seconds between looks at the users' file and the event store
LONG_THREADS = 2  # for longer work: explanations, lists of all concepts, many histories


class Service:
    """One per app."""

    def __init__(
        self, run: str | Path, settings: ServingSettings, shared: Path | None, on_reload: Callable[[], None]
    ) -> None:
        """shared: a folder for what several processes share: tables, and the path of the run.

        on_reload: called after a client has had a run loaded, so that other processes follow.
        """
        self.settings, self.shared, self.on_reload, self.metrics = settings, shared, on_reload, Metrics()
        self.run = Path(run)
        self.is_draining, self.answered, self._has_started = False, 0, False
        self._slow = ThreadPoolExecutor(SLOW_THREADS, thread_name_prefix="macrid-slow")
        self._long = ThreadPoolExecutor(LONG_THREADS, thread_name_prefix="macrid-long")
        self._waiting = {self._slow: 0, self._long: 0}
        self._before: list[Hosted] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._swapping = asyncio.Lock()
        self.events = None if settings.events is None else EventStore(settings.events, settings, self.metrics)
        self._stopped = Event()
        self._watcher: Thread | None = None
        self.hosted = self._host(self.current())
        self.standing = Standing(self.run, settings, self.hosted)
        self.compared = Beside(settings, self.at_length)
        self.training = Training(settings, lambda: self.current().resolve().parent)

    def start(self) -> None:
        """Called when requests are about to come. No thread starts before: it would not survive a fork."""
        if not self._has_started:
            self._has_started = True
            self._take(self.hosted)
            if may_train(self.settings):
                self._slow.submit(self.training.tidy)
            if self.events is not None or self.settings.users is not None:
                self._watcher = Thread(target=self._watch, name="macrid-watch", daemon=True)
                self._watcher.start()

    def _watch(self) -> None:
        """Follow what changes outside this process."""
        while not self._stopped.wait(LOOK):
            try:
                if self.events is not None:
                    self.events.look()
                if self.hosted.users.has_changed():
                    self._reread_users()
            except RunError:  # logged already
                pass
            except Exception as error:
                log.error("looking for new users failed", exc_info=error)

    def _host(self, run: Path, placer: Placer | None = None) -> Hosted:
        return Hosted(run, self.settings, self.shared, self.metrics.batch.observe, self.events, placer)

    def _host_by_rules(self, run: Path, placer: Placer | None) -> Hosted:
        """An error if the standing rules do not suit a run."""
        hosted = self._host(run, placer)
        try:
            self.standing.check(hosted)
        except MacridError:
            hosted.close()
            raise
        return hosted

    def current(self) -> Path:
        """The run to serve: the one set by `agree_on` in any process, or else the original."""
        if self.shared is not None and (self.shared / "run").exists():
            return Path((self.shared / "run").read_text("utf-8"))
        return self.run

    def agree_on(self, run: Path) -> None:
        """Make other processes serve this run from their next reload."""
        self.run = run
        if self.shared is not None:
            write_atomically(self.shared / "run", str(run))

    async def slowly(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function of some milliseconds on a thread."""
        return await self._on(self._slow, function, *arguments)

    async def at_length(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a longer function on a thread, so that short ones need not wait for it."""
        return await self._on(self._long, function, *arguments)

    async def _on(self, pool: ThreadPoolExecutor, function: Callable[..., T], *arguments: Any) -> T:
        if self._waiting[pool] >= self.settings.max_waiting:
            raise RefusedError(503, "too many requests are waiting; try again", {"retry-after": "1"})
        self._waiting[pool] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, lambda: function(*arguments))
        finally:
            self._waiting[pool] -= 1

    async def reload(self, run: Path | None = None) -> Hosted:
        """Load a run, or keep the current one if that fails; requests in flight finish with the old one.

        It goes on if whoever requested it stops waiting.
        """
        task = asyncio.get_running_loop().create_task(self._reload(run))
        self._tasks.add(task)  # the loop keeps only a weak reference
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def change(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that changes the run, then serve what it made of it, here and in other processes.

        It goes on if whoever requested it stops waiting.
        """
        task = asyncio.get_running_loop().create_task(self._change(function, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _change(self, function: Callable[..., T], *arguments: Any) -> T:
        result = await self.at_length(function, *arguments)
        await self._reload(None)
        self.on_reload()
        return result

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # logged already; an error that nobody asks for would be reported again

    async def _reload(self, run: Path | None) -> Hosted:
        async with self._swapping:
            path = run or self.current()
            if self.hosted.is_same(path):
                log.info("%s has not changed", path)
                if self.settings.users is not None:
                    await asyncio.to_thread(self._reread_users)
                return self.hosted
            try:
                hosted = await asyncio.to_thread(self._host_by_rules, path, self.hosted.known_placer(path))
            except Exception as error:
                is_readable = isinstance(error, MacridError | OSError)  # its message is meant for users
                self.metrics.reloads.labels("failed").inc()
                log.error("reload failed, still serving the old run: %s", error, exc_info=not is_readable)
                reason = str(error) if is_readable else "see the log of the service"
                for folder in (path.parent, path.resolve().parent):
                    reason = reason.replace(f"{folder}{os.sep}", "")
                raise RunError(f"reload failed, still serving the old run: {reason}") from error
            before, self.hosted = self.hosted, hosted
            self.metrics.reloads.labels("swapped").inc()
            self._take(hosted)
            log.info("now serving %s (%s)", hosted.run, hosted.digest)
            self._before.append(before)
            asyncio.get_running_loop().call_later(self.settings.timeout, self._slow.submit, self._forget, before)
            return hosted

    def _reread_users(self) -> None:
        try:
            self.hosted.users.reread()
        except RunError as error:
            self.metrics.users_reads.labels("failed").inc()
            log.error("%s", error)
            raise
        self.metrics.users_reads.labels("read").inc()
        self.metrics.users.set(len(self.hosted.users))
        log.info("read %s users again", f"{len(self.hosted.users):,}")

    def reload_soon(self) -> None:
        """As `reload`, for signal handlers: errors only go to the log."""
        task = asyncio.get_running_loop().create_task(self._reload(None))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _forget(self, before: Hosted) -> None:
        """Release an old run after its last request."""
        if before in self._before:
            self._before.remove(before)
            before.close()
            if gc.get_freeze_count():
                spare_the_collector()

    def _take(self, hosted: Hosted) -> None:
        """Report its size, and prepare the card, the search index and the vocabulary before the first request."""
        self.metrics.items.set(len(hosted.model.items))
        self.metrics.users.set(len(hosted.users))
        self._slow.submit(hosted.card.model)
        self._slow.submit(hosted.search.find, "a", limit=1)
        self._slow.submit(hosted.words)

    def beside(self, name: str) -> Path:
        """A run in the same folder as the current one."""
        if name in ("", ".", "..") or Path(name).name != name:
            raise RefusedError(422, f"run: {name[:80]!r} is not the name of a folder beside the current run")
        run = self.current().resolve().parent / name
        if not run.is_dir():
            raise RefusedError(404, f"no run {name[:80]!r} beside the current one")
        return run

    def check_may_edit(self, what: str = "renaming, reloading, adding items and changing rules") -> None:
        """what: in the plural."""
        if self.settings.edits == "no":
            raise RefusedError(403, f"{what} are switched off (--edits no)")
        if not may_edit(self.settings):
            raise RefusedError(403, f"{what} over the network need a token; set one with --token")

    def check_may_train(self) -> None:
        if self.settings.training == "no":
            raise RefusedError(403, "training from the page is switched off (--no-training)")
        self.check_may_edit("trainings from the page")
        if not may_train(self.settings):
            raise RefusedError(403, "training from the page needs a local service of one process, or --training")

    def event_store(self) -> EventStore:
        if self.events is None:
            raise RefusedError(409, "this service keeps no events; start it with --events URL or MACRID_EVENTS=URL")
        return self.events

    async def waiting_for_events(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that looks up users: on a thread if there is an event store, which it may wait for."""
        return function(*arguments) if self.events is None else await self.events.on_thread(function, *arguments)

    def warnings(self) -> list[str]:
        """What somebody should look after."""
        problems = (
            self.hosted.users.problem, self.standing.problem, self.events and self.events.problem and AWAY
        )  # fmt: skip
        return [problem for problem in problems if problem]

    def close(self) -> None:
        log.info("stopped after %s responses", f"{self.answered:,}")
        self._stopped.set()
        self.training.close()
        if self._watcher is not None:
            self._watcher.join(NETWORK_TIMEOUT)  # it may be waiting for the database
        if self.events is not None:
            self.events.close()
        self.compared.close()
        for hosted in (*self._before, self.hosted):
            hosted.close()
        for pool in (self._slow, self._long):
            pool.shutdown(wait=False, cancel_futures=True)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def spare_the_collector() -> None:
    """Collect once, then exempt the rest: a long-lived catalogue need not be scanned again and again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
