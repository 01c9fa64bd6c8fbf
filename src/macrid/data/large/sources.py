"""Files, folders and globs of events: which files they are."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from macrid.errors import DataError

TABLES = (".parquet", ".pq", ".csv", ".tsv", ".tab", ".dat")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".filepart", ".inprogress")
BYTES_PER_ROW = 128  # of memory, that events take at most while they are prepared in it
SHORTEST_ROW = 20  # bytes of text
COMPRESSION = 4
ASIDE = (".", "_")  # begins the names of what is no table, such as _SUCCESS and checksums
BEING_WRITTEN = ("_temporary", "_delta_log")


def files_of(sources: Sequence[str]) -> list[Path]:
    """The files that paths, folders and globs stand for, in an order that does not depend on that of the sources."""
    found: dict[Path, Path] = {}
    for source in sources:
        for path in _files_of(source):
            found.setdefault(path.resolve(), path)
    return [found[key] for key in sorted(found)]


def _files_of(source: str) -> Iterator[Path]:
    path = Path(source)
    if path.is_dir():
        yield from _files_in(path)
    elif path.exists() or not glob.has_magic(source):
        yield path  # whoever reads it says if it is missing
    else:
        matches = sorted(map(Path, glob.glob(source, recursive=True)))
        for match in matches:
            if match.name in BEING_WRITTEN:
                raise DataError(_why_not_whole(match))
        if not path.name.startswith(ASIDE):
            matches = [match for match in matches if not match.name.startswith(ASIDE)]
        if not matches:
            raise DataError(f"{source}: no file matches; check the pattern (relative to {Path.cwd()})")
        for match in matches:
            yield from _files_in(match) if match.is_dir() else (match,)


def _files_in(folder: Path) -> Iterator[Path]:
    """The tables in a folder and those below it; an error if it has anything else."""
    is_empty = True
    for place, folders, names in os.walk(folder):
        where = Path(place)
        for name in BEING_WRITTEN:
            if name in folders:
                raise DataError(_why_not_whole(where / name))
        folders[:] = sorted(name for name in folders if not name.startswith(ASIDE))
        for name in sorted(names):
            if not name.startswith(ASIDE):
                is_empty = False
                _check_name(folder, where / name)
                yield where / name
    if is_empty:
        raise DataError(f"{folder}: no Parquet or CSV files in this folder")


def _why_not_whole(path: Path) -> str:
    if path.name == "_delta_log":
        return (
            f"{path.parent}: is a Delta table, some of whose files are no longer part of it; query it instead, or write"
            " it as plain Parquet"
        )
    return f"{path.parent}: half-written, as it contains '{path.name}'; wait until the job that writes it has finished"


def _check_name(folder: Path, path: Path) -> None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in UNFINISHED:
        raise DataError(f"{path}: looks half-written; wait until it is finished, or move it out of the folder")
    if path.name == "about.json":
        raise DataError(f"{folder}: is a folder that `macrid data prepare` wrote; give the events it was made from")
    if suffixes[-1:] and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in TABLES:
        raise DataError(
            f"{path}: neither Parquet nor CSV by its name; move it out of the folder, or give a pattern such as"
            f" '{folder}/*.parquet'"
        )


def fits_in_memory(path: Path, memory: int) -> bool:
    """Whether a file of events can be prepared in so many bytes of memory, by the size of the file."""
    return estimated_rows(path) * BYTES_PER_ROW <= memory


def estimated_rows(path: Path) -> int:
    """About how many rows a file has at most, without reading it; 0 if it cannot be read."""
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return int(pa.parquet.read_metadata(path).num_rows)
        size = path.stat().st_size
    except (OSError, pa.ArrowException):  # reported by whoever reads it
        return 0
    return size * (COMPRESSION if path.suffix.lower() in COMPRESSED else 1) // SHORTEST_ROW
