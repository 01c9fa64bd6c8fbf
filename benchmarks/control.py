"""Do knobs do what they say? The built-in shop, whose factors are known; MovieLens 1M; and how fast it is.

    python -m benchmarks.control shop --seeds 5 --out benchmarks/results/control-shop.json
    python -m benchmarks.control movies --out benchmarks/results/control-movies.json        # needs ml-1m
    python -m benchmarks.control speed --out benchmarks/results/control-speed.json
    python -m benchmarks.control report                                                     # tables of docs/control.md

The shop: for every seed (of the shop and of the training) a plain model, one with a larger beta, some with labels
on 5 % of the items, and a MultVAE; the plain one is looked at along its own axes and along each kind of turned ones.
A true factor is held against the dimensions of the concept that most items of its category are in. Axes that attributes
were used for are judged on items that they were not fitted to (two halves, both ways); a model with labels on the items
without.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
from benchmarks.measuring import circumstances

import macrid
from macrid.concepts.axes import concept_axes, find, use
from macrid.concepts.directions import Direction
from macrid.concepts.meaning import Axes, meaning_of, unturned
from macrid.concepts.space import Space, space_of, with_range
from macrid.control.engine import Engine, Question
from macrid.control.moves import Move
from macrid.data import catalog
from macrid.data.attributes import POPULARITY, Column, columns_of
from macrid.data.shop import Laws, Shop, generate
from macrid.data.shop.assortment import CATEGORIES
from macrid.data.split import Split
from macrid.errors import RangeWarning
from macrid.evaluation.agreement import spearman
from macrid.evaluation.factors import dci
from macrid.report.controllability import measure
from macrid.report.knobs import Knob

LARGER_BETA = 20.0
LABELLED = 0.05
NUMBERS = ("price", "size", "coolness", "boldness", "heel", "brightness")
YEARS = 10


# The shop


def shop_of(seed: int, users: int = 4000, items: int = 1200, **training: Any) -> list[dict[str, Any]]:
    """Every way to get dimensions, for one seed."""
    shop = generate(users, items, seed=seed)
    split = shop.split()
    known = {"seed": seed, "device": "cpu", **training}

    def fitted(labels: Any = None, **settings: Any) -> macrid.MacridVAE:
        more = {} if labels is None else {"labels": labels}
        return macrid.MacridVAE(**settings).fit(split.train, validation=split.validation, **known, **more)

    plain = fitted()
    beside = macrid.MultVAE().fit(split.train, validation=split.validation, **known)
    truth = Truth(shop, split)
    rows = [truth.row("plain model", plain, "original", beside=beside)]
    rows.append(truth.row(f"beta = {LARGER_BETA:g}", fitted(beta=LARGER_BETA), "original"))
    rows += [truth.row(f"turned by {by}", plain, by) for by in ("independence", "attributes")]
    for name, labels, chosen in truth.labels(seed):
        model = fitted(labels)
        rows.append(truth.row(name, model, "original", without=chosen))
    rows.append(truth.row("these labels, turned by independence", model, "independence", without=chosen))
    return [{"seed": seed, **row} for row in rows]


class Truth:
    """What is known about a shop, for the items of a split."""

    def __init__(self, shop: Shop, split: Split) -> None:
        self.split = split
        positions = shop.interactions.items.positions(list(split.items))
        self.category = shop.category[positions]
        self.factors = {name: values[positions] for name, values in shop.factors.items()}

    def labels(self, seed: int) -> list[tuple[str, dict[str, Any], np.ndarray]]:
        """Attributes of a few items, and the same with their categories."""
        count = len(self.category)
        chosen = np.random.default_rng(seed).permutation(count)[: round(LABELLED * count)]
        assert self.split.table is not None
        ids = list(self.split.items)
        told: dict[str, Any] = {}
        for name in NUMBERS:
            values = self.split.table.column(name).to_pylist()
            told[name] = {ids[at]: values[at] for at in chosen if values[at] is not None}
        names = {ids[at]: CATEGORIES[self.category[at]].name for at in chosen}
        share = f"{LABELLED:.0%}".replace("%", " %")
        return [
            (f"attributes of {share} of the items in training", told, chosen),
            (f"the same with categories of {share}", {"concept": names, **told}, chosen),
        ]

    def row(
        self, name: str, model: macrid.MacridVAE, by: str, without: np.ndarray | None = None, beside: Any = None
    ) -> dict[str, Any]:
        """What one way gives. without: positions of items that must not judge it."""
        space = space_of(model)
        axes = (
            find(model, by, histories=self.split.validation.history)
            if by != "original"
            else _original(space, self.split)
        )
        strengths, knobs = [], []
        for c, k, own in self._concepts(space, without):
            parts = self._parts(space, k, by, own, axes)
            for factor in CATEGORIES[c].factors:
                values = self.factors[factor]
                rho = [_strongest(vectors, values[items]) for items, vectors in parts]
                strengths.append(float(np.mean([abs(value) for _, value in rho])))
                j, sign = _signed(*_strongest(space.items[own] @ axes.rotation[k].T, values[own]))
                knobs.append(Knob((_direction(axes, k, j, sign),), Column(factor, factor, "number", values)))
        columns = [Column(factor, factor, "number", values) for factor, values in self.factors.items()]
        columns += [column for column in columns_of(model) if column.kind == POPULARITY]
        control = measure(model, self.split.test, knobs, columns=columns, beside=beside)
        row = {
            "way": name,
            "ndcg@100": macrid.evaluate(model, self.split.test)["ndcg@100"].mean,
            "factor_mean": float(np.mean(strengths)),
            "factor_least": float(np.min(strengths)),
            "dci": self._dci(space, by, axes, without),
            **{key: control.mean(key) for key in ("monotonicity", "leakage", "drift", "retention", "overlap")},
            "random": control.random,
        }
        if beside is not None:
            keys = ("monotonicity", "leakage", "drift", "retention", "overlap")
            row["beside"] = {key: control.mean(key, control.beside) for key in keys}
            row["beside"]["ndcg@100"] = macrid.evaluate(beside, self.split.test)["ndcg@100"].mean
        return row

    def _concepts(self, space: Space, without: np.ndarray | None) -> list[tuple[int, int, np.ndarray]]:
        """Category, its concept, and those of its items in it that may judge."""
        found = []
        for c in range(len(CATEGORIES)):
            of_category = self.category == c
            k = int(np.bincount(space.concept_of[of_category], minlength=space.concepts).argmax())
            may = of_category & (space.concept_of == k)
            if without is not None:
                may[without] = False
            found.append((c, k, np.flatnonzero(may)))
        return found

    def _parts(self, space: Space, k: int, by: str, own: np.ndarray, axes: Axes) -> list[tuple[np.ndarray, np.ndarray]]:
        """Items and their coordinates along axes that did not use these items' attributes."""
        if by != "attributes":
            return [(own, space.items[own] @ axes.rotation[k].T)]
        halves = np.random.default_rng(k).permutation(len(own)) % 2
        columns, found = columns_of(space.model), []
        for half in (0, 1):
            rotation, _ = concept_axes(space, k, by, columns, 0, own[halves != half])
            found.append((own[halves == half], space.items[own[halves == half]] @ rotation.T))
        return found

    def _dci(self, space: Space, by: str, axes: Axes, without: np.ndarray | None) -> float:
        """Disentanglement within the concept of each category, a mean over items."""
        scores, weights = [], []
        for c, k, own in self._concepts(space, without):
            for items, vectors in self._parts(space, k, by, own, axes):
                known = {factor: self.factors[factor][items] for factor in CATEGORIES[c].factors}
                scores.append(dci(vectors, known).disentanglement)
                weights.append(len(items))
        return float(np.average(scores, weights=weights))


