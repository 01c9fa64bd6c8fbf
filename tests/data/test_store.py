import json
import mmap
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid import manifest
from macrid.data import store
from macrid.data.everyone import everyone_of
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, binary_csr
from macrid.data.split import HeldOut, Split
from macrid.errors import DataError
from macrid.version import __version__


def events(seed=0, users=20, kind="int64"):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"user": random.integers(0, users, 300), "item": random.integers(0, 30, 300)})
    return frame.astype(kind)


def small_split(kind="int64", titles=True):
    items = pd.DataFrame(
        {"item": np.arange(0, 30, 2), "title": [f"№ {n}" for n in range(15)], "price": np.arange(15) / 2}
    )
    return Interactions.read(events(kind=kind), min_items=1, items=items if titles else None).split(4)


@pytest.fixture
def prepared(tmp_path):
    store.write(small_split(), tmp_path / "data")
    return tmp_path / "data"


def same_matrix(one, other):
    assert one.shape == other.shape
    np.testing.assert_array_equal(one.indptr, other.indptr)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.data, other.data)


def same_split(one, other):
    assert one.items == other.items
    assert one.table == other.table
    assert one.train.report == other.train.report
    same_matrix(one.train.matrix, other.train.matrix)
    for group in ("train", "validation", "test"):
        assert getattr(one, group).users == getattr(other, group).users
    for group in ("validation", "test"):
        same_matrix(getattr(one, group).history, getattr(other, group).history)
        same_matrix(getattr(one, group).target, getattr(other, group).target)
    assert (one.everyone is None) == (other.everyone is None)
    if one.everyone is not None:
        same_interactions(everyone_of(one), everyone_of(other))


def same_interactions(one, other):
    assert (one.users, one.items) == (other.users, other.items)
    assert replace(one.report, mean_weight=None) == replace(other.report, mean_weight=None)
    assert one.report.mean_weight == pytest.approx(other.report.mean_weight)
    assert one.table == other.table
    same_matrix(one.matrix, other.matrix)


@pytest.mark.parametrize("kind", ["int64", "str"])
@pytest.mark.parametrize("titles", [True, False])
def test_a_split_reads_back_as_written(tmp_path, kind, titles):
    split = small_split(kind, titles)
    store.write(split, tmp_path / "data")
    same_split(store.read(tmp_path / "data"), split)


def weighted(split):
    everyone = split.everyone
    matrix = everyone.matrix.copy()
    matrix.data = np.linspace(0.5, 3, matrix.nnz, dtype=np.float32)
    whole = Interactions(matrix, everyone.users, everyone.items, everyone.table, everyone.report)
    return replace(split, everyone=whole)


@pytest.mark.parametrize("titles", [True, False])
def test_everyone_is_kept_with_weights_and_with_items_that_the_split_lacks(tmp_path, titles):
    frame = pd.DataFrame({"user": np.repeat(np.arange(12), 5), "item": np.arange(60)})  # nobody shares an item
    items = pd.DataFrame({"item": np.arange(60), "title": [f"№ {n}" for n in range(60)]}) if titles else None
    data = Interactions.read(frame, min_items=1, items=items)
    for name, split in (("plain", data.split(3)), ("weighted", weighted(data.split(3)))):
        store.write(split, tmp_path / name)
        assert (tmp_path / name / "everyone.weights.npy").exists() == (name == "weighted")
        found = store.read(tmp_path / name)
        same_split(found, split)
        everyone = found.everyone
        assert everyone.items[:30] == found.items[:]
        assert {*everyone.items} == {*data.items}
        if titles:
            assert everyone.table.column("title").to_pylist() == [f"№ {item}" for item in everyone.items]


def test_items_of_everyone_are_not_stored_twice(prepared):
    split = small_split()
    extra = len(split.everyone.items) - len(split.items)
    assert pq.read_table(prepared / "everyone.items.parquet").num_rows == extra


def test_nothing_is_stored_twice_if_nobody_is_held_out(tmp_path):
    split = Interactions.read(events(), min_items=1).split(0)
    store.write(split, tmp_path / "data")
    assert not list((tmp_path / "data").glob("everyone*"))
    found = store.read(tmp_path / "data")
    same_split(found, split)
    assert found.everyone is found.train


