"""Users' events over HTTP: seen by the next request, stored once, exported, erased, and none lost."""

import json
import os
import signal
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.client import HTTPException

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from starlette.testclient import TestClient

import macrid
from macrid import runs
from macrid.data.eventlog import open_log
from macrid.serving import events as events_module
from macrid.serving import service as service_module
from macrid.serving.app import create_app
from macrid.settings import ServingSettings
from tests.serving.test_app import ok, problem, sizes
from tests.serving.test_server import serving, wait_until
from tests.serving.test_workers import workers_of

ITEMS = 12


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """Items that go together with their neighbours in number; ratings below 3 are no history."""
    rng = np.random.default_rng(0)
    starts = rng.integers(0, ITEMS, 300)
    users, items = np.repeat(np.arange(300), 5), (starts[:, None] + np.arange(5)).ravel() % ITEMS
    table = pa.table({"user": users, "item": [f"i{n}" for n in items], "rating": np.full(1500, 5.0)})
    model = macrid.EASE(regularisation=10.0).fit(macrid.Interactions.read(table, min_rating=3))
    folder = tmp_path_factory.mktemp("small") / "run"
    runs.save(model, folder, data={"min_rating": 3})
    return folder


@pytest.fixture
def client_of():
    """As for other tests, but closed after each: it watches its database and its file."""
    with ExitStack() as stack:

        def make(run, **settings):
            app = create_app(run, ServingSettings.make(settings))
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False))

        yield make


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'events.db'}"
    return request.getfixturevalue("event_store")


@pytest.fixture
def users_file(tmp_path):
    path = tmp_path / "users.csv"
    write_users(path, ann=["i0", "i1"], bob=["i6"])
    return path


def write_users(path, **histories):
    pairs = [(user, item) for user, items in histories.items() for item in items]
    users, items = zip(*pairs, strict=True)
    pa.csv.write_csv(pa.table({"user": users, "item": items}), path)


@pytest.fixture
def store(client_of, small_run, url, users_file):
    return client_of(small_run, events=url, users=str(users_file))


def post(client, user, *events):
    return client.post(f"/v1/users/{user}/events", json={"events": list(events)})


def history(client, user):
    return [item["id"] for item in ok(client.get(f"/v1/users/{user}"))["history"]]


def picks(client, user, n=3):
    return [item["id"] for item in ok(client.post("/v1/recommend", json={"user": user, "n": n}))["items"]]


def test_the_next_request_sees_new_events_of_old_and_new_users(store):
    before = picks(store, "ann")
    assert ok(post(store, "ann", {"id": "e-1", "item": "i6"}, {"id": "e-2", "item": "i7"})) == {
        "added": 2, "known": 0, "unknown_items": [],
    }  # fmt: skip
    assert history(store, "ann") == ["i0", "i1", "i6", "i7"]
    assert picks(store, "ann") != before
    assert not {"i0", "i1", "i6", "i7"} & {*picks(store, "ann", 8)}
    problem(store.post("/v1/recommend", json={"user": "cleo"}), 404, "no user 'cleo'")
    ok(post(store, "cleo", {"id": "e-1", "item": "i3"}))
    assert picks(store, "cleo") == [
        item["id"] for item in ok(store.post("/v1/recommend", json={"history": ["i3"], "n": 3}))["items"]
    ]


def test_an_event_sent_again_is_stored_once(store):
    ok(post(store, "ann", {"id": "e-1", "item": "i6"}))
    event = {"item": "i7", "time": "2026-01-31T12:00:00+02:00", "kind": "view"}
    assert ok(post(store, "ann", {"id": "e-1", "item": "i8"}, event, event)) == {
        "added": 1, "known": 2, "unknown_items": [],
    }  # fmt: skip
    assert ok(post(store, "ann", event | {"time": 1769853600}))["added"] == 0  # the same moment
    assert ok(post(store, "ann", event | {"kind": "purchase"}))["added"] == 1
    assert history(store, "ann") == ["i0", "i1", "i7", "i6"]


