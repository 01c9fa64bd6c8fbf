"""Neighbours against EASE in float64, and against regressions solved one by one."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.errors import DataError
from macrid.models import neighbours
from macrid.models.neighbours import (
    Neighbours,
    best_predictors,
    choose_weight,
    exact_weights,
    local_weights,
    sparse_weights,
    suitable_regularisation,
    without_weak,
)
from tests.models.test_reference import some_data, steck, weighted
from tests.truth import DEVICE, runs_kernels

PLACE = torch.device(DEVICE)


def dense(part: Neighbours) -> np.ndarray:
    return part.contributions(np.arange(part.items), np.arange(part.width)).cpu().numpy()


def strongest_of_columns(b: np.ndarray, count: int) -> np.ndarray:
    """b with all but the `count` largest entries of each column, by absolute value, set to 0."""
    kept = np.argsort(-np.abs(b), axis=0, kind="stable")[:count]
    sparse = np.zeros_like(b)
    np.put_along_axis(sparse, kept, np.take_along_axis(b, kept, axis=0), axis=0)
    return sparse


def ridge(x: np.ndarray, target: int, predictors: np.ndarray, regularisation: float) -> np.ndarray:
    """The weights of one regression, by the normal equations."""
    some = x[:, predictors]
    return np.linalg.solve(some.T @ some + regularisation * np.eye(len(predictors)), some.T @ x[:, target])


def refit(x: np.ndarray, target: int, predictors: np.ndarray, regularisation: float) -> np.ndarray:
    return ridge(x, target, predictors, neighbours.REFIT * regularisation)


@pytest.fixture
def fitted():
    return Neighbours.fit(sp.csr_array(some_data(1, 80, 30).astype(np.float32)), 7, PLACE, 20.0)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000), users=st.integers(1, 60), items=st.integers(1, 40), count=st.integers(1, 50),
    density=st.sampled_from([0.05, 0.4]),
)  # fmt: skip
def test_every_item_keeps_the_neighbours_with_the_strongest_of_ease_weights(seed, users, items, count, density):
    x = some_data(seed, users, items, density)
    sources, weights = (
        part.cpu().numpy() for part in exact_weights(sp.csr_array(x.astype(np.float32)), count, PLACE, 10.0)
    )
    truth = np.abs(steck(x, 10.0))
    assert sources.shape == weights.shape == (items, min(count, items))
    kept = np.take_along_axis(truth, sources.T, axis=0)
    np.testing.assert_allclose(kept, -np.sort(-truth, axis=0)[:count], atol=1e-6)
    for item in range(items):
        others = sources[item][sources[item] != item]
        np.testing.assert_allclose(weights[item][sources[item] != item], refit(x, item, others, 10.0), atol=1e-6)
        assert (weights[item][sources[item] == item] == 0).all()


@pytest.mark.parametrize("size", [1, 1 << 24], ids=["one at a time", "all at once"])
def test_weights_do_not_depend_on_the_size_of_blocks(monkeypatch, size):
    monkeypatch.setitem(neighbours.BLOCK, "cpu", size)
    monkeypatch.setattr(neighbours, "GATHERED", size)
    x = some_data(2, 90, 25)
    part = Neighbours._from_columns(*exact_weights(sp.csr_array(x.astype(np.float32)), 6, PLACE, 15.0))
    kept, expected = strongest_of_columns(steck(x, 15.0), 6), np.zeros((25, 25))
    for item in range(25):
        others = np.flatnonzero(kept[:, item])
        expected[others, item] = refit(x, item, others, 15.0)
    np.testing.assert_allclose(dense(part), expected, atol=1e-6)


@pytest.mark.parametrize("together", [1, 5, 64])
@pytest.mark.parametrize("once", [True, False], ids=["counted once", "counted by group"])
def test_local_weights_are_regressions_on_the_best_predictors(monkeypatch, once, together):
    monkeypatch.setattr(neighbours, "TOGETHER", together)
    monkeypatch.setattr(neighbours, "counts_once", lambda matrix, device: once and device.type == "cpu")
    monkeypatch.setattr(neighbours, "CANDIDATES", 10)
    x = some_data(3, 120, 40)
    matrix = sp.csr_array(x.astype(np.float32))
    sources, weights = (part.cpu().numpy() for part in local_weights(matrix, 4, PLACE, 9.0))
    predictors = best_predictors(matrix, matrix.T.tocsr(), 10, 9.0).numpy()
    for item in range(40):
        solution = dict(zip(predictors[item], ridge(x, item, predictors[item], 9.0), strict=True))
        expected = sorted(solution, key=lambda other: -abs(solution[other]))[:4]
        assert sources[item].tolist() == expected
        np.testing.assert_allclose(weights[item], refit(x, item, np.array(expected), 9.0), atol=1e-6)


def sparse_data(seed, users, items):
    """Three items of one of many groups per user: most pairs of items never occur together."""
    random = np.random.default_rng(seed)
    x = np.zeros((users, items))
    for user in range(users):
        x[user, (random.choice(8, 3, replace=False) + 8 * random.integers(items // 8)) % items] = 1
    return x


def test_sparse_weights_are_those_of_ease_where_all_that_occur_together_are_candidates(monkeypatch):
    monkeypatch.setattr(neighbours, "SMALLEST_GROUP", 2)
    x = sparse_data(3, 2000, 64)
    part = Neighbours._from_columns(*sparse_weights(sp.csr_array(x.astype(np.float32)), 20, PLACE, 6.0))
    np.testing.assert_allclose(dense(part), steck(x, 6.0 * neighbours.REFIT), atol=1e-6)


def test_sparse_weights_are_regressions_on_the_best_predictors():
    x = some_data(3, 120, 40)
    matrix = sp.csr_array(x.astype(np.float32))
    found = dense(Neighbours._from_columns(*sparse_weights(matrix, 4, PLACE, 9.0)))
    predictors = best_predictors(matrix, matrix.T.tocsr(), 4, 9.0).numpy()
    for item in range(40):
        np.testing.assert_allclose(found[predictors[item], item], refit(x, item, predictors[item], 9.0), atol=1e-6)
        assert np.count_nonzero(found[:, item]) <= 4


def test_pairs_are_counted_once_where_many_occur_together_and_memory_is_left(monkeypatch):
    monkeypatch.setattr(neighbours, "FEWEST_SPARSE", 40)
    monkeypatch.setattr(neighbours, "CANDIDATES", 20)
    dense, sparse = (sp.csr_array(x) for x in (some_data(3, 120, 40), sparse_data(3, 20, 400)))
    cpu = torch.device("cpu")
    assert neighbours.counts_once(dense, cpu)
    assert not neighbours.counts_once(sparse, cpu)
    assert not neighbours.counts_once(dense, torch.device("cuda"))
    monkeypatch.setattr(neighbours, "memory_left", lambda device: 2 * 4 * 40**2 - 1)
    assert not neighbours.counts_once(dense, cpu)


def test_only_a_large_catalogue_of_short_histories_is_sparse(monkeypatch):
    monkeypatch.setattr(neighbours, "FEWEST_SPARSE", 40)
    monkeypatch.setattr(neighbours, "CANDIDATES", 20)
    sparse, many = sp.csr_array(sparse_data(3, 150, 64)), sp.csr_array(some_data(3, 120, 40))
    assert neighbours.is_sparse(sparse)
    assert not neighbours.is_sparse(many)
    monkeypatch.setattr(neighbours, "FEWEST_SPARSE", 100)
    assert not neighbours.is_sparse(sparse)


@pytest.mark.parametrize("solve", [exact_weights, local_weights])
def test_weights_of_interactions_count_relative_to_their_mean(monkeypatch, solve):
    monkeypatch.setattr(neighbours, "is_exact", lambda items, device: solve is exact_weights)
    monkeypatch.setattr(neighbours, "without_weak", lambda weights: weights)
    x = some_data(4, 70, 30)
    data = weighted(x)
    x /= x[x > 0].mean()
    part = Neighbours.fit(data.matrix, 29, PLACE, 12.0)
    np.testing.assert_allclose(dense(part), steck(x, 12.0 * neighbours.REFIT), atol=1e-6)


def test_scores_depend_on_the_ratios_of_weights_in_each_history(fitted):
    x = some_data(10, 20, 30)
    x[4] = 0
    histories = weighted(x).matrix
    means = np.array([max(row[row > 0].mean(), 1) if row.any() else 1 for row in x])
    truth = (x / means[:, None]) @ dense(fitted)
    for scores in (fitted.scores(histories), fitted._scores(histories, neighbours.weights_by_user(histories))):
        np.testing.assert_allclose(scores.cpu().numpy(), truth, atol=1e-5)


def test_local_weights_with_all_items_as_candidates_are_those_of_ease():
    x = some_data(4, 70, 30)
    part = Neighbours._from_columns(*local_weights(sp.csr_array(x.astype(np.float32)), 29, PLACE, 12.0))
    np.testing.assert_allclose(dense(part), steck(x, 12.0 * neighbours.REFIT), atol=1e-6)


def test_the_best_predictors_reduce_the_ridge_objective_most_one_by_one():
    x = some_data(5, 100, 20)
    matrix = sp.csr_array(x.astype(np.float32))
    best = best_predictors(matrix, matrix.T.tocsr(), 5, 8.0).numpy()
    for item in range(20):
        gain = (x.T @ x[:, item]) ** 2 / (x.sum(axis=0) + 8.0)  # |y|² − min |y − x b|² + 8 b²
        gain[item] = -1
        np.testing.assert_allclose(gain[best[item]], np.sort(gain)[::-1][:5])


@pytest.mark.parametrize(
    ("items_at_most", "bytes_left", "name"),
    [(30, 12 * 30**2, "exact_weights"), (29, 12 * 30**2, "local_weights"), (30, 4 * 30**2, "local_weights")],
)
def test_catalogues_too_large_for_all_pairs_get_local_weights(monkeypatch, items_at_most, bytes_left, name):
    monkeypatch.setitem(neighbours.EXACT_ITEMS, PLACE.type, items_at_most)
    monkeypatch.setattr(neighbours, "memory_left", lambda device: bytes_left)
    monkeypatch.setattr(neighbours, "CANDIDATES", 8)
    x = sp.csr_array(some_data(6, 60, 30).astype(np.float32))
    sources, weights = getattr(neighbours, name)(x, 3, PLACE, 10.0)
    expected = Neighbours._from_columns(sources, without_weak(weights))
    np.testing.assert_array_equal(dense(Neighbours.fit(x, 3, PLACE, 10.0)), dense(expected))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), users=st.integers(0, 70), items=st.integers(1, 30), density=st.floats(0, 1))
def test_scores_equal_the_dense_product(seed, users, items, density):
    part = Neighbours.fit(sp.csr_array(some_data(seed, 50, items).astype(np.float32)), 5, PLACE)
    x = (np.random.default_rng(seed).random((users, items)) < density).astype(np.float32)
    for scores in (part.scores, part._scores):
        np.testing.assert_allclose(scores(sp.csr_array(x)).cpu().numpy(), x @ dense(part), atol=1e-5)


@runs_kernels
@pytest.mark.parametrize(("users", "density"), [(0, 0.5), (3, 0.0), (4, 0.1), (2, 0.5)])
def test_scores_of_the_kernel_equal_the_dense_product(users, density):
    from macrid.ops import rows_triton

    part = Neighbours.fit(sp.csr_array(some_data(0, 300, 200).astype(np.float32)), 180, PLACE)
    assert part._lengths.max() > rows_triton.BLOCK  # some rows take several rounds
    x = (np.random.default_rng(0).random((users, 200)) < density).astype(np.float32)
    np.testing.assert_allclose(part._scores_of_kernels(sp.csr_array(x)).cpu().numpy(), x @ dense(part), atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 6])
def test_scores_do_not_depend_on_the_number_of_threads(monkeypatch, fitted, threads):
    monkeypatch.setattr(neighbours, "USERS", 3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    histories = sp.csr_array(some_data(10, 20, 30).astype(np.float32))
    part = Neighbours.from_state(fitted.state())
    np.testing.assert_allclose(part.scores(histories).numpy(), histories @ dense(part), atol=1e-5)


def test_weights_below_half_the_mean_are_dropped():
    weights = torch.tensor([[4.0, -3.0, 0.9], [0.0, -1.6, 0.5]])  # 2 on average, without the 0
    assert without_weak(weights).tolist() == [[4, -3, 0], [0, pytest.approx(-1.6), 0]]
    assert without_weak(torch.zeros(2, 2)).tolist() == [[0, 0], [0, 0]]


def test_scores_do_not_depend_on_how_many_are_added_up_at_once(monkeypatch, fitted):
    histories = sp.csr_array(some_data(8, 21, 30).astype(np.float32))
    whole = fitted._scores(histories)
    monkeypatch.setattr(neighbours, "ENTRIES", 10)
    torch.testing.assert_close(fitted._scores(histories), whole)


def test_columns_are_the_weights_towards_some_items_in_order(fitted):
    positions = torch.tensor([4, 29, 0, 11], device=PLACE)
    some = fitted.columns(positions)
    np.testing.assert_array_equal(dense(some), dense(fitted)[:, positions.cpu()])
    histories = sp.csr_array(some_data(9, 6, 30).astype(np.float32))
    torch.testing.assert_close(some.scores(histories), fitted.scores(histories)[:, positions])


def test_contributions_add_up_to_scores(fitted):
    history, items = np.array([3, 17, 5]), np.array([8, 2, 8, 29])
    x = np.zeros((1, 30), dtype=np.float32)
    x[0, history] = 1
    parts = fitted.contributions(history, items)
    assert parts.shape == (3, 4)
    torch.testing.assert_close(parts.sum(dim=0), fitted.scores(sp.csr_array(x))[0, items])
    assert fitted.contributions(np.zeros(0), items).shape == (0, 4)
    assert fitted.contributions(history, np.zeros(0)).shape == (3, 0)


def test_histories_over_other_items_are_refused(fitted):
    with pytest.raises(DataError, match="31"):
        fitted.scores(sp.csr_array((2, 31), dtype=np.float32))


def test_a_state_restores_the_same_weights(fitted):
    state = fitted.state()
    assert all(tensor.device.type == "cpu" for tensor in state.values())
    again = Neighbours.from_state(state).to(PLACE)
    assert (again.items, again.width) == (30, 30)
    np.testing.assert_array_equal(dense(again), dense(fitted))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.pop("weights"), "weights"),
        (lambda s: s.update(more=s["weights"]), "more"),
        (lambda s: s.update(targets=s["targets"].long()), "int64"),
        (lambda s: s.update(weights=s["weights"][:, None]), "2"),
        (lambda s: s.update(weights=s["weights"][1:]), "weights"),
        (lambda s: s.update(offsets=s["offsets"][:0]), "offsets"),
        (lambda s: s.update(offsets=s["offsets"] + 1), "offsets"),
        (lambda s: s.update(offsets=s["offsets"][:-1]), "offsets"),
        (lambda s: s["offsets"].__setitem__(3, 10**6), "offsets"),
        (lambda s: s["targets"].__setitem__(5, 30), "30"),
        (lambda s: s["targets"].__setitem__(5, -1), "-1"),
        (lambda s: s["weights"].__setitem__(5, torch.nan), "finite"),
    ],
)
def test_a_damaged_state_is_refused(fitted, change, named):
    state = {name: tensor.clone() for name, tensor in fitted.state().items()}
    change(state)
    with pytest.raises(ValueError, match=named):
        Neighbours.from_state(state)


def planted_ndcg(users: int, gain: float, noise: float = 0.05, best: float = 4.0):
    """NDCG per user: by weight, the mean rises by `gain` until the best one, and the spread of the gains rises on."""
    base = np.linspace(0, 0.5, users)
    direction = np.where(np.arange(users) % 2, 1.0, -1.0)

    def ndcg(weight: float) -> np.ndarray:
        distance = weight / best
        return base + gain * distance * (2 - distance) + noise * np.sqrt(distance) * direction

    return ndcg


@pytest.mark.parametrize("best", [2.0, 4.0, 16.0])
def test_the_weight_that_gains_most_is_chosen_among_many_users(best):
    assert choose_weight(planted_ndcg(20_000, 0.02, best=best)) == (best, None)


def test_a_few_users_change_the_usual_weight_only_if_they_clearly_agree():
    random = np.random.default_rng(0)
    noise = {weight: random.normal(scale=0.1, size=50) for weight in (0.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
    noise[8.0] += 0.05 - noise[8.0].mean()
    noise[4.0] += 0.06 - noise[4.0].mean()  # better, by less than its standard error of about .02
    assert choose_weight(noise.__getitem__) == (8.0, None)
    noise[4.0] += 0.05
    assert choose_weight(noise.__getitem__) == (4.0, None)
    noise[0.0] += 0.2
    assert choose_weight(noise.__getitem__).weight == 0


def test_a_part_that_harms_gets_weight_0_and_a_reason():
    weight, reason = choose_weight(lambda weight: np.linspace(0.1, 0.5, 400) - 0.001 * weight)
    assert weight == 0
    assert "400" in reason


def test_regularisation_grows_with_popularity_but_more_slowly():
    sparse, dense_ = (sp.csr_array(some_data(0, users, 50).astype(np.float32)) for users in (100, 1600))
    ratio = suitable_regularisation(dense_) / suitable_regularisation(sparse)
    assert 3.5 < ratio < 4.5
