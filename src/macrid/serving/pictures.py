"""Item pictures: drawings for the built-in shop, or files named by item id."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from macrid.data.shop.assortment import CATEGORIES, COLUMNS, picture_of
from macrid.errors import MacridError
from macrid.models.base import Recommender

SUFFIXES = ("svg", "png", "jpg", "jpeg", "webp", "gif", "avif")
MEDIA_TYPES = {f".{name}": f"image/{name}" for name in SUFFIXES} | {".svg": "image/svg+xml", ".jpg": "image/jpeg"}
LARGEST_FILE = 5 * 2**20  # bytes
FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
CACHED_DRAWINGS = 4096  # a few KB each


class Pictures:
    """Pictures by item position. A file takes precedence over a drawing."""

    def __init__(self, model: Recommender, folder: Path | None = None) -> None:
        """folder: listed now; files added later are not seen."""
        self._model = model
        self._files = {} if folder is None else _files(model, folder)
        self._draw = lru_cache(maxsize=CACHED_DRAWINGS)(self._drawing)
        self.any = bool(self._files) or _has_drawings(model.table)

    def has(self, position: int) -> bool:
        return position in self._files or self._draw(position) is not None

    def of(self, position: int) -> tuple[bytes, str] | None:
        """Content and media type; None without a picture, or if its file is now missing or too large."""
        file = self._files.get(position)
        if file is not None:
            content = _read(file)
            return None if content is None else (content, MEDIA_TYPES[file.suffix.lower()])
        drawing = self._draw(position)
        return None if drawing is None else (drawing.encode(), MEDIA_TYPES[".svg"])

    def _drawing(self, position: int) -> str | None:
        return picture_of(self._model.items, self._model.table, self._model.items[position])


def _has_drawings(table: pa.Table | None) -> bool:
    """Whether any item belongs to the built-in shop."""
    if table is None or not {"title", *COLUMNS} <= set(table.column_names):
        return False
    return not {kind.name for kind in CATEGORIES}.isdisjoint(table.column("category").to_pylist())


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
    """The content of a regular file that is still where it was; opening anything else could wait for ever."""
    try:
        descriptor = os.open(file, FLAGS)
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode) or file.resolve() != file:
                return None
            content = opened.read(LARGEST_FILE + 1)
    except OSError:
        return None
    return content if len(content) <= LARGEST_FILE else None
