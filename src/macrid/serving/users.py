"""Known users: those of an events file, or the held-out users of the run; and those with events in the event store."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from macrid.data.histories import read_histories
from macrid.data.ids import Id, Ids
from macrid.data.interactions import binary_csr
from macrid.data.split import HeldOut
from macrid.errors import MacridError, RunError
from macrid.models.base import Recommender
from macrid.runs import read_heldout
from macrid.serving.events import AWAY, RETRY, EventStore, Recorded
from macrid.serving.problems import RefusedError
from macrid.serving.tastes import LEAST, MOST_COMPARED, Taste, Tastes
from macrid.settings import ServingSettings

log = logging.getLogger("macrid.serving")
MOST_LISTED = 100_000  # users of the event store
NOBODY = Recorded()


class Users:
    """Ids and histories."""

    def __init__(
        self,
        ids: Ids,
        histories: sp.csr_array,
        seen: sp.csr_array | None = None,
        targets: sp.csr_array | None = None,
    ) -> None:
        """histories, seen, targets: users × items; `seen` includes items rated too low for the history.

        targets: what users had next, if that is known.
        """
        self.ids, self.histories, self.seen = ids, histories, histories if seen is None else seen
        self.targets = targets
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, user: Id) -> int:
        """Of a user; −1 if unknown."""
        return int(self.ids.positions([user if isinstance(user, int) else self.ids.parse(user)])[0])

    def of_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the items in the history, and of all seen ones."""
        history, seen = (
            matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)
            for matrix in (self.histories, self.seen)
        )
        return history, seen

    def text(self, row: int) -> str:
        """An id as text."""
        return str(self.ids[row]) if self._texts is None else self._texts[row]

    @property
    def texts(self) -> list[str]:
        """The ids as text."""
        if self._texts is None:
            self._texts = [str(user) for user in self.ids]
        return self._texts


class FoundUser(NamedTuple):
    """A user with positions of items."""

    history: np.ndarray
    seen: np.ndarray
    unknown: Sequence[Id] = ()
    """Items of events that the model does not know."""
    warnings: Sequence[str] = ()


class Found(NamedTuple):
    """A page of users."""

    users: list[tuple[str, np.ndarray]]
    """Ids, and positions of the items in their histories."""
    total: int
    compared: int | None = None
    """How many users were sorted, or searched by taste, if not all."""
    taste: Taste | None = None
    """What the query was understood to be about, besides ids."""


class Gathered(NamedTuple):
    """Some users at once; users × items, and every item counts once, as in a request."""

    ids: list[str]
    histories: sp.csr_array
    seen: sp.csr_array
    targets: sp.csr_array | None


