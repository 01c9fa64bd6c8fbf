"""A file comes in, is examined, trained on, and opened; whatever goes wrong, nothing is left behind."""

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing

import pyarrow.csv
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

from macrid import runs
from macrid.errors import SettingsError
from macrid.files import lock
from macrid.serving import training
from macrid.serving.app import create_app
from macrid.serving.guard import may_train
from macrid.serving.problems import RefusedError
from macrid.serving.schemas.about import RunsBeside
from macrid.serving.schemas.training import Training
from macrid.serving.trainer import Job
from macrid.settings import ServingSettings
from tests.serving.browser import Site
from tests.serving.test_app import ok, problem
from tests.serving.test_examining import GOOD, PARQUET
from tests.serving.test_server import serving

LONG = 60.0  # seconds for a training of seconds on a busy machine


@pytest.fixture(scope="module")
def shop_files():
    """Events as CSV, items as Parquet: enough to train on for a second."""
    from macrid.data.shop import generate

    data = generate(users=300, items=100, seed=5).interactions
    events, items = io.BytesIO(), io.BytesIO()
    pyarrow.csv.write_csv(data.to_frame(), events)
    pyarrow.parquet.write_table(data.table.add_column(0, "item", data.items.array), items)
    return events.getvalue(), items.getvalue()


@pytest.fixture(autouse=True)
def usual_priority(monkeypatch):
    """Next to other tests, low priority takes ten times as long."""
    monkeypatch.setattr(training, "NICE", 0)


@pytest.fixture
def trainer(client_of, own_run):
    """A client of a run in a folder of its own, in which training may leave things."""
    client = client_of(own_run)
    yield client
    client.app.state.service.training.close()


@pytest.fixture
def beside(own_run):
    """A function that lists what is beside the run."""
    return lambda: sorted(path.name for path in own_run.parent.iterdir())


def upload(client, content, name="events.csv", what="events"):
    return client.put(f"/v1/training/{what}", params={"name": name}, content=content)


def put(length):
    """The header of an upload."""
    return (
        f"PUT /v1/training/events?name=e.csv HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode()
    )


def wait(fact):
    end = time.monotonic() + LONG
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.02)


def status(client):
    return Training.model_validate(ok(client.get("/v1/training"))).model_dump()


def wait_for(client, fact):
    end = time.monotonic() + LONG
    while not fact(now := status(client)):
        assert time.monotonic() < end, now
        time.sleep(0.03)
    return now


def has_curve(now):
    return now["state"] == "training" and now["progress"]["curve"]


def is_over(now):
    return now["state"] not in ("training", "examining")


@pytest.mark.slow
def test_a_file_becomes_a_run_that_can_be_opened_and_left_again(trainer, beside, shop_files, own_run):
    events, items = shop_files
    found = ok(upload(trainer, events, "My events.csv"))
    assert (found["state"], found["understood"]["counts"]["kept_users"]) == ("understood", 300)
    assert found["files"] == {"events": "My events.csv"}
    found = ok(upload(trainer, items, "items.parquet", "items"))
    assert found["understood"]["items"]["has_titles"]
    assert ok(trainer.post("/v1/training", json={"effort": "quick", "concepts": 7}))["state"] == "training"
    now = wait_for(trainer, has_curve)
    assert now["progress"]["epochs"] == 30
    assert now["progress"]["curve"][0].keys() == {"epoch", "accuracy", "loss", "is_best"}
    now = wait_for(trainer, is_over)
    assert (now["state"], now["result"]["run"], now["result"]["is_stopped"]) == ("ready", "My-events", False)
    assert 0.3 < now["result"]["accuracy"] <= 1
    assert beside() == ["My-events", "run"]
    run = runs.load(own_run.parent / "My-events", "cpu")
    assert (len(run.items), run.network.concepts) == (100, 7)
    assert any(concept.name for concept in runs.read_names(own_run.parent / "My-events").concepts)
    data = runs.read_config(own_run.parent / "My-events")["data"]
    assert (data["source"], data["file"]) == ("file", "My events.csv")
    listed = RunsBeside.model_validate(ok(trainer.get("/v1/runs"))).runs
    assert [(each.name, each.source, each.is_current) for each in listed] == [
        ("run", "folder", True), ("My-events", "file", False),
    ]  # fmt: skip
    assert ok(trainer.post("/v1/reload", json={"run": "My-events"}))["run"] == "My-events"
    card = ok(trainer.get("/v1/model"))
    assert (card["run"], card["items"], card["can_train"]) == ("My-events", 100, True)
    assert ok(trainer.post("/v1/reload", json={"run": "run"}))["run"] == "run"
    assert ok(trainer.delete("/v1/training"))["state"] == "idle"
    assert beside() == ["My-events", "run"]


