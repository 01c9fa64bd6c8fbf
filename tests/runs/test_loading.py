"""Opening a run: the model as it was saved, or an error that names the damaged file."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys

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
from macrid.errors import EditedWarning, RunError
from macrid.runs.index import write_index


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


USES = """
import sys
from pathlib import Path

import macrid
from macrid.concepts.meaning import meaning_of

model = macrid.load(sys.argv[1], device="cpu")
for file in Path(sys.argv[1]).iterdir():
    file.write_bytes(b"")
axes = meaning_of(model).axes.values()
print(sum(float(part.sum()) for each in axes for part in (each.rotation, each.low, each.high) if part is not None))
print(model.index.grouping.cell.sum(), len(model.recommend(model.items[:3], n=3).items), model.sample.indices.sum())
"""


def test_overwriting_the_files_of_a_run_in_place_does_no_harm_to_its_loaded_model(run):
    write_index(run, macrid.load(run, device="cpu"))
    done = subprocess.run([sys.executable, "-c", USES, str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_with_a_setting_that_was_removed_opens(run, trained):
    config = json.loads((run / "config.json").read_text())
    config["settings"]["total_correlation"] = 0.3
    (run / "config.json").write_text(json.dumps(config))
    manifest.seal(run, runs.FILES)
    model = macrid.load(run, device="cpu")
    assert model.settings == trained[0].settings


def test_weights_with_nan_are_refused(run):

    state = load_file(run / "model.safetensors")
    state["item_vectors"][3] = float("nan")
    save_file(state, run / "model.safetensors")
    with pytest.raises(RunError, match=r"model\.safetensors"):
        macrid.load(run)


def test_a_damaged_log_is_an_error(run):
    (run / "log.jsonl").write_text("{oops")
    manifest.seal(run, runs.FILES)
    with pytest.raises(RunError, match=str(run)):
        macrid.load(run)


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
    manifest.seal(run, runs.FILES)
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
    manifest.seal(run, runs.FILES)
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


def test_files_of_others_in_a_run_may_change(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "notes.txt").write_text("mine")
    runs.accept(run)
    (run / "notes.txt").write_text("changed")
    macrid.load(run, "cpu")
    assert runs.examine(run) == {}


def test_damaged_caches_are_deleted_when_a_run_is_accepted_and_missing_ones_are_no_problem(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "inspection.json").write_text("[]")
    assert runs.examine(run).keys() == {"inspection.json"}
    runs.accept(run)
    assert not (run / "inspection.json").exists()
    (run / "map.safetensors").unlink()
    assert runs.examine(run) == {}


def test_every_damaged_file_is_named_even_the_config(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    for name in ("config.json", "log.jsonl"):
        (run / name).write_text((run / name).read_text() + " ")
    assert runs.examine(run).keys() == {"config.json", "log.jsonl"}


def test_a_damaged_run_is_not_accepted(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes()[:-1] + b"!")
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        runs.accept(run)
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        macrid.load(run)


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
        manifest.seal(run, runs.FILES)
        with pytest.raises(RunError, match=problem):
            macrid.load(run)


def test_a_run_without_its_manifest_is_damaged(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"manifest\.json: damaged \(it is missing"):
        macrid.load(run)
