"""macrid train: from data to a run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from macrid.cli.common import console, error_console, given, load_split, print_json, setting, step_progress, working
from macrid.config import MacridVAESettings, TrainingSettings
from macrid.errors import MacridError, RunError

if TYPE_CHECKING:
    from macrid.data.split import Split
    from macrid.models.base import Recommender


def train(
    data: str = typer.Argument(help="A prepared folder, or a name of the catalogue (macrid data list)."),
    out: Path = typer.Option(..., "--out", "-o", help="The run to write."),
    model: str = typer.Option("macridvae", help="Which model."),
    concepts: int | None = setting(MacridVAESettings, "concepts"),
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
    epochs: int | None = setting(TrainingSettings, "epochs"),
    batch_size: int | None = setting(TrainingSettings, "batch_size"),
    learning_rate: float | None = setting(TrainingSettings, "learning_rate", "--learning-rate", "--lr"),
    l2: float | None = setting(TrainingSettings, "l2"),
    beta_warmup: int | None = setting(TrainingSettings, "beta_warmup"),
    clip: float | None = setting(TrainingSettings, "clip"),
    patience: int | None = setting(TrainingSettings, "patience"),
    likelihood: str | None = setting(TrainingSettings, "likelihood"),
    negatives: int | None = setting(TrainingSettings, "negatives"),
    sampling: str | None = setting(TrainingSettings, "sampling"),
    precision: str | None = setting(TrainingSettings, "precision"),
    scratch_mib: int | None = setting(TrainingSettings, "scratch_mib"),
    seed: int | None = setting(TrainingSettings, "seed"),
    device: str | None = setting(TrainingSettings, "device"),
    resume: bool = typer.Option(False, "--resume", help="Go on where an interrupted training was."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a run that is there."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Train a model, keep the weights of the best epoch, score it on the test users, and write a run.

    Example: macrid train ml-1m --concepts 7 --out runs/ml-1m
    """
    options = dict(locals())
    from macrid.models import model_class
    from macrid.models.devices import choose_device

    chosen = model_class(model)
    recommender = chosen(**given(chosen.settings_class, options))
    choose_device(device or "auto")
    TrainingSettings.make(given(TrainingSettings, options))
    split, origin = _prepare(data, out, resume, overwrite)
    report = train_run(recommender, split, out, origin, given(TrainingSettings, options), resume)
    if json:
        print_json({"run": str(out), **report})
        return
    print_report(report)
    console.print(f"{out}: ready; next: {example_command(recommender, out)}", soft_wrap=True)


def train_run(
    model: Any, split: Split, out: Path, origin: dict[str, Any], training: dict[str, Any], resume: bool = False
) -> dict[str, Any]:
    """Train with a progress display and save; an interruption or a divergence saves the best weights so far."""
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
                split.train, validation=split.validation, checkpoint=out / TRAINING, resume=resume,
                on_epoch=on_epoch, on_step=on_step, **training,
            )  # fmt: skip
    except (KeyboardInterrupt, MacridError) as stop:
        if any(record.best for record in model.log) and earlier:
            error_console.print(f"{out}: still holds the earlier run; the best weights so far are in {out / TRAINING}")
        elif any(record.best for record in model.log):
            save(model, out, overwrite=True, heldout=heldout, data=origin, keep_training=True)
            error_console.print(f"the best weights so far are in {out}")
        if isinstance(stop, KeyboardInterrupt):
            again = shlex.join(["macrid", *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite"))])
            error_console.print(f"go on with: {again} --resume", soft_wrap=True)
        raise
    with working("scoring"):
        report = _report(model, heldout)
    save(model, out, overwrite=True, heldout=heldout, metrics=report, data=origin)
    return report


def print_report(report: dict[str, Any]) -> None:
    """Scores and how training went, for people."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("NDCG@100", "Recall@20", "Recall@50", "users"):
        table.add_column(name, justify="right")
    for split in ("validation", "test"):
        metrics = report[split]["metrics"]
        cells = ["–" if m["mean"] is None else f"{m['mean']:.4f} ± {m['se']:.4f}" for m in metrics.values()]
        table.add_row(split, *cells, f"{report[split]['users']:,}")
    console.print(table)
    training = report["training"]
    console.print(
        f"best epoch {training['best_epoch']} of {training['epochs']}, {training['seconds']:.0f} s,"
        f" peak memory {training['peak_memory_mb'] or 0:,.0f} MB, {training['effective_concepts']:.1f} concepts in use"
    )


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
    check_free(out, overwrite, RunError, made=FILES, own=own)
    if resume and not has_checkpoint:
        error_console.print(f"{out}: no checkpoint yet, starting at the beginning")
    split, origin = load_split(data)
    error_console.print(
        f"{data}: {len(split.train.users):,} train users, {len(split.items):,} items, {len(split.train):,}"
        f" interactions; {len(split.validation.users):,} validation and {len(split.test.users):,} test users"
    )
    return split, origin


def _report(model: Any, heldout: dict[str, Any]) -> dict[str, Any]:
    from macrid.evaluation.ranking import evaluate

    best = max(record.epoch for record in model.log if record.best)
    return {
        **{name: evaluate(model, group).as_json() for name, group in heldout.items()},
        "training": {
            "seconds": round(sum(record.seconds for record in model.log), 1),
            "epochs": model.log[-1].epoch,
            "best_epoch": best,
            "effective_concepts": model.log[best - 1].effective_concepts,
            "peak_memory_mb": _peak_memory_mb(),
            "device": str(model.device),
        },
    }


def _told(log: list[Any]) -> str:
    record = log[-1]
    parts = [f"loss {record.loss:.0f}", f"KL {record.kl:.0f}"]
    if record.ndcg is not None:
        parts.append(f"NDCG {record.ndcg:.3f} (best {max(line.ndcg for line in log):.3f})")
    if record.effective_concepts is not None:
        parts.append(f"{record.effective_concepts:.1f} concepts")
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
