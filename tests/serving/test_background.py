"""The map and the inspection, computed in another process."""

import json
import os
import shutil
import sys
import time

import numpy as np
import pytest

from macrid import runs
from macrid.errors import RunError
from macrid.files import lock
from macrid.report.inspection import inspect
from macrid.serving import background
from macrid.serving.background import FILES, LOCKED, NICE, Computed, main

FOREVER = "import time; time.sleep(600)"


@pytest.fixture
def run(trained, tmp_path):
    """A run that may be changed."""
    model, split = trained
    runs.save(model, tmp_path / "run", heldout={"test": split.test})
    return tmp_path / "run"


@pytest.fixture
def computed(run):
    """A function that makes a `Computed`, closed at the end."""
    tasks = []

    def make(what="map", weights=None, shared=None):
        tasks.append(Computed(what, run, weights or runs.weights_digest(run), shared))
        return tasks[-1]

    yield make
    for task in tasks:
        task.close()


@pytest.fixture
def process_is(monkeypatch):
    """A function that replaces the other process by a small program, and returns the started ones."""
    original = background.subprocess.Popen

    def use(program):
        started = []
        monkeypatch.setattr(
            background.subprocess,
            "Popen",
            lambda _, **options: started.append(original([sys.executable, "-c", program], **options)) or started[-1],
        )
        return started

    return use


@pytest.fixture
def quick(monkeypatch):
    """Instant map and inspection."""
    monkeypatch.setattr("macrid.pictures.layout.layout", lambda model: (np.zeros(3, "f4"), np.ones(3, "f4")))
    monkeypatch.setattr("macrid.report.inspection.inspect", lambda model, histories, is_final: {"made": 1})


def wait(task):
    end, answer = time.monotonic() + 120, task.get()
    while answer[0] == "computing":
        assert time.monotonic() < end
        time.sleep(0.02)
        answer = task.get()
    return answer


def compute(run, what, spare, weights=None):
    main(run, spare, what, weights or runs.weights_digest(run))


@pytest.mark.slow
def test_map_and_inspection_are_computed_once_and_saved_in_the_run(run, trained, computed, monkeypatch):
    monkeypatch.setattr(background, "NICE", 0)  # next to other tests, low priority takes ten times as long
    first = {what: computed(what) for what in FILES}
    assert [task.get() for task in first.values()] == [("computing", None, None)] * 2
    state, (x, y), message = wait(first["map"])
    assert (state, len(x), len(y), message) == ("ready", len(trained[0].items), len(trained[0].items), None)
    state, inspection, message = wait(first["inspection"])
    assert (state, message) == ("ready", None)
    assert inspection == json.loads(json.dumps(inspect(runs.load(run, "cpu"), trained[1].test.history)))
    assert {*FILES.values()} <= {entry.name for entry in run.iterdir()} <= {*runs.FILES}
    monkeypatch.setattr(background.subprocess, "Popen", None)
    assert computed("inspection").get() == ("ready", inspection, None)
    np.testing.assert_array_equal(computed("map").get()[1], [x, y])


def test_a_damaged_map_or_one_of_other_weights_is_computed_again(run, computed, process_is, quick, tmp_path):
    compute(run, "map", tmp_path)
    assert computed().get()[0] == "ready"
    started = process_is(FOREVER)
    assert computed(weights="other").get()[:2] == ("computing", None)
    for damage in (b"", b"\xff" * 100):
        (run / FILES["map"]).write_bytes(damage)
        assert computed().get()[:2] == ("computing", None)
    assert len(started) == 3


def test_new_names_invalidate_the_inspection_but_not_the_map(run, computed, process_is, quick, tmp_path):
    for what in FILES:
        compute(run, what, tmp_path)
    inspection = computed("inspection")
    assert inspection.get() == ("ready", {"made": 1}, None)
    process_is(FOREVER)
    (run / "names.json").write_text("{}")
    assert inspection.get() == ("computing", {"made": 1}, None)
    assert computed("inspection").get() == ("computing", {"made": 1}, None)
    assert computed("map").get()[0] == "ready"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('openTSNE is missing')", "openTSNE is missing"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("", "exit status 0"),
    ],
)
def test_a_failure_gives_its_reason_and_is_not_retried(computed, process_is, program, reason):
    started = process_is(program)
    task = computed()
    state, result, message = wait(task)
    assert (state, result) == ("failed", None)
    assert reason in message
    assert task.get() == (state, result, message)
    assert len(started) == 1


def test_a_process_that_cannot_start_is_retried(computed, process_is, monkeypatch):
    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(background.subprocess, "Popen", full)
    task = computed()
    state, _, message = task.get()
    assert state == "failed"
    assert "Cannot allocate memory" in message
    process_is(FOREVER)
    assert task.get()[0] == "computing"


@pytest.mark.slow
def test_a_process_waits_for_another_and_uses_its_result(run, computed, quick, monkeypatch):
    monkeypatch.setattr(background, "NICE", 0)
    task = computed()
    with (run / LOCKED["map"]).open("rb") as held:
        assert lock(held.fileno())
        assert task.get()[0] == "computing"
        (run / FILES["map"]).write_bytes(background.compute("map", run, runs.weights_digest(run)))
    state, (x, _), _ = wait(task)
    assert (state, len(x)) == ("ready", 3)  # not the layout of all items


def test_results_of_a_read_only_run_go_to_the_shared_folder(run, computed, quick, tmp_path):
    (run / FILES["map"] / "in the way").mkdir(parents=True)
    (tmp_path / "shared").mkdir()
    compute(run, "map", tmp_path / "shared")
    assert computed(shared=tmp_path / "shared").get()[0] == "ready"
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(FileNotFoundError):
        compute(run, "map", tmp_path / "shared")


def test_a_replaced_run_is_an_error(run, tmp_path):
    with pytest.raises(RunError, match=str(run)):
        compute(run, "map", tmp_path, "other")


def test_get_without_start_starts_nothing(computed, process_is):
    started = process_is("")
    assert computed().get(start=False) == ("computing", None, None)
    assert started == []


def test_the_process_has_low_priority_and_is_killed_on_close(computed, process_is):
    started = process_is(FOREVER)
    task = computed()
    task.get()
    assert os.getpriority(os.PRIO_PROCESS, started[0].pid) == os.getpriority(os.PRIO_PROCESS, 0) + NICE
    task.close()
    assert started[0].returncode == -9
