"""Which device a model lives on, and what to say when it is too small."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from macrid.errors import SettingsError, TrainingError
from macrid.settings import TrainingSettings

if TYPE_CHECKING:
    from macrid.models.neural import NeuralRecommender


def choose_device(name: str) -> torch.device:
    """ "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise SettingsError(f"device is {name!r}; give auto, cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise SettingsError(f"device is {name!r}, but torch sees {torch.cuda.device_count()} GPUs; give auto or cpu")
    return device


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_left(device: torch.device) -> float:
    """Bytes that can be had on a device; without a bound where the system does not say."""
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
    """Kernels are launched on this device meanwhile, also where it is not the first one."""
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        yield


@contextmanager
def explained(model: NeuralRecommender, training: TrainingSettings, users: int) -> Iterator[None]:
    """A GPU whose memory is too small becomes a `TrainingError` that says which setting to lower."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "OutOfResources":  # of Triton, which need not be installed
            raise TrainingError(f"the processors of the GPU cannot hold the kernels ({error}); lower dim") from None
        if not isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        total = torch.cuda.get_device_properties(choose_device(training.device)).total_memory / 2**30
        parameters = 16 * sum(p.numel() for p in model.network.parameters()) / 2**30
        other = "or negatives" if training.likelihood == "sampled" else "or dim, or give likelihood='sampled'"
        raise TrainingError(
            f"the memory of the GPU ({total:.0f} GiB) is too small: parameters, gradients and moments take"
            f" {parameters:.1f} GiB, the rest grows with the batch; lower batch_size"
            f" (now {training.users_per_step(users)}) {other}"
        ) from None
