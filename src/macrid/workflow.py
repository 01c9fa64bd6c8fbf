"""From data to a run: fit, score, name axes, compare, save. The work of `macrid train` and `macrid.train`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from macrid import runs
from macrid.callbacks import Watchers
from macrid.cold import narrowed
from macrid.concepts.meaning import meaning_of
from macrid.data.catalog import load_split
from macrid.data.everyone import everyone_of
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split
from macrid.differences import FILE as DIFF_FILE
from macrid.drafts import Draft, begun, is_unfinished
from macrid.errors import DataError, MacridError, RunError, SettingsError
from macrid.evaluation.ranking import Evaluation, evaluate
from macrid.files import claimed
from macrid.fitting import Progress, Tell, fit_along, fit_final, fit_first, training_metrics
from macrid.models import model_class
from macrid.models.base import Recommender
from macrid.models.devices import choose_device
from macrid.models.macridvae import MacridVAE
from macrid.models.neural import NeuralRecommender
from macrid.models.warm import digest_of, settings_from, training_from
from macrid.ops.ahead import load_ahead
from macrid.progress import shows_progress
from macrid.recipe import Recipe, settings_of_preset
from macrid.remarks import compare
from macrid.retraining import Earlier, notes, understood
from macrid.settings import EASE_BASELINE_ITEMS, TrainingSettings
from macrid.training import checkpoint
from macrid.training.distributed import LostError, RankError, Ranks, join, losses_explained


@dataclass(frozen=True)
class TrainedRun:
    """A newly written run."""

    path: Path
    model: Recommender
    metrics: dict[str, Any]
    """The content of metrics.json: scores on validation and test users, training time, scores of baselines, remarks.
    With "final", scores are of the first model, trained without these users, and `model` is the final one."""


@shows_progress
def train(
    data: Split | str | PathLike[str],
    out: str | PathLike[str],
    *,
    model: str | Recommender | Recipe = "macridvae",
    preset: str | None = None,
    labels: Any = None,
    warm_start: str | PathLike[str] | None = None,
    baselines: bool = True,
    final: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    progress: Tell | bool | None = None,
    callbacks: Sequence[Any] = (),
    origin: dict[str, Any] | None = None,
    scores: dict[str, Any] | None = None,
    **settings: Any,
) -> TrainedRun:
    """Train a model, score the best epoch, turn and name its axes, and write a run.

    data: a split, a prepared folder, or the name of a data set.
    model: a name, a recipe, or an untrained model.
    preset: "best", the default, or "paper" for Algorithm 1 as written; explicit settings take precedence.
    labels: of some items, as for `MacridVAE.fit`.
    warm_start: a run of a MacridVAE to start from. Its settings are the defaults, with a shorter schedule; concepts
    keep their numbers, names and axes as far as they still fit.
    baselines: also score Popularity and, unless there are too many items, EASE.
    final: afterwards train once more on everybody, held-out users and their items included, for as many epochs as were
        best; that is the run's model, and the scores are those of the first.
    resume: continue an interrupted training, whatever it was doing. overwrite: replace an existing run.
    progress: called with a `Progress`; True shows a bar, False none. By default there is one in a notebook.
    callbacks: objects that follow the training; see `macrid.callbacks`.
    origin: the source of the data to record in the run, if not the one known. scores: more for metrics.json.
    settings: of the model and of its training: concepts, dim, …, epochs, seed, device, …
    Until the run is complete, an earlier one is left alone, and all that was done is kept in `out/training`; no other
    training can write to the folder meanwhile. After an interruption or divergence without an earlier run, the folder
    also has a run with the best weights so far.
    In processes started by torchrun, all call this with the same arguments; the first one writes the run, and what the
    others return has no scores.
    """
    watchers = Watchers(callbacks)
    tell = watchers.listening(progress if callable(progress) else None)
    folder = Path(out)
    earlier = None if warm_start is None else Earlier.read(warm_start)
    old = None if earlier is None else earlier.model
    recommender, chosen = _chosen(model, preset, settings, old)
    _check_possible(recommender, labels)
    load_ahead(choose_device(chosen.get("device", "auto")))
    training = recommender.training_settings(chosen)
    ranks = join(training.device)
    with (
        ranks.dismissed_at_the_end(),
        claimed(folder, RunError) if ranks.leads else nullcontext() as claim,
    ):
        if claim is None:
            _take_part(ranks, recommender, data, final, labels, earlier)
            return TrainedRun(folder, recommender, {})
        _check_folder(folder, resume, overwrite, tell)
        if resume and _is_finished(folder):
            split, _ = _load(data, tell)
            ranks.share("read")
            everyone = _everyone(split, final, tell)
            fingerprint = _fingerprint(recommender, split, training, labels, everyone, old)
            return _finished(recommender, folder, training, fingerprint, tell)
        with begun(folder):
            split, known = _load(data, tell)
            ranks.share("read")
            _check_epochs(recommender, split, chosen)
            everyone = _everyone(split, final, tell)
            fingerprint = _fingerprint(recommender, split, training, labels, everyone, old)
            draft = Draft(folder, recommender, split, known if origin is None else origin, fingerprint, claim)
            watchers.tell("start", _about(recommender, training, split, folder, known))
            try:
                if not (resume and draft.restore(training, everyone)):
                    if not resume:
                        draft.discard()
                    has_final = everyone is not None
                    start = None if earlier is None else earlier.start(has_final)
                    seconds = fit_first(draft, split, training, resume, labels, has_final, start, tell)
                    about = {} if earlier is None else {"warm_start": earlier.facts(recommender, split, everyone)}
                    draft.start({"training": training_metrics(recommender, seconds), **about, **(scores or {})})
                elif old is not None:
                    recommender.started_from = old
                _finish(draft, split, baselines, everyone, labels, old, tell)
                if earlier is not None:
                    assert isinstance(draft.model, MacridVAE)  # no other model starts from a run
                    tell(Progress("comparing", f"comparing with {earlier.run}"))
                    draft.add(DIFF_FILE, earlier.differences(draft.model, draft.path, folder))
            except (KeyboardInterrupt, MacridError) as error:
                if not isinstance(error, LostError):  # then its launcher is about to end this process
                    draft.leave(lambda text: tell(Progress("note", text)))
                watchers.tell("end", None)
                raise
            draft.publish()
    watchers.tell("end", draft.metrics)
    for note in () if old is None else notes(draft.metrics["warm_start"]):
        tell(Progress("note", note))
    return TrainedRun(folder, draft.model, draft.metrics)


def _take_part(
    ranks: Ranks,
    model: Recommender,
    data: Split | str | PathLike[str],
    final: bool,
    labels: Any,
    earlier: Earlier | None,
) -> None:
    """What any but the first of several processes does: train along."""
    try:
        with losses_explained(ranks):
            ranks.share("read")  # the first process downloads
            split, _ = _load(data, _ignore)
            everyone = _everyone(split, final, _ignore)
            starts = (None, None) if earlier is None else (earlier.start(everyone is not None), earlier.model)
            fit_along(model, split, everyone, labels, *starts)
    except MacridError as error:
        if ranks.has_ended():  # and has said why
            raise SystemExit(1) from None
        raise RankError(f"rank {ranks.rank}: {error}") from error


def _ignore(progress: Progress) -> None:
    """Only the first process reports."""


def _about(
    model: Recommender, training: TrainingSettings, split: Split, out: Path, known: dict[str, Any]
) -> dict[str, Any]:
    """What callbacks are told at the start."""
    counts = {"users": len(split.train.users), "items": len(split.items), "interactions": len(split.train)}
    return {
        "model": type(model).__name__,
        "run": str(out),
        **model.settings.model_dump(mode="json"),
        "training": training.model_dump(mode="json"),
        "data": {**known, **counts},
    }


def _finish(
    draft: Draft,
    split: Split,
    baselines: bool,
    everyone: Interactions | None,
    labels: Any,
    old: MacridVAE | None,
    tell: Tell,
) -> None:
    """What remains to be done with a fitted model.

    everyone: what the final model is to be trained on, if there is to be one. old: the model that training starts from.
    """
    model = draft.model
    own: dict[str, Evaluation] = {}

    def say(phase: Literal["comparing", "note"], text: str) -> None:
        tell(Progress(phase, text))

    if not draft.heldout.keys() <= draft.metrics.keys():
        tell(Progress("scoring", "scoring"))
        own = {name: evaluate(model, group) for name, group in draft.heldout.items()}
        draft.put(**{name: scores.as_json() for name, scores in own.items()})
    elif not draft.heldout:
        draft.put(remarks=["nobody was held out, so there are no scores"])
    if everyone is None:
        _understand(draft, tell)
    if baselines and draft.heldout and "baselines" not in draft.metrics:
        compared = compare(model, split.train, draft.heldout, own, draft.metrics["training"], EASE_BASELINE_ITEMS, say)
        draft.put(**compared)
    if everyone is not None:
        if "final" not in draft.metrics:
            fit_final(draft, everyone, labels, old, tell)
        _understand(draft, tell)


def _understand(draft: Draft, tell: Tell) -> None:
    """Turn and name the axes of a MacridVAE, and measure its knobs, on users that it was not trained on if possible."""
    model = draft.model
    if isinstance(model, MacridVAE) and meaning_of(model).names is None:
        tell(Progress("understanding", "turning axes and naming"))
        measuring = Progress("understanding", "measuring what knobs do")
        validation = None if "final" in draft.metrics else draft.heldout.get("validation")
        about = understood(model, validation, on_knobs=lambda: tell(measuring))
        draft.put(**({"warm_start": {**draft.metrics["warm_start"], **about}} if about else {}))


def save(model: Recommender, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a complete run of a model that was fitted in Python; see `Recommender.save`."""
    with claimed(Path(folder), RunError):
        runs.check_place(folder, overwrite)
        heldout = {} if model.validation is None else {"validation": model.validation}
        trained = model
        if isinstance(model, MacridVAE) and model.placements:
            meaning_of(model)  # one for both
            trained = narrowed(model)
        if isinstance(trained, MacridVAE) and meaning_of(trained).names is None:
            trained.check_fitted()
            understood(trained, model.validation, None if model.validation is None else model.validation.history)
        metrics = {**_scores(trained, heldout), "training": training_metrics(model)} if heldout else None
        known = {} if model.min_rating is None else {"min_rating": model.min_rating}
        runs.save(model, folder, overwrite=overwrite, heldout=heldout, metrics=metrics, data=known)
        runs.index_if_large(folder, model)


