"""Sums over the interactions of a batch on a GPU: the encoder's, and the likelihood of the positives.

A program takes some items of one user, in chunks that stay on the chip. Histories are read in place, in the CSR of all
users.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from macrid.ops.partition_triton import DOT, LOG2_E, SIZES, Scaled, pack, scaled, width_of
from macrid.ops.sparse import Dropout, Histories


class Chunks(NamedTuple):
    """Items of a history taken at a time, chunks per program, and warps."""

    items: int
    chunks: int
    warps: int


# Fastest on an H200 with 100 dimensions and 73 items per user, at batches of 1,024 and 4,096.
SUM = Chunks(32, 8, 4)
SUM_BACKWARD = Chunks(16, 4, 2)
POSITIVES = Chunks(64, 4, 4)
POSITIVES_BACKWARD = Chunks(16, 4, 4)
MOST_PROGRAMS = 16  # per user; beyond that, each takes more chunks


@triton.jit
def _keep(SEED, rate, at):
    """0 or 1 / (1 − rate), from a hash of seed and position."""
    x = at.to(tl.uint32) * 0x9E3779B1 + tl.load(SEED).to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    x = x ^ (x >> 16)
    return tl.where((x >> 8).to(tl.float32) * (1.0 / (1 << 24)) >= rate, 1.0 / (1.0 - rate), 0.0)


@triton.jit(do_not_specialize=SIZES)
def _sum(
    T, LC, STARTS, STOPS, ITEMS, X, SEED, rate, A, Q,
    B, K, span, WIDTH: tl.constexpr,
    D: tl.constexpr, KB: tl.constexpr, CH: tl.constexpr, DROP: tl.constexpr, WEIGHTED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A_uk = sum_i keep_i x_ui c_ik t_i and Q_uk = sum_i (x_ui c_ik)² of one user, for a block of concepts."""
    u, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k = tl.program_id(2) * KB + tl.arange(0, KB)
    d = tl.arange(0, D)
    start, stop = tl.load(STARTS + u), tl.load(STOPS + u)
    a = tl.zeros([KB, D], tl.float32)
    squares = tl.zeros([CH, KB], tl.float32)
    for first in range(start + part * span, tl.minimum(stop, start + part * span + span), CH):
        at = first + tl.arange(0, CH)
        i = tl.load(ITEMS + at, mask=at < stop, other=0).to(tl.int64)
        kept = at < stop
        keep = tl.full([CH], 1.0, tl.float32)
        if DROP:
            keep = _keep(SEED, rate, at)
            kept = kept & (keep > 0)
        t = tl.load(T + i[:, None] * D + d[None, :], mask=kept[:, None], other=0.0)
        lc = tl.load(LC + i[:, None] * K + k[None, :], mask=(at < stop)[:, None] & (k < K)[None, :],
                     other=-float("inf"))  # fmt: skip
        c = tl.exp(lc)
        if WEIGHTED:
            c *= tl.load(X + at, mask=at < stop, other=0.0)[:, None]
        squares += c * c
        a = tl.dot(tl.trans((c * keep[:, None]).to(t.dtype)), t, a, input_precision=PRECISION)
    q = tl.sum(squares, 0)
    out = u * K + k
    where = (k < K)[:, None] & (d < WIDTH)[None, :]
    if part == 0 and stop - start <= span:  # the user's only program
        tl.store(A + out[:, None] * WIDTH + d[None, :], a, mask=where)
        tl.store(Q + out, q, mask=k < K)
    else:
        if start + part * span < stop:
            tl.atomic_add(A + out[:, None] * WIDTH + d[None, :], a, mask=where, sem="relaxed")
            tl.atomic_add(Q + out, q, mask=k < K, sem="relaxed")


