"""macrid studio: the studio with the built-in shop, a run, or a file of one's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from macrid.cli.common import console, error_console, options_for, takes_settings
from macrid.cli.demo import train_shop
from macrid.cli.serve import TOKEN, TRAINING, as_setting, start
from macrid.cli.train import Display, print_report
from macrid.errors import DataError, RunError
from macrid.settings import COMMON, ServingSettings

if TYPE_CHECKING:
    from macrid.serving.examining import Reading

OUT = Path("macrid-studio")
SHOP = "shop"  # in the folder
FILE = "A file of events"


@takes_settings(ServingSettings, only=("host", "port", "device", "threads"))
def studio(
    source: Path | None = typer.Argument(
        None, help="A run, or a file of events (CSV, TSV, Parquet). Default: the built-in shop."
    ),
    *,
    out: Path = typer.Option(
        OUT, "--out", "-o", help="The folder for runs: of the shop, and of files.", rich_help_panel=COMMON
    ),
    items: Path | None = typer.Option(
        None, help="A table with one row per item: id, title, attributes.", rich_help_panel=FILE
    ),
    user_col: str | None = typer.Option(None, help="User column; guessed by default.", rich_help_panel=FILE),
    item_col: str | None = typer.Option(None, help="Item column; guessed by default.", rich_help_panel=FILE),
    rating_col: str | None = typer.Option(None, help="Rating column; guessed by default.", rich_help_panel=FILE),
    min_rating: float | None = typer.Option(
        None, help="Keep only ratings this high; by default every row counts.", rich_help_panel=FILE
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Train again on the shop or the file."),
    no_browser: bool = typer.Option(False, "--no-browser", help="Do not open the studio in a browser."),
    training: bool | None = TRAINING,
    token: str | None = typer.Option(
        None, envvar=TOKEN, show_envvar=False, help="A secret that every API request must carry."
    ),
    open: bool = typer.Option(False, "--open", help=str(ServingSettings.model_fields["open"].description)),
    **settings: Any,
) -> None:
    """Open the studio in a browser. The built-in shop, or a file, is trained on the first time and kept.

    Example: macrid studio

    Example: macrid studio events.parquet --items items.csv --min-rating 4

    Example: macrid studio runs/shop --no-training
    """
    columns = {"user": user_col, "item": item_col, "rating": rating_col}
    columns = {role: name for role, name in columns.items() if name is not None}
    run = _run(source, out, items, columns, min_rating, overwrite)
    options = options_for(ServingSettings, settings | {"token": token, "open": open, "training": as_setting(training)})
    start(run, ServingSettings.make(options), browser=not no_browser, or_next_port=settings["port"] is None)


def _run(
    source: Path | None,
    out: Path,
    items: Path | None,
    columns: dict[str, str | None],
    min_rating: float | None,
    overwrite: bool,
) -> Path | Callable[[], Path]:
    """The run to serve, or what makes it."""
    if source is None:
        return partial(_shop, out / SHOP, overwrite)
    if source.is_dir():
        return source
    from macrid.serving.examining import Reading

    if not source.exists():
        raise RunError(f"{source}: no such run or file; train one with `macrid train`, or give a file of events")
    for path in (source, items):
        if path is not None and not path.is_file():
            raise DataError(f"{path}: no such file")
    return partial(_file, Reading(source, items, columns or None, min_rating), out, overwrite)


def _shop(run: Path, overwrite: bool) -> Path:
    """The built-in shop, trained unless it is there."""
    if overwrite or _is_begun(run) or not (run / "config.json").exists():
        train_shop(run, overwrite=overwrite, resume=_is_begun(run) and not overwrite)
    return run


def _file(reading: Reading, out: Path, overwrite: bool) -> Path:
    """The run of a file, trained unless it is there."""
    from macrid.runs import read_config
    from macrid.serving.trainer import origin_of, run_names, train

    origin = origin_of(reading)
    for name in run_names(reading.events.name):
        run = out / name
        if not run.exists() or _is_begun(run):
            break
        with suppress(RunError):  # something else
            if read_config(run).get("data") == origin:
                break
    if run.exists() and not _is_begun(run) and not overwrite:
        error_console.print(f"{run}: trained before; --overwrite trains again", soft_wrap=True)
        return run
    with Display() as display:
        trained = train(reading, run, display, overwrite=overwrite, resume=_is_begun(run) and not overwrite)
    print_report(trained.metrics)
    console.print()
    return run


def _is_begun(run: Path) -> bool:
    """Whether a training was interrupted, which goes on then."""
    from macrid.runs import TRAINING

    return (run / TRAINING).is_dir()
