"""Axes, names and effects of knobs as files of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as to_bytes

from macrid.concepts.axes import KINDS
from macrid.concepts.effects import effects_from_json
from macrid.concepts.meaning import Axes, Fit, Meaning, unturned
from macrid.concepts.names import Names
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.runs.folder import pretty, put, read, tensors_of

NOT_TURNED = 1e-3  # of the products of axes, which are 0 and 1


def meaning_files(meaning: Meaning) -> dict[str, bytes | str]:
    """The contents of axes.safetensors, names.json and effects.json, as far as there are any."""
    files: dict[str, bytes | str] = {}
    if meaning.axes:
        files["axes.safetensors"] = _axes_bytes(meaning)
    if meaning.names is not None:
        files["names.json"] = pretty(meaning.names.as_json())
    if meaning.effects:
        files["effects.json"] = pretty([effect.model_dump(mode="json") for effect in meaning.effects])
    return files


def read_meaning(path: Path) -> Meaning:
    """From axes.safetensors, names.json and effects.json, where they exist."""
    meaning = Meaning()
    if (path / "axes.safetensors").exists():
        kept, metadata = read(path, "axes.safetensors", tensors_of)
        tensors = {name: value.numpy() for name, value in kept.items()}
        fits = json.loads(metadata["fits"])
        meaning.in_use = tuple(json.loads(metadata["in_use"]))
        kinds = {name.rpartition(".")[0] for name in tensors}
        for kind in sorted(kinds & {*KINDS, *meaning.in_use}):  # earlier versions knew others
            kind_fits = tuple(Fit(*fit) for fit in fits.get(kind, []))
            low, high = tensors.get(f"{kind}.low"), tensors.get(f"{kind}.high")
            rotation = unturned(*tensors["original.low"].shape) if kind == "original" else tensors[f"{kind}.rotation"]
            meaning.axes[kind] = Axes(kind, rotation, low, high, kind_fits)
    if (path / "names.json").exists():
        meaning.names = read(path, "names.json", lambda file: read_names(file.parent))
    if (path / "effects.json").exists():
        meaning.effects = read(path, "effects.json", lambda file: effects_from_json(file.read_bytes()))
    return meaning


def check_meaning(meaning: Meaning, model: Recommender) -> None:
    """Raise a `ValueError` if the axes or names belong to another model."""
    if not meaning.axes and meaning.names is None and not meaning.effects:
        return
    if not isinstance(model, MacridVAE):
        raise ValueError(f"axes.safetensors, names.json and effects.json do not belong to a {type(model).__name__}")
    concepts, dim = model.network.concepts, model.settings.dim
    for kind, axes in meaning.axes.items():
        ends = [end for end in (axes.low, axes.high) if end is not None]
        fits = all(0 <= fit.concept < concepts and 0 <= fit.dimension < dim for fit in axes.fits)
        fits = (
            fits and axes.rotation.shape == (concepts, dim, dim) and all(end.shape == (concepts, dim) for end in ends)
        )
        if not fits or not np.isfinite(np.concatenate([axes.rotation.ravel(), *map(np.ravel, ends)])).all():
            raise ValueError(f"axes.safetensors: {kind} axes do not fit {concepts} concepts of {dim} dimensions")
        if np.abs(axes.rotation @ axes.rotation.swapaxes(1, 2) - np.eye(dim)).max() > NOT_TURNED:
            raise ValueError(f"axes.safetensors: {kind} axes are not at right angles")
    in_use = meaning.in_use
    if in_use and (len(in_use) != concepts or not {*in_use} <= {"original", *meaning.axes}):
        raise ValueError(f"axes.safetensors: the axes in use do not fit {concepts} concepts")
    for effect in meaning.effects:
        if not (0 <= (effect.concept or 0) < concepts and 0 <= (effect.dimension or 0) < dim):
            place = f"concept {effect.concept}, dimension {effect.dimension}"
            raise ValueError(f"effects.json: {place} does not exist among {concepts} concepts of {dim} dimensions")
    if meaning.names is not None:
        named = len(meaning.names.concepts), len(meaning.names.dimensions)
        if named != (concepts, concepts * dim):
            raise ValueError(f"names.json: {named[0]} concepts and {named[1]} dimensions, not {concepts} of {dim} each")


def read_names(run: Path) -> Names:
    """Read names.json; raises a `ValueError` or an `OSError` if it cannot."""
    return Names.from_json(json.loads((run / "names.json").read_text(encoding="utf-8")))


def write_names(names: Callable[[], Names], run: Path) -> None:
    """Write names.json; raises an `OSError` if it cannot.

    names: called while no other process writes to the run.
    """
    put(run, lambda: {"names.json": pretty(names().as_json())})


def _axes_bytes(meaning: Meaning) -> bytes:
    tensors, fits = {}, {}
    for kind, axes in sorted(meaning.axes.items()):
        if kind != "original":
            tensors[f"{kind}.rotation"] = torch.from_numpy(np.ascontiguousarray(axes.rotation))
        if axes.low is not None and axes.high is not None:
            tensors[f"{kind}.low"], tensors[f"{kind}.high"] = torch.from_numpy(axes.low), torch.from_numpy(axes.high)
        fits[kind] = [list(fit) for fit in axes.fits]
    return _in_order(to_bytes(tensors, {"in_use": json.dumps(meaning.in_use), "fits": json.dumps(fits)}))


def _in_order(content: bytes) -> bytes:
    """A safetensors file with its metadata in alphabetical order, where the library leaves it to chance."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]
