"""The scores of a mixture of concepts on a GPU, in one pass: the logits of each concept never leave the chip."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from macrid.ops.partition_triton import DOT, pack


@triton.jit(do_not_specialize=["users", "items", "concepts", "out_user"])
def _mixture_scores(
    Z, H, LC, LW, OUT, users, items, concepts, out_user,
    D: tl.constexpr, PRECISION: tl.constexpr, BU: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """log sum_k exp(z_uk · h_i + log c_ik + log w_uk) of a block of users and items, with a running maximum over k."""
    blocks = tl.cdiv(users, BU)
    u = (tl.program_id(0) % blocks).to(tl.int64) * BU + tl.arange(0, BU)
    i = (tl.program_id(0) // blocks).to(tl.int64) * BI + tl.arange(0, BI)
    d = tl.arange(0, D)
    h = tl.load(H + i[:, None] * D + d[None, :], mask=(i < items)[:, None], other=0.0)
    top = tl.full([BU, BI], -1e30, tl.float32)
    total = tl.zeros([BU, BI], tl.float32)
    for k in range(concepts):
        log_c = tl.load(LC + i * concepts + k, mask=i < items, other=-float("inf")) * 1.4426950408889634
        z = tl.load(Z + (k * users + u)[:, None] * D + d[None, :], mask=(u < users)[:, None], other=0.0)
        log_w = tl.load(LW + k * users + u, mask=u < users, other=0.0) * 1.4426950408889634
        x = tl.dot(z, tl.trans(h), input_precision=PRECISION) * 1.4426950408889634 + log_c[None, :] + log_w[:, None]
        higher = tl.maximum(top, x)
        total = total * tl.exp2(top - higher) + tl.exp2(x - higher)
        top = higher
    score = tl.where(total > 0, (top + tl.log2(tl.maximum(total, 1e-38))) * 0.6931471805599453, -float("inf"))
    tl.store(OUT + u[:, None] * out_user + i[None, :], score, mask=(u < users)[:, None] & (i < items)[None, :])


def mixture_scores(z: Tensor, items: Tensor, log_assignment: Tensor, log_weights: Tensor, out: Tensor) -> None:
    """Write log sum_k exp(z_uk · h_i + log c_ik + log w_uk) to out (users, items).

    z (concepts, users, dim), items (items, dim), log_assignment (items, concepts), log_weights (concepts, users), all
    in single precision.
    """
    concepts, users, _ = z.shape
    packed = pack(z, "fp32")
    side = 64 if packed.shape[-1] <= 256 else 16
    _mixture_scores[(triton.cdiv(users, side) * triton.cdiv(len(items), side),)](
        packed, pack(items, "fp32"), log_assignment.contiguous(), log_weights.contiguous(), out,
        users, len(items), concepts, out.stride(0),
        D=packed.shape[-1], PRECISION=DOT["fp32"], BU=side, BI=side, num_warps=4, num_stages=2,
    )  # fmt: skip
