"""A run on disk: the folder of a trained model. Written atomically; nothing in it is ever unpickled.

config.json          format, class, settings, training settings, package version, source of the data
model.safetensors    the weights
items.parquet        id, title, attributes, popularity
log.jsonl            one line per epoch
metrics.json         scores on the held-out users
axes.safetensors     axes of each concept: all kinds computed, the kind in use, and the range of users
names.json           names of concepts and dimensions, with evidence; people may edit it
effects.json         what every knob does to the lists of validation users
heldout.safetensors  the held-out users, so that `evaluate` needs only the run
map.safetensors      item positions on the studio's map, once requested
inspection.json      the output of `inspect`, once the studio requested it
training/            the checkpoint of an unfinished training
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from macrid.concepts.axes import KINDS, remember_range
from macrid.concepts.effects import effects_from_json
from macrid.concepts.meaning import Axes, Fit, Meaning, meaning_of, unturned
from macrid.concepts.names import Names
from macrid.data.ids import Ids
from macrid.data.interactions import binary_csr
from macrid.data.split import HeldOut
from macrid.errors import MacridError, RunError, first_line
from macrid.files import check_free, new_folder, recover, write_atomically, writing
from macrid.models import model_class
from macrid.models.base import Recommender
from macrid.models.epoch import Epoch
from macrid.models.macridvae import SAMPLE, MacridVAE
from macrid.settings import ADDED, REMOVED, TrainingSettings
from macrid.version import __version__

FORMAT = 1
TRAINING = "training"  # the subfolder of checkpoints
PART = 4 << 20  # bytes at both ends of the weights that identify them
RESERVED_COLUMNS = ("id", "popularity")
FILES = (
    "config.json",
    "model.safetensors",
    "items.parquet",
    "log.jsonl",
    "metrics.json",
    "axes.safetensors",
    "names.json",
    "effects.json",
    "heldout.safetensors",
    "map.safetensors",
    "inspection.json",
)


def save(
    model: Recommender,
    folder: str | PathLike[str],
    *,
    overwrite: bool = False,
    heldout: dict[str, HeldOut] | None = None,
    metrics: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    keep_training: bool = False,
) -> None:
    """Write a run.

    overwrite: replace a non-empty folder; its contents survive until the new run is complete.
    heldout: validation and test users to keep with the run. metrics, data: for metrics.json and config.json.
    keep_training: keep the checkpoint, because training may continue.
    """
    model.check_fitted()
    target = Path(folder)
    check_place(target, overwrite)
    config = {
        "format": FORMAT,
        "class": type(model).__name__,
        "version": __version__,
        "settings": model.settings.model_dump(),
        "training": None if model.training is None else model.training.model_dump(),
        "labelled": getattr(model, "labelled", None),
        "data": data or {},
    }
    remedy = "nothing was changed; free some space or choose another folder"
    with writing(target, RunError, remedy), new_folder(target) as temporary:
        (temporary / "model.safetensors").write_bytes(to_bytes(model.state()))
        pa.parquet.write_table(_items_table(model), temporary / "items.parquet")
        (temporary / "log.jsonl").write_text("".join(json.dumps(asdict(line)) + "\n" for line in model.log), "utf-8")
        if heldout:
            (temporary / "heldout.safetensors").write_bytes(to_bytes(_pack(heldout)))
        remember_range(model)
        meaning = meaning_of(model)
        if meaning.axes:
            (temporary / "axes.safetensors").write_bytes(_axes_bytes(meaning))
        if meaning.names is not None:
            (temporary / "names.json").write_text(_pretty(meaning.names.as_json()), "utf-8")
        if meaning.effects:
            (temporary / "effects.json").write_text(_effects_text(meaning), "utf-8")
        if metrics is not None:
            (temporary / "metrics.json").write_text(_pretty(metrics), "utf-8")
        (temporary / "config.json").write_text(_pretty(config), "utf-8")
        if keep_training and (target / TRAINING).exists():
            shutil.copytree(target / TRAINING, temporary / TRAINING)


def check_place(folder: str | PathLike[str], overwrite: bool) -> None:
    """A `RunError` where a run cannot be written, or would replace something."""
    check_free(Path(folder), overwrite, RunError, replaceable=FILES, allowed=(TRAINING,))


def load(folder: str | PathLike[str], device: str = "auto", *, mapped: bool = False) -> Recommender:
    """The model of a run, ready to recommend.

    mapped: memory-map the weights, so that processes share them.
    """
    path = Path(folder)
    config = read_config(path)
    model = _model_of(path, config)
    table = _read(path, "items.parquet", pa.parquet.read_table)
    state = _read(path, "model.safetensors", load_file)
    try:
        model.items = Ids(table.column("id").combine_chunks())
        model.popularity = table.column("popularity").to_numpy()
        attributes = [name for name in table.column_names if name not in RESERVED_COLUMNS]
        model.table = table.select(attributes) if attributes else None
        model.training = None if config.get("training") is None else TrainingSettings.make(config["training"])
        model.min_rating = (config.get("data") or {}).get("min_rating")
        model.log = _read_log(path)
        if not all(torch.isfinite(value).all() for value in state.values()):
            raise ValueError("model.safetensors contains NaN or infinite values")
        model.load_state(state if mapped else {name: value.clone() for name, value in state.items()})
        _check_meaning(meaning := _read_meaning(path), model)
        if isinstance(model, MacridVAE):
            model.meaning, model.sample = meaning, read_sample(path)
            if config.get("labelled") is not None:
                model.labelled = {part: list(config["labelled"][part]) for part in ("concepts", "dimensions")}
    except (KeyError, TypeError, ValueError, RuntimeError, pa.ArrowException) as error:
        raise RunError(f"{path}: damaged run, its files do not match ({first_line(error)})") from error
    return model.to(device)


def keep(model: Recommender, folder: str | PathLike[str]) -> None:
    """Write a model's axes, names and effects of knobs into its run; the other files are left alone."""
    path, meaning = Path(folder), meaning_of(model)
    read_config(path)
    with writing(path, RunError, "the previous ones are kept"):
        if meaning.effects or (path / "effects.json").exists():
            write_atomically(path / "effects.json", _effects_text(meaning))
        if meaning.axes:
            write_atomically(path / "axes.safetensors", _axes_bytes(meaning))
        if meaning.names is not None:
            write_names(meaning.names, path)


