"""beta-MultVAE and MultDAE (Liang et al., WWW 2018), the paper's baselines, with two tables of item vectors.

    x_u of unit length, with dropout → tanh(sum of t_i + bias) → hidden layers → z_u → hidden layers → h_i · z + bias_i

Both are MacridVAE's case of a single concept: the same encoder sum and likelihood over all items, with an item's bias
in place of its log-probability of the concept. So training needs nothing of size users × items here either.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from macrid.data.interactions import Interactions
from macrid.errors import SettingsError
from macrid.models.layers import draw_dropout, initialise
from macrid.models.macridvae import Loss, Noise
from macrid.models.neural import NeuralRecommender
from macrid.ops.encoder import normalise
from macrid.ops.partition import Precision, log_likelihood
from macrid.ops.sparse import Histories, sum_by_concept
from macrid.ops.topk import Decoder, Mixture
from macrid.settings import (
    MultDAEKeywords,
    MultDAESettings,
    MultVAEKeywords,
    MultVAESettings,
    TrainingSettings,
    takes,
)


class MultNetwork(nn.Module):
    """The parameters and functions of both models; MultDAE has no distribution over z_u."""

    precision: Precision = "fp32"
    scratch: int | None = None

    def __init__(self, items: int, settings: MultVAESettings | MultDAESettings) -> None:
        super().__init__()
        s = self.settings = settings
        self.variational = isinstance(s, MultVAESettings)
        self.context_vectors = nn.Parameter(torch.empty(items, s.dim))  # t_i
        self.context_bias = nn.Parameter(torch.empty(s.dim))
        self.item_vectors = nn.Parameter(torch.empty(items, s.dim))  # h_i
        self.item_bias = nn.Parameter(torch.empty(items))
        self.encoder, self.decoder = (_layers(widths) for widths in layer_widths(s))

    @torch.no_grad()
    def initialise(self, generator: Generator) -> None:
        """Tables as in Glorot and Bengio (2010)."""
        for table in (self.context_vectors, self.item_vectors):
            table.normal_(std=(2 / sum(table.shape)) ** 0.5, generator=generator)
        initialise([*self.encoder, *self.decoder], generator)
        self.context_bias.zero_()
        self.item_bias.zero_()

    def draw_noise(self, histories: Histories, generator: Generator) -> Noise:
        table = self.context_vectors
        shape = histories.batch, 1, self.settings.dim
        normal = torch.randn(shape, device=table.device, generator=generator) if self.variational else None
        return Noise(normal=normal, keep=draw_dropout(histories, self.settings.dropout, table, generator))

    def encode(
        self, histories: Histories, noise: Noise, precision: Precision | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """mu_u and log sigma_u², (batch, 1, dim) each; z_u and None for MultDAE."""
        table = self.context_vectors
        log_weights = table.new_zeros(len(table), 1)
        sums, squares = sum_by_concept(table, log_weights, histories, noise.keep, precision or self.precision)
        hidden = torch.tanh(normalise(sums, squares) + self.context_bias)
        for depth, layer in enumerate(self.encoder):
            hidden = layer(hidden)
            if not self.variational or depth < len(self.encoder) - 1:
                hidden = torch.tanh(hidden)
        if not self.variational:
            return hidden, None
        mean, log_variance = hidden.chunk(2, dim=-1)
        return mean, log_variance

    def decode(self, components: Tensor) -> Tensor:
        """The vectors that item vectors are multiplied by: (batch, 1, dim)."""
        for layer in self.decoder:
            components = torch.tanh(layer(components))
        return components

    def loss(self, histories: Histories, noise: Noise, beta: float | Tensor) -> Loss:
        """−log-likelihood + beta · KL, averaged over the users of the batch."""
        mean, log_variance = self.encode(histories, noise)
        components, kl = mean, mean.new_zeros(())
        if log_variance is not None:
            if noise.normal is not None:
                components = mean + noise.normal * torch.exp(0.5 * log_variance)
            each = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)  # to N(0, I)
            kl = each.sum(dim=(1, 2)).mean()
        nll = -log_likelihood(
            self.decode(components), self.item_vectors, self.item_bias[:, None], 1.0, histories,
            precision=self.precision, scratch=self.scratch,
        ) / histories.batch  # fmt: skip
        return Loss(nll + beta * kl, nll, kl)


class MultVAE(NeuralRecommender):
    """beta-MultVAE: one Gaussian component per user, multinomial likelihood, the KL annealed to a cap beta.

    Keyword arguments are the fields of `macrid.settings.MultVAESettings`: dim, beta, hidden_layers, …
    """

    settings_class: ClassVar[Any] = MultVAESettings
    training_defaults: dict[str, Any] = {"learning_rate": 1e-3, "beta_warmup": 20}  # noqa: RUF012
    settings: MultVAESettings | MultDAESettings
    network: MultNetwork

    @takes(MultVAESettings)
    def __init__(self, **settings: Unpack[MultVAEKeywords]) -> None:
        super().__init__(**settings)

    def prepare(self, data: Interactions, training: TrainingSettings) -> None:
        if training.likelihood == "sampled":
            raise SettingsError(f"likelihood is 'sampled'; {type(self).__name__} supports only 'exact'")
        super().prepare(data, training)

    def _build(self, items: int) -> MultNetwork:
        return MultNetwork(items, self.settings)

    def _start(self, matrix: sp.csr_array, seed: int) -> None:
        self.network.initialise(torch.Generator().manual_seed(seed))

    @property
    def decoder(self) -> Decoder:
        self.check_fitted()
        return Decoder(self.network.item_vectors.detach(), self.network.item_bias.detach()[:, None])

    def _mixture(self, histories: sp.csr_array, decoder: Decoder) -> Mixture:
        mean, _ = self.network.encode(self.to_device(histories), Noise(), precision="fp32")
        return Mixture(self.network.decode(mean))

    def item_vectors(self) -> Tensor:
        return self.network.item_vectors.detach()

    @torch.no_grad()
    def _posterior(self, histories: Histories) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.network.encode(histories, Noise(), precision="fp32")
        return mean, torch.zeros_like(mean) if log_variance is None else torch.exp(0.5 * log_variance)

    def confidence(self, histories: sp.csr_array) -> np.ndarray:
        return np.diff(histories.indptr)[:, None].astype(np.float32)


class MultDAE(MultVAE):
    """MultDAE: the same without a distribution, trained by dropping items of the history.

    Keyword arguments are the fields of `macrid.settings.MultDAESettings`: dim, hidden_layers, …
    """

    settings_class: ClassVar[Any] = MultDAESettings
    training_defaults: dict[str, Any] = {"learning_rate": 1e-3}  # noqa: RUF012

    @takes(MultDAESettings)
    def __init__(self, **settings: Unpack[MultDAEKeywords]) -> None:
        super().__init__(**settings)


def layer_widths(settings: MultVAESettings | MultDAESettings) -> tuple[list[int], list[int]]:
    """Widths of the layers before and after z_u, empty if there are none."""
    s = settings
    hidden = [s.width] * s.hidden_layers
    if isinstance(s, MultVAESettings):
        return [s.dim, *hidden, 2 * s.dim], [s.dim, *hidden, s.dim] if hidden else []
    return [s.dim, *hidden, s.dim] if hidden else [], []


def parameter_count(items: int, settings: MultVAESettings | MultDAESettings) -> int:
    pairs = [pair for widths in layer_widths(settings) for pair in itertools.pairwise(widths)]
    return (2 * items + 1) * settings.dim + items + sum((n_in + 1) * n_out for n_in, n_out in pairs)


def dim_for(items: int, budget: int, settings: MultVAESettings | MultDAESettings) -> int:
    """The largest dim with at most `budget` parameters; 0 if the layers alone exceed it."""
    low, high = 0, budget // (2 * items) + 1
    while high - low > 1:
        dim = (low + high) // 2
        fits = parameter_count(items, settings.model_copy(update={"dim": dim})) <= budget
        low, high = (dim, high) if fits else (low, dim)
    return low


def _layers(widths: Sequence[int]) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))