@triton.jit(do_not_specialize=SIZES)
def _sum_backward(
    T, LC, STARTS, STOPS, ITEMS, X, SEED, rate, GA, GQ, DT, DLC,
    B, K, span, WIDTH: tl.constexpr,
    D: tl.constexpr, KB: tl.constexpr, CH: tl.constexpr, DROP: tl.constexpr, WEIGHTED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    u, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k = tl.program_id(2) * KB + tl.arange(0, KB)
    d = tl.arange(0, D)
    start, stop = tl.load(STARTS + u), tl.load(STOPS + u)
    if start + part * span < stop:
        row = u * K + k
        ga = tl.load(GA + row[:, None] * WIDTH + d[None, :], mask=(k < K)[:, None] & (d < WIDTH)[None, :], other=0.0)
        ga = ga.to(T.dtype.element_ty)
        gq = tl.load(GQ + row, mask=k < K, other=0.0)
        for first in range(start + part * span, tl.minimum(stop, start + part * span + span), CH):
            at = first + tl.arange(0, CH)
            i = tl.load(ITEMS + at, mask=at < stop, other=0).to(tl.int64)
            kept = at < stop
            keep = tl.full([CH], 1.0, tl.float32)
            if DROP:
                keep = _keep(SEED, rate, at)
                kept = kept & (keep > 0)
            where = kept[:, None] & (d < WIDTH)[None, :]
            place = i[:, None] * WIDTH + d[None, :]
            t = tl.load(T + i[:, None] * D + d[None, :], mask=kept[:, None], other=0.0)
            some = (at < stop)[:, None] & (k < K)[None, :]
            pair = i[:, None] * K + k[None, :]
            c = tl.exp(tl.load(LC + pair, mask=some, other=-float("inf")))
            if WEIGHTED:
                c *= tl.load(X + at, mask=at < stop, other=0.0)[:, None]
            w = (c * keep[:, None]).to(t.dtype)
            by_c = tl.dot(t, tl.trans(ga), input_precision=PRECISION) * keep[:, None]
            tl.atomic_add(DLC + pair, c * (by_c + 2 * c * gq[None, :]), mask=some, sem="relaxed")
            by_t = tl.dot(w, ga, input_precision=PRECISION)
            tl.atomic_add(DT + place, by_t, mask=where, sem="relaxed")


@triton.jit
def _log_p(Z, LC, h, i, inside, u, B, K, D: tl.constexpr, KB: tl.constexpr, CH: tl.constexpr,
           PRECISION: tl.constexpr):  # fmt: skip
    """log2 p_ui of a chunk of items, over all concepts: (CH,)."""
    d = tl.arange(0, D)
    top = tl.full([CH], -1e30, tl.float32)
    s = tl.zeros([CH], tl.float32)
    for first in range(0, K, KB):
        k = first + tl.arange(0, KB)
        z = tl.load(Z + (k * B + u)[:, None] * D + d[None, :], mask=(k < K)[:, None], other=0.0)
        lc = tl.load(LC + i[:, None] * K + k[None, :], mask=inside[:, None] & (k < K)[None, :],
                     other=-float("inf"))  # fmt: skip
        x = tl.dot(h, tl.trans(z), input_precision=PRECISION) + lc * 1.4426950408889634
        higher = tl.maximum(top, tl.max(x, 1))
        s = s * tl.exp2(top - higher) + tl.sum(tl.exp2(x - higher[:, None]), 1)
        top = higher
    return top + tl.log2(s)


@triton.jit(do_not_specialize=SIZES)
def _positives(
    Z, H, LC, STARTS, STOPS, ITEMS, X, SUM, TOTAL,
    B, K, span,
    D: tl.constexpr, KB: tl.constexpr, CH: tl.constexpr, WEIGHTED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Over the items of one user: the sum of x_ui log2 p_ui, and the log2-sum-exp of log2 p_ui (by part)."""
    u, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, D)
    start, stop = tl.load(STARTS + u), tl.load(STOPS + u)
    total = tl.zeros([CH], tl.float32)
    top = tl.full([CH], -1e30, tl.float32)
    s = tl.zeros([CH], tl.float32)
    for first in range(start + part * span, tl.minimum(stop, start + part * span + span), CH):
        at = first + tl.arange(0, CH)
        inside = at < stop
        i = tl.load(ITEMS + at, mask=inside, other=0).to(tl.int64)
        h = tl.load(H + i[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        log_p = _log_p(Z, LC, h, i, inside, u, B, K, D, KB, CH, PRECISION)
        counted = tl.where(inside, log_p, 0.0)
        if WEIGHTED:
            counted *= tl.load(X + at, mask=inside, other=0.0)
        total += counted
        log_p = tl.where(inside, log_p, -float("inf"))
        higher = tl.maximum(top, log_p)
        s = s * tl.exp2(top - higher) + tl.exp2(log_p - higher)
        top = higher
    out = part * B + u
    tl.store(SUM + out, tl.sum(total, 0))
    highest = tl.max(top, 0)
    tl.store(TOTAL + out, highest + tl.log2(tl.sum(s * tl.exp2(top - highest), 0)))


@triton.jit(do_not_specialize=SIZES)
def _positives_backward(
    Z, H, LC, STARTS, STOPS, ITEMS, X, TOTAL, G_SUM, G_TOTAL, DZ, DH, DLC,
    B, K, span, WIDTH: tl.constexpr, by_z, by_h,
    D: tl.constexpr, KB: tl.constexpr, CH: tl.constexpr, HAS_TOTAL: tl.constexpr,
    ONE_BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of sum_u (g_u · sum_i x_ui log p_ui + f_u · log sum_i p_ui), for a block of concepts."""
    u, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k = tl.program_id(2) * KB + tl.arange(0, KB)
    d = tl.arange(0, D)
    start, stop = tl.load(STARTS + u), tl.load(STOPS + u)
    if start + part * span < stop:
        z = tl.load(Z + (k * B + u)[:, None] * D + d[None, :], mask=(k < K)[:, None], other=0.0)
        g_sum = tl.load(G_SUM + u)
        dz = tl.zeros([KB, D], tl.float32)
        for first in range(start + part * span, tl.minimum(stop, start + part * span + span), CH):
            at = first + tl.arange(0, CH)
            inside = at < stop
            i = tl.load(ITEMS + at, mask=inside, other=0).to(tl.int64)
            h = tl.load(H + i[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
            some = inside[:, None] & (k < K)[None, :]
            pair = i[:, None] * K + k[None, :]
            lc = tl.load(LC + pair, mask=some, other=-float("inf"))
            x = tl.dot(h, tl.trans(z), input_precision=PRECISION) + lc * 1.4426950408889634
            if ONE_BLOCK:
                top = tl.maximum(tl.max(x, 1), -1e30)
                log_p = top + tl.log2(tl.sum(tl.exp2(x - top[:, None]), 1))
            else:
                log_p = _log_p(Z, LC, h, i, inside, u, B, K, D, KB, CH, PRECISION)
            weight = tl.full([CH], 0.0, tl.float32) + g_sum
            if WEIGHTED:
                weight *= tl.load(X + at, mask=inside, other=0.0)
            if HAS_TOTAL:
                weight += tl.load(G_TOTAL + u) * tl.exp2(log_p - tl.load(TOTAL + u))
            w = tl.where(some, tl.exp2(x - log_p[:, None]) * weight[:, None], 0.0)
            tl.atomic_add(DLC + pair, w, mask=some, sem="relaxed")
            w = w.to(h.dtype)
            dz = tl.dot(tl.trans(w), h, dz, input_precision=PRECISION)
            tl.atomic_add(
                DH + i[:, None] * WIDTH + d[None, :], tl.dot(w, z, input_precision=PRECISION) * by_h,
                mask=inside[:, None] & (d < WIDTH)[None, :], sem="relaxed",
            )  # fmt: skip
        out = (u * K + k)[:, None] * WIDTH + d[None, :]
        where = (k < K)[:, None] & (d < WIDTH)[None, :]
        if stop - start <= span:  # the user's only program
            tl.store(DZ + out, tl.load(DZ + out, mask=where, other=0.0) + dz * by_z, mask=where)
        else:
            tl.atomic_add(DZ + out, dz * by_z, mask=where, sem="relaxed")


def _programs(histories: Histories, tile: Chunks) -> tuple[int, int]:
    """Programs per user, and items per program."""
    chunks = triton.cdiv(max(1, histories.longest), tile.items)
    each = max(tile.chunks, triton.cdiv(chunks, MOST_PROGRAMS))
    return triton.cdiv(chunks, each), each * tile.items


def _csr(histories: Histories) -> tuple[Tensor, ...]:
    """What kernels read: where each history starts and stops, its items, and their values if they have any."""
    values = histories.items if histories.values is None else histories.values
    return histories.starts, histories.stops, histories.items, values


def _options(concepts: int, dim: int, precision: str, tile: Chunks) -> dict[str, Any]:
    width = width_of(dim)
    return {
        "D": width, "KB": 16 if concepts <= 16 else 32, "CH": tile.items if width <= 256 else 16,
        "PRECISION": DOT[precision], "num_warps": tile.warps, "num_stages": 1,
    }  # fmt: skip


class SumByConcept(torch.autograd.Function):
    """A (batch, concepts, dim) and Q (batch, concepts) of `macrid.ops.sparse`."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, log_assignment: Tensor, histories: Histories, keep: Dropout | None, precision: str
    ) -> tuple[Tensor, Tensor]:
        dim, concepts = table.shape[1], log_assignment.shape[1]
        options = _options(concepts, dim, precision, SUM)
        programs, span = _programs(histories, SUM)
        new = table.new_empty if programs == 1 else table.new_zeros
        a, q = new(histories.batch, concepts, dim), new(histories.batch, concepts)
        seed, rate = (q, 0.0) if keep is None else keep
        packed, log_assignment = pack(table, precision), log_assignment.contiguous()
        read = packed, log_assignment, *_csr(histories), seed
        blocks = triton.cdiv(concepts, options["KB"])
        what = {"DROP": keep is not None, "WEIGHTED": histories.values is not None}
        _sum[(histories.batch, programs, blocks)](
            *read, rate, a, q, histories.batch, concepts, span, dim, **options, **what
        )
        programs, span = _programs(histories, SUM_BACKWARD)
        grid, options = (histories.batch, programs, blocks), _options(concepts, dim, precision, SUM_BACKWARD)
        ctx.rest = rate, (histories.batch, concepts, span, dim), grid, options | what
        ctx.save_for_backward(*read)
        return a, q

    @staticmethod
    def backward(ctx: Any, by_a: Tensor, by_q: Tensor) -> tuple[Tensor | None, ...]:
        rate, sizes, grid, options = ctx.rest
        log_assignment = ctx.saved_tensors[1]
        by_table = by_a.new_zeros(len(log_assignment), sizes[-1])
        by_assignment = torch.zeros_like(log_assignment)
        _sum_backward[grid](
            *ctx.saved_tensors, rate, by_a.contiguous(), by_q.contiguous(), by_table, by_assignment, *sizes, **options
        )
        return by_table, by_assignment, None, None, None


def positives(
    inputs: Scaled, log_assignment: Tensor, histories: Histories, dim: int, precision: str
) -> tuple[Tensor, Tensor]:
    """sum_i x_ui log2 p_ui and log2 sum_i p_ui over each user's items, (batch,) each."""
    sums, totals = room_for_positives(histories, log_assignment)
    positives_by_part(inputs, log_assignment, histories, dim, precision, sums, totals)
    if len(sums) == 1:
        return sums[0], totals[0]
    return sums.sum(dim=0), torch.logsumexp(totals / LOG2_E, dim=0) * LOG2_E


def room_for_positives(histories: Histories, like: Tensor) -> tuple[Tensor, Tensor]:
    """What `positives_by_part` writes: (parts, batch) each."""
    programs, _ = _programs(histories, POSITIVES)
    return like.new_empty(programs, histories.batch), like.new_empty(programs, histories.batch)


def positives_by_part(
    inputs: Scaled, log_assignment: Tensor, histories: Histories, dim: int, precision: str, sums: Tensor, totals: Tensor
) -> None:
    """The sums of `positives`, for parts of each user's items."""
    concepts, batch, _ = inputs.components.shape
    programs, span = _programs(histories, POSITIVES)
    _positives[(batch, programs)](
        inputs.components, inputs.items, log_assignment, *_csr(histories), sums, totals, batch, concepts, span,
        WEIGHTED=histories.values is not None, **_options(concepts, dim, precision, POSITIVES),
    )  # fmt: skip


def positives_backward(
    inputs: Scaled, log_assignment: Tensor, histories: Histories, totals: Tensor, by_sums: Tensor,
    by_totals: Tensor | None, gradients: tuple[Tensor, Tensor, Tensor], temperature: float, precision: str,
) -> None:  # fmt: skip
    """Add the gradients by components, items and log assignment to `gradients`, which must be contiguous."""
    concepts, batch, _ = inputs.components.shape
    dim = gradients[0].shape[-1]
    options = _options(concepts, dim, precision, POSITIVES_BACKWARD)
    programs, span = _programs(histories, POSITIVES_BACKWARD)
    blocks = triton.cdiv(concepts, options["KB"])
    _positives_backward[(batch, programs, blocks)](
        inputs.components, inputs.items, log_assignment, *_csr(histories), totals, by_sums,
        totals if by_totals is None else by_totals, *gradients, batch, concepts, span, dim, 1 / temperature, 1 / LOG2_E,
        HAS_TOTAL=by_totals is not None, ONE_BLOCK=blocks == 1, WEIGHTED=histories.values is not None, **options,
    )  # fmt: skip


class Positives(torch.autograd.Function):
    """sum_i x_ui log p_ui and log sum_i p_ui over each user's items, (batch,) each."""

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, histories: Histories, temperature: float,
        precision: str,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        inputs = scaled(components, items, log_assignment, temperature, precision)
        log_assignment = log_assignment.contiguous()
        sums, totals = positives(inputs, log_assignment, histories, components.shape[-1], precision)
        ctx.save_for_backward(*inputs, log_assignment, totals)
        ctx.rest = histories, temperature, precision, components.shape, items.shape
        return sums / LOG2_E, totals / LOG2_E

    @staticmethod
    def backward(ctx: Any, by_sums: Tensor, by_totals: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, log_assignment, totals = ctx.saved_tensors
        histories, temperature, precision, components_shape, items_shape = ctx.rest
        gradients = (
            totals.new_zeros(components_shape), totals.new_zeros(items_shape), torch.zeros_like(log_assignment)
        )  # fmt: skip
        positives_backward(
            Scaled(*inputs), log_assignment, histories, totals, by_sums.contiguous(), by_totals.contiguous(), gradients,
            temperature, precision,
        )  # fmt: skip
        return *gradients, None, None, None
