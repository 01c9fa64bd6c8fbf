"""Lists written in parts are those written at once; a job goes on where it ended, and never mixes with another."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.cluster import dividing
from macrid.cluster.dividing import Divider, part_of, read_part
from macrid.data import tables
from macrid.data.histories import read_histories
from macrid.data.ids import Ids
from macrid.errors import DataError


def lists(path):
    """All rows in an order of their own, without the scores."""
    frame = pl.read_parquet(path / "part-*.parquet" if path.is_dir() else path)
    return frame.select("user", "rank", "item", "concept", "title").sort("user", "rank")


@pytest.fixture
def at_once(invoke, batch_run, events, tmp_path):
    """The lists as one file, what was said about them, and where the events are."""
    events.write_parquet(tmp_path / "users.parquet")
    arguments = ("--input", tmp_path / "users.parquet", "--output", tmp_path / "all.parquet", "-n", 4)
    code, out, err = invoke("recommend", batch_run, *arguments, "--json")
    assert code == 0, err
    return lists(tmp_path / "all.parquet"), json.loads(out), err, tmp_path / "users.parquet"


def test_a_folder_of_parts_has_the_lists_of_one_file(invoke, batch_run, at_once, tmp_path):
    expected, counts, said, source = at_once
    arguments = ("recommend", batch_run, "--input", source, "--output", tmp_path / "recs", "-n", 4, "--parts", 5)
    code, out, err = invoke(*arguments, "--json")
    assert code == 0, err
    assert lists(tmp_path / "recs").equals(expected)
    assert json.loads(out) == {**counts, "output": str(tmp_path / "recs"), "parts": 5}
    assert json.loads((tmp_path / "recs" / "_SUCCESS").read_text())["users"] == counts["users"]
    frame = pl.read_parquet(tmp_path / "recs" / "part-*.parquet")
    assert frame.filter("fallback")["user"].unique().to_list() == ["stranger"]
    files = [pl.read_parquet(path)["user"].unique() for path in sorted((tmp_path / "recs").glob("part-*"))]
    assert len(files) == 5
    assert sum(map(len, files)) == counts["users"]  # nobody is in two parts
    assert not (tmp_path / "recs" / "_events").exists()
    for name in ("'zz'", "'stranger'", "'glutton'", "'full'"):
        assert name in said
        assert name in err


def test_the_same_command_makes_only_what_is_missing(invoke, batch_run, at_once, tmp_path, monkeypatch):
    expected, counts, _, source = at_once
    recs = tmp_path / "recs"
    arguments = ("recommend", batch_run, "--input", source, "--output", recs, "-n", 4, "--parts", 5, "--json")
    from macrid.cluster import recommending

    write = recommending.write_part

    def fail_at_three(model, task, number):
        if number == 3:
            raise DataError("the disk is full")
        write(model, task, number)

    monkeypatch.setattr(recommending, "write_part", fail_at_three)
    code, out, err = invoke(*arguments)
    assert (code, out) == (1, "")
    assert "the disk is full" in err
    assert not (recs / "_SUCCESS").exists()
    before = {path.name: path.stat().st_mtime_ns for path in recs.glob("part-*")}
    assert len(before) == 3
    made = []
    monkeypatch.setattr(recommending, "write_part", lambda *of: (made.append(of[2]), write(*of)))
    monkeypatch.setattr(recommending, "Divider", None)  # the events are divided already
    assert invoke(*arguments)[0] == 0
    assert made == [3, 4]
    assert {name: (recs / name).stat().st_mtime_ns for name in before} == before
    assert lists(recs).equals(expected)
    made.clear()
    code, out, _ = invoke(*arguments)  # complete: says so again
    assert (code, made) == (0, [])
    assert json.loads(out) == {**counts, "output": str(recs), "parts": 5}


def test_a_folder_of_another_job_is_refused_unless_it_may_be_replaced(invoke, batch_run, at_once, events, tmp_path):
    _, _, _, source = at_once
    recs = tmp_path / "recs"
    usual = ("recommend", batch_run, "--input", source, "--output", recs, "--parts", 3)
    assert invoke(*usual, "-n", 4)[0] == 0
    code, _, err = invoke(*usual, "-n", 3)
    assert code == 1
    assert "another set of options" in err
    assert "--overwrite" in err
    events.head(50).write_parquet(source)
    code, _, err = invoke(*usual, "-n", 4)
    assert code == 1
    assert "another --input" in err
    assert invoke(*usual, "-n", 3, "--overwrite")[0] == 0
    frame = pl.read_parquet(recs / "part-*.parquet")
    assert frame["rank"].max() == 3
    assert frame["user"].n_unique() == events.head(50)["user"].n_unique()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear …")
    code, _, err = invoke("recommend", batch_run, "--input", source, "--output", tmp_path / "other", "--overwrite")
    assert code == 1
    assert "letter.txt" in err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_or_a_pattern_of_files_is_read_as_one_table(invoke, batch_run, at_once, events, tmp_path, kind):
    expected, _, _, _ = at_once
    (tmp_path / "days").mkdir()
    for day in range(3):
        getattr(events[day::3], f"write_{kind}")(tmp_path / "days" / f"day-{day}.{kind}")
    (tmp_path / "days" / "_SUCCESS").write_text("not a table")
    for number, source in enumerate((tmp_path / "days", tmp_path / "days" / f"day-*.{kind}")):
        output = tmp_path / f"recs{number}"
        code, _, err = invoke("recommend", batch_run, "--input", source, "--output", output, "-n", 4, "--parts", 2)
        assert code == 0, err
        assert f"{source if number else source.name}: ignored 1 unknown item: 'zz'" in err
        assert lists(output).equals(expected)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ratings_count_in_parts_as_they_do_at_once(invoke, batch_run, events, tmp_path, suffix):
    rated = events.with_columns(rating=pl.Series(np.random.default_rng(1).integers(1, 6, len(events))))
    source = tmp_path / f"rated.{suffix}"
    getattr(rated, f"write_{suffix}")(source)
    usual = ("recommend", batch_run, "--input", source, "-n", 3, "--min-rating", 5, "--rating-col")
    assert invoke(*usual, "rating", "--output", tmp_path / "all.parquet")[0] == 0
    code, _, err = invoke(*usual, "rating", "--output", tmp_path / "recs", "--parts", 40)
    assert code == 0, err
    assert lists(tmp_path / "recs").equals(lists(tmp_path / "all.parquet"))
    code, _, err = invoke(*usual[:-2], 6, "--output", tmp_path / "none", "--parts", 4)
    assert code == 1
    assert "all 1,0" in err
    assert "the highest is 5" in err


def test_a_file_that_does_not_fit_the_others_is_named(invoke, batch_run, tmp_path):
    (tmp_path / "days").mkdir()
    pl.DataFrame({"user": ["a"], "item": ["x"]}).write_parquet(tmp_path / "days" / "1.parquet")
    arguments = ("recommend", batch_run, "--input", tmp_path / "days", "--output", tmp_path / "recs", "-n", 3)
    for number, (frame, kind) in enumerate(
        (
            (pl.DataFrame({"user": [1], "item": ["x"]}), "parquet"),
            (pl.DataFrame({"who": ["a"], "item": ["x"]}), "parquet"),
            (pl.DataFrame({"user": ["a"], "item": ["x"]}), "csv"),
            (pl.DataFrame({"user": ["a", None], "item": ["x", "y"]}), "parquet"),
        )
    ):
        wrong = tmp_path / "days" / f"{number + 2}.{kind}"
        getattr(frame, f"write_{kind}")(wrong)
        code, _, err = invoke(*arguments)
        assert code == 1
        assert wrong.name in err
        assert "Traceback" not in err
        wrong.unlink()
        assert not (tmp_path / "recs").exists()


def test_integers_in_text_are_integers_for_everybody_or_for_nobody(trained, tmp_path):
    items = trained[0].items
    for last, kind in (("150", int), ("x1", str)):
        rows = [*((str(user), items[user % 7]) for user in range(150)), (last, items[0])]
        pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "in.csv")
        folder = tmp_path / last
        folder.mkdir()
        found = Divider(folder, items, 6, "in.csv").divide([tmp_path / "in.csv"])
        parts = [read_part(folder, number, len(items), found) for number in range(6)]
        assert {type(user) for part in parts for user in part.users} == {kind}
        assert sum(len(part.users) for part in parts) == 151


@given(
    st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 12)), min_size=1, max_size=60),
    st.integers(1, 9),
    st.booleans(),
)
def test_parts_have_the_histories_of_the_whole(tmp_path_factory, pairs, parts, as_text):
    folder = tmp_path_factory.mktemp("divided")
    users = [f"ü{user}" if as_text else user for user, _ in pairs]
    pl.DataFrame({"user": users, "item": [item for _, item in pairs]}).write_parquet(folder / "in.parquet")
    items = Ids.range(10)
    whole = read_histories(folder / "in.parquet", items)
    expected = {user: whole.histories[[row]].indices.tolist() for row, user in enumerate(whole.users)}
    with pytest.MonkeyPatch.context() as patch:  # many small batches, often written
        patch.setattr(tables, "BATCH_ROWS", 7)
        patch.setattr(dividing, "BUFFERED", 200)
        found = Divider(folder, items, parts, "in").divide([folder / "in.parquet"])
    got = {}
    for number in range(parts):
        part = read_part(folder, number, 10, found)
        assert set(part_of(part.users, parts).tolist()) <= {number}
        for row, user in enumerate(part.users):
            assert user not in got
            got[user] = part.histories[[row]].indices.tolist()
    assert got == expected
    assert found.unknown == len(set(whole.unknown))
    assert found.rows == len(pairs)


def test_users_spread_evenly_over_parts():
    for users in (Ids.range(20_000), Ids([f"customer-{n}" for n in range(20_000)])):
        sizes = np.bincount(part_of(users, 10), minlength=10)
        assert 1800 < sizes.min() <= sizes.max() < 2200


@pytest.mark.slow
@pytest.mark.alone
def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(batch_run, at_once, tmp_path):
    expected, _, _, source = at_once
    recs = tmp_path / "recs"
    command = [sys.executable, "-m", "macrid", "recommend", batch_run, "--input", source, "--output", recs]
    command += ["-n", "4", "--parts", "120"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while len(list(recs.glob("part-*"))) < 2 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    err = process.communicate()[1]
    assert process.returncode not in (0, None)
    assert "parts are done and kept" in err
    assert "continue with: macrid recommend" in err
    assert not (recs / "_SUCCESS").exists()
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=True).returncode == 0
    assert lists(recs).equals(expected)
