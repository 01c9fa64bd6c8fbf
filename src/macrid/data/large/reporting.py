"""What a report says about events that were streamed: the same as about events read into memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from macrid.data.interactions import ReadReport
from macrid.data.large import mapping
from macrid.data.large.engine import Engine
from macrid.data.large.mapping import Events
from macrid.data.large.parts import Request, note_on_times
from macrid.data.reading import Columns, guessed_columns, note_on_ignored, report_of
from macrid.data.tables import Table
from macrid.errors import DataError


def check_some_left(facts: dict[str, Any], engine: Engine, events: Events, name: str) -> None:
    if not facts["rated"]:
        highest = mapping.highest_rating(engine, events)
        raise DataError(
            f"{name}: all {facts['rows']:,} ratings are below min_rating {events.request.min_rating:g};"
            f" the highest is {highest:g}; lower the threshold"
        )
    if not facts["kept"]:
        raise DataError(f"{name}: all {facts['rated']:,} events weigh 0; give some of them a weight")


def report_on(first: tuple[Table, Columns], events: Events, request: Request, users: dict[str, Any]) -> ReadReport:
    """What was read, before it is merged."""
    table, found = first
    times = note_on_times(events.parts)
    notes = dict.fromkeys(note for part in events.parts for note in part.facts.get("notes", ()))
    notes = dict.fromkeys([*([table.note] if table.note else []), *([times] if times else []), *notes])
    guessed = guessed_columns(found.roles, request.user, request.item, request.rating, request.weighing)
    report = report_of(table, users["rows"], found.roles, guessed, request.weighing, tuple(notes))
    if found.ignored is not None:
        report = replace(report, notes=(*report.notes, note_on_ignored(found.ignored)))
    if not events.ordered:
        report = replace(report, source=f"{len(events.parts):,} files")
    return replace(
        report,
        min_rating=request.min_rating,
        below_min_rating=users["rows"] - users["rated"],
        zero_weights=users["rated"] - users["kept"],
    )


def merged_report(report: ReadReport, merged: dict[str, Any], min_items: int) -> ReadReport:
    if not merged["users"]:
        raise DataError(
            f"{report.source}: no user has {min_items} items; the longest history has {merged['longest']},"
            " lower min_items"
        )
    weight = merged["weight"]
    return replace(
        report,
        duplicates=merged["duplicates"],
        dropped_users=merged["dropped_users"],
        dropped_rows=merged["dropped_rows"],
        mean_weight=None if weight is None else weight / merged["interactions"],
    )
