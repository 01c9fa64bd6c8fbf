"""Ranking through the decoder's tiles against ranking by the scores of all items."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.errors import DataError, RequestError
from macrid.evaluation.ranking import evaluate
from macrid.models import neural
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE


class ByScores(MacridVAE):
    """Ranks as a model does that has scores only."""

    rank = Recommender.rank


def untrained(kind=MacridVAE, items=300, **settings):
    model = kind(concepts=4, dim=6, **settings)
    model.items = Ids.range(items)
    model.network = model._build(items)
    model.network.initialise(torch.Generator().manual_seed(0))
    return model


def histories(users, items=300, density=0.05, seed=0):
    return sp.random_array((users, items), density=density, format="csr", dtype=np.float32, rng=seed)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("encoded", [24, 1 << 22])
def test_the_best_items_are_those_with_the_highest_scores(assignment, similarity, encoded, monkeypatch):
    monkeypatch.setattr(neural, "ENCODED", encoded * 3)
    model, by_scores = (untrained(kind, assignment=assignment, similarity=similarity) for kind in (MacridVAE, ByScores))
    some, seen = histories(10), histories(10, density=0.3, seed=1)
    candidates = np.random.default_rng(0).random(300) < 0.7
    for options in ({}, {"exclude_seen": False}, {"seen": seen}, {"seen": seen, "candidates": candidates}):
        positions, log_p = model.top(some, 20, **options)
        expected = by_scores.top(some, 20, **options)
        np.testing.assert_allclose(log_p, expected[1], rtol=1e-5)
        np.testing.assert_array_equal(positions, expected[0])


def test_item_directions_and_assignments_are_computed_once_for_all_users(monkeypatch):
    monkeypatch.setattr(neural, "ENCODED", 1)
    model, calls = untrained(), []
    assignment = model.network.mode_assignment
    monkeypatch.setattr(model.network, "mode_assignment", lambda: calls.append(1) or assignment())
    assert model.top(histories(7), 5)[0].shape == (7, 5)
    assert len(model.recommend([1, 2, 3], 5)) == 5
    assert len(calls) == 1
    with torch.no_grad():
        model.network.item_vectors.neg_()
    for is_training, expected in ((False, 2), (False, 2), (True, 3), (True, 4)):
        model.is_training = is_training  # a GPU may change the weights then without notice
        model.top(histories(7), 5)
        assert len(calls) == expected


def test_metrics_are_the_same_by_tiles_and_by_scores():
    history = histories(40)
    target = sp.csr_array(np.where(history.toarray() > 0, 0, histories(40, seed=2).toarray()))
    group = HeldOut(history, target, Ids.range(40))
    ours, truth = (evaluate(untrained(kind), group) for kind in (MacridVAE, ByScores))
    for metric, values in truth.per_user.items():
        np.testing.assert_allclose(ours.per_user[metric], values, rtol=1e-12)


@pytest.mark.parametrize("kind", [MacridVAE, ByScores])
def test_no_histories_give_no_rows(kind):
    positions, scores = untrained(kind).top(histories(0), 5)
    assert positions.shape == scores.shape == (0, 5)


@pytest.mark.parametrize("kind", [MacridVAE, ByScores])
def test_histories_over_other_items_are_rejected(kind):
    with pytest.raises(DataError, match=r"\b5\b.*\b300\b"):
        untrained(kind).top(sp.csr_array((2, 5), dtype=np.float32), 3)


def test_the_user_with_the_fewest_items_left_limits_n():
    seen = np.zeros((3, 300))
    seen[1, :295] = 1
    with pytest.raises(RequestError, match=r"\b6\b.*\b5\b.*\b300\b"):
        untrained().top(histories(3), 6, seen=sp.csr_array(seen))
