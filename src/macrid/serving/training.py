"""Training from the studio: a file comes in, is examined, and becomes a run beside the one that is served.

Whatever is unfinished lies in a hidden folder beside the runs, locked while this service lives. It goes when it is not
needed any more, when the service ends, and at the next start at the latest. The work is done in another process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Thread
from typing import IO, Any, Literal

from macrid.errors import RunError
from macrid.files import lock, replace_folder, writing
from macrid.models.forks import new_lock
from macrid.serving.examining import for_people
from macrid.serving.problems import RefusedError
from macrid.serving.processes import NICE, how_it_ended, start
from macrid.serving.trainer import EFFORTS, RUN, STOP, Effort, Job, run_names
from macrid.settings import ServingSettings, TrainingSettings

State = Literal["idle", "uploading", "examining", "understood", "training", "ready"]
File = Literal["events", "items"]
PREFIX = ".macrid-training-"  # of the folder
NEW = ".new"  # at its end before it is locked
ALIVE = "alive"  # a locked file in it
SETTLED = 60.0  # seconds in which a new folder has surely been locked
PIECE = 1 << 20  # bytes written at once
LONGEST_NAME = 200  # bytes
PATIENT = 20.0  # seconds that a request waits for the examination of a file
INSTEAD: dict[State, str] = {
    "idle": "there is no file yet; upload one",
    "uploading": "a file is being uploaded; wait for it",
    "examining": "the file is still being read; wait for it",
    "understood": "there is no training; start one",
    "training": "a training is running; wait for it, or stop it",
    "ready": "that training is over; upload a file",
}
log = logging.getLogger("macrid.serving")


class Training:
    """One file at a time."""

    def __init__(self, settings: ServingSettings, place: Callable[[], Path]) -> None:
        """place: the folder of the runs."""
        self._settings, self._place, self._lock = settings, place, new_lock()
        self._folder: Path | None = None
        self._alive: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._turn = 0  # another one for whatever is begun or given up
        self._state: State = "idle"
        self._files: dict[str, Path] = {}
        self._choice: dict[str, Any] = {}
        self._message: str | None = None
        self._understood: dict[str, Any] | None = None
        self._progress: dict[str, Any] | None = None
        self._result: dict[str, Any] | None = None

    # What clients see

    def status(self) -> dict[str, Any]:
        """As the schema `Training`."""
        with self._lock:
            seconds = {"seconds": time.monotonic() - self._began}
            return {
                "state": self._state,
                "message": self._message,
                "files": {what: path.name for what, path in self._files.items()},
                "choice": {"columns": None, "min_rating": None, **self._choice},
                "understood": self._understood if self._state == "understood" else None,
                "progress": None if self._progress is None else {**self._progress, **seconds},
                "result": self._result,
                "limit": self._settings.max_upload,
            }

    async def settled(self) -> dict[str, Any]:
        """The status after an examination, if it does not take long."""
        end = time.monotonic() + min(PATIENT, 0.6 * self._settings.timeout)
        while self._state == "examining" and time.monotonic() < end:
            await asyncio.sleep(0.05)
        return self.status()

    # What clients do

    async def receive(self, what: File, name: str, size: int, pieces: AsyncIterator[bytes]) -> None:
        """Take a file, then examine what there is. Events replace everything, items only earlier items."""
        begun = asyncio.ensure_future(asyncio.to_thread(self._begin_upload, what, name, size))
        try:
            path, turn = await asyncio.shield(begun)
        except asyncio.CancelledError:  # the thread goes on
            begun.add_done_callback(partial(self._forget, what))
            raise
        try:
            with writing(path.name, RunError, "free some space"):
                await _write(path, pieces)
        except BaseException as error:
            was_current = await asyncio.to_thread(self._give_up, what, turn)
            if not isinstance(error, RunError):
                raise
            if was_current:
                raise RefusedError(507, str(error)) from error
        with self._lock:
            if self._turn != turn:
                raise RefusedError(409, "the upload was given up meanwhile")
            self._files[what] = path
            self._examine()

    def read(self, columns: dict[str, str | None] | None, min_rating: float | None) -> None:
        """Read the files again, with other columns."""
        with self._lock:
            self._check("understood", "examining")
            self._choice = {"columns": columns, "min_rating": min_rating}
            self._examine()

    def without_items(self) -> None:
        """Read the events again, without the table of items."""
        with self._lock:
            self._check("understood", "examining")
            self._end()
            path = self._files.pop("items", None)
            if path is not None:
                path.unlink(missing_ok=True)
            self._examine()

    def train(self, concepts: int | Literal["auto"], effort: Effort) -> None:
        """Start training on what was understood."""
        with self._lock:
            self._check("understood")
            assert self._understood is not None
            if not self._understood["can_train"]:
                raise RefusedError(409, f"this cannot be trained on: {self._understood['problems'][0]}")
            epochs = EFFORTS[effort].get("epochs", TrainingSettings.model_fields["epochs"].default)
            self._began = time.monotonic()
            self._progress = {"phase": "starting", "text": "", "done": 0, "total": None, "is_stopping": False,
                              "epochs": epochs, "curve": [], "notes": [], "seconds_left": None}  # fmt: skip
            self._start("training", train=True, concepts=concepts, effort=effort)

    def stop(self) -> None:
        """Finish a training early, with its best epoch; without one, give it up. Whatever else is going on ends."""
        with self._lock:
            if self._state == "training":
                assert self._progress is not None
                assert self._folder is not None
                if self._progress["curve"]:
                    self._progress["is_stopping"] = True
                    with suppress(OSError):  # a full disk: it goes on
                        (self._folder / STOP).touch()
                    return
                self._back("Stopped before there was anything to keep.")
            elif self._state in ("uploading", "examining"):
                self._clear()

    def discard(self) -> None:
        """End everything and forget it; a run that is ready stays."""
        with self._lock:
            self._clear()

    def close(self) -> None:
        self.discard()

    # Files

    def tidy(self) -> None:
        """Remove what services that were killed have left."""
        with suppress(OSError):
            remove_abandoned(self._place())

    def _begin_upload(self, what: File, name: str, size: int) -> tuple[Path, int]:
        """Where a file goes, and the turn of its upload; an error if it cannot come now."""
        with self._lock:
            self._check("idle", "examining", "understood", "ready")
            if what == "items" and "events" not in self._files:
                raise RefusedError(409, "there are no events yet; upload them first")
            if what == "events":
                self._clear()
            if size > (free := shutil.disk_usage(self._place()).free):
                raise RefusedError(507, f"the file has {size:,} bytes, but only {free:,} are free on this disk")
            with writing("the folder of the runs", RunError, "serve a run from another folder"):
                if self._folder is None:
                    self._folder, self._alive = _new_folder(self._place())
                self._end()
                shutil.rmtree(self._folder / what, ignore_errors=True)
                (self._folder / what).mkdir()
            self._files.pop(what, None)
            self._message, self._state = None, "uploading"
            return self._folder / what / (plain_name(name) or f"{what}.csv"), self._turn

    def _forget(self, what: File, begun: asyncio.Future[tuple[Path, int]]) -> None:
        """After an upload whose request ended while it began."""
        if not begun.cancelled() and begun.exception() is None:
            begun.get_loop().run_in_executor(None, self._give_up, what, begun.result()[1])

    def _give_up(self, what: File, turn: int) -> bool:
        """After an upload that failed: whether it had not been given up before."""
        with self._lock:
            if self._turn != turn:
                return False
            if what == "events":
                self._clear()
            else:
                assert self._folder is not None
                shutil.rmtree(self._folder / what, ignore_errors=True)
                self._examine()
            return True

    # The other process; all of this with the lock held

    def _check(self, *states: State) -> None:
        if self._state not in states:
            raise RefusedError(409, INSTEAD[self._state])

    def _examine(self) -> None:
        self._understood = self._message = None
        self._start("examining")

    def _start(self, state: State, **options: Any) -> None:
        """Begin another process in place of the one there may be."""
        self._end()
        assert self._folder is not None
        self._state, self._message = state, None
        files: dict[str, Any] = {what: str(path) for what, path in self._files.items()}
        job = Job(str(self._folder), **files, **self._choice, **options)
        try:
            with (self._folder / "log").open("wb") as errors:
                process = start("macrid.serving.trainer", [json.dumps(asdict(job))], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=errors, nice=NICE)  # fmt: skip
        except OSError as error:
            self._fail(f"no process could be started: {error.strerror}")
            return
        self._process = process
        Thread(target=self._follow, args=(process, self._turn), name="macrid-training", daemon=True).start()

    def _follow(self, process: subprocess.Popen[bytes], turn: int) -> None:
        """Take what a process reports until it ends."""
        assert process.stdout is not None
        last: dict[str, Any] = {}
        with process.stdout as lines:
            for line in lines:
                try:
                    last = json.loads(line)
                except ValueError:  # cut short by a kill
                    break
                with self._lock:
                    if self._turn == turn:
                        self._take(last)
        status = process.wait()
        with self._lock:
            if self._turn == turn:
                self._take_end(last, status)

    def _take(self, event: dict[str, Any]) -> None:
        progress = self._progress
        if progress is None:
            return
        if "phase" in event:
            progress |= event | ({} if event["phase"] == "training" else {"seconds_left": None})
        elif "note" in event:
            progress["notes"].append(event["note"])
        elif "epoch" in event:
            record = event["epoch"]
            names = {"epoch": "epoch", "accuracy": "ndcg", "loss": "loss", "is_best": "best"}
            progress["curve"].append({name: record[key] for name, key in names.items()})
            progress["seconds_left"] = record["seconds"] * (progress["epochs"] - record["epoch"])

    def _take_end(self, last: dict[str, Any], status: int) -> None:
        """The last that a process reported, and how it ended."""
        assert self._process is not None
        self._close_pipes()
        if "understood" in last and self._state == "examining":
            self._understood = last["understood"]
            self._understood["problems"] = [self._without_folder(text) for text in self._understood["problems"]]
            self._state = "understood"
            if not self._understood["is_table"]:
                self._clear(self._understood["problems"][0])
        elif "trained" in last and self._state == "training":
            self._publish(last["trained"])
        else:
            self._fail(last.get("failed") or f"the process {how_it_ended(status)}{self._last_line()}")

    def _publish(self, facts: dict[str, Any]) -> None:
        """Give the new run its place."""
        assert self._folder is not None
        assert self._progress is not None
        try:
            with writing("the new run", RunError):
                parent = self._folder.parent
                names = run_names(self._files["events"].name)
                run = next(parent / name for name in names if not (parent / name).exists())
                replace_folder(self._folder / RUN, run)
        except RunError as error:
            self._fail(str(error))
            return
        is_stopped, curve = self._progress["is_stopping"], self._progress["curve"]
        self._clear()
        self._state = "ready"
        self._result = {**facts, "run": run.name, "is_stopped": is_stopped, "curve": curve}
        log.info("trained %s", run)

    def _fail(self, message: str) -> None:
        """Keep the files, if they are known to be readable, and say what happened."""
        text = self._without_folder(for_people(message))
        log.error("training from the page failed: %s", text)
        if self._understood is None:
            self._clear(text)
        else:
            self._back(text)

    def _back(self, message: str) -> None:
        """To what was understood, without anything of the training."""
        self._end()
        assert self._folder is not None
        shutil.rmtree(self._folder / RUN, ignore_errors=True)
        (self._folder / STOP).unlink(missing_ok=True)
        self._state, self._message, self._progress = "understood", message, None

    def _clear(self, message: str | None = None) -> None:
        self._end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._alive is not None:
            self._alive.close()
        self._folder = self._alive = self._understood = self._progress = self._result = None
        self._files, self._choice = {}, {}
        self._state, self._message = "idle", message

    def _end(self) -> None:
        """Of the other process, if there is one."""
        self._turn += 1
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close_pipes()

    def _close_pipes(self) -> None:
        assert self._process is not None
        with suppress(OSError):  # what is written to a process that has ended
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process = None

    def _last_line(self) -> str:
        assert self._folder is not None
        with suppress(OSError):
            lines = (self._folder / "log").read_text(errors="replace").split("\n")
            return next((f": {line}" for line in reversed(lines) if line.strip()), "")
        return ""

    def _without_folder(self, text: str) -> str:
        for part in ("events", "items", ""):
            text = text.replace(f"{self._folder / part}{os.sep}" if self._folder else "", "")
        return text


def plain_name(name: str) -> str:
    """A name for a file that any system allows and messages can use."""
    plain = re.sub(r'[\x00-\x1f\x7f:*?"<>|]', "_", re.split(r"[/\\]", name)[-1]).strip(" .")
    while len(plain.encode(errors="replace")) > LONGEST_NAME:
        plain = plain[1:]  # not the end, which tells the format
    return plain


async def _write(path: Path, pieces: AsyncIterator[bytes]) -> None:
    with path.open("xb") as file:
        waiting = bytearray()
        async for piece in pieces:
            waiting += piece
            if len(waiting) >= PIECE:
                await asyncio.to_thread(file.write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(file.write, bytes(waiting))


def _new_folder(parent: Path) -> tuple[Path, IO[bytes]]:
    """A folder for unfinished things, and the file that is locked as long as they are needed."""
    made = Path(tempfile.mkdtemp(prefix=PREFIX, suffix=NEW, dir=parent))
    alive = (made / ALIVE).open("wb")
    lock(alive.fileno())
    return made.rename(made.with_name(made.name.removesuffix(NEW))), alive


def remove_abandoned(parent: Path) -> None:
    """Delete the folders of services that were killed."""
    if os.name != "posix":
        return
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.getuid():  # another user's
                continue
            if folder.name.endswith(NEW) and time.time() - folder.stat().st_mtime < SETTLED:
                continue
            with (folder / ALIVE).open("ab") as alive:
                if lock(alive.fileno()):
                    shutil.rmtree(folder, ignore_errors=True)
