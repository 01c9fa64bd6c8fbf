"""Titles taken apart, and the values of attributes that search knows."""

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.search_index import SearchIndex, Title
from macrid.control.spelling import words_of


@pytest.mark.parametrize(
    ("title", "words", "more", "year"),
    [
        ("Matrix, The (1999)", "the matrix", "", "1999"),
        ("Misérables, Les (1995)", "les miserables", "", "1995"),
        ("Avventura, L' (Adventure, The) (1960)", "l avventura", "adventure the", "1960"),
        ("Heat", "heat", "", None),
        ("2010 (1984)", "2010", "", "1984"),
        ("Paris, Texas (1984)", "paris texas", "", "1984"),
        ("(500) Days of Summer (2009)", "500 days of summer", "", "2009"),
        ("Sopranos, The (1999-2007)", "the sopranos", "", "1999"),
        ("(1999)", "1999", "", None),
        ("!!!", "!!!", "", None),
        ("", "", "", None),
    ],
)
def test_titles_are_taken_apart(title, words, more, year):
    read = Title.read(title)
    assert (" ".join(read.words), " ".join(read.more), read.year) == (words, more, year)


@given(
    st.text("aé日 (),'.-", max_size=12) | st.text(max_size=12), st.sampled_from(["", ", The", " (1999)", ", A (2001)"])
)
def test_the_parts_of_a_title_are_its_words(text, end):
    title = Title.read(text + end)
    assert title.listed == words_of(text + end) or not words_of(text)
    assert sorted([*title.words, *title.more, *[title.year] * (title.year is not None)]) == sorted(title.listed)


def test_values_are_those_that_people_search_by():
    table = pa.table(
        {
            "title": ["A", "B", "C"],
            "genres": [["Comedy", "War"], [], None],
            "tags": pa.array(["old|short", None, "old"]).dictionary_encode(),
            "year": [1999, None, 2001],
            "released": [date(1985, 5, 1), None, date(1969, 12, 31)],
            "price": [1.5, 2.0, 3.0],
            "stars": [4.0, None, 5.0],
            "sold": [True, False, True],
            "link": ["https://a.b/c", None, "x"],
            "text": ["long " * 20, "", "short"],
        }
    )
    index = SearchIndex(["A (1980)", None, "C"], table)
    values = [sorted(index.values[value] for value in index.of_item[item]) for item in range(3)]
    assert values == [
        ["1980", "1985", "1999", "4", "Comedy", "War", "old", "short"],
        [],
        ["1969", "2001", "5", "old", "short", "x"],
    ]


def test_numbers_that_differ_for_nearly_all_items_are_not_searched():
    count = 1_000
    table = pa.table({"barcode": range(10_000, 10_000 + count), "year": [1990 + place % 30 for place in range(count)]})
    assert set(SearchIndex([None] * count, table).values) == {str(year) for year in range(1990, 2020)}
