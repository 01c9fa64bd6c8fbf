"""Scores of rankings over held-out users, many users at a time; `macrid.evaluation.metrics` defines them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from macrid import markup
from macrid.data.ids import Ids
from macrid.data.split import HELD_OUT_USERS, HeldOut
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import DataError
from macrid.evaluation.lists import Catalogue, Lists
from macrid.evaluation.metrics import PAPER_METRICS, metric_names, parse, title_of
from macrid.ops.topk import BLOCK

if TYPE_CHECKING:
    from macrid.models.base import Recommender


@dataclass(frozen=True)
class Metric:
    """Mean over users for whom it is defined, and its standard error std / sqrt(users)."""

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
    """metric → (users,), NaN where undefined. Coverage and Gini have jackknife values, whose mean is the metric."""
    protocol: str = HELD_OUT_USERS
    """Of the held-out users: how their histories and targets were divided."""
    user_ids: Ids | None = field(default=None, repr=False, compare=False)
    """Of the users in `per_user`."""

    def __getitem__(self, metric: str) -> Metric:
        return self.metrics[metric]

    def __str__(self) -> str:
        titles = {name: title_of(name) for name in self.metrics}
        width = max(11, *map(len, titles.values()))
        rows = [f"{titles[name]:<{width}} {metric}" for name, metric in self.metrics.items()]
        return "\n".join([*rows, f"({self._users_text()})"])

    def _users_text(self) -> str:
        note = f", {self.skipped} with nothing to predict" if self.skipped else ""
        return f"{self.users:,} users{note}; {self.protocol}"

    def _repr_html_(self) -> str:
        rows = [(title_of(name), f"{each.mean:.4f}", f"± {each.se:.4f}") for name, each in self.metrics.items()]
        shown = markup.table(("metric", "mean", "se"), rows, numbers=("mean", "se"))
        return markup.fragment(shown, markup.heading("", self._users_text()))

    def as_json(self) -> dict[str, Any]:
        return {
            "users": self.users,
            "skipped": self.skipped,
            "protocol": self.protocol,
            "metrics": {name: metric.as_json() for name, metric in self.metrics.items()},
        }

    def to_frame(self, as_: FrameKind = "arrow", *, summary: bool = False) -> Any:
        """One row per user: user and a column per metric; with `summary`, one row per metric: metric, mean, se.

        as_: "arrow" for a `pyarrow.Table`, "pandas" or "polars".
        """
        if summary:
            means, errors = ([getattr(each, part) for each in self.metrics.values()] for part in ("mean", "se"))
            return to_frame(pa.table({"metric": list(self.metrics), "mean": means, "se": errors}), as_)
        ids = Ids.range(self.users) if self.user_ids is None else self.user_ids
        return to_frame(pa.table({"user": ids.array, **self.per_user}), as_)


@overload
def evaluate(
    model: Recommender,
    heldout: HeldOut,
    metrics: str | Sequence[str] = ...,
    *,
    nothing_to_predict: Literal["skip", "zero"] = ...,
    batch_size: int | None = ...,
    per_user: Literal[False] = ...,
) -> Evaluation: ...
@overload
def evaluate(
    model: Recommender,
    heldout: HeldOut,
    metrics: str | Sequence[str] = ...,
    *,
    nothing_to_predict: Literal["skip", "zero"] = ...,
    batch_size: int | None = ...,
    per_user: Literal[True],
    as_: FrameKind = ...,
) -> Any: ...
def evaluate(
    model: Recommender,
    heldout: HeldOut,
    metrics: str | Sequence[str] = PAPER_METRICS,
    *,
    nothing_to_predict: Literal["skip", "zero"] = "skip",
    batch_size: int | None = None,
    per_user: bool = False,
    as_: FrameKind = "arrow",
) -> Evaluation | Any:
    """Fold in every held-out user on the history, rank all other items, and score the ranking on the target.

    metrics: names from `macrid.evaluation.metrics` (docs/metrics.md), such as "ndcg@100" or "diversity:genres@10"; or
        a set of them, "paper" or "graph". Recall is divided by min(k, size of the target).
    nothing_to_predict: skip users without a target, or count them as zero in accuracy as the authors' code does.
    batch_size: users ranked at once; by default as many as fit in a block of scratch memory.
    per_user: return a frame instead, with a row per user: user and a column per metric; as_: "arrow", "pandas" or
        "polars".
    """
    if not isinstance(heldout, HeldOut):
        raise DataError(f"cannot evaluate on {type(heldout).__name__}; pass held-out users, such as split.test")
    parsed = [parse(name) for name in metric_names(metrics)]
    has_target = np.diff(heldout.target.indptr) > 0
    items = heldout.history.shape[1]
    parts: dict[str, list[Tensor]] = {metric.name: [] for metric in parsed}
    deepest = min(max(metric.k for metric in parsed), items)
    users = np.flatnonzero(has_target)
    at_once = batch_size or max(1, BLOCK["cpu"] // deepest)
    catalogue = Catalogue(model, items)
    for start in range(0, len(users), at_once):
        batch = users[start : start + at_once]
        history, target = heldout.history[batch], heldout.target[batch]
        lists = Lists(model.rank(history, deepest, hidden=history)[0], history, target, catalogue)
        for metric in parsed:
            parts[metric.name].append(metric.measure(lists).cpu())
    values = {
        metric.name: metric.finish(torch.cat(parts[metric.name]).numpy(), items) if len(users) else np.zeros(0)
        for metric in parsed
    }
    if nothing_to_predict == "zero":
        for metric in parsed:
            scored = values[metric.name]
            values[metric.name] = np.full(len(has_target), 0.0 if metric.definition.of == "accuracy" else np.nan)
            values[metric.name][users] = scored
        users = np.arange(len(has_target))
    summary = {name: summary_of(value) for name, value in values.items()}
    skipped = int((~has_target).sum())
    result = Evaluation(len(users), skipped, summary, values, heldout.protocol, heldout.users.take(users))
    return result.to_frame(as_) if per_user else result


def summary_of(values: np.ndarray) -> Metric:
    """Of one value per user, NaN where undefined."""
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return Metric(float("nan"), float("nan"))
    return Metric(float(values.mean()), float(values.std() / np.sqrt(len(values))))
