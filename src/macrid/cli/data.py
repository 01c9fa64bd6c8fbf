"""macrid data: list data sets, and prepare them for training."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import typer

from macrid.cli.common import (
    console,
    download_progress,
    error_console,
    flags,
    number_or_name,
    print_json,
    table,
    working,
)
from macrid.errors import DataError
from macrid.files import check_free

if TYPE_CHECKING:
    from macrid.data.interactions import ReadReport
    from macrid.data.split import Split

DATABASE = "MACRID_DATABASE"
RECIPE = ("user_col", "item_col", "rating_col", "min_rating", "min_items", "heldout", "seed", "items", "encoding",
          "items_sql", "database_file", "stream", "memory")  # fmt: skip
COLUMNS = ("time_col", "weight_col", "event_col", "weights")
TIMED = (*COLUMNS, "half_life", "split", "at", "last")
TIMES = "Times and weights"

app = typer.Typer(help="List data sets and prepare them for training.", no_args_is_help=True)


@app.command("list")
def list_(json: bool = typer.Option(False, "--json", help="JSON on standard output.")) -> None:
    """List the data sets in the catalogue and which are available.

    Example: macrid data list
    """
    from macrid.data import catalog

    entries = [
        (entry, catalog.status(entry), None if entry.expected is None else asdict(entry.expected))
        for entry in map(catalog.entry, catalog.names())
    ]
    if json:
        print_json([
            {"name": entry.name, "what": entry.what, "status": status, "expected": counts}
            for entry, status, counts in entries
        ])  # fmt: skip
        return
    numbers = ("users", "items", "interactions")
    rows = []
    for entry, status, counts in entries:
        rows.append((entry.name, status, *(f"{counts[key]:,}" if counts else "" for key in numbers), entry.what))
    console.print(table(("name", "status", *numbers, "what it is"), rows, numbers))


@app.command()
def prepare(
    context: typer.Context,
    sources: list[str] | None = typer.Argument(
        None,
        metavar="SOURCE",
        show_default=False,
        help="A catalogue name, or events (CSV, TSV, Parquet, '::'): files, folders or patterns such as"
        " 'events/*.parquet'; none with --sql.",
    ),
    out: Path = typer.Option(..., "--out", "-o", help="The folder to write."),
    user_col: str | None = typer.Option(None, help="User column; guessed by default."),
    item_col: str | None = typer.Option(None, help="Item column; guessed by default."),
    rating_col: str | None = typer.Option(None, help="Rating column; guessed by default."),
    time_col: str | None = typer.Option(
        None, help="Time column; guessed where --split or --half-life need it.", rich_help_panel=TIMES
    ),
    weight_col: str | None = typer.Option(None, help="A column with the weight of each event.", rich_help_panel=TIMES),
    event_col: str | None = typer.Option(
        None, help="Column with the kind of event; guessed by default.", rich_help_panel=TIMES
    ),
    weights: str | None = typer.Option(
        None, help="The weight of each kind of event, such as view=1,cart=3; 0 drops it.", rich_help_panel=TIMES
    ),
    half_life: float | None = typer.Option(
        None, help="Days in which an event loses half its weight.", rich_help_panel=TIMES
    ),
    split: Literal["users", "stable", "time", "last"] = typer.Option(
        "users",
        help="Hold out users; the same ones every night (stable); or train on what came before a moment (time); or"
        " predict the last items of each user.",
        rich_help_panel=TIMES,
    ),
    at: str | None = typer.Option(
        None,
        help="With --split time: when the test begins, such as 2024-05-31; or two, for validation and test,"
        " separated by a comma. Default: the last 10 % of the interactions (--heldout), and the 10 % before them.",
        rich_help_panel=TIMES,
    ),
    last: int | None = typer.Option(
        None, help="With --split last: how many items of each user. Default: 1.", rich_help_panel=TIMES
    ),
    test: Path | None = typer.Option(
        None, help="The test file of a published split: SOURCE and this have lines 'user item item …'."
    ),
    min_rating: float | None = typer.Option(None, help="Keep only ratings this high; by default every row counts."),
    min_items: int = typer.Option(5, help="Keep users with at least this many items."),
    heldout: float = typer.Option(
        0.1, help="Users to hold out for validation, and as many for test; below 1, a fraction; 0 for nobody."
    ),
    seed: int = typer.Option(98765, help="Seed of the split."),
    items: Path | None = typer.Option(None, help="A table with one row per item: id, title, attributes."),
    encoding: str | None = typer.Option(
        None, help="Encoding of the text files, such as latin-1; by default decided by the content of each."
    ),
    sql: str | None = typer.Option(
        None, help=f"A query for the events, to the database whose URL is in {DATABASE} or in --database-file."
    ),
    items_sql: str | None = typer.Option(None, help="A query for the items, to the same database."),
    database_file: Path | None = typer.Option(None, help="A file with the URL of a database, or a SQLite database."),
    stream: bool | None = typer.Option(
        None,
        "--stream/--no-stream",
        show_default=False,
        help="Read through DuckDB, with little memory; by default several files, and data that would need more than"
        " --memory.",
    ),
    memory: str = typer.Option("2GiB", help="Memory to use, approximately."),
    overwrite: bool = typer.Option(False, help="Replace a folder that is not empty."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Read events, hold out users for validation and test, and write a folder ready for training.

    Example: macrid data prepare events.parquet --min-rating 4 --heldout 500 --items items.csv --out shop/

    Example: macrid data prepare events.csv --split time --weights view=1,cart=3,purchase=10 --half-life 90 --out shop/

    Example: macrid data prepare 'events/2026-*.parquet' --memory 4GiB --out shop/ (goes on after a kill)

    Example: macrid data prepare train.txt --test test.txt --out gowalla/

    Example: MACRID_DATABASE=postgresql://me@db/shop macrid data prepare --sql "select user_id, item_id from orders"
    --out shop/
    """
    from macrid.cli.large import bytes_of
    from macrid.data import catalog, store
    from macrid.data.interactions import check_split

    check_free(out, overwrite, DataError, replaceable=store.FILES)
    how: dict[str, Any] = {"at": at, "last": last}
    source = sources[0] if sources and len(sources) == 1 else None
    if bool(sources) == (sql is not None):
        raise typer.BadParameter("give either files or a catalogue name, or --sql with a query")
    if items is not None and items_sql is not None:
        raise typer.BadParameter("give either --items or --items-sql")
    if test is not None:
        if source is None:
            raise typer.BadParameter("--test goes with one train file, not with several or --sql")
        parts = _read_published(context, source, test, items, seed)
        _write(parts, out, {"published": [source, str(test)], "seed": seed}, overwrite, json)
        return
    if source is not None and source in catalog.names() and not Path(source).is_file():
        _refuse_options(context, source)
        with download_progress() as progress, working(f"reading {source}"):
            parts = catalog.load(source, progress=progress, split=split, half_life=half_life, **how)
        if split != "users":
            _print_notes(parts)
        recipe = {"catalogue": source} | _given({"split": split, **how, "half_life": half_life})
        _write(parts, out, recipe, overwrite, json)
        return
    columns = {"user": user_col, "item": item_col, "rating": rating_col, "weight": weight_col, "event": event_col}
    options: dict[str, Any] = {role: number_or_name(column) for role, column in columns.items()}
    options |= {"weights": None if weights is None else _parse_weights(weights), "half_life": half_life}
    options |= {"time": (split in ("time", "last") or None) if time_col is None else number_or_name(time_col)}
    options |= {"min_rating": min_rating, "min_items": min_items, "encoding": encoding}
    recipe = {"min_rating": min_rating, "min_items": min_items, "heldout": heldout, "seed": seed}
    recipe |= _given({"split": split, **how, "half_life": half_life, "weight": weight_col, "weights": weights})
    recipe |= _given({"sql": sql, "items_sql": items_sql})
    share = None if split == "last" and not _chosen(context, ["heldout"]) else heldout
    check_split(share, split, at, last)
    data = _events(sources or [], sql, database_file, out, stream, bytes_of(memory))
    about_items = items if items_sql is None else _query(items_sql, database_file, "query for items")
    if isinstance(data, _Streamed):
        division = {"heldout": share, "seed": seed, "by": split, **how}
        parts = data.prepare(options, division, items=about_items, about=recipe, overwrite=overwrite)
        _print_prepared(parts, out, json)
        return
    parts = _read_and_split(data, {**options, "items": about_items}, share, seed, {"by": split, **how})
    _write(parts, out, recipe, overwrite, json)


