"""Lists for the users of large inputs, part by part: in this process, or by the workers of a Ray cluster.

A part is written under a temporary name and renamed, so it is there completely or not at all; those that are there are
not made again. A worker that dies is replaced and its part repeated.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from macrid import errors
from macrid.cluster.connecting import Resources, connected, ray_or_explain, without_credentials
from macrid.cluster.dividing import Divided, Divider, number_of_parts, read_part
from macrid.cluster.folder import METADATA, JobFolder, describe, digest_of_run
from macrid.control.batch import recommend_many
from macrid.data.ids import first_few
from macrid.data.large.sources import files_of
from macrid.errors import ClusterError, MacridError, RunError, first_line
from macrid.files import claimed, write_atomically, writing
from macrid.models.base import Recommender
from macrid.runs import load

RESTARTS = 20  # of a worker
RETRIES = 3  # of a part whose worker died
POLL = 0.5  # seconds between questions of a client
AT_HAND = 2  # parts that a worker has or waits for


@dataclass(frozen=True)
class Lists:
    """What to recommend."""

    n: int = 10
    rules: dict[str, Any] = field(default_factory=dict)
    """Keywords of `recommend_many`: exclude_seen, include, exclude, where, rules, strict."""


@dataclass(frozen=True)
class Task:
    """All that a worker needs to know; paths must be the same on every machine."""

    run: Path
    digest: str
    device: str
    output: Path
    events: Path
    found: Divided
    lists: Lists


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    rows: int = 0
    """Events divided so far; 0 once that is done."""
    done: int = 0
    """Parts."""
    parts: int = 0


def recommend_in_parts(
    model: Recommender,
    run: Path,
    source: Path,
    output: Path,
    lists: Lists,
    *,
    columns: dict[str, Any],
    ray: str | None = None,
    device: str = "auto",
    parts: int | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] = lambda progress: None,
    on_report: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write the lists of all users of a source into a folder; go on where an earlier call ended. Returns counts.

    model: the one of the run. columns: user, item, rating, min_rating and encoding, as for `read_histories`.
    ray: the address of a cluster; None to work in this process. parts: by default as many as suit the source.
    """
    files = files_of([str(source)])
    recommend_many(model, {}, lists.n, **lists.rules)  # what is wrong with the rules is wrong for everybody
    with claimed(output, errors.DataError), _removed_if_empty(output), ExitStack() as stack:
        chosen = parts or number_of_parts(files)
        for path in files:
            if not path.exists():
                raise errors.DataError(f"{path}: no such file; check the path (relative to {Path.cwd()})")
        about = describe(run, files, chosen, {**columns, **lists.rules, "n": lists.n})
        job = JobFolder(output, about, overwrite)
        resources = None
        if ray not in (None, "local") and not job.is_done:
            resources = stack.enter_context(connected(ray))  # an error before any work is done

        def divide(folder: Path) -> Divided:
            divider = Divider(folder, model.items, chosen, source.name if source.exists() else str(source))
            return divider.divide(files, **columns, progress=lambda rows: progress(Progress(rows=rows)))

        found = job.divided(divide)
        on_report(str(found.report(columns.get("min_rating"))))
        missing = [] if job.is_done else job.missing(found.parts)
        task = Task(run.resolve(), about["run"], device, output.resolve(), job.events.resolve(), found, lists)
        done = found.parts - len(missing)
        progress(Progress(done=done, parts=found.parts))
        for _ in _here(model, task, missing) if ray is None else _on_ray(ray, resources, task, missing):
            done += 1
            progress(Progress(done=done, parts=found.parts))
        counts = _summed(job.counts(found.parts))
        if not job.is_done:
            job.finish(counts)
    _warn(found, counts, lists.n)
    kept = {name: counts[name] for name in ("users", "left_out")}
    return {"output": str(output), **kept, "unknown": found.unknown, "rows": counts["rows"], "parts": found.parts}


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    """Remove a new folder after an error, unless something is in it."""
    is_new = not folder.exists()
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


def _here(model: Recommender, task: Task, numbers: list[int]) -> Iterator[int]:
    for number in numbers:
        write_part(model, task, number)
        yield number


def write_part(model: Recommender, task: Task, number: int) -> None:
    """Recommend for the users of one part."""
    users = read_part(task.events, number, len(model.items), task.found)
    with warnings.catch_warnings(action="ignore"):  # counted instead, for all parts together
        table = recommend_many(model, users, task.lists.n, **task.lists.rules)
    if "fallback" not in table.column_names:  # all parts have the same columns
        table = table.append_column("fallback", pa.repeat(False, table.num_rows))
    counts = json.dumps(_counts(table, users.users.array, task.lists.n))
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({METADATA: counts}), sink)
    with writing(task.output, errors.DataError, "finished parts are kept"):
        write_atomically(task.output / f"part-{number:05d}.parquet", sink.getvalue().to_pybytes())


def _counts(table: pa.Table, users: pa.Array, n: int) -> dict[str, Any]:
    """Users, rows, and who got something else than n items for their history, of whom a few are named."""
    import pyarrow.compute as pc

    last = table.filter(pc.equal(table["rank"], n))["user"]
    first = table.filter(pc.equal(table["rank"], 1))
    kinds = {
        "fallback": first.filter(first["fallback"])["user"],
        "short": first["user"].filter(pc.invert(pc.is_in(first["user"], last.combine_chunks()))),
        "left_out": users.filter(pc.invert(pc.is_in(users, first["user"].combine_chunks()))),
    }
    named = {f"{kind}_users": people.slice(0, 6).to_pylist() for kind, people in kinds.items()}
    return {"users": first.num_rows, "rows": table.num_rows, **{k: len(v) for k, v in kinds.items()}, **named}


