"""Shared by the commands: consoles, options, progress and tables."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console as RichConsole
from rich.console import ConsoleDimensions, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperOption

from macrid.settings import ADVANCED, COMMON, Settings

if TYPE_CHECKING:
    from macrid.data.ids import Ids
    from macrid.data.split import Split
    from macrid.models.results import ScoredItem

UNWRAPPED = 100_000  # columns, when not on a terminal
FLAGS = {"learning_rate": ("--learning-rate", "--lr"), "port": ("--port", "-p")}  # of settings with a second one
advanced = partial(typer.Option, rich_help_panel=ADVANCED)
F = TypeVar("F", bound=Callable[..., Any])


class Console(RichConsole):
    """Prints ids, titles and paths verbatim; wraps lines on a terminal only."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    @RichConsole.size.getter  # type: ignore[attr-defined, untyped-decorator]
    def size(self) -> ConsoleDimensions:
        size = super().size
        return size if self.is_terminal else ConsoleDimensions(UNWRAPPED, size.height)


console = Console()  # results
error_console = Console(stderr=True)  # everything else


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line on standard error."""
    error_console.print(Text.assemble(("warning: ", "yellow"), one_line(str(message))), soft_wrap=True)


def one_line(text: str, longest: int = UNWRAPPED) -> str:
    """A message without line breaks and control characters, its middle left out if it is too long."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} … {text[-longest // 2 :]}"
    plain = text.replace("\r", " ").replace("\n", " ").replace("\t", " ")
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in plain)


def number_or_name(name: str | None) -> str | int | None:
    """Of a concept, a dimension or a column; a column's number is its place, from 0, in a file without a header."""
    from macrid.data.ids import whole_number

    number = None if name is None else whole_number(name)
    return name if number is None or number < 0 else number


class Command(TyperCommand):
    """A command with many options: the common ones (no panel of their own) first, the advanced ones last."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for option in params:
            if isinstance(option, TyperOption):
                option.rich_help_panel = option.rich_help_panel or COMMON
        return sorted(params, key=lambda each: (each.rich_help_panel == ADVANCED) - (each.rich_help_panel == COMMON))


def print_json(value: Any) -> None:
    """On standard output, in escapes where its encoding lacks a character."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, allow_nan=False)
    typer.echo(text)


def setting(settings: type[Settings], name: str) -> Any:
    """A command-line option for a settings field, with its documentation; None means the default."""
    field = settings.model_fields[name]
    text = str(field.description) if field.default is None else f"{field.description} Default: {field.default}."
    return typer.Option(None, *FLAGS.get(name, ()), help=escape(text), rich_help_panel=settings.panel(name))


def takes_settings(*kinds: type[Settings], only: Sequence[str] | None = None) -> Callable[[F], F]:
    """Give a command an option for each field of the settings (or only some), before its keyword-only parameters.

    It gets them as its `**` arguments, None where not given. A field that it has a parameter for is skipped.
    """

    def add(command: F) -> F:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        kind_of = {
            name: kind for kind in kinds for name in only or kind.model_fields if name not in signature.parameters
        }
        options = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=setting(kind, name), annotation=_type(kind, name)
            )
            for name, kind in kind_of.items()
        ]
        parameters = sorted([*options, *own], key=lambda each: each.kind)
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return command

    return add


def _type(settings: type[Settings], name: str) -> Any:
    """Of an option: numbers are checked when parsed, everything else by the settings."""
    kind = settings.model_fields[name].annotation
    return next((number | None for number in (int, float) if kind in (number, number | None)), str | None)


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


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    numbers: Container[str] = (),
    caption: str | None = None,
    header: bool = True,
) -> Table:
    """Columns that are None in every row are left out; rows may be short. numbers: columns aligned on the right."""
    cells = list(zip_longest(columns, *rows))  # by column, after its name
    shown = [column for column in cells if any(cell is not None for cell in column[1:])]
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=header, caption=caption)
    made.caption_justify, made.caption_style = "left", "dim"
    for name, *_ in shown:
        justify: JustifyMethod = "right" if name in numbers else "left"
        made.add_column(name, justify=justify, no_wrap=name in numbers or name == "item")
    for row in zip(*(column[1:] for column in shown), strict=True):
        made.add_row(*(cell if isinstance(cell, Text) else "" if cell is None else str(cell) for cell in row))
    return made


def items_table(items: Iterable[ScoredItem], score: str) -> Table:
    """Items, best first."""
    rows = (
        (i, item.id, item.title, f"{item.score:.3f}", item.concept, None if item.new is None else "new")
        for i, item in enumerate(items, start=1)
    )
    return table(("#", "item", "title", score, "concept", ""), rows, numbers=("#", score, "concept"))


def number(value: float | None, form: str = ".2f", missing: str = "") -> str:
    return missing if value is None else f"{value:{form}}"


def signed(value: float) -> str:
    """Such as +0.30; never -0.00."""
    return f"{round(value, 2) + 0:+.2f}"


def parse_ids(texts: Sequence[str], ids: Ids) -> list[Any]:
    """Ids from repeated, comma-separated options."""
    parsed: list[Any] = []
    for text in texts:
        is_whole = any(ids.parse(whole) in ids for whole in (text, text.strip()))
        parts = [text] if is_whole else text.split(",")  # an id may contain a comma, and begin or end with a blank
        parsed += [ids.parse(part if ids.parse(part) in ids else part.strip()) for part in parts if part.strip()]
    return parsed
