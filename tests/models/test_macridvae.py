"""MacridVAE against Algorithm 1 of the paper, written out naively in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.errors import SettingsError
from macrid.models.macridvae import MacridNetwork, MacridVAE, Noise
from macrid.ops.encoder import kl_divergence
from macrid.ops.topk import Decoder
from macrid.settings import MacridVAESettings
from macrid.testing import RecommenderContract
from tests.truth import histories_of


def cosine(a, b):
    return a @ b / (max(a.norm(), 1e-8) * max(b.norm(), 1e-8))


def algorithm_1(network: MacridNetwork, x: torch.Tensor, noise: Noise, beta: float) -> torch.Tensor:
    """−L of Algorithm 1, user by user, item by item, concept by concept; the mean over users."""
    s = network.settings
    similarity = cosine if s.similarity == "cosine" else torch.dot
    h, t, m = network.item_vectors, network.context_vectors, network.prototypes
    s_ik = torch.stack([torch.stack([similarity(h_i, m_k) / s.temperature for m_k in m]) for h_i in h])
    c = torch.softmax(s_ik + noise.gumbel, dim=1)
    total = torch.zeros((), dtype=torch.float64)
    entry = 0
    for u in range(len(x)):
        history = x[u].nonzero()[:, 0].tolist()
        keep = noise.keep[entry : entry + len(history)]
        entry += len(history)
        z, kl = [], torch.zeros((), dtype=torch.float64)
        for k in range(s.concepts):
            norm = torch.sqrt(sum((c[i, k] ** 2 for i in history), torch.zeros((), dtype=torch.float64)) + 1e-16)
            hidden = (
                sum((keep[j] * c[i, k] * t[i] for j, i in enumerate(history)), torch.zeros(s.dim, dtype=torch.float64))
                / norm
            )
            for depth, layer in enumerate(network.layers):
                if depth < len(network.layers) - 1:
                    hidden = torch.tanh(layer.weight @ (hidden * noise.keep_hidden[depth][u, k]) + layer.bias)
                else:
                    hidden = layer.weight @ hidden + layer.bias
            a, b = hidden[: s.dim], hidden[s.dim :]
            mu = a / max(a.norm(), 1e-8)
            sigma = s.prior_std * torch.exp(-b / 2)
            prior = torch.distributions.Normal(torch.zeros_like(mu), torch.full_like(mu, s.prior_std))
            kl = kl + torch.distributions.kl_divergence(torch.distributions.Normal(mu, sigma), prior).sum()
            z.append(mu + noise.normal[u, k] * sigma)
        p = torch.stack([
            sum(c[i, k] * torch.exp(similarity(z[k], h[i]) / s.temperature) for k in range(s.concepts))
            for i in range(len(h))
        ])  # fmt: skip
        log_p = torch.log_softmax(p.log(), dim=0)
        total = total + beta * kl - sum((log_p[i] for i in history), torch.zeros((), dtype=torch.float64))
    return total / len(x)


def network_of(items, seed=0, **settings):
    network = MacridNetwork(items, MacridVAESettings.make(settings)).double()
    network.initialise(torch.Generator().manual_seed(seed))
    return network


@settings(max_examples=25, deadline=None)
@given(
    concepts=st.sampled_from([1, 2, 5]), dim=st.integers(2, 7), items=st.integers(2, 14), users=st.integers(1, 4),
    hidden_layers=st.integers(0, 3), similarity=st.sampled_from(["cosine", "inner"]), seed=st.integers(0, 1000),
    density=st.sampled_from([0.0, 0.3, 1.0]), beta=st.sampled_from([0.0, 0.7, 30.0]),
)  # fmt: skip
def test_loss_and_every_gradient_equal_algorithm_1(
    concepts, dim, items, users, hidden_layers, similarity, seed, density, beta
):
    network = network_of(
        items,
        seed,
        concepts=concepts,
        dim=dim,
        hidden_layers=hidden_layers,
        width=6,
        similarity=similarity,
        dropout=0.4,
    )
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(users, items, generator=generator) < density
    x[0, 0] = True
    histories = histories_of(x)
    noise = network.draw_noise(histories, generator)
    truth = algorithm_1(network, x, noise, beta)
    expected = torch.autograd.grad(truth, list(network.parameters()), allow_unused=True)
    ours = network.loss(histories, noise, beta).total
    gradients = torch.autograd.grad(ours, list(network.parameters()), allow_unused=True)
    assert float(abs(ours - truth).detach()) <= 1e-9 * max(1.0, float(abs(truth).detach()))
    scale = max(float(g.abs().max()) for g in expected if g is not None)
    for name_and_value, ours_grad, true_grad in zip(network.named_parameters(), gradients, expected, strict=True):
        true_grad = torch.zeros_like(name_and_value[1]) if true_grad is None else true_grad
        ours_grad = torch.zeros_like(true_grad) if ours_grad is None else ours_grad
        error = float((ours_grad - true_grad).norm())
        assert error <= 1e-5 * float(true_grad.norm()) + 1e-10 * scale, name_and_value[0]


def test_an_empty_and_a_full_history_in_one_batch_equal_algorithm_1():
    network = network_of(30, concepts=3, dim=5)
    x = torch.zeros(3, 30, dtype=torch.bool)
    x[1] = True
    x[2, 4] = True
    noise = network.draw_noise(histories_of(x), torch.Generator().manual_seed(1))
    ours = network.loss(histories_of(x), noise, 2.0)
    assert ours.total.item() == pytest.approx(algorithm_1(network, x, noise, 2.0).item(), rel=1e-12)


def test_single_precision_loss_agrees_with_algorithm_1():
    network = network_of(40, concepts=4, dim=8)
    x = torch.rand(6, 40, generator=torch.Generator().manual_seed(0)) < 0.3
    noise = network.draw_noise(histories_of(x), torch.Generator().manual_seed(1))
    truth = algorithm_1(network, x, noise, 1.0).item()
    single = Noise(noise.gumbel.float(), noise.normal.float(), noise.keep.float())
    assert network.float().loss(histories_of(x), single, 1.0).total.item() == pytest.approx(truth, rel=1e-5)


def test_kl_is_that_of_two_normal_distributions_with_its_constant_part():
    mean = torch.nn.functional.normalize(torch.randn(5, 2, 3, dtype=torch.float64), dim=-1)
    b = torch.randn(5, 2, 3, dtype=torch.float64)
    sigma = 0.2 * torch.exp(-b / 2)
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.full_like(mean, 0.2))
    truth = torch.distributions.kl_divergence(torch.distributions.Normal(mean, sigma), prior).sum(dim=(1, 2))
    torch.testing.assert_close(kl_divergence(mean, b, 0.2), truth)
    at_prior = kl_divergence(mean, torch.zeros_like(b), 0.2)
    torch.testing.assert_close(at_prior, torch.full((5,), 2 / (2 * 0.2**2), dtype=torch.float64))


def test_gumbel_softmax_draws_concepts_with_their_probabilities():
    network = network_of(6, concepts=3, dim=4)
    histories = histories_of(torch.ones(1, 6, dtype=torch.bool))
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(6, 3)
    for _ in range(4000):
        drawn = network.log_assignment(network.draw_noise(histories, generator).gumbel).argmax(dim=1)
        counts[torch.arange(6), drawn] += 1
    torch.testing.assert_close(counts.double() / 4000, network.log_assignment().exp().detach(), atol=0.04, rtol=0)


def test_dropout_keeps_the_expected_share_and_scales_it_up():
    network = network_of(3, dropout=0.3)
    histories = histories_of(torch.ones(4000, 3, dtype=torch.bool))
    keep = network.draw_noise(histories, torch.Generator().manual_seed(0)).keep
    assert set(keep.unique().tolist()) == {0.0, 1 / 0.7}
    assert keep.mean().item() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("similarity", ["cosine", "inner"])
def test_scores_are_the_log_probabilities_of_the_decoder(assignment, similarity):
    network = network_of(1500, concepts=4, dim=6, assignment=assignment, similarity=similarity)
    x = torch.rand(3, 1500, generator=torch.Generator().manual_seed(0)) < 0.01
    log_c = network.mode_assignment()
    z = network.components(histories_of(x), log_c)
    decoder = Decoder(network.direction(network.item_vectors.detach()), log_c.detach(), 0.1, assignment == "hard")
    ours = decoder.log_probabilities(z)
    h, c = network.item_vectors.detach(), log_c.detach().exp()
    if similarity == "cosine":
        z, h = (torch.nn.functional.normalize(v, dim=-1) for v in (z, h))
    p = torch.einsum("ik,uki->ui", c, torch.exp(torch.einsum("ukd,id->uki", z, h) / 0.1))
    torch.testing.assert_close(ours, (p / p.sum(dim=1, keepdim=True)).log())


def test_hard_assignment_is_one_hot_at_the_most_likely_concept():
    network = network_of(20, concepts=3, assignment="hard")
    one_hot = network.mode_assignment().exp()
    assert torch.equal(one_hot.sum(dim=1), torch.ones(20, dtype=torch.float64))
    assert torch.equal(one_hot.argmax(dim=1), network.log_assignment().argmax(dim=1))


def test_components_have_unit_length_and_do_not_change_from_call_to_call():
    network = network_of(20, concepts=3)
    histories = histories_of(torch.rand(5, 20, generator=torch.Generator().manual_seed(0)) < 0.4)
    first = network.components(histories, network.mode_assignment())
    torch.testing.assert_close(first.norm(dim=-1), torch.ones(5, 3, dtype=torch.float64))
    assert torch.equal(first, network.components(histories, network.mode_assignment()))


def test_effective_concepts_counts_equal_shares_fully_and_a_collapse_as_one():
    network = network_of(8, concepts=4, dim=4)
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


class TestContract(RecommenderContract):
    expected_ndcg = 0.52, 0.60

    @classmethod
    def make(cls):
        return MacridVAE(concepts=2, dim=8)

    @classmethod
    def fit(cls, model, data):
        return model.fit(data, epochs=60, learning_rate=0.02, seed=0)