def _summed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for counts in parts:
        for name, value in counts.items():
            total[name] = total.get(name, [] if isinstance(value, list) else 0) + value
    return total


def _warn(found: Divided, counts: dict[str, Any], n: int) -> None:
    """As `recommend_many` warns."""

    def shown(count: int, ids: list[Any], more: str = "") -> str:
        listed = first_few(ids[:5])
        return f"{listed} and {count - 5:,} more" if count > 5 else listed

    if found.unknown:
        what = f"{found.unknown:,} unknown item{'s' * (found.unknown > 1)}"
        message = f"{found.source}: ignored {what}: {shown(found.unknown, found.first_unknown)}"
        warnings.warn(message, errors.UnknownItemsWarning, stacklevel=3)
    for kind, what, category in (
        ("fallback", "no known item in the history: popular items instead", errors.FallbackWarning),
        ("short", f"fewer than {n} items", errors.RulesWarning),
        ("left_out", "no items left: left out", errors.LeftOutWarning),
    ):
        if count := counts[kind]:
            people = f"{count:,} user{'s' * (count > 1)} ({shown(count, counts[f'{kind}_users'])})"
            warnings.warn(f"{people} {'have' if count > 1 else 'has'} {what}", category, stacklevel=3)


# Ray


class Worker:
    """A process of the cluster: loads the run once, its weights shared with the others on its machine."""

    def __init__(self, task: Task) -> None:
        import torch

        torch.set_num_threads(1)  # as there is a worker for every core
        warnings.simplefilter("ignore")
        self._task = task
        self._problem: MacridError | None = None
        try:
            self._model = load(task.run, task.device, mapped=True)
            if digest_of_run(task.run) != task.digest:
                raise RunError(f"{task.run}: changed since the job began; run the same command again")
        except MacridError as error:
            self._problem = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """One part; what goes wrong is an answer, as Ray would log it and try again."""
        number = int(batch["item"][0])
        kind, message = "", ""
        try:
            if self._problem is not None:
                raise self._problem
            write_part(self._model, self._task, number)
        except MacridError as error:
            kind, message = type(error).__name__, str(error)
        except Exception as error:
            kind, message = "ClusterError", f"part {number}: {type(error).__name__}: {first_line(error)}"
        return {"part": [number], "error": [kind], "message": [message]}


def _on_ray(address: str, known: Resources | None, task: Task, numbers: list[int]) -> Iterator[int]:
    """Write parts with all cores of a cluster, or all its GPUs; yields each that is done.

    known: what the cluster has, if there is a connection already.
    """
    if not numbers:
        return
    with connected(address) if known is None else nullcontext(known) as resources:
        made = _from_afar if address.startswith("ray://") else _answers
        for answer in made(resources, task, numbers):
            if answer["error"]:
                raise getattr(errors, answer["error"], ClusterError)(answer["message"])
            yield answer["part"]


def _answers(resources: Resources, task: Task, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """What workers say of each part, as they are done with it. Ray Data streams parts to them and replaces the dead."""
    ray = ray_or_explain()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    workers = min(len(numbers), _workers(resources, task.device))
    parts = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
        Worker,
        fn_constructor_args=(task,),
        batch_size=1,
        max_restarts=RESTARTS,
        max_task_retries=RETRIES,
        **_of_each(resources, task.device),
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=AT_HAND),
    )
    try:
        yield from parts.iter_rows()
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"Ray stopped, or its workers died again and again ({_reason(error)}); memory may have run out; finished"
            " parts are kept, so the same command goes on from there"
        ) from None


class Foreman:
    """Does the work of `_answers` inside the cluster, as Ray Data cannot be used by a client."""

    def __init__(self) -> None:
        self._seen: list[dict[str, Any]] = []

    def work(self, resources: Resources, task: Task, numbers: list[int]) -> None:
        try:
            for answer in _answers(resources, task, numbers):
                self._seen.append(answer)
        except ClusterError as error:
            self._seen.append({"part": -1, "error": "ClusterError", "message": str(error)})

    def seen(self, after: int) -> list[dict[str, Any]]:
        return self._seen[after:]


def _from_afar(resources: Resources, task: Task, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """As `_answers`, for a client; if it goes away, so does the foreman."""
    ray = ray_or_explain()
    foreman = ray.remote(Foreman).options(num_cpus=0, max_concurrency=2).remote()
    working, done, count = foreman.work.remote(resources, task, numbers), False, 0
    try:
        while not done:
            done = bool(ray.wait([working], timeout=POLL)[0])
            for answer in ray.get(foreman.seen.remote(count)):
                count += 1
                yield answer
        ray.get(working)
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise ClusterError(
            f"the connection to the cluster was lost ({_reason(error)}); finished parts are kept, so the same command"
            " goes on from there"
        ) from None


def _reason(error: Exception) -> str:
    return shorten(without_credentials(first_line(error)), 120, placeholder=" …")


def _uses_gpus(resources: Resources, device: str) -> bool:
    return resources.gpus > 0 and device != "cpu"


def _of_each(resources: Resources, device: str) -> dict[str, float]:
    return {"num_gpus": 1} if _uses_gpus(resources, device) else {"num_cpus": 1}


def _workers(resources: Resources, device: str) -> int:
    return max(1, resources.gpus if _uses_gpus(resources, device) else resources.cpus)
