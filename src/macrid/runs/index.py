"""The index of a run: index.safetensors, which says which items share a cell. A run without one scores every item."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save as to_bytes

from macrid import manifest
from macrid.errors import IndexWarning, RequestError, RunError, first_line
from macrid.files import writing
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.retrieval import INDEXED_ITEMS, Index, build_index
from macrid.ops.cells import Grouping
from macrid.runs.folder import UNREADABLE, put, tensors_of, weights_digest

INDEX = "index.safetensors"
LONGEST = 1e-3  # how far a direction may be from length 1


def write_index(
    folder: str | PathLike[str],
    model: Recommender,
    *,
    approximate: bool = False,
    recall: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Index:
    """Build the index of a run's model and write it into the run; the previous one is used until then."""
    path = Path(folder)
    if not isinstance(model, MacridVAE):
        raise RequestError(f"{path}: a {type(model).__name__} has no index; it scores every item")
    weights = weights_digest(path)
    wanted = {} if recall is None else {"recall": recall}
    index = build_index(model, approximate=approximate, progress=progress, **wanted)

    def contents() -> dict[str, bytes]:
        if weights_digest(path) != weights:
            raise RunError(f"{path}: replaced since it was opened; try again")
        return {INDEX: _bytes(index, weights)}

    with writing(path / INDEX, RunError, "the run is as it was"):
        put(path, contents)
    model.index = index
    return index


def index_if_large(folder: str | PathLike[str], model: Recommender) -> None:
    """Write the index of a run with so many items that it pays."""
    if isinstance(model, MacridVAE) and model.trained_items >= INDEXED_ITEMS:
        write_index(folder, model)


def remove_index(folder: str | PathLike[str]) -> bool:
    """Whether there was one."""
    path = Path(folder) / INDEX
    exists = path.exists()
    with writing(path, RunError, "the run is as it was"):
        path.unlink(missing_ok=True)
    return exists


def read_index(path: Path, model: MacridVAE) -> Index | None:
    """The index of a run, None if it has none; an `IndexWarning` if it cannot be used."""
    if not (path / INDEX).exists():
        return None
    try:
        if wrong := manifest.problems(path, [INDEX]):
            raise ValueError(wrong[INDEX])
        return _read(path, model)
    except (*UNREADABLE, OSError, SafetensorError, manifest.DamagedError) as error:
        again = f"`macrid index {quote(str(path))}` builds it again"
        message = f"{path / INDEX}: {first_line(error)}; every item is scored instead, {again}"
        warnings.warn(message, IndexWarning, stacklevel=6)
        return None


def _read(path: Path, model: MacridVAE) -> Index:
    tensors, about = tensors_of(path / INDEX)
    if about.get("weights") != weights_digest(path):
        raise ValueError("belongs to another run, or to earlier weights of this one")
    if "part" not in tensors:
        raise ValueError("written by an earlier version")
    directions, cell, part = tensors["directions"], tensors["cell"], tensors["part"]
    shape = (model.trained_items, model.decoder.items.shape[1])
    if directions.dtype != torch.float32 or cell.dtype != torch.int32 or (len(cell), directions.shape[1]) != shape:
        raise ValueError(f"damaged (it is not an index of {shape[0]:,} items with {shape[1]} dimensions)")
    if not ((directions.norm(dim=1) - 1).abs() < LONGEST).all():
        raise ValueError("damaged (it has directions that are not of length 1)")
    if len(cell) and not 0 <= int(cell.min()) <= int(cell.max()) < len(directions):
        raise ValueError("damaged (it names cells that do not exist)")
    if part.dtype != torch.int16 or part.shape != cell.shape or (len(part) and int(part.min()) < 0):
        raise ValueError("damaged (its cells have no proper parts)")
    content: dict[str, Any] = json.loads(about["index"])
    probes = content["probes"]
    if probes is not None and (not isinstance(probes, int) or probes < 1):
        raise ValueError(f"damaged (it searches {probes!r} cells)")
    return Index(Grouping(directions, cell, part), probes, content["trial"])


def _bytes(index: Index, weights: str) -> bytes:
    tensors = vars(index.grouping)
    about = {"weights": weights, "index": json.dumps({"probes": index.probes, "trial": index.trial})}
    return to_bytes({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, about)
