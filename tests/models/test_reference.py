"""EASE against its closed form in numpy and float64, and popularity."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import macrid
from macrid.data import catalog
from macrid.errors import DataError, RunError, SettingsError, TrainingError
from macrid.models import reference
from macrid.models.reference import EASE, Popularity
from macrid.testing import RecommenderContract, checkerboard
from tests.truth import DEVICE

DATA = os.environ.get("MACRID_DATA")


def steck(x: np.ndarray, regularisation: float) -> np.ndarray:
    """Algorithm 1 of Steck (2019): B, line by line."""
    gram = x.T @ x
    gram[np.diag_indices(len(gram))] += regularisation
    p = np.linalg.inv(gram)
    b = p / (-np.diag(p))
    b[np.diag_indices(len(b))] = 0
    return b


def some_data(seed, users, items, density=0.3):
    x = (np.random.default_rng(seed).random((users, items)) < density).astype(np.float64)
    x[0, 0] = 1
    return x


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000), users=st.integers(1, 40), items=st.integers(1, 40),
    regularisation=st.sampled_from([0.5, 10.0, 500.0]), density=st.sampled_from([0.05, 0.4, 1.0]),
)  # fmt: skip
def test_weights_and_scores_equal_the_closed_form(seed, users, items, regularisation, density):
    x = some_data(seed, users, items, density)
    model = EASE(regularisation=regularisation).fit(sp.csr_array(x), device=DEVICE)
    truth = steck(x, regularisation)
    np.testing.assert_allclose(model.weights.cpu().numpy(), truth, atol=1e-6)
    others = some_data(seed + 1, 5, items)
    scores = model.scores(sp.csr_array(others)).cpu().numpy()
    nonempty = others.sum(axis=1) > 0
    np.testing.assert_allclose(scores[nonempty], (others @ truth)[nonempty], atol=1e-5)


def weighted(x: np.ndarray, seed: int = 0) -> macrid.Interactions:
    """Interactions with weights of 1 to 5; `x` has them afterwards."""
    x[x > 0] = np.random.default_rng(seed).integers(1, 6, int((x > 0).sum()))
    return macrid.Interactions(sp.csr_array(x.astype(np.float32)), *(macrid.Ids(range(side)) for side in x.shape))


@pytest.mark.parametrize("shape", [(40, 30), (9, 30)], ids=["by items", "by users"])
def test_weights_of_interactions_count_relative_to_their_mean(shape):
    x = some_data(3, *shape)
    data = weighted(x)
    x /= x[x > 0].mean()
    model = EASE(regularisation=20).fit(data, device=DEVICE)
    truth = steck(x, 20)
    np.testing.assert_allclose(model.weights.cpu().numpy(), truth, atol=1e-6)
    scores = model.scores(data.matrix).cpu().numpy()
    np.testing.assert_allclose(scores[x.any(axis=1)], (x @ truth)[x.any(axis=1)], atol=1e-5)
    np.testing.assert_allclose(Popularity().fit(data, device="cpu").shares, x.sum(axis=0) / len(x), rtol=1e-6)


@pytest.mark.parametrize("shape", [(200, 60), (15, 60)], ids=["by items", "by users"])
@pytest.mark.parametrize(("bytes_left", "dtype", "close"), [(2**30, "float64", 3e-8), (12 * 60**2, "float32", 1e-5)])
def test_double_precision_is_used_where_it_fits_and_single_is_close(monkeypatch, shape, bytes_left, dtype, close):
    monkeypatch.setattr(reference, "memory_left", lambda device: bytes_left)
    assert str(reference._precision(60, torch.device(DEVICE))) == f"torch.{dtype}"
    x = some_data(0, *shape)
    model = EASE(regularisation=20).fit(sp.csr_array(x), device=DEVICE)
    assert model.weights.dtype == torch.float32
    np.testing.assert_allclose(model.weights.cpu().numpy(), steck(x, 20), atol=close)


def test_the_solution_minimises_the_objective():
    x = some_data(3, 50, 12)
    model = EASE(regularisation=7).fit(sp.csr_array(x), device="cpu")
    b = model.weights.double().numpy()

    def objective(weights):
        return ((x - x @ weights) ** 2).sum() + 7 * (weights**2).sum()

    random = np.random.default_rng(0)
    for size in (1e-3, 1e-1):
        step = size * random.standard_normal(b.shape)
        np.fill_diagonal(step, 0)
        assert objective(b) < min(objective(b + step), objective(b - step))


def test_counts_are_exact_whatever_the_size_of_a_block(monkeypatch):
    x = sp.csr_array(some_data(1, 70, 33).astype(np.float32))
    device = torch.device(DEVICE)
    whole = reference.gram(x, device)
    monkeypatch.setitem(reference.BLOCK, DEVICE, 100)
    assert torch.equal(whole, reference.gram(x, device))
    np.testing.assert_array_equal(whole.cpu().numpy(), (x.T @ x).toarray())


def test_a_catalogue_too_large_for_memory_is_an_error_with_the_memory_needed():
    many = sp.csr_array((np.ones(2), ([0, 1], [0, 3_999_999])), shape=(2, 4_000_000))
    with pytest.raises(TrainingError, match=r"4,000,000.*119,209\.3 GiB.*[\d,.]+ GiB"):
        EASE().fit(many, device="cpu")
    assert Popularity().fit(many, device="cpu").recommend([0], 1).ids == [3_999_999]


def test_too_little_regularisation_is_an_error():
    same = sp.csr_array(np.ones((5, 2)))
    with pytest.raises(TrainingError, match="regularisation is 1e-300"):
        EASE(regularisation=1e-300).fit(same, device="cpu")


@pytest.mark.parametrize("model", [EASE, Popularity])
def test_an_empty_history_gets_the_most_popular_items(model):
    x = some_data(5, 60, 20) * (np.arange(20) % 7 > 0)
    x[:, 3] = 1
    fitted = model().fit(sp.csr_array(x), device="cpu")
    items = fitted.recommend([], 20)
    assert [item.score for item in items] == pytest.approx(sorted(x.mean(axis=0), reverse=True))
    assert items.ids[0] == 3


def test_the_most_popular_unseen_item_comes_first():
    matrix = sp.csr_array(np.tril(np.ones((6, 6))))  # item 0 has six users, item 5 one
    model = Popularity().fit(matrix, device="cpu")
    assert model.recommend([1], 5).ids == [0, 2, 3, 4, 5]
    assert model.recommend([0, 1, 4], 3).ids == [2, 3, 5]
    assert [item.score for item in model.recommend([5], 2)] == pytest.approx([1, 5 / 6])


@pytest.mark.parametrize("model", [EASE, Popularity])
def test_training_settings_of_other_models_are_accepted_and_invalid_ones_are_not(model):
    board = checkerboard()
    everything = macrid.settings.TrainingSettings().model_dump()
    fitted = model().fit(board, **{**everything, "device": "cpu", "seed": 3})
    assert fitted.log == []
    assert fitted.training.seed == 3
    with pytest.raises(SettingsError, match="epochs is 0"):
        model().fit(board, epochs=0)
    with pytest.raises(SettingsError, match="'epoch'"):
        model().fit(board, epoch=3)
    with pytest.raises(DataError, match="csr_array"):
        model().fit(board, validation=board)
    with pytest.raises(SettingsError, match="'tpu'"):
        model().fit(board, device="tpu")


def test_settings_are_checked():
    with pytest.raises(SettingsError, match="regularisation is 0"):
        EASE(regularisation=0)
    with pytest.raises(SettingsError, match="'concepts'"):
        Popularity(concepts=3)


def test_a_run_whose_weights_have_another_size_is_damaged(tmp_path):
    EASE().fit(checkerboard(), device="cpu").save(tmp_path / "small")
    EASE().fit(checkerboard(items=22), device="cpu").save(tmp_path / "large")
    (tmp_path / "large" / "model.safetensors").replace(tmp_path / "small" / "model.safetensors")
    with pytest.raises(RunError, match="small"):
        macrid.load(tmp_path / "small")


def test_users_are_scored_in_blocks(monkeypatch):
    model = EASE().fit(checkerboard(), device="cpu")
    sizes = []
    original = EASE.scores
    monkeypatch.setattr(EASE, "scores", lambda self, h: sizes.append(h.shape[0]) or original(self, h))
    monkeypatch.setitem(reference.BLOCK, "cpu", 200)
    model.top(checkerboard(users=35), 3)
    assert sizes == [10, 10, 10, 5]


@pytest.mark.skipif(DATA is None, reason="MACRID_DATA is not set")
@pytest.mark.slow
def test_the_best_regularisation_on_validation_reaches_the_known_scores():
    split = catalog.load("ml-latest-small", download=False)
    models = [EASE(regularisation=r).fit(split.train, device="cpu") for r in (50, 100, 200)]
    best = max(models, key=lambda model: macrid.evaluate(model, split.validation)["ndcg@100"].mean)
    assert best.settings.regularisation == 100
    scores = macrid.evaluate(best, split.test)
    assert [round(metric.mean, 3) for metric in scores.metrics.values()] == pytest.approx(
        [0.341, 0.334, 0.458], abs=2e-3
    )


class TestEASE(RecommenderContract):
    expected_ndcg = 0.44, 0.49  # with more regularisation 0.59

    @classmethod
    def make(cls):
        return EASE(regularisation=5)


class TestPopularity(RecommenderContract):
    personal = False
    expected_ndcg = 0.40, 0.43

    @classmethod
    def make(cls):
        return Popularity()
