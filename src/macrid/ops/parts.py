"""Cells of items divided into parts of close neighbours, by cutting them in two again and again."""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 24  # items of a part
CUTS = 8  # at most, from a cell to a part: what is still larger consists of copies, or has no structure
ROUNDS = 3  # of 2-means for a cut


def divide(items: Tensor, cell: Tensor) -> Tensor:
    """The part of its cell that each item is in, a number below 2^CUTS: (items,) int16.

    items: (items, dim). cell: (items,), not negative. A part with more than MOST items is cut in two, by 2-means from
    two items far apart.
    """
    part = torch.zeros_like(cell)
    active = torch.arange(len(items), device=items.device)
    for _ in range(CUTS):
        _, of, sizes = ((cell << CUTS) + part)[active].unique(return_inverse=True, return_counts=True)
        is_large = sizes > MOST
        active = active[is_large[of]]
        part <<= 1
        if len(active):
            place = is_large.cumsum(0) - 1  # among the large ones
            part[active] += _cut(items[active], place[of[is_large[of]]], int(is_large.sum())).to(part)
    return part.short()


def _cut(items: Tensor, of: Tensor, groups: int) -> Tensor:
    """Whether each item is in the second half of its group. of: (items,) below `groups`."""
    first = items[_farthest(items, of, _means(items, of, groups))]
    second = items[_farthest(items, of, first)]
    is_second = _is_nearer(items, of, first, second)
    for _ in range(ROUNDS - 1):
        first, second = _means(items, 2 * of + is_second, 2 * groups).view(groups, 2, -1).unbind(1)
        is_second = _is_nearer(items, of, first, second)
    return is_second


def _is_nearer(items: Tensor, of: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Whether each item is nearer to the second point of its group than to the first: (items,)."""
    limit = (second.square().sum(dim=1) - first.square().sum(dim=1)) / 2
    return (items * (second - first).index_select(0, of)).sum(dim=1) > limit[of]


def _means(items: Tensor, of: Tensor, groups: int) -> Tensor:
    """(groups, dim); 0 where a group is empty."""
    sums = items.new_zeros(groups, items.shape[1]).index_add_(0, of, items)
    return sums / torch.bincount(of, minlength=groups).clamp(min=1)[:, None]


def _farthest(items: Tensor, of: Tensor, points: Tensor) -> Tensor:
    """The item of each group that is farthest from the group's point: (groups,)."""
    distance = (items - points.index_select(0, of)).square_().sum(dim=1)
    largest = distance.new_zeros(len(points)).scatter_reduce_(0, of, distance, "amax")
    hits = (distance == largest[of]).nonzero()[:, 0]
    return hits.new_zeros(len(points)).scatter_reduce_(0, of[hits], hits, "amax")
