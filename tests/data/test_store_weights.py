"""Weights, protocols and users who are in several groups, in a prepared folder."""

import mmap

import numpy as np
import pandas as pd
import pytest

from macrid import manifest
from macrid.data import store
from macrid.data.interactions import Interactions
from macrid.errors import DataError
from macrid.training.checkpoint import fingerprint
from tests.data.test_store import change_about, same_split

HISTORIES = ("train", "validation_history", "test_history", "everyone")


def split_of(by="time", half_life=30.0):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"user": random.integers(0, 20, 300), "item": random.integers(0, 30, 300)})
    frame["time"] = 10**9 + 86_400 * random.integers(0, 100, 300)
    return Interactions.read(frame, min_items=1, time="time", half_life=half_life).split(by=by)


@pytest.fixture
def prepared(tmp_path):
    store.write(split_of(), tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("half_life", [None, 30.0])
@pytest.mark.parametrize("by", ["users", "time", "last"])
def test_a_weighted_split_whose_users_are_in_several_groups_reads_back(tmp_path, by, half_life):
    split = split_of(by, half_life)
    store.write(split, tmp_path / "data")
    again = store.read(tmp_path / "data")
    same_split(again, split)
    assert (again.validation.protocol, again.protocol) == (split.validation.protocol, split.protocol)
    written = {path.name for path in (tmp_path / "data").iterdir() if "weights" in path.name}
    assert written == ({f"{name}.weights.npy" for name in HISTORIES} if half_life else set())
    assert store.examine(tmp_path / "data") == {}


def test_weights_of_data_read_back_survive_another_split(prepared):
    train = store.read(prepared).train
    rows, columns = train.pairs
    np.testing.assert_array_equal(train.weights, train.matrix[rows, columns])
    again = train.split(3)
    assert again.train.weights.sum() + again.test.history.sum() < train.weights.sum()
    assert set(again.train.weights) <= set(train.weights)


def test_a_folder_without_times_and_weights_says_nothing_about_them(tmp_path):
    frame = pd.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": [1, 2] * 3})
    store.write(Interactions.read(frame, min_items=1).split(1), tmp_path / "data")
    about = store.read_about(tmp_path / "data")
    assert "weights" not in about
    assert not {*store.OF_WEIGHTS} & {*about["report"]}


def test_weights_are_memory_mapped(prepared):
    array = store.read(prepared).train.matrix.data
    while isinstance(array.base, np.ndarray):
        array = array.base
    assert isinstance(array.base, mmap.mmap)


def test_a_folder_made_before_there_were_protocols_is_one_of_held_out_users(tmp_path):
    store.write(split_of("users", None), tmp_path / "data")
    about = store.read_about(tmp_path / "data")
    del about["protocol"]
    (tmp_path / "data" / "about.json").write_text(store.json.dumps(about))
    manifest.seal(tmp_path / "data", store.FILES)
    assert store.read(tmp_path / "data").protocol == "held-out users, 80 % of each history"


@pytest.mark.parametrize(
    "change",
    [
        lambda array: -array,
        lambda array: array * 0,
        lambda array: array * np.float32(np.nan),
        lambda array: array + np.float32(np.inf),
        lambda array: array[:-1],
        lambda array: array.astype(np.float64),
    ],
)
def test_weights_that_make_no_sense_are_an_error(prepared, change):
    np.save(prepared / "train.weights.npy", change(np.load(prepared / "train.weights.npy")))
    manifest.seal(prepared, store.FILES)
    with pytest.raises(DataError, match=r"train\.weights\.npy: damaged"):
        store.read(prepared)


def test_missing_weights_are_an_error(prepared):
    (prepared / "train.weights.npy").unlink()
    with pytest.raises(DataError, match=r"train\.weights\.npy: damaged \(it is missing\)"):
        store.read(prepared)
    manifest.seal(prepared, store.FILES)
    with pytest.raises(DataError, match=r"train\.weights\.npy: damaged \(it is missing\)"):
        store.read(prepared)


def test_a_user_twice_in_one_group_is_an_error(prepared):
    users = pd.read_parquet(prepared / "users.parquet")
    users.loc[1, "id"] = users.loc[0, "id"]
    users.to_parquet(prepared / "users.parquet", index=False)
    change_about(prepared)
    with pytest.raises(DataError, match=r"users\.parquet: damaged \(some ids occur twice\)"):
        store.read(prepared)


def test_weights_are_part_of_what_a_checkpoint_belongs_to():
    weighted, plain = split_of().train.matrix, split_of(half_life=None).train.matrix
    other = weighted.copy()
    other.data[0] *= 2
    ones = plain.copy()
    ones.data = np.ones_like(ones.data)
    marks = [fingerprint({"train": matrix}, {})["interactions"] for matrix in (weighted, other, plain, ones)]
    assert len(set(marks)) == 3
    assert marks[2] == marks[3]