def test_events_of_unknown_items_are_stored_and_named(store):
    answer = ok(post(store, "dora", {"id": 1, "item": "new-1"}, {"id": 2, "item": "i3"}, {"id": 3, "item": "new-1"}))
    assert answer == {"added": 3, "known": 0, "unknown_items": ["new-1"]}
    assert ok(store.post("/v1/recommend", json={"user": "dora"}))["unknown"] == ["new-1"]
    assert history(store, "dora") == ["i3"]


def test_items_rated_too_low_are_seen_but_no_history(store):
    ok(post(store, "ann", {"id": "e-1", "item": "i2", "rating": 1}, {"id": "e-2", "item": "i3", "rating": 3}))
    assert history(store, "ann") == ["i0", "i1", "i3"]
    assert "i2" not in picks(store, "ann", 8)


def test_a_users_events_can_be_exported_with_all_fields(store):
    event = {"id": "e-1", "item": "i6", "time": "2026-01-31T12:00:00Z", "kind": "buy", "weight": 3.0, "rating": 4.5}
    ok(post(store, "ann", event))
    content = ok(store.get("/v1/users/ann/events"))
    received = content["events"][0].pop("received")
    assert abs(datetime.fromisoformat(received) - datetime.now(UTC)) < timedelta(minutes=1)
    assert content == {
        "user": "ann", "events": [event | {"time": "2026-01-31T12:00:00.000000Z"}], "items": ["i0", "i1"],
    }  # fmt: skip
    assert ok(store.get("/v1/users/nobody/events")) == {"user": "nobody", "events": [], "items": []}


def test_an_erased_user_is_unknown_also_if_the_file_has_them(store, client_of, small_run, url, users_file):
    other = client_of(small_run, events=url, users=str(users_file))  # as another process
    ok(post(store, "ann", {"id": "e-1", "item": "i6"}))
    ok(post(store, "bob", {"id": "e-1", "item": "i6"}))
    assert len(history(other, "ann")) == 3
    assert ok(store.delete("/v1/users/ann/events")) == {"user": "ann", "deleted": 1}
    for client in (store, other):
        problem(client.post("/v1/recommend", json={"user": "ann"}), 404)
        assert ok(client.get("/v1/users/ann/events"))["items"] == []
        assert ok(client.get("/v1/users"))["total"] == 1
        assert sizes(client) == [("bob", 1)]
        problem(client.get("/v1/users/ann"), 404, "no user 'ann'; known users: bob …")
    assert ok(store.delete("/v1/users/ann/events"))["deleted"] == 0
    ok(post(store, "ann", {"id": "e-9", "item": "i9"}))  # who comes back starts anew
    assert history(other, "ann") == ["i9"]
    assert history(other, "bob") == ["i6"]


def test_erased_events_leave_the_memory_of_other_processes(client_of, small_run, url, monkeypatch):
    monkeypatch.setattr(service_module, "LOOK", 0.05)
    store, other = (client_of(small_run, events=url) for _ in range(2))
    ok(post(store, "ann", {"id": "e-1", "item": "i6"}))
    assert history(other, "ann") == ["i6"]
    cache = other.app.state.service.events._cache
    assert "ann" in cache
    ok(store.delete("/v1/users/ann/events"))
    wait_until(lambda: "ann" not in cache)


def test_users_with_events_are_listed_after_those_of_the_file(store):
    for user in ("zoe", "ann", "cleo"):
        ok(post(store, user, {"id": "e-1", "item": "i6"}, {"id": "e-2", "item": "x"}))
    assert ok(store.get("/v1/users", params={"limit": 3}))["total"] == 4
    assert sizes(store, limit=3) == [("ann", 3), ("bob", 1), ("cleo", 1)]
    assert sizes(store, offset=3) == [("zoe", 1)]
    assert ok(store.get("/v1/users", params={"q": "c"}))["total"] == 1
    assert ok(store.get("/v1/users", params={"q": "\0"}))["total"] == 0


def test_ids_of_any_text_are_kept_apart(store):
    for user in ("a%2Fb", "a b", "ä", "7", "a%27%3B--"):
        ok(post(store, user, {"id": "é", "item": "i3", "kind": "view"}))
        assert history(store, user) == ["i3"]
    assert ok(store.post("/v1/recommend", json={"user": 7, "n": 1}))["items"]
    problem(store.post("/v1/recommend", json={"user": "a\0b"}), 404)
    assert ok(store.get("/readyz"))["warnings"] == []


TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"id": "e", "item": "i1", "time": "yesterday"}, "events[1].time: not a time; use ISO 8601"),
        ({"id": "e", "item": "i1", "time": True}, "events[1].time: not a time"),
        ({"id": "e", "item": "i1", "time": TOMORROW}, "events[1].time: 20"),
        ({"id": "e", "item": "i1", "time": 1769853600000}, "seconds since 1970"),
        ({"id": "e", "item": "i1", "time": 4e9}, "in the future; check the clock, and that numbers are seconds"),
        ({"id": "e", "item": "i1", "time": -5}, "events[1].time: a time before 1970"),
        ({"id": "e", "item": "i1", "weight": -1}, "events[1].weight: input should be greater than 0"),
        ({"id": "e", "item": "i1", "weight": "much"}, "events[1].weight: "),
        ({"id": "e", "item": "i1", "rating": None, "kind": "\0"}, "events[1].kind: it must not be empty or contain"),
        ({"id": "", "item": "i1"}, "events[1].id: it must not be empty"),
        ({"id": "x" * 201, "item": "i1"}, "events[1].id: it may have at most 200 characters"),
        ({"id": "e"}, "events[1].item: field required"),
        ({"id": "e", "item": ["i1"]}, "events[1].item: an id is a string or an integer"),
        ({"item": "i1"}, "events[1]: give an id, or a time to tell it from other events"),
        ({"id": "e", "item": "i1", "price": 3}, "events[1].price: "),
    ],
)
def test_a_bad_event_is_named_and_nothing_is_stored(client_of, small_run, tmp_path, event, message):
    client = client_of(small_run, events=f"sqlite:///{tmp_path / 'events.db'}")
    problem(post(client, "ann", {"id": "a", "item": "i1"}, event), 422, message)
    assert ok(client.get("/v1/users/ann/events"))["events"] == []


def test_requests_have_limits(client_of, small_run, tmp_path):
    client = client_of(small_run, events=f"sqlite:///{tmp_path / 'events.db'}", max_history=3)
    problem(post(client, "ann"), 422, "events: list should have at least 1 item")
    many = [{"id": n, "item": "i1"} for n in range(1001)]
    problem(post(client, "ann", *many), 422, "events: list should have at most 1000 items")
    problem(post(client, "x" * 201, {"id": 1, "item": "i1"}), 422, "user: it may have at most 200 characters")
    ok(post(client, "ann", *({"id": n, "item": f"i{n}", "time": 1000 + n} for n in range(6))))
    assert history(client, "ann") == ["i3", "i4", "i5"]  # the latest


def test_without_a_store_the_routes_say_how_to_get_one(client_of, small_run):
    client = client_of(small_run)
    for answer in (post(client, "ann", {"id": 1, "item": "i1"}), client.get("/v1/users/ann/events")):
        problem(answer, 409, "--events URL or MACRID_EVENTS=URL")


def test_only_those_who_may_edit_export_and_erase(client_of, small_run, tmp_path):
    client = client_of(small_run, events=f"sqlite:///{tmp_path / 'events.db'}", edits="no")
    ok(post(client, "ann", {"id": 1, "item": "i1"}))
    for method in ("GET", "DELETE"):
        answer = client.request(method, "/v1/users/ann/events")
        problem(answer, 403, "exporting and erasing events are switched off")
    token = client_of(small_run, events=f"sqlite:///{tmp_path / 'events.db'}", token="a long secret")
    problem(post(token, "ann", {"id": 1, "item": "i1"}), 401)


def test_a_bad_address_is_one_line_without_the_password(small_run):
    settings = ServingSettings.make(events="postgresql://me:hidden@127.0.0.1:1/x")
    assert "hidden" not in repr(settings)
    with pytest.raises(macrid.DatabaseError, match=r"me:\*\*\*@127.0.0.1:1/x: .*refused"):
        create_app(small_run, settings)


