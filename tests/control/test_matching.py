"""Costs of all items at once, against a comparison of one title at a time written out as loops."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.matching import (
    ATTRIBUTE,
    ATTRIBUTE_PREFIX,
    JOINED,
    MISSING,
    NEARLY,
    PREFIX,
    RARE_SLIP,
    SLIP,
    WAYS,
    WHOLE,
    Comparison,
    cost_of_missing,
)
from macrid.control.search_index import SearchIndex
from macrid.control.spelling import typos_allowed
from tests.control.test_spelling import slow_distance, slow_prefix_distance


class Slow:
    """What each word of a query costs in each title, by definition; titles of plain words, none of them light."""

    def __init__(self, titles, words, slips):
        self.titles, self.words, self.slips = [title.split() for title in titles], words, slips
        self.known = {word for title in self.titles for word in title}
        self.joints = [{"".join(pair) for pair in pairwise(title)} | {"".join(title)} for title in self.titles]
        self.joints = [
            joints if len(title) > 1 else set() for title, joints in zip(self.titles, self.joints, strict=True)
        ]
        self.all_joints = set().union(*self.joints)

    def costs(self):
        return [self.total(place) for place in range(len(self.titles))]

    def total(self, place):
        totals = [(0, WHOLE)]
        for at, word in enumerate(self.words):
            ways = [add(totals[at], self.of_word(word, place))]
            if at and self.slips:
                ways += [add(totals[at - 1], way) for way in self.of_pair(self.words[at - 1], word, place)]
            totals.append(min(ways))
        return totals[-1]

    def of_word(self, word, place):
        ways = [(cost_of_missing(word), MISSING), *self.exact(word, self.titles[place])]
        if self.slips:
            ways += self.exact(word, self.joints[place], JOINED, 4)
            ways += near(word, self.titles[place], twice=word not in self.known)
            if not self.is_known(word) and len(word) > 4:
                ways += near(word, self.joints[place], JOINED, prefixes=False)
            if len(word) > 3 and not self.is_anywhere(word) and word in f" {' '.join(self.titles[place])} ":
                ways.append((SLIP, PREFIX))
        return min(ways)

    def of_pair(self, first, second, place):
        word = first + second
        ways = self.exact(word, self.titles[place], JOINED, 4) + self.exact(word, self.joints[place], JOINED, 64)
        if not self.is_known(word) and not {first, second} <= self.known:
            ways += near(word, self.titles[place], JOINED)
        return ways

    def exact(self, word, others, more=0, fewest=1):
        ways = [(more, WHOLE)] if word in others else []
        if len(word) >= fewest and (len(word) > 1 or word == self.words[-1]):
            longer = [other for other in others if other.startswith(word)]
            ways += [(2 * more, PREFIX) for _ in longer]
            if len(word) > 3 or len(self.words) > 1:
                ways += [(more, NEARLY) for other in longer if len(other) == len(word) + 1]
        return ways

    def is_known(self, word):
        return any(other.startswith(word) for other in self.known | self.all_joints)

    def is_anywhere(self, word):
        """Whether any title has it, with slips or without."""
        found = near(word, self.known, twice=word not in self.known)
        if len(word) > 4 and not self.is_known(word):
            found += near(word, self.all_joints, JOINED, prefixes=False)
        return bool(found) or self.is_known(word)


def near(word, others, more=0, prefixes=True, twice=True):
    most, ways = min(typos_allowed(word), 1 + twice), []
    for other in others:
        whole, prefix = slow_distance(word, other), slow_prefix_distance(word, other)
        if 0 < whole <= most and prefix > 0:
            slip = RARE_SLIP if len(word) <= 3 and sorted(word) != sorted(other) else SLIP
            ways.append((more + slip * whole, WHOLE))
        if prefixes and len(word) > 4 and 0 < prefix <= most:
            ways.append((more + SLIP * prefix, PREFIX))
    return ways


def add(one, other):
    return one[0] + other[0], max(one[1], other[1])


WORD = st.text("bcd", min_size=1, max_size=9) | st.text("bc", min_size=1, max_size=4)
PHRASE = st.lists(WORD, min_size=1, max_size=4).map(" ".join)


@given(st.lists(PHRASE, max_size=6), st.lists(WORD, min_size=1, max_size=4, unique=True), st.booleans())
def test_costs_match_the_definition(titles, words, slips):
    comparison = Comparison(SearchIndex(titles, None), words, slips)
    costs = [(cost // WAYS, cost % WAYS) for cost in comparison.cost.tolist()]
    assert costs == Slow(titles, comparison.words, slips).costs()


FILMS = SearchIndex(
    ["Matrix, The (1999)", "Sci-Fighters (1996)", "Heat"],
    pa.table(
        {"genres": ["Sci-Fi|Action", "Comedy", "Action"], "year": [1999, 1996, 1995], "director": ["A", "B", "Mann"]}
    ),
)


@pytest.mark.parametrize(
    ("words", "item", "cost", "way", "matched"),
    [
        (["sci", "fi"], 0, 0, ATTRIBUTE, ("Sci-Fi",)),
        (["scifi", "1999"], 0, 0, ATTRIBUTE, ("Sci-Fi", "1999")),
        (["sci", "fi"], 1, 0, PREFIX, ()),
        (["act"], 2, 0, ATTRIBUTE_PREFIX, ("Action",)),
        (["acton"], 2, SLIP, ATTRIBUTE, ("Action",)),
        (["comedies"], 1, 0, ATTRIBUTE, ("Comedy",)),
        (["heat", "mann"], 2, 0, ATTRIBUTE, ("Mann",)),
        (["199"], 2, cost_of_missing("199"), MISSING, ()),
    ],
)
def test_words_are_found_among_attributes(words, item, cost, way, matched):
    comparison = Comparison(FILMS, words, slips=True)
    assert comparison.cost[item] == WAYS * cost + way
    assert comparison.matched(item) == matched


def test_without_attributes_only_the_year_of_a_title_counts():
    comparison = Comparison(FILMS, ["action", "1999"], slips=False, attributes=False)
    assert comparison.cost[0] == WAYS * cost_of_missing("action") + MISSING
    assert comparison.cost[2] == WAYS * (cost_of_missing("action") + cost_of_missing("1999")) + MISSING
