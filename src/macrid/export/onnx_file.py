"""A model as an ONNX file: histories in, items and scores out. A table of the items lies beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp

from macrid.errors import MacridError
from macrid.export.checking import Agreement, largest_difference
from macrid.export.decoder import choose, score
from macrid.export.graph import Graph, data_file, onnx_module
from macrid.export.histories import read_histories
from macrid.export.tables import items_table
from macrid.files import new_files, writing
from macrid.models.base import Recommender
from macrid.models.neural import NeuralRecommender
from macrid.version import __version__

DESCRIPTION = {
    "": "Recommends items for histories. Items are positions, from 0, in the table of items beside this file.",
    "items": "a history per row, padded with -1; positions that do not exist are ignored, and an item counts once",
    "weights": "of the interactions, one for each of the items; only their ratios count",
    "n": "how many items to recommend; at most all of them",
    "exclude_seen": "whether to leave out the items of the history",
    "hidden": "items never to recommend, a row per history, padded with -1",
    "allowed": "for each item, whether it may be recommended",
    "positions": "of the best items, best first; -1 if fewer than n are left",
    "scores": "of these items, -inf where there is none; without a known item in the history, those of popularity",
}
INPUTS = ("weights", "hidden", "allowed")  # a file has these only if asked for


@dataclass(frozen=True)
class OnnxExport:
    """What was written."""

    file: Path
    items: Path
    """The table of the items, by position."""
    size: int
    """Bytes, with weights in a file of their own."""
    agreement: Agreement | None
    """With the model; None if it was not checked."""


def items_file(file: Path) -> Path:
    """Where the table of the items is: beside model.onnx, model.items.parquet."""
    return file.with_name(f"{file.stem if file.suffix == '.onnx' else file.name}.items.parquet")


def write_onnx(
    model: Recommender,
    path: str | PathLike[str],
    *,
    digest: str = "",
    inputs: Collection[str] = (),
    overwrite: bool = False,
    check: sp.csr_array | None = None,
) -> OnnxExport:
    """Write a model as ONNX, completely or not at all.

    inputs: besides items, n and exclude_seen, any of weights, hidden and allowed. digest: of the run, for the metadata.
    check: histories for which the file must agree with the model; ignored if onnxruntime is not installed.
    """
    file = Path(path)
    model.check_fitted()
    check_inputs(inputs)
    check_file(file, overwrite)
    items = len(model.items)
    g = Graph("macrid")
    history = read_histories(g, items, "weights" in inputs)
    positions, scores = choose(g, score(g, model, history), history, items, inputs)
    g.output("positions", positions, np.int64, ("batch", "best"))
    g.output("scores", scores, np.float32, ("batch", "best"))
    with writing(file, MacridError, "free some space or choose another folder"), new_files(file) as folder:
        table = folder / items_file(file).name
        pa.parquet.write_table(items_table(model), table)
        about = metadata(model, digest) | {
            "items_file": table.name,
            "items_sha256": hashlib.sha256(table.read_bytes()).hexdigest(),
        }
        g.write(folder / file.name, description(DESCRIPTION, inputs), about)
        agreement = None if check is None else largest_difference(model, folder / file.name, check)
        if agreement is not None and not agreement.is_close:
            raise MacridError(f"{file}: not written, as onnxruntime's results differ from the model's ({agreement})")
        size = sum(each.stat().st_size for each in folder.iterdir() if each != table)
        is_alone = not data_file(folder / file.name).exists()
    if is_alone:  # an earlier export may have been larger
        data_file(file).unlink(missing_ok=True)
    return OnnxExport(file, items_file(file), size, agreement)


def check_inputs(inputs: Collection[str], known: Collection[str] = INPUTS) -> None:
    """An error unless these are inputs that a file can have."""
    if unknown := sorted({*inputs} - {*known}):
        raise MacridError(f"no input '{unknown[0]}'; choose from {', '.join(known)}")


def description(lines: Mapping[str, str], inputs: Collection[str]) -> str:
    """What inputs and outputs mean, of those that a file has."""
    shown = {name: line for name, line in lines.items() if name not in INPUTS or name in inputs}
    return "\n".join(f"{name}: {line}" if name else line for name, line in shown.items())


def check_file(file: Path, overwrite: bool) -> None:
    """An error if the file cannot be written."""
    onnx_module()
    if file.is_dir():
        raise MacridError(f"{file}: is a folder; give a file")
    if not file.resolve().parent.is_dir():
        raise MacridError(f"{file}: no folder {file.resolve().parent}; create it first")
    for each in (file, items_file(file), data_file(file)):
        if each.exists() and not overwrite:
            raise MacridError(f"{each}: already exists; choose another file or add --overwrite")


def metadata(model: Recommender, digest: str) -> dict[str, str]:
    """What a file says about where it comes from."""
    is_log = isinstance(model, NeuralRecommender)
    return {
        "macrid_version": __version__,
        "model": type(model).__name__,
        "run_digest": digest,
        "settings": json.dumps(model.settings.model_dump(mode="json")),
        "items": str(len(model.items)),
        "score": "natural logarithm of the item's probability" if is_log else model.score_name,
    }
