"""The search space of the paper's supplement with the temperature, and the part each model has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from macrid.errors import SettingsError
from macrid.models import model_class
from macrid.models.start import USUAL, number_of_concepts
from macrid.recipe import Recipe
from macrid.settings import MacridVAESettings, TrainingSettings

if TYPE_CHECKING:
    import optuna

    from macrid.data.interactions import Interactions


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, inclusive; integers if both are."""

    low: float
    high: float
    log: bool = False
    step: int | None = None

    def draw(self, trial: optuna.Trial, name: str) -> float | int:
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, step=self.step or 1)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def nearest(self, value: float) -> float | int:
        inside = min(max(value, self.low), self.high)
        return self.low + round((inside - self.low) / self.step) * self.step if self.step else inside


PAPER = {
    "prior_std": Range(0.075, 0.5),
    "beta": Range(0.0, 100.0),
    "concepts": Range(1, 20),
    "learning_rate": Range(1e-8, 1.0, log=True),
    "l2": Range(1e-12, 1.0, log=True),
    "dropout": Range(0.05, math.nextafter(1.0, 0.0)),
    "hidden_layers": Range(0, 3),
    "width": Range(50, 700, step=50),
}
BY_MODEL: dict[str, dict[str, Range]] = {
    "macridvae": {"temperature": Range(0.03, 0.3, log=True)},  # 0.1 in the paper; sparse catalogues want less
    # Liang et al. found values far below 1 best, which a uniform draw from [0, 100] would rarely try.
    "multvae": {"beta": Range(1e-3, 100.0, log=True)},
    "ease": {"regularisation": Range(1.0, 10_000.0, log=True)},
}
BUDGET_DIM = 100
"""The paper's models have about 2 · items · this many parameters."""


def _settings_of(model: str) -> list[str]:
    """Every setting of the model and of its training."""
    kind = model_class(model)
    return [*kind.settings_class.model_fields, *(TrainingSettings.model_fields if kind.has_epochs else ())]


def space_of(model: str) -> dict[str, Range]:
    """The range of each searched setting of the model or its training."""
    names = _settings_of(model)
    space = {name: where for name, where in PAPER.items() if name in names} | BY_MODEL.get(model.lower(), {})
    if not space:
        raise SettingsError(f"{model} has no settings to tune")
    return space


def without(space: dict[str, Range], model: str, fixed: dict[str, Any]) -> dict[str, Range]:
    """The space without fixed settings, which must belong to the model or its training."""
    names = _settings_of(model)
    for name in fixed:
        if name in ("seed", "device"):
            raise SettingsError(f"{name} cannot be fixed; set it with --{name} ({name}= in Python)")
        if name not in names:
            raise SettingsError(f"unknown setting '{name}'; {model} and its training have {', '.join(names)}")
    gone = {*fixed, *(["width"] if fixed.get("hidden_layers") == 0 else [])}
    left = {name: where for name, where in space.items() if name not in gone}
    if not left:
        raise SettingsError(f"with {', '.join(fixed)} fixed, {model} has no settings left to tune")
    return left


def draw(trial: optuna.Trial, space: dict[str, Range]) -> dict[str, float | int]:
    """One point of the space, with a width only if there are hidden layers."""
    values = {name: where.draw(trial, name) for name, where in space.items() if name != "width"}
    if "width" in space and values.get("hidden_layers", 1) > 0:
        values["width"] = space["width"].draw(trial, "width")
    return values


def default_point(
    model: str, space: dict[str, Range], training: dict[str, Any], data: Interactions | None = None
) -> dict[str, float | int]:
    """The model's defaults for this data, clipped to the space: the first point to try."""
    kind = model_class(model)
    defaults = TrainingSettings.make({**getattr(kind, "training_defaults", {}), **training}).model_dump()
    settings = kind.settings_class.make({})
    if data is not None and isinstance(settings, MacridVAESettings):
        users, items = data.matrix.shape
        settings = settings.suited_to(items, len(data) / max(users, 1))
    defaults |= settings.model_dump()
    if defaults.get("concepts") == "auto" and "concepts" in space:
        defaults["concepts"] = USUAL if data is None else number_of_concepts(data.matrix)
    point = {name: where.nearest(defaults[name]) for name, where in space.items()}
    if point.get("hidden_layers") == 0:
        point.pop("width", None)
    return point


def config_of(
    model: str, values: dict[str, Any], fixed: dict[str, Any], training: dict[str, Any], items: int
) -> Recipe | None:
    """Settings for the values of a trial; None if they exceed the parameter budget."""
    kind = model_class(model)
    names = set(kind.settings_class.model_fields)
    everything = {**fixed, **values}
    settings = {name: value for name, value in everything.items() if name in names}
    rest = {name: value for name, value in everything.items() if name not in names}
    if model.lower() in ("multvae", "multdae") and "dim" not in fixed:
        from macrid.models.multvae import dim_for

        dim = dim_for(items, 2 * items * BUDGET_DIM, kind.settings_class.make(settings))
        if dim < 2:
            return None
        settings["dim"] = dim
    return Recipe(model, settings, {**training, **rest})
