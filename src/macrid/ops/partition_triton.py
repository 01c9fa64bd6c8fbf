"""The log-partition on a GPU in three Triton kernels; nothing of size users × items leaves the chip.

All logits are in base 2 and come from one product: components are scaled by log2(e) / temperature before they are
rounded, log c by log2(e). With P = 2^(logit − log2 Z), the gradients of log Z_u are

    components:      (1 / temperature) sum_i P_uik h_i     computed in the forward kernel
    log assignment:  P_uik                                 summed over users, tile by tile, in the backward kernel
    items:           (1 / temperature) sum_uk P_uik z_uk   likewise

Forward splits the items over programs, so that small batches fill the card too; each split has a running maximum, and a
third kernel combines the splits. Nothing is added atomically, so results are exactly repeatable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = 1.4426950408889634
PROGRAMS = 2  # of the forward kernel per multiprocessor
PARTS = 6  # likewise of the backward kernel
DOT = {"bf16": "tf32", "tf32": "tf32", "fp32": "tf32x3"}  # precision of tile products


SIZES = ["A", "B", "K", "M", "N", "SPLITS", "per", "span"]  # not specialised, so that one compiled kernel serves all


class Scaled(NamedTuple):
    """What the kernels read: rows padded to a power of two with zeros."""

    components: Tensor  # (concepts, batch, width), times log2(e) / temperature; a 1 at dim + concept
    items: Tensor  # (items, width); a 1 at the end
    log_assignment: Tensor  # (concepts, items), times log2(e)


@triton.jit(do_not_specialize=SIZES)
def _forward(
    Z, H, LC, HIDDEN, S, TOP, OUT,
    B, M, K, SPLITS, per,
    D: tl.constexpr, WITH_O: tl.constexpr, HAS_HIDDEN: tl.constexpr, BOUNDED: tl.constexpr, FOLDED: tl.constexpr,
    PRECISION: tl.constexpr, BR: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """For a block of users, one concept and one split of the items: sum, maximum and weighted sum of item vectors."""
    row_blocks = tl.cdiv(B, BR)
    block = tl.program_id(0) % row_blocks
    k = (tl.program_id(0) // row_blocks).to(tl.int64)
    split = tl.program_id(1)
    r = block * BR + tl.arange(0, BR)
    d = tl.arange(0, D)
    z = tl.load(Z + (k * B + r)[:, None] * D + d[None, :], mask=(r < B)[:, None], other=0.0)
    top = tl.full([BR], 0.0 if BOUNDED else -1e30, tl.float32)
    s = tl.zeros([BR], tl.float32)
    o = tl.zeros([BR, D], tl.float32)
    m = tl.arange(0, BM)
    place = m[:, None] * D + d[None, :]
    for start in range(split * per, tl.minimum(M, split * per + per), BM):
        inside = m < M - start
        h = tl.load(H + tl.cast(start, tl.int64) * D + place, mask=inside[:, None], other=0.0)
        lc = tl.load(LC + (k * M + start) + m, mask=inside, other=-float("inf"))
        x = tl.dot(z, tl.trans(h), input_precision=PRECISION) + lc[None, :]
        if HAS_HIDDEN:
            at = r.to(tl.int64)[:, None] * M + (start + m)[None, :]
            hidden = tl.load(HIDDEN + at, mask=(r < B)[:, None] & inside[None, :], other=0)
            x = tl.where(hidden != 0, -float("inf"), x)
        if not BOUNDED:
            higher = tl.maximum(top, tl.max(x, 1))
            shrink = tl.exp2(top - higher)
            x = x - higher[:, None]
            s = s * shrink
            o = o * shrink[:, None]
            top = higher
        p = tl.exp2(x)
        if not (FOLDED and WITH_O):
            s += tl.sum(p, 1)
        if WITH_O:
            o = tl.dot(p.to(h.dtype), h, o, input_precision=PRECISION)
    if FOLDED and WITH_O:
        s = tl.sum(tl.where((d == D - 1)[None, :], o, 0.0), 1)
    out = (split * K + k) * B + r
    tl.store(S + out, s, mask=r < B)
    tl.store(TOP + out, top, mask=r < B)
    if WITH_O:
        tl.store(OUT + out[:, None] * D + d[None, :], o, mask=(r < B)[:, None])


@triton.jit(do_not_specialize=SIZES)
def _combine(
    S, TOP, OUT, WEIGHT, LOG_Z, LEVEL, GRAD, B, K, SPLITS, WIDTH: tl.constexpr, scale,
    D: tl.constexpr, WITH_O: tl.constexpr, WEIGHTED: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Combine splits and concepts of one user: log2 Z, and its (weighted) gradient by the components.

    WEIGHTED: also LEVEL, for `_backward_items`.
    """
    u = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    inside = part < SPLITS * K
    top = tl.load(TOP + part * B + u, mask=inside, other=-1e30)
    s = tl.load(S + part * B + u, mask=inside, other=0.0)
    highest = tl.max(top, 0)
    total = tl.sum(s * tl.exp2(top - highest), 0)
    log_z = highest + tl.log2(total)
    tl.store(LOG_Z + u, log_z)
    log_z = tl.where(total > 0, log_z, 1e30)  # no gradient where all items are hidden
    if WITH_O:
        d = tl.arange(0, D)
        if WEIGHTED:
            weight = tl.load(WEIGHT + u)
            tl.store(LEVEL + u, tl.log2(weight) - log_z)
            scale *= weight
        for k in range(K):
            acc = tl.zeros([D], tl.float32)
            for split in range(SPLITS):
                at = (split * K + k) * B + u
                acc += tl.load(OUT + at * D + d) * tl.exp2(tl.load(TOP + at) - log_z)
            acc *= scale
            tl.store(GRAD + (u * K + k) * WIDTH + d, acc, mask=d < WIDTH)


