"""`macrid.ops.encoder` on a GPU, each step in one pass over memory forward and one backward.

Without `UNIT`, directions are the vectors themselves.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from macrid.ops.partition_triton import SIZES, width_of
from macrid.ops.vectors import EPSILON

ROWS = 16  # of components in one program
ITEMS = 32


@triton.jit(do_not_specialize=SIZES)
def _assign(
    H, P, GUMBEL, DIR, LC, M, K, WIDTH: tl.constexpr, inv_temperature,
    D: tl.constexpr, KP: tl.constexpr, UNIT: tl.constexpr, NOISE: tl.constexpr, EPS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Directions of a block of items, and the log-softmax of their similarity to the prototypes."""
    m = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d, k = tl.arange(0, D), tl.arange(0, KP)
    at = m[:, None] * WIDTH + d[None, :]
    inside = (m < M)[:, None] & (d < WIDTH)[None, :]
    h = tl.load(H + at, mask=inside, other=0.0)
    if UNIT:
        h = h / tl.maximum(tl.sqrt(tl.sum(h * h, 1)), EPS)[:, None]
    tl.store(DIR + at, h, mask=inside)
    p = tl.load(P + k[:, None] * WIDTH + d[None, :], mask=(k < K)[:, None] & (d < WIDTH)[None, :], other=0.0)
    if UNIT:
        p = p / tl.maximum(tl.sqrt(tl.sum(p * p, 1)), EPS)[:, None]
    s = tl.dot(h, tl.trans(p), input_precision="tf32x3") * inv_temperature
    pair = m[:, None] * K + k[None, :]
    some = (m < M)[:, None] & (k < K)[None, :]
    if NOISE:
        s += tl.load(GUMBEL + pair, mask=some, other=0.0)
    s = tl.where((k < K)[None, :], s, -float("inf"))
    s = s - tl.max(s, 1)[:, None]
    tl.store(LC + pair, s - tl.log(tl.sum(tl.exp(s), 1))[:, None], mask=some)