@pytest.mark.slow
def test_a_training_that_is_stopped_keeps_its_best_epoch(trainer, beside, shop_files, own_run):
    ok(upload(trainer, shop_files[0]))
    ok(trainer.post("/v1/training", json={"concepts": 5}))
    epochs = len(wait_for(trainer, has_curve)["progress"]["curve"])
    assert ok(trainer.delete("/v1/training", params={"keep": True}))["progress"]["is_stopping"]
    now = wait_for(trainer, is_over)
    assert (now["state"], now["result"]["is_stopped"], now["result"]["baselines"]) == ("ready", True, {})
    assert epochs <= now["result"]["epochs"] < 100
    assert beside() == ["events", "run"]
    config = runs.read_config(own_run.parent / "events")
    assert "is_unfinished" not in config
    assert not (own_run.parent / "events" / "training").exists()
    assert runs.read_names(own_run.parent / "events").concepts
    assert (
        now["result"]["accuracy"] == runs.read_metrics(own_run.parent / "events")["test"]["metrics"]["ndcg@100"]["mean"]
    )


def test_stopping_before_the_first_epoch_keeps_nothing_but_the_file(trainer, beside, shop_files):
    ok(upload(trainer, shop_files[0]))
    folder = beside()
    ok(trainer.post("/v1/training", json={}))
    now = ok(trainer.delete("/v1/training", params={"keep": True}))
    assert (now["state"], now["progress"]) == ("understood", None)
    assert "before there was anything to keep" in now["message"]
    assert beside() == folder
    assert ok(trainer.delete("/v1/training"))["state"] == "idle"
    assert beside() == ["run"]


@pytest.mark.parametrize("phase", ["scoring", "understanding"])
def test_a_training_stopped_in_a_later_phase_is_finished(tmp_path, shop_files, phase):
    from macrid.serving.examining import Reading
    from macrid.serving.trainer import Watch, train

    (tmp_path / "events.csv").write_bytes(shop_files[0])
    seen = []
    watch = Watch(seen.append, lambda: watch.phase == phase)
    run = train(Reading(tmp_path / "events.csv"), tmp_path / "run", watch, "quick", concepts=3)
    phases = [event["phase"] for event in seen if "phase" in event]
    assert phases.count("reading") == 1
    assert "comparing" not in phases
    assert run.metrics["test"]["users"] == 30
    assert runs.read_names(tmp_path / "run").concepts
    epochs = [event["epoch"]["epoch"] for event in seen if "epoch" in event]
    assert epochs == [*range(1, len(epochs) + 1)]  # none was done twice


@pytest.mark.slow
def test_discarding_ends_the_process_and_removes_everything(trainer, beside, shop_files):
    ok(upload(trainer, shop_files[0]))
    ok(trainer.post("/v1/training", json={}))
    process = trainer.app.state.service.training._process
    wait_for(trainer, has_curve)
    now = ok(trainer.delete("/v1/training"))
    assert (now["state"], now["files"], now["understood"]) == ("idle", {}, None)
    assert process.returncode == -9
    assert beside() == ["run"]


def test_a_service_that_stops_ends_the_training(own_run, beside, shop_files):
    app = create_app(own_run)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        ok(upload(client, shop_files[0]))
        ok(client.post("/v1/training", json={}))
        process = app.state.service.training._process
    assert process.returncode == -9
    assert beside() == ["run"]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", ["killed by SIGKILL, possibly for lack of memory"]),
        ("import os; os.write(1, b'{\"note\": '); os.kill(os.getpid(), 9)", ["killed by SIGKILL"]),
        ("import sys; sys.exit('Segmentation fault')", ["status 1", "Segmentation fault"]),
        ("print('{\"failed\": \"run: cannot be written (No space left on device); use --resume\"}')",
         ["run: cannot be written (No space left on device)"]),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_process_that_fails_says_why_and_the_file_can_be_tried_again(
    trainer, beside, shop_files, program, words, monkeypatch
):
    ok(upload(trainer, shop_files[0]))
    folder, original = beside(), subprocess.Popen
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda _, **more: original([sys.executable, "-c", program], **more))
        ok(trainer.post("/v1/training", json={}))
        now = wait_for(trainer, is_over)
    assert (now["state"], now["progress"]) == ("understood", None)
    assert all(word in now["message"] for word in words)
    assert "--" not in now["message"]
    assert beside() == folder
    assert ok(trainer.post("/v1/training", json={}))["state"] == "training"


