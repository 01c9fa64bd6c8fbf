"""The map and the inspection: slow, so computed once per run, in another process, and saved in the run.

    python -m macrid.serving.background RUN SPARE map|inspection WEIGHTS

If several processes serve a run, one computes; the others wait for its lock and read its file. This is a plain
subprocess because workers of `concurrent.futures` re-import the caller's script and cannot be killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from safetensors import safe_open
from safetensors.numpy import save

from macrid import manifest
from macrid.errors import MacridError, RunError, first_line
from macrid.files import lock, write_atomically
from macrid.models.forks import new_lock
from macrid.runs import FILES as RUN_FILES
from macrid.runs import load, read_histories, read_metrics, weights_digest
from macrid.serving.processes import NICE, start

State = Literal["ready", "computing", "failed"]
FILES = {"map": "map.safetensors", "inspection": "inspection.json"}
LOCKED = {"map": "model.safetensors", "inspection": "config.json"}  # files that can be locked even in a read-only run
ENVIRONMENT = {  # t-SNE takes all cores, and spinning threads make it many times slower when they are busy
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "OMP_WAIT_POLICY": "passive",
}


class Computed:
    """The map (x and y, each (items,)) or the inspection (as `macrid inspect --json` prints it) of a run."""

    def __init__(self, what: str, run: Path, weights: str, shared: Path | None = None) -> None:
        """weights: digest of the served weights. shared: folder for results if the run is read-only."""
        self._what, self._run, self._weights, self._spare = what, run, weights, shared
        self._result: Any = None
        self._version = self._attempt = ""  # of the result, of the last attempt
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = new_lock()

    def get(self, *, start: bool = True) -> tuple[State, Any, str | None]:
        """State, result and error message; while an inspection is computing, the result may have earlier names.

        start: compute a missing result.
        """
        with self._lock:
            version = _version(self._what, self._run, self._weights)
            if self._version != version and self._process is not None and self._process.poll() is None:
                return "computing", self._result, None
            if self.read(version):
                return "ready", self._result, None
            if self._attempt == version:
                return "failed", self._result, f"the {self._what} could not be computed: {self._failure()}"
            if start:
                try:
                    self._start()
                except OSError as error:  # retried on the next call
                    return "failed", self._result, f"the {self._what} cannot be computed: {first_line(error)}"
                self._attempt = version
            return "computing", self._result, None

    def read(self, version: str) -> bool:
        """Whether a result of that version exists; without one, a result with other names is kept meanwhile."""
        for folder in (self._run, self._spare):
            if self._version == version or folder is None:
                break
            with suppress(Exception):  # missing, damaged or from an earlier version of macrid
                result, weights, file_version = _read(self._what, folder)
                if file_version == version or (weights == self._weights and self._result is None):
                    self._result, self._version = result, file_version
        return self._version == version

    def close(self) -> None:
        """Kill a running computation."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _start(self) -> None:
        if self._spare is None:
            self._spare = Path(tempfile.mkdtemp(prefix="macrid-"))
            weakref.finalize(self, shutil.rmtree, self._spare, ignore_errors=True)
        self._log = self._spare / f"{self._what}-{os.getpid()}.log"
        arguments = [str(self._run), str(self._spare), self._what, self._weights]
        with self._log.open("wb") as log:
            self._process = start(
                __name__, arguments, environment=ENVIRONMENT, nice=NICE, stdout=log, stderr=log
            )  # fmt: skip

    def _failure(self) -> str:
        assert self._process is not None
        status = self._process.returncode
        if status < 0:
            return f"its process was killed by signal {-status}, possibly for lack of memory"
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), f"exit status {status}, but no readable file")


def _version(what: str, run: Path, weights: str) -> str:
    """Changes with the weights; for an inspection, also with axes and names."""
    if what == "map":
        return weights
    digest = hashlib.sha256(weights.encode())
    for name in ("axes.safetensors", "names.json"):
        with suppress(OSError):
            digest.update((run / name).read_bytes())
    return digest.hexdigest()


def _read(what: str, folder: Path) -> tuple[Any, str, str]:
    """Result, weights digest and version."""
    manifest.check(folder, [FILES[what]], required=False)
    if what == "inspection":
        content = json.loads((folder / FILES[what]).read_bytes())
        return content["inspection"], content["weights"], content["digest"]
    with safe_open(folder / FILES[what], "numpy") as file:
        weights = file.metadata()["digest"]
        return (file.get_tensor("x"), file.get_tensor("y")), weights, weights


def compute(what: str, run: Path, weights: str) -> bytes:
    """The file content."""
    version = _version(what, run, weights)
    model = load(run, "cpu", added=False)
    if weights_digest(run) != weights:
        raise RunError(f"{run}: replaced since it was opened; reload it")
    if what == "map":
        from macrid.pictures.layout import layout

        x, y = layout(model)
        return save({"x": x, "y": y}, {"digest": weights})
    from macrid.report.inspection import inspect

    inspection = inspect(model, read_histories(run, added=False), is_final="final" in read_metrics(run))
    return json.dumps({"weights": weights, "digest": version, "inspection": inspection}, allow_nan=False).encode()


def main(run: Path, spare: Path, what: str, weights: str) -> None:
    """Compute and save one of them, unless another process just has."""
    with (run / LOCKED[what]).open("rb") as file:
        lock(file.fileno(), wait=True)
        if Computed(what, run, weights, spare).read(_version(what, run, weights)):
            return
        content = compute(what, run, weights)
        try:
            manifest.update(run, {FILES[what]: content}, RUN_FILES)
        except OSError:
            write_atomically(spare / FILES[what], content)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
    except (MacridError, OSError, MemoryError) as error:
        sys.exit(first_line(error))
