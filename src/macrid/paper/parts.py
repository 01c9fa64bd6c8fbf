"""A cache of results: each part is a JSON file with its value, what it was computed from, and where."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from macrid.errors import MacridError
from macrid.files import write_atomically, writing
from macrid.version import __version__


class Parts:
    """A folder of parts. A part is recomputed only if its key has changed."""

    def __init__(self, folder: Path, device: str = "auto", on_part: Callable[[str, bool], None] | None = None) -> None:
        """device: where parts are computed.

        on_part: called with a part's name, before it is computed (False) and when it is ready (True).
        """
        self.folder, self.device, self._on_part = folder, device, on_part or (lambda name, ready: None)
        self.seconds = 0.0
        self.machines: list[dict[str, Any]] = []

    def get(self, name: str, key: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """The result of `compute`, from the folder if it was computed before for this name and key."""
        path = self.folder / f"{name}.json"
        key = json.loads(json.dumps(key))
        part = self._read(path)
        if part is None or part.get("key") != key:
            self._on_part(name, False)
            began = time.monotonic()
            value = json.loads(json.dumps(compute(), allow_nan=False))
            seconds = round(time.monotonic() - began, 1)
            part = {"key": key, "seconds": seconds, "where": where(self.device), "value": value}
            write(path, json.dumps(part) + "\n")
        self._on_part(name, True)
        self.seconds += part["seconds"]
        if part["where"] not in self.machines:
            self.machines.append(part["where"])
        return part["value"]

    def about(self) -> dict[str, Any]:
        """How long the parts so far took, and on which machines."""
        return {"seconds": round(self.seconds, 1), "machines": self.machines}

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            part = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # missing or damaged: recomputed
        return part if isinstance(part, dict) and {"key", "seconds", "where", "value"} <= set(part) else None


def write(path: Path, content: str) -> None:
    """Write a file and, if needed, its folder."""
    with writing(path, MacridError, "finished parts are safe"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def where(device: str = "auto") -> dict[str, Any]:
    """This machine, the relevant versions, and the date."""
    import torch

    from macrid.models.devices import choose_device
    from macrid.openmp import cores

    chosen = choose_device(device)
    return {
        "machine": torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else f"{_processor()}, {cores()} cores",
        "versions": f"macrid {__version__}, torch {torch.__version__}, Python {platform.python_version()}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
