"""What two lists differ in, against means and counts by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.contrast import Contrast
from macrid.data.attributes import Column

YEARS = np.array([1950, 1960, 1970, 1980, 1990, 2000, np.nan, 1999], dtype=float)
COMEDY = np.array([1, 1, 1, 1, 0, 0, 0, 0], dtype=float)
COLUMNS = [
    Column("popularity", "popularity", "popularity", np.full(8, 7.0)),
    Column("year", "year", "number", YEARS),
    Column("genres: Comedy", "genres", "tag", COMEDY),
]


def differences(before, after, **options):
    return Contrast(COLUMNS).differences(np.array(before), np.array(after), **options)


def test_numbers_are_means_and_values_are_counts():
    year, comedy = sorted(differences([4, 5, 6], [0, 1, 2]), key=lambda entry: entry.name, reverse=True)
    assert (year.name, year.value, year.before, year.after) == ("year", None, 1995.0, 1960.0)
    assert (comedy.name, comedy.value, comedy.before, comedy.after) == ("genres: Comedy", "Comedy", 0.0, 3.0)


def test_what_was_moved_comes_first_however_little_it_moved():
    assert differences([0, 1], [1, 2])[0].name == "year"
    assert differences([0, 1, 4], [0, 1, 2], first={"genres: Comedy"})[0].name == "genres: Comedy"
    assert differences([0, 1, 4], [0, 1, 4], first={"year"}) == []


def test_nothing_is_said_about_empty_lists_equal_lists_or_items_without_attributes():
    assert differences([], [0]) == differences([0], []) == differences([2, 3], [3, 2]) == []
    assert Contrast([]).differences(np.array([0]), np.array([1])) == []
    assert differences([6], [6]) == []


@given(st.lists(st.integers(0, 7), min_size=1, unique=True), st.lists(st.integers(0, 7), min_size=1, unique=True))
def test_differences_agree_with_means_and_counts_taken_one_by_one(before, after):
    for entry in differences(before, after, most=9):
        values = YEARS if entry.name == "year" else COMEDY
        for positions, told in ((before, entry.before), (after, entry.after)):
            known = [values[at] for at in positions if np.isfinite(values[at])]
            expected = sum(known) if entry.value else (np.mean(known) if known else np.nan)
            np.testing.assert_allclose(told, expected, rtol=1e-6)
        assert entry.before != entry.after
