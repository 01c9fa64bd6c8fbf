"""A folder's manifest.json: the SHA-256 of each of its files, so that damage is noticed and updates are all or nothing.

`update` writes new files as `.NAME.next`, then the manifest with their digests, then renames them. A kill before the
manifest is written leaves the old files; after it, `recover` finishes the renames.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from errno import EISDIR
from pathlib import Path
from shlex import quote
from typing import TypeVar

from macrid.errors import MacridError
from macrid.files import locked, write_atomically

FILE = "manifest.json"
ATTEMPTS = 3  # at reading a folder that changes meanwhile
T = TypeVar("T")


class DamagedError(MacridError):
    """Files that are not what the manifest says."""

    def __init__(self, folder: Path, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        name, problem = next(iter(problems.items()))
        more = f"; `macrid doctor {quote(str(folder))}` lists {len(problems) - 1} more" if len(problems) > 1 else ""
        super().__init__(f"{folder / name}: {problem}{more}")


def seal(folder: Path, names: Iterable[str]) -> None:
    """Write the manifest of those of these files that a folder has."""
    present = [name for name in names if (folder / name).is_file() and name != FILE]
    write_atomically(folder / FILE, _text({name: digest(folder / name) for name in present}))


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def read(folder: Path) -> dict[str, str] | None:
    """File names and digests, or None if there is no manifest; a `DamagedError` if it is not one of ours."""
    try:
        content = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(folder, {FILE: f"cannot be read ({error.strerror})"}) from error
    try:
        entries = json.loads(content)["sha256"]
        is_ours = _text(entries).encode() == content  # to the byte: a manifest has no other check
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_ours = False
    if not is_ours:
        raise DamagedError(folder, {FILE: "damaged (it is not a manifest as macrid writes it)"})
    return dict(entries)


def problems(folder: Path, names: Iterable[str] | None = None, skipped: Iterable[str] = ()) -> dict[str, str]:
    """What is wrong, by file: those given, or all; empty if nothing is, or if there is no manifest.

    A `DamagedError` if one of them cannot be read at all.
    """
    if any(folder.glob(".*.next")):
        recover(folder)
    entries = read(folder)
    if entries is None:
        return {}
    wrong: dict[str, str] = {}
    for name in sorted(entries if names is None else {*names} & {*entries}):
        if name in skipped:
            continue
        try:
            if digest(folder / name) != entries[name]:
                wrong[name] = "damaged (its SHA-256 is not the one in manifest.json)"
        except FileNotFoundError:
            wrong[name] = "damaged (it is missing)"
        except OSError as error:
            raise DamagedError(folder, {name: f"cannot be read ({error.strerror})"}) from error
    return wrong


def check(
    folder: Path, names: Iterable[str] | None = None, skipped: Iterable[str] = (), *, required: bool = True
) -> None:
    """A `DamagedError` if a file is not what the manifest says, or if there is none although it is required."""
    if required and not (folder / FILE).exists():
        raise DamagedError(folder, {FILE: "damaged (it is missing)"})
    if wrong := problems(folder, names, skipped):
        raise DamagedError(folder, wrong)


def update(
    folder: Path, contents: Mapping[str, bytes | str] | Callable[[], Mapping[str, bytes | str]], names: Iterable[str]
) -> None:
    """Replace some files of a folder, all of them or none. An `OSError` says that none was.

    contents: or a function that makes them while no other process writes to the folder.
    names: of the files to seal if the folder has no manifest yet.
    """
    with locked(folder):
        _finish(folder)
        entries = read(folder)
        if entries is None:  # made before there were manifests
            seal(folder, names)
            entries = read(folder) or {}
        made = contents() if callable(contents) else contents
        encoded = {name: text.encode() if isinstance(text, str) else text for name, text in made.items()}
        try:
            for name, content in encoded.items():
                if (folder / name).is_dir():
                    raise IsADirectoryError(EISDIR, os.strerror(EISDIR), name)
                write_atomically(_next(folder, name), content)
            digests = {name: hashlib.sha256(content).hexdigest() for name, content in encoded.items()}
            write_atomically(folder / FILE, _text(entries | digests))
        except BaseException:
            _finish(folder)
            raise
        with suppress(OSError):  # the manifest is written: the next reader finishes what is left
            _finish(folder)


def recover(folder: Path) -> None:
    """Finish or undo an update that a kill interrupted."""
    with suppress(OSError), locked(folder):  # not permitted: what cannot be read says so itself
        _finish(folder)


def steadily(folder: Path, read_all: Callable[[], T]) -> T:
    """Read a folder that another process may be updating or replacing: again, if it did so meanwhile."""
    for attempt in range(ATTEMPTS):
        before = _now(folder)
        try:
            result = read_all()
        except MacridError:
            if attempt == ATTEMPTS - 1 or _now(folder) == before:
                raise
            continue
        if _now(folder) == before:
            break
    return result


def _finish(folder: Path) -> None:
    entries = None
    for leftover in folder.glob(".*.next"):
        entries = read(folder) or {} if entries is None else entries
        name = leftover.name[1 : -len(".next")]
        if entries.get(name) == digest(leftover):
            os.replace(leftover, folder / name)
        else:
            leftover.unlink()


def _next(folder: Path, name: str) -> Path:
    return folder / f".{name}.next"


def _now(folder: Path) -> bytes | None:
    with suppress(OSError):
        return (folder / FILE).read_bytes()
    return None


def _text(entries: Mapping[str, str]) -> str:
    return json.dumps({"sha256": dict(sorted(entries.items()))}, indent=1) + "\n"
