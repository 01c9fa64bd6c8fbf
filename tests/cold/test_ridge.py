"""Ridge regression against the slow truth."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from macrid.cold.ridge import Kernel, Ridge


def slow(x, y, weights, penalty):
    """Slopes and mean of a weighted ridge regression with an unpenalised mean, by its normal equations."""
    w = weights * len(weights) / weights.sum()
    ones = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    penalties = np.diag([penalty] * x.shape[1] + [0.0])
    return np.linalg.solve(ones.T @ (w[:, None] * ones) + penalties, ones.T @ (w[:, None] * y))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
def test_leave_one_out_predictions_are_those_of_regressions_without_each_item(seed, penalty):
    random = np.random.default_rng(seed)
    x, y, weights = random.normal(size=(12, 4)), random.normal(size=(12, 3)), random.uniform(0.1, 5, size=12)
    ridge = Ridge.fit(x, y, weights, (penalty,))
    for item in range(12):
        rest = np.delete(np.arange(12), item)
        scale = len(weights) / weights.sum()  # the penalty is for weights of mean 1 over all items
        kept = weights[rest] * scale
        solution = slow(x[rest], y[rest], kept, penalty * len(rest) / kept.sum())
        expected = np.append(x[item], 1) @ solution
        assert np.allclose(ridge.left_out[item], expected, atol=1e-8)
    solution = slow(x, y, weights, penalty)
    assert np.allclose(ridge.predict(x), np.concatenate([x, np.ones((12, 1))], axis=1) @ solution)


def test_a_linear_law_is_recovered_and_noise_explains_nothing():
    random = np.random.default_rng(0)
    x, law = random.normal(size=(400, 6)), random.normal(size=(6, 5))
    ridge = Ridge.fit(x, x @ law + 3, np.ones(400))
    assert ridge.explained > 0.999
    assert np.allclose(ridge.predict(x), x @ law + 3, atol=0.05)
    assert Ridge.fit(x, random.normal(size=(400, 5)), np.ones(400)).explained < 0.02


def test_the_penalty_grows_with_noise():
    random = np.random.default_rng(1)
    x, law = random.normal(size=(60, 20)), random.normal(size=(20, 2))
    penalties = [
        Ridge.fit(x, x @ law + noise * random.normal(size=(60, 2)), np.ones(60)).penalty for noise in (0.01, 30.0)
    ]
    assert penalties[0] < penalties[1]


def test_inner_products_of_kernel_features_are_the_kernel():
    random = np.random.default_rng(2)
    features = sp.csr_array(random.dirichlet(np.ones(5), size=30))
    kernel = Kernel.fit(features, 2.0, np.ones(30))
    x = kernel.of(features)
    assert np.allclose(x @ x.T, np.exp(2 * ((features @ features.T).toarray() - 1)), atol=1e-6)
