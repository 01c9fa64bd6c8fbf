"""Paired tests: known answers, and their behaviour where nothing or something differs."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import macrid
from macrid.errors import DataError, RequestError
from macrid.evaluation.comparison import compared, holm, sign_flip
from macrid.evaluation.ranking import Evaluation, Metric

NUMBERS = st.lists(st.integers(-8, 8), min_size=1, max_size=8)


def evaluation(values):
    values = np.asarray(values, dtype=float)
    return Evaluation(len(values), 0, {"ndcg@10": Metric(float(np.nanmean(values)), 0.0)}, {"ndcg@10": values})


@given(NUMBERS)
def test_few_users_get_the_share_of_all_signs(values):
    sums = abs(np.array(list(itertools.product((1, -1), repeat=len(values)))) @ values)
    p, exact = sign_flip(np.array(values) / 8)
    assert exact
    assert p == pytest.approx(np.mean(sums >= abs(sum(values))))


def test_random_signs_come_close_to_all_signs_and_to_students_t():
    values = np.random.default_rng(0).normal(0.35, 1, 12)
    truth, exact = sign_flip(values, draws=5000)
    assert exact
    sampled, exact = sign_flip(values, draws=4000)
    assert not exact
    assert sampled == pytest.approx(truth, abs=0.03)
    many = np.random.default_rng(1).normal(0.05, 1, 1500)
    assert sign_flip(many)[0] == pytest.approx(stats.ttest_1samp(many, 0).pvalue, abs=0.01)


def test_p_is_uniform_where_nothing_differs():
    random = np.random.default_rng(2)
    p = np.array([sign_flip(random.normal(0, 1, 40), draws=199, seed=seed)[0] for seed in range(400)])
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.03)
    assert p.mean() == pytest.approx(0.5, abs=0.05)


def test_holms_correction_of_a_textbook_example():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.7])) == pytest.approx([1, 1])
    assert holm(np.array([0.02, np.nan, 0.04])) == pytest.approx([0.04, np.nan, 0.04], nan_ok=True)


def test_intervals_are_those_of_students_paired_t():
    random = np.random.default_rng(3)
    a, b = random.random(30), random.random(30)
    (found,) = compared({"a": evaluation(a), "b": evaluation(b)}).differences
    truth = stats.ttest_rel(b, a)
    assert (found.low, found.high) == pytest.approx(truth.confidence_interval(0.95))
    assert found.mean / found.se == pytest.approx(truth.statistic)


def test_users_without_a_score_in_either_model_are_left_out():
    (found,) = compared({"a": evaluation([0, np.nan, 1]), "b": evaluation([1, 1, np.nan])}).differences
    assert (found.users, found.mean, found.p) == (1, 1, 1)
    assert np.isnan(found.low)
    assert found.as_json()["low"] is None


@pytest.fixture(scope="module")
def comparison(trained):
    model, split = trained
    others = {"ease": macrid.EASE().fit(split.train), "popular": macrid.Popularity().fit(split.train)}
    return macrid.compare({"mine": model, **others}, split.test, "ndcg@20,coverage@5,diversity:category@5")


def test_every_pair_is_compared_in_every_metric(comparison):
    pairs = [("mine", "ease"), ("mine", "popular"), ("ease", "popular")]
    metrics = ["ndcg@20", "coverage@5", "diversity:category@5"]
    assert [(d.metric, d.first, d.second) for d in comparison.differences] == [(m, *p) for m in metrics for p in pairs]
    for each in comparison.differences:
        first, second = (comparison.evaluations[name][each.metric].mean for name in (each.first, each.second))
        assert each.mean == pytest.approx(second - first)
        assert each.low < each.mean < each.high
        assert each.p <= each.p_adjusted
    assert comparison.differences[2].p_adjusted < 0.05  # popularity is behind EASE


def test_a_model_compared_with_itself_does_not_differ(trained):
    model, split = trained
    (found,) = macrid.compare({"a": model, "b": model}, split.test, "ndcg@20").differences
    assert (found.mean, found.p, found.p_adjusted) == (0, 1, 1)


def test_a_comparison_is_printed_and_a_frame(comparison):
    text = str(comparison)
    assert "NDCG@20\n  mine     0." in text
    assert "popular − ease: -0." in text
    assert text.endswith("(50 users; 95 % intervals; p by random signs, Holm's correction)")
    frame = comparison.to_frame("pandas")
    assert len(frame) == 9
    assert frame.columns.tolist()[:4] == ["metric", "first", "second", "mean"]
    assert comparison.to_frame("polars").height == 9


def test_models_that_cannot_be_compared_are_refused(trained, shop):
    model, split = trained
    other = macrid.Popularity().fit(shop.interactions)
    with pytest.raises(DataError, match="'other' and 'mine' have different items"):
        macrid.compare({"mine": model, "other": other}, split.test)
    for models in ({"mine": model}, [model, model]):
        with pytest.raises(RequestError, match="at least two models by name"):
            macrid.compare(models, split.test)
    with pytest.raises(RequestError, match="draws is 0"):
        macrid.compare({"a": model, "b": model}, split.test, draws=0)
