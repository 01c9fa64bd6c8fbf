"""Rules as JSON: what is read, what is refused and how that is said."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.rules import MOST_BOOSTS, MOST_PINS, Boost, Rules
from macrid.errors import RequestError

IDS = st.lists(st.one_of(st.text(max_size=3), st.integers(-5, 5)), max_size=4)
RULES = st.builds(
    Rules,
    where=st.none() | st.text(max_size=5),
    include=st.none() | IDS,
    exclude=st.none() | IDS,
    pins=st.none() | IDS | st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=1),
    boosts=st.none() | st.lists(st.builds(Boost, where=st.text(max_size=5), amount=st.floats(-9, 9)), max_size=2),
    at_most=st.none() | st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=2),
    diversity=st.none() | st.floats(0, 1),
    diversity_by=st.none() | st.lists(st.text(max_size=3), max_size=2),
    shelves=st.none() | st.booleans() | st.integers(0, 9),
    strict=st.none() | st.booleans(),
)


@given(rules=RULES)
def test_rules_survive_json(rules):
    again = Rules.read(json.loads(json.dumps(rules.as_json())))
    assert again == rules
    assert hash(again) == hash(rules)
    assert again.as_json() == rules.as_json()


def test_rules_that_say_different_things_differ():
    some = [{}, {"where": "a = 1"}, {"include": []}, {"exclude": []}, {"pins": ["a"]}, {"pins": {"a": 2}},
            {"shelves": True}, {"shelves": 1}, {"diversity": 0}, {"strict": True}]  # fmt: skip
    assert len({Rules.read(each) for each in some}) == len(some)
    assert [bool(Rules.read(each)) for each in some] == [False] + [True] * (len(some) - 1)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"were": "a = 1"}, "no rule 'were'; choose from where, include"),
        ([], r"not \[\]"),
        ({"where": 3}, "where is 3"),
        ({"include": 3.5}, "include is 3.5"),
        ({"exclude": [["a"]]}, r"exclude\[0\] is \['a'\]"),
        ({"exclude": ["a", True]}, r"exclude\[1\] is True"),
        ({"pins": {"a": 0}}, "rank of 'a' is 0; give a whole number, from 1"),
        ({"pins": {"a": 1.5}}, "rank of 'a' is 1.5"),
        ({"pins": {"a": 2, "b": 2}}, "two items have rank 2"),
        ({"pins": list(range(MOST_PINS + 1))}, r"1,001 items; the limit is 1,000"),
        ({"boosts": {"where": "a = 1", "amount": 1}}, "give a list"),
        ({"boosts": [{"where": "a = 1"}]}, r"boosts\[0\]: a boost is"),
        ({"boosts": [{"where": "a = 1", "amount": "x"}]}, r"boosts\[0\]: amount is 'x'; give a number"),
        ({"boosts": [{"where": "a = 1", "amount": float("nan")}]}, r"boosts\[0\]: amount is nan; give a finite"),
        ({"boosts": [{"where": "a = 1", "amount": 1e9}]}, r"boosts\[0\]: amount is 1e\+09; give a number from"),
        ({"boosts": [{"where": 1, "amount": 1}]}, r"boosts\[0\]: where is 1"),
        ({"boosts": [{"where": "a = 1", "amount": 1}] * (MOST_BOOSTS + 1)}, "51 entries; the limit is 50"),
        ({"at_most": 2}, "at_most is 2; give a number per attribute"),
        ({"at_most": {"genre": 0}}, "'genre' is 0; give a whole number, at least 1"),
        ({"diversity": 1.01}, "diversity is 1.01; give a number from 0 to 1"),
        ({"diversity": True}, "diversity is True"),
        ({"diversity": 10**400}, "finite"),
        ({"diversity_by": [1]}, r"diversity_by is \[1\]"),
        ({"shelves": -1}, "shelves is -1"),
        ({"shelves": "all"}, "shelves is 'all'"),
        ({"strict": 1}, "strict is 1; give true or false"),
    ],
)
def test_a_wrong_rule_is_named_with_its_place_and_a_remedy(rules, problem):
    with pytest.raises(RequestError, match=problem):
        Rules.read(rules)


def test_ids_may_come_from_arrays_and_single_values():
    assert Rules(include=np.array([3, 4, 3])).include == (3, 4)
    assert Rules(exclude="a").exclude == ("a",)
    assert Rules(pins={"a": 9, "b": 2}).as_json() == {"pins": {"b": 2, "a": 9}}
    assert Rules(diversity_by="genre").diversity_by == ("genre",)


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "not JSON"), ("[" * 100_000, "not JSON"), ("[1]", "rules are an object"), ('{"wher": 1}', "no rule 'wher'")],
)
def test_a_bad_file_is_named(tmp_path, content, problem):
    path = tmp_path / "rules.json"
    path.write_text(content)
    with pytest.raises(RequestError, match=f"rules.json: .*{problem}"):
        Rules.load(path)
    with pytest.raises(RequestError, match=r"none.json: cannot be read \(No such file"):
        Rules.load(tmp_path / "none.json")
    path.write_text('\ufeff{"where": "a = 1"}', encoding="utf-8")
    assert Rules.load(path) == Rules(where="a = 1")
