"""An Optuna study that knows what it belongs to. Storage problems become a `StudyError`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from macrid.errors import MacridError, StudyError, first_line

if TYPE_CHECKING:
    import optuna

HEARTBEAT = 20  # seconds
STALE = 90  # seconds after the last heartbeat a trial counts as abandoned
USER_PERCENTILES = "seen"
"""The attribute of a trial that says when its process was last alive, in seconds since 1970."""
BELONGS = "macrid"
"""The attribute of a study that says which model, data and settings it is about."""
ERROR = "error"
"""The attribute of a trial that failed by its own fault: what went wrong. One without it was interrupted."""
RUNGS = (10, 20, 40, 80, 160)
"""Epochs at whose end a trial is compared with the others, and pruned if it is worse than half of them."""
CREATION = 10.0  # seconds that another process may take to make tables, or a study
PASSWORD = re.compile(r"(://[^:/@]*:)(.*)@")
GO_ON = "; finished trials are safe, go on with the same command once it can"


def optuna_or_explain() -> Any:
    try:
        import optuna
    except ImportError:
        raise MacridError("tuning needs Optuna; install it with `pip install 'macrid[tune]'`") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(url: str, name: str, belongs_to: dict[str, Any], first: dict[str, Any], seed: int) -> optuna.Study:
    """The study of that name, new or as it was left; refused if it is about something else.

    first: the point that a new study tries first. seed: of a new study; processes that join one draw by chance, since
    no two of them may draw alike.
    """
    with reachable(url):
        study, is_new = _create_or_load(_open_storage(url), name)
        if is_new:
            study.set_user_attr(BELONGS, belongs_to)
            study.enqueue_trial(first)
        was = study.user_attrs.get(BELONGS)
        if was != belongs_to:
            raise StudyError(f"study '{name}': {_difference(was, belongs_to)}; give another --study or --out")
        study.sampler = optuna_or_explain().samplers.TPESampler(seed=seed if is_new else None)
        queue_abandoned(study)
    return study


def _create_or_load(storage: Any, name: str) -> tuple[optuna.Study, bool]:
    """A study, and whether it is for this process to say what it is about."""
    optuna = optuna_or_explain()
    pruner = optuna.pruners.MedianPruner(n_startup_trials=8, n_warmup_steps=RUNGS[0] - 1)
    try:
        return optuna.create_study(storage=storage, study_name=name, direction="maximize", pruner=pruner), True
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name, pruner=pruner)
        return study, _is_unused(study)


def _open_storage(url: str) -> Any:
    """Two processes may make the tables at once, of which one then fails and has to look again."""
    import sqlalchemy.exc

    begin = time.monotonic()
    while True:
        try:
            return _connect(url)
        except ImportError as error:
            missing = getattr(error.__cause__ or error, "name", None)
            raise StudyError(f"{hidden_password(url)}: needs the Python package '{missing}'; install it") from None
        except (sqlalchemy.exc.ArgumentError, ValueError, LookupError) as error:
            raise StudyError(
                f"{hidden_password(url)}: not the address of a storage ({first_line(error)}); give one such as"
                " sqlite:///study.db or postgresql+psycopg://user@host/name"
            ) from None
        except RuntimeError as error:  # tables of another version of Optuna
            raise StudyError(f"{hidden_password(url)}: {first_line(error)}") from None
        except sqlalchemy.exc.DBAPIError as error:
            made = any(words in str(error) for words in ("already exists", "duplicate key", "UNIQUE constraint"))
            if not made or time.monotonic() - begin > CREATION:
                raise
            time.sleep(0.2)


def _connect(url: str) -> Any:
    """A storage that keeps no connection open: a database has a limited number, and workers report, too."""
    import sqlalchemy.pool

    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    return optuna_or_explain().storages.RDBStorage(url, {"poolclass": sqlalchemy.pool.NullPool, **options})


def _is_unused(study: optuna.Study) -> bool:
    """Whether who made this study has left it before it was about anything."""
    begin = time.monotonic()
    while BELONGS not in study.user_attrs and not study.get_trials(deepcopy=False):
        if time.monotonic() - begin > CREATION:
            return True
        time.sleep(0.2)
    return False


@contextmanager
def reachable(url: str, hint: str = "") -> Iterator[None]:
    """Whatever goes wrong with the storage, in words."""
    optuna = optuna_or_explain()
    import sqlalchemy.exc

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = error.__cause__ or error
        told = _without_password(first_line(getattr(cause, "orig", None) or cause), url)
        raise StudyError(f"{hidden_password(url)}: the storage cannot be used ({told}){hint}") from None


def hidden_password(url: str) -> str:
    return re.sub(r"(pass\w*|pwd)=[^&]*", r"\1=***", PASSWORD.sub(r"\1***@", url), flags=re.IGNORECASE)


def _without_password(told: str, url: str) -> str:
    """A driver takes what stands behind an @ in a password for the host, and names it."""
    found = PASSWORD.search(url)
    for part in found[2].split("@") if found else ():
        told = told.replace(part, "***") if len(part) > 2 else told
    return told


def ask(study: optuna.Study) -> optuna.Trial:
    """A new trial, or one of the queue; its heart beats from here on."""
    trial = study.ask()
    beat(trial)
    return trial


def beat(trial: optuna.Trial) -> None:
    """Say that a trial is being worked on; Optuna's own heartbeats are experimental and not for `ask`."""
    with suppress(optuna_or_explain().exceptions.UpdateFinishedTrialError):  # taken for abandoned
        trial.set_user_attr(USER_PERCENTILES, time.time())


