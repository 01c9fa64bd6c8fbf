"""Conditions on items, against a slow truth: each item judged by itself, with three truth values."""

import contextlib
import datetime
import math
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.where import DEEPEST, LONGEST, Selector, clauses
from macrid.data.ids import Ids
from macrid.errors import RequestError

ROWS = [
    {"price": 10, "genre": "Comedy|Drama", "title": "A|B", "new": True, "out": datetime.date(2026, 1, 31), "b y": "x"},
    {"price": 30, "genre": "Comedy", "title": "It's", "new": False, "out": datetime.date(2025, 5, 1), "b y": None},
    {"price": None, "genre": "Horror", "title": "Alien", "new": None, "out": None, "b y": "y"},
    {"price": -2, "genre": None, "title": None, "new": True, "out": datetime.date(2026, 3, 1), "b y": ""},
    {"price": 2**40, "genre": "Drama|Horror", "title": 'Say "hi"', "new": False, "out": None, "b y": "x"},
]
POPULARITY = [5, 3, 0, 9, 1]


@pytest.fixture(scope="module")
def select():
    catalogue = SimpleNamespace(
        items=Ids([f"i{number}" for number in range(5)]),
        table=pa.Table.from_pylist(ROWS).append_column("raw", pa.array([b"x"] * 5)),
        popularity=np.array(POPULARITY),
    )
    return Selector(catalogue)


def chosen(selection):
    return np.flatnonzero(selection.mask).tolist()


@pytest.mark.parametrize(
    ("condition", "items"),
    [
        ("price < 30 and genre = 'Comedy'", [0]),
        ("price <= 30 AND genre = 'Comedy'", [0, 1]),
        ("price > -2.5 and price < 1e1", [3]),
        ("price = 1099511627776", [4]),
        ("price in (10, 30)", [0, 1]),
        ("genre in ('Drama', 'Horror')", [0, 2, 4]),
        ("genre not in ('Drama', 'Horror')", [1]),
        ("genre != 'Comedy'", [2, 4]),
        ("not genre = 'Comedy'", [2, 4]),
        ("genre is missing", [3]),
        ("price is not missing", [0, 1, 3, 4]),
        ("genre contains 'COM'", [0, 1]),
        ("title = 'A|B'", [0]),
        ("title = 'It''s'", [1]),
        ("""title = 'Say "hi"'""", [4]),
        ("title contains 'a' or title contains 'I'", [0, 1, 2, 4]),
        ("new = true", [0, 3]),
        ("new != true", [1, 4]),
        ("out >= '2026-01-31'", [0, 3]),
        ("out < '2026-01-31T00:00:00+00:00'", [1]),
        ("`b y` = 'x'", [0, 4]),
        ('"b y" is missing', [1, 3]),
        ("popularity >= 5", [0, 3]),
        ("id = 'i2' or id in ('i3')", [2, 3]),
        ("not (price < 30 or genre = 'Horror')", [1]),
        ("price<30 or(popularity=0)", [0, 2, 3]),
        ("price == 10 or price <> 10 and new = TRUE", [0, 3]),
        (" \n price\t< 30 ", [0, 3]),
    ],
)
def test_conditions_choose_the_items_that_meet_them(select, condition, items):
    selection = select(condition)
    assert chosen(selection) == items
    assert selection.warnings == ()


