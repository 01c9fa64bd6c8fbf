"""Items grouped into cells of similar direction, with what bounds the scores of a cell and of each item in it.

The score of an item without its linear part is log sum_k exp(z_k · h_i / tau + log c_ik + log w_k). Two bounds on it:

cell    With the cell's direction e, h_i = a_i e + r_i and r_i orthogonal to e, so
        z · h_i <= max(a_low z·e, a_high z·e) + sqrt(|z|² − (z·e)²) · max |r_i|, and log c_ik is at most the cell's
        largest.
item    The inner product of [z_k / tau, e_k, log w_k] and [h_i, log c_i, 1] in half precision, log c_i rounded up. It
        is off by at most |z − z'| |h| + |z'| |h − h'|, where z' and h' are what half precision makes of z and h.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from macrid.ops.topk import Decoder
from macrid.ops.vectors import unit

PER_CELL = 256  # items, about
SAMPLED = 16  # items per cell that cells are computed from
ROUNDS = 4  # of k-means
TILE = 1 << 22  # similarities computed at once
ARRANGED = 1 << 16  # items arranged at once
LOWEST = -80.0  # log c; lower ones are raised to it
ALIGNED = 16  # columns of the table are padded to a multiple
ROUNDING = 1e-4  # of bounds in single precision: far more than it can be
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which items share a cell: all that must be kept, as the rest follows from the decoder."""

    directions: Tensor
    """(cells, dim) of length 1"""
    cell: Tensor
    """(items,) int32"""

    def to(self, device: torch.device) -> Grouping:
        return Grouping(self.directions.to(device), self.cell.to(device))

    def extended(self, items: Tensor) -> Grouping:
        """Over more items (items, dim), of which the first are grouped already."""
        more = items[len(self.cell) :]
        return Grouping(self.directions, torch.cat([self.cell, nearest(more, self.directions)])) if len(more) else self


@dataclass(frozen=True, eq=False)
class Cells:
    """A decoder's items by cell. With a hard assignment, the items of a cell have one concept."""

    order: Tensor
    """(items,) positions of items, cell by cell"""
    starts: Tensor
    """(cells + 1,) int64, on the CPU: where cells begin in `order`"""
    table: Tensor
    """(items, width) in order: [h_i, log c_i rounded up, 1, 0 …] in half precision, or single where that is faster"""
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
    """The largest |h_i|"""
    error: float
    """The largest |h_i − h_i'|"""

    def __len__(self) -> int:
        return len(self.directions)

    @property
    def bytes(self) -> int:
        parts = (self.order, self.table, self.directions, self.means, self.log_c, self.log_mass)
        return sum(part.numel() * part.element_size() for part in parts)

    def bounds(self, z: Tensor, log_w: Tensor, reach: float = 1.0) -> Tensor:
        """What z_k · h_i + log c_ik + log w_k cannot exceed in a cell: (batch, concepts, cells).

        z: (batch, concepts, dim) over the temperature. log_w: (batch, concepts). reach: of the radius; less than 1
        gives what a score hardly exceeds.
        """
        along = z @ self.directions.t()
        across = along.square().neg_().add_(z.square().sum(-1, keepdim=True)).clamp_(min=0).sqrt_()
        bounds = across.mul_(reach * self.radius).add_(torch.maximum(along * self.low, along * self.high))
        bounds += self.log_c.t()
        return bounds.add_(log_w[..., None] + ROUNDING * (1 + self.longest * float(z.abs().max())))

    def queries(self, z: Tensor, log_w: Tensor) -> tuple[Tensor, Tensor]:
        """What to multiply `table` by, (concepts, batch, width), and how far products may be off, (batch,)."""
        batch, concepts, dim = z.shape
        queries = z.new_zeros(concepts, batch, self.table.shape[1])
        queries[..., :dim] = z.transpose(0, 1)
        queries[..., dim : dim + concepts] = torch.eye(concepts, device=z.device)[:, None]
        queries[..., dim + concepts] = log_w.t()
        rounded = queries.to(self.table.dtype)
        kept, lost = rounded.float(), queries - rounded.float()
        off = lost[..., :dim].norm(dim=-1) * self.longest + kept[..., :dim].norm(dim=-1) * self.error
        off += lost[..., dim + concepts].abs()
        sums = kept[..., :dim].norm(dim=-1) * self.longest - LOWEST + kept[..., dim + concepts].abs()
        return rounded, (off + 2.0**-23 * self.table.shape[1] * sums).amax(dim=0) + ROUNDING


