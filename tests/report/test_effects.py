"""Effects kept with a model, and the cards of a concept with a large share."""

import copy

import numpy as np
import pytest
import torch

from macrid.concepts.axes import use
from macrid.concepts.directions import along
from macrid.concepts.meaning import Axes, meaning_of, unturned
from macrid.concepts.space import space_of
from macrid.concepts.understanding import understand
from macrid.control.moves import Move
from macrid.control.state import State
from macrid.data.split import HeldOut
from macrid.models.neighbours import Neighbours
from macrid.report import effects
from macrid.report.controllability import _Decoded, measure
from macrid.report.effects import cards_of_share, measure_effects
from macrid.report.knobs import knobs_of
from tests.planted import planted


@pytest.fixture
def world():
    model, heldout = planted()
    understand(model)
    return model, heldout


def test_effects_are_those_of_all_knobs_on_these_users(world):
    model, heldout = world
    measure_effects(model, heldout)
    kept = meaning_of(model).effects
    assert kept == measure(model, heldout, knobs_of(model), chance=False).knobs
    assert {effect.name for effect in kept if effect.concept is None} >= {"size", "price"}
    assert all(effect.retention is not None for effect in kept)
    named = [entry for entry in meaning_of(model).dimensions if entry.attribute == "size"]
    axes = {(effect.concept, effect.dimension, effect.axis) for effect in kept if effect.name == "size"}
    assert {(entry.concept, entry.dimension, entry.axis) for entry in named} <= axes
    assert len(named) == 2


def test_without_targets_effects_come_from_the_histories_that_the_model_keeps(world):
    model, heldout = world
    measure_effects(model)
    without = meaning_of(model).effects
    measure_effects(model, heldout)
    assert [effect.moves for effect in without] == [effect.moves for effect in meaning_of(model).effects]
    assert {effect.retention for effect in without} == {None}


def test_nothing_is_kept_without_users(world):
    model, heldout = world
    measure_effects(model, HeldOut(heldout.history[:5], heldout.target[:5], heldout.users))
    assert meaning_of(model).effects == ()
    model.sample = None
    measure_effects(model)
    assert meaning_of(model).effects == ()


def test_less_work_means_fewer_users_then_fewer_knobs(world, monkeypatch):
    model, _ = world
    space, knobs = space_of(model), knobs_of(model)
    listed = [200 if knob.concept is None else 100 for knob in knobs]
    work = [(9 * count + 2 * 200) * 2 * 6 for count in listed]  # per user
    assert effects._affordable(space, knobs) == (knobs, effects.MOST_USERS)
    monkeypatch.setattr(effects, "WORK", 40 * sum(work))
    assert effects._affordable(space, knobs) == (knobs, 40)
    monkeypatch.setattr(effects, "WORK", 30 * sum(work[:2]))
    assert effects._affordable(space, knobs) == (knobs[:2], 30)
    monkeypatch.setattr(effects, "WORK", 1)
    assert effects._affordable(space, knobs) == ([], 0)


def test_new_axes_drop_effects(world):
    model, heldout = world
    measure_effects(model, heldout)
    assert meaning_of(model).effects
    turned = copy.deepcopy(model)
    understand(turned, ["independence"])
    assert meaning_of(turned).effects == ()
    use(model, Axes("other", unturned(2, 6)))
    assert meaning_of(model).effects == ()


def slow_cards(model, histories, share, cards):
    """One user and concept at a time, as steering does it."""
    space = space_of(model)
    counts = np.zeros((histories.shape[0], space.concepts))
    for user, start in enumerate(State.all_of(space, histories)):
        for k in range(space.concepts):
            state, _ = start._with_share(k, share)
            best = state.best(cards, histories[[user]].indices, None).positions
            counts[user, k] = (space.concept_of[best] == k).sum()
    return counts.mean(axis=0)


@pytest.fixture(scope="module", params=[0.0, 6.0], ids=["plain", "neighbours"])
def either(request, trained):
    """A trained model without neighbours, and with them."""
    model, split = copy.copy(trained[0]), trained[1]
    model.cached = None
    if request.param:
        model.neighbours = Neighbours.fit(split.train.matrix, 20, model.device).times(request.param)
    return model, split


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_cards_of_a_share_are_those_that_steering_gives(either, share):
    model, split = either
    histories = split.test.history[:30]
    expected = slow_cards(model, histories, share, 12)
    np.testing.assert_allclose(cards_of_share(model, histories, share=share, cards=12), expected)
    assert len(set(expected)) > 1


def test_cards_of_a_concept_without_items_are_unknown(world):
    model, heldout = world
    with torch.no_grad():
        model.network.prototypes[0] = -torch.eye(6)[5]  # opposite to every item
    np.testing.assert_array_equal(cards_of_share(model, heldout.history, cards=5), [np.nan, 5])


@pytest.mark.parametrize("part", [0.0, 0.4, 1.0])
def test_knobs_are_measured_on_the_lists_that_steering_gives(either, part):
    model, split = either
    space, users = space_of(model), np.arange(12)
    direction, everything = along(space, 2, 1), np.arange(len(model.items))
    decoded = _Decoded(split.test, *space.encode(split.test.history), space.decoder, True, everything, model.neighbours)
    seen = split.test.history[users]
    moved = decoded.moved(users, [direction], to=part)
    lists = decoded.moving(users, everything).best(moved[None], [2], 10)[:, 0]
    value = direction.low + part * (direction.high - direction.low)
    for user, start in enumerate(State.all_of(space, seen)):
        state = start.after([Move(concept=2, dimension=1, to=value)], bounded=False).state
        assert lists[user].tolist() == state.best(10, seen[[user]].indices, None).positions.tolist()
