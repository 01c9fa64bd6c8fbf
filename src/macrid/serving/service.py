"""The service: the run it serves, its threads, and reloading."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from macrid.errors import MacridError, RunError
from macrid.files import write_atomically
from macrid.serving.guard import may_edit
from macrid.serving.hosted import Hosted
from macrid.serving.metrics import Metrics
from macrid.serving.problems import RefusedError
from macrid.settings import ServingSettings

T = TypeVar("T")
log = logging.getLogger("macrid.serving")
SLOW_THREADS = 2  # for work of some milliseconds: cards, searches, walks
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
        self._tasks: set[asyncio.Task[Hosted]] = set()
        self._swapping = asyncio.Lock()
        self.hosted = self._host(self.current())

    def start(self) -> None:
        """Called when requests are about to come. No thread starts before: it would not survive a fork."""
        if not self._has_started:
            self._has_started = True
            self._take(self.hosted)

    def _host(self, run: Path) -> Hosted:
        return Hosted(run, self.settings, self.shared, self.metrics.batch.observe)

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

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # logged already; an error that nobody asks for would be reported again

    async def _reload(self, run: Path | None) -> Hosted:
        async with self._swapping:
            path = run or self.current()
            if self.hosted.is_same(path):
                log.info("%s has not changed", path)
                return self.hosted
            try:
                hosted = await asyncio.to_thread(self._host, path)
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
        """Report its size, and prepare the card and the search index before the first request."""
        self.metrics.items.set(len(hosted.model.items))
        self._slow.submit(hosted.card.model)
        self._slow.submit(hosted.search.find, "a", limit=1)

    def beside(self, name: str) -> Path:
        """A run in the same folder as the current one."""
        if name in ("", ".", "..") or Path(name).name != name:
            raise RefusedError(422, f"run: {name[:80]!r} is not the name of a folder beside the current run")
        run = self.current().resolve().parent / name
        if not run.is_dir():
            raise RefusedError(404, f"no run {name[:80]!r} beside the current one")
        return run

    def check_may_edit(self) -> None:
        if self.settings.edits == "no":
            raise RefusedError(403, "renaming and reloading are switched off (--edits no)")
        if not may_edit(self.settings):
            raise RefusedError(403, "renaming and reloading over the network need a token; set one with --token")

    def close(self) -> None:
        log.info("stopped after %s responses", f"{self.answered:,}")
        for hosted in (*self._before, self.hosted):
            hosted.close()
        for pool in (self._slow, self._long):
            pool.shutdown(wait=False, cancel_futures=True)


def spare_the_collector() -> None:
    """Collect once, then exempt the rest: a long-lived catalogue need not be scanned again and again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
