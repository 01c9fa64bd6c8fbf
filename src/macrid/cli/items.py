"""macrid items: add, list and remove items that came after training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from macrid.cli.common import console, number_or_name, parse_ids, print_json, show_warning, table, working
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from macrid.additions import NewItem
    from macrid.cold import Strength

SHOWN = 20  # items

app = typer.Typer(help="Add items that came after training; list and remove them.", no_args_is_help=True)


@app.command()
def add(
    run: Path = typer.Argument(help="A run."),
    items: Path = typer.Argument(help="A table of new items: id, title, attributes (CSV, TSV or Parquet)."),
    events: Path | None = typer.Option(
        None, help="Events of users who had some of them: all items of these users, one event per row."
    ),
    update: bool = typer.Option(False, "--update", help="Place items again that were added before."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would be added, and change nothing."),
    user_col: str | None = typer.Option(None, help="User column of --events; guessed by default."),
    item_col: str | None = typer.Option(None, help="Item column of both tables; guessed by default."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Give new items vectors and concepts, from their attributes and the few events there are.

    The map from attributes to vectors is learned from the items of the training; its strength is measured on items that
    it was not fitted to. The items stay in the run until it is trained again.

    Example: macrid items add runs/shop new.csv

    Example: macrid items add runs/shop new.csv --events events.parquet --dry-run
    """
    from macrid.additions import add_items

    columns: dict[str, Any] = {"user": number_or_name(user_col), "item": item_col}
    with working("placing"):
        report = add_items(run, items, events, update=update, dry_run=dry_run, **columns)
    if json:
        print_json({"dry_run": dry_run, **report.as_json()})
        return
    for note in report.notes:
        show_warning(note)
    if report.items:
        console.print(_items(report.items))
    console.print(_strength(report.strength), style="dim", soft_wrap=True)
    verb = "would be added" if dry_run else "added"
    console.print(f"{run}: {len(report):,} item{'s' * (len(report) != 1)} {verb}", soft_wrap=True)


@app.command("list")
def list_(
    run: Path = typer.Argument(help="A run."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """List the items added to a run, and how they were placed.

    Example: macrid items list runs/shop
    """
    from macrid.additions import added_items
    from macrid.runs import load

    with working("loading"):
        items = added_items(load(run, "cpu"))
    if json:
        print_json({"items": [item.as_json() for item in items]})
    elif items:
        console.print(_items(items, len(items)))
    else:
        console.print(f"{run}: no items were added since training", soft_wrap=True)


@app.command()
def remove(
    run: Path = typer.Argument(help="A run."),
    ids: list[str] = typer.Argument(help="Ids of added items.", metavar="ID…"),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Remove items that were added to a run.

    Example: macrid items remove runs/shop bag-9001 bag-9002
    """
    from macrid.additions import remove_items
    from macrid.runs import load

    with working("removing"):
        removed = remove_items(run, parse_ids(ids, load(run, "cpu").items))
    if json:
        print_json({"removed": [str(item) for item in removed]})
    else:
        console.print(f"{run}: {len(removed):,} item{'s' * (len(removed) != 1)} removed", soft_wrap=True)


def _items(items: Sequence[NewItem], most: int = SHOWN) -> Table:
    rows = [
        (
            item.id,
            None if item.title is None else shortened(item.title, 32),
            item.concept,
            ", ".join(item.placement.attributes) or "–",
            f"{item.placement.events:,}",
            f"{item.placement.strength:.2f}",
        )
        for item in items[:most]
    ]
    more = f"and {len(items) - most:,} more" if len(items) > most else None
    numbers = ("concept", "events", "strength")
    return table(("item", "title", "concept", "placed by", "events", "strength"), rows, numbers, more)


def _strength(strength: Strength) -> str:
    """The measured strength of the map, in words."""
    text = (
        f"on {strength.items:,} trained items, each placed without itself: strength {strength.strength:.2f} (0 is"
        f" chance, 1 perfect); concept right {strength.concepts:.0%}, largest concept {strength.largest:.0%}"
    )
    if strength.found is None or strength.found_trained is None:
        return text
    preferred = f"{strength.found:.0%} of the time, {strength.found_trained:.0%} with trained vectors, 50% by chance"
    return f"{text}; users prefer their own items {preferred}"
