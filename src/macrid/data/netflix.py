"""The Netflix Prize files: one file per movie (`mv_0000001.txt`), or the same lines in a few large files.

The line `17:` starts the ratings of movie 17; each line after it is `customer,rating,date`. There are 100 million, so
they are parsed in blocks, and only ratings at or above the threshold stay in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, clean_events
from macrid.errors import DataError

BLOCK = 32 << 20
HIGHEST_ID = 10_000_000  # for customers and movies; the real ones end at 2,649,429 and 17,770
LINE = re.compile(rb"\d+:|\d+,[1-5],[^,]*")


def read_netflix(folder: Path, min_rating: float, min_items: int) -> Interactions:
    """The interactions, as if read from one file of user, item and rating."""
    users, movies, rows, columns, total = _Codes(), _Codes(), [], [], 0
    for user, movie, rating in _blocks(folder):
        total += len(user)
        keep = rating >= min_rating
        rows.append(users.encode(user)[keep])
        columns.append(movies.encode(movie)[keep])
    kept = sum(map(len, rows))
    if not kept:
        raise DataError(f"{folder}: all {total:,} ratings are below min_rating {min_rating:g}; lower the threshold")
    report = ReadReport(source=folder.name, rows=total, min_rating=min_rating, below_min_rating=total - kept)
    return clean_events(
        _joined(rows),
        _joined(columns),
        users.ids(),
        movies.ids(),
        report,
        min_items=min_items,
        items=read_titles(folder),
    )


def read_titles(folder: Path) -> pa.Table:
    """movie_titles.csv or .txt: `id,year,title`; the title may contain commas and the year may be NULL."""
    path = folder / "movie_titles.csv"
    if not path.exists():
        path = folder / "movie_titles.txt"
    rows: dict[str, list] = {"item": [], "title": [], "year": []}
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1):
        fields = line.split(",", 2)
        if len(fields) < 3 or not fields[0].isdecimal():
            raise DataError(f"{path}: line {number:,} is {line[:80]!r}, not 'id,year,title'")
        rows["item"].append(int(fields[0]))
        rows["title"].append(fields[2])
        rows["year"].append(int(fields[1]) if fields[1].isdecimal() else None)
    return pa.table(rows, schema=pa.schema([("item", pa.int64()), ("title", pa.string()), ("year", pa.int32())]))


class _Codes:
    """Codes for integer ids in order of first appearance, across blocks."""

    def __init__(self) -> None:
        self.code_of = np.full(1, -1, dtype=np.int32)
        self.seen: list[np.ndarray] = []
        self.count = 0

    def encode(self, ids: np.ndarray) -> np.ndarray:
        highest = int(ids.max(initial=0))
        if highest >= len(self.code_of):
            more = np.full(max(highest + 1 - len(self.code_of), len(self.code_of)), -1, dtype=np.int32)
            self.code_of = np.concatenate([self.code_of, more])
        new, first = np.unique(ids[self.code_of[ids] < 0], return_index=True)
        new = new[np.argsort(first)]
        self.code_of[new] = np.arange(self.count, self.count + len(new), dtype=np.int32)
        self.count += len(new)
        self.seen.append(new)
        return self.code_of[ids]

    def ids(self) -> Ids:
        return Ids(pa.array(np.concatenate(self.seen).astype(np.int64)))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """All parts as one array; the parts are freed, because at this size two copies matter."""
    result = np.concatenate(parts)
    parts.clear()
    return result


def _blocks(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """User, movie and rating of every line, a few million at a time."""
    per_movie = sorted((folder / "training_set").glob("mv_*.txt"))
    if per_movie:
        yield from _per_movie_blocks(per_movie)
        return
    for path in sorted(folder.glob("combined_data_*.txt")):
        yield from _combined_blocks(path)


def _per_movie_blocks(paths: Sequence[Path]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    batch: list[bytes] = []
    for path in paths:
        text = _read_bytes(path)
        if re.match(rb"\d+:", text) is None:
            raise DataError(f"{path}: does not start with a movie number and a colon")
        batch.append(text)
        if sum(map(len, batch)) >= BLOCK or path is paths[-1]:
            try:
                yield _parse(b"".join(batch), None)[:3]
            except _BadLineError as error:
                raise _located(error, paths, batch, path) from None
            batch = []


def _located(error: _BadLineError, paths: Sequence[Path], batch: list[bytes], last: Path) -> DataError:
    """The error, located in the file of the batch (which ends with `last`) that it comes from."""
    number = error.number
    for path, text in zip(paths[paths.index(last) + 1 - len(batch) :], batch, strict=False):
        lines = text.count(b"\n")
        if number <= lines:
            return error.at(path, number)
        number -= lines
    return error.at(last, number)


def _combined_blocks(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    movie, line, rest = None, 0, b""
    try:
        with path.open("rb") as file:
            while piece := file.read(BLOCK):
                whole = rest + piece
                cut = whole.rfind(b"\n") + 1
                text, rest = _normal(whole[:cut]), whole[cut:]
                if cut:
                    users, movies, ratings, movie = _parse(text, movie)
                    line += text.count(b"\n")
                    yield users, movies, ratings
            if rest:
                yield _parse(_normal(rest), movie)[:3]
    except _BadLineError as error:
        raise error.at(path, line + error.number) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return _normal(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _normal(text: bytes) -> bytes:
    """With Unix line endings, including the last line."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    return text if text.endswith(b"\n") else text + b"\n"


