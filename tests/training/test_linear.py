"""Neighbours in a trained model: when they are added, with which weight, and what they change."""

import copy

import numpy as np
import pytest
import torch

import macrid
from macrid.data.split import HeldOut
from macrid.models.neighbours import Neighbours
from macrid.training import linear
from macrid.training.linear import add_neighbours


@pytest.fixture(scope="module")
def fitted(shop_split):
    """A poor model, which neighbours help, and the split."""
    model = macrid.MacridVAE(concepts=3, dim=4)
    return model.fit(shop_split.train, validation=shop_split.validation, epochs=1, device="cpu"), shop_split


def without(model):
    model = copy.copy(model)
    model.neighbours = None
    return model


def test_scores_are_the_log_probabilities_of_both_parts_together(fitted):
    model, split = fitted
    history = split.test.history[:20]
    both = without(model).scores(history).double() + model.neighbours.scores(history).double()
    torch.testing.assert_close(model.scores(history).double(), both.log_softmax(dim=1), rtol=0, atol=1e-5)


def test_the_weight_chosen_helps_validation_users(fitted):
    model, split = fitted
    assert model.neighbours_note is None
    ndcg = [macrid.evaluate(each, split.validation)["ndcg@100"].mean for each in (model, without(model))]
    assert ndcg[0] > ndcg[1] + 0.01


def test_lists_follow_the_scores_of_both_parts(fitted, monkeypatch):
    model, split = fitted
    monkeypatch.setattr("macrid.models.neural.BLOCK", {"cpu": 3 * len(model.items)})  # three users at once
    history = split.test.history[:10]
    positions, scores = model.rank(history, 12)
    expected = model.scores(history).topk(12)
    assert torch.equal(positions, expected.indices)
    torch.testing.assert_close(scores, expected.values)


def test_a_run_keeps_its_neighbours(fitted, tmp_path):
    model, split = fitted
    model.save(tmp_path / "run")
    again = macrid.load(tmp_path / "run")
    assert torch.equal(again.scores(split.test.history), model.scores(split.test.history))


def test_neighbours_of_another_catalogue_are_refused(fitted):
    model, _ = fitted
    small = Neighbours(torch.zeros(3, dtype=torch.int64), torch.zeros(0, dtype=torch.int32), torch.zeros(0), 2)
    broken = copy.copy(model)
    broken.neighbours = small
    with pytest.raises(ValueError, match=f"2 items.*{len(model.items):,}"):
        copy.copy(model).load_state(broken.state())


@pytest.mark.parametrize("settings", [{"neighbours": 0}])
def test_a_model_that_asks_for_none_gets_none(shop_split, settings):
    model = macrid.MacridVAE(concepts=3, dim=4, **settings)
    model.fit(shop_split.train, validation=shop_split.validation, epochs=1, device="cpu")
    assert (model.neighbours, model.neighbours_note) == (None, None)
    assert not any(name.startswith("neighbours") for name in model.state())


def test_without_validation_users_there_is_no_weight_to_choose(shop_split):
    model = macrid.MacridVAE(concepts=3, dim=4).fit(shop_split.train, epochs=1, device="cpu")
    assert model.neighbours is None
    assert "validation" in model.neighbours_note


@pytest.mark.parametrize(("users", "is_added"), [(19, False), (20, True)])
def test_few_validation_users_mean_no_neighbours_and_a_note_with_their_number(fitted, users, is_added):
    model, split = copy.copy(fitted[0]), fitted[1]
    model.neighbours = None
    chosen = np.flatnonzero(np.diff(split.validation.target.indptr) > 0)[:users]
    some = HeldOut(split.validation.history[chosen], split.validation.target[chosen], macrid.Ids.range(users))
    add_neighbours(model, split.train.matrix, some)
    assert (model.neighbours is not None) == is_added
    assert ("19" in str(model.neighbours_note)) == (not is_added)


def test_a_large_validation_set_is_sampled(fitted, monkeypatch):
    monkeypatch.setattr(linear, "MOST_USERS", 30)
    validation = fitted[1].validation
    some = linear.some_users(validation)
    assert some.history.shape[0] == some.target.shape[0] == len(some.users) == 30
    rows = {user: tuple(validation.history[[place]].indices) for place, user in enumerate(validation.users)}
    assert all(rows[user] == tuple(some.history[[place]].indices) for place, user in enumerate(some.users))
