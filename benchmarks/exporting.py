"""Whether exported files give the model's lists, and how fast onnxruntime is beside us, for 1,000 users.

    python -m benchmarks.exporting --data ml-1m
    python -m benchmarks.exporting --run runs/ml-1m

With --data, models of the presets and of both assignments are trained for a few epochs first: equality does not depend
on how good they are. Users are train users, or the held-out users of a run. "recipe" is examples/vector-database on
the files of --vectors. Both sides have the same number of threads and take turns, and ratios are of medians. Writes
benchmarks/results/exporting.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import onnxruntime
import scipy.sparse as sp
import torch
from benchmarks.measuring import circumstances, interleaved

import macrid
from macrid.export import write_onnx, write_vectors
from macrid.export.checking import padded
from macrid.models.base import Recommender
from macrid.models.neural import NeuralRecommender
from macrid.runs import load, read_sample

RESULTS = Path(__file__).parent / "results" / "exporting.json"
RECIPE = Path(__file__).parents[1] / "examples" / "vector-database" / "recommend.py"
MODELS: dict[str, dict[str, Any]] = {
    "best, soft": {"assignment": "soft"},
    "best, hard": {"assignment": "hard"},
    "best, no neighbours": {"neighbours": 0},
    "paper": {"preset": "paper"},
}
N, TOGETHER, ASKED = 10, 100, 200


def models(data: str, epochs: int, users: int) -> Iterator[tuple[str, Recommender, sp.csr_array]]:
    split = macrid.datasets.load(data)
    histories = split.train.matrix[:users]
    for name, settings in MODELS.items():
        model = macrid.MacridVAE(**settings)
        yield name, model.fit(split.train, validation=split.validation, epochs=epochs, device="cpu"), histories
    for kind in (macrid.MultVAE, macrid.EASE):
        options = {"epochs": epochs} if kind is macrid.MultVAE else {}
        yield kind.__name__, kind().fit(split.train, device="cpu", **options), histories


def measure(model: Recommender, histories: sp.csr_array, folder: Path, rounds: int) -> dict[str, Any]:
    written = write_onnx(model, folder / "model.onnx", check=histories, overwrite=True)
    assert written.agreement is not None
    result = {
        "users": written.agreement.users,
        "largest_difference": written.agreement.difference,
        "same_lists": written.agreement.same_lists,
        "mib": written.size / 2**20,
        **speed(model, histories, written.file, rounds),
    }
    if isinstance(model, NeuralRecommender):
        write_vectors(model, folder / "vectors", overwrite=True)
        result |= recipe(model, histories, folder / "vectors")
    return result


def speed(model: Recommender, histories: sp.csr_array, file: Path, rounds: int) -> dict[str, float]:
    """Medians in milliseconds per user: one at a time, and many at once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    fixed = {"n": np.array(N), "exclude_seen": np.array(True)}
    found = {}
    for name, count, size in (("one", 20, 1), ("many", 2, TOGETHER)):
        batches = [histories[size * at : size * (at + 1)] for at in range(count)]
        asked = [padded(batch) | fixed for batch in batches]
        times = interleaved(
            {
                "onnxruntime": lambda asked=asked: [session.run(None, values) for values in asked],
                "macrid": lambda batches=batches: [model.top(batch, N) for batch in batches],
            },
            rounds,
            torch.device("cpu"),
        )
        medians = {side: 1000 * float(np.median(each)) / (count * size) for side, each in times.items()}
        found |= {f"{name}_{side}_ms": value for side, value in medians.items()}
        found[f"{name}_ratio"] = medians["onnxruntime"] / medians["macrid"]
    return found


def recipe(model: Recommender, histories: sp.csr_array, folder: Path) -> dict[str, float]:
    """The share of lists of the recipe that are the model's, and the share of items that it had to score."""
    users = min(ASKED, histories.shape[0])
    spec = importlib.util.spec_from_file_location("recipe", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shop, fetch, scored = module.Recommender(folder), module.Concept.fetch, []

    def counted(concept: Any, positions: np.ndarray, query: np.ndarray) -> np.ndarray:
        scored[-1] = len(positions)
        return fetch(concept, positions, query)

    module.Concept.fetch = counted
    same, difference = 0, 0.0
    for user in range(users):
        scored.append(0)
        positions, scores = shop.recommend(histories[[user]].indices.astype(np.int64), N)
        expected, own = (part[0] for part in model.top(histories[[user]], N))
        same += int((positions == expected).all())
        difference = max(difference, float(np.abs((scores - scores[0]) - (own - own[0])).max()))
    return {
        "recipe_same_lists": same / users,
        "recipe_largest_difference": difference,
        "recipe_scored": float(np.mean(scored)) / len(model.items),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m", help="a catalogue name or a prepared folder")
    parser.add_argument("--run", type=Path, help="a run, instead of training")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    if args.run is not None:
        sample = read_sample(args.run)
        assert sample is not None, f"{args.run}: keeps no users to compare"
        source = iter([(str(args.run), load(args.run, "cpu"), sample[: args.users])])
    else:
        source = models(args.data, args.epochs, args.users)
    results: dict[str, Any] = {}
    for name, model, histories in source:
        with tempfile.TemporaryDirectory() as folder:
            row = results[name] = measure(model, histories, Path(folder), args.rounds)
        print(
            f"{name:20} {row['users']:,} users: largest difference {row['largest_difference']:.1e},"
            f" {row['same_lists']:.1%} of lists the same; {row['mib']:.1f} MiB;"
            f" one at a time {row['one_onnxruntime_ms']:.2f} ms, ours {row['one_macrid_ms']:.2f} ms"
            f" (x {row['one_ratio']:.2f}); {TOGETHER} at once {row['many_onnxruntime_ms']:.2f} ms,"
            f" ours {row['many_macrid_ms']:.2f} ms (x {row['many_ratio']:.2f})",
            flush=True,
        )
        if "recipe_scored" in row:
            print(
                f"{'':20} recipe: {row['recipe_same_lists']:.1%} of lists the same, {row['recipe_scored']:.1%} of the"
                " items scored",
                flush=True,
            )
    content = {"data": str(args.run or args.data), **circumstances(), "models": results}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