class _BadLineError(Exception):
    def __init__(self, number: int, line: bytes) -> None:
        self.number, self.line = number, line

    def at(self, path: Path, number: int) -> DataError:
        line = self.line[:80].decode("latin-1")
        return DataError(f"{path}: line {number:,} is {line!r}, neither 'movie:' nor 'customer,rating,date'")


def _parse(text: bytes, movie: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, int | None]:
    """User, movie and rating of each line, and the movie open at the end; `movie` is the one open at the start."""
    letters = np.frombuffer(text, dtype=np.uint8)
    ends, colons = np.flatnonzero(letters == ord("\n")), np.flatnonzero(letters == ord(":"))
    movies, cuts = [movie or 0], [0]
    for colon in colons.tolist():
        start = text.rfind(b"\n", 0, colon) + 1
        if not text[start:colon].isdigit() or text[colon + 1 : colon + 2] != b"\n":
            raise _bad_line(text, movie)
        movies.append(int(text[start:colon]))
        cuts += [start, colon + 2]
    cuts.append(len(text))
    users, ratings = _parse_ratings([text[start:end] for start, end in zip(cuts[::2], cuts[1::2], strict=True)])
    headers = np.searchsorted(ends, colons)  # lines that start a movie
    counts = np.diff(np.concatenate([[-1], headers, [len(ends)]])) - 1
    if len(users) != counts.sum() or max(movies) > HIGHEST_ID or (movie is None and counts[0] > 0):
        raise _bad_line(text, movie)
    return users, np.repeat(np.array(movies, dtype=np.int32), counts), ratings, movies[-1] or None


def _parse_ratings(pieces: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """User and rating of lines that start no movie; empty if any of them is malformed."""
    body = b"".join(pieces)
    nothing = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int8)
    if not body:
        return nothing
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(body),
            read_options=pa.csv.ReadOptions(column_names=["user", "rating", "date"], block_size=4 << 20),
            parse_options=pa.csv.ParseOptions(quote_char=False),
            convert_options=pa.csv.ConvertOptions(
                include_columns=["user", "rating"], column_types={"user": pa.int32(), "rating": pa.int8()}
            ),
        )
    except pa.ArrowInvalid:
        return nothing
    if any(column.null_count for column in table.columns):
        return nothing
    users, ratings = table.column("user").to_numpy(), table.column("rating").to_numpy()
    in_range = users.min() >= 0 and users.max() <= HIGHEST_ID and ratings.min() >= 1 and ratings.max() <= 5
    return (users, ratings) if in_range else nothing


def _bad_line(text: bytes, movie: int | None) -> _BadLineError:
    """Find the first malformed line, the slow way."""
    lines = text.split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        is_header = line.endswith(b":")
        is_valid = LINE.fullmatch(line) is not None and int(re.split(rb"[:,]", line)[0]) <= HIGHEST_ID
        if not is_valid or (movie is None and not is_header):
            return _BadLineError(number, line)
        if is_header:
            movie = int(line[:-1])
    return _BadLineError(1, lines[0])
