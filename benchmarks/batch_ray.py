"""Lists for many users: one process as it is, one process with one thread, and Ray on this machine, one worker killed.

    python -m benchmarks.batch_ray                                       # 20,000 users, a few minutes
    python -m benchmarks.batch_ray --users 1000000 --items 20000         # 3 GB of disk in --folder

Each way is the whole `macrid recommend` of a run and a Parquet file of shuffled events: start, reading, lists, writing.
Ways take turns. Weights are random, as the time does not depend on what was learned: 7 concepts, 100 dimensions, 32
neighbours of each item. Histories have about 30 items. On Ray, a worker gets SIGKILL when some parts are written; then
every user must have a list, once, with the items that one process found. Results: benchmarks/results/batch-ray.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import macrid  # isort: skip  (before torch, whose threads it sets)
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from benchmarks.measuring import circumstances, rounded, show
from benchmarks.processes import below
from benchmarks.recommend import long_tailed

from macrid import runs
from macrid.data.ids import Ids
from macrid.models.neighbours import Neighbours

CONCEPTS, HISTORY, N, NEIGHBOURS = 7, 30, 50, 32
RESULTS = Path(__file__).parent / "results" / "batch-ray.json"
ONE, SINGLE, RAY = "one process", "one process, one thread", "Ray, a worker killed"


def make_run(folder: Path, items: int) -> None:
    """A run of a model with random weights."""
    model = macrid.MacridVAE(concepts=CONCEPTS)
    model.items = Ids([f"item-{place:07d}" for place in range(items)])
    model.popularity = np.arange(items)[::-1].copy()
    model.table = pa.table({"title": [f"The title of item {place}" for place in range(items)]})
    model.network = model._build(items)
    model.network.initialise(torch.Generator().manual_seed(0))
    random = np.random.default_rng(0)
    sources, weights = random.integers(0, items, (items, NEIGHBOURS)), 0.1 * random.random((items, NEIGHBOURS))
    model.neighbours = Neighbours._from_columns(torch.from_numpy(sources), torch.from_numpy(weights).float())
    runs.save(model, folder)


def make_events(path: Path, users: int, items: int) -> int:
    """Shuffled events; returns how many."""
    histories = long_tailed(users, items, HISTORY)
    order = np.random.default_rng(1).permutation(histories.nnz)
    rows = np.repeat(np.arange(users), np.diff(histories.indptr))[order]
    names = pa.array([f"item-{place:07d}" for place in range(items)])
    columns = {"user_id": pa.array(rows), "item_id": names.take(pa.array(histories.indices[order]))}
    pq.write_table(pa.table(columns), path, row_group_size=1 << 20)
    return int(histories.nnz)


def measure(way: str, run: Path, events: Path, output: Path, parts: int) -> dict[str, Any]:
    """Seconds of the whole command, and its peak of memory without that of the workers."""
    command = [
        sys.executable,
        "-m",
        "macrid",
        "recommend",
        run,
        "--input",
        events,
        "--output",
        output,
        "-n",
        N,
        "--json",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {"OMP_NUM_THREADS": "1"} if way == SINGLE else {}
    command += ["--ray", "local", "--parts", parts] if way == RAY else []
    begin = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    killed = kill_one(process, output) if way == RAY else None
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{way}: exit status {status}"
    taken = time.perf_counter() - begin
    return {"way": way, "seconds": taken, "peak_mb": usage.ru_maxrss / 1024, "killed": killed, **json.loads(printed)}


def kill_one(process: subprocess.Popen, output: Path) -> int:
    """Kill a worker that is busy, when at least two parts are written; returns how many were."""
    while True:
        written = len(list(output.glob("part-*.parquet")))
        busy = below(process.pid, "ray::MapWorker(MapBatches(Worker)).submit")
        if written >= 2 and busy:
            os.kill(busy[0], signal.SIGKILL)
            return written
        assert process.poll() is None, "it ended before a worker could be killed"
        time.sleep(0.05)


def compare(whole: Path, parts: Path, users: int, items: int) -> dict[str, Any]:
    """Every user once in the parts, with the items of the whole; the share of places that agree."""
    names = pa.array([f"item-{place:07d}" for place in range(items)])
    found = np.full((users, N), -1, np.int32)
    for user, rank, item in rows_of([whole], names):
        found[user, rank - 1] = item
    assert (found >= 0).all(), "one process left somebody out"
    times, same = np.zeros((users, N), np.int8), 0
    for user, rank, item in rows_of(sorted(parts.glob("part-*.parquet")), names):
        np.add.at(times, (user, rank - 1), 1)
        same += int((found[user, rank - 1] == item).sum())
    missing, twice = int((times == 0).sum()), int((times > 1).sum())
    assert (missing, twice) == (0, 0), f"{missing} rows are missing, {twice} are there twice"
    agreement = same / found.size
    assert agreement > 0.999, f"only {agreement:.2%} of the places agree"  # rounding may swap neighbours
    return {"missing": missing, "twice": twice, "agreement": agreement}


def rows_of(files: list[Path], names: pa.Array) -> Any:
    """User, rank and position of the item, some rows at a time."""
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(1 << 21, columns=["user", "rank", "item"]):
            item = pc.index_in(batch.column("item"), value_set=names).to_numpy()
            yield batch.column("user").to_numpy(), batch.column("rank").to_numpy(), item


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to put some GB for a while")
    parser.add_argument("--ways", nargs="+", default=[ONE, SINGLE, RAY], choices=[ONE, SINGLE, RAY])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder, prefix="batch-ray-") as name:
        folder = Path(name)
        make_run(folder / "run", asked.items)
        events = make_events(folder / "events.parquet", asked.users, asked.items)
        print(f"{asked.users:,} users, {events:,} events, {asked.items:,} items, {N} recommended", flush=True)
        rows, agreement = [], None
        outputs = {ONE: folder / "one.parquet", SINGLE: folder / "single.parquet", RAY: folder / "parts"}
        for _ in range(asked.rounds):
            for way in asked.ways:
                output = outputs[way]
                shutil.rmtree(output, ignore_errors=True)
                output.unlink(missing_ok=True)
                rows.append(measure(way, folder / "run", folder / "events.parquet", output, max(24, events // 200_000)))
                print(f"  {way}: {rows[-1]['seconds']:.1f} s", flush=True)
            if {ONE, RAY} <= {*asked.ways}:
                agreement = compare(outputs[ONE], outputs[RAY], asked.users, asked.items)
    best = {way: min(row["seconds"] for row in rows if row["way"] == way) for way in asked.ways}
    show(
        ("way", "seconds", "users/s", "Ray is"),
        [
            (w, f"{s:.1f}", f"{asked.users / s:,.0f}", f"{s / best[RAY]:.2f}×" if RAY in best else "")
            for w, s in best.items()
        ],
    )
    print(f"  {agreement}")
    result = {"asked": {k: v for k, v in vars(asked).items() if k != "folder"}, "events": events, "rows": rows}
    result |= {"best": best, "agreement": agreement, **circumstances(), "load": os.getloadavg()[0]}
    for row in rows:
        row["output"] = Path(row["output"]).name
    RESULTS.write_text(json.dumps(rounded(result), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
