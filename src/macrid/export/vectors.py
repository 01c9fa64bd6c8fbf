"""A model as vectors for a vector database: what to store, what to ask with, and how to put the answers together.

The score of item i for a user with components z_k and concept weights w_k is, up to a constant of the user,

    log sum_k exp(q_k · e_ik / tau + log w_k) + l_i,        q_k = [z_k; 1],        e_ik = [h_i; tau · log c_ik]

Entries e_ik are stored by concept: with hard assignments each item in its own concept only, with soft ones in all.
Queries come from encoder.onnx. l_i adds up the weights of an item's neighbours that are in the history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from macrid.errors import MacridError
from macrid.export.encoder import array, encode
from macrid.export.graph import Graph, onnx_module
from macrid.export.histories import read_histories
from macrid.export.onnx_file import DESCRIPTION, check_inputs, description, metadata
from macrid.export.tables import items_table
from macrid.files import check_free, new_folder, writing
from macrid.models.base import Recommender
from macrid.models.neural import NeuralRecommender
from macrid.runs.folder import pretty

ENCODER, ENTRIES, NEIGHBOURS, ABOUT = "encoder.onnx", "entries.parquet", "neighbours.parquet", "about.json"
FILES = (ENCODER, f"{ENCODER}.data", ENTRIES, NEIGHBOURS, ABOUT)
ROWS = 1 << 16  # written at once
ENCODER_DESCRIPTION = {
    "": "Turns histories into queries. Items are positions, from 0, as in entries.parquet.",
    "items": DESCRIPTION["items"],
    "weights": DESCRIPTION["weights"],
    "queries": "one per concept, [z; 1]",
    "log_weights": "of the concepts",
    "is_empty": "whether a history has no known item",
}


@dataclass(frozen=True)
class VectorExport:
    """What was written."""

    folder: Path
    entries: int
    """Vectors to store."""
    dim: int
    """Of these vectors."""
    concepts: int
    neighbours: int
    """Pairs of items; 0 if the model has no linear part."""


def write_vectors(
    model: Recommender,
    path: str | PathLike[str],
    *,
    digest: str = "",
    inputs: Collection[str] = (),
    overwrite: bool = False,
) -> VectorExport:
    """Write the folder for a vector database, completely or not at all.

    inputs: "weights" for an encoder that takes weights of interactions. digest: of the run, for about.json.
    """
    folder = Path(path)
    model.check_fitted()
    if not isinstance(model, NeuralRecommender):
        raise MacridError(f"{type(model).__name__} has no vectors to store; MacridVAE, MultVAE and MultDAE have")
    check_inputs(inputs, ("weights",))
    g = _encoder_graph(model, "weights" in inputs)
    check_folder(folder, overwrite)
    with writing(folder, MacridError, "free some space or choose another folder"), new_folder(folder) as temporary:
        entries = _write_entries(model, temporary / ENTRIES)
        neighbours = _write_neighbours(model, temporary / NEIGHBOURS)
        decoder = model.decoder
        written = VectorExport(folder, entries, decoder.items.shape[1] + 1, decoder.log_assignment.shape[1], neighbours)
        about = metadata(model, digest)
        g.write(temporary / ENCODER, description(ENCODER_DESCRIPTION, inputs), about)
        (temporary / ABOUT).write_text(pretty(_about(model, written, about)), encoding="utf-8")
    return written


def check_folder(folder: Path, overwrite: bool) -> None:
    """An error if the folder cannot be written."""
    onnx_module()
    check_free(folder, overwrite, MacridError, replaceable=FILES)


def _encoder_graph(model: NeuralRecommender, weighted: bool) -> Graph:
    g = Graph("macrid_encoder")
    history = read_histories(g, len(model.items), weighted)
    vectors, log_weights = encode(g, model, history)
    concepts, dim = model.decoder.log_assignment.shape[1], model.decoder.items.shape[1]
    count = g.constant([concepts])
    ones = g.filled(g.joined(history.batch, count, g.constant([1])), np.array([1], np.float32))
    g.output("queries", g.node("Concat", vectors, ones, axis=2), np.float32, ("batch", concepts, dim + 1))
    of_concepts = g.joined(history.batch, count)
    weights = (
        g.filled(of_concepts, np.array([0], np.float32))
        if log_weights is None
        else g.node("Reshape", log_weights, of_concepts)
    )
    g.output("log_weights", weights, np.float32, ("batch", concepts))
    g.output("is_empty", g.node("Reshape", history.is_empty, history.batch), np.bool_, ("batch",))
    return g


def _write_entries(model: NeuralRecommender, file: Path) -> int:
    """Write one row per vector, by concept; how many."""
    written = 0
    with pa.parquet.ParquetWriter(file, next(_entries(model)).schema) as writer:
        for part in _entries(model):
            writer.write_table(part)
            written += part.num_rows
    return written


def _entries(model: NeuralRecommender) -> Iterator[pa.Table]:
    """Rows of the table of entries; the first part has none."""
    table, decoder = items_table(model), model.decoder
    attributes = table.drop_columns([name for name in ("position", "concept") if name in table.column_names])
    items, log_c = array(decoder.items), array(decoder.log_assignment)
    for concept in range(-1, log_c.shape[1]):
        members = np.arange(len(items)) if concept >= 0 else np.zeros(0, np.int64)
        if decoder.is_hard and concept >= 0:
            members = np.flatnonzero(decoder.likeliest == concept)
        for start in range(0, max(1, len(members)), ROWS):
            rows = members[start : start + ROWS]
            log_share = np.zeros(len(rows), np.float32) if decoder.is_hard else log_c[rows, concept]
            vectors = np.concatenate([items[rows], decoder.temperature * log_share[:, None]], axis=1, dtype=np.float32)
            columns = {
                "position": pa.array(rows),
                "concept": pa.array(np.full(len(rows), concept, np.int32)),
                "membership": pa.array(np.exp(log_share)),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
            }
            kept = attributes.take(pa.array(rows)).combine_chunks()
            yield pa.table(columns | dict(zip(kept.column_names, kept.columns, strict=True)))


def _write_neighbours(model: NeuralRecommender, file: Path) -> int:
    """Write the linear part, if there is any; how many pairs."""
    if model.neighbours is None:
        return 0
    state = {name: tensor.numpy() for name, tensor in model.neighbours.state().items()}
    items = np.repeat(np.arange(model.neighbours.items, dtype=np.int32), np.diff(state["offsets"]))
    pairs = {"item": items, "neighbour": state["targets"], "weight": state["weights"]}
    pa.parquet.write_table(pa.table({name: pa.array(column) for name, column in pairs.items()}), file)
    return len(items)


def _about(model: NeuralRecommender, written: VectorExport, about: dict[str, str]) -> dict[str, Any]:
    """How to use the files, for programs and people."""
    return {
        **about,
        "settings": model.settings.model_dump(mode="json"),
        "items": len(model.items),
        "assignment": "hard" if model.decoder.is_hard else "soft",
        "concepts": written.concepts,
        "dim": written.dim,
        "entries": written.entries,
        "neighbours": written.neighbours,
        "temperature": model.decoder.temperature,
        "metric": "inner product",
        "recipe": [
            f"Store the rows of {ENTRIES}: vectors, with their concept to filter by. Search by inner product.",
            f"{ENCODER} turns the positions of a history's items into a query and a log weight per concept.",
            "In each concept k, ask for the entries with the largest inner product with query k.",
            f"Further candidates: each `neighbour` of an `item` of the history in {NEIGHBOURS}, if that is there.",
            "Score of a candidate: log sum_k exp(query_k · vector_k / temperature + log_weight_k) over all its entries,"
            " plus the weights of its pairs with items of the history.",
            "No other item scores above the same sum (hard assignment: its largest term) over the last inner product"
            " found in each concept. If the n-th candidate does not reach that, ask for more.",
            "Scores are log-probabilities up to a constant per user. Without a known item: the most popular items.",
        ],
    }