@dataclass(frozen=True)
class _Streamed:
    """Events that are read through DuckDB."""

    source: Any
    out: Path
    memory: int

    def prepare(self, options: dict[str, Any], division: dict[str, Any], **more: Any) -> Split:
        from macrid.cli.large import prepare_streamed
        from macrid.data.large.parts import Request
        from macrid.data.large.preparing import Division
        from macrid.data.weighing import Weighing

        own = {name: options[name] for name in ("user", "item", "rating", "min_rating", "encoding")}
        weighing = Weighing(**{name: options[name] for name in ("time", "weight", "event", "weights", "half_life")})
        request = Request(**own, weighing=weighing)
        more |= {"min_items": options["min_items"], "division": Division(**division), "memory": self.memory}
        return prepare_streamed(self.source, self.out, request=request, **more)


def _events(
    sources: list[str], sql: str | None, database_file: Path | None, out: Path, stream: bool | None, memory: int
) -> Any:
    """A file or table to read into memory, or what is to be streamed."""
    from macrid.cli.large import needs_streaming, query_or_table
    from macrid.data import catalog
    from macrid.data.large.preparing import Query
    from macrid.data.large.sources import files_of

    if sql is not None:
        found = query_or_table(Query(sql, _url(database_file)), out, stream, memory)
        return _Streamed(found, out, memory) if isinstance(found, Query) else found
    for source in sources:
        if not Path(source).exists() and not glob.has_magic(source):
            raise DataError(f"{source}: neither a file nor a catalogue name{catalog.did_you_mean(source)}")
    files = files_of(sources)
    return _Streamed(files, out, memory) if needs_streaming(files, stream, memory) else files[0]


