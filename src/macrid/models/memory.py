"""How much memory the training of a network takes at least, known before any of it is allocated."""

from __future__ import annotations

import copy
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from macrid.errors import SettingsError
from macrid.models.devices import memory_left
from macrid.settings import TrainingSettings

if TYPE_CHECKING:
    from macrid.models.neural import NeuralRecommender

PER_PARAMETER = 16  # bytes at least: the weight, Adam's two moments, and its gradient or its best value so far
ADJUSTABLE = ("width", "dim", "concepts")


def check_memory(
    model: NeuralRecommender, users: int, items: int, training: TrainingSettings, device: torch.device
) -> None:
    """A `SettingsError` if a model cannot be trained on a device for lack of memory, with what would fit."""
    left = memory_left(device) + (_swap() if device.type == "cpu" else 0)
    batch = training.users_per_step(users)
    if training.likelihood == "sampled" and batch * training.negatives > left:
        raise SettingsError(
            f"negatives is {training.negatives:,}; a step of {batch:,} users needs {size(batch * training.negatives)},"
            f" but {size(left)} is free on {device}; lower it below {int(left // batch):,}"
        )
    needed = training_bytes(model, items)
    if needed is None or needed <= left:
        return
    settings = model.settings.model_dump()
    sizes = ", ".join(f"{name} {settings[name]}" for name in ADJUSTABLE if name in settings)
    fitting = [f"{name} {value:,}" for name in ADJUSTABLE if (value := _largest(model, items, name, left))]
    remedy = f"{' or '.join(fitting)} would fit" if fitting else "keep fewer items, or choose another model"
    raise SettingsError(
        f"a network for {items:,} items with {sizes} needs {size(needed)} to train, but {size(left)} is free on"
        f" {device}; {remedy}"
    )


def training_bytes(model: NeuralRecommender, items: int) -> int | None:
    """The least that training takes; None for a network that cannot be built without memory."""
    with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        return PER_PARAMETER * sum(parameter.numel() for parameter in model._build(items).parameters())
    return None


def size(count: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit in ("bytes", "KiB") else f"{count:,.1f} {unit}"


def _largest(model: NeuralRecommender, items: int, name: str, left: float) -> int | None:
    """The largest value of a setting with which the training would fit."""
    value = getattr(model.settings, name, None)
    if not isinstance(value, int):
        return None
    low, high = 0, value
    while high - low > 1:
        middle = (low + high) // 2
        smaller = copy.copy(model)
        smaller.settings = model.settings.model_copy(update={name: middle})
        needed = training_bytes(smaller, items)
        low, high = (middle, high) if needed is not None and needed <= left else (low, middle)
    return low or None


def _swap() -> float:
    with suppress(OSError):
        return sum(1024.0 * int(kib) for kib in re.findall(r"SwapFree:\s+(\d+)", Path("/proc/meminfo").read_text()))
    return 0.0
