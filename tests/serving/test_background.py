"""The map and the inspection, computed in another process."""

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
    """A function that makes one of the two; closed at the end."""
    made = []

    def make(what="map", weights=None, shared=None):
        made.append(Computed(what, run, weights or runs.weights_digest(run), shared))
        return made[-1]

    yield make
    for task in made:
        task.close()


@pytest.fixture
def process_is(monkeypatch):
    """Let a small program be the other process; those that were started."""
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
    """A map and an inspection that take no time."""
    monkeypatch.setattr("macrid.pictures.layout.layout", lambda model: (np.zeros(3, "f4"), np.ones(3, "f4")))
    monkeypatch.setattr("macrid.report.inspection.inspect", lambda model, histories: {"made": 1})


def wait(task):
    end, answer = time.monotonic() + 120, task.get()
    while answer[0] == "computing":
        assert time.monotonic() < end
        time.sleep(0.02)
        answer = task.get()
    return answer


def compute(run, what, spare, weights=None):
    main(run, spare, what, weights or runs.weights_digest(run))


def test_both_are_computed_once_and_kept_in_the_run(run, trained, computed, monkeypatch):
    monkeypatch.setattr(background, "NICE", 0)  # beside other tests a low priority takes ten times as long
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


def test_a_map_of_other_weights_or_a_damaged_one_is_computed_again(run, computed, process_is, quick, tmp_path):
    compute(run, "map", tmp_path)
    assert computed().get()[0] == "ready"
    started = process_is(FOREVER)
    assert computed(weights="other").get()[:2] == ("computing", None)
    for damage in (b"", b"\xff" * 100):
        (run / FILES["map"]).write_bytes(damage)
        assert computed().get()[:2] == ("computing", None)
    assert len(started) == 3


def test_new_names_make_another_inspection_but_not_another_map(run, computed, process_is, quick, tmp_path):
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
def test_a_failure_has_its_reason_and_is_not_tried_again(computed, process_is, program, reason):
    started = process_is(program)
    task = computed()
    state, result, message = wait(task)
    assert (state, result) == ("failed", None)
    assert reason in message
    assert task.get() == (state, result, message)
    assert len(started) == 1


def test_a_process_that_cannot_be_started_is_a_failure_until_it_can(computed, process_is, monkeypatch):
    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(background.subprocess, "Popen", full)
    task = computed()
    state, _, message = task.get()
    assert state == "failed"
    assert "Cannot allocate memory" in message
    process_is(FOREVER)
    assert task.get()[0] == "computing"


def test_a_process_waits_for_another_one_and_takes_its_result(run, computed, quick, monkeypatch):
    monkeypatch.setattr(background, "NICE", 0)
    task = computed()
    with (run / LOCKED["map"]).open("rb") as held:
        assert lock(held.fileno())
        assert task.get()[0] == "computing"
        (run / FILES["map"]).write_bytes(background.compute("map", run, runs.weights_digest(run)))
    state, (x, _), _ = wait(task)
    assert (state, len(x)) == ("ready", 3)  # and not that of all items


def test_a_run_that_cannot_be_written_shares_them_elsewhere(run, computed, quick, tmp_path):
    (run / FILES["map"] / "in the way").mkdir(parents=True)
    (tmp_path / "shared").mkdir()
    compute(run, "map", tmp_path / "shared")
    assert computed(shared=tmp_path / "shared").get()[0] == "ready"
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(FileNotFoundError):
        compute(run, "map", tmp_path / "shared")


def test_a_run_that_has_been_replaced_is_not_mistaken_for_the_one_served(run, tmp_path):
    with pytest.raises(runs.RunError, match=str(run)):
        compute(run, "map", tmp_path, "other")


def test_looking_starts_nothing_if_it_may_not(computed, process_is):
    started = process_is("")
    assert computed().get(start=False) == ("computing", None, None)
    assert started == []


def test_the_process_has_a_low_priority_and_ends_when_closed(computed, process_is):
    started = process_is(FOREVER)
    task = computed()
    task.get()
    assert os.getpriority(os.PRIO_PROCESS, started[0].pid) == os.getpriority(os.PRIO_PROCESS, 0) + NICE
    task.close()
    assert started[0].returncode == -9
