import math
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr, zscore
from sklearn import metrics

from macrid.errors import CollapseWarning, DataError
from macrid.evaluation.agreement import (
    ari,
    effective_concepts,
    independence,
    is_collapsed,
    match,
    matched_accuracy,
    nmi,
    purity,
    ranks_of,
    scores_of,
    spearman,
)
from macrid.training import loop

labellings = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)


def test_the_same_partition_with_different_labels_scores_one():
    first, second = np.array([0, 0, 1, 1, 2]), np.array(["b", "b", "a", "a", "c"])
    for score in (nmi, ari, purity, matched_accuracy):
        assert score(first, second) == pytest.approx(1)


def test_a_known_case_by_hand():
    # H(a) = H(b) = ln 2; joint 3/8, 1/8, 1/8, 3/8
    a, b = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 1, 1, 0])
    joint = -(0.75 * np.log(3 / 8) + 0.25 * np.log(1 / 8))
    assert nmi(a, b) == pytest.approx((2 * np.log(2) - joint) / np.log(2))
    assert purity(a, b) == matched_accuracy(a, b) == 0.75


@given(labellings)
def test_scores_match_scikit_learn(pairs):
    a, b = np.array(pairs).T
    assert ari(a, b) == pytest.approx(metrics.adjusted_rand_score(a, b))
    if len(set(a)) > 1 or len(set(b)) > 1:  # two trivial partitions: its NMI is 1 or 0, by version
        assert nmi(a, b) == pytest.approx(metrics.normalized_mutual_info_score(a, b), abs=1e-9)
    table = metrics.cluster.contingency_matrix(a, b)
    assert purity(a, b) == pytest.approx(table.max(axis=1).sum() / len(a))


@given(labellings)
def test_whole_shares_score_as_labels_do(pairs):
    a, b = np.array(pairs).T
    shares = sp.csr_array((b[:, None] == np.unique(b)).astype(float))
    for score in (nmi, ari, purity, matched_accuracy):
        assert score(a, shares) == pytest.approx(score(a, b))


@given(st.integers(0, 1000), st.integers(2, 12))
def test_ari_of_shares_weighs_pairs_by_the_probability_that_their_values_are_equal(seed, items):
    random = np.random.default_rng(seed)
    a, shares = random.integers(0, 3, items), random.dirichlet(np.ones(4), items)
    i, j = np.triu_indices(items, 1)
    together, alike = (a[i] == a[j]).astype(float), (shares[i] * shares[j]).sum(axis=1)
    expected, most = together.sum() * alike.sum() / len(i), (together.sum() + alike.sum()) / 2
    assert ari(a, shares) == pytest.approx((together @ alike - expected) / (most - expected))


def test_a_surplus_concept_is_unmatched():
    concepts, labels = np.array([3, 3, 3, 5, 5, 9]), np.array(["x", "x", "y", "y", "y", "x"])
    assert match(concepts, labels) == {3: "x", 5: "y", 9: None}
    assert matched_accuracy(concepts, labels) == pytest.approx(4 / 6)


def test_matching_is_optimal_overall_rather_than_greedy():
    concepts, labels = np.array([0] * 10 + [1] * 8), np.array(["a"] * 6 + ["b"] * 4 + ["a"] * 8)
    assert match(concepts, labels) == {0: "b", 1: "a"}


def test_equal_groups_are_all_effective():
    assert effective_concepts(np.repeat([0, 3, 8], 5)) == pytest.approx(3)
    assert effective_concepts(np.zeros(7)) == pytest.approx(1)


@given(st.integers(0, 1000), st.integers(2, 6))
def test_independence_is_one_minus_the_mean_absolute_correlation(seed, d):
    vectors = np.random.default_rng(seed).normal(size=(20, d))
    above = np.abs(np.corrcoef(vectors.T))[np.triu_indices(d, 1)]
    assert independence(vectors) == pytest.approx(1 - above.mean())


def test_copies_are_fully_dependent_whatever_their_sign_scale_and_offset():
    column = np.random.default_rng(0).normal(size=(30, 1))
    assert independence(np.hstack([column, -2 * column, column + 5])) == pytest.approx(0)


def test_a_constant_or_single_dimension_is_independent():
    assert independence(np.ones((5, 1))) == 1
    column = np.random.default_rng(0).normal(size=(30, 1))
    constant = np.full((30, 1), 0.1, dtype=np.float32)
    assert independence(np.hstack([column, column, constant])) == pytest.approx(1 - 1 / 3)
    assert independence(np.hstack([constant, constant])) == 1


@pytest.mark.parametrize(
    ("in_use", "concepts", "collapsed"),
    [(1.0, 2, True), (1.0 + 1e-9, 2, True), (1.9, 2, False), (3.4, 7, True), (3.6, 7, False), (1.0, 1, False)],
)
def test_a_collapse_leaves_at_most_half_of_the_concepts_and_training_warns_about_it(in_use, concepts, collapsed):
    assert is_collapsed(in_use, concepts) == collapsed
    network = SimpleNamespace(concepts=concepts, effective_concepts=lambda: in_use)
    with warnings.catch_warnings(record=True, action="always") as caught:
        loop._warn_of_collapse(SimpleNamespace(network=network, settings=None))
    assert [warning.category for warning in caught] == [CollapseWarning] * collapsed


def test_items_without_a_label_are_refused():
    for score in (nmi, ari, purity, matched_accuracy, match):
        with pytest.raises(DataError, match="None"):
            score(np.array([0, 0, 1]), np.array(["a", None, "b"], dtype=object))


@pytest.mark.parametrize("shape", [(0, 3), (0, 1), (5,)])
def test_independence_needs_users_and_dimensions(shape):
    with pytest.raises(DataError, match=re.escape(str(shape))):
        independence(np.zeros(shape))


NUMBERS = st.lists(st.tuples(*[st.integers(-5, 5) | st.floats(-1e6, 1e6)] * 2), min_size=3, max_size=40)


@given(NUMBERS)
def test_rank_correlation_matches_scipy(pairs):
    x, y = np.array(pairs, dtype=float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert spearman(x, y) == 0
    else:
        assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=2, max_size=30))
def test_scores_are_standardised_ranks_of_known_values(values):
    values = np.array(values)
    known = np.isfinite(values)
    scores = scores_of(values)
    np.testing.assert_array_equal(np.isfinite(scores), known)
    if known.any() and np.ptp(values[known]):
        ranks = [sum(values[known] < value) + sum(values[known] == value) / 2 for value in values[known]]
        np.testing.assert_allclose(scores[known], zscore(ranks), atol=1e-9)
    else:
        assert (scores[known] == 0).all()


def test_unknown_values_have_no_scores_and_no_correlation():
    with warnings.catch_warnings(action="error"):
        assert np.isnan(scores_of(np.full(4, np.nan))).all()
        assert spearman(np.zeros(0), np.zeros(0)) == 0


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), max_size=30))
def test_ranks_are_those_of_scipy_with_ties_averaged(rows):
    values = np.array(rows, dtype=float).reshape(-1, 3)
    values[:, 2] = np.arange(len(values))[::-1]  # without ties
    np.testing.assert_array_equal(ranks_of(values), rankdata(values, axis=0).reshape(values.shape))
    np.testing.assert_array_equal(ranks_of(values[:, 0]), rankdata(values[:, 0]))
