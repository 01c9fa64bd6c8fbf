"""The best items of a mixture of concepts, in tiles.

The score of an item is log p_ui and its log-probability log p_ui − log Z_u, where

    p_ui = exp(l_ui) sum_k w_uk c_ik exp(z_uk · h_i / tau),        Z_u = sum_i p_ui,

w_uk is a weight of the concept and l_ui is linear in the history (`macrid.models.neighbours`).

Scores are computed in tiles of users × items that fit in cache; the best of each block of tiles are merged with those
of earlier blocks. No array of scores is larger than the constants below, however many users and items there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.ops import kernels

BLOCK = {"cpu": 1 << 24, "cuda": 1 << 27}  # scores per block, from which the best are chosen
TILE = {"cpu": 1 << 19, "cuda": 1 << 25}  # scores computed at once
USERS = 512  # per block, if there are enough: fewer make matrix products slow
FEW_ROWS = 512  # users × concepts up to which one product for all concepts is faster than one for each
GROUP = 16  # items first compared by their maximum
LARGEST = 60.0  # exp(±60), and the sum of a billion of them, are ordinary numbers in single precision


class Mixture(NamedTuple):
    """A batch of users as the decoder sees them."""

    components: Tensor
    """z: (batch, concepts, dim)"""
    log_weights: Tensor | None = None
    """log w: (batch, concepts); 0 if None."""
    linear: Tensor | None = None
    """l: (batch, items); 0 if None."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """Turns components into item scores; whatever does not depend on users is computed once."""

    items: Tensor
    """(items, dim)"""
    log_assignment: Tensor
    """(items, concepts)"""
    temperature: float = 1.0
    is_hard: bool = False
    """Score each item in its likeliest concept only, without computing the others."""

    @cached_property
    def concept_of(self) -> Tensor:
        """The likeliest concept of every item: (items,)."""
        return self.log_assignment.argmax(dim=1)

    @cached_property
    def likeliest(self) -> np.ndarray:
        """`concept_of` as an array. Do not modify it."""
        return self.concept_of.cpu().numpy()

    @cached_property
    def order(self) -> Tensor | None:
        """Items by concept, so that a tile has one concept; None if they are scored in all concepts."""
        return torch.argsort(self.concept_of, stable=True) if self.is_hard else None

    @cached_property
    def place(self) -> Tensor:
        """The position of each item in `order`: (items,)."""
        assert self.order is not None
        return torch.argsort(self.order)

    @cached_property
    def bounds(self) -> list[int]:
        """Where concepts begin and end in `order`."""
        if not self.is_hard:
            return []
        return [0, *torch.bincount(self.concept_of, minlength=self.log_assignment.shape[1]).cumsum(0).tolist()]

    @cached_property
    def tables(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Items and assignments in `order`, or if there are too many, unsorted and with the order."""
        if self.order is None or self.items.numel() > _limit(BLOCK, self.items):
            return self.items, self.log_assignment, self.order
        return self.items[self.order], self.log_assignment[self.order], None

    @cached_property
    def assignment(self) -> Tensor | None:
        """(concepts, items); None if there are too many."""
        if self.log_assignment.numel() > _limit(BLOCK, self.items):
            return None
        return self.log_assignment.t().exp().contiguous()

    @cached_property
    def reach(self) -> tuple[Tensor, Tensor]:
        """The length of the longest item, and how far the log of an item's likeliest assignment is from 0."""
        log_c = self.log_assignment.gather(1, self.concept_of[:, None]) if self.is_hard else self.log_assignment
        likeliest = log_c.amax(dim=1)
        return torch.linalg.vector_norm(self.items, dim=-1).max(), torch.maximum(-likeliest.min(), log_c.max())

    @torch.no_grad()
    def log_sums(self, components: Tensor) -> Tensor:
        """log sum_i c_ik exp(z_k · h_i / tau), a tile of items at a time: (batch, concepts)."""
        z, sums = components / self.temperature, []
        width = max(1, _limit(TILE, z) // max(1, len(z)))
        for k in range(z.shape[1]):
            tiles = zip(self.items.split(width), self.log_assignment[:, k].split(width), strict=True)
            sums.append(
                torch.stack([torch.addmm(c, z[:, k], h.t()).logsumexp(dim=1) for h, c in tiles]).logsumexp(dim=0)
            )
        return torch.stack(sums, dim=1)

    @torch.no_grad()
    def log_probabilities(self, mixture: Mixture) -> Tensor:
        """log p(x_ui | z_u, C) of every item: (batch, items)."""
        components = mixture.components / self.temperature
        log_w = components.new_zeros(components.shape[:2]) if mixture.log_weights is None else mixture.log_weights
        scores = components.new_empty(len(components), len(self.items))
        if self.is_hard:
            for k in range(components.shape[1]):
                members = (self.concept_of == k).nonzero()[:, 0]
                scores[:, members] = components[:, k] @ self.items[members].t() + log_w[:, k, None]
        else:
            for start in range(0, len(self.items), 1024):
                tile = slice(start, start + 1024)
                terms = components @ self.items[tile].t() + self.log_assignment[tile].t() + log_w[..., None]
                scores[:, tile] = terms.logsumexp(dim=1)
        if mixture.linear is not None:
            scores += mixture.linear
        return scores.log_softmax(dim=1)


@torch.no_grad()
def top(
    decoder: Decoder,
    mixture: Mixture,
    n: int,
    *,
    hidden: tuple[Tensor, Tensor] | None = None,
    allowed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Positions and log-probabilities of the n best items, best first: (batch, n) each.

    hidden: (rows, columns) to exclude. allowed: (items,) True where an item may be chosen. If fewer than n are left,
    others follow with −inf. Z_u always sums over all items. The order of equal scores is unspecified.
    """
    components, log_weights, linear = mixture
    z = components.div(decoder.temperature).transpose(0, 1).contiguous()  # (concepts, batch, dim)
    log_w = z.new_zeros(z.shape[:2]) if log_weights is None else log_weights.t().contiguous()  # (concepts, batch)
    scorer = _Scorer(decoder, z, log_w, linear)
    if decoder.order is not None:
        linear = None if linear is None else linear[:, decoder.order]
        allowed = None if allowed is None else allowed[decoder.order]
        hidden = None if hidden is None else (hidden[0], decoder.place[hidden[1]])
    positions, log_p = [z.new_empty(0, n, dtype=torch.long)], [z.new_empty(0, n)]
    for first in range(0, len(components), scorer.users):
        of_block = None if hidden is None else _within(hidden, 0, first, first + scorer.users)
        users = slice(first, first + scorer.users)
        of_users = _Users(z[:, users], log_w[:, users], None if linear is None else linear[users])
        best = _top(scorer, of_users, n, of_block, allowed)
        positions.append(best[0])
        log_p.append(best[1])
    return torch.cat(positions), torch.cat(log_p)


class _Users(NamedTuple):
    """A block of users."""

    z: Tensor  # over the temperature, (concepts, users, dim)
    log_w: Tensor  # (concepts, users)
    linear: Tensor | None  # (users, items)


def _top(
    scorer: _Scorer, users: _Users, n: int, hidden: tuple[Tensor, Tensor] | None, allowed: Tensor | None
) -> tuple[Tensor, Tensor]:
    """As `top`, for one block of users."""
    z = users.z
    log_z = z.new_full((z.shape[1],), -torch.inf)
    values, positions = z.new_empty(z.shape[1], 0), z.new_empty(z.shape[1], 0, dtype=torch.long)
    for start in range(0, len(scorer.items), scorer.width):
        block, log_sum = scorer.block(users, start)  # (users, width), (users,)
        stop = start + block.shape[1]
        log_z = torch.logaddexp(log_z, log_sum)
        best, columns = best_of(
            block,
            min(n, stop - start),
            hidden=None if hidden is None else _within(hidden, 1, start, stop),
            allowed=None if allowed is None else allowed[start:stop],
        )
        values, positions = torch.cat([values, best], dim=1), torch.cat([positions, columns + start], dim=1)
        if start > 0:
            values, kept = values.topk(min(n, values.shape[1]), dim=1)
            positions = positions.gather(1, kept)
    return positions if scorer.order is None else scorer.order[positions], scorer.log(values) - log_z[:, None]


class _Scorer:
    """Scores of blocks of items: log p_ui, or p_ui itself if none can overflow."""

    def __init__(self, decoder: Decoder, z: Tensor, log_w: Tensor, linear: Tensor | None) -> None:
        block, tile, items = _limit(BLOCK, z), _limit(TILE, z), decoder.items
        self.order, self.bounds = decoder.order, decoder.bounds
        self.items, self.log_assignment, self.gathered = decoder.tables
        self.fused = self.order is None and kernels.serve(z)
        self.exponential = not self.fused and _is_bounded(z, log_w, linear, decoder)
        self.users = max(1, min(z.shape[1], max(USERS, tile // len(items)), block))
        self.width = min(len(items), block // self.users)
        self.size = max(1, min(self.width, tile // max(self.users, z.shape[2])))
        self.memory = z.new_empty(self.users * self.width)
        rows = 0 if self.fused else self.users
        self.assignment = None  # (concepts, items) if all concepts are taken at once
        if self.exponential and self.order is None and len(z) * self.users <= FEW_ROWS:
            self.assignment = decoder.assignment
        if self.assignment is not None:
            rows = len(z) * self.users
            self.size = max(1, min(self.width, tile // rows))
        self.scratch = z.new_empty(rows * self.size)

    def log(self, values: Tensor) -> Tensor:
        return values.clamp(min=0).log() if self.exponential else values

    def block(self, users: _Users, first: int) -> tuple[Tensor, Tensor]:
        """Scores of the items from `first`, valid until the next call, and the log of the sum of their p_ui."""
        z, log_w, linear = users
        count, last = z.shape[1], min(first + self.width, len(self.items))
        block = self.memory[: count * (last - first)].view(count, -1)
        total = z.new_full((count,), 0.0 if self.exponential else -torch.inf)
        for start, stop in self._tiles(first, last):
            tile = block[:, start - first : stop - first]
            self._score(z, log_w, start, stop, tile)
            if linear is not None and self.exponential:
                tile *= torch.exp(linear[:, start:stop], out=self.scratch[: tile.numel()].view(tile.shape))
            elif linear is not None:
                tile += linear[:, start:stop]
            total = total + tile.sum(dim=1) if self.exponential else torch.logaddexp(total, tile.logsumexp(dim=1))
        return block, self.log(total)

    def _tiles(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        edges = {*range(first, last, self.size), last, *(bound for bound in self.bounds if first < bound < last)}
        return pairwise(sorted(edges))

    def _score(self, z: Tensor, log_w: Tensor, start: int, stop: int, out: Tensor) -> None:
        """Write the scores of items start … stop: (users, tile)."""
        which = slice(start, stop) if self.gathered is None else self.gathered[start:stop]
        items, log_c = self.items[which], self.log_assignment[which]
        if self.fused:
            from macrid.ops.topk_triton import mixture_scores

            mixture_scores(z, items, log_c, log_w, out)
            return
        if self.assignment is not None:
            terms = self.scratch[: len(z) * out.numel()].view(-1, out.shape[1])  # (concepts × users, tile)
            torch.addmm(log_w.reshape(-1, 1), z.flatten(0, 1), items.t(), out=terms)
            terms.exp_().view(len(z), *out.shape).mul_(self.assignment[:, None, start:stop])
            torch.sum(terms.view(len(z), *out.shape), dim=0, out=out)
            return
        vectors, scratch = items.t(), self.scratch[: out.numel()].view(out.shape)
        first, *others = range(len(z)) if self.order is None else [bisect_right(self.bounds, start) - 1]
        if self.exponential:
            torch.addmm(log_w[first, :, None], z[first], vectors, out=out).exp_().mul_(log_c[:, first].exp())
            for k in others:
                terms = torch.addmm(log_w[k, :, None], z[k], vectors, out=scratch)
                out.addcmul_(terms.exp_(), log_c[:, k].exp())
        else:
            torch.addmm(log_w[first, :, None], z[first], vectors, out=out).add_(log_c[:, first])
            for k in others:
                terms = torch.addmm(log_w[k, :, None], z[k], vectors, out=scratch)
                torch.logaddexp(out, terms.add_(log_c[:, k]), out=out)


def best_of(
    scores: Tensor, n: int, *, hidden: tuple[Tensor, Tensor] | None = None, allowed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Values and columns of the n highest scores of every row, best first: (users, n) each.

    scores (users, items): those of `hidden` (rows, columns) and of items that are not `allowed` are set to −inf.
    """
    if allowed is not None:
        scores.masked_fill_(~allowed, -torch.inf)
    if hidden is not None:
        scores[hidden] = -torch.inf
    # The n best items are in the n groups with the highest maxima, so only those are searched.
    groups = scores.shape[1] // GROUP
    if groups < 2 * n:
        values, columns = scores.topk(n, dim=1)
        return values, columns
    grouped = scores[:, : groups * GROUP].unflatten(1, (GROUP, groups))  # column c is in group c % groups
    chosen = grouped.amax(dim=1).topk(n, dim=1, sorted=False).indices
    members = chosen[:, None, :] + groups * torch.arange(GROUP, device=scores.device)[:, None]
    rest = torch.arange(groups * GROUP, scores.shape[1], device=scores.device).expand(len(scores), -1)
    columns = torch.cat([members.flatten(1), rest], dim=1)
    values, kept = scores.gather(1, columns).topk(n, dim=1)
    return values, columns.gather(1, kept)


def pairs(matrix: sp.csr_array, device: torch.device) -> tuple[Tensor, Tensor]:
    """(rows, columns) of the entries of a matrix."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return torch.from_numpy(rows).to(device), torch.from_numpy(matrix.indices.astype(np.int64)).to(device)


def _within(places: tuple[Tensor, Tensor], axis: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """The pairs with rows (axis 0) or columns (axis 1) from `start` to `stop`, counted from `start`."""
    inside = (places[axis] >= start) & (places[axis] < stop)
    rows, columns = places[0][inside], places[1][inside]
    return (rows - start, columns) if axis == 0 else (rows, columns - start)


def _is_bounded(z: Tensor, log_w: Tensor, linear: Tensor | None, decoder: Decoder) -> bool:
    """Whether every p_ui is within exp(±LARGEST) for any angle between components and items."""
    if z.shape[1] == 0:
        return True
    longest, log_c = decoder.reach
    furthest = torch.linalg.vector_norm(z, dim=-1).max() * longest + log_c + log_w.abs().max()
    if linear is not None:
        lowest, highest = linear.aminmax()  # without a copy, as abs would make
        furthest = furthest + torch.maximum(-lowest, highest)
    return bool(furthest <= LARGEST)


def _limit(limits: dict[str, int], tensor: Tensor) -> int:
    return limits.get(tensor.device.type, limits["cpu"])
