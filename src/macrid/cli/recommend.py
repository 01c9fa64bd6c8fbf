"""macrid recommend: for one history, or for a file of many."""

from __future__ import annotations

from pathlib import Path

import typer

from macrid.cli.common import column, console, items_table, parse_ids, print_json, working
from macrid.errors import DataError


def recommend(
    run: Path = typer.Argument(help="A run."),
    history: list[str] = typer.Option([], help="Item ids, separated by commas; may be repeated."),
    n: int = typer.Option(10, "-n", "--number", help="How many items."),
    include: list[str] = typer.Option([], help="Choose among these items only (ids, separated by commas)."),
    exclude: list[str] = typer.Option([], help="Leave these items out (ids, separated by commas)."),
    exclude_seen: bool = typer.Option(
        True, "--exclude-seen/--keep-seen", help="Whether items of the history are left out."
    ),
    input: Path | None = typer.Option(
        None, help="Many users: a table (Parquet or CSV) of user and item, one row each."
    ),
    output: Path | None = typer.Option(None, help="Where the Parquet of recommendations for --input goes."),
    user_col: str | None = typer.Option(None, help="Column of the user in --input; guessed if not given."),
    item_col: str | None = typer.Option(None, help="Column of the item in --input; guessed if not given."),
    rating_col: str | None = typer.Option(None, help="Column of the rating in --input; guessed if not given."),
    min_rating: float | None = typer.Option(
        None, help="Take only items rated so high into a history; by default the threshold of the training, if any."
    ),
    overwrite: bool = typer.Option(False, help="Replace --output if it is there."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Recommend for one history, or for all users of a file.

    Example: macrid recommend runs/ml-1m --history 260,1196,1210 -n 10

    Example: macrid recommend runs/ml-1m --input users.parquet --output recs.parquet -n 50
    """
    if (input is None) != (output is None):
        raise typer.BadParameter("--input and --output go together")
    if (input is None) == (not history):
        raise typer.BadParameter("give either --history, or --input and --output")
    if output is not None and output.suffix.lower() not in (".parquet", ".pq"):
        raise typer.BadParameter(f"--output {output}: the recommendations are written as Parquet; end it with .parquet")
    if output is not None and not output.resolve().parent.is_dir():
        raise DataError(f"{output}: there is no folder {output.resolve().parent}; make it first")
    if output is not None and output.exists() and not overwrite:
        raise DataError(f"{output}: is there already; choose another file, or replace it with --overwrite")
    from macrid.cli.batch import recommend_for_all
    from macrid.runs import load, read_config

    with working("loading"):
        model = load(run, device)
    limits = {
        "include": parse_ids(include, model.items) if include else None,
        "exclude": parse_ids(exclude, model.items) if exclude else None,
    }
    if input is not None and output is not None:
        candidates = model._candidates(**limits)
        if min_rating is None and rating_col is None:
            min_rating = read_config(run).get("data", {}).get("min_rating")
        columns = {"user": column(user_col), "item": column(item_col), "rating": column(rating_col)}
        told = recommend_for_all(model, input, output, n, exclude_seen, candidates, columns, min_rating)
        if json:
            print_json(told)
        else:
            console.print(f"{output}: {told['users']:,} users × {n} items")
        return
    found = model.recommend(parse_ids(history, model.items), n, exclude_seen=exclude_seen, **limits)
    if json:
        print_json({"unknown": [str(value) for value in found.unknown], "items": [item.as_json() for item in found]})
    else:
        console.print(items_table(found, model.score_name))
