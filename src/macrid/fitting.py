"""The trainings of a run, with their progress: one on the train users, and a last one on everybody."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from macrid import final as finals
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split
from macrid.drafts import Draft
from macrid.models.base import Recommender
from macrid.models.epoch import Epoch, summary
from macrid.models.macridvae import MacridVAE
from macrid.models.neighbours import USUAL
from macrid.settings import TrainingSettings
from macrid.training.distributed import current
from macrid.training.estimate import Estimate, duration

Phase = Literal[
    "reading", "downloading", "training", "computing", "scoring", "understanding", "comparing", "final", "note"
]


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


Tell = Callable[[Progress], None]


def fit_first(
    draft: Draft,
    split: Split,
    training: TrainingSettings,
    resume: bool,
    labels: Any,
    final: bool,
    old: MacridVAE | None,
    tell: Tell,
) -> float:
    """Train on the train users; returns the seconds it took."""
    model, validation = draft.model, draft.heldout.get("validation")
    if isinstance(model, MacridVAE):
        model.fixed_weight = USUAL if validation is None else None

    def say(seconds: float, epochs: int) -> None:
        text = f"about {duration(seconds / epochs)} per epoch"
        if epochs > 1:
            text += f", {duration(seconds)} for {epochs} epochs"
            text += "" if validation is None else f" at most; stops {training.patience} epochs after the best one"
        text += ", then trains on everybody for as many as were best" if final else ""
        tell(Progress("note", text))

    seconds = _fit(
        model, split.train, training, tell, validation=validation, labels=labels, folder=draft.path.parent,
        resume=resume, estimate=Estimate(say), old=old,
    )  # fmt: skip
    note = getattr(model, "neighbours_note", None)
    if note is None and validation is None and getattr(model, "neighbours", None) is not None:
        note = f"neighbours have the usual weight, {USUAL:g}; there are no validation users to choose one on"
    if note is not None:
        tell(Progress("note", note))
    return seconds


def fit_final(draft: Draft, everyone: Interactions, labels: Any, old: MacridVAE | None, tell: Tell) -> None:
    """Train once more, on everybody, and go on with that model."""
    first, training = draft.model, finals.training_of(draft.model, draft.metrics)
    model = finals.successor(first, draft.metrics)
    epochs = f", {training.epochs} epochs" if model.has_epochs else ""
    about = f"{len(everyone.users):,} users, {len(everyone.items):,} items{epochs}"
    tell(Progress("note", f"training once more, on everybody: {about}"))
    draft.final_checkpoint.mkdir(parents=True, exist_ok=True)
    seconds = _fit(
        model, everyone, training, tell, labels=labels, folder=draft.final_checkpoint, resume=True, phase="final",
        old=old,
    )  # fmt: skip
    seconds = sum(record.seconds for record in model.log) if model.log else seconds
    finals.keep_numbers(model, first)
    model.log, model.training = first.log, first.training  # how it was chosen
    draft.replace(model, everyone, final=finals.described(everyone, training, model, seconds))


def _fit(
    model: Any,
    data: Interactions,
    training: TrainingSettings,
    tell: Tell,
    *,
    validation: HeldOut | None = None,
    labels: Any = None,
    folder: Path,
    resume: bool,
    phase: Phase = "training",
    estimate: Estimate | None = None,
    old: MacridVAE | None = None,
) -> float:
    """Train, from the last checkpoint if there is one; returns the seconds it took."""
    begin = time.perf_counter()
    if not model.has_epochs:
        if phase == "final":
            tell(Progress("final", "computing the model from everybody"))
        else:
            tell(Progress("computing", "computing the model"))
        model.fit(data, validation=validation, **training.model_dump(exclude_unset=True))
        return time.perf_counter() - begin
    is_first, whose = True, "everybody, " if phase == "final" else ""

    def on_step(done: int, steps: int) -> None:
        nonlocal is_first
        epoch = len(model.log) + 1
        if resume and is_first and (phase == "training" or epoch > 1):
            tell(Progress("note", f"continuing after epoch {epoch - 1}" if epoch > 1 else "starting"))
        is_first = False
        text = f"{whose}epoch {epoch}/{training.epochs}"
        tell(Progress(phase, text, (epoch - 1) * steps + done, training.epochs * steps))
        if estimate is not None:
            estimate.after_step(steps, training.epochs - epoch + 1, queued=model.device.type != "cpu")

    def on_epoch(record: Epoch) -> None:
        tell(Progress(phase, summary(model.log), epoch=record))
        if estimate is not None:
            estimate.after_epoch(record.seconds, training.epochs - record.epoch, queued=model.device.type != "cpu")

    tell(Progress(phase, f"{whose}epoch 1/{training.epochs}"))
    current().announce(
        {"phase": phase, "settings": model.settings.model_dump(), "training": training.model_dump(exclude_unset=True),
         "folder": str(folder), "resume": resume}
    )  # fmt: skip
    model.fit(
        data,
        validation=validation,
        labels=labels,
        checkpoint=folder,
        resume=resume,
        on_epoch=on_epoch,
        on_step=on_step,
        **({} if old is None else {"warm_start": old}),
        **training.model_dump(exclude_unset=True),
    )
    return time.perf_counter() - begin


def fit_along(
    model: Any, split: Split, everyone: Interactions | None, labels: Any, first: MacridVAE | None, old: MacridVAE | None
) -> None:
    """In any but the first of several processes: take part in its trainings, until nothing is left.

    first, old: the models that the first training, and that on everybody, start from.
    """
    validation = split.validation if len(split.validation.users) else None
    for task in current().tasks():
        is_first = task["phase"] == "training"
        trained = model if is_first else type(model)(**task["settings"])
        data = split.train if is_first or everyone is None else everyone
        start = first if is_first else old
        trained.fit(
            data, validation=validation if is_first else None, labels=labels, checkpoint=task["folder"],
            resume=task["resume"], **({} if start is None else {"warm_start": start}), **task["training"],
        )  # fmt: skip


def training_metrics(model: Recommender, seconds: float | None = None) -> dict[str, Any]:
    """Training statistics; seconds: of a model without epochs."""
    took = {} if seconds is None else {"seconds": round(seconds, 1)}
    return {
        **(_epochs(model.log) if model.log else took),
        **(getattr(model, "settled", None) or {}),
        **_neighbours(model),
        "peak_memory_mb": _peak_memory_mb(),
        "device": str(model.device),
    }


def _neighbours(model: Recommender) -> dict[str, Any]:
    weight = getattr(model, "neighbours_weight", None)
    return {} if weight is None else {"neighbours_weight": weight}


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
