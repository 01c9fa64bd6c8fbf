"""macrid data: list data sets, and prepare them for training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote

import typer

from macrid.cli.common import (
    console,
    download_progress,
    error_console,
    flags,
    number_or_name,
    print_json,
    table,
    working,
)
from macrid.errors import DataError
from macrid.files import check_free

app = typer.Typer(help="List data sets and prepare them for training.", no_args_is_help=True)


@app.command("list")
def list_(json: bool = typer.Option(False, "--json", help="JSON on standard output.")) -> None:
    """List the data sets in the catalogue and which are available.

    Example: macrid data list
    """
    from macrid.data import catalog

    entries = [
        (entry, catalog.status(entry), None if entry.expected is None else asdict(entry.expected))
        for entry in map(catalog.entry, catalog.names())
    ]
    if json:
        print_json([
            {"name": entry.name, "what": entry.what, "status": status, "expected": counts}
            for entry, status, counts in entries
        ])  # fmt: skip
        return
    numbers = ("users", "items", "interactions")
    rows = []
    for entry, status, counts in entries:
        rows.append((entry.name, status, *(f"{counts[key]:,}" if counts else "" for key in numbers), entry.what))
    console.print(table(("name", "status", *numbers, "what it is"), rows, numbers))


@app.command()
def prepare(
    context: typer.Context,
    source: str = typer.Argument(help="A catalogue name, or a file of events (CSV, TSV, Parquet, '::')."),
    out: Path = typer.Option(..., "--out", "-o", help="The folder to write."),
    user_col: str | None = typer.Option(None, help="User column; guessed by default."),
    item_col: str | None = typer.Option(None, help="Item column; guessed by default."),
    rating_col: str | None = typer.Option(None, help="Rating column; guessed by default."),
    min_rating: float | None = typer.Option(None, help="Keep only ratings this high; by default every row counts."),
    min_items: int = typer.Option(5, help="Keep users with at least this many items."),
    heldout: float = typer.Option(
        0.1, help="Users to hold out for validation, and as many for test; below 1, a fraction."
    ),
    seed: int = typer.Option(98765, help="Seed of the split."),
    items: Path | None = typer.Option(None, help="A table with one row per item: id, title, attributes."),
    encoding: str | None = typer.Option(
        None, help="Encoding of the text files, such as latin-1; by default decided by the content of each."
    ),
    overwrite: bool = typer.Option(False, help="Replace a folder that is not empty."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Read events, hold out users for validation and test, and write a folder ready for training.

    Example: macrid data prepare events.parquet --min-rating 4 --heldout 500 --items items.csv --out shop/
    """
    from macrid.data import catalog, store
    from macrid.data.interactions import Interactions

    check_free(out, overwrite, DataError, replaceable=store.FILES)
    if not Path(source).exists() and source not in catalog.names():
        raise DataError(f"{source}: neither a file nor a catalogue name{catalog.did_you_mean(source)}")
    if source in catalog.names() and not Path(source).is_file():
        _refuse_options(context, source)
        with download_progress() as progress, working(f"reading {source}"):
            split = catalog.load(source, progress=progress)
        recipe: dict[str, object] = {"catalogue": source}
    else:
        with working(f"reading {source}"):
            data = Interactions.read(
                source,
                user=number_or_name(user_col),
                item=number_or_name(item_col),
                rating=number_or_name(rating_col),
                min_rating=min_rating,
                min_items=min_items,
                items=items,
                encoding=encoding,
            )
        error_console.print(str(data.report), soft_wrap=True)
        with working("splitting"):
            split = data.split(heldout, seed)
        recipe = {"min_rating": min_rating, "min_items": min_items, "heldout": heldout, "seed": seed}
    with working(f"writing {out}"):
        store.write(split, out, overwrite=overwrite, about=recipe)
    heldout_users = (split.validation, split.test)
    counts = {
        "users": sum(len(group.users) for group in (split.train, *heldout_users)),
        "items": len(split.items),
        "interactions": len(split.train) + sum(int(group.history.nnz + group.target.nnz) for group in heldout_users),
        "heldout": len(split.test.users),
    }
    if json:
        print_json({"out": str(out), **counts})
        return
    console.print(
        f"{out}: {counts['users']:,} users, {counts['items']:,} items, {counts['interactions']:,} interactions;"
        f" {counts['heldout']:,} users held out for validation and as many for test"
    )
    console.print(f"next: macrid train {quote(str(out))} --out RUN", soft_wrap=True)


def _refuse_options(context: typer.Context, source: str) -> None:
    """Catalogue data sets have a fixed recipe; an option it would ignore is an error."""
    recipe = ("user_col", "item_col", "rating_col", "min_rating", "min_items", "heldout", "seed", "items", "encoding")
    refused = [name for name in recipe if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if refused:
        raise DataError(f"{source}: has its own recipe; remove {flags(refused)}, or give the data set's file instead")
