"""From data to a run: fit, score, name axes, compare, save. The work of `macrid train` and `macrid.train`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from macrid import runs
from macrid.concepts.meaning import meaning_of
from macrid.concepts.understanding import understand
from macrid.data.catalog import load_split
from macrid.data.split import HeldOut, Split
from macrid.errors import DataError, MacridError, RunError, SettingsError
from macrid.evaluation.ranking import evaluate
from macrid.files import check_free, recover
from macrid.models import model_class
from macrid.models.base import Recommender
from macrid.models.devices import choose_device
from macrid.models.epoch import Epoch
from macrid.models.macridvae import MacridVAE
from macrid.models.reference import EASE, Popularity
from macrid.recipe import Recipe, settings_of_preset
from macrid.report.effects import measure_effects
from macrid.settings import EASE_BASELINE_ITEMS, TrainingSettings
from macrid.training import checkpoint

Phase = Literal["reading", "downloading", "training", "computing", "scoring", "understanding", "comparing", "note"]


@dataclass(frozen=True)
class Progress:
    """The progress of a training, reported at the start of each phase and after each step and epoch."""

    phase: Phase
    """A "note" is a message for the user, outside any phase."""
    text: str = ""
    done: int = 0
    """Steps of the training, or bytes of a download."""
    total: int | None = None
    epoch: Epoch | None = None
    """The epoch that just ended."""


@dataclass(frozen=True)
class TrainedRun:
    """A newly written run."""

    path: Path
    model: Recommender
    metrics: dict[str, Any]
    """The content of metrics.json: scores on validation and test users, training time, scores of baselines."""


Tell = Callable[[Progress], None]


def train(
    data: Split | str | PathLike[str],
    out: str | PathLike[str],
    *,
    model: str | Recommender | Recipe = "macridvae",
    preset: str | None = None,
    labels: Any = None,
    baselines: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    progress: Tell | None = None,
    origin: dict[str, Any] | None = None,
    **settings: Any,
) -> TrainedRun:
    """Train a model, score the best epoch, turn and name its axes, and write a run.

    data: a split, a prepared folder, or the name of a data set.
    model: a name, a recipe, or an untrained model.
    preset: "best", the default, or "paper" for Algorithm 1 as written; explicit settings take precedence.
    labels: of some items, as for `MacridVAE.fit`.
    baselines: also score Popularity and, unless there are too many items, EASE.
    resume: continue an interrupted training. overwrite: replace an existing run.
    progress: called with a `Progress`.
    origin: the source of the data to record in the run, if not the one known.
    settings: of the model and of its training: concepts, dim, …, epochs, seed, device, …
    After an interruption or divergence, the run has the best weights so far and a checkpoint to resume from.
    """
    tell = progress or (lambda _: None)
    folder = Path(out)
    recommender, training = _chosen(model, preset, settings)
    _check_possible(recommender, labels, resume)
    choose_device(training.get("device", "auto"))
    _check_folder(folder, resume, overwrite, tell)
    split, known = _load(data, tell)
    known = known if origin is None else origin
    heldout = {"validation": split.validation, "test": split.test}
    begin = time.perf_counter()
    if recommender.has_epochs:
        _fit_in_epochs(recommender, split, folder, known, training, resume, labels, tell)
    else:
        tell(Progress("computing", "computing the model"))
        recommender.fit(split.train, validation=split.validation, **training)
    seconds = time.perf_counter() - begin
    note = getattr(recommender, "neighbours_note", None)
    if note is not None:
        tell(Progress("note", note))
    tell(Progress("scoring", "scoring"))
    metrics = _metrics(recommender, heldout, seconds)
    runs.save(recommender, folder, overwrite=True, heldout=heldout, metrics=metrics, data=known)
    if isinstance(recommender, MacridVAE):
        tell(Progress("understanding", "turning axes and naming"))
        recommender.sample = runs.read_sample(folder)  # the same users as in a loaded run
        understand(recommender)
        tell(Progress("understanding", "measuring what knobs do"))
        measure_effects(recommender, split.validation)
        runs.keep(recommender, folder)
    if baselines:
        metrics["baselines"] = _baselines(recommender, split, heldout, tell)
        runs.write_metrics(metrics, folder)
    return TrainedRun(folder, recommender, metrics)


def save(model: Recommender, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a complete run of a model that was fitted in Python; see `Recommender.save`."""
    runs.check_place(folder, overwrite)
    heldout = {} if model.validation is None else {"validation": model.validation}
    if isinstance(model, MacridVAE) and meaning_of(model).names is None:
        model.check_fitted()
        understand(model, histories=None if model.validation is None else model.validation.history)
        measure_effects(model, model.validation)
    metrics = _metrics(model, heldout) if heldout else None
    known = {} if model.min_rating is None else {"min_rating": model.min_rating}
    runs.save(model, folder, overwrite=overwrite, heldout=heldout, metrics=metrics, data=known)


