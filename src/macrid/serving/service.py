"""The service: which run is served, how it is asked, and how another one takes its place."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
SLOW_THREADS = 2  # for what is not a batch and takes some milliseconds: cards, searches, walks
LONG_THREADS = 2  # for what takes longer: explanations, lists of all concepts, many histories at once


class Service:
    """One for each app."""

    def __init__(self, run: str | Path, settings: ServingSettings, shared: Path | None = None) -> None:
        """shared: a folder for what several processes have in common: tables, and which run is served."""
        self.settings, self.shared, self.metrics = settings, shared, Metrics()
        self.run = Path(run)
        self.is_draining, self.answered = False, 0
        self._slow = ThreadPoolExecutor(SLOW_THREADS, thread_name_prefix="macrid-slow")
        self._long = ThreadPoolExecutor(LONG_THREADS, thread_name_prefix="macrid-long")
        self._waiting = {self._slow: 0, self._long: 0}
        self._before: list[Hosted] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._swapping = asyncio.Lock()
        self.hosted = self._host(self.current())
        self._take(self.hosted)

    def _host(self, run: Path) -> Hosted:
        return Hosted(run, self.settings, self.shared, self.metrics.batch)

    def current(self) -> Path:
        """The run to serve: the one that processes have agreed upon, or the one that was given."""
        if self.shared is not None and (self.shared / "run").exists():
            return Path((self.shared / "run").read_text("utf-8"))
        return self.run

    def agree_on(self, run: Path) -> None:
        """Have other processes serve this run, too, once they are told to look."""
        self.run = run
        if self.shared is not None:
            write_atomically(self.shared / "run", str(run))

    async def slowly(self, function: Callable[..., T], *given: Any) -> T:
        """On a thread beside that of the batches: what takes some milliseconds."""
        return await self._on(self._slow, function, *given)

    async def at_length(self, function: Callable[..., T], *given: Any) -> T:
        """On a thread for what takes longer, so that nothing short waits for it."""
        return await self._on(self._long, function, *given)

    async def _on(self, pool: ThreadPoolExecutor, function: Callable[..., T], *given: Any) -> T:
        if self._waiting[pool] >= self.settings.max_waiting:
            raise RefusedError(503, "too many requests are waiting already; try again", {"retry-after": "1"})
        self._waiting[pool] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, lambda: function(*given))
        finally:
            self._waiting[pool] -= 1

    async def reload(self, run: Path | None = None) -> Hosted:
        """Serve a run from now on; requests in flight are answered by the one before. It stays if this one is bad."""
        async with self._swapping:
            wanted = run or self.current()
            if self.hosted.is_same(wanted):
                log.info("%s has not changed", wanted)
                return self.hosted
            try:
                hosted = await asyncio.to_thread(self._host, wanted)
            except Exception as error:
                self.metrics.reloaded("failed")
                log.error("not swapped, the run before is still served: %s", error, exc_info=not _is_told(error))
                why = str(error).replace(f"{wanted.parent}{os.sep}", "") if _is_told(error) else "its log says why"
                why = why.replace(f"{wanted.resolve().parent}{os.sep}", "")
                raise RunError(f"not swapped, the run before is still served: {why}") from error
            before, self.hosted = self.hosted, hosted
            self.metrics.reloaded("swapped")
            self._take(hosted)
            log.info("%s is served now (%s)", hosted.run, hosted.digest)
            self._before.append(before)
            asyncio.get_running_loop().call_later(self.settings.timeout, self._slow.submit, self._forget, before)
            return hosted

    def reload_soon(self) -> None:
        """As `reload`, from a signal: what goes wrong is in the log, and the run before stays."""
        task = asyncio.get_running_loop().create_task(self._reload_quietly())
        self._tasks.add(task)  # the loop alone would let go of it
        task.add_done_callback(self._tasks.discard)

    async def _reload_quietly(self) -> None:
        with suppress(MacridError):
            await self.reload()

    def _forget(self, before: Hosted) -> None:
        """Let go of a run whose last requests are answered."""
        if before in self._before:
            self._before.remove(before)
            before.close()
            if gc.get_freeze_count():
                spare_the_collector()

    def _take(self, hosted: Hosted) -> None:
        """Count its items, and make at once what the first to ask would wait for: its card, its index of titles."""
        self.metrics.serves(len(hosted.model.items))
        self._slow.submit(hosted.card.model)
        self._slow.submit(hosted.search.find, "a", limit=1)

    def beside(self, name: str) -> Path:
        """A run in the folder that holds the one served now."""
        folder = self.current().resolve().parent
        if name in ("", ".", "..") or Path(name).name != name:
            raise RefusedError(422, f"run is {name[:80]!r}; give the name of a folder beside the run, without slashes")
        return folder / name

    def check_may_edit(self) -> None:
        if not may_edit(self.settings):
            raise RefusedError(403, "names and runs cannot be changed over the network here; set a token (--token)")

    def close(self) -> None:
        log.info("ended after %s answers", f"{self.answered:,}")
        for hosted in (*self._before, self.hosted):
            hosted.close()
        for pool in (self._slow, self._long):
            pool.shutdown(wait=False, cancel_futures=True)


def spare_the_collector() -> None:
    """Collect once, then set aside what is left: a catalogue that stays is not looked through again and again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _is_told(error: Exception) -> bool:
    """Whether its message is meant for people."""
    return isinstance(error, MacridError | OSError)
