"""Runs on disk: written atomically, refused if damaged, foreign or too new."""

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import macrid
from macrid import manifest, runs
from macrid.concepts.meaning import meaning_of
from macrid.data.split import HeldOut
from macrid.errors import EditedWarning, RunError


@pytest.fixture
def run(trained, tmp_path):
    model, split = trained
    runs.save(
        model, tmp_path / "run", heldout={"validation": split.validation, "test": split.test}, data={"source": "x"}
    )
    return tmp_path / "run"


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


def test_a_loaded_run_scores_exactly_as_the_model_did(run, trained):
    model, split = trained
    again = macrid.load(run, device="cpu")
    assert torch.equal(again.scores(split.test.history), model.scores(split.test.history))
    assert again.log == model.log
    assert again.training == model.training
    assert again.table.equals(model.table)


def test_a_loaded_run_has_the_whole_history_and_the_power_of_shares(trained, tmp_path):
    model = copy.deepcopy(trained[0])
    with torch.no_grad():
        model.network.whole.normal_()
        model.network.share_power.fill_(0.37)
    model.save(tmp_path / "run")
    again = macrid.load(tmp_path / "run", device="cpu")
    assert torch.equal(again.network.whole, model.network.whole)
    assert again.network.share_power.item() == pytest.approx(0.37)
    history = trained[1].test.history
    assert torch.equal(again.scores(history), model.scores(history))
    assert not torch.equal(again.scores(history), trained[0].scores(history))


def test_a_run_with_a_setting_that_was_removed_opens(run, trained):
    config = json.loads((run / "config.json").read_text())
    config["settings"]["total_correlation"] = 0.3
    (run / "config.json").write_text(json.dumps(config))
    manifest.seal(run)
    model = macrid.load(run, device="cpu")
    assert model.settings == trained[0].settings


def test_held_out_users_are_kept_in_the_run(run, trained):
    _, split = trained
    for name in ("validation", "test"):
        group: HeldOut = runs.read_heldout(run, name)
        for side in ("history", "target"):
            assert (getattr(group, side) != getattr(getattr(split, name), side)).nnz == 0


def test_reading_held_out_users_of_a_run_without_any_is_an_error(trained, tmp_path):
    runs.save(trained[0], tmp_path / "bare")
    with pytest.raises(RunError, match="bare"):
        runs.read_heldout(tmp_path / "bare", "test")


def test_weights_with_nan_are_refused(run):
    from safetensors.torch import load_file, save_file

    state = load_file(run / "model.safetensors")
    state["item_vectors"][3] = float("nan")
    save_file(state, run / "model.safetensors")
    with pytest.raises(RunError, match=r"model\.safetensors"):
        macrid.load(run)


def test_a_damaged_log_is_an_error(run):
    (run / "log.jsonl").write_text("{oops")
    manifest.seal(run)
    with pytest.raises(RunError, match=str(run)):
        macrid.load(run)


def test_an_attribute_called_popularity_is_renamed(trained, tmp_path):
    import copy

    model = copy.copy(trained[0])
    model.table = model.table.append_column("popularity", model.table.column("title"))
    runs.save(model, tmp_path / "r")
    again = macrid.load(tmp_path / "r")
    assert again.table.column("popularity_").equals(model.table.column("title"))
    np.testing.assert_array_equal(again.popularity, model.popularity)


@pytest.mark.parametrize("name", ["model.safetensors", "items.parquet", "config.json", "heldout.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "garbage"])
def test_a_damaged_file_is_named(run, name, damage):
    file = run / name
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes({"empty": b"", "truncated": content[: len(content) // 2], "garbage": os.urandom(64)}[damage])

    def use():
        runs.read_heldout(run, "test") if name == "heldout.safetensors" else macrid.load(run)

    with pytest.raises(RunError, match=str(run) if (name[0], damage) == ("h", "missing") else name):
        use()


def test_weights_that_do_not_match_the_items_are_refused(run):
    table = pq.read_table(run / "items.parquet")
    pq.write_table(table.slice(0, 50), run / "items.parquet")
    manifest.seal(run)
    with pytest.raises(RunError, match=str(run)):
        macrid.load(run)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 99, "version": "7.0"}, r"macrid 7\.0 in format 99.* upgrade"),
        ({"class": "Oracle9000"}, "'Oracle9000'"),
        ({"settings": {"concepts": -1}}, "concepts is -1"),
        ({"settings": {"colour": "red"}}, "'colour'"),
        ({"format": "one"}, "config.json"),
    ],
)
def test_an_unusable_config_is_refused(run, change, named):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, **change}))
    manifest.seal(run)
    with pytest.raises(RunError, match=named):
        macrid.load(run)


