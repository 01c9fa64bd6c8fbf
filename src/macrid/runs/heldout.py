"""The held-out users of a run, so that `evaluate` needs nothing else."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.everyone import over_more_items
from macrid.data.ids import Ids
from macrid.data.interactions import are_weighted
from macrid.data.split import HELD_OUT_USERS, HeldOut
from macrid.data.store import checked_csr
from macrid.errors import RunError, first_line
from macrid.models.macridvae import SAMPLE
from macrid.runs.added import count_added
from macrid.runs.folder import REMEDY, UNREADABLE, check, read, read_config, tensors_of


def read_heldout(folder: str | PathLike[str], split: str, *, added: bool = True) -> HeldOut:
    """The "validation" or "test" users kept in a run. added: over its added items, too."""
    groups = _read_groups(Path(folder), added)
    if not groups:
        raise RunError(f"{folder}: has no held-out users to evaluate on; train on a prepared folder")
    if {*groups} == {"train"}:
        raise RunError(
            f"{folder}: nobody was held out of its training, so there is nobody to evaluate on; prepare the data again"
            " with --heldout"
        )
    if split not in groups:
        raise RunError(f"{folder}: has no {split} users")
    return groups[split]


def read_validation(folder: str | PathLike[str], *, added: bool = True) -> HeldOut | None:
    """The validation users kept in a run, if any."""
    return _read_groups(Path(folder), added).get("validation")


def read_histories(folder: str | PathLike[str], which: str | None = None, *, added: bool = True) -> sp.csr_array | None:
    """Histories of one group of held-out users, or of all of them (None if the run keeps none)."""
    if which is not None:
        return read_heldout(folder, which, added=added).history
    groups = _read_groups(Path(folder), added)
    histories = [groups[name].history for name in ("test", "validation") if name in groups]
    return sp.csr_array(sp.vstack(histories)) if histories else None


def read_sample(folder: str | PathLike[str], *, added: bool = True) -> sp.csr_array | None:
    """Users whose range bounds moves, if the run keeps any: held-out users, or train users where nobody is."""
    histories = read_histories(folder, added=added)
    if histories is None:
        train = _read_groups(Path(folder), added).get("train")
        histories = None if train is None else train.history
    return None if histories is None else histories[:SAMPLE]


def _read_groups(path: Path, added: bool) -> dict[str, HeldOut]:
    """The held-out users of a run by group, as many as it keeps."""
    config = read_config(path)
    check(path, config, ["heldout.safetensors"])
    if not (path / "heldout.safetensors").exists():
        return {}
    tensors, _ = read(path, "heldout.safetensors", tensors_of)
    try:
        names = sorted({name.split(".")[0] for name in tensors} - {"items"})
        protocols, items = config.get("protocol") or {}, int(tensors["items"])
        groups = {name: _group(tensors, name, items, protocols.get(name, HELD_OUT_USERS)) for name in names}
    except UNREADABLE as error:
        raise RunError(f"{path / 'heldout.safetensors'}: damaged ({first_line(error)}); {REMEDY}") from error
    more = count_added(path) if added else 0
    return {name: over_more_items(group, items + more) for name, group in groups.items()} if more else groups


def _group(tensors: dict[str, Tensor], name: str, items: int, protocol: str) -> HeldOut:
    matrices = []
    for side in ("history", "target"):
        indptr, indices = (tensors[f"{name}.{side}.{part}"].numpy() for part in ("indptr", "indices"))
        if indptr.dtype != np.int64 or indices.dtype != np.int32:
            raise ValueError(f"{name}.{side}: index arrays of {indptr.dtype} and {indices.dtype}")
        weights = tensors.get(f"{name}.{side}.weights")
        values = None if weights is None else weights.numpy()
        if values is not None and values.dtype != np.float32:
            raise ValueError(f"{name}.{side}: weights of {values.dtype}")
        matrices.append(matrix := checked_csr(indptr, indices, (len(indptr) - 1, items), values))
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(indptr))
        if len(np.unique(rows * items + indices)) < len(indices):
            raise ValueError(f"{name}.{side}: an item occurs twice for one user")
    history, target = matrices
    if history.shape != target.shape:
        raise ValueError(f"{name}: histories of {history.shape[0]} users, targets of {target.shape[0]}")
    return HeldOut(history, target, Ids.range(history.shape[0]), protocol)


def packed(heldout: dict[str, HeldOut]) -> dict[str, Tensor]:
    packed: dict[str, Tensor] = {}
    for name, group in heldout.items():
        packed["items"] = torch.tensor(group.history.shape[1])
        for side, matrix in (("history", group.history), ("target", group.target)):
            packed[f"{name}.{side}.indptr"] = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64))
            packed[f"{name}.{side}.indices"] = torch.from_numpy(np.array(matrix.indices, dtype=np.int32))
            if are_weighted(matrix):
                packed[f"{name}.{side}.weights"] = torch.from_numpy(np.array(matrix.data, dtype=np.float32))
    return packed
