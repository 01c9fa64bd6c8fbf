"""Processes that train one model after the other, so that several fit one GPU, and one that dies harms no other."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from macrid.errors import MacridError, first_line
from macrid.models.devices import cores
from macrid.recipe import Recipe
from macrid.tuning.study import RUNGS

if TYPE_CHECKING:
    from macrid.data.interactions import Interactions
    from macrid.data.split import HeldOut


@dataclass(frozen=True)
class Reached:
    """A training came to the end of an epoch at which trials are compared."""

    epoch: int
    score: float


@dataclass(frozen=True)
class Finished:
    """A training ended: well, because it was told to stop, or with an error."""

    score: float | None = None
    epoch: int = 0
    epochs: int = 0
    parameters: int = 0
    error: str | None = None
    last: bool = False
    """Whether the process ends with it."""


class _ToldToStop(Exception):  # noqa: N818  (not an error)
    pass


class Workers:
    """So many processes at most, each begun when it is first needed; each trains what it is given and reports."""

    def __init__(self, count: int, train: Interactions, validation: HeldOut) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._given = train, validation, max(1, cores() // count)
        self._count = count
        self._workers: dict[int, _Worker] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.join()
            worker.connection.close()

    def idle(self) -> list[int]:
        return [
            number for number in range(self._count) if number not in self._workers or not self._workers[number].busy
        ]

    def start(self, number: int, config: Recipe) -> None:
        worker = self._workers.get(number)
        if worker is None or not worker.process.is_alive():
            worker = self._replace(number)
        worker.busy = True
        self._send(number, (config.model, config.settings, config.training))

    def stop(self, number: int) -> None:
        self._send(number, None)

    def reports(self, timeout: float) -> Iterator[tuple[int, Reached | Finished]]:
        """What the workers have to say, waiting for the first of them at most so many seconds."""
        by_connection = {worker.connection: number for number, worker in self._workers.items() if worker.busy}
        for connection in wait(list(by_connection), timeout):
            number = by_connection[connection]  # type: ignore[index]
            worker = self._workers[number]
            try:
                report = worker.connection.recv()
            except (EOFError, OSError):
                worker.process.join()
                report = Finished(error=f"the process that trained it {_how(worker.process.exitcode)}", last=True)
            if isinstance(report, Finished):
                worker.busy = False
                if report.last:
                    self._forget(number)
            yield number, report

    def _send(self, number: int, message: Any) -> None:
        try:
            self._workers[number].connection.send(message)
        except OSError:
            pass  # it has died, which `reports` finds out
        except KeyError:
            pass  # it has ended

    def _forget(self, number: int) -> None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            worker.process.kill()
            worker.process.join()
            worker.connection.close()

    def _replace(self, number: int) -> _Worker:
        self._forget(number)
        here, there = self._context.Pipe()
        process = self._context.Process(target=work, args=(there, *self._given), daemon=True)
        try:
            with _without_interrupts():
                process.start()
        except OSError as error:
            raise MacridError(f"a process to train in could not be started ({first_line(error)})") from error
        there.close()
        self._workers[number] = _Worker(process, here)
        return self._workers[number]


@dataclass
class _Worker:
    process: Any
    connection: Connection
    busy: bool = False


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by signal {-code}, memory may have run out"
    return f"ended with exit code {code}"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started here never hears of Ctrl-C, which is for the process that asked."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover  (Windows)
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(connection: Connection, train: Interactions, validation: HeldOut, threads: int) -> None:
    """What a worker does until the process that asked is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # of collapsed concepts and the like: most trials are bad ones
    while True:
        try:
            order = connection.recv()
            if order is None:
                continue  # told to stop a training that has ended meanwhile
            report = _train(connection, order, train, validation)
            gc.collect()
            if torch.cuda.is_initialized() and not report.last:
                torch.cuda.empty_cache()
            connection.send(report)
        except (EOFError, OSError):
            return
        if report.last:
            return


def _end_with_parent() -> None:
    """However it ended, and whatever this process is at."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _train(connection: Connection, order: Sequence[Any], train: Interactions, validation: HeldOut) -> Finished:
    from macrid.evaluation.ranking import evaluate
    from macrid.models import model_class

    name, settings, training = order
    best = Finished()

    def on_epoch(record: Any) -> None:
        nonlocal best
        if record.best:
            best = Finished(record.ndcg, record.epoch)
        if record.epoch in RUNGS:
            connection.send(Reached(record.epoch, best.score or 0.0))
        if connection.poll():
            connection.recv()
            raise _ToldToStop

    try:
        model = model_class(name)(**settings)
        watch: dict[str, Any] = {"on_epoch": on_epoch} if model.has_epochs else {}
        model.fit(train, validation=validation, **watch, **training)
        score = best.score if watch else evaluate(model, validation, ("ndcg@100",))["ndcg@100"].mean
        parameters = sum(value.numel() for value in model.state().values())
        return Finished(score, best.epoch, len(model.log), parameters)
    except _ToldToStop:
        return best
    except MacridError as error:
        return Finished(error=str(error))
    except Exception as error:  # whatever it was, the search goes on
        # a GPU that has failed once fails from then on: a new process begins afresh
        return Finished(error=f"{type(error).__name__}: {error}", last=True)
