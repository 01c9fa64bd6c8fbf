"""macrid serve: the HTTP API and the studio for a run."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from macrid.cli.common import advanced, console, error_console, options_for, setting, takes_settings
from macrid.errors import MacridError
from macrid.settings import ServingSettings

TOKEN = "MACRID_TOKEN"
EVENTS = "MACRID_EVENTS"
TRAINING = typer.Option(
    None,
    "--training/--no-training",
    help="Let people bring a file and train on it, which writes runs beside this one. Default: only if they may edit,"
    " and the service is local and has one process.",
    show_default=False,
)


@takes_settings(ServingSettings)
def serve(
    run: Path = typer.Argument(help="A run."),
    *,
    token: str | None = typer.Option(
        None,
        envvar=TOKEN,
        show_envvar=False,
        help=f"A secret that every API request must carry; better set as {TOKEN} in the environment.",
    ),
    events: str | None = typer.Option(
        None,
        envvar=EVENTS,
        show_envvar=False,
        help=f"{ServingSettings.model_fields['events'].description} Better set as {EVENTS} in the environment.",
    ),
    users: Path | None = setting(ServingSettings, "users"),
    pictures: Path | None = setting(ServingSettings, "pictures"),
    rules: Path | None = setting(ServingSettings, "rules"),
    exclude_file: Path | None = setting(ServingSettings, "exclude_file"),
    include_file: Path | None = setting(ServingSettings, "include_file"),
    hosts: list[str] = advanced([], "--name", help="A host name the service answers to; repeatable."),
    origins: list[str] = advanced(
        [], "--origin", help="A website whose pages may call the API, such as https://shop.example; repeatable."
    ),
    open: bool = typer.Option(False, "--open", help=str(ServingSettings.model_fields["open"].description)),
    training: bool | None = TRAINING,
    browser: bool = typer.Option(False, "--browser", help="Open the studio in a browser."),
    **settings: Any,
) -> None:
    """Serve a run: an HTTP API under /v1, and the studio, a page with a knob per dimension.

    SIGHUP reloads the run; SIGTERM finishes open requests and stops.

    Example: macrid serve runs/shop

    Example: macrid serve runs/shop --rules rules.json --exclude-file out-of-stock.txt

    Example: MACRID_TOKEN=… macrid serve runs/shop --host 0.0.0.0 --workers 4
    """
    files = {"users": users, "pictures": pictures, "rules": rules}
    files |= {"exclude_file": exclude_file, "include_file": include_file}
    settings |= {"token": token} | {name: file and str(file) for name, file in files.items()}
    settings |= {"hosts": tuple(hosts) or None, "origins": tuple(origins) or None}
    settings |= {"open": open, "events": events, "training": as_setting(training)}
    start(run, ServingSettings.make(options_for(ServingSettings, settings)), browser=browser)


def as_setting(training: bool | None) -> str:
    """Of `ServingSettings.training`."""
    return {None: "auto", True: "yes", False: "no"}[training]


def start(
    run: Path | Callable[[], Path], settings: ServingSettings, *, browser: bool = False, or_next_port: bool = False
) -> None:
    """Serve and print the address.

    run: or a function that makes it, called once it is certain that it can be served. or_next_port: if the port is
    taken, use the next free one.
    """
    try:
        from macrid.serving import server
    except ModuleNotFoundError as error:
        raise MacridError(f"serving needs {error.name}; install it with `pip install 'macrid[serve]'`") from None
    from macrid.runs import read_config

    def announce(address: str) -> None:
        # Keep the secret out of logs; whoever sits at the terminal has it anyway.
        with_token = settings.token is not None and console.is_terminal
        page = f"{address}#token={settings.token}" if with_token else address
        console.print(Text.assemble("the studio is at ", (page, "bold underline")), soft_wrap=True)
        error_console.print(f"API: {address}v1/openapi.json · stop with Ctrl-C", style="dim", soft_wrap=True)
        if browser:
            webbrowser.open(page)

    if isinstance(run, Path):
        read_config(run)
    with _bind(server, settings, or_next_port) as bound:
        folder = run if isinstance(run, Path) else run()
        error_console.print(Text(f"opening {folder} …", "dim"))
        server.serve(folder, settings, listening=bound, on_ready=announce)


def _bind(server: Any, settings: ServingSettings, or_next: bool) -> Any:
    ports = range(settings.port, settings.port + 20) if or_next else [settings.port]
    for port in ports[:-1]:
        try:
            return server.bind(settings.model_copy(update={"port": port}))
        except MacridError:
            continue
    return server.bind(settings.model_copy(update={"port": ports[-1]}))