def test_missing_foreign_and_unfinished_runs_have_their_own_errors(tmp_path):
    with pytest.raises(RunError, match=r"nowhere: .*`macrid train DATA --out"):
        macrid.load(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"config\.json"):
        macrid.load(tmp_path)
    (tmp_path / "half" / "training").mkdir(parents=True)
    with pytest.raises(RunError, match=r"half: .* --resume"):
        macrid.load(tmp_path / "half")
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(RunError, match=r"config\.json"):
        macrid.load(tmp_path)


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
count, stop_at = 0, int(sys.argv[3])
original = files.os.fsync
def fsync(descriptor):
    global count
    count += 1
    if count == stop_at:
        os.kill(os.getpid(), signal.SIGKILL)
    original(descriptor)
files.os.fsync = fsync
model.save(sys.argv[2], overwrite=True)
"""


@pytest.mark.parametrize("stop_at", [1, 6])
def test_a_kill_during_save_leaves_a_complete_run(run, tmp_path, stop_at):
    target = tmp_path / "old"
    shutil.copytree(run, target)
    command = [sys.executable, "-c", KILL_DURING_SAVE, str(run), str(target), str(stop_at)]
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


@pytest.fixture(scope="module")
def whole(shop_split, tmp_path_factory):
    """A run with every kind of file."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    macrid.train(
        shop_split, folder, concepts=3, dim=6, epochs=2, batch_size=60, device="cpu", baselines=False, start="random"
    )
    manifest.update(folder, {"map.safetensors": b"x" * 50, "inspection.json": "{}"})
    return folder


@given(number=st.integers(0, 99), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_in_any_file_is_noticed(whole, number, place, bit):
    files = sorted(file.name for file in whole.iterdir())
    name = files[number % len(files)]
    content = (whole / name).read_bytes()
    changed = bytearray(content)
    changed[int(place * len(content))] ^= 1 << bit
    (whole / name).write_bytes(changed)
    try:
        wrong = runs.examine(whole)
        assert wrong
        if {*wrong} <= {*runs.CACHES}:  # damaged, or their digest is: they are computed again
            macrid.load(whole, "cpu")
        else:
            with pytest.raises((RunError, EditedWarning), match=re.escape(str(whole))):
                macrid.load(whole, "cpu")
    finally:
        (whole / name).write_bytes(content)


def test_an_edited_name_is_used_with_a_warning_until_it_is_accepted(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    names = json.loads((run / "names.json").read_text("utf-8"))
    names["concepts"][1]["name"] = "mine"
    (run / "names.json").write_text(json.dumps(names), "utf-8")
    with pytest.warns(EditedWarning, match=r"names\.json: edited .*macrid doctor .* --accept"):
        model = macrid.load(run, "cpu")
    assert meaning_of(model).names.concept_name(1) == "mine"
    assert runs.examine(run) == {"names.json": "edited since macrid wrote it"}
    runs.accept(run)
    assert runs.examine(run) == {}
    assert meaning_of(macrid.load(run, "cpu")).names.concept_name(1) == "mine"


def test_a_damaged_run_is_not_accepted(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes()[:-1] + b"!")
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        runs.accept(run)
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        macrid.load(run)


INDPTR, INDICES = "test.history.indptr", "test.history.indices"


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (INDPTR, lambda values: values + 1, "row starts"),
        (INDPTR, lambda values: values.flip(0), "row starts"),
        (INDPTR, lambda values: values[:-1], "row starts"),
        (INDPTR, lambda values: torch.cat([values, values[-1:]]), "51 users, targets of 50"),
        (INDPTR, lambda values: values[:0], "damaged"),
        (INDICES, lambda values: values + 1000, "items beyond"),
        (INDICES, lambda values: -1 - values, "items beyond"),
        (INDICES, lambda values: values * 0, "twice"),
        (INDICES, lambda values: values.float(), "damaged"),
        ("items", lambda _: torch.tensor(10_000), "10,000 items"),
        ("items", lambda _: torch.tensor([1, 2]), "damaged"),
    ],
)
def test_held_out_users_that_make_no_sense_are_refused(whole, tmp_path, name, change, problem):
    run = shutil.copytree(whole, tmp_path / "run")
    tensors = load_file(run / "heldout.safetensors")
    save_file({**tensors, name: change(tensors[name]).contiguous()}, run / "heldout.safetensors")
    manifest.seal(run)
    with pytest.raises(RunError, match=problem):
        macrid.load(run)
    assert problem in runs.examine(run)["run"]


def test_ids_that_occur_twice_and_popularities_that_are_no_counts_are_refused(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    table = pq.read_table(run / "items.parquet")
    for column, values, problem in (
        ("id", [table["id"][0].as_py()] * len(table), "twice"),
        ("popularity", [-1] * len(table), "count"),
        ("popularity", [0.5] * len(table), "count"),
        ("popularity", [None] + [1] * (len(table) - 1), "count"),
    ):
        place = table.column_names.index(column)
        pq.write_table(table.set_column(place, column, pa.array(values)), run / "items.parquet")
        manifest.seal(run)
        with pytest.raises(RunError, match=problem):
            macrid.load(run)


def test_a_run_without_its_manifest_is_damaged(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"manifest\.json: damaged \(it is missing"):
        macrid.load(run)
