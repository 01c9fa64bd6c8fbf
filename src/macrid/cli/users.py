"""macrid users: export, erase and prune the events that a service keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import typer

from macrid.cli.common import console, print_json, working
from macrid.cli.serve import EVENTS
from macrid.errors import DatabaseError

if TYPE_CHECKING:
    from macrid.data.eventlog import EventLog

app = typer.Typer(help="Export and erase the events of users.", no_args_is_help=True)
USER = typer.Argument(help="The id of a user.")
URL = typer.Option(
    None,
    envvar=EVENTS,
    show_envvar=False,
    help=f"The database of `macrid serve --events`; better set as {EVENTS} in the environment.",
)
YES = typer.Option(False, "--yes", help="Do not ask.")
JSON = typer.Option(False, "--json", help="JSON on standard output.")


@app.command()
def export(user: str = USER, events: str | None = URL) -> None:
    """Print all events of a user as JSON.

    Example: MACRID_EVENTS=sqlite:///events.db macrid users export ann > ann.json
    """
    with _log(events) as log:
        print_json({"user": user, "events": [event.as_json() for event in log.events(user)]})


@app.command()
def delete(user: str = USER, events: str | None = URL, yes: bool = YES, json: bool = JSON) -> None:
    """Erase a user: delete all events, and hide the user's rows of the file given to `macrid serve --users`.

    Running services follow. Only a keyed hash of the id is kept.

    Example: MACRID_EVENTS=sqlite:///events.db macrid users delete ann
    """
    with _log(events) as log:
        if not yes:
            typer.confirm(f"delete {len(log.events(user)):,} events of user {user!r}?", abort=True)
        deleted = log.erase(user)
    if json:
        print_json({"user": user, "deleted": deleted})
    else:
        console.print(f"deleted {deleted:,} events; the user is hidden in files, too")


@app.command()
def prune(
    older_than: int = typer.Option(..., min=0, max=100_000, help="Days."),
    events: str | None = URL,
    yes: bool = YES,
    json: bool = JSON,
) -> None:
    """Delete old events of all users.

    Example: MACRID_EVENTS=sqlite:///events.db macrid users prune --older-than 365 --yes
    """
    before = datetime.now(UTC) - timedelta(days=older_than)
    if not yes:
        typer.confirm(f"delete all events before {before:%Y-%m-%d %H:%M} UTC?", abort=True)
    with _log(events) as log, working("deleting"):
        deleted = log.prune(before)
    if json:
        print_json({"before": before.isoformat(), "deleted": deleted})
    else:
        console.print(f"deleted {deleted:,} events before {before:%Y-%m-%d %H:%M} UTC")


@contextmanager
def _log(url: str | None) -> Iterator[EventLog]:
    from macrid.data.eventlog import open_log

    if not url:
        raise DatabaseError(f"no event store; set {EVENTS} to the URL that `macrid serve` uses, such as sqlite:///x.db")
    log = open_log(url, create=False)
    try:
        yield log
    finally:
        log.close()
