"""Checkpoints, from which an interrupted training resumes: one safetensors file, replaced atomically."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from macrid.data.interactions import are_weighted
from macrid.errors import RunError, first_line
from macrid.files import write_atomically, writing
from macrid.settings import ADDED, REMOVED, MacridVAESettings, TrainingSettings
from macrid.training.adam import Adam
from macrid.training.average import Average
from macrid.training.likelihoods import Likelihood

FORMAT = 1
FILE = "checkpoint.safetensors"
START_OVER = "start over with --overwrite"
DIGESTS = ("interactions", "items", "labels", "warm_start")  # meaningless to people
MAY_CHANGE = ("epochs", "patience", "device", "scratch_mib")  # settings that may differ when training resumes


@dataclass
class Progress:
    """How far training is. Random numbers depend only on seed and epoch, so no generator state is stored."""

    epoch: int = 0
    best_epoch: int = 0
    best_score: float = -1.0
    log: list[dict[str, Any]] = field(default_factory=list)
    likelihood: Likelihood | None = None
    """What was chosen at the start."""


@dataclass(eq=False)
class State:
    """All that an interrupted training needs to resume."""

    network: nn.Module
    optimiser: Adam
    average: Average
    belongs_to: dict[str, Any]
    """The `fingerprint` of data and settings."""
    progress: Progress = field(default_factory=Progress)
    best: dict[str, Tensor] = field(default_factory=dict)
    """The weights of the best epoch, empty before the first."""


def fingerprint(data: dict[str, sp.csr_array], settings: dict[str, Any]) -> dict[str, Any]:
    """Identifies the interactions and settings a checkpoint belongs to."""
    digest = hashlib.sha256()
    for name, matrix in data.items():
        digest.update(name.encode())
        digest.update(matrix.indptr.astype(np.int64).data)
        digest.update(matrix.indices.astype(np.int32).data)
        if are_weighted(matrix):
            digest.update(matrix.data.astype(np.float32).data)
    return {"interactions": digest.hexdigest(), **{k: v for k, v in settings.items() if k not in MAY_CHANGE}}


def write(folder: Path, state: State) -> None:
    tensors = {f"now.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best.items()}
    tensors |= {f"average.{name}": value for name, value in state.average.weights.items()}
    for name, parameter in state.network.named_parameters():
        tensors |= {f"adam.{name}.{key}": value for key, value in state.optimiser.state.get(parameter, {}).items()}
    meta = {"format": FORMAT, "progress": asdict(state.progress), "belongs_to": state.belongs_to}
    content = to_bytes({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, {"macrid": json.dumps(meta)})
    with writing(folder / FILE, RunError, "free some space, then continue with --resume"):
        folder.mkdir(parents=True, exist_ok=True)  # somebody may have deleted it
        write_atomically(folder / FILE, content)


def read(folder: Path, state: State) -> Progress:
    """Restore the state of a training, unless there is no checkpoint yet; returns its progress."""
    path = folder / FILE
    if not path.exists():
        return state.progress
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads(file.metadata()["macrid"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if meta["format"] > FORMAT:
            raise RunError(f"{path}: written by a newer macrid (format {meta['format']}); upgrade, or {START_OVER}")
        state.progress = Progress(**meta["progress"])
        was = meta["belongs_to"]
        state.progress.likelihood = state.progress.likelihood or was.get("likelihood", "exact")
        check_belongs(path, was | {"likelihood": state.progress.likelihood}, state.belongs_to)
        state.network.load_state_dict(_under(tensors, "now."))
        device = next(state.network.parameters()).device
        for name, parameter in state.network.named_parameters():
            state.optimiser.state[parameter] = _under(tensors, f"adam.{name}.", device)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise RunError(f"{path}: not a readable checkpoint ({first_line(error)}); {START_OVER}") from error
    state.average.weights, state.best = _under(tensors, "average.", device), _under(tensors, "best.", device)
    return state.progress


def remove(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)


def _under(tensors: dict[str, Tensor], prefix: str, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value.to(device) for name, value in tensors.items() if name.startswith(prefix)}


def check_belongs(path: Path, was: dict[str, Any], now: dict[str, Any]) -> None:
    """A `RunError` that names what differs between two fingerprints."""
    known = {**MacridVAESettings.model_fields, **TrainingSettings.model_fields}  # some are newer than the checkpoint
    defaults = {name: field.default for name, field in known.items()} | ADDED | {"likelihood": "exact"}
    was = {name: value for name, value in defaults.items() if name in now} | was
    was = {name: value for name, value in was.items() if (name, value) not in REMOVED.items()}
    if now.get("likelihood") == "auto":
        was["likelihood"] = "auto"  # goes on with what it was
    changed = [name for name in {**now, **was} if was.get(name) != now.get(name)]
    if changed:
        differences = ", ".join(
            name if name in DIGESTS else f"{name} (was {was.get(name)!r}, now {now.get(name)!r})" for name in changed
        )
        raise RunError(
            f"{path}: belongs to another training, with different {differences}; use the same, or {START_OVER}"
        )
