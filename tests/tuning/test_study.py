"""Studies: what they belong to, storages that cannot be used, trials that were left behind."""

import os
import pickle
import subprocess
import sys

import optuna
import pytest

from macrid.errors import StudyError
from macrid.tuning import study as studies
from macrid.tuning.study import (
    ERROR,
    RUNGS,
    ask,
    beat,
    finished,
    is_hopeless,
    open_study,
    queue_abandoned,
    queue_again,
    reachable,
    running,
)

ABOUT = {"model": "ease", "data": "d1", "space": {"x": [0, 1]}, "fixed": {}, "training": {"seed": 0, "epochs": 5}}
FIRST = {"x": 0.5}


@pytest.fixture
def opened(tmp_path):
    """Open a study in a file."""
    return lambda about=ABOUT: open_study(f"sqlite:///{tmp_path}/study.db", "s", about, FIRST, 0)


@pytest.fixture
def theirs(tmp_path):
    """A study by somebody else."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db")
    yield optuna.create_study(storage=storage, study_name="s", direction="maximize")
    storage.engine.dispose()


def test_a_new_study_tries_the_first_point_once(opened):
    opened()
    study = opened()
    assert [ask(study).suggest_float("x", 0, 1) for _ in range(3)].count(0.5) == 1
    assert study.trials[0].params == FIRST
    assert len(running(study)) == 3


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"model": "macridvae"}, "model.*ease.*macridvae"),
        ({"data": "d2"}, "data"),
        ({"space": {"x": [0, 2]}}, "space"),
        ({"fixed": {"dim": 7}}, "dim.*7"),
        ({"training": {"seed": 0, "epochs": 6}}, "epochs.*5.*6"),
    ],
)
def test_a_study_of_something_else_is_rejected_and_unchanged(opened, tmp_path, change, values):
    opened()
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(StudyError, match=f"'s'.*{values}"):
        opened({**ABOUT, **change})
    assert (tmp_path / "study.db").read_bytes() == before


def test_a_study_that_macrid_did_not_create_is_rejected(theirs, opened):
    theirs.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(StudyError, match="'s'"):
        opened()


def test_a_study_whose_creator_died_at_once_is_taken_over(theirs, opened, monkeypatch):
    monkeypatch.setattr(studies, "CREATION", 0.1)
    study = opened()
    assert study.user_attrs["macrid"] == ABOUT
    assert len(study.trials) == 1


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("nonsense", "nonsense"),
        ("foo://u:s3cret@host/x", "foo://u:***@host/x"),
        ("postgresql+psycopg://u:s3cret@host:abc/x", "u:***@host:abc/x"),
        ("postgresql+psycopg://u:s@s3cret@127.0.0.1:1/x", "u:***@127.0.0.1:1/x"),
        ("postgresql+psycopg://127.0.0.1:1/x?user=u&password=s3cret", "password=***"),
        ("postgresql+psycopg://u:s3cret@nowhere.invalid/x", "u:***@nowhere.invalid/x"),
        ("mysql+pymysql://u:s3cret@host/x", "'pymysql'"),
        ("sqlite:////nowhere/study.db", "/nowhere/study.db"),
        ("sqlite:////tmp/{x}.db", "/tmp/{x}.db"),
        (f"sqlite:///{os.path.abspath(__file__)}", "not a database"),
        ("postgres", "tuner:***@127.0.0.1"),
    ],
)
def test_a_storage_error_is_one_line_without_the_password(url, named, request):
    if url == "postgres":
        url = request.getfixturevalue("postgres").url.replace("open-sesame", "s3cret")
    with pytest.raises(StudyError) as error:
        open_study(url, "s", ABOUT, FIRST, 0)
    assert named in str(error.value)
    assert "s3cret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_an_interrupted_trial_does_not_count_and_is_tried_again(opened):
    study = opened()
    trial = ask(study)
    trial.suggest_float("x", 0, 1)
    queue_again(study, trial)
    queue_again(study, trial)  # as a second process would
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


@pytest.mark.parametrize("has_a_heartbeat", [True, False])
def test_an_abandoned_trial_is_queued_again(opened, monkeypatch, has_a_heartbeat):
    study = opened()
    trial = ask(study) if has_a_heartbeat else study.ask()
    trial.suggest_float("x", 0, 1)
    queue_abandoned(study)
    assert len(running(study)) == 1  # it may be alive
    monkeypatch.setattr(studies, "STALE", -1)
    queue_abandoned(study)
    assert running(study) == []
    assert ask(study).suggest_float("x", 0, 1) == 0.5
    beat(trial)  # it was only asleep
    assert is_hopeless("sqlite://", trial, RUNGS[0], 0.9)


def test_a_trial_is_hopeless_if_half_of_the_others_were_better_in_any_process(opened):
    study = opened()
    for score in range(8):
        other = ask(study)
        assert not is_hopeless("sqlite://", other, RUNGS[0], score)
        study.tell(other, score)
    sent = [pickle.loads(pickle.dumps(ask(study))) for _ in range(2)]
    assert [is_hopeless("sqlite://", trial, RUNGS[0], score) for trial, score in zip(sent, (3, 4), strict=True)] == [
        True,
        False,
    ]


def test_only_storage_errors_become_study_errors():
    with pytest.raises(KeyError), reachable("sqlite://"):
        raise KeyError("x")


TOGETHER = """
import sys, optuna, psycopg, sqlalchemy.orm
from macrid.tuning.study import open_study
print("ready", flush=True)
sys.stdin.readline()
for url in {urls}:
    open_study(url, "s", {about}, {first}, 0)
"""


@pytest.mark.slow
def test_processes_that_start_together_share_one_study(tmp_path, database):
    urls = [f"sqlite:///{tmp_path}/study.db", database]
    code, pipes = TOGETHER.format(urls=urls, about=ABOUT, first=FIRST), {"stdin": -1, "stdout": -1, "stderr": -1}
    made = [subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in made] == ["ready\n"] * 2
    for process in made:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in made:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    for url in urls:
        study = open_study(url, "s", ABOUT, FIRST, 0)
        assert [trial.state.name for trial in study.trials] == ["WAITING"]
