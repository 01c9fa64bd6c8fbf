"""Atomic writes of files and folders: under a hidden temporary name, synced, then renamed. Locks that a kill releases.

A reader never sees half a file, and the previous version survives a full disk or a kill. `OSError` passes through;
`writing` turns it into an error for the user.
"""

from __future__ import annotations

import glob
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EWOULDBLOCK
from pathlib import Path
from typing import IO

from macrid.errors import MacridError

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows has no advisory locks of this kind)
    fcntl = None  # type: ignore[assignment]


ABANDONED_AFTER = 60.0  # seconds
LEFTOVER = re.compile(r"\..+\.([0-9a-f]+\.partial|next)")  # what a kill leaves in a folder


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file (text as UTF-8), replacing an existing one in one step."""
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
    """A temporary sibling folder to fill; it replaces `path` if the block succeeds and is removed otherwise."""
    target = Path(path).resolve()
    with _temporary_folder(target) as temporary:
        yield temporary
        replace_folder(temporary, target)


@contextmanager
def new_files(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder to fill with a file and others that go with it.

    If the block succeeds, they replace those beside `path`, one by one and `path` itself last.
    """
    target = Path(path).resolve()
    with _temporary_folder(target) as temporary:
        yield temporary
        made = sorted(temporary.iterdir(), key=lambda file: (file.name == target.name, file.name))
        for file in made:
            _sync(file)
        for file in made:
            os.replace(file, target.with_name(file.name))
        temporary.rmdir()
        _sync(target.parent)


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """Beside the target; if the block fails, it is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    temporary = _temporary(target)
    temporary.mkdir()
    descriptor = os.open(temporary, os.O_RDONLY) if fcntl is not None else None
    try:
        if descriptor is not None:
            lock(descriptor)
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def writing(target: object, error: type[MacridError], remedy: str = "") -> Iterator[None]:
    """Turn an `OSError` into an `error` that names what cannot be written, and the remedy."""
    try:
        yield
    except OSError as reason:
        message = f"{target}: cannot be written ({reason.strerror or reason})"
        raise error(f"{message}; {remedy}" if remedy else message) from reason


def check_free(
    target: Path, overwrite: bool, error: type[MacridError], replaceable: Collection[str], allowed: Collection[str] = ()
) -> None:
    """Raise an `error` if writing a folder would delete anything it should not, or cannot succeed.

    replaceable: names that `overwrite` may delete; nothing else is ever deleted.
    allowed: names that may already be there, such as the checkpoint of this run.
    """
    recover(target)
    if target.exists() and not target.is_dir():
        raise error(f"{target}: is a file, not a folder; choose another name")
    present = [entry.name for entry in target.iterdir()] if target.exists() else []
    others = [name for name in present if name not in allowed and not LEFTOVER.fullmatch(name)]
    foreign = sorted({*others} - {*replaceable})
    if foreign:
        raise error(f"{target}: contains '{foreign[0]}', which macrid did not write; move it or choose another folder")
    if others and not overwrite:
        raise error(
            f"{target}: is not empty; choose another folder, or replace its contents with --overwrite"
            " (overwrite=True in Python)"
        )
    resolved = target.resolve()
    if target.exists() and (Path.cwd().is_relative_to(resolved) or Path.home().is_relative_to(resolved)):
        raise error(f"{target}: would replace the working or home directory; choose another folder")
    if os.path.ismount(resolved):
        raise error(f"{target}: is a mount point, which cannot be replaced in one step; choose a folder inside it")
    with writing(target, error, "choose another folder"):
        resolved.parent.mkdir(parents=True, exist_ok=True)
        probe = _temporary(resolved)
        probe.mkdir()
        probe.rmdir()


def remove_leftovers(folder: Path) -> None:
    """Delete what killed processes left in a folder that no other process writes to."""
    for entry in folder.iterdir():
        if LEFTOVER.fullmatch(entry.name):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def check_regular(path: Path, error: type[MacridError]) -> None:
    """Raise an `error` unless this is an ordinary file: a device may never end, and a pipe can be read only once."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise error(f"{path}: is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise error(f"{path}: is a device or a pipe; write its content to a file first")


