"""Devices: which one to use, how much memory it has, and what to do when that is too little."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import macrid.models.forks  # noqa: F401  # whoever has a model can fork
from macrid.errors import SettingsError, TrainingError
from macrid.settings import TrainingSettings

if TYPE_CHECKING:
    from macrid.models.neural import NeuralRecommender


def choose_device(name: str) -> torch.device:
    """ "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise SettingsError(f"device is {name!r}; use auto, cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise SettingsError(f"device is {name!r}, but torch sees {torch.cuda.device_count()} GPUs; use auto or cpu")
    return device


def memory_left(device: torch.device) -> float:
    """Free bytes on a device; infinite where the system does not say."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    sizes = [math.inf]
    with suppress(OSError, ValueError):  # of a container
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    with suppress(OSError):  # Linux
        sizes += [1024.0 * int(kib) for kib in re.findall(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())]
    with suppress(AttributeError, OSError, ValueError):  # any Unix
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(sizes)


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Launch kernels on this device, even if it is not the first one."""
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        yield


@contextmanager
def explained(model: NeuralRecommender, training: TrainingSettings, users: int) -> Iterator[None]:
    """Turn running out of GPU memory into a `TrainingError` that says which setting to lower."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "OutOfResources":  # of Triton, which need not be installed
            raise TrainingError(f"the kernels do not fit this GPU ({error}); lower dim") from None
        if not isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        total = torch.cuda.get_device_properties(choose_device(training.device)).total_memory / 2**30
        parameters = 16 * sum(p.numel() for p in model.network.parameters()) / 2**30
        other = "or negatives" if training.likelihood == "sampled" else "or dim, or use likelihood='sampled'"
        raise TrainingError(
            f"out of GPU memory ({total:.0f} GiB): parameters, gradients and moments take"
            f" {parameters:.1f} GiB, and the rest grows with the batch; lower batch_size"
            f" (now {training.users_per_step(users)}) {other}"
        ) from None
