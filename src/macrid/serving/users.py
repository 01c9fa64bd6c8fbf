"""Known users: those of an events file, or the held-out users of the run."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from macrid.data.histories import read_histories
from macrid.data.ids import Id, Ids
from macrid.errors import RunError
from macrid.models.base import Recommender
from macrid.runs import read_heldout
from macrid.serving.problems import RefusedError
from macrid.settings import ServingSettings

log = logging.getLogger("macrid.serving")


class Users:
    """Ids and histories."""

    def __init__(self, ids: Ids, histories: sp.csr_array, seen: sp.csr_array | None = None) -> None:
        """histories, seen: users × items; `seen` includes items rated too low for the history."""
        self.ids, self.histories, self._seen = ids, histories, histories if seen is None else seen
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, user: Id) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the items in the history, and of all seen ones."""
        (row,) = self.ids.positions([user if isinstance(user, int) else self.ids.parse(user)])
        if row < 0:
            known = f"known users: {', '.join(map(str, self.ids[:3]))} …" if len(self) else "no users are known"
            raise RefusedError(404, f"no user {user!r}; {known} (GET /v1/users)")
        history, seen = (matrix[[row]].indices.astype(np.int64) for matrix in (self.histories, self._seen))
        return history, seen

    def page(self, query: str, limit: int, offset: int) -> tuple[list[tuple[str, int]], int]:
        """Ids and history lengths of one page of users whose id starts with a query, and their total number."""
        if self._texts is None:
            self._texts = [str(user) for user in self.ids]
        rows = [row for row, text in enumerate(self._texts) if text.startswith(query)] if query else range(len(self))
        counts = np.diff(self.histories.indptr)
        return [(self._texts[row], int(counts[row])) for row in rows[offset : offset + limit]], len(rows)


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
    groups: list[sp.csr_array] = []
    for group in ("test", "validation"):
        try:
            histories = read_heldout(run, group).history
        except RunError:  # a run may keep none or only one of the groups
            continue
        ids += [f"{group}-{row}" for row in range(histories.shape[0])]
        groups.append(histories)
    return Users(Ids(ids), sp.csr_array(sp.vstack(groups)) if groups else sp.csr_array((0, len(model.items))))
