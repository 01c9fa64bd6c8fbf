"""Read a CSV of events: seconds and peak memory, in a fresh process, against a plain pandas reading of the same file.

    python -m benchmarks.read_csv                 # 10 million rows
    python -m benchmarks.read_csv --rows 1000000

The file has integer users, string items and ratings, unsorted, with a few duplicates, as logs have.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

MACRID = """
from macrid.data.interactions import Interactions
data = Interactions.read(path, min_rating=2)
result = f"{data!r}; {data.report}"
"""

PANDAS = """
import pandas as pd
frame = pd.read_csv(path)
frame = frame[frame.rating >= 2].drop_duplicates(["user_id", "item_id"])
frame = frame[frame.groupby("user_id").item_id.transform("size") >= 5]
users, items = pd.factorize(frame.user_id), pd.factorize(frame.item_id)
result = f"{len(users[1]):,} users, {len(items[1]):,} items, {len(frame):,} interactions"
"""

MEASURE = """
import json, resource, sys, time
path = sys.argv[1]
start = time.perf_counter()
{code}
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({{"seconds": seconds, "gib": peak, "result": result}}))
"""


def write_events(path: Path, rows: int, seed: int = 0) -> None:
    """Events of users and items with a long tail, written in pieces so that this process stays small."""
    random = np.random.default_rng(seed)
    users, items = max(rows // 70, 10), max(rows // 200, 10)
    names = pa.array([f"sku-{number:07d}" for number in random.permutation(items)])
    schema = pa.schema([("user_id", pa.int64()), ("item_id", pa.string()), ("rating", pa.float64())])
    with pa.csv.CSVWriter(path, schema) as file:
        for start in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - start)
            item = (items * random.random(count) ** 3).astype(np.int64)
            columns = [random.integers(0, users, count), names.take(pa.array(item)), random.integers(1, 11, count) / 2]
            file.write_table(pa.table(columns, schema=schema))


def measure(code: str, path: Path) -> dict:
    """Run the code in a fresh process, imports included."""
    command = [sys.executable, "-c", MEASURE.format(code=code), str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        write_events(path, rows)
        print(f"{rows:,} rows, {path.stat().st_size / 2**20:,.0f} MiB")
        found = {name: measure(code, path) for name, code in (("macrid", MACRID), ("pandas", PANDAS))}
    for name, run in found.items():
        print(f"{name}: {run['seconds']:.1f} s, peak {run['gib']:.2f} GiB, {run['result']}")
    ratio = {key: found["pandas"][key] / found["macrid"][key] for key in ("seconds", "gib")}
    print(f"pandas needs {ratio['seconds']:.1f} times the time and {ratio['gib']:.1f} times the memory")


if __name__ == "__main__":
    main()
