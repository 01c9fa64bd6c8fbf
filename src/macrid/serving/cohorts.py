"""Cohorts of known users: who is in one, and what moves and rules would do to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.control.cohort import Cohort
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.control.trial import OfUser, try_on
from macrid.data.ids import Id, first_few
from macrid.errors import RequestError
from macrid.models.forks import new_lock
from macrid.serving.schemas.cohort import MOST_USERS, CohortRequest
from macrid.serving.tastes import MOST_COMPARED, with_items
from macrid.serving.users import Gathered, Users

if TYPE_CHECKING:
    from macrid.serving.hosted import Hosted

MOST_PAIRS = 40_000_000  # users × items: a few seconds on two cores
FEWEST_USERS = 20  # however many items there are
KEPT = 3  # cohorts


@dataclass(frozen=True, eq=False)
class Chosen:
    """Who is meant."""

    users: Users
    rows: np.ndarray
    """Of the file."""
    others: Sequence[str] = ()
    """Who only have events."""
    unknown: Sequence[Id] = ()
    compared: int | None = None
    """How many users were searched, if not all."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.others)

    def drawn(self, most: int) -> Chosen:
        """At most so many, evenly."""
        if len(self) <= most:
            return self
        places = np.linspace(0, len(self) - 1, most).round().astype(np.int64)
        rows, others = places[places < len(self.rows)], places[places >= len(self.rows)] - len(self.rows)
        return replace(self, rows=self.rows[rows], others=[self.others[place] for place in others])


class Cohorts:
    """Of one run; the last few are kept with everything that moves and rules do not change. Thread-safe."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self._kept: dict[Hashable, Cohort] = {}
        self._lock = new_lock()

    def choose(self, request: CohortRequest) -> Chosen:
        """Whoever a request means. Waits for the event store, if there is one."""
        if request.users is not None:
            return self._named(request.users)
        tastes = self._hosted.tastes
        users, rows, others = self._hosted.users.everybody()
        if request.taste is None and request.items is None:
            return Chosen(users, rows, others)
        if request.taste is not None:
            having = tastes.with_taste(users, request.taste.concept, request.taste.at_least)
            rows = np.intersect1d(rows, having, assume_unique=True)
        if request.items is not None:
            positions = self._hosted.all_known(request.items, "items")
            rows = np.intersect1d(rows, with_items(users, positions, request.at_least), assume_unique=True)
        is_cut = request.taste is not None and len(users) > MOST_COMPARED
        return Chosen(users, rows, compared=MOST_COMPARED if is_cut else None)

    def _named(self, ids: Sequence[Id]) -> Chosen:
        distinct = list(dict.fromkeys(map(str, ids)))
        users, shown, others = self._hosted.users.everybody()
        rows = users.ids.positions(users.ids.parse(text) for text in distinct)
        is_shown = np.zeros(len(users) + 1, dtype=bool)  # the last for unknown ones
        is_shown[shown] = True
        strange = [text for text, row in zip(distinct, rows, strict=True) if not is_shown[row]]
        only_events = set(others).intersection(strange)
        unknown = [text for text in strange if text not in only_events]
        return Chosen(users, rows[is_shown[rows]], [text for text in strange if text in only_events], unknown)

    def gather(self, chosen: Chosen) -> Gathered:
        """Their histories. Waits for the event store, if there is one."""
        return self._hosted.users.gather(chosen.users, chosen.rows, chosen.others)

    def most(self) -> int:
        """Users whose lists are computed for one request."""
        return max(FEWEST_USERS, min(MOST_USERS, MOST_PAIRS // max(1, len(self._hosted.model.items))))

    def of(self, people: Gathered) -> Cohort:
        """The same for the same users, as long as nothing is new about them."""
        digest = blake2b(repr(people.ids).encode("utf-8", "surrogatepass"))
        for part in (people.histories, people.seen):
            digest.update(part.indptr.tobytes())
            digest.update(part.indices.tobytes())
        key = digest.digest()
        with self._lock:
            cohort = self._kept.pop(key, None)
            if cohort is None:
                cohort = Cohort(self._hosted.model, people.histories, seen=people.seen, targets=people.targets)
            self._kept[key] = cohort  # the most recent last
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return cohort

    def tried(
        self,
        people: Gathered,
        request: CohortRequest,
        moves: Sequence[Move],
        rules: tuple[tuple[Rules, ...], tuple[Rules, ...]],
        check: Callable[[], None],
    ) -> dict[str, Any]:
        """Most of the schema `CohortResult`."""
        cohort, ids = self.of(people), people.ids
        if not len(cohort):
            raise RequestError("none of these users has a known item; choose others")
        options: dict[str, Any] = {"bounded": request.bounded, "exclude_seen": request.exclude_seen, "check": check}
        trial = try_on(cohort, request.n, moves, rules[0], standing=rules[1], **options)
        content = trial.as_json()
        for name in ("losses", "gains", "changes", "short"):
            content[name] = [_named(each, ids, people) for each in getattr(trial, name)]
        if request.per_user:
            content["per_user"] = [_named(each, ids, people) for each in trial.per_user]
        return content


def _named(each: OfUser, ids: Sequence[str], people: Gathered) -> dict[str, Any]:
    """As the schema `CohortUser`."""
    items = int(people.histories.indptr[each.row + 1] - people.histories.indptr[each.row])
    return {
        "id": ids[each.row], "items": items, "new": each.new, "length": each.length, "before": each.before,
        "after": each.after,
    }  # fmt: skip


def warnings_of(chosen: Chosen, computed: int) -> list[str]:
    """What may surprise about who was chosen."""
    warnings = []
    if chosen.unknown:
        some = f"{len(chosen.unknown):,} unknown user{'s' * (len(chosen.unknown) > 1)}"
        warnings.append(f"users: ignored {some}: {first_few(chosen.unknown)}")
    if chosen.compared is not None:
        warnings.append(f"only the first {chosen.compared:,} users were searched by taste")
    if computed < len(chosen):
        warnings.append(f"computed for {computed:,} of {len(chosen):,} users, drawn evenly")
    return warnings
