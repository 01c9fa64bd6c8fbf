"""Several processes against one: equal weights, time, memory of each, and what the cost model says about them.

    python -m benchmarks.distributed                     # two CPU processes over gloo, about 5 minutes on two cores
    python -m benchmarks.distributed --device cuda       # one GPU: one process, and two that share it
    python -m benchmarks.distributed --quick             # small shapes, to see that it runs
    python -m benchmarks.distributed --extrapolate       # only the table of 1, 8 and 64 cards, by the cost model

Every measurement runs in processes of its own, some steps each, on generated data of ML-1M's shape (exact) and on a
catalogue of a million items and more (sampled). Results go to benchmarks/results/distributed-cpu.json or -cuda.json.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from benchmarks.measuring import circumstances, copy_speed, fresh_peak, peak, product_speed, rounded, seconds, show
from benchmarks.recommend import long_tailed
from safetensors.torch import load_file, save_file

from macrid.data.interactions import csr_from_pairs
from macrid.models.macridvae import MacridNetwork
from macrid.settings import MacridVAESettings, TrainingSettings
from macrid.training import cost, loop
from macrid.training.adam import Adam
from macrid.training.distributed import join
from macrid.training.mesh import Mesh

RESULTS = Path(__file__).parent / "results"
GIB, MIB = 2**30, 2**20
WARM_UP = 3
SHAPES = {
    "exact": {"users": 6_040, "items": 3_700, "history": 95, "batch": 500, "dim": 100, "concepts": 7, "steps": 20},
    "sampled": {
        "users": 20_000,
        "items": 1_000_000,
        "history": 50,
        "batch": 500,
        "dim": 64,
        "concepts": 7,
        "steps": 10,
    },
}
QUICK = {
    "exact": {"users": 300, "items": 200, "history": 20, "batch": 100, "dim": 8, "concepts": 3, "steps": 4},
    "sampled": {"users": 300, "items": 2_000, "history": 20, "batch": 100, "dim": 8, "concepts": 3, "steps": 4},
}
ON_GPU = {
    "exact": {"users": 20_000, "items": 200_000, "history": 70, "batch": 1024, "dim": 100, "concepts": 7, "steps": 20},
    "sampled": {
        "users": 20_000,
        "items": 5_000_000,
        "history": 70,
        "batch": 1024,
        "dim": 100,
        "concepts": 7,
        "steps": 20,
    },
}
H200 = cost.Machine(operations=370e12, memory=4.0e12, overhead=0.3e-3)
"""As measured with one process (docs/performance.md): products of this model in bf16, copies, a captured step."""
IN_A_NODE = replace(H200, network=300e9, latency=20e-6, overhead=5.5e-3)
"""Assumed: eight cards, each with 300 GB/s to the others; steps are not captured in several processes."""
IN_A_CLUSTER = replace(IN_A_NODE, network=40e9, latency=50e-6)
"""Assumed: a 400 Gb/s link for each card."""


def settings_of(job: dict[str, Any]) -> TrainingSettings:
    names = ("likelihood", "item_shards", "batch_size")
    return TrainingSettings.make({name: job[name] for name in names}, precision=job["precision"], clip=5.0)


def work(job: dict[str, Any]) -> None:
    """In one process: some steps, timed; what came out goes to a file."""
    matrix = sp.load_npz(job["matrix"])
    matrix = sp.csr_array(matrix)
    settings = settings_of(job)
    device = torch.device(job["device"])
    ranks = join(job["device"])
    before = fresh_peak(device)
    network = MacridNetwork(matrix.shape[1], MacridVAESettings(concepts=job["concepts"], dim=job["dim"]))
    if ranks.leads:
        network.initialise(torch.Generator().manual_seed(0))
    mesh = None
    if ranks.size > 1:
        mesh = Mesh(matrix.shape[1], settings.item_shards, device)
        mesh.divide(network)
    network.to(device)
    network.precision = settings.precision
    sent = _counted()
    data = loop._data(matrix, device, settings, mesh)
    optimiser = Adam(network.parameters(), 1e-3)
    step = loop._step(network, optimiser, data, torch.Generator(device), settings, mesh)
    step.beta.fill_(1.0)
    users = torch.Generator().manual_seed(1)
    taken: list[float] = []
    worked: list[float] = []
    step.generator.manual_seed(0)
    at_start = peak(device)
    fresh_peak(device)
    for number in range(WARM_UP + job["steps"]):
        batch = torch.randperm(matrix.shape[0], generator=users)[: settings.users_per_step(matrix.shape[0])]
        batch = batch.to(device)
        size = data.sizes([batch])[0] if settings.likelihood == "sampled" else None
        if number == WARM_UP:
            sent.clear()
        working = time.process_time()
        took = seconds(lambda batch=batch, size=size: step(batch, size), device)
        if number >= WARM_UP:
            taken.append(took)
            worked.append(time.process_time() - working)
    result = {
        "seconds": min(taken),  # other work on the machine only adds
        "cpu_seconds": min(worked),
        "memory": peak(device) - before,
        "memory_at_start": at_start - before,
        "sent": sum(sent) / job["steps"],
        "messages": len(sent) / job["steps"],
    }
    if mesh is not None:
        mesh.collect(network)
        result["network"] = _network_speed(device)
    if ranks.leads and job["weights"]:
        state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
        save_file(state, job["weights"])
    Path(f"{job['result']}.{ranks.rank}").write_text(json.dumps(result), encoding="utf-8")


def _counted() -> list[int]:
    """The bytes of every all-reduce from now on."""
    sent: list[int] = []
    all_reduce = dist.all_reduce

    def counted(tensor: torch.Tensor, *more: Any, **named: Any) -> Any:
        sent.append(tensor.nbytes)
        return all_reduce(tensor, *more, **named)

    dist.all_reduce = counted  # type: ignore[assignment]
    return sent


def _network_speed(device: torch.device, megabytes: int = 16) -> dict[str, float]:
    """Bytes per second that a process sends in an all-reduce, and the time of a small one."""
    large, small = torch.ones(megabytes * MIB // 4, device=device), torch.ones(1, device=device)
    times = [
        min(seconds(lambda tensor=tensor: dist.all_reduce(tensor), device) for _ in range(5))
        for tensor in (large, small)
    ]
    size = dist.get_world_size()
    return {"bytes_per_second": 2 * (size - 1) / size * large.nbytes / times[0], "latency": times[1]}


def run(job: dict[str, Any], processes: int, threads: int) -> list[dict[str, Any]]:
    """The results of every process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if processes > 1:
        environment |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", "benchmarks.distributed", "--worker", json.dumps(job)]
    started = [
        subprocess.Popen(
            command,
            env=environment if processes == 1 else {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(processes)
    ]
    codes = [process.wait() for process in started]
    if any(codes):
        raise SystemExit(f"a worker failed: exit codes {codes}")
    return [json.loads(Path(f"{job['result']}.{rank}").read_text(encoding="utf-8")) for rank in range(processes)]


def measure(name: str, shape: dict[str, Any], device: str, folder: Path) -> dict[str, Any]:
    """One process against two, over users and over items."""
    matrix = long_tailed(shape["users"], shape["items"], shape["history"])
    popular = np.random.default_rng(0).permutation(shape["items"])  # anywhere among the items, as in most catalogues
    matrix = csr_from_pairs(matrix.nonzero()[0], popular[matrix.indices], matrix.shape)
    sp.save_npz(folder / "matrix.npz", sp.csr_matrix(matrix), compressed=False)
    common = {
        "matrix": str(folder / "matrix.npz"), "likelihood": name, "batch_size": shape["batch"], "steps": shape["steps"],
        "dim": shape["dim"], "concepts": shape["concepts"], "device": "cpu" if device == "cpu" else "cuda:0",
        "precision": "fp32" if device == "cpu" else "bf16", "result": str(folder / "result"),
    }  # fmt: skip
    ways = {
        "1 process, 1 thread": (1, 1, 1), "1 process, 2 threads": (1, 2, 1),
        "2 processes, users": (2, 1, 1), "2 processes, items": (2, 1, 2),
    }  # fmt: skip
    if device != "cpu":
        ways = {"1 process": (1, 4, 1), "2 processes, users": (2, 4, 1), "2 processes, items": (2, 4, 2)}
    whole = cost.Shape(
        users=matrix.shape[0], items=matrix.shape[1], per_user=matrix.nnz / matrix.shape[0], batch=shape["batch"],
        concepts=shape["concepts"], dim=shape["dim"], likelihood=name,
    )  # fmt: skip
    rows: dict[str, dict[str, Any]] = {}
    for way, (processes, threads, shards) in ways.items():
        weights = folder / f"{processes}-{threads}-{shards}.safetensors"
        job = {**common, "item_shards": shards, "weights": str(weights)}
        results = run(job, processes, threads)
        divided = replace(whole, processes=processes, item_shards=shards)
        model, sent = cost.memory(divided, device, keeps_best=False), cost.network(divided)
        row: dict[str, Any] = {
            "milliseconds": 1e3 * max(result["seconds"] for result in results),
            "cpu_milliseconds": 1e3 * max(result["cpu_seconds"] for result in results),
            "memory_mib": [result["memory"] / MIB for result in results],
            "memory_at_start_mib": [result["memory_at_start"] / MIB for result in results],
            "predicted_memory_mib": model.total / MIB,
            "sent_mib": results[0]["sent"] / MIB,
            "predicted_sent_mib": (sent.over_users + sent.over_items) / MIB,
            "messages": results[0]["messages"],
            "operations": cost.operations(divided, device),
            "network": results[0].get("network"),
        }
        first = folder / "1-1-1.safetensors" if device == "cpu" else folder / "1-4-1.safetensors"
        if weights != first:
            row["largest_difference"] = _difference(first, weights)
        rows[way] = row
    _predict(rows, ways, whole, device)
    reference = rows[next(iter(rows))]["milliseconds"]
    show(
        (name, "ms/step", "faster", "CPU ms", "model", "MiB/process", "model", "MiB sent", "model", "difference"),
        (
            (way, f"{row['milliseconds']:.1f}", f"{reference / row['milliseconds']:.2f}",
             f"{row['cpu_milliseconds']:.1f}",
             f"{row['predicted_milliseconds']:.1f}", " ".join(f"{each:,.0f}" for each in row["memory_mib"]),
             f"{row['predicted_memory_mib']:,.0f}",
             f"{row['sent_mib']:.2f}", f"{row['predicted_sent_mib']:.2f}",
             f"{row['largest_difference']:.1e}" if "largest_difference" in row else "")
            for way, row in rows.items()
        ),
    )  # fmt: skip
    return {"shape": {**shape, "interactions": int(matrix.nnz)}, "rows": rows}


def _predict(rows: dict[str, Any], ways: dict[str, Any], whole: cost.Shape, device: str) -> None:
    """The seconds of each way by the cost model, its one rate taken from the first way alone."""
    target = torch.device(device)
    torch.set_num_threads(1)
    bandwidth = copy_speed(target, 64)
    first = rows[next(iter(rows))]
    base = cost.Machine(product_speed(target, 1024, torch.float32), bandwidth)
    computing = max(1e-9, 1e-3 * first["milliseconds"] - cost.traffic(whole, device) / bandwidth)
    rate = first["operations"] / computing
    for way, (processes, threads, shards) in ways.items():
        speed = rows[way]["network"] or {"bytes_per_second": float("inf"), "latency": 0.0}
        scale = threads if device == "cpu" else 1
        machine = cost.Machine(scale * rate, bandwidth, speed["bytes_per_second"], speed["latency"])
        divided = replace(whole, processes=processes, item_shards=shards)
        rows[way]["predicted_milliseconds"] = 1e3 * cost.seconds(divided, machine, device)
    first["share_of_product_speed"] = rate / base.operations


def _difference(one: Path, other: Path) -> float:
    first, second = load_file(one), load_file(other)
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def on_one_card() -> list[dict[str, Any]]:
    """The cost model against what benchmarks/speed.py measured on one H200."""
    measured = json.loads((RESULTS / "gpu.json").read_text(encoding="utf-8"))
    large, base, rows = measured["large"]["shape"], measured["growth"]["base"], []
    for row in measured["large"]["rows"]:
        likelihood = "exact" if row["name"] == "exact" else "sampled"
        shape = cost.Shape(
            large["users"], large["items"], large["interactions"] / large["users"], large["batch"], large["concepts"],
            large["dim"], likelihood, 8192, has_shares=False,
        )  # fmt: skip
        machine = H200 if likelihood == "exact" else replace(H200, overhead=IN_A_NODE.overhead)
        held = cost.memory(shape, "cuda", keeps_best=False).total / GIB
        rows.append(
            {"items": large["items"], "batch": large["batch"], "likelihood": likelihood,
             "milliseconds": row["milliseconds"], "predicted_milliseconds": 1e3 * cost.seconds(shape, machine, "cuda"),
             "gib": row["peak_gib"], "predicted_gib": held}
        )  # fmt: skip
    for point in measured["growth"]["points"]:
        if point["mode"] == "exact" and point["axis"] in ("items", "batch"):
            now = {**base, point["axis"]: point["size"]}
            shape = cost.Shape(
                20_000, now["items"], point["interactions"], now["batch"], now["concepts"], now["dim"], has_shares=False
            )
            predicted = 1e3 * cost.seconds(shape, H200, "cuda")
            rows.append(
                {"items": now["items"], "batch": now["batch"], "likelihood": "exact",
                 "milliseconds": point["milliseconds"], "predicted_milliseconds": predicted}
            )  # fmt: skip
    show(
        ("one H200: items", "batch", "likelihood", "ms/step", "predicted", "GiB", "predicted"),
        (
            (f"{row['items']:,}", f"{row['batch']:,}", row["likelihood"], f"{row['milliseconds']:.2f}",
             f"{row['predicted_milliseconds']:.2f}", f"{row['gib']:.1f}" if "gib" in row else "",
             f"{row['predicted_gib']:.1f}" if "gib" in row else "")
            for row in rows
        ),
    )  # fmt: skip
    return rows


def extrapolated() -> list[dict[str, Any]]:
    """Steps and epochs on cards that were not measured, by the cost model."""
    rows = []
    for items, likelihood, cards, shards, machine in (
        (5_000_000, "exact", 1, 1, H200), (5_000_000, "exact", 8, 1, IN_A_NODE), (5_000_000, "exact", 8, 8, IN_A_NODE),
        (5_000_000, "sampled", 8, 1, IN_A_NODE), (5_000_000, "sampled", 64, 8, IN_A_CLUSTER),
        (100_000_000, "exact", 8, 8, IN_A_NODE), (100_000_000, "exact", 64, 64, IN_A_CLUSTER),
        (100_000_000, "exact", 64, 8, IN_A_CLUSTER),
        (100_000_000, "sampled", 1, 1, replace(H200, overhead=5.5e-3)), (100_000_000, "sampled", 8, 8, IN_A_NODE),
        (100_000_000, "sampled", 64, 8, IN_A_CLUSTER),
    ):  # fmt: skip
        shape = cost.Shape(
            users=50_000_000, items=items, per_user=20, batch=8192, concepts=10, dim=100, likelihood=likelihood,
            negatives=8192, processes=cards, item_shards=shards,
        )  # fmt: skip
        step, sent, held = cost.seconds(shape, machine, "cuda"), cost.network(shape), cost.memory(shape, "cuda")
        rows.append(
            {
                "items": items, "likelihood": likelihood, "cards": cards, "item_shards": shards,
                "tera_operations": cost.operations(shape, "cuda") / 1e12,
                "memory_gb": held.total / 1e9, "fits": held.total < 0.9 * 141e9,
                "sent_mb": (sent.over_users + sent.over_items) / 1e6, "milliseconds": 1e3 * step,
                "minutes_per_epoch": step * shape.users / shape.batch / 60,
            }
        )  # fmt: skip
    show(
        ("items", "likelihood", "cards", "shards", "Tflop", "GB/card", "fits", "MB sent", "ms/step", "min/epoch"),
        (
            (f"{row['items']:,}", row["likelihood"], str(row["cards"]), str(row["item_shards"]),
             f"{row['tera_operations']:.2f}",
             f"{row['memory_gb']:.1f}", "yes" if row["fits"] else "no", f"{row['sent_mb']:,.0f}",
             f"{row['milliseconds']:.1f}", f"{row['minutes_per_epoch']:.1f}")
            for row in rows
        ),
    )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("exact", "sampled"))
    parser.add_argument("--items", type=int, help="items of the sampled part")
    parser.add_argument("--extrapolate", action="store_true", help="only the table of cards that were not measured")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(json.loads(options.worker))
        return
    found: dict[str, Any] = {"measured": circumstances()}
    if not options.extrapolate:
        shapes = QUICK if options.quick else SHAPES if options.device == "cpu" else ON_GPU
        for name, shape in shapes.items():
            if options.only in (None, name):
                chosen = {**shape, "items": options.items} if options.items and name == "sampled" else shape
                with tempfile.TemporaryDirectory() as folder:
                    found[name] = measure(name, chosen, options.device, Path(folder))
    found["machines"] = {"h200": asdict(H200), "in a node": asdict(IN_A_NODE), "in a cluster": asdict(IN_A_CLUSTER)}
    found["one card"] = on_one_card()
    found["extrapolated"] = extrapolated()
    out = options.out or (
        None if options.quick or options.extrapolate else RESULTS / f"distributed-{options.device}.json"
    )
    if out is not None:
        text = json.dumps(rounded(found), indent=1).replace("Infinity", "null")
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
