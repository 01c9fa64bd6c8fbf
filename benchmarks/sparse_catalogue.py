"""A sparse catalogue: 22,000 users with nine items each, 12,000 items. The time and scores of a whole training.

    python -m benchmarks.sparse_catalogue --before CHECKOUT        # this checkout against an earlier one
    python -m benchmarks.sparse_catalogue --seeds 3 --set likelihood=exact --set epochs=30

Interactions come from the built-in shop, without what is known about its items. Every training is `macrid.train` in a
process of its own, from a split to a finished run; with --before, the two checkouts take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "results" / "sparse-catalogue.json"
USERS, ITEMS, PER_USER, FEWEST = 22_000, 18_000, 9.0, 4  # 12,000 of the items occur in a history of a train user
SHAPE = {"users": USERS, "items": ITEMS, "per_user": PER_USER, "fewest": FEWEST}


def catalogue(users: int, items: int, seed: int) -> Any:
    """Interactions by the shop's usual laws, but for the short histories, without attributes of items."""
    import macrid
    from macrid.data.shop import Laws, generate

    drawn = generate(users, items, seed, laws=Laws(per_user=PER_USER, fewest=FEWEST)).interactions
    return macrid.Interactions.from_pairs(*drawn.pairs, drawn.users, drawn.items)


def child(asked: argparse.Namespace) -> dict[str, Any]:
    """One training: seconds in all and by phase, and what came out."""
    import macrid

    split = catalogue(asked.users, asked.items, asked.seed).split(0.1)
    started = time.perf_counter()
    marks: list[tuple[str, float]] = []

    def follow(progress: Any) -> None:
        if progress.phase != "note" and (not marks or marks[-1][0] != progress.phase):
            marks.append((progress.phase, time.perf_counter() - started))

    settings = dict(pair.split("=", 1) for pair in asked.set)
    with tempfile.TemporaryDirectory() as folder:
        run = macrid.train(split, f"{folder}/run", progress=follow, seed=asked.seed, **_typed(settings))
        seconds = time.perf_counter() - started
        metrics = run.metrics
    ends = [*(at for _, at in marks[1:]), seconds]
    phases: dict[str, float] = {}
    for (name, at), end in zip(marks, ends, strict=True):
        phases[name] = phases.get(name, 0.0) + end - at
    log = getattr(run.model, "log", [])
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time(),
        "phases": phases,
        "epoch_seconds": sum(record.seconds for record in log),
        "training": metrics["training"],
        "validation": metrics["validation"]["metrics"]["ndcg@100"],
        "test": metrics["test"]["metrics"]["ndcg@100"],
        "curve": [record.ndcg for record in log],
    }


def _typed(settings: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for name, value in settings.items():
        try:
            typed[name] = json.loads(value)
        except ValueError:
            typed[name] = value
    return typed


def measure(checkout: Path, asked: argparse.Namespace, seed: int, settings: list[str]) -> dict[str, Any]:
    """The training of one checkout, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", "--seed", str(seed)]
    command += ["--users", str(asked.users), "--items", str(asked.items)]
    command += [part for pair in settings for part in ("--set", pair)]
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(name: str, row: dict[str, Any]) -> None:
    phases = ", ".join(f"{phase} {seconds:.0f}" for phase, seconds in row["phases"].items())
    test, training = row["test"], row["training"]
    print(
        f"{name:<8} {row['seconds']:>7.1f} s  NDCG@100 {test['mean']:.4f} ± {test['se']:.4f}"
        f" (validation {row['validation']['mean']:.4f}), best of {training['epochs']} epochs:"
        f" {training['best_epoch']}; {training.get('likelihood', 'exact')}; {phases}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="an earlier checkout to compare with")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="the first, of the shop and of the training")
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of this checkout")
    parser.add_argument("--out", type=Path, help=f"by default {OUT.relative_to(ROOT)} with --before")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(asked)))
        return
    sys.path.insert(0, str(ROOT))
    from benchmarks.measuring import circumstances, rounded

    rows = []
    for seed in range(asked.seed, asked.seed + asked.seeds):
        row: dict[str, Any] = {"seed": seed}
        if asked.before is not None:
            row["before"] = measure(asked.before.resolve(), asked, seed, [])
            show("before", row["before"])
        row["after"] = measure(ROOT, asked, seed, asked.set)
        show("after", row["after"])
        if "before" in row:
            before, after = row["before"], row["after"]
            row["faster"] = before["seconds"] / after["seconds"]
            row["gain"] = after["test"]["mean"] - before["test"]["mean"]
            print(f"{row['faster']:.1f}× as fast; test NDCG@100 {row['gain']:+.4f}", flush=True)
        rows.append(row)
    out = asked.out or (OUT if asked.before is not None else None)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        found = {"measured": circumstances(), "shape": {**SHAPE, "users": asked.users, "items": asked.items}}
        out.write_text(json.dumps(rounded({**found, "rows": rows}), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
