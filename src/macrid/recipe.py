"""Presets, and config files for `macrid train --config`: JSON that names a model and its settings.

{"model": "macridvae", "preset": "best", "settings": {"concepts": 7}, "training": {"seed": 1}, "score": 0.43}

Anything else in the file (here the score) is a note to readers and ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

from macrid.errors import MacridError, SettingsError, first_line
from macrid.files import check_regular, write_atomically, writing
from macrid.settings import ADDED, Settings, TrainingSettings, model_settings

KEYS = ("model", "settings", "training", "preset")
ALGORITHM_1: dict[str, Any] = {**ADDED, "concepts": 7, "temperature": 0.1, "beta": 1.0, "dropout": 0.5}
"""Settings of a MacridVAE without extensions and without what follows from the data."""
PLAIN_TRAINING: dict[str, Any] = {"balance": 0.0, "learning_rate": 3e-3, "patience": 15, "likelihood": "exact"}
"""Settings of the training of such a MacridVAE."""
EXTENSIONS = ("whole_history", "concept_shares", "neighbours", "start", "assignment", "similarity")
"""Settings that make a MacridVAE one of preset "best", whatever its size."""
PRESETS: dict[str, dict[str, Any]] = {
    "best": {},
    "paper": {
        **ALGORITHM_1,
        "start": "random",
        "assignment": "hard",
        "similarity": "cosine",
        **PLAIN_TRAINING,
        "average": 1.0,
    },
}
"""Settings that are not the defaults, for the models that have them: paper is Algorithm 1 as written."""


def settings_of_preset(preset: Any) -> dict[str, Any]:
    """Of a model and its training."""
    if not isinstance(preset, str) or preset not in PRESETS:
        raise SettingsError(f"unknown preset {preset!r}; use {' or '.join(PRESETS)}")
    return PRESETS[preset]


def preset_of(settings: Settings) -> str | None:
    """The preset that a MacridVAE has the extensions of, or "custom"; None for other models."""
    if "whole_history" not in type(settings).model_fields:
        return None
    names = [name for name in PRESETS["paper"] if name in type(settings).model_fields]
    if all(getattr(settings, name) == PRESETS["paper"][name] for name in names if name != "concepts"):
        return "paper"
    default = type(settings)()
    return "best" if all(getattr(settings, name) == getattr(default, name) for name in EXTENSIONS) else "custom"


@dataclass(frozen=True)
class Recipe:
    """Everything training needs besides data; omitted settings keep their defaults."""

    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    """The model's settings."""
    training: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    """Notes, such as where it comes from and what it scored."""
    preset: str | None = None
    """Settings to start from; "best" if None."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Read a JSON file and check every setting."""
        content = _read(Path(path))
        if not isinstance(content, dict) or not isinstance(content.get("model"), str):
            raise SettingsError(f"{path}: not a recipe file; it must be a JSON object that names a 'model'")
        for part in ("settings", "training"):
            if not isinstance(content.get(part, {}), dict):
                raise SettingsError(f"{path}: '{part}' is {content[part]!r}; it must be an object")
        about = {name: value for name, value in content.items() if name not in KEYS}
        parts = content.get("settings", {}), content.get("training", {})
        recipe = cls(content["model"], *parts, about, content.get("preset"))
        try:
            recipe.check()
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        return recipe

    def write(self, path: str | PathLike[str]) -> None:
        """Write a JSON file atomically; its folder must exist."""
        content = {"model": self.model, "settings": self.settings, "training": self.training}
        content |= {} if self.preset is None else {"preset": self.preset}
        notes = {name: value for name, value in self.about.items() if name not in KEYS}
        with writing(path, MacridError):
            write_atomically(path, json.dumps({**content, **notes}, indent=2, ensure_ascii=False) + "\n")

    def check(self) -> None:
        """Raise a `SettingsError` for an unknown model, unknown settings or invalid values."""
        settings = model_settings(self.model)
        if self.preset is not None:
            settings_of_preset(self.preset)
        settings.make(self.settings)
        TrainingSettings.make(self.training)
        if "l2" in self.training and "regularisation" in settings.model_fields:
            raise SettingsError(f"l2 is for models trained in epochs; {self.model} has regularisation instead")


def _read(path: Path) -> Any:
    try:
        check_regular(path, SettingsError)
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror or error})") from None
    except SettingsError:
        raise
    except ValueError as error:  # bad JSON or bad UTF-8
        raise SettingsError(f"{path}: not JSON ({first_line(error)})") from None
    except RecursionError:
        raise SettingsError(f"{path}: not a config file; it is nested too deeply") from None
