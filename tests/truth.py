"""What several tests compare with: Algorithm 1 and the likelihood written out in float64, and small problems."""

from __future__ import annotations

import importlib.util
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from macrid.models.macridvae import MacridNetwork, Noise
from macrid.ops import kernels
from macrid.ops.sparse import Dropout, Histories
from macrid.settings import MacridVAESettings

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where kernels run; on a CPU in Triton's interpreter."""

KERNELS = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    # the interpreter computes with numpy, which warns where a kernel takes the logarithm of an empty sum, and where
    # lanes beyond the end of a history, of which nothing is kept, take −inf from −inf
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log2:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in subtract:RuntimeWarning"),
]
"""Marks of cases that run kernels."""


def runs_kernels(test: Callable[..., None]) -> Callable[..., None]:
    """All of them on a test."""
    for mark in KERNELS:
        test = mark(test)
    return test


def use_kernels(patch: pytest.MonkeyPatch, when: Callable[[Tensor], bool] = lambda tensor: True) -> None:
    """Have ops use kernels, on a CPU too, for such tensors.

    On a CPU in this thread only: threads of earlier tests may still be at work, and Triton's interpreter can run only
    one kernel at a time.
    """
    mine = threading.get_ident()
    patch.setattr(kernels, "serve", lambda tensor: when(tensor) and (tensor.is_cuda or threading.get_ident() == mine))


def in_single_precision(tensor: Tensor) -> bool:
    return tensor.dtype != torch.float64


EXTENSIONS = [{"whole_history": whole, "concept_shares": shares} for whole in ("off", "on") for shares in ("off", "on")]
"""Of Algorithm 1: none, one of them, both."""
every_extension = pytest.mark.parametrize("extensions", EXTENSIONS, ids=lambda settings: "-".join(settings.values()))


class Tolerance(NamedTuple):
    """Largest error of a tensor, relative to the largest number in it, or to 0.01 where all of them cancel out."""

    values: float
    gradients: float


DOUBLE = Tolerance(1e-10, 1e-10)
# Logits of unit vectors at temperature 0.1 reach 10; rounded to 24 bits they, and so all probabilities, err by 1e-6.
SINGLE = Tolerance(1e-5, 1e-4)
BF16 = Tolerance(1e-5, 1e-2)  # gradients from products of numbers of 8 bits


def histories(rows_of_items: Sequence[Sequence[int]], values: Sequence[Sequence[float]] | None = None) -> Histories:
    """values: the weight of each interaction."""
    counts = torch.tensor([len(items) for items in rows_of_items])
    stops = counts.cumsum(0)
    items = torch.tensor([item for row in rows_of_items for item in row], dtype=torch.long)
    longest = max(map(len, rows_of_items))
    rows = torch.repeat_interleave(counts)
    return Histories(items, stops - counts, stops, longest, rows, 0.0, *_weights(values))


def _weights(values: Sequence[Sequence[float]] | None) -> tuple[Tensor | None, Tensor | None]:
    if values is None:
        return None, None
    flat = torch.tensor([value for row in values for value in row], dtype=torch.float64)
    return flat, torch.tensor([sum(row) for row in values], dtype=torch.float64)


def choose_values(rows_of_items: Sequence[Sequence[int]], seed: int = 5) -> list[list[float]]:
    """Weights of interactions between 0.1 and 4, exact in single precision."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randint(1, 41, (len(row),), generator=generator).double() / 8 for row in rows_of_items]
    return [row.tolist() for row in drawn]


def naive_weights(
    rows_of_items: Sequence[Sequence[int]], balance: float, values: Sequence[Sequence[float]] | None = None
) -> list[float]:
    """items^−balance for each user, times what keeps the mean weight of the interactions, 1 unless they have values."""
    raw = [max(len(row), 1) ** -balance for row in rows_of_items]
    mass = [float(len(row)) for row in rows_of_items] if values is None else [sum(row) for row in values]
    total = sum(weight * one for weight, one in zip(raw, mass, strict=True))
    return [weight * sum(mass) / total if total else weight for weight in raw]


def histories_of(x: Tensor) -> Histories:
    """x: (users, items), at a user's items their weights, else 0."""
    rows = [row.nonzero()[:, 0].tolist() for row in x]
    weights = [row[row != 0].tolist() for row in x]
    return histories(rows, weights if bool((x[x != 0] != 1).any()) else None)


