"""The whole reproduction: its blocks, how much of each to compute, and the output folder.

OUT/table1.json, figure2.json, …               the numbers
OUT/figure2.png, figure3-shop.png, …           the pictures
OUT/parts/                                     finished parts, from which an interrupted reproduction resumes
OUT/tuned/                                     settings, if they were tuned again
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.data import catalog
from macrid.errors import DataError, MacridError
from macrid.files import make_writable
from macrid.models import model_class
from macrid.paper import figure2, figure3, figure4, plots, table1
from macrid.paper.parts import Parts, write
from macrid.pictures.drawing import save
from macrid.recipe import Recipe
from macrid.settings import TrainingSettings
from macrid.training.checkpoint import fingerprint
from macrid.version import __version__

if TYPE_CHECKING:
    from macrid.data.split import Split

BLOCKS = ("table1", "figure2", "figure3", "figure4")
FETCHED = ("ml-latest-small", "ml-1m", "ml-1m-ge3")
"""Data sets small enough to download without asking."""


@dataclass(frozen=True)
class Plan:
    """How much to compute."""

    data: tuple[str, ...] = table1.DATA
    fetched: tuple[str, ...] = FETCHED
    """Data sets to download if missing; all others must be present."""
    seeds: int = 3
    seeds_figure2: int = 5
    configurations: int = 300
    """Per method of Figure 4; the paper has 2,000."""
    trials: int | None = None
    """Tune settings again with this many trials each; by default use the settings that come with macrid."""
    points: int | None = None
    """Items on a map of Figure 2, with half as many users; by default all."""
    training: dict[str, Any] = field(default_factory=dict)
    quick: bool = False


QUICK = Plan(seeds=1, seeds_figure2=2, configurations=16, points=3000, training={"epochs": 6}, quick=True)
"""Everything within minutes, as a demonstration; the numbers mean little."""


Block = tuple[dict[str, Any], Callable[[], None] | None]
"""Its numbers, and a function that draws them."""


class Reproduction:
    """Fills one output folder. Nothing here prints: `on_part` reports progress."""

    def __init__(
        self,
        out: Path,
        plan: Plan,
        on_part: Callable[[str, bool], None] | None = None,
        on_missing: Callable[[str], None] | None = None,
    ) -> None:
        self.out, self.plan, self._on_part = out, plan, on_part
        self._on_missing = on_missing or (lambda message: None)
        self._splits: dict[str, Split | str] = {}
        self._configs: dict[tuple[str, str], Recipe] = {}
        self._start()

    def _start(self) -> None:
        self.parts = Parts(self.out / "parts", self.plan.training.get("device", "auto"), self._on_part)

    def run(self, block: str) -> dict[str, Any]:
        """Compute a block, write it and draw its picture."""
        self._start()
        blocks = {"table1": self._table1, "figure2": self._figure2, "figure3": self._figure3, "figure4": self._figure4}
        result, draw = blocks[block]()
        result |= {"block": block, "quick": self.plan.quick, "trials": self.plan.trials, "about": self.parts.about()}
        write(self.out / f"{block}.json", json.dumps(result, indent=1) + "\n")
        if draw is not None:
            draw()
        return result

    def prepare(self, blocks: Sequence[str], report: Path) -> None:
        """Raise now the errors that would otherwise come after hours of work."""
        for folder in (self.out, report.parent):
            make_writable(folder, MacridError)
        needed = {"figure2": ("matplotlib", "openTSNE"), "figure3": ("matplotlib",), "figure4": ("matplotlib",)}
        for block in blocks:
            for package in needed.get(block, ()):
                if find_spec(package) is None:
                    raise MacridError(f"{block} needs {package}; install it with `pip install 'macrid[plot]'`")

    def parts_of(self, block: str) -> int:
        """Number of parts in a block if no data set is missing."""
        plan = self.plan
        if block == "table1":
            return len(plan.data) * sum(plan.seeds if has_seeds(method) else 1 for method in table1.METHODS)
        if block == "figure2":
            return 2 * plan.seeds_figure2
        if block == "figure3":
            return len(figure3.DATA)
        return len(figure4.METHODS) * -(-plan.configurations // figure4.PART)

    def split(self, name: str) -> Split | None:
        """A data set; None if its files are missing, which is reported once."""
        if name not in self._splits:
            try:
                self._splits[name] = catalog.load(name, download=name in self.plan.fetched)
            except DataError as error:
                self._splits[name] = catalog.portable(str(error))
                self._on_missing(str(error))
        split = self._splits[name]
        return None if isinstance(split, str) else split

    def config(self, data: str, model: str, split: Split) -> Recipe:
        """Tuned settings: those that come with macrid, or newly tuned ones."""
        if self.plan.trials is None or model == "popularity":
            return table1.fitted(table1.tuned(data, model), len(split.items))
        if (data, model) not in self._configs:
            self._configs[data, model] = self._search(data, model, split, self.plan.trials)
        return self._configs[data, model]

    def _search(self, data: str, model: str, split: Split, trials: int) -> Recipe:
        from macrid.tuning import tune

        if self._on_part is not None:
            self._on_part(f"search/{data}.{model}", False)
        folder = self.out / "tuned"
        folder.mkdir(parents=True, exist_ok=True)
        configs = [
            tune(
                split, model, trials=trials, storage=f"sqlite:///{folder}/{data}.{model}.db",
                name="-".join([data, model, *(setting for setting, value in training.items() if value)]),
                fixed=table1.FIXED.get(model),
                **{**training, **self.plan.training},
            )
            for training in (table1.TRAINING if has_seeds(model) else ({},))
        ]  # fmt: skip
        best = max(configs, key=lambda config: float(np.mean(config.about.get("scores", config.about["score"]))))
        if "start" in best.settings:
            best = table1.with_better_start(best, partial(self._validation_score, data, split))
        best.write(folder / f"{data}.{model}.json")
        return best

    def _part(
        self, name: str, split: Split, config: Recipe, compute: Callable[..., Any], seed: int | None = None, **more: Any
    ) -> Any:
        """What `compute` returns for the plan's training settings; kept with all it depends on.

        more: what it depends on besides the version, the data and the settings.
        """
        data = {"train": split.train.matrix, "validation": split.validation.target, "test": split.test.target}
        seeded = self.plan.training if seed is None else {**self.plan.training, "seed": seed}
        key = {"version": __version__, "data": fingerprint(data, {})["interactions"], **_whole(config, seeded), **more}
        return self.parts.get(name, key, partial(compute, **self.plan.training))

    def _validation_score(self, data: str, split: Split, config: Recipe, seed: int) -> float:
        compute = partial(table1.validation_score, split, config, seed)
        score: float = self._part(f"starts/{data}.{config.settings['start']}.{seed}", split, config, compute, seed)
        return score

    def _table1(self) -> Block:
        rows, missing = [], {}
        for data in self.plan.data:
            split = self.split(data)
            if split is None:
                missing[data] = self._splits[data]
                continue
            for method in table1.METHODS:
                config = table1.variant(self.config(data, method.split("-")[0], split), method)
                runs = [
                    self._part(
                        f"table1/{data}.{method}.{seed}",
                        split,
                        config,
                        partial(table1.measure, split, config, seed),
                        seed,
                    )
                    for seed in range(self.plan.seeds if has_seeds(method) else 1)
                ]
                about = {"data": data, "method": method, "items": len(split.items), "config": _config_json(config)}
                rows.append({**about, "search": _search(config), "runs": runs})
            self._splits.pop(data)  # frees the memory of large ones
        return {"rows": rows, "missing": missing}, None

    def _figure2(self) -> Block:
        data = figure2.DATA
        split = self.split(data)
        if split is None:
            return {"missing": {data: self._splits[data]}}, None
        runs: dict[str, list[dict[str, Any]]] = {"cosine": [], "inner": []}
        maps: dict[str, Any] = {}
        for similarity, of_similarity in runs.items():
            for seed in range(self.plan.seeds_figure2):
                points = self.plan.points if seed == 0 else 0  # a map for the first seed only
                name, config = f"figure2/{similarity}.{seed}", figure2.config(similarity)
                compute = partial(figure2.compute, split, similarity, seed, points)
                run = self._part(name, split, config, compute, seed, points=points)
                if "map" in run:
                    maps[similarity] = run.pop("map")
                of_similarity.append(run)
        shown = maps["cosine"], maps["inner"], figure2.categories(split).tolist()
        return {"data": data, "runs": runs}, lambda: save(plots.figure2(*shown), self.out / "figure2.png")

    def _figure3(self) -> Block:
        results, missing, splits = {}, {}, {}
        for data in figure3.DATA:
            split = self.split(data)
            if split is None:
                missing[data] = self._splits[data]
                continue
            compute = partial(figure3.compute, split, 0)
            results[data] = self._part(f"figure3/{data}", split, figure3.CONFIG, compute, 0)
            splits[data] = split

        def draw() -> None:
            for data, result in results.items():
                if result["strips"]:
                    split = splits[data]
                    plots.draw_figure3(result["strips"], split.items, split.table, self.out / f"figure3-{data}.png")

        return {"data": results, "missing": missing}, draw

    def _figure4(self) -> Block:
        split = self.split(figure4.DATA)
        if split is None:
            return {"missing": {figure4.DATA: self._splits[figure4.DATA]}}, None
        points: dict[str, list[dict[str, Any]]] = {}
        for method in figure4.METHODS:
            tuned = self.config(figure4.DATA, method.split("-")[0], split)
            drawn = figure4.configurations(method, tuned, self.plan.configurations)
            points[method] = []
            for start in range(0, len(drawn), figure4.PART):
                batch = drawn[start : start + figure4.PART]
                compute = partial(figure4.compute, split, tuned, batch)
                points[method] += self._part(f"figure4/{method}.{start}", split, tuned, compute, drawn=batch)
        result = {"data": figure4.DATA, "configurations": self.plan.configurations, "points": points}
        return result, lambda: save(plots.figure4(points, figure4.METHODS), self.out / "figure4.png")


def has_seeds(method: str) -> bool:
    return table1.has_epochs(method.split("-")[0])


def _whole(config: Recipe, training: dict[str, Any]) -> dict[str, Any]:
    """Every setting that training depends on, including defaults."""
    model = model_class(config.model)
    training = {**getattr(model, "training_defaults", {}), **config.training, **training}
    return {
        "model": config.model,
        "settings": model.settings_class.make(config.settings).model_dump(),
        "training": TrainingSettings.make(training).model_dump(exclude={"device", "scratch_mib", "interactions_mib"}),
    }


def _search(config: Recipe) -> dict[str, Any]:
    """The study that the settings come from, and its number of trials."""
    return {key: config.about[key] for key in ("study", "trials") if key in config.about}


def _config_json(config: Recipe) -> dict[str, Any]:
    training = {key: value for key, value in config.training.items() if key not in ("seed", "device")}
    return {"model": config.model, "settings": config.settings, "training": training}
