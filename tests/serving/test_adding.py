"""Items added through the service."""

import threading

import pytest

from macrid import runs
from macrid.serving.app import create_app
from macrid.serving.schemas import about, lists

ITEM = {"id": "new/1", "title": "Small red leather bag", "category": "bags", "price": 60.0}


def ok(response):
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def editor(client_of, own_run):
    return client_of(own_run, edits="yes")


def test_a_posted_item_is_served_saved_and_shown_as_new(editor, own_run):
    card = ok(editor.get("/v1/model"))
    added = about.AddedItems.model_validate(ok(editor.post("/v1/items", json={"items": [ITEM]})))
    assert (added.items[0].id, added.total) == ("new/1", card["items"] + 1)
    after = ok(editor.get("/v1/model"))
    assert after["run_id"] == card["run_id"]
    assert after["digest"] != card["digest"]
    assert (after["items"], after["new_items"]) == (card["items"] + 1, 1)
    item = about.Item.model_validate(ok(editor.get("/v1/items/new%2F1")))
    assert (item.new, item.popularity, item.attributes["price"]) == (True, 0, 60.0)
    question = {"history": ["bag-0001", "bag-0012"], "include": ["new/1", "mug-0003"], "n": 2, "explain": True}
    answer = lists.Recommended.model_validate(ok(editor.post("/v1/recommend", json=question)))
    new = next(entry for entry in answer.items if entry.id == "new/1")
    assert new.new
    assert new.reason.placed.startswith("placed by its attributes: title, category, price")
    assert ok(editor.post("/v1/items/lookup", json={"ids": ["new/1"]}))["items"][0]["new"] is True
    assert ok(editor.get("/v1/similar", params={"item": "new/1"}))["items"]
    assert ok(editor.post("/v1/encode", json={"history": ["new/1"]}))["concepts"]
    points = ok(editor.get("/v1/map"))
    assert "new/1" in points["id"]
    assert runs.load(own_run, "cpu").items[-1] == "new/1"


def test_posting_again_updating_and_deleting(editor):
    ok(editor.post("/v1/items", json={"items": [ITEM]}))
    response = editor.post("/v1/items", json={"items": [ITEM]})
    assert response.status_code == 409
    assert "already added: 'new/1'" in response.json()["detail"]
    changed = {"items": [{**ITEM, "category": "mugs"}], "update": True, "histories": [["mug-0003", "new/1"]]}
    assert ok(editor.post("/v1/items", json=changed))["items"][0]["events"] == 1
    assert ok(editor.delete("/v1/items/new%2F1"))["removed"] == ["new/1"]
    assert editor.get("/v1/items/new%2F1").status_code == 404
    assert editor.delete("/v1/items/bag-0001").status_code == 409
    assert editor.delete("/v1/items/new%2F1").status_code == 404


def test_a_dry_run_changes_nothing(editor, own_run):
    report = ok(editor.post("/v1/items", json={"items": [ITEM, {"id": "x"}], "dry_run": True}))
    assert (len(report["items"]), report["skipped"]) == (1, ["x"])
    assert not (own_run / "added.parquet").exists()


def test_who_may_not_rename_may_not_add(client, popularity_run, client_of):
    assert client.post("/v1/items", json={"items": [ITEM]}).status_code == 403
    assert client.delete("/v1/items/bag-0001").status_code == 403
    other = client_of(popularity_run, edits="yes").post("/v1/items", json={"items": [ITEM]})
    assert other.status_code == 409


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"items": []}, "items"),
        ({"items": [{"id": "x", "price": "cheap"}]}, "'price'"),
        ({"items": [{"title": "x"}]}, "item"),
        ({"items": [{"id": "bag-0001"}]}, "bag-0001"),
    ],
)
def test_unusable_items_are_named(editor, body, named):
    response = editor.post("/v1/items", json=body)
    assert response.status_code == (409 if named == "bag-0001" else 422)
    assert named in response.json()["detail"]


def test_no_request_is_dropped_while_items_are_added(editor):
    problems, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            response = editor.post("/v1/recommend", json={"history": ["bag-0001"], "n": 5})
            if response.status_code != 200:
                problems.append(response.text)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for number in range(3):
            ok(editor.post("/v1/items", json={"items": [{**ITEM, "id": f"new-{number}"}]}))
    finally:
        stop.set()
        asking.join()
    assert problems == []


@pytest.mark.slow
def test_two_processes_that_add_items_agree(client_of, own_run, tmp_path):
    """Two services of one run, as two workers are: each adds an item, then both reload."""
    from starlette.testclient import TestClient

    from macrid.settings import ServingSettings

    (shared := tmp_path / "shared").mkdir()
    apps = [create_app(own_run, ServingSettings.make({"edits": "yes"}), shared=shared) for _ in range(2)]
    with (
        TestClient(apps[0], base_url="http://127.0.0.1") as one,
        TestClient(apps[1], base_url="http://127.0.0.1") as two,
    ):
        ok(one.post("/v1/items", json={"items": [{**ITEM, "id": "one"}]}))
        assert ok(two.post("/v1/items", json={"items": [{**ITEM, "id": "two"}]}))["total"] == 502
        ok(one.post("/v1/reload", json={}))
        question = {"history": ["one", "two", "bag-0001"], "n": 5}
        answers = [ok(client.post("/v1/recommend", json=question))["items"] for client in (one, two)]
        assert answers[0] == answers[1]
        assert ok(one.get("/v1/model"))["digest"] == ok(two.get("/v1/model"))["digest"]
    assert len(list(shared.glob("*-*.safetensors"))) == 1