def somewhere(rows_of_items: Sequence[Sequence[int]], values: Sequence[Sequence[float]] | None = None) -> Histories:
    """The same histories as kernels find them: in the CSR of many users, in any order."""
    others, starts, items, weights = [7, 7, 7], {}, [], []
    for user in reversed(range(len(rows_of_items))):
        items += others
        starts[user] = len(items)
        items += rows_of_items[user]
        weights += [torch.nan] * len(others) + ([] if values is None else list(values[user]))
    begin = torch.tensor([starts[user] for user in range(len(rows_of_items))])
    counts = torch.tensor([len(row) for row in rows_of_items])
    own = torch.tensor(items + others, dtype=torch.int32)
    longest = max(map(len, rows_of_items))
    place = own.to(DEVICE), begin.to(DEVICE), (begin + counts).to(DEVICE), longest
    if values is None:
        return Histories(*place)
    x = torch.tensor([*weights, torch.nan, torch.nan, torch.nan], device=DEVICE)
    return Histories(*place, values=x, totals=torch.tensor([float(sum(row)) for row in values], device=DEVICE))


def choose_rows(batch: int, items: int, generator: torch.Generator, empty: bool = True) -> list[list[int]]:
    """Histories of any length, the first of them empty if asked for."""
    lengths = torch.randint(1, items + 1, (batch,), generator=generator).tolist()
    rows = [torch.randperm(items, generator=generator)[:length].tolist() for length in lengths]
    return [[], *rows[1:]] if empty else rows


def problem(batch: int, concepts: int, dim: int, items: int, seed: int = 0) -> list[Tensor]:
    """Components and items of unit length, and log c, in float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    z, h = normalize(normal(batch, concepts, dim), dim=-1), normalize(normal(items, dim), dim=-1)
    return [z, h, torch.log_softmax(5 * normal(items, concepts), dim=1)]


def mixed_weights(batch: int) -> Tensor:
    """Incoming gradients of both signs, and of 0."""
    return torch.tensor([1.3, -0.7, 0.0, 2.0, -1e-3]).double().repeat(batch // 5 + 1)[:batch]


def log_sum_exp(x: Tensor) -> Tensor:
    """Of all numbers, at least one of them above −inf."""
    top = x.detach().max()
    return top + (x - top).exp().sum().log()


def nothing(z: Tensor) -> Tensor:
    """The log of an empty sum, with gradients of 0."""
    return 0 * z.sum() - torch.inf


def naive_logits(z: Tensor, h: Tensor, log_c: Tensor, temperature: float, user: int) -> Tensor:
    """(items, concepts)"""
    columns = [h @ z[user, k] / temperature + log_c[:, k] for k in range(z.shape[1])]
    return torch.stack(columns, dim=1)


def naive_log_partition(
    z: Tensor, h: Tensor, log_c: Tensor, temperature: float, hidden: Tensor | None = None
) -> Tensor:
    """log Z_u of every user; where nothing is to be seen, −inf."""
    seen = torch.ones(len(z), len(h), dtype=torch.bool) if hidden is None else hidden == 0
    found = []
    for user in range(len(z)):
        logits = naive_logits(z, h, log_c, temperature, user)[seen[user]]
        found.append(log_sum_exp(logits) if len(logits) else nothing(z))
    return torch.stack(found)


def naive_positives(
    z: Tensor,
    h: Tensor,
    log_c: Tensor,
    temperature: float,
    rows: Sequence[Sequence[int]],
    values: Sequence[Sequence[float]] | None = None,
) -> tuple[Tensor, Tensor]:
    """sum x_ui log p_ui and log sum p_ui over a user's own items; 0 and −inf where there are none."""
    sums, totals = [], []
    for user, own in enumerate(rows):
        logits = naive_logits(z, h, log_c, temperature, user)
        log_p = [log_sum_exp(logits[item]) for item in own]
        x = [1.0] * len(own) if values is None else values[user]
        sums.append(sum((weight * one for weight, one in zip(x, log_p, strict=True)), 0 * z.sum()))
        totals.append(log_sum_exp(torch.stack(log_p)) if own else nothing(z))
    return torch.stack(sums), torch.stack(totals)