def test_a_process_that_cannot_start_says_why(trainer, beside, shop_files, monkeypatch):
    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    ok(upload(trainer, shop_files[0]))
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", full)
        now = ok(trainer.post("/v1/training", json={}))
        assert (now["state"], "Cannot allocate memory" in now["message"]) == ("understood", True)
        now = ok(upload(trainer, shop_files[0]))
    assert (now["state"], "Cannot allocate memory" in now["message"]) == ("idle", True)
    assert beside() == ["run"]


@pytest.mark.slow
def test_a_file_that_is_no_table_leaves_nothing_behind(trainer, beside):
    for name, content in (("photo.png", b"\x89PNG\r\n" + bytes(99)), ("cut.parquet", PARQUET[:300]), ("e.csv", b"")):
        now = ok(upload(trainer, content, name))
        assert (now["state"], now["understood"], now["files"]) == ("idle", None, {})
        assert now["message"].startswith(name)
        assert beside() == ["run"]


@pytest.mark.slow
def test_problems_name_rows_and_files_but_no_folders_and_can_be_corrected(trainer, beside):
    now = ok(upload(trainer, GOOD.replace(b"u3,i3,1", b",i3,1", 1)))
    (text,) = now["understood"]["problems"]
    assert text.startswith("events.csv, column 'user': row 25 (line 26) has no id")
    problem(trainer.post("/v1/training", json={}), 409, "row 25")
    columns = {"user": "rating", "item": "item"}
    now = ok(trainer.post("/v1/training/read", json={"columns": columns}))
    assert now["choice"] == {"columns": {**columns, "rating": None}, "min_rating": None}
    assert now["understood"]["counts"]["users"] == 5
    ok(trainer.delete("/v1/training"))
    assert beside() == ["run"]


@pytest.mark.slow
def test_an_items_table_can_be_replaced_and_removed(trainer, beside):
    problem(upload(trainer, b"item,title\ni1,x\n", "items.csv", "items"), 409, "events")
    ok(upload(trainer, GOOD))
    now = ok(upload(trainer, b"item,title\nx,y\n", "items.csv", "items"))
    assert not now["understood"]["can_train"]
    now = ok(upload(trainer, b"item,title\ni1,y\n", "better.csv", "items"))
    assert (now["files"]["items"], now["understood"]["can_train"]) == ("better.csv", True)
    now = ok(trainer.delete("/v1/training/items"))
    assert (now["files"], now["understood"]["items"]) == ({"events": "events.csv"}, None)
    ok(upload(trainer, GOOD))  # begins anew
    ok(trainer.delete("/v1/training"))
    assert beside() == ["run"]


def test_one_thing_at_a_time(trainer, shop_files):
    problem(trainer.post("/v1/training", json={}), 409, "upload")
    problem(trainer.post("/v1/training/read", json={}), 409, "upload")
    problem(trainer.delete("/v1/training/items"), 409, "upload")
    assert ok(trainer.delete("/v1/training", params={"keep": True}))["state"] == "idle"
    ok(upload(trainer, shop_files[0]))
    ok(trainer.post("/v1/training", json={}))
    problem(trainer.post("/v1/training", json={}), 409, "running", "stop")
    problem(upload(trainer, GOOD), 409, "running")
    problem(trainer.post("/v1/training/read", json={}), 409, "running")
    problem(trainer.post("/v1/training", json={"concepts": 0}), 422, "concepts")
    assert status(trainer)["state"] == "training"


# Uploading


def test_a_file_that_is_too_large_is_refused(client_of, own_run, beside):
    client = client_of(own_run, max_upload=2048)
    problem(upload(client, bytes(2049)), 413, "2,048", "--max-upload")
    problem(upload(client, (bytes(100) for _ in range(30))), 413)  # of unknown length
    assert status(client)["state"] == "idle"
    assert beside() == ["run"]


