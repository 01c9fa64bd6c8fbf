"""The held-out users of a run, so that `evaluate` needs nothing else."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from safetensors.torch import load_file
from torch import Tensor

from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.data.store import checked_csr
from macrid.errors import RunError, first_line
from macrid.models.macridvae import SAMPLE
from macrid.runs.folder import REMEDY, UNREADABLE, check, read, read_config


def read_heldout(folder: str | PathLike[str], split: str) -> HeldOut:
    """The "validation" or "test" users kept in a run."""
    groups = _read_groups(Path(folder))
    if not groups:
        raise RunError(f"{folder}: has no held-out users to evaluate on; train on a prepared folder")
    if split not in groups:
        raise RunError(f"{folder}: has no {split} users")
    return groups[split]


def read_validation(folder: str | PathLike[str]) -> HeldOut | None:
    """The validation users kept in a run, if any."""
    return _read_groups(Path(folder)).get("validation")


def read_histories(folder: str | PathLike[str], which: str | None = None) -> sp.csr_array | None:
    """Histories of one group of held-out users, or of all of them (None if the run keeps none)."""
    if which is not None:
        return read_heldout(folder, which).history
    groups = _read_groups(Path(folder))
    histories = [groups[name].history for name in ("test", "validation") if name in groups]
    return sp.csr_array(sp.vstack(histories)) if histories else None


def read_sample(folder: str | PathLike[str]) -> sp.csr_array | None:
    """Held-out users whose range bounds moves, if the run keeps any."""
    histories = read_histories(folder)
    return None if histories is None else histories[:SAMPLE]


def _read_groups(path: Path) -> dict[str, HeldOut]:
    """The held-out users of a run by group, as many as it keeps."""
    config = read_config(path)
    check(path, config, ["heldout.safetensors"])
    if not (path / "heldout.safetensors").exists():
        return {}
    tensors = read(path, "heldout.safetensors", load_file)
    try:
        names = sorted({name.split(".")[0] for name in tensors} - {"items"})
        return {name: _group(tensors, name, int(tensors["items"])) for name in names}
    except UNREADABLE as error:
        raise RunError(f"{path / 'heldout.safetensors'}: damaged ({first_line(error)}); {REMEDY}") from error


def _group(tensors: dict[str, Tensor], name: str, items: int) -> HeldOut:
    matrices = []
    for side in ("history", "target"):
        indptr, indices = (tensors[f"{name}.{side}.{part}"].numpy() for part in ("indptr", "indices"))
        if indptr.dtype != np.int64 or indices.dtype != np.int32:
            raise ValueError(f"{name}.{side}: index arrays of {indptr.dtype} and {indices.dtype}")
        matrices.append(matrix := checked_csr(indptr, indices, (len(indptr) - 1, items)))
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(indptr))
        if len(np.unique(rows * items + indices)) < len(indices):
            raise ValueError(f"{name}.{side}: an item occurs twice for one user")
    history, target = matrices
    if history.shape != target.shape:
        raise ValueError(f"{name}: histories of {history.shape[0]} users, targets of {target.shape[0]}")
    return HeldOut(history, target, Ids.range(history.shape[0]))


def packed(heldout: dict[str, HeldOut]) -> dict[str, Tensor]:
    packed: dict[str, Tensor] = {}
    for name, group in heldout.items():
        packed["items"] = torch.tensor(group.history.shape[1])
        for side, matrix in (("history", group.history), ("target", group.target)):
            packed[f"{name}.{side}.indptr"] = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64))
            packed[f"{name}.{side}.indices"] = torch.from_numpy(np.array(matrix.indices, dtype=np.int32))
    return packed
