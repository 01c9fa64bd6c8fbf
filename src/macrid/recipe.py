"""A config: which model, with which settings, trained how. A small JSON file that `macrid train --config` takes.

{"model": "macridvae", "settings": {"concepts": 7}, "training": {"learning_rate": 0.001}, "score": 0.43}

Whatever else is in the file (here the score) is a note to its readers and means nothing to a training.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

from macrid.errors import MacridError, SettingsError, first_line
from macrid.files import write_atomically
from macrid.settings import TrainingSettings, model_settings

OWN = ("model", "settings", "training")
PRESETS: dict[str, dict[str, Any]] = {
    "best": {},
    "paper": {"start": "random", "assignment": "hard", "similarity": "cosine", "balance": 0.0, "average": 1.0},
}
"""Settings that are not the defaults, for the models that have them: paper is Algorithm 1 as written."""


@dataclass(frozen=True)
class Recipe:
    """What a training needs to know beside its data; settings that are not named keep their defaults."""

    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the model."""
    training: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    """Notes: where it comes from, what it scored."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """From a JSON file; every setting in it is checked."""
        content = _read(Path(path))
        if not isinstance(content, dict) or not isinstance(content.get("model"), str):
            raise SettingsError(f"{path}: not a config, which is a JSON object with the name of a model as 'model'")
        for part in OWN[1:]:
            if not isinstance(content.get(part, {}), dict):
                raise SettingsError(f"{path}: '{part}' is {content[part]!r}; it must be an object of names and values")
        about = {name: value for name, value in content.items() if name not in OWN}
        config = cls(content["model"], content.get("settings", {}), content.get("training", {}), about)
        try:
            config.check()
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        return config

    def write(self, path: str | PathLike[str]) -> None:
        """As a JSON file, whole or not at all; its folder must be there."""
        own = {"model": self.model, "settings": self.settings, "training": self.training}
        notes = {name: value for name, value in self.about.items() if name not in OWN}
        try:
            write_atomically(path, json.dumps({**own, **notes}, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise MacridError(f"{path}: cannot be written ({error.strerror or error})") from error

    def check(self) -> None:
        """Refuse a model that does not exist, and settings that are not its own or out of range."""
        own = model_settings(self.model)
        own.make(self.settings)
        TrainingSettings.make(self.training)
        if "l2" in self.training and "regularisation" in own.model_fields:
            raise SettingsError(f"l2 is for models trained in epochs; {self.model} has regularisation")


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # of JSON, or of UTF-8
        raise SettingsError(f"{path}: not JSON ({first_line(error)})") from None
    except RecursionError:
        raise SettingsError(f"{path}: not a config, it is nested too deeply") from None
