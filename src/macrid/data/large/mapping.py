"""From events to pairs of codes, by DuckDB: distinct ids numbered, and pairs distributed over files by user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from macrid.data.columns import MISSING_IDS, row_text
from macrid.data.ids import Ids
from macrid.data.large.engine import Engine, quoted, text
from macrid.data.large.parts import TEXT, Part, Request, events_query, scan
from macrid.errors import DataError

Tell = Callable[[float], None]
FILE = "ids.parquet"


@dataclass(frozen=True)
class Events:
    """All parts as one table."""

    parts: Sequence[Part]
    kinds: dict[str, str]
    roles: dict[str, str]
    request: Request
    ordered: bool
    """Whether the order of the rows counts: in a single file, but not in several."""

    @property
    def query(self) -> str:
        return f"({events_query(self.parts, self.kinds, self.request, self.ordered)})"

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def is_rated(self) -> bool:
        return self.request.min_rating is not None

    @property
    def has_weights(self) -> bool:
        return any("weight" in part.columns for part in self.parts)

    @property
    def has_times(self) -> bool:
        """Which matter: they decide what an event weighs, or what is trained on."""
        return any("time" in part.columns for part in self.parts)

    @property
    def is_weighted(self) -> bool:
        return self.has_weights or self.request.weighing.half_life is not None

    @property
    def columns(self) -> dict[str, Any]:
        """Of pairs, and their types."""
        kinds: dict[str, Any] = {"user": np.int32, "item": np.int32}
        more = {"place": (self.ordered, np.int64), "weight": (self.has_weights, np.float64)}
        more |= {"time": (self.has_times, np.int64)}
        return kinds | {name: kind for name, (is_there, kind) in more.items() if is_there}


def number_users(engine: Engine, events: Events, folder: Path, buckets: int, tell: Tell) -> dict[str, Any]:
    """Write the users with their codes, their numbers of rows, and the bucket that has their pairs."""
    rated = "count_if(rated)" if events.is_rated else "count(*)"
    of_weight = "weight > 0" if events.has_weights else "true"
    kept = f"count_if({'rated AND ' * events.is_rated}{of_weight})"
    more = f", count(*) AS rows, {rated} AS rated, {kept} AS kept"
    before = "sum(kept) OVER (ORDER BY code ROWS UNBOUNDED PRECEDING) - kept"
    query = (
        f"SELECT *, CAST(({before}) * {buckets} // {max(events.rows, 1)} AS INTEGER) AS bucket"
        f" FROM ({_numbered(events, 'user', more)})"
    )
    _copy(engine, query, folder, tell)
    _check_ids(engine, events, "user", folder)
    totals = engine.rows(f"SELECT sum(rows), sum(rated), sum(kept), count(*) FROM {_table(folder)}")[0]
    return dict(zip(("rows", "rated", "kept", "users"), map(int, totals), strict=True))


def number_items(engine: Engine, events: Events, folder: Path, tell: Tell) -> dict[str, Any]:
    """Write the items with their codes."""
    _copy(engine, _numbered(events, "item", ", count(*) AS rows"), folder, tell)
    _check_ids(engine, events, "item", folder)
    return {"items": int(engine.rows(f"SELECT count(*) FROM {_table(folder)}")[0][0])}


def _numbered(events: Events, role: str, more: str) -> str:
    """Distinct ids: in the order of their first rows, if that counts, otherwise sorted."""
    order, first = ("first", ", min(place) AS first") if events.ordered else ("id", "")
    groups = f"SELECT {quoted(role)} AS id{first}{more} FROM {events.query} GROUP BY 1"
    return f"SELECT CAST(row_number() OVER (ORDER BY {order}) - 1 AS INTEGER) AS code, * FROM ({groups})"


def _copy(engine: Engine, query: str, folder: Path, tell: Tell) -> None:
    engine.run(f"COPY ({query}) TO {text(str(folder / FILE))} (FORMAT parquet, COMPRESSION zstd)", tell)


def _table(folder: Path) -> str:
    return f"read_parquet({text(str(folder / FILE))})"


def _check_ids(engine: Engine, events: Events, role: str, folder: Path) -> None:
    """An error that names the first row without an id."""
    missing = "id IS NULL"
    if events.kinds[role] == TEXT:
        missing += f" OR id IN ({', '.join(map(text, MISSING_IDS))})"
    rows = engine.rows(f"SELECT sum(rows) FROM {_table(folder)} WHERE {missing}")[0][0]
    if not rows:
        return
    for part in events.parts:
        column = quoted(part.columns[role])
        where = missing.replace("id ", f"{column} ", 1).replace(" OR id ", f" OR {column} ")
        first = engine.rows(f"SELECT min(file_row_number) FROM {scan([part], True)} WHERE {where}")[0][0]
        if first is not None:
            raise DataError(
                f"{part.name}, column '{part.columns[role]}': {row_text(int(first))} has no id ({int(rows):,} such"
                f" row{'s' * (int(rows) > 1)} in all); drop these rows or fill in the ids"
            )


def check_ratings(engine: Engine, events: Events) -> None:
    """An error that names the first rating that is not a number."""
    for part in events.parts:
        if "rating" not in part.columns:  # checked when it was rewritten
            continue
        column = quoted(part.columns["rating"])
        bad = f"{column} IS NULL OR NOT isfinite(CAST({column} AS DOUBLE))"
        bad = f"FILTER (WHERE {bad})"  # of rows, DuckDB would skip groups by their statistics, which leave out NaN
        first, value = engine.rows(
            f"SELECT min(file_row_number) {bad}, arg_min({column}, file_row_number) {bad} FROM {scan([part], True)}"
        )[0]
        if first is not None:
            shown = "empty or NaN" if value is None or np.isnan(value) else str(value)
            raise DataError(
                f"{part.name}, column '{part.columns['rating']}': {row_text(int(first))} is {shown}; a finite number is"
                " required"
            )


def highest_rating(engine: Engine, events: Events) -> float:
    """Over all parts."""
    highest = [part.facts["highest"] for part in events.parts if part.facts.get("highest") is not None]
    for part in events.parts:
        if "rating" in part.columns:
            query = f"SELECT max({quoted(part.columns['rating'])}) FROM {scan([part], False)}"
            highest += [float(row[0]) for row in engine.rows(query) if row[0] is not None]  # None of no rows
    return max(highest)


def write_pairs(engine: Engine, events: Events, users: Path, items: Path, folder: Path, tell: Tell) -> dict[str, Any]:
    """Write the codes of user and item of every event that counts, in a folder for each bucket of users."""
    more = "".join(f", e.{name}" for name in events.columns if name not in ("user", "item"))
    conditions = ["e.rated"] * events.is_rated + ["e.weight > 0"] * events.has_weights
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = (
        f"SELECT u.bucket AS bucket, u.code AS user, i.code AS item{more} FROM {events.query} e"
        f" JOIN {_table(users)} u ON e.user = u.id JOIN {_table(items)} i ON e.item = i.id{where}"
    )
    options = "FORMAT parquet, PARTITION_BY (bucket), COMPRESSION snappy"
    engine.run(f"COPY ({query}) TO {text(str(folder / 'buckets'))} ({options})", tell)
    return {}


def read_codes(folder: Path, *columns: str) -> dict[str, np.ndarray]:
    """Columns of a table of ids, in the order of their codes."""
    table = pa.parquet.read_table(folder / FILE, columns=["code", *columns], partitioning=None)
    order = np.argsort(table.column("code").to_numpy())
    return {name: table.column(name).to_numpy()[order] for name in columns}


def read_ids(folder: Path, keep: np.ndarray) -> Ids:
    """The ids with some of the codes, in their order."""
    table = pa.parquet.read_table(folder / FILE, columns=["code", "id"], partitioning=None)
    place = np.empty(table.num_rows, dtype=np.int64)
    place[table.column("code").to_numpy()] = np.arange(table.num_rows)
    ids = table.column("id").combine_chunks()
    return Ids(ids.take(pa.array(place[keep])))


def read_bucket(folder: Path, bucket: int, columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """The pairs of some users, in no particular order. columns: with their types."""
    files = sorted((folder / "buckets" / f"bucket={bucket}").glob("*.parquet"))
    if not files:
        return {name: np.empty(0, kind) for name, kind in columns.items()}
    table = pa.concat_tables([pa.parquet.read_table(file, columns=[*columns], partitioning=None) for file in files])
    return {name: table.column(name).to_numpy() for name in columns}
