"""How long an epoch takes and what memory it needs: macrid against the dense ways, and against the machine's floor.

The floor is the time of the matrix products that an exact likelihood cannot do without, at the speed of a large product
measured in the same run: the logits and two products of the gradients, and on a GPU, which computes the logits twice
rather than store them, one more. On a GPU the time of what Adam must read and write is added.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import scipy.sparse as sp
import torch
from benchmarks.contenders import BF16, DENSE_LOOP, EXACT, ON_CPU, Dense, Ours
from benchmarks.measuring import (
    MIB,
    copy_speed,
    fresh_peak,
    interleaved,
    number,
    peak,
    percent,
    product_speed,
    seconds,
    show,
    times,
)

from macrid.data import catalog
from macrid.data.shop import generate

CONCEPTS, DIM = 7, 100
ADAM_PASSES = 8  # gradient written and read, parameter and two moments read and written
DENSE_STEPS = 20  # timed on a GPU, and scaled to an epoch
CHILD_STEPS = 4  # of a contender whose memory is measured
PRODUCT = "product"


def ml_1m() -> tuple[str, sp.csr_array]:
    """Train users of ML-1M with ratings of 3 and more, or of a shop of that shape."""
    if catalog.status(catalog.entry("ml-1m-ge3")) == "at hand":
        return "ml-1m-ge3", catalog.load("ml-1m-ge3").train.matrix
    return "the built-in shop", generate(6_038, 3_605, interactions=836_452).interactions.matrix[:5_038]


def ml_20m() -> tuple[str, sp.csr_array]:
    """A shop of the shape of ML-20M without its 20,000 held-out users."""
    return "the built-in shop", generate(136_677, 20_108, interactions=9_990_000).interactions.matrix[:116_677]


def twenty_thousand() -> tuple[str, sp.csr_array]:
    """Few users of a shop of 20,000 items, as an epoch of the dense loop takes long."""
    return "the built-in shop", generate(6_000, 20_000, interactions=420_000).interactions.matrix[:2_000]


def small() -> tuple[str, sp.csr_array]:
    return "the built-in shop", generate(400, 200).interactions.matrix


def on_cpu(quick: bool, compiled: bool, rounds: int = 5, *, wide: bool = False) -> Iterator[dict[str, Any]]:
    """All contenders, their epochs in turn, each one's memory in a process of its own; wide: those that matter."""
    device = torch.device("cpu")
    data, matrix = small() if quick else twenty_thousand() if wide else ml_1m()
    batch = 100 if quick else 500
    names = [name for name in ON_CPU if compiled or "compiled" not in name]
    names = [EXACT, BF16, DENSE_LOOP] if wide else names
    contenders = {name: _make(name, matrix, device, batch) for name in names}
    speeds: list[float] = []
    works: dict[str, Callable[[], object]] = {name: contender.epoch for name, contender in contenders.items()}
    works[PRODUCT] = lambda: speeds.append(product_speed(device, 256 if quick else 2048, torch.float32, times=3))
    all_seconds = interleaved(works, 1 if quick else rounds, device)
    floor = _flop(matrix, products=3) / max(speeds)
    result = {
        "shape": {**_shape(data, matrix), "batch": batch},
        "floor": {"tflop": _flop(matrix, products=3) / 1e12, "tflop_per_s": max(speeds) / 1e12, "seconds": floor},
        "rows": [],
    }
    memory = {name: None if quick else _memory_of_child(name, matrix, batch) for name in names}
    best = {name: min(all_seconds[name]) for name in names}
    for name in names:
        result["rows"].append(
            {
                "name": name, "batch": batch, "seconds": best[name], "all_seconds": all_seconds[name],
                "speed_up": best[DENSE_LOOP] / best[name],
                "of_floor": None if "sampled" in name else floor / best[name],
                "peak_mib": memory[name],
                "memory_ratio": memory[name] / memory[DENSE_LOOP] if memory[name] and memory[DENSE_LOOP] else None,
            }
        )  # fmt: skip
    _tell(result)
    yield result


