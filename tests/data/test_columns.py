"""What is known about items, one number for each: read from any type of column, and refused with a reason."""

import datetime
import decimal
import math
import types
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr, zscore

from macrid.data.attributes import MOST_WORDS, Column, columns_of, named_column
from macrid.errors import RequestError
from macrid.evaluation.agreement import scores_of, spearman

COUNT = 60


def a_model(table=None, popularity=None):
    """All that columns are read from."""
    count = COUNT if table is None else len(next(iter(table.values())))
    popularity = np.arange(count) if popularity is None else popularity
    return types.SimpleNamespace(table=None if table is None else pa.table(table), popularity=popularity)


def read(words=False, **table):
    """Columns by their names, popularity aside."""
    return {column.name: column for column in columns_of(a_model(table), words=words)[1:]}


def refused(name, **table):
    with pytest.raises(RequestError) as error:
        named_column(a_model(table), name)
    assert f"'{name}'" in str(error.value)
    return str(error.value)


def test_popularity_goes_first_and_needs_no_table():
    (column,) = columns_of(a_model())
    assert (column.name, column.attribute, column.kind, column.value) == ("popularity",) * 3 + (None,)
    np.testing.assert_array_equal(column.values, np.arange(COUNT))
    assert columns_of(a_model({"price": [0.5 * place for place in range(COUNT)]}))[0].name == "popularity"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float64()])
def test_numbers_are_taken_as_they_are_and_missing_ones_are_nan(kind):
    values = [None if place % 6 == 0 else place % 9 for place in range(COUNT)]
    found = read(size=pa.array(values, kind))["size"]
    assert (found.kind, found.attribute, found.value) == ("number", "size", None)
    np.testing.assert_array_equal(found.values, [math.nan if value is None else value for value in values])


def test_decimals_and_numbers_that_are_not_finite():
    values = [decimal.Decimal(place) / 4 for place in range(COUNT)]
    np.testing.assert_array_equal(read(price=values)["price"].values, np.arange(COUNT) / 4)
    values = [(math.inf, math.nan, -math.inf)[place // 2 % 3] if place % 2 else place / 4 for place in range(COUNT)]
    found = read(price=values)["price"].values
    np.testing.assert_array_equal(np.isfinite(found), np.arange(COUNT) % 2 == 0)
    assert np.isnan(found[1::2]).all()


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("ms"), pa.timestamp("us", "Europe/Paris")])
def test_dates_are_seconds_since_1970(kind):
    begin = datetime.datetime(1969, 12, 1)
    dates = [None if place % 7 == 3 else begin + datetime.timedelta(days=place) for place in range(COUNT)]
    found = read(released=pa.array(dates, kind))["released"]
    assert found.kind == "number"
    known = [place for place in range(COUNT) if dates[place] is not None]
    expected = [(dates[place] - datetime.datetime(1970, 1, 1)).total_seconds() for place in known]
    np.testing.assert_array_equal(found.values[known], expected)
    assert np.isnan(np.delete(found.values, known)).all()


def test_a_category_has_a_column_for_every_value_that_is_not_rare():
    kinds = ["bag"] * 30 + ["mug"] * 19 + ["lamp"] * 6 + [None, "", " ", "  ", None]
    found = read(kind=kinds)
    assert list(found) == ["kind: bag", "kind: mug"]
    bag = found["kind: bag"]
    assert (bag.kind, bag.attribute, bag.value) == ("category", "kind", "bag")
    np.testing.assert_array_equal(bag.values, [1.0] * 30 + [0.0] * 25 + [math.nan] * 5)


def test_what_nearly_all_items_have_is_no_column():
    kinds = ["bag"] * 51 + ["mug"] * 9
    assert read(kind=kinds) == {}
    assert list(read(kind=["bag"] * 50 + ["mug"] * 10)) == ["kind: bag", "kind: mug"]


def test_yes_and_no_are_two_values():
    found = read(vegan=[None if place % 10 == 0 else place % 3 == 0 for place in range(COUNT)])
    assert list(found) == ["vegan: False", "vegan: True"]
    assert {column.kind for column in found.values()} == {"category"}
    total = found["vegan: False"].values + found["vegan: True"].values
    np.testing.assert_array_equal(total, np.where(np.arange(COUNT) % 10 == 0, np.nan, 1.0))


def test_lists_and_text_with_bars_are_tags():
    lists = [[], None, ["red", "red", "big"], ["big", None], ["small"], ["red", "small"]] * 10
    texts = ["", None, " red|big", "big|", "small", "small | red"] * 10
    by_list, by_text = read(tags=lists), read(tags=texts)
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
def test_a_dictionary_is_read_as_what_it_holds(values):
    plain, half = pa.array(values), COUNT // 2
    in_chunks = pa.chunked_array([plain[:half].dictionary_encode(), plain[half:].dictionary_encode()])
    expected = read(it=plain)
    for column in (plain.dictionary_encode(), in_chunks):
        found = read(it=column)
        assert list(found) == list(expected)
        for name in found:
            assert found[name].kind == expected[name].kind
            np.testing.assert_array_equal(found[name].values, expected[name].values)


