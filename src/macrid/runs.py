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
manifest.json        the SHA-256 of each of these files, checked whenever a run is opened
training/            an unfinished training: its checkpoint, and the run so far (`draft`)
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from macrid import manifest
from macrid.concepts.axes import KINDS, remember_range
from macrid.concepts.effects import effects_from_json
from macrid.concepts.meaning import Axes, Fit, Meaning, meaning_of, unturned
from macrid.concepts.names import Names
from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.data.store import checked_csr, distinct_ids
from macrid.errors import DataError, EditedWarning, MacridError, RunError, first_line
from macrid.files import check_free, new_folder, recover, writing
from macrid.models import model_class
from macrid.models.base import Recommender
from macrid.models.epoch import Epoch
from macrid.models.macridvae import SAMPLE, MacridVAE
from macrid.settings import ADDED, REMOVED, TrainingSettings
from macrid.version import __version__

FORMAT = 1
TRAINING = "training"  # the subfolder of an unfinished training
NOT_TURNED = 1e-3  # of the products of axes, which are 0 and 1
REMEDY = "restore it from a copy, or train again; `macrid doctor RUN` checks all files"
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
    manifest.FILE,
)
CACHES = ("map.safetensors", "inspection.json")  # computed again if damaged
EDITABLE = ("names.json",)  # by people, too
UNREADABLE = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
    OverflowError,
    pa.ArrowException,
)


def save(
    model: Recommender,
    folder: str | PathLike[str],
    *,
    overwrite: bool = False,
    heldout: dict[str, HeldOut] | None = None,
    metrics: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    fingerprint: dict[str, Any] | None = None,
    keep_training: bool = False,
    is_unfinished: bool = False,
    remedy: str = "nothing was changed; free some space or choose another folder",
) -> None:
    """Write a run.

    overwrite: replace a non-empty folder; its contents survive until the new run is complete.
    heldout: validation and test users to keep with the run. metrics, data: for metrics.json and config.json.
    fingerprint: of what the model was trained on.
    keep_training: keep the checkpoint, because training may continue. is_unfinished: these are its best weights so far.
    remedy: if it cannot be written.
    """
    model.check_fitted()
    target = Path(folder)
    check_place(target, overwrite)
    config = {
        "format": FORMAT,
        "has_manifest": True,  # earlier runs have none
        "class": type(model).__name__,
        "version": __version__,
        "settings": model.settings.model_dump(),
        "training": None if model.training is None else model.training.model_dump(),
        "labelled": getattr(model, "labelled", None),
        "data": data or {},
        "fingerprint": fingerprint,
        **({"is_unfinished": True} if is_unfinished else {}),
    }
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
        manifest.seal(temporary)
        if keep_training and (target / TRAINING).exists():
            shutil.copytree(target / TRAINING, temporary / TRAINING)


def check_place(folder: str | PathLike[str], overwrite: bool) -> None:
    """A `RunError` where a run cannot be written, or would replace something."""
    check_free(Path(folder), overwrite, RunError, replaceable=FILES, allowed=(TRAINING,))


def load(folder: str | PathLike[str], device: str = "auto", *, mapped: bool = False) -> Recommender:
    """The model of a run, ready to recommend; a `RunError` if any of its files is damaged.

    mapped: memory-map the weights, so that processes share them.
    """
    path = Path(folder)

    def read() -> Recommender:
        model = _model_of(path, read_config(path))
        fill(model, path, mapped=mapped)
        return model

    return manifest.steadily(path, read).to(device)


def fill(model: Recommender, folder: str | PathLike[str], *, mapped: bool = False) -> None:
    """Restore a model of the same class and settings from a run, on the CPU."""
    path = Path(folder)
    config = read_config(path)
    _check(path, config)
    table = _read(path, "items.parquet", pa.parquet.read_table)
    state = _read(path, "model.safetensors", load_file)
    try:
        model.items = distinct_ids(table.column("id").combine_chunks())
        model.popularity = _popularity(table)
        attributes = [name for name in table.column_names if name not in RESERVED_COLUMNS]
        model.table = table.select(attributes) if attributes else None
        model.training = None if config.get("training") is None else TrainingSettings.make(config["training"])
        model.min_rating = (config.get("data") or {}).get("min_rating")
        model.log = _read_log(path)
        if not all(torch.isfinite(value).all() for value in state.values()):
            raise ValueError("model.safetensors contains NaN or infinite values")
        model.load_state(state if mapped else {name: value.clone() for name, value in state.items()})
        _check_meaning(meaning := _read_meaning(path), model)
        sample = _sample(path, len(model.items))
        if isinstance(model, MacridVAE):
            model.meaning, model.sample = meaning, sample
            if config.get("labelled") is not None:
                model.labelled = {part: list(config["labelled"][part]) for part in ("concepts", "dimensions")}
    except (*UNREADABLE, DataError) as error:
        raise RunError(f"{path}: damaged run, its files do not match ({first_line(error)}); {REMEDY}") from error
    _warn_of_edits(path)


