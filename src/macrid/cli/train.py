"""macrid train: from data to a run."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from macrid.cli.common import (
    column,
    console,
    error_console,
    flags,
    given,
    load_split,
    print_json,
    setting,
    step_progress,
    tell_unused,
    working,
)
from macrid.errors import MacridError, RunError, SettingsError
from macrid.settings import EASESettings, MacridVAESettings, TrainingSettings

if TYPE_CHECKING:
    from macrid.data.split import Split
    from macrid.models.base import Recommender

MOST_ITEMS = 8_000  # of EASE as a baseline: some ten seconds, and 1 GB


def train(
    data: str = typer.Argument(help="A prepared folder, or a name of the catalogue (macrid data list)."),
    out: Path = typer.Option(..., "--out", "-o", help="The run to write."),
    model: str | None = typer.Option(
        None, help="macridvae, multvae, multdae, ease or popularity. Default: macridvae.", show_default=False
    ),
    config: Path | None = typer.Option(
        None, help="A JSON file with model, settings and training, such as tuning writes; options win over it."
    ),
    labels: Path | None = typer.Option(
        None,
        help="A CSV or Parquet file about some items: a column of ids, 'concept' with the name of an item's group, and"
        " any columns of numbers, each of which gets a dimension. Cells may be empty.",
    ),
    concepts: str | None = setting(MacridVAESettings, "concepts"),
    dim: int | None = setting(MacridVAESettings, "dim"),
    temperature: float | None = setting(MacridVAESettings, "temperature"),
    prior_std: float | None = setting(MacridVAESettings, "prior_std"),
    beta: float | None = setting(MacridVAESettings, "beta"),
    hidden_layers: int | None = setting(MacridVAESettings, "hidden_layers"),
    width: int | None = setting(MacridVAESettings, "width"),
    dropout: float | None = setting(MacridVAESettings, "dropout"),
    assignment: str | None = setting(MacridVAESettings, "assignment"),
    similarity: str | None = setting(MacridVAESettings, "similarity"),
    start: str | None = setting(MacridVAESettings, "start"),
    total_correlation: float | None = setting(MacridVAESettings, "total_correlation"),
    merge_below: float | None = setting(MacridVAESettings, "merge_below"),
    regularisation: float | None = setting(EASESettings, "regularisation"),
    epochs: int | None = setting(TrainingSettings, "epochs"),
    batch_size: int | None = setting(TrainingSettings, "batch_size"),
    learning_rate: float | None = setting(TrainingSettings, "learning_rate", "--learning-rate", "--lr"),
    l2: float | None = setting(TrainingSettings, "l2"),
    beta_warmup: int | None = setting(TrainingSettings, "beta_warmup"),
    clip: float | None = setting(TrainingSettings, "clip"),
    patience: int | None = setting(TrainingSettings, "patience"),
    balance: float | None = setting(TrainingSettings, "balance"),
    average: float | None = setting(TrainingSettings, "average"),
    likelihood: str | None = setting(TrainingSettings, "likelihood"),
    negatives: int | None = setting(TrainingSettings, "negatives"),
    sampling: str | None = setting(TrainingSettings, "sampling"),
    label_weight: float | None = setting(TrainingSettings, "label_weight"),
    precision: str | None = setting(TrainingSettings, "precision"),
    scratch_mib: int | None = setting(TrainingSettings, "scratch_mib"),
    seed: int | None = setting(TrainingSettings, "seed"),
    device: str | None = setting(TrainingSettings, "device"),
    baselines: bool = typer.Option(
        True,
        help=f"Score popularity, and EASE up to {MOST_ITEMS:,} items, on the same users; --no-baselines is faster.",
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on where an interrupted training was."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a run that is there."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Train a model, keep the weights of the best epoch, score it on the test users, and write a run.

    Example: macrid train ml-1m --concepts 7 --out runs/ml-1m

    Example: macrid train shop --concepts auto --out runs/shop

    Example: macrid train shop --labels labels.csv --out runs/shop

    Example: macrid train ml-1m --model ease --regularisation 500 --out runs/ease
    """
    options = {**locals(), "concepts": column(concepts)}
    from macrid.models.devices import choose_device

    recommender, training = _chosen(options)
    choose_device(training.get("device", "auto"))
    split, origin = _prepare(data, out, resume, overwrite)
    report = train_run(recommender, split, out, origin, training, resume, labels, baselines)
    if json:
        print_json({"run": str(out), **report})
        return
    print_report(report)
    console.print(f"{out}: ready; next: {example_command(recommender, out)}", soft_wrap=True)


