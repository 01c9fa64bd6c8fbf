"""Sums over the histories of a batch.

The encoder needs, for every user u and concept k, A_uk = sum_i keep_i x_ui c_ik t_i and Q_uk = sum_i (x_ui c_ik)² over
the user's items, where x_ui is the weight of an interaction: `sum_by_concept`. The likelihood needs the sum of
x_ui log p_ui over them, and sampled likelihoods also log sum_i p_ui: `positives`. On a CPU these are products of sparse
and dense matrices, forward and backward, without copying a vector per interaction; on a GPU they are fused kernels
(`macrid.ops.sparse_triton`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from macrid.ops import kernels


@dataclass(frozen=True)
class Histories:
    """The items of a batch of users: user b has items[starts[b] : stops[b]]."""

    items: Tensor  # (interactions,) of the batch, or of all users
    starts: Tensor  # (batch,)
    stops: Tensor  # (batch,)
    longest: int
    """No history has more items."""
    rows: Tensor | None = None
    """(interactions,) the user of each, if `items` are those of the batch, one user after the other."""
    balance: float = 0.0
    """How much to down-weight users with long histories."""
    values: Tensor | None = None
    """x_ui of each interaction, in the order of `items`; None if all are 1."""
    totals: Tensor | None = None
    """(batch,) the sum of each user's values, if there are any."""
    user_weights: Tensor | None = None
    """(batch,) `weights`, if they depend on more users or interactions than these."""

    @property
    def batch(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> Tensor:
        """(batch,)"""
        return self.stops - self.starts

    @property
    def mass(self) -> Tensor:
        """n_u, what the interactions of each user count in all: (batch,)"""
        return self.counts if self.totals is None else self.totals

    @cached_property
    def weights(self) -> Tensor:
        """The weight of each user: items^−balance, scaled so that interactions keep their mean weight: (batch,)"""
        if self.user_weights is not None:
            return self.user_weights
        counts, mass = self.counts.double(), self.mass.double()
        if self.balance == 0:
            return torch.ones_like(counts)
        weights = counts.clamp(min=1) ** -self.balance
        return weights * (mass.sum() / (weights @ mass).clamp(min=1e-12))

    @cached_property
    def offsets(self) -> Tensor:
        """(batch + 1,), if `items` are those of the batch."""
        return torch.cat([self.starts, self.stops[-1:]])

    @cached_property
    def by_item(self) -> ByItem:
        """The same interactions sorted by item."""
        pairs = sp.csr_array(
            (np.arange(len(self.items)), self.items.cpu().numpy(), self.offsets.cpu().numpy()),
            shape=(self.batch, int(self.items.max()) + 1 if len(self.items) else 0),
        ).tocsc()
        parts = (torch.from_numpy(part.astype(np.int64)) for part in (pairs.data, pairs.indices, pairs.indptr))
        return ByItem(*(part.to(self.items.device) for part in parts))

    def of(self, users: slice) -> Histories:
        """The histories of consecutive users, if `items` are those of the batch."""
        starts, stops = self.starts[users], self.stops[users]
        block = slice(int(starts[0]), int(stops[-1]))
        rows = self.own_rows[block] - users.start
        return Histories(
            self.items[block], starts - block.start, stops - block.start, self.longest, rows,
            values=None if self.values is None else self.values[block],
            totals=None if self.totals is None else self.totals[users],
        )  # fmt: skip

    def where(self, keep: Tensor) -> Histories:
        """Only the interactions at positions `keep`, in ascending order."""
        rows = self.own_rows[keep]
        stops = torch.bincount(rows, minlength=self.batch).cumsum(0)
        return Histories(self.items[keep], F.pad(stops[:-1], (1, 0)), stops, self.longest, rows)

    @property
    def own_rows(self) -> Tensor:
        """`rows`, which must be set."""
        assert self.rows is not None
        return self.rows


class ByItem(NamedTuple):
    """Interactions sorted by item."""

    order: Tensor  # (interactions,) positions in the original order
    rows: Tensor  # (interactions,)
    offsets: Tensor  # (highest item + 2,)


class Dropout(NamedTuple):
    """Which interactions to drop, determined by a seed and their position in the CSR."""

    seed: Tensor  # (1,) int64
    rate: float


def sum_by_concept(
    table: Tensor,
    log_assignment: Tensor,
    histories: Histories,
    keep: Tensor | Dropout | None = None,
    precision: str = "fp32",
) -> tuple[Tensor, Tensor]:
    """A_uk = sum_i keep_i x_ui c_ik table_i and Q_uk = sum_i (x_ui c_ik)², over the items i of user u.

    table (items, dim), log_assignment (items, concepts), keep (interactions,)
    → (batch, concepts, dim), (batch, concepts).
    """
    if kernels.serve(table):
        from macrid.ops.sparse_triton import SumByConcept

        assert not isinstance(keep, Tensor)
        return SumByConcept.apply(table, log_assignment, histories, keep, precision)
    assert keep is None or isinstance(keep, Tensor)
    return _SumByConcept.apply(table, log_assignment, histories, keep)


def positives(
    components: Tensor,
    items: Tensor,
    log_assignment: Tensor,
    temperature: float,
    histories: Histories,
    precision: str = "fp32",
) -> tuple[Tensor, Tensor]:
    """sum_i x_ui log p_ui and log sum_i p_ui over the items i of user u: (batch,) each; p_ui as in
    `macrid.ops.partition`.

    components (batch, concepts, dim), items (items, dim), log_assignment (items, concepts).
    """
    if kernels.serve(items):
        from macrid.ops.sparse_triton import Positives

        return Positives.apply(components, items, log_assignment, histories, temperature, precision)
    logits = _Dots.apply(components / temperature, items, histories) + _Rows.apply(log_assignment, histories)
    log_p = logits.logsumexp(dim=1)
    counted = log_p if histories.values is None else log_p * histories.values.to(log_p.dtype)
    sums = sum_by_user(counted[:, None], histories)[:, 0]
    return sums, _log_sum_exp_by_user(log_p, histories)


def sum_by_user(values: Tensor, histories: Histories) -> Tensor:
    """(interactions, n) → (batch, n)."""
    return values.new_zeros(histories.batch, values.shape[1]).index_add(0, histories.own_rows, values)


class _Rows(torch.autograd.Function):
    """The row of a small table for each interaction."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, histories: Histories) -> Tensor:
        ctx.rows, ctx.histories = len(table), histories
        return F.embedding(histories.items, table)

    @staticmethod
    def backward(ctx: Any, by_rows: Tensor) -> tuple[Tensor, None]:
        return sums_by_item(by_rows, ctx.histories, ctx.rows), None


def _log_sum_exp_by_user(values: Tensor, histories: Histories) -> Tensor:
    """(interactions,) → (batch,), −inf for an empty history."""
    with torch.no_grad():
        top = torch.segment_reduce(values.detach(), "max", offsets=histories.offsets, initial=-1e30)
    scaled = (values - F.embedding(histories.own_rows, top[:, None])[:, 0]).exp()
    return sum_by_user(scaled[:, None], histories)[:, 0].log() + top


class _SumByConcept(torch.autograd.Function):
    """A and Q of `sum_by_concept`; dropped items cost nothing but in Q, which sums over rows of c² and x²."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, log_assignment: Tensor, histories: Histories, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        x = None if histories.values is None else histories.values.to(table.dtype)
        places = None if keep is None else keep.nonzero()[:, 0]
        kept = histories if places is None else histories.where(places)
        c, at, kept_at = log_assignment, histories.items, kept.items
        if len(at) < len(c):  # fewer to exponentiate
            c, at = F.embedding(at, c), torch.arange(len(at), device=at.device)
            kept_at = at if places is None else places
        c = c.exp()
        weights = F.embedding(kept_at, c)  # keep_i x_ui c_ik, (kept, concepts)
        for factor in (x, keep):
            if factor is not None:
                weights.mul_((factor if places is None else factor.index_select(0, places))[:, None])
        squares = _bags(c.square(), at, histories.offsets, None if x is None else x.square())
        ctx.save_for_backward(table, log_assignment, weights, x)
        ctx.histories, ctx.kept = histories, kept
        return sums_of_rows(table, weights, kept), squares

    @staticmethod
    def backward(ctx: Any, by_sums: Tensor, by_squares: Tensor) -> tuple[Tensor | None, ...]:
        table, log_assignment, weights, x = ctx.saved_tensors
        histories, kept = ctx.histories, ctx.kept
        by_table = sums_of_users(by_sums, weights, kept, len(table))
        by_weights = dots(by_sums, table, kept).mul_(weights)  # by the logs of the weights
        order, rows, offsets = histories.by_item
        x = None if x is None else x.square().index_select(0, order)
        by_log = _padded(_bags(2 * by_squares, rows, offsets, x), len(table)).mul_(log_assignment.mul(2).exp_())
        return by_table, by_log.add_(sums_by_item(by_weights, kept, len(table))), None, None


class _Dots(torch.autograd.Function):
    """components[u, k] · items[i] for every interaction: (interactions, concepts)."""

    @staticmethod
    def forward(ctx: Any, components: Tensor, items: Tensor, histories: Histories) -> Tensor:
        ctx.save_for_backward(components, items)
        ctx.histories = histories
        return dots(components, items, histories)

    @staticmethod
    def backward(ctx: Any, by_dot: Tensor) -> tuple[Tensor | None, ...]:
        components, items = ctx.saved_tensors
        h = ctx.histories
        return sums_of_rows(items, by_dot, h), sums_of_users(components, by_dot, h, len(items)), None


def sums_of_rows(table: Tensor, weights: Tensor, histories: Histories) -> Tensor:
    """sum_i weights[i, k] table[i] over a user's items: table (items, dim), weights (interactions, concepts)."""
    bags = (_bags(table, histories.items, histories.offsets, column) for column in weights.t().contiguous())
    return torch.stack(list(bags), dim=1)


def sums_of_users(values: Tensor, weights: Tensor, histories: Histories, items: int) -> Tensor:
    """sum_uk weights[ui, k] values[u, k] over an item's users: values (batch, concepts, dim) → (items, dim)."""
    order, rows, offsets = histories.by_item
    concepts = values.shape[1]
    of_concept = rows[:, None] * concepts + torch.arange(concepts, device=rows.device)
    weights = F.embedding(order, weights).view(-1)
    return _padded(_bags(values.flatten(0, 1), of_concept.view(-1), offsets * concepts, weights), items)


def sums_by_item(values: Tensor, histories: Histories, items: int) -> Tensor:
    """(interactions, n) → (items, n), in a fixed order, so results are repeatable."""
    order, _, offsets = histories.by_item
    return _padded(_bags(values.contiguous(), order, offsets), items)


def dots(values: Tensor, table: Tensor, histories: Histories) -> Tensor:
    """values[u, k] · table[i] for every interaction: values (batch, concepts, dim) → (interactions, concepts)."""
    by_concept = values.transpose(0, 1).contiguous()
    if torch.backends.mkl.is_available() and not table.is_cuda and len(histories.items):
        zeros = table.new_zeros(len(histories.items))
        where = csr_tensor(histories.offsets, histories.items, zeros, (histories.batch, len(table)))
        columns = [torch.sparse.sampled_addmm(where, one, table.t(), beta=0.0).values() for one in by_concept]
    else:
        rows = F.embedding(histories.items, table)
        columns = [(F.embedding(histories.own_rows, one) * rows).sum(dim=1) for one in by_concept]
    return torch.stack(columns, dim=1)


def _padded(sums: Tensor, items: int) -> Tensor:
    """With rows of 0 for the items after the last one that somebody has."""
    return F.pad(sums, (0, 0, 0, items - len(sums)))


def _bags(table: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor | None = None) -> Tensor:
    """The weighted sum of the rows at the indices between one offset and the next."""
    return F.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)


def csr_tensor(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A sparse tensor in CSR, unchecked and without torch's warnings."""
    _warn_in_silence()
    tensor: Tensor = torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
    return tensor


@cache
def _warn_in_silence() -> None:
    """Once per process, torch warns that CSR tensors are in beta and that nothing checks them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant checks)")
        torch.sparse_csr_tensor([0, 0], [], [], (1, 1), check_invariants=False)
