"""A kill at any moment leaves the target as it was, and the same call goes on and ends with the same folder."""

import json
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from macrid.data import store
from macrid.data.large import preparing
from macrid.data.large.engine import ExhaustedError
from macrid.data.large.parts import Request
from macrid.data.large.preparing import Division, Query, prepare
from macrid.data.large.work import Work
from macrid.data.weighing import Weighing
from macrid.errors import DatabaseError, DataError
from tests.data.large.test_preparing import as_text, events, same_folder, timed
from tests.failing import operations, with_failure

FEW = 12  # of the file operations

KILLED = """
import os, signal, sys
from pathlib import Path
from macrid.data.large import preparing
from macrid.data.large.parts import Request

count = 0

def tell(*_):
    global count
    count += 1
    if count == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

preparing.BYTES_PER_PAIR = preparing.MEMORY // 100
preparing.prepare([Path(sys.argv[1])], Path(sys.argv[2]), Request(min_rating=2), min_items=1, tell=tell)
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Some events, which fill several buckets."""
    monkeypatch.setattr(preparing, "BYTES_PER_PAIR", preparing.MEMORY // 100)
    path = tmp_path / "events.csv"
    as_text(events()).to_csv(path, index=False)
    return path


def run(source, out, said=None, **options):
    options = {"min_items": 1, **options}
    return prepare([source], out, Request(min_rating=2), say=(said if said is not None else []).append, **options)


def interrupt(source, out, title, run=run):
    """Begin to prepare, and fail in the stage with this title."""

    def tell(what, *_):
        if what == title:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, out, tell=tell)
    assert not out.exists()


def test_what_was_finished_is_not_done_again(source, tmp_path, monkeypatch):
    run(source, tmp_path / "whole")
    interrupt(source, tmp_path / "data", "merging interactions")
    monkeypatch.setattr(preparing.mapping, "number_users", None)  # calling it again would fail
    monkeypatch.setattr(preparing, "rewritten", None)
    said = []
    run(source, tmp_path / "data", said)
    assert said[0] == "going on after 4 finished stages of an interrupted run"
    same_folder(tmp_path / "whole", tmp_path / "data")
    assert not list(tmp_path.glob(".data*"))


@pytest.mark.parametrize("by", ["time", "last"])
def test_a_split_by_time_goes_on_wherever_it_was_interrupted(source, tmp_path, by):
    path = tmp_path / "timed.parquet"
    timed().to_parquet(path)
    request = Request(weighing=Weighing(time="time", half_life=9.0))

    def divide(_, out, **options):
        return prepare([path], out, request, min_items=1, division=Division(by=by), **options)

    divide(path, tmp_path / "whole")
    titles = ["merging interactions", "dividing by time", "writing interactions", "checking"]
    for title in [*titles, *(["finding the latest events"] if by == "last" else [])]:
        out = tmp_path / title
        interrupt(path, out, title, divide)
        said = []
        divide(path, out, say=said.append)
        assert said[0].startswith("going on after")
        same_folder(tmp_path / "whole", out)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("change", ["input", "options"])
def test_another_input_or_option_starts_over_with_a_note(source, tmp_path, change):
    interrupt(source, tmp_path / "data", "merging interactions")
    if change == "input":
        as_text(events(seed=1)).to_csv(source, index=False)
    said = []
    options = {"min_items": 2} if change == "options" else {}
    run(source, tmp_path / "data", said, **options)
    assert said[0] == f"starting over: {change} changed since the interrupted run"
    run(source, tmp_path / "whole", **options)
    same_folder(tmp_path / "whole", tmp_path / "data")


@pytest.mark.slow
def test_a_work_folder_that_makes_no_sense_is_made_again(source, tmp_path):
    folder = Work.place(tmp_path / "data")
    folder.mkdir()
    (folder / "stages.json").write_text("{")
    said = []
    run(source, tmp_path / "data", said)
    assert said[0].startswith("starting over: its files are incomplete")


def test_a_kill_after_the_last_rename_does_no_harm(source, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Work, "remove", lambda _: None)
        run(source, tmp_path / "data")
    run(source, tmp_path / "data", overwrite=True)
    run(source, tmp_path / "whole")
    same_folder(tmp_path / "whole", tmp_path / "data")
    assert not list(tmp_path.glob(".data*"))