def _original(space: Space, split: Split) -> Axes:
    return with_range(Axes("original", unturned(space.concepts, space.dim)), space, split.validation.history)


def _strongest(vectors: np.ndarray, values: np.ndarray) -> tuple[int, float]:
    """The dimension with the largest rank correlation, and it."""
    rho = [spearman(column, values) for column in vectors.T]
    best = int(np.argmax(np.abs(rho)))
    return best, rho[best]


def _signed(dimension: int, rho: float) -> tuple[int, int]:
    return dimension, 1 if rho >= 0 else -1


def _direction(axes: Axes, k: int, j: int, sign: int) -> Direction:
    assert axes.low is not None
    assert axes.high is not None
    ends = sorted((sign * float(axes.low[k, j]), sign * float(axes.high[k, j])))
    return Direction(k, j, sign * axes.rotation[k, j], *ends)


# MovieLens 1M


def movies(seed: int = 0, **training: Any) -> dict[str, Any]:
    """Axes by year and genres, and what turning them does to test users."""
    split = catalog.load("ml-1m")
    known = {"validation": split.validation, "seed": seed, "device": "cpu", **training}
    model = macrid.MacridVAE().fit(split.train, **known)
    before = macrid.evaluate(model, split.test)["ndcg@100"].mean
    best_before = _told_best(space_of(model))
    use(model, find(model, "attributes", histories=split.validation.history))
    fits = meaning_of(model).axes["attributes"].fits
    beside = macrid.MultVAE().fit(split.train, **known)
    control = measure(model, split.test, beside=beside)
    return {
        "ndcg@100": before,
        "ndcg@100_turned": macrid.evaluate(model, split.test)["ndcg@100"].mean,
        "largest_change_of_a_score": _largest_change(space_of(model), split),
        "original": best_before,
        "fits": [fit._asdict() for fit in fits],
        "year": _year(model, split),
        "control": control.as_json(),
        "multvae_ndcg@100": macrid.evaluate(beside, split.test)["ndcg@100"].mean,
    }


