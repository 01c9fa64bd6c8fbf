"""The sampled likelihood: its sum over all items is right on average, whatever a user has and however draws fall."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from macrid.ops import partition, sampled
from macrid.ops.partition import log_likelihood
from macrid.ops.sampled import Sampler, _unique, gather, sampled_log_likelihood
from macrid.ops.sparse import positives
from tests.truth import (
    Tolerance,
    assert_near,
    assert_same,
    histories,
    naive_log_likelihood,
    naive_log_partition,
    naive_logits,
    problem,
    with_gradients,
)

SAMPLINGS = ["popularity", "log-uniform", "uniform"]
SINGLE_Q = 1e-6  # log q is kept in single precision

every_sampling = pytest.mark.parametrize("sampling", SAMPLINGS)


@pytest.fixture(params=["one sweep", "composed", "as on a GPU"])
def way(request, monkeypatch):
    """The sum over draws with its gradients in one sweep; in blocks too small for that; by log_partition."""
    if request.param == "composed":
        monkeypatch.setattr(partition, "SCRATCH", 1)
    if request.param == "as on a GPU":
        monkeypatch.setattr(sampled, "kernels", SimpleNamespace(serve=lambda tensor: True))


class Given(Sampler):
    """Draws a fixed list of items."""

    def __init__(self, popularity, sampling, drawn):
        super().__init__(popularity, sampling)
        self.drawn = torch.tensor(drawn)

    def draw(self, count, generator):
        assert count == len(self.drawn)
        return self.drawn


def popularity_of(items):
    return (torch.arange(items) * 7) % 23


def local_problem(inputs, local):
    z, h, log_c = inputs
    return z, h[local.rows], log_c[local.rows]


def estimate(inputs, history, sampler, negatives, generator=None):
    """The estimate of Z for a single user with this history."""
    local = gather(histories([history]), sampler, negatives, generator)
    tables = local_problem(inputs, local)
    sums, _ = positives(*tables, 0.1, local.histories)
    likelihood = sampled_log_likelihood(*tables, 0.1, local)
    return float(torch.exp((sums[0] - likelihood) / len(history)))


@every_sampling
@pytest.mark.parametrize("history", [[0], [2], [0, 3], [1, 2, 3], [0, 1, 2, 3]])
def test_the_estimate_is_unbiased_over_all_draws(way, sampling, history):
    inputs = problem(1, 2, 3, 4)
    truth = float(naive_log_partition(*inputs, 0.1).exp())
    mean = total = 0.0
    for drawn in itertools.product(range(4), repeat=2):
        sampler = Given(torch.tensor([9, 0, 4, 1]), sampling, drawn)
        chance = float(sampler.log_q.double()[list(drawn)].sum().exp())
        mean += chance * estimate(inputs, history, sampler, 2)
        total += chance
    assert total == pytest.approx(1, rel=SINGLE_Q)
    assert mean == pytest.approx(truth, rel=SINGLE_Q)


@every_sampling
def test_the_estimate_is_unbiased_in_a_larger_catalogue(sampling):
    inputs = problem(1, 3, 6, 60, seed=1)
    sampler, generator = Sampler(popularity_of(60), sampling), torch.Generator().manual_seed(0)
    history = [1, 17, 30, 31, 59]
    estimates = torch.tensor([estimate(inputs, history, sampler, 16, generator) for _ in range(600)])
    standard_error = float(estimates.std() / math.sqrt(len(estimates)))
    truth = float(naive_log_partition(*inputs, 0.1).exp())
    assert abs(float(estimates.mean()) - truth) < 4 * standard_error
    assert standard_error < 0.1 * truth, "too wide to tell anything"


@every_sampling
def test_the_likelihood_approaches_the_exact_one_with_many_draws(sampling):
    inputs, rows = problem(3, 2, 4, 10), [[0, 4], [], [1, 2, 9]]
    sampler = Sampler(popularity_of(10), sampling)
    local = gather(histories(rows), sampler, 100_000, torch.Generator().manual_seed(0))
    estimated = sampled_log_likelihood(*local_problem(inputs, local), 0.1, local)
    assert float(estimated) == pytest.approx(float(naive_log_likelihood(*inputs, 0.1, rows)), rel=0.01)


def test_draws_of_every_item_in_proportion_give_the_exact_likelihood_and_gradients(way):
    inputs, rows = problem(3, 2, 4, 10), [[0, 4], [], [1, 2, 9]]
    local = gather(histories(rows), Given(torch.zeros(10), "uniform", list(range(10)) * 3), 30, None)
    weight = [torch.tensor(1.0)]
    estimated, gradients = with_gradients(
        lambda *t: sampled_log_likelihood(*local_problem(t, local), 0.1, local), inputs, weight
    )
    exact, expected = with_gradients(lambda *t: log_likelihood(*t, 0.1, histories(rows)), inputs, weight)
    assert_near(estimated[0], exact[0], SINGLE_Q)
    for ours, true in zip(gradients, expected, strict=True):
        assert_near(ours, true, SINGLE_Q)


@pytest.mark.parametrize("draws", [2, 7])
def test_gradients_are_those_of_the_estimate(way, draws):
    inputs, rows = problem(4, 3, 5, 12), [[0, 4], [], [1, 2, 9], [3]]
    drawn = [3, 4, 4, 11, 0, 3, 7][:draws]
    sampler = Given(popularity_of(12), "popularity", drawn)
    local = gather(histories(rows), sampler, draws, None)
    weights = -sampler.log_q.double() - math.log(draws)

    def truth(z, h, log_c):
        total = 0 * z.sum()
        for user, history in enumerate(rows):
            p = naive_logits(z, h, log_c, 0.1, user).exp().sum(dim=1)
            others = [p[item] * weights[item].exp() for item in drawn if item not in history]
            z_u = p[history].sum() + sum(others, 0 * z.sum())
            total = total + (p[history].log() - z_u.log()).sum() if history else total
        return total

    assert_same(
        lambda *t: sampled_log_likelihood(*local_problem(t, local), 0.1, local), truth, inputs, [torch.tensor(-0.8)],
        Tolerance(SINGLE_Q, SINGLE_Q),
    )  # fmt: skip


@pytest.mark.parametrize("values", [None, [[0.5, 3.0], [], [1.0, 0.25, 2.0]]], ids=["plain", "weighted"])
def test_users_and_interactions_are_weighted_as_in_the_exact_likelihood(way, values):
    inputs, rows = problem(3, 2, 4, 10), [[0, 4], [], [1, 2, 9]]
    batch = replace(histories(rows, values), balance=0.5)
    local = gather(batch, Given(torch.zeros(10), "uniform", list(range(10)) * 3), 30, None)
    weight = [torch.tensor(1.0)]
    estimated, gradients = with_gradients(
        lambda *t: sampled_log_likelihood(*local_problem(t, local), 0.1, local), inputs, weight
    )
    exact, expected = with_gradients(lambda *t: log_likelihood(*t, 0.1, batch), inputs, weight)
    assert_near(estimated[0], exact[0], SINGLE_Q)
    for ours, true in zip(gradients, expected, strict=True):
        assert_near(ours, true, SINGLE_Q)


def test_a_user_who_has_every_draw_is_estimated_from_their_items_alone(way):
    inputs = [tensor.float() for tensor in problem(2, 2, 3, 6)]
    rows = [[0, 1, 2], [5]]
    local = gather(histories(rows), Given(torch.ones(6), "popularity", [1, 0, 1]), 3, None)
    (value,), gradients = with_gradients(
        lambda *t: sampled_log_likelihood(*local_problem(t, local), 0.1, local), inputs, [torch.tensor(1.0)]
    )
    assert torch.isfinite(value)
    assert all(torch.isfinite(g).all() for g in gradients)
    assert gradients[0].abs().sum(dim=(1, 2)).min() > 0
    sums, totals = positives(inputs[0][:1], *inputs[1:], 0.1, histories(rows[:1]))
    alone = gather(histories(rows[:1]), Given(torch.ones(6), "popularity", [1, 0, 1]), 3, None)
    estimated = sampled_log_likelihood(inputs[0][:1], *local_problem(inputs, alone)[1:], 0.1, alone)
    assert float(estimated) == pytest.approx(float(sums[0] - 3 * totals[0]), rel=1e-5)


def test_only_rows_in_histories_or_draws_have_a_gradient(way):
    inputs, rows = problem(2, 2, 3, 30), [[0, 7], [12]]
    local = gather(histories(rows), Given(torch.ones(30), "uniform", [3, 7, 20, 3]), 4, None)
    _, (_, by_items, by_assignment) = with_gradients(
        lambda *t: sampled_log_likelihood(*local_problem(t, local), 0.1, local), inputs, [torch.tensor(1.0)]
    )
    touched = [0, 3, 7, 12, 20]
    assert local.rows[: local.count].tolist() == touched
    for gradient in (by_items, by_assignment):
        assert gradient.abs().sum(dim=1).nonzero()[:, 0].tolist() == touched


@pytest.mark.parametrize(
    ("sampling", "weight"),
    [
        ("popularity", lambda count, rank: math.sqrt(count + 1)),
        ("log-uniform", lambda count, rank: math.log((rank + 2) / (rank + 1))),
        ("uniform", lambda count, rank: 1.0),
    ],
)
def test_items_are_drawn_with_their_probabilities(sampling, weight):
    counts = [5, 0, 100, 30, 31, 2]
    ranks = [3, 5, 0, 2, 1, 4]
    expected = torch.tensor([weight(count, rank) for count, rank in zip(counts, ranks, strict=True)]).double()
    expected /= expected.sum()
    sampler = Sampler(torch.tensor(counts), sampling)
    torch.testing.assert_close(sampler.log_q.double().exp(), expected, rtol=SINGLE_Q, atol=0)
    drawn = sampler.draw(50_000, torch.Generator().manual_seed(0))
    assert chisquare(torch.bincount(drawn, minlength=6), 50_000 * expected).pvalue > 1e-4


@every_sampling
@pytest.mark.parametrize("items", [1, 2, 1000])
def test_the_probabilities_of_a_catalogue_sum_to_one(sampling, items):
    sampler = Sampler(popularity_of(items), sampling)
    assert float(sampler.log_q.double().exp().sum()) == pytest.approx(1, rel=SINGLE_Q)
    assert set(sampler.draw(500, torch.Generator().manual_seed(0)).tolist()) <= set(range(items))


some_rows = st.lists(st.lists(st.integers(0, 14), unique=True, max_size=8), min_size=1, max_size=5)
some_draws = st.lists(st.integers(0, 14), min_size=1, max_size=20)


@given(rows=some_rows, drawn=some_draws)
def test_the_local_catalogue_has_the_same_items(rows, drawn):
    local = gather(histories(rows), Given(torch.ones(15), "popularity", drawn), len(drawn), None)
    assert local.rows.tolist() == sorted({*drawn, *(item for row in rows for item in row)})
    assert local.rows[local.draws].tolist() == drawn
    for user, row in enumerate(rows):
        block = slice(int(local.histories.starts[user]), int(local.histories.stops[user]))
        assert local.rows[local.histories.items[block]].tolist() == row


@given(rows=some_rows, drawn=some_draws)
def test_each_drawn_item_counts_once_and_not_for_users_who_have_it(rows, drawn):
    sampler = Given(torch.arange(15), "popularity", drawn)
    local = gather(histories(rows), sampler, len(drawn), None)
    assert local.hidden.shape == (len(rows), len(drawn))
    for place, item in enumerate(drawn):
        if item in drawn[:place]:
            assert local.log_weights[place] == -torch.inf
            continue
        q = math.exp(sampler.log_q[item])
        assert math.exp(local.log_weights[place]) == pytest.approx(drawn.count(item) / (len(drawn) * q), rel=1e-5)
        assert local.hidden[:, place].tolist() == [item in row for row in rows]


@given(values=st.lists(st.integers(0, 30), min_size=1, max_size=40), more=st.integers(0, 5))
def test_distinct_values_in_a_buffer_of_fixed_size_are_those_of_torch(values, more):
    values = torch.tensor(values)
    expected, places = torch.unique(values, return_inverse=True)
    rows, count, inverse = _unique(values, len(expected) + more)
    assert len(rows) == len(expected) + more
    assert int(count) == len(expected)
    assert torch.equal(rows[: int(count)], expected)
    assert torch.equal(inverse, places)
