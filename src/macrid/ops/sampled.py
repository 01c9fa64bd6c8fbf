"""Sampled softmax: the likelihood over a user's items and a few others, for catalogues too large to sum over.

Z_u is a sum over all items. The user's own are summed exactly; the others are estimated from `negatives` items drawn by
q with replacement and shared by the batch:

    Z_u ≈ sum over own items p_ui + sum over draws j that are not the user's own of p_uj / (negatives · q_j)

The estimate is unbiased: item j is drawn with probability q_j, and the correction log(negatives · q_j) applies only to
draws, not to the user's own items. A step touches only the rows of the batch's items and of the draws, so its cost does
not grow with the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Generator, Tensor

from macrid.ops import kernels
from macrid.ops.partition import Precision, log_partition, sum_log_partition_with
from macrid.ops.sparse import Histories, positives

Sampling = Literal["popularity", "log-uniform", "uniform"]


class Sampler:
    """Draws items with replacement.

    popularity: in proportion to sqrt(1 + n) for an item with n users.
    log-uniform: in proportion to log((r + 2) / (r + 1)) for popularity rank r = 0, 1, …. uniform: all the same.
    """

    def __init__(self, popularity: Tensor, sampling: Sampling) -> None:
        """popularity: (items,) the number of users of each item."""
        self.items = len(popularity)
        count = popularity.to(torch.float64)
        if sampling == "popularity":
            weights = (count + 1).sqrt()
        elif sampling == "log-uniform":
            rank = torch.empty_like(count)
            rank[count.argsort(descending=True, stable=True)] = torch.arange(self.items, device=count.device).to(count)
            weights = ((rank + 2) / (rank + 1)).log()
        else:
            weights = torch.ones_like(count)
        share = weights / weights.sum()
        self.log_q = share.log().float()  # (items,)
        self._until = share.cumsum(0)

    def draw(self, count: int, generator: Generator) -> Tensor:
        """(count,) items."""
        at = torch.rand(count, dtype=torch.float64, device=self._until.device, generator=generator)
        return torch.searchsorted(self._until, at, right=True).clamp_(max=self.items - 1)


@dataclass(frozen=True)
class Local:
    """The part of the catalogue that one step touches."""

    rows: Tensor  # (rows,) the items; those past `count` are padding
    count: Tensor | None  # how many rows count; all of them if None
    histories: Histories  # of the batch, in positions of `rows`
    draws: Tensor  # (draws,) positions in `rows`
    log_weights: Tensor  # (draws,) −log(negatives · q), plus the log of how often the item was drawn; −inf for repeats
    hidden: Tensor  # (batch, draws) 1 where a draw is the user's own item


def gather(
    histories: Histories, sampler: Sampler, negatives: int, generator: Generator, within: slice | None = None
) -> Local:
    """Draw negatives for a batch whose `histories` hold only its interactions.

    within: the items that this process has, if not all; `histories` and the result count from the first of them.
    """
    items = histories.items.long()
    drawn, log_q = sampler.draw(negatives, generator), sampler.log_q
    log_negatives = torch.log(torch.tensor(float(negatives)))
    if within is not None:
        drawn = drawn[(drawn >= within.start) & (drawn < within.stop)] - within.start
        log_q, negatives = log_q[within], len(drawn)
    everything = torch.cat([items, drawn])
    if within is None and kernels.serve(items):
        rows, count, place = _unique(everything, min(len(everything), sampler.items))
    else:
        rows, place = torch.unique(everything, return_inverse=True)
        count = None
    seen, draws = place[: len(items)], place[len(items) :]

    times = torch.zeros(len(rows), device=items.device).index_add_(0, draws, torch.ones(negatives, device=items.device))
    first = torch.full((len(rows),), negatives, device=items.device)
    first = first.scatter_reduce_(0, draws, torch.arange(negatives, device=items.device), "amin")
    log_weights = times[draws].log() - log_negatives - log_q[drawn]
    repeated = first[draws] != torch.arange(negatives, device=items.device)
    log_weights = log_weights.masked_fill(repeated, -torch.inf)

    assert histories.rows is not None
    hidden = torch.zeros(histories.batch, negatives + 1, dtype=torch.uint8, device=items.device)
    hidden[histories.rows, first[seen]] = 1  # the last column takes what was not drawn
    local = replace(histories, items=seen.to(histories.items.dtype))
    return Local(rows, count, local, draws, log_weights, hidden[:, :negatives].contiguous())


def sampled_log_likelihood(
    components: Tensor,
    items: Tensor,
    log_assignment: Tensor,
    temperature: float,
    local: Local,
    *,
    precision: Precision = "fp32",
    bound: float | None = None,
    scratch: int | None = None,
) -> Tensor:
    """An estimate of the sum over the batch of ln p(x_u | z_u, C).

    components (batch, concepts, dim); items (rows, dim), log_assignment (rows, concepts) of the local catalogue → ().
    """
    sums, totals = positives(components, items, log_assignment, temperature, local.histories, precision)
    drawn = items.index_select(0, local.draws)
    log_weighted = log_assignment.index_select(0, local.draws) + local.log_weights[:, None]
    weights = local.histories.weights.to(items.dtype)
    counts = local.histories.mass.to(items.dtype) * weights
    if not kernels.serve(items):
        return weights @ sums - sum_log_partition_with(
            components, drawn, log_weighted, temperature, totals, counts, local.hidden, precision, scratch
        )
    others = log_partition(
        components, drawn, log_weighted, temperature, precision=precision, hidden=local.hidden, bound=bound
    )
    return weights @ sums - counts @ torch.logaddexp(totals, others)


def _unique(values: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct values in a buffer of fixed size, their number, and where each value is, without waiting."""
    ordered, order = values.sort()
    new = torch.ones_like(ordered)
    new[1:] = (ordered[1:] != ordered[:-1]).to(new.dtype)
    slot = new.cumsum(0) - 1
    rows = torch.zeros(most, dtype=values.dtype, device=values.device).scatter_(0, slot, ordered)
    return rows, slot[-1] + 1, torch.empty_like(slot).scatter_(0, order, slot)
