"""What the extensions cost, and how good local regressions are: ratios measured in one run.

    MACRID_DATA=… python -m benchmarks.extensions --out benchmarks/results/extensions-cpu.json
    MACRID_DATA=… python -m benchmarks.extensions --device cuda --out benchmarks/results/extensions-gpu.json
    python -m benchmarks.extensions report                         # tables of docs/model.md

training      all of `fit` with preset best and with paper in turn, by part; early stopping as usual
recommending  with neighbours and without: one user, and all test users at once
control       what knobs and shares do with neighbours and without, on test users
neighbours    EASE's weights from the matrix of all pairs of items, and from local regressions
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measuring import circumstances, filled_from, interleaved, rounded, synchronise
from benchmarks.quality import strongest_knobs

import macrid
from macrid.data import catalog
from macrid.data.split import Split
from macrid.models.neighbours import Neighbours, exact_weights, local_weights, suitable_regularisation
from macrid.recipe import PRESETS
from macrid.report.controllability import measure
from macrid.report.effects import cards_of_share, measure_effects

DATA = ("ml-1m", "alishop-7c-4k", "shop")
COUNT = 128
RESULTS, PAGE = Path(__file__).parent / "results", Path(__file__).parents[1] / "docs" / "model.md"


def measured(name: str, device: str, seeds: int) -> dict[str, Any]:
    split = catalog.load(name)
    per_epoch = epochs_in_turn(split, device)  # which compiles kernels, too
    models, runs = trained_in_turn(split, device, seeds)
    for preset, seconds in per_epoch.items():
        runs[preset]["per_epoch"] = seconds
    return {
        "data": name, "items": len(split.items), "training": runs,
        "recommending": recommending(models["best"], split), "control": control(models["best"], split),
        "neighbours": neighbours(split, torch.device(device)),
    }  # fmt: skip


def trained_in_turn(
    split: Split, device: str, seeds: int
) -> tuple[dict[str, macrid.MacridVAE], dict[str, dict[str, float]]]:
    """The last model of every preset, and means over the seeds."""
    models: dict[str, macrid.MacridVAE] = {}
    found: dict[str, list[dict[str, float]]] = {preset: [] for preset in PRESETS}
    for seed in range(seeds):
        for preset in PRESETS:
            model = macrid.MacridVAE(preset=preset)
            begin = time.perf_counter()
            model.fit(split.train, validation=split.validation, device=device, seed=seed)
            synchronise(torch.device(device))
            seconds = time.perf_counter() - begin
            other = seconds - sum(epoch.seconds for epoch in model.log)
            found[preset].append(
                {
                    "seconds": seconds, "epochs": len(model.log), "before_and_after": other,
                    "concepts": model.network.concepts,
                }
            )  # fmt: skip
            models[preset] = model
    return models, {
        preset: {key: float(np.mean([run[key] for run in runs])) for key in runs[0]} for preset, runs in found.items()
    }


def epochs_in_turn(split: Split, device: str, rounds: int = 5) -> dict[str, float]:
    """Median seconds of an epoch, with its validation, of short trainings of the presets in turn."""
    found: dict[str, list[float]] = {preset: [] for preset in PRESETS}
    for _ in range(rounds):
        for preset, seconds in found.items():
            model = macrid.MacridVAE(preset=preset)
            model.fit(split.train, validation=split.validation, device=device, epochs=3)
            seconds += [epoch.seconds for epoch in model.log[1:]]
    return {preset: float(np.median(seconds)) for preset, seconds in found.items()}


def recommending(model: macrid.MacridVAE, split: Split, rounds: int = 15) -> dict[str, Any]:
    """Medians of interleaved calls for the ten best: seconds with neighbours and without."""
    part, history = model.neighbours, split.test.history
    if part is None:
        return {}

    def call(users: int, linear: Neighbours | None) -> Any:
        def work() -> None:
            model.neighbours = linear
            model.top(history[:users], 10)

        return work

    found = {}
    for users in (1, history.shape[0]):
        works = {"with": call(users, part), "without": call(users, None)}
        seconds = interleaved(works, rounds, model.device)
        found[str(users)] = {each: float(np.median(values)) for each, values in seconds.items()}
    model.neighbours = part
    return found


def control(model: macrid.MacridVAE, split: Split) -> dict[str, Any]:
    """Of the ten strongest knobs of single concepts, chosen on validation users; and cards of 24 at a share of 90 %."""
    if model.neighbours is None:
        return {}
    macrid.understand(model, histories=split.validation.history)
    measure_effects(model, split.validation)
    part, knobs, found = model.neighbours, strongest_knobs(model), {}
    for name, linear in (("with", part), ("without", None)):
        model.neighbours = linear
        effects = measure(model, split.test, knobs)
        found[name] = {key: effects.mean(key) for key in ("monotonicity", "moves", "leakage", "retention")}
        found[name]["cards"] = float(np.nanmean(cards_of_share(model, split.test.history)))
    model.neighbours = part
    return found


def neighbours(split: Split, device: torch.device) -> dict[str, Any]:
    """Both ways to the weights: seconds, NDCG@100 of test users by the weights alone, and what they share."""
    matrix, found, sources = split.train.matrix, {}, {}
    regularisation = suitable_regularisation(matrix)
    for name, solve in (("exact", exact_weights), ("local", local_weights)):
        begin = time.perf_counter()
        sources[name], weights = solve(matrix, COUNT, device, regularisation)
        synchronise(device)
        seconds = time.perf_counter() - begin
        part = Neighbours._from_columns(sources[name], weights)
        model = macrid.Popularity().fit(split.train)  # whose scores are replaced
        model.scores = part.scores  # type: ignore[method-assign]
        ndcg = macrid.evaluate(model, split.test, ("ndcg@100",))["ndcg@100"].mean
        found[name] = {"seconds": seconds, "ndcg@100": ndcg}
    popular = np.argsort(-split.train.popularity, kind="stable")[:1000]
    both = [
        len(np.intersect1d(sources["exact"][item].cpu(), sources["local"][item].cpu())) / sources["exact"].shape[1]
        for item in popular.tolist()
    ]
    return {**found, "in_common": float(np.mean(both))}


# Tables


def training_table(content: dict[str, Any]) -> str:
    lines = [
        "| data | preset | concepts | s per epoch | epochs | other (s) | whole (s) | best / paper: epoch | whole |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in content["rows"]:
        best, paper = row["training"]["best"], row["training"]["paper"]
        ratios = " | ".join(f"{best[key] / paper[key]:.2f}×" for key in ("per_epoch", "seconds"))
        for preset, run in row["training"].items():
            lines.append(
                f"| {row['data']} | {preset} | {run['concepts']:.0f} | {run['per_epoch']:.3g} | {run['epochs']:.0f} |"
                f" {run['before_and_after']:.1f} | {run['seconds']:.1f} | {ratios if preset == 'best' else ' | '} |"
            )
    return "\n".join([*lines, "", _where(content)])


def recommending_table(content: dict[str, Any]) -> str:
    lines = [
        "| data | items | users at once | without (ms) | with neighbours (ms) | ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in content["rows"]:
        for users, taken in row["recommending"].items():
            lines.append(
                f"| {row['data']} | {row['items']:,} | {users} | {1000 * taken['without']:.2f} |"
                f" {1000 * taken['with']:.2f} | {taken['with'] / taken['without']:.2f}× |"
            )
    return "\n".join([*lines, "", _where(content)])


def neighbours_table(content: dict[str, Any]) -> str:
    lines = [
        "| data | items | all pairs (s) | local (s) | NDCG@100 alone, all pairs | local | neighbours in common |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in content["rows"]:
        part = row["neighbours"]
        exact, local = part["exact"], part["local"]
        lines.append(
            f"| {row['data']} | {row['items']:,} | {exact['seconds']:.1f} | {local['seconds']:.1f} |"
            f" {exact['ndcg@100']:.4f} | {local['ndcg@100']:.4f} | {part['in_common']:.0%} |"
        )
    return "\n".join([*lines, "", _where(content)])


def control_table(content: dict[str, Any]) -> str:
    keys = ("monotonicity", "moves", "leakage", "retention", "cards")
    lines = [f"| data | neighbours | {' | '.join(keys)} |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in content["rows"]:
        for name, effects in row["control"].items():
            lines.append(f"| {row['data']} | {name} | {' | '.join(f'{effects[key]:.3g}' for key in keys)} |")
    return "\n".join([*lines, "", _where(content)])


def _where(content: dict[str, Any]) -> str:
    about = content["about"]
    machine = about["machine"]
    return (
        f"{machine['gpu'] or machine['cpu']}, {machine['threads']} threads, torch {about['versions']['torch']},"
        f" {about['date']}; `python -m benchmarks.extensions`."
    )


TABLES = {
    "training": training_table,
    "recommending": recommending_table,
    "control": control_table,
    "neighbours": neighbours_table,
}


def write_page() -> None:
    parts = {
        f"{name} on {place}": (f"extensions-{place}.json", table)
        for name, table in TABLES.items()
        for place in ("cpu", "gpu")
    }
    PAGE.write_text(filled_from(PAGE.read_text("utf-8"), RESULTS, parts), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("measure", "report"), default="measure")
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3, help="whole trainings of each preset")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.what == "measure":
        warnings.simplefilter("ignore")
        content: dict[str, Any] = {"about": circumstances(), "rows": []}
        for name in options.data:
            content["rows"].append(rounded(measured(name, options.device, options.seeds)))
            if options.out is not None:
                options.out.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
            for table in TABLES.values():
                print(table({**content, "rows": content["rows"][-1:]}), end="\n\n", flush=True)
    else:
        write_page()


if __name__ == "__main__":
    main()