@triton.jit(do_not_specialize=SIZES)
def _assign_backward(
    H, P, DIR, LC, G_DIR, G_LC, DH, DP, M, K, WIDTH: tl.constexpr, inv_temperature,
    D: tl.constexpr, KP: tl.constexpr, UNIT: tl.constexpr, EPS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d, k = tl.arange(0, D), tl.arange(0, KP)
    at = m[:, None] * WIDTH + d[None, :]
    inside = (m < M)[:, None] & (d < WIDTH)[None, :]
    pair = m[:, None] * K + k[None, :]
    some = (m < M)[:, None] & (k < K)[None, :]
    by_lc = tl.load(G_LC + pair, mask=some, other=0.0)
    c = tl.exp(tl.load(LC + pair, mask=some, other=-float("inf")))
    by_s = (by_lc - c * tl.sum(by_lc, 1)[:, None]) * inv_temperature
    p = tl.load(P + k[:, None] * WIDTH + d[None, :], mask=(k < K)[:, None] & (d < WIDTH)[None, :], other=0.0)
    length = tl.sqrt(tl.sum(p * p, 1))
    if UNIT:
        p = p / tl.maximum(length, EPS)[:, None]
    unit = tl.load(DIR + at, mask=inside, other=0.0)
    grad = tl.load(G_DIR + at, mask=inside, other=0.0) + tl.dot(by_s, p, input_precision="tf32x3")
    if UNIT:
        h = tl.load(H + at, mask=inside, other=0.0)
        norm = tl.sqrt(tl.sum(h * h, 1))
        radial = tl.where(norm > EPS, tl.sum(grad * unit, 1), 0.0)
        grad = (grad - unit * radial[:, None]) / tl.maximum(norm, EPS)[:, None]
    tl.store(DH + at, grad, mask=inside)
    by_p = tl.dot(tl.trans(by_s), unit, input_precision="tf32x3")
    if UNIT:  # linear in by_p, so each block can do its part
        radial = tl.where(length > EPS, tl.sum(by_p * p, 1), 0.0)
        by_p = (by_p - p * radial[:, None]) / tl.maximum(length, EPS)[:, None]
    tl.atomic_add(
        DP + k[:, None] * WIDTH + d[None, :], by_p, mask=(k < K)[:, None] & (d < WIDTH)[None, :],
        sem="relaxed",
    )  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def _normalise(A, Q, OUT, N, WIDTH: tl.constexpr, D: tl.constexpr, EPS: tl.constexpr, BM: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    at = r[:, None] * WIDTH + d[None, :]
    inside = (r < N)[:, None] & (d < WIDTH)[None, :]
    q = tl.load(Q + r, mask=r < N, other=1.0)
    tl.store(OUT + at, tl.load(A + at, mask=inside, other=0.0) / tl.sqrt(q + EPS * EPS)[:, None], mask=inside)


@triton.jit(do_not_specialize=SIZES)
def _normalise_backward(
    OUT, Q, G, DA, DQ, N, WIDTH: tl.constexpr, D: tl.constexpr, EPS: tl.constexpr, BM: tl.constexpr
):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    at = r[:, None] * WIDTH + d[None, :]
    inside = (r < N)[:, None] & (d < WIDTH)[None, :]
    q = tl.load(Q + r, mask=r < N, other=1.0) + EPS * EPS
    grad = tl.load(G + at, mask=inside, other=0.0)
    out = tl.load(OUT + at, mask=inside, other=0.0)
    tl.store(DA + at, grad / tl.sqrt(q)[:, None], mask=inside)
    tl.store(DQ + r, -0.5 * tl.sum(grad * out, 1) / q, mask=r < N)


@triton.jit(do_not_specialize=SIZES)
def _sample(
    AB, NORMAL, DIR, KL, N, std, WIDTH: tl.constexpr,
    D: tl.constexpr, UNIT: tl.constexpr, NOISE: tl.constexpr, EPS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """mu = a / |a|, z = mu + noise · sigma_0 · exp(−b / 2), its direction, and the KL divergence of every row."""
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    inside = (r < N)[:, None] & (d < WIDTH)[None, :]
    a = tl.load(AB + r[:, None] * (2 * WIDTH) + d[None, :], mask=inside, other=0.0)
    b = tl.load(AB + r[:, None] * (2 * WIDTH) + WIDTH + d[None, :], mask=inside, other=0.0)
    z = a / tl.maximum(tl.sqrt(tl.sum(a * a, 1)), EPS)[:, None]
    kl = 0.5 * (b + tl.exp(-b) - 1.0) + z * z / (2.0 * std * std)
    tl.store(KL + r, tl.sum(tl.where(inside, kl, 0.0), 1), mask=r < N)
    at = r[:, None] * WIDTH + d[None, :]
    if NOISE:
        z += tl.load(NORMAL + at, mask=inside, other=0.0) * std * tl.exp(-0.5 * b)
    if UNIT:
        z = z / tl.maximum(tl.sqrt(tl.sum(z * z, 1)), EPS)[:, None]
    tl.store(DIR + at, z, mask=inside)


@triton.jit(do_not_specialize=SIZES)
def _sample_backward(
    AB, NORMAL, G_DIR, G_KL, DAB, N, std, WIDTH: tl.constexpr,
    D: tl.constexpr, UNIT: tl.constexpr, NOISE: tl.constexpr, EPS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    inside = (r < N)[:, None] & (d < WIDTH)[None, :]
    place = r[:, None] * (2 * WIDTH) + d[None, :]
    at = r[:, None] * WIDTH + d[None, :]
    a = tl.load(AB + place, mask=inside, other=0.0)
    b = tl.load(AB + place + WIDTH, mask=inside, other=0.0)
    length = tl.sqrt(tl.sum(a * a, 1))
    mean = a / tl.maximum(length, EPS)[:, None]
    grad = tl.load(G_DIR + at, mask=inside, other=0.0)
    by_kl = tl.load(G_KL + r, mask=r < N, other=0.0)
    by_b = 0.5 * (1.0 - tl.exp(-b)) * by_kl[:, None]
    z = mean
    if NOISE:
        spread = tl.load(NORMAL + at, mask=inside, other=0.0) * std * tl.exp(-0.5 * b)
        z += spread
    if UNIT:
        norm = tl.sqrt(tl.sum(z * z, 1))
        unit = z / tl.maximum(norm, EPS)[:, None]
        radial = tl.where(norm > EPS, tl.sum(grad * unit, 1), 0.0)
        grad = (grad - unit * radial[:, None]) / tl.maximum(norm, EPS)[:, None]
    if NOISE:
        by_b += -0.5 * spread * grad
    grad += mean * (by_kl / (std * std))[:, None]  # matters only for means of almost no length
    radial = tl.where(length > EPS, tl.sum(grad * mean, 1), 0.0)
    grad = (grad - mean * radial[:, None]) / tl.maximum(length, EPS)[:, None]
    tl.store(DAB + place, grad, mask=inside)
    tl.store(DAB + place + WIDTH, by_b, mask=inside)


class Assign(torch.autograd.Function):
    """Directions of the items (items, dim) and log c (items, concepts)."""

    @staticmethod
    def forward(
        ctx: Any, items: Tensor, prototypes: Tensor, gumbel: Tensor | None, temperature: float, unit: bool
    ) -> tuple[Tensor, Tensor]:
        (count, dim), concepts = items.shape, len(prototypes)
        directions, log_assignment = torch.empty_like(items), items.new_empty(count, concepts)
        ctx.options = {**_tile(dim, ITEMS), "KP": max(16, triton.next_power_of_2(concepts)), "UNIT": unit}
        ctx.temperature = temperature
        _assign[(triton.cdiv(count, ctx.options["BM"]),)](
            items, prototypes, items if gumbel is None else gumbel, directions, log_assignment, count, concepts, dim,
            1 / temperature, NOISE=gumbel is not None, **ctx.options,
        )  # fmt: skip
        ctx.save_for_backward(items, prototypes, directions, log_assignment)
        return directions, log_assignment

    @staticmethod
    def backward(ctx: Any, by_directions: Tensor, by_assignment: Tensor) -> tuple[Tensor | None, ...]:
        items, prototypes, directions, log_assignment = ctx.saved_tensors
        count, dim = items.shape
        by_items, by_prototypes = torch.empty_like(items), torch.zeros_like(prototypes)
        _assign_backward[(triton.cdiv(count, ctx.options["BM"]),)](
            items, prototypes, directions, log_assignment, by_directions.contiguous(), by_assignment.contiguous(),
            by_items, by_prototypes, count, len(prototypes), dim, 1 / ctx.temperature, **ctx.options,
        )  # fmt: skip
        return by_items, by_prototypes, None, None, None


def fits(concepts: int, dim: int) -> bool:
    """Whether all prototypes fit on the chip, as `Assign` needs."""
    return max(16, triton.next_power_of_2(concepts)) * width_of(dim) <= 1 << 14


class Normalise(torch.autograd.Function):
    """sums (…, dim) / sqrt(squares (…) + epsilon²)."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, squares: Tensor) -> Tensor:
        out, dim = torch.empty_like(sums), sums.shape[-1]
        ctx.options = _tile(dim)
        _normalise[(triton.cdiv(squares.numel(), ctx.options["BM"]),)](
            sums, squares, out, squares.numel(), dim, **ctx.options
        )
        ctx.save_for_backward(out, squares)
        return out

    @staticmethod
    def backward(ctx: Any, by_out: Tensor) -> tuple[Tensor, Tensor]:
        out, squares = ctx.saved_tensors
        by_sums, by_squares = torch.empty_like(out), torch.empty_like(squares)
        _normalise_backward[(triton.cdiv(squares.numel(), ctx.options["BM"]),)](
            out, squares, by_out.contiguous(), by_sums, by_squares, squares.numel(), out.shape[-1], **ctx.options
        )
        return by_sums, by_squares


class Sample(torch.autograd.Function):
    """Directions of the components (batch, concepts, dim), and the KL of each (batch, concepts)."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, normal: Tensor | None, prior_std: float, unit: bool) -> tuple[Tensor, Tensor]:
        batch, concepts, twice = hidden.shape
        directions, kl = hidden.new_empty(batch, concepts, twice // 2), hidden.new_empty(batch, concepts)
        ctx.rest = kl.numel(), prior_std, twice // 2
        ctx.options = {**_tile(twice // 2), "UNIT": unit, "NOISE": normal is not None}
        noise = hidden if normal is None else normal
        _sample[(triton.cdiv(kl.numel(), ctx.options["BM"]),)](
            hidden, noise, directions, kl, *ctx.rest, **ctx.options
        )  # fmt: skip
        ctx.save_for_backward(hidden, noise)
        return directions, kl

    @staticmethod
    def backward(ctx: Any, by_directions: Tensor, by_kl: Tensor) -> tuple[Tensor | None, ...]:
        hidden, noise = ctx.saved_tensors
        by_hidden = torch.empty_like(hidden)
        _sample_backward[(triton.cdiv(ctx.rest[0], ctx.options["BM"]),)](
            hidden, noise, by_directions.contiguous(), by_kl.contiguous(), by_hidden, *ctx.rest, **ctx.options
        )
        return by_hidden, None, None, None


def _tile(dim: int, rows: int = ROWS) -> dict[str, Any]:
    return {"D": width_of(dim), "EPS": EPSILON, "BM": rows, "num_warps": 4}
