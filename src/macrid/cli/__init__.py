"""The command line: one file per command. Only this package prints, parses arguments and chooses paths."""

from __future__ import annotations

import sys
import warnings

import typer

from macrid.cli import (
    axes,
    data,
    demo,
    diff,
    doctor,
    evaluate,
    export,
    index,
    inspect,
    items,
    map,
    mcp,
    names,
    recommend,
    reproduce,
    serve,
    similar,
    steer,
    studio,
    train,
    traverse,
    tune,
    users,
)
from macrid.cli.common import Command, show_warning
from macrid.cli.ending import check_working_folder, end, flush, prepare_streams

app = typer.Typer(
    name="macrid",
    help="Recommendations built from concepts and dimensions that people can name and move.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.add_typer(data.app, name="data")
app.command(cls=Command)(train.train)
app.command(cls=Command)(tune.tune)
app.command()(evaluate.evaluate)
app.command(cls=Command)(recommend.recommend)
app.command()(similar.similar)
app.command()(traverse.traverse)
app.command(cls=Command)(steer.steer)
app.command()(inspect.inspect)
app.command()(diff.diff)
app.command()(index.index)
app.command()(axes.axes)
app.command()(names.names)
app.add_typer(items.app, name="items")
app.command("map")(map.draw_map)
app.command()(export.export)
app.command(cls=Command)(serve.serve)
app.command(cls=Command)(studio.studio)
app.command()(mcp.mcp)
app.add_typer(users.app, name="users")
app.command()(reproduce.reproduce)
app.command()(doctor.doctor)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        from macrid.version import __version__

        typer.echo(f"macrid {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; whatever goes wrong is one line on standard error and exit code 1, or 2 for usage."""
    warnings.showwarning = show_warning
    code: str | int | None = None
    try:
        prepare_streams()
        check_working_folder()
        try:
            app(prog_name="macrid")
        except SystemExit as stop:
            code = stop.code
        flush()
    except (Exception, KeyboardInterrupt) as error:
        code = end(error)
    sys.exit(code)
