"""macrid export: a run as an ONNX file, or as vectors for a vector database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from macrid.cli.common import console, print_json, working

if TYPE_CHECKING:
    from macrid.export import OnnxExport, VectorExport

CHECKED = 50_000_000  # scores of users × items compared with the model's, at most


def export(
    run: Path = typer.Argument(help="A run."),
    onnx: Path | None = typer.Option(
        None, "--onnx", metavar="FILE", help="Write a graph: histories in, items and scores out."
    ),
    vectors: Path | None = typer.Option(
        None, "--vectors", metavar="DIR", help="Write item vectors for a vector database, an encoder, and a recipe."
    ),
    input: list[str] = typer.Option(
        [],
        "--input",
        help="A further input of the graph: weights (of interactions), hidden (items), allowed (items); repeatable.",
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an earlier export."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Write a model for programs without macrid or Python: as ONNX, for a vector database, or both.

    The ONNX graph takes histories padded with -1, n and exclude_seen. If onnxruntime is installed, its lists are
    compared with the model's on the run's held-out users, and nothing is written if they differ.

    Example: macrid export runs/ml-1m --onnx ml-1m.onnx

    Example: macrid export runs/ml-1m --vectors ml-1m-vectors
    """
    if onnx is None and vectors is None:
        raise typer.BadParameter("give --onnx FILE, --vectors DIR, or both")
    from macrid.export import INPUTS, check_file, check_folder, check_inputs, write_onnx, write_vectors
    from macrid.runs import added_digest, load, read_sample, weights_digest

    check_inputs(input, INPUTS if onnx is not None else ("weights",))
    if onnx is not None:
        check_file(onnx, overwrite)
    if vectors is not None:
        check_folder(vectors, overwrite)
    with working("loading"):
        model = load(run, "cpu")
        digest = weights_digest(run) + added_digest(run)
        sample = read_sample(run)
    written: dict[str, Any] = {}
    if onnx is not None:
        check = None if sample is None else sample[: max(1, CHECKED // len(model.items))]
        with working(f"writing {onnx}"):
            graph = write_onnx(model, onnx, digest=digest, inputs=input, overwrite=overwrite, check=check)
        written |= _shown(graph, json)
    if vectors is not None:
        with working(f"writing {vectors}"):
            of_encoder = [name for name in input if name == "weights"]
            table = write_vectors(model, vectors, digest=digest, inputs=of_encoder, overwrite=overwrite)
        written |= _shown_vectors(table, json)
    if json:
        print_json(written)


def _shown(graph: OnnxExport, json: bool) -> dict[str, Any]:
    found = graph.agreement
    if not json:
        checked = "not compared with the model" if found is None else f"compared with the model: {found}"
        console.print(f"{graph.file}: {graph.size / 2**20:,.1f} MiB; {checked}", soft_wrap=True)
        console.print(f"{graph.items}: ids and titles of the items by position", soft_wrap=True)
    agreement = None if found is None else vars(found)
    return {"onnx": str(graph.file), "items": str(graph.items), "bytes": graph.size, "agreement": agreement}


def _shown_vectors(written: VectorExport, json: bool) -> dict[str, Any]:
    if not json:
        linear = f", {written.neighbours:,} pairs of neighbours" if written.neighbours else ""
        vectors = f"{written.entries:,} vectors of {written.dim} numbers in {written.concepts} concepts{linear}"
        console.print(f"{written.folder}: {vectors}; about.json has the recipe", soft_wrap=True)
    numbers = {name: value for name, value in vars(written).items() if name != "folder"}
    return {"vectors": str(written.folder), **numbers}
