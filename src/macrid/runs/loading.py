"""Read a run, and check that it is whole."""

from __future__ import annotations

import json
import warnings
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
import torch
from safetensors.torch import load_file

from macrid import manifest
from macrid.cold import widen
from macrid.data.ids import Ids
from macrid.data.store import distinct_ids
from macrid.data.tables import RESERVED_COLUMNS
from macrid.errors import DataError, EditedWarning, IndexWarning, MacridError, RunError, first_line
from macrid.files import writing
from macrid.models import model_class
from macrid.models.base import Recommender
from macrid.models.epoch import Epoch
from macrid.models.macridvae import MacridVAE
from macrid.runs.added import check_added, read_added
from macrid.runs.folder import (
    CACHES,
    EDITABLE,
    FILES,
    REMEDY,
    UNREADABLE,
    check,
    damage_explained,
    read,
    read_config,
    tensors_of,
)
from macrid.runs.heldout import read_sample
from macrid.runs.index import INDEX, read_index
from macrid.runs.meaning import check_meaning, read_meaning
from macrid.settings import ADDED, REMOVED, TrainingSettings


def load(folder: str | PathLike[str], device: str = "auto", *, mapped: bool = False, added: bool = True) -> Recommender:
    """The model of a run, ready to recommend; a `RunError` if any of its files is damaged.

    mapped: memory-map the weights, so that processes share them. added: with the items added after training.
    """
    path = Path(folder)

    def read() -> Recommender:
        model = _model_of(path, read_config(path))
        fill(model, path, mapped=mapped, added=added)
        return model

    return manifest.steadily(path, read).to(device)


def read_first(folder: str | PathLike[str], final: MacridVAE) -> MacridVAE | None:
    """The network of the model before a run's final one, over its items, which come first; None if there is none."""
    path = Path(folder)
    if not (path / "first.safetensors").exists():
        return None
    config = read_config(path)
    check(path, config, ["first.safetensors"])
    state, _ = read(path, "first.safetensors", tensors_of)
    try:
        first = _model_of(path, config)
        assert isinstance(first, MacridVAE)
        items = len(state["item_vectors"])
        _set(first, _settings(config, MacridVAE))
        first.items, first.popularity = Ids(final.items.array[:items]), final.popularity[:items]
        first.table = None if final.table is None else final.table.slice(0, items)
        first.training = final.training
        first.load_state(state)
    except UNREADABLE as error:
        raise RunError(f"{path / 'first.safetensors'}: damaged ({first_line(error)}); {REMEDY}") from error
    return first


def fill(model: Recommender, folder: str | PathLike[str], *, mapped: bool = False, added: bool = True) -> None:
    """Restore a model of the same class and settings from a run, on the CPU."""
    path = Path(folder)
    config = read_config(path)
    check(path, config)
    table = read(path, "items.parquet", pa.parquet.read_table)
    state = read(path, "model.safetensors", load_file if mapped else lambda file: tensors_of(file)[0])
    try:
        _set(model, _settings(config, type(model)))
        model.items = distinct_ids(table.column("id").combine_chunks())
        model.popularity = _popularity(table)
        attributes = [name for name in table.column_names if name not in RESERVED_COLUMNS]
        model.table = table.select(attributes) if attributes else None
        model.training = None if config.get("training") is None else TrainingSettings.make(config["training"])
        model.min_rating = (config.get("data") or {}).get("min_rating")
        model.log = _read_log(path)
        if not all(torch.isfinite(value).all() for value in state.values()):
            raise ValueError("model.safetensors contains NaN or infinite values")
        model.load_state(state)
        check_meaning(meaning := read_meaning(path), model)
        sample = _sample(path, len(model.items))
        if isinstance(model, MacridVAE):
            model.meaning, model.sample = meaning, sample
            if config.get("labelled") is not None:
                model.labelled = {part: list(config["labelled"][part]) for part in ("concepts", "dimensions")}
        if added:
            _add_items(model, path)
    except (*UNREADABLE, DataError) as error:
        raise RunError(f"{path}: damaged run, its files do not match ({first_line(error)}); {REMEDY}") from error
    if isinstance(model, MacridVAE):
        model.index = read_index(path, model)
    _warn_of_edits(path)


