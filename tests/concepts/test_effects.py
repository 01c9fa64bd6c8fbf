"""Effects of knobs: which count, their order, and their text."""

import json

import pytest

from macrid.concepts.effects import KnobEffect, effects_from_json, strongest_first


def effect(**fields):
    known = {"name": "genres: Comedy", "concept": 0, "dimension": 1, "users": 50, "low": 0.29, "high": 0.64}
    known |= {"is_share": True, "moves": 1.5, "monotonicity": 0.9, "other": "year", "other_moves": -0.2}
    known |= {"leakage": 0.1, "drift": 0.1, "retention": 0.98, "overlap": 0.8, "smoothness": 0.9}
    return KnobEffect(**known | fields)


def test_the_text_is_in_the_units_of_the_attribute():
    assert (effect().span, effect().text) == ("29 → 64 %", "29 → 64 % of the list")
    assert effect(low=1988.4, high=1995.6, is_share=False).text == "1988 → 1996"
    assert effect(low=-0.5512, high=12.345, is_share=False).text == "-0.551 → 12.3"
    assert effect(low=None, high=None).text == ""


def test_attributes_in_all_concepts_come_first_then_the_strongest():
    weak, strong = effect(moves=0.5), effect(dimension=2, moves=2.0)
    general = effect(concept=None, dimension=None, moves=0.4)
    unsteady = effect(dimension=3, moves=2.5, monotonicity=0.35)
    assert strongest_first((weak, unsteady, strong, general)) == [general, strong, unsteady, weak]


@pytest.mark.parametrize("nothing", [{"moves": 0.1}, {"monotonicity": 0.2}, {"moves": -1.5, "monotonicity": -0.9}])
def test_knobs_that_do_nothing_or_the_opposite_are_hidden(nothing):
    assert strongest_first((effect(**nothing), effect())) == [effect()]


def test_effects_survive_json():
    effects = (effect(), effect(concept=None, dimension=None, retention=None, other=None, other_moves=None))
    assert effects_from_json(json.dumps([each.model_dump(mode="json") for each in effects])) == effects


@pytest.mark.parametrize("content", ["{}", "[1]", "not JSON", '[{"name": "year"}]'])
def test_damaged_effects_are_a_value_error(content):
    with pytest.raises(ValueError, match=r"\w"):
        effects_from_json(content)
