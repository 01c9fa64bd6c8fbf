"""Progress bars: one display in a notebook, one line elsewhere, none where the caller watches."""

import io
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

import macrid
from macrid import progress


class Notebook:
    """What a notebook would show: every display, with all that was put into it."""

    def __init__(self):
        self.displays = []

    def display(self, page, display_id):
        assert display_id is True
        shown = [page]
        self.displays.append(shown)
        return SimpleNamespace(update=shown.append)


@pytest.fixture
def notebook(monkeypatch):
    shown = Notebook()
    shell = type("ZMQInteractiveShell", (), {})()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell
    display.HTML, display.display = str, shown.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def fit(split, **keywords):
    model = macrid.MacridVAE(concepts=3, dim=4, neighbours=0)
    return model.fit(split.train, validation=split.validation, epochs=3, batch_size=50, device="cpu", **keywords)


def test_training_in_a_notebook_updates_one_display_and_prints_nothing(notebook, shop_split, capsys):
    fit(shop_split)
    (updates,) = notebook.displays
    assert 4 <= len(updates) <= 12  # each epoch, its end, and at most a few in between
    assert "epoch 1/3" in updates[0]
    assert 'value="1" max="1"' in updates[-1]
    assert "3 epochs" in updates[-1]
    assert re.search(r"NDCG 0\.\d+ \(best 0\.\d+\)", updates[-1])
    assert capsys.readouterr() == ("", "")


def test_steps_in_between_are_shown_at_most_every_so_often(notebook, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock) * progress.SECONDS_BETWEEN / 10)
    bar = progress.NotebookBar()
    for step in range(500):
        bar.show("epoch 1/2", step, 1000)
    assert len(notebook.displays) == 1
    assert 20 <= len(notebook.displays[0]) <= 60


def test_a_whole_training_ends_ready_and_keeps_its_notes(notebook, shop_split, tmp_path):
    macrid.train(shop_split, tmp_path / "run", epochs=2, dim=4, concepts=3, device="cpu", resume=True)
    (updates,) = notebook.displays
    assert "no checkpoint yet, starting from the beginning" in updates[-1]
    assert "ready" in updates[-1]
    assert any("turning axes and naming" in update for update in updates)
    macrid.train(shop_split, tmp_path / "other", model="popularity")
    assert len(notebook.displays) == 2


def test_there_is_no_bar_where_the_caller_watches_or_declines(notebook, shop_split, tmp_path):
    fit(shop_split, on_epoch=lambda record: None)
    fit(shop_split, progress=False)
    events = []
    macrid.train(shop_split, tmp_path / "run", model="popularity", progress=events.append)
    macrid.train(shop_split, tmp_path / "other", model="popularity", progress=False)
    assert notebook.displays == []
    assert events


def test_callbacks_are_called_beside_a_bar(notebook, shop_split):
    epochs, steps = [], []
    fit(shop_split, progress=True, on_epoch=epochs.append, on_step=lambda *step: steps.append(step))
    assert len(epochs) == 3
    assert len(steps) == 18
    assert len(notebook.displays) == 1


def test_outside_a_notebook_there_is_a_bar_on_request_only(shop_split, capsys):
    fit(shop_split)
    assert capsys.readouterr() == ("", "")
    fit(shop_split, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("3 epochs ")
    assert macrid.EASE().fit(shop_split.train, progress=True)


def test_an_interrupted_bar_is_closed_with_its_last_state(notebook, shop_split):
    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(shop_split, progress=True, on_epoch=stop)
    assert "epoch 1/3" in notebook.displays[0][-1]


def test_a_terminal_gets_one_line_that_is_rewritten(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **how: Console(file=shown, force_terminal=True, width=80, **{
        name: value for name, value in how.items() if name != "stderr"
    }))  # fmt: skip
    bar = progress.new_bar()
    for step in range(50):
        bar.show("epoch [1]", step, 50, "loss 3")
    bar.note("[note]")
    bar.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    assert {line.strip() for line in plain.replace("\r", "\n").split("\n") if "epoch" not in line} <= {"", "[note]"}
    assert "epoch [1]" in plain
