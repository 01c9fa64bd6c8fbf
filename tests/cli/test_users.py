"""macrid users, and data from queries."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from macrid.data.eventlog import Event, open_log


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The URL of a store with two users, also in the environment."""
    url = f"sqlite:///{tmp_path / 'events.db'}"
    monkeypatch.setenv("MACRID_EVENTS", url)
    log, now = open_log(url), datetime.now(UTC)
    log.append("ann", [Event("e-1", "bag-1", now - timedelta(days=400)), Event("e-2", "bag-2", now, "buy", 2.0)])
    log.append("bob", [Event("e-1", "bag-1", now)])
    log.close()
    return url


def users_of(url):
    log = open_log(url)
    counts = {user: len(log.events(user)) for user in log.users("", 10)}
    log.close()
    return counts


def test_export_prints_all_events_of_a_user(invoke, store):
    code, out, _ = invoke("users", "export", "ann")
    content = json.loads(out)
    assert (code, content["user"]) == (0, "ann")
    assert [(event["id"], event["kind"], event["weight"]) for event in content["events"]] == [
        ("e-1", None, None),
        ("e-2", "buy", 2.0),
    ]


def test_delete_erases_a_user(invoke, store, tmp_path):
    code, out, _ = invoke("users", "delete", "ann", "--yes", "--json")
    assert (code, json.loads(out)) == (0, {"user": "ann", "deleted": 2})
    assert users_of(store) == {"bob": 1}
    assert "deleted 0 events" in invoke("users", "delete", "ann", "--yes", "--events", store)[1]


def test_nothing_is_deleted_without_a_yes(invoke, store):
    assert invoke("users", "delete", "ann")[0] == 1
    assert invoke("users", "prune", "--older-than", "1")[0] == 1
    assert users_of(store) == {"ann": 2, "bob": 1}


def test_prune_deletes_old_events(invoke, store):
    code, out, _ = invoke("users", "prune", "--older-than", "365", "--yes", "--json")
    assert (code, json.loads(out)["deleted"]) == (0, 1)
    assert users_of(store) == {"ann": 1, "bob": 1}


def test_a_missing_store_is_one_line_and_not_created(invoke, tmp_path, monkeypatch):
    code, _, err = invoke("users", "export", "ann", "--events", f"sqlite:///{tmp_path / 'none.db'}")
    assert (code, err.count("\n")) == (1, 1)
    assert "unable to open database file" in err
    assert not (tmp_path / "none.db").exists()
    monkeypatch.delenv("MACRID_EVENTS", raising=False)
    assert "no event store; set MACRID_EVENTS" in invoke("users", "export", "ann")[2]


@pytest.fixture
def shop(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (user_id INTEGER, item_id TEXT)")
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?)", [(u, f"i{(u * u + k) % 20}") for u in range(40) for k in range(6)]
        )
        connection.execute("CREATE TABLE items (id TEXT, name TEXT)")
        connection.executemany("INSERT INTO items VALUES (?, ?)", [(f"i{k}", f"Item {k}") for k in range(20)])
    connection.close()
    return f"sqlite:///{tmp_path / 'shop.db'}"


def test_data_is_prepared_from_queries(invoke, shop, tmp_path, monkeypatch):
    monkeypatch.setenv("MACRID_DATABASE", shop)
    queries = ["--sql", "SELECT user_id, item_id FROM orders", "--items-sql", "SELECT * FROM items"]
    code, out, err = invoke("data", "prepare", *queries, "--out", tmp_path / "data", "--json")
    assert (code, json.loads(out)["interactions"]) == (0, 240)
    assert err.startswith("query: 240 rows; guessed user = 'user_id'")
    assert json.loads((tmp_path / "data" / "about.json").read_text())["recipe"]["sql"] == queries[1]


def test_data_is_prepared_from_postgres(invoke, database, tmp_path, monkeypatch):
    (tmp_path / "url").write_text(database)
    query = "SELECT u AS user_id, (u * u + k) % 20 AS item_id FROM generate_series(1, 40) u, generate_series(1, 6) k"
    arguments = "--database-file", tmp_path / "url", "--sql", query, "--out", tmp_path / "data", "--json"
    code, out, _ = invoke("data", "prepare", *arguments)
    assert (code, json.loads(out)["interactions"]) == (0, 240)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "give either files or a catalogue name, or --sql with a query"),
        (["shop", "--sql", "SELECT 1"], 2, "give either files or a catalogue name"),
        (["--sql", "SELECT 1", "--items", "x.csv", "--items-sql", "SELECT 1"], 2, "either --items or --items-sql"),
        (["--sql", "SELECT 1"], 1, "no database; set MACRID_DATABASE to a URL such as"),
        (["--sql", "SELECT 1 AS user", "--database-file", "none"], 1, "none: cannot be read (No such file"),
        (["shop", "--items-sql", "SELECT 1"], 1, "shop: has its own recipe; remove --items-sql"),
    ],
)
def test_a_query_that_cannot_be_asked_is_one_line(invoke, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.delenv("MACRID_DATABASE", raising=False)
    found, _, err = invoke("data", "prepare", *arguments, "--out", tmp_path / "data")
    assert found == code
    assert message in " ".join(err.replace("│", " ").split())


def test_the_address_of_a_store_is_read_from_the_environment(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("MACRID_EVENTS", "postgresql://me:secret@127.0.0.1:1/x")
    code, out, err = invoke("users", "export", "ann")
    assert code == 1
    assert "me:***@127.0.0.1:1/x" in err
    assert "secret" not in out + err
