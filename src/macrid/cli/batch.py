"""Recommending for all users of a table: Parquet or CSV in, Parquet out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from macrid.cli.common import error_console, step_progress, working
from macrid.data.ids import Ids, first_few
from macrid.errors import DataError, RequestError, UnknownItemsWarning

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import scipy.sparse as sp

    from macrid.data.interactions import Interactions
    from macrid.models.base import Recommender

USERS_AT_ONCE = 2000


class Users(NamedTuple):
    """Users of a table over the items of a model."""

    ids: Ids
    seen: sp.csr_array
    history: sp.csr_array  # what was seen, less what was rated low
    unknown: list[Any]  # items that the model does not know


def recommend_for_all(
    model: Recommender,
    source: Path,
    output: Path,
    n: int,
    exclude_seen: bool,
    candidates: np.ndarray | None,
    columns: dict[str, Any],
    min_rating: float | None,
) -> dict[str, Any]:
    """Write n items for every user; users of whom no item is known, or with fewer items left, are left out and named.

    min_rating: items rated lower are no part of a history, but seen all the same.
    """
    users = _read(model, source, columns, min_rating)
    if users.unknown:
        warnings.warn(
            f"{len(users.unknown):,} items of {source} are not in the catalogue and were left aside:"
            f" {first_few(users.unknown)}",
            UnknownItemsWarning,
            stacklevel=2,
        )
    chosen = _answerable(users, n, exclude_seen, candidates)
    if not len(chosen):
        raise RequestError(f"{source}: there is no user to recommend {n} items for; {model.id_hint()}")
    _write(output, _recommend(model, users, chosen, n, exclude_seen, candidates))
    left_out = len(users.ids) - len(chosen)
    return {"output": str(output), "users": len(chosen), "left_out": left_out, "unknown": len(users.unknown)}


def _read(model: Recommender, source: Path, columns: dict[str, Any], min_rating: float | None) -> Users:
    import numpy as np

    from macrid.data.ids import places_in
    from macrid.data.interactions import Interactions

    with working(f"reading {source}"):
        events = Interactions.read(source, **columns, min_items=1)
        liked = _liked(source, columns, min_rating)
    error_console.print(str((liked or events).report), soft_wrap=True)
    positions = places_in(model.items, events.items)
    seen = _over_items(events, np.arange(len(events.users)), positions, (len(events.users), len(model.items)))
    history = seen
    if liked is not None:
        own = places_in(model.items, liked.items)
        history = _over_items(liked, places_in(events.users, liked.users), own, seen.shape)
    unknown = [events.items[place] for place in np.flatnonzero(positions < 0)]
    return Users(events.users, seen, history, unknown)


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


def _over_items(events: Interactions, users: np.ndarray, items: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """The interactions as a matrix of this shape; `users` and `items` say where each is in it, −1 if nowhere."""
    from macrid.data.interactions import csr_from_pairs

    rows, columns = events.pairs
    known = items[columns] >= 0
    return csr_from_pairs(users[rows[known]], items[columns[known]], shape)


def _answerable(users: Users, n: int, exclude_seen: bool, candidates: np.ndarray | None) -> np.ndarray:
    """Positions of the users who get recommendations; the others are named."""
    import numpy as np

    allowed = np.ones(users.seen.shape[1]) if candidates is None else candidates.astype(float)
    left = allowed.sum() - (users.seen @ allowed if exclude_seen else np.zeros(len(users.ids)))
    has_known, enough = np.diff(users.history.indptr) > 0, left >= n
    for people, why in ((~has_known, "have no known item"), (has_known & ~enough, f"have fewer than {n} items left")):
        if people.any():
            named = first_few([users.ids[place] for place in np.flatnonzero(people)])
            error_console.print(f"{people.sum():,} users {why} and are left out: {named}")
    return np.flatnonzero(has_known & enough)


def _recommend(
    model: Recommender, users: Users, chosen: np.ndarray, n: int, exclude_seen: bool, candidates: np.ndarray | None
) -> pa.Table:
    """One row per user and rank: user, rank, item, score, concept, title."""
    import numpy as np
    import pyarrow as pa

    positions, scores = [], []
    with step_progress() as progress:
        bar = progress.add_task("recommending", total=len(chosen), told="")
        for start in range(0, len(chosen), USERS_AT_ONCE):
            batch = chosen[start : start + USERS_AT_ONCE]
            found = model.top(
                users.history[batch], n, exclude_seen=exclude_seen, seen=users.seen[batch], candidates=candidates
            )
            positions.append(found[0])
            scores.append(found[1])
            progress.update(bar, advance=len(batch), told=f"{start + len(batch):,} users")
    items = pa.array(np.concatenate(positions).ravel())
    table: dict[str, Any] = {
        "user": users.ids.array.take(pa.array(np.repeat(chosen, n))),
        "rank": pa.array(np.tile(np.arange(1, n + 1), len(chosen))),
        "item": model.items.array.take(items),
        "score": pa.array(np.concatenate(scores).ravel()),
    }
    concepts = model.concepts_of_items()
    if concepts is not None:
        table["concept"] = pa.array(concepts).take(items)
    if model.table is not None and "title" in model.table.column_names:
        table["title"] = model.table.column("title").take(items)
    return pa.table(table)


def _write(output: Path, table: pa.Table) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from macrid.files import write_atomically

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    try:
        write_atomically(output, sink.getvalue().to_pybytes())
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror or error})") from error
