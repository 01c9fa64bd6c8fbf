"""The likelihood over items that are divided over processes (`macrid.ops.shards`).

Positives count where they are. Each process sums its part of Z_u, exact or sampled; the parts are combined as in a
cross-entropy over a divided vocabulary, by their maximum and their sum.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from macrid.ops import kernels
from macrid.ops.partition import Precision, log_partition
from macrid.ops.sampled import Local
from macrid.ops.shards import Shards
from macrid.ops.sparse import Histories, positives

LOWEST = -1e30  # stands for −inf, whose gradients would be NaN


def sharded_log_likelihood(
    components: Tensor,
    items: Tensor,
    log_assignment: Tensor,
    temperature: float,
    histories: Histories,
    shards: Shards,
    *,
    drawn: Local | None = None,
    precision: Precision = "fp32",
    bound: float | None = None,
    scratch: int | None = None,
) -> Tensor:
    """As `macrid.ops.partition.log_likelihood`, or with draws as `macrid.ops.sampled.sampled_log_likelihood`.

    items, log_assignment, histories, drawn: of this process. components, and the weights and mass of the histories: the
    same in every process. The result is, too.
    """
    components = shards.entering(components)
    sums, own = positives(components, items, log_assignment, temperature, histories, precision)
    if drawn is None:
        log_z = log_partition(
            components, items, log_assignment, temperature, precision=precision, bound=bound, scratch=scratch
        )
    else:
        log_z = own.clamp(min=LOWEST)
        if len(drawn.draws):
            weighted = log_assignment.index_select(0, drawn.draws) + drawn.log_weights[:, None]
            others = log_partition(
                components, items.index_select(0, drawn.draws), weighted, temperature, precision=precision,
                hidden=drawn.hidden, bound=bound, scratch=scratch,
            )  # fmt: skip
            log_z = torch.logaddexp(log_z, others.clamp(min=LOWEST))
    weights = histories.weights.to(items.dtype)
    counts = histories.mass.to(items.dtype) * weights
    (total,) = shards.summed(weights @ sums)
    return total - counts @ shards.log_sum_exp(log_z)


def some_users(histories: Histories, users: slice) -> Histories:
    """Consecutive users of a batch, with the weights they have in it; kernels find interactions where they were."""
    if kernels.serve(histories.starts):
        part = replace(
            histories, starts=histories.starts[users], stops=histories.stops[users], rows=None,
            totals=None if histories.totals is None else histories.totals[users],
        )  # fmt: skip
    else:
        part = histories.of(users)
    return replace(part, user_weights=histories.weights[users])
