"""The files of a run, what they must contain, and how each is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import pyarrow as pa
from safetensors import SafetensorError, safe_open
from torch import Tensor

from macrid import manifest
from macrid.errors import RunError, first_line
from macrid.files import recover
from macrid.training import checkpoint
from macrid.version import __version__

FORMAT = 1
TRAINING = "training"  # the subfolder of an unfinished training
DRAFT = "draft"  # in it: the run so far
FINAL = "final"  # in it: the checkpoint of the training on everybody
IN_TRAINING = (DRAFT, FINAL, checkpoint.FILE, checkpoint.FOLDER, f".{checkpoint.FILE}.lock", "lock")
"""What may be in it."""
REMEDY = "restore it from a copy, or train again"
INDENTED = 3  # levels of JSON that have a line for each entry
PART = 4 << 20  # bytes at both ends of the weights that identify them
FILES = (
    "config.json",
    "model.safetensors",
    "items.parquet",
    "log.jsonl",
    "metrics.json",
    "axes.safetensors",
    "names.json",
    "effects.json",
    "heldout.safetensors",
    "first.safetensors",
    "added.parquet",
    "added.safetensors",
    "map.safetensors",
    "inspection.json",
    "diff.json",
    "index.safetensors",
    manifest.FILE,
)
CACHES = ("map.safetensors", "inspection.json", "index.safetensors")  # computed again if damaged
EDITABLE = ("names.json",)  # by people, too
UNREADABLE = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
    OverflowError,
    pa.ArrowException,
)


def read_config(path: Path) -> dict[str, Any]:
    """A run's config.json, if its format is known."""
    recover(path)
    if not path.exists():
        raise RunError(f"{path}: no such run; create it with `macrid train DATA --out {quote(str(path))}`")
    if not (path / "config.json").is_file():
        unfinished = (path / TRAINING).is_dir()
        raise RunError(
            f"{path}: training is unfinished; continue with `macrid train DATA --out {quote(str(path))} --resume`"
            if unfinished
            else f"{path}: not a run, it has no config.json"
        )
    config = read(path, "config.json", lambda file: json.loads(Path(file).read_text(encoding="utf-8")))
    if not isinstance(config, dict) or not isinstance(config.get("format"), int) or "class" not in config:
        raise RunError(f"{path}: not a macrid run, its config.json has no format or class")
    if config["format"] > FORMAT:
        raise RunError(
            f"{path}: written by macrid {config.get('version', '?')} in format {config['format']}, but macrid"
            f" {__version__} reads formats up to {FORMAT}; upgrade with `pip install -U macrid`"
        )
    check(path, config, ["config.json"])
    return config


def has_progress(run: Path) -> bool:
    """Whether a folder holds an interrupted training that can be resumed."""
    return any((run / TRAINING / name).exists() for name in (checkpoint.FILE, DRAFT))


def check(path: Path, config: dict[str, Any], names: list[str] | None = None) -> None:
    """A `RunError` if a file is not the one that was written."""
    with damage_explained():
        manifest.check(path, names, (*CACHES, *EDITABLE), required=bool(config.get("has_manifest")))


def read(path: Path, name: str, reader: Any) -> Any:
    if not (path / name).is_file():
        raise RunError(f"{path}: damaged run, {name} is missing; {REMEDY}")
    try:
        return reader(path / name)
    except PermissionError as error:
        raise RunError(f"{path / name}: cannot be read ({error.strerror})") from error
    except (OSError, ValueError, RecursionError, SafetensorError, pa.ArrowException) as error:
        raise RunError(f"{path / name}: damaged and cannot be read ({first_line(error)}); {REMEDY}") from error


def tensors_of(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """A file's tensors and metadata, in memory: overwriting a file in place kills processes that have it mapped."""
    with safe_open(file, "pt") as opened:
        tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        return tensors, opened.metadata() or {}


def put(path: Path, contents: Any) -> None:
    """Replace files of a run, all of them or none; raises an `OSError` if it cannot."""
    with damage_explained():
        manifest.update(path, contents, FILES)


@contextmanager
def damage_explained() -> Iterator[None]:
    try:
        yield
    except manifest.DamagedError as error:
        raise RunError(f"{error}; {REMEDY}") from None


def weights_digest(run: Path) -> str:
    """Identifies the weights of a run."""
    path = run / "model.safetensors"
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(PART))
        file.seek(max(0, size - PART))
        digest.update(file.read(PART))
    return digest.hexdigest()[:16]


_encode = json.JSONEncoder(ensure_ascii=False).encode


def pretty(value: Any) -> str:
    """JSON, indented; what lies deeper than `INDENTED` levels is on one line, which json encodes ten times as fast."""
    return _indented(value, "\n") + "\n"


def _indented(value: Any, line: str) -> str:
    """line: a line break and the indentation so far."""
    if not value or not isinstance(value, dict | list | tuple) or len(line) > 2 * INDENTED:
        return _encode(value)
    inner = line + "  "
    if isinstance(value, dict):
        parts = (f"{_encode(str(name))}: {_indented(each, inner)}" for name, each in value.items())
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}"
    return f"[{inner}{f',{inner}'.join(_indented(each, inner) for each in value)}{line}]"
