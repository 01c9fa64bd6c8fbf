"""The trainings of a search as tasks of a Ray cluster. One whose process or machine is lost is repeated elsewhere."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from macrid.cluster.connecting import STORE, Resources, connected, ray_or_explain
from macrid.errors import MacridError, TrainingError, first_line
from macrid.tuning.search import MOST_JOBS, Search

if TYPE_CHECKING:
    from macrid.tuning.search import Progress

RETRIES = 2  # of a training whose process died


def run_on_ray(
    address: str,
    search: Search,
    trials: int,
    jobs: int | None,
    confirm: int,
    timeout: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """`Search.run` with the cores of a cluster, or its GPUs; jobs: by default one per core, at most 16."""
    split, device = search.split, str(search.training.get("device", "auto"))
    size = sum(part.nbytes for matrix in (split.train.matrix, split.validation.history) for part in _arrays(matrix))
    with connected(address, STORE + 4 * size) as resources:
        count = jobs or max(1, min(MOST_JOBS, resources.cpus))

        def workers(count: int, *shared: Any) -> RayWorkers:
            return RayWorkers(share_of(resources, count, device), count, *shared)

        search.run(trials, count, confirm, timeout, on_progress, workers)


def _arrays(matrix: Any) -> Iterator[Any]:
    yield from (matrix.data, matrix.indices, matrix.indptr)


def share_of(resources: Resources, count: int, device: str) -> dict[str, float]:
    """What each of `count` trainings at once may use: cores of one machine, and a GPU or an equal part of one."""
    cpus = max(1, min(resources.cpus // count, resources.cpus_of_one))
    if resources.gpus == 0 or device == "cpu":
        return {"num_cpus": cpus, "num_gpus": 0}
    return {"num_cpus": 1, "num_gpus": 1 / math.ceil(count / resources.gpus)}


class RayWorkers:
    """Up to `count` trainings at once; used as `macrid.tuning.workers.Workers`."""

    def __init__(self, share: dict[str, float], count: int, *shared: Any) -> None:
        """share: num_cpus and num_gpus of a training. shared: the first arguments of every task, stored once."""
        ray = ray_or_explain()
        self._ray, self._count, self._shared = ray, count, [ray.put(value) for value in shared]
        self._remote = ray.remote(_run).options(max_retries=RETRIES, retry_exceptions=False, **share)
        self._threads = max(1, int(share["num_cpus"]))
        self._running: dict[Any, Future] = {}

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *_: Any) -> None:
        """Stop all trainings."""
        for reference, future in self._running.items():
            if not future.done():
                with suppress(Exception):
                    self._ray.cancel(reference, force=True)

    def idle(self) -> list[int]:
        """As many numbers as trainings can be started now."""
        self._running = {reference: future for reference, future in self._running.items() if not future.done()}
        return list(range(self._count - len(self._running)))

    def submit(self, task: Callable[..., Any], *args: Any) -> Future:
        """Run task(*shared, *args) somewhere."""
        reference = self._remote.remote(self._threads, task, args, *self._shared)
        future: Future = Future()
        self._running[reference] = future
        reference.future().add_done_callback(lambda done: self._settle(done, future))
        return future

    def _settle(self, done: Future, future: Future) -> None:
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(self._explained(error))

    def _explained(self, error: BaseException) -> MacridError:
        if isinstance(error, self._ray.exceptions.RayTaskError):
            cause = error.cause
            return cause if isinstance(cause, MacridError) else TrainingError(f"{type(cause).__name__}: {cause}")
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            return TrainingError("the training process was killed; its machine ran out of memory")
        return TrainingError(f"the training process was lost ({type(error).__name__}: {first_line(error)[:200]})")


def _run(threads: int, task: Callable[..., Any], args: tuple[Any, ...], *shared: Any) -> Any:
    import torch

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # such as of collapsed concepts: most trials are bad
    return task(*shared, *args)