def group(items: Tensor, count: int | None = None, *, seed: int = 0, progress: Progress | None = None) -> Grouping:
    """Items by direction: spherical k-means on a sample, then every item to its nearest cell.

    count: of cells, by default one for every 256 items. progress: called with (items done, items).
    """
    count = max(1, len(items) // PER_CELL if count is None else min(count, len(items)))
    directions = means(items, count, torch.Generator().manual_seed(seed))
    return Grouping(directions, nearest(items, directions, progress))


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


def nearest(items: Tensor, directions: Tensor, progress: Progress | None = None) -> Tensor:
    """The cell of every item, by direction: (items,) int32."""
    dtype, size = scan_dtype(items.device), max(1, TILE // len(directions))
    parts, columns = [torch.empty(0, dtype=torch.int32, device=items.device)], directions.t().to(dtype)
    for start in range(0, len(items), size):
        similarities = unit(items[start : start + size]).to(dtype) @ columns
        parts.append(similarities.max(dim=1).indices.int())
        if progress is not None:
            progress(min(start + size, len(items)), len(items))
    return torch.cat(parts)


def arrange(decoder: Decoder, grouping: Grouping) -> Cells:
    """Cells of a decoder's items, with bounds that hold whatever the grouping is."""
    items, count = decoder.items, len(grouping.directions)
    cell = grouping.cell.long()
    if decoder.is_hard:
        cell = cell + count * decoder.concept_of
    order = torch.argsort(cell, stable=True)
    kept, sizes = torch.unique_consecutive(cell[order], return_counts=True)
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).cpu()
    directions = grouping.directions[kept % count]
    width = math.ceil((items.shape[1] + decoder.log_assignment.shape[1] + 1) / ALIGNED) * ALIGNED
    table = torch.zeros(len(items), width, dtype=scan_dtype(items.device), device=items.device)
    facts = [
        _facts(decoder, order[rows], sizes[cells], directions[cells], table[rows]) for cells, rows in _runs(starts)
    ]
    means, low, high, radius, log_c, mass, errors = (torch.cat(parts) for parts in zip(*facts, strict=True))
    longest = float(torch.linalg.vector_norm(items, dim=1).max())
    return Cells(
        order, starts, table, directions, means, low, high, radius.sqrt().mul_(1 + 1e-5), log_c, mass.log(),
        longest * (1 + 1e-5), float(errors.max()) * (1 + 1e-5),
    )  # fmt: skip


def _runs(starts: Tensor) -> Iterator[tuple[slice, slice]]:
    """Runs of cells with about ARRANGED items, and their rows of the table."""
    part = torch.div(starts[:-1], ARRANGED, rounding_mode="floor")
    edges = [0, *(part.diff() > 0).nonzero()[:, 0].add(1).tolist(), len(part)]
    return ((slice(*run), slice(int(starts[run[0]]), int(starts[run[1]]))) for run in pairwise(edges))


def _facts(decoder: Decoder, positions: Tensor, sizes: Tensor, directions: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
    """Of some cells: means, low, high, radius squared, log c, mass, and the error of the rows, which are filled in."""
    h, log_c = decoder.items[positions], decoder.log_assignment[positions]
    e = torch.repeat_interleave(directions, sizes, dim=0)
    a = (h * e).sum(dim=1)
    across = torch.addcmul(h, a[:, None], e, value=-1).square_().sum(dim=1)
    dim, concepts = h.shape[1], log_c.shape[1]
    rows[:, :dim] = h.to(rows.dtype)
    rows[:, dim : dim + concepts] = rounded_up(log_c).to(rows.dtype)
    rows[:, dim + concepts] = 1
    error = (h - rows[:, :dim].float()).norm(dim=1).amax(dim=0, keepdim=True)

    def by_cell(values: Tensor, how: str) -> Tensor:
        return torch.segment_reduce(values, how, lengths=sizes, axis=0)

    largest = by_cell(torch.column_stack([-a, a, across, log_c]), "max")
    low, high, radius = -largest[:, 0], largest[:, 1], largest[:, 2]
    return by_cell(h, "mean"), low, high, radius, largest[:, 3:].contiguous(), by_cell(log_c.exp(), "sum"), error


def rounded_up(log_c: Tensor) -> Tensor:
    """Numbers that half precision does not bring below these; at least LOWEST."""
    return log_c.clamp(min=LOWEST) + log_c.clamp(min=LOWEST).abs() * 2.0**-7


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
