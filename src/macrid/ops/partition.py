"""The likelihood of a mixture of concepts over all items, in tiles.

The decoder's unnormalised probability is

    p_ui = sum_k exp(z_uk · h_i / tau + log c_ik),        Z_u = sum_i p_ui,

and only Z_u needs every item. It is a log-sum-exp over concepts × items, taken here over tiles of items, so that no
array of users × items is ever built; the backward pass computes each tile again. The positives of a batch need
concepts many numbers of a tile each, which are picked while the tile is at hand.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from macrid.ops.sparse import Histories, sum_by_user

TILE_ITEMS = 1024
SCRATCH = {"cpu": 4 << 20, "cuda": 64 << 20}  # numbers in one tile, at most


def log_partition(components: Tensor, items: Tensor, log_assignment: Tensor, temperature: float) -> Tensor:
    """log Z_u = log sum_i sum_k exp(components[u, k] · items[i] / temperature + log_assignment[i, k]).

    components (batch, concepts, dim), items (items, dim), log_assignment (items, concepts) → (batch,).
    """
    none = torch.empty(0, dtype=torch.long, device=items.device)
    return _TiledMixture.apply(components / temperature, items, log_assignment, none, none)[0]


def log_likelihood(
    components: Tensor, items: Tensor, log_assignment: Tensor, temperature: float, positives: Histories
) -> Tensor:
    """ln p(x_u | z_u, C) = sum over a user's positives of (log p_ui − log Z_u).

    Shapes as in `log_partition` → (batch,).
    """
    log_z, log_p = _TiledMixture.apply(components / temperature, items, log_assignment, positives.rows, positives.items)
    counts = positives.offsets.diff().to(log_z.dtype)
    return sum_by_user(log_p[:, None], positives)[:, 0] - counts * log_z


class _TiledMixture(torch.autograd.Function):
    """(log Z_u for every user, log p_ui for every positive (rows, columns))."""

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, rows: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        batch, concepts, dim = components.shape
        flat = components.reshape(batch * concepts, dim)
        by_concept = log_assignment.t().contiguous()  # (concepts, items)
        by_item = torch.argsort(columns, stable=True)
        tiles = _tiles(batch * concepts, items.shape[0], columns[by_item])

        maximum = components.new_full((batch,), -torch.inf)  # running, so that no exponential can overflow
        total = components.new_zeros(batch)
        picked = components.new_empty(len(rows), concepts)  # the positives' logits
        for start, stop, first, last in tiles:
            logits = _tile(flat, items[start:stop], by_concept[:, start:stop])  # (batch, concepts, tile)
            own = by_item[first:last]
            picked[own] = logits[rows[own], :, columns[own] - start]
            higher = torch.maximum(maximum, logits.amax(dim=(1, 2)))
            total = total * torch.exp(maximum - higher) + logits.sub_(higher[:, None, None]).exp_().sum(dim=(1, 2))
            maximum = higher
        log_z = maximum + total.log()
        log_p = picked.logsumexp(dim=1)
        ctx.save_for_backward(flat, items, by_concept, rows, columns, by_item, log_z, picked - log_p[:, None])
        ctx.tiles = tiles
        return log_z, log_p

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor, grad_p: Tensor) -> tuple[Tensor | None, ...]:
        flat, items, by_concept, rows, columns, by_item, log_z, log_share = ctx.saved_tensors
        batch, concepts = len(log_z), len(by_concept)
        grad_flat = torch.zeros_like(flat)
        grad_items = torch.empty_like(items)
        grad_assignment = torch.empty_like(by_concept)
        pull = grad_p[:, None] * log_share.exp()  # (positives, concepts): d log p_ui / d logit
        for start, stop, first, last in ctx.tiles:
            weights = _tile(flat, items[start:stop], by_concept[:, start:stop])
            weights.sub_(log_z[:, None, None]).exp_().mul_(grad_z[:, None, None])  # d log Z_u / d logit
            own = by_item[first:last]
            where = rows[own], columns[own] - start
            weights[where[0], :, where[1]] += pull[own]
            torch.sum(weights, dim=0, out=grad_assignment[:, start:stop])
            weights = weights.reshape(batch * concepts, stop - start)
            grad_flat.addmm_(weights, items[start:stop])
            torch.mm(weights.t(), flat, out=grad_items[start:stop])
        return grad_flat.view(batch, concepts, -1), grad_items, grad_assignment.t(), None, None


def _tile(flat: Tensor, items: Tensor, by_concept: Tensor) -> Tensor:
    """Logits of one tile: (batch, concepts, tile)."""
    return (flat @ items.t()).view(-1, *by_concept.shape).add_(by_concept)


def _tiles(rows: int, items: int, sorted_columns: Tensor) -> list[tuple[int, int, int, int]]:
    """(first item, past the last item, first positive, past the last positive) of every tile."""
    scratch = SCRATCH.get(sorted_columns.device.type, SCRATCH["cpu"])
    size = max(1, min(TILE_ITEMS, scratch // max(rows, 1)))
    edges = [*range(0, items, size), items]
    bounds = torch.searchsorted(sorted_columns, torch.tensor(edges, device=sorted_columns.device)).tolist()
    return list(zip(edges[:-1], edges[1:], bounds[:-1], bounds[1:], strict=True))
