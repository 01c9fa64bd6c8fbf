"""Item attributes: read from any type of column, as groups and as numbers, and refused with a reason."""

import datetime
import decimal
import math
import types

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.data.attributes import (
    MOST_WORDS,
    Column,
    columns_of,
    named_column,
    quantile_bins,
    read_attribute,
    read_attributes,
)
from macrid.errors import RequestError
from macrid.evaluation.agreement import agreement


def read(values, kind=None):
    return read_attribute("x", pa.chunked_array([pa.array(values, kind)]))


def test_items_without_a_value_are_left_out():
    attribute = read(["a", None, "b", "", "a", "b", " "])
    assert attribute.items.tolist() == [0, 2, 4, 5]
    assert attribute.values == ("a", "b")
    assert agreement(np.array([7, 0, 8, 0, 7, 8, 0]), attribute)["nmi"] == pytest.approx(1)


def test_an_item_with_several_values_counts_partly_for_each():
    for values in (["Drama|War", "War", "Drama", "War"], [["War", "Drama"], ["War"], ["Drama"], ["War"]]):
        attribute = read(values)
        np.testing.assert_array_equal(attribute.shares.toarray(), [[0.5, 0.5], [0, 1], [1, 0], [0, 1]])
        scores = agreement(np.zeros(4, int), attribute)
        assert scores["purity"] == scores["largest"] == pytest.approx(2.5 / 4)


def test_frequent_values_of_a_list_become_one_factor_each():
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
def test_distinct_numbers_and_dates_have_distinct_names(values, kind, names):
    assert read(values * 3, kind).values == names


def test_groups_are_named_by_numbers_that_occur_and_differ():
    values = read(np.arange(50010000, 50010060).repeat(3)).values
    assert values[:2] == ("below 50010006", "from 50010006")
    assert len(set(values)) == len(values) == 10


def test_unique_integers_are_not_an_attribute_and_real_numbers_are_binned_by_at_least_five():
    assert read(list(range(18))) is None
    assert read([n // 2 for n in range(18)]).shares.shape == (18, 9)
    numbers = np.random.default_rng(0).normal(size=18)
    assert read(numbers).shares.sum(axis=0).tolist() == [6, 6, 6]
    assert read(numbers[:3]) is None


@pytest.mark.parametrize("others", [25, 60])
def test_numbers_that_nearly_all_equal_the_smallest_make_two_groups(others):
    attribute = read(np.append(np.zeros(1000 - others), np.arange(others) + 5.0))
    assert attribute.values == ("below 5", "from 5")
    assert attribute.shares.sum(axis=0).tolist() == [1000 - others, others]


def test_dates_are_binned_like_numbers_in_any_time_zone():
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(n) for n in range(99)]
    assert read([*days, None]).shares.shape == (99, 10)
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
def test_columns_that_distinguish_no_item_or_every_item_are_not_attributes(values):
    assert read(values) is None


def test_titles_are_not_attributes():
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


COUNT = 60


def a_model(table=None, popularity=None):
    count = COUNT if table is None else len(next(iter(table.values())))
    popularity = np.arange(count) if popularity is None else popularity
    return types.SimpleNamespace(table=None if table is None else pa.table(table), popularity=popularity)


def read_columns(words=False, **table):
    """Columns by name, except popularity."""
    return {column.name: column for column in columns_of(a_model(table), words=words)[1:]}


def refused(name, **table):
    with pytest.raises(RequestError) as error:
        named_column(a_model(table), name)
    assert f"'{name}'" in str(error.value)
    return str(error.value)


def test_popularity_comes_first_and_needs_no_table():
    (column,) = columns_of(a_model())
    assert (column.name, column.attribute, column.kind, column.value) == ("popularity",) * 3 + (None,)
    np.testing.assert_array_equal(column.values, np.arange(COUNT))
    assert columns_of(a_model({"price": [0.5 * place for place in range(COUNT)]}))[0].name == "popularity"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float64()])
def test_numbers_are_unchanged_and_missing_ones_are_nan(kind):
    values = [None if place % 6 == 0 else place % 9 for place in range(COUNT)]
    found = read_columns(size=pa.array(values, kind))["size"]
    assert (found.kind, found.attribute, found.value) == ("number", "size", None)
    np.testing.assert_array_equal(found.values, [math.nan if value is None else value for value in values])


