"""Items added to a run after training: added.parquet (ids, attributes, how they were placed) and added.safetensors
(their vectors), written together. The files of the training stay as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from safetensors.torch import save as to_bytes

from macrid import manifest
from macrid.cold import Added, Strength
from macrid.data.ids import Ids
from macrid.data.tables import RESERVED_COLUMNS
from macrid.errors import RunError, first_line
from macrid.models.results import Placement
from macrid.runs.folder import REMEDY, UNREADABLE, put, read, tensors_of, weights_digest

TABLE, VECTORS = "added.parquet", "added.safetensors"
KEY = b"macrid"  # of the metadata of the table


def read_added(path: Path) -> Added | None:
    """Items added to a run, if any; a `RunError` if their files are damaged or belong to other weights."""
    if not (path / TABLE).exists() and not (path / VECTORS).exists():
        return None
    table = read(path, TABLE, pa.parquet.read_table)
    try:
        added = _added(path, table)
    except UNREADABLE as error:
        raise RunError(f"{path / TABLE}: damaged ({first_line(error)}); {REMEDY}") from error
    return added if len(added) else None


def count_added(path: Path) -> int:
    """How many items were added to a run."""
    return int(read(path, TABLE, pa.parquet.read_metadata).num_rows) if (path / TABLE).exists() else 0


def write_added(run: Path, weights: str, change: Callable[[Added | None], Added]) -> None:
    """Replace the added items of a run; raises an `OSError` if that fails.

    change: from what is there to what shall be, called while no other process writes to the run.
    weights: digest of the weights that the vectors belong to; a `RunError` if the run has others by now.
    """

    def contents() -> dict[str, bytes | str]:
        if weights_digest(run) != weights:
            raise RunError(f"{run}: replaced since it was opened; try again")
        return added_files(change(read_added(run)), weights)

    put(run, contents)


def added_files(added: Added, weights: str) -> dict[str, bytes | str]:
    """The contents of both files."""
    return {TABLE: _table_bytes(added), VECTORS: _vector_bytes(added, weights)}


def added_digest(run: Path) -> str:
    """Identifies the added items of a run; empty if none was ever added."""
    entries = manifest.read(run) or {}
    return entries.get(VECTORS, "")[:16] + entries.get(TABLE, "")[:16]


def _added(path: Path, table: pa.Table) -> Added:
    about = json.loads((table.schema.metadata or {})[KEY])
    tensors, metadata = read(path, VECTORS, tensors_of)
    if metadata["weights"] != weights_digest(path):
        raise ValueError(f"{VECTORS} belongs to other weights")
    vectors = tensors["item_vectors"], tensors["context_vectors"]
    if any(part.dtype != torch.float32 or part.dim() != 2 or len(part) != len(table) for part in vectors):
        raise ValueError(f"{VECTORS} has no vectors for {len(table):,} items")
    if not all(torch.isfinite(part).all() for part in vectors):
        raise ValueError(f"{VECTORS} contains NaN or infinite values")
    placements = tuple(Placement(tuple(attributes), events, strength) for attributes, events, strength in about["how"])
    if len(placements) != len(table):
        raise ValueError(f"{TABLE} says how {len(placements):,} of {len(table):,} items were placed")
    names = [name for name in table.column_names if name not in RESERVED_COLUMNS]
    plain = table.select(names).replace_schema_metadata() if names else None
    ids = Ids(table.column("id").combine_chunks())
    return Added(ids, plain, *vectors, placements, Strength.from_json(about["strength"]))


def _table_bytes(added: Added) -> bytes:
    table = (
        pa.table({"id": added.ids.array}) if added.table is None else added.table.add_column(0, "id", added.ids.array)
    )
    table = table.append_column("popularity", pa.array(added.popularity))
    how = [[placement.attributes, placement.events, placement.strength] for placement in added.placements]
    about = json.dumps({"how": how, "strength": asdict(added.strength)})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table.replace_schema_metadata({KEY: about}), sink)
    return bytes(sink.getvalue())


def _vector_bytes(added: Added, weights: str) -> bytes:
    tensors = {"item_vectors": added.item_vectors, "context_vectors": added.context_vectors}
    return to_bytes({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, {"weights": weights})


def check_added(added: Added, ids: Ids, dim: int) -> None:
    """A `ValueError` if added items do not fit a model."""
    if added.item_vectors.shape[1] != dim or added.context_vectors.shape[1] != dim:
        raise ValueError(f"{VECTORS} has vectors of {added.item_vectors.shape[1]} dimensions, the model has {dim}")
    if added.ids.are_integers != ids.are_integers or np.any(ids.positions(added.ids) >= 0):
        raise ValueError(f"{TABLE} has ids of trained items, or of another type")
    if len(set(added.ids)) < len(added):
        raise ValueError(f"{TABLE} has an item twice")
