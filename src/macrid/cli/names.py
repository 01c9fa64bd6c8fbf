"""macrid names: show, set and regenerate the names of concepts and dimensions."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from macrid.cli.common import console, number, print_json, table, working
from macrid.cli.inspect import effects_table, shown
from macrid.errors import RequestError, RunError
from macrid.files import writing
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.concepts.names import Names

ARROW = re.compile(r"\s*(?:↔|<->)\s*")


def names(
    run: Path = typer.Argument(help="A run."),
    rename: list[str] = typer.Option(
        [], "--set", help="K=NAME for a concept; K.J=NAME or 'K.J=LOW <-> HIGH' for a dimension; repeatable."
    ),
    everything: bool = typer.Option(False, "--all", help="Also show unnamed dimensions."),
    anew: bool = typer.Option(False, help="Regenerate all names except those you set."),
    reset: bool = typer.Option(False, help="Regenerate all names, including those you set."),
    effects: bool = typer.Option(False, "--effects", help="Measure what the knobs do: for runs of earlier versions."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show the names of concepts and dimensions with their evidence and effects, or set them.

    Example: macrid names runs/ml-1m

    Example: macrid names runs/shop --set 4=handbags --set "4.1=small <-> large"
    """
    from macrid.concepts.effects import strongest_first
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.space import space_of
    from macrid.concepts.understanding import fresh_names
    from macrid.report.effects import measure_effects
    from macrid.runs import keep, load, read_names, read_validation, write_names

    with working("naming"):
        model: Any = load(run, "cpu", added=False)
        space_of(model)
        meaning = meaning_of(model)
        fresh = meaning.names is None or anew or reset
        names: Any = fresh_names(model, keep_edited=not reset) if fresh else meaning.names
        _renamed(names, rename)  # raises an error before anything is written
        meaning.names = names
        if effects:
            measure_effects(model, read_validation(run, added=False))
        if fresh or effects:
            keep(model, run)
        if rename:
            with writing(run, RunError, "nothing was renamed"):
                write_names(lambda: _renamed(read_names(run), rename), run)
            names = read_names(run)
    knobs = [effect.model_dump(mode="json") for effect in strongest_first(meaning.effects)]
    if json:
        print_json(names.as_json() | {"effects": knobs})
        return
    console.print(_concepts(names))
    console.print()
    console.print(_dimensions(names, everything))
    if knobs:
        console.print("\nwhat the knobs do", style="bold")
        console.print(effects_table(knobs, [{"name": entry.name} for entry in names.concepts]))
    named = sum(entry.name is not None or entry.edited for entry in names.dimensions)
    unnamed = len(names.dimensions) - named
    if not named:
        hint = f"no dimension is named; try other axes: macrid axes {quote(str(run))} --by attributes"
        console.print(hint, style="dim", soft_wrap=True)
    elif unnamed and not everything:
        console.print(
            f"{unnamed} dimensions match no known attribute and are unnamed; show them with --all", style="dim"
        )


def _renamed(names: Any, changes: list[str]) -> Any:
    for text in changes:
        names = _renamed_one(names, text)
    return names


def _renamed_one(names: Any, text: str) -> Any:
    from macrid.data.ids import whole_number

    place, equals, name = text.partition("=")
    parts = place.strip().split(".")
    numbers = [number for number in map(whole_number, parts) if number is not None and number >= 0]
    if not equals or not 1 <= len(parts) <= 2 or len(numbers) < len(parts):
        raise RequestError(f"--set {text!r}: give K=NAME for a concept or K.J=NAME for a dimension, such as 4=handbags")
    if len(numbers) == 1:
        return names.renamed(numbers[0], name)
    ends = ARROW.split(name)
    if len(ends) == 2:
        return names.renamed_dimension(*numbers, low=ends[0], high=ends[1])
    return names.renamed_dimension(*numbers, name=name)


def _concepts(names: Names) -> Table:
    """Names of concepts, and the evidence for them."""
    from macrid.concepts.names import label

    rows = []
    for entry in names.concepts:
        evidence = [f"{share.value} {share.inside:.0%}, others {share.outside:.0%}" for share in entry.evidence[:2]]
        if entry.fit is not None:
            shares = f"{entry.fit.share:.0%} of its choices, {entry.fit.base:.0%} of all"
            evidence = [shares, f"{entry.fit.held_out:.0%} on items it was not found on"]
        reasons = "\n".join((["set by hand"] if entry.edited else []) + evidence) or (entry.why or "")
        rows.append((entry.concept, label(entry), number(entry.strength), number(entry.p, ".3f"), reasons))
    return table(("concept", "name", "strength", "p", "evidence"), rows)


def _dimensions(names: Names, everything: bool) -> Table:
    """Named dimensions with items at both ends, and some or all of the others."""
    from macrid.concepts.names import caption, ends

    entries = names.as_json()["dimensions"]
    places = {
        (entry["concept"], entry["dimension"]) for entry in (entries if everything else shown(entries, "attribute"))
    }
    room = max(18, console.width - 60)
    rows = []
    for entry in names.dimensions:
        if (entry.concept, entry.dimension) not in places:
            continue
        has_name = entry.name is not None or entry.edited
        examples = [shortened(caption(side[0]), room) for side in (entry.examples.low, entry.examples.high) if side]
        strength = "by hand" if entry.edited else number(entry.strength)
        texts = (shortened(text, 22) for text in (entry.name or "–", *ends(entry)))
        place = f"{entry.concept}.{entry.dimension}"
        rows.append((place, *texts, strength if has_name else "none", "\n".join(examples) if has_name else ""))
    return table(("dimension", "name", "from", "to", "strength", "such as"), rows)
