"""What a file of events holds, for whoever is about to train on it: columns, counts, what is wrong in which row.

Its texts are for the studio, which calls users customers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from macrid.data.interactions import Interactions
from macrid.data.reading import Events, clean_events, join_items, read_events
from macrid.data.split import Split
from macrid.data.tables import (
    ITEM_NAMES,
    RATING_NAMES,
    TIME_NAMES,
    USER_NAMES,
    DelimitedTable,
    ParquetTable,
    Table,
    open_table,
)
from macrid.errors import DataError

NAMES = {"user": USER_NAMES, "item": ITEM_NAMES, "rating": RATING_NAMES, "time": TIME_NAMES}
CALLED = {"user": "the customer", "item": "the item", "rating": "the rating"}
MIN_ITEMS = 5  # of a customer, as everywhere
FEWEST_USERS = 10  # to learn from some and to check on others
ROUGH = 100  # customers below which results are rough
MOST_HELDOUT = 2_000  # customers to check on; more would only take longer
TRIED = 5_000  # customers up to which the split is tried
SAMPLE = 100  # rows that tell the kinds of columns
PREVIEW = 5  # rows
MOST_COLUMNS = 200
MOST_RATINGS = 12  # distinct ones that are listed
LONGEST = 60  # characters of a value
DROPPED = ("below_min_rating", "duplicates", "short_users", "short_rows", "kept_users", "kept_items", "kept_rows")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", "\x1f": "'::'"}
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")


@dataclass(frozen=True)
class Reading:
    """Which files to read, and how."""

    events: Path
    items: Path | None = None
    columns: dict[str, str | None] | None = None
    """Of user, item and rating, where chosen; the others are guessed."""
    min_rating: float | None = None

    def open(self) -> Table:
        """A text file whose first line has only numbers has no header; columns are called by their places then."""
        table = open_table(self.events)
        if isinstance(table, DelimitedTable) and table.header and all(map(_is_number, table.written)):
            return DelimitedTable(self.events, header=False)
        return table

    def roles(self, table: Table) -> dict[str, str | None]:
        """The column of each role."""
        guessed = {role: table.guess(names) for role, names in NAMES.items()}
        return guessed | (self.columns or {})

    def interactions(self) -> Interactions:
        """Everything, read for training."""
        table = self.open()
        columns: dict[str, Any] = {role: self.roles(table)[role] for role in CALLED}
        if self.min_rating is None:
            columns.pop("rating")
        return Interactions.read(table, **columns, min_rating=self.min_rating, min_items=MIN_ITEMS, items=self.items)


def split(data: Interactions) -> Split:
    """With a tenth of the customers held out, more of few and fewer of many."""
    users = len(data.users)
    return data.split(min(MOST_HELDOUT, max(users // 10, min(users // 4, FEWEST_USERS), 1)))


@dataclass
class _Findings:
    problems: list[str] = field(default_factory=list)
    """What must be put right before training."""
    warnings: list[str] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        self.problems.append(for_people(str(error)))


def examine(reading: Reading) -> dict[str, Any]:
    """As the schema `Understood`."""
    found = _Findings()
    try:
        table = reading.open()
        roles = reading.roles(table)
        names = list(dict.fromkeys([*(name for name in roles.values() if name in table.columns), *table.columns]))
        names = sorted(names[:MOST_COLUMNS], key=table.columns.index)
        rows = table.head(SAMPLE, names)
        if len(table.columns) < 2:
            raise DataError(f"{table.name}: has one column; customers and items take two, separated by commas")
        if not rows:
            raise DataError(f"{table.name}: has no rows, only names of columns")
    except DataError as error:
        found.add(error)
        return {"is_table": False, "format": None, "columns": [], "columns_total": 0, "preview": [], "roles": {},
                "counts": None, "ratings": None, "items": None, **vars(found), "can_train": False}  # fmt: skip
    counts, ratings, items = _counted(table, roles, reading, found)
    return {
        "is_table": True,
        "format": _format(table),
        "columns": [_column(name, _values(rows, place)) for place, name in enumerate(names)],
        "columns_total": len(table.columns),
        "preview": [[_clipped(value) for value in row] for row in rows[:PREVIEW]],
        "roles": roles,
        "counts": counts,
        "ratings": ratings,
        "items": items,
        **vars(found),
        "can_train": not found.problems,
    }


# Counting


def _counted(
    table: Table, roles: dict[str, str | None], reading: Reading, found: _Findings
) -> tuple[dict[str, int] | None, dict[str, Any] | None, dict[str, Any] | None]:
    """Counts, ratings and items, as far as they can be known."""
    if isinstance(table, DelimitedTable) and not table.header and not table.double_colon:
        found.warnings.append("The first line has numbers only, so the columns are called by their places.")
    events = _read(table, roles, reading, found)
    if events is None:
        return None, None, None
    found.warnings += [f"{note[:1].upper()}{note[1:]}." for note in events.report.notes]
    ratings = None if events.ratings is None else _ratings(events.ratings)
    counts = dict.fromkeys(DROPPED, 0)
    counts |= {"rows": events.report.rows, "users": len(events.users), "items": len(events.items)}
    try:
        kept = events if reading.min_rating is None else events.at_least(reading.min_rating)
        data = clean_events(*kept[:5], min_items=MIN_ITEMS, items=None)
    except DataError as error:
        if reading.min_rating is None or "below min_rating" not in str(error):
            found.problems.append(_too_few(0))
        else:
            found.add(error)
        return counts, ratings, None
    report = data.report
    assert report is not None
    counts |= {
        "below_min_rating": report.below_min_rating,
        "duplicates": report.duplicates,
        "short_users": report.dropped_users,
        "short_rows": report.dropped_rows,
        "kept_users": len(data.users),
        "kept_items": len(data.items),
        "kept_rows": len(data),
    }
    _check_enough(data, found)
    return counts, ratings, None if reading.items is None else _items(data, reading, roles["item"], found)


def _read(table: Table, roles: dict[str, str | None], reading: Reading, found: _Findings) -> Events | None:
    """The events, or what keeps them from being read."""
    for role, name in roles.items():
        if role in CALLED and name is not None and name not in table.columns:
            found.problems.append(f"There is no column '{_clipped(name)}'.")
    missing = [CALLED[role] for role in ("user", "item") if roles[role] is None]
    if missing:
        found.problems.append(f"No column looks like {' or '.join(missing)}: choose it.")
        if isinstance(table, DelimitedTable) and table.header:
            names = ", ".join(f"'{_clipped(name)}'" for name in table.columns[:3])
            found.warnings.append(f"The first line is taken for the names of the columns: {names} …")
    if roles["user"] is not None and roles["user"] == roles["item"]:
        found.problems.append(f"Column '{_clipped(roles['user'])}' cannot be both the customer and the item.")
    if reading.min_rating is not None and roles["rating"] is None:
        found.problems.append("Choose the column with the ratings, or count every row.")
    if found.problems:
        return None
    columns: dict[str, Any] = {role: roles[role] for role in ("user", "item")}
    try:
        return read_events(table, **columns, rating=roles["rating"], rated=roles["rating"] is not None)
    except DataError as error:
        wrong = _wrong(table, {role: roles[role] for role in CALLED}) or {"file": str(error)}
        if [*wrong] == ["rating"] and reading.min_rating is None:
            found.warnings.append(f"Ratings cannot be used: {for_people(wrong['rating'])}.")
            return read_events(table, **columns)
        found.problems += map(for_people, wrong.values())
        return None


def _wrong(table: Table, roles: dict[str, str | None]) -> dict[str, str]:
    """What is wrong in each of the columns."""
    wanted = list(dict.fromkeys(name for name in roles.values() if name is not None))
    try:
        columns = table.read(wanted, text=wanted)
    except DataError as error:
        return {"file": str(error)}
    wrong = {}
    for role, name in roles.items():
        if name is not None and columns.num_rows:
            try:
                (table.read_numbers if role == "rating" else table.read_ids)(columns, name)
            except DataError as error:
                wrong[role] = str(error)
    return wrong


def _check_enough(data: Interactions, found: _Findings) -> None:
    users = len(data.users)
    if users < FEWEST_USERS:
        found.problems.append(_too_few(users))
        return
    if users < ROUGH:
        found.warnings.append(f"Only {users} customers have {MIN_ITEMS} or more different items: expect rough results.")
    if users <= TRIED:
        parts = split(data)
        if not (parts.validation.target.nnz and parts.test.target.nnz):
            found.problems.append("The customers have too few items in common to learn from.")


def _too_few(users: int) -> str:
    have = {0: "No customer has", 1: "Only 1 customer has"}.get(users, f"Only {users} customers have")
    return f"{have} {MIN_ITEMS} or more different items; at least {FEWEST_USERS} such customers are needed."


def _ratings(ratings: np.ndarray) -> dict[str, Any]:
    values, counts = np.unique(ratings, return_counts=True)
    listed = zip(values.tolist(), counts.tolist(), strict=True) if len(values) <= MOST_RATINGS else ()
    ends = {"lowest": float(values[0]), "highest": float(values[-1])}
    return {**ends, "values": [{"value": float(value), "rows": count} for value, count in listed]}


def _items(data: Interactions, reading: Reading, column: str | None, found: _Findings) -> dict[str, Any] | None:
    try:
        joined, notes = join_items(data.items, reading.items, column)
    except DataError as error:
        found.add(error)
        return None
    names = [] if joined is None else joined.column_names
    if not names:
        found.warnings.append("The items table has only ids: it adds neither titles nor attributes.")
    return {"has_titles": "title" in names, "attributes": [name for name in names if name != "title"],
            "notes": list(notes)}  # fmt: skip


# Words


def for_people(message: str) -> str:
    """Without what only helps at a command line."""
    clauses = []
    for clause in message.split("; "):
        parts = [part for part in clause.split(", or ") if not re.search(r"--\w|in Python", part)]
        clauses += [", or ".join(parts)] if parts else []
    return "; ".join(clauses)


def _format(table: Table) -> str:
    if isinstance(table, ParquetTable):
        return "Parquet"
    assert isinstance(table, DelimitedTable)
    return f"text, separated by {SEPARATORS[table.delimiter]}"


def _values(rows: Sequence[Sequence[Any]], place: int) -> list[Any]:
    """Of a column, without the missing ones."""
    return [row[place] for row in rows if place < len(row) and row[place] not in (None, "")]


def _column(name: str, values: list[Any]) -> dict[str, Any]:
    examples = list(dict.fromkeys(_clipped(value) for value in values))
    return {"name": name, "kind": _kind(values), "examples": examples[:3]}


def _kind(values: Iterable[Any]) -> str:
    kinds = Counter(_kind_of(value) for value in values)
    return "empty" if not kinds else next(iter(kinds)) if len(kinds) == 1 else "text"


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, int | float) or (isinstance(value, str) and _is_number(value)):
        return "number"
    if isinstance(value, date) or (isinstance(value, str) and DATE.match(value)):
        return "date"
    return "list" if isinstance(value, list) else "text"


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return text.isascii() and "_" not in text and float(text) == float(text)
    return False


def _clipped(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
