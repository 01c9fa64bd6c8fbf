"""Write a run, or some of its files."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from safetensors.torch import save as to_bytes

from macrid import manifest
from macrid.cold import added_of, narrowed
from macrid.concepts.axes import remember_range
from macrid.concepts.meaning import meaning_of
from macrid.data.split import HeldOut
from macrid.errors import RunError
from macrid.files import check_free, new_folder, recover, writing
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.runs.added import added_files
from macrid.runs.folder import (
    FILES,
    FORMAT,
    IN_TRAINING,
    TRAINING,
    has_progress,
    pretty,
    put,
    read_config,
    weights_digest,
)
from macrid.runs.heldout import packed
from macrid.runs.meaning import meaning_files
from macrid.version import __version__


def save(
    model: Recommender,
    folder: str | PathLike[str],
    *,
    overwrite: bool = False,
    heldout: dict[str, HeldOut] | None = None,
    metrics: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    fingerprint: dict[str, Any] | None = None,
    first: Recommender | None = None,
    keep_training: bool = False,
    is_unfinished: bool = False,
    remedy: str = "nothing was changed; free some space or choose another folder",
) -> None:
    """Write a run.

    overwrite: replace a non-empty folder; its contents survive until the new run is complete.
    heldout: validation and test users to keep with the run. metrics, data: for metrics.json and config.json.
    fingerprint: of what the model was trained on. first: the model before a final one; its network is kept.
    keep_training: keep the checkpoint, because training may continue. is_unfinished: these are its best weights so far.
    remedy: if it cannot be written.
    """
    model.check_fitted()
    added = None
    if isinstance(model, MacridVAE) and model.placements:
        model, added = narrowed(model), added_of(model)
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
        "protocol": {name: group.protocol for name, group in (heldout or {}).items()},
        "fingerprint": fingerprint,
        **({"is_unfinished": True} if is_unfinished else {}),
    }
    with writing(target, RunError, remedy), new_folder(target) as temporary:
        (temporary / "model.safetensors").write_bytes(to_bytes(model.state()))
        pa.parquet.write_table(_items_table(model), temporary / "items.parquet")
        (temporary / "log.jsonl").write_text("".join(json.dumps(asdict(line)) + "\n" for line in model.log), "utf-8")
        if heldout:
            (temporary / "heldout.safetensors").write_bytes(to_bytes(packed(heldout)))
        remember_range(model)
        files = meaning_files(meaning_of(model)) | {"config.json": pretty(config)}
        if metrics is not None:
            files["metrics.json"] = pretty(metrics)
        if isinstance(first, MacridVAE):
            state = first.network.state_dict()
            files["first.safetensors"] = to_bytes({name: value.cpu().contiguous() for name, value in state.items()})
        if added is not None:
            files |= added_files(added, weights_digest(temporary))
        for name, content in files.items():
            (temporary / name).write_bytes(content.encode() if isinstance(content, str) else content)
        manifest.seal(temporary, FILES)
        if keep_training and (target / TRAINING).exists():
            shutil.copytree(target / TRAINING, temporary / TRAINING)


def check_place(folder: str | PathLike[str], overwrite: bool, resume: bool = False) -> None:
    """A `RunError` where a run cannot be written, or would replace something.

    resume: what is there may stay, as its training goes on.
    """
    path = Path(folder)
    recover(path)
    if has_progress(path) and not resume and not overwrite:
        raise RunError(
            f"{path}: holds an interrupted training; continue with --resume, or start over with --overwrite"
            " (overwrite=True in Python)"
        )
    check_free(path, overwrite, RunError, replaceable=FILES, allowed=(TRAINING, *FILES) if resume else (TRAINING,))
    if (path / TRAINING).is_dir():
        check_free(path / TRAINING, True, RunError, replaceable=IN_TRAINING)


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
    path, files = Path(folder), meaning_files(meaning_of(model))
    read_config(path)
    if "effects.json" not in files and (path / "effects.json").exists():
        files["effects.json"] = pretty([])
    if metrics is not None:
        files["metrics.json"] = pretty(metrics)
    with writing(path, RunError, remedy):
        put(path, files)


def add(folder: str | PathLike[str], name: str, content: Any, *, remedy: str = "the run is as it was") -> None:
    """Write one JSON file into a run."""
    with writing(Path(folder) / name, RunError, remedy):
        put(Path(folder), {name: pretty(content)})


def _items_table(model: Recommender) -> pa.Table:
    table = (
        pa.table({"id": model.items.array})
        if model.table is None
        else model.table.add_column(0, "id", model.items.array)
    )
    names = [f"{name}_" if name == "popularity" else name for name in table.column_names]  # an attribute so named
    return table.rename_columns(names).append_column("popularity", pa.array(model.popularity))
