"""Worker processes with one task each, so that trainings can share a GPU and a crash does not affect the others.

Each is a `ProcessPoolExecutor` of one process, since a process that dies breaks its whole pool.
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
from macrid.openmp import cores


class Workers:
    """Up to `count` processes, started when first needed."""

    def __init__(self, count: int, *shared: Any) -> None:
        """shared: the first arguments of every task; each process gets them once."""
        self._context = multiprocessing.get_context("spawn")
        self._alive, theirs = self._context.Pipe()
        self._arguments = theirs, max(1, cores() // count), shared
        self._pools: list[ProcessPoolExecutor | None] = [None] * count
        self._futures: list[Future | None] = [None] * count

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        """Stop all processes, even busy ones."""
        self._alive.close()
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        self._arguments[0].close()

    def idle(self) -> list[int]:
        """The slots of idle processes."""
        return [slot for slot, future in enumerate(self._futures) if future is None or future.done()]

    def submit(self, task: Callable[..., Any], *args: Any) -> Future:
        """Run task(*shared, *args) in an idle process; there must be one."""
        slot = self.idle()[0]
        last, pool = self._futures[slot], self._pools[slot]
        if pool is None or last is None or not isinstance(last.exception(), MacridError | None):
            pool = self._replace(slot)  # after a GPU error, every later call in the process fails
        try:
            with _without_interrupts():
                try:
                    future = pool.submit(_run, task, args)
                except BrokenProcessPool:  # it died while idle
                    future = self._replace(slot).submit(_run, task, args)
        except OSError as error:
            raise MacridError(f"cannot start a training process ({first_line(error)})") from error
        self._futures[slot] = future
        return future

    def _replace(self, slot: int) -> ProcessPoolExecutor:
        before = self._pools[slot]
        if before is not None:
            before.shutdown(wait=False)
        self._pools[slot] = pool = ProcessPoolExecutor(1, self._context, _prepare, self._arguments)
        return pool


def run_all(
    task: Callable[..., Any], items: Iterable[Any], jobs: int, *shared: Any
) -> Iterator[tuple[int, Any | MacridError]]:
    """Run task(*shared, item) for each item, up to `jobs` at a time, in separate processes.

    Yields each item's position with its result, or the error it failed with, as tasks end. Everything is pickled; a
    script must call this under `if __name__ == "__main__":`.
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
    """The result of a task; any error becomes a `MacridError`."""
    try:
        return future.result()
    except MacridError:
        raise
    except BrokenProcessPool:
        raise TrainingError("the training process was killed; memory may have run out") from None
    except Exception as error:
        raise TrainingError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started here ignore Ctrl-C, which is for the parent."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover  (Windows)
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_shared: list[Any] = []  # in a worker: the first arguments of every task


def _prepare(alive: Connection, threads: int, shared: tuple[Any, ...]) -> None:
    """Initialise a worker."""
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    _shared[:] = shared
    warnings.simplefilter("ignore")  # such as of collapsed concepts: most trials are bad
    import torch

    torch.set_num_threads(threads)


def _end_with(alive: Connection) -> None:
    """Exit when the parent closes its side or ends, for whatever reason."""
    with suppress(EOFError, OSError):
        alive.recv()
    os._exit(1)


def _run(task: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    import torch

    gc.collect()  # left by the previous task
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return task(*_shared, *args)
