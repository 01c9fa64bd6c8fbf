"""What moves and rules would do to many users: how lists change, what that costs in accuracy, who gains and who loses.

Before: the lists that users get today, without the moves and rules, but by the standing rules. Accuracy is measured on
the list, continued with the best of the rest down to place 100.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from macrid.concepts.effects import span
from macrid.concepts.space import space_of
from macrid.control.cohort import DEPTH, Cohort, Lists
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.data.attributes import Column, columns_of, is_date, kind_of
from macrid.evaluation.accuracy import ndcg, recall
from macrid.evaluation.agreement import scores_of
from macrid.evaluation.lists import hits_of
from macrid.evaluation.ranking import Metric, summary_of
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE

ACCURACY = "ndcg@100"
METRICS = {ACCURACY: partial(ndcg, k=DEPTH), "recall@20": partial(recall, k=20)}
MOST_ATTRIBUTES = 24  # that move most
MOST_NAMED = 10  # users of each kind
SAME = 1e-9  # accuracy that counts as the same


@dataclass(frozen=True)
class AttributeMove:
    """How an attribute of the lists moves, on average over users."""

    name: str
    """Such as "year" or "genres: Comedy"."""
    is_share: bool
    """Whether `before` and `after` are shares of the list."""
    before: float
    after: float
    moves: float
    """How far, in standard deviations over the items; of numbers, over their ranks."""
    is_date: bool = False
    """Whether `before` and `after` are seconds since 1970."""

    @property
    def label(self) -> str:
        """In the attribute's units, such as "29 → 41 % of the list"."""
        if self.is_date:
            return " → ".join(str(np.datetime64(int(end), "s").astype("M8[D]")) for end in (self.before, self.after))
        return span(self.before, self.after, self.is_share) + " of the list" * self.is_share


@dataclass(frozen=True)
class Comparison:
    """A metric of accuracy over the same users, before and after."""

    before: Metric
    after: Metric
    difference: Metric
    """Mean of the differences, and its standard error."""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name).as_json() for name in ("before", "after", "difference")}


@dataclass(frozen=True)
class Accuracy:
    """On what users had next; only over those who had something."""

    users: int
    metrics: dict[str, Comparison]
    gained: int
    """Users whose NDCG@100 rises."""
    lost: int

    @property
    def same(self) -> int:
        return self.users - self.gained - self.lost

    def as_json(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("users", "gained", "lost", "same")}
        return {**counts, "metrics": {name: metric.as_json() for name, metric in self.metrics.items()}}


@dataclass(frozen=True)
class OfUser:
    """What happens to one user."""

    row: int
    """Among the users given to the cohort."""
    new: int
    """Items of the list that were not in it before."""
    length: int
    """Of the list."""
    before: float | None = None
    """NDCG@100; None if nothing is to be predicted."""
    after: float | None = None

    @property
    def gain(self) -> float:
        """Of accuracy; 0 if it is unknown."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class OfTaste:
    """Users with the largest part of their history in one concept."""

    concept: int
    users: int
    new: float
    """Mean share of the list."""
    before: float | None
    """Mean NDCG@100 over those with something to predict."""
    after: float | None


@dataclass(frozen=True)
class Trial:
    """Moves and rules, tried on a cohort."""

    n: int
    users: int
    skipped: int
    """Users without a known item."""
    new: float
    """Mean share of the list that was not in it before."""
    kept: float
    """Mean share of the list that was; both are less than 1 together where lists cannot be filled."""
    changed_places: tuple[float, ...]
    """Share of users with another item at each place."""
    unchanged: int
    """Users with the same list as before, in the same order."""
    attributes: tuple[AttributeMove, ...]
    """Those that move most, furthest first."""
    shares: tuple[tuple[float, ...], tuple[float, ...]]
    """Mean share of each concept in the lists, before and after; empty without concepts."""
    coverage: tuple[int, int]
    """Items that are in at least one list."""
    popularity: tuple[float, float] | None
    """Mean number of training users of a listed item."""
    accuracy: Accuracy | None
    tastes: tuple[OfTaste, ...]
    """Largest first; empty without concepts."""
    losses: tuple[OfUser, ...]
    """Of accuracy, largest first."""
    gains: tuple[OfUser, ...]
    changes: tuple[OfUser, ...]
    """Of the list, largest first."""
    short: tuple[OfUser, ...]
    """Some of those whose lists cannot be filled, shortest first."""
    short_users: int
    stopped: int
    """Users for whom a move was stopped at the range of real users."""
    per_user: tuple[OfUser, ...] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Users by their rows; without `per_user`."""
        both = {
            name: None if (pair := getattr(self, name)) is None else {"before": pair[0], "after": pair[1]}
            for name in ("shares", "coverage", "popularity")
        }
        plain = ("n", "users", "skipped", "new", "kept", "unchanged", "short_users", "stopped")
        return {
            **{name: getattr(self, name) for name in plain},
            "changed_places": list(self.changed_places),
            "attributes": [{**asdict(each), "label": each.label} for each in self.attributes],
            **both,
            "accuracy": None if self.accuracy is None else self.accuracy.as_json(),
            "tastes": [asdict(each) for each in self.tastes],
            **{
                name: [asdict(each) for each in getattr(self, name)] for name in ("losses", "gains", "changes", "short")
            },
        }


