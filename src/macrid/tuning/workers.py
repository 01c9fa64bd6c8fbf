"""Processes that run one task at a time each, so that several trainings share a GPU and one that dies harms no other.

Every process is a `ProcessPoolExecutor` of its own: one that dies breaks its whole pool.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from macrid.errors import MacridError, TrainingError, first_line
from macrid.models.devices import cores


class Workers:
    """Up to `count` processes, each started when it is first needed."""

    def __init__(self, count: int, *shared: Any) -> None:
        """shared: the first arguments of every task; each process gets them once."""
        self._context = multiprocessing.get_context("spawn")
        self._alive, theirs = self._context.Pipe()
        self._given = theirs, max(1, cores() // count), shared
        self._pools: list[ProcessPoolExecutor | None] = [None] * count
        self._futures: list[Future | None] = [None] * count

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        """End all processes, whatever they are doing."""
        self._alive.close()
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        self._given[0].close()

    def idle(self) -> list[int]:
        """Which processes have nothing to do."""
        return [slot for slot, future in enumerate(self._futures) if future is None or future.done()]

    def submit(self, task: Callable[..., Any], *args: Any) -> Future:
        """Run task(*shared, *args) in an idle process, of which there must be one."""
        slot = self.idle()[0]
        last, pool = self._futures[slot], self._pools[slot]
        if pool is None or last is None or not isinstance(last.exception(), MacridError | None):
            pool = self._replace(slot)  # a GPU that has failed once fails from then on
        try:
            with _without_interrupts():
                try:
                    future = pool.submit(_run, task, args)
                except BrokenProcessPool:  # it died while it was idle
                    future = self._replace(slot).submit(_run, task, args)
        except OSError as error:
            raise MacridError(f"a process to train in could not be started ({first_line(error)})") from error
        self._futures[slot] = future
        return future

    def _replace(self, slot: int) -> ProcessPoolExecutor:
        before = self._pools[slot]
        if before is not None:
            before.shutdown(wait=False)
        self._pools[slot] = pool = ProcessPoolExecutor(1, self._context, _prepare, self._given)
        return pool


def run_all(
    task: Callable[..., Any], items: Iterable[Any], jobs: int, *shared: Any
) -> Iterator[tuple[int, Any | MacridError]]:
    """Run task(*shared, item) for each item, up to `jobs` at a time, in processes of their own.

    Yields the position of an item and what its task returned, or the error with which it failed, as they end. Task,
    items and what is shared are pickled; a script calls this under `if __name__ == "__main__":`.
    """
    waiting = list(enumerate(items))[::-1]
    running: dict[Future, int] = {}
    with Workers(jobs, *shared) as workers:
        while waiting or running:
            for _ in workers.idle()[: len(waiting)]:
                position, item = waiting.pop()
                running[workers.submit(task, item)] = position
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                position = running.pop(future)
                try:
                    result = result_of(future)
                except MacridError as error:
                    result = error
                yield position, result


def result_of(future: Future) -> Any:
    """What a task returned; whatever went wrong is a `MacridError`."""
    try:
        return future.result()
    except MacridError:
        raise
    except BrokenProcessPool:
        raise TrainingError("the process that trained it was killed; memory may have run out") from None
    except Exception as error:
        raise TrainingError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process started here never hears of Ctrl-C, which is for the one that asked."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover  (Windows)
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_shared: list[Any] = []  # in a worker: what every task gets


def _prepare(alive: Connection, threads: int, shared: tuple[Any, ...]) -> None:
    """First thing in a worker."""
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    _shared[:] = shared
    warnings.simplefilter("ignore")  # of collapsed concepts and the like: most trials are bad ones
    import torch

    torch.set_num_threads(threads)


def _end_with(alive: Connection) -> None:
    """End when the other side is closed, or its process has ended, however that happened."""
    with suppress(EOFError, OSError):
        alive.recv()
    os._exit(1)


def _run(task: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    import torch

    gc.collect()  # what the task before has left
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return task(*_shared, *args)
