"""Attributes compared item by item, and which of them move together, against naive counts."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from macrid.concepts.facts import FAR, NEAR, Facts, Number, Values, facts_of, loss
from macrid.concepts.space import space_of
from macrid.evaluation.agreement import scores_of
from tests.planted import planted

tag_lists = st.lists(st.sets(st.integers(0, 5)), min_size=2, max_size=12)


def values_of(sets, has_several=True):
    flags = np.array([[value in own for value in range(6)] for own in sets], dtype=float)
    return Values("tags", sp.csr_array(flags), flags.any(axis=1), has_several)


def with_table(table):
    """The facts of 100 items of one concept, known for the first 200 of the catalogue."""
    model = planted()[0]
    model.table, model.cached = pa.table({name: list(values) * 2 for name, values in table.items()}), None
    return facts_of(space_of(model), 0)


def names_of(found):
    return [fact.name for fact in found.facts]


@given(tag_lists, st.data())
def test_what_tags_lose_is_one_minus_jaccard(sets, data):
    item = data.draw(st.integers(0, len(sets) - 1))
    expected = [1 - len(own & sets[item]) / len(own | sets[item]) if own and own | sets[item] else 1.0 for own in sets]
    assert values_of(sets).lost(item) == pytest.approx(expected if sets[item] else [1.0] * len(sets))


def test_a_category_is_kept_or_lost():
    colours = values_of([{0}, {1}, {0}, set()], has_several=False)
    assert colours.lost(0).tolist() == [0, 1, 0, 1]
    assert [colours.is_known(item) for item in range(4)] == [True, True, True, False]


def test_numbers_are_kept_while_near_and_lost_the_further_they_are():
    years = Number("year", np.array([*range(1900, 2001), np.nan]))
    lost = years.lost(50)
    assert (lost[41:60] == 0).all()  # a tenth of 90 years
    assert lost[40] == pytest.approx((10 / 90 - NEAR) / (FAR - NEAR), abs=1e-6)
    assert (np.diff(lost[60:96]) > 0).all()  # half of 90 years
    assert lost[96:].tolist() == [1] * 6
    assert loss(np.array([0, NEAR, 0.3, FAR, 7])) == pytest.approx([0, 0, 0.5, 1, 1])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0.1, 100), st.floats(-100, 100))
def test_no_unit_of_a_coordinate_or_date_changes_what_is_lost(values, factor, shift):
    values = np.round(np.array(values), 3)
    plain, other = (Number("x", each, is_interval=True).scaled for each in (values, factor * values + shift))
    np.testing.assert_allclose(np.abs(other - other[0]), np.abs(plain - plain[0]), atol=1e-6)


def test_a_few_outliers_do_not_widen_the_spread():
    sizes = Number("size", np.append(np.linspace(2, 5, 99), 400.0))
    assert sizes.lost(0)[50] > 0.5


def test_prices_over_orders_of_magnitude_are_compared_by_ratio():
    prices = Number("price", np.geomspace(10, 10_000, 101))
    lost = prices.lost(50)
    assert np.flatnonzero(lost == 0).tolist() == list(range(41, 60))
    assert Number("date", prices.values, is_interval=True).lost(0)[30] == 0  # 10 and 79 are near, as of 10,000


def test_equal_or_unknown_numbers_have_no_spread_and_lose_nothing_or_all():
    assert Number("x", np.array([3.0, 3, 3])).lost(0).tolist() == [0, 0, 0]
    assert np.isnan(Number("x", np.full(2, np.nan)).scaled).all()
    mostly = Number("x", np.array([*[1.0] * 99, 2.0]))
    assert mostly.lost(0)[-1] == 1


def test_attributes_that_explain_half_of_another_are_tied_to_it():
    random = np.random.default_rng(0)
    warmth = random.normal(size=100)
    facts = with_table(
        {
            "warmth": warmth,
            "coolness": -3 * warmth + 0.3 * random.normal(size=100),
            "hue": np.abs(warmth) + 0.01 * random.normal(size=100),  # explains warmth except for its sign
            "colour": np.digitize(warmth, (-1, -0.3, 0.3, 1)).astype(str),
            "size": random.normal(size=100),
            "slightly": warmth + 2 * random.normal(size=100),
            "metal": random.choice(["gold", "silver"], 100),
            "maker": [f"maker {number}" for number in random.integers(0, 45, 100)],
        }
    )
    found = facts.apart_from("warmth", warmth)
    assert found.tied == ["warmth", "coolness", "colour"]
    assert names_of(found) == ["hue", "size", "slightly", "metal", "maker"]


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_random_groups_explain_nothing_however_many(seed, groups):
    random = np.random.default_rng(seed)
    codes = random.integers(0, groups, 100)
    flags = sp.csr_array((np.ones(100), codes, np.arange(101)), (100, groups))
    category = Values("maker", flags, np.ones(100, dtype=bool))
    assert category.apart_from(scores_of(random.normal(size=100))) is category


def test_of_tags_only_the_one_walked_along_and_its_likes_are_left_out():
    random = np.random.default_rng(1)
    scifi, comedy = random.random((2, 100)) < 0.4
    tags = [
        ["sf"] * s + ["science fiction"] * s + ["comedy"] * c + ["film"]
        for s, c in zip(scifi.tolist(), comedy.tolist(), strict=True)
    ]
    facts = with_table({"tags": tags})
    (found,) = facts.apart_from("tags: sf", scifi.astype(float)).facts
    assert isinstance(found, Values)
    assert found.is_part
    assert found.flags.shape[1] == 2
    one, other = int(np.flatnonzero(scifi & comedy)[0]), int(np.flatnonzero(~scifi & comedy)[0])
    assert found.lost(one)[other] == 0
    assert found.lost(one)[int(np.flatnonzero(scifi & ~comedy)[0])] == pytest.approx(0.5)


def test_two_items_without_other_tags_are_alike():
    facts = with_table({"tags": [["sf"]] * 30 + [["sf", "war"]] * 30 + [["war"]] * 38 + [[]] * 2})
    flags = np.repeat([1.0, 1.0, 0.0, np.nan], (30, 30, 38, 2))
    (found,) = facts.apart_from("tags: sf", flags).facts
    lost = found.lost(0)
    assert lost[:30].tolist() == [0] * 30
    assert lost[30:].tolist() == [1] * 70  # other tags, or nothing known
    assert not found.is_known(99)


def test_missing_values_count_for_nothing_when_ties_are_measured():
    random = np.random.default_rng(2)
    size, known = random.normal(size=100), random.random(100) < 0.6
    facts = with_table(
        {
            "twin": np.where(known, size, np.nan),
            "label": [f"{value:.0f}" if ok else None for value, ok in zip(size, known, strict=True)],
        }
    )
    assert facts.apart_from("size", size).tied == ["twin", "label"]
    assert facts.apart_from("nothing", np.full(100, np.nan)).tied == []
    assert facts.apart_from("constant", np.ones(100)).tied == []


def test_titles_are_not_compared_and_dates_by_their_distance():
    days = np.datetime64("1970-01-02") + np.arange(100) * np.timedelta64(150, "D")
    facts = with_table({"title": [f"Item {n % 9}" for n in range(100)], "day": days.tolist()})
    (found,) = facts.all
    assert (found.name, found.is_interval) == ("day", True)


def test_facts_are_computed_once():
    space = space_of(planted()[0])
    assert facts_of(space, 0) is facts_of(space, 0)
    facts = Facts(space, 1)
    sizes = facts.all[0].values
    assert facts.apart_from("size", sizes) is facts.apart_from("size", np.zeros(len(sizes)))
