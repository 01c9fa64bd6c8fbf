"""macrid data: what there is, and preparing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from macrid.cli.common import (
    column,
    console,
    download_progress,
    error_console,
    print_json,
    working,
)
from macrid.errors import DataError
from macrid.files import check_free

if TYPE_CHECKING:
    from macrid.data.split import Split

app = typer.Typer(help="List data sets, and prepare them for training.", no_args_is_help=True)


@app.command("list")
def list_(json: bool = typer.Option(False, "--json", help="JSON on standard output.")) -> None:
    """List the data sets of the catalogue and say which are at hand.

    Example: macrid data list
    """
    from macrid.data import catalog

    rows = []
    for name in catalog.names():
        entry = catalog.entry(name)
        rows.append((entry, catalog.status(entry)))
    if json:
        print_json([
            {"name": entry.name, "what": entry.what, "status": status, "expected": _expected(entry)}
            for entry, status in rows
        ])  # fmt: skip
        return
    wide = console.width >= 130
    console.print(f"{'name':<16} {'status':<11} {'users':>8} {'items':>7} {'interactions':>13}", style="bold")
    for entry, status in rows:
        counts = _expected(entry) or {}
        told = [f"{counts[key]:,}" if counts.get(key) else "" for key in ("users", "items", "interactions")]
        line = f"{entry.name:<16} {status:<11} {told[0]:>8} {told[1]:>7} {told[2]:>13}"
        console.print(f"{line}  {entry.what}" if wide else line)
        if not wide:
            console.print(f"  {entry.what}", style="dim")


@app.command()
def prepare(
    context: typer.Context,
    source: str = typer.Argument(help="A name of the catalogue, or a file of events (CSV, TSV, Parquet, '::')."),
    out: Path = typer.Option(..., "--out", "-o", help="The folder to write."),
    user_col: str | None = typer.Option(None, help="Column of the user; guessed if not given."),
    item_col: str | None = typer.Option(None, help="Column of the item; guessed if not given."),
    rating_col: str | None = typer.Option(None, help="Column of the rating; guessed if not given."),
    min_rating: float | None = typer.Option(None, help="Keep ratings at or above it; without it every row counts."),
    min_items: int = typer.Option(5, help="Keep users with at least so many items."),
    heldout: float = typer.Option(0.1, help="Users for validation, and again for test; below 1, a share of all."),
    seed: int = typer.Option(98765, help="Seed of the split."),
    items: Path | None = typer.Option(None, help="A table with one row an item: id, title, attributes."),
    overwrite: bool = typer.Option(False, help="Replace a folder that is not empty."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Read events, split them by held-out users, and write a folder that training opens at once.

    Example: macrid data prepare events.parquet --min-rating 4 --heldout 500 --items items.csv --out shop/
    """
    from macrid.data import catalog, store
    from macrid.data.interactions import Interactions
    from macrid.data.source import did_you_mean

    check_free(out, overwrite, DataError, replaceable=store.FILES)
    if not Path(source).exists() and source not in catalog.names():
        raise DataError(f"{source}: neither a file nor a name of the catalogue{did_you_mean(source)}")
    if source in catalog.names() and not Path(source).is_file():
        _refuse_options(context, source)
        with download_progress() as progress, working(f"reading {source}"):
            split = catalog.load(source, progress=progress)
        recipe: dict[str, object] = {"catalogue": source}
    else:
        with working(f"reading {source}"):
            data = Interactions.read(
                source,
                user=column(user_col),
                item=column(item_col),
                rating=column(rating_col),
                min_rating=min_rating,
                min_items=min_items,
                items=items,
            )
        error_console.print(str(data.report), soft_wrap=True)
        with working("splitting"):
            split = data.split(heldout, seed)
        recipe = {"min_rating": min_rating, "min_items": min_items, "heldout": heldout, "seed": seed}
    with working(f"writing {out}"):
        store.write(split, out, overwrite=overwrite, about=recipe)
    counts = _counts(split)
    if json:
        print_json({"out": str(out), **counts})
        return
    console.print(
        f"{out}: {counts['users']:,} users, {counts['items']:,} items, {counts['interactions']:,} interactions;"
        f" {counts['heldout']:,} users held out for validation and as many for test"
    )
    console.print(f"next: macrid train {out} --out RUN")


def _refuse_options(context: typer.Context, source: str) -> None:
    """A data set of the catalogue has its recipe; an option that would be ignored is an error."""
    recipe = ("user_col", "item_col", "rating_col", "min_rating", "min_items", "heldout", "seed", "items")
    given = [name for name in recipe if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        named = ", ".join("--" + name.replace("_", "-") for name in given)
        raise DataError(
            f"{source}: comes with its own recipe, so {named} cannot be given; to read it your way, give its file"
        )


def _counts(split: Split) -> dict[str, int]:
    parts = [
        split.train.matrix,
        *(m for group in (split.validation, split.test) for m in (group.history, group.target)),
    ]
    return {
        "users": len(split.train.users) + len(split.validation.users) + len(split.test.users),
        "items": len(split.items),
        "interactions": sum(int(matrix.nnz) for matrix in parts),
        "heldout": len(split.test.users),
    }


def _expected(entry: object) -> dict[str, int] | None:
    counts = getattr(entry, "expected", None)
    return None if counts is None else {key: getattr(counts, key) for key in ("users", "items", "interactions")}
