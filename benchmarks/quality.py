"""A hard, fair bench: accuracy against tuned EASE, and whether concepts are crisp, stable, well named and steerable.

    MACRID_DATA=… python -m benchmarks.quality                        # everything; a second call goes on where it was
    MACRID_DATA=… python -m benchmarks.quality --only ml-1m --seeds 5
    MACRID_DATA=… python -m benchmarks.quality --levers               # also every lever alone
    MACRID_DATA=… python -m benchmarks.quality --subsamples           # only a tenth of the users of each data set
    python -m benchmarks.quality --tables                             # tables of what was measured, in docs/

Every training is one line of benchmarks/results/quality.jsonl. It makes its choices on validation users; test users are
scored once. All seeds count, and results that are worse than hoped for stay in the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import warnings
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import torch
from benchmarks.measuring import circumstances

import macrid
from macrid.concepts.claims import name_fit
from macrid.concepts.effects import strongest_first
from macrid.concepts.meaning import meaning_of
from macrid.data import catalog
from macrid.data.interactions import Interactions
from macrid.data.movielens import read_movielens
from macrid.data.split import HeldOut, Split
from macrid.evaluation.agreement import nmi
from macrid.models.base import Recommender
from macrid.paper.table1 import tuned
from macrid.recipe import PRESETS
from macrid.report.controllability import measure as measure_control
from macrid.report.effects import cards_of_share, measure_effects
from macrid.report.knobs import Knob, knobs_of
from macrid.settings import TrainingSettings

RESULTS = Path(__file__).parent / "results" / "quality.jsonl"
METRICS = ("ndcg@100", "recall@20", "recall@50")
SPLITS = 10  # of ml-latest-small, whose 50 test users say little by themselves
SEEDS = {"ml-latest-small": 1, "ml-1m": 3, "ml-1m-ge3": 3, "alishop-7c-4k": 3, "shop": 3}
TENTH = 0.1  # of the train and validation users, three times; scored on all test users
SUBSAMPLES = 3
TENTH_OF = " (10 % of users)"  # after the name of a data set
LAMBDAS = (20.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 600.0, 800.0, 1000.0)
POPULAR = 100  # items
STRONGEST = 10  # knobs
OF_TRAINING = TrainingSettings.model_fields
PAPER = {name: value for name, value in PRESETS["paper"].items() if name not in OF_TRAINING}
AS_IN_PAPER = {name: value for name, value in PRESETS["paper"].items() if name in OF_TRAINING}
OFF = {"whole_history": "off", "concept_shares": "off", "neighbours": 0, "assignment_temperature": None}
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "best": ({}, {}),
    "paper": (PAPER, AS_IN_PAPER),
}
"""Settings of the model and of its training."""
SMALL_DATA = ("best", "paper", "paper, soft assignment", "none of the extensions", "EASE")
"""Methods compared on subsamples."""
LEVERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "paper, soft assignment": ({**PAPER, "assignment": "soft"}, AS_IN_PAPER),
    "none of the extensions": (OFF, {}),
    "whole history alone": ({**OFF, "whole_history": "on"}, {}),
    "concept shares alone": ({**OFF, "concept_shares": "on"}, {}),
    "neighbours alone": ({**OFF, "neighbours": 128}, {}),
    "sharper assignment alone": ({**OFF, "assignment_temperature": 0.07}, {}),
    "best without whole history": ({"whole_history": "off"}, {}),
    "best without concept shares": ({"concept_shares": "off"}, {}),
    "best without neighbours": ({"neighbours": 0}, {}),
    "best without sharper assignment": ({"assignment_temperature": None}, {}),
    "best from a random start": ({"start": "random"}, {}),
    "best from svd": ({"start": "svd"}, {}),
    "best with beta 1": ({"beta": 1.0}, {}),
    "best with dropout 0.5": ({"dropout": 0.5}, {}),
    "best with balance 0": ({}, {"balance": 0.0}),
    "best, learning rate 0.003, patience 15": ({}, {"learning_rate": 3e-3, "patience": 15}),
    "best with 7 concepts": ({"concepts": 7}, {}),
    "best with 16 concepts": ({"concepts": 16}, {}),
}


class Job(NamedTuple):
    data: str
    split: int | None
    """The seed of the split; None for the published one."""
    method: str
    seed: int


def jobs(data: Sequence[str], seeds: int | None, levers: bool) -> Iterator[Job]:
    """Those that matter most first."""
    for name in data:
        published = range(seeds or SEEDS[name] if name != "ml-latest-small" else seeds or 3)
        for method in METHODS:
            yield from (Job(name, None, method, seed) for seed in published)
        yield Job(name, None, "EASE", 0)
        yield from (Job(name, None, "MultVAE", seed) for seed in published)
    if "ml-latest-small" in data:
        splits = [(split, method) for split in range(SPLITS) for method in (*METHODS, "EASE", "MultVAE")]
        yield from (Job("ml-latest-small", split, method, 0) for split, method in splits)
    if levers:
        for name in data:
            yield from (Job(name, None, lever, seed) for lever in LEVERS for seed in range(3))


def subsample_jobs(data: Sequence[str]) -> Iterator[Job]:
    for name in data:
        for seed in range(SUBSAMPLES):
            yield from (Job(name + TENTH_OF, seed, method, seed) for method in SMALL_DATA)


@cache
def split_of(data: str, seed: int | None) -> Split:
    if data.endswith(TENTH_OF):
        return subsampled(split_of(data.removesuffix(TENTH_OF), None), seed or 0)
    if seed is None:
        return catalog.load(data)
    entry = catalog.entry(data)
    folder, recipe = catalog.locate(entry), entry.recipe
    assert folder is not None
    assert recipe is not None
    ratings, movies = (folder / file for file in entry.files)
    return read_movielens(ratings, movies, recipe.min_rating, recipe.min_items).split(recipe.heldout, seed=seed)


def subsampled(split: Split, seed: int) -> Split:
    """A tenth of the train and validation users, and the items that these train users have."""
    random = np.random.default_rng(seed)
    train, validation = (
        np.sort(random.permutation(count)[: max(1, round(TENTH * count))])
        for count in (split.train.matrix.shape[0], split.validation.history.shape[0])
    )
    matrix = split.train.matrix[train]
    items = np.unique(matrix.indices)
    table = None if split.table is None else split.table.take(items)
    rows = np.repeat(np.arange(len(train)), np.diff(matrix.indptr))
    places = np.searchsorted(items, matrix.indices)
    users, kept = split.train.users.take(train), split.items.take(items)

    def held_out(group: HeldOut, chosen: np.ndarray) -> HeldOut:
        return HeldOut(group.history[chosen][:, items], group.target[chosen][:, items], group.users.take(chosen))

    return Split(
        Interactions.from_pairs(rows, places, users, kept, table),
        held_out(split.validation, validation),
        held_out(split.test, np.arange(split.test.history.shape[0])),
    )


def run(job: Job) -> dict[str, Any]:
    """Train, and measure everything that applies."""
    split, started = split_of(job.data, job.split), time.perf_counter()
    if job.method == "EASE":
        model, extra = _tuned_ease(split)
    elif job.method == "MultVAE":
        recipe = tuned(job.data, "multvae")
        model = macrid.MultVAE(**recipe.settings)
        model.fit(split.train, validation=split.validation, **{**recipe.training, "seed": job.seed})
        extra = {}
    else:
        settings, training = {**METHODS, **LEVERS}[job.method]
        model = macrid.MacridVAE(**settings)
        model.fit(split.train, validation=split.validation, **{**training, "seed": job.seed})
        extra = {"concepts": int(model.network.concepts), "note": model.neighbours_note}
    seconds = time.perf_counter() - started
    state = model.state()
    row = {
        **job._asdict(), **extra, "train_users": split.train.matrix.shape[0],
        "seconds": round(seconds, 1), "epochs": len(model.log),
        "parameters": sum(value.numel() for value in state.values()),
        "bytes": sum(value.numel() * value.element_size() for value in state.values()),
        "validation": macrid.evaluate(model, split.validation, METRICS[:1])["ndcg@100"].mean,
        **_scores(model, split),
    }  # fmt: skip
    if isinstance(model, macrid.MacridVAE):
        is_whole = job.method in METHODS and not job.data.endswith(TENTH_OF)
        row |= _of_concepts(model, split) | (_of_people(model, split) if is_whole else {})
    if job.split is not None:
        row.pop("labels", None)  # agreement over seeds is of the published split
    elif job.method in LEVERS:
        row.pop("per_user")  # levers are compared by their means
    return row | {"about": circumstances()}


def _tuned_ease(split: Split) -> tuple[Recommender, dict[str, Any]]:
    """With the lambda that does best on validation users."""
    scores = {}
    for value in LAMBDAS:
        model = macrid.EASE(regularisation=value).fit(split.train)
        scores[value] = macrid.evaluate(model, split.validation, METRICS[:1])["ndcg@100"].mean
    best = max(scores, key=scores.__getitem__)
    return macrid.EASE(regularisation=best).fit(split.train), {"regularisation": best}


def _scores(model: Recommender, split: Split) -> dict[str, Any]:
    scores = macrid.evaluate(model, split.test, METRICS)
    return {
        "test": {name: scores[name].mean for name in METRICS},
        "per_user": np.round(scores.per_user["ndcg@100"], 4).tolist(),
    }


def _of_concepts(model: macrid.MacridVAE, split: Split) -> dict[str, Any]:
    """Crispness, hard against soft, agreement with categories, and the concept of every item."""
    membership, popularity = model.membership(), model.popularity
    best, order = membership.max(axis=1), np.argsort(-popularity, kind="stable")
    row: dict[str, Any] = {
        "best_share": float(best.mean()),
        "best_share_of_choices": float(np.average(best, weights=np.maximum(popularity, 1e-9))),
        "best_share_of_popular": float(np.median(best[order[:POPULAR]])),
        "labels": packed(membership.argmax(axis=1)),
        "share_power": None if model.network.share_power is None else float(model.network.share_power.detach()),
    }
    scores = {}
    for assignment in ("soft", "hard"):
        model.settings = model.settings.model_copy(update={"assignment": assignment})
        model.network.settings = model.settings
        scores[assignment] = macrid.evaluate(model, split.test, METRICS[:1])["ndcg@100"].mean
    model.settings = model.settings.model_copy(update={"assignment": "soft"})
    model.network.settings = model.settings
    row["hard_over_soft"] = scores["hard"] / scores["soft"]
    if split.table is not None and "category" in split.table.column_names:
        categories = split.table.column("category").to_numpy(zero_copy_only=False)
        row["nmi"] = nmi(membership.argmax(axis=1), categories)
    return row


def _of_people(model: macrid.MacridVAE, split: Split) -> dict[str, Any]:
    """Names, knobs and shares: the ten strongest knobs are chosen on validation users and measured on test users."""
    started = time.perf_counter()
    macrid.understand(model, histories=split.validation.history)
    measure_effects(model, split.validation)
    seconds = time.perf_counter() - started
    row: dict[str, Any] = {"understanding_seconds": round(seconds, 1)}
    fit = name_fit(model)
    row["name_fit"] = None if fit is None else fit._asdict()
    row["names"] = [entry.name for entry in meaning_of(model).names.concepts]
    row["cards"] = float(np.nanmean(cards_of_share(model, split.test.history)))
    knobs = strongest_knobs(model)
    if knobs:
        control = measure_control(model, split.test, knobs)
        row["monotonicity"] = control.mean("monotonicity")
        row["retention"] = control.mean("retention")
        row["knobs"] = [
            {name: getattr(effect, name) for name in ("name", "concept", "moves", "monotonicity", "retention")}
            for effect in control.knobs
        ]
    return row


def strongest_knobs(model: macrid.MacridVAE) -> list[Knob]:
    """Of single concepts, by the effects kept with the model."""
    effects = [effect for effect in strongest_first(meaning_of(model).effects) if effect.concept is not None]
    chosen = {(effect.concept, effect.dimension) for effect in effects[:STRONGEST]}
    return [knob for knob in knobs_of(model) if (knob.concept, knob.directions[0].dimension) in chosen]


def packed(labels: np.ndarray) -> str:
    """(items,) numbers below 256 as text."""
    return b64encode(zlib.compress(labels.astype(np.uint8).tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(b64decode(text)), dtype=np.uint8)


# Running many, and going on


def done(file: Path) -> dict[Job, dict[str, Any]]:
    """What has been measured; a line that was cut off by a kill does not count."""
    rows = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        try:
            row = json.loads(line)
            rows[Job(*(row[name] for name in Job._fields))] = row
        except (ValueError, KeyError):
            continue
    return rows


def work(todo: Any, file: Path, lock: Any, until: float) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // max(1, int(os.environ.get("AT_ONCE", "1")))))
    while time.time() < until:
        try:
            job = todo.get_nowait()
        except Exception:  # empty, in the words of several queues
            return
        try:
            line = json.dumps(run(job), ensure_ascii=False, separators=(",", ":"))
        except Exception:
            print(job, traceback.format_exc(limit=-3), file=sys.stderr, flush=True)
            continue
        with lock, file.open("a", encoding="utf-8") as out:
            out.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(SEEDS), default=list(SEEDS))
    parser.add_argument("--seeds", type=int, help="trainings of each method on the published splits")
    parser.add_argument("--levers", action="store_true", help="also each lever alone, and best without it")
    parser.add_argument("--subsamples", action="store_true", help="only a tenth of the users of each data set")
    parser.add_argument("--at-once", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no training after so many")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tables", action="store_true", help="only write the tables into docs/")
    options = parser.parse_args()
    if not options.tables:
        os.environ["AT_ONCE"] = str(options.at_once)
        threads = str(max(1, len(os.sched_getaffinity(0)) // options.at_once))
        os.environ.update(OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)  # for numpy in the workers
        options.results.parent.mkdir(exist_ok=True, parents=True)
        known = done(options.results)
        wanted = jobs(options.only, options.seeds, options.levers)
        wanted = subsample_jobs(options.only) if options.subsamples else wanted
        missing = [job for job in wanted if job not in known]
        print(f"{len(known)} measured before, {len(missing)} to go", flush=True)
        context = get_context("spawn")
        todo, lock = context.Queue(), context.Lock()
        for job in missing:
            todo.put(job)
        time.sleep(0.5)
        until = time.time() + 60 * options.minutes
        workers = [
            context.Process(target=work, args=(todo, options.results, lock, until)) for _ in range(options.at_once)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    from benchmarks.quality_report import write

    write(done(options.results))


if __name__ == "__main__":
    main()
