"""macrid similar: items close to an item."""

from __future__ import annotations

from pathlib import Path

import typer

from macrid.cli.common import console, items_table, print_json, working


def similar(
    run: Path = typer.Argument(help="A run."),
    item: str = typer.Argument(help="The id of an item."),
    n: int = typer.Option(10, "-n", "--number", help="How many items."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show the items with the most similar vectors.

    Example: macrid similar runs/ml-1m 260 -n 5
    """
    from macrid.runs import load

    with working("loading"):
        model = load(run, "cpu")
    neighbours = model.similar_items(model.items.parse(item), n)
    if json:
        print_json({"item": item, "items": [entry.as_json() for entry in neighbours]})
    else:
        console.print(items_table(neighbours, "cosine"))
