"""How well hidden items are ranked: from hits (users, depth), 1 where a ranked item is in the target, and the sizes of
the targets (users,), all at least 1. Each function returns (users,)."""

from __future__ import annotations

import torch
from torch import Tensor


def ndcg(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """DCG@k over the best possible DCG@k, discount 1 / log2(rank + 1)."""
    depth = min(k, hits.shape[1])
    longest = min(k, max(depth, int(targets.max())))
    discount = 1 / torch.arange(2, longest + 2, device=hits.device, dtype=hits.dtype).log2()
    best = discount.cumsum(0)[targets.clamp(max=k) - 1]
    return (hits[:, :depth] @ discount[:depth]) / best


def recall(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """Hits in the first k over min(k, targets)."""
    return hits[:, :k].sum(dim=1) / targets.clamp(max=k)


def recall_all(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """Hits in the first k over all targets."""
    return hits[:, :k].sum(dim=1) / targets


def precision(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """Hits in the first k over k."""
    return hits[:, :k].sum(dim=1) / k


def average_precision(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """Sum over hits in the first k of the precision at their rank, over min(k, targets)."""
    first = hits[:, :k]
    return (first * first.cumsum(dim=1) / _ranks(first)).sum(dim=1) / targets.clamp(max=k)


def reciprocal_rank(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """1 / rank of the first hit, 0 without one in the first k."""
    first = hits[:, :k]
    return (first / _ranks(first)).amax(dim=1)


def hit(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """1 with a hit in the first k, else 0."""
    return hits[:, :k].amax(dim=1)


def _ranks(hits: Tensor) -> Tensor:
    return torch.arange(1, hits.shape[1] + 1, device=hits.device, dtype=hits.dtype)
