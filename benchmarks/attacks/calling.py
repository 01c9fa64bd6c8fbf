"""Run commands of macrid in forks of this process, which has loaded everything, or in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120.0  # seconds for a command
PRELOADED = ("control.steer", "control.traverse", "control.batch", "data.catalog", "data.store", "runs", "workflow",
             "report.inspection")  # fmt: skip


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    code: int
    """Negative: the signal that ended it."""
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err

    def problem(self) -> str | None:
        """What is wrong with it, whatever the command should have done."""
        if self.code == -signal.SIGALRM:
            return "hang"
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        if "Traceback (most recent call last)" in self.said or "Exception ignored" in self.said:
            names = re.findall(r"^(?:[a-z_]+\.)*([A-Z]\w+)(?::|$)", self.said, re.MULTILINE)
            return f"traceback ({names[-1] if names else '?'})"
        if self.code not in (0, 1, 2, 130):
            return f"exit code {self.code}"
        if "unexpected " in self.err and "MACRID_DEBUG" in self.err:
            return f"unexplained ({re.search('unexpected ([A-Za-z]+)', self.err)[1]})"  # type: ignore[index]
        if self.code == 1 and not self.said.strip():
            return "refused without a word"
        lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|[^\n]*\r", "", self.err).splitlines()  # as a terminal shows it
        if self.code == 1 and lines and sum(line.startswith("error") for line in lines) != 1:
            return "refused in other than one line"
        return None


def preload() -> None:
    """Import what commands import, without computing anything: a fork inherits modules but not threads."""
    from importlib import import_module

    for name in ("cli", *PRELOADED):
        import_module(f"macrid.{name}")


def call(words: Sequence[object], folder: Path) -> Ending:
    """A command in a fork, in this working directory."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become([str(word) for word in words], folder, out.fileno(), err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return Ending(code, *(_text(file) for file in (out, err)))


def _become(words: list[str], folder: Path, out: int, err: int) -> None:
    code: object = 99
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        os.chdir(folder)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
        errors = {1: "strict", 2: "backslashreplace"}  # as Python opens them
        sys.stdout, sys.stderr = (
            os.fdopen(os.dup(at), "w", encoding="utf-8", errors=how) for at, how in errors.items()
        )
        sys.argv = ["macrid", *words]
        import torch

        from macrid import cli

        torch.set_num_threads(1)
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code if isinstance(code, int) else 1)


def _text(file: object) -> str:
    file.seek(0)  # type: ignore[attr-defined]
    return file.read().decode("utf-8", "backslashreplace")  # type: ignore[attr-defined, no-any-return]


def run(line: str, folder: Path, environment: Mapping[str, str | None] | None = None) -> Ending:
    """A shell command in a process of its own, with `macrid` as a function of the shell."""
    changed = {**os.environ, **(environment or {})}
    kept = {name: value for name, value in changed.items() if value is not None}
    script = f'macrid() {{ "{sys.executable}" -m macrid "$@"; }}\n{line}'
    started = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=kept,
            capture_output=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Ending(-signal.SIGALRM, "", f"no end after {time.monotonic() - started:.0f} s")
    out, err = (part.decode("utf-8", "backslashreplace") for part in (done.stdout, done.stderr))
    return Ending(done.returncode - 256 if done.returncode > 128 + 64 else _signalled(done.returncode), out, err)


def _signalled(code: int) -> int:
    """A shell says 128 + n for a process that signal n has ended; 130 is also ours for an interruption."""
    return 128 - code if code in (128 + signal.SIGSEGV, 128 + signal.SIGABRT, 128 + signal.SIGKILL) else code
