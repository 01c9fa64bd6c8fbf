"""From data to a run: fit, score, name axes, compare, save. The work of `macrid train` and `macrid.train`."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from macrid import runs
from macrid.concepts.meaning import meaning_of
from macrid.concepts.understanding import understand
from macrid.data.catalog import load_split
from macrid.data.split import HeldOut, Split
from macrid.drafts import Draft, begun, is_unfinished
from macrid.errors import DataError, MacridError, RunError, SettingsError
from macrid.evaluation.ranking import evaluate
from macrid.files import claimed
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
    scores: dict[str, Any] | None = None,
    **settings: Any,
) -> TrainedRun:
    """Train a model, score the best epoch, turn and name its axes, and write a run.

    data: a split, a prepared folder, or the name of a data set.
    model: a name, a recipe, or an untrained model.
    preset: "best", the default, or "paper" for Algorithm 1 as written; explicit settings take precedence.
    labels: of some items, as for `MacridVAE.fit`.
    baselines: also score Popularity and, unless there are too many items, EASE.
    resume: continue an interrupted training, whatever it was doing. overwrite: replace an existing run.
    progress: called with a `Progress`.
    origin: the source of the data to record in the run, if not the one known. scores: more for metrics.json.
    settings: of the model and of its training: concepts, dim, …, epochs, seed, device, …
    Until the run is complete, an earlier one is left alone, and all that was done is kept in `out/training`; no other
    training can write to the folder meanwhile. After an interruption or divergence without an earlier run, the folder
    also has a run with the best weights so far.
    """
    tell = progress or (lambda _: None)
    folder = Path(out)
    recommender, chosen = _chosen(model, preset, settings)
    _check_possible(recommender, labels)
    choose_device(chosen.get("device", "auto"))
    training = recommender.training_settings(chosen)
    with claimed(folder, RunError) as claim:
        _check_folder(folder, resume, overwrite, tell)
        if resume and _is_finished(folder):
            split, _ = _load(data, tell)
            return _finished(recommender, folder, training, _fingerprint(recommender, split, training, labels), tell)
        with begun(folder):
            split, known = _load(data, tell)
            fingerprint = _fingerprint(recommender, split, training, labels)
            draft = Draft(folder, recommender, split, known if origin is None else origin, fingerprint, claim)
            try:
                if not (resume and draft.restore(training)):
                    seconds = _fit(draft, split, training, resume, labels, tell)
                    draft.start({"training": _training_metrics(recommender, seconds), **(scores or {})})
                _finish(draft, split, baselines, tell)
            except (KeyboardInterrupt, MacridError):
                draft.leave(lambda text: tell(Progress("note", text)))
                raise
            draft.publish()
    return TrainedRun(folder, recommender, draft.metrics)


def _finish(draft: Draft, split: Split, baselines: bool, tell: Tell) -> None:
    """What remains to be done with a fitted model."""
    model = draft.model
    if "validation" not in draft.metrics:
        tell(Progress("scoring", "scoring"))
        draft.put(**_scores(model, draft.heldout))
    if isinstance(model, MacridVAE) and meaning_of(model).names is None:
        tell(Progress("understanding", "turning axes and naming"))
        understand(model)
        tell(Progress("understanding", "measuring what knobs do"))
        measure_effects(model, split.validation)
        draft.put()
    if baselines and "baselines" not in draft.metrics:
        draft.put(baselines=_baselines(model, split, draft.heldout, tell))


def save(model: Recommender, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a complete run of a model that was fitted in Python; see `Recommender.save`."""
    with claimed(Path(folder), RunError):
        runs.check_place(folder, overwrite)
        heldout = {} if model.validation is None else {"validation": model.validation}
        if isinstance(model, MacridVAE) and meaning_of(model).names is None:
            model.check_fitted()
            understand(model, histories=None if model.validation is None else model.validation.history)
            measure_effects(model, model.validation)
        metrics = {**_scores(model, heldout), "training": _training_metrics(model)} if heldout else None
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


