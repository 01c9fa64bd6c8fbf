"""Shared by the commands: consoles, options, progress and tables."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console as RichConsole
from rich.console import ConsoleDimensions
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperOption

from macrid.settings import ADVANCED, COMMON, Settings

if TYPE_CHECKING:
    from macrid.data.ids import Ids
    from macrid.data.split import Split
    from macrid.models.base import ScoredItem

UNWRAPPED = 100_000  # columns, when not on a terminal


class Console(RichConsole):
    """Prints ids, titles and paths verbatim; wraps lines on a terminal only."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        if not self.is_terminal:
            options["soft_wrap"] = all(isinstance(each, str | Text) for each in objects)
        super().print(*objects, **options)

    @RichConsole.size.getter  # type: ignore[attr-defined, untyped-decorator]
    def size(self) -> ConsoleDimensions:
        size = super().size
        return size if self.is_terminal else ConsoleDimensions(UNWRAPPED, size.height)


console = Console()  # results
error_console = Console(stderr=True)  # everything else


def show_warnings() -> None:
    """Print each warning as one line on standard error."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        error_console.print(Text.assemble(("warning: ", "yellow"), str(message)), soft_wrap=True)

    warnings.showwarning = show


def column(name: str | None) -> str | int | None:
    """A column name; digits are a column number, from 0, in a file without a header."""
    return int(name) if name is not None and name.isdigit() else name


class Command(TyperCommand):
    """A command with many options: the common ones (no panel of their own) first, the advanced ones last."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for option in params:
            if isinstance(option, TyperOption):
                option.rich_help_panel = option.rich_help_panel or COMMON
        return sorted(params, key=lambda each: (each.rich_help_panel == ADVANCED) - (each.rich_help_panel == COMMON))


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def setting(settings: type[Settings], name: str, *flags: str) -> Any:
    """A command-line option for a settings field, with its documentation; None means the default."""
    field = settings.model_fields[name]
    text = str(field.description) if field.default is None else f"{field.description} Default: {field.default}."
    panel = settings.panel(name)
    return typer.Option(None, *flags, help=escape(text), show_default=False, rich_help_panel=panel)


def options_for(settings: type[Settings], options: dict[str, Any]) -> dict[str, Any]:
    """The options that belong to these settings and are not None."""
    return {name: options[name] for name in settings.model_fields if options.get(name) is not None}


def flags(fields: Iterable[str]) -> str:
    return ", ".join("--" + field.replace("_", "-") for field in fields)


def report_unused(model: str, training: Iterable[str]) -> None:
    """Name the training settings that a model without epochs ignores."""
    unused = [field for field in training if field not in ("seed", "device")]
    if unused:
        error_console.print(f"{model} is not trained in epochs; ignored {flags(unused)}", soft_wrap=True)


def load_split(source: str) -> tuple[Split, dict[str, Any]]:
    """The split of a prepared folder or catalogue name, and its origin for the run's config."""
    from macrid.data.catalog import load_split

    with download_progress() as progress, working(f"reading {source}"):
        return load_split(source, progress)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on standard error."""
    with error_console.status(Text(f"{what} …")):
        yield


@contextmanager
def download_progress() -> Iterator[Any]:
    """A callback (bytes done, total bytes or None) that shows a bar from its first call."""
    columns = (TextColumn("downloading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=error_console)
    task = bar.add_task("", total=None)

    def show(done: int, total: int | None) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def step_progress() -> Progress:
    """A bar with a status text."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=max(6, min(24, error_console.width - 74))),
        TextColumn("{task.fields[status]}", markup=False),
        TimeElapsedColumn(),
        console=error_console,
        disable=not error_console.is_terminal,
    )


def plain_table(*numbers: str, first: str | None = None, last: Sequence[str] = ()) -> Table:
    """Columns of numbers, with text columns before and after them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    if first is not None:
        table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right")
    for name in last:
        table.add_column(name)
    return table


def items_table(items: Sequence[ScoredItem], score: str) -> Table:
    """Items, best first; title and concept only where an item has one."""
    has_title, has_concept = (any(getattr(item, name) is not None for item in items) for name in ("title", "concept"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", style="dim")
    table.add_column("item", no_wrap=True)
    if has_title:
        table.add_column("title")
    table.add_column(score, justify="right")
    if has_concept:
        table.add_column("concept", justify="right")
    for rank, item in enumerate(items, start=1):
        title = [item.title or ""] if has_title else []
        concept = ["" if item.concept is None else str(item.concept)] if has_concept else []
        table.add_row(str(rank), str(item.id), *title, f"{item.score:.3f}", *concept)
    return table


def signed(value: float) -> str:
    """Such as +0.30; never -0.00."""
    return f"{round(value, 2) + 0:+.2f}"


def parse_ids(texts: Sequence[str], ids: Ids) -> list[Any]:
    """Ids from repeated, comma-separated options."""
    parsed: list[Any] = []
    for text in texts:
        whole = ids.parse(text.strip())
        parts = [text] if whole in ids else text.split(",")  # an id may contain a comma
        parsed += [ids.parse(part.strip()) for part in parts if part.strip()]
    return parsed
