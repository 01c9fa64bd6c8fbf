"""Concepts that stay in a warm start: a term of the loss that holds items to their earlier concepts.

    weight · items per user · sum_i p_i · H(c_i before, c_i),   p_i ∝ root of item i's popularity, over earlier items

Data that does not separate into clear groups allows many partitions that are equally good; without the term, training
would wander from one to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

if TYPE_CHECKING:
    from macrid.models.macridvae import MacridNetwork, MacridVAE
    from macrid.ops.sampled import Local
    from macrid.ops.shards import Shards

WEIGHT = 0.3  # from 0.1 to 1, lists are about equally accurate


@dataclass(frozen=True, eq=False)
class Anchor:
    """The earlier concepts of items, and how much each counts."""

    targets: Tensor
    """(items, concepts) c_i before; 0 for new items."""
    weights: Tensor
    """(items,) adding up to 1; 0 for new items."""
    scale: float

    def to(self, device: torch.device) -> Anchor:
        return Anchor(self.targets.to(device), self.weights.to(device), self.scale)

    def of(self, shards: Shards, device: torch.device) -> Anchor:
        """For the items of one process."""
        return Anchor(shards.of_table(self.targets), shards.of_table(self.weights), self.scale).to(device)

    def loss(self, network: MacridNetwork, vectors: Tensor, drawn: Local | None) -> Tensor:
        """vectors: (rows, dim) of all items, or of those drawn, which then stand for all."""
        targets, weights = self.targets, self.weights
        if drawn is not None:
            targets, weights = targets[drawn.rows], weights[drawn.rows]
            if drawn.count is not None:
                weights = weights * (torch.arange(len(vectors), device=vectors.device) < drawn.count)
            weights = weights / network.shards.total(weights.sum()).clamp(min=1e-12)
        logs = network.log_assignment(vectors=vectors)
        (total,) = network.shards.summed(((targets * logs).sum(dim=1) * weights).sum())
        return -self.scale * total


@dataclass(frozen=True)
class Together:
    """Several terms of the loss."""

    parts: tuple[Any, ...]

    def of(self, shards: Shards, device: torch.device) -> Together:
        return Together(tuple(part.of(shards, device) for part in self.parts))

    def loss(self, network: MacridNetwork, vectors: Tensor, drawn: Local | None) -> Tensor:
        return torch.stack([part.loss(network, vectors, drawn) for part in self.parts]).sum()


@torch.no_grad()
def anchor_of(model: MacridVAE, matrix: sp.csr_array) -> Anchor | None:
    """None unless training starts from a model with as many concepts."""
    old, origin = model.started_from, model.origin
    if old is None or origin is None or old.network.concepts != model.network.concepts:
        return None
    kept = torch.from_numpy(origin.kept)
    targets = torch.zeros(len(origin.places), old.network.concepts)
    before = old.network.log_assignment().exp().cpu()
    targets[kept] = before[torch.from_numpy(origin.places[origin.kept])]
    weights = torch.zeros(len(origin.places))
    weights[kept] = torch.from_numpy(np.sqrt(np.maximum(model.popularity[origin.kept], 1))).float()
    return Anchor(targets, weights / weights.sum(), WEIGHT * matrix.nnz / max(1, matrix.shape[0]))
