"""The map and the inspection, worked out in another process."""

import json
import os
import shutil
import sys
import time

import numpy as np
import pytest

from macrid import runs
from macrid.files import lock
from macrid.report.inspection import inspect
from macrid.serving import background
from macrid.serving.background import BUSY, Background, main


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """A run of its own, and a temporary place of its own."""
    model, split = trained
    runs.save(model, tmp_path / "run", heldout={"test": split.test})
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(background.tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "run"


@pytest.fixture
def quick(monkeypatch):
    """Look again at once."""
    monkeypatch.setattr(background, "LOOK_EVERY", 0.0)


def wait(look):
    begin, state = time.monotonic(), look()
    while state[0] == "computing":
        assert time.monotonic() - begin < 120
        time.sleep(0.05)
        state = look()
    return state


def worker(run, what, weights="weights"):
    """Work it out in this process."""
    return main([str(run), what, weights, background._stamp(run), str(background._place(run))])


def fake(monkeypatch, program):
    """Let a small program be the other process."""
    started = []
    original = background.subprocess.Popen

    def start(command, **options):
        started.append(command)
        return original([sys.executable, "-c", program], **options)

    monkeypatch.setattr(background.subprocess, "Popen", start)
    return started


def test_both_are_worked_out_once_and_kept_in_the_run(run, trained, quick):
    model, split = trained
    first = Background(run, "weights")
    assert first.map() == ("computing", None, None)
    assert first.inspection() == ("computing", None, None)
    state, (x, y), message = wait(first.map)
    assert (state, len(x), len(y), message) == ("ready", len(model.items), len(model.items), None)
    state, found, _ = wait(first.inspection)
    assert (state, found) == ("ready", json.loads(json.dumps(inspect(runs.load(run, "cpu"), split.test.history))))
    first.close()
    assert {"map.safetensors", "inspection.json"} <= {entry.name for entry in run.iterdir()} <= {*runs.FILES}
    second = Background(run, "weights")
    assert (second.map()[0], second.inspection()[0]) == ("ready", "ready")
    np.testing.assert_array_equal(second.map()[1], [x, y])


def test_a_map_of_other_weights_or_a_damaged_one_is_worked_out_again(run, monkeypatch, quick):
    monkeypatch.setattr(background, "layout", lambda model: (np.zeros(3, np.float32), np.ones(3, np.float32)))
    assert worker(run, "map", "old") == 0
    assert Background(run, "old").map()[0] == "ready"
    started = fake(monkeypatch, "import time; time.sleep(60)")
    for damage in (None, b"", b"\xff" * 100):
        if damage is not None:
            (run / "map.safetensors").write_bytes(damage)
        found = Background(run, "new")
        assert found.map()[0] == "computing"
        found.close()
    assert len(started) == 3


def test_names_make_another_inspection_but_not_another_map(run, monkeypatch, quick):
    monkeypatch.setattr(background, "layout", lambda model: (np.zeros(3, np.float32), np.ones(3, np.float32)))
    monkeypatch.setattr("macrid.report.inspection.inspect", lambda model, histories: {"made": 1})
    assert (worker(run, "map"), worker(run, "inspection")) == (0, 0)
    found = Background(run, "weights")
    assert found.inspection() == ("ready", {"made": 1}, None)
    started = fake(monkeypatch, "import time; time.sleep(60)")
    (run / "names.json").write_text("{}")
    assert found.inspection() == ("computing", {"made": 1}, None)
    assert found.map()[0] == "ready"
    assert Background(run, "weights").map()[0] == "ready"
    found.close()
    assert len(started) == 1


def test_a_failure_is_told_and_not_tried_again(run, monkeypatch, quick):
    started = fake(monkeypatch, "import sys; sys.exit('a map needs openTSNE; install it')")
    found = Background(run, "weights")
    state, placed, message = wait(found.map)
    assert (state, placed) == ("failed", None)
    assert message == "the map could not be worked out: a map needs openTSNE; install it"
    assert found.map() == (state, placed, message)
    assert len(started) == 1


@pytest.mark.parametrize(
    ("program", "told"),
    [("import os; os.kill(os.getpid(), 9)", "signal 9; there may be too little memory"), ("", "cannot be read again")],
)
def test_a_process_that_is_killed_or_leaves_nothing_is_a_failure(run, monkeypatch, quick, program, told):
    fake(monkeypatch, program)
    state, _, message = wait(Background(run, "weights").map)
    assert state == "failed"
    assert told in message


def test_what_another_process_works_out_is_waited_for(run, monkeypatch, quick):
    monkeypatch.setattr(background, "layout", lambda model: (np.zeros(3, np.float32), np.ones(3, np.float32)))
    started = fake(monkeypatch, "")
    found = Background(run, "weights")
    held = os.open(background._place(run) / "map.lock", os.O_RDWR | os.O_CREAT)
    assert lock(held)
    assert found.map()[0] == "computing"
    assert worker(run, "map") == BUSY
    assert started == []
    os.close(held)
    assert worker(run, "map") == 0
    assert found.map()[0] == "ready"
    assert started == []


def test_a_run_that_cannot_be_written_has_them_in_a_temporary_place(run, monkeypatch, quick, capsys):
    monkeypatch.setattr(background, "layout", lambda model: (np.zeros(3, np.float32), np.ones(3, np.float32)))
    (run / "map.safetensors" / "in the way").mkdir(parents=True)
    assert worker(run, "map") == 0
    assert Background(run, "weights").map()[0] == "ready"
    shutil.rmtree(background._place(run))
    monkeypatch.setattr(background, "write_atomically", full_disk)
    assert worker(run, "map") == 1
    assert "No space left on device), nor " in capsys.readouterr().err


def full_disk(*_):
    raise OSError(28, "No space left on device")


def test_a_run_that_was_replaced_in_the_meantime_is_not_mistaken(run, capsys):
    assert main([str(run), "map", "weights", "another stamp", ""]) == 1
    assert "was replaced in the meantime" in capsys.readouterr().err


def test_a_temporary_place_of_somebody_else_is_not_used(run, tmp_path):
    base = background._place(run).parent
    base.chmod(0o777)
    assert background._place(run) is None
    shutil.rmtree(base)
    base.symlink_to(tmp_path)
    assert background._place(run) is None


def test_looking_does_not_start_the_map_unless_it_may(run, monkeypatch, quick):
    started = fake(monkeypatch, "")
    assert Background(run, "weights").map(start=False)[0] == "computing"
    assert started == []


def test_closing_ends_the_process(run, monkeypatch):
    fake(monkeypatch, "import time; time.sleep(600)")
    found = Background(run, "weights")
    found.map()
    process = found._tasks["map"]._process
    found.close()
    assert process.returncode == -15
