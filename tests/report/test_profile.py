"""What sets items apart, against the same statistics computed one item at a time."""

import math
from datetime import date
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.concepts.evidence import LARGEST_P, PRIOR
from macrid.report.profile import FEWEST, LEAST_LEAD, LEAST_ODDS, LEAST_USUAL, Profiler

TAGS = ("Action", "Comedy", "Horror", "Western")


def catalogue(seed, count=300):
    """Tags, a category that leans on the item's number, a price that is sometimes missing, and three concepts."""
    random = np.random.default_rng(seed)
    tags = [[tag for tag in TAGS if random.random() < 0.3] for _ in range(count)]
    brands = [None if random.random() < 0.1 else f"brand {min(int(random.exponential(4)), 9)}" for _ in range(count)]
    prices = [None if random.random() < 0.1 else round(float(random.gamma(2, 10)) + item / 20) for item in range(count)]
    table = pa.table(
        {"title": [f"Item {item}" for item in range(count)], "tags": tags, "brand": brands, "price": prices}
    )
    items = SimpleNamespace(table=table, popularity=random.integers(1, 50, count))
    return items, random.integers(0, 3, count)


def values_by_hand(items, concept_of):
    """{(attribute, value): the items that have it}, {attribute: the items where it is known}"""
    having, known = {}, {}
    columns = {"concept": [[str(k)] for k in concept_of], "tags": items.table.column("tags").to_pylist()}
    columns["brand"] = [[brand] if brand else [] for brand in items.table.column("brand").to_pylist()]
    for attribute, lists in columns.items():
        known[attribute] = {item for item, values in enumerate(lists) if values}
        for item, values in enumerate(lists):
            for value in values:
                having.setdefault((attribute, value), set()).add(item)
    return having, known


def chance_of(counts, n, share):
    return math.fsum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in counts)


def log_odds_by_hand(have, known, share):
    return math.log((have + PRIOR * share) / (known - have + PRIOR * (1 - share)))


def profile_by_hand(items, concept_of, chosen):
    having, known_of = values_by_hand(items, concept_of)
    tested = 2 * sum(len(members) >= FEWEST for members in having.values()) + 2  # price and popularity
    more, less = {}, {}
    for (attribute, value), members in having.items():
        known = known_of[attribute]
        here, have = len(chosen & known), len(chosen & members)
        there, others = len(known - chosen), len(members - chosen)
        if not here or not there or len(members) < FEWEST:
            continue
        share, smooth = len(members) / len(known), (len(members) + 0.5) / (len(known) + 1)
        delta = log_odds_by_hand(have, here, smooth) - log_odds_by_hand(others, there, smooth)
        shares = (have, have / here, others / there)
        least = LARGEST_P / tested
        if have >= FEWEST and delta >= math.log(LEAST_ODDS) and chance_of(range(have, here + 1), here, share) <= least:
            more[attribute, value] = shares
        is_usual = others / there >= LEAST_USUAL
        if is_usual and delta <= -math.log(LEAST_ODDS) and chance_of(range(have + 1), here, share) <= least:
            less[attribute, value] = shares
    return more, less, tested


def shift_by_hand(values, chosen, tested):
    """(median here, median elsewhere, how often higher), or None."""
    here = [value for item, value in enumerate(values) if item in chosen and value is not None]
    there = [value for item, value in enumerate(values) if item not in chosen and value is not None]
    if min(len(here), len(there)) < FEWEST:
        return None
    lead = sum((a > b) - (a < b) for a in here for b in there) / (2 * len(here) * len(there))
    every = [*here, *there]
    n = len(every)
    ties = sum(every.count(value) ** 3 - every.count(value) for value in set(every)) / (n**3 - n)
    z = lead * len(here) * len(there) / math.sqrt(len(here) * len(there) * (n + 1) / 12 * (1 - ties))
    if abs(lead) < LEAST_LEAD or math.erfc(abs(z) / math.sqrt(2)) > LARGEST_P / tested:
        return None
    return float(np.median(here)), float(np.median(there)), 0.5 + lead


