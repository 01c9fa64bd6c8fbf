"""The users kept in a run."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import macrid
from macrid import manifest, runs
from macrid.data.split import HELD_OUT_USERS, HeldOut
from macrid.errors import RunError


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


def test_protocol_and_weights_of_histories_are_kept_in_the_run(trained, tmp_path):
    model, split = trained
    history = split.test.history.copy()
    history.data = np.linspace(0.5, 2, history.nnz).astype(np.float32)
    weighted = replace(split.test, history=history, protocol="before and after 2001-02-03")
    runs.save(model, tmp_path / "run", heldout={"validation": split.validation, "test": weighted})
    group = runs.read_heldout(tmp_path / "run", "test")
    assert group.protocol == macrid.evaluate(model, group).as_json()["protocol"] == "before and after 2001-02-03"
    np.testing.assert_array_equal(group.history.data, history.data)
    np.testing.assert_array_equal(group.target.data, 1)
    other = runs.read_heldout(tmp_path / "run", "validation")
    assert other.protocol == HELD_OUT_USERS
    np.testing.assert_array_equal(other.history.data, 1)
    assert "validation.history.weights" not in load_file(tmp_path / "run" / "heldout.safetensors")


def test_an_older_run_has_the_protocol_of_held_out_users(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    del config["protocol"]
    (run / "config.json").write_text(json.dumps(config))
    manifest.seal(run, runs.FILES)
    assert runs.read_heldout(run, "test").protocol == "held-out users, 80 % of each history"


@pytest.mark.parametrize(
    "change", [lambda values: values * -1, lambda values: values[:-1], lambda values: values.double()]
)
def test_weights_that_make_no_sense_are_refused(whole, tmp_path, change):
    run = shutil.copytree(whole, tmp_path / "run")
    tensors = load_file(run / "heldout.safetensors")
    weights = change(torch.ones(len(tensors["test.history.indices"]))).contiguous()
    save_file({**tensors, "test.history.weights": weights}, run / "heldout.safetensors")
    manifest.seal(run, runs.FILES)
    with pytest.raises(RunError, match=r"heldout\.safetensors: damaged .*weights"):
        runs.read_heldout(run, "test")


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
    manifest.seal(run, runs.FILES)
    with pytest.raises(RunError, match=problem):
        macrid.load(run)
    assert problem in runs.examine(run)["run"]