def _read_and_split(
    source: Any, options: dict[str, Any], heldout: float | None, seed: int, how: dict[str, Any]
) -> Split:
    from macrid.data.interactions import Interactions

    with working(f"reading {source if isinstance(source, Path) else 'the database'}"):
        data = Interactions.read(source, **options)
    report = data.report
    try:
        with working("splitting"):
            parts = data.split(heldout, seed, **how)
        if report is not None and parts.train.report is not None:
            report = replace(report, mean_weight=parts.train.report.mean_weight)
    finally:
        error_console.print(str(report), soft_wrap=True)
    _print_notes(parts, data.report)
    return parts


def _write(split: Split, out: Path, recipe: dict[str, Any], overwrite: bool, json: bool) -> None:
    """Write a prepared folder and say what is in it."""
    from macrid.data import store

    with working(f"writing {out}"):
        store.write(split, out, overwrite=overwrite, about=recipe)
    _print_prepared(split, out, json)


def _print_prepared(split: Split, out: Path, json: bool) -> None:
    """Say what is in a prepared folder."""
    from macrid.data.split import HELD_OUT_USERS

    heldout = (split.validation, split.test)
    are_strangers = split.protocol == HELD_OUT_USERS  # else they are trained on, too, and so are their histories
    counts = {
        "users": sum(len(group.users) for group in (split.train, *heldout))
        if are_strangers
        else len(split.train.users),
        "items": len(split.items),
        "interactions": len(split.train)
        + sum(int(group.target.nnz + are_strangers * group.history.nnz) for group in heldout),
        "heldout": len(split.test.users),
    }
    if json:
        print_json({"out": str(out), **counts, "protocol": split.protocol})
        return
    held_out = _heldout(len(split.validation.users), counts["heldout"])
    if not are_strangers:
        held_out = f"{len(split.validation.users):,} validation and {counts['heldout']:,} test users: {split.protocol}"
    console.print(
        f"{out}: {counts['users']:,} users, {counts['items']:,} items, {counts['interactions']:,} interactions;"
        f" {held_out}",
        soft_wrap=True,
    )
    more = 0 if split.everyone is None else len(split.everyone.items) - len(split.items)
    if more:
        where = "with held-out users" if are_strangers else "in validation and test"
        occur, them = ("item occurs", "it") if more == 1 else ("items occur", "them")
        console.print(
            f"{more:,} more {occur} only {where} ({more / (more + len(split.items)):.0%}); train with --final to learn"
            f" {them}"
        )
    options = " --final" * bool(more) if counts["heldout"] else " --epochs N"
    console.print(f"next: macrid train {quote(str(out))} --out RUN{options}", soft_wrap=True)