def test_a_long_history_is_read_from_the_database_only_when_it_changed(client_of, small_run, url, monkeypatch):
    client = client_of(small_run, events=url)
    log, reads = client.app.state.service.events.log, []
    latest = log.latest
    monkeypatch.setattr(log, "latest", lambda *args: reads.append(args) or latest(*args))
    ok(post(client, "ann", {"id": 1, "item": "i1"}))
    for _ in range(3):
        assert history(client, "ann") == ["i1"]
    assert len(reads) == 1
    other = open_log(url)
    other.append("bob", [])
    assert history(client, "ann") == ["i1"]
    assert len(reads) == 1
    other.erase("ann")
    problem(client.get("/v1/users/ann"), 404)
    other.close()


def test_the_cache_has_a_limit(client_of, small_run, tmp_path, monkeypatch):
    monkeypatch.setattr(events_module, "MOST_CACHED", 5)
    client = client_of(small_run, events=f"sqlite:///{tmp_path / 'events.db'}")
    for user in ("ann", "bob", "cleo"):
        ok(post(client, user, {"id": 1, "item": "i1"}, {"id": 2, "item": "i2"}))
        assert history(client, user)
    store = client.app.state.service.events
    assert (list(store._cache), store._cached) == (["bob", "cleo"], 4)


# A database that goes away


def test_while_the_database_is_away_lists_carry_a_warning_and_it_comes_back_by_itself(
    client_of, small_run, postgres, event_store, users_file, monkeypatch, caplog
):
    monkeypatch.setattr(events_module, "LONGEST_TRYING", 0.3)
    monkeypatch.setattr(service_module, "LOOK", 0.1)
    caplog.set_level("INFO", "macrid.serving")
    client = client_of(small_run, events=event_store, users=str(users_file))
    ok(post(client, "ann", {"id": "e-1", "item": "i6"}))
    with_event = picks(client, "ann")
    postgres.stop()
    try:
        answer = post(client, "ann", {"id": "e-2", "item": "i7"})
        problem(answer, 503, "the event store is not available; send the same request again later")
        assert answer.headers["retry-after"]
        for user, expected in (("ann", with_event), ("bob", None)):
            content = ok(client.post("/v1/recommend", json={"user": user, "n": 3}))
            assert content["warnings"] == [events_module.AWAY]
            assert expected in (None, [item["id"] for item in content["items"]])
        problem(client.post("/v1/recommend", json={"user": "cleo"}), 503, "user 'cleo' is in no file")
        assert ok(client.get("/v1/users"))["total"] == 2
        assert ok(client.get("/readyz"))["warnings"] == [events_module.AWAY]
        assert "macrid_event_store_up 0.0" in client.get("/metrics").text
    finally:
        postgres.start()
    wait_until(lambda: ok(client.get("/readyz"))["warnings"] == [])
    assert ok(post(client, "ann", {"id": "e-1", "item": "i6"}, {"id": "e-2", "item": "i7"}))["added"] == 1
    assert ok(client.post("/v1/recommend", json={"user": "ann", "n": 3}))["warnings"] == []
    lines = [record.message for record in caplog.records if "event store" in record.message]
    assert len(lines) == 2
    assert "not available" in lines[0]
    assert "available again" in lines[1]
    assert "open-sesame" not in caplog.text


def test_an_event_waits_for_a_database_that_restarts(client_of, small_run, postgres, event_store):
    client = client_of(small_run, events=event_store)
    ok(post(client, "ann", {"id": "e-1", "item": "i6"}))
    postgres.stop()
    restart = threading.Timer(0.7, postgres.start)
    restart.start()
    assert ok(post(client, "ann", {"id": "e-2", "item": "i7"}))["added"] == 1
    restart.join()


# Nothing acknowledged is lost


class Sender:
    """Sends events one by one, each again with the same id until it is acknowledged."""

    def __init__(self, server):
        self.server, self.acknowledged, self.stop = server, [], threading.Event()
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self):
        number = 0
        while not self.stop.is_set():
            try:
                body = {"events": [{"id": f"e-{number}", "item": f"i{number % ITEMS}"}]}
                status, _ = self.server.ask("POST", "/v1/users/ann/events", body)
            except (OSError, HTTPException):
                return
            if status == 200:
                self.acknowledged.append(f"e-{number}")
                number += 1

    def end(self):
        self.stop.set()
        self.thread.join()


