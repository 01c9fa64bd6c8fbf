"""Recommendations for many users, as a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from macrid.data.histories import UserHistories, histories_of
from macrid.data.ids import Id, first_few
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import LeftOutWarning, RequestError, UnknownItemsWarning
from macrid.models.base import Recommender

USERS_AT_ONCE = 2000


def recommend_many(
    model: Recommender,
    source: Any,
    n: int = 10,
    *,
    exclude_seen: bool = True,
    include: Iterable[Id] | None = None,
    exclude: Iterable[Id] | None = None,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    as_: FrameKind = "arrow",
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """n items for every user, one row per user and rank: user, rank, item, score, concept, title.

    source: `Interactions`; a file or frame of events; a scipy CSR of users × the model's items; {user: items}; or a
        list of histories, for users numbered from 0.
    exclude_seen, include, exclude: as for `model.recommend`.
    user, item, rating: columns of a file or frame, as for `Interactions.read`.
    min_rating: items rated lower count as seen but not as history; by default the training's, if any.
    as_: "arrow", "pandas" or "polars". progress: called with (users done, users in total).
    Users with no known item, or with fewer than n items left, are left out and named in a `LeftOutWarning`.
    """
    model.check_fitted()
    columns = {"user": user, "item": item, "rating": rating, "min_rating": min_rating}
    users = histories_of(source, model.items, model.min_rating, **columns)
    name = "the histories" if users.report is None else users.report.source
    if users.unknown:
        count = f"{len(users.unknown):,} unknown item{'s' * (len(users.unknown) > 1)}"
        message = f"{name}: ignored {count}: {first_few(users.unknown)}"
        warnings.warn(message, UnknownItemsWarning, stacklevel=2)
    candidates = model.candidates(include, exclude)
    chosen = _answerable(model, users, n, exclude_seen, candidates)
    if len(users.users) and not len(chosen):
        raise RequestError(f"{name}: no user can get {n} items; {model.id_hint()}")
    positions, scores = [np.zeros((0, n), np.int64)], [np.zeros((0, n), np.float32)]
    for start in range(0, len(chosen), USERS_AT_ONCE):
        batch = chosen[start : start + USERS_AT_ONCE]
        histories, seen = users.histories[batch], users.seen[batch]
        best = model.top(histories, n, exclude_seen=exclude_seen, seen=seen, candidates=candidates)
        positions.append(best[0])
        scores.append(best[1])
        if progress is not None:
            progress(start + len(batch), len(chosen))
    rows, values = np.concatenate(positions).ravel(), np.concatenate(scores).ravel()
    table = {
        "user": users.users.array.take(pa.array(np.repeat(chosen, n))),
        "rank": pa.array(np.tile(np.arange(1, n + 1), len(chosen))),
        **_items(model, rows, values),
    }
    return to_frame(pa.table(table), as_)


def _answerable(
    model: Recommender, users: UserHistories, n: int, exclude_seen: bool, candidates: np.ndarray | None
) -> np.ndarray:
    """Positions of the users who get recommendations; warns about the others."""
    model.check_enough(n, n)
    allowed = np.ones(len(model.items)) if candidates is None else candidates.astype(float)
    left = allowed.sum() - (users.seen @ allowed if exclude_seen else np.zeros(len(users.users)))
    unknown = (users.sizes > 0) & (np.diff(users.histories.indptr) == 0)
    too_few = ~unknown & (left < n)
    for people, why in ((unknown, "have no known item"), (too_few, f"have fewer than {n} items left")):
        if people.any():
            named = first_few([users.users[place] for place in np.flatnonzero(people)])
            message = f"{people.sum():,} users {why} and are left out: {named}"
            warnings.warn(message, LeftOutWarning, stacklevel=3)
    return np.flatnonzero(~unknown & ~too_few)


def _items(model: Recommender, positions: np.ndarray, scores: np.ndarray) -> dict[str, pa.Array]:
    rows = pa.array(positions)
    columns = {"item": model.items.array.take(rows), "score": pa.array(scores)}
    concepts = model.concepts_of_items()
    if concepts is not None:
        columns["concept"] = pa.array(concepts).take(rows)
    if model.table is not None and "title" in model.table.column_names:
        columns["title"] = model.table.column("title").take(rows)
    return columns
