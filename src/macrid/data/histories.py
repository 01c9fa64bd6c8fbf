"""Users and their histories over the items of a model: from events, from a matrix, or as lists of ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from macrid.data.ids import Id, Ids, places_in
from macrid.data.interactions import Interactions, ReadReport, binary_csr, csr_from_pairs
from macrid.data.reading import clean_events, read_events
from macrid.errors import DataError, RequestError


@dataclass(frozen=True)
class UserHistories:
    """Many users; matrices are users × items of the model."""

    users: Ids
    histories: sp.csr_array
    seen: sp.csr_array
    """The histories, and what was rated too low for them."""
    sizes: np.ndarray
    """(users,) how many items each came with, known or not."""
    unknown: tuple[Id, ...] = ()
    """Items that the model does not know."""
    report: ReadReport | None = None
    has_ratings: bool = False


def histories_of(source: Any, items: Ids, threshold: float | None = None, **columns: Any) -> UserHistories:
    """Of `Interactions`, a matrix, lists of ids, or a file or frame of events, which `columns` go with.

    threshold: the min_rating if neither that nor a column of ratings is named.
    """
    if isinstance(source, UserHistories):
        return source
    are_lists = isinstance(source, Mapping | list | tuple)
    if not (are_lists or isinstance(source, Interactions) or sp.issparse(source)):
        if columns.get("min_rating") is None and columns.get("rating") is None:
            columns["min_rating"] = threshold
        return read_histories(source, items, **columns)
    if named := [name for name, value in columns.items() if value is not None]:
        raise RequestError(f"{', '.join(named)}: for a file or frame of events only, not for {type(source).__name__}")
    read = from_lists if are_lists else from_matrix if sp.issparse(source) else from_interactions
    return read(source, items)


def read_histories(
    source: Any,
    items: Ids,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    encoding: str | None = None,
) -> UserHistories:
    """Of all users of a file or frame of events, read once.

    items: those of the model. user, item, rating: columns, as for `Interactions.read`.
    min_rating: items rated lower are seen, but no part of a history. Without ratings it means nothing.
    encoding: of a text file; by default decided by its content.
    """
    rated = min_rating is not None
    columns: dict[str, Any] = {"user": user, "item": item, "rating": rating}
    events = read_events(source, **columns, rated=rated, ratings_required=False, encoding=encoding)
    seen = clean_events(*events[:5], min_items=1, items=None)
    found = replace(from_interactions(seen, items), has_ratings=events.has_ratings)
    if events.ratings is None or min_rating is None:
        return found
    liked = clean_events(*events.at_least(min_rating)[:5], min_items=1, items=None)
    rows, positions = places_in(seen.users, liked.users), places_in(items, liked.items)
    return replace(found, histories=_over_items(liked, rows, positions, found.seen.shape), report=liked.report)


def from_interactions(data: Interactions, items: Ids) -> UserHistories:
    """Of all users of these interactions."""
    positions = places_in(items, data.items)
    matrix = _over_items(data, np.arange(len(data.users)), positions, (len(data.users), len(items)))
    unknown = tuple(data.items[place] for place in np.flatnonzero(positions < 0))
    return UserHistories(data.users, matrix, matrix, np.diff(data.matrix.indptr), unknown, data.report)


def from_matrix(source: Any, items: Ids) -> UserHistories:
    """Of the rows of a scipy matrix, whose columns are the model's items."""
    if source.shape[1] != len(items):
        raise DataError(f"the matrix has {source.shape[1]:,} items, the model has {len(items):,}")
    matrix = sp.csr_array(source, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    histories = binary_csr(matrix.indptr, matrix.indices, matrix.shape)
    return UserHistories(Ids.range(matrix.shape[0]), histories, histories, np.diff(matrix.indptr))


def from_lists(histories: Mapping[Id, Iterable[Id]] | Iterable[Iterable[Id]], items: Ids) -> UserHistories:
    """Of lists of item ids, by user; without names, users are numbered from 0."""
    by_user = histories if isinstance(histories, Mapping) else dict(enumerate(histories))
    users, lists = Ids(by_user), [_distinct(history) for history in by_user.values()]
    sizes = np.array([len(history) for history in lists], dtype=np.int64)
    ids = [item for history in lists for item in history]
    positions, rows = items.positions(ids), np.repeat(np.arange(len(lists)), sizes)
    known = positions >= 0
    matrix = csr_from_pairs(rows[known], positions[known], (len(lists), len(items)))
    unknown = dict.fromkeys(item for item, position in zip(ids, positions, strict=True) if position < 0)
    return UserHistories(users, matrix, matrix, sizes, tuple(unknown))


def _distinct(history: Iterable[Id]) -> list[Id]:
    if isinstance(history, str | int):
        raise RequestError(f"a history is a list of item ids, not {history!r}")
    try:
        return list(dict.fromkeys(history))
    except TypeError:
        raise RequestError("a history is a list of item ids, strings or integers") from None


def _over_items(data: Interactions, users: np.ndarray, items: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """Interactions as a matrix of this shape; `users` and `items` say where each is in it, −1 if nowhere."""
    rows, columns = data.pairs
    known = items[columns] >= 0
    weights = None if data.weights is None else data.weights[known]
    return csr_from_pairs(users[rows[known]], items[columns[known]], shape, weights)
