"""The parts of the KL term against closed forms and naive sampling."""

import tracemalloc
from itertools import pairwise
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm, qmc

from macrid.errors import DataError
from macrid.evaluation import decomposition
from macrid.evaluation.decomposition import decompose_kl, marginal_entropies


def users(seed, count, dims, spread=1.0):
    random = np.random.default_rng(seed)
    return random.normal(scale=spread, size=(count, dims)), np.exp(random.normal(-0.5, 0.4, size=(count, dims)))


def log_densities(z, mean, std):
    """ln N(z_j; mean_uj, std_uj²): (samples, users, dims)."""
    return norm.logpdf(z[:, None], mean, std)


def draw(mean, std, seed, each):
    random = np.random.default_rng(seed)
    owners = np.repeat(np.arange(len(mean)), each)
    return owners, mean[owners] + std[owners] * random.standard_normal((len(owners), mean.shape[1]))


def nearly_gaussian(covariance, std, count=4096):
    """Means at quasi-random points of N(0, covariance), all with the same standard deviation."""
    dims = len(covariance)
    points = norm.ppf(qmc.Sobol(dims, seed=1).random(count))
    return points @ np.linalg.cholesky(covariance).T, np.full((count, dims), std)


@hypothesis_settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 4), st.floats(0.1, 3))
def test_kl_matches_its_closed_form_and_its_parts_stay_within_limits(seed, count, dims, prior):
    mean, std = users(seed, count, dims)
    parts = decompose_kl(mean, std, prior)
    closed = np.log(prior / std) + (std**2 + mean**2) / (2 * prior**2) - 0.5
    assert parts.kl == pytest.approx(closed.sum(axis=1).mean())
    assert parts.per_dimension.sum() == pytest.approx(parts.dimension_wise_kl)
    assert (parts.per_dimension > -1e-9).all()
    assert parts.mutual_information <= np.log(count) + 1e-12


@pytest.mark.parametrize(("count", "dims", "prior"), [(5, 2, 0.3), (40, 2, 1.0), (60, 6, 0.7)])
def test_the_remainder_is_the_total_correlation_of_samples(count, dims, prior):
    mean, std = users(count, count, dims, spread=2.0)
    mean[:, 1] = 0.3 * mean[:, 1] + mean[:, 0]
    parts = decompose_kl(mean, std, prior, samples=100)
    _, z = draw(mean, std, seed=7, each=20_000 // count)
    each = log_densities(z, mean, std)
    log_q, log_marginals = logsumexp(each.sum(axis=2), axis=1), logsumexp(each, axis=1)
    values = log_q - np.log(count) - (log_marginals - np.log(count)).sum(axis=1)
    error = np.hypot(parts.error, values.std() / np.sqrt(len(values)))
    assert parts.total_correlation > 20 * error
    assert abs(parts.total_correlation - values.mean()) < 4 * error


def test_every_part_matches_naive_sampling():
    mean, std = users(0, 30, 3)
    prior = 0.7
    parts = decompose_kl(mean, std, prior, samples=200)
    owners, z = draw(mean, std, seed=9, each=400)
    each = log_densities(z, mean, std)
    log_q, log_marginals = logsumexp(each.sum(axis=2), axis=1) - np.log(30), logsumexp(each, axis=1) - np.log(30)
    naive = {
        "mutual_information": each.sum(axis=2)[np.arange(len(z)), owners] - log_q,
        "total_correlation": log_q - log_marginals.sum(axis=1),
        "dimension_wise_kl": (log_marginals - norm.logpdf(z, scale=prior)).sum(axis=1),
    }
    for name, values in naive.items():
        error = values.std() / np.sqrt(len(values)) + parts.error
        assert abs(getattr(parts, name) - values.mean()) < 4 * error, name


def test_parts_of_a_gaussian_aggregate_have_their_closed_forms():
    covariance, std, prior = np.array([[1.0, 0.8], [0.8, 1.5]]), 0.6, 0.9
    parts = decompose_kl(*nearly_gaussian(covariance, std), prior, samples=2)
    whole = covariance + std**2 * np.eye(2)
    variances = np.diag(whole)
    assert parts.mutual_information == pytest.approx(0.5 * np.log(np.linalg.det(whole) / std**4), abs=0.02)
    assert parts.total_correlation == pytest.approx(
        0.5 * np.log(variances.prod() / np.linalg.det(whole)), abs=4 * parts.error + 0.002
    )
    expected = 0.5 * (variances / prior**2 - 1 - np.log(variances / prior**2))
    np.testing.assert_allclose(parts.per_dimension, expected, atol=0.005)


def test_independent_dimensions_have_no_total_correlation():
    grid = norm.ppf((np.arange(24) + 0.5) / 24)
    mean = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)  # q(z) is a product of its marginals
    parts = decompose_kl(mean, np.full_like(mean, 0.5), 1.0, samples=20)
    assert abs(parts.total_correlation) < 4 * parts.error
    assert parts.error < 0.01


def test_a_single_user_carries_no_information():
    mean, std = users(1, 1, 5)
    parts = decompose_kl(mean, std, 0.5)
    assert (parts.mutual_information, parts.error) == (0, 0)
    assert parts.total_correlation == pytest.approx(0, abs=1e-8)
    assert parts.dimension_wise_kl == pytest.approx(parts.kl)