def _chosen(
    model: str | Recommender | Recipe, preset: str | None, settings: dict[str, Any], old: MacridVAE | None = None
) -> tuple[Any, dict]:
    """The model and its validated training settings; old: the one that training starts from."""
    if isinstance(model, Recommender):
        if preset is not None and settings_of_preset(preset):
            raise SettingsError(
                f"preset is '{preset}', but this {type(model).__name__} already has settings; pass its name"
            )
        TrainingSettings.make(settings)
        return model, settings if old is None else _warm(model, old, settings)
    recipe = model if isinstance(model, Recipe) else Recipe(model)
    kind = model_class(recipe.model)
    base = settings_of_preset(preset or recipe.preset or "best") if kind.has_epochs else {}
    fields, of_training = kind.settings_class.model_fields, TrainingSettings.model_fields
    of_model = {name: value for name, value in base.items() if name in fields}
    of_model |= recipe.settings | {name: value for name, value in settings.items() if name not in of_training}
    training = {name: value for name, value in base.items() if name in of_training}
    training |= recipe.training | {name: value for name, value in settings.items() if name in of_training}
    Recipe(recipe.model, of_model, training).check()
    if old is None:
        return kind(**of_model), training
    chosen = kind(**(settings_from(old, of_model) if kind is MacridVAE else of_model))
    return chosen, _warm(chosen, old, training)


