"""An Optuna study tied to a model, data and settings. Storage problems become a `StudyError`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from macrid.data.databases import hidden_password, without_password
from macrid.errors import MacridError, StudyError, first_line

if TYPE_CHECKING:
    import optuna

HEARTBEAT = 20  # seconds
STALE = 90  # seconds without a heartbeat after which a trial counts as abandoned
LAST_BEAT = "seen"
"""The trial attribute for the last heartbeat of its process, in seconds since 1970."""
BELONGS = "macrid"
"""The study attribute for its model, data and settings."""
ERROR = "error"
"""The trial attribute for the reason it failed. A failed trial without it was interrupted."""
RUNGS = (10, 20, 40, 80, 160)
"""Epochs after which a trial is pruned if it is worse than half of the others."""
CREATION = 10.0  # seconds to wait for another process to create tables or a study
GO_ON = "; finished trials are safe, so run the same command again once it works"


def optuna_or_explain() -> Any:
    try:
        import optuna
    except ImportError:
        raise MacridError("tuning needs Optuna; install it with `pip install 'macrid[tune]'`") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(url: str, name: str, belongs_to: dict[str, Any], first: dict[str, Any], seed: int) -> optuna.Study:
    """The study of that name, created if needed; an error if it belongs to something else.

    first: the point a new study tries first. seed: of a new study; processes that join later are unseeded, so that no
    two draw the same points.
    """
    with reachable(url):
        study, is_new = _create_or_load(_open_storage(url), name)
        if is_new:
            study.set_user_attr(BELONGS, belongs_to)
            study.enqueue_trial(first)
        was = study.user_attrs.get(BELONGS)
        if was != belongs_to:
            raise StudyError(f"study '{name}': {_difference(was, belongs_to)}; use another --study or --out")
        study.sampler = optuna_or_explain().samplers.TPESampler(seed=seed if is_new else None)
        queue_abandoned(study)
    return study


def _create_or_load(storage: Any, name: str) -> tuple[optuna.Study, bool]:
    """A study, and whether this process has to set it up."""
    optuna = optuna_or_explain()
    pruner = optuna.pruners.MedianPruner(n_startup_trials=8, n_warmup_steps=RUNGS[0] - 1)
    try:
        return optuna.create_study(storage=storage, study_name=name, direction="maximize", pruner=pruner), True
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name, pruner=pruner)
        return study, _is_unused(study)


def _open_storage(url: str) -> Any:
    """A storage that keeps no connections open: a database has few, and every worker needs one.

    If two processes create its tables at once, one fails and has to retry.
    """
    import sqlalchemy.exc
    import sqlalchemy.pool

    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    begin = time.monotonic()
    while True:
        try:
            return optuna_or_explain().storages.RDBStorage(url, {"poolclass": sqlalchemy.pool.NullPool, **options})
        except ImportError as error:
            missing = getattr(error.__cause__ or error, "name", None)
            raise StudyError(f"{hidden_password(url)}: needs the Python package '{missing}'; install it") from None
        except (sqlalchemy.exc.ArgumentError, ValueError, LookupError) as error:
            raise StudyError(
                f"{hidden_password(url)}: not a storage URL ({first_line(error)}); use one such as"
                " sqlite:///study.db or postgresql+psycopg://user@host/name"
            ) from None
        except RuntimeError as error:  # tables of another Optuna version
            raise StudyError(f"{hidden_password(url)}: {first_line(error)}") from None
        except sqlalchemy.exc.DBAPIError as error:
            exists = any(words in str(error) for words in ("already exists", "duplicate key", "UNIQUE constraint"))
            if not exists or time.monotonic() - begin > CREATION:
                raise
            time.sleep(0.2)


def _is_unused(study: optuna.Study) -> bool:
    """Whether the process that created this study ended before setting it up."""
    begin = time.monotonic()
    while BELONGS not in study.user_attrs and not study.get_trials(deepcopy=False):
        if time.monotonic() - begin > CREATION:
            return True
        time.sleep(0.2)
    return False


@contextmanager
def reachable(url: str, hint: str = "") -> Iterator[None]:
    """Turn storage problems into a `StudyError`."""
    optuna = optuna_or_explain()
    import sqlalchemy.exc

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = error.__cause__ or error
        reason = without_password(first_line(getattr(cause, "orig", None) or cause), url)
        raise StudyError(f"{hidden_password(url)}: cannot use the storage ({reason}){hint}") from None


def ask(study: optuna.Study) -> optuna.Trial:
    """A new or queued trial, with its first heartbeat."""
    trial = study.ask()
    beat(trial)
    return trial


def beat(trial: optuna.Trial) -> None:
    """Record a heartbeat; Optuna's are experimental and do not work with `ask`."""
    with suppress(optuna_or_explain().exceptions.UpdateFinishedTrialError):  # considered abandoned
        trial.set_user_attr(LAST_BEAT, time.time())


def is_hopeless(url: str, trial: optuna.Trial, epoch: int, score: float) -> bool:
    """Report a trial's best score so far; whether it is worse than half of the others at that epoch."""
    try:
        with reachable(url, GO_ON):
            trial.report(score, epoch)
            return trial.should_prune()
    except optuna_or_explain().exceptions.UpdateFinishedTrialError:  # another process considers it abandoned
        return True


def finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Complete, pruned and failed trials, but not interrupted ones."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    return [trial for trial in trials if trial.state.name != "FAIL" or ERROR in trial.user_attrs]


def running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials in progress in any process, or recently abandoned."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "RUNNING"]


def queue_again(study: optuna.Study, trial: optuna.Trial | optuna.trial.FrozenTrial) -> None:
    """Record a running trial as interrupted and queue its settings."""
    optuna = optuna_or_explain()
    try:
        interrupted = study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except (ValueError, optuna.exceptions.UpdateFinishedTrialError):  # another process has queued it
        return
    settings = {**interrupted.system_attrs.get("fixed_params", {}), **interrupted.params}
    if settings:
        study.enqueue_trial(settings)


def queue_abandoned(study: optuna.Study) -> None:
    """Queue the trials of dead processes again."""
    for trial in running(study):
        assert trial.datetime_start is not None
        if time.time() - trial.user_attrs.get(LAST_BEAT, trial.datetime_start.timestamp()) > STALE:
            queue_again(study, trial)


def _difference(was: Any, now: dict[str, Any]) -> str:
    if not isinstance(was, dict):
        return "has trials that macrid did not create"
    if was.get("model") != now["model"]:
        return f"belongs to another model, {was.get('model')} instead of {now['model']}"
    if was.get("data") != now["data"]:
        return "belongs to another data set"
    before, after = ({**about.get("training", {}), **about.get("fixed", {})} for about in (was, now))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            old, new = (settings.get(name, "unset") for settings in (before, after))
            return f"was started with {name} {old} instead of {new}"
    return "belongs to another search space"
