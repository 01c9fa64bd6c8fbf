"""How well every item matches the words of a query.

A word costs what has to be changed to find it in an item: nothing if it is there or starts a word that is, SLIP per
wrong, missing, extra or swapped letter, JOINED for a space too few or too many, and more if it is missing. The costs of
all words add up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from macrid.control.lexicon import Lexicon
from macrid.control.search_index import LIGHT, SearchIndex, weight
from macrid.control.spelling import LONGEST_WORD, singular, typos_allowed

MOST_WORDS = 24  # of a query
MOST_SLIPPED = 12  # words of a query in which slips are looked for
MOST_COMPARED = 1_000_000  # words of the index to look for them among, in all

SLIP, RARE_SLIP, JOINED, UNSAID = 4, 6, 2, 4
"""Costs; a rare slip is any but swapped letters in a word of three."""
WAYS = 16
WHOLE, NEARLY, PREFIX, ATTRIBUTE, ATTRIBUTE_PREFIX, ID, MISSING = 0, 1, 2, 3, 4, 5, 15
"""Ways to find a word, best first. The worst way of all words, plus `WAYS` times their costs, is one number."""
NEVER = WAYS << 20  # a cost
ROMAN = ["ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"]
NUMERALS = {roman: str(number) for number, roman in enumerate(ROMAN, start=2)}
NUMERALS |= {number: roman for roman, number in NUMERALS.items()}
LETTERS_OR_DIGITS = re.compile(r"\d+|\D+")


def cost_of_missing(word: str) -> int:
    return UNSAID if word in LIGHT else 4 + 2 * min(len(word), 6)


class Best:
    """The best match of one word in each item."""

    def __init__(self, items: int, otherwise: int) -> None:
        self.cost = np.full(items, otherwise, dtype=np.int32)
        """(items,) what it costs, and the way."""
        self.weight = np.zeros(items, dtype=np.int32)
        """(items,) of the words of the title that it stands for."""

    def offer(self, items: np.ndarray, cost: np.ndarray | int, weight: np.ndarray | int) -> None:
        """For items that occur more than once, the last counts."""
        better = self.cost[items] > cost
        items = items[better]
        self.cost[items] = cost if isinstance(cost, int) else cost[better]
        self.weight[items] = weight if isinstance(weight, int) else weight[better]

    def offer_places(self, lexicon: Lexicon, places: np.ndarray, costs: np.ndarray) -> None:
        """Words of a lexicon whose owners are items."""
        order = np.argsort(-costs, kind="stable")
        places = places[order]
        sizes = lexicon.owners.sizes(places)
        weights = np.repeat(lexicon.weights[places], sizes)
        self.offer(lexicon.owners.joined(places), np.repeat(costs[order], sizes), weights)


class Comparison:
    """Of a query with every item."""

    def __init__(self, index: SearchIndex, words: Sequence[str], slips: bool, attributes: bool = True) -> None:
        """slips: whether words may be misspelt, joined or split. attributes: whether those count, or titles only."""
        self._index, self._slips, self._attributes = index, slips, attributes
        self.query = words
        self.words = list(dict.fromkeys(self._taken_apart(words)))[:MOST_WORDS]
        known = sum(len(lexicon.words) for lexicon in (index.titles, index.joined, index.attributes))
        self._left = self._most = min(MOST_SLIPPED, 1 + MOST_COMPARED // (1 + known))
        self._by_title: list[np.ndarray] = []
        self._by_word: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self.worst = sum(map(cost_of_missing, self.words))
        """The cost of finding no word."""
        self.cost, self.weight = self._all_words()

    def _all_words(self) -> tuple[np.ndarray, np.ndarray]:
        count = self._index.count
        before = earlier = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
        for at, word in enumerate(self.words):
            best = self._of_word(word)
            now = _sum(before[0], best.cost), before[1] + best.weight
            pair = self._of_pair(self.words[at - 1], word) if at and self._slips else None
            if pair is not None:
                cost = _sum(earlier[0], pair.cost)
                now = np.minimum(now[0], cost), np.where(cost < now[0], earlier[1] + pair.weight, now[1])
            earlier, before = before, now
        return before

    def _of_word(self, word: str) -> Best:
        index, is_light = self._index, word in LIGHT
        best = Best(index.count, WAYS * cost_of_missing(word) + (WHOLE if is_light else MISSING))
        self._offer(best, index.titles, word)
        if (place := index.titles.place(NUMERALS.get(word, ""))) is not None:
            best.offer(index.titles.owners[place], NEARLY, int(index.titles.weights[place]))
        if self._slips and not is_light and not word.isdecimal():
            self._offer_slips(best, word)
        elif self._slips and (is_light or len(word) > 2):
            self._offer(best, index.joined, word, WAYS * JOINED, LONGEST_WORD)  # L.A., 9/11
        self._by_title.append(best.cost.copy())
        self._offer_values(best, word, is_last=word == self.words[-1])
        self._by_word.append(best.cost)
        return best

    def _offer_slips(self, best: Best, word: str) -> None:
        """Titles in which the word has slips, is two words, or, if it is not known otherwise, is part of a word."""
        index, is_whole = self._index, self._index.titles.place(word) is not None
        is_known = self._offer(best, index.joined, word, WAYS * JOINED, 4) or (best.cost % WAYS != MISSING).any()
        if self._left > 0 and typos_allowed(word):
            self._left -= 1
            self._offer_near(best, index.titles, word)
            if not is_known and len(word) > 4:
                self._offer_near(best, index.joined, word, WAYS * JOINED, prefixes=False)
        if word.isascii():  # other scripts may have no spaces, or write articles and words as one
            is_part = len(word) > 3 and bool((best.cost % WAYS == MISSING).all())
        else:
            is_part = len(word) > 1 and not is_whole
        if is_part:
            best.offer(index.containing(word), WAYS * SLIP + PREFIX, weight(word))

    def _of_pair(self, first: str, second: str) -> Best | None:
        """Two words of the query that are one in some title, or whose space is in the wrong place."""
        index, word = self._index, first + second
        best = Best(index.count, NEVER)
        is_known = self._offer(best, index.titles, word, WAYS * JOINED, 4)
        is_known |= self._offer(best, index.joined, word, WAYS * JOINED, LONGEST_WORD)
        are_known = index.titles.place(first) is not None and index.titles.place(second) is not None
        if not is_known and not are_known and self._left > 0 and typos_allowed(word):
            self._left -= 1
            is_known = self._offer_near(best, index.titles, word, WAYS * JOINED)
        return best if is_known else None

    def _offer(self, best: Best, lexicon: Lexicon, word: str, more: int = 0, fewest: int = 1) -> bool:
        """The word itself, and words that start with it if it has so many letters; whether there are any."""
        start, end = lexicon.starting(word)
        if start < end and len(word) >= fewest and (len(word) > 1 or word == self.words[-1]):
            sizes = lexicon.owners.sizes(np.arange(start, end))
            weights = np.repeat(lexicon.weights[start:end], sizes)
            best.offer(lexicon.owners.between(start, end), 2 * more + PREFIX, weights)
            if len(word) > 3 or len(self.words) > 1:
                nearly = start + np.flatnonzero(lexicon.lengths[start:end] == len(word) + 1)
                best.offer_places(lexicon, nearly, np.full(len(nearly), more + NEARLY, dtype=np.int32))
        if start < end and lexicon.words[start] == word:
            best.offer(lexicon.owners[start], more + WHOLE, int(lexicon.weights[start]))
        return start < end

    def _offer_near(self, best: Best, lexicon: Lexicon, word: str, more: int = 0, prefixes: bool = True) -> bool:
        """Words with slips; whether there are any."""
        places, costs = _near(lexicon, word, prefixes)
        best.offer_places(lexicon, places, costs + more)
        return len(places) > 0

    def _offer_values(self, best: Best, word: str, is_last: bool) -> None:
        """Values of attributes with the word; the beginning of one if it may still be typed."""
        index = self._index
        lexicon, owners = index.attributes, index.attributes.owners
        costs = np.full(len(index.values), NEVER, dtype=np.int32)
        if self._slips and typos_allowed(word) and word not in LIGHT and len(self._values) < self._most:
            places, near = _near(lexicon, word, prefixes=False)
            order = np.argsort(-near, kind="stable")
            places = places[order]
            costs[owners.joined(places)] = np.repeat(near[order] + ATTRIBUTE, owners.sizes(places))
        if is_last and len(word) > 2 and not word.isdecimal():
            costs[owners.between(*lexicon.starting(word))] = ATTRIBUTE_PREFIX
        for form in (singular(word), word):
            if (place := lexicon.place(form)) is not None:
                costs[owners[place]] = ATTRIBUTE
        if not self._attributes:
            costs[index.years :] = NEVER
        values = np.flatnonzero(costs < NEVER)
        values = values[np.argsort(-costs[values], kind="stable")]
        self._values.append(costs)
        best.offer(index.having.joined(values), np.repeat(costs[values], index.having.sizes(values)), 0)

    def matched(self, item: int) -> tuple[str, ...]:
        """The values by which an item was found, rather than by its title."""
        own, found = self._index.of_item[item], dict[str, None]()
        for cost, by_title, costs in zip(self._by_word, self._by_title, self._values, strict=True):
            if cost[item] < by_title[item]:
                found[self._index.values[own[costs[own].argmin()]]] = None
        return tuple(found)

    def _taken_apart(self, words: Sequence[str]) -> list[str]:
        """Unknown words of letters and digits become several: "odyssey2001"."""
        index, parts = self._index, list[str]()
        for word in words:
            known = (lexicon.starting(word) for lexicon in (index.titles, index.attributes, index.joined))
            parts += [word] if any(start < end for start, end in known) else LETTERS_OR_DIGITS.findall(word)
        return parts


def _near(lexicon: Lexicon, word: str, prefixes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Places and costs of words with slips; prefixes: also of those that start with a slip in a longer word."""
    prefixes = prefixes and len(word) > 4
    most = typos_allowed(word) if lexicon.place(word) is None else 1  # a word that exists is hardly wrong twice
    places, whole, prefix = lexicon.near(word, most, prefixes)
    slip: np.ndarray | int = SLIP
    if len(word) <= 3:
        letters = sorted(word)
        slip = np.array([SLIP if sorted(lexicon.words[place]) == letters else RARE_SLIP for place in places], np.int64)
    costs = WAYS * slip * whole + WHOLE
    if prefixes:
        costs = np.minimum(costs, WAYS * SLIP * prefix + PREFIX)
    return places[prefix > 0], costs[prefix > 0].astype(np.int32)


def _sum(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Costs add up; the worst way counts."""
    return one + other - np.minimum(one & (WAYS - 1), other & (WAYS - 1))