def naive_log_likelihood(
    z: Tensor,
    h: Tensor,
    log_c: Tensor,
    temperature: float,
    rows: Sequence[Sequence[int]],
    values: Sequence[Sequence[float]] | None = None,
) -> Tensor:
    mass = torch.tensor([len(row) for row in rows] if values is None else [sum(row) for row in values])
    sums, _ = naive_positives(z, h, log_c, temperature, rows, values)
    return (sums - mass * naive_log_partition(z, h, log_c, temperature)).sum()


def network_of(items: int, seed: int = 0, **settings: Any) -> MacridNetwork:
    """All weights random, W and gamma too."""
    network = MacridNetwork(items, MacridVAESettings.make(settings))
    generator = torch.Generator().manual_seed(seed)
    network.initialise(generator)
    with torch.no_grad():
        if network.whole is not None:
            network.whole.normal_(generator=generator)
        if network.share_power is not None:
            network.share_power.uniform_(0.1, 1.9, generator=generator)
    return network


class Draws(NamedTuple):
    """Items drawn as negatives, and the log of each item's chance."""

    items: Sequence[int]
    log_q: Tensor


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return a @ b / (max(a.norm(), 1e-8) * max(b.norm(), 1e-8))


def _total(terms: Sequence[Tensor], *shape: int) -> Tensor:
    return sum(terms, torch.zeros(shape, dtype=torch.float64))


def algorithm_1(network: MacridNetwork, x: Tensor, noise: Noise, beta: float, draws: Draws | None = None) -> Tensor:
    """−L of Algorithm 1 with its extensions, user by user, item by item, concept by concept; the mean over users.

    x: (users, items), the weight of each interaction, 0 where there is none. noise.gumbel: of all items.
    """
    s = network.settings
    similarity = _cosine if s.similarity == "cosine" else torch.dot
    h, m = network.item_vectors, network.prototypes
    tau = s.assignment_temperature or s.temperature
    s_ik = torch.stack([torch.stack([similarity(h_i, m_k) / tau for m_k in m]) for h_i in h])
    c = torch.softmax(s_ik + noise.gumbel, dim=1)
    rows = [row.nonzero()[:, 0].tolist() for row in x]
    stops = [0, *itertools.accumulate(map(len, rows))]
    losses = []
    for u, history in enumerate(rows):
        x_u = x[u, history]
        keep = noise.keep[stops[u] : stops[u + 1]] * x_u
        z, kl = naive_components(network, c, u, history, keep, noise, x_u)
        w = naive_concept_weights(network, c, history, keep)
        p = torch.stack([
            sum(w[k] * c[i, k] * torch.exp(similarity(z[k], h[i]) / s.temperature) for k in range(s.concepts))
            for i in range(len(h))
        ])  # fmt: skip
        if draws is None:
            partition = p.sum()
        else:
            others = [p[j] / (len(draws.items) * draws.log_q[j].exp()) for j in draws.items if j not in history]
            partition = _total([p[i] for i in history]) + _total(others)
        losses.append(beta * kl - _total([x[u, i] * (p[i].log() - partition.log()) for i in history]))
    return _total(losses) / len(x)


def naive_components(
    network: MacridNetwork, c: Tensor, user: int, history: Sequence[int], keep: Tensor, noise: Noise, x: Tensor
) -> tuple[list[Tensor], Tensor]:
    """z_u of every concept, and the KL divergence; c: (items, concepts).

    x: weights of the items in the history. keep: the same after dropout.
    """
    s, t = network.settings, network.context_vectors
    whole = _total([keep[j] * t[i] for j, i in enumerate(history)], s.dim)
    z, kl = [], []
    for k in range(s.concepts):
        norm = torch.sqrt(_total([(x[j] * c[i, k]) ** 2 for j, i in enumerate(history)]) + 1e-16)
        hidden = _total([keep[j] * c[i, k] * t[i] for j, i in enumerate(history)], s.dim) / norm
        for depth, layer in enumerate(network.layers):
            if depth < len(network.layers) - 1:
                hidden = torch.tanh(layer.weight @ (hidden * noise.keep_hidden[depth][user, k]) + layer.bias)
            else:
                hidden = layer.weight @ hidden + layer.bias
        if s.whole_history == "on":
            hidden = hidden + network.whole @ (whole / max(whole.norm(), 1e-8))
        a, b = hidden[: s.dim], hidden[s.dim :]
        mu = a / max(a.norm(), 1e-8)
        sigma = s.prior_std * torch.exp(-b / 2)
        prior = torch.distributions.Normal(torch.zeros_like(mu), torch.full_like(mu, s.prior_std))
        kl.append(torch.distributions.kl_divergence(torch.distributions.Normal(mu, sigma), prior).sum())
        z.append(mu + noise.normal[user, k] * sigma)
    return z, _total(kl)


