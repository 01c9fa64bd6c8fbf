"""macrid data prepare of several files, and of data larger than memory."""

import json
import re

import numpy as np
import pytest

from macrid.cli.large import bytes_of
from macrid.data import store
from macrid.data.large import engine
from macrid.errors import DataError
from tests.data.large.test_preparing import events, same_folder, timed


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "events"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(600), 3)):
        events().iloc[rows].to_parquet(folder / f"{number}.parquet")
    events().to_parquet(folder.parent / "whole.parquet")
    return folder


def test_folders_and_patterns_are_prepared(invoke, parts, tmp_path):
    options = ("--min-rating", 2, "--min-items", 2, "--json")
    for name, sources in (("a", [parts]), ("b", [f"{parts}/[12].parquet", parts / "0.parquet"])):
        code, out, err = invoke("data", "prepare", *sources, *options, "--out", tmp_path / name)
        assert code == 0, err
        assert "3 files: 600 rows; guessed user = 'user', item = 'item', rating = 'rating'" in err
    assert json.loads(out)["heldout"] == len(store.read(tmp_path / "b").test.users)
    same_folder(tmp_path / "a", tmp_path / "b")


def test_one_file_may_be_streamed_or_not(invoke, parts, tmp_path, monkeypatch):
    whole = parts.parent / "whole.parquet"
    for name, more in (("a", ["--stream", "--memory", "300MiB"]), ("b", ["--no-stream"]), ("c", [])):
        code, _, err = invoke("data", "prepare", whole, "--split", "stable", *more, "--out", tmp_path / name)
        assert code == 0, err
    same_folder(tmp_path / "a", tmp_path / "b")
    same_folder(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("by", ["users", "time", "last"])
def test_the_mean_weight_is_said_of_what_is_trained_on_streamed_or_not(invoke, tmp_path, by):
    timed().to_parquet(tmp_path / "events.parquet")
    said = []
    for way in ("--stream", "--no-stream"):
        code, _, err = invoke(
            "data", "prepare", tmp_path / "events.parquet", "--split", by, "--time-col", "time", "--half-life", 9, way,
            "--out", tmp_path / way,
        )  # fmt: skip
        assert code == 0, err
        said.append(re.search(r"mean weight [\d.]+", err)[0])
    assert said[0] == said[1]


@pytest.mark.parametrize("how", [("time", "--at", "2001-09-30"), ("time", "--heldout", 0.2), ("last", "--last", 2)])
def test_a_folder_is_divided_by_time_as_one_sorted_file(invoke, tmp_path, how):
    folder = tmp_path / "events"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.random.default_rng(0).permutation(600), 3)):
        timed().iloc[rows].to_parquet(folder / f"{number}.parquet")
    timed().sort_values(["user", "item"]).to_parquet(tmp_path / "whole.parquet")
    reports = []
    for name in ("events", "whole.parquet"):
        code, out, err = invoke("data", "prepare", tmp_path / name, "--split", *how, "--out", tmp_path / f"{name}.out")
        assert code == 0, err
        reports.append(out.replace(f"{name}.out", "out"))
    assert reports[0] == reports[1]
    assert f"test users: {'before and after' if how[0] == 'time' else 'last 2 items'}" in reports[0]


def test_a_large_file_is_streamed_unless_that_cannot_be(invoke, parts, tmp_path, monkeypatch):
    monkeypatch.setattr("macrid.data.large.sources.BYTES_PER_ROW", 10**9)
    monkeypatch.setattr("macrid.data.reading.read_events", None)  # memory would fail
    whole = parts.parent / "whole.parquet"
    code, _, err = invoke("data", "prepare", whole, "--out", tmp_path / "data")
    assert code == 0, err
    monkeypatch.undo()
    monkeypatch.setattr("macrid.data.large.sources.BYTES_PER_ROW", 10**9)
    monkeypatch.setattr(engine, "duckdb_or_explain", missing)
    code, _, err = invoke("data", "prepare", whole, "--out", tmp_path / "small")
    assert code == 0, err
    same_folder(tmp_path / "small", tmp_path / "data")


def missing():
    raise DataError("no DuckDB")


def test_without_duckdb_several_files_say_what_to_install(invoke, parts, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    code, _, err = invoke("data", "prepare", parts, "--out", tmp_path / "data")
    assert (code, err.count("\n")) == (1, 1)
    assert "need DuckDB; install it with `pip install 'macrid[large]'`" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "time"], "no column looks like the time; choose one with --time-col"),
        (["--split", "last", "--heldout", 0.2], "heldout is 0.2, but the split is by last"),
        (["--at", "2001-09-30"], "at is '2001-09-30', but the split is by users"),
        (["--half-life", 3], "no column looks like the time; choose one with --time-col"),
        (["--no-stream"], "--no-stream reads one file, but there are 3"),
        (["--memory", "much"], "--memory: 'much' is not an amount of memory; write 2GiB"),
        (["--memory", "1M"], "memory is 1 MiB; allow at least 256 MiB"),
    ],
)
def test_what_cannot_be_says_why(invoke, parts, tmp_path, options, message):
    code, _, err = invoke("data", "prepare", parts, *options, "--out", tmp_path / "data")
    assert (code, err.count("\n")) == (1, 1)
    assert message in err
    assert not (tmp_path / "data").exists()


def test_amounts_of_memory():
    assert [bytes_of(text) for text in ("2GiB", "500m", "1.5 GB", "77")] == [2**31, 500 << 20, 3 << 29, 77]
