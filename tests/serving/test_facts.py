"""The few facts on a card."""

import datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest

from macrid.serving.facts import Facts

GENRES = ["Action|Sci-Fi", "Comedy", "Drama|War|Crime|Noir", None] * 10


def facts(**columns):
    return Facts(SimpleNamespace(table=pa.table(columns)))


def test_the_year_and_the_genres_of_a_film():
    films = facts(title=["x"] * 40, genres=GENRES, year=[1999, 1980, None, 2001] * 10, votes=list(range(40)))
    expected = [["1999", "Action, Sci-Fi"], ["1980", "Comedy"], ["Crime, Drama, Noir"], ["2001"]]
    assert [films.of(at) for at in range(4)] == expected


@pytest.mark.parametrize("name", ["release_date", "Released", "year"])
def test_a_date_is_shown_as_its_year(name):
    days = [datetime.date(1999, 3, 31), datetime.date(2001, 1, 1)] * 20
    assert facts(**{name: days}).of(0) == ["1999"]


def test_nothing_is_known_about_items_without_a_table_or_attributes():
    assert Facts(SimpleNamespace(table=None)).of(3) == []
    assert facts(title=["a", "b"], link=["http://a", "http://b"]).of(1) == []


def test_the_attribute_that_says_most_is_shown_not_one_that_is_nearly_unique():
    rare = [f"maker {at % 15}" for at in range(40)]
    shop = facts(maker=rare, kind=["bag", "mug", "lamp", "shoe"] * 10, sale=["yes"] * 39 + ["no"])
    assert shop.of(1) == ["mug"]
