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
from macrid.files import write_atomically
from macrid.models import model_class
from macrid.paper import figure2, figure3, figure4, table1
from macrid.paper.parts import Parts
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

    def run(self, block: str) -> dict[str, Any]:
        """Compute a block, write it and draw its picture."""
        parts = Parts(self.out / "parts", self.plan.training.get("device", "auto"), self._on_part)
        draw: Callable[[], None] | None = None
        if block == "table1":
            result = self._table1(parts)
        else:
            figures = {"figure2": self._figure2, "figure3": self._figure3, "figure4": self._figure4}
            result, draw = figures[block](parts)
        result |= {"block": block, "quick": self.plan.quick, "trials": self.plan.trials, "about": parts.about()}
        self._write(f"{block}.json", json.dumps(result, indent=1) + "\n")
        if draw is not None:
            draw()
        return result

    def prepare(self, blocks: Sequence[str], report: Path) -> None:
        """Raise now the errors that would otherwise come after hours of work."""
        for folder in (self.out, report.parent):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / ".writable", "")
                (folder / ".writable").unlink()
            except OSError as error:
                message = f"{folder}: cannot be written ({error.strerror or error}); choose another folder"
                raise MacridError(message) from error
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

    def config(self, parts: Parts, data: str, model: str, split: Split) -> Recipe:
        """Tuned settings: those that come with macrid, or newly tuned ones."""
        if self.plan.trials is None or model == "popularity":
            return table1.fitted(table1.tuned(data, model), len(split.items))
        if (data, model) not in self._configs:
            self._configs[data, model] = self._search(parts, data, model, split, self.plan.trials)
        return self._configs[data, model]

    def _search(self, parts: Parts, data: str, model: str, split: Split, trials: int) -> Recipe:
        from macrid.tuning import tune

        if self._on_part is not None:
            self._on_part(f"search/{data}.{model}", False)
        folder = self.out / "tuned"
        folder.mkdir(parents=True, exist_ok=True)
        configs = [
            tune(
                split, model, trials=trials, storage=f"sqlite:///{folder}/{data}.{model}.db",
                name="-".join([data, model, *training]), fixed=table1.FIXED.get(model),
                **{**training, **self.plan.training},
            )
            for training in (table1.TRAINING if has_seeds(model) else ({},))
        ]  # fmt: skip
        best = max(configs, key=lambda config: float(np.mean(config.about.get("scores", config.about["score"]))))
        if "start" in best.settings:
            best = table1.with_better_start(best, partial(self._validation_score, parts, data, split))
        best.write(folder / f"{data}.{model}.json")
        return best

    def _validation_score(self, parts: Parts, data: str, split: Split, config: Recipe, seed: int) -> float:
        score: float = parts.get(
            f"starts/{data}.{config.settings['start']}.{seed}",
            {**self._key(split), **_whole(config, {**self.plan.training, "seed": seed})},
            partial(table1.validation_score, split, config, seed, **self.plan.training),
        )
        return score

    def _table1(self, parts: Parts) -> dict[str, Any]:
        rows, missing = [], {}
        for data in self.plan.data:
            split = self.split(data)
            if split is None:
                missing[data] = self._splits[data]
                continue
            for method in table1.METHODS:
                config = table1.variant(self.config(parts, data, method.split("-")[0], split), method)
                seeds = range(self.plan.seeds if has_seeds(method) else 1)
                runs = [self._measure(parts, data, method, split, config, seed) for seed in seeds]
                about = {"data": data, "method": method, "items": len(split.items), "config": _config_json(config)}
                rows.append({**about, "search": _search(config), "runs": runs})
            self._splits.pop(data)  # frees the memory of large ones
        return {"rows": rows, "missing": missing}

    def _measure(self, parts: Parts, data: str, method: str, split: Split, config: Recipe, seed: int) -> dict[str, Any]:
        return parts.get(
            f"table1/{data}.{method}.{seed}",
            {**self._key(split), **_whole(config, {**self.plan.training, "seed": seed})},
            partial(table1.measure, split, config, seed, **self.plan.training),
        )

    def _figure2(self, parts: Parts) -> tuple[dict[str, Any], Callable[[], None] | None]:
        data = figure2.DATA
        split = self.split(data)
        if split is None:
            return {"missing": {data: self._splits[data]}}, None
        runs: dict[str, list[dict[str, Any]]] = {"cosine": [], "inner": []}
        maps: dict[str, Any] = {}
        for similarity, of_similarity in runs.items():
            for seed in range(self.plan.seeds_figure2):
                points = self.plan.points if seed == 0 else 0  # a map for the first seed only
                run = parts.get(
                    f"figure2/{similarity}.{seed}",
                    {
                        **self._key(split),
                        **_whole(figure2.config(similarity), {**self.plan.training, "seed": seed}),
                        "points": points,
                    },
                    partial(figure2.compute, split, similarity, seed, points, **self.plan.training),
                )
                if "map" in run:
                    maps[similarity] = run.pop("map")
                of_similarity.append(run)
        from macrid.paper.plots import draw_figure2

        shown = maps["cosine"], maps["inner"], figure2.categories(split).tolist()
        return {"data": data, "runs": runs}, partial(draw_figure2, *shown, self.out / "figure2.png")

    def _figure3(self, parts: Parts) -> tuple[dict[str, Any], Callable[[], None] | None]:
        results, missing, splits = {}, {}, {}
        for data in figure3.DATA:
            split = self.split(data)
            if split is None:
                missing[data] = self._splits[data]
                continue
            results[data] = parts.get(
                f"figure3/{data}",
                {**self._key(split), **_whole(figure3.config(), {**self.plan.training, "seed": 0})},
                partial(figure3.compute, split, 0, **self.plan.training),
            )
            splits[data] = split
        from macrid.paper.plots import draw_figure3

        def draw() -> None:
            for data, result in results.items():
                if result["strips"]:
                    split = splits[data]
                    draw_figure3(result["strips"], split.items, split.table, self.out / f"figure3-{data}.png")

        return {"data": results, "missing": missing}, draw

    def _figure4(self, parts: Parts) -> tuple[dict[str, Any], Callable[[], None] | None]:
        split = self.split(figure4.DATA)
        if split is None:
            return {"missing": {figure4.DATA: self._splits[figure4.DATA]}}, None
        points: dict[str, list[dict[str, Any]]] = {}
        for method in figure4.METHODS:
            tuned = self.config(parts, figure4.DATA, method.split("-")[0], split)
            drawn = figure4.configurations(method, tuned, self.plan.configurations)
            points[method] = []
            for start in range(0, len(drawn), figure4.PART):
                batch = drawn[start : start + figure4.PART]
                points[method] += parts.get(
                    f"figure4/{method}.{start}",
                    {**self._key(split), **_whole(tuned, self.plan.training), "drawn": batch},
                    partial(figure4.compute, split, tuned, batch, **self.plan.training),
                )
        from macrid.paper.plots import draw_figure4

        result = {"data": figure4.DATA, "configurations": self.plan.configurations, "points": points}
        return result, partial(draw_figure4, points, figure4.METHODS, self.out / "figure4.png")

    def _key(self, split: Split) -> dict[str, Any]:
        """What a result depends on besides its settings: the version and the data."""
        data = {"train": split.train.matrix, "validation": split.validation.target, "test": split.test.target}
        return {"version": __version__, "data": fingerprint(data, {})["interactions"]}

    def _write(self, name: str, content: str) -> None:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            write_atomically(self.out / name, content)
        except OSError as error:
            raise MacridError(f"{self.out / name}: cannot be written ({error.strerror or error})") from error


def has_seeds(method: str) -> bool:
    return model_class(method.split("-")[0]).has_epochs


def _whole(config: Recipe, training: dict[str, Any]) -> dict[str, Any]:
    """Every setting that training depends on, including defaults."""
    model = model_class(config.model)
    training = {**getattr(model, "training_defaults", {}), **config.training, **training}
    return {
        "model": config.model,
        "settings": model.settings_class.make(config.settings).model_dump(),
        "training": TrainingSettings.make(training).model_dump(exclude={"device", "scratch_mib"}),
    }


def _search(config: Recipe) -> dict[str, Any]:
    """The study that the settings come from, and its number of trials."""
    return {key: config.about[key] for key in ("study", "trials") if key in config.about}


def _config_json(config: Recipe) -> dict[str, Any]:
    training = {key: value for key, value in config.training.items() if key not in ("seed", "device")}
    return {"model": config.model, "settings": config.settings, "training": training}