def try_on(
    cohort: Cohort,
    n: int,
    moves: Sequence[Move] = (),
    rules: Sequence[Rules] = (),
    *,
    standing: Sequence[Rules] = (),
    bounded: bool = True,
    exclude_seen: bool = True,
    check: Callable[[], None] = lambda: None,
) -> Trial:
    """Compare the lists of n items with those that users get today. Arguments as for `Cohort.lists`."""
    options: dict[str, Any] = {"standing": standing, "exclude_seen": exclude_seen, "check": check}
    before = cohort.lists(n, **options)
    after = cohort.lists(n, moves, rules, bounded=bounded, **options)
    return compare(cohort, before, after)


def compare(cohort: Cohort, before: Lists, after: Lists) -> Trial:
    """The lists of the same users, before and after."""
    model, (old, new) = cohort.model, (before.listed, after.listed)
    is_new = (new >= 0) & ~(new[:, :, None] == old[:, None, :]).any(axis=2)  # (users, n)
    scores = _accuracy(cohort, before, after)
    people = _people(cohort, after, is_new.sum(axis=1), scores)
    known = len(model.popularity) == len(model.items)
    popularity = _pair(model.popularity.astype(np.float64), old, new) if known else None
    return Trial(
        n=after.n,
        users=len(cohort),
        skipped=cohort.skipped,
        new=float(is_new.mean()),
        kept=float(((new >= 0) & ~is_new).mean()),
        changed_places=tuple((old != new).mean(axis=0).tolist()),
        unchanged=int((old == new).all(axis=1).sum()),
        attributes=_attributes(model, old, new),
        shares=(_shares(model, old), _shares(model, new)),
        coverage=(_distinct(old), _distinct(new)),
        popularity=popularity,
        accuracy=_summary(scores),
        tastes=_tastes(cohort, is_new.mean(axis=1), scores),
        losses=_first(people, lambda each: each.gain if each.gain < -SAME else None),
        gains=_first(people, lambda each: -each.gain if each.gain > SAME else None),
        changes=_first(people, lambda each: -each.new or None),
        short=_first(people, lambda each: each.length if each.length < after.n else None),
        short_users=int((after.lengths < after.n).sum()),
        stopped=after.stopped,
        per_user=people,
    )


def _accuracy(cohort: Cohort, before: Lists, after: Lists) -> dict[str, np.ndarray]:
    """For every metric (2, users), before and after; NaN where nothing is to be predicted. Empty without targets."""
    if cohort.targets is None or not cohort.targets.nnz:
        return {}
    counts = np.diff(cohort.targets.indptr)
    chosen = np.flatnonzero(counts)
    targets, sizes = cohort.targets[chosen], torch.from_numpy(counts[chosen].astype(np.int64))
    scores = {name: np.full((2, len(cohort)), np.nan) for name in METRICS}
    for side, lists in enumerate((before, after)):
        positions = torch.from_numpy(lists.positions[chosen])
        hits = hits_of(positions.clamp(min=0), targets) * (positions >= 0)
        for name, measure in METRICS.items():
            scores[name][side, chosen] = measure(hits, sizes).numpy()
    return scores


def _summary(scores: dict[str, np.ndarray]) -> Accuracy | None:
    if not scores:
        return None
    gains = scores[ACCURACY][1] - scores[ACCURACY][0]
    metrics = {
        name: Comparison(summary_of(before), summary_of(after), summary_of(after - before))
        for name, (before, after) in scores.items()
    }
    gained, lost = int((gains > SAME).sum()), int((gains < -SAME).sum())
    return Accuracy(int(np.isfinite(gains).sum()), metrics, gained, lost)


def _people(cohort: Cohort, after: Lists, new: np.ndarray, scores: dict[str, np.ndarray]) -> tuple[OfUser, ...]:
    known = scores.get(ACCURACY, np.full((2, len(cohort)), np.nan))
    accuracy = [(None, None) if np.isnan(pair[0]) else tuple(pair.tolist()) for pair in known.T]
    rows = zip(cohort.rows.tolist(), new.tolist(), after.lengths.tolist(), accuracy, strict=True)
    return tuple(OfUser(row, count, length, *pair) for row, count, length, pair in rows)


