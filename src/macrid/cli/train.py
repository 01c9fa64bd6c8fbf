"""macrid train: from data to a run."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from macrid.cli.common import (
    console,
    download_progress,
    error_console,
    flags,
    number_or_name,
    options_for,
    print_json,
    report_unused,
    step_progress,
    table,
    takes_settings,
    working,
)
from macrid.errors import MacridError, SettingsError
from macrid.recipe import Recipe
from macrid.settings import (
    EASE_BASELINE_ITEMS,
    MODELS,
    TRAINING,
    EASESettings,
    MacridVAESettings,
    TrainingSettings,
    model_settings,
)

if TYPE_CHECKING:
    from macrid.callbacks import Callback
    from macrid.fitting import Progress
    from macrid.models.base import Recommender

LOGGING = "Logging"


@takes_settings(MacridVAESettings, EASESettings, TrainingSettings)
def train(
    data: str = typer.Argument(help="A prepared folder or a catalogue name (macrid data list)."),
    out: Path = typer.Option(..., "--out", "-o", help="The run to write."),
    model: str | None = typer.Option(None, help="macridvae, multvae, multdae, ease or popularity. Default: macridvae."),
    preset: str | None = typer.Option(
        None, help="best (the default), or paper: Algorithm 1 as written. Other options override it."
    ),
    config: Path | None = typer.Option(
        None, help="A JSON file with model, settings and training, as written by tune; options override it."
    ),
    labels: Path | None = typer.Option(
        None,
        help="A CSV or Parquet file about some items: an id column, 'concept' with the item's group, and any"
        " numeric columns, each of which gets a dimension. Cells may be empty.",
        rich_help_panel=TRAINING,
    ),
    processes: int = typer.Option(
        1,
        min=1,
        metavar="N",
        help="Train in N processes on this machine, one per GPU if it has GPUs; the result is the same. For several"
        " machines, start this command with torchrun.",
        rich_help_panel=TRAINING,
    ),
    warm_start: Path | None = typer.Option(
        None,
        "--warm-start",
        metavar="RUN",
        help="Start from a run of a macridvae: its concepts keep their numbers, names and axes as far as they still"
        " fit, its settings are the defaults, and training is shorter.",
    ),
    *,
    baselines: bool = typer.Option(
        True,
        help=f"Also score popularity and, up to {EASE_BASELINE_ITEMS:,} items, EASE on the same users;"
        " --no-baselines is faster.",
        rich_help_panel="Comparison",
        show_default=False,
    ),
    final: bool = typer.Option(
        False,
        "--final",
        help="Afterwards train once more on everybody, for as many epochs as were best, and keep that model; the scores"
        " are those of the first.",
    ),
    tensorboard: Path | None = typer.Option(
        None, metavar="DIR", help="Write curves and scores for TensorBoard into this folder.", rich_help_panel=LOGGING
    ),
    mlflow: str | None = typer.Option(
        None,
        metavar="URI",
        help="Log to this MLflow tracking server or database, such as sqlite:///mlflow.db.",
        rich_help_panel=LOGGING,
    ),
    experiment: str = typer.Option("macrid", help="The MLflow experiment.", rich_help_panel=LOGGING),
    resume: bool = typer.Option(False, "--resume", help="Continue an interrupted training."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing run."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
    **settings: Any,
) -> None:
    """Train a model, keep the best epoch, score it on the test users, and write a run.

    Example: macrid train ml-1m --concepts 7 --out runs/ml-1m

    Example: macrid train shop --concepts auto --out runs/shop

    Example: macrid train shop --final --out runs/shop

    Example: macrid train shop --labels labels.csv --out runs/shop

    Example: macrid train today --warm-start runs/yesterday --out runs/today

    Example: macrid train big --processes 4 --item-shards 2 --likelihood sampled --out runs/big

    Example: macrid train ml-1m --model ease --regularisation 500 --out runs/ease

    Example: macrid train ml-1m --out runs/ml-1m --tensorboard logs/ml-1m --mlflow http://localhost:5000
    """
    gc.disable()
    from macrid import workflow
    from macrid.runs import TRAINING
    from macrid.training.distributed import LAUNCHED, LostError, RankError, is_launched

    gc.enable()
    follows = _take_place(processes)
    recipe = _recipe(model, config)
    if processes > 1 and not is_launched():
        _start_processes(processes, recipe)
    callbacks = _callbacks(tensorboard, mlflow, experiment, out)
    settings = _settings(recipe, {**settings, "concepts": number_or_name(settings["concepts"])})
    with _imports_left_alone(), Display() as display:
        try:
            run = workflow.train(
                data, out, model=recipe, preset=preset, labels=labels, warm_start=warm_start, baselines=baselines,
                final=final, resume=resume, overwrite=overwrite, progress=display, callbacks=callbacks, **settings,
            )  # fmt: skip
        except MacridError as error:
            if isinstance(error, LostError) and os.environ.get(LAUNCHED):  # its launcher will say it
                raise typer.Exit(1) from None
            if follows and not isinstance(error, RankError) and os.environ.get("LOCAL_RANK") != "0":
                raise typer.Exit(1) from None  # the first process of this machine says it
            console.quiet = error_console.quiet = False
            raise
        except KeyboardInterrupt:
            if follows:
                raise typer.Exit(130) from None
            if (out / TRAINING).is_dir():
                error_console.print(f"continue with: {_continuing_command()}", soft_wrap=True)
            raise
    if follows:
        return
    if run.model.device.type == "cuda":
        gc.freeze()  # a last look for garbage would take most of a second
    if json:
        print_json({"run": str(out), **run.metrics})
        return
    print_report(run.metrics)
    console.print(f"{out}: ready; next: {example_command(run.model, out)}", soft_wrap=True)


@contextmanager
def _imports_left_alone() -> Iterator[None]:
    """Look for no garbage in what was imported, which takes a second in all."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _take_place(processes: int) -> bool:
    """Whether this is one of several processes but not the first, and therefore silent."""
    from macrid.training.distributed import is_launched

    size = int(os.environ["WORLD_SIZE"]) if is_launched() else 1
    if size > 1 and processes not in (1, size):
        raise SettingsError(f"--processes is {processes}, but torchrun has started {size}; remove --processes")
    follows = size > 1 and os.environ["RANK"] != "0"
    if follows:
        console.quiet = error_console.quiet = True
    return follows


