"""macrid recommend: for one history, or for every user in a file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from macrid.cli.common import (
    console,
    error_console,
    items_table,
    number_or_name,
    parse_ids,
    print_json,
    step_progress,
    table,
    working,
)
from macrid.cli.parts import recommend_to_folder
from macrid.cli.rules import rules_from, show_rules, takes_rules
from macrid.errors import DataError
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.control.explain import Reason
    from macrid.models.base import Recommender

for_many = partial(typer.Option, rich_help_panel="Many users")


@takes_rules
def recommend(
    run: Path = typer.Argument(help="A run."),
    history: list[str] = typer.Option([], help="Item ids, comma-separated; repeatable."),
    n: int = typer.Option(10, "-n", "--number", help="How many items."),
    exclude_seen: bool = typer.Option(True, "--exclude-seen/--keep-seen", help="Whether to leave out the history."),
    input: Path | None = for_many(None, help="A table of users and items (Parquet or CSV), one event per row."),
    output: Path | None = for_many(
        None, help="The Parquet file to write; or a folder for parts, where --input may be one, too, or a pattern."
    ),
    user_col: str | None = for_many(None, help="User column of --input; guessed by default."),
    item_col: str | None = for_many(None, help="Item column of --input; guessed by default."),
    rating_col: str | None = for_many(None, help="Rating column of --input; guessed by default."),
    min_rating: float | None = for_many(
        None, help="Count only items rated this high as history; by default the training's threshold, if any."
    ),
    encoding: str | None = for_many(None, help="Encoding of --input if it is text; by default decided by its content."),
    overwrite: bool = for_many(False, "--overwrite", help="Replace --output if it exists."),
    ray: str | None = for_many(
        None, metavar="ADDRESS", help="Spread the parts over a Ray cluster: local, auto, ray://HOST:10001 or HOST:6379."
    ),
    parts: int | None = for_many(None, min=1, max=4096, help="Parts of a folder. Default: one per 200,000 events."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    explain: bool = typer.Option(False, "--explain", help="Show why each item has its place, in parts that add up."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
    **options: Any,
) -> None:
    """Recommend for one history, or for every user in a file.

    Example: macrid recommend runs/ml-1m --history 260,1196,1210 -n 10

    Example: macrid recommend runs/ml-1m --history 260,1196,1210 --explain

    Example: macrid recommend runs/ml-1m --history 260,1196 --where "year > 1990" --diversity 0.3 --at-most genres=3

    Example: macrid recommend runs/ml-1m --input users.parquet --output recs.parquet -n 50

    Example: macrid recommend runs/ml-1m --input events/ --output recs --ray auto -n 50
    """
    if (input is None) != (output is None):
        raise typer.BadParameter("--input and --output go together")
    if (input is None) == (not history):
        raise typer.BadParameter("give --history, or --input and --output")
    if explain and input is not None:
        raise typer.BadParameter("--explain needs --history")
    in_parts = output is not None and (not output.suffix or output.is_dir())
    if (ray is not None or parts is not None) and not in_parts:
        raise typer.BadParameter("--ray and --parts need --input, and a folder as --output (a name without .parquet)")
    if output is not None and not in_parts and output.suffix.lower() not in (".parquet", ".pq"):
        raise typer.BadParameter(
            f"--output {output}: recommendations are written as Parquet; use a name ending in .parquet"
        )
    if output is not None and not output.resolve().parent.is_dir():
        raise DataError(f"{output}: no folder {output.resolve().parent}; create it first")
    if output is not None and not in_parts and output.exists() and not overwrite:
        raise DataError(f"{output}: already exists; choose another file or add --overwrite")
    if ray is not None:
        from macrid.cluster.connecting import check

        check(ray)
    from macrid.runs import load

    with working("loading"):
        model = load(run, device)
    rules = rules_from(options, model.items)
    if input is not None and output is not None:
        if min_rating is None and rating_col is None:
            min_rating = model.min_rating
        columns = {
            "user": number_or_name(user_col),
            "item": number_or_name(item_col),
            "rating": number_or_name(rating_col),
        }
        how = {**columns, "min_rating": min_rating, "encoding": encoding}
        rules |= {"exclude_seen": exclude_seen}
        if in_parts:
            places = {"ray": ray, "device": device, "parts": parts, "overwrite": overwrite}
            counts = recommend_to_folder(model, run, input, output, n, how, rules, places)
        else:
            counts = _recommend_for_all(model, input, output, n, how, rules)
        if json:
            print_json(counts)
        else:
            rows = f"{n} items" if counts["rows"] == n * counts["users"] else f"at most {n} items"
            console.print(f"{output}: {counts['users']:,} users × {rows}")
        return
    ids = parse_ids(history, model.items)
    ranking = model.recommend(ids, n, exclude_seen=exclude_seen, **rules)
    reasons = _reasons(model, ids, n, {**rules, "exclude_seen": exclude_seen}) if explain else None
    if json:
        items = {} if reasons is None else {"items": [reason.as_json() for reason in reasons]}
        print_json(ranking.as_json() | items)
        return
    if reasons is not None:
        console.print(_explained(reasons))
        console.print("from: the place for everybody; moved by: places up (+) or down (−)", style="dim")
    else:
        console.print(items_table(ranking, model.score_name))
    show_rules(ranking, model.score_name)


def _recommend_for_all(
    model: Recommender, source: Path, output: Path, n: int, columns: dict[str, Any], rules: dict[str, Any]
) -> dict[str, Any]:
    """Write n items for every user, or as many as are left.

    columns: user, item, rating, min_rating and encoding. rules: those of `model.recommend`, and exclude_seen.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from macrid.control.batch import recommend_many
    from macrid.data.histories import read_histories
    from macrid.files import write_atomically, writing

    with working(f"reading {source}"):
        users = read_histories(source, model.items, **columns)
    error_console.print(str(users.report), soft_wrap=True)
    with step_progress() as progress:
        bar = progress.add_task("recommending", total=len(users.users), status="")

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, status=f"{done:,} users")

        ranked = recommend_many(model, users, n, **rules, progress=show)
    sink = pa.BufferOutputStream()
    pq.write_table(ranked, sink)
    with writing(output, DataError):
        write_atomically(output, sink.getvalue().to_pybytes())
    answered = len(ranked["user"].unique())
    counts = {"users": answered, "left_out": len(users.users) - answered, "unknown": len(users.unknown)}
    return {"output": str(output), **counts, "rows": ranked.num_rows}


def _reasons(model: Recommender, history: list[Any], n: int, rules: dict[str, Any]) -> list[Reason]:
    from macrid.control.explain import explain

    with warnings.catch_warnings():  # everything has been reported already
        warnings.simplefilter("ignore")
        return explain(model, history, n=n, **rules)


def _explained(reasons: Sequence[Reason]) -> Table:
    """Each item with its concept's share of the history, its place for everybody, and what moved it from there."""
    room = max(24, console.width - 56)
    rows = []
    for rank, reason in enumerate(reasons, start=1):
        concept = shortened(reason.concept_name or f"concept {reason.item.concept}", 24)
        share = None if reason.share is None else f"{reason.share:.0%} {concept}"
        moved = [str(part) for part in reason.account.merged if part.places]
        moved += [] if reason.item.new is None else [f"new: {reason.item.new}"]
        moved_by = "\n".join(shortened(line, room) for line in moved) or "–"
        rows.append((rank, reason.account.stages[0].rank, reason.item.title or reason.item.id, share, moved_by))
    return table(("#", "from", "item", "because you have", "moved by"), rows, numbers=("#", "from"))