@triton.jit(do_not_specialize=SIZES)
def _backward_items(
    Z, H, LC, HIDDEN, LEVEL, SIGN, DH, DLC,
    B, M, K, WIDTH: tl.constexpr, scale,
    D: tl.constexpr, HAS_HIDDEN: tl.constexpr, SIGNED: tl.constexpr, FOLDED: tl.constexpr,
    PRECISION: tl.constexpr, K_SPLITS: tl.constexpr, BR: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """For a block of items and some of the concepts: gradients of sum_u g_u log Z_u by item vectors and by log c.

    LEVEL is log2 |g_u| − log2 Z_u, SIGN the sign of g_u.
    """
    first = tl.program_id(0).to(tl.int64) * BM
    part = tl.program_id(1)
    m, u, d = tl.arange(0, BM), tl.arange(0, BR), tl.arange(0, D)
    inside = m < M - first
    h = tl.load(H + first * D + (m[:, None] * D + d[None, :]), mask=inside[:, None], other=0.0)
    place = u[:, None] * D + d[None, :]
    acc = tl.zeros([BM, D], tl.float32)
    for k in range(part, K, K_SPLITS):
        lc = tl.load(LC + (tl.cast(k, tl.int64) * M + first) + m, mask=inside, other=-float("inf"))
        column = tl.zeros([BM], tl.float32)
        for start in range(0, B, BR):
            some = u < B - start
            z = tl.load(Z + (tl.cast(k, tl.int64) * B + start) * D + place, mask=some[:, None], other=0.0)
            level = tl.load(LEVEL + start + u, mask=some, other=-float("inf"))
            p = tl.exp2(tl.dot(h, tl.trans(z), input_precision=PRECISION) + (lc[:, None] + level[None, :]))
            if SIGNED:
                p *= tl.load(SIGN + start + u, mask=some, other=0.0)[None, :]
            if HAS_HIDDEN:
                at = (start + u).to(tl.int64)[None, :] * M + (first + m)[:, None]
                hidden = tl.load(HIDDEN + at, mask=some[None, :] & inside[:, None], other=1)
                p = tl.where(hidden != 0, 0.0, p)
            acc = tl.dot(p.to(z.dtype), z, acc, input_precision=PRECISION)
            if not FOLDED:
                column += tl.sum(p, 1)
        if not FOLDED:
            tl.store(DLC + (first + m) * K + k, column, mask=inside)
    if FOLDED:
        k = d - WIDTH
        in_part = (k >= 0) & (k < K) & (k % K_SPLITS == part)
        tl.store(DLC + first * K + (m[:, None] * K + k[None, :]), acc, mask=inside[:, None] & in_part[None, :])
    out = DH + (part.to(tl.int64) * M + first) * WIDTH
    tl.store(out + m[:, None] * WIDTH + d[None, :], acc * scale, mask=inside[:, None] & (d < WIDTH)[None, :])


@triton.jit(do_not_specialize=SIZES)
def _pack(X, OUT, A, B, WIDTH: tl.constexpr, scale, D: tl.constexpr, ONES: tl.constexpr, BM: tl.constexpr):
    """Rows (A, B, WIDTH) → (B, A, D), scaled, rounded and padded with zeros.

    ONES: "row" puts a 1 into the padding at WIDTH + b, "last" into the last column.
    """
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    inside = (r < tl.cast(A, tl.int64) * B)[:, None]
    x = tl.load(X + r[:, None] * WIDTH + d[None, :], mask=inside & (d < WIDTH)[None, :], other=0.0)
    x = x * scale
    if ONES == "row":
        x = tl.where(d[None, :] == WIDTH + (r % B)[:, None], 1.0, x)
    if ONES == "last":
        x = tl.where((d == D - 1)[None, :], 1.0, x)
    out = (r % B) * A + r // B
    tl.store(OUT + out[:, None] * D + d[None, :], x.to(OUT.dtype.element_ty), mask=inside)


def scaled(components: Tensor, items: Tensor, log_assignment: Tensor, temperature: float, precision: str) -> Scaled:
    """Pack components (batch, concepts, dim), items (items, dim), log c (items, concepts)."""
    batch, concepts, dim = components.shape
    count = len(items)
    width, kind = width_of(dim), kind_of(items, precision)
    z = components.new_empty(concepts, batch, width, dtype=kind)
    h = items.new_empty(count, width, dtype=kind)
    lc = items.new_empty(concepts, count, 1)
    folded = _folded(width, dim, concepts)
    for x, out, a, b, scale, ones in (
        (components, z, batch, concepts, LOG2_E / temperature, "row" if folded else ""),
        (items, h, count, 1, 1.0, "last" if folded else ""),
        (log_assignment, lc, count, concepts, LOG2_E, ""),
    ):  # fmt: skip
        rows = 16 if out is not lc else 256
        _pack[(triton.cdiv(a * b, rows),)](
            x.contiguous(), out, a, b, dim if out is not lc else 1, scale, D=out.shape[-1], ONES=ones, BM=rows,
            num_warps=4,
        )  # fmt: skip
    return Scaled(z, h, lc[..., 0])


def pack(table: Tensor, precision: str) -> Tensor:
    """Rows of a table (…, dim), rounded and padded to a power of two: (…, width)."""
    *lead, dim = table.shape
    count = table.numel() // dim
    out = table.new_empty(*lead, width_of(dim), dtype=kind_of(table, precision))
    _pack[(triton.cdiv(count, 16),)](
        table.contiguous(), out, count, 1, dim, 1.0, D=out.shape[-1], ONES="", BM=16, num_warps=4
    )
    return out


def width_of(dim: int) -> int:
    return max(16, triton.next_power_of_2(dim))


def kind_of(table: Tensor, precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bf16" and table.is_cuda else torch.float32  # the interpreter has no bf16


def _folded(width: int, dim: int, concepts: int) -> bool:
    """Whether the padding has room for ones, with which the products also sum the probabilities."""
    return width > dim + concepts


class Tile(NamedTuple):
    """Users and items per tile, warps, pipeline stages."""

    users: int
    items: int
    warps: int
    stages: int


# Fastest first, measured on an H200 with 100 dimensions; those too large for a card are skipped.
FORWARD = [
    Tile(128, 64, 4, 3),
    Tile(128, 64, 8, 2),
    Tile(64, 64, 4, 3),
    Tile(64, 32, 4, 2),
    Tile(32, 32, 4, 2),
    Tile(16, 16, 4, 1),
]
BACKWARD = [Tile(64, 64, 4, 3), Tile(64, 64, 4, 2), Tile(32, 32, 4, 2), Tile(16, 16, 4, 1)]
_fits: dict[tuple[Any, ...], int] = {}


def _launch(tiles: list[Tile], key: tuple[Any, ...], run: Callable[[Tile], Any]) -> Any:
    """Run with the fastest tile that fits this card, remembered under `key`."""
    for number in range(_fits.get(key, 0), len(tiles)):
        try:
            result = run(tiles[number])
        except triton.runtime.errors.OutOfResources:
            if number == len(tiles) - 1:
                raise
        else:
            _fits[key] = number
            return result
    raise AssertionError


def forward(
    inputs: Scaled, hidden: Tensor | None, dim: int, temperature: float, precision: str, *, bounded: bool,
    with_gradient: bool, weights: Tensor | None = None, level: Tensor | None = None,
    into: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """log2 Z (batch,), and the gradient of weights_u log Z_u by components (batch, concepts, dim).

    level: where to write log2 weights_u − log2 Z_u. into: where to write the gradient.
    """
    concepts, batch, width = inputs.components.shape
    items = len(inputs.items)
    new = inputs.log_assignment.new_empty
    what = "forward", inputs.items.device, width, precision, hidden is None

    def run(tile: Tile) -> tuple[Tensor, Tensor, Tensor]:
        blocks = triton.cdiv(batch, tile.users) * concepts
        tiles = triton.cdiv(items, tile.items)
        splits = max(1, min(tiles, PROGRAMS * processors(inputs.items) // blocks))
        per = triton.cdiv(tiles, splits) * tile.items
        splits = triton.cdiv(items, per)
        s, top = new(splits, concepts, batch), new(splits, concepts, batch)
        o = new(splits, concepts, batch, width) if with_gradient else s
        _forward[(blocks, splits)](
            *inputs, s if hidden is None else hidden, s, top, o, batch, items, concepts, splits, per,
            D=width, WITH_O=with_gradient, HAS_HIDDEN=hidden is not None, BOUNDED=bounded,
            FOLDED=_folded(width, dim, concepts), PRECISION=DOT[precision],
            BR=tile.users, BM=tile.items, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        return s, top, o

    s, top, o = _launch(FORWARD, (*what, with_gradient, bounded), run)
    splits = len(s)
    log_z = new(batch)
    gradient = into if into is not None else new(batch, concepts, dim) if with_gradient else s
    _combine[(batch,)](
        s, top, o, s if weights is None else weights, log_z, s if level is None else level, gradient, batch, concepts,
        splits, dim, 1 / temperature, D=width, WITH_O=with_gradient, WEIGHTED=level is not None,
        PARTS=triton.next_power_of_2(splits * concepts), num_warps=1,
    )  # fmt: skip
    return log_z, gradient


def backward_items(
    inputs: Scaled, hidden: Tensor | None, level: Tensor, sign: Tensor | None, dim: int, precision: str,
    by_items: Tensor | None = None, by_assignment: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of sum_u g_u log Z_u by items, in parts that must be summed (parts, items, dim), and by log assignment
    (items, concepts).

    level: log2 |g_u| − log2 Z_u. sign: of g_u; by default all positive. by_items, by_assignment: where to write them.
    """
    concepts, batch, width = inputs.components.shape
    items = len(inputs.items)
    by_assignment = level.new_empty(items, concepts) if by_assignment is None else by_assignment
    by_items = room_for_items(by_assignment, dim) if by_items is None else by_items
    parts = len(by_items)
    what = "backward", inputs.items.device, width, precision, hidden is None, sign is None

    def run(tile: Tile) -> None:
        _backward_items[(triton.cdiv(items, tile.items), parts)](
            *inputs, level if hidden is None else hidden, level, level if sign is None else sign, by_items,
            by_assignment, batch, items, concepts, dim, 1 / LOG2_E,
            D=width, HAS_HIDDEN=hidden is not None, SIGNED=sign is not None,
            FOLDED=_folded(width, dim, concepts), PRECISION=DOT[precision], K_SPLITS=parts,
            BR=tile.users, BM=tile.items, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    _launch(BACKWARD, what, run)
    return by_items, by_assignment


def room_for_items(log_assignment: Tensor, dim: int, also: int = 0) -> Tensor:
    """For gradients by items, in parts that are summed later: (parts + also, items, dim)."""
    items, concepts = log_assignment.shape
    parts = max(1, min(concepts, PARTS * processors(log_assignment) // triton.cdiv(items, BACKWARD[0].items)))
    return log_assignment.new_empty(parts + also, items, dim)


class LogPartition(torch.autograd.Function):
    """log Z (batch,), natural."""

    @staticmethod
    def forward(
        ctx: Any, components: Tensor, items: Tensor, log_assignment: Tensor, hidden: Tensor | None,
        temperature: float, precision: str, bounded: bool,
    ) -> Tensor:  # fmt: skip
        inputs = scaled(components, items, log_assignment, temperature, precision)
        dim = components.shape[-1]
        log_z, gradient = forward(
            inputs, hidden, dim, temperature, precision, bounded=bounded, with_gradient=any(ctx.needs_input_grad)
        )
        ctx.save_for_backward(*inputs, hidden, log_z, gradient)
        ctx.dim, ctx.precision = dim, precision
        return log_z / LOG2_E

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, hidden, log_z, gradient = ctx.saved_tensors
        level = torch.where(log_z > -torch.inf, weights.abs().log2() - log_z, -torch.inf)
        sign = weights.sign().contiguous()
        by_items, by_assignment = backward_items(Scaled(*inputs), hidden, level, sign, ctx.dim, ctx.precision)
        by_items = by_items[0] if len(by_items) == 1 else by_items.sum(dim=0)
        return gradient * weights[:, None, None], by_items, by_assignment, None, None, None, None


def processors(tensor: Tensor) -> int:
    """The number of multiprocessors."""
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 4
