"""The service: which run is served, how it is asked, and how another one takes its place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from macrid.config import ServingSettings
from macrid.errors import MacridError, RunError
from macrid.files import write_atomically
from macrid.serving.batching import Batcher
from macrid.serving.card import Card
from macrid.serving.guard import may_edit
from macrid.serving.metrics import Metrics
from macrid.serving.problems import RefusedError
from macrid.serving.scoring import Answer, Ask
from macrid.serving.served import Served

T = TypeVar("T")
log = logging.getLogger("macrid.serving")
SLOW_THREADS = 2  # for what is not a batch: explanations, walks, cards


class Hosted:
    """A run in service: what it is, what it is asked through, and what it tells of itself."""

    def __init__(self, run: Path, service: Service) -> None:
        self.served = Served(run, service.settings, service.shared)
        self.card = Card(self.served, service.settings, may_edit(service.settings))
        self.batcher: Batcher[Ask, Answer] = Batcher(
            self.served.scorer.answer, service.settings.together, service.settings.max_waiting, service.metrics.batch
        )

    def close(self) -> None:
        self.served.close()
        self.batcher.close()


class Service:
    """One for each app."""

    def __init__(self, run: str | Path, settings: ServingSettings, shared: Path | None = None) -> None:
        """shared: a folder for what several processes have in common: tables, and which run is served."""
        self.settings, self.shared, self.metrics = settings, shared, Metrics()
        self.run = Path(run)
        self.is_draining, self.answered = False, 0
        self._slow = ThreadPoolExecutor(SLOW_THREADS, thread_name_prefix="macrid-slow")
        self._swapping = asyncio.Lock()
        self.hosted = Hosted(self.current(), self)
        self._take(self.hosted)

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
        """On a thread beside that of the batches."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, lambda: function(*given))

    async def reload(self, run: Path | None = None) -> Hosted:
        """Serve a run from now on; requests in flight are answered by the one before. It stays if this one is bad."""
        async with self._swapping:
            try:
                hosted = await self.slowly(Hosted, run or self.current(), self)
            except (MacridError, OSError) as error:
                self.metrics.reloaded("failed")
                log.error("not swapped, the run before is still served: %s", error)
                raise RunError(f"not swapped, the run before is still served: {error}") from error
            before, self.hosted = self.hosted, hosted
            self.metrics.reloaded("swapped")
            self._take(hosted)
            log.info("%s is served now (%s)", hosted.served.run, hosted.served.digest)
            asyncio.get_running_loop().call_later(self.settings.timeout, before.close)
            return hosted

    def _take(self, hosted: Hosted) -> None:
        """Count its items, and make at once what the first to ask would wait for: its card, its index of titles."""
        self.metrics.serves(len(hosted.served.model.items))
        self._slow.submit(hosted.card.model)
        self._slow.submit(hosted.served.search.find, "a", limit=1)

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
        self.hosted.close()
        self._slow.shutdown(wait=False, cancel_futures=True)
