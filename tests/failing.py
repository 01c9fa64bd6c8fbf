"""File operations that fail once: with an error, as on a full disk, or by the end of the process."""

from __future__ import annotations

import builtins
import os
import pathlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest import mock

NAMES = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir", "open", "write")


class Killed(BaseException):
    """Ends everything, as a kill does: what the code does afterwards does not count."""


class _Failing:
    """Counts the file operations of this process; one of them fails, and after a kill all of them do."""

    def __init__(self, at: int | None, kind: str) -> None:
        self.at, self.kind, self.count, self.dead = at, kind, 0, False

    def wrap(self, function: Callable) -> Callable:
        def operation(*args: object, **kwargs: object) -> object:
            if self.dead:
                raise Killed
            number, self.count = self.count, self.count + 1
            if number == self.at:
                if self.kind == "kill":
                    self.dead = True
                    raise Killed
                raise OSError(28, "No space left on device")
            return function(*args, **kwargs)

        return operation


def _run(action: Callable[[], object], at: int | None, kind: str) -> int:
    failing = _Failing(at, kind)
    patches = [mock.patch.object(os, name, failing.wrap(getattr(os, name))) for name in NAMES]
    patches.append(mock.patch.object(pathlib.Path, "open", failing.wrap(pathlib.Path.open)))
    patches.append(mock.patch.object(shutil, "rmtree", failing.wrap(shutil.rmtree)))
    patches.append(mock.patch.object(builtins, "open", failing.wrap(builtins.open)))
    for patch in patches:
        patch.start()
    try:
        with suppress(Killed):
            action()
    finally:
        for patch in patches:
            patch.stop()
    return failing.count


def operations(action: Callable[[], object]) -> int:
    """How many file operations an action takes."""
    return _run(action, None, "error")


def with_failure(action: Callable[[], object], number: int, kind: str, expected: Any = OSError) -> bool:
    """Do something while operation `number` fails; whether the action succeeded nevertheless."""
    try:
        _run(action, number, kind)
    except expected:
        return False
    return kind == "error"
