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
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
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
    """Training shall finish early; a training that is interrupted keeps what it has."""


@dataclass
class Watch:
    """Passes progress on, and interrupts a training that shall stop, once there is something to keep."""

    tell: Callable[[dict[str, Any]], None]
    should_stop: Callable[[], bool]
    epochs: int = 0
    """Done."""
    phase: str = ""
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
        if self.epochs and self.should_stop():
            raise StoppedError
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
    reading: Reading, out: Path, watch: Watch, concepts: int | str = "auto", effort: Effort = "best"
) -> TrainedRun:
    """Train on a file. A training that is stopped keeps its best epoch, scored and named, without baselines."""
    watch.tell({"phase": "reading", "text": f"reading {reading.events.name}", "done": 0, "total": None})
    from macrid.workflow import train

    parts, origin = split(reading.interactions()), origin_of(reading)
    settings: dict[str, Any] = {"concepts": concepts, **EFFORTS[effort], "progress": watch, "origin": origin}
    try:
        return train(parts, out, **settings)
    except StoppedError:
        if watch.phase == "training":
            settings["epochs"] = watch.epochs
    watch.should_stop = lambda: False
    return train(parts, out, **{**settings, "resume": True, "baselines": False})


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
            run = train(job.reading(), folder / RUN, Watch(tell, (folder / STOP).exists), job.concepts, job.effort)
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