def _first(people: Sequence[OfUser], order: Callable[[OfUser], float | None]) -> tuple[OfUser, ...]:
    """A few by their order, without those who have none."""
    places = [(place, each) for each in people if (place := order(each)) is not None]
    return tuple(each for _, each in sorted(places, key=lambda pair: pair[0])[:MOST_NAMED])


def _tastes(cohort: Cohort, new: np.ndarray, scores: dict[str, np.ndarray]) -> tuple[OfTaste, ...]:
    if not isinstance(cohort.model, MacridVAE):
        return ()
    strongest = space_of(cohort.model).confidence(cohort.histories).argmax(axis=1)
    accuracy = scores.get(ACCURACY)
    groups = []
    for concept in np.unique(strongest).tolist():
        users = strongest == concept
        ends = (None, None) if accuracy is None else (_mean(accuracy[0, users]), _mean(accuracy[1, users]))
        groups.append(OfTaste(concept, int(users.sum()), float(new[users].mean()), *ends))
    return tuple(sorted(groups, key=lambda group: -group.users))


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _shares(model: Recommender, lists: np.ndarray) -> tuple[float, ...]:
    """Mean share of every concept in lists (users, n) that are not empty: (concepts,)."""
    if not isinstance(model, MacridVAE):
        return ()
    space, lists = space_of(model), lists[(lists >= 0).any(axis=1)]
    of_items = np.where(lists >= 0, space.concept_of[lists], -1)  # (users, n)
    lengths = np.maximum((lists >= 0).sum(axis=1), 1)
    means = [((of_items == k).sum(axis=1) / lengths) for k in range(space.concepts)]
    return tuple(float(each.mean()) if len(lists) else 0.0 for each in means)


def _distinct(lists: np.ndarray) -> int:
    return len(np.unique(lists[lists >= 0]))


# Attributes


def _attributes(model: Recommender, old: np.ndarray, new: np.ndarray) -> tuple[AttributeMove, ...]:
    moves = [move for column in attributes_of(model) if (move := _attribute(column, old, new)) is not None]
    return tuple(sorted(moves, key=lambda move: -abs(move.moves))[:MOST_ATTRIBUTES])


@dataclass(frozen=True, eq=False)
class _Attribute:
    column: Column
    ranks: np.ndarray | None
    """(items,) of numbers: with mean 0 and variance 1."""
    spread: float
    """Standard deviation over the items."""
    is_date: bool


def _attribute(attribute: _Attribute, old: np.ndarray, new: np.ndarray) -> AttributeMove | None:
    """None if no list has a known value."""
    column, ranks = attribute.column, attribute.ranks
    pair = _pair(column.values, old, new)
    if pair is None:
        return None
    ends = pair if ranks is None else _pair(ranks, old, new)
    assert ends is not None
    moves = (ends[1] - ends[0]) / (attribute.spread if ranks is None else 1)
    return AttributeMove(column.name, ranks is None, *pair, moves, attribute.is_date)


def _pair(values: np.ndarray, old: np.ndarray, new: np.ndarray) -> tuple[float, float] | None:
    """Means over users of the means over their lists (users, n), before and after; None if no value is known.

    values: (items,) NaN where unknown.
    """
    before, after = _average(values, old), _average(values, new)
    known = np.isfinite(before) & np.isfinite(after)
    return (float(before[known].mean()), float(after[known].mean())) if known.any() else None


def _average(values: np.ndarray, lists: np.ndarray) -> np.ndarray:
    """(users,) means over the known values of lists (users, n); NaN if there are none."""
    found = np.where(lists >= 0, values[lists], np.nan)
    known = np.isfinite(found)
    counts = known.sum(axis=1)
    return np.where(known, found, 0).sum(axis=1) / np.where(counts, counts, np.nan)


_ATTRIBUTES: WeakKeyDictionary[Recommender, tuple[Any, Any, list[_Attribute]]] = WeakKeyDictionary()


def attributes_of(model: Recommender) -> list[_Attribute]:
    """What is known about the items, computed once."""
    cached = _ATTRIBUTES.get(model)
    if cached is None or cached[0] is not model.table or cached[1] is not model.popularity:
        columns = _columns(model)
        cached = _ATTRIBUTES[model] = model.table, model.popularity, [_described(model, each) for each in columns]
    return cached[2]


def _columns(model: Recommender) -> list[Column]:
    if isinstance(model, MacridVAE):
        return space_of(model).columns
    known = len(model.popularity) == len(model.items)
    return [column for column in columns_of(model) if column.is_usable()] if known else []


def _described(model: Recommender, column: Column) -> _Attribute:
    ranks = scores_of(column.values) if column.value is None else None
    spread, table = max(float(np.nanstd(column.values)), 1e-12), model.table
    if ranks is None or table is None or column.attribute not in table.column_names:
        return _Attribute(column, ranks, spread, False)
    return _Attribute(column, ranks, spread, is_date(kind_of(table.column(column.attribute))))
