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
    import numpy as np
    import scipy.sparse as sp

    from macrid.data.interactions import Interactions
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
        told = _many(model, input, output, n, exclude_seen, candidates, columns, min_rating)
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
    columns: dict[str, Any],
    min_rating: float | None,
) -> dict[str, Any]:
    """Recommend for every user of a table; users of whom no item is known are left out and named.

    min_rating: items rated lower are no part of a history, but seen all the same.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from macrid.data.ids import first_few
    from macrid.data.interactions import Interactions

    with working(f"reading {source}"):
        events = Interactions.read(source, **columns, min_items=1)
        liked = _liked(source, columns, min_rating)
    error_console.print(str(liked.report if liked else events.report))
    ids = list(events.items)
    if events.items.are_integers != model.items.are_integers:  # a text file does not say which of the two it means
        ids = [model.items.parse(str(value)) for value in ids]
    positions = model.items.positions(ids)
    seen = _on_catalogue(events, positions, len(model.items))
    matrix = seen
    if liked is not None:  # the same users and items, less what was rated low
        matrix = _on_catalogue(_renumbered(liked, events), positions, len(model.items))
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
        left -= (seen @ allowed.astype(np.float64)).astype(int)
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
            found = model.top(matrix[batch], n, exclude_seen=exclude_seen, seen=seen[batch], candidates=candidates)
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


def _liked(source: Path, columns: dict[str, Any], min_rating: float | None) -> Interactions | None:
    """Only what was rated high enough; None if there is no threshold, or no ratings to hold against it."""
    from macrid.data.interactions import Interactions
    from macrid.data.tables import RATING_NAMES, open_table

    if min_rating is None:
        return None
    table = open_table(source, header=not any(isinstance(name, int) for name in columns.values()))
    if table.find(columns["rating"], RATING_NAMES, "rating", required=False) is None:
        return None
    return Interactions.read(source, **columns, min_rating=min_rating, min_items=1)


def _renumbered(part: Interactions, whole: Interactions) -> Interactions:
    """The same interactions with the positions that users and items have in `whole`."""
    from macrid.data.interactions import Interactions

    rows, columns = part.pairs
    users, items = whole.users.positions(part.users), whole.items.positions(part.items)
    return Interactions.from_pairs(users[rows], items[columns], whole.users, whole.items)


def _on_catalogue(events: Interactions, positions: np.ndarray, items: int) -> sp.csr_array:
    """Users × the model's items; `positions` says where each item of the events is, −1 if nowhere."""
    from macrid.data.interactions import csr_from_pairs

    rows, columns = events.pairs
    known = positions[columns] >= 0
    return csr_from_pairs(rows[known], positions[columns[known]], (len(events.users), items))


def _write(output: Path, content: bytes) -> None:
    from macrid.files import write_atomically

    try:
        write_atomically(output, content)
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror or error})") from error