def _check_possible(model: Recommender, labels: Any) -> None:
    if labels is not None and "concepts" not in model.settings_class.model_fields:
        name = type(model).__name__.lower()
        raise SettingsError(f"{name} has no concepts to label; remove --labels, or train a macridvae")


def _check_folder(out: Path, resume: bool, overwrite: bool, tell: Tell) -> None:
    """Report problems before any work is done."""
    runs.check_place(out, overwrite, resume)
    if resume and not runs.has_progress(out) and not _is_finished(out):
        tell(Progress("note", f"{out}: no checkpoint yet, starting from the beginning"))


def _is_finished(out: Path) -> bool:
    return (out / "config.json").exists() and not (out / runs.TRAINING).exists() and not is_unfinished(out)


def _finished(
    model: Recommender, run: Path, training: TrainingSettings, fingerprint: dict[str, Any], tell: Tell
) -> TrainedRun:
    """The run that a resumed training would lead to, because it is there already."""
    config = runs.read_config(run)
    if config.get("fingerprint") != fingerprint or config["training"] != training.model_dump():
        raise RunError(f"{run}: training is finished, so there is nothing to resume; train again with --overwrite")
    runs.fill(model, run)
    tell(Progress("note", f"{run}: training is finished"))
    return TrainedRun(run, model.to(training.device), runs.read_metrics(run))


def _fingerprint(model: Any, split: Split, training: TrainingSettings, labels: Any) -> dict[str, Any]:
    """A fingerprint of all that a run depends on."""
    data = {"train": split.train.matrix}
    for name, group in (("validation", split.validation), ("test", split.test)):
        data |= {f"{name}.history": group.history, f"{name}.target": group.target}
    digest = None if labels is None else model.read_labels(labels, split.items).digest()
    items = hashlib.sha256("\0".join(map(str, split.items)).encode("utf-8", "surrogatepass")).hexdigest()
    about = {"model": type(model).__name__, "labels": digest, "items": items}
    return checkpoint.fingerprint(data, {**about, **model.settings.model_dump(), **training.model_dump()})


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


def _fit(draft: Draft, split: Split, training: TrainingSettings, resume: bool, labels: Any, tell: Tell) -> float:
    """Train, from the last checkpoint if there is one; returns the seconds it took."""
    model: Any = draft.model
    begin = time.perf_counter()
    if not resume:
        draft.discard()
    if not model.has_epochs:
        tell(Progress("computing", "computing the model"))
        model.fit(split.train, validation=split.validation, **training.model_dump(exclude_unset=True))
        return time.perf_counter() - begin
    is_first = True

    def on_step(done: int, steps: int) -> None:
        nonlocal is_first
        epoch = len(model.log) + 1
        if resume and is_first:
            tell(Progress("note", f"continuing after epoch {epoch - 1}" if epoch > 1 else "starting"))
        is_first = False
        tell(
            Progress(
                "training", f"epoch {epoch}/{training.epochs}", (epoch - 1) * steps + done, training.epochs * steps
            )
        )

    tell(Progress("training", f"epoch 1/{training.epochs}"))
    model.fit(
        split.train,
        validation=split.validation,
        labels=labels,
        checkpoint=draft.path.parent,
        resume=resume,
        on_epoch=lambda record: tell(Progress("training", _summary(model.log), epoch=record)),
        on_step=on_step,
        **training.model_dump(exclude_unset=True),
    )
    if (note := getattr(model, "neighbours_note", None)) is not None:
        tell(Progress("note", note))
    return time.perf_counter() - begin


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


def _scores(model: Recommender, heldout: dict[str, HeldOut]) -> dict[str, Any]:
    return {name: evaluate(model, group).as_json() for name, group in heldout.items()}


def _training_metrics(model: Recommender, seconds: float | None = None) -> dict[str, Any]:
    """Training statistics; seconds: of a model without epochs."""
    took = {} if seconds is None else {"seconds": round(seconds, 1)}
    return {
        **(_epochs(model.log) if model.log else took),
        "peak_memory_mb": _peak_memory_mb(),
        "device": str(model.device),
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