def _told_best(space: Space) -> dict[str, float]:
    """The strongest rank correlation of a dimension of any concept with each attribute."""
    found: dict[str, float] = {}
    for k in range(space.concepts):
        own = space.members(k)
        for column in columns_of(space.model):
            if column.is_usable(own):
                best = abs(_strongest(space.items[own], column.values[own])[1])
                found[column.name] = max(found.get(column.name, 0.0), best)
    return found


def _largest_change(space: Space, split: Split) -> float:
    """Of any score of a test user, worked out along the turned axes of each concept."""
    components, log_weights = space.encode(split.test.history)
    terms = []
    for k in range(space.concepts):
        axes = space.axes(k)
        cosine = (components[:, k] @ axes.T) @ (space.items @ axes.T).T
        terms.append(
            cosine / space.model.settings.temperature + space.log_assignment[:, k].numpy() + log_weights[:, k, None]
        )
    top = np.max(terms, axis=0)
    scores = top + np.log(np.exp(np.array(terms) - top).sum(axis=0))
    scores -= scores.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return float(np.abs(scores - space.model.scores(split.test.history).numpy()).max())


def _year(model: macrid.MacridVAE, split: Split) -> dict[str, float]:
    """How far the median year of the ten best goes from the low to the high end of the knob, over test users who have
    movies from before and after the median year of all."""
    (column,) = [column for column in columns_of(model) if column.name == "year"]
    history, middle = split.test.history, np.median(column.values)
    rows = np.split(column.values[history.indices], history.indptr[1:-1])
    both = np.array([bool((years < middle).any() and (years >= middle).any()) for years in rows])
    moved, older, newer = [], [], []
    for user in np.flatnonzero(both):
        ids = [split.items[at] for at in history.indices[history.indptr[user] : history.indptr[user + 1]]]
        ends = []
        now = macrid.steer(model, ids, n=10)
        here = float(np.median(column.values[split.items.positions(now.ids)]))
        for amount in (-2, 2):  # to either end, from anywhere
            found = macrid.steer(model, ids, towards="year", amount=amount, n=10)
            ends.append(float(np.median(column.values[split.items.positions(found.ids)])))
        moved.append(ends[1] - ends[0])
        older.append(here - ends[0])
        newer.append(ends[1] - here)
    return {
        "users": int(both.sum()),
        "of": int(history.shape[0]),
        "years": YEARS,
        "share": float(np.mean(np.array(moved) >= YEARS)),
        "median": float(np.median(moved)),
        "older": {"share": float(np.mean(np.array(older) >= YEARS)), "median": float(np.median(older))},
        "newer": {"share": float(np.mean(np.array(newer) >= YEARS)), "median": float(np.median(newer))},
    }


