"""Files and folders that are written whole or not at all: under a hidden temporary name, synced, then renamed.

A reader never sees half of something, and whatever was there before survives a full disk or a kill. Errors of the
operating system pass through as `OSError`; the caller says in its own words what could not be written.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from macrid.errors import MacridError

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows has no advisory locks of this kind)
    fcntl = None  # type: ignore[assignment]


ABANDONED_AFTER = 60.0  # seconds


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file; text as UTF-8. An existing file is replaced in one step."""
    target = Path(path).resolve()
    _remove_abandoned(target)
    temporary = _temporary(target)
    try:
        with temporary.open("xb") as file:
            lock(file.fileno())
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(target.parent)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary sibling folder to fill; it takes the place of `path` if the block ends well, else it is removed."""
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    temporary = _temporary(target)
    temporary.mkdir()
    held = os.open(temporary, os.O_RDONLY) if fcntl is not None else None
    try:
        if held is not None:
            lock(held)
        yield temporary
        replace_folder(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        if held is not None:
            os.close(held)


def check_free(
    target: Path, overwrite: bool, error: type[MacridError], made: Collection[str], own: Collection[str] = ()
) -> None:
    """Refuse, by an `error`, to write a folder over anything that was not meant to go, or where it cannot be put.

    made: names that such a folder holds; others are never deleted, `overwrite` or not.
    own: names that may be there all the same, because they belong to what is being written.
    """
    recover(target)
    if target.exists() and not target.is_dir():
        raise error(f"{target}: is a file; give the name of a folder")
    others = [entry.name for entry in target.iterdir() if entry.name not in own] if target.exists() else []
    if others and not overwrite:
        raise error(
            f"{target}: is not empty; choose another folder, or replace what is there with --overwrite"
            " (overwrite=True in Python)"
        )
    foreign = sorted({*others} - {*made})
    if foreign:
        raise error(
            f"{target}: holds '{foreign[0]}', which macrid did not write; move it away or choose another folder"
        )
    place = target.resolve()
    if others and (Path.cwd().is_relative_to(place) or Path.home().is_relative_to(place)):
        raise error(f"{target}: --overwrite would delete the working or home folder with it; choose another folder")
    if os.path.ismount(place):
        raise error(f"{target}: is a mount point, which cannot be replaced in one step; give a folder inside it")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.").cleanup()
    except OSError as reason:
        raise error(f"{target}: cannot be written ({reason.strerror or reason}); choose another folder") from reason


def replace_folder(temporary: Path, target: Path) -> None:
    """Put a complete folder in the place of another, which is deleted only after that.

    Two renames: between them the old folder is `.NAME.previous`, and `recover` undoes a kill at that moment.
    """
    target = Path(target).resolve()
    for folder, _, names in os.walk(temporary):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    recover(target)
    previous = _previous(target)
    if previous.exists():
        shutil.rmtree(previous)
    if target.exists():
        target.rename(previous)
    try:
        temporary.rename(target)
    except OSError:
        recover(target)
        raise
    _sync(target.parent)
    if previous.exists():
        doomed = _temporary(target)  # a deletion cut short must not leave something that `recover` takes for whole
        previous.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def recover(target: str | os.PathLike[str]) -> None:
    """Bring back the folder that a kill in the middle of `replace_folder` left under its previous name."""
    target = Path(target).resolve()
    if not target.exists():
        with suppress(OSError):  # nothing to recover, or no right to; the caller finds no folder and says so
            _previous(target).rename(target)


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Mark an open file or folder as in use until it is closed or this process ends; False if another one holds it.

    wait: until the other one lets go.
    """
    if fcntl is None:  # pragma: no cover
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")


def _remove_abandoned(target: Path) -> None:
    """What a killed process left beside the target; what belongs to a living one is locked, or very young."""
    if fcntl is None:  # pragma: no cover
        return
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                if time.time() - os.fstat(descriptor).st_mtime < ABANDONED_AFTER or not lock(descriptor):
                    continue
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink()
            finally:
                os.close(descriptor)


def _sync(path: Path) -> None:
    """Down to the disk, so that a rename never gets there before what it names."""
    if os.name == "nt":  # pragma: no cover  (neither folders nor files open for reading can be synced there)
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