def check_all_are_stored_once(url, sender):
    log = open_log(url)
    stored = [event.id for event in log.events("ann")]
    assert {*sender.acknowledged} <= {*stored}
    assert len(stored) == len({*stored}) <= len(sender.acknowledged) + 1  # the last may have lost its answer
    assert log.append("ann", log.events("ann")) == 0
    log.close()


@pytest.mark.slow
def test_every_worker_sees_events_at_once_and_kill_9_loses_none(small_run, tmp_path):
    url = f"sqlite:///{tmp_path / 'events.db'}"
    with serving(small_run, "--workers", "2", "--events", url) as server:
        for number in range(ITEMS):
            body = {"events": [{"id": number, "item": f"i{number}"}]}
            assert server.ask("POST", "/v1/users/bob/events", body)[0] == 200
            for _ in range(3):
                seen = json.loads(server.ask("GET", "/v1/users/bob")[1])["history"]
                assert len(seen) == number + 1
        assert server.ask("DELETE", "/v1/users/bob/events")[0] == 200
        assert {server.ask("GET", "/v1/users/bob")[0] for _ in range(4)} == {404}
        sender = Sender(server)
        wait_until(lambda: len(sender.acknowledged) > 30)
        for pid in (*workers_of(server.process.pid), server.process.pid):
            os.kill(pid, signal.SIGKILL)
        sender.end()
    check_all_are_stored_once(url, sender)


@pytest.mark.slow
def test_a_server_shut_down_at_once_and_kill_9_lose_nothing_that_was_acknowledged(
    small_run, postgres, event_store, monkeypatch
):
    monkeypatch.setenv("MACRID_EVENTS", event_store)
    with serving(small_run) as server:
        sender = Sender(server)
        for _ in range(2):
            wait_for = len(sender.acknowledged) + 20
            wait_until(lambda wait_for=wait_for: len(sender.acknowledged) > wait_for)
            postgres.stop()
            time.sleep(0.3)
            postgres.start()
        wait_for = len(sender.acknowledged) + 20
        wait_until(lambda: len(sender.acknowledged) > wait_for)
        with open(f"/proc/{server.process.pid}/cmdline") as file:
            assert "open-sesame" not in file.read()
        os.kill(server.process.pid, signal.SIGKILL)
        sender.end()
        assert "open-sesame" not in server.process.stderr.read()
    check_all_are_stored_once(event_store, sender)


# The users' file


def test_a_changed_users_file_is_read_again_and_a_bad_one_keeps_the_old_users(
    client_of, small_run, users_file, monkeypatch, caplog
):
    monkeypatch.setattr(service_module, "LOOK", 0.1)
    caplog.set_level("INFO", "macrid.serving")
    client = client_of(small_run, users=str(users_file))
    assert history(client, "bob") == ["i6"]
    write_users(users_file, bob=["i6", "i7"], cleo=["i3"])
    wait_until(lambda: sizes(client) == [("bob", 2), ("cleo", 1)])
    users_file.write_text("nothing,to see\n1,2\n")
    wait_until(lambda: ok(client.get("/readyz"))["warnings"])
    (warning,) = ok(client.get("/readyz"))["warnings"]
    assert warning.startswith(
        "the users could not be read again, keeping the old ones: users.csv: no column looks like"
    )
    assert str(users_file.parent) not in warning
    assert history(client, "cleo") == ["i3"]
    time.sleep(0.4)
    assert sum("could not be read again" in record.message for record in caplog.records) == 1
    assert 'macrid_users_reads_total{outcome="failed"} 1.0' in client.get("/metrics").text
    write_users(users_file, dora=["i3"])
    wait_until(lambda: ok(client.get("/readyz"))["warnings"] == [])
    assert "macrid_users 1.0" in client.get("/metrics").text


def test_reloading_an_unchanged_run_reads_the_users_again(client_of, small_run, users_file):
    client = client_of(small_run, users=str(users_file))
    write_users(users_file, cleo=["i3"])
    ok(client.post("/v1/reload", json={}))
    assert history(client, "cleo") == ["i3"]
    users_file.unlink()
    problem(client.post("/v1/reload", json={}), 409, "keeping the old ones: users.csv: no such file")
    assert history(client, "cleo") == ["i3"]
