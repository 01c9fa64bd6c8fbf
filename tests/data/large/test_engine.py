"""Queries to DuckDB and to databases, and what happens when they fail."""

import os
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from macrid.data import sql
from macrid.data.interactions import Interactions
from macrid.data.large import preparing
from macrid.data.large.engine import Engine, QueryError, _Work
from macrid.data.large.parts import Request
from macrid.data.large.preparing import Query, prepare
from macrid.data.sql import QueryTable
from macrid.errors import DatabaseError, DataError
from tests.data.large.test_preparing import events, in_memory, same_folder
from tests.postgres import PASSWORD

QUERY = "SELECT user_id, item_id, stars FROM orders ORDER BY place"


def filled(execute, many):
    """The events of `tests.data.large.test_preparing` in a database."""
    execute("CREATE TABLE orders (place INTEGER, user_id INTEGER, item_id TEXT, stars REAL)")
    rows = [
        (place, int(row.user), f"i{row.item}", float(row.rating)) for place, row in enumerate(events().itertuples())
    ]
    many(rows)


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        filled(connection.execute, lambda rows: connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows))
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture
def server(database):
    import psycopg

    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        insert = "INSERT INTO orders VALUES (%s, %s, %s, %s)"
        filled(connection.execute, lambda rows: connection.cursor().executemany(insert, rows))
    return database


@pytest.mark.parametrize("url", ["shop", "server"])
def test_a_streamed_query_gives_the_folder_that_memory_gives(url, tmp_path, request, monkeypatch):
    url = request.getfixturevalue(url)
    monkeypatch.setattr(sql, "BATCH", 100)
    monkeypatch.setattr(preparing, "BYTES_PER_PAIR", preparing.MEMORY // 100)
    in_memory(QueryTable(QUERY, url), tmp_path / "small", Request(min_rating=2), min_items=2)
    prepare(Query(QUERY, url), tmp_path / "large", Request(min_rating=2), min_items=2)
    same_folder(tmp_path / "small", tmp_path / "large")


def test_rows_are_fetched_as_they_are_needed(server, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 10)
    table = QueryTable(
        "SELECT n AS user_id, n AS item_id, repeat('x', 1000) AS y FROM generate_series(1, 2000000) n", server
    )
    batches = table.batches(["user_id"])
    begun = time.monotonic()
    assert next(batches).num_rows == 10
    assert time.monotonic() - begun < 1  # two million rows would take a minute


def test_a_small_result_is_kept_in_memory_and_a_large_one_is_not_lost(shop, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 100)
    assert len(Interactions.read(QueryTable(QUERY, shop).within(600), min_items=1).users) == 30
    table = QueryTable(QUERY, shop)
    assert table.within(250) is None
    batches = list(table.batches(["item_id"]))
    assert [batch.num_rows for batch in batches] == [100] * 6
    assert batches[0].column("item_id")[0].as_py() == f"i{events().item[0]}"


@pytest.mark.slow
def test_a_query_that_was_read_is_not_run_again(shop, tmp_path, monkeypatch):
    prepare(Query(QUERY, shop), tmp_path / "whole", Request(), min_items=1)

    def stop(what, *_):
        if what == "merging interactions":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(Query(QUERY, shop), tmp_path / "data", Request(), min_items=1, tell=stop)
    monkeypatch.setattr(preparing, "QueryTable", None)
    prepare(Query(QUERY, shop), tmp_path / "data", Request(), min_items=1)
    same_folder(tmp_path / "whole", tmp_path / "data")


def test_the_work_folder_has_no_password(server, tmp_path):
    def stop(what, *_):
        if what == "merging interactions":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(Query(QUERY, server), tmp_path / "data", Request(), min_items=1, tell=stop)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not any(PASSWORD.encode() in path.read_bytes() for path in files)


def test_a_database_that_is_not_there_is_named_quickly_without_its_password(tmp_path):
    begun = time.monotonic()
    url = "postgresql://me:open-sesame@127.0.0.1:9/shop"
    with pytest.raises(DatabaseError, match=r"postgresql://me:\*\*\*@127.0.0.1:9/shop: cannot open") as raised:
        prepare(Query("SELECT 1", url), tmp_path / "data", Request())
    assert time.monotonic() - begun < 5
    assert "open-sesame" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_type_that_changes_within_a_query_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 1)
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    query = Query("SELECT 1 AS user_id, 2 AS item_id UNION ALL SELECT 'a', 3", f"sqlite:///{path}")
    with pytest.raises(DataError, match="query: columns of type int64 and int64 become string and int64 after 1 rows"):
        prepare(query, tmp_path / "data", Request())


