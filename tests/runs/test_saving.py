"""Writing a run: complete or not at all."""

import copy
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import macrid
from macrid import runs
from macrid.errors import RunError


def test_a_run_contains_weights_settings_items_and_log_and_nothing_pickled(run, trained):
    model, _ = trained
    names = {path.name for path in run.iterdir()}
    assert names == {
        "config.json", "model.safetensors", "items.parquet", "log.jsonl", "heldout.safetensors", "axes.safetensors",
        "manifest.json",
    }  # fmt: skip
    config = json.loads((run / "config.json").read_text())
    assert config["class"] == "MacridVAE"
    assert config["settings"]["dim"] == 16
    assert config["version"] == macrid.__version__
    assert len((run / "log.jsonl").read_text().splitlines()) == len(model.log)
    table = pq.read_table(run / "items.parquet")
    assert table.column_names[0] == "id"
    assert {"title", "category", "popularity"} <= set(table.column_names)


def test_an_attribute_called_popularity_is_renamed(trained, tmp_path):

    model = copy.copy(trained[0])
    model.table = model.table.append_column("popularity", model.table.column("title"))
    runs.save(model, tmp_path / "r")
    again = macrid.load(tmp_path / "r")
    assert again.table.column("popularity_").equals(model.table.column("title"))
    np.testing.assert_array_equal(again.popularity, model.popularity)


def test_a_run_is_only_replaced_on_request(run, trained, tmp_path):
    model, _ = trained
    with pytest.raises(RunError, match="--overwrite"):
        runs.save(model, run)
    runs.save(model, run, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def snapshot(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


SAVE_WITH_LIMIT = """
import resource, sys, macrid, signal
from macrid.errors import RunError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = macrid.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
try:
    model.save(sys.argv[2], overwrite=True)
except RunError as error:
    print(error); sys.exit(7)
"""


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_run_and_no_leftovers(run, tmp_path):
    target = tmp_path / "old"
    shutil.copytree(run, target)
    before = snapshot(target)
    done = subprocess.run(
        [sys.executable, "-c", SAVE_WITH_LIMIT, run, target], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(f"{target}: ")
    assert snapshot(target) == before
    assert {path.name for path in tmp_path.iterdir()} == {"run", "old"}


KILL_DURING_SAVE = """
import os, signal, sys, macrid
from macrid import files
model = macrid.load(sys.argv[1])
count = 0
original = files.os.fsync
def fsync(descriptor):
    global count
    count += 1
    if count == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    original(descriptor)
files.os.fsync = fsync
model.save(sys.argv[2], overwrite=True)
"""


@pytest.mark.slow
def test_a_kill_during_save_leaves_a_complete_run(run, tmp_path):
    target = tmp_path / "old"
    shutil.copytree(run, target)
    command = [sys.executable, "-c", KILL_DURING_SAVE, run, target]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert macrid.load(target).items == macrid.load(run).items


def test_a_kill_between_the_renames_is_undone_by_the_next_load(run, tmp_path):
    run.rename(tmp_path / ".run.previous")
    assert len(macrid.load(run).items) == 160


def test_integer_and_string_ids_survive(tmp_path):
    for ids in ([5, 3, 9, 1], ["a", "b b", "ü", "007"]):
        from macrid.data.ids import Ids
        from macrid.data.interactions import Interactions

        rows, columns = np.nonzero(np.ones((6, 4)) - np.eye(6, 4))
        data = Interactions.from_pairs(rows, columns, Ids.range(6), Ids(ids))
        model = macrid.MacridVAE(concepts=1, dim=2).fit(data, epochs=1)
        model.save(tmp_path / "r", overwrite=True)
        again = macrid.load(tmp_path / "r")
        assert list(again.items) == ids
        assert again.recommend(ids[:2], 2).items == model.recommend(ids[:2], 2).items
