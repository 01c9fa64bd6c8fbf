"""macrid tune as a person or a program uses it."""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from macrid.data import store
from macrid.recipe import Recipe
from macrid.tuning import search
from tests.tuning.conftest import Here


@pytest.fixture(scope="module")
def data(shop_split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "tiny"
    store.write(shop_split, folder)
    return folder


@pytest.fixture
def ease(invoke, data, tmp_path, monkeypatch):
    """Tune EASE without training."""
    monkeypatch.setattr(search, "Workers", lambda *args: Here(*args, lambda c: 1 / c.settings["regularisation"]))

    def run(*more, out=tmp_path / "out", trials=3):
        return invoke("tune", data, "--model", "ease", "--trials", trials, "--out", out, *more)

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_a_search_ends_in_a_config_that_trains(invoke, data, tmp_path):
    out = tmp_path / "tuned"
    command = [
        "tune", data, "--trials", 3, "--jobs", 1, "--confirm", 1, "--epochs", 2, "--device", "cpu", "--out", out,
        "--fix", "dim=8", "--fix", "hidden-layers=0", "--fix", "start=random",
    ]  # fmt: skip
    code, printed, err = invoke(*command)
    assert code == 0, err
    assert err.startswith("1/3: trial 0 ")
    assert "importance.png: " in err
    assert shlex.join(["macrid", "train", str(data), "--config", f"{out}/best.json", "--out", "RUN"]) in printed
    assert "(seed 0), " in printed
    assert "(seed 2); mean 0." in printed
    assert {path.name for path in out.iterdir()} == {"best.json", "study.db", "history.png"}
    best = Recipe.read(out / "best.json")
    assert best.settings["dim"] == 8
    assert best.about["study"] == "tiny-macridvae"

    code, printed, err = invoke(*command, "--json")
    assert code == 0, err
    assert re.search(r"tiny-macridvae: .*3 ", err)
    answer = json.loads(printed)
    assert answer["best"] == json.loads((out / "best.json").read_text())
    assert {**answer, "best": None} == {
        "best": None, "trials": 3, "pruned": 0, "failed": 0, "study": "tiny-macridvae", "storage": f"sqlite:///{out}/study.db",
    }  # fmt: skip
    assert Recipe.read(out / "best.json") == best

    code, printed, err = invoke("train", data, "--config", out / "best.json", "--out", tmp_path / "run", "--json")
    assert code == 0, err
    epochs = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert max(epoch["ndcg"] for epoch in epochs) == pytest.approx(best.about["score"], abs=1e-3)  # without neighbours


def test_a_better_trial_is_kept_at_once_and_other_files_stay(ease, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert ease(trials=4)[0] == 0
    written = []
    write = Recipe.write
    monkeypatch.setattr(
        Recipe, "write", lambda config, path: written.append(config.about["score"]) or write(config, path)
    )
    code, printed, err = ease(trials=12)
    assert code == 0, err
    assert re.search(r"tiny-ease: .*4 ", err)
    assert written == sorted(written)
    assert "importance.png: " in err
    assert (out / "notes.txt").read_text() == "mine"
    assert "regularisation" in printed


def test_a_timeout_ends_a_search_early(ease, tmp_path):
    code, printed, err = ease("--timeout", 0.002, trials=100_000)
    assert code == 0, err
    assert " of 100000 " in printed


def test_a_search_works_without_matplotlib(ease, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = ease()
    assert code == 0
    assert "macrid[plot]" in err
    assert not (tmp_path / "out" / "history.png").exists()


@pytest.mark.parametrize(
    ("more", "value"),
    [
        (["--trials", 0], "trials is 0"),
        (["--jobs", 0], "jobs is 0"),
        (["--confirm", -1], "confirm is -1"),
        (["--timeout", 0], "timeout is 0"),
        (["--model", "svd++"], "'svd++'"),
        (["--model", "popularity"], "popularity"),
        (["--fix", "konzepte=7"], "'konzepte'"),
        (["--fix", "regularisation=-1"], "ease"),
        (["--model", "multvae", "--fix", "beta=-1"], "beta is -1"),
        (["--model", "macridvae", "--epochs", 0], "epochs is 0"),
        (["--device", "tpu"], "tpu"),
        (["--storage", "nonsense"], "nonsense: "),
        (["--storage", "postgresql+psycopg://me:s3cret@127.0.0.1:1/x"], "me:***@127.0.0.1:1/x: "),
        (["--storage", "sqlite:////nowhere/x.db"], "/nowhere/x.db"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_leave_nothing_behind(ease, more, value, tmp_path):
    code, out, err = ease(*more)
    assert not (tmp_path / "out").exists()
    assert (code, out) == (1, "")
    assert value in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "s3cret" not in err


def test_training_settings_that_a_model_ignores_are_named_and_dropped(ease, tmp_path):
    code, _, err = ease("--epochs", 3, "--patience", 2)
    assert code == 0
    assert re.search(r"ease .*--epochs, --patience", err)
    assert Recipe.read(tmp_path / "out" / "best.json").training == {"seed": 0}


def test_a_fix_without_a_value_is_wrong_usage(ease):
    code, _, err = ease("--fix", "beta")
    assert code == 2
    assert "'beta'" in err


def test_a_folder_that_holds_something_else_is_left_as_it_is(ease, invoke, data, tmp_path):
    out = tmp_path / "out"
    assert ease()[0] == 0
    before = contents(out)
    for more, value in (
        (["--model", "macridvae"], "'tiny-macridvae'"),
        (["--study", "other"], "'other'"),
        (["--seed", 4], "seed"),
        (["--storage", f"sqlite:///{tmp_path}/new.db"], "best.json: "),
    ):
        code, _, err = ease(*more)
        assert code == 1
        assert value in err
        assert contents(out) == before
    (out / "best.json").unlink()
    code, _, err = ease("--study", "other")
    assert "'tiny-ease'" in err
    assert not (out / "best.json").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("best.json", b'{"model": "ease"}'),
        ("best.json", b"hello"),
        ("study.db", b"hello " * 200),
        ("history.png", b"mine"),
    ],
)
def test_files_of_other_programs_are_never_overwritten(ease, tmp_path, name, content):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_bytes(content)
    code, _, err = ease()
    assert code == 1
    assert f"{out / name}: " in err
    assert (out / name).read_bytes() == content


def test_a_database_of_another_program_gets_no_tables(ease, tmp_path):
    (tmp_path / "out").mkdir()
    connection = sqlite3.connect(tmp_path / "out" / "study.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    code, _, err = ease()
    assert code == 1
    assert "study.db: " in err


def test_a_folder_that_cannot_be_written_is_named(ease, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "in", tmp_path / "what?"):
        code, _, err = ease(out=out)
        assert code == 1
        assert f"{out}: " in err


@pytest.mark.slow
def test_ctrl_c_keeps_finished_trials_and_prints_how_to_continue(data, tmp_path):
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "macrid", "tune", data, "--trials", "2", "--jobs", "1", "--epochs", "1000000",
        "--patience", "1000000", "--device", "cpu", "--fix", "concepts=1", "--out", out,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not _begun(out / "study.db") and time.monotonic() < end and process.poll() is None:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err.decode()
    assert shlex.join(["macrid", "tune", str(data), "--trials", "2"]) in err.decode()
    assert "Traceback" not in err.decode()
    with sqlite3.connect(out / "study.db") as connection:
        states = [state for (state,) in connection.execute("SELECT state FROM trials ORDER BY number")]
    connection.close()
    assert states == ["FAIL", "WAITING"]


def _begun(path):
    """Whether a worker has been at a trial for a while."""
    if not path.exists():
        return False
    connection = sqlite3.connect(path, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM trial_intermediate_values").fetchone()[0] > 0
    except sqlite3.OperationalError:  # no such table yet
        return False
    finally:
        connection.close()
