"""Search by title, attribute and id, tolerating slips, joined and split words.

Every item is compared with the whole query: each word of the query costs what has to be done to it to find it in the
item (nothing for a whole word or a prefix, something per wrong letter, more if it is missing), and the cheapest items
come first. Among equals a title comes before an attribute, an attribute before an id, the more popular before the less.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.control.matching import ID, MISSING, NEVER, SLIP, WAYS, Comparison
from macrid.control.search_index import HEAVY, SearchIndex
from macrid.control.spelling import words_of
from macrid.data.attributes import TITLE
from macrid.data.ids import Ids
from macrid.models.base import Recommender
from macrid.models.forks import new_lock

LONGEST_QUERY = 200  # characters
ENOUGH = 12  # items that match as they are; then none are looked for that match with slips
BY_ID = WAYS * SLIP + ID
SLACK = SLIP  # what a match may cost beyond the best
TIERS = np.full((WAYS, 3), 11, dtype=np.int64)
TIERS[:6] = [[5, 2, 1], [7, 6, 6], [7, 7, 7], [8, 8, 8], [9, 9, 9], [10, 10, 10]]
"""(way, how much of the title: some, all that counts, all) smaller is better; 0 is the title itself."""
IN_ANY_ORDER = TIERS[0, 0]
SHARE = 0.6  # of the cost of a query of which nothing is found that a match may cost


def titles_of(model: Recommender) -> list[str | None] | None:
    """(items,) None for items without a title; None without a title column."""
    if model.table is None or TITLE not in model.table.column_names:
        return None
    return [None if title is None else str(title) for title in model.table.column(TITLE).to_pylist()]


@dataclass(frozen=True)
class Hits:
    """One page of matching items, best first."""

    positions: np.ndarray
    total: int
    """Matching items on all pages."""
    matched: tuple[tuple[str, ...], ...]
    """The attribute values, or the id, by which each item was found rather than by its title."""


@dataclass(frozen=True)
class _Ranking:
    comparison: Comparison
    items: np.ndarray
    """All that match, in no order."""
    cost: np.ndarray
    key: np.ndarray
    """Smaller for better ones."""


class Search:
    """Finds items by title, attributes or id; the index is built on first use. Thread-safe."""

    def __init__(
        self, ids: Ids, titles: Sequence[str | None] | None, popularity: np.ndarray, table: pa.Table | None = None
    ) -> None:
        """table: of the items' attributes."""
        self._ids, self._titles, self._table = ids, titles, table
        self._order = np.argsort(-np.asarray(popularity, dtype=np.float64), kind="stable")
        self._rank = np.argsort(self._order)
        self._lock = new_lock()

    def find(
        self, query: str, *, limit: int, offset: int = 0, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, int]:
        """The positions of `hits`, and how many match in all."""
        hits = self.hits(query, limit=limit, offset=offset, among=among)
        return hits.positions, hits.total

    def hits(self, query: str, *, limit: int, offset: int = 0, among: np.ndarray | None = None) -> Hits:
        """One page of matching items, best first. An empty query matches all items.

        among: (items,) True where an item may match.
        """
        query = query[:LONGEST_QUERY].strip()
        if not query:
            matches = self._order if among is None else self._order[among[self._order]]
            page = matches[offset : offset + limit]
            return Hits(page, len(matches), ((),) * len(page))
        ranking = self._ranking(query, among)
        matches, key, total, last = ranking.items, ranking.key, len(ranking.items), offset + limit
        if last < total:
            best = np.argpartition(key, last)[:last]
            matches, key = matches[best], key[best]
        page = matches[np.argsort(key)[offset:last]]
        return Hits(page, total, tuple(self._matched(ranking.comparison, int(at)) for at in page))

    def _matched(self, comparison: Comparison, item: int) -> tuple[str, ...]:
        is_by_id = comparison.cost[item] % WAYS == ID
        return (f"id {self._ids[item]}",) if is_by_id else comparison.matched(item)

    def titled(self, query: str, limit: int) -> list[int]:
        """Items with all words of the query in their titles and the fewest slips, best first."""
        ranking = self._ranking(query[:LONGEST_QUERY].strip(), None, attributes=False)
        cost, words = ranking.cost // WAYS, ranking.comparison.words
        most = SLIP * sum((len(word) > 3) + (len(word) > 7) for word in words)
        best = (cost == cost.min(initial=NEVER)) & (cost <= most) & (ranking.cost % WAYS != MISSING)
        return [int(at) for at in ranking.items[best][np.argsort(ranking.key[best])[:limit]]]

    def _ranking(self, query: str, among: np.ndarray | None, attributes: bool = True) -> _Ranking:
        with self._lock:  # one thread builds the index, others wait
            index = self._index
        words = words_of(query)
        same, others = self._by_id(query) if attributes else (np.zeros(0, np.int64),) * 2
        for slips in (False, True):
            comparison = Comparison(index, words, slips, attributes)
            cost = comparison.cost
            highest = int(SHARE * comparison.worst) if slips else 0
            items = self._allowed(np.flatnonzero(cost < WAYS * (highest + 1)), among)
            if len(items) >= ENOUGH:
                break
        same, others = self._allowed(same, among), self._allowed(others, among)
        cost[same] = np.minimum(cost[same], BY_ID)  # as if with a slip
        items = np.union1d(items, same)
        if (cost[items] % WAYS == ID).all():
            cost[others] = BY_ID + WAYS * SLIP
            items = np.union1d(items, others)
        items = items[cost[items] // WAYS <= cost[items].min(initial=NEVER) // WAYS + SLACK]
        key = self._key(comparison, items)
        return _Ranking(comparison, items, cost[items], key)

    def _allowed(self, items: np.ndarray, among: np.ndarray | None) -> np.ndarray:
        return items if among is None else items[among[items]]

    def _key(self, comparison: Comparison, items: np.ndarray) -> np.ndarray:
        """Smaller for better matches: by cost, then by the way words were found and how much of a title they are."""
        index, cost = self._index, comparison.cost[items]
        weights, weight = index.weights[:, items], comparison.weight[items]
        is_complete, is_same = (weights // HEAVY == weight // HEAVY).any(axis=0), (weights == weight).any(axis=0)
        tier = TIERS[cost % WAYS, is_complete.astype(np.int64) + is_same]
        if len(comparison.words) > 1:
            tier[np.isin(items, index.containing(f" {' '.join(comparison.words)} ")) & (tier == IN_ANY_ORDER)] -= 1
        tier[(index.forms[:, items] == hash(" ".join(comparison.query))).any(axis=0) & (cost < WAYS)] = 0
        return (cost // WAYS * 32 + tier) * np.int64(len(self._ids)) + self._rank[items]

    def _by_id(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the id that is the query, in whatever case, and of ids that start with it."""
        query = pc.utf8_lower(pa.scalar(query.encode("utf-8", "replace").decode())).as_py()
        ids, positions = self._sorted_ids
        places = range(len(ids))
        start = bisect_left(places, query, key=lambda place: ids[place].as_py())
        end = bisect_right(places, query, start, key=lambda place: ids[place].as_py()[: len(query)])
        last = bisect_right(places, query, start, end, key=lambda place: ids[place].as_py())
        return positions[start:last], positions[last:end]

    @cached_property
    def _sorted_ids(self) -> tuple[pa.Array, np.ndarray]:
        """In lower case, with their positions."""
        lower = pc.utf8_lower(self._ids.array.cast(pa.string()))
        order = pc.sort_indices(lower)
        return lower.take(order), order.to_numpy().astype(np.int64)

    @cached_property
    def _index(self) -> SearchIndex:
        return SearchIndex([None] * len(self._ids) if self._titles is None else self._titles, self._table)
