"""Recommendations for many users, as a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.control.engine import Engine, Question
from macrid.control.recommend import all_rules, warn
from macrid.control.rulebook import Applied, rulebook_of
from macrid.control.rules import Rules
from macrid.data.histories import UserHistories, histories_of
from macrid.data.ids import Id, first_few
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import FallbackWarning, LeftOutWarning, RequestError, RulesWarning, UnknownItemsWarning
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
    where: str | None = None,
    rules: Rules | Mapping[str, Any] | None = None,
    strict: bool = False,
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
    exclude_seen, include, exclude, where, rules: as for `model.recommend`; shelves are for one user only.
    strict: an error if a history has no known item or a user would get fewer than n.
    user, item, rating: columns of a file or frame, as for `Interactions.read`.
    min_rating: items rated lower count as seen but not as history; by default the training's, if any.
    as_: "arrow", "pandas" or "polars". progress: called with (users done, users in total).
    Users with no known item get what is popular; if there are any, a column `fallback` marks them and a
    `FallbackWarning` names them. Users with fewer than n items left get those, and a `RulesWarning` names them.
    Users with none are left out and named in a `LeftOutWarning`.
    """
    model.check_fitted()
    columns = {"user": user, "item": item, "rating": rating, "min_rating": min_rating}
    users = histories_of(source, model.items, model.min_rating, **columns)
    name = "the histories" if users.report is None else users.report.source
    if users.unknown:
        count = f"{len(users.unknown):,} unknown item{'s' * (len(users.unknown) > 1)}"
        message = f"{name}: ignored {count}: {first_few(users.unknown)}"
        warnings.warn(message, UnknownItemsWarning, stacklevel=2)
    together = all_rules(include, exclude, where, rules, strict)
    model.check_enough(n, n)
    applied = rulebook_of(model).apply(together)
    if applied.shelves:
        raise RequestError("shelves are for one user at a time; use model.recommend")
    warn(applied.warnings, stacklevel=3)
    lists = _Lists(model, users, n, exclude_seen, together, applied)
    for done, total in lists.fill():
        if progress is not None:
            progress(done, total)
    if applied.strict:
        lists.check(name)
    lists.warn(stacklevel=3)
    return to_frame(pa.table(lists.columns()), as_)


class _Lists:
    """The lists of all users."""

    def __init__(
        self,
        model: Recommender,
        users: UserHistories,
        n: int,
        exclude_seen: bool,
        rules: Sequence[Rules],
        applied: Applied,
    ) -> None:
        self._model, self._users, self._n, self._rules, self._applied = model, users, n, tuple(rules), applied
        self._hidden = users.seen if exclude_seen else sp.csr_array(users.seen.shape, dtype=users.seen.dtype)
        self._exclude_seen, count = exclude_seen, len(users.users)
        self.is_unknown = (users.sizes > 0) & (np.diff(users.histories.indptr) == 0)
        self.is_fallback = np.diff(users.histories.indptr) == 0
        left = np.broadcast_to(model.items_left(self._hidden, applied.allowed), count)
        self._is_plain = ~self.is_fallback & (left >= n) & (not applied.reorders and applied.boost is None)
        self._positions: list[np.ndarray] = [np.zeros(0, np.int64)] * count
        self._scores: list[np.ndarray] = [np.zeros(0, np.float32)] * count

    def fill(self) -> Iterator[tuple[int, int]]:
        """Find everybody's items; yields (users done, users in total)."""
        done, total = 0, len(self._users.users)
        for people, fill in ((self._is_plain, self._fill_plain), (~self._is_plain, self._fill_by_rules)):
            places = np.flatnonzero(people)
            for start in range(0, len(places), USERS_AT_ONCE):
                batch = places[start : start + USERS_AT_ONCE]
                fill(batch)
                done += len(batch)
                yield done, total

    def _fill_plain(self, batch: np.ndarray) -> None:
        """Without a question for each."""
        found = self._model.top(
            self._users.histories[batch],
            self._n,
            exclude_seen=self._exclude_seen,
            seen=self._users.seen[batch],
            candidates=self._applied.allowed,
        )
        for place, positions, scores in zip(batch.tolist(), *found, strict=True):
            self._positions[place], self._scores[place] = positions, scores

    def _fill_by_rules(self, batch: np.ndarray) -> None:
        lenient = (*self._rules, Rules(strict=False))  # what is too few is reported for all users together
        questions = [
            Question(_row(self._users.histories, place), self._n, _row(self._hidden, place), rules=lenient)
            for place in batch.tolist()
        ]
        for place, answer in zip(batch.tolist(), Engine(self._model).answer(questions), strict=True):
            if isinstance(answer, Exception):
                raise answer
            self._positions[place], self._scores[place] = answer.ranking.positions, answer.ranking.scores

    @cached_property
    def _counts(self) -> np.ndarray:
        """(users,) items found."""
        return np.array([len(positions) for positions in self._positions], dtype=np.int64)

    def check(self, source: str) -> None:
        """Where rules are strict, an error if a user is unknown or has too few items."""
        for people, what in (
            (self.is_unknown, "no known item"),
            (self._counts < self._n, f"fewer than {self._n} items"),
        ):
            if people.any():
                raise RequestError(f"{source}: {self._named(people)} {what}; {self._model.id_hint()}")

    def warn(self, stacklevel: int) -> None:
        empty, n = self._counts == 0, self._n
        kinds = [
            (self.is_unknown & ~empty, "no known item in the history: popular items instead", FallbackWarning),
            (~empty & (self._counts < n), f"fewer than {n} items", RulesWarning),
            (empty, "no items left: left out", LeftOutWarning),
        ]
        for people, what, kind in kinds:
            if people.any():
                warnings.warn(f"{self._named(people)} {what}", kind, stacklevel=stacklevel)

    def _named(self, people: np.ndarray) -> str:
        """Such as: 3 users ('a', 'b', 'c') have."""
        ids = [self._users.users[place] for place in np.flatnonzero(people)]
        return f"{len(ids):,} user{'s' * (len(ids) > 1)} ({first_few(ids)}) {'have' if len(ids) > 1 else 'has'}"

    def columns(self) -> dict[str, Any]:
        counts = self._counts
        rows = np.repeat(np.arange(len(counts)), counts)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        positions = np.concatenate([*self._positions, np.zeros(0, np.int64)])
        scores = np.concatenate([*self._scores, np.zeros(0, np.float32)])
        columns = {
            "user": self._users.users.array.take(pa.array(rows)),
            "rank": pa.array(np.arange(1, len(rows) + 1) - starts),
            **_items(self._model, positions, scores),
        }
        return columns | ({"fallback": pa.array(self.is_fallback[rows])} if self.is_unknown.any() else {})


def _row(matrix: sp.csr_array, row: int) -> np.ndarray:
    return matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)


def _items(model: Recommender, positions: np.ndarray, scores: np.ndarray) -> dict[str, pa.Array]:
    rows = pa.array(positions)
    columns = {"item": model.items.array.take(rows), "score": pa.array(scores)}
    concepts = model.concepts_of_items()
    if concepts is not None:
        columns["concept"] = pa.array(concepts).take(rows)
    if model.table is not None and "title" in model.table.column_names:
        columns["title"] = model.table.column("title").take(rows)
    return columns
