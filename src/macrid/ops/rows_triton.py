"""Sums of sparse rows on a GPU: one program adds one row."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 128  # entries at a time


@triton.jit(do_not_specialize=["width"])
def _add_rows(ROWS, USERS, OFFSETS, COLUMNS, VALUES, OUT, width, BLOCK: tl.constexpr):
    """OUT[u, COLUMNS[s]] += VALUES[s] for the entries s of a row."""
    row, user = tl.load(ROWS + tl.program_id(0)), tl.load(USERS + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(OFFSETS + row), tl.load(OFFSETS + row + 1)
    for first in range(start, stop, BLOCK):
        at = first + tl.arange(0, BLOCK)
        column = tl.load(COLUMNS + at, mask=at < stop, other=0)
        value = tl.load(VALUES + at, mask=at < stop, other=0.0)
        tl.atomic_add(OUT + user * width + column, value, mask=at < stop, sem="relaxed")


def add_rows(rows: Tensor, users: Tensor, offsets: Tensor, columns: Tensor, values: Tensor, out: Tensor) -> None:
    """Add rows of a CSR matrix (offsets, columns, values) to those of out (users, width) at the same places of `users`.

    rows, users: (interactions,).
    """
    if len(rows):
        _add_rows[(len(rows),)](rows, users, offsets, columns, values, out, out.shape[1], BLOCK=BLOCK, num_warps=4)
