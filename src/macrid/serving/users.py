"""Users that can be asked for by an id: the held-out users of a run, or those of a file of events."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from macrid.data.ids import Id, Ids, places_in
from macrid.data.interactions import Interactions
from macrid.data.tables import RATING_NAMES, open_table
from macrid.errors import RunError
from macrid.models.base import Recommender
from macrid.runs import read_heldout
from macrid.serving.problems import RefusedError

log = logging.getLogger("macrid.serving")


class Users:
    """Ids and histories. There is no user table in a model: these are histories that happen to be at hand."""

    def __init__(self, ids: Ids, histories: sp.csr_array) -> None:
        """histories: users × items of the model."""
        self.ids, self.histories = ids, histories
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def history(self, user: Id) -> np.ndarray:
        """Positions of the items."""
        (row,) = self.ids.positions([user if isinstance(user, int) else self.ids.parse(user)])
        if row < 0:
            known = f"there are {', '.join(map(str, self.ids[:3]))} …" if len(self) else "there are none"
            raise RefusedError(404, f"no user {user!r}; {known} (GET /v1/users)")
        return self.histories.indices[self.histories.indptr[row] : self.histories.indptr[row + 1]].astype(np.int64)

    def page(self, query: str, limit: int, offset: int) -> tuple[list[tuple[str, int]], int]:
        """Ids and numbers of items of those whose id begins with a query, and how many there are."""
        if self._texts is None:
            self._texts = [str(user) for user in self.ids]
        rows = [row for row, text in enumerate(self._texts) if text.startswith(query)] if query else range(len(self))
        counts = np.diff(self.histories.indptr)
        return [(self._texts[row], int(counts[row])) for row in rows[offset : offset + limit]], len(rows)


def users_of(model: Recommender, run: Path, events: str | None = None, min_rating: float | None = None) -> Users:
    """Those of a file of events, or those that the run keeps, as test-0, test-1, …, validation-0, …

    min_rating: of the events that count, where the file has ratings.
    """
    if events is not None:
        is_rated = open_table(events).find(None, RATING_NAMES, "rating", required=False) is not None
        if is_rated and min_rating is None:
            log.warning("%s has ratings, but the run does not say which of them count; all do", events)
        data = Interactions.read(events, min_items=1, min_rating=min_rating if is_rated else None)
        places = places_in(model.items, data.items)
        known = np.flatnonzero(places >= 0)
        matrix = sp.csr_array(data.matrix)[:, known].tocoo()
        shape = (len(data.users), len(model.items))
        return Users(data.users, sp.csr_array((matrix.data, (matrix.row, places[known][matrix.col])), shape=shape))
    ids: list[str] = []
    found: list[sp.csr_array] = []
    for group in ("test", "validation"):
        try:
            histories = read_heldout(run, group).history
        except RunError:  # a run may keep none of them, or one of the groups only
            continue
        ids += [f"{group}-{row}" for row in range(histories.shape[0])]
        found.append(histories)
    return Users(Ids(ids), sp.csr_array(sp.vstack(found)) if found else sp.csr_array((0, len(model.items))))