def on_gpu(quick: bool, device: torch.device, compiled: bool = True) -> Iterator[dict[str, Any]]:
    """macrid by batch size and precision, then the dense ways, which are timed for some steps only."""
    data, matrix = small() if quick else ml_20m()
    batches = (100, 200, 400) if quick else (512, 1024, 4096)
    speed, bandwidth = _speeds(quick, device)
    result: dict[str, Any] = {
        "shape": _shape(data, matrix),
        "floor": {
            "tflop": _flop(matrix, products=4) / 1e12,
            "tflop_per_s": speed / 1e12,
            "gb_per_s": bandwidth / 1e9,
            "seconds": _flop(matrix, products=4) / speed,
        },
        "rows": [],
    }
    print(f"  {matrix.shape[0]:,} users, {matrix.shape[1]:,} items, {matrix.nnz:,} interactions; {_floor(result)}")
    for batch, precision in [*((b, "bf16") for b in batches), (batches[1], "tf32"), (batches[1], "fp32")]:
        row = _attempt(f"macrid, {precision}", batch, lambda b=batch, p=precision: _ours_on_gpu(matrix, device, b, p))
        if "seconds" in row:
            row["adam_seconds"] = row["steps"] * ADAM_PASSES * row["parameter_mib"] * MIB / bandwidth
            row["of_floor"] = (result["floor"]["seconds"] + row["adam_seconds"]) / row["seconds"]
        result["rows"].append(row)
        yield result
    ways: dict[str, dict[str, Any]] = {DENSE_LOOP: {}, "dense loop, tf32": {"tf32": True}}
    if compiled:
        ways["dense loop, tf32, compiled"] = {"tf32": True, "compiled": True}
    for name, options in ways.items():
        row = _attempt(name, batches[1], lambda o=options: _dense_on_gpu(matrix, device, batches[1], o))
        result["rows"].append(row)
        _compare(result["rows"])
        yield result
    _tell(result)


