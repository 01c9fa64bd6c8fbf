"""macrid axes: turn each concept's axes to make them meaningful; no score changes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Literal

import numpy as np
import typer

from macrid.cli.common import console, number, print_json, table, working
from macrid.pictures.drawing import shortened


def axes(
    run: Path = typer.Argument(help="A run."),
    by: Literal["independence", "attributes", "original"] = typer.Option(
        help="How to turn them; original restores the trained axes."
    ),
    attribute: list[str] = typer.Option(
        [], help="With --by attributes: use only these, such as year or 'genres: Comedy'; repeatable."
    ),
    always: bool = typer.Option(False, help="Use the new axes in every concept, even where they predict less."),
    seed: int = typer.Option(0, min=0, max=2**63 - 1, help="Random seed."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Turn the axes of each concept, use them where they predict attributes better, rename them, and measure the knobs.

    Scores do not change. traverse, steer, inspect and names use the new axes; the run keeps all kinds.

    Example: macrid axes runs/ml-1m --by attributes

    Example: macrid axes runs/shop --by independence
    """
    if attribute and by != "attributes":
        raise typer.BadParameter("--attribute needs --by attributes")
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.understanding import understand
    from macrid.report.effects import measure_effects
    from macrid.runs import keep, load, read_validation

    with working("turning"):
        model: Any = load(run, "cpu", added=False)
        choice = understand(model, [by], attributes=attribute or None, always=always, seed=seed)
        measure_effects(model, read_validation(run, added=False))
        keep(model, run)
    meaning = meaning_of(model)
    evidence = {kind: [None if np.isnan(v) else float(v) for v in values] for kind, values in choice.evidence.items()}
    if json:
        fits = [fit._asdict() for fit in meaning.axes[by].fits]
        print_json({"by": by, "in_use": list(choice.in_use), "evidence": evidence, "fits": fits})
        return
    from macrid.concepts.names import label

    assert meaning.names is not None
    rows = []
    for k, used in enumerate(choice.in_use):
        numbers = (number(values[k], missing="–") for values in evidence.values())
        named = sum(entry.name is not None for entry in meaning.dimensions if entry.concept == k)
        rows.append((f"{k} {shortened(label(meaning.names.concept(k)), 24)}", *numbers, used, named))
    console.print(table(("concept", *evidence, "in use", "named"), rows, numbers=(*evidence, "named")))
    console.print("numbers: each attribute's best rank correlation with a dimension, averaged", style="dim")
    again = shlex.join(["macrid", "inspect", str(run)])
    console.print(f"{run}: axes and names written; next: {again}", soft_wrap=True)
