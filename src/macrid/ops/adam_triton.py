"""Adam in one kernel, for some rows of a table or a whole one."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8  # as in torch.optim.Adam


@triton.jit
def _update(P, MEAN, SQUARE, STEP, at, inside, gradient, learning_rate, l2, b1, b2, eps):
    """Update a table and its moments at these positions."""
    step = tl.load(STEP)
    p = tl.load(P + at, mask=inside, other=0.0)
    g = gradient + l2 * p
    mean = tl.load(MEAN + at, mask=inside, other=0.0)
    mean += (g - mean) * (1 - b1)
    square = tl.load(SQUARE + at, mask=inside, other=0.0) * b2 + g * g * (1 - b2)
    tl.store(MEAN + at, mean, mask=inside)
    tl.store(SQUARE + at, square, mask=inside)
    mean = mean / (1 - tl.exp2(step * tl.log2(b1)))
    square = square / (1 - tl.exp2(step * tl.log2(b2)))
    tl.store(P + at, p - learning_rate * mean / (tl.sqrt(square) + eps), mask=inside)


@triton.jit
def _adam_rows(
    P, MEAN, SQUARE, G, ROWS, COUNT, STEP, SCALE,
    learning_rate, l2, b1, b2, eps,
    WIDTH: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    count = tl.load(COUNT)
    row = tl.load(ROWS + r, mask=r < count, other=0).to(tl.int64)
    inside = (r < count)[:, None] & (d < WIDTH)[None, :]
    g = tl.load(G + r.to(tl.int64)[:, None] * WIDTH + d[None, :], mask=inside, other=0.0) / tl.load(SCALE)
    at = row[:, None] * WIDTH + d[None, :]
    _update(P, MEAN, SQUARE, STEP, at, inside, g, learning_rate, l2, b1, b2, eps)


@triton.jit
def _adam(P, MEAN, SQUARE, G, STEP, SCALE, N, learning_rate, l2, b1, b2, eps, BN: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    g = tl.load(G + at, mask=at < N, other=0.0) / tl.load(SCALE)
    _update(P, MEAN, SQUARE, STEP, at, at < N, g, learning_rate, l2, b1, b2, eps)


def adam_rows(
    table: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, rows: Tensor, count: Tensor, step: Tensor,
    scale: Tensor, learning_rate: float, l2: float,
) -> None:  # fmt: skip
    """Update table (items, dim) and its moments in the first `count` of `rows`; gradient (rows, dim)."""
    dim = table.shape[1]
    _adam_rows[(triton.cdiv(len(rows), 16),)](
        table, mean, square, gradient.contiguous(), rows, count, step, scale, learning_rate, l2, *BETAS, EPSILON,
        WIDTH=dim, D=triton.next_power_of_2(dim), BM=16, num_warps=4,
    )  # fmt: skip


def adam(
    table: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, step: Tensor, scale: Tensor, learning_rate: float,
    l2: float,
) -> None:  # fmt: skip
    """Update a whole table and its moments; the gradient is divided by scale."""
    _adam[(triton.cdiv(table.numel(), 1024),)](
        table, mean, square, gradient.contiguous(), step, scale, table.numel(), learning_rate, l2, *BETAS, EPSILON,
        BN=1024, num_warps=4,
    )  # fmt: skip
