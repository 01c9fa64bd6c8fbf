"""Whatever happens, a command ends in one line and an exit code; a traceback is shown only on request."""

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macrid import cli
from macrid.cli import data as data_command
from macrid.cli.common import number_or_name, one_line
from macrid.cli.train import _continuing_command
from macrid.data import store
from macrid.errors import DataError

ACCIDENTS = [
    (MemoryError("malloc of size 99"), "out of memory (malloc of size 99); "),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), "out of memory "),
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"), "out of memory "),
    (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
    (OverflowError("Python int too large to convert to C long"), "a number is too large"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "text that cannot be read"),
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    (OSError(errno.EIO, "Input/output error", "disk/file"), "disk/file: Input/output error"),
    (ZeroDivisionError("division by zero"), "unexpected ZeroDivisionError: division by zero. Please report"),
    (DataError("two\nlines\x1b[31m"), r"error: two lines\x1b[31m"),
]


@pytest.mark.parametrize(("accident", "text"), ACCIDENTS, ids=lambda value: type(value).__name__)
def test_every_accident_is_one_line_and_exit_code_1(invoke, monkeypatch, accident, text):
    def stumble(*_, **__):
        raise accident

    monkeypatch.delenv("MACRID_DEBUG", raising=False)
    monkeypatch.setattr(data_command, "console", type("Broken", (), {"print": stumble}))
    code, out, err = invoke("data", "list")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert text in err
    assert err.count("\n") == 1


def test_a_traceback_is_shown_only_on_request(invoke, monkeypatch):
    monkeypatch.setattr(data_command, "console", None)
    monkeypatch.setenv("MACRID_DEBUG", "1")
    code, _, err = invoke("data", "list")
    assert code == 1
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: unexpected AttributeError")


def test_a_very_long_message_loses_its_middle(invoke, tmp_path):
    code, _, err = invoke("data", "prepare", "x" * 100_000, "--out", tmp_path / "out")
    assert code == 1
    assert 1_000 < len(err) < 2_100


@pytest.mark.parametrize("text", ["a\r\nb", "\x1b[2J", "\udcff", "\0", "a\u2028b", "x" * 10_000])
def test_one_line_is_printable_and_short(text):
    line = one_line(text, 100)
    assert line.isprintable()
    assert len(line) <= 103 + 6


@pytest.mark.parametrize("text", ["²", "٣", "9" * 5_000, "007", "-1", "+1", "1.0", " 1", "1_000", ""])
def test_only_plain_whole_numbers_are_places_of_columns(text):
    assert number_or_name(text) == text


def test_a_plain_whole_number_is_the_place_of_a_column():
    assert (number_or_name("0"), number_or_name("17"), number_or_name(None)) == (0, 17, None)


