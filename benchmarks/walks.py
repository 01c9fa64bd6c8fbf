"""Do walks change one thing only? What holding the start's attributes does, against the walk of the paper.

    python -m benchmarks.walks shop=runs/shop ml-1m=runs/ml-1m --out benchmarks/results/walks.json
    python -m benchmarks.control report                                                     # table of docs/control.md

From random items, along every dimension of their concept that is named after an attribute other than popularity, with
and without holding, in turn. Attributes that necessarily move with the one walked along do not count. Compared with the
start, all stops but the start itself:

kept: the share of its other attributes, next to the most that any walk could keep. A category is kept if it is the
same, a number within a tenth of the spread (5th to 95th percentile of the concept's items); of tags it is the Jaccard
similarity, without the tag walked along.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
from benchmarks.measuring import circumstances
from benchmarks.rules import with_attributes

import macrid
from macrid.concepts.names import DimensionName
from macrid.concepts.space import Space, space_of
from macrid.control.traverse import Traversal
from macrid.control.walk import closest_prototype
from macrid.control.walk import walk as walk_over
from macrid.data.attributes import POPULARITY
from macrid.errors import DataError
from macrid.evaluation.agreement import spearman

NEAR = 0.1
WAYS = {"the walk of the paper": False, "holding": True}


class Judge:
    """Compares stops with their start, by the items table alone."""

    def __init__(self, model: macrid.MacridVAE) -> None:
        assert model.table is not None
        self.model, self.space = model, space_of(model)
        self.rows: list[dict[str, Any]] = model.table.to_pylist()
        self.spreads: dict[tuple[str, int], float] = {}

    def row(self, walk: Traversal, held: tuple[str, ...], entry: DimensionName, start: int) -> dict[str, float]:
        """What one walk gives. held: what to compare, the same for every way."""
        places = self.model.items.positions(walk.ids)
        others = [int(place) for place in places if place != start]
        kept = np.array([[self._kept(name, entry, start, other) for name in held] for other in others])
        along = np.array([self._along(entry, int(place)) for place in places])
        ends = along[np.isfinite(along)]
        vectors = self.space.items
        return {
            "kept": float(kept.mean()),
            "kept_all": float((kept == 1).all(axis=1).mean()),
            "moves": float(ends[-1] - ends[0]) if len(ends) > 1 else 0.0,
            "follows": spearman(np.arange(len(along), dtype=float), along),
            "cosine": float((vectors[others] @ vectors[start]).mean()),
            "stops": len(places),
        }

    def most(self, held: tuple[str, ...], entry: DimensionName, start: int, steps: int) -> float:
        """The share of attributes that a walk could keep if it kept nothing else in mind, with the same subranges."""
        space, concept = self.space, entry.concept
        members, axes, prototypes = space.members(concept), space.axes(concept), space.prototypes
        if closest_prototype(space.items[start], prototypes) != concept:
            prototypes = prototypes[[concept]]
        kept = np.array([[self._kept(name, entry, start, other) for name in held] for other in members.tolist()])
        at = int(np.searchsorted(members, start))
        best = walk_over(
            axes @ space.items[start], entry.dimension, space.turned(concept), prototypes @ axes.T, steps=steps,
            gamma=0.0, limit=0.0, keep=at, lost=1e3 * (1 - kept).sum(axis=1),
        )  # fmt: skip
        return float(kept[best.positions[best.positions != at]].mean())

    def _kept(self, held: str, entry: DimensionName, start: int, other: int) -> float:
        name = held.removeprefix("other ")
        one, two = self.rows[start][name], self.rows[other][name]
        if two is None:
            return 0.0
        if isinstance(one, int | float) and not isinstance(one, bool):
            return float(abs(one - two) <= NEAR * self._spread(name, entry.concept))
        walked = str(entry.attribute).removeprefix(f"{name}: ")
        sets = [set(str(values).split("|")) - {walked} for values in (one, two)]
        return len(sets[0] & sets[1]) / len(sets[0] | sets[1]) if sets[0] | sets[1] else 1.0

    def _along(self, entry: DimensionName, place: int) -> float:
        """The attribute of the dimension: 0 or 1, or in spreads, growing from the low end to the high."""
        name, _, value = str(entry.attribute).partition(": ")
        one = self.rows[place][name]
        if one is None:
            return np.nan
        number = float(value in str(one).split("|")) if value else one / self._spread(name, entry.concept)
        return (entry.direction or 1) * number

    def _spread(self, name: str, concept: int) -> float:
        if (name, concept) not in self.spreads:
            known = [self.rows[place][name] for place in self.space.members(concept)]
            low, high = np.percentile([value for value in known if value is not None], (5, 95))
            self.spreads[name, concept] = float(high - low) or 1.0
        return self.spreads[name, concept]


def measure(model: macrid.MacridVAE, starts: int, steps: int = 8, seed: int = 0) -> dict[str, Any]:
    """Means over walks of every way, and the median time of a walk."""
    judge, rows, most = Judge(model), {way: list[dict[str, float]]() for way in WAYS}, list[float]()
    chosen = np.random.default_rng(seed).permutation(len(model.items))[:starts]
    for start in chosen.tolist():
        for entry in _dimensions(judge.space, start):
            taken: dict[str, tuple[Traversal, float]] = {}
            for way, hold in WAYS.items():
                taken[way] = _timed(model, start, entry.dimension, steps, hold)
            held = taken["holding"][0].held
            if not held or min(len(walk.items) for walk, _ in taken.values()) < 2:
                continue
            most.append(judge.most(held, entry, start, steps))
            for way, (walk, ms) in taken.items():
                rows[way].append({**judge.row(walk, held, entry, start), "ms": ms})
    count = len(rows["holding"])
    if not count:
        raise DataError("no walk to measure: the model has no dimension named after an attribute")
    return {
        "items": len(model.items),
        "starts": len(chosen),
        "walks": count,
        "most_kept": float(np.mean(most)),
        "ways": {way: _summary(every) for way, every in rows.items()},
    }


def speed(items: int = 20_000, times: int = 100) -> dict[str, Any]:
    """Medians of walks from random items, in a catalogue with a price, 500 brands and 30 tags; untrained weights."""
    model = with_attributes(items, "cpu")
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for start in np.random.default_rng(0).choice(items, times + 1).tolist():
        for way, hold in WAYS.items():
            taken[way].append(_timed(model, start, 1, 8, hold)[1])
    return {"items": items, **{way: float(np.median(ms[1:])) for way, ms in taken.items()}}  # the first warms up


def _timed(model: macrid.MacridVAE, start: int, dimension: int, steps: int, hold: bool) -> tuple[Traversal, float]:
    """A walk, and its CPU time in ms, which does not depend on what else the machine does."""
    began = time.process_time()
    walk = macrid.traverse(model, model.items[start], dimension, steps, keep_start=True, hold=hold)
    return walk, 1000 * (time.process_time() - began)


def _dimensions(space: Space, start: int) -> list[DimensionName]:
    """Of an item's concept, those named after an attribute of the items table."""
    concept, known = int(space.concept_of[start]), {column.name for column in space.columns} - {POPULARITY}
    entries = space.meaning.dimensions
    return [entry for entry in entries if entry.concept == concept and entry.name and entry.attribute in known]


def _summary(rows: list[dict[str, float]]) -> dict[str, float]:
    means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key != "ms"}
    error = float(np.std([row["kept"] for row in rows]) / np.sqrt(len(rows)))
    return {**means, "kept_se": error, "ms": float(np.median([row["ms"] for row in rows]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"about": circumstances(), "steps": options.steps, "data": {}, "speed": speed()}
    print("speed", found["speed"], flush=True)
    for entry in options.runs:
        name, _, run = entry.partition("=")
        found["data"][name] = measure(macrid.load(run or name), options.starts, options.steps)
        print(name, json.dumps(found["data"][name], indent=1), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
