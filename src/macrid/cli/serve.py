"""macrid serve: a run over HTTP, and the studio."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from macrid.cli.common import console, error_console, given, setting
from macrid.errors import MacridError
from macrid.settings import ADVANCED, ServingSettings

TOKEN = "MACRID_TOKEN"


def serve(
    run: Path = typer.Argument(help="A run."),
    host: str | None = setting(ServingSettings, "host"),
    port: int | None = setting(ServingSettings, "port", "--port", "-p"),
    token: str | None = typer.Option(
        None,
        envvar=TOKEN,
        show_envvar=False,
        show_default=False,
        help=f"A secret that every request to the API must bring; better given as {TOKEN} in the environment.",
    ),
    workers: int | None = setting(ServingSettings, "workers"),
    threads: int | None = setting(ServingSettings, "threads"),
    device: str | None = setting(ServingSettings, "device"),
    users: Path | None = setting(ServingSettings, "users"),
    user_col: str | None = setting(ServingSettings, "user_col"),
    item_col: str | None = setting(ServingSettings, "item_col"),
    rating_col: str | None = setting(ServingSettings, "rating_col"),
    pictures: Path | None = setting(ServingSettings, "pictures"),
    edits: str | None = setting(ServingSettings, "edits"),
    names: list[str] = typer.Option(
        [], "--name", help="A name by which the service may be called; may be repeated.", rich_help_panel=ADVANCED
    ),
    origins: list[str] = typer.Option(
        [],
        "--origin",
        help="A web site whose pages may call the API, such as https://shop.example; may be repeated.",
        rich_help_panel=ADVANCED,
    ),
    max_items: int | None = setting(ServingSettings, "max_items"),
    max_history: int | None = setting(ServingSettings, "max_history"),
    max_batch: int | None = setting(ServingSettings, "max_batch"),
    max_body: int | None = setting(ServingSettings, "max_body"),
    timeout: float | None = setting(ServingSettings, "timeout"),
    drain: float | None = setting(ServingSettings, "drain"),
    open_page: bool = typer.Option(False, "--open", help="Open the studio in a browser."),
) -> None:
    """Serve a run: an HTTP API under /v1, and the studio, a page where a person turns the knobs.

    SIGHUP reads the run again, SIGTERM answers what is asked and ends.

    Example: macrid serve runs/shop

    Example: MACRID_TOKEN=… macrid serve runs/shop --host 0.0.0.0 --workers 4
    """
    options: dict[str, Any] = {
        **locals(),
        "users": None if users is None else str(users),
        "pictures": None if pictures is None else str(pictures),
        "hosts": tuple(names) or None,
        "origins": tuple(origins) or None,
    }
    start(run, ServingSettings.make(given(ServingSettings, options)), open_page=open_page)


def start(run: Path, settings: ServingSettings, *, open_page: bool = False, or_next_port: bool = False) -> None:
    """Serve, and say where.

    or_next_port: where the port is taken, the next one that is free will do.
    """
    try:
        from macrid.serving import server
    except ModuleNotFoundError as error:
        raise MacridError(f"serving needs {error.name}; install it with `pip install 'macrid[serve]'`") from None
    from macrid.runs import read_config

    read_config(run)

    def tell(address: str) -> None:
        # A log should not hold the secret; whoever sits at the terminal has it anyway.
        with_token = settings.token is not None and console.is_terminal
        page = f"{address}#token={settings.token}" if with_token else address
        console.print(Text.assemble("the studio is at ", (page, "bold underline")), soft_wrap=True)
        hints = f"API: {address}v1/openapi.json · stop with Ctrl-C"
        error_console.print(hints, style="dim", soft_wrap=True)
        if open_page:
            webbrowser.open(page)

    error_console.print(Text(f"opening {run} …", "dim"))
    with _bind(server, settings, or_next_port) as bound:
        server.serve(run, settings, listening=bound, on_ready=tell)


def _bind(server: Any, settings: ServingSettings, or_next: bool) -> Any:
    ports = range(settings.port, settings.port + 20) if or_next else [settings.port]
    for port in ports[:-1]:
        try:
            return server.bind(settings.model_copy(update={"port": port}))
        except MacridError:
            continue
    return server.bind(settings.model_copy(update={"port": ports[-1]}))
