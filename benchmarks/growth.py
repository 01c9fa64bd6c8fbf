"""How the time and the memory of a step grow: concepts, items, dimensions, batch and histories, each varied alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from benchmarks.contenders import Ours
from benchmarks.measuring import MIB, exponent, fresh_peak, number, peak, seconds, show
from benchmarks.recommend import long_tailed

MODES: dict[str, dict[str, Any]] = {
    "exact": {},
    "sampled": {"likelihood": "sampled", "negatives": 1024},
}
WORDS = {
    "items": "items",
    "concepts": "concepts",
    "dim": "dimensions",
    "batch": "users a batch",
    "history": "interactions a user",
}
SYMBOLS = {"items": "M", "concepts": "K", "dim": "d", "batch": "B", "history": "n"}


class Point(NamedTuple):
    """The shape of one step."""

    items: int
    concepts: int
    dim: int
    batch: int
    history: int


class Plan(NamedTuple):
    """A base and the sizes of every axis; the last axis is the first to be left out when time runs out."""

    base: Point
    axes: dict[str, tuple[int, ...]]
    sampled: tuple[str, ...]
    precision: str
    users: int


ON_CPU = Plan(
    Point(items=5_000, concepts=7, dim=100, batch=500, history=50),
    {
        "items": (2_000, 5_000, 20_000, 50_000, 100_000, 200_000),
        "concepts": (1, 3, 7, 14, 20),
        "batch": (125, 250, 500, 1_000, 2_000),
        "history": (25, 50, 100, 200),
        "dim": (25, 50, 100, 200, 400),
    },
    sampled=tuple(WORDS), precision="fp32", users=2_000,
)  # fmt: skip
ON_GPU = Plan(
    Point(items=20_000, concepts=7, dim=100, batch=1_024, history=70),
    {
        "items": (2_000, 20_000, 200_000, 2_000_000),
        "batch": (128, 512, 1_024, 4_096),
        "history": (35, 70, 140, 280),
        "concepts": (1, 3, 7, 20),
        "dim": (32, 100, 256),
    },
    sampled=("items",), precision="bf16", users=4_096,
)  # fmt: skip
QUICK = Plan(
    Point(items=300, concepts=3, dim=8, batch=40, history=20),
    {"items": (300, 600), "concepts": (2, 3), "batch": (20, 40), "history": (20, 40), "dim": (4, 8)},
    sampled=("items",), precision="fp32", users=60,
)  # fmt: skip


def measure(plan: Plan, device: torch.device, limit: float) -> Iterator[dict[str, Any]]:
    """Points as they are measured; what is not begun within `limit` seconds is left out and named."""
    started = time.perf_counter()
    known: dict[tuple[Point, str], dict[str, float]] = {}
    result: dict[str, Any] = {"base": plan.base._asdict(), "precision": plan.precision, "points": [], "left_out": []}
    for axis, sizes in plan.axes.items():
        for mode in MODES if axis in plan.sampled else ["exact"]:
            for size in sizes:
                point = plan.base._replace(**{axis: size})
                if (point, mode) not in known:
                    if time.perf_counter() - started > limit:
                        result["left_out"].append(f"{mode}: {size:,} {WORDS[axis]}")
                        continue
                    known[point, mode] = one(point, mode, plan, device)
                result["points"].append({"axis": axis, "size": size, "mode": mode, **known[point, mode]})
            _tell(axis, mode, result["points"])
            yield result
    if result["left_out"]:
        print(f"  left out, for time: {'; '.join(result['left_out'])}", flush=True)
    histories.cache_clear()
    yield result


def one(point: Point, mode: str, plan: Plan, device: torch.device) -> dict[str, float]:
    """Milliseconds of a step (the best on a CPU, the median on a GPU), and MiB above parameters, moments and data."""
    matrix = histories(plan.users, point.items, point.history)
    ours = Ours(
        matrix, device, batch=point.batch, concepts=point.concepts, dim=point.dim, precision=plan.precision,
        **MODES[mode],
    )  # fmt: skip
    first, second, *others = ours.some_steps(8 if device.type == "cuda" else 12)
    ours.step(*first)
    ours.network.zero_grad(set_to_none=True)
    before = fresh_peak(device)
    taken = [seconds(lambda: ours.step(*second), device)]
    scratch = (peak(device) - before) / MIB
    if device.type == "cuda":
        ours.step(*others.pop())  # captured here
        milliseconds = float(np.median([_event_ms(ours, each) for each in others]))
    else:
        enough = time.perf_counter() + 1.0
        for each in others:
            if len(taken) >= 2 and time.perf_counter() > enough:
                break
            taken.append(seconds(lambda each=each: ours.step(*each), device))
        milliseconds = 1e3 * min(taken)
    return {"milliseconds": milliseconds, "scratch_mib": scratch, "interactions": matrix.nnz / matrix.shape[0]}


def _event_ms(ours: Ours, batch: tuple[torch.Tensor, int]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    ours.step(*batch)
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


@lru_cache(maxsize=2)
def histories(users: int, items: int, history: int) -> sp.csr_array:
    return long_tailed(users, items, history)


class Growth(NamedTuple):
    """How time and memory grow along one axis."""

    axis: str
    mode: str
    sizes: tuple[float, ...]
    milliseconds: tuple[float, ...]
    scratch_mib: tuple[float, ...]

    @property
    def of_time(self) -> float | None:
        return exponent(self.sizes, self.milliseconds)

    @property
    def of_time_at_the_end(self) -> float | None:
        """Between the two largest sizes, where what every step costs anyway matters least."""
        return exponent(self.sizes[-2:], self.milliseconds[-2:])

    @property
    def of_memory(self) -> float | None:
        return exponent(self.sizes, self.scratch_mib)


def growths(points: list[dict[str, Any]]) -> list[Growth]:
    """One for every axis and mode; histories by what they turned out to hold."""
    found = []
    for axis, mode in dict.fromkeys((point["axis"], point["mode"]) for point in points):
        own = [point for point in points if (point["axis"], point["mode"]) == (axis, mode)]
        sizes = tuple(point["interactions"] if axis == "history" else point["size"] for point in own)
        columns = (tuple(point[key] for point in own) for key in ("milliseconds", "scratch_mib"))
        found.append(Growth(axis, mode, sizes, *columns))
    return found


def law(symbol: str, value: float | None) -> str:
    return "" if value is None else f"{symbol}^{value:.2f}"


def _tell(axis: str, mode: str, points: list[dict[str, Any]]) -> None:
    for growth in growths(points):
        if (growth.axis, growth.mode) != (axis, mode) or len(growth.sizes) < 2:
            continue
        symbol = SYMBOLS[axis]
        print(
            f"  {mode}, {WORDS[axis]} ({symbol}): time ~ {law(symbol, growth.of_time)},"
            f" at the end {law(symbol, growth.of_time_at_the_end)}, memory ~ {law(symbol, growth.of_memory)}"
        )
        show(
            (f"    {symbol}", *(f"{size:,.0f}" for size in growth.sizes)),
            (
                ("    ms/step", *(number(value, 2) for value in growth.milliseconds)),
                ("    MiB", *(number(value, 1) for value in growth.scratch_mib)),
            ),
        )
