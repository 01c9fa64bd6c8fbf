"""A manifest notices any change, and updates of several files happen together or not at all."""

import json
import os
import shutil
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid import manifest
from macrid.manifest import DamagedError, check, problems, read, recover, seal, steadily, update
from tests.failing import operations, with_failure

OLD = {"a.json": b"old a", "b.bin": b"old b", "c.txt": b"constant"}
NEW = {"a.json": b"new a", "b.bin": b"new b"}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    for name, content in OLD.items():
        (path / name).write_bytes(content)
    seal(path, OLD)
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != manifest.FILE}


def test_a_sealed_folder_is_right_and_its_manifest_lists_every_file(folder):
    assert problems(folder) == {}
    assert read(folder).keys() == OLD.keys()


def test_every_change_of_a_file_is_noticed_by_name(folder):
    (folder / "a.json").write_bytes(b"old A")
    (folder / "b.bin").unlink()
    assert {name: text.split()[0] for name, text in problems(folder).items()} == {
        "a.json": "damaged",
        "b.bin": "damaged",
    }
    with pytest.raises(DamagedError, match=r"a\.json: damaged .*lists 1 more"):
        check(folder)
    check(folder, ["c.txt"])
    check(folder, skipped=["a.json", "b.bin"])


@given(st.integers(0), st.integers(0, 7))
def test_every_flipped_bit_of_the_manifest_itself_is_noticed(tmp_path_factory, place, bit):
    folder = tmp_path_factory.mktemp("flip")
    (folder / "a.json").write_bytes(b"a")
    seal(folder, ["a.json"])
    content = bytearray((folder / manifest.FILE).read_bytes())
    content[place % len(content)] ^= 1 << bit
    (folder / manifest.FILE).write_bytes(content)
    with pytest.raises(DamagedError):
        check(folder)


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"sha256": 7}', '{"sha256": {"a": 1}}', "[" * 100_000])
def test_what_is_no_manifest_is_damaged(folder, text):
    (folder / manifest.FILE).write_text(text)
    with pytest.raises(DamagedError, match=r"manifest\.json"):
        check(folder)


def test_a_missing_manifest_is_an_error_only_where_it_is_required(folder):
    (folder / manifest.FILE).unlink()
    check(folder, required=False)
    with pytest.raises(DamagedError, match="missing"):
        check(folder)


def test_an_update_replaces_files_and_leaves_the_others(folder):
    update(folder, NEW, OLD)
    assert contents(folder) == OLD | NEW
    assert problems(folder) == {}


def test_an_update_does_not_excuse_damage_elsewhere(folder):
    (folder / "c.txt").write_bytes(b"damaged")
    update(folder, NEW, OLD)
    assert problems(folder).keys() == {"c.txt"}


def test_an_update_of_a_folder_from_before_manifests_seals_it(folder):
    (folder / manifest.FILE).unlink()
    update(folder, NEW, OLD)
    assert contents(folder) == OLD | NEW
    assert problems(folder) == {}


@pytest.mark.parametrize("kind", ["error", "kill"])
def test_an_update_that_fails_at_any_file_operation_is_done_wholly_or_not_at_all(folder, tmp_path, kind):
    template = shutil.copytree(folder, tmp_path / "template")
    for number in range(operations(lambda: update(folder, NEW, OLD))):
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
        with_failure(lambda: update(folder, NEW, OLD), number, kind, (OSError, DamagedError))
        assert problems(folder) == {}
        recover(folder)
        found = {name: content for name, content in contents(folder).items() if not name.startswith(".")}
        assert found in (OLD, OLD | NEW), f"after operation {number}"
        update(folder, NEW, OLD)
        assert {name for name in contents(folder) if name.endswith(".next")} == set()
        assert problems(folder) == {}


def test_updates_at_the_same_time_lose_nothing(folder):
    def write(name):
        for number in range(20):
            update(folder, {name: f"{name} {number}"}, OLD)

    threads = [threading.Thread(target=write, args=(f"{letter}.txt",)) for letter in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"{letter}.txt" for letter in "xyz"} <= read(folder).keys()
    assert problems(folder) == {}


def test_a_reader_never_sees_one_file_of_an_update_without_the_other(folder):
    done = threading.Event()

    def write():
        for number in range(40):
            update(folder, {"a.json": str(number), "b.bin": str(number)}, OLD)
        done.set()

    def both():
        check(folder)
        return (folder / "a.json").read_bytes(), (folder / "b.bin").read_bytes()

    update(folder, {"a.json": "-1", "b.bin": "-1"}, OLD)
    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        try:
            seen.append(steadily(folder, both))
        except DamagedError:  # three changes in a row: it would be read again later
            continue
    writer.join()
    assert all(a == b for a, b in seen)
    assert seen


def test_damage_is_reported_at_once_if_nobody_writes(folder):
    (folder / "a.json").write_bytes(b"?")
    calls = []

    def reader():
        calls.append(1)
        check(folder)

    with pytest.raises(DamagedError):
        steadily(folder, reader)
    assert len(calls) == 1


def test_the_manifest_is_json_that_other_tools_can_check(folder):
    listed = json.loads((folder / manifest.FILE).read_text())["sha256"]
    assert listed["c.txt"] == manifest.digest(folder / "c.txt")
    assert len(listed["c.txt"]) == 64
    assert os.path.getsize(folder / manifest.FILE) < 500
