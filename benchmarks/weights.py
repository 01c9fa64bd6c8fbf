"""What weights and recency bring: train before a moment, predict what comes after it.

    python -m benchmarks.weights --device cuda                       # ml-1m and ml-latest-small, about 20 minutes
    python -m benchmarks.weights --data ml-latest-small --epochs 3   # a try
    python -m benchmarks.weights --report                            # the tables again, and into docs/data.md

Ratings of 4 and more, split by time at 80 and 90 % of the interactions. All variants have the same users, items and
targets; only the weights of what is trained on and folded in on differ. "rating" weighs an interaction by a fifth of
its rating. MacridVAE is the preset best, averaged over seeds; EASE's regularisation is chosen on the validation users
for each variant, since weights change its scale. Results are appended to benchmarks/results/weights.jsonl; what is in
there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
from benchmarks.measuring import circumstances

import macrid
from macrid.data import catalog
from macrid.data.split import Split

RESULTS = Path(__file__).parent / "results" / "weights.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "data.md"
BEGIN, END = "<!-- weights: begin -->", "<!-- weights: end -->"
METRICS = ("ndcg@100", "recall@20", "recall@50")
METHODS = ("MacridVAE", "EASE", "Popularity")
STARS = {".dat": ("1", "2", "3", "4", "5"), ".csv": tuple(f"{half / 2}" for half in range(1, 11))}
HALF_LIVES = {"ml-1m": (30, 90, 365), "ml-latest-small": (90, 365, 1_460)}
REGULARISATION = (1, 10, 50, 100, 200, 500, 1_000)


class Variant(NamedTuple):
    """How interactions are weighted."""

    by_rating: bool
    half_life: int | None

    def __str__(self) -> str:
        parts = ["rating"] * self.by_rating + [f"half-life {self.half_life} days"] * (self.half_life is not None)
        return " × ".join(parts) or "none"


def variants(data: str, half_lives: tuple[int, ...] | None) -> Iterator[Variant]:
    lives = HALF_LIVES.get(data, (30, 90, 365)) if half_lives is None else half_lives
    for by_rating in (False, True):
        yield from (Variant(by_rating, half_life) for half_life in (None, *lives))


def split_of(data: str, variant: Variant) -> Split:
    dataset = catalog.entry(data)
    folder = catalog.locate(dataset)
    if folder is None:
        raise SystemExit(f"{data}: not here; set MACRID_DATA to the folder that has {dataset.folder}/")
    file = folder / dataset.files[0]
    ratings = macrid.Interactions.read(
        file,
        min_rating=4,
        time="timestamp",
        event="rating" if variant.by_rating else None,
        weights={stars: float(stars) / 5 for stars in STARS[file.suffix]} if variant.by_rating else None,
        half_life=variant.half_life,
    )
    return ratings.split(by="time")


def fitted(method: str, split: Split, seed: int, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The model, and what was chosen for it."""
    if method == "Popularity":
        return macrid.Popularity().fit(split.train, device=options.device), {}
    if method == "EASE":
        models = [macrid.EASE(regularisation=value).fit(split.train, device=options.device) for value in REGULARISATION]
        scores = [macrid.evaluate(model, split.validation)["ndcg@100"].mean for model in models]
        best = int(np.argmax(scores))
        return models[best], {"regularisation": REGULARISATION[best]}
    training = {} if options.epochs is None else {"epochs": options.epochs}
    model = macrid.MacridVAE()
    model.fit(split.train, validation=split.validation, seed=seed, device=options.device, **training)
    return model, {"epochs": len(model.log), "best_epoch": max(line.epoch for line in model.log if line.best)}


