"""The Netflix Prize files: one file per movie (`mv_0000001.txt`), or the same lines in a few large files.

The line `17:` starts the ratings of movie 17; each line after it is `customer,rating,date`. There are 100 million, so
they are parsed in blocks, and only ratings at or above the threshold stay in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from macrid.data.ids import Ids, whole_number
from macrid.data.interactions import Interactions, ReadReport
from macrid.data.reading import clean_events
from macrid.errors import DataError

BLOCK = 32 << 20
HIGHEST_ID = 10_000_000  # for customers and movies; the real ones end at 2,649,429 and 17,770
YEAR = re.compile(r"\d{4}", re.ASCII)
LINE = re.compile(r"\d+:|\d+,[1-5],[^,]*", re.ASCII)


def read_netflix(folder: Path, min_rating: float, min_items: int) -> Interactions:
    """The interactions, as if read from one file of user, item and rating."""
    users, movies, rows, columns, total = _Codes(), _Codes(), [], [], 0
    paths = sorted((folder / "training_set").glob("mv_*.txt")) or sorted(folder.glob("combined_data_*.txt"))
    for user, movie, rating in chain.from_iterable(map(_blocks, paths)):
        total += len(user)
        keep = rating >= min_rating
        rows.append(users.encode(user)[keep])
        columns.append(movies.encode(movie)[keep])
    kept = sum(map(len, rows))
    if not kept:
        raise DataError(f"{folder}: all {total:,} ratings are below min_rating {min_rating:g}; lower the threshold")
    report = ReadReport(source=folder.name, rows=total, min_rating=min_rating, below_min_rating=total - kept)
    events = _joined(rows), _joined(columns), users.ids(), movies.ids(), report
    return clean_events(*events, min_items=min_items, items=read_titles(folder))


def read_titles(folder: Path) -> pa.Table:
    """movie_titles.csv or .txt: `id,year,title`; the title may contain commas and the year may be NULL."""
    path = folder / "movie_titles.csv"
    if not path.exists():
        path = folder / "movie_titles.txt"
    rows: dict[str, list] = {"item": [], "title": [], "year": []}
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1):
        fields = line.split(",", 2)
        item = whole_number(fields[0])
        if len(fields) < 3 or item is None:
            raise DataError(f"{path}: line {number:,} is {line[:80]!r}, not 'id,year,title'")
        rows["item"].append(item)
        rows["title"].append(fields[2])
        rows["year"].append(int(fields[1]) if YEAR.fullmatch(fields[1]) else None)
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
        return Ids(np.concatenate(self.seen))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """All parts as one array; the parts are freed, because at this size two copies matter."""
    result = np.concatenate(parts)
    parts.clear()
    return result


def _blocks(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """User, movie and rating of every line, a few million at a time."""
    headers: list[tuple[int, int]] = []  # of each movie: how many ratings come before it, and its number
    done = 0

    def start_movie(row: pa.csv.InvalidRow) -> str:
        if LINE.fullmatch(row.text) is None or _beyond(row.text[:-1]):
            return "error"
        headers.append((row.number - 1 - len(headers), int(row.text[:-1])))
        return "skip"

    try:
        reader = pa.csv.open_csv(
            path,
            pa.csv.ReadOptions(  # a single thread knows the row number
                column_names=["user", "rating", "date"], block_size=BLOCK, encoding="latin-1", use_threads=False
            ),
            pa.csv.ParseOptions(quote_char=False, ignore_empty_lines=False, invalid_row_handler=start_movie),
            pa.csv.ConvertOptions(
                include_columns=["user", "rating"],
                column_types={"user": pa.int32(), "rating": pa.int8()},
                null_values=[],
            ),
        )
        for batch in reader:
            users, ratings = (column.to_numpy() for column in batch.columns)
            end = done + len(users)
            in_range = (users >= 0) & (users <= HIGHEST_ID) & (ratings >= 1) & (ratings <= 5)
            starts, movies = np.array(headers or [(1, 0)]).T
            if not in_range.all() or starts[0] > 0:
                raise _bad_line(path)
            yield users, np.repeat(movies, np.diff(np.clip([*starts, end], done, end))), ratings
            done = end
    except pa.ArrowInvalid as error:
        raise _bad_line(path) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _beyond(digits: str) -> bool:
    """Whether an id is too large."""
    return len(digits) > 18 or int(digits) > HIGHEST_ID


def _bad_line(path: Path) -> DataError:
    """Find the first malformed line, the slow way."""
    text = path.read_bytes().decode("latin-1")
    if re.match(r"\d+:", text) is None:
        return DataError(f"{path}: does not start with a movie number and a colon")
    number, line = next(
        (number, line)
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
        if LINE.fullmatch(line) is None or _beyond(re.split("[:,]", line)[0])
    )
    return DataError(f"{path}: line {number:,} is {line[:80]!r}, neither 'movie:' nor 'customer,rating,date'")
