"""Other processes: started with low priority, and how they ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

NICE = 10  # requests come first


def start(
    module: str, arguments: Sequence[str], *, environment: Mapping[str, str] = {}, nice: int = NICE, **streams: Any
) -> subprocess.Popen[bytes]:
    """Run a module in a process of lower priority, with the same import path."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        env={**os.environ, **environment, "PYTHONPATH": path},
        **{"stdin": subprocess.DEVNULL, **streams},
    )
    with contextlib.suppress(AttributeError, OSError):  # Windows, or it has ended already
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + nice)
    return process


def how_it_ended(status: int | None) -> str:
    """An exit status in words."""
    if status is None or status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-status).name
        return f"was killed by {name}" + (", possibly for lack of memory" if name == "SIGKILL" else "")
    return f"was killed by signal {-status}"
