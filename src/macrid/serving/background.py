"""What a run needs once and takes long: the map and the inspection, worked out in another process and kept in the run.

    python -m macrid.serving.background RUN map|inspection DIGEST STAMP PLACE

A run that cannot be written has them in a temporary place. However many processes serve a run, one of them starts the
work; the others find a lock and wait for the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal

import numpy as np

from macrid.errors import MacridError, RunError, first_line
from macrid.files import lock, write_atomically
from macrid.pictures.layout import layout

State = Literal["ready", "computing", "failed"]
FILES = {"map": "map.safetensors", "inspection": "inspection.json"}
BUSY = 75  # the exit status of a process that finds another one at work
LOOK_EVERY = 0.5  # seconds between two looks for what another process works out
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Background:
    """The map and the inspection of one run."""

    def __init__(self, run: Path, digest: str) -> None:
        """digest: of the weights that are served."""
        self._run = Path(run).resolve()
        self._tasks = {what: _Task(self._run, what, digest, _stamp(self._run)) for what in FILES}
        self._digest = digest

    def map(self, *, start: bool = True) -> tuple[State, tuple[np.ndarray, np.ndarray] | None, str | None]:
        """State, x and y (items,), and what went wrong.

        start: work it out if there is none yet.
        """
        task = self._tasks["map"]
        state, message = task.look(self._digest, start)
        return state, task.found if state == "ready" else None, message

    def inspection(self) -> tuple[State, dict[str, Any] | None, str | None]:
        """State, what `macrid inspect --json` tells, and what went wrong.

        After a change of axes or names it is worked out again; until then it is the one before.
        """
        task = self._tasks["inspection"]
        state, message = task.look(_digest_with_names(self._run, self._digest))
        return state, task.found, message

    def close(self) -> None:
        """End what is being worked out."""
        for task in self._tasks.values():
            task.close()


class _Task:
    """One of them: found, being worked out by a process of ours or of somebody else, or failed."""

    def __init__(self, run: Path, what: str, weights: str, stamp: str) -> None:
        self._run, self._what, self._weights, self._stamp = run, what, weights, stamp
        self.found: Any = None
        self._found_for = self._failed_for = self._started_for = ""  # digests
        self._message: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._looked = -LOOK_EVERY
        self._lock = Lock()

    def look(self, digest: str, start: bool = True) -> tuple[State, str | None]:
        """How far it is; the first look starts it, unless told otherwise."""
        with self._lock:
            if self._found_for == digest:
                return "ready", None
            if self._failed_for == digest:
                return "failed", self._message
            if self._process is not None and self._process.poll() is None:
                return "computing", None
            if self._process is None and time.monotonic() - self._looked < LOOK_EVERY:
                return "computing", None
            self._looked = time.monotonic()
            status, told = self._ended()
            if self._read(digest):
                return "ready", None
            if status not in (None, 0, BUSY) or (status == 0 and self._started_for == digest):
                self._failed_for, self._message = digest, _failure(self._what, status, told)
                return "failed", self._message
            try:
                if start and not _is_locked(self._lock_file()):
                    self._start(digest)
            except OSError as error:
                self._failed_for, self._message = digest, _failure(self._what, 1, error.strerror or str(error))
                return "failed", self._message
            return "computing", None

    def close(self) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()
                try:
                    self._process.wait(2)
                except subprocess.TimeoutExpired:
                    self._process.kill()
            self._ended()

    def _start(self, digest: str) -> None:
        self._started_for = digest
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
        command = [sys.executable, "-P", "-m", "macrid.serving.background", str(self._run), self._what]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [*command, self._weights, self._stamp, str(_place(self._run) or "")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        )

    def _ended(self) -> tuple[int | None, str]:
        """The exit status of our process, None if there was none, and the last line that it wrote."""
        if self._process is None or self._errors is None:
            return None, ""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        self._process = self._errors = None
        return status, lines[-1] if lines else ""

    def _read(self, digest: str) -> bool:
        """Whether one of the kept files is of these weights and names; one of other names is better than none."""
        for folder in (self._run, _place(self._run)):
            if folder is None:
                continue
            try:
                found, weights, own = READERS[self._what](folder / FILES[self._what])
            except Exception:  # missing, damaged, from another version: as good as none
                continue
            if own == digest:
                self.found, self._found_for = found, digest
                return True
            if weights == self._weights and self.found is None:
                self.found = found
        return False

    def _lock_file(self) -> Path | None:
        place = _place(self._run)
        return None if place is None else place / f"{self._what}.lock"


def _read_map(file: Path) -> tuple[Any, str, str]:
    from safetensors import safe_open

    with safe_open(file, "numpy") as opened:
        x, y, digest = opened.get_tensor("x"), opened.get_tensor("y"), opened.metadata()["digest"]
    if x.ndim != 1 or x.shape != y.shape or not np.isfinite([x, y]).all():
        raise ValueError("not a map")
    return (x, y), digest, digest


def _read_inspection(file: Path) -> tuple[Any, str, str]:
    found = json.loads(file.read_bytes())
    return found["inspection"], found["weights"], found["digest"]


READERS = {"map": _read_map, "inspection": _read_inspection}


def _failure(what: str, status: int | None, told: str) -> str:
    """For a person."""
    if status is not None and status < 0:
        told = f"its process was ended by signal {-status}; there may be too little memory"
    elif status == 0:
        told = "it was worked out, but what was written cannot be read again"
    return f"the {what} could not be worked out: {told or f'exit status {status}'}"


def _stamp(run: Path) -> str:
    """Another one when the weights of a run have been replaced."""
    try:
        about = (run / "model.safetensors").stat()
    except OSError:
        return ""
    return f"{about.st_mtime_ns}-{about.st_size}"


def _digest_with_names(run: Path, weights: str) -> str:
    """Of the weights, and of the axes and names of this moment."""
    found = hashlib.sha256(weights.encode())
    for name in ("axes.safetensors", "names.json"):
        with suppress(OSError):
            found.update((run / name).read_bytes())
    return found.hexdigest()


def _place(run: Path) -> Path | None:
    """A folder of ours for locks, and for what cannot be written into the run; None if there can be none."""
    owner = getattr(os, "getuid", lambda: 0)()
    base = Path(tempfile.gettempdir()) / f"macrid-{owner}"
    place = base / hashlib.sha256(str(run).encode()).hexdigest()[:16]
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        about = base.lstat()
        if base.is_symlink() or about.st_uid != owner or about.st_mode & 0o022:
            return None  # somebody else put it there
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return place


@contextmanager
def _held(file: Path | None) -> Iterator[bool]:
    """Whether the lock could be had; it is given back at the end."""
    if file is None:
        yield True
        return
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)


def _is_locked(file: Path | None) -> bool:
    with _held(file) as had:
        return not had


def _write(run: Path, place: Path | None, name: str, content: bytes) -> None:
    """Into the run, else into the temporary place."""
    try:
        write_atomically(run / name, content)
    except OSError as error:
        wrong = f"{run / name}: cannot be written ({error.strerror or error})"
        if place is None:
            raise RunError(f"{wrong}, and there is no temporary place; make room, or set TMPDIR") from error
        try:
            write_atomically(place / name, content)
        except OSError as second:
            raise RunError(f"{wrong}, nor {place} ({second.strerror or second}); make room, or set TMPDIR") from second


def _work_out(run: Path, what: str, weights: str, stamp: str) -> bytes:
    """The file."""
    from safetensors.numpy import save

    from macrid.report.inspection import inspect
    from macrid.runs import load, read_histories

    digest = _digest_with_names(run, weights)
    model = load(run, "cpu")
    if _stamp(run) != stamp:
        raise RunError(f"{run}: was replaced in the meantime; reload it")
    if what == "map":
        x, y = layout(model)
        return save({"x": x, "y": y}, {"digest": weights})
    found = inspect(model, read_histories(run))
    return json.dumps({"weights": weights, "digest": digest, "inspection": found}, allow_nan=False).encode()


def main(arguments: list[str]) -> int:
    """Work one of them out, unless another process does."""
    run, what, weights, stamp, place = arguments
    folder = Path(place) if place else None
    with suppress(AttributeError, OSError):
        os.nice(10)
    with _held(None if folder is None else folder / f"{what}.lock") as had:
        if not had:
            return BUSY
        try:
            _write(Path(run), folder, FILES[what], _work_out(Path(run), what, weights, stamp))
        except (MacridError, OSError, MemoryError) as error:
            print(first_line(error), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
