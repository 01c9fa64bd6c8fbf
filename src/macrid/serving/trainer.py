"""The process that examines a file of events and trains on it, for the studio.

    python -m macrid.serving.trainer JOB

JOB is a `Job` as JSON. What happens is printed as one JSON object per line: {"understood": …}, {"phase": …},
{"epoch": …}, {"note": …}, and at the end {"trained": …} or {"failed": "why"}. The process ends with the one that
started it, however that ends, and then removes the folder it works in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from macrid.explanations import explanation
from macrid.serving.examining import Reading, examine, split

if TYPE_CHECKING:
    from macrid.fitting import Progress
    from macrid.workflow import TrainedRun

Effort = Literal["quick", "best"]
EFFORTS: dict[str, dict[str, Any]] = {"quick": {"epochs": 30, "patience": 5, "baselines": False}, "best": {}}
RUN = "run"  # in the folder of a job
STOP = "stop"  # a file there: finish early
SUFFIX = re.compile(r"\.(csv|tsv|tab|txt|dat|data|parquet|pq|gz|bz2|zst)$", re.IGNORECASE)
BETWEEN = 0.2  # seconds, at least, between two reports of steps


@dataclass(frozen=True)
class Job:
    """What to do, as JSON."""

    folder: str
    """Where the files are, and where the run goes."""
    events: str
    items: str | None = None
    columns: dict[str, str | None] | None = None
    min_rating: float | None = None
    train: bool = False
    """Or only examine."""
    concepts: int | str = "auto"
    effort: Effort = "best"

    def reading(self) -> Reading:
        items = None if self.items is None else Path(self.items)
        return Reading(Path(self.events), items, self.columns, self.min_rating)


class StoppedError(KeyboardInterrupt):
    """A training shall finish early; one that is interrupted keeps what it has."""

    def __init__(self, epochs: int | None) -> None:
        """epochs: after which it was interrupted; None if it has them all."""
        self.epochs = epochs


@dataclass
class Watch:
    """Passes progress on, and interrupts a training that shall stop, once, when there is something to keep."""

    tell: Callable[[dict[str, Any]], None]
    should_stop: Callable[[], bool]
    epochs: int = 0
    """Done."""
    phase: str = ""
    _has_stopped: bool = False
    _said: str = ""
    _next: float = 0.0

    def __call__(self, event: Progress) -> None:
        if event.phase == "note":
            self.tell({"note": event.text})
            return
        if event.epoch is not None:
            self.epochs = event.epoch.epoch
            self.tell({"epoch": asdict(event.epoch)})
            return
        self.phase = event.phase
        if self.epochs and not self._has_stopped and self.should_stop():
            self._has_stopped = True
            raise StoppedError(self.epochs if self.phase == "training" else None)
        if event.text != self._said or time.monotonic() >= self._next:
            self._said, self._next = event.text, time.monotonic() + BETWEEN
            self.tell({"phase": event.phase, "text": event.text, "done": event.done, "total": event.total})


def origin_of(reading: Reading) -> dict[str, Any]:
    """What a run records about where its data came from; the same for the same files, read in the same way."""
    digest = hashlib.sha256()
    for path in (reading.events, reading.items):
        if path is not None:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    about = {"source": "file", "file": reading.events.name, "digest": digest.hexdigest()[:16]}
    columns = {} if reading.columns is None else {"columns": reading.columns}
    return about | columns | {"min_rating": reading.min_rating}


def train(
    reading: Reading, out: Path, progress: Callable[[Progress], None], effort: Effort = "best", **options: Any
) -> TrainedRun:
    """Train on a file. After a `StoppedError` of `progress`, its best epoch is scored and named, without baselines.

    options: as for `macrid.train`.
    """
    from macrid.fitting import Progress
    from macrid.workflow import train

    progress(Progress("reading", f"reading {reading.events.name}"))
    data = reading.interactions()
    if data.report is not None:
        progress(Progress("note", str(data.report)))
    parts = split(data)
    settings: dict[str, Any] = {**EFFORTS[effort], **options, "progress": progress, "origin": origin_of(reading)}
    try:
        return train(parts, out, **settings)
    except StoppedError as stop:
        if stop.epochs is not None:
            settings["epochs"] = stop.epochs
    return train(parts, out, **{**settings, "resume": True, "baselines": False})


def run_names(file: str) -> Iterator[str]:
    """Names for the run of a file: like the file's, then with numbers."""
    while SUFFIX.search(file):
        file = SUFFIX.sub("", file)
    name = re.sub(r"[^\w.-]+", "-", file).strip("-.")[:60] or "data"
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def summary(run: TrainedRun) -> dict[str, Any]:
    """What to say about a new run."""
    metrics = run.metrics

    def accuracy(scores: dict[str, Any]) -> Any:
        return scores["test"]["metrics"]["ndcg@100"]["mean"]

    others = {name: accuracy(scores) for name, scores in metrics.get("baselines", {}).items() if "test" in scores}
    facts = {name: metrics["training"].get(name) for name in ("epochs", "best_epoch", "seconds", "concepts")}
    return {"accuracy": accuracy(metrics), "baselines": others, **facts}


def main(job: Job) -> None:
    """Do a job and report it on standard output, which nothing else may use from then on."""
    report = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is meant for the service
    folder = Path(job.folder)

    end = threading.Thread(target=_end_with_parent, args=(folder,), daemon=True)
    end.start()

    def tell(event: dict[str, Any]) -> None:
        try:
            report.write(json.dumps(event) + "\n")
            report.flush()
        except BrokenPipeError:
            end.join()

    warnings.showwarning = lambda message, *_, **__: tell({"note": str(message)})
    try:
        if job.train:
            tell({"phase": "reading", "text": "", "done": 0, "total": None})
            watch = Watch(tell, (folder / STOP).exists)
            run = train(job.reading(), folder / RUN, watch, job.effort, concepts=job.concepts)
            tell({"trained": summary(run)})
        else:
            tell({"understood": examine(job.reading())})
    except Exception as error:
        tell({"failed": explanation(error)})


def _end_with_parent(folder: Path) -> None:
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
