"""Processes that train: what they report, and that one that dies harms no other."""

import os
import signal
import time

import pytest

from macrid.recipe import Recipe
from macrid.tuning.study import RUNGS
from macrid.tuning.workers import Finished, Reached, Workers

pytestmark = pytest.mark.alone  # signals, and processes that wait for each other

LONG = Recipe("macridvae", {"concepts": 2, "dim": 8}, {"epochs": 10**6, "patience": 10**6, "device": "cpu"})


@pytest.fixture(scope="module")
def workers(shop_split):
    with Workers(2, shop_split.train, shop_split.validation) as made:
        yield made


def heard(workers, number, kind, seconds=60):
    """The first report of that kind from that worker."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for which, report in workers.reports(timeout=1):
            if which == number and isinstance(report, kind):
                return report
    raise AssertionError(f"worker {number} has not reported {kind.__name__}")


def pid(workers, number):
    return workers._workers[number].process.pid


def test_trainings_report_and_processes_are_used_again(workers, shop_split):
    assert workers.idle() == [0, 1]
    workers.start(0, LONG)
    workers.start(1, Recipe("ease"))
    assert workers.idle() == []
    ease = heard(workers, 1, Finished)
    assert (ease.epochs, ease.error) == (0, None)
    assert ease.parameters >= 160 * 160
    assert 0 < ease.score < 1
    reached = heard(workers, 0, Reached)
    assert reached.epoch in RUNGS
    workers.stop(0)
    stopped = heard(workers, 0, Finished)
    assert (stopped.epochs, stopped.error) == (0, None)
    assert stopped.score >= reached.score
    before = pid(workers, 0)
    workers.start(0, Recipe(LONG.model, LONG.settings, {**LONG.training, "epochs": 2}))
    well = heard(workers, 0, Finished)
    assert (well.epochs, well.error, pid(workers, 0)) == (2, None, before)
    assert well.parameters > 2 * 160 * 8


def test_a_training_that_diverges_says_so(workers):
    workers.start(1, Recipe(LONG.model, LONG.settings, {**LONG.training, "learning_rate": 1e30}))
    report = heard(workers, 1, Finished)
    assert report.score is None
    assert "smaller learning rate" in report.error
    assert not report.last


def test_a_process_that_may_be_broken_is_replaced(workers):
    before = pid(workers, 1)
    workers.start(1, Recipe("ease", None))
    report = heard(workers, 1, Finished)
    assert report.error.startswith("TypeError: ")
    workers.start(1, Recipe("ease"))
    assert heard(workers, 1, Finished).error is None
    assert pid(workers, 1) != before


def test_a_killed_process_fails_its_training_only(workers):
    workers.start(0, LONG)
    heard(workers, 0, Reached)
    os.kill(pid(workers, 0), signal.SIGKILL)
    report = heard(workers, 0, Finished)
    assert report.error == "the process that trained it was killed by signal 9, memory may have run out"
    assert workers.idle() == [0, 1]
    workers.stop(0)  # nothing to stop
    os.kill(pid(workers, 1), signal.SIGINT)  # Ctrl-C is for the process that asked
    workers.start(1, Recipe("ease"))
    assert heard(workers, 1, Finished).error is None
