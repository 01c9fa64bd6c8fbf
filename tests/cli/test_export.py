"""macrid export: what it writes and prints, and what it refuses."""

import json
import sys

import numpy as np
import pytest

import macrid
from macrid import runs
from tests.export.making import Exported


def test_a_run_becomes_a_graph_that_agrees_with_it(invoke, trained_run, trained, tmp_path):
    model, split = trained
    file = tmp_path / "shop.onnx"
    code, out, err = invoke("export", trained_run, "--onnx", file, "--json")
    assert (code, err) == (0, "")
    written = json.loads(out)
    assert written["agreement"]["users"] == split.validation.history.shape[0] + split.test.history.shape[0]
    assert written["agreement"]["difference"] < 1e-4
    assert written["bytes"] == file.stat().st_size
    history = list(model.items)[:3]
    positions = Exported(file)([model.items.positions(history)], n=5)[0][0]
    assert [model.items[position] for position in positions] == model.recommend(history, 5).ids


def test_the_output_says_what_was_written_and_compared(invoke, trained_run, tmp_path):
    file, folder = tmp_path / "shop.onnx", tmp_path / "vectors"
    code, out, _ = invoke("export", trained_run, "--onnx", file, "--vectors", folder, "--input", "weights")
    assert code == 0
    first, second, third = out.splitlines()
    assert first.startswith(f"{file}: ")
    assert "100 users, largest difference " in first
    assert second == f"{tmp_path / 'shop.items.parquet'}: ids and titles of the items by position"
    assert third.startswith(f"{folder}: ")
    assert "vectors of 17 numbers in 7 concepts" in third
    assert Exported(file).names == ["items", "weights", "n", "exclude_seen"]
    code, out, _ = invoke("export", trained_run, "--vectors", folder, "--json", "--overwrite")
    assert (code, json.loads(out)["dim"]) == (0, 17)


def test_items_added_after_training_are_exported(invoke, trained_run, trained, tmp_path):
    import shutil

    from macrid.additions import add_items

    run = shutil.copytree(trained_run, tmp_path / "run")
    model, _ = trained
    (tmp_path / "new.csv").write_text("id,category\nnew-1,bags\n")
    before = runs.weights_digest(run) + runs.added_digest(run)
    add_items(run, tmp_path / "new.csv")
    assert runs.weights_digest(run) + runs.added_digest(run) != before
    assert invoke("export", run, "--onnx", tmp_path / "run.onnx")[0] == 0
    positions = Exported(tmp_path / "run.onnx")([[len(model.items), 3]], n=len(model.items) + 9)[0]
    assert positions.shape == (1, len(model.items) + 1)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "--onnx FILE, --vectors DIR"),
        (["--onnx", "."], 1, ".: is a folder"),
        (["--onnx", "nowhere/a.onnx"], 1, "nowhere/a.onnx: no folder "),
        (["--onnx", "old.onnx"], 1, "old.onnx: already exists"),
        (["--vectors", "full"], 1, "full: contains 'other.txt'"),
        (["--onnx", "a.onnx", "--input", "age"], 1, "no input 'age'; choose from weights, hidden, allowed"),
        (["--vectors", "a", "--input", "hidden"], 1, "no input 'hidden'; choose from weights"),
    ],
)
def test_bad_options_are_refused_before_any_work(invoke, trained_run, tmp_path, monkeypatch, options, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.onnx").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other.txt").touch()
    ended, out, err = invoke("export", trained_run, *options)
    assert (ended, out) == (code, "")
    assert message in err
    assert {file.name for file in tmp_path.iterdir()} == {"old.onnx", "full"}


def test_a_folder_that_is_no_run_and_a_missing_package_are_named(invoke, trained_run, tmp_path, monkeypatch):
    code, _, err = invoke("export", tmp_path, "--onnx", tmp_path / "a.onnx")
    assert (code, "not a run" in err) == (1, True)
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = invoke("export", trained_run, "--onnx", tmp_path / "a.onnx")
    assert code == 1
    assert err == "error: export needs onnx; install it with `pip install 'macrid[export]'`\n"


def test_a_baseline_has_a_graph_but_no_vectors(invoke, shop_split, tmp_path):
    runs.save(macrid.Popularity().fit(shop_split.train), tmp_path / "run")
    code, out, _ = invoke("export", tmp_path / "run", "--onnx", tmp_path / "a.onnx")
    assert (code, "not compared" in out) == (0, True)
    positions = Exported(tmp_path / "a.onnx")(np.zeros((1, 0)), n=3)[0]
    shares = np.bincount(shop_split.train.matrix.indices, minlength=160)
    assert shares[positions[0]].tolist() == np.sort(shares)[::-1][:3].tolist()
    code, _, err = invoke("export", tmp_path / "run", "--vectors", tmp_path / "vectors")
    assert (code, "Popularity has no vectors" in err) == (1, True)


def test_a_full_disk_leaves_the_earlier_files(invoke, trained_run, tmp_path, monkeypatch):
    import os

    file = tmp_path / "a.onnx"
    assert invoke("export", trained_run, "--onnx", file)[0] == 0
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = invoke("export", trained_run, "--onnx", file, "--overwrite")
    assert code == 1
    assert err.startswith(f"error: {file}: cannot be written (No space left on device); free some space")
    assert file.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"a.onnx", "a.items.parquet"}