def test_folders_without_everyone_open_as_before(prepared):
    for file in prepared.glob("everyone*"):
        file.unlink()
    counts = {name: value for name, value in store.read_about(prepared)["counts"].items() if name != "everyone"}
    change_about(prepared, counts=counts)
    assert not list(prepared.glob("everyone*"))
    same_split(store.read(prepared), replace(small_split(), everyone=None))


ids = st.one_of(
    st.lists(st.text(min_size=1), unique=True, min_size=6, max_size=6),
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=6, max_size=6),
)
rows = st.lists(st.lists(st.integers(0, 5), unique=True), min_size=2, max_size=2)


def matrix(histories):
    indptr = np.cumsum([0, *map(len, histories)], dtype=np.int64)
    indices = np.array([item for history in histories for item in history], dtype=np.int32)
    return binary_csr(indptr, indices, (len(histories), 6))


@settings(deadline=None, max_examples=20)
@given(ids, ids, st.tuples(rows, rows, rows, rows, rows))
def test_any_ids_and_histories_even_empty_ones_read_back(tmp_path_factory, users, items, histories):
    users, items = Ids(users), Ids(items)
    train, *heldout = map(matrix, histories)
    groups = [users.take(np.arange(start, start + 2)) for start in (0, 2, 4)]
    split = Split(
        Interactions(train, groups[0], items),
        HeldOut(heldout[0], heldout[1], groups[1]),
        HeldOut(heldout[2], heldout[3], groups[2]),
    )
    folder = tmp_path_factory.mktemp("any") / "data"
    store.write(split, folder)
    same_split(store.read(folder), split)


def test_item_indices_are_memory_mapped(prepared):
    array = store.read(prepared).train.matrix.indices
    while isinstance(array.base, np.ndarray):
        array = array.base
    assert isinstance(array.base, mmap.mmap)
    assert not array.flags.writeable


def test_about_describes_the_data_and_its_origin(tmp_path):
    split = small_split()
    store.write(split, tmp_path / "data", about={"min_rating": 4, "source": "naïve.csv"})
    about = store.read_about(tmp_path / "data")
    assert about["format"] == 1
    assert about["macrid"] == __version__
    assert about["counts"]["users"] == {"train": 12, "validation": 4, "test": 4}
    assert about["counts"]["interactions"]["train"] == len(split.train)
    assert about["recipe"] == {"min_rating": 4, "source": "naïve.csv"}
    assert about["report"]["duplicates"] == split.train.report.duplicates
    assert about["made"].endswith("+00:00")


def test_items_and_users_are_plain_parquet(prepared):
    split = small_split()
    items = pq.read_table(prepared / "items.parquet")
    assert items.column_names == ["id", "title", "price"]
    assert items.column("id").to_pylist() == list(split.items)
    users = pd.read_parquet(prepared / "users.parquet")
    assert users.id[users.group == "test"].tolist() == list(split.test.users)


