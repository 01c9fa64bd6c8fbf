"""`macrid studio` up to the moment it serves: the built-in shop, a run, a file."""

import re

import pyarrow.csv
import pytest

from macrid import runs
from macrid.data import shop
from macrid.serving import trainer
from tests.cli.test_serve import started  # noqa: F401


@pytest.fixture
def events(tmp_path):
    """A file of events, quick to train on."""
    path = tmp_path / "my events.csv"
    pyarrow.csv.write_csv(shop.generate(users=300, items=100, seed=5).interactions.to_frame(), path)
    return path


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """A small shop, and trainings of seconds."""
    original = shop.generate
    monkeypatch.setattr(
        shop, "generate", lambda seed=0, **size: original(**{"users": 500, "items": 200, **size}, seed=seed)
    )
    monkeypatch.setitem(trainer.EFFORTS, "best", {"epochs": 3, "baselines": False})
    monkeypatch.chdir(tmp_path)


def digest(run):
    return runs.weights_digest(run)


@pytest.mark.slow
def test_the_built_in_shop_is_trained_once_and_opens_in_a_browser(invoke, started, tmp_path, monkeypatch):  # noqa: F811
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    code, _, err = invoke("studio", "--out", tmp_path / "made")
    assert code == 0, err
    assert "the shop: 500 users" in err
    ((run, settings, *_, ready),) = started
    assert (run, settings.training, settings.host) == (tmp_path / "made" / "shop", "auto", "127.0.0.1")
    ready("http://127.0.0.1:8000/")
    assert opened == ["http://127.0.0.1:8000/"]
    before = digest(run)
    code, _, err = invoke("studio", "--out", tmp_path / "made", "--no-browser", "--no-training")
    assert (code, "the shop" in err) == (0, False)
    assert digest(run) == before
    assert started[-1][1].training == "no"
    started[-1][3]("http://127.0.0.1:8000/")
    assert len(opened) == 1


def test_a_run_is_served_as_it_is(invoke, started, trained_run, tmp_path):  # noqa: F811
    code, _, err = invoke("studio", trained_run, "--port", "0")
    assert code == 0, err
    assert started[0][0] == trained_run
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_a_file_is_trained_on_once(invoke, started, events, tmp_path):  # noqa: F811
    code, out, err = invoke("studio", events, "--port", "0", "--no-browser")
    assert code == 0, err
    assert re.search(r"my events.csv: \d+,\d+ rows", err)
    assert "NDCG@100" in out
    run = tmp_path / "macrid-studio" / "my-events"
    assert started[0][0] == run.relative_to(tmp_path)
    assert runs.read_config(run)["data"]["file"] == "my events.csv"
    code, out, err = invoke("studio", events, "--port", "0", "--no-browser")
    assert "trained before" in err
    assert (out, started[1][0]) == ("", started[0][0])
    events.write_bytes(events.read_bytes().replace(b"user-0001", b"user-9999"))
    assert invoke("studio", events, "--port", "0", "--no-browser")[0] == 0
    assert started[2][0].name == "my-events-2"
    assert invoke("studio", events, "--port", "0", "--no-browser", "--overwrite")[0] == 0
    assert started[3][0].name == "my-events-2"


def test_an_interrupted_training_goes_on(invoke, started, events, tmp_path, monkeypatch):  # noqa: F811
    from macrid.cli import studio

    class Interrupting(studio.Display):
        def __call__(self, event):
            super().__call__(event)
            if event.phase == "training" and event.epoch is None and "2/" in event.text:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(studio, "Display", Interrupting)
        assert invoke("studio", events, "--port", "0", "--no-browser")[0] == 130
    assert started == []
    code, _, err = invoke("studio", events, "--port", "0", "--no-browser")
    assert code == 0, err
    assert "continuing after epoch 1" in err
    assert sorted(path.name for path in (tmp_path / "macrid-studio").iterdir()) == ["my-events"]
    assert not (tmp_path / "macrid-studio" / "my-events" / "training").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["none.csv"], "no such run or file"),
        (["photo.png"], "PNG picture"),
        (["events.csv", "--user-col", "who"], "no column 'who'"),
        (["events.csv", "--items", "none.csv"], "none.csv: no such file"),
        (["--host", "0.0.0.0"], "--open"),
        (["--host", "0.0.0.0", "--open", "--training"], "edit"),
        ([".", "--port", "0"], "not a run"),
    ],
)
def test_what_cannot_be_opened_is_an_error_before_any_training(invoke, started, tmp_path, options, words):  # noqa: F811
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n" + bytes(99))
    (tmp_path / "events.csv").write_text("user,item\n1,2\n")
    code, out, err = invoke("studio", *options)
    assert (code, out, started) == (1, "", [])
    assert words in err
    assert not (tmp_path / "macrid-studio").exists()
