"""Lists of many users at once, exactly as the engine gives them one by one: by moves and rules, before and after."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from macrid.concepts.space import space_of
from macrid.control.choosing import GROWTH, choose, pool_size
from macrid.control.choosing import Candidates as OfOne
from macrid.control.listing import placeable
from macrid.control.many import Candidates, Histories, People, States, Wanted
from macrid.control.moves import Move
from macrid.control.rulebook import Applied, rulebook_of, vector_rows
from macrid.control.rules import Rules
from macrid.models.base import Recommender
from macrid.models.forks import new_lock
from macrid.models.macridvae import MacridVAE

DEPTH = 100  # places that accuracy looks at
LENIENT = Rules(strict=False)  # a user whose list cannot be filled is reported, and is no error
KEPT = 4  # lists without moves
BETWEEN = 64  # users between two checks whether the work is still wanted


def _go_on() -> None:
    pass


@dataclass(frozen=True, eq=False)
class Lists:
    """Of many users."""

    n: int
    positions: np.ndarray
    """(users, DEPTH or n, if that is more) items: the list in the first n places, then the best of the rest; −1 where
    there is none."""
    stopped: int = 0
    """Users for whom a move was stopped at the range of real users."""

    @property
    def listed(self) -> np.ndarray:
        """(users, n)"""
        return self.positions[:, : self.n]

    @property
    def lengths(self) -> np.ndarray:
        """(users,) items listed, n unless there are too few."""
        return (self.listed >= 0).sum(axis=1)


class Cohort:
    """Users whose lists are computed together; what does not depend on moves and rules is computed once. Thread-safe.

    Users without a known item are left out: `rows` says who is in.
    """

    def __init__(
        self,
        model: Recommender,
        histories: sp.csr_array,
        *,
        seen: sp.csr_array | None = None,
        targets: sp.csr_array | None = None,
    ) -> None:
        """histories, seen, targets: users × items. seen: not to be listed, by default the histories. targets: what
        users are known to have next; accuracy is measured on it."""
        self.model = model
        self.rows = np.flatnonzero(np.diff(histories.indptr) > 0)
        self.skipped = histories.shape[0] - len(self.rows)
        self.histories = histories[self.rows]
        self.seen = self.histories if seen is None else seen[self.rows]
        self.targets = None if targets is None else targets[self.rows]
        self._start: People | None = None
        self._kept: dict[Hashable, Lists] = {}
        self._lock = new_lock()

    def __len__(self) -> int:
        return len(self.rows)

    def start(self) -> People:
        """The users before moves."""
        with self._lock:
            if self._start is None:
                self._start = (
                    States.of(space_of(self.model), self.histories)
                    if isinstance(self.model, MacridVAE)
                    else Histories(self.model, self.histories)
                )
            return self._start

    def lists(
        self,
        n: int,
        moves: Sequence[Move] = (),
        rules: Sequence[Rules] = (),
        *,
        standing: Sequence[Rules] = (),
        bounded: bool = True,
        exclude_seen: bool = True,
        check: Callable[[], None] = _go_on,
    ) -> Lists:
        """A list of n items for every user; fewer where rules leave no more, even if they are strict.

        check: called now and then; an error that it raises ends the work.
        """
        self.model.check_enough(n, n)
        if moves:
            return self._lists(n, moves, rules, standing, bounded, exclude_seen, check)
        key = n, exclude_seen, tuple(each.key for each in standing), tuple(each.key for each in rules)
        with self._lock:
            kept = self._kept.pop(key, None)
        lists = kept or self._lists(n, (), rules, standing, bounded, exclude_seen, check)
        with self._lock:
            self._kept[key] = lists  # the most recent last
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return lists

    def _lists(
        self,
        n: int,
        moves: Sequence[Move],
        rules: Sequence[Rules],
        standing: Sequence[Rules],
        bounded: bool,
        exclude_seen: bool,
        check: Callable[[], None],
    ) -> Lists:
        applied = rulebook_of(self.model).apply((*rules, LENIENT), standing)
        people, stopped = self.start(), 0
        if moves:
            space_of(self.model)  # an error for a model that cannot be moved
            assert isinstance(people, States)
            people, beyond = people.after(moves, bounded)
            stopped = int(beyond.sum())
        hidden = self.seen if exclude_seen else sp.csr_array(self.seen.shape, dtype=self.seen.dtype)
        left = np.broadcast_to(self.model.items_left(hidden, applied.allowed), len(self))
        if applied.reorders:
            return Lists(n, _Chosen(self.model, applied, n, hidden, left, check).of(people), stopped)
        wanted = Wanted(min(max(DEPTH, n), len(self.model.items)), hidden, applied.allowed, applied.boost)
        best = people.best(wanted, check).positions
        positions = np.full((len(self), max(DEPTH, n)), -1, dtype=np.int64)
        positions[:, : best.shape[1]] = np.where(np.arange(best.shape[1]) < left[:, None], best, -1)
        return Lists(n, positions, stopped)


class _TooShallowError(Exception):
    """More candidates of a user are needed."""


class _Chosen:
    """Lists by rules that go beyond the order of scores."""

    def __init__(
        self,
        model: Recommender,
        applied: Applied,
        n: int,
        hidden: sp.csr_array,
        left: np.ndarray,
        check: Callable[[], None],
    ) -> None:
        self._model, self._applied, self._n, self._hidden, self._left = model, applied, n, hidden, left
        self._demands, self._check = applied.demands, check
        if self._demands.diversity and self._demands.rows is None:
            self._demands = replace(self._demands, rows=vector_rows(model))

    def of(self, people: People) -> np.ndarray:
        """(users, depth), as `Lists.positions`."""
        items, waiting = len(self._model.items), np.arange(len(self._left))
        depth = max(DEPTH + self._n, pool_size(self._n) * (GROWTH if self._demands.limits else 1))
        found: list[np.ndarray | None] = [None] * len(waiting)
        while len(waiting):
            depth = min(depth, items)
            some = people if len(waiting) == len(found) else people.take(waiting)
            wanted = Wanted(depth, self._hidden[waiting], self._applied.allowed, self._applied.boost)
            best = some.best(wanted, self._check)
            for at, user in enumerate(waiting.tolist()):
                if at % BETWEEN == 0:
                    self._check()
                found[user] = self._list(best, at, user)
            waiting = waiting[[found[user] is None for user in waiting]]
            depth *= GROWTH**2
        return np.stack([each for each in found if each is not None])

    def _list(self, best: Candidates, at: int, user: int) -> np.ndarray | None:
        """A user's places; None if more candidates are needed. at: where the user is among the candidates."""
        left, n = int(self._left[user]), self._n
        have = min(left, best.positions.shape[1])
        ranked = OfOne(best.positions[at, :have], best.values[at, :have])

        def deeper(depth: int) -> OfOne:
            if min(depth, left) > have:
                raise _TooShallowError
            return ranked

        hidden = self._hidden.indices[self._hidden.indptr[user] : self._hidden.indptr[user + 1]]
        pins, _ = placeable(self._model, self._applied, self._applied.allowed, hidden)
        try:
            chosen = choose(deeper, left, n, pins, self._demands)
        except _TooShallowError:
            return None
        places = np.full(max(DEPTH, n), -1, dtype=np.int64)
        places[: len(chosen)] = chosen
        rest = ranked.positions[~np.isin(ranked.positions, chosen)][: len(places) - n]
        places[n : n + len(rest)] = rest
        return places
