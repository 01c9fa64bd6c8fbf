"""Tastes of known users: how much of a history lies in each concept, and who has most of one.

For a page they are computed at once. To sort or search, they are computed for the first so many users, once, when
somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from macrid.concepts.names import label
from macrid.control.trial import attributes_of
from macrid.data.interactions import binary_csr
from macrid.errors import RequestError
from macrid.models.forks import new_lock

if TYPE_CHECKING:
    from macrid.serving.hosted import Hosted
    from macrid.serving.users import Users

MOST_COMPARED = 200_000  # users who can be sorted, or searched by taste
CHUNK = 20_000  # users at once
LEAST = 0.1  # of a history, for a taste that somebody searches for
SHORTEST = 2  # letters of a taste
FEW = 3  # values that are named
WORD = re.compile(r"[^\W_]+")
SORTS = "items, id or taste:CONCEPT, such as taste:0"


class Taste(NamedTuple):
    """What a text is about."""

    name: str
    concepts: tuple[int, ...]
    """Empty for the value of an attribute."""
    weights: np.ndarray
    """(items,) how much each item belongs to it, from 0 to 1."""

    def share(self, history: np.ndarray) -> float:
        """Of a history, by positions of its items."""
        return round(float(self.weights[history].mean()), 4) if len(history) else 0.0


class Tastes:
    """Of the users of one run. Thread-safe."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self._kept: WeakKeyDictionary[Users, dict[str, np.ndarray]] = WeakKeyDictionary()
        self._lock = new_lock()

    def shares(self, histories: sp.csr_array) -> np.ndarray | None:
        """(users, concepts) how each history divides, in which every item counts once; None without concepts."""
        space = self._hosted.space
        if space is None:
            return None
        confidence = space.confidence(_counted(histories))
        return np.asarray(confidence / np.maximum(confidence.sum(axis=1, keepdims=True), 1e-12))

    def understood(self, text: str) -> Taste | None:
        """Concepts whose names have all these words, or their beginnings; or else values of attributes."""
        wanted = _words(text)
        if not wanted or max(map(len, wanted)) < SHORTEST:
            return None
        space = self._hosted.space
        if space is not None:
            self._hosted.refresh_names()
            labels = {entry.concept: label(entry) for entry in self._hosted.names.concepts}
            found = [k for k, name in labels.items() if _has(name, wanted)]
            if found:
                weights = space.log_assignment[:, found].exp().sum(dim=1).cpu().numpy()
                return Taste(" + ".join(labels[k] for k in found), tuple(found), weights)
        columns = [each.column for each in attributes_of(self._hosted.model)]
        values = [column for column in columns if column.value is not None and _has(column.value, wanted)]
        if not values:
            return None
        weights = np.max([np.nan_to_num(column.values) for column in values], axis=0)
        names = list(dict.fromkeys(str(column.value) for column in values))
        return Taste(" or ".join([*names[:FEW], *["…"] * (len(names) > FEW)]), (), weights)

    def amounts(self, users: Users, weights: np.ndarray) -> np.ndarray:
        """The share of a taste in each history, of the first `MOST_COMPARED` users: (users,)."""

        def of_some(histories: sp.csr_array) -> np.ndarray:
            sizes = np.diff(histories.indptr)
            return (_counted(histories) @ weights.astype(np.float32)) / np.maximum(sizes, 1)

        return _in_chunks(users, of_some)

    def order(self, users: Users, sort: str) -> np.ndarray:
        """Rows of the first `MOST_COMPARED` users, sorted; computed once for each way."""
        name, _, of = sort.partition(":")
        if name == "taste":
            space = self._hosted.concepts()
            concept = space.concept_number(int(of) if of.isdecimal() and len(of) < 10 else of)
            return self._once(users, f"taste:{concept}", lambda: _largest(self._all(users)[:, concept]))
        if sort == "items":
            return self._once(users, sort, lambda: _largest(np.diff(users.histories.indptr)[:MOST_COMPARED]))
        if sort == "id":
            return self._once(users, sort, lambda: _by_id(users.texts[:MOST_COMPARED]))
        raise RequestError(f"sort is {sort[:80]!r}; use {SORTS}")

    def with_taste(self, users: Users, concept: int | str, at_least: float) -> np.ndarray:
        """Rows of those of the first `MOST_COMPARED` users with at least this share of a concept."""
        number = self._hosted.concepts().concept_number(concept)
        return np.flatnonzero(self._all(users)[:, number] >= at_least)

    def _all(self, users: Users) -> np.ndarray:
        """(users, concepts)"""

        def of_some(histories: sp.csr_array) -> np.ndarray:
            shares = self.shares(histories)
            assert shares is not None
            return shares.astype(np.float32)

        return self._once(users, "shares", lambda: _in_chunks(users, of_some))

    def _once(self, users: Users, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        with self._lock:
            kept = self._kept.setdefault(users, {}).get(name)
        if kept is None:
            kept = make()
            with self._lock:
                self._kept[users][name] = kept
        return kept


def with_items(users: Users, items: np.ndarray, at_least: int) -> np.ndarray:
    """Rows of users who have at least this many of some items."""
    is_wanted = np.zeros(users.histories.shape[1], dtype=np.float32)
    is_wanted[items] = 1
    return np.flatnonzero(_counted(users.histories) @ is_wanted >= at_least)


def _in_chunks(users: Users, of_some: Callable[[sp.csr_array], np.ndarray]) -> np.ndarray:
    """Of the first so many users; other threads get a turn between chunks."""
    count = min(len(users), MOST_COMPARED)
    parts = [of_some(users.histories[start : min(start + CHUNK, count)]) for start in range(0, max(count, 1), CHUNK)]
    return np.concatenate(parts)


def _counted(histories: sp.csr_array) -> sp.csr_array:
    """Where every item counts once."""
    return binary_csr(histories.indptr, histories.indices, histories.shape)


def _largest(values: np.ndarray) -> np.ndarray:
    """Largest first."""
    return np.argsort(-values, kind="stable")


def _by_id(texts: Sequence[str]) -> np.ndarray:
    """As people count: user-9 before user-10."""
    key = [[(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d{1,15})", text)]
           for text in texts]  # fmt: skip
    return np.array(sorted(range(len(texts)), key=key.__getitem__), dtype=np.int64)


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _has(name: str, wanted: Sequence[str]) -> bool:
    words = _words(name)
    return all(any(word.startswith(start) for word in words) for start in wanted)