@settings(max_examples=40)
@given(st.integers(0, 20), st.integers(1, 200), st.sampled_from(["any", *TAGS, "late"]), st.integers(0, 1000))
def test_a_profile_is_what_counting_by_hand_gives(seed, size, kind, draw):
    items, concept_of = catalogue(seed)
    random = np.random.default_rng(draw)
    pool = {
        "any": np.arange(300),
        "late": np.arange(200, 300),
    }.get(kind, np.flatnonzero([kind in tags for tags in items.table.column("tags").to_pylist()]))
    chosen = random.choice(pool, min(size, len(pool)), replace=False)
    profile = Profiler(items, concept_of).of(chosen)
    more, less, tested = profile_by_hand(items, concept_of, set(chosen.tolist()))
    for found, expected in ((profile.more, more), (profile.less, less)):
        assert {(entry.attribute, entry.value): entry.items for entry in found} == {
            key: shares[0] for key, shares in expected.items()
        }
        for entry in found:
            assert (entry.inside, entry.outside) == pytest.approx(expected[entry.attribute, entry.value][1:])
            assert entry.lift == (pytest.approx(entry.inside / entry.outside) if entry.outside else None)
            assert (entry.concept is None) == (entry.attribute != "concept")
        assert [abs(entry.z) for entry in found] == sorted((abs(entry.z) for entry in found), reverse=True)
    columns = {"price": items.table.column("price").to_pylist(), "popularity": items.popularity.tolist()}
    shifts = {name: shift_by_hand(values, set(chosen.tolist()), tested) for name, values in columns.items()}
    found = {shift.attribute: (shift.inside, shift.outside, shift.higher) for shift in profile.numbers}
    assert found == {name: pytest.approx(shift) for name, shift in shifts.items() if shift is not None}


def test_items_drawn_at_random_have_nothing_that_sets_them_apart():
    items, concept_of = catalogue(1)
    profiler, random = Profiler(items, concept_of), np.random.default_rng(2)
    profiles = [profiler.of(random.choice(300, random.integers(3, 200), replace=False)) for _ in range(300)]
    assert sum(bool(profile.more or profile.less or profile.numbers) for profile in profiles) <= 6


def test_a_rare_value_that_no_other_item_has_is_found_and_has_no_lift():
    brands = [f"brand {item % 9}" for item in range(400)]
    brands[10:18] = ["Rare"] * 8
    items = SimpleNamespace(table=pa.table({"brand": brands}), popularity=np.ones(400, dtype=int))
    (rare,) = Profiler(items).of(np.arange(10, 24)).more
    assert (rare.value, rare.items, rare.outside, rare.lift) == ("Rare", 8, 0.0, None)


@pytest.mark.parametrize("chosen", [[], [7], range(300)])
def test_nothing_is_said_where_there_is_nothing_to_compare(chosen):
    profile = Profiler(*catalogue(3)).of(np.array(chosen, dtype=np.int64))
    assert profile == (len(chosen), (), (), ())


def test_yes_and_no_and_dates_are_written_as_people_write_them():
    days = [date(2020 + item // 100, 1, 1 + item % 28) for item in range(400)]
    table = pa.table({"on_sale": [item >= 300 for item in range(400)], "added": days})
    items = SimpleNamespace(table=table, popularity=np.arange(400))
    profile = Profiler(items).of(np.arange(300, 400))
    assert [entry.text for entry in profile.more] == ["on sale"]
    shift = next(shift for shift in profile.numbers if shift.attribute == "added")
    assert shift.inside_text.startswith("2023-01-")
    assert shift.outside_text.startswith("2021-01-")


def test_a_catalogue_without_attributes_is_compared_by_concept_and_popularity():
    items = SimpleNamespace(table=None, popularity=np.arange(100))
    profile = Profiler(items, np.repeat([0, 1], 50)).of(np.arange(60, 100))
    assert [(entry.concept, entry.inside) for entry in profile.more] == [(1, 1.0)]
    assert [shift.attribute for shift in profile.numbers] == ["popularity"]