def test_a_disk_that_fills_while_spilling_is_an_error_of_one_line(tmp_path):
    engine = Engine(tmp_path / "spill", 20 << 20, threads=1)
    engine.run("SET max_temp_directory_size = '1MiB'")
    with pytest.raises(DataError, match=r"the disk is full \(.*failed to offload") as raised:
        engine.run(f"COPY (SELECT range AS x, random() AS y FROM range(4000000) ORDER BY y) TO '{tmp_path}/x.parquet'")
    assert "\n" not in str(raised.value)
    engine.close()


def test_a_column_called_quota_is_no_full_disk(tmp_path):
    engine = Engine(tmp_path / "spill", 20 << 20, threads=1)
    with pytest.raises(QueryError, match="quota"):
        engine.run("SELECT quota FROM (SELECT 1 AS a)")
    engine.close()


FULL = """
import resource, sys
from pathlib import Path
from macrid.data.large.parts import Request
from macrid.data.large.preparing import prepare
from macrid.errors import DataError

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    prepare([Path(sys.argv[1])], Path(sys.argv[2]), Request(), min_items=1)
except DataError as error:
    print(error)
    sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="has no such limits")
def test_a_full_disk_leaves_nothing_at_the_target_and_the_same_call_goes_on(tmp_path):
    path = tmp_path / "events.parquet"
    events(rows=60_000, users=60_000, items=5_000).assign(user=range(60_000)).to_parquet(path)
    for limit in (200, 100_000, 250_000):  # bytes that a file may have
        command = [sys.executable, "-c", FULL, str(path), str(tmp_path / "data"), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (1, ""), done.stderr
        assert "File too large" in done.stdout
        assert done.stdout.count("\n") == 1
        assert not (tmp_path / "data").exists()
    prepare([path], tmp_path / "data", Request(), min_items=1)
    in_memory(path, tmp_path / "small")
    same_folder(tmp_path / "small", tmp_path / "data")


def test_an_interrupt_ends_a_long_query_at_once(tmp_path):
    engine = Engine(tmp_path / "spill", 100 << 20, threads=1)

    def stop(_):
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.run("SELECT count(*) FROM range(10000000) a, range(10000) b WHERE a.range = b.range * 7 % 3", stop)
    assert time.monotonic() - begun < 5
    engine.close()


@pytest.mark.parametrize("begins", [False, True])
def test_an_interrupt_while_the_thread_starts_leaves_nothing_running(tmp_path, monkeypatch, begins):
    engine = Engine(tmp_path / "spill", 100 << 20, threads=1)
    start = threading.Thread.start

    def interrupted(thread):
        if begins:
            start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.run("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3")
    assert engine.rows("SELECT 1") == [(1,)]
    engine.close()


def test_work_that_was_called_off_never_begins():
    done = []
    work = _Work(lambda: done.append(1))
    assert work.is_called_off()
    work()
    assert work.is_called_off()
    assert not done


def test_work_that_has_begun_cannot_be_called_off():
    work = _Work(lambda: None)
    work()
    assert not work.is_called_off()
    assert work.ended.is_set()


INTERRUPTED = """
import os, signal, sys, threading
from pathlib import Path
from macrid.data.large.engine import Engine

running = False

def interrupt(*_):
    if running:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
engine = Engine(Path(sys.argv[1]), 100 << 20, threads=1)
for delay in (0.02, 0.05, 0.1, 0.15, 0.25):
    for more in (0, 0.01):
        threading.Timer(delay + more, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        running = True
        try:
            engine.run("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3")
        finally:
            running = False
    except KeyboardInterrupt:
        pass
    assert engine.rows("SELECT 1") == [(1,)]  # nothing runs any more
engine.close()
print("closed")
"""


def test_after_a_real_interrupt_or_two_nothing_runs_any_more(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "spill")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr
