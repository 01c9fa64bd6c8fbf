"""One step of training against the same step written by hand, and what sampled training learns."""

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

import macrid
from macrid.data.shop import ndcg
from macrid.errors import SettingsError
from macrid.models.macridvae import LocalTables, MacridNetwork, Noise
from macrid.ops.batches import DeviceHistories
from macrid.ops.sampled import Sampler, gather
from macrid.settings import MacridVAESettings, TrainingSettings
from macrid.training.adam import Adam
from macrid.training.loop import choose_precision
from macrid.training.step import Step, products, without_collection
from tests.truth import DEVICE, runs_kernels, use_kernels

ITEMS, USERS = 30, 12


def data_matrix():
    dense = np.random.default_rng(0).random((USERS, ITEMS)) < 0.2
    dense[0] = False
    return sp.csr_array(dense.astype(np.float32))


@pytest.fixture(scope="module")
def data():
    return DeviceHistories(data_matrix(), torch.device("cpu"))


def network_of(**settings):
    network = MacridNetwork(ITEMS, MacridVAESettings.make({"concepts": 3, "dim": 6, "width": 5, **settings}))
    network.initialise(torch.Generator().manual_seed(0))
    return network


def step_of(network, data, beta=0.8, **settings):
    training = TrainingSettings.make({"learning_rate": 0.05, **settings})
    optimiser = Adam(network.parameters(), training.learning_rate, training.l2)
    step = Step(network, optimiser, data, torch.Generator(data.starts.device).manual_seed(4), training)
    step.beta.fill_(beta)
    return step


def by_hand(network, loss, optimiser, clip):
    optimiser.zero_grad()
    loss.total.backward()
    nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimiser.step()
    return [loss.total.item(), loss.kl.item()]


def assert_same_network(ours, theirs, tolerance=1e-5):
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, theirs.state_dict()[name], rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("hidden_layers", [0, 1])
@pytest.mark.parametrize("clip", [0.5, 1e9])
def test_exact_steps_equal_steps_by_hand(data, hidden_layers, clip):
    ours, theirs = network_of(hidden_layers=hidden_layers), network_of(hidden_layers=hidden_layers)
    step = step_of(ours, data, clip=clip, l2=0.01)
    optimiser = torch.optim.Adam(theirs.parameters(), lr=0.05, weight_decay=0.01)
    generator = torch.Generator().manual_seed(4)
    for users in (torch.tensor([0, 3, 5, 11]), torch.tensor([2, 1, 7])):
        losses = step(users)
        histories = data.batch(users)
        loss = theirs.loss(histories, theirs.draw_noise(histories, generator), 0.8)
        assert losses.tolist() == pytest.approx(by_hand(theirs, loss, optimiser, clip), rel=1e-5)
    assert_same_network(ours, theirs)


