"""The likelihood of a mixture of concepts over all items.

The decoder's unnormalised probability is

    p_ui = sum_k exp(z_uk · h_i / temperature + log c_ik),        Z_u = sum_i p_ui,

and only Z_u needs every item: `log_partition`, on a CPU in blocks of users and items, on a GPU by fused kernels
(`macrid.ops.partition_triton`) for any dim up to 512.

Where a block holds all items of its users (`log_likelihood` on a CPU), its probabilities serve both passes and include
the positives; otherwise backward recomputes each block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from macrid.ops import kernels
from macrid.ops.sparse import Histories, positives

SCRATCH = 4 << 20
"""Numbers in one block on a CPU, by default."""
USERS = 64, 8
"""In a block with all items: the most, and the fewest for which such a block pays off."""
BOUNDED = 30.0
"""Logits at most this far from 0 can be exponentiated and summed without subtracting the maximum."""

Precision = Literal["fp32", "tf32", "bf16"]


def log_partition(
    components: Tensor,
    items: Tensor,
    log_assignment: Tensor,
    temperature: float,
    *,
    precision: Precision = "fp32",
    hidden: Tensor | None = None,
    bound: float | None = None,
    scratch: int | None = None,
) -> Tensor:
    """log Z_u = log sum_i sum_k exp(components[u, k] · items[i] / temperature + log_assignment[i, k]).

    components (batch, concepts, dim), items (items, dim), log_assignment (items, concepts) → (batch,).
    precision: of the products on a GPU; sums are always in single precision.
    hidden: (batch, items), nonzero where an item is left out of a user's sum.
    bound: an upper bound of |components · items| / temperature, if known; lets the kernels do less.
        The sum of e^(bound + log_assignment) over all items must then fit single precision.
    scratch: numbers to use as scratch memory on a CPU; by default `SCRATCH`.
    """
    if kernels.serve(components):
        from macrid.ops.partition_triton import LogPartition

        return LogPartition.apply(components, items, log_assignment, hidden, temperature, precision, bounded(bound))
    return _LogPartition.apply(components / temperature, items, log_assignment, hidden, scratch or SCRATCH)


def log_likelihood(
    components: Tensor,
    items: Tensor,
    log_assignment: Tensor,
    temperature: float,
    histories: Histories,
    *,
    precision: Precision = "fp32",
    bound: float | None = None,
    scratch: int | None = None,
) -> Tensor:
    """The sum over the batch of ln p(x_u | z_u, C) = sum over a user's items of x_ui (log p_ui − log Z_u).

    Users are weighted by `histories.weights`. Shapes as in `log_partition` → ().
    precision: "bf16" on a CPU takes the two products of the gradients in bf16.
    """
    if kernels.serve(items):
        from macrid.ops.sparse_triton import Likelihood

        return Likelihood.apply(components, items, log_assignment, histories, temperature, precision, bounded(bound))
    height = _users_of_a_block(components, items, scratch)
    if height:
        return _Sweep.apply(components / temperature, items, log_assignment, histories, precision, height)
    log_z = log_partition(components, items, log_assignment, temperature, scratch=scratch)
    sums, _ = positives(components, items, log_assignment, temperature, histories)
    return histories.weights.to(items.dtype) @ (sums - histories.mass.to(items.dtype) * log_z)


def bounded(bound: float | None) -> bool:
    return bound is not None and bound <= BOUNDED


class _Sweep(torch.autograd.Function):
    """The log-likelihood and all its gradients in one sweep over blocks of users, each with all items.

    With P = softmax of a user's logits over concepts and items, s_ik = x_ui p_uik / p_ui at the positives, and n_u the
    sum of x_ui, the gradient by the logits is s − n_u P, times the user's weight. It needs nothing else, so the forward
    pass computes it while it has P: three matrix products in all.
    """

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, histories: Histories, precision: str,
        height: int,
    ) -> Tensor:  # fmt: skip
        sums = _Gradients(components, items, precision) if any(ctx.needs_input_grad) else None
        mass, weights = histories.mass.to(items.dtype), histories.weights.to(items.dtype)
        concepts = torch.arange(components.shape[1], device=items.device)[:, None] * len(items)
        total = items.new_zeros(())
        for users, logits in _blocks_of_users(components, items, log_assignment, height):
            block = histories.of(users)
            at = block.own_rows * (len(concepts) * len(items)) + block.items + concepts  # (concepts, positives)
            flat, n, weight = logits.view(-1), mass[users], weights[users]
            x = None if block.values is None else block.values.to(items.dtype)
            picked = flat.index_select(0, at.view(-1)).view_as(at)
            log_p = picked.logsumexp(dim=0)
            counted = log_p if x is None else x * log_p
            total += weight.index_select(0, block.own_rows) @ counted - (n * weight) @ _softmax_(logits.flatten(1))
            if sums is not None:
                share = picked.sub_(log_p).exp_().div_(n.index_select(0, block.own_rows))
                share = share if x is None else share.mul_(x)
                flat.index_add_(0, at.view(-1), share.view(-1), alpha=-1)
                sums.add(users, logits, -n * weight)
        ctx.save_for_backward(*(() if sums is None else sums.result()))
        return total

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * weight for gradient in ctx.saved_tensors), None, None, None


class _SampledSweep(torch.autograd.Function):
    """sum_u n_u log(e^log_own_u + Z_u) and all its gradients, likewise; Z_u over items that are not hidden."""

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, log_own: Tensor, counts: Tensor,
        hidden: Tensor, precision: str, height: int,
    ) -> Tensor:  # fmt: skip
        sums = _Gradients(components, items, precision) if any(ctx.needs_input_grad) else None
        total, by_own = items.new_zeros(()), torch.empty_like(log_own)
        for users, logits in _blocks_of_users(components, items, log_assignment, height):
            logits.masked_fill_(hidden[users, None] != 0, -torch.inf)
            log_all = torch.logaddexp(log_own[users], _softmax_(logits.flatten(1)))
            total += counts[users] @ log_all
            by_own[users] = counts[users] * torch.exp(log_own[users] - log_all)
            if sums is not None:
                sums.add(users, logits, counts[users] - by_own[users])
        ctx.save_for_backward(*(() if sums is None else sums.result()), by_own)
        return total

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * weight for gradient in ctx.saved_tensors), None, None, None, None


def sum_log_partition_with(
    components: Tensor, items: Tensor, log_assignment: Tensor, temperature: float, log_own: Tensor, counts: Tensor,
    hidden: Tensor, precision: Precision = "fp32", scratch: int | None = None,
) -> Tensor:  # fmt: skip
    """sum_u counts_u log(exp(log_own_u) + Z_u), Z_u as in `log_partition`, in one sweep; both (batch,) → ()."""
    height = _users_of_a_block(components, items, scratch)
    if not height:
        log_z = log_partition(components, items, log_assignment, temperature, hidden=hidden, scratch=scratch)
        return (counts * torch.logaddexp(log_own, log_z)).sum()
    counts = counts.to(items.dtype)
    return _SampledSweep.apply(
        components / temperature, items, log_assignment, log_own, counts, hidden, precision, height
    )


class _Gradients:
    """Sums the gradients that follow from a gradient by the logits over blocks of users."""

    def __init__(self, components: Tensor, items: Tensor, precision: str) -> None:
        self.components, self.kind = components, torch.bfloat16 if precision == "bf16" else items.dtype
        self.items = items.to(self.kind)
        self.by_components, self.by_items = torch.empty_like(components), torch.zeros_like(items)
        self.by_assignment = items.new_zeros(components.shape[1] * len(items))

    def add(self, users: slice, by_logits: Tensor, scale: Tensor) -> None:
        """by_logits (users, concepts, items), times scale (users,)."""
        scaled = self.components[users] * scale[:, None, None]
        flat = by_logits.flatten(0, 1).to(self.kind)
        torch.mul((flat @ self.items).view_as(scaled), scale[:, None, None], out=self.by_components[users])
        if self.kind == self.by_items.dtype:
            self.by_items.addmm_(flat.t(), scaled.flatten(0, 1))
        else:
            self.by_items += (scaled.flatten(0, 1).t().to(self.kind) @ flat).t()
        self.by_assignment.addmv_(by_logits.flatten(1).t(), scale)

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """By components, items and log assignment."""
        return self.by_components, self.by_items, self.by_assignment.view(self.components.shape[1], -1).t()


def _users_of_a_block(components: Tensor, items: Tensor, scratch: int | None) -> int:
    """The number of users per block with all items; 0 if too few fit in scratch memory."""
    most, fewest = USERS
    height = min(most, (scratch or SCRATCH) // max(1, components.shape[1] * len(items)))
    return 0 if height < min(fewest, len(components)) else height


def _blocks_of_users(
    components: Tensor, items: Tensor, log_assignment: Tensor, height: int
) -> Iterator[tuple[slice, Tensor]]:
    """Users and their logits (users, concepts, items); each block reuses the same memory."""
    batch, concepts, _ = components.shape
    threads = torch.get_num_threads()
    height -= height % threads if height > threads else 0
    scratch = items.new_empty(min(height, batch) * concepts * len(items))
    by_concept = log_assignment.t().contiguous()
    for start in range(0, batch, height):
        users = slice(start, start + height)
        yield users, _logits(components[users], items, by_concept, scratch)


class _LogPartition(torch.autograd.Function):
    """log Z_u in blocks; backward recomputes each block."""

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, hidden: Tensor | None, scratch: int
    ) -> Tensor:
        by_concept = log_assignment.t().contiguous()  # (concepts, items)
        top = components.new_full((len(components),), -1e30)  # running maximum, so that no exponential can overflow
        total = components.new_zeros(len(components))
        for users, _, logits in _blocks(components, items, by_concept, hidden, scratch):
            higher = torch.maximum(top[users], logits.amax(dim=(1, 2)))
            part = logits.sub_(higher[:, None, None]).exp_().sum(dim=(1, 2))
            total[users] = total[users] * torch.exp(top[users] - higher) + part
            top[users] = higher
        log_z = top + total.log()
        ctx.save_for_backward(components, items, by_concept, hidden, log_z)
        ctx.scratch = scratch
        return log_z

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        (components, items, by_concept, hidden, log_z), scratch = ctx.saved_tensors, ctx.scratch
        log_z = torch.where(log_z > -torch.inf, log_z, torch.inf)  # no gradient where all items are hidden
        by_components, by_items, by_assignment = (torch.zeros_like(t) for t in (components, items, by_concept))
        for users, tile, logits in _blocks(components, items, by_concept, hidden, scratch):
            p = logits.sub_(log_z[users, None, None]).exp_().mul_(weights[users, None, None])
            by_assignment[:, tile] += p.sum(dim=0)
            flat = p.flatten(0, 1)
            by_components[users] += (flat @ items[tile]).view_as(components[users])
            by_items[tile] += flat.t() @ components[users].flatten(0, 1)
        return by_components, by_items, by_assignment.t(), None, None


def _blocks(
    components: Tensor, items: Tensor, by_concept: Tensor, hidden: Tensor | None, scratch: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Users, items and logits (users, concepts, items) of every block."""
    batch, concepts, _ = components.shape
    width = max(1, min(len(items), 1024, scratch // concepts))
    height = max(1, min(batch, scratch // (concepts * width)))
    memory = items.new_empty(height * concepts * width)
    for start in range(0, batch, height):
        users = slice(start, start + height)
        for first in range(0, len(items), width):
            tile = slice(first, first + width)
            logits = _logits(components[users], items[tile], by_concept[:, tile], memory)
            if hidden is not None:
                logits.masked_fill_((hidden[users, tile] != 0)[:, None], -torch.inf)
            yield users, tile, logits


def _logits(components: Tensor, items: Tensor, by_concept: Tensor, out: Tensor) -> Tensor:
    """components[u, k] · items[i] + by_concept[k, i]: (users, concepts, items), in the memory of `out`."""
    users, concepts, dim = components.shape
    flat = out[: users * concepts * len(items)]
    threads = torch.get_num_threads()
    parts = threads if users % threads == 0 else 1  # a single product may use one thread only
    torch.bmm(components.reshape(parts, -1, dim), items.t().expand(parts, -1, -1), out=flat.view(parts, -1, len(items)))
    return flat.view(users, concepts, len(items)).add_(by_concept)


def _softmax_(logits: Tensor) -> Tensor:
    """Softmax of each row in place, 0 for a row of −inf; returns the log of the sum of its exponentials, (rows,)."""
    top = logits.amax(dim=1)
    torch.ops.aten._softmax.out(logits, 1, False, out=logits)
    log_z = top - logits.amax(dim=1).log()
    empty = top == -torch.inf
    if empty.any():
        logits[empty], log_z[empty] = 0.0, -torch.inf
    return log_z