@pytest.mark.parametrize(
    ("condition", "place", "problem"),
    [
        ("", "[]", "name of an attribute"),
        ("price <", "price <[]", "a value is expected"),
        ("price < and new = true", "price < [and] new", "a value is expected"),
        ("genre = Comedy", "genre = [Comedy]", "text needs quotes"),
        ("genre = 'Comedy", "genre = ['Comedy]", "never closed"),
        ("pric < 3", "[pric] < 3", "did you mean 'price'"),
        ("zzz < 3", "[zzz] < 3", "they have id, price"),
        ("price < '3'", "price [<] '3'", "'price' is a number; compare it with one"),
        ("price = true", "price [=] true", "is a number"),
        ("new > false", "new [>] false", "true or false"),
        ("new = 1", "new [=] 1", "true or false"),
        ("genre > 'A'", "genre [>] 'A'", "'genre' is text"),
        ("out > 'soon'", "out [>] 'soon'", "is a date"),
        ("out > 3", "out [>] 3", "is a date"),
        ("price contains '1'", "price [contains]", "is a number"),
        ("id > 3", "id [>] 3", "has no order"),
        ("raw = 'x'", "[raw] = 'x'", "has type binary"),
        ("price < 3 new = true", "price < 3 [new] = true", "'and' or 'or'"),
        ("(price < 3", "(price < 3[]", "')' is expected"),
        ("price < 3)", "price < 3[)]", "'and' or 'or'"),
        ("price in 3", "price in [3]", "'(' is expected"),
        ("price in (3; 4)", "price in (3[;] 4)", "unexpected character"),
        ("price not < 3", "price not [<] 3", "in or contains"),
        ("price is 3", "price is [3]", "'missing' is expected"),
        ("price", "price[]", "a comparison"),
        ("and", "[and]", "name of an attribute"),
        ("price\n<\n\x00", "price < [\x00]", "unexpected"),
    ],
)
def test_mistakes_are_pointed_at_in_one_line(select, condition, place, problem):
    with pytest.raises(RequestError, match=re.escape(place)) as error:
        select(condition)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_values_that_no_item_has_are_reported(select):
    selection = select("genre = 'Comdy' or genre in ('Horror', 'x', 'y') or id = 'i9' or price = 7")
    assert chosen(selection) == [2, 4]
    assert selection.warnings == (
        "where: no item has genre 'Comdy'; did you mean 'Comedy'?",
        "where: no item has genre 'x' and 1 more",
        "where: no item has id 'i9'",
    )


def test_depth_and_length_are_limited(select):
    assert chosen(select("(" * (DEEPEST - 1) + "price < 3" + ")" * (DEEPEST - 1))) == [3]
    for condition in ("(" * 10_000 + "price < 3" + ")" * 10_000, "not " * 10_000 + "price < 3"):
        with pytest.raises(RequestError, match="levels"):
            select(condition)
    with pytest.raises(RequestError, match="characters"):
        select(" " * (LONGEST + 1))
    assert chosen(select("price < 3" + " or price < 3" * 999)) == [3]
    with pytest.raises(RequestError, match="1,000 values"):
        select("price < 3" + " or price < 3" * 1_000)


def test_integer_ids_are_compared_exactly():
    select = Selector(
        SimpleNamespace(
            items=Ids([2**53, 2**53 + 1]), table=pa.table({"ean": [2**53, 2**53 + 1]}), popularity=np.ones(2)
        )
    )
    assert chosen(select(f"id = {2**53 + 1}")) == [1]
    assert chosen(select(f"id in ('{2**53}')")) == [0]
    assert chosen(select(f"ean = {2**53}")) == [0]
    assert chosen(select(f"ean > {2**53}")) == [1]
    assert chosen(select("id = 007")) == []


VALUES = {
    "price": [10, 30, -2, 5.5, 2**40],
    "genre": ["Comedy", "Drama", "Horror"],
    "title": ["A|B", "It's", "Alien"],
    "popularity": [0, 3, 5],
}


def meaning(value):
    """Of a cell: its values as a list, empty if missing."""
    return [] if value is None else value.split("|") if value in ("Comedy|Drama", "Drama|Horror") else [value]


@st.composite
def comparisons(draw):
    """(text, function from a row to True, False or None)"""
    name = draw(st.sampled_from(sorted(VALUES)))
    values = draw(st.lists(st.sampled_from(VALUES[name]), min_size=1, max_size=3))
    is_text = isinstance(values[0], str)
    written = ["'" + value.replace("'", "''") + "'" if is_text else str(value) for value in values]
    form = draw(st.sampled_from(["=", "!=", "in", "not in", "is missing", *(["contains"] if is_text else ["<", ">="])]))
    if form == "is missing":
        return f"{name} is missing", lambda row: not meaning(row[name])
    holds = {
        "=": lambda values_of: values[0] in values_of,
        "!=": lambda values_of: values[0] not in values_of,
        "in": lambda values_of: any(value in values_of for value in values),
        "not in": lambda values_of: all(value not in values_of for value in values),
        "contains": lambda values_of: any(values[0].lower() in value.lower() for value in values_of),
        "<": lambda values_of: values_of[0] < values[0],
        ">=": lambda values_of: values_of[0] >= values[0],
    }[form]
    right = f"({', '.join(written)})" if "in" in form.split() else written[0]
    return f"{name} {form} {right}", lambda row: holds(meaning(row[name])) if meaning(row[name]) else None


