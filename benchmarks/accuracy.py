"""Whole trainings in fresh processes: does precision or sampling cost accuracy, and how long does the command take?

    MACRID_DATA=… python -m benchmarks.accuracy --device cuda             # 3 seeds
    MACRID_DATA=… python -m benchmarks.accuracy --only "exact, fp32"      # on a CPU, one of the ways
    MACRID_DATA=… python -m benchmarks.accuracy --at-once 4               # side by side, each on a quarter of the cores

Every run is `macrid train DATA --out … --json --seed S` with nothing else than what is named. All seeds count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
from benchmarks.measuring import circumstances, rounded, show

SAMPLED = ("--likelihood", "sampled", "--negatives", "1024", "--sampling")
WAYS: dict[str, tuple[str, ...]] = {
    "exact, bf16": ("--precision", "bf16"),
    "exact, fp32": ("--precision", "fp32"),
    "sampled 1,024, popularity": (*SAMPLED, "popularity"),
    "sampled 1,024, log-uniform": (*SAMPLED, "log-uniform"),
    "sampled 1,024, uniform": (*SAMPLED, "uniform"),
}


def train(data: str, way: str, seed: int, device: str, also: list[str], cores: list[int]) -> dict[str, Any]:
    """One training from the command line, on these cores; seconds are those of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-m", "macrid", "train", data]
        command += ["--out", f"{folder}/run", "--json", "--seed", str(seed), "--device", device, *WAYS[way], *also]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)
    score = report["test"]["metrics"]["ndcg@100"]
    return {
        "name": way, "seed": seed, "seconds": seconds, "ndcg": score["mean"], "se": score["se"],
        "epochs": report["training"]["epochs"], "training_seconds": report["training"]["seconds"],
        "peak_memory_mb": report["training"]["peak_memory_mb"],
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for every way: means over its seeds, and the slowest seed."""
    lines = []
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        mean = {key: float(np.mean([row[key] for row in own])) for key in ("ndcg", "se", "epochs")}
        taken = [row["seconds"] for row in own if row["seconds"] is not None]
        mean["seconds"], slowest = float(np.mean(taken)), max(taken)
        scores = [row["ndcg"] for row in own]
        spread = {"least": min(scores), "most": max(scores), "slowest": slowest}
        lines.append({"name": name, "seeds": len(own), **mean, **spread})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=WAYS, help="this way, may be given several times")
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side, each on cores of its own")
    parser.add_argument("--epochs", help="fewer, to see that it runs; then nothing is written unless --out is given")
    parser.add_argument("--out", type=Path, help="by default benchmarks/results/accuracy-cpu.json or accuracy-gpu.json")
    asked = parser.parse_args()
    ways = asked.only or [way for way in WAYS if asked.device == "cuda" or way != "exact, bf16"]
    default = Path(__file__).parent / "results" / f"accuracy-{'gpu' if asked.device == 'cuda' else 'cpu'}.json"
    out = asked.out or (None if asked.epochs else default)
    also = ["--epochs", asked.epochs] if asked.epochs else []
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // asked.at_once
    places: SimpleQueue[list[int]] = SimpleQueue()
    for place in range(asked.at_once):
        places.put(cores[place * each : (place + 1) * each])
    measured = circumstances()
    measured["machine"] |= {"cores": each, "threads": each}
    found: dict[str, Any] = {"measured": measured, "data": asked.data, "rows": []}
    if asked.at_once > 1:
        found["note"] = f"{asked.at_once} trainings at a time, each on {each} cores of its own."

    if asked.device == "cuda":  # kernels are compiled once on a machine, not once a training
        for way in ways:
            train(asked.data, way, 0, asked.device, ["--epochs", "1"], cores)

    def one(seed: int, way: str) -> dict[str, Any]:
        place = places.get()
        row = train(asked.data, way, seed, asked.device, also, place)
        places.put(place)
        print(
            f"{way}, seed {seed}: NDCG@100 {row['ndcg']:.4f} ± {row['se']:.4f}, {row['epochs']} epochs,"
            f" {row['seconds']:.1f} s",
            flush=True,
        )
        return row

    with ThreadPoolExecutor(asked.at_once) as pool:
        for row in pool.map(lambda task: one(*task), product(range(asked.seeds), ways)):
            found["rows"].append(row)
            if out is not None:
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(json.dumps(rounded(found), indent=1) + "\n", encoding="utf-8")
    show(
        ("", "seeds", "NDCG@100", "± se", "least–most", "epochs", "seconds", "slowest"),
        (
            (
                line["name"], str(line["seeds"]), f"{line['ndcg']:.4f}", f"{line['se']:.4f}",
                f"{line['least']:.4f}–{line['most']:.4f}", f"{line['epochs']:.0f}", f"{line['seconds']:.1f}",
                f"{line['slowest']:.1f}",
            )
            for line in summary(found["rows"])
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
