"""Adam in one kernel: on some rows of a table, or on tables of models side by side."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8  # as in torch.optim.Adam


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
    at = row[:, None] * WIDTH + d[None, :]
    step = tl.load(STEP)
    p = tl.load(P + at, mask=inside, other=0.0)
    g = tl.load(G + r.to(tl.int64)[:, None] * WIDTH + d[None, :], mask=inside, other=0.0) / tl.load(SCALE) + l2 * p
    mean = tl.load(MEAN + at, mask=inside, other=0.0)
    mean += (g - mean) * (1 - b1)
    square = tl.load(SQUARE + at, mask=inside, other=0.0) * b2 + g * g * (1 - b2)
    tl.store(MEAN + at, mean, mask=inside)
    tl.store(SQUARE + at, square, mask=inside)
    mean = mean / (1 - tl.exp2(step * tl.log2(b1)))
    square = square / (1 - tl.exp2(step * tl.log2(b2)))
    tl.store(P + at, p - learning_rate * mean / (tl.sqrt(square) + eps), mask=inside)


def adam_rows(
    table: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, rows: Tensor, count: Tensor, step: Tensor,
    scale: Tensor, learning_rate: float, l2: float,
) -> None:  # fmt: skip
    """Change table (items, dim) and its moments in the first `count` of `rows`; gradient (rows, dim)."""
    dim = table.shape[1]
    _adam_rows[(triton.cdiv(len(rows), 16),)](
        table, mean, square, gradient.contiguous(), rows, count, step, scale, learning_rate, l2, *BETAS, EPSILON,
        WIDTH=dim, D=triton.next_power_of_2(dim), BM=16, num_warps=4,
    )  # fmt: skip


@triton.jit
def _adam_models(
    P, MEAN, SQUARE, G, STEP, SCALE, RATE, L2, N, b1, b2, eps, BN: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    at = g * N + n
    inside = n < N
    step = tl.load(STEP)
    p = tl.load(P + at, mask=inside, other=0.0)
    grad = tl.load(G + at, mask=inside, other=0.0) / tl.load(SCALE + g) + tl.load(L2 + g) * p
    mean = tl.load(MEAN + at, mask=inside, other=0.0)
    mean += (grad - mean) * (1 - b1)
    square = tl.load(SQUARE + at, mask=inside, other=0.0) * b2 + grad * grad * (1 - b2)
    tl.store(MEAN + at, mean, mask=inside)
    tl.store(SQUARE + at, square, mask=inside)
    mean = mean / (1 - tl.exp2(step * tl.log2(b1)))
    square = square / (1 - tl.exp2(step * tl.log2(b2)))
    tl.store(P + at, p - tl.load(RATE + g) * mean / (tl.sqrt(square) + eps), mask=inside)


def adam_models(
    table: Tensor,
    mean: Tensor,
    square: Tensor,
    gradient: Tensor,
    step: Tensor,
    scale: Tensor,
    rates: Tensor,
    l2: Tensor,
) -> None:
    """Change tables (models, …) and their moments; gradients are divided by scale, rates and l2 are of each model."""
    models, size = len(table), table[0].numel()
    _adam_models[(triton.cdiv(size, 1024), models)](
        table, mean, square, gradient.contiguous(), step, scale, rates, l2, size, *BETAS, EPSILON, BN=1024, num_warps=4
    )
