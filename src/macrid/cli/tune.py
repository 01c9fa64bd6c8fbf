"""macrid tune: search for a model's best settings."""

from __future__ import annotations

import json as json_
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from macrid.cli.common import (
    advanced,
    console,
    error_console,
    load_split,
    options_for,
    print_json,
    report_unused,
    step_progress,
    table,
    takes_settings,
)
from macrid.errors import MacridError, StudyError, first_line
from macrid.files import make_writable
from macrid.settings import TrainingSettings

if TYPE_CHECKING:
    from macrid.recipe import Recipe
    from macrid.tuning.search import Progress, Search

BEST, DATABASE, HISTORY, IMPORTANCE = "best.json", "study.db", "history.png", "importance.png"


@takes_settings(TrainingSettings, only=("epochs", "patience", "seed", "device"))
def tune(
    data: str = typer.Argument(help="A prepared folder or a catalogue name (macrid data list)."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for best.json, the study and its plots."),
    model: str = typer.Option("macridvae", help="macridvae, multvae, multdae or ease."),
    trials: int = typer.Option(200, help="Total trials, including earlier runs."),
    storage: str | None = advanced(
        None, help="URL of a database shared by several machines. Default: study.db in --out."
    ),
    study: str | None = advanced(None, help="Name of the study. Default: DATA-MODEL."),
    jobs: int | None = typer.Option(None, help="Parallel trials. Default: one per core, at most 16."),
    confirm: int = advanced(5, help="Train this many of the best with two more seeds; the best mean wins."),
    fix: list[str] = typer.Option([], metavar="NAME=VALUE", help="Fix a setting; repeatable."),
    *,
    timeout: float | None = typer.Option(None, metavar="MINUTES", help="Start no new trial after this many minutes."),
    ray: str | None = typer.Option(
        None, metavar="ADDRESS", help="Train on a Ray cluster: local, auto, ray://HOST:10001 or HOST:6379."
    ),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
    **training: Any,
) -> None:
    """Search the paper's space for good settings, several trials in parallel. Rerun the same command to continue.

    Example: macrid tune ml-1m --trials 200 --out tuned/ml-1m

    Example: macrid tune data/ --model multvae --fix hidden_layers=1 --timeout 60 --out tuned/multvae

    Example: macrid tune data/ --ray auto --storage postgresql+psycopg://user@host/name --jobs 32 --out tuned/
    """
    training, fixed = options_for(TrainingSettings, training), _fixed(fix)
    from macrid.data.databases import hidden_password
    from macrid.models import model_class
    from macrid.tuning.search import Search, check_counts, check_settings, default_jobs

    if ray is not None:
        from macrid.cluster.connecting import check

        check(ray)
    check_counts(trials, jobs, confirm, timeout)
    check_settings(model, fixed, training)
    if not model_class(model).has_epochs:
        report_unused(model, training)
        training = {name: training[name] for name in ("seed", "device") if name in training}
    name = study or f"{Path(data).resolve().name}-{model.lower()}"
    _check_folder(out, name, storage)
    split, _ = load_split(data)
    with _made(out):
        place = out if ray is None else out.resolve()  # workers have other working folders
        search = Search(split, model, storage or _database(place), name, fixed, training.pop("seed", 0), training)
    _check_search(search, out)
    try:
        with _display(trials, out / BEST) as show:
            seconds = None if timeout is None else timeout * 60
            if ray is None:
                search.run(trials, jobs or default_jobs(), confirm, seconds, show)
            else:
                from macrid.cluster.trials import run_on_ray

                run_on_ray(ray, search, trials, jobs, confirm, seconds, show)
    except KeyboardInterrupt:
        error_console.print(f"{search.progress(0).done} trials are done and kept; interrupted ones will be repeated")
        error_console.print(f"continue with: {shlex.join(['macrid', *sys.argv[1:]])}", soft_wrap=True)
        raise
    best, progress = search.found(), search.progress(trials)
    best.write(out / BEST)
    _draw(search, out, best)
    if json:
        written = json_.loads((out / BEST).read_text(encoding="utf-8"))
        counts = {"trials": progress.done, "pruned": progress.pruned, "failed": progress.failed}
        print_json({"best": written, **counts, "study": search.name, "storage": hidden_password(search.storage)})
        return
    _print_best(best)
    if progress.done < trials:
        console.print(f"{progress.done} of {trials} trials; rerun the same command to continue")
    again = shlex.join(["macrid", "train", data, "--config", str(out / BEST), "--out", "RUN"])
    console.print(f"{out / BEST}: written; next: {again}", soft_wrap=True)


def _fixed(texts: list[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE; values are read as JSON where they can be."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise typer.BadParameter(f"'{text}' is not NAME=VALUE", param_hint="--fix")
        name, value = name.strip().replace("-", "_"), value.strip()
        try:
            settings[name] = json_.loads(value)
        except (ValueError, RecursionError):
            settings[name] = value
    return settings


def _database(out: Path) -> str:
    path = str(out / DATABASE)
    if any(letter in path for letter in "?{}"):
        raise StudyError(f"{out}: the folder's name must not contain ?, {{ or }}; choose another")
    return f"sqlite:///{path}"


def _check_folder(out: Path, name: str, storage: str | None) -> None:
    """Refuse a folder that holds something else, before any work is done."""
    if out.exists() and not out.is_dir():
        raise StudyError(f"{out}: is a file; give a folder")
    best = out / BEST
    if best.exists():
        try:
            other = json_.loads(best.read_text(encoding="utf-8"))["study"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise StudyError(f"{best}: not written by a search; move it away or give another --out") from None
        if other != name:
            raise StudyError(f"{out}: holds the search '{other}', not '{name}'; give another --out")
    if storage is None:
        _database(out)
        others = [other for other in _studies(out / DATABASE) if other != name]
        if others:
            raise StudyError(f"{out}: holds the search '{others[0]}', not '{name}'; give another --out")


def _studies(path: Path) -> list[str]:
    """Names of the studies in a SQLite file, opened read-only."""
    import sqlite3

    if not path.exists() or path.stat().st_size == 0:
        return []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=60)) as connection:
            return [name for (name,) in connection.execute("SELECT study_name FROM studies")]
    except sqlite3.Error as error:
        raise StudyError(f"{path}: not a study ({first_line(error)}); move it away or give another --out") from None


@contextmanager
def _made(out: Path) -> Iterator[None]:
    """Create a folder; remove it again if what follows fails and leaves it empty."""
    is_new = not out.exists()
    make_writable(out, StudyError)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                out.rmdir()
        raise


def _check_search(search: Search, out: Path) -> None:
    """Report earlier trials; refuse to overwrite files of another study."""
    existing = [name for name in (BEST, HISTORY, IMPORTANCE) if (out / name).exists()]
    known = search.progress(0).done
    if existing and not known:
        raise StudyError(f"{out / existing[0]}: belongs to another study; move it away or give another --out")
    if known:
        trials = f"{known} earlier trial{'s' * (known > 1)}"
        error_console.print(f"{search.name}: continuing after {trials}", soft_wrap=True)


@contextmanager
def _display(trials: int, path: Path) -> Iterator[Callable[[Progress], None]]:
    """A callback that writes each new best recipe, and shows a bar, or one line per new best in a log file."""
    announced: set[int] = set()
    written: Any = None
    with step_progress() as bars:
        bar = bars.add_task(f"trial 0/{trials}", total=trials, status="starting")

        def show(progress: Progress) -> None:
            nonlocal written
            best = progress.best
            score = "–" if best is None else f"{best.about['score']:.4f}"
            counts = f"{progress.pruned} pruned, {progress.failed} failed, best {score}"
            if progress.unconfirmed:
                bars.update(bar, description="confirming", status=f"{progress.unconfirmed} runs left, best {score}")
            else:
                done, status = f"trial {progress.done}/{trials}", f"{progress.running} running, {counts}"
                bars.update(bar, description=done, completed=progress.done, status=status)
            if best is None:
                return
            trial, scores = best.about["trial"], best.about.get("scores")
            if written != (trial, scores):
                best.write(path)
                written = trial, scores
            if trial not in announced and not error_console.is_terminal:
                error_console.print(f"{progress.done}/{trials}: trial {trial} is the best, {counts}", soft_wrap=True)
            announced.add(trial)

        yield show


def _draw(search: Search, out: Path, best: Recipe) -> None:
    from importlib.util import find_spec

    from macrid.pictures.drawing import save
    from macrid.tuning import plots

    if find_spec("matplotlib") is None:
        error_console.print("plots need matplotlib; install it with `pip install 'macrid[plot]'`", soft_wrap=True)
        return
    save(plots.history(search.study, best), out / HISTORY)
    try:
        save(plots.importance(search.study), out / IMPORTANCE)
    except MacridError as error:
        error_console.print(f"{out / IMPORTANCE}: skipped; {error}", soft_wrap=True)


def _print_best(best: Recipe) -> None:
    settings = {**best.settings, **best.training}.items()
    rows = [(name, f"{value:.4g}" if isinstance(value, float) else value) for name, value in settings]
    console.print(table(("setting", best.model), rows, numbers=(best.model,)))
    scores = best.about.get("scores", [best.about["score"]])
    seeds = [best.training["seed"] + more for more in range(len(scores))]
    listed = ", ".join(f"{score:.4f} (seed {seed})" for score, seed in zip(scores, seeds, strict=True))
    mean = f"; mean {sum(scores) / len(scores):.4f}" if len(scores) > 1 else ""
    console.print(f"validation NDCG@100 of trial {best.about['trial']}: {listed}{mean}", soft_wrap=True)
