"""MacridVAE trained the dense way, as the other side of the speed benchmarks.

This is how public implementations are written: a batch is a dense array of users × items, and a loop over the concepts
multiplies it with the concept's share of every item, encodes it, decodes it to logits of users × items and adds up.
The loss is that of `macrid.models.macridvae.MacridNetwork` without the extensions to the paper, for the same noise,
cosine similarity and hidden layers without dropout; parameters have the same names, so that both can start from the
same weights:

    model = DenseMacridVAE(items, settings).to(device)  # compiled=True: its loss through torch.compile
    model.load_state_dict(network.state_dict())
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = train_epoch(model, optimiser, matrix, 500, torch.Generator(device).manual_seed(0), device)

Where public implementations differ, the cheaper way is taken: the input is normalised and dropped out once and not in
every concept, and a batch is scattered on the device from the users' own items, without padding.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from macrid.settings import MacridVAESettings

EPSILON = 1e-8


class DenseMacridVAE(nn.Module):
    """A loop over concepts with dense users × items arrays in every turn."""

    def __init__(self, items: int, settings: MacridVAESettings, *, compiled: bool = False) -> None:
        super().__init__()
        s = self.settings = settings
        self.prototypes = nn.Parameter(torch.randn(s.concepts, s.dim) * s.dim**-0.5)
        self.item_vectors = nn.Parameter(torch.randn(items, s.dim) * s.dim**-0.5)
        self.context_vectors = nn.Parameter(torch.randn(items, s.dim) * s.dim**-0.5)
        widths = [s.dim, *[s.width] * s.hidden_layers, 2 * s.dim]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))
        if compiled:  # once for full batches and once for the last one
            self.loss = torch.compile(self.loss, dynamic=False)

    def loss(
        self,
        x: Tensor,
        beta: float,
        gumbel: Tensor | None = None,
        normal: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        """The mean loss of users x (batch, items); noise that is not given is drawn from torch's global generator.

        gumbel (items, concepts); normal (batch, concepts, dim); keep (batch, items): 0, or 1 / (1 − dropout).
        """
        items, cates, norm, dropped, normal = self._prepare(x, gumbel, normal, keep)
        probs, kl = None, x.new_zeros(len(x))
        for k in range(self.settings.concepts):
            cates_k = cates[:, k].reshape(1, -1)
            mean, b = self._encode(dropped * cates_k, norm[:, k, None])
            kl = kl + self._kl(mean, b)
            z_k = self._sample(mean, b, normal[:, k])
            logits_k = z_k @ items.t() / self.settings.temperature  # (batch, items)
            probs_k = torch.exp(logits_k) * cates_k
            probs = probs_k if probs is None else probs + probs_k
        log_p = F.log_softmax(torch.log(probs), dim=1)
        return -(log_p * x).sum(dim=1).mean() + beta * kl.mean()

    def _prepare(
        self, x: Tensor, gumbel: Tensor | None, normal: Tensor | None, keep: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Item directions, shares of the concepts, lengths of x · c_k, the input after dropout, normal noise."""
        s = self.settings
        items = F.normalize(self.item_vectors, dim=1, eps=EPSILON)
        cates_logits = items @ F.normalize(self.prototypes, dim=1, eps=EPSILON).t() / s.temperature
        if gumbel is None:
            gumbel = -torch.empty_like(cates_logits).exponential_().log()
        if normal is None:
            normal = torch.randn(len(x), s.concepts, s.dim, device=x.device, dtype=x.dtype)
        cates = torch.softmax(cates_logits + gumbel, dim=1)  # (items, concepts)
        norm = (x @ cates.square() + EPSILON**2).sqrt()  # (batch, concepts); x is 0 or 1
        return items, cates, norm, F.dropout(x, s.dropout) if keep is None else x * keep, normal

    def _encode(self, x_k: Tensor, norm_k: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and b, with sigma = sigma_0 · exp(−b / 2): (…, items) → (…, dim) twice."""
        hidden = x_k @ self.context_vectors / norm_k
        for layer in self.layers[:-1]:
            hidden = torch.tanh(layer(hidden))
        a, b = self.layers[-1](hidden).chunk(2, dim=-1)
        return F.normalize(a, dim=-1, eps=EPSILON), b

    def _sample(self, mean: Tensor, b: Tensor, normal: Tensor) -> Tensor:
        return F.normalize(mean + normal * self.settings.prior_std * torch.exp(-0.5 * b), dim=-1, eps=EPSILON)

    def _kl(self, mean: Tensor, b: Tensor) -> Tensor:
        variance_part = 0.5 * (b + torch.exp(-b) - 1).sum(dim=-1)
        return variance_part + mean.square().sum(dim=-1) / (2 * self.settings.prior_std**2)


class PartitionDense(DenseMacridVAE):
    """All concepts at once: a log-sum-exp over users × concepts × items, and the logits of the positives picked."""

    def loss(
        self,
        x: Tensor,
        beta: float,
        gumbel: Tensor | None = None,
        normal: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        items, cates, norm, dropped, normal = self._prepare(x, gumbel, normal, keep)
        mean, b = self._encode(dropped[:, None] * cates.t(), norm[..., None])  # (batch, concepts, dim)
        z = self._sample(mean, b, normal)
        logits = z @ items.t() / self.settings.temperature + cates.t().log()  # (batch, concepts, items)
        rows, columns = x.nonzero(as_tuple=True)
        log_p = logits[rows, :, columns].logsumexp(dim=1).sum()
        log_z = logits.logsumexp(dim=(1, 2)) * x.sum(dim=1)
        return (log_z.sum() - log_p) / len(x) + beta * self._kl(mean, b).sum(dim=1).mean()


def dense_rows(starts: Tensor, items: Tensor, users: Tensor, width: int) -> Tensor:
    """The rows of a CSR matrix of ones, scattered into zeros: (users, width)."""
    counts = starts[users + 1] - starts[users]
    rows = torch.repeat_interleave(counts)
    first = starts[users] - (counts.cumsum(0) - counts)
    columns = items[torch.arange(len(rows), device=users.device) + first[rows]].long()
    x = torch.zeros(len(users), width, device=users.device)
    return x.index_put_((rows, columns), x.new_ones(()))


def train_epoch(
    model: DenseMacridVAE,
    optimiser: torch.optim.Optimizer,
    matrix: sp.csr_array,
    batch_size: int,
    generator: Generator,
    device: torch.device | str,
) -> float:
    """One pass over the users in random order; the mean loss per user. The generator shuffles, see `loss` for noise."""
    starts = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64)).to(device)
    items = torch.from_numpy(np.array(matrix.indices, dtype=np.int32)).to(device)
    order = torch.randperm(matrix.shape[0], generator=generator, device=generator.device).to(device)
    total = torch.zeros((), device=device)
    for users in order.split(batch_size):
        loss = model.loss(dense_rows(starts, items, users, matrix.shape[1]), model.settings.beta)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.detach() * len(users)
    return float(total) / matrix.shape[0]
