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
"""In a block with all items: the most in single precision, and the fewest for which such a block pays off."""
CACHED = 1 << 18
"""Numbers in a part of a block, per thread: few enough to stay in cache."""
LOWEST = -1e30
"""In place of −inf, whose product with 0 is not a number."""
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
    precision: "bf16" on a CPU takes all three products in bf16: that of the logits, and two of the gradients.
    """
    if kernels.serve(items):
        from macrid.ops.likelihood_triton import Likelihood

        return Likelihood.apply(components, items, log_assignment, histories, temperature, precision, bounded(bound))
    height = _users_of_a_block(components, items, scratch, precision)
    if height:
        sweep = _BoundedSweep if bounded(bound) else _Sweep
        return sweep.apply(components / temperature, items, log_assignment, histories, precision, height)
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
        blocks = _Blocks(components, items, log_assignment, height, precision)
        sums = _Gradients(blocks) if any(ctx.needs_input_grad) else None
        mass, weights = histories.mass.to(items.dtype), histories.weights.to(items.dtype)
        scale = -mass * weights
        concepts = torch.arange(components.shape[1], device=items.device)[:, None] * len(items)
        total = items.new_zeros(())
        for users, logits in blocks:
            block = histories.of(users)
            at = block.own_rows * (len(concepts) * len(items)) + block.items + concepts  # (concepts, positives)
            x = None if block.values is None else block.values.to(items.dtype)
            picked = logits.view(-1).index_select(0, at.view(-1)).view_as(at).to(items.dtype)
            log_p = picked.logsumexp(dim=0)
            total += weights[users].index_select(0, block.own_rows) @ (log_p if x is None else x * log_p)
            for rows, log_z in blocks.softmax(users, logits):
                total += scale[rows] @ log_z
            if sums is not None:
                share = picked.sub_(log_p).exp_().div_(-mass[users].index_select(0, block.own_rows))
                share = share if x is None else share.mul_(x)
                logits.view(-1).index_add_(0, at.view(-1), share.view(-1).to(logits.dtype))
                sums.add(users, logits, scale[users])
        ctx.save_for_backward(*(() if sums is None else sums.result()))
        return total

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * weight for gradient in ctx.saved_tensors), None, None, None


class _BoundedSweep(torch.autograd.Function):
    """As `_Sweep`, for bounded logits, whose exponentials need no maximum: e = exp(logits), Z_u = sum_ik e_uik and
    p_ui = sum_k e_uik. The gradient by the logits is −n_u / Z_u (1 − x_ui Z_u / (n_u p_ui)) e, times the user's weight.
    """

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, histories: Histories, precision: str,
        height: int,
    ) -> Tensor:  # fmt: skip
        blocks = _Blocks(components, items, log_assignment, height, precision)
        sums = _Gradients(blocks) if any(ctx.needs_input_grad) else None
        mass, weights = histories.mass.to(items.dtype), histories.weights.to(items.dtype)
        concepts = torch.arange(components.shape[1], device=items.device)[:, None] * len(items)
        total = items.new_zeros(())
        for users, logits in blocks:
            z = blocks.exponentials(logits)
            block, n, weight = histories.of(users), mass[users], weights[users]
            rows, x = block.own_rows, None if block.values is None else block.values.to(items.dtype)
            at = (rows * (len(concepts) * len(items)) + block.items + concepts).view(-1)
            e = logits.view(-1).index_select(0, at).view(len(concepts), -1).to(items.dtype)  # (concepts, positives)
            p = e.sum(dim=0)
            log_p = p.log() if x is None else x * p.log()
            total += weight.index_select(0, rows) @ log_p - (weight * n) @ z.log()
            if sums is not None:
                part = (z / n).index_select(0, rows) / p  # Z_u / (n_u p_ui)
                e.mul_(1 - (part if x is None else x * part))
                logits.view(-1).index_copy_(0, at, e.view(-1).to(logits.dtype))
                sums.add(users, logits, -n * weight / z)
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
        blocks = _Blocks(components, items, log_assignment, height, precision)
        sums = _Gradients(blocks) if any(ctx.needs_input_grad) else None
        total, by_own, scale = items.new_zeros(()), torch.empty_like(log_own), torch.empty_like(log_own)
        for users, logits in blocks:
            for rows, log_z in blocks.softmax(users, logits, hidden):
                log_all = torch.logaddexp(log_own[rows], log_z)
                total += counts[rows] @ log_all
                by_own[rows] = counts[rows] * torch.exp(log_own[rows] - log_all)
                scale[rows] = counts[rows] - by_own[rows]
            if sums is not None:
                sums.add(users, logits, scale[users])
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
    height = _users_of_a_block(components, items, scratch, precision)
    if not height:
        log_z = log_partition(components, items, log_assignment, temperature, hidden=hidden, scratch=scratch)
        return (counts * torch.logaddexp(log_own, log_z)).sum()
    counts = counts.to(items.dtype)
    return _SampledSweep.apply(
        components / temperature, items, log_assignment, log_own, counts, hidden, precision, height
    )


class _Blocks:
    """Blocks of users with all items, which share their memory.

    Their logits are one product, [z_uk, e_k] · [h_i, log c_i] with e_k the k-th unit vector.

    In bf16, products are several times faster. A block then takes half the memory; probabilities are computed in single
    precision, a few users at a time, whose numbers stay in cache meanwhile.
    """

    def __init__(self, components: Tensor, items: Tensor, log_assignment: Tensor, height: int, precision: str) -> None:
        batch, concepts, _ = components.shape
        threads = torch.get_num_threads()
        self.height = height - (height % threads if height > threads else 0)
        self.few = threads * max(1, CACHED // (concepts * len(items)))
        self.kind = torch.bfloat16 if precision == "bf16" else items.dtype
        concept = torch.eye(concepts, dtype=items.dtype, device=items.device).expand(batch, -1, -1)
        self.components = torch.cat([components, concept], dim=2)
        self.items = torch.cat([items, log_assignment.clamp(min=LOWEST)], dim=1).to(self.kind)
        self.dim = items.shape[1]
        self.memory = self.items.new_empty(min(self.height, batch) * concepts * len(items))
        self.wide = None if self.kind == items.dtype else items.new_empty(min(self.few, batch), concepts, len(items))

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Users, and their logits: (users, concepts, items)."""
        for start in range(0, len(self.components), self.height):
            users = slice(start, start + self.height)
            components = self.components[users]
            block = self.memory[: components[..., 0].numel() * len(self.items)]
            yield users, _products(components.to(self.kind), self.items, block)

    def exponentials(self, logits: Tensor) -> Tensor:
        """Take exponentials of the logits, in place, a few users at a time; their sums Z: (users,)."""
        sums = self.components.new_empty(len(logits))
        for start in range(0, len(logits), self.few):
            part = logits[start : start + self.few].exp_()
            torch.sum(part.sum(dim=2), 1, dtype=sums.dtype, out=sums[start : start + self.few])
        return sums

    def softmax(self, users: slice, logits: Tensor, hidden: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Make logits probabilities, in place. For a few users at a time: who, and log Z (users,).

        hidden: (batch, items), nonzero where an item is left out.
        """
        for start in range(0, len(logits), self.few):
            part = logits[start : start + self.few]
            rows = slice(users.start + start, users.start + start + len(part))
            wide = part if self.wide is None else self.wide[: len(part)].copy_(part)
            if hidden is not None:
                mask = torch.zeros_like(wide[:, 0]).masked_fill_(hidden[rows] != 0, -torch.inf)
                wide.add_(mask[:, None])  # several times faster than filling all concepts
            yield rows, _softmax_(wide.flatten(1))
            if self.wide is not None:
                part.copy_(wide)


class _Gradients:
    """Sums the gradients that follow from a gradient by the logits over blocks of users."""

    def __init__(self, blocks: _Blocks) -> None:
        self.components, self.items, self.dim = blocks.components, blocks.items[:, : blocks.dim], blocks.dim
        batch, concepts, width = self.components.shape
        self.by_components = self.components.new_empty(batch, concepts, self.dim)
        self.by_tables = self.components.new_zeros(width, len(self.items))
        """By the items (dim, items), and below it by the log assignment (concepts, items)."""
        narrow = self.items.dtype != self.by_tables.dtype
        self.part = torch.empty_like(self.by_tables, dtype=self.items.dtype) if narrow else None

    def add(self, users: slice, by_logits: Tensor, scale: Tensor) -> None:
        """What follows from by_logits (users, concepts, items) times scale (users,)."""
        factor, flat, by_components = scale[:, None, None], by_logits.flatten(0, 1), self.by_components[users]
        torch.mul((flat @ self.items).view_as(by_components), factor, out=by_components)
        left = (self.components[users] * factor).flatten(0, 1).t().to(flat.dtype)
        if self.part is None:
            self.by_tables.addmm_(left, flat)
        else:
            self.by_tables += torch.mm(left, flat, out=self.part)

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """By components, items and log assignment."""
        return self.by_components, self.by_tables[: self.dim].t().contiguous(), self.by_tables[self.dim :].t()


def _users_of_a_block(components: Tensor, items: Tensor, scratch: int | None, precision: str) -> int:
    """The number of users per block with all items; 0 if too few fit in scratch memory."""
    most, fewest = USERS
    fit = 2 if precision == "bf16" else 1  # in the memory of one number
    height = min(fit * most, fit * (scratch or SCRATCH) // max(1, components.shape[1] * len(items)))
    return 0 if height < min(fewest, len(components)) else height


class _LogPartition(torch.autograd.Function):
    """log Z_u in blocks; backward recomputes each block."""

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, hidden: Tensor | None, scratch: int
    ) -> Tensor:
        by_concept = log_assignment.t().contiguous()  # (concepts, items)
        top = components.new_full((len(components),), LOWEST)  # running maximum, so that no exponential can overflow
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
    flat = out[: components[..., 0].numel() * len(items)]
    return _products(components, items, flat).add_(by_concept)


def _products(components: Tensor, items: Tensor, out: Tensor) -> Tensor:
    """components[u, k] · items[i]: (users, concepts, items), in the memory of `out`."""
    users, concepts, dim = components.shape
    if items.dtype == torch.bfloat16:
        torch.mm(components.reshape(-1, dim), items.t(), out=out.view(-1, len(items)))
        return out.view(users, concepts, len(items))
    threads = torch.get_num_threads()
    parts = threads if users % threads == 0 else 1  # a single product in fp32 may use one thread only
    torch.bmm(components.reshape(parts, -1, dim), items.t().expand(parts, -1, -1), out=out.view(parts, -1, len(items)))
    return out.view(users, concepts, len(items))


def _softmax_(logits: Tensor) -> Tensor:
    """Softmax of each row in place, 0 for a row of −inf; returns the log of the sum of its exponentials, (rows,)."""
    top = logits.amax(dim=1)
    torch.ops.aten._softmax.out(logits, 1, False, out=logits)
    log_z = top - logits.amax(dim=1).log()
    empty = top == -torch.inf
    if empty.any():
        logits[empty], log_z[empty] = 0.0, -torch.inf
    return log_z
