"""Item pictures: drawings for the built-in shop, or files named by item id."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from macrid.data.shop.assortment import CATEGORIES, COLUMNS, picture_of
from macrid.errors import MacridError
from macrid.models.base import Recommender

MEDIA_TYPES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".avif": "image/avif",
}
LARGEST_FILE = 5 * 2**20  # bytes
CACHED_DRAWINGS = 4096  # a few KB each


class Pictures:
    """Pictures by item position. A file takes precedence over a drawing."""

    def __init__(self, model: Recommender, folder: Path | None = None) -> None:
        """folder: listed now; files added later are not seen."""
        self._model = model
        self._files = {} if folder is None else _files(model, folder)
        self._has_drawing = _has_drawing(model)
        self._draw = lru_cache(maxsize=CACHED_DRAWINGS)(self._drawing)

    @property
    def any(self) -> bool:
        """Whether any item has one."""
        return bool(self._files) or bool(self._has_drawing.any())

    def has(self, position: int) -> bool:
        return position in self._files or bool(self._has_drawing[position])

    def of(self, position: int) -> tuple[bytes, str] | None:
        """Content and media type; None without a picture, or if its file is now missing or too large."""
        file = self._files.get(position)
        if file is not None:
            content = _read(file)
            return None if content is None else (content, MEDIA_TYPES[file.suffix.lower()])
        return (self._draw(position), MEDIA_TYPES[".svg"]) if self.has(position) else None

    def _drawing(self, position: int) -> bytes:
        drawn = picture_of(self._model.items, self._model.table, self._model.items[position])
        assert drawn is not None
        return drawn.encode()


def _has_drawing(model: Recommender) -> np.ndarray:
    """Which items belong to the built-in shop: (items,)."""
    table = model.table
    if table is None or not {"title", *COLUMNS} <= set(table.column_names):
        return np.zeros(len(model.items), dtype=bool)
    drawable = {kind.name for kind in CATEGORIES}
    return np.array([name in drawable for name in map(str, table.column("category").to_pylist())], dtype=bool)


def _files(model: Recommender, folder: Path) -> dict[int, Path]:
    """Picture files by item position. Names may be percent-encoded, for ids with slashes."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        reason = error.strerror or error
        raise MacridError(f"{folder}: {reason}; give a folder with files such as {model.items[0]}.png") from error
    inside = folder.resolve()
    files: dict[int, Path] = {}
    for suffix in reversed(MEDIA_TYPES):  # of several pictures of an item, the first suffix wins
        for path in (Path(entry) for entry in entries if entry.name.lower().endswith(suffix)):
            real = path.resolve()
            if not real.is_relative_to(inside) or not real.is_file() or real.stat().st_size > LARGEST_FILE:
                continue
            ids = [model.items.parse(path.stem), model.items.parse(unquote(path.stem))]
            position = model.items.positions(ids).max()
            if position >= 0 and real.suffix.lower() in MEDIA_TYPES:
                files[int(position)] = real
    return files


def _read(file: Path) -> bytes | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError:
        return None
    return content if len(content) <= LARGEST_FILE else None
