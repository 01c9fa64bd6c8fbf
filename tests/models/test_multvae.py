import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.errors import SettingsError
from macrid.models.macridvae import Noise
from macrid.models.multvae import MultDAE, MultNetwork, MultVAE, dim_for, parameter_count
from macrid.ops.batches import DeviceHistories
from macrid.settings import MultDAESettings, MultVAESettings
from macrid.testing import RecommenderContract


class TestMultVAE(RecommenderContract):
    expected_ndcg = 0.52, 0.60

    @classmethod
    def make(cls):
        return MultVAE(dim=16, beta=0.1, dropout=0.3)

    @classmethod
    def fit(cls, model, data):
        return model.fit(data, epochs=60, learning_rate=0.02, beta_warmup=5, device="cpu")


class TestMultDAE(RecommenderContract):
    expected_ndcg = 0.52, 0.60

    @classmethod
    def make(cls):
        return MultDAE(dim=16, dropout=0.3)

    @classmethod
    def fit(cls, model, data):
        return model.fit(data, epochs=60, learning_rate=0.02, device="cpu")


def network(settings, items=7, seed=0):
    made = MultNetwork(items, settings).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return made


def batch(dense):
    return DeviceHistories(sp.csr_array(np.array(dense, dtype=np.float32)), torch.device("cpu")).all()


X = [[1, 0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]]


def written_out(made, x, keep, normal, beta):
    """Liang et al., equation by equation, on dense rows."""
    s = made.settings
    rows = x / x.square().sum(dim=1, keepdim=True).sqrt()
    hidden = torch.tanh((rows * keep) @ made.context_vectors + made.context_bias)
    kl = torch.zeros(len(x), dtype=x.dtype)
    for i, layer in enumerate(made.encoder):
        hidden = hidden @ layer.weight.T + layer.bias
        if (isinstance(s, MultDAESettings) and not isinstance(s, MultVAESettings)) or i < len(made.encoder) - 1:
            hidden = torch.tanh(hidden)
    if isinstance(s, MultVAESettings):
        mean, log_variance = hidden[:, : s.dim], hidden[:, s.dim :]
        std = torch.exp(log_variance / 2)
        prior = torch.distributions.Normal(0.0, 1.0)
        kl = torch.distributions.kl_divergence(torch.distributions.Normal(mean, std), prior).sum(dim=1)
        hidden = mean + std * normal
    for layer in made.decoder:
        hidden = torch.tanh(hidden @ layer.weight.T + layer.bias)
    log_p = torch.log_softmax(hidden @ made.item_vectors.T + made.item_bias, dim=1)
    return (-(x * log_p).sum(dim=1) + beta * kl).mean()


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("kind", [MultVAESettings, MultDAESettings])
def test_loss_and_every_gradient_equal_the_formula_of_the_paper(kind, layers):
    made = network(kind(dim=4, hidden_layers=layers, width=5))
    x = torch.tensor(X, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    kept = (torch.rand(int(x.sum()), generator=generator) > 0.4).double() / 0.6
    keep = torch.zeros_like(x)
    keep[x > 0] = kept
    normal = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    noise = Noise(normal=normal[:, None] if kind is MultVAESettings else None, keep=kept)
    loss = made.loss(batch(X), noise, 0.3).total
    truth = written_out(made, x, keep, normal, 0.3)
    assert loss.item() == pytest.approx(truth.item(), rel=1e-9)
    gradients, expected = (torch.autograd.grad(value, list(made.parameters())) for value in (loss, truth))
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-6, atol=1e-9)


@given(st.integers(5, 3000), st.integers(1, 120), st.integers(0, 3), st.integers(50, 700), st.booleans())
def test_tables_are_as_wide_as_the_budget_allows(items, dim, layers, width, variational):
    kind = MultVAESettings if variational else MultDAESettings
    budget = 2 * items * dim
    settings = kind(hidden_layers=layers, width=width)
    widest = dim_for(items, budget, settings)

    def count(d):
        return parameter_count(items, settings.model_copy(update={"dim": d}))

    assert widest == 0 or count(widest) <= budget
    assert count(widest + 1) > budget


@pytest.mark.parametrize("settings", [MultVAESettings(), MultDAESettings(hidden_layers=2, width=50)])
def test_the_parameter_count_matches_the_network(settings):
    network = MultNetwork(31, settings)
    assert parameter_count(31, settings) == sum(p.numel() for p in network.parameters())


def test_training_beats_popularity_on_the_shop(shop_split):
    popular = macrid.evaluate(macrid.Popularity().fit(shop_split.train), shop_split.test)["ndcg@100"].mean
    for kind in (MultVAE, MultDAE):
        model = kind(dim=32).fit(
            shop_split.train, validation=shop_split.validation, epochs=25, batch_size=50, learning_rate=5e-3,
            device="cpu",
        )  # fmt: skip
        assert macrid.evaluate(model, shop_split.test)["ndcg@100"].mean > popular + 0.05


def test_the_kl_weight_grows_to_its_cap(shop_split):
    model = MultVAE(dim=8, beta=0.4)
    model.fit(shop_split.train, epochs=1, device="cpu")
    assert model.training.beta_warmup == 20
    from macrid.training.loop import beta_of

    assert [round(beta_of(model, model.training, epoch), 6) for epoch in (1, 10, 20, 50)] == [0.02, 0.2, 0.4, 0.4]


def test_the_sampled_likelihood_is_refused(shop_split):
    with pytest.raises(SettingsError, match="'sampled'; MultVAE"):
        MultVAE().fit(shop_split.train, likelihood="sampled", device="cpu")


def test_a_posterior_has_one_concept_and_a_dae_no_spread(shop_split):
    for kind, spread in ((MultVAE, True), (MultDAE, False)):
        model = kind(dim=8).fit(shop_split.train, epochs=1, device="cpu")
        mean, std = model.posterior(shop_split.test.history)
        assert mean.shape == std.shape == (50, 1, 8)
        assert (std > 0).all() == spread
        encoded = model.encode(shop_split.items[:3])
        assert encoded.components.shape == (1, 8)
        assert encoded.confidence.tolist() == [3]