def test_a_folder_that_is_not_empty_is_refused_and_untouched(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("precious")
    with pytest.raises(DataError, match=r"data: contains .mine."):
        store.write(small_split(), tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "data").mkdir()
    store.write(small_split(), tmp_path / "data")
    assert len(store.read(tmp_path / "data").items) == 30


def test_overwrite_replaces_the_whole_folder(tmp_path, prepared):
    store.write(small_split(titles=False), prepared, overwrite=True)
    assert store.read(prepared).table is None
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_memory_mapped_split_can_be_overwritten_with_itself(prepared):
    split = store.read(prepared)
    store.write(split, prepared, overwrite=True)
    same_split(store.read(prepared), small_split())


def test_a_file_of_that_name_is_refused(tmp_path):
    (tmp_path / "data").write_text("precious")
    with pytest.raises(DataError, match="data: "):
        store.write(small_split(), tmp_path / "data", overwrite=True)
    assert (tmp_path / "data").read_text() == "precious"


@pytest.mark.parametrize("where", ["working", "home"])
def test_overwrite_never_deletes_the_working_or_home_folder(prepared, monkeypatch, where):
    if where == "working":
        monkeypatch.chdir(prepared)
    else:
        monkeypatch.setenv("HOME", str(prepared))
    with pytest.raises(DataError, match=str(prepared)):
        store.write(small_split(), prepared, overwrite=True)
    same_split(store.read(prepared), small_split())


def test_overwrite_never_deletes_a_file_that_macrid_did_not_write(prepared):
    (prepared / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=r"'thesis\.txt'"):
        store.write(small_split(), prepared, overwrite=True)
    assert (prepared / "thesis.txt").read_text() == "years of work"


def test_ids_of_mixed_types_are_refused(tmp_path):
    split = small_split()
    other = Ids([f"u{user}" for user in split.test.users])
    mixed = Split(split.train, split.validation, HeldOut(split.test.history, split.test.target, other))
    with pytest.raises(DataError, match=r"strings .* integers"):
        store.write(mixed, tmp_path / "data")
    assert not any(tmp_path.iterdir())


LIMITED = """
import resource, sys
import numpy as np
from macrid import manifest
from macrid.data import store
from macrid.data.interactions import Interactions
from macrid.errors import DataError
import scipy.sparse as sp
split = Interactions.read(sp.random_array((60, 4000), density=0.5, rng=0, format="csr")).split(5)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    store.write(split, sys.argv[1], overwrite=True)
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [100, 300, 20_000])
def test_a_full_disk_is_an_error_and_the_old_folder_survives(tmp_path, prepared, limit):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, prepared, str(limit)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{prepared}: ")
    same_split(store.read(prepared), small_split())
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_kill_between_the_renames_of_an_overwrite_loses_nothing(prepared):
    os.rename(prepared, prepared.with_name(".data.previous"))
    same_split(store.read(prepared), small_split())


def test_a_missing_folder_is_an_error_that_says_how_to_create_it(tmp_path):
    with pytest.raises(DataError, match=r"nothing: .*`macrid data prepare"):
        store.read(tmp_path / "nothing")


@pytest.mark.parametrize("text", [None, '{"name": "a package"}', "[1, 2]", "7", "{"])
def test_a_folder_of_something_else_is_an_error(tmp_path, text):
    if text is not None:
        (tmp_path / "about.json").write_text(text)
    with pytest.raises(DataError, match=r"about\.json"):
        store.read(tmp_path)


def change_about(folder, **changes):
    about = json.loads((folder / "about.json").read_text())
    (folder / "about.json").write_text(json.dumps(about | changes))
    manifest.seal(folder, store.FILES)


@pytest.mark.parametrize("version", [2, 99, None, "1"])
def test_a_newer_format_is_an_error_that_says_to_upgrade(prepared, version):
    change_about(prepared, format=version, macrid="9.0")
    with pytest.raises(DataError, match=rf"macrid 9\.0 in format {version}, .* upgrade"):
        store.read(prepared)


@pytest.mark.parametrize("counts", [None, {}, {"users": {}, "interactions": {}}, {"users": 1, "interactions": 2}])
def test_incomplete_counts_are_an_error(prepared, counts):
    change_about(prepared, counts=counts)
    with pytest.raises(DataError, match=r"about\.json: damaged .*counts"):
        store.read(prepared)


def test_unknown_fields_of_a_report_are_ignored(prepared):
    about = store.read_about(prepared)
    change_about(prepared, report=about["report"] | {"invented": 1})
    assert store.read(prepared).train.report == small_split().train.report
    change_about(prepared, report=None)
    assert store.read(prepared).train.report is None


ARRAYS = ["train.indptr.npy", "validation_history.indices.npy", "test_target.indptr.npy", "everyone.indices.npy"]
TABLES = ["items.parquet", "users.parquet", "everyone.items.parquet"]


@pytest.mark.parametrize("name", ARRAYS + TABLES)
@pytest.mark.parametrize("keep", [None, 0, 5, 100, -1])
def test_a_missing_or_truncated_file_is_an_error_that_names_it(prepared, name, keep):
    whole = (prepared / name).read_bytes()
    (prepared / name).unlink()
    if keep is not None:
        (prepared / name).write_bytes(whole[:keep])
    with pytest.raises(DataError, match=rf"{name}: damaged .*`macrid data prepare"):
        store.read(prepared)


@given(name=st.sampled_from(store.FILES), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_an_error(flipped, name, place, bit):
    content = (flipped / name).read_bytes()
    changed = bytearray(content)
    changed[int(place * len(content))] ^= 1 << bit
    (flipped / name).write_bytes(changed)
    with pytest.raises(DataError, match=str(flipped)):
        store.read(flipped)
    (flipped / name).write_bytes(content)


@pytest.fixture(scope="module")
def flipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flipped") / "data"
    weighted = events().assign(weight=np.linspace(1, 2, 300))
    store.write(Interactions.read(weighted, min_items=1, weight="weight").split(4), folder)  # with every file
    return folder


def test_a_missing_manifest_is_an_error_except_in_folders_made_before_there_were_any(prepared):
    (prepared / manifest.FILE).unlink()
    with pytest.raises(DataError, match=r"manifest\.json: damaged \(it is missing"):
        store.read(prepared)
    about = json.loads((prepared / "about.json").read_text())
    del about["has_manifest"]
    (prepared / "about.json").write_text(json.dumps(about))
    same_split(store.read(prepared), small_split())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train.indices.npy", lambda array: array + 1_000),
        ("train.indices.npy", lambda array: -1 - array),
        ("train.indices.npy", lambda array: array[:-1]),
        ("train.indices.npy", lambda array: array.astype(np.int64)),
        ("train.indices.npy", lambda array: array.reshape(1, -1)),
        ("train.indptr.npy", lambda array: array[::-1].copy()),
        ("train.indptr.npy", lambda array: array + 1),
        ("train.indptr.npy", lambda array: array[:-1]),
        ("test_history.indptr.npy", lambda array: np.zeros_like(array)),
        ("everyone.indices.npy", lambda array: array + 1_000),
        ("everyone.indptr.npy", lambda array: array[::-1].copy()),
    ],
)
def test_arrays_that_contradict_the_counts_are_an_error(prepared, name, change):
    changed = change(np.load(prepared / name))
    np.save(prepared / name, changed)
    manifest.seal(prepared, store.FILES)
    with pytest.raises(DataError, match=rf"{name}: damaged"):
        store.read(prepared)


def test_pickled_arrays_are_never_opened(prepared):
    np.save(prepared / "train.indices.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    manifest.seal(prepared, store.FILES)
    with pytest.raises(DataError, match="damaged"):
        store.read(prepared)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.table({"id": [1, 2, 3]}), "3 rows.* 30"),
        (pa.table({"title": ["a"] * 30}), "'id'"),
        (pa.table({"id": [1.5] * 30}), "double"),
        (pa.table({"id": [None, *range(29)]}), "1 of 30 ids"),
        (pa.table({"id": [1, *range(29)]}), "occur twice"),
    ],
)
def test_tables_that_contradict_the_counts_are_an_error(prepared, table, problem):
    pq.write_table(table, prepared / "items.parquet")
    manifest.seal(prepared, store.FILES)
    with pytest.raises(DataError, match=rf"items\.parquet: damaged \(.*{problem}"):
        store.read(prepared)


def test_ten_million_interactions_open_in_under_a_second(tmp_path):
    users, items, per_user = 200_000, 50_000, 50

    def block(rows, width):
        indices = (np.arange(rows * width, dtype=np.int64) * 7919 % items).astype(np.int32)
        return binary_csr(np.arange(0, rows * width + 1, width), indices, (rows, items))

    names = pa.array([f"user-{number}" for number in range(users + 2_000)])
    split = Split(
        Interactions(block(users, per_user), Ids(names[:users]), Ids.range(items)),
        HeldOut(block(1_000, 40), block(1_000, 10), Ids(names[users : users + 1_000])),
        HeldOut(block(1_000, 40), block(1_000, 10), Ids(names[users + 1_000 :])),
    )
    store.write(split, tmp_path / "data")
    start = time.perf_counter()
    found = store.read(tmp_path / "data")
    seconds = time.perf_counter() - start
    assert len(found.train) == 10_000_000
    assert found.train.users[users - 1] == f"user-{users - 1}"
    assert seconds < 1