def test_a_full_disk_leaves_nothing_behind(trainer, beside, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(training.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
        problem(upload(trainer, GOOD), 507, "only 10")
    assert beside() == ["run"]

    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    original = training.Path.open
    monkeypatch.setattr(training.Path, "open", lambda path, mode: Full() if mode == "xb" else original(path, mode))
    problem(upload(trainer, GOOD), 507, "events.csv", "No space left on device")
    assert status(trainer)["state"] == "idle"
    assert beside() == ["run"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../evil.csv", "evil.csv"),
        ("C:\\data\\my events.csv", "my events.csv"),
        ("..", ""),
        ("a\0b:c.csv", "a_b_c.csv"),
        ("é" * 400 + ".csv", "é" * 98 + ".csv"),
        ("عربي.csv", "عربي.csv"),
    ],
)
def test_names_of_files_stay_in_their_folder(name, kept):
    assert training.plain_name(name) == kept


def test_a_file_without_a_usable_name_gets_one(trainer, beside):
    assert ok(upload(trainer, GOOD, ".."))["files"] == {"events": "events.csv"}
    assert beside()[1:] == ["run"]


@pytest.mark.parametrize("end", ["aborted", "stalled"])
def test_an_upload_that_does_not_go_on_leaves_nothing_behind(own_run, beside, end):
    with Site(own_run, timeout=0.5 if end == "stalled" else 60) as site:
        address = ("127.0.0.1", int(site.address.rpartition(":")[2]))
        with closing(socket.create_connection(address, timeout=20)) as connection:
            connection.sendall(put(4_000_000) + bytes(2_000_000))
            if end == "stalled":
                assert b" 408 " in connection.recv(100)
            else:
                wait(lambda: site.get("/training")["state"] == "uploading")
        wait(lambda: site.get("/training")["state"] == "idle")
        assert beside() == ["run"]


def test_an_upload_whose_request_ends_while_it_begins_leaves_nothing_behind(own_run, beside, monkeypatch):
    service = training.Training(ServingSettings(), lambda: own_run.parent)
    begin, may_begin, seen = service._begin_upload, threading.Event(), []

    def slowly(*file):
        may_begin.wait(LONG)
        place = begin(*file)
        seen.append(service._state)
        return place

    async def nothing():
        yield b""

    async def give_up_early():
        request = asyncio.create_task(service.receive("events", "e.csv", 100, nothing()))
        await asyncio.sleep(0.05)
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        may_begin.set()
        while not seen or service._state != "idle":
            await asyncio.sleep(0.01)

    monkeypatch.setattr(service, "_begin_upload", slowly)
    try:
        asyncio.run(asyncio.wait_for(give_up_early(), LONG))
        assert seen == ["uploading"]
        assert beside() == ["run"]
    finally:
        service.close()


def test_an_upload_given_up_before_its_file_is_open_is_not_taken_for_a_full_disk(own_run, monkeypatch, beside):
    service = training.Training(ServingSettings(), lambda: own_run.parent)
    begin = service._begin_upload

    def given_up_at_once(*file):
        place = begin(*file)
        service.discard()
        return place

    async def nothing():
        yield b""

    monkeypatch.setattr(service, "_begin_upload", given_up_at_once)
    with pytest.raises(RefusedError, match="given up meanwhile") as refused:
        asyncio.run(service.receive("events", "e.csv", 100, nothing()))
    assert refused.value.status == 409
    assert beside() == ["run"]


def test_a_slow_upload_may_take_longer_than_other_requests(own_run):
    content = GOOD * 400
    with Site(own_run, timeout=0.6) as site:
        address = ("127.0.0.1", int(site.address.rpartition(":")[2]))
        with closing(socket.create_connection(address, timeout=20)) as connection:
            connection.sendall(put(len(content)))
            for piece in range(6):
                connection.sendall(content[piece * len(content) // 6 : (piece + 1) * len(content) // 6])
                time.sleep(0.25)
            assert b" 200 " in connection.recv(100)


def test_an_upload_can_be_given_up(own_run, beside):
    with Site(own_run) as site:
        address = ("127.0.0.1", int(site.address.rpartition(":")[2]))
        with closing(socket.create_connection(address, timeout=20)) as connection:
            connection.sendall(put(4_000_000) + bytes(2_000_000))
            wait(lambda: site.get("/training")["state"] == "uploading")
            request = urllib.request.Request(f"{site.address}/v1/training", method="DELETE")
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert json.load(answer)["state"] == "idle"
            connection.sendall(bytes(2_000_000))
            assert b" 409 " in connection.recv(100)
        assert beside() == ["run"]


# Who may


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({}, True),
        ({"token": "correct horse"}, True),
        ({"training": "no"}, False),
        ({"edits": "no"}, False),
        ({"workers": 2}, False),
        ({"hosts": ["shop.example"], "token": "correct horse"}, False),
        ({"host": "0.0.0.0", "token": "correct horse"}, False),
        ({"host": "0.0.0.0", "open": True}, False),
        ({"host": "0.0.0.0", "token": "correct horse", "training": "yes"}, True),
    ],
)
def test_training_is_for_local_services_that_may_be_edited(settings, may):
    assert may_train(ServingSettings.make(settings)) is may


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"edits": "no"}, "edit"),
        ({"workers": 2}, "--workers"),
        ({"host": "0.0.0.0", "open": True}, "token"),
    ],
)
def test_training_cannot_be_asked_for_everywhere(popularity_run, settings, words):
    with pytest.raises(SettingsError, match=words):
        create_app(popularity_run, ServingSettings.make(training="yes", **settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"training": "no"}, "--no-training"), ({"edits": "no"}, "switched off"), ({"workers": 2}, "one")],
)
def test_where_training_is_off_nothing_of_it_can_be_asked(client_of, own_run, beside, settings, words):
    client = client_of(own_run, **settings)
    assert ok(client.get("/v1/model"))["can_train"] is False
    problem(client.get("/v1/training"), 403, words)
    problem(upload(client, GOOD), 403, words)
    problem(client.post("/v1/training", json={}), 403, words)
    problem(client.post("/v1/training/read", json={}), 403, words)
    problem(client.delete("/v1/training"), 403, words)
    problem(client.delete("/v1/training/items"), 403, words)
    assert client.get("/v1/runs").status_code == (403 if "edits" in settings else 200)
    problem(client.put("/v1/training/events", params={"name": "e"}, content=bytes(5 << 20)), 413)
    assert beside() == ["run"]


