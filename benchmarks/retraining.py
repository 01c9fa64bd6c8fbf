"""What a nightly training keeps: a fresh one against a warm start, after small and larger changes of the data.

    MACRID_DATA=… python -m benchmarks.retraining                        # everything, on a GPU if there is one
    MACRID_DATA=… python -m benchmarks.retraining --data shop --seeds 2 --device cpu
    python -m benchmarks.retraining --tables                             # docs/retraining.md from what was measured

2 % fewer: yesterday's run is trained on everything, today 2 % of the events are gone.
10 % more: yesterday's run lacks 10 % of the events and 7 % of the items, which are there today.
Held-out users are the same on both days. Each training is all of `macrid train`, in one process; the first training of
the process is not timed. Every line of benchmarks/results/retraining-cuda.jsonl (or -cpu) is one change of one data set
with one seed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import scipy.sparse as sp
from benchmarks.measuring import circumstances

import macrid
from macrid.concepts.meaning import meaning_of
from macrid.data import catalog
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split
from macrid.evaluation.agreement import ari
from macrid.evaluation.ranking import evaluate
from macrid.models.devices import choose_device
from macrid.models.macridvae import MacridVAE
from macrid.report import comparison
from macrid.report.comparison import Pair

DATA = ("ml-1m", "alishop-7c-4k", "shop")
CHANGES = {"2 % fewer": (0.02, 0.0), "10 % more": (0.10, 0.07)}
"""The share of events that one day lacks, and the share of items."""


def reduced(split: Split, events: float, items: float, random: np.random.Generator) -> Split:
    """Without a share of the events of train users and histories, and of the items; targets lose only those items."""
    matrix = _without(split.train.matrix, events, random)
    hidden = random.random(matrix.shape[1]) < items
    kept = np.flatnonzero((np.bincount(matrix.indices, minlength=matrix.shape[1]) > 0) & ~hidden)
    ids = split.items.take(kept)
    table = None if split.table is None else split.table.take(kept)
    train = Interactions(sp.csr_array(matrix[:, kept]), split.train.users, ids, table, split.train.report)

    def group(heldout: HeldOut) -> HeldOut:
        history = _without(heldout.history, events, random)
        return HeldOut(sp.csr_array(history[:, kept]), sp.csr_array(heldout.target[:, kept]), heldout.users)

    return Split(train, group(split.validation), group(split.test))


def _without(matrix: sp.csr_array, share: float, random: np.random.Generator) -> sp.csr_array:
    """Without a share of the events; every user keeps at least one."""
    keep = random.random(matrix.nnz) >= share
    keep[matrix.indptr[:-1][np.diff(matrix.indptr) > 0]] = True
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return sp.csr_array((matrix.data[keep], (rows[keep], matrix.indices[keep])), shape=matrix.shape)


class Trained(NamedTuple):
    """A run, its model, and how long it took."""

    run: Path
    model: MacridVAE
    took: dict[str, Any]


def measure(name: str, split: Split, seed: int, device: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Both ways to train today's model, against yesterday's, for every change; all of the data is trained on once."""
    whole = _trained(split, folder / "whole", device, seed=seed)
    for change, (events, items) in CHANGES.items():
        less = reduced(split, events, items, np.random.default_rng([seed, 17]))
        other = _trained(less, folder / "less", device, seed=seed)
        (old, fresh), today = ((other, whole), split) if items else ((whole, other), less)
        warm = _trained(today, folder / "warm", device, warm_start=old.run)
        ways = {"fresh": fresh, "warm": warm}
        scores = {way: evaluate(each.model, today.test).per_user["ndcg@100"] for way, each in ways.items()}
        difference = scores["warm"] - scores["fresh"]
        yield {
            "data": name,
            "change": change,
            "seed": seed,
            **{
                way: {**stability(old.model, each.model), **each.took, "ndcg": float(scores[way].mean())}
                for way, each in ways.items()
            },
            "time_ratio": warm.took["seconds"] / fresh.took["seconds"],
            "ndcg_difference": float(difference.mean()),
            "ndcg_se": float(difference.std(ddof=1) / np.sqrt(len(difference))),
            **circumstances(),
        }


def _trained(split: Split, out: Path, device: str, **options: Any) -> Trained:
    """All of `macrid train`, with the seconds of each of its phases."""
    begin = now = time.perf_counter()
    phase, phases = "training", dict.fromkeys(("training", "scoring", "understanding", "comparing"), 0.0)

    def on_progress(event: macrid.Progress) -> None:
        nonlocal now, phase
        if event.phase in phases and event.phase != phase:
            phases[phase] += time.perf_counter() - now
            now, phase = time.perf_counter(), event.phase

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = macrid.train(split, out, device=device, overwrite=True, progress=on_progress, **options)
    phases[phase] += time.perf_counter() - now
    assert isinstance(run.model, MacridVAE)
    took = {"seconds": time.perf_counter() - begin, "phases": phases, "epochs": len(run.model.log)}
    return Trained(out, run.model, took)


def stability(old: MacridVAE, new: MacridVAE) -> dict[str, Any]:
    """How much of yesterday's concepts, names and named dimensions is there today, under the same numbers."""
    pair = Pair.of(old, new)
    found = comparison.concepts(pair)
    rows = [row for row in found["concepts"] if row["before"] is not None]
    knobs = comparison.knobs(pair, rows)["knobs"]
    names = {entry.concept: entry.name for entry in meaning_of(new).names.concepts}  # type: ignore[union-attr]
    named = [row for row in rows if row["name_before"] is not None]
    return {
        "ari": found["ari"],
        "ari_unweighted": ari(new.concepts_of_items()[pair.kept], old.concepts_of_items()[pair.places]),
        "concepts": len(rows),
        "numbers_kept": sum(row["before"] == row["after"] for row in rows),
        "names": len(named),
        "names_kept": sum(names.get(row["before"]) == row["name_before"] for row in named),
        "names_anywhere": sum(row["name_before"] in names.values() for row in named),
        "knobs": len(knobs),
        "knobs_kept": sum(knob["status"] == "kept" for knob in knobs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="one seed, the shop only")
    parser.add_argument("--tables", action="store_true", help="only rewrite docs/retraining.md")
    parser.add_argument("--out", type=Path, help="instead of the results that docs/retraining.md shows")
    options = parser.parse_args()
    from benchmarks import retraining_report

    out = options.out or retraining_report.RESULTS[choose_device(options.device).type]
    if not options.tables:
        data, seeds = (["shop"], 1) if options.quick else (options.data, options.seeds)
        rows = []
        with tempfile.TemporaryDirectory() as place:
            splits = {name: catalog.load(name) for name in data}
            for name, split in splits.items():
                _trained(split, Path(place) / name, options.device, epochs=2)
            for seed in range(seeds):
                for name, split in splits.items():
                    for row in measure(name, split, seed, options.device, Path(place)):
                        rows.append(row)
                        print(retraining_report.line(row), flush=True)
                        out.parent.mkdir(parents=True, exist_ok=True)
                        out.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
        print()
        print(retraining_report.table(rows))
    if options.out is None:
        retraining_report.write()


if __name__ == "__main__":
    main()
