"""The search: Optuna's TPE proposes settings, workers train them, hopeless ones are pruned, all results are stored.

One process runs the study; its workers train and report progress. Several such processes, on several machines, can
share a study through its storage. An interrupted search can be continued: finished trials are in the storage, running
ones are tried again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from macrid.errors import DataError, MacridError, SettingsError, StudyError, TrainingError
from macrid.models import model_class
from macrid.models.devices import choose_device
from macrid.openmp import cores
from macrid.recipe import Recipe
from macrid.training.checkpoint import fingerprint
from macrid.training.interrupts import no_lost_interrupts
from macrid.tuning import study as studies
from macrid.tuning.space import Range, config_of, default_point, draw, space_of, without
from macrid.tuning.study import ERROR, HEARTBEAT, RUNGS, finished, reachable
from macrid.tuning.workers import Workers, result_of

if TYPE_CHECKING:
    import optuna

    from macrid.data.interactions import Interactions
    from macrid.data.split import HeldOut, Split

MOST_JOBS = 16  # trainings at once, by default
CONFIRMED = "confirmed"
"""The study attribute confirmed:TRIAL:SEED holds the score of one of the best trials with another seed."""
OTHER_SEEDS = (1, 2)  # added to the seed of the search
POLL = 2.0  # seconds between checks for results, also of other processes


@dataclass(frozen=True)
class Progress:
    """The progress of a search, passed to `on_progress`."""

    done: int
    trials: int
    running: int
    """In all processes that share the study."""
    failed: int
    pruned: int
    best: Recipe | None
    """`about["score"]` is its validation NDCG@100."""
    unconfirmed: int = 0
    """Remaining trainings with other seeds, once all trials are done."""


def tune(
    split: Split,
    model: str = "macridvae",
    *,
    trials: int = 200,
    storage: str = "sqlite:///study.db",
    name: str | None = None,
    jobs: int | None = None,
    confirm: int = 5,
    fixed: dict[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **training: Any,
) -> Recipe:
    """Search the paper's space for the settings with the best validation NDCG@100; a config for `macrid train`.

    trials: in total, including earlier calls.
    storage: an Optuna storage URL, by default an SQLite file. name: of the study in it.
    jobs: trainings at once, by default one per core, at most 16. They run in separate processes, so a script must call
        this under `if __name__ == "__main__":`.
    confirm: retrain this many of the best trials with other seeds and choose the best mean, since the best of many
        noisy scores is partly luck.
    fixed: settings not to search, with their values. training: other training settings.
    timeout: start no new training after this many seconds.
    """
    check_counts(trials, jobs, confirm, timeout)
    search = Search(split, model, storage, name or f"macrid-{model.lower()}", fixed or {}, seed, training)
    search.run(trials, jobs or default_jobs(), confirm, timeout, on_progress)
    return search.found()


def check_counts(trials: int, jobs: int | None, confirm: int, timeout: float | None) -> None:
    for name, value, least in (("trials", trials, 1), ("jobs", jobs, 1), ("confirm", confirm, 0)):
        if value is not None and value < least:
            raise SettingsError(f"{name} is {value}; it must be at least {least}")
    if timeout is not None and not timeout > 0:
        raise SettingsError(f"timeout is {timeout:g}; it must be above 0")


def check_settings(model: str, fixed: dict[str, Any], training: dict[str, Any]) -> dict[str, Range]:
    """The settings to search; an error if anything is invalid."""
    space = without(space_of(model), model, fixed)
    for name in training:
        if name in space or name in fixed:
            use = "fixed" if name in fixed else "searched"
            raise SettingsError(f"{name} is already {use}, so it cannot be set as well; fix it to the value you want")
    config = config_of(model, default_point(model, space, training), fixed, training, items=10**6)
    if config is None:
        raise SettingsError("hidden layers of this width exceed the parameter budget; fix fewer or narrower ones")
    config.check()
    choose_device(training.get("device", "auto"))
    return space


def default_jobs() -> int:
    return min(cores(), MOST_JOBS)


class Search:
    """A study, and this process's share of its trials."""

    def __init__(
        self,
        split: Split,
        model: str,
        storage: str,
        name: str,
        fixed: dict[str, Any],
        seed: int,
        training: dict[str, Any],
    ) -> None:
        if split.validation.target.nnz == 0:
            raise DataError(
                "settings are chosen on validation users, and none has an item to predict; prepare the data with more"
                " held-out users (--heldout)"
            )
        self.split, self.model, self.storage, self.name = split, model.lower(), storage, name
        self.fixed, self.training = fixed, {"seed": seed, **training}
        self.space = check_settings(self.model, fixed, self.training)
        data = {"train": split.train.matrix, "validation": split.validation.target}
        belongs_to = {
            "model": self.model,
            "data": fingerprint(data, {})["interactions"],
            "space": {key: [where.low, where.high] for key, where in self.space.items()},
            "fixed": fixed,
            "training": {key: value for key, value in self.training.items() if key != "device"},
        }
        first = default_point(self.model, self.space, self.training, split.train)
        self.study = studies.open_study(storage, name, belongs_to, first, seed)
        self.running: dict[Future, tuple[optuna.Trial, float]] = {}

    def run(
        self,
        trials: int,
        jobs: int,
        confirm: int,
        timeout: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        make_workers: Callable[..., Any] | None = None,
    ) -> None:
        """Search until the study has this many trials, from all processes, and its best are confirmed.

        make_workers: what trains, in place of `Workers`, such as the tasks of a cluster.
        """
        report = on_progress or (lambda _: None)
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        with (
            reachable(self.storage, studies.GO_ON),
            (make_workers or Workers)(jobs, self.split.train, self.split.validation) as workers,
            no_lost_interrupts() as self._check_interrupt,
        ):
            try:
                self._search(workers, trials, deadline, report)
                self._confirm(workers, trials, confirm, deadline, report)
            except BaseException:
                for trial, _ in self.running.values():
                    studies.queue_again(self.study, trial)
                raise

    def _search(self, workers: Workers, trials: int, deadline: float, report: Callable[[Progress], None]) -> None:
        last_beat = time.monotonic()
        while True:
            self._check_interrupt()
            late = time.monotonic() >= deadline
            if not late:
                self._begin(workers, trials)
            report(self.progress(trials))
            if not self.running and (late or len(finished(self.study)) >= trials):
                return
            if not self.running:
                time.sleep(POLL)  # other processes have the last trials
            for future in wait(self.running, POLL, FIRST_COMPLETED).done:
                self._end(future, *self.running.pop(future))
            if time.monotonic() - last_beat > HEARTBEAT / 2:
                for trial, _ in self.running.values():
                    studies.beat(trial)
                studies.queue_abandoned(self.study)
                last_beat = time.monotonic()

    def _confirm(
        self, workers: Workers, trials: int, count: int, deadline: float, report: Callable[[Progress], None]
    ) -> None:
        """Train the best trials with other seeds, in random order, as other processes do the same."""
        running: dict[Future, tuple[optuna.trial.FrozenTrial, int]] = {}
        while True:
            self._check_interrupt()
            late = time.monotonic() >= deadline or len(finished(self.study)) < trials
            waiting = [] if late else [pair for pair in self._unconfirmed(count) if pair not in running.values()]
            left = len(waiting) + len(running)
            random.shuffle(waiting)
            for _, (trial, seed) in zip(workers.idle(), waiting, strict=False):
                config = self._config_of(trial)
                again = Recipe(config.model, config.settings, {**config.training, "seed": seed})
                running[workers.submit(train, again)] = trial, seed
            report(self.progress(trials, left))
            if not running:
                return
            for future in wait(running, POLL, FIRST_COMPLETED).done:
                try:
                    score = result_of(future).score
                except MacridError:
                    score = 0.0
                self.study.set_user_attr(_key(*running.pop(future)), score)

    def _unconfirmed(self, count: int) -> list[tuple[optuna.trial.FrozenTrial, int]]:
        """The best trials with the seeds they still need."""
        if not model_class(self.model).has_epochs:  # so nothing is random
            return []
        done = self._confirmed()
        return [
            (trial, seed)
            for trial in self._best_first()[:count]
            for seed in self._other_seeds()
            if seed not in done[trial.number]
        ]

    def _other_seeds(self) -> list[int]:
        return [self.training["seed"] + more for more in OTHER_SEEDS]

    def _confirmed(self) -> dict[int, dict[int, float]]:
        """Trial → seed → score."""
        known = self.study.user_attrs
        return {
            trial.number: {seed: known[key] for seed in self._other_seeds() if (key := _key(trial, seed)) in known}
            for trial in self._best_first()
        }

    def _best_first(self) -> list[optuna.trial.FrozenTrial]:
        complete = [trial for trial in finished(self.study) if trial.state.name == "COMPLETE"]
        return sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.number))

    def progress(self, trials: int, unconfirmed: int = 0) -> Progress:
        done = finished(self.study)
        states = [trial.state.name for trial in done]
        failed, pruned = states.count("FAIL"), states.count("PRUNED")
        return Progress(len(done), trials, len(studies.running(self.study)), failed, pruned, self.best(), unconfirmed)

    def found(self) -> Recipe:
        """The best settings; an error with the reason if there are none."""
        best = self.best()
        if best is None:
            errors = Counter(
                str(trial.user_attrs[ERROR]) for trial in finished(self.study) if ERROR in trial.user_attrs
            )
            reason = f" ({errors.most_common(1)[0][0]})" if errors else ""
            raise StudyError(f"study '{self.name}': no trial succeeded{reason}")
        return best

    def best(self) -> Recipe | None:
        """The trial with the best mean over seeds; the best trial until any is confirmed."""
        with reachable(self.storage):
            trials = self._best_first()
            if not trials:
                return None
            done = self._confirmed()
            scores = {trial.number: [trial.value or 0.0, *done[trial.number].values()] for trial in trials}
            confirmed = [trial for trial in trials if len(scores[trial.number]) == 1 + len(OTHER_SEEDS)]
            trial = max(confirmed, key=lambda trial: sum(scores[trial.number])) if confirmed else trials[0]
            config = self._config_of(trial)
            about: dict[str, Any] = {
                "score": trial.value,
                **({"scores": scores[trial.number]} if confirmed else {}),
                "trial": trial.number,
                "trials": len(finished(self.study)),
                "study": self.name,
                **{key: trial.user_attrs[key] for key in ("epoch", "parameters") if key in trial.user_attrs},
            }
        training = {key: value for key, value in config.training.items() if key != "device"}
        return Recipe(config.model, config.settings, training, about)

    def _config(self, values: dict[str, Any]) -> Recipe | None:
        return config_of(self.model, values, self.fixed, self.training, len(self.split.items))

    def _config_of(self, trial: optuna.trial.FrozenTrial) -> Recipe:
        config = self._config(trial.params)
        assert config is not None  # or it would not have been trained
        return config

    def _begin(self, workers: Workers, trials: int) -> None:
        """Give each idle worker a trial while there are some left."""
        while workers.idle() and len(finished(self.study)) + len(studies.running(self.study)) < trials:
            trial = studies.ask(self.study)
            if self._is_too_many(trial, trials):
                studies.queue_again(self.study, trial)
                return
            config = self._config(draw(trial, self.space))
            if config is None:
                trial.set_user_attr(ERROR, "its hidden layers alone exceed the parameter budget")
                self.study.tell(trial, state=_state("PRUNED"))
                continue
            future = workers.submit(train, config, partial(studies.is_hopeless, self.storage, trial))
            self.running[future] = trial, time.monotonic()

    def _is_too_many(self, trial: optuna.Trial, trials: int) -> bool:
        """Whether other processes have just started the last trials."""
        taken = [*finished(self.study), *studies.running(self.study)]
        start = trial.datetime_start, trial.number
        return sum((other.datetime_start, other.number) < start for other in taken) >= trials

    def _end(self, future: Future, trial: optuna.Trial, began: float) -> None:
        state, score = None, None
        try:
            trained = result_of(future)
            if trained.pruned_at is None:
                score, attributes = trained.score, {"epoch": trained.epoch, "parameters": trained.parameters}
            else:
                state, attributes = _state("PRUNED"), {"pruned_at": trained.pruned_at}
        except StudyError:  # not the trial's fault
            raise
        except MacridError as error:
            state, attributes = _state("FAIL"), {ERROR: str(error)}
        # if this process was suspended, another may have taken over the trial
        with suppress(studies.optuna_or_explain().exceptions.UpdateFinishedTrialError):
            for key, value in {"seconds": round(time.monotonic() - began, 2), **attributes}.items():
                trial.set_user_attr(key, value)
            self.study.tell(trial, score, state, skip_if_finished=True)


