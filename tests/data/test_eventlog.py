"""Events of users in SQLite and in PostgreSQL."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from macrid.data import eventlog
from macrid.data.databases import hidden_password, without_password
from macrid.data.eventlog import Event, open_log
from macrid.errors import DatabaseError

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def event(number, **fields):
    return replace(Event(f"e-{number}", f"bag-{number}", NOON + timedelta(minutes=number)), **fields)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'events.db'}"
    return request.getfixturevalue("event_store")


@pytest.fixture
def log(url):
    log = open_log(url, patience=5)
    yield log
    log.close()


def test_events_come_back_with_all_their_fields(log):
    zone = datetime.fromisoformat("2026-03-01T14:00:00.25+02:00")
    first = event(1, time=zone, kind="purchase", weight=2.5, rating=4.0)
    assert log.append("ann", [event(2, item="Käse 'x'; --"), first]) == 2
    found = log.events("ann")
    assert [replace(each, received=None) for each in found] == [
        replace(first, time=NOON),
        event(2, item="Käse 'x'; --"),
    ]
    assert all(abs(datetime.now(UTC) - each.received) < timedelta(minutes=1) for each in found)
    assert found[0].as_json() | {"received": None} == {
        "id": "e-1", "item": "bag-1", "time": "2026-03-01T12:00:00.250000Z", "kind": "purchase", "weight": 2.5,
        "rating": 4.0, "received": None,
    }  # fmt: skip


def test_an_event_is_added_once_per_user_however_often_it_is_sent(log):
    assert log.append("ann", [event(1), event(2)]) == 2
    assert log.append("ann", [event(2, item="other"), event(3), event(3)]) == 1
    assert log.append("bob", [event(1)]) == 1
    assert [each.item for each in log.events("ann")] == ["bag-1", "bag-2", "bag-3"]


def test_processes_that_send_the_same_events_at_once_add_them_once(url):
    logs = [open_log(url) for _ in range(4)]  # also creates the tables at once
    with ThreadPoolExecutor(4) as pool:
        added = pool.map(lambda log: [log.append("ann", [event(n), event(n + 1)]) for n in range(0, 20, 2)], logs)
        assert sum(map(sum, added)) == 20
    assert len(logs[0].events("ann")) == 20
    for log in logs:
        log.close()


def test_the_latest_events_come_first(log):
    log.append("ann", [event(n, rating=float(n)) for n in (3, 1, 2)])
    assert log.latest("ann", 2) == [("bag-3", 3.0), ("bag-2", 2.0)]


def test_the_stamp_of_a_user_changes_with_every_change_and_only_for_that_user(log, url):
    other = open_log(url)
    stamps = [log.state("ann").stamp]
    for change in (
        lambda: other.append("ann", [event(1)]),
        lambda: other.append("ann", [event(2)]),
        lambda: other.prune(event(2).time),
        lambda: other.erase("ann"),
        lambda: other.append("ann", [event(1)]),
    ):
        change()
        stamps.append(log.state("ann").stamp)
        assert log.state("bob").stamp is None
    assert stamps[0] is stamps[4] is None
    assert len({stamp for stamp in stamps if stamp is not None}) == 4
    other.close()


def test_an_erased_user_is_gone_and_known_only_by_a_hash(log, url):
    log.append("ann-17", [event(1), event(2)])
    log.append("bob", [event(1)])
    assert log.erase("ann-17") == 2
    assert log.erase("ann-17") == 0
    assert (log.events("ann-17"), log.users("", 10)) == ([], ["bob"])
    assert log.state("ann-17").is_erased
    assert not log.state("bob").is_erased
    assert log.erased() == {log.hash_of("ann-17")}
    again = open_log(url)
    assert again.hash_of("ann-17") == log.hash_of("ann-17")
    again.close()


def test_nothing_of_an_erased_user_is_left_in_the_file(tmp_path):
    log = open_log(f"sqlite:///{tmp_path / 'events.db'}")
    log.append("ann-1717", [event(n, item=f"secret-{n}") for n in range(500)])
    log.append("bob", [event(1)])
    log.erase("ann-1717")
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"bag-1" in left
    assert b"secret-" not in left
    assert b"ann-1717" not in left
    log.close()


def test_old_events_can_be_pruned(log):
    log.append("ann", [event(1), event(2)])
    log.append("bob", [event(1)])
    assert log.prune(event(2).time) == 2
    assert [each.id for each in log.events("ann")] == ["e-2"]
    assert log.users("", 10) == ["ann"]
    assert not log.state("bob").is_erased


def test_users_are_listed_by_prefix_in_the_order_of_code_points(log):
    for user in ("b%", "Z", "a_1", "a11", "ä"):
        log.append(user, [event(1)])
    assert log.users("", 10) == ["Z", "a11", "a_1", "b%", "ä"]
    assert log.users("a_", 10) == ["a_1"]
    assert log.users("", 2) == ["Z", "a11"]


def test_every_thread_may_use_it(log):
    threads = [threading.Thread(target=log.append, args=(f"user-{n}", [event(n)])) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.users("user-", 10)) == 5


def test_tables_of_another_version_are_refused(url, monkeypatch):
    open_log(url).close()
    monkeypatch.setattr(eventlog, "SCHEMA", 2)
    with pytest.raises(DatabaseError, match=r"have version 1, and this macrid reads version 2"):
        open_log(url)


def test_an_acknowledged_event_survives_a_server_that_is_shut_down_at_once(postgres, event_store):
    log = open_log(event_store, patience=5)
    log.append("ann", [event(1)])
    postgres.stop()
    try:
        with pytest.raises(DatabaseError, match=r"not available .*refused") as caught:
            log.append("ann", [event(2)])
        assert "open-sesame" not in str(caught.value)
        assert "\n" not in str(caught.value)
    finally:
        postgres.start()
    assert log.append("ann", [event(2)]) == 1
    assert len(log.events("ann")) == 2
    log.close()


def test_a_deleted_file_is_an_error_and_not_written_to(tmp_path):
    log = open_log(f"sqlite:///{tmp_path / 'events.db'}")
    log.append("ann", [event(1)])
    for path in tmp_path.iterdir():
        path.rename(path.with_name(f"moved-{path.name}"))
    with pytest.raises(DatabaseError, match="unable to open database file"):
        log.append("ann", [event(2)])
    for path in tmp_path.iterdir():
        path.rename(path.with_name(path.name.removeprefix("moved-")))
    assert log.append("ann", [event(2)]) == 1
    log.close()


def test_a_file_that_another_process_writes_to_for_too_long_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("macrid.data.databases.BUSY_TIMEOUT", 0.1)
    log = open_log(f"sqlite:///{tmp_path / 'events.db'}")
    other = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseError, match="database is locked"):
        log.append("ann", [event(1)])
    assert log.state("ann").stamp is None  # readers need not wait
    other.close()
    assert log.append("ann", [event(1)]) == 1
    log.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql://ann:hidden1@host/name",
            r"'mysql://ann:\*\*\*@host/name': not the URL of a database; use one such as",
        ),
        ("sqlite:///", "not the URL of a database"),
        ("events.db", "not the URL of a database"),
        ("127.0.0.1:5432:shop:ann:hidden1", r"the address \(not shown.*\): not the URL of a database"),
        ("[db]\nuser = ann\npassword = hidden1", "not the URL of a database"),
        ('{"user": "ann", "password": "hidden1"}', "not the URL of a database"),
        ("postgres//ann:hidden1@host/name", "not the URL of a database"),
        ("postgresql:ann:hidden1", "not the URL of a database"),
        ("sqlite:////nowhere/at/all/events.db", "unable to open database file"),
        ("postgresql://ann:hid/den1@host:x/name", "not a PostgreSQL URL; percent-encode"),
        ("postgresql://ann:hidden1@127.0.0.1:1/name", r"\*\*\*@127.0.0.1:1/name: .*refused"),
    ],
)
def test_a_wrong_address_is_one_line_without_the_password(url, message):
    with pytest.raises(DatabaseError, match=message) as caught:
        open_log(url)
    assert "hid" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_driver_takes_for_a_host_is_not_shown():
    for password in ("hid1@hid2", "hid1/hid2", "hid1@hid2/hid3?hid4", "hid1#hid2:hid3"):
        url = f"postgresql+psycopg://ann:{password}@127.0.0.1/name"
        message = without_password("failed to resolve host 'hid1' or 'hid2', 'hid3', 'hid4'", url)
        assert "hid2" not in message
        assert all(part not in message for part in ("hid1", "hid3", "hid4") if part in password)
        assert "hid" not in hidden_password(url)


def test_a_wrong_password_is_not_shown(postgres):
    with pytest.raises(DatabaseError, match="password authentication failed") as caught:
        open_log(postgres.url.replace("open-sesame", "close-sesame"))
    assert "sesame" not in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "events.db").write_text("user,item\n" * 1000)
    with pytest.raises(DatabaseError, match=r"events.db: .*file is not a database"):
        open_log(f"sqlite:///{tmp_path / 'events.db'}")