def test_an_error_leaves_the_old_folder(source, tmp_path):
    run(source, tmp_path / "data")
    before = store.read_about(tmp_path / "data")
    source.write_text("user,item,rating\n1,2,5\n1,,5\n")
    with pytest.raises(DataError, match=r"events.csv, column 'item': row 2 \(line 3\) has no id"):
        run(source, tmp_path / "data", overwrite=True)
    assert store.read_about(tmp_path / "data") == before


def test_an_error_in_a_later_file_leaves_nothing_behind(source, tmp_path):
    other = tmp_path / "more.csv"
    other.write_text("user,thing\n1,2\n")
    with pytest.raises(DataError, match=r"more\.csv"):
        prepare([source, other], tmp_path / "data", Request(min_rating=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.csv", "more.csv"]


def test_a_slip_in_a_command_costs_nothing_that_another_has_made(source, tmp_path):
    run(source, tmp_path / "whole")
    interrupt(source, tmp_path / "data", "merging interactions")
    (tmp_path / "half.parquet").write_bytes(b"PAR1" + bytes(99))
    for wrong, request in ((source, Request(user="usr")), (tmp_path / "half.parquet", Request())):
        with pytest.raises(DataError, match=r"usr|half\.parquet"):
            prepare([wrong], tmp_path / "data", request)
    with pytest.raises(DatabaseError, match="no such table"):
        prepare(Query("SELECT * FROM absent", f"sqlite:///{empty_database(tmp_path)}"), tmp_path / "data", Request())
    said = []
    run(source, tmp_path / "data", said)
    assert said[0] == "going on after 4 finished stages of an interrupted run"
    same_folder(tmp_path / "whole", tmp_path / "data")


def empty_database(folder):
    path = folder / "empty.db"
    sqlite3.connect(path).close()
    return path


def test_too_little_memory_leaves_what_was_finished(source, tmp_path, monkeypatch):
    def exhausted(*_):
        raise ExhaustedError("not enough memory")

    with monkeypatch.context() as patch:
        patch.setattr(preparing.mapping, "number_items", exhausted)
        with pytest.raises(ExhaustedError):
            run(source, tmp_path / "data")
    said = []
    run(source, tmp_path / "data", said)
    assert said[0] == "going on after 2 finished stages of an interrupted run"


def test_only_one_process_prepares_a_folder(source, tmp_path):
    def tell(*_):
        with pytest.raises(DataError, match="in use by another process"):
            run(source, tmp_path / "data")

    run(source, tmp_path / "data", tell=tell)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["error", "kill"])
def test_a_failure_of_any_file_operation_leaves_nothing_half_written(source, tmp_path, kind):
    run(source, tmp_path / "whole")
    count = operations(lambda: run(source, tmp_path / "counted"))
    for number in range(0, count, max(1, count // FEW)):
        out = tmp_path / f"{number}"
        succeeded = with_failure(lambda out=out: run(source, out), number, kind, (DataError, OSError))
        if out.exists():
            same_folder(tmp_path / "whole", out)
        else:
            assert not succeeded
        run(source, out, overwrite=True)
        same_folder(tmp_path / "whole", out)
        shutil.rmtree(out)


@pytest.mark.slow
@pytest.mark.alone
def test_a_killed_process_leaves_nothing_at_the_target_and_the_next_one_goes_on(source, tmp_path):
    run(source, tmp_path / "whole")
    out = tmp_path / "data"
    finished = []
    for moment in (2, 3, 5, 8):  # it gets further each time
        command = [sys.executable, "-c", KILLED, str(source), str(out), str(moment)]
        code = subprocess.run(command, timeout=60, check=False).returncode
        if code == 0:
            break
        assert code == -9
        assert not out.exists()
        finished.append(len(json.loads((Work.place(out) / "stages.json").read_text())["finished"]))
    assert len(finished) > 1
    assert np.all(np.diff(finished) >= 0)
    run(source, out, overwrite=True)
    same_folder(tmp_path / "whole", out)
    assert not list(tmp_path.glob(".data*"))
