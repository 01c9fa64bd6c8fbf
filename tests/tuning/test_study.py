"""Studies: what they belong to, storages that cannot be used, trials that were left behind."""

import datetime
import os
import subprocess
import sys

import optuna
import pytest

from macrid.errors import StudyError
from macrid.tuning import study as studies
from macrid.tuning.study import (
    ERROR,
    ask,
    close,
    finished,
    open_study,
    queue_abandoned,
    queue_again,
    reachable,
    running,
)

pytestmark = pytest.mark.alone  # signals, and processes that wait for each other

ABOUT = {"model": "ease", "data": "d1", "space": {"x": [0, 1]}, "fixed": {}, "training": {"seed": 0, "epochs": 5}}
FIRST = {"x": 0.5}


@pytest.fixture
def opened(tmp_path):
    """Open a study in a file; closed at the end."""
    made = []

    def open_(about=ABOUT):
        made.append(open_study(f"sqlite:///{tmp_path}/study.db", "s", about, FIRST, 0))
        return made[-1]

    yield open_
    for study in made:
        close(study)


@pytest.fixture
def theirs(tmp_path):
    """A study by somebody else."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db")
    yield optuna.create_study(storage=storage, study_name="s", direction="maximize")
    storage.engine.dispose()


def test_a_new_study_tries_the_given_point_first_and_only_once(opened):
    opened()
    study = opened()
    assert [ask(study).suggest_float("x", 0, 1) for _ in range(3)].count(0.5) == 1
    assert study.trials[0].params == FIRST
    assert len(running(study)) == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "macridvae"}, "belongs to another model, ease instead of macridvae"),
        ({"data": "d2"}, "belongs to another data set"),
        ({"space": {"x": [0, 2]}}, "belongs to another space"),
        ({"fixed": {"dim": 7}}, "was begun with dim not given instead of 7"),
        ({"training": {"seed": 0, "epochs": 6}}, "was begun with epochs 5 instead of 6"),
    ],
)
def test_a_study_of_something_else_is_refused_and_left_as_it_is(opened, tmp_path, change, told):
    opened()
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(StudyError, match=f"study 's': {told}; give another --study or --out"):
        opened({**ABOUT, **change})
    assert (tmp_path / "study.db").read_bytes() == before


def test_a_study_that_macrid_did_not_make_is_refused(theirs, opened):
    theirs.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(StudyError, match="holds trials that macrid did not make"):
        opened()


def test_a_study_whose_maker_died_at_once_is_taken_over(theirs, opened, monkeypatch):
    monkeypatch.setattr(studies, "CREATION", 0.1)
    study = opened()
    assert study.user_attrs["macrid"] == ABOUT
    assert len(study.trials) == 1


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "not the address of a storage"),
        ("foo://u:s3cret@host/x", r"foo://u:\*\*\*@host/x: not the address of a storage"),
        ("postgresql+psycopg://u:s3cret@host:abc/x", r"u:\*\*\*@host:abc/x: not the address of a storage"),
        ("postgresql+psycopg://u:s3cret@127.0.0.1:1/x", "cannot be used .*refused"),
        ("postgresql+psycopg://u:s@s3cret@127.0.0.1:1/x", "cannot be used"),
        ("postgresql+psycopg://127.0.0.1:1/x?user=u&password=s3cret", "cannot be used .*refused"),
        ("postgresql+psycopg://u:s3cret@nowhere.invalid/x", "cannot be used"),
        ("mysql+pymysql://u:s3cret@host/x", "needs the Python package 'pymysql'"),
        ("sqlite:////nowhere/study.db", "unable to open database file"),
        ("sqlite:////tmp/{x}.db", "not the address of a storage"),
        (f"sqlite:///{os.path.abspath(__file__)}", "file is not a database"),
    ],
)
def test_a_storage_that_cannot_be_used_is_one_line_without_its_password(url, told):
    with pytest.raises(StudyError, match=told) as error:
        open_study(url, "s", ABOUT, FIRST, 0)
    assert "s3cret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_password_is_not_told(postgres):
    url = postgres.url.replace("open-sesame", "s3cret")
    with pytest.raises(StudyError, match="password authentication failed") as error:
        open_study(url, "s", ABOUT, FIRST, 0)
    assert "s3cret" not in str(error.value)


def test_an_interrupted_trial_does_not_count_and_is_tried_again(opened):
    study = opened()
    trial = ask(study)
    trial.suggest_float("x", 0, 1)
    queue_again(study, trial)
    queue_again(study, trial)  # of two processes that do so, one does
    assert finished(study) == running(study) == []
    again = ask(study)
    assert again.suggest_float("x", 0, 1) == 0.5
    study.tell(again, 0.3)
    assert len(finished(study)) == 1
    assert ask(study).suggest_float("x", 0, 1) != 0.5
    failed = ask(study)
    failed.set_user_attr(ERROR, "it diverged")
    study.tell(failed, state=optuna.trial.TrialState.FAIL)
    assert len(finished(study)) == 2


def test_an_abandoned_trial_is_queued_after_the_grace_period(opened, monkeypatch):
    study = opened()
    ask(study).suggest_float("x", 0, 1)
    queue_abandoned(study)
    assert len(running(study)) == 1  # it may be alive
    monkeypatch.setattr(study._storage._backend, "grace_period", -1)
    queue_abandoned(study)
    assert running(study) == []
    assert ask(study).suggest_float("x", 0, 1) == 0.5


def test_a_trial_without_a_heartbeat_is_not_running_for_ever(opened, monkeypatch):
    study = opened()
    with monkeypatch.context() as patch:
        patch.setattr(studies, "beat", lambda study, trial: None)
        ask(study)
    queue_abandoned(study)
    assert len(running(study)) == 1
    monkeypatch.setattr(studies, "STALE", -datetime.timedelta(hours=1).total_seconds())
    queue_abandoned(study)
    assert running(study) == []
    assert ask(study).suggest_float("x", 0, 1) == 0.5


def test_only_what_the_storage_did_is_its_fault():
    with pytest.raises(KeyError), reachable("sqlite://"):
        raise KeyError("x")


TOGETHER = """
import sys, optuna, psycopg, sqlalchemy.orm
from macrid.tuning.study import close, open_study
print("ready", flush=True)
sys.stdin.readline()
for url in {urls}:
    close(open_study(url, "s", {about}, {first}, 0))
"""


def test_processes_that_begin_together_make_one_study(tmp_path, database):
    urls = [f"sqlite:///{tmp_path}/study.db", database]
    code, pipes = TOGETHER.format(urls=urls, about=ABOUT, first=FIRST), {"stdin": -1, "stdout": -1, "stderr": -1}
    made = [subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in made] == ["ready\n"] * 2
    for process in made:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in made:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told
    for url in urls:
        study = open_study(url, "s", ABOUT, FIRST, 0)
        assert [trial.state.name for trial in study.trials] == ["WAITING"]
        close(study)
