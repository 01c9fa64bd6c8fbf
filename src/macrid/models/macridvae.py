"""MacridVAE (Ma et al., NeurIPS 2019), equation by equation.

`MacridNetwork` is Algorithm 1 of the paper and nothing else; `MacridVAE` is the recommender around it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from macrid.config import MacridVAESettings
from macrid.models.base import Encoding, NeuralRecommender
from macrid.models.start import svd_start
from macrid.ops.partition import log_likelihood
from macrid.ops.sparse import Histories, sum_by_user, weighted_sum

EPSILON = 1e-8  # "We add 10^-8 to prevent division-by-zero wherever appropriate."


@dataclass(frozen=True)
class Noise:
    """Everything random in one training step; None leaves that part out."""

    gumbel: Tensor | None = None  # (items, concepts)
    normal: Tensor | None = None  # (batch, concepts, dim)
    keep: Tensor | None = None  # (interactions,) 0, or 1 / (1 − dropout)
    keep_hidden: tuple[Tensor, ...] = ()  # per hidden layer (batch, concepts, width in)


class Loss(NamedTuple):
    """Means over the users of a batch; `total` = `negative_log_likelihood` + beta · `kl`."""

    total: Tensor
    negative_log_likelihood: Tensor
    kl: Tensor


class MacridNetwork(nn.Module):
    """The parameters theta and the functions of Algorithm 1."""

    def __init__(self, items: int, settings: MacridVAESettings) -> None:
        super().__init__()
        s = self.settings = settings
        self.prototypes = nn.Parameter(torch.empty(s.concepts, s.dim))  # m_k
        self.item_vectors = nn.Parameter(torch.empty(items, s.dim))  # h_i
        self.context_vectors = nn.Parameter(torch.empty(items, s.dim))  # t_i
        self.widths = [s.dim, *[s.width] * s.hidden_layers, 2 * s.dim]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(self.widths))  # f_nn

    @torch.no_grad()
    def initialise(self, generator: Generator) -> None:
        """Random start: unit-length vectors on average, layers with the usual uniform bounds."""
        for table in (self.prototypes, self.item_vectors, self.context_vectors):
            table.normal_(std=self.settings.dim**-0.5, generator=generator)
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            bound = layer.in_features**-0.5
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)

    def draw_noise(self, histories: Histories, generator: Generator) -> Noise:
        s, vectors = self.settings, self.item_vectors
        device, kind = vectors.device, vectors.dtype

        def keep(*shape: int) -> Tensor:
            uniform = torch.rand(shape, device=device, dtype=kind, generator=generator)
            return (uniform >= s.dropout).to(kind) / (1 - s.dropout)

        exponential = torch.empty(len(vectors), s.concepts, device=device, dtype=kind).exponential_(generator=generator)
        return Noise(
            gumbel=-exponential.log(),
            normal=torch.randn(histories.batch, s.concepts, s.dim, device=device, dtype=kind, generator=generator),
            keep=keep(len(histories.items)),
            keep_hidden=tuple(keep(histories.batch, s.concepts, width) for width in self.widths[:-2]),
        )

    # PrototypeClustering

    def log_assignment(self, gumbel: Tensor | None = None) -> Tensor:
        """log c_i: Gumbel-Softmax over s_ik in training, plain softmax without noise: (items, concepts)."""
        logits = self._direction(self.item_vectors) @ self._direction(self.prototypes).t() / self.settings.temperature
        return F.log_softmax(logits if gumbel is None else logits + gumbel, dim=1)

    def mode_assignment(self) -> Tensor:
        """log c_i when not training: log of one-hot ("hard") or of the probabilities ("soft"): (items, concepts)."""
        log_assignment = self.log_assignment()
        if self.settings.assignment == "soft":
            return log_assignment
        one_hot = F.one_hot(log_assignment.argmax(dim=1), self.settings.concepts)
        return one_hot.to(log_assignment.dtype).log()

    # Encoder

    def encode(self, histories: Histories, log_assignment: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        """mu_u and b_u, with sigma_u = sigma_0 · exp(−b_u / 2): both (batch, concepts, dim)."""
        # F.embedding instead of indexing: its gradient is summed in a fixed order, so that a seed repeats exactly
        assignment = F.embedding(histories.items, log_assignment).exp()  # (interactions, concepts)
        norm = (sum_by_user(assignment.square(), histories) + EPSILON**2).sqrt()  # (batch, concepts)
        weights = assignment / F.embedding(histories.rows, norm)
        if noise.keep is not None:
            weights = weights * noise.keep[:, None]
        hidden = weighted_sum(self.context_vectors, weights, histories)  # (batch, concepts, dim)
        for depth, layer in enumerate(self.layers):
            if depth < len(noise.keep_hidden):
                hidden = hidden * noise.keep_hidden[depth]
            hidden = layer(hidden)
            if depth < len(self.layers) - 1:
                hidden = torch.tanh(hidden)
        a, b = hidden.chunk(2, dim=-1)
        return F.normalize(a, dim=-1, eps=EPSILON), b

    def kl(self, mean: Tensor, b: Tensor) -> Tensor:
        """D_KL(N(mu, sigma^2) || N(0, sigma_0^2)), the constant part of the normalised means included: (batch,)."""
        variance_part = 0.5 * (b + torch.exp(-b) - 1).sum(dim=(1, 2))
        return variance_part + mean.square().sum(dim=(1, 2)) / (2 * self.settings.prior_std**2)

    # Decoder

    def log_likelihood(self, components: Tensor, log_assignment: Tensor, positives: Histories) -> Tensor:
        """ln p(x_u | z_u, C): (batch,)."""
        return log_likelihood(
            self._direction(components),
            self._direction(self.item_vectors),
            log_assignment,
            self.settings.temperature,
            positives,
        )

    def loss(self, histories: Histories, noise: Noise, beta: float) -> Loss:
        """−L of Algorithm 1, averaged over the users of the batch."""
        log_assignment = self.log_assignment(noise.gumbel)
        mean, b = self.encode(histories, log_assignment, noise)
        components = mean
        if noise.normal is not None:
            components = mean + noise.normal * self.settings.prior_std * torch.exp(-0.5 * b)
        nll = -self.log_likelihood(components, log_assignment, histories).mean()
        kl = self.kl(mean, b).mean()
        return Loss(nll + beta * kl, nll, kl)

    # When not training

    @torch.no_grad()
    def components(self, histories: Histories, log_assignment: Tensor) -> Tensor:
        """z_u = mu_u: (batch, concepts, dim)."""
        return self.encode(histories, log_assignment, Noise())[0]

    @torch.no_grad()
    def log_probabilities(self, components: Tensor, log_assignment: Tensor) -> Tensor:
        """log p(x_ui | z_u, C) of every item: (batch, items)."""
        items = self._direction(self.item_vectors)
        components = self._direction(components) / self.settings.temperature
        scores = components.new_empty(len(components), len(items))
        if self.settings.assignment == "hard":  # an item needs the component of its own concept only
            concept_of = log_assignment.argmax(dim=1)
            for k in range(self.settings.concepts):
                own = (concept_of == k).nonzero()[:, 0]
                scores[:, own] = components[:, k] @ items[own].t()
        else:
            for start in range(0, len(items), 1024):
                tile = slice(start, start + 1024)
                scores[:, tile] = (components @ items[tile].t() + log_assignment[tile].t()).logsumexp(dim=1)
        return scores.log_softmax(dim=1)

    @torch.no_grad()
    def concept_of(self) -> Tensor:
        """The most likely concept of every item: (items,)."""
        return self.log_assignment().argmax(dim=1)

    def effective_concepts(self) -> float:
        """Concepts in use: exp of the entropy of how items divide over their most likely concepts."""
        counts = torch.bincount(self.concept_of(), minlength=self.settings.concepts).double()
        return float(torch.exp(torch.special.entr(counts / counts.sum()).sum()))

    def _direction(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1, eps=EPSILON) if self.settings.similarity == "cosine" else vectors


class MacridVAE(NeuralRecommender):
    """A recommender whose users come apart into one component per concept.

    Keyword arguments are the fields of `macrid.config.MacridVAESettings`: concepts, dim, beta, …
    """

    settings_class: ClassVar[Any] = MacridVAESettings
    settings: MacridVAESettings
    network: MacridNetwork

    def _build(self, items: int) -> MacridNetwork:
        return MacridNetwork(items, self.settings)

    def _start(self, matrix: sp.csr_array, seed: int) -> None:
        self.network.initialise(torch.Generator().manual_seed(seed))
        if self.settings.start == "svd":
            items, prototypes = svd_start(matrix, self.settings.concepts, self.settings.dim, seed)
            with torch.no_grad():
                self.network.item_vectors.add_(items)  # half structure, half noise: measured best of the mixtures tried
                self.network.prototypes.copy_(prototypes)

    @torch.no_grad()
    def _score(self, histories: Histories) -> Tensor:
        log_assignment = self.network.mode_assignment()
        return self.network.log_probabilities(self.network.components(histories, log_assignment), log_assignment)

    def _item_vectors(self) -> Tensor:
        return self.network.item_vectors.detach()

    def concepts_of_items(self) -> np.ndarray:
        """The concept of every item, in the order of `items`: (items,)."""
        return self.network.concept_of().cpu().numpy()

    @torch.no_grad()
    def _encode(self, histories: Histories) -> Encoding:
        log_assignment = self.network.mode_assignment()
        confidence = sum_by_user(log_assignment[histories.items].exp(), histories)
        components = self.network.components(histories, log_assignment)
        return Encoding(confidence[0].cpu().numpy(), components[0].cpu().numpy())