def shell(line, folder, **environment):
    """A command in a shell: (exit code, standard output, standard error)."""
    script = f'macrid() {{ "{sys.executable}" -m macrid "$@"; }}; {line}'
    variables = {**os.environ, "TERM": "dumb", "MACRID_DEBUG": "", **environment}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=variables, capture_output=True, timeout=120)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_full_standard_output_is_an_error_of_one_line(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    code, _, err = shell("macrid data list > /dev/full", tmp_path)
    assert (code, err) == (1, "error: reading or writing failed: No space left on device\n")
    assert shell("macrid --version > /dev/full 2>&1", tmp_path) == (1, "", "")


@pytest.mark.slow
def test_a_reader_that_leaves_and_closed_streams_are_silent(tmp_path):
    assert shell("macrid data list | head -c 1; macrid --version >&- <&-", tmp_path) == (0, "n", "")
    assert shell("macrid data list --nonsense 2>&-", tmp_path) == (2, "", "")


def test_an_ascii_terminal_shows_escapes(tmp_path):
    rows = "".join(f"{user},{item}\n" for user in range(20) for item in range(user, user + 6))
    (tmp_path / "e.csv").write_text("user,item\n" + rows)
    line = "macrid data prepare e.csv --out ü --heldout 3"
    again = f"{line} --overwrite --json"
    code, out, err = shell(f"{line} && {again}", tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert code == 0, err
    text, *_, answer = out.splitlines()
    assert text.startswith(r"\xfc: 20 users")
    assert json.loads(answer)["out"] == "ü"


def test_a_deleted_working_directory_is_named(tmp_path):
    line = "mkdir gone; cd gone; rmdir ../gone; macrid data list"
    code, out, err = shell(line, tmp_path)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "error: the working directory no longer exists; change to another one"


def test_arguments_that_are_no_text_are_refused_in_one_line(tmp_path):
    (tmp_path / "e.csv").write_text("user,item\n1,2\n")
    for words in (r"data prepare $'\xff' --out x", r"data prepare e.csv --out x --encoding $'\xff'"):
        code, _, err = shell(f"macrid {words}", tmp_path)
        assert code == 1
        assert err.startswith("error: ")
        assert r"\udcff" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "9" * 5_000, '{"model": "\\ud800"}'],
)
def test_json_of_any_depth_and_length_is_refused_in_one_line(invoke, trained_run, tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    code, _, err = invoke("train", "shop", "--out", tmp_path / "new", "--config", tmp_path / "config.json")
    assert (code, err.count("\n")) == (1, 1)
    assert "config.json" in err
    code, _, err = invoke("steer", trained_run, "--history", "a", "--moves", text)
    assert (code, err.count("\n")) == (1, 1)
    assert "--moves" in err


WORDS = st.one_of(
    st.sampled_from(
        ["²", "٣", "007", "9" * 5_000, str(2**70), "-1", "0", "nan", "inf", "1e999", "\udcff", "\x1b", "--", ""]
    ),
    st.text(max_size=4),
)
CALLS = {
    "similar": ["--number"],
    "recommend": ["--history", "--number", "--include", "--exclude", "--device"],
    "steer": ["--concept", "--dimension", "--to", "--by", "--towards", "--amount", "--share", "--moves", "--number"],
    "traverse": ["--item", "--history", "--dimension", "--concept", "--steps", "--min-users", "--gamma"],
    "names": ["--set"],
    "evaluate": ["--metric", "--split", "--device"],
}
BASES = {
    "recommend": ["--history", "bag-0001", "-n", "3"],
    "steer": ["--history", "bag-0001"],
    "similar": ["bag-0001"],
    "traverse": ["--item", "bag-0001", "--dimension", "0"],
}


@st.composite
def calls(draw):
    command = draw(st.sampled_from(sorted(CALLS)))
    options = draw(st.lists(st.sampled_from(CALLS[command]), min_size=1, max_size=2))
    return command, [*BASES.get(command, ()), *(word for option in options for word in (option, draw(WORDS)))]


def ended(words):
    """Exit code and standard error of a command."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    argv, sys.argv = sys.argv, ["macrid", *words]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
            cli.main()
    finally:
        sys.argv = argv
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return stop.value.code or 0, err.buffer.getvalue().decode()


@given(calls())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_odd_values_of_options_are_answered_or_refused_in_one_line(trained_run, call):
    command, words = call
    code, err = ended([command, str(trained_run), *words])
    assert code in (0, 1, 2)
    assert "Traceback" not in err
    assert "unexpected" not in err
    if code == 1:
        assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


def test_the_encoding_is_printed_and_can_be_given(invoke, tmp_path):
    rows = "".join(f"{user},i{item}\n" for user in range(20) for item in range(6))
    (tmp_path / "e.csv").write_text("user,item\n" + rows)
    (tmp_path / "i.csv").write_bytes("item,title\ni1,Zoë\ni2,Amélie\n".encode("latin-1"))
    words = ("data", "prepare", tmp_path / "e.csv", "--items", tmp_path / "i.csv", "--heldout", 3)
    code, _, err = invoke(*words, "--out", tmp_path / "decided")
    assert code == 0
    assert "i.csv: encoding latin-1, as line 2 is not UTF-8" in err
    assert "4 of 6 items are not in the items table" in err
    assert invoke(*words, "--out", tmp_path / "given", "--encoding", "cp1252")[0] == 0
    titles = [store.read(tmp_path / name).table.column("title").to_pylist() for name in ("decided", "given")]
    assert titles[0] == titles[1]
    assert {"Zoë", "Amélie"} <= {*titles[0]}
    code, _, err = invoke(*words, "--out", tmp_path / "wrong", "--encoding", "utf-8")
    assert code == 1
    assert "i.csv, line 2: not utf-8" in err
    assert "remove --encoding" in invoke("data", "prepare", "shop", "--out", tmp_path / "x", "--encoding", "utf-8")[2]


def test_many_users_are_read_in_a_given_encoding(invoke, trained_run, trained, tmp_path):
    item = trained[0].items[0]
    (tmp_path / "u.csv").write_bytes(f"user,item\né,{item}\n".encode("utf-16-le"))
    words = ("recommend", trained_run, "--input", tmp_path / "u.csv", "--output", tmp_path / "r.parquet", "-n", 3)
    assert "--encoding" in invoke(*words)[2]
    code, _, err = invoke(*words, "--encoding", "utf-16-le")
    assert code == 0, err
    assert pq.read_table(tmp_path / "r.parquet").column("user").to_pylist() == ["é"] * 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_files_that_never_end_are_refused(invoke, trained_run, tmp_path):
    out = ("--out", tmp_path / "new")
    for words in (
        ("data", "prepare", "/dev/full", *out),
        ("train", "shop", "--config", "/dev/full", *out),
        ("recommend", trained_run, "--input", "/dev/full", "--output", tmp_path / "r.parquet"),
    ):
        code, _, err = invoke(*words)
        assert (code, err) == (1, "error: /dev/full: is a device or a pipe; write its content to a file first\n")


@pytest.mark.parametrize(
    ("environment", "start"),
    [
        ({}, "macrid"),
        ({"MACRID_LAUNCHED": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "macrid"),
        ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, "torchrun --nproc-per-node 2 -m macrid"),
    ],
    ids=["one process", "--processes", "torchrun"],
)
def test_the_command_that_continues_a_training_starts_as_many_processes(monkeypatch, environment, start):
    for name in ("MACRID_LAUNCHED", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    if "WORLD_SIZE" in environment:
        environment = environment | {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["macrid", "train", "my data", "--out", "run", "--overwrite"])
    assert _continuing_command() == f"{start} train 'my data' --out run --resume"
    if start != "macrid":
        monkeypatch.setenv("WORLD_SIZE", "4")
        assert _continuing_command().endswith("--resume, with the same options for torchrun on every machine")
