"""Worker processes and their supervisor."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from uvicorn.config import Config

from macrid.files import lock
from macrid.serving import workers
from macrid.serving.workers import (
    ALIVE,
    LONGEST_PAUSE,
    PREFIX,
    SHORT_LIFE,
    _Life,
    how_it_ended,
    pause_after,
    remove_abandoned,
)
from tests.serving.test_server import serving, wait_until


def workers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = file.read().split()
    return [int(child) for child in children if b"spawn_main" in _command(child)]


def has_begun(pid):
    """Whether a process has loaded libraries of its own, and thus read all that its parent sends it."""
    try:
        with open(f"/proc/{pid}/maps") as file:
            return "libtorch" in file.read()
    except OSError:
        return False


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


@pytest.mark.alone
@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_none_outlives_the_supervisor(popularity_run, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving(popularity_run, "--workers", "2", "--drain", "0.1") as server:
        supervisor = server.process.pid
        (shared,) = tmp_path.glob(f"{PREFIX}*")
        shared.rename(tmp_path / "lost")
        os.kill(supervisor, signal.SIGHUP)
        time.sleep(1)
        (tmp_path / "lost").rename(shared)
        wait_until(lambda: len(workers_of(supervisor)) == 2)
        killed = workers_of(supervisor)[0]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: len({*workers_of(supervisor)} - {killed}) == 2)
        wait_until(lambda: all(has_begun(worker) for worker in workers_of(supervisor)))
        assert server.ask("GET", "/healthz")[0] == 200
        workers = workers_of(supervisor)
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not any(b"spawn_main" in _command(worker) for worker in workers))
        log = server.process.communicate(timeout=10)[1]
    assert len(re.findall(rf"process {killed} was killed by SIGKILL.*; starting another", log)) == 1
    assert log.count("the supervisor has died") >= 1
    assert len(re.findall(r"no reload: .*No such file", log)) == 1
    assert "Traceback" not in log


@pytest.mark.alone
@pytest.mark.slow
def test_workers_that_cannot_start_are_one_line_each_and_stop_the_service(popularity_run, tmp_path):
    """The run goes away between the check of the supervisor and the start of its workers."""
    run = tmp_path / "run"
    run.symlink_to(popularity_run)
    with serving_without_run(run) as process:
        log = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "Traceback" not in log
    assert re.search(r"process \d+ ended with status 3; stopping", log)
    assert "error: no process could start" in log


def serving_without_run(run):
    code = (
        "import sys, macrid.serving.workers as workers; from pathlib import Path; from macrid.cli import main\n"
        "start = workers.Supervisor.init_processes\n"
        "def lose(self): Path(sys.argv[2]).unlink(); start(self)\n"
        "workers.Supervisor.init_processes = lose\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "serve", str(run), "--port", "0", "--workers", "2"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_worker_that_keeps_dying_is_started_less_and_less_often():
    pauses = [pause_after(deaths) for deaths in range(1, 200)]
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    assert sum(pauses[:10]) > 120


def test_a_short_life_counts_only_until_a_long_one(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    life, pauses = _Life(), []
    for lived, serves in ((1, True), (1, True), (1, True), (SHORT_LIFE + 1, True), (1, True), (SHORT_LIFE + 1, False)):
        life.begin()
        if serves:
            life.serve()
        now += lived
        pauses.append(life.end())
    assert pauses == [0, 2, 4, 0, 0, 2]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "status 3"),
        (0, "status 0"),
        (-9, "SIGKILL, possibly for lack of memory"),
        (-11, "SIGSEGV"),
        (-99, "signal 99"),
    ],
)
def test_the_end_of_a_process_is_described(status, words):
    assert words in how_it_ended(status)


def test_a_supervisor_tries_again_where_no_process_can_start(monkeypatch, caplog, tmp_path):
    started = []

    class Process:
        pid, sentinel = 1, None

        def __init__(self, *_):
            if len(started) == 1:
                started.append(None)
                raise OSError(12, "Cannot allocate memory")

        def start(self):
            started.append(self)

    monkeypatch.setattr(workers, "Process", Process)
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    supervisor = workers.Supervisor(Config("app", workers=1), None, tmp_path)
    supervisor.init_processes()
    (first,) = supervisor.processes
    supervisor._lives[first].end()
    supervisor.keep_subprocess_alive()
    assert supervisor.processes == [first]
    assert "no process could be started: [Errno 12] Cannot allocate memory; trying again in 2 s" in caplog.text
    supervisor._lives[first].next_at = 0
    supervisor.keep_subprocess_alive()
    assert supervisor.processes == started[2:]


def test_folders_of_killed_services_are_removed_but_not_those_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders = {name: tmp_path / f"{PREFIX}{name}" for name in ("dead", "alive", "new", "foreign")}
    for name, folder in folders.items():
        folder.mkdir()
        if name != "foreign":
            (folder / ALIVE).touch()
            os.utime(folder / ALIVE, (0, 0) if name != "new" else None)
    with (folders["alive"] / ALIVE).open("rb") as held:
        lock(held.fileno())
        remove_abandoned()
    assert [name for name, folder in folders.items() if folder.exists()] == ["alive", "new", "foreign"]