def test_two_users_far_apart_are_worth_ln_2():
    mean = np.array([[-50.0, -50.0], [50.0, 50.0]])
    parts = decompose_kl(mean, np.ones((2, 2)), 1.0)
    assert parts.mutual_information == pytest.approx(np.log(2))
    assert parts.total_correlation == pytest.approx(np.log(2), abs=1e-8)  # one dimension determines the other
    assert parts.error == pytest.approx(0, abs=1e-12)


def test_identical_users_carry_no_information():
    parts = decompose_kl(np.full((9, 3), 0.3), np.full((9, 3), 0.2), 0.2)
    assert parts.mutual_information == pytest.approx(0, abs=1e-12)
    assert parts.total_correlation == pytest.approx(0, abs=1e-8)


def test_minibatch_estimates_are_far_off_where_this_is_right():
    count, batch = 200, 20
    mean, std = np.random.default_rng(0).normal(scale=10, size=(count, 30)), np.ones((count, 30))
    parts = decompose_kl(mean, std, 1.0)
    assert parts.mutual_information == pytest.approx(np.log(count))
    _, z = draw(mean, std, seed=1, each=1)
    estimates = []
    for start in range(0, count, batch):  # minibatch-weighted sampling of Chen et al. (2018)
        rows = slice(start, start + batch)
        each = log_densities(z[rows], mean[rows], std[rows]).sum(axis=2)
        log_q = logsumexp(each, axis=1) - np.log(count * batch)
        estimates.append(np.diag(each) - log_q)
    assert np.mean(estimates) == pytest.approx(np.log(count * batch))  # above the maximum: ln(users) + ln(batch)
    assert np.mean(estimates) > np.log(count) + 2.9


@hypothesis_settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6), st.floats(-6, 0))
def test_entropies_match_adaptive_integration_however_narrow_a_user(seed, count, narrowest):
    random = np.random.default_rng(seed)
    mean, std = random.normal(size=count), np.exp(random.uniform(narrowest, 0, size=count))

    def integrand(z):
        q = norm.pdf(z, mean, std).mean()
        return -q * np.log(q) if q > 0 else 0.0

    places = np.unique(np.concatenate([mean + k * std for k in range(-9, 10)]))
    expected = sum(quad(integrand, a, b)[0] for a, b in pairwise(places))
    assert marginal_entropies(mean[:, None], std[:, None])[0] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("narrow", [1e-3, 1e-9, 1e-300])
def test_a_single_user_is_integrated_however_narrow(narrow):
    assert marginal_entropies([[2.5]], [[narrow]])[0] == pytest.approx(norm.entropy(scale=narrow))


@pytest.mark.parametrize("narrow", [1e-3, 1e-9, 2e-16, 1e-300])
def test_users_too_narrow_for_float64_are_widened_to_a_small_share_of_the_range(narrow):
    found = marginal_entropies([[2.5], [3.5], [4.5]], [[narrow]] * 3)[0]
    assert found == pytest.approx(np.log(3) + norm.entropy(scale=max(narrow, 2e-10)), abs=2e-5)


def test_narrow_users_take_little_longer_than_wide_ones():
    mean = np.random.default_rng(0).uniform(-1, 1, size=(1000, 5))

    def seconds(std):
        started = process_time()
        marginal_entropies(mean, np.full(mean.shape, std))
        return process_time() - started

    narrow, wide = (min(seconds(std) for _ in range(3)) for std in (0.0005, 0.05))
    assert narrow < 10 * wide  # about 2; 25 if every user were compared with every point


def test_blocks_and_known_entropies_change_nothing(monkeypatch):
    mean, std = users(3, 40, 6)
    whole = decompose_kl(mean, std, 1.0, entropies=marginal_entropies(mean, std))
    monkeypatch.setattr(decomposition, "SCRATCH", 500)
    assert decompose_kl(mean, std, 1.0).as_json() == pytest.approx(whole.as_json(), rel=1e-9)


def test_memory_is_bounded_for_many_users():
    mean, std = users(4, 4000, 3)  # 128 MB for every pair
    tracemalloc.start()
    try:
        decompose_kl(mean, std, 1.0, samples=2)
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


def test_the_error_matches_the_spread_over_seeds():
    mean, std = users(5, 60, 4)
    found = [decompose_kl(mean, std, 1.0, samples=3, seed=seed) for seed in range(60)]
    seen = np.std([parts.mutual_information for parts in found])
    assert np.mean([parts.error for parts in found]) == pytest.approx(seen, rel=0.3)


@pytest.mark.parametrize(
    ("mean", "std", "samples", "problem"),
    [
        (np.zeros((3, 2)), np.zeros((3, 2)), 4, "zero"),
        (np.full((3, 2), np.nan), np.ones((3, 2)), 4, "finite"),
        (np.zeros((3, 2)), np.ones((3, 1)), 4, r"\(3, 2\).*\(3, 1\)"),
        (np.zeros((3, 2)), np.ones((3, 2)), 1, "samples is 1"),
    ],
)
def test_invalid_distributions_are_refused(mean, std, samples, problem):
    with pytest.raises(DataError, match=problem):
        decompose_kl(mean, std, 1.0, samples=samples)
