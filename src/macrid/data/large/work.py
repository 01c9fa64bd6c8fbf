"""The folder beside the target in which stages leave what they made, so that a killed command can go on."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMAT = 1
STATE = "stages.json"


class Work:
    """`.NAME.preparing`: a folder for each stage, and stages.json, which says what was prepared and how far it got."""

    def __init__(self, target: Path, belongs_to: dict[str, Any]) -> None:
        """belongs_to: the inputs and options; what was made from others is stale."""
        self.folder = self.place(target)
        self.note = ""
        """What to tell the user about what was there."""
        self.is_stale = False
        """Whether what is there is of no use, so that the first thing to do is to start over."""
        belongs_to = json.loads(json.dumps({"format": FORMAT, **belongs_to, "start_of_the_machine": boot()}))
        self._state: dict[str, Any] = self._read()
        finished = self._state.get("finished")
        if self._state.get("belongs_to") == belongs_to and isinstance(finished, dict):
            if finished:
                stages = f"{len(finished):,} finished stage{'s' * (len(finished) > 1)}"
                self.note = f"going on after {stages} of an interrupted run"
            return
        if self.folder.exists():
            changed = _differences(self._state.get("belongs_to"), belongs_to)
            self.note = f"starting over: {changed} since the interrupted run"
        self._state = {"belongs_to": belongs_to}
        self.is_stale = self.folder.exists()
        if not self.is_stale:
            self.start_over()

    def start_over(self) -> None:
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self._state["finished"] = {}
        self._write()
        self.is_stale = False

    @staticmethod
    def place(target: Path) -> Path:
        """Where the folder for a target is."""
        target = target.resolve()
        return target.with_name(f".{target.name}.preparing")

    def run(self, name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """What a stage found out: from an earlier run, or by making it in an empty folder of its own."""
        finished: dict[str, dict[str, Any]] = self._state["finished"]
        if name not in finished:
            folder = self.path(name)
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir()
            finished[name] = make(folder)
            self._write()
        return finished[name]

    def is_finished(self, name: str) -> bool:
        return name in self._state["finished"]

    def path(self, name: str) -> Path:
        return self.folder / name

    def drop(self, name: str) -> None:
        """Delete the files of a stage that no later one needs."""
        shutil.rmtree(self.path(name), ignore_errors=True)

    def remove(self) -> None:
        (self.folder / STATE).unlink(missing_ok=True)  # first: what is half-deleted must not be taken for finished
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self) -> dict[str, Any]:
        try:
            state = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _write(self) -> None:
        """In one step; what a crash of the machine would lose need not be on the disk, as `boot` tells crashes."""
        temporary = self.folder / f".{STATE}"
        temporary.write_text(json.dumps(self._state), encoding="utf-8")
        os.replace(temporary, self.folder / STATE)


def boot() -> str | float:
    """Names the time since the machine was started: files that were not synced survive a kill, but not a crash."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # pragma: no cover  (not Linux)
        return round((time.time() - time.monotonic()) / 60)


def fingerprint(path: Path) -> list[Any]:
    """Of a file: its place, size and time of change."""
    about = path.stat()
    return [os.fspath(path.resolve()), about.st_size, about.st_mtime_ns]


def _differences(was: Any, now: dict[str, Any]) -> str:
    if not isinstance(was, dict):
        return "its files are incomplete"
    changed = [name.replace("_", " ") for name in now if was.get(name) != now[name]]
    return f"{' and '.join(changed)} changed"