def test_decimals_are_numbers_and_infinities_are_missing():
    values = [decimal.Decimal(place) / 4 for place in range(COUNT)]
    np.testing.assert_array_equal(read_columns(price=values)["price"].values, np.arange(COUNT) / 4)
    values = [(math.inf, math.nan, -math.inf)[place // 2 % 3] if place % 2 else place / 4 for place in range(COUNT)]
    found = read_columns(price=values)["price"].values
    np.testing.assert_array_equal(np.isfinite(found), np.arange(COUNT) % 2 == 0)
    assert np.isnan(found[1::2]).all()


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("ms"), pa.timestamp("us", "Europe/Paris")])
def test_dates_are_seconds_since_1970(kind):
    begin = datetime.datetime(1969, 12, 1)
    dates = [None if place % 7 == 3 else begin + datetime.timedelta(days=place) for place in range(COUNT)]
    found = read_columns(released=pa.array(dates, kind))["released"]
    assert found.kind == "number"
    known = [place for place in range(COUNT) if dates[place] is not None]
    expected = [(dates[place] - datetime.datetime(1970, 1, 1)).total_seconds() for place in known]
    np.testing.assert_array_equal(found.values[known], expected)
    assert np.isnan(np.delete(found.values, known)).all()


def test_a_category_has_a_column_per_value_that_is_neither_rare_nor_nearly_universal():
    assert read_columns(kind=["bag"] * 51 + ["mug"] * 9) == {}
    assert list(read_columns(kind=["bag"] * 50 + ["mug"] * 10)) == ["kind: bag", "kind: mug"]
    kinds = ["bag"] * 30 + ["mug"] * 19 + ["lamp"] * 6 + [None, "", " ", "  ", None]
    found = read_columns(kind=kinds)
    assert list(found) == ["kind: bag", "kind: mug"]
    bag = found["kind: bag"]
    assert (bag.kind, bag.attribute, bag.value) == ("category", "kind", "bag")
    np.testing.assert_array_equal(bag.values, [1.0] * 30 + [0.0] * 25 + [math.nan] * 5)


def test_booleans_are_two_values():
    found = read_columns(vegan=[None if place % 10 == 0 else place % 3 == 0 for place in range(COUNT)])
    assert list(found) == ["vegan: False", "vegan: True"]
    assert {column.kind for column in found.values()} == {"category"}
    total = found["vegan: False"].values + found["vegan: True"].values
    np.testing.assert_array_equal(total, np.where(np.arange(COUNT) % 10 == 0, np.nan, 1.0))


def test_lists_and_text_with_bars_are_tags():
    lists = [[], None, ["red", "red", "big"], ["big", None], ["small"], ["red", "small"]] * 10
    texts = ["", None, " red|big", "big|", "small", "small | red"] * 10
    by_list, by_text = read_columns(tags=lists), read_columns(tags=texts)
    assert list(by_list) == list(by_text) == ["tags: big", "tags: red", "tags: small"]
    for name, column in by_list.items():
        assert column.kind == by_text[name].kind == "tag"
        np.testing.assert_array_equal(column.values, by_text[name].values)
    np.testing.assert_array_equal(by_list["tags: red"].values[:6], [math.nan, math.nan, 1, 0, 0, 1])


@pytest.mark.parametrize(
    "values",
    [
        [("a", "b", None)[place % 3] for place in range(COUNT)],
        [(1, 5, None, 7)[place % 4] for place in range(COUNT)],
        [datetime.date(2020, 1, 1 + place % 9) for place in range(COUNT)],
    ],
)
def test_a_dictionary_column_reads_like_a_plain_one(values):
    plain, half = pa.array(values), COUNT // 2
    in_chunks = pa.chunked_array([plain[:half].dictionary_encode(), plain[half:].dictionary_encode()])
    expected = read_columns(it=plain)
    for column in (plain.dictionary_encode(), in_chunks):
        found = read_columns(it=column)
        assert list(found) == list(expected)
        for name in found:
            assert found[name].kind == expected[name].kind
            np.testing.assert_array_equal(found[name].values, expected[name].values)


