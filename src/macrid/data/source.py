"""A split by the name people give it: a prepared folder, or a data set of the catalogue."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from macrid.data import catalog, store
from macrid.data.download import Progress
from macrid.data.split import Split
from macrid.errors import DataError
from macrid.files import recover


def load_split(source: str | os.PathLike[str], progress: Progress | None = None) -> tuple[Split, dict[str, Any]]:
    """The split, and what a run should remember of where it came from.

    progress: called with the bytes done and in all while downloading.
    """
    path, name = Path(source), os.fspath(source)
    recover(path)
    if (path / "about.json").is_file() or (path.is_dir() and name not in catalog.names()):
        recipe = store.read_about(path).get("recipe") or {}
        known = {"source": "folder", "path": os.path.abspath(path), "min_rating": recipe.get("min_rating")}
        return store.read(path), known
    if name in catalog.names():
        rules = catalog.entry(name).recipe
        known = {"source": "catalogue", "name": name, "min_rating": rules and rules.min_rating}
        return catalog.load(name, progress=progress), known
    if path.is_file():
        raise DataError(f"{source}: is a file; prepare it first: `macrid data prepare {source} --out DIR`")
    raise DataError(f"{source}: neither a prepared folder nor a name of the catalogue{did_you_mean(name)}")


def did_you_mean(name: str) -> str:
    close = difflib.get_close_matches(name, catalog.names(), n=1)
    return f"; did you mean {close[0]}?" if close else f"; the names are {', '.join(catalog.names())}"
