"""Moves: their shapes, their JSON, and what is refused."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.moves import SHAPES, Move
from macrid.errors import RequestError

numbers = st.floats(-1, 1)
concepts, dimensions = st.integers(0, 20), st.integers(0, 99) | st.text(min_size=1)
MOVES = st.one_of(
    st.builds(Move, concept=concepts, dimension=dimensions, to=numbers),
    st.builds(Move, concept=concepts, dimension=dimensions, by=numbers),
    st.builds(Move, concept=st.none() | concepts, towards=st.text(min_size=1), amount=numbers),
    st.builds(Move, concept=concepts, share=st.floats(0, 1)),
)


@given(move=MOVES)
def test_a_move_survives_json(move):
    assert Move.read(json.loads(json.dumps(move.as_json()))) == move
    assert Move.read(move) is move
    assert None not in move.as_json().values()


@pytest.mark.parametrize(
    "fields",
    [
        {"concept": 2, "dimension": 3, "to": 0.4},
        {"concept": 2, "dimension": "size", "by": -0.1},
        {"towards": "year", "amount": 0.5},
        {"concept": 2, "towards": "size", "amount": 1},
        {"concept": 2, "share": 0.6},
        {"concept": 0, "dimension": 0, "to": 0},
        {"concept": 0, "share": 0},
    ],
)
def test_every_documented_shape_is_a_move(fields):
    assert Move(**fields).as_json() == fields


def test_numpy_numbers_become_json_numbers():
    move = Move(concept=np.int64(2), dimension=np.int32(3), to=np.float32(0.5))
    assert json.dumps(move.as_json()) == '{"concept": 2, "dimension": 3, "to": 0.5}'


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"concept": 2},
        {"concept": 2, "dimension": 3},
        {"dimension": 3, "to": 0.4},
        {"concept": 2, "to": 0.4},
        {"concept": 2, "dimension": 3, "to": 0.4, "by": 0.1},
        {"concept": 2, "dimension": 3, "share": 0.4},
        {"concept": 2, "dimension": 3, "amount": 0.4},
        {"towards": "year"},
        {"amount": 1.0},
        {"towards": "year", "to": 0.4},
        {"towards": "year", "dimension": 3, "amount": 0.4},
        {"share": 0.4},
    ],
)
def test_other_combinations_are_refused_with_the_allowed_ones(fields):
    with pytest.raises(RequestError, match=re.escape(SHAPES)) as error:
        Move.read(fields)
    assert all(f"'{name}': {value!r}" in str(error.value) for name, value in fields.items())


@pytest.mark.parametrize("name", ["to", "by", "amount", "share"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), True, "0.4", [1], 10**400])
def test_only_finite_numbers_are_accepted(name, value):
    along = {"towards": "year"} if name == "amount" else {"concept": 0, "dimension": 1}
    with pytest.raises(RequestError, match=rf"^{name} "):
        Move(**along, **{name: value})


def test_a_whole_number_may_be_large():
    assert Move(concept=0, dimension=1, by=10**30).as_json()["by"] == 10**30


@pytest.mark.parametrize("share", [-0.01, 1.01, 60])
def test_a_share_lies_between_0_and_1(share):
    with pytest.raises(RequestError, match=str(share)):
        Move(concept=0, share=share)


@pytest.mark.parametrize("towards", [["year"], 3, {"a": 1}])
def test_an_attribute_is_a_name(towards):
    with pytest.raises(RequestError, match=re.escape(repr(towards))):
        Move.read({"towards": towards, "amount": 1})


@pytest.mark.parametrize("value", ["size", 3, None, [("concept", 1)]])
def test_a_move_is_a_mapping(value):
    with pytest.raises(RequestError, match=re.escape(repr(value))):
        Move.read(value)


def test_unknown_fields_are_named():
    with pytest.raises(RequestError, match="'dimensions'"):
        Move.read({"concept": 0, "dimensions": 1, "to": 0.4})
    with pytest.raises(RequestError, match="'7'"):
        Move.read({7: 1})
