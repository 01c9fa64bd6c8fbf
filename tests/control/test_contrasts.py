"""What two lists differ in: the clearest attributes first, in their own terms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.contrasts import LEAST, MOST, contrasts
from macrid.data.attributes import Column


def column(name, values, kind="number"):
    return Column(name, name.partition(": ")[0], kind, np.array(values, dtype=np.float64))


YEAR = column("year", [1950, 1960, 1970, 1980, 1990, 2000, np.nan, 2010])
COMEDY = column("genres: Comedy", [1, 1, 1, 0, 0, 0, 0, 0], "tag")
SAME = column("price", [5] * 8)
NOISE = column("size", [1, 2, 1, 9, 1, 2, 2, 1.5])
LEFT, RIGHT = np.array([0, 1, 2, 6]), np.array([4, 5, 7])


def test_means_and_shares_are_those_of_the_items_whose_value_is_known():
    found = {each.name: each for each in contrasts([SAME, NOISE, YEAR, COMEDY], LEFT, RIGHT)}
    assert set(found) == {"year", "genres: Comedy"}
    year, comedy = found["year"], found["genres: Comedy"]
    assert (year.left, year.right, year.left_known, year.right_known) == (1960, 2000, 3, 3)
    assert (year.kind, year.value, year.left_is) == ("number", None, "older")
    assert (comedy.left, comedy.right, comedy.left_known) == (0.75, 0, 4)
    assert (comedy.kind, comedy.attribute, comedy.value, comedy.left_is) == ("share", "genres", "Comedy", None)


def test_the_strength_is_the_difference_in_standard_errors():
    (year,) = contrasts([YEAR], LEFT, RIGHT)
    both = [1950, 1960, 1970, 1990, 2000, 2010]
    assert year.strength == pytest.approx(40 / (np.std(both) * np.sqrt(1 / 3 + 1 / 3)))


def test_numbers_have_words_where_english_has_them():
    names = ["Release date", "list_price", "popularity", "rating", "heel"]
    columns = [column(name, [9, 9, 9, 1, 1, 1]) for name in names]
    one, other = (contrasts(columns, *lists) for lists in ([[0, 1, 2], [3, 4, 5]], [[3, 4, 5], [0, 1, 2]]))
    words = {name: ({e.name: e.left_is for e in one}[name], {e.name: e.left_is for e in other}[name]) for name in names}
    assert words == {
        "Release date": ("newer", "older"), "list_price": ("pricier", "cheaper"), "heel": (None, None),
        "popularity": ("more popular", "more niche"), "rating": ("better", "worse"),
    }  # fmt: skip


def test_equal_and_empty_lists_differ_in_nothing():
    assert contrasts([YEAR, COMEDY], LEFT, LEFT[::-1]) == []
    assert contrasts([YEAR, COMEDY], LEFT, np.zeros(0, dtype=np.int64)) == []
    assert contrasts([YEAR], np.array([6]), RIGHT) == []  # no known year


@given(st.lists(st.lists(st.floats(-1e6, 1e6) | st.just(np.nan), min_size=6, max_size=6), max_size=12))
def test_swapping_the_lists_swaps_the_sides_and_the_order_stays(tables):
    columns = [column(f"c{place}", values) for place, values in enumerate(tables)]
    one, other = (contrasts(columns, *lists) for lists in ([[0, 1, 2], [3, 4, 5]], [[3, 4, 5], [0, 1, 2]]))
    assert [(each.name, each.left, each.right) for each in one] == [(e.name, e.right, e.left) for e in other]
    assert [each.strength for each in one] == sorted((each.strength for each in one), reverse=True)
    assert all(each.strength >= LEAST for each in one)
    assert len(one) <= MOST


def test_what_was_moved_comes_first_however_little_it_moved():
    size = column("size", [1, 2, 1, 9, 1, 2, 2, 1.6])
    found = contrasts([size, YEAR, COMEDY], LEFT, RIGHT, first={"size"}, most=2)
    assert [each.name for each in found] == ["size", "year"]
    assert contrasts([YEAR], LEFT, LEFT, first={"year"}) == []
