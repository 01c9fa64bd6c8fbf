"""The linear part of a score fades as a user is moved."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.concepts.space import space_of
from macrid.control.moves import Move
from macrid.control.state import State, faded


@pytest.fixture(scope="module")
def fitted(shop_split):
    model = macrid.MacridVAE(concepts=4, dim=8)
    return model.fit(shop_split.train, validation=shop_split.validation, epochs=2, device="cpu"), shop_split


def test_without_moves_the_list_is_that_of_recommend(fitted):
    model, split = fitted
    assert model.neighbours is not None
    history = [model.items[int(place)] for place in split.test.history[[3]].indices]
    assert macrid.steer(model, history, n=20).ids == model.recommend(history, 20).ids


def test_scores_after_a_move_are_those_of_the_formula(fitted):
    model, split = fitted
    history = split.test.history[[5]]
    (start,) = State.all_of(space_of(model), history)
    moved = start.after([Move(concept=1, share=0.7)]).state
    before, after = (np.exp(state.weights.double().numpy()) for state in (start, moved))
    overlap = np.minimum(before / before.sum(), after / after.sum()).sum()
    assert 0 < overlap < 0.95
    linear = overlap**2 * model.neighbours.scores(history)[0].double()
    expected = (moved.log_p.double() + linear).log_softmax(dim=0)
    torch.testing.assert_close(moved.scores.double(), expected, rtol=0, atol=1e-4)


def test_several_moves_fade_by_the_way_from_the_start(fitted):
    model, split = fitted
    (start,) = State.all_of(space_of(model), split.test.history[[5]])
    there_and_back = start.after([Move(concept=1, share=0.7), Move(concept=1, share=float(start.shares()[1]))]).state
    torch.testing.assert_close(there_and_back.scores, start.scores, rtol=0, atol=1e-3)


def test_a_component_turned_by_an_angle_fades_the_linear_part_by_its_cosine(fitted):
    model, split = fitted
    history = split.test.history[[5]]
    (start,) = State.all_of(space_of(model), history)
    moved = start.after([Move(concept=2, dimension=3, by=0.3)], bounded=False).state
    cosine = float(start.components[2].double() @ moved.components[2].double())
    assert 0.5 < cosine < 0.99
    linear = np.exp(2 * (cosine - 1) / model.settings.temperature) * model.neighbours.scores(history)[0].double()
    expected = (moved.log_p.double() + linear).log_softmax(dim=0)
    torch.testing.assert_close(moved.scores.double(), expected, rtol=0, atol=1e-4)


@given(st.integers(1, 5), st.integers(2, 6), st.integers(0, 99))
def test_the_factor_is_1_at_the_start_and_never_above(concepts, dim, seed):
    random = torch.Generator().manual_seed(seed)

    def anybody():
        vectors = torch.randn(3, concepts, dim, generator=random, dtype=torch.float64)
        return vectors, torch.randn(3, concepts, generator=random, dtype=torch.float64)

    one, other = anybody(), anybody()
    torch.testing.assert_close(faded(one, one, 0.1), torch.ones(3, dtype=torch.float64))
    assert ((faded(one, other, 0.1) >= 0) & (faded(one, other, 0.1) <= 1)).all()