def _chosen(
    model: str | Recommender | Recipe, preset: str | None, settings: dict[str, Any]
) -> tuple[Recommender, dict]:
    """The model and its validated training settings."""
    if isinstance(model, Recommender):
        if preset is not None and settings_of_preset(preset):
            raise SettingsError(
                f"preset is '{preset}', but this {type(model).__name__} already has settings; pass its name"
            )
        TrainingSettings.make(settings)
        return model, settings
    recipe = model if isinstance(model, Recipe) else Recipe(model)
    kind = model_class(recipe.model)
    base = settings_of_preset(preset or recipe.preset or "best") if kind.has_epochs else {}
    fields, of_training = kind.settings_class.model_fields, TrainingSettings.model_fields
    of_model = {name: value for name, value in base.items() if name in fields}
    of_model |= recipe.settings | {name: value for name, value in settings.items() if name not in of_training}
    training = {name: value for name, value in base.items() if name in of_training}
    training |= recipe.training | {name: value for name, value in settings.items() if name in of_training}
    Recipe(recipe.model, of_model, training).check()
    return kind(**of_model), training


def _check_possible(model: Recommender, labels: Any, resume: bool) -> None:
    name = type(model).__name__.lower()
    if labels is not None and "concepts" not in model.settings_class.model_fields:
        raise SettingsError(f"{name} has no concepts to label; remove --labels, or train a macridvae")
    if resume and not model.has_epochs:
        raise SettingsError(f"{name} is computed in one step, so there is nothing to resume; remove --resume")


def _check_folder(out: Path, resume: bool, overwrite: bool, tell: Tell) -> None:
    """Report problems before any work is done."""
    recover(out)
    has_checkpoint = (out / runs.TRAINING / checkpoint.FILE).exists()
    if resume and not has_checkpoint and (out / "config.json").exists():
        raise RunError(f"{out}: training is finished, so there is nothing to resume; train again with --overwrite")
    if has_checkpoint and not resume and not overwrite:
        raise RunError(f"{out}: holds an interrupted training; continue with --resume, or start over with --overwrite")
    allowed = (runs.TRAINING, *runs.FILES) if resume and has_checkpoint else (runs.TRAINING,)
    check_free(out, overwrite, RunError, replaceable=runs.FILES, allowed=allowed)
    if resume and not has_checkpoint:
        tell(Progress("note", f"{out}: no checkpoint yet, starting from the beginning"))


def _load(data: Split | str | PathLike[str], tell: Tell) -> tuple[Split, dict[str, Any]]:
    """The split, and its source for the run to record."""
    if isinstance(data, Split):
        report = data.train.report
        return data, {"source": "python", "min_rating": None if report is None else report.min_rating}
    if not isinstance(data, str | PathLike):
        raise DataError(f"data is {type(data).__name__}; pass a split, a prepared folder or the name of a data set")
    tell(Progress("reading", f"reading {data}"))
    split, known = load_split(data, lambda done, total: tell(Progress("downloading", str(data), done, total)))
    counts = [len(group.users) for group in (split.train, split.validation, split.test)]
    tell(
        Progress(
            "note",
            f"{data}: {counts[0]:,} train users, {len(split.items):,} items, {len(split.train):,} interactions;"
            f" {counts[1]:,} validation and {counts[2]:,} test users",
        )
    )
    return split, known