def test_title_words_are_read_on_request():
    titles = [
        f"{'Red' if place % 2 else 'blue'} Bag-{place} of x {'Ünïcode' if place % 3 == 0 else ''}"
        for place in range(58)
    ]
    titles = [*titles, None, None]
    assert read_columns(title=titles) == {}
    found = read_columns(words=True, title=titles)
    assert list(found) == ["title: blue", "title: red", "title: ünïcode"]  # bag is in all; as often, by the alphabet
    red = found["title: red"]
    assert (red.kind, red.attribute, red.value) == ("word", "title", "red")
    np.testing.assert_array_equal(red.values, [0.0, 1.0] * 29 + [math.nan] * 2)


def test_only_the_most_frequent_words_are_columns():
    def letters(number):
        return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}")

    titles = [" ".join(letters(word) for word in range(260) if place < 20 + word // 10) for place in range(COUNT)]
    found = read_columns(words=True, title=titles)
    assert len(found) == MOST_WORDS
    counts = [column.values.sum() for column in found.values()]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) == 20 + 60 // 10


def test_ids_are_not_columns_but_prices_are():
    assert read_columns(link=[f"http://x/{place}" for place in range(COUNT)], number=range(COUNT)) == {}
    assert list(read_columns(price=[place + 0.5 for place in range(COUNT)])) == ["price"]


NESTED = pa.array([{"a": place % 2} for place in range(COUNT)])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([None] * COUNT, "missing"),
        ([""] * COUNT, "missing"),
        ([math.nan] * COUNT, "missing"),
        ([[]] * COUNT, "missing"),
        (["same"] * COUNT, "'same'"),
        ([*["same"] * 50, *[""] * 10], "'same'"),
        ([["same"]] * COUNT, "['same']"),
        ([True] * COUNT, "True"),
        ([5] * 50 + [None] * 10, "5"),
        ([math.inf, *[5.0] * (COUNT - 1)], "5.0"),
        (list(range(COUNT)), "different"),
        ([str(place) for place in range(COUNT)], "different"),
        ([f"k{place // 5}" for place in range(COUNT)], "10"),
        (NESTED, "struct<a: int64>"),
        (["bag", "mug"] * 30, "'it: bag'"),
        ([place / 2 if place < 12 else None for place in range(COUNT)], "12"),
    ],
)
def test_an_error_says_why_a_column_cannot_be_used(values, reason):
    assert reason in refused("it", it=values)


def test_an_unknown_name_lists_the_columns():
    message = refused("colour", title=["a"] * 60, size=[0.5 * place for place in range(COUNT)], kind=["x", "y"] * 30)
    assert message.endswith("popularity, size, kind: x, kind: y")
    tags = ["|".join(f"t{n:02d}" for n in range(20) if (place + n) % 3) for place in range(COUNT)]
    assert refused("title", title=["a", "b"] * 30, tags=tags).endswith("tags: t10 and 9 more")


def test_constant_popularity_cannot_be_used():
    with pytest.raises(RequestError, match="'popularity'"):
        named_column(a_model(popularity=np.full(COUNT, 4)), "popularity")


def test_a_column_is_found_by_name():
    model = a_model({"kind": ["bag", "mug"] * 30})
    assert named_column(model, "kind: mug").values.tolist() == [0.0, 1.0] * 30
    assert named_column(model, "kind: mug", columns_of(model)).value == "mug"


def test_a_column_is_usable_if_enough_items_have_it_and_enough_lack_it():
    values = np.repeat([1.0, 0.0, np.nan], [12, 30, 18])
    tag = Column("t: a", "t", "tag", values)
    assert tag.is_usable()
    assert not tag.is_usable(np.arange(40, 60))  # two known ones
    assert not tag.is_usable(np.arange(3, 42))  # nine have it
    assert tag.is_usable(np.arange(3, 42), fewest=9)
    number = Column("n", "n", "number", values)
    assert number.is_usable(np.arange(3, 42))
    assert not number.is_usable(np.arange(12, 60))  # all the same
    assert not number.is_usable(np.arange(0))