def examine(folder: str | PathLike[str]) -> dict[str, str]:
    """What is wrong with a run, by file; empty if nothing is."""
    path = Path(folder)
    try:
        wrong = manifest.problems(path) if path.is_dir() else {}
        wrong = {name: problem for name, problem in wrong.items() if name not in CACHES or (path / name).exists()}
        if not {*wrong} - {*CACHES, *EDITABLE}:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EditedWarning)
                warnings.simplefilter("ignore", IndexWarning)
                model = load(path, "cpu")
                read_metrics(path)
            if (path / INDEX).exists() and getattr(model, "index", None) is None:
                wrong.setdefault(INDEX, "does not belong to these weights")
    except manifest.DamagedError as error:
        wrong = error.problems
    except RunError as error:
        return {"run": str(error)}
    for name in {*wrong} & {*EDITABLE}:
        wrong[name] = "edited since macrid wrote it" if (path / name).exists() else "deleted"
    return wrong


def accept(folder: str | PathLike[str]) -> None:
    """Accept a run with what people edited; a `RunError` if anything else is wrong. Damaged caches are deleted."""
    path = Path(folder)
    wrong = examine(path)
    for name, problem in wrong.items():
        if name not in (*EDITABLE, *CACHES):
            raise RunError(f"{path}: cannot be accepted, {name}: {problem}")
    with writing(path, RunError):
        for name in {*wrong} & {*CACHES}:
            (path / name).unlink()
        manifest.seal(path, FILES)


def read_metrics(run: Path) -> dict[str, Any]:
    """The scores of a run, empty if it has none."""
    if not (run / "metrics.json").exists():
        return {}
    metrics = read(run, "metrics.json", lambda file: json.loads(file.read_text(encoding="utf-8")))
    if not isinstance(metrics, dict):
        raise RunError(f"{run / 'metrics.json'}: damaged (it holds no scores); {REMEDY}")
    return metrics


def read_diff(run: Path) -> dict[str, Any] | None:
    """The differences of a run from the one it started from; None if it did not."""
    if not (run / "diff.json").exists():
        return None
    content = read(run, "diff.json", lambda file: json.loads(file.read_text(encoding="utf-8")))
    if not isinstance(content, dict):
        raise RunError(f"{run / 'diff.json'}: damaged (it holds no differences); {REMEDY}")
    return content


def _model_of(path: Path, config: dict[str, Any]) -> Recommender:
    try:
        kind = model_class(str(config["class"]))
    except MacridError as error:
        raise RunError(f"{path}: {error}; if it is a model of your own, import its module first") from None
    try:
        return kind(**_settings(config, kind))
    except (MacridError, TypeError) as error:
        raise RunError(f"{path}: damaged config.json ({error})") from error


def _settings(config: dict[str, Any], kind: type[Recommender]) -> dict[str, Any]:
    """All settings of a run's model."""
    settings = {name: value for name, value in config.get("settings", {}).items() if name not in REMOVED}
    return {name: value for name, value in ADDED.items() if name in kind.settings_class.model_fields} | settings


def _set(model: Recommender, settings: dict[str, Any]) -> None:
    """Give a model the settings that training made suit the data, where they differ from those it was made with."""
    changed = {name: value for name, value in settings.items() if getattr(model.settings, name) != value}
    if changed:
        model.settings = model.settings.model_copy(update=changed)


def _popularity(table: pa.Table) -> np.ndarray:
    popularity: np.ndarray = table.column("popularity").to_numpy()
    if not np.issubdtype(popularity.dtype, np.integer) or np.any(popularity < 0):
        raise ValueError("items.parquet: popularity is not a count for every item")
    return popularity


def _sample(path: Path, items: int) -> sp.csr_array | None:
    sample = read_sample(path, added=False)
    if sample is not None and sample.shape[1] != items:
        raise ValueError(f"heldout.safetensors has {sample.shape[1]:,} items, items.parquet {items:,}")
    return sample


def _add_items(model: Recommender, path: Path) -> None:
    added = read_added(path)
    if added is None:
        return
    if not isinstance(model, MacridVAE):
        raise ValueError(f"added.parquet does not belong to a {type(model).__name__}")
    check_added(added, model.items, model.settings.dim)
    widen(model, added)


def _read_log(path: Path) -> list[Epoch]:
    if not (path / "log.jsonl").exists():
        return []
    lines = read(path, "log.jsonl", lambda file: Path(file).read_text(encoding="utf-8").splitlines())
    return [Epoch(**json.loads(line)) for line in lines]


def _warn_of_edits(path: Path) -> None:
    with damage_explained():
        edited = manifest.problems(path, EDITABLE)
    for name in edited:
        remedy = f"`macrid doctor {quote(str(path))} --accept` takes it as it is"
        what = "edited" if (path / name).exists() else "deleted"
        warnings.warn(f"{path / name}: {what} since macrid wrote it; {remedy}", EditedWarning, stacklevel=5)