def _heldout(validation: int, test: int) -> str:
    if test:
        as_many = "as many" if test == validation else f"{test:,}"
        return f"{validation:,} user{'s' * (validation != 1)} held out for validation and {as_many} for test"
    return "nobody held out, so a training needs a number of epochs and has no scores"


def _read_published(context: typer.Context, source: str, test: Path, items: Path | None, seed: int) -> Split:
    from macrid.data.lightgcn import read_published

    unfit = [name for name in (*RECIPE, *TIMED) if name not in ("items", "seed")]
    if refused := _chosen(context, unfit):
        raise DataError(f"{test}: a published split has users and items only; remove {flags(refused)}")
    with working(f"reading {source} and {test}"):
        split = read_published(source, test, items=items, seed=seed)
    error_console.print(str(split.train.report), soft_wrap=True)
    return split


def _print_notes(split: Split, printed: ReadReport | None = None) -> None:
    """What the split left out."""
    report = split.train.report
    for note in () if report is None else report.notes[0 if printed is None else len(printed.notes) :]:
        error_console.print(note, soft_wrap=True)


def _parse_weights(text: str) -> dict[str, float]:
    """'view=1,cart=3' as a dictionary."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        kind, _, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = float("nan")
        if not kind.strip() or math.isnan(weight):
            raise DataError(f"--weights: {part!r} is not a kind of event and its weight; write view=1,cart=3")
        if kind.strip() in weights:
            raise DataError(f"--weights: {kind.strip()!r} has two weights; give one")
        weights[kind.strip()] = weight
    return weights


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Those that differ from what is usual."""
    return {name: value for name, value in options.items() if value is not None and (name, value) != ("split", "users")}


def _chosen(context: typer.Context, names: Iterable[str]) -> list[str]:
    return [name for name in names if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]


def _query(sql: str, database_file: Path | None, name: str) -> Any:
    """The result of a query as a table that messages call by this name."""
    from macrid.data.sql import read_sql
    from macrid.data.tables import FrameTable

    return FrameTable(read_sql(sql, _url(database_file)), name)


def _url(database_file: Path | None) -> str:
    from macrid.data.sql import read_url

    return read_url(os.environ.get(DATABASE), database_file, DATABASE)


def _refuse_options(context: typer.Context, source: str) -> None:
    """Catalogue data sets have a fixed recipe; an option it would ignore is an error."""
    if refused := _chosen(context, (*RECIPE, *COLUMNS)):
        raise DataError(f"{source}: has its own recipe; remove {flags(refused)}, or give the data set's file instead")
