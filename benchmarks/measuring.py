"""What the speed benchmarks share: clocks, peaks of memory, the machine in words, growth as an exponent, tables."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

import macrid

MIB = 2**20


def circumstances() -> dict[str, Any]:
    """Machine, versions and date, as every measured part carries them."""
    versions = {"macrid": macrid.__version__, "torch": torch.__version__, "python": platform.python_version()}
    try:
        versions["triton"] = metadata.version("triton")
    except metadata.PackageNotFoundError:
        versions["triton"] = "none"
    return {
        "machine": {
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        },
        "versions": versions,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


# Time


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of one call, with the device waited for at both ends and not in between."""
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """A B C, A B C, …: what disturbs the machine meanwhile disturbs all alike. The first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            taken = seconds(work, device)
            if number:
                found[name].append(taken)
    return found


def product_speed(device: torch.device, size: int, kind: torch.dtype, times: int = 6) -> float:
    """FLOP/s of the best of some products of two square matrices."""
    a, b = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    out = torch.empty_like(a)
    torch.mm(a, b, out=out)
    return 2 * size**3 / min(seconds(lambda: torch.mm(a, b, out=out), device) for _ in range(times))


def copy_speed(device: torch.device, megabytes: int, times: int = 6) -> float:
    """Bytes/s of the best of some copies on the device, read and written bytes counted."""
    source = torch.ones(megabytes * MIB // 4, device=device)
    target = torch.empty_like(source)
    return 2 * megabytes * MIB / min(seconds(lambda: target.copy_(source), device) for _ in range(times))


# Memory


def fresh_peak(device: torch.device) -> int:
    """Start to watch the peak of memory, with nothing lying about; bytes in use now."""
    gc.collect()
    if device.type == "cuda":
        torch.empty(0, device=device)  # there is nothing to watch before the first tensor
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    _give_back()
    if os.access("/proc/self/clear_refs", os.W_OK):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak becomes what is in use now
    return _resident("VmRSS")


def peak(device: torch.device) -> int:
    """Most bytes in use since `fresh_peak`."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _resident("VmHWM")


def _resident(field: str) -> int:
    """From the process's own figures: ru_maxrss would begin with the size of the process that started this one."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def _give_back() -> None:
    """Make the C library return freed memory to the system, where it can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


# Numbers and tables


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """e of the least-squares fit values ~ sizes^e; None for fewer than two sizes or where something is not positive."""
    if len(set(sizes)) < 2 or min(*sizes, *values) <= 0:
        return None
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def rounded(value: Any) -> Any:
    """Four digits are enough in a file that people read."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def show(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns, the first one to the left and the others to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        print("  " + "  ".join(cells).rstrip(), flush=True)


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}×"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


# Pages


def filled_from(text: str, results: Path, parts: Mapping[str, tuple[str, Callable[[Any], str]]]) -> str:
    """A page with every part between `<!-- NAME -->` and `<!-- end -->` made anew, where it was measured.

    parts: NAME → the file of results, and what to make of it.
    """
    for name, (result, table) in parts.items():
        if (results / result).exists():
            made = table(json.loads((results / result).read_text(encoding="utf-8")))
            pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
            text = re.sub(pattern, lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text, flags=re.DOTALL)
    return text
