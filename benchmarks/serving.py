"""Requests per second of the service, beside a plain one that answers one request at a time.

    python -m benchmarks.serving --items 20000 --clients 64

Both serve the same run to the same clients in the same minutes, one after the other, round by round. The load comes
from `wrk` (Debian: apt-get install wrk), a process of its own on the same cores; histories are those of held-out users.
With --run a run of your own is served. Results go to benchmarks/results/serving.json; `python -m
benchmarks.serving_report` writes them into docs/serving.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import IO, Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "serving.json"
PLAIN = "plain, one at a time"
OURS = "macrid serve"
SCRIPT = """
local bodies = {}
for line in io.lines(os.getenv("MACRID_BODIES")) do bodies[#bodies + 1] = line end
local at = 0
request = function()
  at = at % #bodies + 1
  return wrk.format("POST", "/v1/recommend", {["content-type"] = "application/json"}, bodies[at])
end
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("FOUND %d %d %d %f %f %f %f\\n", summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(95), latency:percentile(99), latency.max))
end
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run; made from the built-in shop if not given")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    asked = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing; install it (Debian: apt-get install wrk)")
    with tempfile.TemporaryDirectory() as folder:
        run = asked.run or made_run(Path(folder) / "run", asked.items)
        found = measured(run, asked.clients, asked.seconds, asked.rounds, asked.workers)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(table(found))


def made_run(folder: Path, items: int, epochs: int = 5) -> Path:
    """A run of the built-in shop with so many items, hardly trained: speed does not depend on how good it is."""
    import macrid
    from macrid.data.shop import generate
    from macrid.runs import save

    drawn = items
    while True:  # items that nobody has are no part of a catalogue
        split = generate(users=max(2_000, items // 2), items=drawn, seed=0).split(heldout=300)
        if len(split.items) >= items:
            break
        drawn = int(drawn * 1.1)
    model = macrid.MacridVAE(concepts=7).fit(split.train, validation=split.validation, epochs=epochs, device="cpu")
    macrid.understand(model)
    save(model, folder, heldout={"validation": split.validation, "test": split.test})
    return folder


def measured(run: Path, clients: int, seconds: int, rounds: int, workers: list[int]) -> dict[str, Any]:
    """Every service in every round, one after the other."""
    from benchmarks.measuring import circumstances

    with tempfile.TemporaryDirectory() as folder:
        bodies, script = Path(folder) / "bodies", Path(folder) / "load.lua"
        items, length = write_bodies(run, bodies)
        script.write_text(SCRIPT, encoding="utf-8")
        own = {f"{OURS}, {count} process{'es' if count > 1 else ''}": count for count in workers}
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in (PLAIN, *own)}
        for _ in range(rounds):
            for name in rows:
                with Running(run, own.get(name)) as port:
                    load(port, clients, 2, bodies, script)  # warm
                    rows[name].append(load(port, clients, seconds, bodies, script))
    return {
        **circumstances(), "items": items, "clients": clients, "seconds": seconds, "rounds": rounds,
        "history": length, "services": rows,
    }  # fmt: skip


def write_bodies(run: Path, path: Path) -> tuple[int, float]:
    """One request a line; how many items there are, and the mean length of a history."""
    from macrid.runs import load as load_run
    from macrid.runs import read_histories

    items, histories = load_run(run, "cpu").items, read_histories(run)
    assert histories is not None
    lines = []
    for user in range(histories.shape[0]):
        own = histories.indices[histories.indptr[user] : histories.indptr[user + 1]]
        lines.append(json.dumps({"history": [items[int(at)] for at in own], "n": 10}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(items), histories.nnz / histories.shape[0]


class Running:
    """A service in a process of its own, and its port."""

    def __init__(self, run: Path, workers: int | None, log: IO[str] | None = None) -> None:
        """workers: None for the plain service. log: where its standard error goes, if not to that of this process."""
        self.log = log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        serve = [sys.executable, "-m", "macrid", "serve", str(run), "--port", str(self.port), "--workers", str(workers)]
        plain = [sys.executable, "-m", "benchmarks.plain_service", str(run), str(self.port)]
        self.command = plain if workers is None else serve

    def __enter__(self) -> int:
        self.process = subprocess.Popen(self.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=self.log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=1).close()
                return self.port
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the service did not start")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def load(port: int, clients: int, seconds: int, bodies: Path, script: Path) -> dict[str, float]:
    """What wrk measures."""
    told = subprocess.run(
        ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script), f"http://127.0.0.1:{port}"],
        env={**os.environ, "MACRID_BODIES": str(bodies)}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.search(r"FOUND (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)", told)
    assert found is not None, told
    requests, micros, failed, p50, p95, p99, worst = map(float, found.groups())
    milli = {"p50": p50 / 1e3, "p95": p95 / 1e3, "p99": p99 / 1e3, "worst": worst / 1e3}
    return {"requests_per_second": requests / (micros / 1e6), "failed": failed, **milli}


def table(found: dict[str, Any]) -> str:
    """Medians over the rounds, the least and the most in brackets."""
    lines = [
        f"{found['items']:,} items, {found['clients']} clients, {found['rounds']} rounds of {found['seconds']} s,"
        f" {found['history']:.0f} items in a history; {found['machine']['cores']} cores, shared with the load:",
        "",
        "| service | requests/s | p50 ms | p95 ms | p99 ms | failed | against plain |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    plain = statistics.median(row["requests_per_second"] for row in found["services"][PLAIN])
    for name, rows in found["services"].items():
        cells = [_spread([row[part] for row in rows]) for part in ("requests_per_second", "p50", "p95", "p99")]
        ratio = statistics.median(row["requests_per_second"] for row in rows) / plain
        failed = int(sum(row["failed"] for row in rows))
        lines.append(f"| {name} | {' | '.join(cells)} | {failed} | {ratio:.1f}× |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


if __name__ == "__main__":
    main()
