"""A folder of recommendations, written in parts: what belongs to it, how far it is, and whether it is another job's.

_job.json            what the parts were made from; the same command goes on where another would have to start over
_events/             the events, divided by user; deleted at the end
part-00017.parquet   the lists of the users of one part, with counts in the metadata of the file
_SUCCESS             when all parts are there: the counts of all
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from macrid import manifest
from macrid.cluster.dividing import Divided
from macrid.errors import DataError, first_line
from macrid.files import make_writable, new_folder, remove_leftovers, write_atomically, writing
from macrid.runs.folder import weights_digest

JOB, EVENTS, DONE = "_job.json", "_events", "_SUCCESS"
METADATA = b"macrid"
PART = re.compile(r"part-\d{5}\.parquet")
OF_A_RUN = ("config.json", "model.safetensors", "items.parquet", "added.parquet", "added.safetensors")


def digest_of_run(run: Path) -> str:
    """Identifies what lists depend on; names of concepts, which people may edit, do not matter."""
    known = manifest.read(run) or {"model.safetensors": weights_digest(run)}
    kept = {name: known[name] for name in OF_A_RUN if name in known}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def describe(run: Path, files: list[Path], parts: int, options: dict[str, Any]) -> dict[str, Any]:
    """What makes two jobs the same: run, input (by names, sizes and times of change), options and parts."""
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return {
        "run": digest_of_run(run),
        "input": _digest(stats),
        "options": _digest({name: repr(value) for name, value in options.items()}),
        "parts": parts,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class JobFolder:
    """Where the parts of one job are written. Only one process at a time may have it."""

    def __init__(self, path: Path, about: dict[str, Any], overwrite: bool) -> None:
        """An error if it holds anything else, unless that is another job's and `overwrite` is set."""
        self.path, self.about = path, about
        if path.exists() and not path.is_dir():
            raise DataError(f"{path}: is a file; give a folder")
        make_writable(path, DataError)
        remove_leftovers(path)
        present = [entry.name for entry in path.iterdir()]
        job = self._read_job()
        ours = re.compile("" if job is None else rf"{JOB}|{DONE}|{PART.pattern}")
        foreign = sorted(name for name in present if name != EVENTS and not ours.fullmatch(name))
        if foreign:
            raise DataError(f"{path}: holds '{foreign[0]}', which is not of this job; use another folder")
        if job is not None and job["about"] != about and not overwrite:
            wrong = next(name for name in about if job["about"].get(name) != about[name])
            raise DataError(
                f"{path}: holds recommendations made with another {_words(wrong)}; choose another folder or add"
                " --overwrite"
            )
        if job is not None and (overwrite and (job["about"] != about or self.is_done)):
            self._clear()

    def _read_job(self) -> dict[str, Any] | None:
        try:
            job = json.loads((self.path / JOB).read_text(encoding="utf-8"))
            return job if {"about", "divided"} <= {*job} else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{self.path / JOB}: damaged ({first_line(error)}); use another folder") from None

    def _clear(self) -> None:
        """Delete what another job wrote, what makes it complete first."""
        with writing(self.path, DataError):
            (self.path / DONE).unlink(missing_ok=True)
            shutil.rmtree(self.path / EVENTS, ignore_errors=True)
            for part in self.path.glob("part-*.parquet"):
                part.unlink()
            (self.path / JOB).unlink(missing_ok=True)

    @property
    def is_done(self) -> bool:
        return (self.path / DONE).exists()

    @property
    def events(self) -> Path:
        return self.path / EVENTS

    def divided(self, divide: Callable[[Path], Divided]) -> Divided:
        """What is known about the events, divided now unless they are already; completely or not at all."""
        job = self._read_job()
        if job is not None and (self.is_done or self.events.is_dir()):
            return Divided(**job["divided"])
        with writing(self.path, DataError, "free some space, or choose another folder"):
            with new_folder(self.events) as temporary:
                found = divide(temporary)
            write_atomically(self.path / JOB, json.dumps({"about": self.about, "divided": asdict(found)}, indent=1))
        return found

    def part(self, number: int) -> Path:
        return self.path / f"part-{number:05d}.parquet"

    def missing(self, parts: int) -> list[int]:
        return [number for number in range(parts) if not self.part(number).exists()]

    def counts(self, parts: int) -> list[dict[str, Any]]:
        """Of every part; an error if one is missing or damaged."""
        return [self._counts(self.part(number)) for number in range(parts)]

    def _counts(self, part: Path) -> dict[str, Any]:
        try:
            return json.loads(pq.read_schema(part).metadata[METADATA])
        except (OSError, pa.ArrowException, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{part}: missing or damaged ({first_line(error)}); delete it and run again") from None

    def finish(self, counts: dict[str, Any]) -> None:
        """Say that all parts are there."""
        with writing(self.path, DataError):
            write_atomically(self.path / DONE, json.dumps({**counts, "about": self.about}, indent=1) + "\n")
        shutil.rmtree(self.events, ignore_errors=True)
        remove_leftovers(self.path)


def _words(name: str) -> str:
    return {"run": "run", "input": "--input", "options": "set of options", "parts": "number of parts"}[name]
