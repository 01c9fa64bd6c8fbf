"""`MacridNetwork.loss` by fused kernels against the same in float64, itself checked against Algorithm 1."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from macrid.models.macridvae import LocalTables, MacridNetwork, Noise
from macrid.ops import kernels
from macrid.ops.encoder import _Affine
from macrid.ops.sampled import Sampler, gather
from macrid.ops.sparse import Dropout
from tests.truth import DEVICE, KERNELS, assert_near, every_extension, histories, mask_of, network_of, somewhere

pytestmark = [*KERNELS, pytest.mark.usefixtures("by_kernels")]

LOSS = 1e-5  # relative error of loss, likelihood and KL in single precision
GRADIENT = 1e-5  # of every gradient, relative to its largest number

ITEMS = 40
ROWS = [[3, 4, 20, 39], [], list(range(ITEMS)), [7], [0, 12]]


def small(**settings):
    return network_of(ITEMS, **{"concepts": 3, "dim": 8, "width": 6, **settings}).to(DEVICE)


def noise_of(network, seed=0):
    """All of it in single precision, with dropout of histories by a seed."""
    noise = network.draw_noise(somewhere(ROWS), torch.Generator(DEVICE).manual_seed(seed))
    dropout = Dropout(torch.tensor([seed + 5], device=DEVICE), network.settings.dropout)
    return replace(noise, keep=dropout)


def exact(network, noise, beta):
    """Losses and gradients of the same network, with the same noise, by plain torch in float64.

    The gradient by gamma is that of each user and concept.
    """
    double = in_double(network)
    if double.share_power is not None:
        double.share_power = nn.Parameter(double.share_power.detach().repeat(len(ROWS), network.concepts))
    keep = noise.keep if noise.keep is None else mask_of(noise.keep, somewhere(ROWS), ITEMS).double()
    exact_noise = Noise(*(None if part is None else part.cpu().double() for part in (noise.gumbel, noise.normal, keep)),
                tuple(part.cpu().double() for part in noise.keep_hidden))  # fmt: skip
    losses = double.loss(histories(ROWS), exact_noise, beta)
    losses.total.backward()
    return losses, gradients(double)


def in_double(network):
    double = MacridNetwork(ITEMS, network.settings).double()
    double.load_state_dict(network.state_dict())
    return double


def gradients(network):
    return {name: parameter.grad for name, parameter in network.named_parameters()}


def fused(network, noise, beta):
    network.zero_grad()
    losses = network.loss(somewhere(ROWS), noise, beta)
    losses.total.backward()
    return losses, gradients(network)


def check(network, noise, beta=0.7):
    losses, gradients = fused(network, noise, beta)
    true_losses, expected = exact(network, noise, beta)
    for name, ours, true in zip(true_losses._fields, losses, true_losses, strict=True):
        assert ours.item() == pytest.approx(true.item(), rel=LOSS), name
    for name, ours in gradients.items():
        assert torch.isfinite(ours).all(), name
        true = expected[name]
        if name == "share_power":  # one number, the sum of many that cancel out
            assert ours.item() == pytest.approx(true.sum().item(), abs=GRADIENT * max(true.abs().sum().item(), 0.01))
        else:
            assert_near(ours, true, GRADIENT, name)


@every_extension
@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize(("concepts", "hidden_layers", "dim"), [(1, 0, 8), (3, 2, 5), (20, 0, 16)])
@pytest.mark.slow
def test_kernels_give_the_loss_and_every_gradient_of_the_network(similarity, concepts, hidden_layers, dim, extensions):
    sizes = {"concepts": concepts, "hidden_layers": hidden_layers, "dim": dim}
    extensions = extensions if concepts > 1 else {**extensions, "concept_shares": "off"}
    network = small(similarity=similarity, dropout=0.4, **sizes, **extensions)
    check(network, noise_of(network))


@pytest.mark.parametrize("missing", ["gumbel", "normal", "keep"])
def test_noise_may_be_left_out(missing):
    network = small()
    check(network, replace(noise_of(network), **{missing: None}))


def test_noise_for_kernels_has_a_new_dropout_seed_each_time():
    network, generator = small(dropout=0.3), torch.Generator(DEVICE).manual_seed(0)
    first, second = (network.draw_noise(somewhere(ROWS), generator).keep for _ in range(2))
    assert first.rate == second.rate == 0.3
    assert first.seed.item() != second.seed.item()


@pytest.mark.parametrize("temperature", [0.02, 2.0])
def test_loss_equals_that_of_the_network_with_and_without_a_bound(temperature):
    network = small(temperature=temperature, similarity="cosine")
    losses, _ = fused(network, noise_of(network), 1.0)
    assert losses.total.item() == pytest.approx(exact(network, noise_of(network), 1.0)[0].total.item(), rel=LOSS)


@pytest.mark.parametrize("table", ["item_vectors", "context_vectors", "prototypes"])
@pytest.mark.parametrize("length", [0.0, 1e-9])
def test_a_tiny_vector_gives_the_gradients_of_the_network(table, length):
    network = small()
    with torch.no_grad():
        getattr(network, table)[2] *= length
    check(network, noise_of(network))


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("length", [0.0, 1e-9])
def test_tiny_components_give_the_gradients_of_the_network(noisy, length):
    network = small()
    with torch.no_grad():
        network.layers[-1].weight[:8] *= length
        network.layers[-1].bias[:8] *= length
        network.whole[:8] *= length
    noise = noise_of(network)
    check(network, noise if noisy else replace(noise, normal=None))


def test_prototypes_too_many_for_the_chip_are_compared_in_plain_torch(monkeypatch):
    from macrid.ops import encoder_triton

    assert encoder_triton.fits(7, 512)
    assert not encoder_triton.fits(300, 100)
    monkeypatch.setattr(encoder_triton, "fits", lambda *_: False)
    network = small(concepts=3)
    check(network, noise_of(network))


@every_extension
def test_the_sampled_loss_and_its_gradients_equal_those_of_the_network(extensions):
    network, generator = small(**extensions), torch.Generator().manual_seed(0)
    local = gather(histories(ROWS), Sampler(torch.arange(ITEMS), "popularity"), 12, generator)
    noise = network.draw_noise(local.histories, torch.Generator(DEVICE).manual_seed(1), items=len(local.rows))
    double = in_double(network)

    def tables(network):
        return [
            t.detach()[local.rows.to(t.device)].requires_grad_()
            for t in (network.item_vectors, network.context_vectors)
        ]

    ours, theirs = tables(network), tables(double)
    on_device = replace(
        local,
        **{name: getattr(local, name).to(DEVICE) for name in ("rows", "draws", "log_weights", "hidden")},
        histories=replace(
            local.histories,
            **{name: getattr(local.histories, name).to(DEVICE) for name in ("items", "starts", "stops", "rows")},
        ),
    )
    loss = network.loss(on_device.histories, replace(noise, keep=None), 0.7, LocalTables(*ours, on_device)).total
    exact_noise = Noise(noise.gumbel.cpu().double(), noise.normal.cpu().double())
    truth = double.loss(local.histories, exact_noise, 0.7, LocalTables(*theirs, local)).total
    assert loss.item() == pytest.approx(truth.item(), rel=LOSS)
    loss.backward()
    truth.backward()
    for table, true_table in zip(ours, theirs, strict=True):
        assert_near(table.grad, true_table.grad, GRADIENT)
    for (name, ours), (_, true) in zip(network.named_parameters(), double.named_parameters(), strict=True):
        if name in ("item_vectors", "context_vectors"):
            assert ours.grad is None
        else:
            assert_near(ours.grad, true.grad, GRADIENT, name)


@pytest.mark.parametrize("shape", [(5, 3), (5, 2, 3)])
def test_a_layers_gradients_by_products_equal_those_of_torch(shape):
    weight, bias, inputs = (torch.randn(size, device=DEVICE, requires_grad=True) for size in ((4, 3), (4,), shape))
    gradients = [
        torch.autograd.grad(layer(inputs.tanh(), weight, bias).square().sum(), (inputs, weight, bias))
        for layer in (_Affine.apply, F.linear)
    ]
    for ours, by_torch in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, by_torch)


def test_what_runs_beside_other_kernels_is_joined_before_autograd_can_read_it(monkeypatch):
    """A gradient that is added to another one, or memory that is used again, before it is done is wrong on a GPU."""
    done, beside, join = [], kernels.beside, kernels.join
    monkeypatch.setattr(kernels, "beside", lambda tensor: done.append("beside") or beside(tensor))
    monkeypatch.setattr(kernels, "join", lambda tensor: done.append("join") or join(tensor))
    network = small(hidden_layers=1)
    loss = network.loss(somewhere(ROWS), noise_of(network), 0.7).total
    assert done[0] == "beside"
    assert done[-1] == "join"
    for function in functions_before(loss.grad_fn):
        function.register_hook(lambda *_: done.append("read"))
    before = len(done)
    loss.backward()
    launched = [event for event in done[before:] if event != "read"]
    assert launched == ["beside", "join"] * (len(launched) // 2)
    assert len(launched) == 4  # two layers
    assert "beside read" not in " ".join(done)
    assert done.count("read") > 10


def functions_before(function):
    """The functions of a graph, each once."""
    found, waiting = {}, [function]
    while waiting:
        function = waiting.pop()
        if function is not None and function not in found:
            found[function] = True
            waiting += [earlier for earlier, _ in function.next_functions]
    return found
