"""The users kept in a run."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import macrid
from macrid import manifest, runs
from macrid.data.split import HeldOut
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
