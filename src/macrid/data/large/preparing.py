"""Prepare a folder from files or a query that need not fit into memory.

The stages, each of which leaves its files in a folder beside the target: what DuckDB cannot read as it is, rewritten;
users and items numbered; pairs of them distributed over buckets of users; the pairs of each bucket merged; the arrays.
From one file the folder is what `Interactions.read(file).split(…)` and `store.write` make of it. The rows of several
files have no order of their own: they count as one file sorted by user id, then item id, but for items that are not in
the split, which are in the order of their ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from macrid.data import store
from macrid.data.databases import hidden_password
from macrid.data.interactions import HELDOUT, Interactions, check_split
from macrid.data.large import mapping, timed
from macrid.data.large.assembling import Shelf, assemble
from macrid.data.large.engine import Engine, ExhaustedError, QueryError
from macrid.data.large.mapping import Events
from macrid.data.large.merging import Merged, latest, merge, weigh
from macrid.data.large.opening import Attributes, opened
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
from macrid.data.reading import Columns
from macrid.data.split import Split
from macrid.data.sql import QueryTable
from macrid.data.tables import ParquetTable, Table
from macrid.data.temporal import Cut, LastItems, check_share, moments_of
from macrid.data.times import moments
from macrid.data.weighing import EARLIEST
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
        if self.last is not None:
            LastItems(self.last)
        if self.at is not None:
            moments(self.at)
        elif self.by == "time":
            check_share(self.share)

    @property
    def is_by_time(self) -> bool:
        return self.by in ("time", "last")

    @property
    def share(self) -> float:
        return HELDOUT if self.heldout is None else self.heldout

    def cut(self, buckets: Sequence[Path]) -> Cut:
        """By time. buckets: see `timed.Bucket`."""
        if self.by == "last":
            return LastItems(1 if self.last is None else self.last)
        return moments_of(timed.moments(buckets), self.at, self.share)


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

    The arrays of the split are maps of its files.

    items: a table with one row per item. memory: in bytes, about what to use at most. about: kept in about.json.
    tell: progress. say: is called with remarks.
    """
    _check(request, min_items, memory)
    if division.is_by_time:
        weighing = request.weighing
        request = replace(request, timed=True, weighing=replace(weighing, time=weighing.time or True))
    remedy = "nothing was changed; free some space or choose another folder, then the same command goes on"
    with claimed(out, DataError), writing(out, DataError, remedy):
        check_free(out, overwrite, DataError, replaceable=store.FILES)
        work = Work(out, _belongs_to(source, request, min_items, division))
        if work.is_stale:
            source = _readable(source, request)  # a slip in a command must not cost what another one has made
            work.start_over()
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


def _readable(source: Sequence[Path] | Query, request: Request) -> Sequence[Path] | Query:
    """The source, with a query begun; an error if it cannot be opened or lacks columns."""
    if isinstance(source, Query):
        source = replace(source, table=source.open())
        request.find(source.open())
        return source
    first: tuple[Table, Columns] | None = None
    for path in source:
        table = request.open(path, str(path))
        found = request.find(table)
        first = first or (table, found)
        check_alike(*first, table, found)
    return source


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
        merged = self._merge(events, users["buckets"], item_count["items"])
        self._work.drop("pairs")
        report = merged_report(report_on(first, events, self._request, users), merged, self._min_items)
        more = self._assemble(events, merged["latest"], users["buckets"], item_count["items"], report.source)
        self._tell("checking", 0, None)
        table = None if items is None else Attributes(items, report.item_column, self._request.encoding)
        return opened(self._work, report, table, more)

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

        def make(bucket: int) -> Merged | timed.Bucket:
            pairs, first, users = read(bucket)
            if self._division.is_by_time:
                return timed.merge(pairs, first, users, items, self._min_items, half_life)
            if half_life is not None and now is not None:
                pairs = weigh(pairs, now, half_life)
            return merge(pairs, first, users, items, self._min_items)

        if half_life is not None and not self._division.is_by_time:
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
        whole["latest"] = max(fact.get("latest", EARLIEST) for fact in facts)
        return {**whole, "longest": max(fact["longest"] for fact in facts), "weight": sum(weights) if weights else None}

    def _assemble(self, events: Events, latest: int, buckets: int, items: int, source: str) -> dict[str, Any]:
        """Write the arrays; returns what `opened` needs besides. latest: the latest event. source: the data's name."""
        division, folders = self._division, [self._work.path(f"merged-{bucket:05d}") for bucket in range(buckets)]

        def make(folder: Path) -> dict[str, Any]:
            (folder / "data").mkdir()
            if division.is_by_time:
                half_life = self._request.weighing.half_life
                assembly = timed.Assembly(
                    folder, folders, items, self._is_ordered, events.is_weighted, half_life, latest, self._tell
                )
                return assembly.run(division.cut(folders), source)
            shelf = Shelf(folders)
            kept = np.flatnonzero(shelf.counts)
            np.save(folder / "kept.npy", kept)
            ids, by_id = mapping.read_ids(self._work.path("users"), kept), division.by == "stable"
            for event in assemble(
                folder, shelf, ids, items, division.share, division.seed, by_id, self._is_ordered, events.is_weighted
            ):
                self._tell(*event)
            return {}

        facts = self._work.run("arrays", make)
        for bucket in range(buckets):
            self._work.drop(f"merged-{bucket:05d}")
        return facts


class _Remembered(Table):
    """The columns of a query that was read before."""

    name = "query"

    def __init__(self, columns: Sequence[str]) -> None:
        self._set_columns(columns)

    def read(self, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
        raise AssertionError("the rows of this query have been read")

    def head(self, rows: int, columns: Sequence[str]) -> list[list[Any]]:
        raise AssertionError("the rows of this query have been read")


def _check_files(parts: Sequence[Part]) -> None:
    """An error that names the first part that cannot be read to its end."""
    for part in parts:
        table = ParquetTable(part.path)
        table.name = part.name
        for _ in table.batches([part.columns[role] for role in ("user", "item")]):
            pass
