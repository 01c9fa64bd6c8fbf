"""Items grouped into cells of similar direction, and these into parts of close neighbours, with bounds on their scores.

The score of an item without its linear part is log sum_k exp(z_k · h_i / tau + log c_ik + log w_k). Bounds on it are
inner products in half precision of [z_k / tau, e_k, log w_k, |z_k| / tau] and

item    [h_i, log c_i, 1, 0]
part    [m, the largest log c_i, 1, the largest |h_i − m|], where m is the mean of its items: z · h_i is at most
        z · m + |z| |h_i − m|.

log c and distances are rounded up. Products are off by at most |z − z'| |h| + |z'| |h − h'|, where z' and h' are what
half precision makes of z and h.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from macrid.ops.parts import divide
from macrid.ops.topk import Decoder
from macrid.ops.vectors import unit

PER_CELL = 256  # items, about
SAMPLED = 16  # items per cell that cells are computed from
ROUNDS = 4  # of k-means
TILE = 1 << 22  # similarities computed at once
ARRANGED = 1 << 16  # items arranged at once
DIVIDED = 1 << 14  # items divided into parts at once: they stay in a CPU's cache
LOWEST = -80.0  # log c; lower ones are raised to it
LEAST_LOG_WEIGHT = -1e3  # log w; lower ones are raised to it
ALIGNED = 16  # columns of the table are padded to a multiple
ROUNDING = 1e-4  # of bounds in single precision: far more than it can be
REACH = 0.35  # of a cell's radius that its best item is likely to have in a user's direction
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which items share a cell and a part of it: all that must be kept, as the rest follows from the decoder."""

    directions: Tensor
    """(cells, dim) of length 1"""
    cell: Tensor
    """(items,) int32"""
    part: Tensor
    """(items,) int16, within the cell"""

    def to(self, device: torch.device) -> Grouping:
        return Grouping(self.directions.to(device), self.cell.to(device), self.part.to(device))

    def extended(self, items: Tensor) -> Grouping:
        """Over more items (items, dim), of which the first are grouped already; more ones are a part of their own."""
        more = items[len(self.cell) :]
        if not len(more):
            return self
        cell = torch.cat([self.cell, nearest(more, self.directions)])
        own = self.part.new_full((len(more),), int(self.part.max()) + 1)
        return Grouping(self.directions, cell, torch.cat([self.part, own]))


@dataclass(frozen=True, eq=False)
class Cells:
    """A decoder's items by cell and part. With a hard assignment, the items of a cell have one concept."""

    order: Tensor
    """(items,) positions of items, cell by cell and part by part"""
    starts: Tensor
    """(cells + 1,) int64, on the CPU: where cells begin in `order`"""
    table: Tensor
    """(items, width) in order: what bounds each item, in half precision, or single where that is faster"""
    part_starts: Tensor
    """(parts + 1,) int64: where parts begin in `order`"""
    part_table: Tensor
    """(parts, width): what bounds each part, likewise"""
    cell_of: Tensor
    """(parts,) the cell of each part"""
    directions: Tensor
    """e: (cells, dim)"""
    means: Tensor
    """(cells, dim) of h_i"""
    low: Tensor
    high: Tensor
    """(cells,) each: the range of a_i"""
    radius: Tensor
    """(cells,) the largest |r_i|"""
    log_c: Tensor
    """(cells, concepts) the largest log c_ik"""
    log_mass: Tensor
    """(cells, concepts) log of the sum of c_ik"""
    longest: float
    """The largest |h_i|, or |m|"""
    error: float
    """The largest |h_i − h_i'|"""

    def __len__(self) -> int:
        return len(self.directions)

    @property
    def bytes(self) -> int:
        kept = (value for value in vars(self).values() if isinstance(value, Tensor))
        return sum(value.numel() * value.element_size() for value in kept)

    def likely(self, z: Tensor, log_w: Tensor) -> Tensor:
        """What the best item of each cell may score, about: (batch, cells).

        z: (batch, concepts, dim) over the temperature. log_w: (batch, concepts).
        With the cell's direction e, h_i = a_i e + r_i and r_i orthogonal to e, so z · h_i is at most
        max(a_low z·e, a_high z·e) + sqrt(|z|² − (z·e)²) · max |r_i|; of the second term, REACH is likely.
        """
        along = z @ self.directions.t()
        across = along.square().neg_().add_(z.square().sum(-1, keepdim=True)).clamp_(min=0).sqrt_()
        scores = across.mul_(REACH * self.radius).add_(torch.maximum(along * self.low, along * self.high))
        scores += self.log_c.t()
        return scores.add_(log_w[..., None]).logsumexp(dim=1)

    def queries(self, z: Tensor, log_w: Tensor) -> tuple[Tensor, Tensor]:
        """What to multiply both tables by, (batch, concepts, width), and how far products may be off, (batch,)."""
        _, concepts, dim = z.shape
        queries = z.new_zeros(*z.shape[:2], self.table.shape[1])
        queries[..., :dim] = z
        queries[..., dim : dim + concepts] = torch.eye(concepts, device=z.device)
        queries[..., dim + concepts] = log_w.clamp(min=LEAST_LOG_WEIGHT)
        queries[..., dim + concepts + 1] = raised(z.norm(dim=-1))
        rounded = queries.to(self.table.dtype)
        kept, lost = rounded.float(), queries - rounded.float()
        off = lost[..., :dim].norm(dim=-1) * self.longest + kept[..., :dim].norm(dim=-1) * self.error
        off += lost[..., dim + concepts].abs()
        sums = 3 * kept[..., dim + concepts + 1] * self.longest - LOWEST + kept[..., dim + concepts].abs()
        return rounded, (off + 2.0**-23 * self.table.shape[1] * sums).amax(dim=1) + ROUNDING


