"""Which device a model lives on, and what to say when it is too small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch

from macrid.config import TrainingSettings
from macrid.errors import SettingsError, TrainingError

if TYPE_CHECKING:
    from macrid.models.base import NeuralRecommender


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
