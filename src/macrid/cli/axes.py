"""macrid axes: turn the axes of each concept so that they mean something; no score changes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.table import Table

from macrid.cli.common import console, print_json, working
from macrid.pictures.drawing import shortened


class By(StrEnum):
    independence = "independence"
    attributes = "attributes"
    original = "original"


def axes(
    run: Path = typer.Argument(help="A run."),
    by: By = typer.Option(help="What to turn them by; original goes back to those of the training."),
    attribute: list[str] = typer.Option(
        [], help="With --by attributes: these only, such as year or 'genres: Comedy'; may be repeated."
    ),
    always: bool = typer.Option(False, help="Use them in every concept, even where they tell less."),
    seed: int = typer.Option(0, help="Seed of shuffles and starts."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Turn the axes of each concept, use them where they tell more about the items, and name them anew.

    Every score stays as it is: traverse, steer, inspect and names go along the new axes. The run keeps all kinds.

    Example: macrid axes runs/ml-1m --by attributes

    Example: macrid axes runs/shop --by independence
    """
    if attribute and by is not By.attributes:
        raise typer.BadParameter("--attribute goes with --by attributes")
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.understanding import understand
    from macrid.runs import keep, load

    with working("turning"):
        model: Any = load(run, "cpu")
        choice = understand(model, [by.value], attributes=attribute or None, always=always, seed=seed)
        keep(model, run)
    meaning = meaning_of(model)
    told = {kind: [None if np.isnan(v) else float(v) for v in values] for kind, values in choice.evidence.items()}
    if json:
        fits = [fit._asdict() for fit in meaning.axes[by.value].fits]
        print_json({"by": by.value, "in_use": list(choice.in_use), "evidence": told, "fits": fits})
        return
    from macrid.concepts.names import label

    assert meaning.names is not None
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("concept")
    for kind in told:
        table.add_column(kind, justify="right", no_wrap=True, min_width=len(kind))
    table.add_column("in use", no_wrap=True, min_width=max(map(len, choice.in_use)))
    table.add_column("named", justify="right")
    for k, used in enumerate(choice.in_use):
        cells = ["–" if told[kind][k] is None else f"{told[kind][k]:.2f}" for kind in told]
        named = sum(entry.name is not None for entry in meaning.dimensions if entry.concept == k)
        table.add_row(f"{k} {shortened(label(meaning.names.concept(k)), 24)}", *cells, used, str(named))
    console.print(table)
    console.print("numbers: the best rank correlation of a dimension with each attribute, averaged", style="dim")
    console.print(f"{run}: axes and names written; next: macrid inspect {run}", soft_wrap=True)
