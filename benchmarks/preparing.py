"""Prepare more interactions than memory should hold: seconds, peak memory of all processes, and kills on the way.

    python -m benchmarks.preparing                                  # 2 million interactions
    python -m benchmarks.preparing --interactions 200e6 --folder /disk/with/space
    python -m benchmarks.preparing --interactions 200e6 --split time  # events with times
    python -m benchmarks.preparing --interactions 50e6 --engines    # DuckDB against polars' streaming engine
    python -m benchmarks.preparing --end-to-end 2                   # ML-20M's shape, trained for two epochs on the CPU

Events have a long tail of users and items and come in several Parquet files. The same command is then killed at
several moments and run again until it is done; the folder must have the same digests. With --engines, both engines
number the ids of the same files, map them, merge duplicates and sort them, each in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from benchmarks.measuring import circumstances

GIB = 2**30
MOMENTS = (0.15, 0.4, 0.6, 0.8)  # of the whole time, at which a run is killed
ML_20M = (136_677, 20_108)  # users and items
PAUSE = 0.1  # seconds between looks at the memory

ENGINES = {
    "duckdb": """
import duckdb
c = duckdb.connect(config={"memory_limit": "1500MB", "threads": 2, "temp_directory": f"{out}/spill",
                           "preserve_insertion_order": False})
events = f"read_parquet('{folder}/*.parquet')"
for role in ("user", "item"):
    c.execute(f"COPY (SELECT row_number() OVER (ORDER BY id) - 1 AS code, id FROM (SELECT DISTINCT {role}_id AS id"
              f" FROM {events})) TO '{out}/{role}.parquet'")
c.execute(f"COPY (SELECT DISTINCT u.code AS u, i.code AS i FROM {events} e JOIN '{out}/user.parquet' u ON e.user_id ="
          f" u.id JOIN '{out}/item.parquet' i ON e.item_id = i.id ORDER BY ALL) TO '{out}/pairs.parquet'")
""",
    "polars": """
import polars as pl
events = pl.scan_parquet(f"{folder}/*.parquet")
for role in ("user", "item"):
    ids = events.select(pl.col(f"{role}_id").unique()).sort(f"{role}_id").with_row_index(role)
    ids.sink_parquet(f"{out}/{role}.parquet", engine="streaming")
users, items = (pl.scan_parquet(f"{out}/{role}.parquet") for role in ("user", "item"))
pairs = events.join(users, on="user_id").join(items, on="item_id").select("user", "item").unique().sort("user", "item")
pairs.sink_parquet(f"{out}/pairs.parquet", engine="streaming")
""",
}


def write_events(
    folder: Path, rows: int, parts: int, text: bool, timed: bool = False, shape: tuple[int, int] | None = None,
    seed: int = 0,
) -> None:  # fmt: skip
    """Files of events, written in pieces so that this process stays small. shape: users and items."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    users, items = shape or (max(rows // 50, 10), max(rows // 400, 10))
    for part in range(parts):
        with pa.parquet.ParquetWriter(folder / f"part-{part:03d}.parquet", _schema(text, timed)) as file:
            left = rows // parts + (part < rows % parts)
            while left:
                count = min(left, 1 << 20)
                user = (users * random.random(count) ** 1.5).astype(np.int64) * 7919 % (users * 16 + 1)
                item = (items * random.random(count) ** 3).astype(np.int64) * 31 % (items * 8 + 1)
                columns = [pa.array(ids).cast(_schema(text)[0].type) for ids in (user, item)]
                if timed:  # seconds of two years
                    columns.append(pa.array(1_700_000_000 + random.integers(0, 63_072_000, count)))
                file.write_table(pa.table(columns, _schema(text, timed)))
                left -= count


def _schema(text: bool, timed: bool = False) -> pa.Schema:
    kind = pa.string() if text else pa.int64()
    return pa.schema([("user_id", kind), ("item_id", kind), *([("timestamp", pa.int64())] if timed else [])])


def watched(command: list[str], kill_after: float | None = None) -> dict[str, Any]:
    """Run a command; its seconds, exit code and the highest memory of it and its children together."""
    begun, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = own = 0
    while process.poll() is None:
        resident, anonymous = memory_of(process.pid)
        peak, own = max(peak, resident), max(own, anonymous)
        if kill_after is not None and time.perf_counter() - begun > kill_after:
            process.send_signal(signal.SIGKILL)
        time.sleep(PAUSE)
    assert process.stderr is not None
    message = process.stderr.read().strip()
    taken, now = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    memory = {"gib": peak / GIB, "gib_without_maps": own / GIB}
    return {"seconds": taken, "cpu_seconds": cpu, **memory, "code": process.returncode, "message": message}


def told(name: str, found: dict[str, Any]) -> str:
    return (
        f"{name}: {found['seconds']:.1f} s ({found['cpu_seconds']:.0f} s of CPU), at most {found['gib']:.2f} GiB"
        f" ({found['gib_without_maps']:.2f} without pages of files)"
    )


