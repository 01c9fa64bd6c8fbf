"""Prepare a folder from files or a query that need not fit into memory.

The stages, each of which leaves its files in a folder beside the target: what DuckDB cannot read as it is, rewritten;
users and items numbered; pairs of them distributed over buckets of users; the pairs of each bucket merged; the arrays.
From one file the folder is what `Interactions.read(file).split(…)` and `store.write` make of it. The rows of several
files have no order of their own: they count as one file sorted by user id, then item id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from macrid.data import store
from macrid.data.databases import hidden_password
from macrid.data.ids import Ids
from macrid.data.interactions import HELDOUT, Interactions, ReadReport, are_weighted, check_split
from macrid.data.large import mapping, timed
from macrid.data.large.assembling import Shelf, assemble
from macrid.data.large.engine import Engine, ExhaustedError, QueryError
from macrid.data.large.mapping import Events
from macrid.data.large.merging import Merged, latest, merge, weigh
from macrid.data.large.parts import (
    Part,
    Request,
    check_alike,
    kind_of_ids,
    plain_part,
    rewritten,
    rewritten_part,
)
from macrid.data.large.reporting import check_some_left, merged_report, report_on
from macrid.data.large.work import Work, fingerprint
from macrid.data.reading import Columns, join_items
from macrid.data.split import HeldOut, Split
from macrid.data.sql import QueryTable
from macrid.data.tables import ParquetTable, Table
from macrid.errors import DataError
from macrid.files import check_free, claimed, replace_folder, writing
from macrid.version import __version__

MEMORY = 2 << 30  # bytes
LEAST_MEMORY = 256 << 20
BYTES_PER_PAIR = 512  # of a bucket that is merged in memory, as a share of the whole
Tell = Callable[[str, int, int | None], None]
"""Is called with what is being done, how far it is, and the total."""


@dataclass(frozen=True)
class Query:
    """A query to a database."""

    sql: str
    url: str
    table: QueryTable | None = None
    """Where it was opened already."""

    def open(self) -> QueryTable:
        return QueryTable(self.sql, self.url) if self.table is None else self.table

    def key(self) -> str:
        """The same for the same query; it does not give away a password."""
        return hashlib.sha256(f"{hidden_password(self.url)}\n{self.sql}".encode()).hexdigest()


@dataclass(frozen=True)
class Division:
    """How to divide the data; see `Interactions.split`."""

    heldout: float | None = None
    seed: int = 98765
    by: Literal["users", "stable", "time", "last"] = "users"
    at: str | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        check_split(self.heldout, self.by, self.at, self.last)

    @property
    def is_by_time(self) -> bool:
        return self.by in ("time", "last")


def prepare(
    source: Sequence[Path] | Query,
    out: Path,
    request: Request,
    *,
    min_items: int = 5,
    items: Any = None,
    division: Division = Division(),  # noqa: B008  (frozen)
    memory: int = MEMORY,
    overwrite: bool = False,
    about: dict[str, Any] | None = None,
    tell: Tell | None = None,
    say: Callable[[str], None] | None = None,
) -> Split:
    """Write a prepared folder, going on where an interrupted call with the same arguments stopped.

    The arrays of the split are maps of its files, unless it is divided by time: then all events are in memory.

    items: a table with one row per item. memory: in bytes, about what to use at most. about: kept in about.json.
    tell: progress. say: is called with remarks.
    """
    _check(request, min_items, memory)
    request = replace(request, timed=division.is_by_time)
    remedy = "nothing was changed; free some space or choose another folder, then the same command goes on"
    with claimed(out, DataError), writing(out, DataError, remedy):
        check_free(out, overwrite, DataError, replaceable=store.FILES)
        work = Work(out, _belongs_to(source, request, min_items, division))
        folder = work.path("arrays") / "data"
        if work.is_finished("arrays") and not folder.exists():  # killed right after it became the target
            work.start_over()
        elif say is not None and work.note:
            say(work.note)
        job = _Job(work, source, request, min_items, division, memory, tell or (lambda *_: None))
        try:
            split, everyone = job.run(items)
        except ExhaustedError:
            raise
        except DataError:  # whatever mends the input or the options changes what was made from them
            work.remove()
            raise
        if say is not None:
            say(str(split.train.report))
        store.write_rest(folder, split, everyone, about)
        replace_folder(folder, out)
        work.remove()
    return split


def is_begun(out: Path) -> bool:
    """Whether an interrupted call left something to go on with."""
    return Work.place(out).exists()


def _check(request: Request, min_items: int, memory: int) -> None:
    if min_items < 1:
        raise DataError(f"min_items is {min_items}; it must be at least 1")
    if request.min_rating is not None and not np.isfinite(request.min_rating):
        raise DataError(f"min_rating is {request.min_rating}; it must be a finite number")
    if memory < LEAST_MEMORY:
        raise DataError(f"memory is {memory >> 20:,} MiB; allow at least {LEAST_MEMORY >> 20} MiB")


def _belongs_to(source: Sequence[Path] | Query, request: Request, min_items: int, division: Division) -> dict[str, Any]:
    try:
        inputs: Any = source.key() if isinstance(source, Query) else [fingerprint(path) for path in source]
    except FileNotFoundError as error:
        raise DataError(f"{error.filename}: no such file; check the path (relative to {Path.cwd()})") from None
    options = {**asdict(request), **asdict(division), "min_items": min_items}
    return {"input": inputs, "options": options, "version_of_macrid": __version__}


class _Job:
    """One preparation."""

    def __init__(
        self, work: Work, source: Sequence[Path] | Query, request: Request, min_items: int, division: Division,
        memory: int, tell: Tell,
    ) -> None:  # fmt: skip
        self._work, self._source, self._request, self._min_items = work, source, request, min_items
        self._division, self._memory, self._tell = division, memory, tell
        self._is_ordered = isinstance(source, Query) or len(source) == 1

    def run(self, items: Any) -> tuple[Split, Interactions | None]:
        """The split, and everyone if there is more than the split; their arrays are maps of files."""
        first, events = self._events()
        if self._division.is_by_time:
            timed.check_memory(events.rows, self._division.by, self._memory)
        with closing(Engine(self._work.path("spill"), self._memory // 2)) as engine:
            try:
                users = self._number_users(engine, events)
                item_count = self._number(
                    "items", lambda folder, tell: mapping.number_items(engine, events, folder, tell)
                )
                where = (self._work.path("users"), self._work.path("items"))
                self._number("pairs", lambda folder, tell: mapping.write_pairs(engine, events, *where, folder, tell))
            except QueryError as error:
                _check_files(events.parts)
                raise DataError(f"DuckDB cannot read the events ({error})") from error
        if self._division.is_by_time:
            return self._divide(
                events, report_on(first, events, self._request, users), users, item_count["items"], items
            )
        merged = self._merge(events, users["buckets"], item_count["items"])
        self._work.drop("pairs")
        report = merged_report(report_on(first, events, self._request, users), merged, self._min_items)
        self._assemble(users["buckets"], item_count["items"], events.is_weighted)
        return self._opened(report, items, events.is_weighted)

    def _events(self) -> tuple[tuple[Table, Columns], Events]:
        """All parts, checked; and the first, which decides what the columns are called."""
        parts: list[Part] = []
        first: tuple[Table, Columns] | None = None
        sources: Sequence[Any] = [self._source] if isinstance(self._source, Query) else self._source
        for number, source in enumerate(sources):
            stage = f"read-{number:05d}"
            if isinstance(source, Query) and self._work.is_finished(stage):
                table, found = self._remembered(stage)
            else:
                table = source.open() if isinstance(source, Query) else self._request.open(source, self._name(source))
                found = self._request.find(table)
            first = first or (table, found)
            check_alike(*first, table, found)
            part = None if isinstance(source, Query) else plain_part(table, found, self._request)
            parts.append(part or self._rewrite(stage, table, found))
        assert first is not None
        if not any(part.rows for part in parts):
            raise DataError(f"{first[0].name}: no rows")
        roles = first[1].roles
        kinds = {role: kind_of_ids(parts, role, roles[role]) for role in ("user", "item")}
        return first, Events(parts, kinds, roles, self._request, self._is_ordered)

    def _name(self, path: Path) -> str:
        return path.name if self._is_ordered else str(path)

    def _rewrite(self, stage: str, table: Table, found: Columns) -> Part:
        def make(folder: Path) -> dict[str, Any]:
            facts = rewritten(
                table, found, self._request, folder, lambda rows: self._tell(f"reading {table.name}", rows, None)
            )
            return {**facts, "found": found._asdict(), "columns": table.columns}

        return rewritten_part(table.name, self._work.path(stage), found, self._work.run(stage, make))

    def _remembered(self, stage: str) -> tuple[Table, Columns]:
        """The result of a query that was read before, which need not be run again."""
        facts = self._work.run(stage, lambda _: {})
        return _Remembered(facts["columns"]), Columns(**facts["found"])

    def _number_users(self, engine: Engine, events: Events) -> dict[str, Any]:
        buckets = max(1, -(-events.rows * BYTES_PER_PAIR // self._memory))

        def make(folder: Path, tell: Callable[[float], None]) -> dict[str, Any]:
            if events.is_rated:
                mapping.check_ratings(engine, events)
            facts = mapping.number_users(engine, events, folder, buckets, tell)
            check_some_left(facts, engine, events, self._name_of_all(events))
            return {**facts, "buckets": buckets}

        return self._number("users", make)

    def _name_of_all(self, events: Events) -> str:
        return events.parts[0].name if self._is_ordered else f"{len(events.parts):,} files"

    def _number(self, stage: str, make: Callable[[Path, Callable[[float], None]], dict[str, Any]]) -> dict[str, Any]:
        title = {"users": "numbering users", "items": "numbering items", "pairs": "mapping ids"}[stage]
        return self._work.run(
            stage, lambda folder: make(folder, lambda share: self._tell(title, int(share * 100), 100))
        )

    def _merge(self, events: Events, buckets: int, items: int) -> dict[str, Any]:
        """Of all buckets together."""
        found = mapping.read_codes(self._work.path("users"), "bucket")["bucket"]
        bounds = np.searchsorted(found, np.arange(buckets + 1))
        half_life, now = self._request.weighing.half_life, None

        def read(bucket: int) -> tuple[dict[str, np.ndarray], int, int]:
            """Pairs of a bucket, its first user and the number of its users."""
            pairs = mapping.read_bucket(self._work.path("pairs"), bucket, events.columns)
            return pairs, int(bounds[bucket]), int(bounds[bucket + 1] - bounds[bucket])

        def find_now(_: Path) -> dict[str, Any]:
            times = [latest(*read(bucket), items, self._min_items) for bucket in range(buckets)]
            return {"now": max((time for time in times if time is not None), default=0)}

        def make(bucket: int) -> Merged:
            pairs, first, users = read(bucket)
            if half_life is not None and now is not None:
                pairs = weigh(pairs, now, half_life)
            return merge(pairs, first, users, items, self._min_items)

        if half_life is not None:
            self._tell("finding the latest event", 0, None)
            now = self._work.run("latest", find_now)["now"]
        facts = []
        for bucket in range(buckets):
            self._tell("merging interactions", bucket, buckets)
            stage = f"merged-{bucket:05d}"
            facts.append(self._work.run(stage, lambda folder, bucket=bucket: make(bucket).write(folder)))  # type: ignore[misc]
        weights = [fact["weight"] for fact in facts if fact["weight"] is not None]
        totals = ("duplicates", "dropped_users", "dropped_rows", "users", "interactions")
        whole: dict[str, Any] = {name: sum(fact[name] for fact in facts) for name in totals}
        return {**whole, "longest": max(fact["longest"] for fact in facts), "weight": sum(weights) if weights else None}

    def _assemble(self, buckets: int, items: int, weighted: bool) -> None:
        def make(folder: Path) -> dict[str, Any]:
            (folder / "data").mkdir()
            shelf = Shelf([self._work.path(f"merged-{bucket:05d}") for bucket in range(buckets)])
            kept = np.flatnonzero(shelf.counts)
            np.save(folder / "kept.npy", kept)
            ids = mapping.read_ids(self._work.path("users"), kept)
            division = self._division
            heldout = HELDOUT if division.heldout is None else division.heldout
            for event in assemble(
                folder, shelf, ids, items, heldout, division.seed, division.by == "stable", self._is_ordered, weighted
            ):
                self._tell(*event)
            return {}

        self._work.run("arrays", make)
        for bucket in range(buckets):
            self._work.drop(f"merged-{bucket:05d}")

    def _divide(
        self, events: Events, report: ReadReport, users: dict[str, Any], items: int, table: Any
    ) -> tuple[Split, Interactions | None]:
        """The split by time, whose arrays it writes, and everyone if there is more."""
        self._tell("dividing by time", 0, None)
        pairs = mapping.read_buckets(self._work.path("pairs"), users["buckets"], events.columns)
        user_ids = mapping.read_ids(self._work.path("users"), np.arange(users["users"]))
        item_ids = mapping.read_ids(self._work.path("items"), np.arange(items))
        data = timed.interactions(
            pairs, user_ids, item_ids, report, min_items=self._min_items, table=table, encoding=self._request.encoding
        )
        division, folder = self._division, self._work.path("arrays")
        split = data.split(division.heldout, division.seed, by=division.by, at=division.at, last=division.last)
        self._tell("writing interactions", 0, None)
        if folder.exists():
            rmtree(folder)
        (folder / "data").mkdir(parents=True)
        return split, store.write_arrays(folder / "data", split)

    def _opened(self, report: ReadReport, items: Any, weighted: bool) -> tuple[Split, Interactions | None]:
        """The split, read from the arrays; what a prepared folder does not keep is deleted."""
        self._tell("checking", 0, None)
        folder = self._work.path("arrays")
        users = mapping.read_ids(self._work.path("users"), np.load(folder / "kept.npy"))
        order = np.load(folder / "order.npy")
        with np.load(folder / "numbering.npz") as numbering:
            codes, used, in_split = numbering["items"], numbering["used"], int(numbering["in_split"])
        ids = mapping.read_ids(self._work.path("items"), used)
        table, notes = (
            (None, ()) if items is None else join_items(ids, items, report.item_column, self._request.encoding)
        )
        report = replace(report, notes=(*report.notes, *notes))
        places = np.searchsorted(used, codes)
        reader = _Reader(folder / "data", weighted)

        def some_items(positions: np.ndarray) -> tuple[Ids, pa.Table | None]:
            return ids.take(positions), None if table is None else table.take(pa.array(positions))

        split_items, split_table = some_items(places[:in_split])
        counts = reader.users("validation_history"), reader.users("test_history")
        ends = len(order) - sum(counts), len(order) - counts[1]
        train = reader.matrix("train", in_split)

        def heldout(name: str, part: slice) -> HeldOut:
            history, target = (reader.matrix(f"{name}_{kind}", in_split) for kind in ("history", "target"))
            return HeldOut(history, target, users.take(order[part]))

        groups = heldout("validation", slice(*ends)), heldout("test", slice(ends[1], None))
        data = Interactions(train, users.take(order[: ends[0]]), split_items, split_table, report)
        if not sum(counts):
            reader.remove("everyone")
            return Split(data, *groups, data), None
        everyone = Interactions(reader.matrix("everyone", len(codes)), users, *some_items(places), report)
        return Split(data, *groups, everyone), everyone


class _Reader:
    """Matrices whose arrays are in a folder."""

    def __init__(self, folder: Path, weighted: bool) -> None:
        self._folder, self._weighted = folder, weighted

    def users(self, name: str) -> int:
        return len(np.load(self._folder / f"{name}.indptr.npy", mmap_mode="r")) - 1

    def matrix(self, name: str, items: int) -> Any:
        weights = self._folder / f"{name}.weights.npy"
        count = len(np.load(self._folder / f"{name}.indices.npy", mmap_mode="r"))
        matrix = store.read_matrix(self._folder, name, (self.users(name), items), count, weights.exists())
        if weights.exists() and not are_weighted(matrix):
            weights.unlink()
            return self.matrix(name, items)
        return matrix

    def remove(self, name: str) -> None:
        for part in ("indptr", "indices", "weights"):
            (self._folder / f"{name}.{part}.npy").unlink(missing_ok=True)


class _Remembered(Table):
    """The columns of a query that was read before."""

    name = "query"

    def __init__(self, columns: Sequence[str]) -> None:
        self._set_columns(columns)

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        raise NotImplementedError

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        raise NotImplementedError


def _check_files(parts: Sequence[Part]) -> None:
    """An error that names the first part that cannot be read to its end."""
    for part in parts:
        table = ParquetTable(part.path)
        table.name = part.name
        for _ in table.batches([part.columns[role] for role in ("user", "item")]):
            pass
