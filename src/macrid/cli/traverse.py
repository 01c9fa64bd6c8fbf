"""macrid traverse: walk from an item or a user along one dimension."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from macrid.cli.common import console, error_console, number_or_name, parse_ids, print_json, signed, table, working

if TYPE_CHECKING:
    from macrid.control.traverse import Traversal
    from macrid.models.base import Recommender
    from macrid.pictures.strips import Strip


def traverse(
    run: Path = typer.Argument(help="A run."),
    dimension: str = typer.Option(help="Number or name of a dimension."),
    item: str | None = typer.Option(None, help="The id of the item to start from."),
    history: list[str] = typer.Option([], help="Instead of an item: a user's items (ids, comma-separated)."),
    concept: str | None = typer.Option(None, help="With --history: number or name of the concept."),
    steps: int = typer.Option(8, help="At most this many items."),
    min_users: int = typer.Option(0, help="Choose among items that at least this many users had in training."),
    keep_start: bool = typer.Option(False, help="Always include --item, which is nearly always chosen anyway."),
    hold: list[str] = typer.Option(
        [], help="Hold only these attributes of --item (comma-separated). Default: all that need not move."
    ),
    no_hold: bool = typer.Option(False, "--no-hold", help="Hold none: the walk of the paper, by vectors alone."),
    gamma: float | None = typer.Option(None, help="Weight of the items' similarity to each other. Default: 0.3."),
    out: Path | None = typer.Option(None, "--out", "-o", help="Draw a strip: .html, .png, .svg or .pdf."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show items that differ from a given one in a single dimension, from one end to the other.

    Its other attributes are held wherever the catalogue allows it; the last column says where it does not.

    Example: macrid traverse runs/shop --item bag-0001 --dimension size

    Example: macrid traverse runs/ml-1m --item 260 --dimension year --hold genres --out walk.html
    """
    if (item is None) == (not history):
        raise typer.BadParameter("give --item, or --history and --concept")
    if history and concept is None:
        raise typer.BadParameter("--history needs --concept: a user has a component in each concept")
    if item is not None and concept is not None:
        raise typer.BadParameter("--concept needs --history; an item has its own concept")
    if hold and (no_hold or history):
        raise typer.BadParameter("--hold needs --item, and excludes --no-hold")
    from macrid.control.traverse import traverse as walk
    from macrid.control.walk import GAMMA
    from macrid.runs import load

    with working("loading"):
        model = load(run, "cpu")
    start: dict[str, Any] = {"item": model.items.parse(item)} if item is not None else {}
    if history:
        start = {"history": parse_ids(history, model.items), "concept": number_or_name(concept)}
    traversal = walk(
        model, dimension=number_or_name(dimension), steps=steps, gamma=GAMMA if gamma is None else gamma,
        min_users=min_users, keep_start=keep_start,
        hold=[name.strip() for text in hold for name in text.split(",")] or not no_hold, **start,
    )  # fmt: skip
    if out is not None:
        from macrid.pictures.strips import draw_strip

        draw_strip([_strip_of(model, traversal)], out)
    if json:
        print_json(traversal.as_json())
    else:
        _show(model, traversal)
    if out is not None:
        error_console.print(f"{out}: drawn", soft_wrap=True)


def _strip_of(model: Recommender, traversal: Traversal) -> Strip:
    """A traversal as a strip, with pictures if the items are the built-in shop's."""
    from macrid.data.shop.assortment import picture_of
    from macrid.pictures.strips import Cell, Strip

    title, low, high = _names_of(model, traversal)
    cells = [
        Cell(
            stop.title or str(stop.id), signed(stop.value), picture_of(model.items, model.table, stop.id), stop.is_start
        )
        for stop in traversal.items
    ]
    return Strip(title, cells, low, high)


def _names_of(model: Recommender, traversal: Traversal) -> tuple[str, str, str]:
    """Of the dimension, such as "bags: size", and of its ends, empty if it has no name."""
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.names import ends, label

    names, name = meaning_of(model).names, traversal.name or f"dimension {traversal.dimension}"
    if names is None:
        return f"concept {traversal.concept}: {name}", "", ""
    entry = names.dimension(traversal.concept, traversal.dimension)
    has_name = entry.name is not None or entry.edited
    return f"{label(names.concept(traversal.concept))}: {name}", *(ends(entry) if has_name else ("", ""))


def _show(model: Recommender, traversal: Traversal) -> None:
    title, low, high = _names_of(model, traversal)
    heading = Text.assemble((title, "bold"))
    if low or high:
        heading.append(f", from {low} to {high}")
    console.print(heading)
    console.print(_about(traversal), style="dim")
    if traversal.held:
        console.print(_held(traversal), style="dim")
    rows = [
        (signed(stop.value), stop.id, stop.title, "start" if stop.is_start else ", ".join(stop.differs))
        for stop in traversal.items
    ]
    stops = table(("value", "item", "title", "also differs" if traversal.held else ""), rows, numbers=("value",))
    for row, stop in zip(stops.rows, traversal.items, strict=True):
        row.style = "bold" if stop.is_start else ""
    console.print(stops)
    if len(traversal.items) < traversal.steps:
        console.print(
            f"only {len(traversal.items)} of {traversal.steps} steps: the range has no more items", style="dim"
        )


def _held(traversal: Traversal) -> str:
    """What was held, and what could not be."""
    text = f"held: {', '.join(traversal.held)}"
    return f"{text}; moves with it: {', '.join(traversal.tied)}" if traversal.tied else text


def _about(traversal: Traversal) -> str:
    """Concept, dimension, range and what limits it, and where the history is."""
    low, high = signed(traversal.low), signed(traversal.high)
    text = f"concept {traversal.concept}, dimension {traversal.dimension}, from {low} to {high}"
    if not any(stop.is_start for stop in traversal.items):
        text += f", the history is at {signed(traversal.start)}"
    beyond = {(False, False): "outside", (False, True): "below", (True, False): "above"}.get(traversal.is_open)
    return text if beyond is None else f"{text}; another concept is closer {beyond}"