def memory_of(process: int) -> tuple[int, int]:
    """Resident bytes of a process and all below it, with and without pages of files."""
    total = anonymous = 0
    for number in [process, *_below(process)]:
        try:
            status = Path(f"/proc/{number}/status").read_text()
        except OSError:
            continue
        sizes = dict(line.split(":", 1) for line in status.splitlines() if line.startswith(("VmRSS", "RssAnon")))
        total += 1024 * int(sizes.get("VmRSS", "0 kB").split()[0])
        anonymous += 1024 * int(sizes.get("RssAnon", "0 kB").split()[0])
    return total, anonymous


def _below(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, children) for each in (child, *_below(child))]


def prepare(events: Path, out: Path, how: list[str], kill_after: float | None = None) -> dict[str, Any]:
    """how: further options of the command."""
    command = [sys.executable, "-m", "macrid", "data", "prepare", str(events), "--out", str(out), *how]
    result = watched(command, kill_after)
    if result["code"] not in (0, -signal.SIGKILL):
        raise SystemExit(result["message"])
    return result


def digests(folder: Path) -> dict[str, str]:
    """Of all files but about.json, which has the date."""
    found = json.loads((folder / "manifest.json").read_text())["sha256"]
    return {name: digest for name, digest in found.items() if name != "about.json"}


def with_kills(events: Path, folder: Path, how: list[str], whole: dict[str, Any]) -> dict[str, Any]:
    """Prepare again, killed several times on the way."""
    out, kills, begun = folder / "killed", 0, time.perf_counter()
    for moment in MOMENTS:
        kills += prepare(events, out, how, moment * whole["seconds"])["code"] != 0
        if out.exists():  # whole, as the digests show
            break
    if not out.exists():
        prepare(events, out, how)
    is_same = digests(out) == digests(folder / "whole")
    return {"kills": kills, "seconds": time.perf_counter() - begun, "same": is_same}


def engines(events: Path, folder: Path) -> dict[str, Any]:
    """Both engines on the same work."""
    found = {}
    for name, code in ENGINES.items():
        out = folder / name
        out.mkdir()
        found[name] = watched([sys.executable, "-c", f"folder, out = {str(events)!r}, {str(out)!r}\n{code}"])
        if found[name]["code"]:
            found[name]["message"] = found[name]["message"][-300:]
        shutil.rmtree(out)
    return found


def end_to_end(folder: Path, epochs: int, memory: str) -> dict[str, Any]:
    """Prepare, train and evaluate data of ML-20M's shape on the CPU."""
    write_events(folder / "events", 11_200_000, 16, False, shape=ML_20M)
    data, run = folder / "data", folder / "run"
    commands = {
        "prepare": [
            "data",
            "prepare",
            str(folder / "events"),
            "--heldout",
            "10000",
            "--out",
            str(data),
            "--memory",
            memory,
        ],
        "train": ["train", str(data), "--out", str(run), "--epochs", str(epochs), "--device", "cpu"],
        "evaluate": ["evaluate", str(run)],
    }
    found = {}
    for name, command in commands.items():
        found[name] = watched([sys.executable, "-m", "macrid", *command])
        if found[name]["code"]:
            raise SystemExit(found[name]["message"])
        del found[name]["message"]
        print(told(name, found[name]), flush=True)
    counts = json.loads((data / "about.json").read_text())["counts"]
    print(json.dumps(counts))
    return {**found, "counts": counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interactions", type=float, default=2e6)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--text", action="store_true", help="ids are text")
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--split", choices=["users", "stable", "time", "last"], default="users")
    parser.add_argument("--folder", type=Path, help="for files; a temporary one by default")
    parser.add_argument("--engines", action="store_true", help="compare DuckDB with polars instead")
    parser.add_argument("--end-to-end", type=int, metavar="EPOCHS", help="train on data of ML-20M's shape instead")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        rows = int(options.interactions)
        result: dict[str, Any] = {"interactions": rows, **circumstances()}
        if options.end_to_end is None:
            write_events(folder / "events", rows, options.parts, options.text, options.split in ("time", "last"))
        if options.end_to_end is not None:
            result["end_to_end"] = end_to_end(folder, options.end_to_end, options.memory)
        elif options.engines:
            result["engines"] = engines(folder / "events", folder)
            for name, found in result["engines"].items():
                print(told(name, found), found["message"])
        else:
            how = ["--memory", options.memory, "--split", options.split]
            whole = result["whole"] = prepare(folder / "events", folder / "whole", how)
            print(whole["message"])
            print(told(f"{rows:,} interactions", whole), flush=True)
            if not options.no_kills:
                again = result["killed"] = with_kills(folder / "events", folder, how, whole)
                print(f"killed {again['kills']} times: {'the same' if again['same'] else 'ANOTHER'} folder,"
                      f" {again['seconds']:.1f} s in all")  # fmt: skip
        if options.out is not None:
            options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
