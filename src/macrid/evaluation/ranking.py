"""NDCG@k and Recall@k over held-out users, as the paper defines them, many users at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.split import HeldOut
from macrid.errors import DataError, SettingsError
from macrid.ops.topk import BLOCK, pairs

if TYPE_CHECKING:
    from macrid.models.base import Recommender

PAPER_METRICS = ("ndcg@100", "recall@20", "recall@50")


@dataclass(frozen=True)
class Metric:
    """Mean over users, and its standard error std / sqrt(users)."""

    mean: float
    se: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.se:.4f}"

    def as_json(self) -> dict[str, float | None]:
        """null if there were no users, since JSON has no NaN."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on held-out users."""

    users: int
    """Users that the means are over."""
    skipped: int
    """Users with nothing to predict: skipped, or counted as zero on request."""
    metrics: dict[str, Metric]
    per_user: dict[str, np.ndarray] = field(repr=False)
    """metric → (users,)"""

    def __getitem__(self, metric: str) -> Metric:
        return self.metrics[metric]

    def __str__(self) -> str:
        rows = [f"{_display(name):<11} {metric}" for name, metric in self.metrics.items()]
        note = f", {self.skipped} with nothing to predict" if self.skipped else ""
        return "\n".join([*rows, f"({self.users:,} users{note})"])

    def as_json(self) -> dict[str, Any]:
        return {
            "users": self.users,
            "skipped": self.skipped,
            "metrics": {name: metric.as_json() for name, metric in self.metrics.items()},
        }


def evaluate(
    model: Recommender,
    heldout: HeldOut,
    metrics: Sequence[str] = PAPER_METRICS,
    *,
    nothing_to_predict: Literal["skip", "zero"] = "skip",
    batch_size: int | None = None,
) -> Evaluation:
    """Fold in every held-out user on the history, rank all other items, and score the ranking on the target.

    metrics: any of "ndcg@k" and "recall@k". Recall is divided by min(k, size of the target).
    nothing_to_predict: skip users without a target, or count them as zero as the authors' code does.
    batch_size: users ranked at once; by default as many as fit in a block of scratch memory.
    """
    if not isinstance(heldout, HeldOut):
        raise DataError(f"cannot evaluate on {type(heldout).__name__}; pass held-out users, such as split.test")
    parsed = [_parse(name) for name in metrics]
    if not parsed:
        raise SettingsError("no metrics given; use some, such as ndcg@100")
    has_target = np.diff(heldout.target.indptr) > 0
    parts: dict[str, list[Tensor]] = {name: [] for name in metrics}
    deepest = min(max(k for _, k in parsed), heldout.history.shape[1])
    users = np.flatnonzero(has_target)
    at_once = batch_size or max(1, BLOCK["cpu"] // deepest)
    for start in range(0, len(users), at_once):
        batch = users[start : start + at_once]
        history, target = heldout.history[batch], heldout.target[batch]
        hits = hits_of(model.rank(history, deepest, hidden=history)[0], target)
        targets = torch.from_numpy(np.diff(target.indptr).astype(np.int64)).to(hits.device)
        for name, (kind, k) in zip(metrics, parsed, strict=True):
            parts[name].append((ndcg if kind == "ndcg" else recall)(hits, targets, k).cpu())
    per_user = {name: torch.cat(values).numpy() if values else np.zeros(0) for name, values in parts.items()}
    if nothing_to_predict == "zero":
        for name, values in per_user.items():
            per_user[name] = np.zeros(len(has_target))
            per_user[name][users] = values
        users = np.arange(len(has_target))
    summary = {name: _summary(values) for name, values in per_user.items()}
    return Evaluation(len(users), int((~has_target).sum()), summary, per_user)


def hits_of(positions: Tensor, target: sp.csr_array) -> Tensor:
    """(users, depth) 1 where a ranked item, of positions (users, depth), is in the target, else 0."""
    users, items = target.shape
    rows, columns = pairs(target, positions.device)
    wanted = (rows * items + columns).sort().values
    ranked = positions + items * torch.arange(users, device=positions.device)[:, None]
    place = torch.searchsorted(wanted, ranked).clamp_(max=len(wanted) - 1)
    return (wanted[place] == ranked).double()


def ndcg(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """DCG@k over the best possible DCG@k, discount 1 / log2(rank + 1): (users,)."""
    depth = min(k, hits.shape[1])
    longest = min(k, max(depth, int(targets.max())))
    discount = 1 / torch.arange(2, longest + 2, device=hits.device, dtype=hits.dtype).log2()
    best = discount.cumsum(0)[targets.clamp(max=k) - 1]
    return (hits[:, :depth] @ discount[:depth]) / best


def recall(hits: Tensor, targets: Tensor, k: int) -> Tensor:
    """Hits in the first k over min(k, targets): (users,)."""
    return hits[:, :k].sum(dim=1) / targets.clamp(max=k)


def _summary(values: np.ndarray) -> Metric:
    if len(values) == 0:
        return Metric(float("nan"), float("nan"))
    return Metric(float(values.mean()), float(values.std() / np.sqrt(len(values))))


def _parse(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(ndcg|recall)@([1-9]\d{0,17})", name)
    if match is None:
        raise SettingsError(f"unknown metric '{name}'; use ndcg@k or recall@k with k at least 1, such as ndcg@100")
    return match[1], int(match[2])


def _display(name: str) -> str:
    kind, _, k = name.partition("@")
    return f"{'NDCG' if kind == 'ndcg' else kind.capitalize()}@{k}"
