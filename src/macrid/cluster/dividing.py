"""Events divided by user: all that a user did is in one part, and a part fits in memory.

Parts hold users, positions among a model's items and, where ratings count, whether an event is part of the history.
They are written a batch at a time: a part is a file of Arrow streams, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from macrid.data.histories import UserHistories
from macrid.data.ids import Id, Ids, places_in
from macrid.data.interactions import ReadReport, csr_from_pairs
from macrid.data.large.sources import estimated_rows
from macrid.data.streams import Batch, find_columns, read_batches
from macrid.data.tables import open_table
from macrid.errors import DataError

ROWS_PER_PART = 200_000  # events; some thousand users, who take some seconds
MOST_PARTS = 4096
BUFFERED = 256 << 20  # bytes of events in memory
INTEGER = r"^(0|-?[1-9]\d{0,17})$"  # text that is an id of type integer


@dataclass
class Divided:
    """What was found while events were divided."""

    source: str
    parts: int
    rows: int = 0
    below_min_rating: int = 0
    guessed: list[str] = field(default_factory=list)
    unknown: int = 0
    """Distinct items that the model does not know."""
    first_unknown: list[Id] = field(default_factory=list)
    users_are_integers: bool = True

    def report(self, min_rating: float | None) -> ReadReport:
        return ReadReport(
            self.source,
            self.rows,
            guessed=tuple(self.guessed),
            min_rating=min_rating,
            below_min_rating=self.below_min_rating,
        )


def number_of_parts(files: list[Path]) -> int:
    rows = sum(estimated_rows(path) for path in files)
    return min(MOST_PARTS, max(1, -(-rows // ROWS_PER_PART)))


class Divider:
    """Divides files of events among the parts of a folder."""

    def __init__(self, folder: Path, items: Ids, parts: int, name: str) -> None:
        """items: those of the model. name: of the source, in messages."""
        self._folder, self._items = folder, items
        self._found = Divided(name, parts)
        self._unknown: dict[Id, None] = {}
        self._waiting: list[list[pa.Table]] = [[] for _ in range(parts)]
        self._bytes = 0
        self._highest = -np.inf  # rating
        self._are_typed: bool | None = None

    def divide(
        self,
        files: list[Path],
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        rating: str | int | None = None,
        min_rating: float | None = None,
        encoding: str | None = None,
        progress: Callable[[int], None] = lambda rows: None,
    ) -> Divided:
        """Columns and ratings: as for `read_histories`; those of the first file count for all. progress: rows read."""
        found, columns = self._found, None
        numbered = any(isinstance(column, int) for column in (user, item, rating))
        for path in files:
            table = open_table(path, header=not numbered, encoding=encoding)
            if columns is None:
                columns = find_columns(table, user, item, rating, rated=min_rating is not None)
                given = {"user": user, "item": item, "rating": rating}
                named = columns._asdict()
                found.guessed = [f"{role} = '{named[role]}'" for role in given if named[role] and given[role] is None]
            else:
                find_columns(table, *columns, rated=columns.rating is not None)  # an error if one is missing
            self._check_types(table.are_typed, path)
            for batch in read_batches(table, columns):
                self._add(batch, min_rating, path)
                progress(found.rows)
        if not found.rows:
            raise DataError(f"{found.source}: no rows")
        if min_rating is not None and self._highest < min_rating and found.below_min_rating == found.rows:
            raise DataError(
                f"{found.source}: all {found.rows:,} ratings are below min_rating {min_rating:g};"
                f" the highest is {self._highest:g}; lower the threshold"
            )
        self._flush()
        found.unknown, found.first_unknown = len(self._unknown), list(self._unknown)[:6]
        return found

    def _check_types(self, are_typed: bool, path: Path) -> None:
        if self._are_typed is None:
            self._are_typed = are_typed
        elif self._are_typed != are_typed:
            raise DataError(f"{path}: text among Parquet files, or the reverse; all files must be of one kind")

    def _add(self, batch: Batch, min_rating: float | None, path: Path) -> None:
        self._check_users(batch.users, path)
        positions = places_in(self._items, batch.items)
        for place in np.flatnonzero(positions < 0):
            self._unknown.setdefault(batch.items[place])
        part = part_of(batch.users, self._found.parts)[batch.rows]
        order = np.argsort(part, kind="stable")
        columns = {
            "user": batch.users.array.take(pa.array(batch.rows[order])),
            "item": pa.array(positions.astype(np.int32)[batch.columns[order]]),
        }
        if batch.ratings is not None and min_rating is not None:
            counts = batch.ratings[order] >= min_rating
            columns["counts"] = pa.array(counts)
            self._found.below_min_rating += int((~counts).sum())
            if len(batch.ratings):
                self._highest = max(self._highest, float(batch.ratings.max()))
        events = pa.table(columns)
        bounds = np.searchsorted(part[order], np.arange(self._found.parts + 1))
        for number in np.flatnonzero(np.diff(bounds)):
            self._waiting[number].append(events.slice(bounds[number], bounds[number + 1] - bounds[number]))
        self._found.rows += len(order)
        self._bytes += events.nbytes
        if self._bytes > BUFFERED:
            self._flush()

    def _check_users(self, users: Ids, path: Path) -> None:
        are_integers = users.are_integers or bool(pc.all(pc.match_substring_regex(users.array, INTEGER)).as_py())
        if self._are_typed and self._found.rows and users.are_integers != self._found.users_are_integers:
            raise DataError(
                f"{path}: users are {_kind(users.are_integers)}, in other files {_kind(not users.are_integers)}"
            )
        if self._are_typed:
            self._found.users_are_integers = users.are_integers
        else:
            self._found.users_are_integers &= are_integers

    def _flush(self) -> None:
        for number, waiting in enumerate(self._waiting):
            if not waiting:
                continue
            events = pa.concat_tables(waiting).combine_chunks()
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with (
                part_file(self._folder, number).open("ab") as file,
                pa.ipc.new_stream(file, events.schema, options=options) as stream,
            ):
                stream.write_table(events)
            waiting.clear()
        self._bytes = 0


def _kind(are_integers: bool) -> str:
    return "integers" if are_integers else "strings"


def part_of(users: Ids, parts: int) -> np.ndarray:
    """(users,) the part of each, by a hash of the id: the same everywhere and always."""
    if not users.are_integers:
        return np.array([crc32(str(user).encode()) % parts for user in users], dtype=np.uint16)
    # the finalizer of MurmurHash3, as neighbouring numbers must not share a part
    x = users.array.to_numpy().astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return ((x ^ (x >> np.uint64(33))) % np.uint64(parts)).astype(np.uint16)


def part_file(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.arrow"


def read_part(folder: Path, number: int, items: int, found: Divided) -> UserHistories:
    """The users of one part in the order they first came in, and their histories; as `read_histories`."""
    events = _read(part_file(folder, number))
    column = events.column("user").combine_chunks() if events.num_rows else pa.array([], pa.string())
    encoded = column.dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    ids = encoded.dictionary.cast(pa.int64() if found.users_are_integers else pa.string())
    rows, positions = encoded.indices.to_numpy(), events.column("item").to_numpy()
    shape = len(ids), items
    seen = _matrix(rows, positions, shape)
    histories = seen
    if "counts" in events.column_names:
        counts = events.column("counts").to_numpy()
        histories = _matrix(rows[counts], positions[counts], shape)
    report = ReadReport(found.source, events.num_rows)
    return UserHistories(Ids(ids), histories, seen, np.ones(len(ids), np.int64), (), report)


def _matrix(rows: np.ndarray, positions: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """Known items only, each once, in the order read."""
    known = positions >= 0
    rows, positions = rows[known], positions[known]
    first = np.sort(np.unique(rows.astype(np.int64) * shape[1] + positions, return_index=True)[1])
    return csr_from_pairs(rows[first], positions[first], shape)


def _read(path: Path) -> pa.Table:
    if not path.exists():  # nobody is in this part
        return pa.table({"user": pa.array([], pa.string()), "item": pa.array([], pa.int32())})
    return pa.concat_tables(_streams(path))


def _streams(path: Path) -> Iterator[pa.Table]:
    with pa.memory_map(str(path)) as file:
        while file.tell() < file.size():
            with pa.ipc.open_stream(file) as stream:
                yield stream.read_all()