def _fit_in_epochs(
    model: Any,
    split: Split,
    out: Path,
    origin: dict[str, Any],
    training: dict[str, Any],
    resume: bool,
    labels: Any,
    tell: Tell,
) -> None:
    """Train; save the best weights so far if interrupted or diverged."""
    epochs = TrainingSettings.make(training).epochs
    has_earlier = (out / "metrics.json").exists()  # a complete run, kept until this one is complete
    note = partial(Progress, "note")
    is_first = True

    def on_step(done: int, steps: int) -> None:
        nonlocal is_first
        epoch = len(model.log) + 1
        if resume and is_first:
            tell(note(f"continuing after epoch {epoch - 1}" if epoch > 1 else "starting"))
        is_first = False
        tell(Progress("training", f"epoch {epoch}/{epochs}", (epoch - 1) * steps + done, epochs * steps))

    tell(Progress("training", f"epoch 1/{epochs}"))
    try:
        model.fit(
            split.train,
            validation=split.validation,
            labels=labels,
            checkpoint=out / runs.TRAINING,
            resume=resume,
            on_epoch=lambda record: tell(Progress("training", _summary(model.log), epoch=record)),
            on_step=on_step,
            **training,
        )
    except (KeyboardInterrupt, MacridError):
        if any(record.best for record in model.log) and has_earlier:
            tell(note(f"{out}: still holds the earlier run; the best weights so far are in {out / runs.TRAINING}"))
        elif any(record.best for record in model.log):
            heldout = {"validation": split.validation, "test": split.test}
            runs.save(model, out, overwrite=True, heldout=heldout, data=origin, keep_training=True)
            tell(note(f"the best weights so far are in {out}"))
        raise


def _summary(log: list[Epoch]) -> str:
    """The latest epoch in a few words."""
    record = log[-1]
    parts = [f"loss {record.loss:.0f}", f"KL {record.kl:.0f}"]
    if record.ndcg is not None:
        parts.append(f"NDCG {record.ndcg:.3f} (best {[line.ndcg for line in log if line.best][-1]:.3f})")
    if record.effective_concepts is not None:
        parts.append(f"{record.effective_concepts:.1f} of {record.concepts} concepts")
    return " ".join(parts)


def _baselines(model: Recommender, split: Split, heldout: dict[str, HeldOut], tell: Tell) -> dict[str, Any]:
    """Scores of simple models on the same users, except those that take too much time or memory."""
    kinds = [EASE, Popularity] if len(split.items) <= EASE_BASELINE_ITEMS else [Popularity]
    scores: dict[str, Any] = {}
    for kind in kinds:
        if type(model) is kind:
            continue
        tell(Progress("comparing", f"scoring {kind.__name__} on the same users"))
        try:
            baseline = kind().fit(split.train, device=str(model.device))
            scores[kind.__name__] = {name: evaluate(baseline, group).as_json() for name, group in heldout.items()}
        except MacridError as error:
            tell(Progress("note", f"skipped the baseline {kind.__name__}: {error}"))
    return scores


def _metrics(model: Recommender, heldout: dict[str, HeldOut], seconds: float | None = None) -> dict[str, Any]:
    """Scores and training statistics; seconds: of a model without epochs."""
    took = {} if seconds is None else {"seconds": round(seconds, 1)}
    return {
        **{name: evaluate(model, group).as_json() for name, group in heldout.items()},
        "training": {
            **(_epochs(model.log) if model.log else took),
            "peak_memory_mb": _peak_memory_mb(),
            "device": str(model.device),
        },
    }


def _epochs(log: list[Epoch]) -> dict[str, Any]:
    best = max(record.epoch for record in log if record.best)
    return {
        "seconds": round(sum(record.seconds for record in log), 1),
        "epochs": log[-1].epoch,
        "best_epoch": best,
        "concepts": log[best - 1].concepts,
        "effective_concepts": log[best - 1].effective_concepts,
    }


def _peak_memory_mb() -> float | None:
    try:
        import resource
    except ImportError:  # pragma: no cover  (Windows)
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
