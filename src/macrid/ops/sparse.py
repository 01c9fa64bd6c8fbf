"""Sparse sums over the histories of a batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Histories(NamedTuple):
    """The items of a batch of users, one after the other: user b has items[offsets[b] : offsets[b + 1]]."""

    offsets: Tensor  # (batch + 1,)
    items: Tensor  # (interactions,)
    rows: Tensor  # (interactions,) the user of each

    @property
    def batch(self) -> int:
        return len(self.offsets) - 1


def sum_by_user(values: Tensor, histories: Histories) -> Tensor:
    """(interactions, n) → (batch, n)."""
    return values.new_zeros(histories.batch, values.shape[1]).index_add(0, histories.rows, values)


def weighted_sum(table: Tensor, weights: Tensor, histories: Histories) -> Tensor:
    """sum over a user's items i of weights[i, k] · table[i].

    table (items, dim), weights (interactions, concepts) → (batch, concepts, dim).
    """
    return torch.stack(
        [
            F.embedding_bag(histories.items, table, histories.offsets[:-1], mode="sum", per_sample_weights=column)
            for column in weights.t().contiguous()
        ],
        dim=1,
    )