def examine(folder: str | PathLike[str]) -> dict[str, str]:
    """What is wrong with a run, by file; empty if nothing is."""
    path = Path(folder)
    try:
        config = read_config(path)
        wrong = manifest.problems(path)
        if not wrong and config.get("has_manifest") and not (path / manifest.FILE).exists():
            wrong = {manifest.FILE: "missing"}
        if not {*wrong} - {*CACHES, *EDITABLE}:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EditedWarning)
                load(path, "cpu")
                read_metrics(path)
    except manifest.DamagedError as error:
        wrong = error.problems
    except RunError as error:
        return {"run": str(error)}
    for name in {*wrong} & {*EDITABLE}:
        wrong[name] = "edited since macrid wrote it" if (path / name).exists() else "deleted"
    return wrong


def accept(folder: str | PathLike[str]) -> None:
    """Take a run as it is, with what people edited; a `RunError` if anything else is wrong."""
    path = Path(folder)
    for name, problem in examine(path).items():
        if name not in (*EDITABLE, *CACHES):
            raise RunError(f"{path}: cannot be accepted, {name}: {problem}")
    with writing(path, RunError):
        manifest.seal(path)


def keep(
    model: Recommender,
    folder: str | PathLike[str],
    metrics: dict[str, Any] | None = None,
    *,
    remedy: str = "the previous ones are kept",
) -> None:
    """Write a model's axes, names and effects of knobs into its run, together; the other files are left alone.

    metrics: scores to write with them. remedy: if they cannot be written.
    """
    path, meaning = Path(folder), meaning_of(model)
    read_config(path)
    contents: dict[str, bytes | str] = {}
    if meaning.effects or (path / "effects.json").exists():
        contents["effects.json"] = _effects_text(meaning)
    if meaning.axes:
        contents["axes.safetensors"] = _axes_bytes(meaning)
    if meaning.names is not None:
        contents["names.json"] = _pretty(meaning.names.as_json())
    if metrics is not None:
        contents["metrics.json"] = _pretty(metrics)
    with writing(path, RunError, remedy):
        _put(path, contents)


def _put(path: Path, contents: Any) -> None:
    """Replace files of a run, all of them or none; raises an `OSError` if it cannot."""
    with _damage_explained():
        manifest.update(path, contents)


def read_metrics(run: Path) -> dict[str, Any]:
    """The scores of a run, empty if it has none."""
    if not (run / "metrics.json").exists():
        return {}
    metrics = _read(run, "metrics.json", lambda file: json.loads(file.read_text(encoding="utf-8")))
    if not isinstance(metrics, dict):
        raise RunError(f"{run / 'metrics.json'}: damaged (it holds no scores); {REMEDY}")
    return metrics


def write_names(names: Callable[[], Names], run: Path) -> None:
    """Write names.json; raises an `OSError` if it cannot.

    names: called while no other process writes to the run.
    """
    _put(run, lambda: {"names.json": _pretty(names().as_json())})


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
    _check(path, config, ["config.json"])
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


def _read_groups(path: Path) -> dict[str, HeldOut]:
    """The held-out users of a run by group, as many as it keeps."""
    config = read_config(path)
    _check(path, config, ["heldout.safetensors"])
    if not (path / "heldout.safetensors").exists():
        return {}
    tensors = _read(path, "heldout.safetensors", load_file)
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


def read_sample(folder: str | PathLike[str]) -> sp.csr_array | None:
    """Held-out users whose range bounds moves, if the run keeps any."""
    histories = read_histories(folder)
    return None if histories is None else histories[:SAMPLE]


def _sample(path: Path, items: int) -> sp.csr_array | None:
    sample = read_sample(path)
    if sample is not None and sample.shape[1] != items:
        raise ValueError(f"heldout.safetensors has {sample.shape[1]:,} items, items.parquet {items:,}")
    return sample


def _check(path: Path, config: dict[str, Any], names: list[str] | None = None) -> None:
    """A `RunError` if a file is not the one that was written."""
    with _damage_explained():
        manifest.check(path, names, (*CACHES, *EDITABLE), required=bool(config.get("has_manifest")))


@contextmanager
def _damage_explained() -> Iterator[None]:
    try:
        yield
    except manifest.DamagedError as error:
        raise RunError(f"{error}; {REMEDY}") from None


def _warn_of_edits(path: Path) -> None:
    with _damage_explained():
        edited = manifest.problems(path, EDITABLE)
    for name in edited:
        remedy = f"`macrid doctor {quote(str(path))} --accept` takes it as it is"
        warnings.warn(f"{path / name}: edited since macrid wrote it; {remedy}", EditedWarning, stacklevel=5)


def _popularity(table: pa.Table) -> np.ndarray:
    popularity: np.ndarray = table.column("popularity").to_numpy()
    if not np.issubdtype(popularity.dtype, np.integer) or np.any(popularity < 0):
        raise ValueError("items.parquet: popularity is not a count for every item")
    return popularity


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
        raise RunError(f"{path}: damaged run, {name} is missing; {REMEDY}")
    try:
        return reader(path / name)
    except (OSError, ValueError, RecursionError, SafetensorError, pa.ArrowException) as error:
        raise RunError(f"{path / name}: damaged and cannot be read ({first_line(error)}); {REMEDY}") from error


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