# Speed


def speed(items: int = 20_000, times: int = 100) -> dict[str, Any]:
    """Medians of so many calls, after loading, each kind in turn for every history."""
    warnings.simplefilter("ignore", RangeWarning)
    shop = generate(6000, items, seed=0, interactions=40 * items, laws=Laws(popularity_decay=0.5))
    split = shop.split()
    model = macrid.MacridVAE().fit(split.train, validation=split.validation, epochs=2, device="cpu")
    use(model, find(model, "attributes", histories=split.validation.history))
    random = np.random.default_rng(0)
    starts = random.choice(len(split.items), times)
    histories = [split.test.history[[row]].indices for row in random.choice(split.test.history.shape[0], times)]
    ids = [[split.items[at] for at in history] for history in histories]
    fits = meaning_of(model).axes["attributes"].fits
    engine, spent = Engine(model), dict[str, list[float]]()
    for at, (start, history, known) in enumerate(zip(starts, histories, ids, strict=True)):
        fit, known_at = fits[at % len(fits)], history.astype(np.int64)
        move = Move(concept=fit.concept, dimension=fit.dimension, by=0.1)
        drag = Question(known_at, 24, known_at, moves=(move,), concept=fit.concept)
        calls = {
            "traverse_ms": lambda start=start: macrid.traverse(model, split.items[start], 1, hold=False),
            "hold_ms": lambda start=start: macrid.traverse(model, split.items[start], 1),
            "steer_ms": lambda known=known, move=move: macrid.steer(model, known, moves=[move]),
            "recommend_ms": lambda known=known: model.recommend(known),
            "first_frame_ms": lambda drag=drag: engine.ask(drag),
            "frame_ms": lambda drag=drag: engine.ask(drag),
            "every_concept_ms": lambda drag=drag: engine.ask(replace(drag, concept=None, by_concept=True)),
        }
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            spent.setdefault(name, []).append(1000 * (time.perf_counter() - began))
    medians = {name: float(np.median(values[1:])) for name, values in spent.items()}  # the first warms up
    ratio = medians["recommend_ms"] / medians["steer_ms"]
    return {"items": len(split.items), "times": times, **medians, "recommend_over_steer": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shop", "movies", "speed", "report"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.what == "report":
        from benchmarks.control_report import write

        write()
        return
    found: dict[str, Any] = {"about": circumstances()}
    if options.what == "shop":
        found["rows"] = []
        for seed in range(options.first, options.first + options.seeds):
            for row in shop_of(seed):
                found["rows"].append(row)
                told = [f"{row[key]:.3f}" for key in ("ndcg@100", "factor_mean", "factor_least", "dci", "monotonicity")]
                print(seed, f"{row['way']:<50}", *told, f"{row['leakage']:.3f} {row['random']:.3f}", flush=True)
            _write(options.out, found)
    else:
        found |= movies() if options.what == "movies" else speed()
        print(json.dumps({key: value for key, value in found.items() if key not in ("control", "fits")}, indent=1))
    _write(options.out, found)


def _write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