def test_words_of_titles_come_when_asked_for():
    titles = [
        f"{'Red' if place % 2 else 'blue'} Bag-{place} of x {'Ünïcode' if place % 3 == 0 else ''}"
        for place in range(58)
    ]
    titles = [*titles, None, None]
    assert read(title=titles) == {}
    found = read(words=True, title=titles)
    assert list(found) == ["title: blue", "title: red", "title: ünïcode"]  # bag is in all; as often, by the alphabet
    red = found["title: red"]
    assert (red.kind, red.attribute, red.value) == ("word", "title", "red")
    np.testing.assert_array_equal(red.values, [0.0, 1.0] * 29 + [math.nan] * 2)


def test_only_the_most_frequent_words_are_columns():
    def letters(number):
        return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}")

    titles = [" ".join(letters(word) for word in range(260) if place < 20 + word // 10) for place in range(COUNT)]
    found = read(words=True, title=titles)
    assert len(found) == MOST_WORDS
    counts = [column.values.sum() for column in found.values()]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) == 20 + 60 // 10


def test_ids_become_nothing_but_prices_stay():
    assert read(link=[f"http://x/{place}" for place in range(COUNT)], number=range(COUNT)) == {}
    assert list(read(price=[place + 0.5 for place in range(COUNT)])) == ["price"]


def test_an_attribute_called_popularity_has_another_name_as_it_has_in_a_run():
    model = a_model({"popularity": [float(place % 7) for place in range(COUNT)]})
    assert [column.name for column in columns_of(model)] == ["popularity", "popularity_"]
    assert named_column(model, "popularity").values[COUNT - 1] == COUNT - 1
    assert named_column(model, "popularity_").values[COUNT - 1] == (COUNT - 1) % 7


NESTED = pa.array([{"a": place % 2} for place in range(COUNT)])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([None] * COUNT, "is missing for all items"),
        ([""] * COUNT, "is missing for all items"),
        ([math.nan] * COUNT, "is missing for all items"),
        ([[]] * COUNT, "is missing for all items"),
        (["same"] * COUNT, "is 'same' for all items"),
        ([*["same"] * 50, *[""] * 10], "is 'same' for all items"),
        ([["same"]] * COUNT, r"is ['same'] for all items"),
        ([True] * COUNT, "is True for all items"),
        ([5] * 50 + [None] * 10, "is 5 for all items"),
        ([math.inf, *[5.0] * (COUNT - 1)], "is 5.0 for all items"),
        (list(range(COUNT)), "is different for nearly all items"),
        ([str(place) for place in range(COUNT)], "is different for nearly all items"),
        ([f"k{place // 5}" for place in range(COUNT)], "has no value that 10 items have"),
        (NESTED, "is of type struct<a: int64>; give numbers, dates, text"),
        (["bag", "mug"] * 30, "has values; choose one, such as 'it: bag'"),
        ([place / 2 if place < 12 else None for place in range(COUNT)], "is known of 12 items only"),
    ],
)
def test_why_a_column_cannot_be_used(values, told):
    assert told in refused("it", it=values)


def test_an_unknown_name_is_told_what_there_is():
    told = refused("colour", title=["a", "b"] * 30, size=[0.5 * place for place in range(COUNT)], kind=["x", "y"] * 30)
    assert told == "no attribute 'colour'; items have popularity, size, kind: x, kind: y"
    told = refused(
        "title",
        title=["a", "b"] * 30,
        tags=["|".join(f"t{n:02d}" for n in range(20) if (place + n) % 3) for place in range(COUNT)],
    )
    assert told.endswith("tags: t10 and 9 more")


def test_popularity_that_is_the_same_for_all_cannot_be_used():
    with pytest.raises(RequestError, match="'popularity' is the same for nearly all items"):
        named_column(a_model(popularity=np.full(COUNT, 4)), "popularity")


def test_a_column_of_a_name_is_found_and_told_apart_from_its_attribute():
    model = a_model({"kind": ["bag", "mug"] * 30})
    assert named_column(model, "kind: mug").values.tolist() == [0.0, 1.0] * 30
    assert named_column(model, "kind: mug", columns_of(model)).value == "mug"


def test_a_column_is_usable_where_enough_items_have_it_and_have_it_not():
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


NUMBERS = st.lists(st.tuples(*[st.integers(-5, 5) | st.floats(-1e6, 1e6)] * 2), min_size=3, max_size=40)


@given(NUMBERS)
def test_rank_correlation_is_that_of_scipy(pairs):
    x, y = np.array(pairs, dtype=float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert spearman(x, y) == 0
    else:
        assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=2, max_size=30))
def test_scores_are_standardised_ranks_of_what_is_known(values):
    values = np.array(values)
    known = np.isfinite(values)
    scores = scores_of(values)
    np.testing.assert_array_equal(np.isfinite(scores), known)
    if known.any() and np.ptp(values[known]):
        ranks = [sum(values[known] < own) + sum(values[known] == own) / 2 for own in values[known]]
        np.testing.assert_allclose(scores[known], zscore(ranks), atol=1e-9)
    else:
        assert (scores[known] == 0).all()


def test_nothing_known_has_no_scores_and_no_correlation():
    with warnings.catch_warnings(action="error"):
        assert np.isnan(scores_of(np.full(4, np.nan))).all()
        assert spearman(np.zeros(0), np.zeros(0)) == 0
