"""Rows of a CSR matrix on a GPU: where they are, and their sums."""

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


@triton.jit(do_not_specialize=["count"])
def _bounds(USERS, OFFSETS, STARTS, STOPS, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    user = tl.load(USERS + at, mask=at < count, other=0)
    tl.store(STARTS + at, tl.load(OFFSETS + user, mask=at < count, other=0), mask=at < count)
    tl.store(STOPS + at, tl.load(OFFSETS + user + 1, mask=at < count, other=0), mask=at < count)


def bounds_of(users: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Where the rows of these users start and stop: (users,) each."""
    starts, stops = offsets.new_empty(len(users)), offsets.new_empty(len(users))
    if len(users):
        _bounds[(triton.cdiv(len(users), BLOCK),)](users, offsets, starts, stops, len(users), BLOCK=BLOCK, num_warps=4)
    return starts, stops