@pytest.mark.parametrize("known_size", [False, True])
def test_a_sampled_step_equals_a_step_by_hand(data, known_size):
    ours, theirs = network_of(), network_of()
    step = step_of(ours, data, likelihood="sampled", negatives=8, sampling="log-uniform", clip=0.5)
    users = torch.tensor([0, 3, 5])
    losses = step(users, data.sizes([users])[0] if known_size else None)

    optimiser = torch.optim.Adam(theirs.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(4)
    popularity = torch.bincount(data.items, minlength=ITEMS)
    local = gather(data.copied(users), Sampler(popularity, "log-uniform"), 8, generator)
    noise = theirs.draw_noise(local.histories, generator, items=len(local.rows))
    tables = LocalTables(theirs.item_vectors[local.rows], theirs.context_vectors[local.rows], local)
    loss = theirs.loss(local.histories, noise, 0.8, tables)
    assert losses.tolist() == pytest.approx(by_hand(theirs, loss, optimiser, 0.5), rel=1e-5)
    assert len(local.rows) < ITEMS
    assert_same_network(ours, theirs)


@runs_kernels
@pytest.mark.parametrize("likelihood", ["exact", "sampled"])
@pytest.mark.slow
def test_steps_by_kernels_equal_those_in_plain_torch(likelihood, monkeypatch):
    monkeypatch.setattr(MacridNetwork, "draw_noise", lambda *_, **__: Noise())
    on_device = DeviceHistories(data_matrix(), torch.device(DEVICE))
    networks = network_of(hidden_layers=1).to(DEVICE), network_of(hidden_layers=1).to(DEVICE)
    losses = []
    for network, by_kernels in zip(networks, (False, True), strict=True):
        use_kernels(monkeypatch, lambda tensor, answer=by_kernels: answer)
        step = step_of(network, on_device, likelihood=likelihood, negatives=8, clip=0.5, l2=0.01)
        batches = [torch.tensor(users, device=DEVICE) for users in ([0, 3, 5], [2, 1, 7], [11, 0, 4], [8, 9, 10])]
        sizes = on_device.sizes(batches) if likelihood == "sampled" else [None] * 4
        losses.append([step(*batch).tolist() for batch in zip(batches, sizes, strict=True)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert_same_network(*networks, tolerance=1e-3)


def test_sampled_steps_neither_read_nor_change_other_rows(data):
    network = network_of()
    users = torch.tensor([3, 5])
    popularity = torch.bincount(data.items, minlength=ITEMS)
    local = gather(data.copied(users), Sampler(popularity, "popularity"), 4, torch.Generator().manual_seed(4))
    others = torch.ones(ITEMS, dtype=torch.bool)
    others[local.rows] = False
    assert 0 < others.sum() < ITEMS
    tables = [network.item_vectors, network.context_vectors]
    with torch.no_grad():
        for table in tables:
            table[others] = torch.nan
    before = [table.detach().clone() for table in tables]
    losses = step_of(network, data, likelihood="sampled", negatives=4, l2=0.1)(users)
    assert torch.isfinite(losses).all()
    for was, table in zip(before, tables, strict=True):
        assert torch.isnan(table[others]).all()
        assert torch.isfinite(table[~others]).all()
        assert (table[~others] != was[~others]).any(dim=1).all()
    assert all(torch.isfinite(parameter).all() for parameter in network.layers.parameters())


@pytest.mark.parametrize(("precision", "products_are"), [("fp32", "ieee"), ("tf32", "tf32"), ("bf16", "tf32")])
def test_the_precision_of_products_on_a_gpu_is_set_and_restored(precision, products_are):
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    with products(precision, torch.device("cpu")):
        assert matmul.fp32_precision == before
    with products(precision, torch.device("cuda")):
        assert matmul.fp32_precision == products_are
    assert matmul.fp32_precision == before


@pytest.mark.parametrize("native", [False, True])
def test_the_default_precision_is_bf16_where_the_cpu_has_it(native, monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert choose_precision("auto", cpu) == ("bf16" if native else "fp32")
    assert choose_precision("bf16", cpu) == "bf16"
    assert choose_precision("fp32", cpu) == "fp32"


def fit(split, **training):
    defaults = {"epochs": 20, "batch_size": 50, "seed": 1, "device": "cpu", "learning_rate": 0.03}
    model = macrid.MacridVAE(concepts=7, dim=16)
    return model.fit(split.train, validation=split.validation, **{**defaults, **training})


def score(model, split):
    return macrid.evaluate(model, split.validation)["ndcg@100"].mean


def score_of_popularity(split):
    seen, target = (part.toarray() > 0 for part in (split.validation.history, split.validation.target))
    scores = np.where(seen, -np.inf, np.asarray(split.train.matrix.sum(axis=0), dtype=float))
    has_target = target.any(axis=1)
    return ndcg(scores[has_target], target[has_target], 100).mean()


@pytest.mark.parametrize("sampling", ["popularity", "log-uniform", "uniform"])
@pytest.mark.slow
def test_sampled_training_beats_popularity(shop_split, sampling):
    model = fit(shop_split, likelihood="sampled", negatives=80, sampling=sampling)
    assert score(model, shop_split) > score_of_popularity(shop_split) + 0.02


def test_training_with_gradients_in_bf16_beats_popularity(shop_split):
    assert score(fit(shop_split, precision="bf16"), shop_split) > score_of_popularity(shop_split) + 0.02


def same(first, second):
    return all(torch.equal(value, second.state()[name]) for name, value in first.state().items())


def test_sampled_training_is_repeatable_and_resumable(shop_split, tmp_path):
    sampled = {"likelihood": "sampled", "negatives": 20, "patience": 9}
    whole = fit(shop_split, **sampled, epochs=4)
    fit(shop_split, **sampled, epochs=2, checkpoint=tmp_path)
    resumed = fit(shop_split, **sampled, epochs=4, checkpoint=tmp_path, resume=True)
    assert same(whole, resumed)
    assert not same(whole, fit(shop_split, **{**sampled, "negatives": 21}, epochs=4))


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"likelihood": "guessed"}, "likelihood is 'guessed'.*'exact'.*'sampled'"),
        ({"negatives": 0}, r"negatives is 0\b.*\b1\b"),
        ({"negatives": 1.5}, r"negatives is 1\.5"),
        ({"sampling": "zipf"}, "sampling is 'zipf'.*'popularity'.*'log-uniform'.*'uniform'"),
        ({"precision": "fp16"}, "precision is 'fp16'.*'auto'.*'bf16'.*'tf32'.*'fp32'"),
    ],
)
def test_a_bad_setting_of_a_step_is_named_with_its_valid_values(shop_split, settings, values):
    with pytest.raises(SettingsError, match=values):
        fit(shop_split, **settings)


@pytest.mark.parametrize("setting", [{"likelihood": "sampled"}, {"negatives": 5}, {"precision": "bf16"}])
def test_a_training_setting_passed_to_the_model_is_an_error(setting):
    with pytest.raises(SettingsError, match=f"'{next(iter(setting))}'"):
        macrid.MacridVAE(**setting)


def test_garbage_is_collected_before_a_capture_and_not_during_it():
    class Cycle:
        pass

    def leave_garbage():
        left = Cycle()
        left.itself = left
        return weakref.ref(left)

    before = leave_garbage()
    with without_collection():
        assert before() is None
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_collection_is_restored_even_if_a_capture_fails(enabled):
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(RuntimeError), without_collection():
            raise RuntimeError("of the capture")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
