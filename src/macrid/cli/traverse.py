"""macrid traverse: walk from an item, or from what a user is after, along one dimension."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import column, console, error_console, parse_ids, print_json, signed, working

if TYPE_CHECKING:
    from macrid.control.traverse import Traversal
    from macrid.models.base import Recommender
    from macrid.pictures.strips import Strip


def traverse(
    run: Path = typer.Argument(help="A run."),
    dimension: str = typer.Option(help="The number of a dimension, or its name."),
    item: str | None = typer.Option(None, help="The id of the item to start from.", show_default=False),
    history: list[str] = typer.Option([], help="Instead of an item: what a user has (ids, separated by commas)."),
    concept: str | None = typer.Option(
        None, help="With --history: in which concept, a number or its name.", show_default=False
    ),
    steps: int = typer.Option(8, help="How many items at most."),
    min_users: int = typer.Option(0, help="Choose among items that at least so many users had in training."),
    keep_start: bool = typer.Option(
        False, help="Have --item among the items in any case; nearly always it is the best of its part of the range."
    ),
    gamma: float | None = typer.Option(
        None, help="How much it counts that the items are like each other. Default: 0.3.", show_default=False
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Draw a strip: .html, .png, .svg or .pdf.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show items that differ from one in a single dimension, from one end of it to the other.

    Example: macrid traverse runs/shop --item bag-0001 --dimension size

    Example: macrid traverse runs/ml-1m --item 260 --dimension year --out walk.html
    """
    if (item is None) == (not history):
        raise typer.BadParameter("give either --item, or --history and --concept")
    if history and concept is None:
        raise typer.BadParameter("--history has a component in each concept; say which with --concept")
    if item is not None and concept is not None:
        raise typer.BadParameter("--concept goes with --history; an item has its own concept")
    from macrid.control.traverse import traverse as walk
    from macrid.control.walk import GAMMA
    from macrid.runs import load

    with working("loading"):
        model = load(run, "cpu")
    start: dict[str, Any] = {"item": model.items.parse(item)} if item is not None else {}
    if history:
        start = {"history": parse_ids(history, model.items), "concept": column(concept)}
    gamma = GAMMA if gamma is None else gamma
    asked: dict[str, Any] = {"steps": steps, "gamma": gamma, "min_users": min_users, "keep_start": keep_start}
    found = walk(model, dimension=column(dimension), **asked, **start)
    if out is not None:
        from macrid.pictures.strips import draw_strip

        draw_strip([strip_of(model, found)], out)
    if json:
        print_json(found.as_json())
    else:
        _show(model, found)
    if out is not None:
        error_console.print(f"{out}: drawn", soft_wrap=True)


def strip_of(model: Recommender, found: Traversal) -> Strip:
    """A traversal as a strip, with pictures where the items are the built-in shop's."""
    from macrid.data.shop.assortment import picture_of
    from macrid.pictures.strips import Cell, Strip

    low, high = ends_of(model, found)
    cells = [
        Cell(
            stop.title or str(stop.id),
            signed(stop.value),
            picture_of(model.items, model.table, stop.id),
            stop.is_start,
        )
        for stop in found.items
    ]
    return Strip(title_of(model, found), cells, low, high)


def title_of(model: Recommender, found: Traversal) -> str:
    """Such as "bags: size"."""
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.names import label

    names = meaning_of(model).names
    concept = f"concept {found.concept}" if names is None else label(names.concept(found.concept))
    return f"{concept}: {found.name or f'dimension {found.dimension}'}"


def ends_of(model: Recommender, found: Traversal) -> tuple[str, str]:
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.names import ends

    names = meaning_of(model).names
    entry = None if names is None else names.dimension(found.concept, found.dimension)
    return ("", "") if entry is None or (entry.name is None and not entry.edited) else ends(entry)


def _show(model: Recommender, found: Traversal) -> None:
    low, high = ends_of(model, found)
    told = Text.assemble((title_of(model, found), "bold"))
    if low or high:
        told.append(f", from {low} to {high}")
    console.print(told)
    console.print(_about(found), style="dim")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("value", justify="right")
    table.add_column("item", no_wrap=True)
    has_title = any(stop.title for stop in found.items)
    if has_title:
        table.add_column("title")
    table.add_column("")
    for stop in found.items:
        title = [stop.title or ""] if has_title else []
        style = "bold" if stop.is_start else ""
        table.add_row(signed(stop.value), str(stop.id), *title, "start" if stop.is_start else "", style=style)
    console.print(table)
    if len(found.items) < found.steps:
        console.print(
            f"{len(found.items)} of {found.steps} steps: the range holds no more items of the concept", style="dim"
        )


def _about(found: Traversal) -> str:
    """Where it walks, and what ends the range; a history is somewhere on the way."""
    told = f"concept {found.concept}, dimension {found.dimension}, from {signed(found.low)} to {signed(found.high)}"
    if not any(stop.is_start for stop in found.items):
        told += f", the history is at {signed(found.start)}"
    beyond = {(False, False): "outside", (False, True): "below", (True, False): "above"}.get(found.is_open)
    return told if beyond is None else f"{told}; {beyond}, another concept is closer"