def write_metrics(metrics: dict[str, Any], run: Path) -> None:
    """Put scores into a run in place of those it has."""
    with writing(run / "metrics.json", RunError, "free some space"):
        write_atomically(run / "metrics.json", _pretty(metrics))


def write_names(names: Names, run: Path) -> None:
    """Write names.json; raises an `OSError` if it cannot."""
    write_atomically(run / "names.json", _pretty(names.as_json()).encode())


def read_names(run: Path) -> Names:
    """Read names.json; raises a `ValueError` or an `OSError` if it cannot."""
    return Names.from_json(json.loads((run / "names.json").read_text(encoding="utf-8")))


def read_config(path: Path) -> dict[str, Any]:
    """A run's config.json, if its format is known."""
    recover(path)
    if not path.exists():
        raise RunError(f"{path}: no such run; create it with `macrid train DATA --out {quote(str(path))}`")
    if not (path / "config.json").is_file():
        unfinished = (path / TRAINING).is_dir()
        raise RunError(
            f"{path}: training is unfinished; continue with `macrid train DATA --out {quote(str(path))} --resume`"
            if unfinished
            else f"{path}: not a run, it has no config.json"
        )
    config = _read(path, "config.json", lambda file: json.loads(Path(file).read_text(encoding="utf-8")))
    if not isinstance(config, dict) or not isinstance(config.get("format"), int) or "class" not in config:
        raise RunError(f"{path}: not a macrid run, its config.json has no format or class")
    if config["format"] > FORMAT:
        raise RunError(
            f"{path}: written by macrid {config.get('version', '?')} in format {config['format']}, but macrid"
            f" {__version__} reads formats up to {FORMAT}; upgrade with `pip install -U macrid`"
        )
    return config


def weights_digest(run: Path) -> str:
    """By which the weights of a run are known again."""
    path = run / "model.safetensors"
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(PART))
        file.seek(max(0, size - PART))
        digest.update(file.read(PART))
    return digest.hexdigest()[:16]


def read_heldout(folder: str | PathLike[str], split: str) -> HeldOut:
    """The "validation" or "test" users kept in a run."""
    path = Path(folder)
    read_config(path)
    if not (path / "heldout.safetensors").exists():
        raise RunError(f"{path}: has no held-out users to evaluate on; train on a prepared folder")
    tensors = _read(path, "heldout.safetensors", load_file)
    try:
        matrices = {
            side: binary_csr(
                tensors[f"{split}.{side}.indptr"].numpy(),
                tensors[f"{split}.{side}.indices"].numpy(),
                (len(tensors[f"{split}.{side}.indptr"]) - 1, int(tensors["items"])),
            )
            for side in ("history", "target")
        }
    except KeyError:
        raise RunError(f"{path}: has no {split} users") from None
    return HeldOut(matrices["history"], matrices["target"], Ids.range(matrices["history"].shape[0]))


def read_validation(folder: str | PathLike[str]) -> HeldOut | None:
    """The validation users kept in a run, if any."""
    try:
        return read_heldout(folder, "validation")
    except RunError:
        return None


