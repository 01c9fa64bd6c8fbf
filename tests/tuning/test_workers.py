"""Processes that run tasks: what comes back, and that one that dies harms no other."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool

import pytest

from macrid.errors import SettingsError, TrainingError
from macrid.tuning.workers import Workers, result_of, run_all

ERRORS = {"settings": SettingsError("dim is 0"), "unexpected": KeyError("x")}


def answer(base, item):
    """The sum and the process that made it; or what the item asks for."""
    if item == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
        return 0, os.getpid()
    if item == "endless":
        time.sleep(600)
    if item in ERRORS:
        raise ERRORS[item]
    return base + item, os.getpid()


@pytest.fixture(scope="module")
def workers():
    with Workers(2, 100) as made:
        yield made


def done(workers, *items):
    """The futures of tasks run at the same time."""
    futures = [workers.submit(answer, item) for item in items]
    wait(futures, timeout=60)
    assert workers.idle() == [0, 1]
    return futures


def test_a_process_runs_several_tasks_with_the_shared_arguments(workers):
    assert workers.idle() == [0, 1]
    first, second = (future.result() for future in done(workers, 1, 2))
    assert (first[0], second[0]) == (101, 102)
    assert first[1] != second[1]
    assert done(workers, 3)[0].result() == (103, first[1])


@pytest.mark.slow
def test_a_process_survives_our_errors_and_ctrl_c_but_no_others(workers):
    _, before = done(workers, 1)[0].result()
    with pytest.raises(SettingsError, match="dim is 0"):
        result_of(done(workers, "settings")[0])
    assert done(workers, "interrupted")[0].result() == (0, before)
    with pytest.raises(TrainingError, match="KeyError: 'x'"):
        result_of(done(workers, "unexpected")[0])
    assert done(workers, 1)[0].result()[1] != before


@pytest.mark.slow
def test_a_killed_process_fails_only_its_task_and_is_replaced(workers):
    killed, other = done(workers, "killed", 1)
    assert isinstance(killed.exception(), BrokenProcessPool)
    with pytest.raises(TrainingError):
        result_of(killed)
    assert other.result()[0] == 101
    _, idle = done(workers, 1)[0].result()
    os.kill(idle, signal.SIGKILL)
    while idle in {child.pid for child in multiprocessing.active_children()}:
        time.sleep(0.01)
    assert done(workers, 5)[0].result()[0] == 105


@pytest.mark.slow
def test_every_item_is_run_once_and_failures_are_results():
    outcomes = dict(run_all(answer, [1, "killed", 2, "settings", 3], 2, 10))
    assert sorted(outcomes) == list(range(5))
    assert [outcomes[position][0] for position in (0, 2, 4)] == [11, 12, 13]
    assert [type(outcomes[position]) for position in (1, 3)] == [TrainingError, SettingsError]


def test_leaving_stops_running_tasks():
    with Workers(1, 0) as workers:
        endless = workers.submit(answer, "endless")
        while not endless.running():
            time.sleep(0.01)
        begin = time.monotonic()
    assert time.monotonic() - begin < 10
    assert isinstance(endless.exception(timeout=1), BrokenProcessPool)
