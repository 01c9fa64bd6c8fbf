"""Train on a data set of the catalogue with the defaults in a fresh process: scores, minutes, peak memory.

MACRID_DATA=… python -m benchmarks.train ml-1m ml-latest-small alishop-7c-4k
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile


def main() -> None:
    print(
        f"{'data':<16} {'NDCG@100':>16} {'Recall@20':>16} {'Recall@50':>16} {'epochs':>6} {'minutes':>7} {'peak MB':>8}"
    )
    for name in sys.argv[1:] or ["ml-1m"]:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "macrid", "train", name, "--out", f"{folder}/run", "--json"]
            report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cells = [f"{value['mean']:.4f} ± {value['se']:.4f}" for value in report["test"]["metrics"].values()]
        training = report["training"]
        print(
            f"{name:<16} {cells[0]:>16} {cells[1]:>16} {cells[2]:>16} {training['epochs']:>6}"
            f" {training['seconds'] / 60:>7.1f} {training['peak_memory_mb']:>8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