def _warm(model: Recommender, old: MacridVAE, training: dict[str, Any]) -> dict[str, Any]:
    """The training settings of a warm start; an error if the model can have none."""
    if not isinstance(model, NeuralRecommender):
        name = type(model).__name__.lower()
        raise SettingsError(f"{name} has no warm start; remove --warm-start, or train a macridvae")
    model.check_warm_start(old)
    return training_from(old, training)


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
    before, now = ({**each, "item_shards": 1} for each in (config["training"], training.model_dump()))
    if config.get("fingerprint") != fingerprint or before != now:
        raise RunError(f"{run}: training is finished, so there is nothing to resume; train again with --overwrite")
    runs.fill(model, run)
    tell(Progress("note", f"{run}: training is finished"))
    return TrainedRun(run, model.to(training.device), runs.read_metrics(run))


def _everyone(split: Split, final: bool, tell: Tell) -> Interactions | None:
    """What a final model is trained on, if one is wanted and would differ."""
    if final and not len(split.validation.users) + len(split.test.users):
        tell(Progress("note", "nobody is held out, so the model is trained on everybody anyway; ignored --final"))
        return None
    return everyone_of(split) if final else None


def _check_epochs(model: Recommender, split: Split, chosen: dict[str, Any]) -> None:
    """Without validation users, somebody has to say how long to train."""
    if model.has_epochs and not len(split.validation.users) and "epochs" not in chosen:
        raise SettingsError(
            "there are no validation users to choose the best epoch on; give the number of epochs with --epochs"
            " (epochs=… in Python), such as the best epoch of a training with --heldout"
        )


def _fingerprint(
    model: Any,
    split: Split,
    training: TrainingSettings,
    labels: Any,
    everyone: Interactions | None = None,
    old: MacridVAE | None = None,
) -> dict[str, Any]:
    """A fingerprint of all that a run depends on."""
    data = {"train": split.train.matrix}
    for name, group in (("validation", split.validation), ("test", split.test)):
        data |= {f"{name}.history": group.history, f"{name}.target": group.target}
    digest = None if labels is None else model.read_labels(labels, split.items).digest()
    items = hashlib.sha256("\0".join(map(str, split.items)).encode("utf-8", "surrogatepass")).hexdigest()
    about = {"model": type(model).__name__, "labels": digest, "items": items}
    if everyone is not None:
        data["everyone"], about["final"] = everyone.matrix, True
    about |= {} if old is None else {"warm_start": digest_of(old)}
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
    heldout = "nobody held out"
    if any(counts[1:]):
        heldout = f"{counts[1]:,} validation and {counts[2]:,} test users; {split.protocol}"
    tell(
        Progress(
            "note",
            f"{data}: {counts[0]:,} train users, {len(split.items):,} items, {len(split.train):,} interactions;"
            f" {heldout}",
        )
    )
    return split, known


def _scores(model: Recommender, heldout: dict[str, HeldOut]) -> dict[str, Any]:
    return {name: evaluate(model, group).as_json() for name, group in heldout.items()}