def negated(part):
    return f"not ({part[0]})", lambda row: None if part[1](row) is None else not part[1](row)


def joined(parts, word):
    decisive = word == "or"

    def judge(row):
        found = [part(row) for _, part in parts]
        return decisive if decisive in found else None if None in found else not decisive

    return f" {word} ".join(f"({text})" for text, _ in parts), judge


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map(negated),
        st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.sampled_from(["and", "or"])),
    ),
    max_leaves=6,
)


@given(CONDITIONS)
def test_any_condition_agrees_with_judging_each_item_by_itself(select, condition):
    text, judge = condition
    rows = [{**row, "popularity": count} for row, count in zip(ROWS, POPULARITY, strict=True)]
    assert chosen(select(text)) == [at for at, row in enumerate(rows) if judge(row)]


@given(st.lists(CONDITIONS, min_size=1, max_size=3))
def test_a_condition_means_that_all_of_its_clauses_are_met(select, conditions):
    text = " and ".join(text for text, _ in conditions)
    parts = [set(chosen(select(part))) for part in clauses(text)]
    assert set(chosen(select(text))) == set.intersection(*parts)


def test_clauses_are_what_a_person_would_call_them():
    assert clauses("a < 1 AND `and` in (1, 2) and t = 'x and y' and (b = 1 or c = 2)") == [
        "a < 1", "`and` in (1, 2)", "t = 'x and y'", "(b = 1 or c = 2)",
    ]  # fmt: skip
    assert clauses("a < 1 and b = 2 or c = 3") == ["a < 1 and b = 2 or c = 3"]
    assert clauses(" not (a = 1 and b = 2)") == ["not (a = 1 and b = 2)"]
    with pytest.raises(RequestError, match="never closed"):
        clauses("a = 'x")


PIECES = st.lists(st.sampled_from(["price", "'a'", "<", "in", "(", ")", ",", "not", "3"])).map(" ".join)


@given(st.text(max_size=40) | PIECES)
def test_any_text_is_understood_or_refused(select, text):
    with contextlib.suppress(RequestError):
        assert select(text).mask.dtype == bool


def test_text_is_compared_as_it_is_written():
    table = pa.table({"sku": ["007", "7", "1.10", "true"], "none": pa.nulls(4)})
    select = Selector(SimpleNamespace(items=Ids.range(4), table=table, popularity=np.ones(4)))
    assert [chosen(select(f"sku = {text}")) for text in ("007", "7", "1.10", "'true'", "true")] == [
        [0],
        [1],
        [2],
        [3],
        [3],
    ]
    assert chosen(select("none is missing")) == [0, 1, 2, 3]


def test_numbers_that_are_not_finite_are_missing():
    table = pa.table({"price": [math.nan, math.inf, 1.0, None]})
    select = Selector(SimpleNamespace(items=Ids.range(4), table=table, popularity=np.ones(4)))
    assert chosen(select("price is missing")) == [0, 1, 3]
    assert chosen(select("price > 0")) == [2]
    assert chosen(select("price = 1e999")) == []


def test_items_that_came_after_training_are_new_unless_a_column_says_what_is():
    catalogue = SimpleNamespace(items=Ids(["a", "b", "c"]), table=None, popularity=np.array([3, 2, 0]))
    select = Selector(catalogue, new=1)
    assert select.names == ["id", "popularity", "new"]
    assert chosen(select("new = true")) == [2]
    assert chosen(select("not new = true")) == [0, 1]
    assert Selector(catalogue).names == ["id", "popularity"]
    catalogue.table = pa.table({"new": ["x", "y", "x"]})
    assert chosen(Selector(catalogue, new=1)("new = 'x'")) == [0, 2]
