"""macrid tune as a person or a program uses it."""

import json
import os
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

pytestmark = pytest.mark.alone  # signals, and processes that wait for each other


@pytest.fixture(scope="module")
def data(shop_split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "tiny"
    store.write(shop_split, folder)
    return folder


@pytest.fixture
def ease(invoke, data, tmp_path, monkeypatch):
    """Search settings of EASE, without training any."""
    monkeypatch.setattr(search, "Workers", lambda *given: Here(*given, lambda c: 1 / c.settings["regularisation"]))

    def run(*more, out=tmp_path / "out", trials=3):
        return invoke("tune", data, "--model", "ease", "--trials", trials, "--out", out, *more)

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_search_ends_in_a_config_that_trains(invoke, data, tmp_path):
    out = tmp_path / "tuned"
    given = [
        "tune", data, "--trials", 3, "--jobs", 1, "--confirm", 1, "--epochs", 2, "--device", "cpu", "--out", out,
        "--fix", "dim=8", "--fix", "hidden-layers=0", "--fix", "start=random",
    ]  # fmt: skip
    code, told, err = invoke(*given)
    assert code == 0, err
    assert err.splitlines()[0].startswith("1/3: trial 0 is the best, 0 pruned, 0 failed, best 0.")
    assert "importance.png: left out, which settings matter is told from 20 trials on" in err
    assert f"next: macrid train {data} --config {out}/best.json --out RUN" in told
    assert "(seed 0), " in told
    assert "(seed 2); mean 0." in told
    assert {path.name for path in out.iterdir()} == {"best.json", "study.db", "history.png"}
    best = Recipe.read(out / "best.json")
    assert best.settings["dim"] == 8
    assert best.about["study"] == "tiny-macridvae"

    code, told, err = invoke(*given, "--json")
    assert code == 0, err
    assert "tiny-macridvae: going on, 3 trials are there" in err
    answer = json.loads(told)
    assert answer["best"] == json.loads((out / "best.json").read_text())
    assert {**answer, "best": None} == {
        "best": None, "trials": 3, "pruned": 0, "failed": 0, "study": "tiny-macridvae", "storage": f"sqlite:///{out}/study.db",
    }  # fmt: skip
    assert Recipe.read(out / "best.json") == best

    code, told, err = invoke("train", data, "--config", out / "best.json", "--out", tmp_path / "run", "--json")
    assert code == 0, err
    assert json.loads(told)["validation"]["metrics"]["ndcg@100"]["mean"] == pytest.approx(best.about["score"], abs=1e-3)


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
    code, told, err = ease(trials=12)
    assert code == 0, err
    assert "tiny-ease: going on, 4 trials are there" in err
    assert written == sorted(written)
    assert "importance.png: left out, only one setting was searched" in err
    assert (out / "notes.txt").read_text() == "mine"
    assert "regularisation" in told


def test_a_timeout_says_how_to_go_on(ease, tmp_path):
    code, told, err = ease("--timeout", 0.002, trials=100_000)
    assert code == 0, err
    assert " of 100000 trials; the same command goes on" in told


def test_without_matplotlib_the_search_ends_well(ease, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = ease()
    assert code == 0
    assert "pictures need matplotlib; install it with `pip install 'macrid[plot]'`" in err
    assert not (tmp_path / "out" / "history.png").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--trials", 0], "trials is 0; it must be at least 1"),
        (["--jobs", 0], "jobs is 0; it must be at least 1"),
        (["--confirm", -1], "confirm is -1; it must be at least 0"),
        (["--timeout", 0], "timeout is 0; it must be above 0"),
        (["--model", "svd++"], "'svd++'"),
        (["--model", "popularity"], "popularity has nothing to tune"),
        (["--fix", "konzepte=7"], "no setting 'konzepte' to fix"),
        (["--fix", "regularisation=-1"], "nothing of ease is left to tune"),
        (["--model", "multvae", "--fix", "beta=-1"], "beta is -1; it must be at least 0"),
        (["--model", "macridvae", "--epochs", 0], "epochs is 0; it must be at least 1"),
        (["--device", "tpu"], "tpu"),
        (["--storage", "nonsense"], "nonsense: not the address of a storage"),
        (["--storage", "postgresql+psycopg://me:s3cret@127.0.0.1:1/x"], "me:***@127.0.0.1:1/x: the storage"),
        (["--storage", "sqlite:////nowhere/x.db"], "unable to open database file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_exit_code_1_and_leaves_nothing_behind(ease, more, told, tmp_path):
    code, out, err = ease(*more)
    assert not (tmp_path / "out").exists()
    assert (code, out) == (1, "")
    assert told in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "s3cret" not in err


def test_training_settings_that_a_model_does_not_use_are_named_and_left_out(ease, tmp_path):
    code, _, err = ease("--epochs", 3, "--patience", 2)
    assert code == 0
    assert "ease is computed at once and makes no use of --epochs, --patience" in err
    assert Recipe.read(tmp_path / "out" / "best.json").training == {"seed": 0}


def test_a_fix_without_a_value_is_wrong_usage(ease):
    code, _, err = ease("--fix", "beta")
    assert code == 2
    assert "'beta' is not NAME=VALUE" in err


def test_a_folder_that_holds_something_else_is_left_as_it_is(ease, invoke, data, tmp_path):
    out = tmp_path / "out"
    assert ease()[0] == 0
    before = contents(out)
    for more, told in (
        (["--model", "macridvae"], "holds the search 'tiny-ease', not 'tiny-macridvae'; give another --out"),
        (["--study", "other"], "holds the search 'tiny-ease', not 'other'"),
        (["--seed", 4], "study 'tiny-ease': was begun with seed 0 instead of 4"),
        (["--storage", f"sqlite:///{tmp_path}/new.db"], "best.json: is not of this study, which is new"),
    ):
        code, _, err = ease(*more)
        assert code == 1
        assert told in err
        assert contents(out) == before
    (out / "best.json").unlink()
    code, _, err = ease("--study", "other")
    assert "holds the search 'tiny-ease'" in err
    assert not (out / "best.json").exists()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("best.json", b'{"model": "ease"}', "best.json: was not written by a search; move it away"),
        ("best.json", b"hello", "best.json: was not written by a search"),
        ("study.db", b"hello " * 200, "study.db: not a study (file is not a database)"),
        ("history.png", b"mine", "history.png: is not of this study, which is new"),
    ],
)
def test_a_file_of_somebody_else_is_never_overwritten(ease, tmp_path, name, content, told):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_bytes(content)
    code, _, err = ease()
    assert code == 1
    assert told in err
    assert (out / name).read_bytes() == content


def test_a_database_of_another_program_gets_no_tables(ease, tmp_path):
    (tmp_path / "out").mkdir()
    connection = sqlite3.connect(tmp_path / "out" / "study.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    code, _, err = ease()
    assert code == 1
    assert "not a study (no such table: studies)" in err


def test_a_place_that_cannot_be_written_is_named(ease, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file; give the name of a folder" in ease(out=tmp_path / "file")[2]
    assert "cannot be written" in ease(out=tmp_path / "file" / "in")[2]
    assert "with one of ?{} in its name" in ease(out=tmp_path / "what?")[2]


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(data, tmp_path):
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "macrid", "tune", data, "--trials", "2", "--jobs", "1", "--epochs", "1000000",
        "--patience", "1000000", "--device", "cpu", "--fix", "concepts=1", "--out", out,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )  # fmt: skip
    end = time.monotonic() + 60
    while not _begun(out / "study.db") and time.monotonic() < end and process.poll() is None:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err.decode()
    told = err.decode()
    assert "0 trials are done and kept; those that were running are tried again" in told
    assert f"go on with: macrid tune {data} --trials 2" in " ".join(told.split("\n"))
    assert "Traceback" not in told
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