def measure(method: str, split: Split, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    begin = time.perf_counter()
    model, chosen = fitted(method, split, seed, options)
    seconds = round(time.perf_counter() - begin, 1)
    validation, test = (macrid.evaluate(model, group, METRICS) for group in (split.validation, split.test))
    return {
        **chosen,
        "seconds": seconds,
        "protocol": split.protocol,
        "train": len(split.train),
        "mean_weight": float(split.train.matrix.data.mean(dtype=np.float64)),
        "validation": validation["ndcg@100"].mean,
        "metrics": {name: metric.as_json() for name, metric in test.metrics.items()},
        "per_user": [round(float(value), 4) for value in test.per_user[METRICS[0]]],
    }


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["data"], row["method"], Variant(*row["variant"]), row["seed"], row["max_epochs"]


def done(file: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    if not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {key_of(row): row for row in rows}


def work(options: argparse.Namespace) -> None:
    """Measure what is not in the file yet."""
    known = done(options.out)
    for data in options.data:
        for variant in variants(data, options.half_lives):
            jobs = [
                (method, seed) for method in METHODS for seed in range(options.seeds if method == "MacridVAE" else 1)
            ]
            limits = {method: options.epochs if method == "MacridVAE" else None for method in METHODS}
            todo = [(m, seed) for m, seed in jobs if (data, m, variant, seed, limits[m]) not in known]
            split = split_of(data, variant) if todo else None
            for method, seed in todo:
                assert split is not None
                about = {"data": data, "method": method, "variant": variant, "seed": seed, "max_epochs": limits[method]}
                row = about | measure(method, split, seed, options) | {"about": circumstances()}
                options.out.parent.mkdir(parents=True, exist_ok=True)
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                mean = row["metrics"]["ndcg@100"]["mean"]
                print(
                    f"{data}  {method:<10}  {variant!s:<28}  seed {seed}  NDCG@100 {mean:.4f}  {row['seconds']} s",
                    flush=True,
                )


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One data set: methods × variants, test users; means over seeds."""
    users = len(rows[0]["per_user"])
    data, protocol, train = (rows[0][name] for name in ("data", "protocol", "train"))
    lines = [
        f"{data}, {protocol}: {train:,} interactions to train on, {users:,} test users.",
        "",
        "| model | weights | NDCG@100 | Recall@20 | Recall@50 | NDCG@100 more than without |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    groups: dict[tuple[str, Variant], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["method"], Variant(*row["variant"])), []).append(row)
    for method in METHODS:
        plain = groups.get((method, Variant(False, None)))
        for (name, variant), mine in groups.items():
            if name != method:
                continue
            cells = [_mean(mine, metric) for metric in METRICS]
            gain = ""
            if plain is not None and mine is not plain:
                more = _per_user(mine) - _per_user(plain)
                gain = f"{more.mean():+.4f} ± {more.std() / np.sqrt(len(more)):.4f}"
            cells = [method, str(variant), *cells, gain]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _per_user(rows: list[dict[str, Any]]) -> np.ndarray:
    return np.mean([row["per_user"] for row in rows], axis=0)


def _mean(rows: list[dict[str, Any]], metric: str) -> str:
    mean, se = (np.mean([row["metrics"][metric][part] for row in rows]) for part in ("mean", "se"))
    return f"{mean:.4f} ± {se:.4f}"


def report(file: Path) -> str:
    rows = list(done(file).values())
    sections = []
    for data in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == data]
        sections.append("\n".join(table(mine)))
    about = rows[-1]["about"]
    machine, versions = about["machine"], about["versions"]
    where = f"{machine['gpu'] or machine['cpu']}, torch {versions['torch']}, {about['date']}"
    return "\n\n".join([*sections, f"{where}; `python -m benchmarks.weights`."])


def put(text: str) -> None:
    """Between the marks of docs/data.md."""
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["ml-1m", "ml-latest-small"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="at most; by default those of the preset")
    parser.add_argument("--half-lives", type=lambda text: tuple(map(int, text.split(","))), help="days, such as 30,90")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="write the tables of earlier results into docs/data.md")
    options = parser.parse_args()
    if options.report:
        put(report(options.out))
    else:
        work(options)
    print(report(options.out))


if __name__ == "__main__":
    main()