def _ours_on_gpu(matrix: sp.csr_array, device: torch.device, batch: int, precision: str) -> dict[str, Any]:
    before = fresh_peak(device)
    ours = Ours(matrix, device, batch=batch, precision=precision)
    for _ in range(3):  # a batch size is captured at its third step, and the last batch of an epoch has its own
        ours.epoch()
    used = peak(device) - before
    taken = [seconds(ours.epoch, device) for _ in range(3)]
    return {
        "seconds": min(taken), "all_seconds": taken, "steps": -(-matrix.shape[0] // batch),
        **_memory(used, ours.parameter_bytes, ours.data_bytes, device),
    }  # fmt: skip


def _dense_on_gpu(matrix: sp.csr_array, device: torch.device, batch: int, options: dict[str, Any]) -> dict[str, Any]:
    before = fresh_peak(device)
    dense = Dense(matrix, device, batch=batch, **options)
    some = matrix[: min(DENSE_STEPS, matrix.shape[0] // batch) * batch]  # full batches: one shape to compile
    dense.epoch(some[: 2 * batch])
    taken = [seconds(lambda: dense.epoch(some), device) * matrix.shape[0] / some.shape[0] for _ in range(2)]
    memory = _memory(peak(device) - before, dense.parameter_bytes, 8 * some.shape[0] + 4 * some.nnz, device)
    return {"seconds": min(taken), "all_seconds": taken, "scaled_from_steps": some.shape[0] // batch, **memory}


def _memory(used: int, parameters: int, data: int, device: torch.device) -> dict[str, float]:
    """Above the parameters and the interactions; Adam's moments are twice the parameters."""
    found = {
        "parameter_mib": parameters / MIB,
        "moments_mib": 2 * parameters / MIB,
        "interactions_mib": data / MIB,
        "peak_mib": (used - parameters - data) / MIB,
        "peak_without_moments_mib": (used - 3 * parameters - data) / MIB,
    }
    if device.type == "cuda":
        found["reserved_mib"] = torch.cuda.max_memory_reserved(device) / MIB
    return found


def _attempt(name: str, batch: int, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A row, printed at once; one that fails says why and does not take the others with it."""
    try:
        row = {"name": name, "batch": batch, **work()}
        print(f"  {name}, batch {batch:,}: {row['seconds']:.4f} s, {row['peak_mib']:,.0f} MiB", flush=True)
    except Exception as error:
        row = {"name": name, "batch": batch, "failed": f"{type(error).__name__}: {error}"[:300]}
        print(f"  {name}, batch {batch:,}: failed, {row['failed']}", flush=True)
    gc.collect()
    return row


def _compare(rows: list[dict[str, Any]]) -> None:
    """Fill in the ratios to the dense loop."""
    loop = next(row for row in rows if row["name"] == DENSE_LOOP)
    for row in rows:
        if "seconds" in row and "seconds" in loop:
            row["speed_up"] = loop["seconds"] / row["seconds"]
            row["memory_ratio"] = row["peak_mib"] / loop["peak_mib"] if loop["peak_mib"] > 0 else None


def _speeds(quick: bool, device: torch.device) -> tuple[float, float]:
    size, megabytes = (256, 4) if quick else (8192, 1024)
    return product_speed(device, size, torch.bfloat16), copy_speed(device, megabytes)


def _flop(matrix: sp.csr_array, products: int) -> float:
    return products * 2.0 * matrix.shape[0] * CONCEPTS * matrix.shape[1] * DIM


def _shape(data: str, matrix: sp.csr_array) -> dict[str, Any]:
    users, items = matrix.shape
    return {
        "data": data, "users": users, "items": items, "interactions": int(matrix.nnz), "concepts": CONCEPTS, "dim": DIM,
    }  # fmt: skip


def _floor(result: dict[str, Any]) -> str:
    floor = result["floor"]
    return f"floor {floor['seconds']:.4f} s: {floor['tflop']:.3g} TFLOP at {floor['tflop_per_s']:.3g} TFLOP/s"


def _tell(result: dict[str, Any]) -> None:
    shape = result["shape"]
    print(f"  {shape['data']}: {shape['users']:,} users, {shape['items']:,} items; {_floor(result)}")
    show(
        ("", "batch", "s/epoch", "speed-up", "of floor", "peak MiB", "memory"),
        (
            (
                row["name"], f"{row['batch']:,}", number(row["seconds"], 3), times(row.get("speed_up")),
                percent(row.get("of_floor")), number(row["peak_mib"], 0), percent(row.get("memory_ratio")),
            )
            for row in result["rows"]
            if "seconds" in row
        ),
    )  # fmt: skip


# Memory on a CPU


def _memory_of_child(name: str, matrix: sp.csr_array, batch: int) -> float | None:
    """Peak MiB of some steps above what the process had after its imports and the data, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "matrix.npz"
        sp.save_npz(file, matrix[: CHILD_STEPS * batch], compressed=False)
        command = [sys.executable, "-m", "benchmarks.epochs", name, str(file), str(batch)]
        root = Path(__file__).parents[1]
        paths = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            command, cwd=root, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
        )
    if done.returncode:
        print(f"  {name}: its memory could not be measured: {done.stderr.strip().splitlines()[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def child(name: str, file: str, batch: int) -> float:
    device = torch.device("cpu")
    matrix = sp.csr_array(sp.load_npz(file))
    _make(name, generate(60, 80).interactions.matrix, device, 20).epoch()  # what torch loads at its first step
    before = fresh_peak(device)
    _make(name, matrix, device, batch).epoch()
    return (peak(device) - before) / MIB


def _make(name: str, matrix: sp.csr_array, device: torch.device, batch: int) -> Ours | Dense:
    kind, options = ON_CPU[name]
    return kind(matrix, device, batch=batch, concepts=CONCEPTS, dim=DIM, **options)


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