def is_hopeless(url: str, trial: optuna.Trial, epoch: int, score: float) -> bool:
    """Report a trial's best score so far, from any process; whether half of the others were better at that epoch."""
    try:
        with reachable(url, GO_ON):
            trial.report(score, epoch)
            return trial.should_prune()
    except optuna_or_explain().exceptions.UpdateFinishedTrialError:  # another process has taken it for abandoned
        return True


def finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that count: ended well, pruned or failed by their own fault; not interrupted ones."""
    ended = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    return [trial for trial in ended if trial.state.name != "FAIL" or ERROR in trial.user_attrs]


def running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that some process is at, or has abandoned not long ago."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "RUNNING"]


def queue_again(study: optuna.Study, trial: optuna.Trial | optuna.trial.FrozenTrial) -> None:
    """Record a running trial as interrupted and put its settings into the queue."""
    optuna = optuna_or_explain()
    try:
        interrupted = study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except (ValueError, optuna.exceptions.UpdateFinishedTrialError):  # another process has queued it
        return
    settings = {**interrupted.system_attrs.get("fixed_params", {}), **interrupted.params}
    if settings:
        study.enqueue_trial(settings)


def queue_abandoned(study: optuna.Study) -> None:
    """Queue those trials again whose process has died."""
    for trial in running(study):
        assert trial.datetime_start is not None
        if time.time() - trial.user_attrs.get(USER_PERCENTILES, trial.datetime_start.timestamp()) > STALE:
            queue_again(study, trial)


def _difference(was: Any, now: dict[str, Any]) -> str:
    if not isinstance(was, dict):
        return "holds trials that macrid did not make"
    if was.get("model") != now["model"]:
        return f"belongs to another model, {was.get('model')} instead of {now['model']}"
    if was.get("data") != now["data"]:
        return "belongs to another data set"
    before, after = ({**about.get("training", {}), **about.get("fixed", {})} for about in (was, now))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            return f"was begun with {name} {_told(before, name)} instead of {_told(after, name)}"
    return "belongs to another space"


def _told(settings: dict[str, Any], name: str) -> str:
    return str(settings[name]) if name in settings else "not given"
