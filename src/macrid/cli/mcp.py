"""macrid mcp: a run as tools for an assistant."""

from __future__ import annotations

from pathlib import Path

import typer

from macrid.cli.common import working
from macrid.errors import MacridError


def mcp(
    run: Path = typer.Argument(help="A run."),
    device: str = typer.Option("cpu", help="auto, cpu, cuda or cuda:N."),
) -> None:
    """Offer a run as tools to an assistant, over the Model Context Protocol on standard input and output.

    Give this command to the assistant's program, which starts it. The tools search, recommend, steer in words, explain,
    and show similar items and variations.

    Example: macrid mcp runs/ml-1m
    """
    try:
        from macrid.assistant.tools import server_of
    except ModuleNotFoundError as error:
        raise MacridError(f"mcp needs {error.name}; install it with `pip install 'macrid[mcp]'`") from None
    from macrid.runs import load

    with working("loading"):
        model = load(run, device)
    server_of(model, run.resolve().name).run("stdio")