def train_run(
    model: Any,
    split: Split,
    out: Path,
    origin: dict[str, Any],
    training: dict[str, Any],
    resume: bool = False,
    labels: Path | None = None,
    baselines: bool = True,
    also: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train with a progress display, score and save; then turn the axes of concepts, name them, and score baselines.

    also: more for metrics.json.
    """
    from macrid.concepts.understanding import understand
    from macrid.runs import keep, read_histories, save

    begin = time.perf_counter()
    if model.has_epochs:
        _train_in_epochs(model, split, out, origin, training, resume, labels)
    else:
        with working("computing the model"):
            model.fit(split.train, validation=split.validation, **training)
    seconds = time.perf_counter() - begin
    heldout = {"validation": split.validation, "test": split.test}
    with working("scoring"):
        report = {**_report(model, heldout, seconds), **(also or {})}
    save(model, out, overwrite=True, heldout=heldout, metrics=report, data=origin)
    if hasattr(model, "confidence"):
        with working("turning axes and naming"):
            model.sample = read_histories(out)  # the users that a loaded run has, too
            understand(model)
            keep(model, out)
    if baselines:
        report["baselines"] = _baselines(model, split, heldout)
        _keep_metrics(out, report)
    return report


def _baselines(model: Recommender, split: Split, heldout: dict[str, Any]) -> dict[str, Any]:
    """Scores of simple models on the same users; those that take too long or too much memory are left out."""
    from macrid.evaluation.ranking import evaluate
    from macrid.models.reference import EASE, Popularity

    kinds = [EASE, Popularity] if len(split.items) <= MOST_ITEMS else [Popularity]
    found: dict[str, Any] = {}
    for kind in kinds:
        if type(model) is kind:
            continue
        try:
            with working(f"scoring {kind.__name__} on the same users"):
                baseline = kind().fit(split.train, device=str(model.device))
                found[kind.__name__] = {name: evaluate(baseline, group).as_json() for name, group in heldout.items()}
        except MacridError as error:
            error_console.print(f"{kind.__name__} as a baseline is left out: {error}", soft_wrap=True)
    return found


def _keep_metrics(out: Path, report: dict[str, Any]) -> None:
    import json

    from macrid.files import write_atomically

    try:
        write_atomically(out / "metrics.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise RunError(f"{out}: baselines cannot be written ({error.strerror or error}); make room") from error


def _train_in_epochs(
    model: Any,
    split: Split,
    out: Path,
    origin: dict[str, Any],
    training: dict[str, Any],
    resume: bool,
    labels: Path | None,
) -> None:
    """Train with a bar; an interruption or a divergence saves the best weights so far."""
    from macrid.runs import TRAINING, save

    settings = TrainingSettings.make(training)
    earlier = (out / "metrics.json").exists()  # a complete run, which stays until this one is complete
    heldout = {"validation": split.validation, "test": split.test}
    begun: dict[str, int] = {}
    try:
        with step_progress() as progress:
            bar = progress.add_task(f"epoch 1/{settings.epochs}", total=None, told="starting")

            def on_step(done: int, total: int) -> None:
                epoch = len(model.log) + 1
                progress.update(
                    bar,
                    completed=(epoch - 1) * total + done,
                    total=settings.epochs * total,
                    description=f"epoch {epoch}/{settings.epochs}",
                )
                if resume and "first" not in begun:
                    begun["first"] = epoch
                    error_console.print(f"going on after epoch {epoch - 1}" if epoch > 1 else "starting")

            def on_epoch(record: Any) -> None:
                progress.update(bar, told=_told(model.log))
                if not error_console.is_terminal:  # a log file gets a line an epoch instead of a bar
                    error_console.print(str(record), soft_wrap=True)

            model.fit(
                split.train, validation=split.validation, labels=labels, checkpoint=out / TRAINING, resume=resume,
                on_epoch=on_epoch, on_step=on_step, **training,
            )  # fmt: skip
    except (KeyboardInterrupt, MacridError) as stop:
        if any(record.best for record in model.log) and earlier:
            told = f"{out}: still holds the earlier run; the best weights so far are in {out / TRAINING}"
            error_console.print(told, soft_wrap=True)
        elif any(record.best for record in model.log):
            save(model, out, overwrite=True, heldout=heldout, data=origin, keep_training=True)
            error_console.print(f"the best weights so far are in {out}", soft_wrap=True)
        if isinstance(stop, KeyboardInterrupt):
            again = shlex.join(["macrid", *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite"))])
            error_console.print(f"go on with: {again} --resume", soft_wrap=True)
        raise


def print_report(report: dict[str, Any]) -> None:
    """Scores and how training went, for people."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("NDCG@100", "Recall@20", "Recall@50", "users"):
        table.add_column(name, justify="right")
    rows = {split: report[split] for split in ("validation", "test")}
    rows |= {f"test, {name}": scores["test"] for name, scores in report.get("baselines", {}).items()}
    for name, scores in rows.items():
        metrics = scores["metrics"].values()
        cells = ["–" if m["mean"] is None else f"{m['mean']:.4f} ± {m['se']:.4f}" for m in metrics]
        table.add_row(name, *cells, f"{scores['users']:,}")
    console.print(table)
    training = report["training"]
    told = [f"{training['seconds']:.0f} s", f"peak memory {training['peak_memory_mb'] or 0:,.0f} MB"]
    if "epochs" in training:
        told.insert(0, f"best epoch {training['best_epoch']} of {training['epochs']}")
    if training.get("effective_concepts") is not None:
        told.append(f"{training['effective_concepts']:.1f} of {training['concepts']} concepts in use")
    console.print(", ".join(told))
    if training.get("best_epoch") is not None and training["best_epoch"] == training["epochs"]:
        console.print("the last epoch was the best: it may get better with more (--epochs)", style="yellow")


def _chosen(options: dict[str, Any]) -> tuple[Recommender, dict[str, Any]]:
    """The model and its training settings, all checked: what the options say, then the config file if there is one."""
    from macrid.models import model_class
    from macrid.recipe import Recipe

    asked, config = options["model"], options["config"]
    found = Recipe(asked or "macridvae") if config is None else Recipe.read(config)
    if asked is not None and asked.lower() != found.model.lower():
        raise SettingsError(f"{config}: is for {found.model}, not for {asked}; leave --model away or give another file")
    chosen = model_class(found.model)
    settings = {**found.settings, **given(chosen.settings_class, options)}
    training = {**found.training, **given(TrainingSettings, options)}
    Recipe(found.model, settings, training).check()
    _check_options(found.model.lower(), chosen, options, training)
    return chosen(**settings), training


def _check_options(name: str, model: type[Recommender], options: dict[str, Any], training: dict[str, Any]) -> None:
    """Refuse what belongs to other models; say which training settings a model without epochs does not use."""
    from macrid.models import MODELS

    own = model.settings_class.model_fields
    of_models = {field: None for other in MODELS.values() for field in other.settings_class.model_fields}
    for field in of_models:
        if options.get(field) is not None and field not in own and field not in TrainingSettings.model_fields:
            raise SettingsError(f"{flags([field])} is no setting of {name}; it has {flags(own) or 'none'}")
    if options.get("labels") is not None and "concepts" not in own:
        raise SettingsError(f"{name} has no concepts to label; leave --labels away, or train a macridvae")
    if model.has_epochs:
        return
    if options["resume"]:
        raise SettingsError(f"{name} is computed at once, there is nothing to resume; leave --resume away")
    tell_unused(name, training)


def _prepare(data: str, out: Path, resume: bool, overwrite: bool) -> tuple[Split, dict[str, Any]]:
    """Find out what is wrong before any work is done, then load the data."""
    from macrid.files import check_free, recover
    from macrid.runs import FILES, TRAINING
    from macrid.training.checkpoint import FILE

    recover(out)
    has_checkpoint = (out / TRAINING / FILE).exists()
    if resume and not has_checkpoint and (out / "config.json").exists():
        raise RunError(f"{out}: training has ended, there is nothing to resume; train again with --overwrite")
    if has_checkpoint and not resume and not overwrite:
        raise RunError(f"{out}: holds an interrupted training; go on with --resume, or start anew with --overwrite")
    own = (TRAINING, *FILES) if resume and has_checkpoint else (TRAINING,)
    check_free(out, overwrite, RunError, replaceable=FILES, allowed=own)
    if resume and not has_checkpoint:
        error_console.print(f"{out}: no checkpoint yet, starting at the beginning")
    split, origin = load_split(data)
    error_console.print(
        f"{data}: {len(split.train.users):,} train users, {len(split.items):,} items, {len(split.train):,}"
        f" interactions; {len(split.validation.users):,} validation and {len(split.test.users):,} test users"
    )
    return split, origin


def _report(model: Any, heldout: dict[str, Any], seconds: float) -> dict[str, Any]:
    from macrid.evaluation.ranking import evaluate

    return {
        **{name: evaluate(model, group).as_json() for name, group in heldout.items()},
        "training": {
            **(_epochs(model.log) if model.log else {"seconds": round(seconds, 1)}),
            "peak_memory_mb": _peak_memory_mb(),
            "device": str(model.device),
        },
    }


def _epochs(log: list[Any]) -> dict[str, Any]:
    best = max(record.epoch for record in log if record.best)
    return {
        "seconds": round(sum(record.seconds for record in log), 1),
        "epochs": log[-1].epoch,
        "best_epoch": best,
        "concepts": log[best - 1].concepts,
        "effective_concepts": log[best - 1].effective_concepts,
    }


def _told(log: list[Any]) -> str:
    record = log[-1]
    parts = [f"loss {record.loss:.0f}", f"KL {record.kl:.0f}"]
    if record.ndcg is not None:
        parts.append(f"NDCG {record.ndcg:.3f} (best {[line.ndcg for line in log if line.best][-1]:.3f})")
    if record.effective_concepts is not None:
        parts.append(f"{record.effective_concepts:.1f} of {record.concepts} concepts")
    return " ".join(parts)


def _peak_memory_mb() -> float | None:
    try:
        import resource
    except ImportError:  # pragma: no cover  (Windows)
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def example_command(model: Recommender, out: Path) -> str:
    """A command to try next, ready to paste."""
    import numpy as np

    favourites = [str(model.items[position]) for position in np.argsort(-model.popularity, kind="stable")[:3]]
    if any("," in item for item in favourites):
        favourites = favourites[:1]
    return shlex.join(["macrid", "recommend", str(out), "--history", ",".join(favourites)])