def _continuing_command() -> str:
    """The command that continues an interrupted one."""
    from macrid.training.distributed import LAUNCHED, is_launched

    words = ["macrid", *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")), "--resume"]
    if is_launched() and not os.environ.get(LAUNCHED):
        words = ["torchrun", "--nproc-per-node", os.environ.get("LOCAL_WORLD_SIZE", "1"), "-m", *words]
        if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
            return f"{shlex.join(words)}, with the same options for torchrun on every machine"
    return shlex.join(words)


def _start_processes(processes: int, recipe: Recipe) -> NoReturn:
    """Run the same command in several processes, and end as they do."""
    from macrid.models import model_class
    from macrid.training.launching import launch

    if not model_class(recipe.model).has_epochs:
        raise SettingsError(f"{recipe.model.lower()} is not trained in epochs; remove --processes")
    raise typer.Exit(launch(processes, sys.argv[1:]))


def _callbacks(tensorboard: Path | None, mlflow: str | None, experiment: str, out: Path) -> list[Callback]:
    from macrid.callbacks import MLflow, TensorBoard

    callbacks: list[Callback] = [] if tensorboard is None else [TensorBoard(tensorboard)]
    return callbacks if mlflow is None else [*callbacks, MLflow(mlflow, experiment, name=out.name)]


class Display(ExitStack):
    """Shows progress on standard error: a bar or a spinner, and one line per epoch in a log file."""

    phase = ""
    _show: Any = None

    def __call__(self, event: Progress) -> None:
        if event.phase == "note":
            error_console.print(event.text, soft_wrap=True)
            return
        if event.phase not in ("training", "final", "downloading") or event.phase != self.phase:
            self._begin(event)
        if event.phase == "downloading":
            self._show(event.done, event.total)
        elif event.epoch is not None:
            self._show(status=event.text)
            if not error_console.is_terminal:
                error_console.print(str(event.epoch), soft_wrap=True)
        elif event.phase in ("training", "final"):
            self._show(completed=event.done, total=event.total, description=event.text)

    def _begin(self, event: Progress) -> None:
        self.close()
        self.phase = event.phase
        if event.phase in ("training", "final"):
            bar = self.enter_context(step_progress())
            self._show = partial(bar.update, bar.add_task(event.text, total=None, status="starting"))
        else:
            shown = download_progress() if event.phase == "downloading" else working(event.text)
            self._show = self.enter_context(shown)


def print_report(report: dict[str, Any]) -> None:
    """Print scores and training facts."""
    scored: dict[str, Any] = {split: report[split] for split in ("validation", "test") if split in report}
    baselines = report.get("baselines", {}).items()
    scored |= {f"test, {name}": scores["test"] for name, scores in baselines if "test" in scores}
    columns = "NDCG@100", "Recall@20", "Recall@50", "users"
    rows = []
    for name, scores in scored.items():
        metrics = scores["metrics"].values()
        cells = ["–" if m["mean"] is None else f"{m['mean']:.4f} ± {m['se']:.4f}" for m in metrics]
        rows.append((name, *cells, f"{scores['users']:,}"))
    if rows:
        console.print(table(("", *columns), rows, numbers=columns))
    if protocol := report.get("test", {}).get("protocol"):
        console.print(f"test: {protocol}")
    training = report["training"]
    facts = [f"{training['seconds']:.0f} s", f"peak memory {training['peak_memory_mb'] or 0:,.0f} MB"]
    if "epochs" in training:
        best = f"best epoch {training['best_epoch']} of {training['epochs']}"
        facts.insert(0, best if "validation" in report else f"{training['epochs']} epochs")
    if training.get("effective_concepts") is not None:
        facts.append(f"{training['effective_concepts']:.1f} of {training['concepts']} concepts in use")
    console.print(", ".join(facts))
    if "final" in report:
        console.print(about_final(report["final"]))
    for remark in report.get("remarks", []):
        console.print(remark, style="yellow")
    if (
        "validation" in report
        and training.get("best_epoch") is not None
        and training["best_epoch"] == training["epochs"]
    ):
        console.print("the last epoch was the best; more epochs may help (--epochs)", style="yellow")


def about_final(final: dict[str, Any]) -> str:
    """Which model a run holds, and which one its scores belong to."""
    facts = [f"{final['users']:,} users", f"{final['items']:,} items"]
    facts += [f"{final['epochs']} epochs"] if "epochs" in final else []
    return (
        f"these scores are of {final['scores_are_of']}; the run holds the final model, trained on everybody:"
        f" {', '.join(facts)}, {final['seconds']:.0f} s"
    )


def _recipe(model: str | None, config: Path | None) -> Recipe:
    recipe = Recipe(model or "macridvae") if config is None else Recipe.read(config)
    if model is not None and model.lower() != recipe.model.lower():
        raise SettingsError(f"{config}: is for {recipe.model}, not {model}; remove --model or give another file")
    return recipe


def _settings(recipe: Recipe, options: dict[str, Any]) -> dict[str, Any]:
    """The options set; refuses those of other models, and reports those a model without epochs ignores."""
    from macrid.models import model_class

    name, kind = recipe.model.lower(), model_settings(recipe.model)
    for field in (field for other in MODELS.values() for field in options_for(other, options)):
        if field not in kind.model_fields:
            raise SettingsError(f"{name} has no {flags([field])}; it has {flags(kind.model_fields) or 'no settings'}")
    settings, training = options_for(kind, options), options_for(TrainingSettings, options)
    Recipe(name, settings, training).check()
    if not model_class(name).has_epochs:
        report_unused(name, recipe.training | training)
    return settings | training


def example_command(model: Recommender, out: Path) -> str:
    """A command to try next."""
    import numpy as np

    favourites = [str(model.items[position]) for position in np.argsort(-model.popularity, kind="stable")[:3]]
    if any("," in item for item in favourites):
        favourites = favourites[:1]
    return shlex.join(["macrid", "recommend", str(out), "--history", ",".join(favourites)])