class KnownUsers:
    """Everybody the service knows. With an event store, its methods wait for the database: call them on a thread."""

    def __init__(
        self, model: Recommender, run: Path, settings: ServingSettings, min_rating: float | None,
        events: EventStore | None,
    ) -> None:  # fmt: skip
        self.events, self._model, self._min_rating = events, model, min_rating
        self._read = partial(users_of, model, run, settings, min_rating)
        self._file = None if settings.users is None else Path(settings.users)
        self._at = self._seen_at = _changed(self._file)
        self.users = self._read()
        self.problem: str | None = None
        """Why the file could not be read again."""
        self._hidden: tuple[Users, set[str], np.ndarray] | None = None

    def __len__(self) -> int:
        """Without those that only have events."""
        return len(self.users)

    def find(self, user: Id) -> FoundUser:
        """A user's items: those of the file, and those of the events."""
        recorded, users = self._recorded(user), self.users
        row = -1 if recorded.is_erased else users.row(user)
        if row < 0 and not recorded.items:
            if not recorded.is_current:
                raise RefusedError(503, f"the event store is not available, and user {user!r} is in no file", RETRY)
            raise RefusedError(404, f"no user {user!r}; {self._some()} (GET /v1/users)")
        history, seen = users.of_row(row) if row >= 0 else (np.empty(0, np.int64), np.empty(0, np.int64))
        if self.events is None:
            return FoundUser(history, seen)
        positions, is_liked, unknown = self._positions(recorded)
        warnings = () if recorded.is_current else (AWAY,)
        return FoundUser(_joined(history, positions[is_liked]), _joined(seen, positions), unknown, warnings)

    def _some(self) -> str:
        """A few known users, for a message."""
        ids = [str(user) for user in self.users.ids[:20]]
        if self.events is not None:
            erased = self.events.erased()
            ids = [user for user in ids if self.events.log.hash_of(user) not in erased]
        return f"known users: {', '.join(ids[:3])} …" if ids else "no users are known"

    def from_file(self, user: Id) -> np.ndarray:
        """Positions of the items that a user has apart from events."""
        row = -1 if self._recorded(user).is_erased else self.users.row(user)
        return self.users.of_row(row)[1] if row >= 0 else np.empty(0, np.int64)

    def _recorded(self, user: Id) -> Recorded:
        return NOBODY if self.events is None else self.events.read(str(user))

    def _positions(self, recorded: Recorded) -> tuple[np.ndarray, np.ndarray, list[Id]]:
        """Positions of the items of events, oldest first; whether each was rated high enough; and the unknown ids."""
        lowest, events = self._min_rating, recorded.items[::-1]
        ids = [self._model.items.parse(item) for item, _ in events]
        is_liked = np.array([lowest is None or rating is None or rating >= lowest for _, rating in events], dtype=bool)
        positions = self._model.items.positions(ids)
        is_known = positions >= 0
        unknown = [] if is_known.all() else [ids[place] for place in np.flatnonzero(~is_known)]
        return positions[is_known], is_liked[is_known], list(dict.fromkeys(unknown))

    def page(self, tastes: Tastes, query: str, limit: int, offset: int, sort: str = "") -> Found:
        """One page of users whose id starts with a query, then of those with a taste that it names, largest first.

        sort: as for `Tastes.order`. Those of the file come first, then those that only have events.
        """
        if self.events is not None:
            self.events.look()
        users = self.users
        hidden = self._hidden_rows(users)
        rows, taste = self._matching(users, hidden, tastes, query)
        if sort:
            order = tastes.order(users, sort)
            is_wanted = np.zeros(len(users), dtype=bool)
            is_wanted[np.asarray(rows, dtype=np.int64)] = True
            rows = order[is_wanted[order]].tolist()
        compared = MOST_COMPARED if (sort or taste is not None) and len(users) > MOST_COMPARED else None
        ids, others = [users.text(row) for row in rows[offset : offset + limit]], list[str]()
        if self.events is not None:
            others = self._only_events(users, query, hidden)
            start = max(0, offset - len(rows))
            ids += others[start : start + limit - len(ids)]
        page = []
        for user in ids:
            with suppress(RefusedError):  # erased since
                page.append((user, self.find(user).history))
        return Found(page, len(rows) + len(others), compared, taste)

    def _matching(
        self, users: Users, hidden: np.ndarray, tastes: Tastes, query: str
    ) -> tuple[Sequence[int], Taste | None]:
        """Rows of the file, and the taste that the query names."""
        rows: Sequence[int] = range(len(users))
        if query or hidden.any():
            rows = [row for row, text in enumerate(users.texts) if text.startswith(query) and not hidden[row]]
        is_number = query.isdecimal() and len(rows) > 0  # of a user, not of a year
        taste = tastes.understood(query) if query and not is_number else None
        if taste is None:
            return rows, None
        amounts, known = tastes.amounts(users, taste.weights), set(rows)
        order = np.argsort(-amounts, kind="stable")
        fond = order[amounts[order] >= LEAST].tolist()
        return [*rows, *(row for row in fond if row not in known and not hidden[row])], taste

    def _only_events(self, users: Users, query: str, hidden: np.ndarray) -> list[str]:
        """Those who are not in the file."""
        assert self.events is not None
        found = ((user, users.row(user)) for user in self.events.users(query, MOST_LISTED))
        return [user for user, row in found if row < 0 or hidden[row]]

    def everybody(self) -> tuple[Users, np.ndarray, list[str]]:
        """The users of the file, rows of those who may be seen, and ids of those who only have events."""
        users = self.users
        hidden = self._hidden_rows(users)
        return users, np.flatnonzero(~hidden), [] if self.events is None else self._only_events(users, "", hidden)

    def gather(self, users: Users, rows: np.ndarray, others: Sequence[str] = ()) -> Gathered:
        """Users by their rows in the file, and others by their ids; without those who were erased meanwhile."""
        targets = None if users.targets is None else users.targets[rows]
        ids = [users.text(row) for row in rows.tolist()]
        if self.events is None:
            histories, seen = (binary_csr(part.indptr, part.indices, part.shape)
                               for part in (users.histories[rows], users.seen[rows]))  # fmt: skip
            return Gathered(ids, histories, seen, targets)
        found, known = list[FoundUser](), list[int]()
        for place, user in enumerate((*ids, *others)):
            with suppress(RefusedError):
                found.append(self.find(user))
                known.append(place)
        histories = self._model.matrix([each.history for each in found])
        seen = self._model.matrix([each.seen for each in found])
        if targets is not None:  # what has been seen since is no longer to be predicted
            nobody = sp.csr_array((len(others), targets.shape[1]), dtype=targets.dtype)
            targets = sp.csr_array(sp.vstack([targets, nobody], format="csr")[known])
            targets = sp.csr_array(targets - targets.multiply(seen))
            targets.eliminate_zeros()
        return Gathered([(*ids, *others)[place] for place in known], histories, seen, targets)

    def count_among(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many of the items at these positions each user of the file has, and how many items in all: (users,) each.

        Erased users are left out.
        """
        users, is_one = self.users, np.zeros(len(self._model.items), dtype=np.int64)
        is_one[items] = 1
        before = np.append(0, np.cumsum(is_one[users.histories.indices]))[users.histories.indptr]
        is_shown = ~self._hidden_rows(users)
        return np.diff(before)[is_shown], np.diff(users.histories.indptr)[is_shown]

    def _hidden_rows(self, users: Users) -> np.ndarray:
        """(users,) of the file: those that were erased."""
        erased = set() if self.events is None else self.events.erased()
        if self.events is None or not erased:
            return np.zeros(len(users), dtype=bool)
        if self._hidden is None or self._hidden[0] is not users or self._hidden[1] is not erased:
            hash_of = self.events.log.hash_of
            self._hidden = users, erased, np.array([hash_of(text) in erased for text in users.texts], dtype=bool)
        return self._hidden[2]

    # The file

    def reread(self) -> None:
        """Read the file again; a `RunError` if that fails, and the users stay."""
        if self._file is None:
            return
        at = _changed(self._file)
        try:
            self.users = self._read()
        except (MacridError, OSError) as error:
            reason = str(error).replace(f"{self._file.parent}{os.sep}", "")
            self.problem = f"the users could not be read again, keeping the old ones: {reason}"
            raise RunError(self.problem) from error
        finally:
            self._at = self._seen_at = at
        self.problem = None

    def has_changed(self) -> bool:
        """Whether the file differs from the one that was read, and not from the one at the last look.

        A file that is still being written would have only some of its users.
        """
        at, before = _changed(self._file), self._seen_at
        self._seen_at = at
        return at is not None and at != self._at and at == before


def users_of(model: Recommender, run: Path, settings: ServingSettings, min_rating: float | None = None) -> Users:
    """Those of the events file in the settings, or the run's held-out users, as test-0, …, validation-0, …

    min_rating: in a file with ratings, lower-rated items count as seen only.
    """
    if settings.users is not None:
        columns = {"user": settings.user_col, "item": settings.item_col, "rating": settings.rating_col}
        read = read_histories(settings.users, model.items, **columns, min_rating=min_rating)
        if read.has_ratings and min_rating is None:
            log.warning("%s has ratings, but the run has no min_rating; all events count", settings.users)
        return Users(read.users, read.histories, read.seen)
    ids: list[str] = []
    groups: list[HeldOut] = []
    for name in ("test", "validation"):
        try:
            group = read_heldout(run, name)
        except RunError:  # a run may keep none or only one of the groups
            continue
        ids += [f"{name}-{row}" for row in range(group.history.shape[0])]
        groups.append(group)
    if not groups:
        return Users(Ids(ids), sp.csr_array((0, len(model.items))))
    histories, targets = (
        sp.csr_array(sp.vstack(side)) for side in zip(*((g.history, g.target) for g in groups), strict=True)
    )
    return Users(Ids(ids), histories, targets=targets)


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Distinct positions, in this order."""
    return np.array(list(dict.fromkeys([*first.tolist(), *second.tolist()])), dtype=np.int64)


def _changed(path: Path | None) -> tuple[int, int] | None:
    with suppress(OSError):
        if path is not None:
            stat = os.stat(path)
            return stat.st_mtime_ns, stat.st_size
    return None