def group(items: Tensor, count: int | None = None, *, seed: int = 0, progress: Progress | None = None) -> Grouping:
    """Items by direction: spherical k-means on a sample, every item to its nearest cell, and cells into parts.

    count: of cells, by default one for every 256 items. progress: called with (items done, items).
    """
    count = max(1, len(items) // PER_CELL if count is None else min(count, len(items)))
    directions = means(items, count, torch.Generator().manual_seed(seed))

    def report(rows: int) -> None:  # of either pass
        if progress is not None:
            progress(rows // 2, len(items))

    cell = nearest(items, directions, report)
    return Grouping(directions, cell, divided(items, cell, lambda rows: report(len(items) + rows)))


def divided(items: Tensor, cell: Tensor, report: Callable[[int], None]) -> Tensor:
    """The part of its cell that every item is in: (items,) int16. report: called with the items done."""
    order = torch.argsort(cell, stable=True)
    sizes = torch.bincount(cell)
    part = torch.empty(len(items), dtype=torch.int16, device=items.device)
    for _, rows in _runs(edges(sizes).cpu(), DIVIDED):
        positions = order[rows]
        part[positions] = divide(items[positions], cell[positions].long() - cell[positions[0]])
        report(rows.stop)
    return part


def means(items: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Directions of k-means on a sample of items: (count, dim); fewer if there are fewer items."""
    chosen = torch.randperm(len(items), generator=random)[: SAMPLED * count].to(items.device)
    sample = unit(items[chosen])
    directions = sample[:count].clone()
    for _ in range(ROUNDS):
        cell = nearest(sample, directions).long()
        sums = torch.zeros_like(directions).index_add_(0, cell, sample)
        is_empty = torch.bincount(cell, minlength=len(directions)) == 0
        directions = torch.where(is_empty[:, None], directions, unit(sums))
    return directions


def nearest(items: Tensor, directions: Tensor, report: Callable[[int], None] = lambda rows: None) -> Tensor:
    """The cell of every item, by direction: (items,) int32. report: called with the items done."""
    dtype, size = scan_dtype(items.device), max(1, TILE // len(directions))
    parts, columns = [torch.empty(0, dtype=torch.int32, device=items.device)], directions.t().to(dtype)
    for start in range(0, len(items), size):
        similarities = unit(items[start : start + size]).to(dtype) @ columns
        parts.append(similarities.max(dim=1).indices.int())
        report(min(start + size, len(items)))
    return torch.cat(parts)


def arrange(decoder: Decoder, grouping: Grouping) -> Cells:
    """Cells of a decoder's items, with bounds that hold whatever the grouping is."""
    items, count, most = decoder.items, len(grouping.directions), int(grouping.part.max()) + 1
    cell = grouping.cell.long()
    if decoder.is_hard:
        cell = cell + count * decoder.concept_of
    part = cell * most + grouping.part
    order = torch.argsort(part, stable=True)
    parts, sizes = torch.unique_consecutive(part[order], return_counts=True)
    kept, cell_of, parts_of = torch.unique_consecutive(parts // most, return_inverse=True, return_counts=True)
    part_starts, first_parts = edges(sizes), edges(parts_of)
    starts = part_starts[first_parts].cpu()
    directions = grouping.directions[kept % count]
    width = math.ceil((items.shape[1] + decoder.log_assignment.shape[1] + 2) / ALIGNED) * ALIGNED
    dtype = scan_dtype(items.device)
    table, part_table = (
        torch.zeros(rows, width, dtype=dtype, device=items.device) for rows in (len(items), len(parts))
    )
    first_parts, facts = first_parts.cpu(), []
    for cells, rows in _runs(starts, ARRANGED):
        inside = slice(int(first_parts[cells.start]), int(first_parts[cells.stop]))
        members = _Members(decoder.items[order[rows]], decoder.log_assignment[order[rows]])
        error, longest = _fill(members, sizes[inside], table[rows], part_table[inside])
        facts.append(
            (*_facts(members, starts[cells.start : cells.stop + 1].diff().to(cell), directions[cells]), error, longest)
        )
    means, low, high, radius, log_c, mass, errors, lengths = (torch.cat(parts) for parts in zip(*facts, strict=True))
    return Cells(
        order, starts, table, part_starts, part_table, cell_of, directions, means, low, high, radius.sqrt(), log_c,
        mass.log(), float(lengths.max()) * (1 + 1e-5), float(errors.max()) * (1 + 1e-5),
    )  # fmt: skip


def edges(sizes: Tensor) -> Tensor:
    """Where consecutive groups of these sizes begin and end: (groups + 1,)."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _runs(starts: Tensor, about: int) -> Iterator[tuple[slice, slice]]:
    """Runs of cells with about as many items, and their rows."""
    part = torch.div(starts[:-1], about, rounding_mode="floor")
    ends = [0, *(part.diff() > 0).nonzero()[:, 0].add(1).tolist(), len(part)]
    return ((slice(*run), slice(int(starts[run[0]]), int(starts[run[1]]))) for run in pairwise(ends))


class _Members(NamedTuple):
    """Items of some cells, in order."""

    h: Tensor
    log_c: Tensor


def _fill(members: _Members, sizes: Tensor, rows: Tensor, part_rows: Tensor) -> tuple[Tensor, Tensor]:
    """Fill in rows of both tables; the largest |h − h'|, and the largest |h| or |m|. sizes: of parts."""
    h, log_c = members
    dim, concepts = h.shape[1], log_c.shape[1]
    for filled, vectors, largest in (
        (rows, h, log_c), (part_rows, by(sizes, h, "mean"), by(sizes, log_c, "max"))
    ):  # fmt: skip
        filled[:, :dim] = vectors.to(rows.dtype)
        filled[:, dim : dim + concepts] = raised(largest.clamp(min=LOWEST)).to(rows.dtype)
        filled[:, dim + concepts] = 1
    means = part_rows[:, :dim].float()
    distance = (h - torch.repeat_interleave(means, sizes, dim=0)).norm(dim=1)
    part_rows[:, dim + concepts + 1] = raised(by(sizes, distance, "max")).to(rows.dtype)
    error = (h - rows[:, :dim].float()).norm(dim=1).amax(dim=0, keepdim=True)
    return error, torch.cat([h.norm(dim=1), means.norm(dim=1)]).amax(dim=0, keepdim=True)


def _facts(members: _Members, sizes: Tensor, directions: Tensor) -> tuple[Tensor, ...]:
    """Of some cells: means, low, high, radius squared, log c and mass."""
    h, log_c = members
    e = torch.repeat_interleave(directions, sizes, dim=0)
    a = (h * e).sum(dim=1)
    across = torch.addcmul(h, a[:, None], e, value=-1).square_().sum(dim=1)
    largest = by(sizes, torch.column_stack([-a, a, across, log_c]), "max")
    low, high, radius = -largest[:, 0], largest[:, 1], largest[:, 2]
    return by(sizes, h, "mean"), low, high, radius, largest[:, 3:].contiguous(), by(sizes, log_c.exp(), "sum")


def by(sizes: Tensor, values: Tensor, how: str) -> Tensor:
    """Of consecutive groups of rows: (groups, …)."""
    return torch.segment_reduce(values, how, lengths=sizes, axis=0)


def raised(values: Tensor) -> Tensor:
    """Numbers that half precision does not bring below these."""
    return values + values.abs() * 2.0**-7


def scan_dtype(device: torch.device) -> torch.dtype:
    """Half precision where its products are faster."""
    return torch.bfloat16 if device.type == "cuda" else _cpu_dtype()


@cache
def _cpu_dtype() -> torch.dtype:
    def seconds(dtype: torch.dtype) -> float:
        a, b, taken = torch.ones(4096, 112, dtype=dtype), torch.ones(112, 64, dtype=dtype), []
        for _ in range(5):
            start = time.perf_counter()
            a @ b
            taken.append(time.perf_counter() - start)
        return min(taken)

    return torch.bfloat16 if seconds(torch.bfloat16) < seconds(torch.float32) else torch.float32
