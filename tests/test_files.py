import errno
import os
import resource
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from macrid import files
from macrid.errors import DataError
from macrid.files import claimed, lock, new_files, new_folder, recover, replace_folder, write_atomically, writing
from tests.failing import operations, with_failure


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_written_as_utf8_and_bytes_unchanged(tmp_path):
    write_atomically(tmp_path / "a", "naïve\n")
    write_atomically(tmp_path / "b", b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == "naïve\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"


def test_an_existing_file_is_replaced_and_nothing_else_is_left(tmp_path):
    write_atomically(tmp_path / "a", "old")
    write_atomically(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_a_symbolic_link_survives_and_its_target_is_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_failed_rename_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch):
    write_atomically(tmp_path / "a", "old")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_atomically(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_what_cannot_be_written_is_named_with_the_reason_and_the_remedy(tmp_path):
    place = tmp_path / "missing" / "a"
    with pytest.raises(DataError) as error, writing(place, DataError, "choose another"):
        write_atomically(place, "text")
    assert str(error.value) == f"{place}: cannot be written (No such file or directory); choose another"
    with pytest.raises(ValueError, match="another kind"), writing(place, DataError):
        raise ValueError("another kind")


def test_files_and_folders_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", "text")
        with new_folder(tmp_path / "b"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o750


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    with new_folder(tmp_path / "deep" / "run") as temporary:
        (temporary / "a").write_text("a")
        assert not (tmp_path / "deep" / "run").exists()
        assert temporary.parent == tmp_path / "deep"
    assert (tmp_path / "deep" / "run" / "a").read_text() == "a"
    assert names(tmp_path / "deep") == ["run"]


def test_a_new_folder_replaces_the_old_one_with_all_its_files(tmp_path):
    for text in ("old", "new"):
        with new_folder(tmp_path / "run") as temporary:
            (temporary / text).write_text(text)
    assert names(tmp_path / "run") == ["new"]
    assert names(tmp_path) == ["run"]


def test_files_that_go_together_appear_when_all_are_complete_the_named_one_last(tmp_path, monkeypatch):
    (tmp_path / "a.onnx").write_text("old")
    order, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda *args: order.append(args[1].name) or replace(*args))
    with new_files(tmp_path / "a.onnx") as temporary:
        for name in ("a.onnx", "a.items", "z.data"):
            (temporary / name).write_text("new")
        assert names(tmp_path) == [temporary.name, "a.onnx"]
    assert order == ["a.items", "z.data", "a.onnx"]
    assert names(tmp_path) == ["a.items", "a.onnx", "z.data"]
    assert (tmp_path / "a.onnx").read_text() == "new"


def test_an_error_while_making_files_leaves_the_old_ones(tmp_path):
    (tmp_path / "a.onnx").write_text("old")

    def interrupted() -> None:
        with new_files(tmp_path / "a.onnx") as temporary:
            (temporary / "a.onnx").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == ["a.onnx"]
    assert (tmp_path / "a.onnx").read_text() == "old"


def test_an_error_while_filling_leaves_the_old_folder_and_no_temporary(tmp_path):
    with new_folder(tmp_path / "run") as temporary:
        (temporary / "a").write_text("old")

    def interrupted() -> None:
        with new_folder(tmp_path / "run") as temporary:
            (temporary / "a").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "run" / "a").read_text() == "old"
    assert names(tmp_path) == ["run"]


@pytest.mark.parametrize("kind", ["error", "kill"])
def test_a_folder_is_replaced_by_one_inside_it_wholly_or_not_at_all(tmp_path, kind):
    def make(folder):
        (folder / "run" / "training" / "draft").mkdir(parents=True)
        (folder / "run" / "a").write_text("old")
        (folder / "run" / "training" / "draft" / "a").write_text("new")
        return folder / "run"

    def publish(run):
        replace_folder(run / "training" / "draft", run)

    counted = make(tmp_path / "counted")
    for number in range(operations(lambda: publish(counted))):
        run = make(tmp_path / str(number))
        with_failure(lambda run=run: publish(run), number, kind)
        recover(run)
        if (run / "a").read_text() == "old":
            publish(run)
        assert (run / "a").read_text() == "new"
        assert names(run) == ["a"]
    assert names(counted) == ["a"]


def test_a_reader_never_undoes_a_replacement_that_is_under_way(tmp_path):
    run, done = tmp_path / "run", threading.Event()
    run.mkdir()

    def write():
        for number in range(200):
            with new_folder(run) as temporary:
                (temporary / "a").write_text(str(number))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        recover(run)
    writer.join()
    assert (run / "a").read_text() == "199"
    assert names(tmp_path) == ["run"]


def test_only_one_process_claims_a_folder_even_if_its_lock_file_is_deleted(tmp_path):
    with claimed(tmp_path / "run", DataError) as claim:
        with (
            pytest.raises(DataError, match=rf"run: in use .*process \({os.getpid()}\)"),
            claimed(tmp_path / "run", DataError),
        ):
            pass
        (tmp_path / ".run.lock").unlink()
        claim.confirm()
        with pytest.raises(DataError, match="in use"), claimed(tmp_path / "run", DataError):
            pass
        (tmp_path / ".run.lock").unlink()
        with claimed(tmp_path / "run", DataError), pytest.raises(DataError, match="in use"):
            claim.confirm()
    assert names(tmp_path) == []


def test_a_root_cannot_be_claimed():
    with pytest.raises(DataError, match="choose a folder inside it"), claimed(Path("/"), DataError):
        pass


@pytest.mark.parametrize(("number", "is_ours"), [(errno.EWOULDBLOCK, False), (errno.ENOSYS, True)])
def test_a_file_system_without_locks_is_no_other_process(tmp_path, monkeypatch, number, is_ours):
    def flock(*_):
        raise OSError(number, "no")

    monkeypatch.setattr("macrid.files.fcntl.flock", flock)
    with (tmp_path / "file").open("w") as file:
        assert lock(file.fileno()) is is_ours


@pytest.mark.parametrize("name", ["run", ".run.previous"])
def test_a_failed_replacement_keeps_the_old_folder_even_after_an_earlier_kill(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "a").write_text("old")
    with pytest.raises(OSError):
        replace_folder(tmp_path / "never-made", tmp_path / "run")
    assert (tmp_path / "run" / "a").read_text() == "old"
    assert names(tmp_path) == ["run"]


def test_recover_undoes_a_kill_between_the_renames(tmp_path):
    recover(tmp_path / "run")
    assert names(tmp_path) == []
    (tmp_path / ".run.previous").mkdir()
    (tmp_path / ".run.previous" / "a").write_text("old")
    recover(tmp_path / "run")
    assert (tmp_path / "run" / "a").read_text() == "old"
    assert names(tmp_path) == ["run"]


def test_recover_leaves_an_existing_folder_alone(tmp_path):
    for name in ("run", ".run.previous"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    recover(tmp_path / "run")
    assert (tmp_path / "run" / "a").read_text() == "run"


def test_leftovers_of_an_earlier_replacement_do_not_stop_the_next(tmp_path):
    for name in ("run", ".run.previous", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    replace_folder(tmp_path / "new", tmp_path / "run")
    assert (tmp_path / "run" / "a").read_text() == "new"
    assert names(tmp_path) == ["run"]


KILLED = """
import os, sys
from macrid.files import new_folder
with new_folder(sys.argv[1]) as temporary:
    (temporary / "a").write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_leftovers_of_a_killed_process_are_removed_by_the_next_write(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "run"], check=False)
    assert len(names(tmp_path)) == 1
    monkeypatch.setattr(files, "ABANDONED_AFTER", -1.0)
    with new_folder(tmp_path / "run") as temporary:
        (temporary / "a").write_text("whole")
    assert names(tmp_path) == ["run"]
    assert (tmp_path / "run" / "a").read_text() == "whole"


def test_files_of_a_live_process_are_not_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ABANDONED_AFTER", -1.0)
    with new_folder(tmp_path / "run") as first:
        (first / "a").write_text("first")
        with new_folder(tmp_path / "run") as second:
            (second / "a").write_text("second")
        assert (first / "a").read_text() == "first"
    assert (tmp_path / "run" / "a").read_text() == "first"


def test_old_leftovers_are_removed_and_recent_ones_kept(tmp_path):
    young, old = tmp_path / ".a.1.partial", tmp_path / ".a.2.partial"
    for path in (young, old):
        path.write_text("")
    os.utime(old, (time.time() - 3600, time.time() - 3600))
    write_atomically(tmp_path / "a", "text")
    assert names(tmp_path) == [".a.1.partial", "a"]


LIMITED = """
import resource, sys
from macrid.files import new_folder, write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(sys.argv[1] + "/file", b"x" * 5000)
except OSError as error:
    print("file:", error.strerror)
try:
    with new_folder(sys.argv[1] + "/run") as temporary:
        (temporary / "a").write_bytes(b"x" * 5000)
except OSError as error:
    print("folder:", error.strerror)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="this system cannot limit the size of files")
def test_a_full_disk_leaves_the_old_file_and_folder_and_no_temporary(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").write_text("old")
    done = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "file: File too large\nfolder: File too large\n"
    assert (tmp_path / "file").read_text() == "old"
    assert (tmp_path / "run" / "a").read_text() == "old"
    assert names(tmp_path) == ["file", "run"]