@dataclass(frozen=True)
class Trained:
    """The result of a training."""

    score: float
    epoch: int
    """The best one."""
    parameters: int = 0
    pruned_at: int | None = None


class _PrunedError(Exception):
    pass


def train(
    interactions: Interactions,
    validation: HeldOut,
    config: Recipe,
    is_hopeless: Callable[[int, float], bool] = lambda epoch, score: False,
) -> Trained:
    """Run by a worker. is_hopeless: called at the epochs of RUNGS with the best score so far."""
    from macrid.evaluation.ranking import evaluate

    score, best, epoch = None, 0, 0

    def on_epoch(record: Any) -> None:
        nonlocal score, best, epoch
        epoch = record.epoch
        if record.best:
            score, best = record.ndcg, epoch
        if epoch in RUNGS and is_hopeless(epoch, score or 0.0):
            raise _PrunedError

    model = model_class(config.model)(**config.settings)
    watch: dict[str, Any] = {"on_epoch": on_epoch} if model.has_epochs else {}
    try:
        model.fit(interactions, validation=validation, **watch, **config.training)
    except _PrunedError:
        return Trained(score or 0.0, best, pruned_at=epoch)
    if not watch:
        score = evaluate(model, validation, ("ndcg@100",))["ndcg@100"].mean
    if score is None:
        raise TrainingError("training ended before its first epoch")
    return Trained(score, best, sum(value.numel() for value in model.state().values()))


def _key(trial: optuna.trial.FrozenTrial, seed: int) -> str:
    return f"{CONFIRMED}:{trial.number}:{seed}"


def _state(name: str) -> optuna.trial.TrialState:
    return studies.optuna_or_explain().trial.TrialState[name]
