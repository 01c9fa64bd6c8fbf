"""Conditions on numbers, for pipelines."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.errors import RequestError
from macrid.report.gate import is_met

NUMBERS = {"ari": 0.85, "names_kept": 1.0, "edited_lost": 0, "ndcg_change": -0.01, "overlap": None}


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("ari < .8", False),
        ("ari<.9", True),
        ("ari < .8 or names_kept >= 1", True),
        ("ari < .9 and names_kept < 1", False),
        ("not ari < .8", True),
        ("not (ari < .9 or names_kept < 1)", False),
        ("ari < .8 or ari < .9 and edited_lost = 0", True),
        ("(ari < .8 or ari < .9) and edited_lost > 0", False),
        ("ndcg_change < -.005", True),
        ("edited_lost != 0", False),
    ],
)
def test_conditions_mean_what_they_say(condition, met):
    assert is_met(condition, NUMBERS) is met


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("", "name of a number is expected"),
        ("arj < .8", "character 1: there is no 'arj'; did you mean 'ari'"),
        ("ari .8", r"comparison such as < or >= is expected here: ari \[.8\]"),
        ("ari < x", r"character 7: a number is expected here: ari < \[x\]"),
        ("ari < .8 names_kept < 1", "'and' or 'or' is expected"),
        ("(ari < .8", r"'\)' is expected"),
        ("ari < .8 or", "name of a number is expected"),
        ("ari < .8; import os", "unexpected character"),
        ("overlap < .5", "overlap is unknown for these runs"),
        ("ari > .1 or overlap < .5", "overlap is unknown"),
        ("(" * 100 + "ari < 1" + ")" * 100, "levels of parentheses"),
        ("ari < 1" * 1000, "characters"),
    ],
)
def test_mistakes_are_pointed_at(condition, problem):
    with pytest.raises(RequestError, match=problem):
        is_met(condition, NUMBERS)


@given(st.text(max_size=30))
def test_any_text_is_a_condition_or_an_error(text):
    with suppress(RequestError):
        assert is_met(text, NUMBERS) in (True, False)
