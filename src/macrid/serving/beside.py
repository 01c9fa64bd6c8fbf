"""Runs beside the served one: what there is, and one of them loaded, to compare lists with."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from macrid.errors import MacridError, RunError
from macrid.models.devices import memory_left
from macrid.runs import FILES, read_config, read_metrics, weights_digest
from macrid.serving.hosted import Hosted
from macrid.serving.problems import RefusedError
from macrid.settings import ServingSettings

log = logging.getLogger("macrid.serving")
MOST_RUNS = 200  # folders that are looked at
KEPT = 300.0  # seconds after the last request
MEMORY_PER_BYTE = 8  # on disk: tables are compressed, and there are indices for search and scoring
LEAST_MEMORY = 100 * 2**20
LEAST_SHARED = 0.5  # of the shared ids, whose items must have the same titles


class Beside:
    """One extra run of one process. Requests to it take turns, so none is left with a run that has been released."""

    def __init__(self, settings: ServingSettings, at_length: Callable[..., Awaitable[Any]]) -> None:
        """at_length: runs a function on a thread."""
        # On the CPU: one list at a time is fast enough, and the served run needs the memory of the GPU.
        self._settings = settings.model_copy(update={"users": None, "events": None, "device": "cpu"})
        self._at_length = at_length
        self._turn = asyncio.Lock()
        self._loading: asyncio.Task[Hosted] | None = None
        self._loaded: Hosted | None = None
        self._served: Hosted | None = None  # what it was found to be comparable with
        self._release: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str | None:
        """The run that is loaded."""
        return None if self._loaded is None else self._loaded.run.name

    @asynccontextmanager
    async def using(self, run: Path, served: Hosted) -> AsyncIterator[Hosted]:
        """A run for one request. It stays for a while, unless another one is wanted."""
        if served.is_same(run):
            yield served
            return
        async with self._turn:
            if self._release is not None:
                self._release.cancel()
            try:
                hosted = await self._get(run)
                if self._served is not served:
                    await self._at_length(check_comparable, served, hosted)
                    self._served = served
                yield hosted
            finally:
                self._release = asyncio.get_running_loop().call_later(KEPT, self.close)

    async def _get(self, run: Path) -> Hosted:
        if self._loading is not None:  # whoever asked has stopped waiting
            with suppress(Exception):
                await asyncio.shield(self._loading)
        if self._loaded is not None and self._loaded.is_same(run):
            return self._loaded
        self.close()
        self._loading = asyncio.get_running_loop().create_task(self._load(run))
        self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be waiting
        return await asyncio.shield(self._loading)

    async def _load(self, run: Path) -> Hosted:
        try:
            self._loaded = await self._at_length(self._open, run)
            return self._loaded
        finally:
            self._loading = None

    def _open(self, run: Path) -> Hosted:
        check_memory(run)
        try:
            return Hosted(run, self._settings)
        except (MacridError, OSError) as error:
            reason = str(error)
            for folder in (run.parent, run.resolve().parent):
                reason = reason.replace(f"{folder}{os.sep}", "")
            raise RunError(f"the run cannot be compared: {reason}") from error

    def close(self) -> None:
        """Release the run."""
        if self._loaded is not None:
            log.info("released %s, which was loaded for comparisons", self._loaded.run.name)
            self._loaded.close()
            self._loaded = self._served = None
            gc.collect()  # a run refers to itself, and may be large


def check_memory(run: Path) -> None:
    """Refuse a run that would take more memory than is free."""
    size = sum((run / name).stat().st_size for name in FILES if (run / name).is_file())
    needed, free = LEAST_MEMORY + MEMORY_PER_BYTE * size, memory_left(torch.device("cpu"))
    if needed > free:
        raise RefusedError(
            503,
            f"loading {run.name} takes about {needed / 2**20:,.0f} MiB, and only {free / 2**20:,.0f} MiB are free;"
            " compare the runs with `macrid diff` on another machine",
        )


def check_comparable(served: Hosted, other: Hosted) -> None:
    """Refuse a run whose items are others."""
    positions = {str(item): at for at, item in enumerate(served.model.items)}
    shared = [(positions[text], at) for at, item in enumerate(other.model.items) if (text := str(item)) in positions]
    if not shared:
        raise RefusedError(
            409, f"{other.run.name} shares no item with {served.run.name}; their lists have nothing in common"
        )
    if served.titles is not None and other.titles is not None:
        same = sum(served.titles[one] == other.titles[at] for one, at in shared)
        if same < LEAST_SHARED * len(shared):
            raise RefusedError(
                409,
                f"{other.run.name} has other items under the ids of {served.run.name}:"
                f" only {same:,} of {len(shared):,} titles are the same",
            )


def runs_beside(current: Path, served: Hosted) -> list[dict[str, Any]]:
    """As the schema `RunBeside`: the runs in the folder of the current one, which comes first, then the newest."""
    folder = current.resolve().parent
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    runs = []
    for name in names[:MOST_RUNS]:
        with suppress(MacridError, OSError, ValueError):  # another kind of folder, or a damaged run
            runs.append(_described(folder / name) | {"is_current": (folder / name).resolve() == served.run})
    return sorted(runs, key=lambda run: (run["is_current"], run["trained"]), reverse=True)


def _described(run: Path) -> dict[str, Any]:
    config, scores = read_config(run), read_metrics(run)
    trained = datetime.fromtimestamp((run / "model.safetensors").stat().st_mtime, UTC)
    accuracy = next(
        (scores[group]["metrics"]["ndcg@100"]["mean"] for group in ("test", "validation") if group in scores), None
    )
    return {
        "name": run.name,
        "run_id": weights_digest(run)[:12],
        "model": str(config["class"]),
        "source": (config.get("data") or {}).get("source"),
        "items": pq.read_metadata(run / "items.parquet").num_rows,
        "trained": trained.isoformat(timespec="seconds"),
        "accuracy": accuracy,
    }