def naive_concept_weights(network: MacridNetwork, c: Tensor, history: Sequence[int], keep: Tensor) -> list[Tensor]:
    """share^gamma of every concept, the share that of what dropout left; 1 without concept shares."""
    concepts = c.shape[1]
    if network.settings.concept_shares == "off":
        return [torch.ones((), dtype=torch.float64)] * concepts
    mass = torch.stack([_total([keep[j] * c[i, k] for j, i in enumerate(history)]) for k in range(concepts)])
    return list(share_weights(mass, network.share_power[0].clamp(0, 2)))


def share_weights(mass: Any, gamma: Any) -> Any:
    """(share + 0.02)^gamma, scaled so that shares add up to 1; mass: how much of a history lies in each concept."""
    return ((mass / max(mass.sum(), 1e-8) + 0.02) / (1 + 0.02 * len(mass))) ** gamma


def with_gradients(
    function: Callable[..., Tensor | tuple[Tensor, ...]], inputs: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """What a function gives, and the gradients of the sum of all that, weighted, by every input."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    found = function(*leaves)
    values = list(found) if isinstance(found, tuple) else [found]
    own = [weight.to(value) for weight, value in zip(weights, values, strict=True)]
    gradients = torch.autograd.grad(values, leaves, own, allow_unused=True)
    filled = [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, gradients, strict=True)]
    return [value.detach() for value in values], filled


def assert_near(found: Tensor, truth: Tensor, tolerance: float, name: str = "") -> None:
    finite = truth[torch.isfinite(truth)].abs()
    largest = max(float(finite.max()) if finite.numel() else 0.0, 0.01)
    torch.testing.assert_close(
        found.double().cpu(), truth.double().cpu(), rtol=0, atol=tolerance * largest,
        msg=lambda text: f"{name} {text}",
    )  # fmt: skip


def assert_same(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    truth: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor],
    weights: Sequence[Tensor],
    tolerance: Tolerance,
    kind: torch.dtype = torch.float64,
    device: str = "cpu",
) -> None:
    """Values and all gradients of `function`, in numbers of this kind, are those of `truth` in float64."""
    rounded = [tensor.to(kind) for tensor in inputs]
    expected, by_truth = with_gradients(truth, [tensor.double() for tensor in rounded], weights)
    values, gradients = with_gradients(function, [tensor.to(device) for tensor in rounded], weights)
    for number, (ours, true) in enumerate(zip(values, expected, strict=True)):
        assert_near(ours, true, tolerance.values, f"value {number}:")
    for number, (ours, true) in enumerate(zip(gradients, by_truth, strict=True)):
        assert_near(ours, true, tolerance.gradients, f"gradient by input {number}:")


def mask_of(dropout: Dropout, rows: Histories, items: int) -> Tensor:
    """What dropout by a seed multiplies each interaction with: (interactions,), the batch's users in order."""
    from macrid.ops.sparse_triton import SumByConcept

    eye = torch.eye(items, device=DEVICE)
    kept, _ = SumByConcept.apply(eye, torch.zeros(items, 1, device=DEVICE), rows, dropout, "fp32")
    places = [
        (user, int(item))
        for user in range(rows.batch)
        for item in rows.items[int(rows.starts[user]) : int(rows.stops[user])]
    ]
    users, own = torch.tensor(places, dtype=torch.long).reshape(-1, 2).t()
    return kept[users, 0, own].cpu()
