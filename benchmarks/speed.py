"""How fast macrid is and what memory it needs, as ratios measured in one run.

    python -m benchmarks.speed                                # CPU, under 10 minutes on two cores
    python -m benchmarks.speed --device cuda                  # GPU, about 4 minutes on an H200
    python -m benchmarks.speed --only growth --quick          # one part; small shapes, to see that it runs

Parts: epoch (against the dense ways and the machine's floor), growth (of a step with every size), recommend, and on a
GPU large (10 million items). Everything measured goes into a JSON file, part by part, of which benchmarks/report.py
makes docs/performance.md. With MACRID_DATA set and ML-1M in it, the CPU's epoch is on the real data.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import scipy.sparse as sp
import torch
from benchmarks import epochs, growth, recommend
from benchmarks.contenders import Ours
from benchmarks.measuring import circumstances, fresh_peak, number, peak, rounded, seconds, show, times

from macrid.data.shop import generate

RESULTS = Path(__file__).parent / "results"
GIB = 2**30
Part = Callable[[], Iterator[dict[str, Any]]]


def parts(device: torch.device, *, quick: bool = False, compiled: bool = False, shop: bool = False) -> dict[str, Part]:
    """What there is to measure on a device. A part yields what it has found so far, more each time."""
    if device.type == "cpu":
        return {
            "epoch": partial(epochs.on_cpu, quick, compiled),
            "wide": partial(epochs.on_cpu, quick, False, rounds=3, wide=True),
            "growth": partial(growth.measure, growth.QUICK if quick else growth.ON_CPU, device, 240.0),
            "recommend": partial(recommending, device, *((200, 500, 5) if quick else (5_000, 20_000, 50))),
        }
    return {
        "epoch": partial(epochs.on_gpu, quick, device, compiled=not quick),
        "large": partial(large, device, 20_000 if quick else 10_000_000, shop),
        "recommend": partial(recommending, device, *((500, 500, 5) if quick else (100_000, 20_000, 50))),
        "growth": partial(growth.measure, growth.QUICK if quick else growth.ON_GPU, device, 75.0),
    }


def recommending(device: torch.device, users: int, items: int, sample: int) -> Iterator[dict[str, Any]]:
    """All users at once against one at a time, and that the dense way."""
    rows = recommend.measure(users, items, device.type, sample)
    show(
        ("", "users", "seconds", "users/s", "at once is"),
        (
            (f"{row.assignment}, {row.way}", f"{row.users:,}", number(row.seconds), number(row.users_per_second, 0),
             times(row.speed_up))
            for row in rows
        ),
    )  # fmt: skip
    yield {"shape": {"users": users, "items": items, "n": recommend.N}, "rows": [row._asdict() for row in rows]}


def large(
    device: torch.device, items: int, shop: bool, users: int = 20_000, batch: int = 512
) -> Iterator[dict[str, Any]]:
    """A step over a catalogue that no dense way could hold, exact and sampled."""
    matrix = generate(users, items).interactions.matrix if shop else recommend.long_tailed(users, items)
    result: dict[str, Any] = {
        "shape": {"data": "the built-in shop" if shop else "long-tailed", "users": users, "items": items,
                  "interactions": int(matrix.nnz), "concepts": 7, "dim": 100, "batch": batch},
        "rows": [],
    }  # fmt: skip
    for name, options in (
        ("exact", {}),
        ("sampled, 8,192 negatives", {"likelihood": "sampled", "negatives": 8192, "sampling": "uniform"}),
    ):
        result["rows"].append({"name": name, **_steps(matrix, device, batch, options)})
        row = result["rows"][-1]
        what = f"{items:,} items, {name}: {row['milliseconds']:.2f} ms a step, peak {row['peak_gib']:.1f} GiB"
        print(f"  {what}", flush=True)
        yield result


def _steps(matrix: sp.csr_array, device: torch.device, batch: int, options: dict[str, Any]) -> dict[str, float]:
    """The median of some steps, each waited for, and the peak of all memory."""
    fresh_peak(device)
    ours = Ours(matrix, device, batch=batch, precision="bf16", **options)
    steps = ours.some_steps(3 + 15)
    for step in steps[:3]:  # the third one is captured
        ours.step(*step)
    taken = [seconds(partial(ours.step, *step), device) for step in steps[3:]]
    row = {"milliseconds": 1e3 * float(np.median(taken)), "peak_gib": peak(device) / GIB}
    if device.type == "cuda":
        row["reserved_gib"] = torch.cuda.max_memory_reserved(device) / GIB
    return row


def run(asked: dict[str, Part], out: Path | None, quick: bool) -> bool:
    """All parts, one after the other; False if one failed."""
    about = circumstances()
    named = {**about["machine"], **about["versions"]}
    print("; ".join(f"{key} {value}" for key, value in named.items() if value))
    fine = True
    for name, part in asked.items():
        print(f"{name}:", flush=True)
        started = time.perf_counter()
        try:
            for found in part():
                save(out, name, {"measured": about, "quick": quick, **found})
        except Exception:
            traceback.print_exc()
            fine = False
        print(f"  ({time.perf_counter() - started:.0f} s)", flush=True)
    return fine


def save(out: Path | None, name: str, found: dict[str, Any]) -> None:
    """Put a part into the file, beside the parts that are there."""
    if out is None:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    everything = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    everything[name] = rounded(found)
    out.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="by default results/cpu.json or gpu.json; none with --quick")
    parser.add_argument("--only", action="append", metavar="PART", help="this part, may be given several times")
    parser.add_argument("--quick", action="store_true", help="small shapes, in seconds")
    parser.add_argument("--compiled", action="store_true", help="on a CPU: the dense loop by torch.compile as well")
    parser.add_argument("--shop", action="store_true", help="10 million items of the built-in shop, drawn in 30 s")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here")
    there = parts(device, quick=asked.quick, compiled=asked.compiled, shop=asked.shop)
    if unknown := set(asked.only or ()) - set(there):
        parser.error(f"no part {', '.join(sorted(unknown))} on {asked.device}; there are {', '.join(there)}")
    default = None if asked.quick else RESULTS / ("cpu.json" if device.type == "cpu" else "gpu.json")
    chosen = {name: part for name, part in there.items() if not asked.only or name in asked.only}
    sys.exit(0 if run(chosen, asked.out or default, asked.quick) else 1)


if __name__ == "__main__":
    main()