def make_writable(folder: Path, error: type[MacridError]) -> None:
    """Create a folder; an `error` if that fails or nothing can be written in it."""
    with writing(folder, error, "choose another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def replace_folder(temporary: Path, target: Path) -> None:
    """Replace a folder with a complete new one, which may lie inside it, and only then delete the old one.

    Between its two renames the old folder is called `.NAME.previous`; `recover` repairs a kill at that moment.
    """
    target, temporary = Path(target).resolve(), Path(temporary).resolve()
    for folder, _, names in os.walk(temporary):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    recover(target)
    previous = _previous(target)
    if previous.exists():
        shutil.rmtree(previous)
    if not target.exists():
        temporary.rename(target)
        _sync(target.parent)
        return
    with locked(target):
        source = previous / temporary.relative_to(target) if temporary.is_relative_to(target) else temporary
        target.rename(previous)
        try:
            source.rename(target)
        except OSError:
            previous.rename(target)
            raise
    _sync(target.parent)
    doomed = _temporary(target)  # so that `recover` never restores a half-deleted folder
    previous.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def recover(target: str | os.PathLike[str]) -> None:
    """Restore the folder that a kill during `replace_folder` left as `.NAME.previous`."""
    target = Path(target).resolve()
    if target.exists():
        return
    with suppress(OSError), locked(_previous(target)):  # nothing to recover, or not permitted: the caller reports it
        if not target.exists():  # another process may have been faster
            _previous(target).rename(target)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait for other processes that hold this lock on a folder; for short work only."""
    if fcntl is None:  # pragma: no cover
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


class Claim:
    """The right to write a folder that may be replaced meanwhile: a locked file beside it, `.NAME.lock`."""

    def __init__(self, target: Path, error: type[MacridError]) -> None:
        self._target, self._error, path = target, error, Path(target).resolve()
        if not path.name:
            raise error(f"{target}: cannot be replaced; choose a folder inside it")
        self._path = path.with_name(f".{path.name}.lock")
        self._file: IO[bytes] | None = None
        self.confirm()

    def confirm(self) -> None:
        """Take the lock, again if its file was deleted; an `error` if another process has it."""
        while not self._is_held():
            with writing(self._target, self._error, "choose another folder"):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                file = self._path.open("ab+", buffering=0)
            if not lock(file.fileno()):
                file.seek(0)
                holder = (file.read(20) or b"").decode("ascii", "replace")
                file.close()
                raise self._error(
                    f"{self._target}: in use by another process{f' ({holder})' * holder.isdecimal()};"
                    " wait for it, or choose another folder"
                )
            self._close()
            self._file = file
            with suppress(OSError):  # a full disk: the lock holds without the note
                file.truncate(0)
                file.write(str(os.getpid()).encode())

    def release(self) -> None:
        try:
            if self._is_held():
                with suppress(OSError):  # without a lock on it, the file means nothing
                    self._path.unlink(missing_ok=True)
        finally:
            self._close()

    def _is_held(self) -> bool:
        try:
            return self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except OSError:
            return False

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def claimed(target: Path, error: type[MacridError]) -> Iterator[Claim]:
    """The only process that writes a folder; an `error` if another one does."""
    claim = Claim(target, error)
    try:
        yield claim
    finally:
        claim.release()


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder until it is closed or this process ends; False if another process holds it.

    wait: until the other process lets go. A file system without locks is taken as it is.
    """
    if fcntl is None:  # pragma: no cover
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return error.errno not in (EWOULDBLOCK, EACCES)
    return True


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")


def _remove_abandoned(target: Path) -> None:
    """Delete what killed processes left next to the target; a live process's files are locked or very recent."""
    if fcntl is None:  # pragma: no cover
        return
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        with suppress(OSError):
            descriptor = os.open(leftover, os.O_RDONLY)
            try:
                if time.time() - os.fstat(descriptor).st_mtime < ABANDONED_AFTER or not lock(descriptor):
                    continue
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink()
            finally:
                os.close(descriptor)


def _sync(path: Path) -> None:
    """Flush to disk, so that a rename never gets there before the data."""
    if os.name == "nt":  # pragma: no cover  (Windows cannot sync folders, nor files opened for reading)
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
