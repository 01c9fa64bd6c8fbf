"""The likelihood of whole histories on a GPU, with all its gradients: positives and partition beside each other."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from macrid.ops import kernels
from macrid.ops.partition_triton import backward_items, forward, room_for_items, scaled
from macrid.ops.sparse import Histories
from macrid.ops.sparse_triton import positives_backward, positives_by_part, room_for_positives

ALIGNED = 4  # numbers; Triton compiles a kernel again for addresses that are no multiple of 16 bytes


class Likelihood(torch.autograd.Function):
    """The sum over users of sum_i x_ui log p_ui − n_u log Z_u: ().

    Its gradients need nothing from outside, so they are taken at once and scaled later. The positives wait for memory,
    the partition for arithmetic: they run beside each other.
    """

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, histories: Histories, temperature: float,
        precision: str, bounded: bool,
    ) -> Tensor:  # fmt: skip
        dim, wants = components.shape[-1], any(ctx.needs_input_grad)
        log_assignment, value = log_assignment.contiguous(), items.new_empty(())
        sums, totals = room_for_positives(histories, log_assignment)
        if wants:  # gradients of sum_u w_u n_u log Z_u − sum_u w_u sum_i x_ui log p_ui in parts, the last for positives
            by_components, by_assignment = _two(components), _two(log_assignment)
            by_items = room_for_items(log_assignment, dim, also=1)
            of_positives = by_components[1], by_items[-1], by_assignment[1]
            with kernels.beside(items):
                for gradient in of_positives:
                    gradient.zero_()
        inputs = scaled(components, items, log_assignment, temperature, precision)
        weights, counts = weights_of(histories)
        level, negative = torch.empty_like(counts), -weights
        with kernels.beside(items):
            positives_by_part(inputs, log_assignment, histories, dim, precision, sums, totals)
            if wants:
                positives_backward(
                    inputs, log_assignment, histories, totals, negative, None, of_positives, temperature, precision
                )
        log_z, _ = forward(
            inputs, None, dim, temperature, precision, bounded=bounded, with_gradient=wants, weights=counts,
            level=level if wants else None, into=by_components[0] if wants else None,
        )  # fmt: skip
        with kernels.beside(items):
            _value[(1,)](sums, weights, log_z, counts, value, len(sums), len(weights), BLOCK=1024, num_warps=8)
        if wants:
            backward_items(inputs, None, level, None, dim, precision, by_items[:-1], by_assignment[0])
            ctx.save_for_backward(by_components, by_items, by_assignment)
        kernels.join(items)
        return value

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        return *(_minus_sum(parts, weight) for parts in ctx.saved_tensors), None, None, None, None


def _two(like: Tensor) -> Tensor:
    """Uninitialised (2, …), both parts aligned: kernels are compiled once for all batch sizes."""
    size = like.numel()
    return like.new_empty(2, -(-size // ALIGNED) * ALIGNED)[:, :size].unflatten(1, like.shape)


def _minus_sum(parts: Tensor, weight: Tensor) -> Tensor:
    """The sum of parts (parts, …), times minus a weight: (…)."""
    total = parts.new_empty(parts.shape[1:])
    size = total.numel()
    _sum_parts[(triton.cdiv(size, 1024),)](
        parts, weight, total, len(parts), parts.stride(0), size, BLOCK=1024, num_warps=4
    )
    return total


@triton.jit(do_not_specialize=["parts", "stride", "N"])
def _sum_parts(PARTS, SCALE, OUT, parts, stride, N, BLOCK: tl.constexpr):
    """The sum of PARTS (parts, N), times −SCALE."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for part in range(parts):
        total += tl.load(PARTS + tl.cast(part, tl.int64) * stride + at, mask=at < N, other=0.0)
    tl.store(OUT + at, -total * tl.load(SCALE), mask=at < N)


@triton.jit(do_not_specialize=["parts", "B"])
def _value(SUMS, WEIGHTS, LOG_Z, COUNTS, OUT, parts, B, BLOCK: tl.constexpr):
    """sum_u w_u sum of SUMS (parts, B) − c_u log Z_u, natural."""
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, B, BLOCK):
        u = first + tl.arange(0, BLOCK)
        sums = tl.zeros([BLOCK], tl.float32)
        for part in range(parts):
            sums += tl.load(SUMS + part * B + u, mask=u < B, other=0.0)
        total += tl.load(WEIGHTS + u, mask=u < B, other=0.0) * sums
        total -= tl.load(COUNTS + u, mask=u < B, other=0.0) * tl.load(LOG_Z + u, mask=u < B, other=0.0)
    tl.store(OUT, tl.sum(total, 0) * 0.6931471805599453)


@triton.jit
def _mass(STARTS, STOPS, MASS, u, B, balance, HAS_MASS: tl.constexpr):
    """n_u, and items^−balance."""
    items = (tl.load(STOPS + u, mask=u < B, other=0) - tl.load(STARTS + u, mask=u < B, other=0)).to(tl.float32)
    mass = tl.load(MASS + u, mask=u < B, other=0.0) if HAS_MASS else items
    return mass, tl.exp2(-balance * tl.log2(tl.maximum(items, 1.0)))


@triton.jit(do_not_specialize=["B", "balance"])
def _weigh(STARTS, STOPS, MASS, WEIGHTS, COUNTS, B, balance, HAS_MASS: tl.constexpr, BLOCK: tl.constexpr):
    """w_u as in `Histories.weights`, and w_u n_u."""
    total, weighted = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, B, BLOCK):
        mass, weight = _mass(STARTS, STOPS, MASS, first + tl.arange(0, BLOCK), B, balance, HAS_MASS)
        total += mass
        weighted += mass * weight
    scale = tl.sum(total, 0) / tl.maximum(tl.sum(weighted, 0), 1e-12)
    for first in range(0, B, BLOCK):
        u = first + tl.arange(0, BLOCK)
        mass, weight = _mass(STARTS, STOPS, MASS, u, B, balance, HAS_MASS)
        weight = tl.where(balance == 0, 1.0, weight * scale)
        tl.store(WEIGHTS + u, weight, mask=u < B)
        tl.store(COUNTS + u, weight * mass, mask=u < B)


def weights_of(histories: Histories) -> tuple[Tensor, Tensor]:
    """`histories.weights`, and times `histories.mass`, in single precision: (batch,) each."""
    if histories.user_weights is not None:
        weights = histories.weights.float()
        return weights, weights * histories.mass
    starts, mass = histories.starts, histories.totals
    weights, counts = (torch.empty(len(starts), device=starts.device) for _ in range(2))
    _weigh[(1,)](
        starts, histories.stops, starts if mass is None else mass, weights, counts, len(starts),
        float(histories.balance), HAS_MASS=mass is not None, BLOCK=1024, num_warps=8,
    )  # fmt: skip
    return weights, counts