def read_histories(folder: str | PathLike[str], which: str | None = None) -> sp.csr_array | None:
    """Histories of one group of held-out users, or of all of them (None if the run keeps none)."""
    if which is not None:
        return read_heldout(folder, which).history
    if not (Path(folder) / "heldout.safetensors").exists():
        return None
    histories, failure = [], None
    for group in ("test", "validation"):
        try:
            histories.append(read_heldout(folder, group).history)
        except RunError as error:  # a run may keep only one of the groups
            failure = error
    if not histories and failure is not None:
        raise failure
    return sp.csr_array(sp.vstack(histories))


def read_sample(folder: str | PathLike[str]) -> sp.csr_array | None:
    """Held-out users whose range bounds moves, if the run keeps any."""
    histories = read_histories(folder)
    return None if histories is None else histories[:SAMPLE]


def _model_of(path: Path, config: dict[str, Any]) -> Recommender:
    try:
        kind = model_class(str(config["class"]))
    except MacridError as error:
        raise RunError(f"{path}: {error}; if it is a model of your own, import its module first") from None
    try:
        settings = {name: value for name, value in config.get("settings", {}).items() if name not in REMOVED}
        fields = kind.settings_class.model_fields
        settings = {name: value for name, value in ADDED.items() if name in fields} | settings
        return kind(**settings)
    except (MacridError, TypeError) as error:
        raise RunError(f"{path}: damaged config.json ({error})") from error


def _axes_bytes(meaning: Meaning) -> bytes:
    tensors, fits = {}, {}
    for kind, axes in meaning.axes.items():
        if kind != "original":
            tensors[f"{kind}.rotation"] = torch.from_numpy(np.ascontiguousarray(axes.rotation))
        if axes.low is not None and axes.high is not None:
            tensors[f"{kind}.low"], tensors[f"{kind}.high"] = torch.from_numpy(axes.low), torch.from_numpy(axes.high)
        fits[kind] = [list(fit) for fit in axes.fits]
    return to_bytes(tensors, {"in_use": json.dumps(meaning.in_use), "fits": json.dumps(fits)})


def _effects_text(meaning: Meaning) -> str:
    return _pretty([effect.model_dump(mode="json") for effect in meaning.effects])


def _read_meaning(path: Path) -> Meaning:
    """From axes.safetensors, names.json and effects.json, where they exist."""
    meaning = Meaning()
    if (path / "axes.safetensors").exists():
        tensors = {name: value.numpy() for name, value in _read(path, "axes.safetensors", load_file).items()}
        with safe_open(path / "axes.safetensors", "numpy") as file:
            metadata = file.metadata() or {}
        fits = json.loads(metadata["fits"])
        meaning.in_use = tuple(json.loads(metadata["in_use"]))
        kinds = {name.rpartition(".")[0] for name in tensors}
        for kind in sorted(kinds & {*KINDS, *meaning.in_use}):  # earlier versions knew others
            kind_fits = tuple(Fit(*fit) for fit in fits.get(kind, []))
            low, high = tensors.get(f"{kind}.low"), tensors.get(f"{kind}.high")
            rotation = unturned(*tensors["original.low"].shape) if kind == "original" else tensors[f"{kind}.rotation"]
            meaning.axes[kind] = Axes(kind, rotation, low, high, kind_fits)
    if (path / "names.json").exists():
        meaning.names = _read(path, "names.json", lambda file: read_names(file.parent))
    if (path / "effects.json").exists():
        meaning.effects = _read(path, "effects.json", lambda file: effects_from_json(file.read_bytes()))
    return meaning


def _check_meaning(meaning: Meaning, model: Recommender) -> None:
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


def _items_table(model: Recommender) -> pa.Table:
    table = (
        pa.table({"id": model.items.array})
        if model.table is None
        else model.table.add_column(0, "id", model.items.array)
    )
    names = [f"{name}_" if name == "popularity" else name for name in table.column_names]  # an attribute so named
    return table.rename_columns(names).append_column("popularity", pa.array(model.popularity))


def _pack(heldout: dict[str, HeldOut]) -> dict[str, Tensor]:
    packed: dict[str, Tensor] = {}
    for name, group in heldout.items():
        packed["items"] = torch.tensor(group.history.shape[1])
        for side, matrix in (("history", group.history), ("target", group.target)):
            packed[f"{name}.{side}.indptr"] = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64))
            packed[f"{name}.{side}.indices"] = torch.from_numpy(np.array(matrix.indices, dtype=np.int32))
    return packed


def _read_log(path: Path) -> list[Epoch]:
    if not (path / "log.jsonl").exists():
        return []
    lines = _read(path, "log.jsonl", lambda file: Path(file).read_text(encoding="utf-8").splitlines())
    return [Epoch(**json.loads(line)) for line in lines]


def _read(path: Path, name: str, reader: Any) -> Any:
    if not (path / name).is_file():
        raise RunError(f"{path}: damaged run, {name} is missing")
    try:
        return reader(path / name)
    except (OSError, ValueError, SafetensorError, pa.ArrowException) as error:
        raise RunError(f"{path / name}: damaged and cannot be read ({first_line(error)})") from error


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
