"""Checkpoints, from which an interrupted training resumes: one safetensors file, replaced atomically.

Where processes divide the items, each writes its rows to a file of its own, under a name that is new for every epoch;
the one file, which names them, is replaced once all are there. Any number of processes reads either kind.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
from macrid.ops.shards import TABLES, WHOLE, Shards
from macrid.settings import ADDED, REMOVED, MacridVAESettings, TrainingSettings
from macrid.training.adam import Adam
from macrid.training.average import Average
from macrid.training.likelihoods import Likelihood
from macrid.training.mesh import Mesh

FORMAT = 1
DIVIDED = 2  # the format of a checkpoint with tables in other files
FILE = "checkpoint.safetensors"
FOLDER = "shards"  # beside it: those files
START_OVER = "start over with --overwrite"
DIGESTS = ("interactions", "items", "labels", "warm_start")  # meaningless to people
MAY_CHANGE = ("epochs", "patience", "device", "scratch_mib", "interactions_mib", "item_shards")
"""Settings that may differ when training resumes."""


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
        digest.update(matrix.indptr.astype(np.int64, copy=False).data)
        digest.update(matrix.indices.astype(np.int32, copy=False).data)
        if are_weighted(matrix):
            digest.update(matrix.data.astype(np.float32, copy=False).data)
    return {"interactions": digest.hexdigest(), **{k: v for k, v in settings.items() if k not in MAY_CHANGE}}


def write(folder: Path, state: State, mesh: Mesh | None = None) -> None:
    """Write a checkpoint; with a mesh, all processes together."""
    tensors = {f"now.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best.items()}
    tensors |= {f"average.{name}": value for name, value in state.average.weights.items()}
    for name, parameter in state.network.named_parameters():
        tensors |= {f"adam.{name}.{key}": value for key, value in state.optimiser.state.get(parameter, {}).items()}
    meta = {"format": FORMAT, "progress": asdict(state.progress), "belongs_to": state.belongs_to}
    if mesh is None or mesh.shards.is_whole:
        if mesh is None or mesh.leads:
            _write(folder / FILE, tensors, meta)
        return
    tables = {name: tensors.pop(name) for name in list(tensors) if _is_table(name)}
    shards, epoch = mesh.shards, state.progress.epoch
    names = [f"{epoch}-{index + 1}-of-{shards.size}.safetensors" for index in range(shards.size)]
    with mesh.together():
        if mesh.part == 0:
            _write(folder / FOLDER / names[shards.index], tables, {})
    with mesh.together():
        if mesh.leads:
            _write(folder / FILE, tensors, {**meta, "format": DIVIDED, "shards": names, "bounds": shards.bounds})
            _remove_others(folder, names)


def _write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    content = to_bytes({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, {"macrid": json.dumps(meta)})
    with writing(path, RunError, "free some space, then continue with --resume"):
        path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have deleted it
        write_atomically(path, content)


def _is_table(name: str) -> bool:
    """Whether a tensor has a row per item."""
    parts = name.split(".")
    return parts[1] in TABLES and parts[-1] != "step"


def _remove_others(folder: Path, names: list[str]) -> None:
    """Delete the shards of earlier checkpoints."""
    for path in (folder / FOLDER).glob("*.safetensors"):
        if path.name not in names:
            path.unlink(missing_ok=True)


def read(folder: Path, state: State, shards: Shards = WHOLE) -> Progress:
    """Restore the state of a training, unless there is no checkpoint yet; returns its progress.

    shards: whose rows of the tables to read.
    """
    path = folder / FILE
    if not path.exists():
        return state.progress
    with _opened(path) as file:
        state.progress = Progress(**file.meta["progress"])
        was = file.meta["belongs_to"]
        state.progress.likelihood = state.progress.likelihood or was.get("likelihood", "exact")
        check_belongs(path, was | {"likelihood": state.progress.likelihood}, state.belongs_to)
        tensors = {name: file.tensor(name, shards) for name in file.names}
        state.network.load_state_dict(_under(tensors, "now."))
        device = next(state.network.parameters()).device
        for name, parameter in state.network.named_parameters():
            state.optimiser.state[parameter] = _under(tensors, f"adam.{name}.", device)
    state.average.weights, state.best = _under(tensors, "average.", device), _under(tensors, "best.", device)
    return state.progress


def read_best(folder: Path) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The whole weights of the best epoch, and the log, of a checkpoint; nothing if there is none."""
    path = folder / FILE
    if not path.exists():
        return {}, []
    with _opened(path) as file:
        best = [name for name in file.names if name.startswith("best.")]
        tensors = {name.removeprefix("best."): file.tensor(name, WHOLE) for name in best}
        return tensors, file.meta["progress"]["log"]


class _Reader:
    """A checkpoint with all its files."""

    def __init__(self, path: Path, files: ExitStack) -> None:
        index = files.enter_context(safe_open(path, framework="pt"))
        self.meta: dict[str, Any] = json.loads(index.metadata()["macrid"])
        if self.meta["format"] > DIVIDED:
            raise RunError(
                f"{path}: written by a newer macrid (format {self.meta['format']}); upgrade, or {START_OVER}"
            )
        self.places = {name: [(index, 0)] for name in index.keys()}  # noqa: SIM118
        for name, first in zip(self.meta.get("shards", ()), self.meta.get("bounds", ()), strict=False):
            part = files.enter_context(safe_open(path.parent / FOLDER / name, framework="pt"))
            for key in part.keys():  # noqa: SIM118
                self.places.setdefault(key, []).append((part, first))

    @property
    def names(self) -> list[str]:
        return list(self.places)

    def tensor(self, name: str, shards: Shards) -> Tensor:
        """All of a tensor, or of a table the rows of `shards`."""
        places = self.places[name]
        if len(places) == 1 and (shards.is_whole or not _is_table(name)):
            return places[0][0].get_tensor(name)
        parts = []
        for file, first in places:
            table = file.get_slice(name)
            stop = first + table.get_shape()[0]
            begin, end = (first, stop) if shards.is_whole else (max(first, shards.first), min(stop, shards.rows.stop))
            if begin < end:
                parts.append(table[begin - first : end - first])
        return torch.cat(parts)


@contextmanager
def _opened(path: Path) -> Iterator[_Reader]:
    """A checkpoint to read; whatever is wrong with it is a `RunError`."""
    try:
        with ExitStack() as files:
            yield _Reader(path, files)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise RunError(f"{path}: not a readable checkpoint ({first_line(error)}); {START_OVER}") from error


def remove(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


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
