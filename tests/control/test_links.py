"""Stored moves after axes were turned or the run was replaced: kept, carried over or left out, with notes."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import macrid
from macrid.concepts.axes import use
from macrid.concepts.directions import along
from macrid.concepts.meaning import Axes, meaning_of
from macrid.concepts.naming import find as find_names
from macrid.concepts.space import space_of
from macrid.control.engine import Engine
from macrid.control.links import carried_over, carried_rules
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.errors import RequestError


def turned(model, kind, seed):
    """A copy with random axes of this kind in use."""
    model, random = copy.deepcopy(model), np.random.default_rng(seed)
    rotation = np.stack([np.linalg.qr(random.normal(size=(16, 16)))[0] for _ in range(7)]).astype(np.float32)
    use(model, Axes(kind, rotation))
    return model


def named(model, concept, dimension, name="bulk"):
    meaning_of(model).names = (
        find_names(model).renamed_dimension(concept, dimension, name=name).renamed(concept, "hats")
    )
    return model


@pytest.fixture(scope="module")
def model(trained):
    return turned(trained[0], "independence", 0)


@pytest.fixture(scope="module")
def stored(model, trained):
    """A move along a turned axis, as an answer gives it."""
    history = model.items[:3]
    return macrid.steer(model, history, concept=2, dimension=3, by=0.01).moves[0]


def test_an_answer_names_the_axis_the_dimension_and_the_concept_of_a_move(model):
    copied = named(copy.deepcopy(model), 2, 3)
    other = next(
        entry.dimension
        for entry in meaning_of(copied).names.dimensions
        if entry.concept == 2 and entry.dimension != 3 and entry.name is None
    )
    moves = [
        Move(concept=2, dimension=3, by=0.01), Move(concept=2, share=0.5), Move(concept=2, dimension=other, by=0.01)
    ]  # fmt: skip
    numbered, share, nameless = macrid.steer(copied, copied.items[:3], moves=moves).moves
    assert (numbered.name, share.name, nameless.name) == ("bulk", None, None)
    assert {move.concept_name for move in (numbered, share, nameless)} == {"hats"}
    assert numbered.axis != nameless.axis
    assert share.axis is None


@pytest.mark.parametrize("is_same_run", [True, False])
def test_a_move_along_a_kept_axis_is_unchanged(model, stored, is_same_run):
    copied = turned(model, "attributes", 1)  # the axes before are kept
    moves, notes = carried_over(space_of(copied), [stored], is_same_run)
    assert (moves, notes) == ((stored,), ())
    assert (
        macrid.steer(copied, copied.items[:3], moves=moves).ids
        == macrid.steer(model, copied.items[:3], moves=moves).ids
    )


def test_an_axis_is_found_under_another_number(model, stored):
    copied = copy.deepcopy(model)
    axes = meaning_of(copied).axes["independence"]
    meaning_of(copied).axes = {}
    use(copied, replace(axes, rotation=axes.rotation[:, ::-1].copy()))
    moves, notes = carried_over(space_of(copied), [stored], True)
    assert (moves, notes) == ((stored,), ())
    steered, before = (macrid.steer(each, copied.items[:3], moves=moves) for each in (copied, model))
    assert steered.ids == before.ids
    assert (steered.effects[0].dimension, before.effects[0].dimension) == (12, 3)


@pytest.mark.parametrize("is_same_run", [True, False])
def test_a_move_along_a_lost_axis_is_carried_over_by_name_with_a_warning(trained, stored, is_same_run):
    other = named(turned(trained[0], "independence", 5), 2, 9)
    moves, notes = carried_over(space_of(other), [replace(stored, name="Bulk", concept_name="hats")], is_same_run)
    assert [(move.dimension, move.axis, move.by) for move in moves] == [(9, None, stored.by)]
    assert [(note.what, note.is_kept) for note in notes] == [("Bulk (hats)", True)]
    assert "Bulk" in notes[0].warning
    assert macrid.steer(other, other.items[:3], moves=moves).effects[0].dimension == 9


@pytest.mark.parametrize("name", [None, "weight"])
@pytest.mark.parametrize("is_same_run", [True, False])
def test_a_move_that_no_longer_exists_is_left_out_with_a_warning(trained, stored, name, is_same_run):
    other = named(turned(trained[0], "independence", 5), 2, 9)
    kept = Move(concept="hats", share=0.4)
    moves, notes = carried_over(space_of(other), [replace(stored, name=name), kept], is_same_run)
    assert moves == (kept,)
    assert [note.is_kept for note in notes] == [False]
    assert (name or "dimension 3") in notes[0].warning
    with pytest.raises(RequestError):
        macrid.steer(other, other.items[:3], moves=[stored])


def test_numbers_of_another_run_mean_nothing(trained, model):
    copied = named(copy.deepcopy(trained[0]), 2, 9)  # along the original axes, which look the same in every run
    original = macrid.steer(copied, copied.items[:3], concept=4, dimension=3, by=0.01).moves[0]
    original = replace(original, name=None)  # which a training may have found one for
    moves = [original, Move(concept=2, dimension=3, by=0.01), Move(concept=2, share=0.5)]
    assert carried_over(space_of(copied), moves, True) == (tuple(moves), ())
    kept, notes = carried_over(space_of(copied), moves, False)
    assert kept == ()
    assert len(notes) == 3


def test_names_mean_the_same_in_another_run(trained):
    copied = named(copy.deepcopy(trained[0]), 2, 9)
    by_name = [Move(concept="hats", dimension="bulk", by=0.01), Move(concept="Hats", share=0.5),
               Move(towards="price", amount=0.1)]  # fmt: skip
    space_of(copied).towards["price"] = [along(space_of(copied), 2, 3)]
    assert carried_over(space_of(copied), by_name, False) == (tuple(by_name), ())
    share = Move(concept=5, share=0.5, concept_name="hats")
    moves, notes = carried_over(space_of(copied), [share, Move(towards="weight", amount=1)], False)
    assert [move.concept for move in moves] == [2]
    assert [(note.what, note.is_kept) for note in notes] == [("share of hats", True), ("weight", False)]


def test_a_wrong_move_of_the_same_run_is_kept_and_refused_later(model):
    wrong = (Move(concept=99, share=0.1), Move(concept=0, dimension="taste", to=0.1))
    assert carried_over(space_of(model), wrong, True) == (wrong, ())


def test_a_model_without_concepts_leaves_out_every_move():
    moves, notes = carried_over(None, [Move(concept=1, share=0.5), Move(towards="price", amount=1)], False)
    assert moves == ()
    assert [(note.what, note.is_kept) for note in notes] == [("share of concept 1", False), ("price", False)]


def test_rules_of_another_run_keep_what_this_one_can_follow(trained):
    engine = Engine(trained[0])
    known = [str(item) for item in trained[0].items[:2]]
    rules = Rules(
        where="price > 0 and `shelf life` < 3 and (price < 1000 or colour = 'red')",
        include=[*known, "gone"], exclude=["gone", known[1]], pins={"gone": 1, known[0]: 4},
        boosts=[{"where": "price > 1", "amount": 1}, {"where": "mood = 'sad'", "amount": 1}],
        at_most={"category": 3, "mood": 1}, diversity=0.3, diversity_by=["category", "mood"], shelves=2, strict=True,
    )  # fmt: skip
    kept, notes = carried_rules(engine, rules)
    assert kept.as_json() == {
        "where": "price > 0 and (price < 1000 or colour = 'red')", "include": known, "exclude": [known[1]],
        "pins": {known[0]: 4}, "boosts": [{"where": "price > 1", "amount": 1.0}], "at_most": {"category": 3},
        "diversity": 0.3, "diversity_by": ["category"], "shelves": 2, "strict": True,
    }  # fmt: skip
    assert [note.what for note in notes] == [
        "`shelf life` < 3", "boost of mood = 'sad'", "at most 1 per mood", "diversity by mood", "only 'gone'",
        "pinned 'gone'",
    ]  # fmt: skip
    assert {(note.kind, note.is_kept) for note in notes} == {("rule", False)}
    assert all(note.what in note.warning for note in notes)
    engine.check_rules((kept,))


def test_rules_that_suit_this_run_are_unchanged(trained):
    rules = Rules(where="price > 0 or price < 0", diversity=0.2, at_most={"concept": 3}, strict=False)
    assert carried_rules(Engine(trained[0]), rules) == (rules, ())
    assert carried_rules(Engine(trained[0]), Rules()) == (Rules(), ())


def test_unreadable_conditions_and_what_a_model_cannot_do_are_left_out(trained):
    popularity = macrid.Popularity().fit(trained[1].train.matrix)
    kept, notes = carried_rules(Engine(popularity), Rules(where="price <", diversity=0.5, shelves=True, include=["x"]))
    assert not kept
    assert [note.what for note in notes] == ["price <", "diversity", "shelves", "only 'x'"]
