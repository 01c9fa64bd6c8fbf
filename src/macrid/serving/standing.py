"""Standing rules: those of every answer, from files that are reread when they change.

A file that becomes unreadable, or says something that makes no sense for the run, changes nothing: the last good rules
stay in force, and `problem` says why. All processes of a service read the same files.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from macrid.control.rulebook import rulebook_of
from macrid.control.rules import Rules
from macrid.data.idfiles import read_ids
from macrid.errors import MacridError, RequestError, RunError
from macrid.files import write_atomically, writing
from macrid.models.forks import new_lock
from macrid.serving.hosted import Hosted
from macrid.serving.problems import InvalidRulesError
from macrid.settings import ServingSettings

SUFFIX = ".rules.json"  # after the name of the run, beside it
log = logging.getLogger("macrid.serving")


class Standing:
    """The rules of one service."""

    def __init__(self, run: Path, settings: ServingSettings, hosted: Hosted) -> None:
        """An error if a file cannot be read or does not suit the run."""
        run = Path(os.path.abspath(run))  # of a link, not of what it leads to today: rules outlive a run
        self._is_named = settings.rules is not None
        self._path = Path(settings.rules) if settings.rules is not None else run.with_name(run.name + SUFFIX)
        files = {"exclude": settings.exclude_file, "include": settings.include_file}
        self._files = {name: Path(file) for name, file in files.items() if file is not None}
        self._lock = new_lock()
        self._seen = self._state()
        self.rules: tuple[Rules, ...] = self._read()
        self.problem: str | None = None
        self.check(hosted)

    @property
    def active(self) -> tuple[Rules, ...]:
        """Those that say anything."""
        return tuple(each for each in self.rules if each)

    @property
    def has_changed(self) -> bool:
        """Whether a file is not the one that was read last."""
        return self._state() != self._seen

    def refresh(self, hosted: Hosted) -> None:
        """Read the files again if they have changed."""
        with self._lock:
            seen = self._state()
            if seen == self._seen:
                return
            self._seen = seen
            before = self.rules
            try:
                self.rules = self._read()
                self.check(hosted)
            except MacridError as error:
                self.rules, self.problem = before, self._without_folders(str(error))
                log.warning("the old rules stay in force: %s", error)
                return
            self.problem = None
            log.info("rules have changed: %s", self._described())

    def replace(self, rules: Rules, hosted: Hosted) -> None:
        """Write the rules file; an error if the rules do not suit the run or cannot be written."""
        with self._lock:
            try:
                rulebook_of(hosted.model).apply((rules, *self.rules[1:]))
            except RequestError as error:
                raise InvalidRulesError(error, "") from None
            with writing(self._path.name, RunError, "the rules have not changed"):
                write_atomically(self._path, json.dumps(rules.as_json(), indent=2, ensure_ascii=False) + "\n")
        self.refresh(hosted)

    def check(self, hosted: Hosted) -> None:
        """An error if the rules do not suit a run."""
        try:
            hosted.engine.check_rules(self.rules)
        except MacridError as error:
            raise RunError(f"the standing rules do not suit {hosted.run.name}: {error}") from None

    def as_json(self, hosted: Hosted) -> dict[str, Any]:
        """As the schema `StandingRules`."""
        applied = rulebook_of(hosted.model).apply(self.rules)
        allowed = np.ones(len(hosted.model.items), dtype=bool) if applied.allowed is None else applied.allowed
        of_files = self.rules[1]
        return {
            "rules": self.rules[0].as_json(),
            "excluded_by_file": None if of_files.exclude is None else len(of_files.exclude),
            "included_by_file": None if of_files.include is None else len(of_files.include),
            "items": int(allowed.sum()),
            "warnings": list(applied.warnings),
            "problem": self.problem,
        }

    def _read(self) -> tuple[Rules, ...]:
        """Of the rules file, and of the files of ids."""
        rules = Rules.load(self._path) if self._is_named or self._path.exists() else Rules()
        ids = {name: read_ids(path) for name, path in self._files.items()}
        return rules, Rules(include=ids.get("include"), exclude=ids.get("exclude"))

    def _state(self) -> list[tuple[int, int, int] | None]:
        """Changes with every file."""
        return [_changed(path) for path in (self._path, *self._files.values())]

    def _without_folders(self, message: str) -> str:
        for path in (self._path, *self._files.values()):
            message = message.replace(str(path), path.name)
        return message

    def _described(self) -> str:
        said = self.rules[0].as_json()
        counts = [
            f"{len(ids):,} ids to {name}" for name in self._files if (ids := getattr(self.rules[1], name)) is not None
        ]
        return ", ".join([*said, *counts]) or "none"


def _changed(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        stat = os.stat(path)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
    return None
