import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.data.attributes import quantile_bins, read_attribute, read_attributes
from macrid.evaluation.agreement import agreement


def read(values, kind=None):
    return read_attribute("x", pa.chunked_array([pa.array(values, kind)]))


def test_items_without_a_value_are_left_out():
    attribute = read(["a", None, "b", "", "a", "b", " "])
    assert attribute.items.tolist() == [0, 2, 4, 5]
    assert attribute.values == ("a", "b")
    assert agreement(np.array([7, 0, 8, 0, 7, 8, 0]), attribute)["nmi"] == pytest.approx(1)


def test_an_item_of_several_values_counts_in_parts_for_each():
    for values in (["Drama|War", "War", "Drama", "War"], [["War", "Drama"], ["War"], ["Drama"], ["War"]]):
        attribute = read(values)
        np.testing.assert_array_equal(attribute.shares.toarray(), [[0.5, 0.5], [0, 1], [1, 0], [0, 1]])
        scores = agreement(np.zeros(4, int), attribute)
        assert scores["purity"] == scores["largest"] == pytest.approx(2.5 / 4)


def test_several_values_become_one_factor_each_if_they_are_frequent():
    attribute = read(["a|b", "a", "b", "a", None] * 20 + ["rare|a"])
    factors = attribute.factors(101)
    assert list(factors) == ["x: a", "x: b"]
    assert factors["x: b"][:5].tolist() == [True, False, True, False, None]


def test_few_numbers_are_values_and_many_are_ten_groups_of_equal_size():
    assert read([3, 1, None, 3, 1]).values == ("1", "3")
    prices = np.random.default_rng(0).lognormal(size=1000)
    attribute = read(prices)
    assert attribute.shares.sum(axis=0).tolist() == [100] * 10
    np.testing.assert_array_equal(attribute.factors(1000)["x"], prices)


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        ([50010850, 50010851], None, ("50010850", "50010851")),
        ([2**60, 2**60 + 1], None, ("1152921504606846976", "1152921504606846977")),
        ([100.00001, 100.00002, 3], None, ("3", "100.00001", "100.00002")),
        ([0.1, 0.7], pa.float32(), ("0.1", "0.7")),
        ([decimal.Decimal("1.10"), decimal.Decimal("2.25")], None, ("1.1", "2.25")),
        ([datetime.date(1960, 1, 1), datetime.date(2020, 2, 29)], None, ("1960-01-01", "2020-02-29")),
        ([datetime.datetime(2020, 1, 1, 7), datetime.datetime(2020, 1, 1, 8)], None,
         ("2020-01-01T07:00:00", "2020-01-01T08:00:00")),
    ],
)  # fmt: skip
def test_different_numbers_and_dates_have_different_names(values, kind, names):
    assert read(values * 3, kind).values == names


def test_groups_are_named_by_numbers_that_occur_and_differ():
    values = read(np.arange(50010000, 50010060).repeat(3)).values
    assert values[:2] == ("below 50010006", "from 50010006")
    assert len(set(values)) == len(values) == 10


def test_whole_numbers_of_an_items_own_are_no_attribute_and_others_are_grouped_by_five_at_least():
    assert read(list(range(18))) is None
    assert read([n // 2 for n in range(18)]).shares.shape == (18, 9)
    own = np.random.default_rng(0).normal(size=18)
    assert read(own).shares.sum(axis=0).tolist() == [6, 6, 6]
    assert read(own[:3]) is None


@pytest.mark.parametrize("others", [25, 60])
def test_numbers_that_nearly_all_are_the_smallest_make_two_groups_at_it_and_above(others):
    attribute = read(np.append(np.zeros(1000 - others), np.arange(others) + 5.0))
    assert attribute.values == ("below 5", "from 5")
    assert attribute.shares.sum(axis=0).tolist() == [1000 - others, others]


def test_dates_are_numbers():
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(n) for n in range(99)]
    assert read([*days, None]).shares.shape == (99, 10)


def test_dates_with_a_time_zone_are_numbers_without_a_warning():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    days = [datetime.datetime(2000, 1, 1, 2, tzinfo=zone) + datetime.timedelta(n) for n in range(99)]
    for kind in (None, pa.timestamp("ns", tz="UTC"), pa.timestamp("s", tz="Asia/Tokyo")):
        attribute = read([*days, None], kind)
        assert attribute.values[:2] == ("below 2000-01-11", "from 2000-01-11")
        assert attribute.numbers[0] == 946684800


@pytest.mark.parametrize(
    "values",
    [["same"] * 9, [f"title {n}" for n in range(40)], list(range(1000)), [None] * 9, [2.5] * 9, [b"x"] * 9, []],
)
def test_what_tells_nothing_or_everything_is_no_attribute(values):
    assert read(values) is None


def test_titles_are_no_attributes():
    table = pa.table({"title": ["a", "a", "b", "b"], "kind": ["a", "a", "b", "b"]})
    assert [attribute.name for attribute in read_attributes(table)] == ["kind"]
    assert read_attributes(None) == []


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80), st.integers(2, 20))
def test_bins_keep_the_order_and_equal_numbers_together(numbers, bins):
    numbers = np.array(numbers)
    codes, edges = quantile_bins(numbers, bins)
    order = np.argsort(numbers, kind="stable")
    assert (np.diff(codes[order]) >= 0).all()
    assert len(edges) < bins
    for value in numbers:
        assert len(set(codes[numbers == value])) == 1
