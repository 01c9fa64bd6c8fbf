"""Download archives: resumable, verified, and unpacked atomically."""

from __future__ import annotations

import hashlib
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from io import BufferedRandom
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from macrid.errors import DataError
from macrid.files import lock, new_folder, write_atomically, writing
from macrid.version import __version__

CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 4  # in a row without progress
WAIT = 1.0  # seconds before the second attempt, doubled each time

T = TypeVar("T")
Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far and the total, if known."""


def fetch_archive(url: str, folder: Path, progress: Progress | None = None) -> None:
    """Download the zip file at `url` and unpack its top-level folder, which must be named like `folder`, to `folder`.

    The MD5 is expected at the same address plus `.md5`. An interrupted download is kept as `.part` and resumed by the
    next call.
    """
    part = folder.parent / f"{Path(urlsplit(url).path).name}.part"
    with writing(folder, DataError):
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab+") as file:
            if not lock(file.fileno()):
                raise DataError(f"{part}: another process is downloading this file; wait for it to finish")
            _fetch_verified(url, part, file, progress)
            _unpack(part, folder)
        part.unlink()
        _tag(part).unlink(missing_ok=True)


def _fetch_verified(url: str, part: Path, file: BufferedRandom, progress: Progress | None) -> None:
    match = re.search(rb"\b[0-9a-fA-F]{32}\b", _retrying(f"{url}.md5", lambda: _get(f"{url}.md5")))
    if match is None:
        raise DataError(f"{url}.md5: no MD5 in this file")
    published = match[0].decode().lower()
    for _ in range(2):  # a resumed download may have started from another file: try once more from scratch
        resumed = _size(file) > 0
        if resumed and _md5(file) == published:
            return
        _retrying(url, lambda: _download(url, part, file, progress), lambda: _size(file))
        if _md5(file) == published:
            return
        file.truncate(0)
        if not resumed:
            break
    raise DataError(f"{url}: the download does not match the published MD5 {published}; try again later")


def _retrying(url: str, attempt: Callable[[], T], size: Callable[[], int] = lambda: 0) -> T:
    """Return the result of `attempt`, retried with growing waits after network errors while there is progress."""
    failures, best = 0, size()
    while True:
        try:
            return attempt()
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            if isinstance(error, HTTPError) and error.code < 500 and error.code not in (408, 416, 429):
                raise DataError(f"{url}: {_reason(error)}") from error
            failures = 1 if size() > best else failures + 1
            best = max(best, size())
            if failures >= ATTEMPTS:
                raise DataError(f"{url}: {_reason(error)}") from error
            time.sleep(WAIT * 2 ** (failures - 1))


def _get(url: str) -> bytes:
    with _open(url) as response:
        return response.read(1 << 16)


def _download(url: str, part: Path, file: BufferedRandom, progress: Progress | None) -> None:
    """Append what is missing; start over if the server cannot resume or has a different file."""
    start = _size(file)
    headers = {}
    if start:
        headers["Range"] = f"bytes={start}-"
        if _tag(part).exists():
            headers["If-Range"] = _tag(part).read_text()
    try:
        response = _open(url, headers)
    except HTTPError as error:
        if error.code == 416:  # we have more bytes than the server: a different file
            file.truncate(0)
        raise
    with response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            start = 0
            file.truncate(0)
            _remember(response, part)
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        done = start
        while chunk := response.read(CHUNK):
            with writing(part, DataError):  # a full disk, not the network: no use retrying
                file.write(chunk)
                file.flush()
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"connection lost after {done:,} of {total:,} bytes")


def _open(url: str, headers: dict[str, str] | None = None) -> HTTPResponse:
    request = Request(
        url, headers={"User-Agent": f"macrid/{__version__}", "Accept-Encoding": "identity"} | (headers or {})
    )
    response: HTTPResponse = urlopen(request, timeout=TIMEOUT)
    return response


def _tag(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


def _remember(response: HTTPResponse, part: Path) -> None:
    """Store the version of the file, so that two halves never come from two versions."""
    tag = response.headers.get("ETag", "")
    if not tag.startswith('"'):  # weak tags do not identify bytes
        tag = response.headers.get("Last-Modified", "")
    if tag:
        write_atomically(_tag(part), tag)
    else:
        _tag(part).unlink(missing_ok=True)


def _size(file: BufferedRandom) -> int:
    return file.seek(0, 2)


def _md5(file: BufferedRandom) -> str:
    file.seek(0)
    return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"the server returned {error.code} {error.reason}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the archive's top-level folder; reading every byte also verifies the zip file's checksums."""
    try:
        with zipfile.ZipFile(archive) as packed, new_folder(folder) as temporary:
            members = [(member, _inside(member, folder.name)) for member in packed.infolist() if not member.is_dir()]
            if not any(place is not None for _, place in members):
                raise DataError(f"{archive.name}: contains no folder '{folder.name}'")
            for member, place in members:
                if place is not None:
                    member.filename = str(place)
                    packed.extract(member, temporary)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        archive.unlink(missing_ok=True)
        raise DataError(f"{archive.name}: damaged zip file ({error}); it was deleted, download it again") from error


def _inside(member: zipfile.ZipInfo, top: str) -> PurePosixPath | None:
    """A member's path relative to the top-level folder, None if outside it; a path that escapes is an error."""
    path = PurePosixPath(member.filename)
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    if is_link or path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename:
        raise DataError(
            f"the archive contains '{member.filename}', which would be written outside its folder; not unpacked"
        )
    return PurePosixPath(*path.parts[1:]) if len(path.parts) > 1 and path.parts[0] == top else None
