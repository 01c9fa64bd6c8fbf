"""macrid recommend: for one history, or for a file of many."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from macrid.cli.common import (
    column,
    console,
    error_console,
    items_table,
    parse_ids,
    print_json,
    step_progress,
    working,
)
from macrid.errors import DataError, RequestError, UnknownItemsWarning

if TYPE_CHECKING:
    from macrid.models.base import Recommender

USERS_AT_ONCE = 2000


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
    if output is not None and output.exists() and not overwrite:
        raise DataError(f"{output}: is there already; choose another file, or replace it with --overwrite")
    from macrid.runs import load

    with working("loading"):
        model = load(run, device)
    limits = {
        "include": parse_ids(include, model.items) if include else None,
        "exclude": parse_ids(exclude, model.items) if exclude else None,
    }
    if input is not None and output is not None:
        candidates = model._candidates(**limits)
        told = _many(model, input, output, n, exclude_seen, candidates, user_col, item_col)
        if json:
            print_json(told)
        else:
            console.print(f"{output}: {told['users']:,} users × {n} items")
        return
    found = model.recommend(parse_ids(history, model.items), n, exclude_seen=exclude_seen, **limits)
    if json:
        print_json({"unknown": [str(value) for value in found.unknown], "items": [item.as_json() for item in found]})
    else:
        console.print(items_table(found, "log p"))


def _many(
    model: Recommender,
    source: Path,
    output: Path,
    n: int,
    exclude_seen: bool,
    candidates: Any,
    user: str | None,
    item: str | None,
) -> dict[str, Any]:
    """Recommend for every user of a table; users of whom no item is known are left out and named."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from macrid.data.ids import first_few
    from macrid.data.interactions import Interactions, csr_from_pairs

    with working(f"reading {source}"):
        events = Interactions.read(source, user=column(user), item=column(item), min_items=1)
    error_console.print(str(events.report))
    ids = list(events.items)
    if events.items.are_integers != model.items.are_integers:  # a text file does not say which of the two it means
        ids = [model.items.parse(str(value)) for value in ids]
    positions = model.items.positions(ids)
    rows, columns = events.pairs
    known = positions[columns] >= 0
    matrix = csr_from_pairs(rows[known], positions[columns[known]], (len(events.users), len(model.items)))
    unknown = [ids[place] for place in np.flatnonzero(positions < 0)]
    if unknown:
        warnings.warn(
            f"{len(unknown):,} items of {source} are not in the catalogue and were left aside: {first_few(unknown)}",
            UnknownItemsWarning,
            stacklevel=2,
        )
    allowed = np.ones(len(model.items), dtype=bool) if candidates is None else candidates
    left = np.full(len(events.users), int(allowed.sum()))
    if exclude_seen:
        left -= (matrix @ allowed.astype(np.float64)).astype(int)
    has_known, enough = np.diff(matrix.indptr) > 0, left >= n
    for people, why in ((~has_known, "have no known item"), (has_known & ~enough, f"have fewer than {n} items left")):
        if people.any():
            named = first_few([events.users[place] for place in np.flatnonzero(people)])
            error_console.print(f"{people.sum():,} users {why} and are left out: {named}")
    users = np.flatnonzero(has_known & enough)
    if not len(users):
        raise RequestError(f"{source}: there is no user to recommend {n} items for; {model._id_hint()}")
    best, scores = [], []
    with step_progress() as progress:
        bar = progress.add_task("recommending", total=len(users), told="")
        for start in range(0, len(users), USERS_AT_ONCE):
            batch = users[start : start + USERS_AT_ONCE]
            found = model.top(matrix[batch], n, exclude_seen=exclude_seen, candidates=candidates)
            best.append(found[0])
            scores.append(found[1])
            progress.update(bar, advance=len(batch), told=f"{min(start + USERS_AT_ONCE, len(users)):,} users")
    chosen = pa.array(np.concatenate(best).ravel())
    columns_out: dict[str, Any] = {
        "user": events.users.array.take(pa.array(np.repeat(users, n))),
        "rank": pa.array(np.tile(np.arange(1, n + 1), len(users))),
        "item": model.items.array.take(chosen),
        "score": pa.array(np.concatenate(scores).ravel()),
    }
    concepts = model.concepts_of_items()
    if concepts is not None:
        columns_out["concept"] = pa.array(concepts).take(chosen)
    if model.table is not None and "title" in model.table.column_names:
        columns_out["title"] = model.table.column("title").take(chosen)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns_out), sink)
    _write(output, sink.getvalue().to_pybytes())
    return {
        "output": str(output),
        "users": len(users),
        "left_out": len(events.users) - len(users),
        "unknown": len(unknown),
    }


def _write(output: Path, content: bytes) -> None:
    from macrid.files import write_atomically

    try:
        write_atomically(output, content)
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror or error})") from error
