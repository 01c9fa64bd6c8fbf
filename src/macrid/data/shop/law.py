"""Histories drawn from the law of the built-in shop.

Up to RACE_CELLS users × items, all items race for every user. Above that, draws are independent and repeats dropped:
match is never positive, so an item proposed by appeal within a drawn category is accepted with probability exp(match).
That follows the same law, with other random numbers, at a cost proportional to the interactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from macrid.data.shop.assortment import CATEGORIES

if TYPE_CHECKING:
    from macrid.data.shop.shop import Shop

CELLS_AT_ONCE = 1 << 21  # users × items in memory; part of the law, since each block of users has its own random stream
RACE_CELLS = 1 << 26  # users × items up to which the whole shop is drawn by race
DRAWS_AT_ONCE = 1 << 18  # proposals in memory; part of the law like CELLS_AT_ONCE
TRY_COST = 4  # of a proposal, in items of a race; users for whom the race is cheaper use it
TRIES = 64  # proposals per draw, plus one per 128 items, before the whole category is weighed
TURNS = 6  # how often a user redraws repeats before the race fills in the rest


def draw(shop: Shop, counts: np.ndarray, stream: np.random.SeedSequence) -> tuple[np.ndarray, np.ndarray]:
    """Users and items of all interactions, in the order drawn for each user."""
    columns = []
    if len(counts) * len(shop.category) <= RACE_CELLS:
        for block in blocks(len(counts), len(shop.category)):
            columns.append(_race(shop, block, counts[block], np.random.default_rng(stream.spawn(1)[0])))
    else:
        proposals = _Proposals(shop)
        starts = np.flatnonzero(np.diff((np.cumsum(counts) - 1) // DRAWS_AT_ONCE)) + 1
        for block in np.split(np.arange(len(counts)), starts):
            columns.append(proposals.histories(block, counts[block], np.random.default_rng(stream.spawn(1)[0])))
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts), np.concatenate(columns)


def _race(
    shop: Shop,
    users: np.ndarray,
    counts: np.ndarray,
    random: np.random.Generator,
    taken: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """(sum of counts,) items, user by user in the order drawn.

    Exponential race: the k smallest of E / p, E standard exponential, are a Plackett-Luce draw of k items.
    taken: rows of `users`, and items, excluded from the race.
    """
    race = shop.probabilities(users)
    np.maximum(race, 1e-300, out=race)
    np.divide(random.standard_exponential(race.shape), race, out=race)
    if taken is not None:
        race[taken] = np.inf
    longest = int(counts.max())
    last = np.partition(race, longest - 1, axis=1)[:, longest - 1 : longest]
    rows, items = np.nonzero(race <= last)
    items = items[np.lexsort((race[rows, items], rows))]  # user by user, winners first
    return items[_places(rows) < counts[rows]].astype(np.int32)


class _Proposals:
    """Draws from p(u, ·) without looking at every item: proposed by appeal, accepted with probability exp(match)."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.last = np.cumsum(np.bincount(shop.category)) - 1
        """(categories,) position of the last item of each; a category's items are contiguous."""
        self.ladder = np.empty(len(shop.category))
        """(items,) category + cumulative appeal, in which a uniform number is looked up."""
        slots = max(len(entry.factors) for entry in CATEGORIES)
        self.values = np.zeros((len(shop.category), slots))
        """(items, slots) the factors of the item's category, in its order; 0 where it has fewer."""
        for number, entry in enumerate(CATEGORIES):
            items = slice(self.last[number - 1] + 1 if number else 0, self.last[number] + 1)
            self.ladder[items] = number + np.cumsum(shop.popularity[items])
            for slot, name in enumerate(entry.factors):
                self.values[items, slot] = shop.factors[name][items]

    def histories(self, users: np.ndarray, counts: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """(sum of counts,) items, user by user in the order drawn.

        Independent draws without the repeats are a Plackett-Luce draw. The race serves users for whom it is cheaper,
        and draws what is left for users with too many repeats; the law stays the same.
        """
        rows, items = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        done: list[tuple[np.ndarray, np.ndarray]] = []
        missing = counts.copy()
        drawing = counts * self._tries(users) * TRY_COST < len(self.values)
        for turn in range(TURNS):
            wanted = np.where(drawing, missing, 0)
            times = min(1 << turn, max(DRAWS_AT_ONCE // max(int(wanted.sum()), 1), 1))
            new = np.repeat(np.arange(len(users)), wanted * times)
            drawn = self.independent(users, new, random)
            rows, items = _without_repeats(np.concatenate([rows, new]), np.concatenate([items, drawn]), counts)
            missing[drawing] = (counts - np.bincount(rows, minlength=len(users)))[drawing]
            drawing &= missing > 0
            unfinished = drawing[rows]
            done.append((rows[~unfinished], items[~unfinished]))
            rows, items = rows[unfinished], items[unfinished]
        done.append((rows, items))
        waiting = np.flatnonzero(missing)
        for block in blocks(len(waiting), len(self.values)):
            racing = waiting[block]
            is_racing = np.isin(rows, racing)
            taken = np.searchsorted(racing, rows[is_racing]), items[is_racing]
            rest = _race(self.shop, users[racing], missing[racing], random, taken)
            done.append((np.repeat(racing, missing[racing]), rest))
        rows, items = (np.concatenate(parts) for parts in zip(*done, strict=True))
        return items[np.argsort(rows, kind="stable")].astype(np.int32)

    def independent(self, users: np.ndarray, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """(draws,) an item from p(u, ·) for each of `rows` of `users`, regardless of earlier draws.

        A category is not redrawn when its items are rejected: that would favour categories that match well.
        """
        until = np.cumsum(self.shop.share[users], axis=1)[:, :-1]
        category = (random.random((len(rows), 1)) >= until[rows]).sum(axis=1)
        strength, preferred = (self._by_slot(table, users) for table in (self.shop.strength, self.shop.preferred))
        items = np.empty(len(rows), dtype=np.int64)
        pending, tries = np.arange(len(rows)), 0
        while len(pending) and tries < TRIES + len(self.values) // 128:
            width = min(tries + 1, max(DRAWS_AT_ONCE // len(pending), 1))
            kind = category[pending]
            point = kind[:, None] + random.random((len(pending), width))
            proposed = np.minimum(np.searchsorted(self.ladder, point, side="right"), self.last[kind][:, None])
            gap = self.values[proposed]  # (pending, width, slots)
            gap -= preferred[rows[pending], kind][:, None]
            mismatch = np.einsum("pws,pws,ps->pw", gap, gap, strength[rows[pending], kind])  # −2 · match
            taken = 2 * random.standard_exponential(proposed.shape) >= mismatch
            first, any_taken = taken.argmax(axis=1), taken.any(axis=1)
            items[pending[any_taken]] = proposed[any_taken, first[any_taken]]
            pending = pending[~any_taken]
            tries += width
        items[pending] = self._weighed(users, rows[pending], category[pending], random)
        return items

    def _tries(self, users: np.ndarray) -> np.ndarray:
        """(users,) proposals per draw, roughly: 1 / mean of exp(match) over a category of uniform factors."""
        strength, preferred = (self._by_slot(table, users) for table in (self.shop.strength, self.shop.preferred))
        root = np.sqrt(np.maximum(strength, 1e-6))
        taken = np.sqrt(np.pi / 2) / root * (ndtr(root * (1 - preferred)) - ndtr(root * (-1 - preferred)))
        return (self.shop.share[users] / np.maximum(taken.prod(axis=2), 1e-300)).sum(axis=1)

    def _by_slot(self, table: dict[str, np.ndarray], users: np.ndarray) -> np.ndarray:
        """(users, categories, slots) of a factor table; 0 where a category has fewer factors."""
        result = np.zeros((len(users), len(CATEGORIES), self.values.shape[1]))
        for number, entry in enumerate(CATEGORIES):
            for slot, name in enumerate(entry.factors):
                result[:, number, slot] = table[name][users, number]
        return result

    def _weighed(
        self, users: np.ndarray, rows: np.ndarray, category: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """(draws,) an item of the given category for each of `rows` of `users`, weighing all its items."""
        items = np.empty(len(rows), dtype=np.int64)
        for number in np.unique(category):
            draws = np.flatnonzero(category == number)
            category_items = self.shop._item_terms[number][0]
            for block in blocks(len(draws), len(category_items)):
                ladder = np.cumsum(self.shop._weights(users[rows[draws[block]]], number), axis=1)
                point = random.random((len(block), 1)) * ladder[:, -1:]
                items[draws[block]] = category_items[(ladder[:, :-1] <= point).sum(axis=1)]
        return items


def _without_repeats(rows: np.ndarray, items: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first `counts` distinct items of every row, sorted by row and otherwise in the given order."""
    _, first = np.unique(rows * (items.max(initial=0) + 1) + items, return_index=True)
    first = np.sort(first)
    first = first[np.argsort(rows[first], kind="stable")]
    first = first[_places(rows[first]) < counts[rows[first]]]
    return rows[first], items[first]


def _places(rows: np.ndarray) -> np.ndarray:
    """0, 1, 2, … within each run of equal rows; the rows are sorted."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


def blocks(users: int, items: int) -> Iterator[np.ndarray]:
    """Users in groups of at most CELLS_AT_ONCE users × items."""
    step = max(CELLS_AT_ONCE // items, 1)
    for start in range(0, users, step):
        yield np.arange(start, min(start + step, users))
