"""Exact or sampled likelihood, chosen by cost."""

from dataclasses import replace

import pytest
import torch

import macrid
from macrid.fitting import training_metrics
from macrid.models.macridvae import MacridNetwork
from macrid.recipe import settings_of_preset
from macrid.settings import MacridVAESettings, TrainingSettings
from macrid.training import likelihoods
from macrid.training.checkpoint import FILE
from macrid.training.likelihoods import Rates, Size, choose, step_seconds

SPARSE = Size(users=17_600, batch=500, items=12_000, per_user=9.0, concepts=7, dim=100, negatives=1_200)
RATES = Rates(product=2e11, exponential=1e9)
CHEAP = {"epochs": 3, "patience": 9, "device": "cpu", "batch_size": 40}


def always(patch, likelihood):
    """Have auto choose this, and train on until the end."""
    patch.setattr(likelihoods, "STALLED", (100, 0.0))
    patch.setattr(likelihoods, "choice_for", lambda *_: likelihoods.Choice(likelihood, 0.0, 0.0))


def fit(split, **settings):
    return macrid.MacridVAE(concepts=3, dim=8, neighbours=0).fit(
        split.train, validation=split.validation, **{**CHEAP, **settings}
    )


def test_a_sparse_catalogue_is_sampled():
    choice = choose(SPARSE, RATES)
    assert choice.likelihood == "sampled"
    assert choice.exact > likelihoods.FASTER * choice.sampled


@pytest.mark.parametrize(
    "change",
    [{"items": 2_000}, {"users": 500}, {"per_user": 140.0}, {"negatives": 12_000}],
    ids=["few items", "few users", "long histories", "as many negatives as items"],
)
def test_what_would_not_gain_much_stays_exact(change):
    assert choose(replace(SPARSE, **change), RATES).likelihood == "exact"


def test_a_fast_machine_stays_exact_where_a_slow_one_samples():
    assert choose(SPARSE, Rates(2e13, 1e11)).likelihood == "exact"
    assert choose(SPARSE, Rates(2e10, 1e8)).likelihood == "sampled"


def test_an_exact_step_costs_its_products_and_exponentials():
    """Known answer: 500 users, 7 concepts, 12,000 items, dim 100: 25.2 GFLOP, 42 million logits."""
    free = Rates(product=1e30, exponential=1e30)
    assert step_seconds(SPARSE, replace(free, product=25.2e9))[0] == pytest.approx(1.0)
    encoder = likelihoods.ENCODER * 0.35e6
    expected = pytest.approx(likelihoods.LOGIT["cpu"] * 42 + encoder / 1e6)
    assert step_seconds(SPARSE, replace(free, exponential=1e6))[0] == expected


def test_a_sampled_step_does_not_grow_with_the_catalogue():
    larger = replace(SPARSE, items=10 * SPARSE.items)
    assert step_seconds(larger, RATES)[1] == step_seconds(SPARSE, RATES)[1]
    assert step_seconds(larger, RATES)[0] > 8 * step_seconds(SPARSE, RATES)[0]


def test_on_a_gpu_only_a_huge_catalogue_is_sampled():
    fast = Rates(2e14, 2e11)
    shape = replace(SPARSE, users=2_000_000, batch=512, per_user=20.0, negatives=8192)
    assert choose(shape, fast, "cuda").likelihood == "exact"
    assert choose(replace(shape, items=10_000_000), fast, "cuda").likelihood == "sampled"


def test_rates_of_this_machine_are_measured_once():
    rates = likelihoods.measured_rates(torch.device("cpu"), "fp32")
    assert rates.product > likelihoods.SLOWEST[0] / 4
    assert rates is likelihoods.measured_rates(torch.device("cpu"), "fp32")


def test_negatives_are_a_tenth_of_the_items_unless_set():
    auto = TrainingSettings()
    assert [auto.negatives_of(items) for items in (500, 20_000, 10**6)] == [1024, 2000, 8192]
    assert TrainingSettings(negatives=7).negatives_of(10**6) == 7
    assert TrainingSettings(likelihood="sampled").negatives_of(10**6) == 1024


def test_small_data_stays_exact_without_measuring(shop_split, monkeypatch):
    monkeypatch.setattr(likelihoods, "measured_rates", lambda *_: pytest.fail("measured"))
    network = MacridNetwork(shop_split.train.matrix.shape[1], MacridVAESettings(concepts=3, dim=8))
    matrix, cpu = shop_split.train.matrix, torch.device("cpu")
    assert likelihoods.likelihood_for(network, matrix, TrainingSettings(), cpu) == "exact"


def test_the_paper_is_exact():
    assert settings_of_preset("paper")["likelihood"] == "exact"


@pytest.mark.parametrize("likelihood", ["exact", "sampled"])
def test_the_choice_trains_as_the_setting_does_and_is_recorded(shop_split, monkeypatch, likelihood):
    always(monkeypatch, likelihood)
    chosen, asked = fit(shop_split), fit(shop_split, likelihood=likelihood)
    for name, value in asked.network.state_dict().items():
        assert torch.equal(value, chosen.network.state_dict()[name]), name
    for model in (chosen, asked):
        recorded = training_metrics(model)
        assert recorded["likelihood"] == likelihood
        assert recorded.get("negatives") == (1024 if likelihood == "sampled" else None)


def test_resuming_keeps_the_choice_whatever_the_machine_says_now(shop_split, monkeypatch, tmp_path):
    always(monkeypatch, "sampled")
    whole = fit(shop_split)
    fit(shop_split, checkpoint=tmp_path, epochs=2)
    always(monkeypatch, "exact")
    resumed = fit(shop_split, checkpoint=tmp_path, resume=True)
    assert resumed.settled == {"likelihood": "sampled", "negatives": 1024}
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name]), name


def test_a_checkpoint_of_an_exact_training_goes_on_under_auto(shop_split, monkeypatch, tmp_path):
    fit(shop_split, checkpoint=tmp_path, epochs=2, likelihood="exact")
    always(monkeypatch, "sampled")
    assert (tmp_path / FILE).exists()
    assert fit(shop_split, checkpoint=tmp_path, resume=True).settled == {"likelihood": "exact"}


@pytest.mark.parametrize(
    ("scores", "stalled"),
    [
        ([0.1, 0.1001, 0.1002, 0.1003, 0.1004, 0.1005], True),
        ([0.1, 0.1001, 0.1002, 0.1003, 0.1004, 0.1011], False),
        ([0.1, 0.1, 0.1, 0.1, 0.1], False),
        ([0.05, 0.1, 0.1, 0.1, 0.1, 0.1], False),
        ([None] * 20, False),
    ],
    ids=["half a percent in five epochs", "more than one", "too early to say", "one of six was worth it", "no scores"],
)
def test_five_epochs_that_gain_less_than_a_percent_are_a_stall(scores, stalled):
    assert likelihoods.has_stalled(scores) is stalled


@pytest.mark.parametrize("likelihood", ["auto", "sampled"])
def test_only_a_chosen_sampled_training_ends_when_it_stalls(shop_split, monkeypatch, likelihood):
    always(monkeypatch, "sampled")
    monkeypatch.setattr(likelihoods, "STALLED", (1, 10.0))
    assert len(fit(shop_split, likelihood=likelihood, epochs=4).log) == (2 if likelihood == "auto" else 4)
