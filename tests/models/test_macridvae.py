"""MacridVAE against Algorithm 1 of the paper, written out naively in float64."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import macrid
from macrid.errors import SettingsError
from macrid.models.macridvae import LocalTables, MacridVAE, Noise
from macrid.ops.sampled import Sampler, gather
from macrid.ops.topk import Decoder, Mixture
from macrid.recipe import PRESETS
from macrid.settings import MacridVAESettings
from macrid.testing import RecommenderContract
from tests.truth import EXTENSIONS, Draws, algorithm_1, every_extension, histories_of, network_of


def double(items, seed=0, **settings):
    return network_of(items, seed, **settings).double()


def random_weights(shape):
    """Of interactions: a few eighths."""
    return torch.randint(1, 41, shape, generator=torch.Generator().manual_seed(5)).double() / 8


def assert_equal(ours, truth, parameters, tolerance=1e-9):
    """Two losses and their gradients by all parameters, in float64."""
    assert ours.item() == pytest.approx(truth.item(), rel=tolerance, abs=tolerance)
    named = dict(parameters)
    expected, gradients = (
        torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
        for loss in (truth, ours)
    )
    scale = max(1e-3, *(float(gradient.abs().max()) for gradient in expected))
    for name, gradient, true in zip(named, gradients, expected, strict=True):
        assert float((gradient - true).norm()) <= 1e-5 * float(true.norm()) + 0.1 * tolerance * scale, name


@settings(max_examples=60, deadline=None)
@given(
    extensions=st.sampled_from(EXTENSIONS), assignment_temperature=st.sampled_from([None, 0.05, 0.3]),
    concepts=st.sampled_from([1, 2, 5]), dim=st.integers(2, 7), items=st.integers(2, 14), users=st.integers(1, 4),
    hidden_layers=st.integers(0, 3), similarity=st.sampled_from(["cosine", "inner"]), seed=st.integers(0, 1000),
    density=st.sampled_from([0.0, 0.3, 1.0]), beta=st.sampled_from([0.0, 0.7, 30.0]), weighted=st.booleans(),
)  # fmt: skip
def test_loss_and_every_gradient_equal_algorithm_1(extensions, items, users, seed, density, beta, weighted, **settings):
    assume(settings["concepts"] > 1 or extensions["concept_shares"] == "off")
    network = double(items, seed, width=6, dropout=0.4, **extensions, **settings)
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(users, items, generator=generator) < density
    x[0, 0] = True
    x = x * random_weights(x.shape) if weighted else x
    noise = network.draw_noise(histories_of(x), generator)
    ours = network.loss(histories_of(x), noise, beta).total
    assert_equal(ours, algorithm_1(network, x, noise, beta), network.named_parameters())


@pytest.mark.parametrize(("hidden_layers", "weighted"), [(0, False), (2, False), (0, True)])
@every_extension
def test_the_sampled_loss_and_every_gradient_equal_algorithm_1(extensions, hidden_layers, weighted):
    network = double(12, concepts=3, dim=4, width=5, dropout=0.4, hidden_layers=hidden_layers, **extensions)
    x = torch.zeros(4, 12, dtype=torch.bool)
    x[1] = True
    x[2, [0, 5, 7]] = True
    x[3, 11] = True
    x = x * random_weights(x.shape) if weighted else x
    generator = torch.Generator().manual_seed(3)
    sampler = Sampler(torch.arange(12), "popularity")
    drawn = sampler.draw(9, copy_of(generator)).tolist()
    local = gather(histories_of(x), sampler, 9, generator)
    noise = network.draw_noise(local.histories, generator, items=len(local.rows))
    tables = LocalTables(network.item_vectors[local.rows], network.context_vectors[local.rows], local)
    ours = network.loss(local.histories, noise, 0.7, tables).total
    gumbel = torch.zeros(12, 3, dtype=torch.float64).index_copy(0, local.rows, noise.gumbel)
    truth = algorithm_1(network, x, replace(noise, gumbel=gumbel), 0.7, Draws(drawn, sampler.log_q.double()))
    assert_equal(ours, truth, network.named_parameters(), tolerance=1e-7)  # chances are in single precision


@pytest.mark.parametrize(("power", "limit"), [(-0.5, 0.0), (2.5, 2.0)])
def test_the_power_of_a_share_stays_between_0_and_2(power, limit):
    network = double(9, concepts=3, dim=4)
    x = torch.rand(3, 9, generator=torch.Generator().manual_seed(0)) < 0.4
    noise = network.draw_noise(histories_of(x), torch.Generator().manual_seed(1))
    losses = []
    for value in (power, limit):
        torch.nn.init.constant_(network.share_power, value)
        losses.append(network.loss(histories_of(x), noise, 1.0).total.item())
        assert losses[-1] == pytest.approx(algorithm_1(network, x, noise, 1.0).item(), rel=1e-12)
    assert losses[0] == losses[1]


def copy_of(generator):
    return torch.Generator().set_state(generator.get_state())


@every_extension
def test_an_empty_and_a_full_history_in_one_batch_equal_algorithm_1(extensions):
    network = double(30, concepts=3, dim=5, **extensions)
    x = torch.zeros(3, 30, dtype=torch.bool)
    x[1] = True
    x[2, 4] = True
    noise = network.draw_noise(histories_of(x), torch.Generator().manual_seed(1))
    ours, truth = network.loss(histories_of(x), noise, 2.0).total, algorithm_1(network, x, noise, 2.0)
    assert ours.item() == pytest.approx(truth.item(), rel=1e-12)
    assert_equal(ours, truth, network.named_parameters())


@every_extension
def test_single_precision_loss_agrees_with_algorithm_1(extensions):
    network = double(40, concepts=4, dim=8, **extensions)
    x = torch.rand(6, 40, generator=torch.Generator().manual_seed(0)) < 0.3
    noise = network.draw_noise(histories_of(x), torch.Generator().manual_seed(1))
    truth = algorithm_1(network, x, noise, 1.0).item()
    single = Noise(noise.gumbel.float(), noise.normal.float(), noise.keep.float())
    assert network.float().loss(histories_of(x), single, 1.0).total.item() == pytest.approx(truth, rel=1e-5)


def test_gumbel_softmax_draws_concepts_with_their_probabilities():
    network = double(6, concepts=3, dim=4)
    histories = histories_of(torch.ones(1, 6, dtype=torch.bool))
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(6, 3)
    for _ in range(4000):
        drawn = network.log_assignment(network.draw_noise(histories, generator).gumbel).argmax(dim=1)
        counts[torch.arange(6), drawn] += 1
    torch.testing.assert_close(counts.double() / 4000, network.log_assignment().exp().detach(), atol=0.04, rtol=0)


def test_dropout_keeps_the_expected_share_and_scales_it_up():
    network = double(3, dropout=0.3)
    histories = histories_of(torch.ones(4000, 3, dtype=torch.bool))
    keep = network.draw_noise(histories, torch.Generator().manual_seed(0)).keep
    assert set(keep.unique().tolist()) == {0.0, 1 / 0.7}
    assert keep.mean().item() == pytest.approx(1, abs=0.03)


@every_extension
@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("similarity", ["cosine", "inner"])
def test_scores_are_the_log_probabilities_of_the_decoder(assignment, similarity, extensions):
    network = double(1500, concepts=4, dim=6, assignment=assignment, similarity=similarity, **extensions)
    x = torch.rand(3, 1500, generator=torch.Generator().manual_seed(0)) < 0.01
    log_c = network.mode_assignment()
    z, _, log_w = network.encode(histories_of(x), log_c)
    decoder = Decoder(network.direction(network.item_vectors.detach()), log_c.detach(), 0.1, assignment == "hard")
    ours = decoder.log_probabilities(Mixture(z, log_w))
    w = torch.ones(3, 4, dtype=torch.float64) if log_w is None else log_w.exp()
    h, c = network.item_vectors.detach(), log_c.detach().exp()
    if similarity == "cosine":
        z, h = (torch.nn.functional.normalize(v, dim=-1) for v in (z, h))
    p = torch.einsum("uk,ik,uki->ui", w, c, torch.exp(torch.einsum("ukd,id->uki", z, h) / 0.1))
    torch.testing.assert_close(ours, (p / p.sum(dim=1, keepdim=True)).log())


def test_hard_assignment_is_one_hot_at_the_most_likely_concept():
    network = double(20, concepts=3, assignment="hard")
    one_hot = network.mode_assignment().exp()
    assert torch.equal(one_hot.sum(dim=1), torch.ones(20, dtype=torch.float64))
    assert torch.equal(one_hot.argmax(dim=1), network.log_assignment().argmax(dim=1))


def test_components_have_unit_length_and_do_not_change_from_call_to_call():
    network = double(20, concepts=3)
    histories = histories_of(torch.rand(5, 20, generator=torch.Generator().manual_seed(0)) < 0.4)
    first = network.encode(histories, network.mode_assignment()).mean
    torch.testing.assert_close(first.norm(dim=-1), torch.ones(5, 3, dtype=torch.float64))
    assert torch.equal(first, network.encode(histories, network.mode_assignment()).mean)


def test_effective_concepts_counts_equal_shares_fully_and_a_collapse_as_one():
    network = double(8, concepts=4, dim=4)
    with torch.no_grad():
        network.prototypes.copy_(torch.eye(4))
        network.item_vectors.copy_(torch.eye(4).repeat(2, 1))
        assert network.effective_concepts() == pytest.approx(4)
        network.item_vectors.copy_(torch.eye(4)[:1].repeat(8, 1))
        assert network.effective_concepts() == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"concepts": 0}, r"concepts.*\b0\b.*\b1\b"),
        ({"dim": 1}, r"dim.*\b1\b.*\b2\b"),
        ({"temperature": 0}, r"temperature.*\b0\b.*\b0\b"),
        ({"temperature": -1.0}, r"temperature.*-1\.0"),
        ({"dropout": 1.0}, r"dropout.*1\.0.*\b1\b"),
        ({"beta": math.nan}, "beta.*nan"),
        ({"hidden_layers": 4}, r"hidden_layers.*\b4\b.*\b3\b"),
        ({"assignment": "medium"}, "'hard'.*'soft'"),
        ({"konzepte": 3}, "'konzepte'.* concepts, dim"),
    ],
)
def test_a_bad_setting_is_named_with_its_valid_values(settings, values):
    with pytest.raises(SettingsError, match=values):
        MacridVAE(**settings)


def test_encode_gives_confidence_that_sums_to_the_known_items(trained):
    model, split = trained
    history = [split.items[i] for i in (0, 3, 5)]
    encoding = model.encode(history)
    assert encoding.confidence.sum() == pytest.approx(3, rel=1e-4)
    assert encoding.components.shape == (model.settings.concepts, model.settings.dim)
    assert np.linalg.norm(encoding.components, axis=1) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_membership_is_the_softmax_of_cosines_with_the_prototypes(trained, assignment):
    model = copy.deepcopy(trained[0])
    model.settings = model.network.settings = model.settings.model_copy(update={"assignment": assignment})
    h, m = (table.detach().double().numpy() for table in (model.network.item_vectors, model.network.prototypes))
    h, m = (table / np.linalg.norm(table, axis=1, keepdims=True) for table in (h, m))
    membership = model.membership()
    assert membership == pytest.approx(softmax(h @ m.T / model.settings.assignment_temperature, axis=1), abs=1e-5)
    assert membership.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_one_concept_has_no_shares(shop_split):
    model = MacridVAE(concepts=1, dim=4).fit(shop_split.train, epochs=1, device="cpu")
    assert model.settings.concept_shares == "off"
    assert MacridVAE(**model.settings.model_dump()).settings == model.settings
    with pytest.raises(SettingsError, match=r"concept_shares.*concepts is 1"):
        MacridVAE(concepts=1, concept_shares="on")


def test_the_preset_of_the_paper_has_the_weights_of_algorithm_1_only(shop_split):
    settings = {name: value for name, value in PRESETS["paper"].items() if name in MacridVAESettings.model_fields}
    model = MacridVAE(**settings, dim=4).fit(shop_split.train, epochs=1, device="cpu")
    assert {name.partition(".")[0] for name in model.state()} == {
        "prototypes", "item_vectors", "context_vectors", "layers"
    }  # fmt: skip
    assert model.network.assignment_temperature == model.settings.temperature


class TestContract(RecommenderContract):
    expected_ndcg = 0.52, 0.60

    @classmethod
    def make(cls):
        return MacridVAE(concepts=2, dim=8)

    @classmethod
    def fit(cls, model, data):
        return model.fit(data, epochs=60, learning_rate=0.02, seed=0)


def with_weights(data, weights):
    matrix = data.matrix.copy()
    matrix.data = np.broadcast_to(np.asarray(weights, dtype=np.float32), matrix.data.shape).copy()
    return macrid.Interactions(matrix, data.users, data.items, data.table)


def fitted_state(data, **settings):
    model = macrid.MacridVAE(concepts=3, dim=8).fit(data, epochs=2, seed=1, device="cpu", **settings)
    return model.state()


@pytest.mark.parametrize("likelihood", ["exact", "sampled"])
def test_weights_that_are_all_the_same_give_the_unweighted_model_to_the_bit(shop_split, likelihood):
    plain, ones, threes = (
        fitted_state(data, likelihood=likelihood)
        for data in (shop_split.train, *(with_weights(shop_split.train, weight) for weight in (1, 3)))
    )
    for name, tensor in plain.items():
        assert torch.equal(tensor, ones[name]), name
        assert torch.equal(tensor, threes[name]), name


def test_only_the_ratios_of_weights_count(shop_split):
    weights = np.random.default_rng(0).integers(1, 5, len(shop_split.train))
    once, twice = (fitted_state(with_weights(shop_split.train, factor * weights)) for factor in (1, 2))
    assert all(torch.equal(once[name], twice[name]) for name in once)
    assert not torch.equal(once["item_vectors"], fitted_state(shop_split.train)["item_vectors"])


def test_the_heavier_items_of_a_history_decide_more(trained):
    model, _ = trained
    concept_of = model.concepts_of_items()
    first, second = (np.flatnonzero(concept_of == concept)[:3] for concept in (0, 1))
    matrix = model.matrix([np.concatenate([first, second])] * 2)
    matrix.data = np.repeat([10.0, 1.0, 1.0, 10.0], 3).astype(np.float32)
    share = model.confidence(matrix)
    assert share[0, 0] > 5 * share[0, 1]
    lists = model.rank(matrix, 10)[0].numpy()
    counts = [(concept_of[ranked] == 0).sum() for ranked in lists]
    assert counts[0] > counts[1]