def test_pages_of_other_sites_cannot_upload(trainer):
    answer = trainer.put("/v1/training/events?name=e.csv", content=GOOD, headers={"origin": "https://evil.example"})
    problem(answer, 403)


# Kills


def test_what_a_killed_service_left_is_removed_at_the_next_start(client_of, own_run, beside):
    for name in ("dead", "alive"):
        (own_run.parent / f"{training.PREFIX}{name}").mkdir()
        (own_run.parent / f"{training.PREFIX}{name}" / training.ALIVE).touch()
    (own_run.parent / f"{training.PREFIX}other{training.NEW}").mkdir()  # about to be locked
    with (own_run.parent / f"{training.PREFIX}alive" / training.ALIVE).open() as held:
        assert lock(held.fileno())
        client_of(own_run)
        wait(lambda: f"{training.PREFIX}dead" not in beside())
        assert beside() == [f"{training.PREFIX}alive", f"{training.PREFIX}other{training.NEW}", "run"]


@pytest.mark.slow
def test_the_process_ends_with_the_one_that_started_it_and_removes_its_folder(tmp_path, shop_files):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "events.csv").write_bytes(shop_files[0])
    job = {"folder": str(tmp_path / "work"), "events": str(tmp_path / "work" / "events.csv"), "train": True}
    assert {*job} <= {*Job.__dataclass_fields__}
    process = subprocess.Popen(
        [sys.executable, "-m", "macrid.serving.trainer", json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        for line in process.stdout:
            if "epoch" in json.loads(line):
                break
        threading.Thread(target=process.stdin.close).start()
        process.wait(LONG)
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.alone
@pytest.mark.slow
def test_a_service_killed_during_training_leaves_nothing_half_written(own_run, beside, shop_files):
    with serving(own_run) as server:
        with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as connection:
            connection.sendall(put(len(shop_files[0])) + shop_files[0])
            assert b" 200 " in connection.recv(100)
        assert server.ask("POST", "/v1/training", {})[0] == 200
        wait(lambda: json.loads(server.ask("GET", "/v1/training")[1])["progress"]["curve"])
        os.kill(server.process.pid, signal.SIGKILL)
    wait(lambda: beside() == ["run"])
