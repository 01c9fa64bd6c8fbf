"""Paired tests between models: the same held-out users, the differences of their scores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from macrid import markup
from macrid.data.split import HeldOut
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import DataError, RequestError
from macrid.evaluation.metrics import PAPER_METRICS, title_of
from macrid.evaluation.ranking import Evaluation, evaluate

if TYPE_CHECKING:
    from macrid.models.base import Recommender

LEVEL = 0.95  # of intervals
SIGNS_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class Difference:
    """What the second model scores more than the first, in one metric, on the same users."""

    metric: str
    first: str
    second: str
    mean: float
    """Of second − first, over users for whom both are defined."""
    se: float
    low: float
    """End of the 95 % interval by Student's t."""
    high: float
    p: float
    """How often as large a mean arises if the sign of every user's difference is drawn at random."""
    p_adjusted: float
    """The same after Holm's correction for all differences of the comparison."""
    users: int

    def as_json(self) -> dict[str, Any]:
        return {name: None if value != value else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Comparison:
    """Scores of several models on the same held-out users, and the differences of all pairs of them."""

    evaluations: dict[str, Evaluation]
    differences: tuple[Difference, ...]
    """By metric, then by pair."""
    draws: int | None = field(default=None, compare=False)
    """Random signs behind each p; None if all of them were tried."""

    def __str__(self) -> str:
        first = next(iter(self.evaluations.values()))
        name_width = max(map(len, self.evaluations))
        lines = []
        for metric in first.metrics:
            lines.append(title_of(metric))
            lines += [f"  {name:<{name_width}}  {each[metric]}" for name, each in self.evaluations.items()]
            lines += [f"  {_text(each)}" for each in self.differences if each.metric == metric]
        note = f", {first.skipped} with nothing to predict" if first.skipped else ""
        return "\n".join(
            [*lines, f"({first.users:,} users{note}; 95 % intervals; p by random signs, Holm's correction)"]
        )

    def _repr_html_(self) -> str:
        scores = [
            (title_of(metric), *(str(each[metric]) for each in self.evaluations.values()))
            for metric in next(iter(self.evaluations.values())).metrics
        ]
        columns = "metric", "difference", "mean", "95 % interval", "p"
        rows = [
            (
                title_of(each.metric),
                f"{each.second} − {each.first}",
                f"{each.mean:+.4f}",
                f"{each.low:+.4f} to {each.high:+.4f}",
                _p_text(each),
            )
            for each in self.differences
        ]
        return markup.fragment(
            markup.table(("metric", *self.evaluations), scores, numbers=[*self.evaluations]),
            markup.table(columns, rows, numbers=columns[2:]),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "models": {name: each.as_json() for name, each in self.evaluations.items()},
            "differences": [each.as_json() for each in self.differences],
        }

    def to_frame(self, as_: FrameKind = "arrow") -> Any:
        """One row per metric and pair of models: the fields of `Difference`; as_: "arrow", "pandas" or "polars"."""
        names = list(Difference.__dataclass_fields__)
        return to_frame(pa.table({name: [getattr(each, name) for each in self.differences] for name in names}), as_)


def compare(
    models: Mapping[str, Recommender],
    heldout: HeldOut,
    metrics: str | Sequence[str] = PAPER_METRICS,
    *,
    nothing_to_predict: Literal["skip", "zero"] = "skip",
    draws: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Score models on the same held-out users and test the differences of every pair of them.

    models: name → model, two or more, over the same items in the same order.
    metrics, nothing_to_predict: as for `macrid.evaluate`.
    draws: random signs for p, or all 2^users of them if these are fewer.
    Differences in coverage and Gini are those of jackknife values, so their intervals and p are approximate.
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise RequestError("give at least two models by name, such as {'best': model, 'ease': other}")
    if draws < 1:
        raise RequestError(f"draws is {draws}; it must be at least 1")
    (first_name, first), *others = models.items()
    for name, model in others:
        if model.items != first.items:
            raise DataError(
                f"'{name}' and '{first_name}' have different items, or in a different order; train both on one split"
            )
    evaluations = {
        name: evaluate(model, heldout, metrics, nothing_to_predict=nothing_to_predict) for name, model in models.items()
    }
    return compared(evaluations, draws=draws, seed=seed)


def compared(evaluations: Mapping[str, Evaluation], *, draws: int = 10_000, seed: int = 0) -> Comparison:
    """The differences of evaluations of the same users."""
    metrics = list(next(iter(evaluations.values())).metrics)
    pairs = list(itertools.combinations(evaluations, 2))
    found, exact = [], False
    for metric, (first, second) in itertools.product(metrics, pairs):
        values = evaluations[second].per_user[metric] - evaluations[first].per_user[metric]
        values = values[~np.isnan(values)]
        p, exact = sign_flip(values, draws, seed)
        found.append((metric, first, second, *_interval(values), p, len(values)))
    adjusted = holm(np.array([row[-2] for row in found]))
    rows = zip(found, adjusted.tolist(), strict=True)
    differences = tuple(Difference(*row[:-1], p_adjusted, row[-1]) for row, p_adjusted in rows)
    return Comparison(dict(evaluations), differences, None if exact else draws)


def sign_flip(values: np.ndarray, draws: int = 10_000, seed: int = 0) -> tuple[float, bool]:
    """How often random signs give the values (users,) a mean as far from 0, and whether all signs were tried.

    With random signs, the signs as they are count as one of them, so p is never 0.
    """
    users = len(values)
    if not users:
        return float("nan"), True
    scale = float(np.abs(values).max())
    values = values / scale if scale else values
    limit = abs(float(values.sum())) - 1e-9 * users
    exact = users < 63 and 2**users <= draws
    if exact:
        signs = 1.0 - 2.0 * ((np.arange(2**users)[:, None] >> np.arange(users)) & 1)
        return float((np.abs(signs @ values) >= limit).mean()), True
    random, bytes_each, reached = np.random.default_rng(seed), -(-users // 8), 0
    for start in range(0, draws, at_once := max(1, SIGNS_AT_ONCE // users)):
        count = min(at_once, draws - start)
        bits = np.unpackbits(random.integers(0, 256, (count, bytes_each), dtype=np.uint8), axis=1, count=users)
        sums = values.sum() - 2 * (bits.astype(np.float64) @ values)
        reached += int((np.abs(sums) >= limit).sum())
    return (1 + reached) / (1 + draws), False


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down correction of p-values (tests,); NaN stays NaN and is no test."""
    adjusted = p.copy()
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def _interval(values: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, standard error, and the ends of the interval; NaN where there are too few values."""
    unknown = float("nan")
    if len(values) < 2:
        return float(values.mean()) if len(values) else unknown, unknown, unknown, unknown
    mean, se = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    reach = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * se
    return mean, se, mean - reach, mean + reach


def _text(each: Difference) -> str:
    return f"{each.second} − {each.first}: {each.mean:+.4f} ({each.low:+.4f} to {each.high:+.4f}), p {_p_text(each)}"


def _p_text(each: Difference) -> str:
    return f"{each.p_adjusted:.3f}" if not each.p_adjusted < 0.001 else "< 0.001"
