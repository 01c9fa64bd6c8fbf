"""Lists of a run beside the served one: loaded when asked for, carried over by names, released after a while."""

import asyncio
import gc
import json
import os
import shutil
import threading
import weakref

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import macrid
from macrid import runs
from macrid.data.ids import Ids
from macrid.data.shop import generate
from macrid.errors import RunError
from macrid.serving import beside
from macrid.serving.beside import Beside
from macrid.serving.hosted import Hosted
from macrid.settings import ServingSettings
from tests.serving.browser import ids

ASK = {"history": ["bag-0001", "bag-0012", "mug-0004"], "n": 8}


def ok(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert all(word in answer.json()["detail"] for word in words), answer.json()["detail"]


@pytest.fixture(scope="module")
def folder(shop_run, popularity_run, tmp_path_factory):
    """Runs side by side: now; next, trained on fewer items without prices; others that cannot be compared."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(shop_run, folder / "now")
    make_next(folder / "next")
    shutil.copytree(popularity_run, folder / "numbers")
    renamed = runs.load(shop_run, "cpu")
    renamed.table = renamed.table.set_column(0, "title", pa.array([f"thing {at}" for at in range(len(renamed.items))]))
    runs.save(renamed, folder / "renamed")
    shutil.copytree(shop_run, folder / "twin")
    shutil.copytree(shop_run, folder / "broken")
    (folder / "broken" / "model.safetensors").write_bytes(b"x")
    (folder / "notes").mkdir()
    (folder / "file.txt").write_text("")
    return folder


def make_next(path):
    """Of the same shop: fewer items, other concepts, no prices."""
    whole = generate(users=1200, items=500, seed=2).interactions
    gone = np.setdiff1d(np.arange(0, 500, 5), whole.items.positions(ASK["history"]))
    chosen = np.setdiff1d(np.arange(500), gone)
    matrix = sp.csr_array(whole.matrix[:, chosen])
    table = whole.table.take(chosen).drop_columns(["price"])
    split = macrid.Interactions(matrix, whole.users, Ids(whole.items.take(chosen)), table).split(heldout=60)
    model = macrid.MacridVAE(concepts=7, dim=16)
    model.fit(split.train, validation=split.validation, epochs=8, batch_size=100, seed=4, device="cpu")
    macrid.understand(model)
    metrics = {"test": macrid.evaluate(model, split.test).as_json()}
    runs.save(model, path, heldout={"test": split.test}, metrics=metrics)


@pytest.fixture(scope="module")
def client(client_of, folder):
    return client_of(folder / "now", edits="yes")


@pytest.fixture(scope="module")
def following(folder):
    return runs.load(folder / "next", "cpu")


def test_runs_beside_the_served_one_are_listed_with_it_first(client, folder, following):
    listed = ok(client.get("/v1/runs"))["runs"]
    assert listed[0]["name"] == "now"
    assert [run["is_current"] for run in listed] == [True, *[False] * (len(listed) - 1)]
    assert {run["name"] for run in listed} >= {"now", "next", "numbers", "renamed"}
    assert {"notes", "file.txt"}.isdisjoint(run["name"] for run in listed)
    entry = next(run for run in listed if run["name"] == "next")
    metrics = json.loads((folder / "next" / "metrics.json").read_bytes())
    assert entry["accuracy"] == metrics["test"]["metrics"]["ndcg@100"]["mean"]
    assert (entry["model"], entry["items"]) == ("MacridVAE", len(following.items))
    assert entry["run_id"] == runs.weights_digest(folder / "next")[:12]
    assert next(run for run in listed if run["name"] == "numbers")["accuracy"] is None
    assert listed[0]["run_id"] == ok(client.get("/v1/model"))["run_id"]


def test_those_who_may_not_edit_see_no_other_runs(client_of, folder):
    client = client_of(folder / "now", edits="no")
    refused(client.get("/v1/runs"), 403, "--edits no")
    refused(client.post("/v1/recommend", json={**ASK, "beside": "next"}), 403, "--edits no")


def test_a_list_of_another_run_is_that_of_the_library(client, following):
    answer = ok(client.post("/v1/recommend", json={**ASK, "beside": "next"}))
    assert ids(answer["items"]) == following.recommend(ASK["history"], 8).ids
    assert answer["answered_by"]["run"] == "next"
    assert len(answer["answered_by"]["concepts"]) == 7
    assert ids(ok(client.post("/v1/recommend", json=ASK))["items"]) != ids(answer["items"])


def test_a_user_is_the_one_of_the_served_run(client, following):
    history = ids(ok(client.get("/v1/users/test-3"))["history"])
    answer = ok(client.post("/v1/recommend", json={"user": "test-3", "n": 8, "beside": "next"}))
    known = [item for item in history if following.items.positions([item])[0] >= 0]
    assert len(known) < len(history)  # it is smaller
    assert ids(answer["items"]) == following.recommend(known, 8).ids
    assert sorted(answer["unknown"]) == sorted(set(history) - set(known))


def test_moves_and_rules_are_carried_over_by_name_and_what_is_not_is_said(client, following):
    card = ok(client.get("/v1/model"))
    bags = next(concept for concept in card["concepts"] if concept["name"] == "bags")
    moves = [{"concept": bags["concept"], "share": 0.9, "concept_name": "bags"}, {"towards": "price", "amount": 1}]
    rules = {"where": "price < 1000 and category != 'mugs'", "at_most": {"price": 3}}
    answer = ok(client.post("/v1/recommend", json={**ASK, "moves": moves, "rules": rules, "beside": "next"}))
    left = [each["what"] for each in answer["carried"] if not each["kept"]]
    assert left == ["price", "price < 1000", "at most 3 per price"]
    assert answer["rules"] == {"where": "category != 'mugs'"}
    assert {each["warning"] for each in answer["carried"]} <= set(answer["warnings"])
    expected = macrid.steer(following, ASK["history"], n=8, moves=[{"concept": "bags", "share": 0.9}],
                            rules={"where": "category != 'mugs'"})  # fmt: skip
    assert ids(answer["items"]) == expected.ids
    number = answer["moves"][0]["concept"]
    assert answer["answered_by"]["concepts"][number] == "bags"
    only = ok(client.post("/v1/recommend", json={**ASK, "concept": bags["concept"], "beside": "next"}))
    assert {item["concept"] for item in only["items"]} == {number}


def test_rules_of_a_stored_state_of_another_run_are_carried_over_too(client):
    request = {**ASK, "rules": {"where": "mood = 'sad' and price < 1000", "pins": ["gone"]}}
    assert client.post("/v1/recommend", json=request).status_code == 422
    answer = ok(client.post("/v1/recommend", json={**request, "run": "another"}))
    assert [each["what"] for each in answer["carried"]] == ["mood = 'sad'", "pinned 'gone'"]
    assert answer["rules"] == {"where": "price < 1000"}
    plain = ok(client.post("/v1/recommend", json={**ASK, "rules": answer["rules"]}))
    assert plain["items"] == answer["items"]
    assert "carried" not in plain


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("numbers", 409, ["numbers shares no item with now"]),
        ("renamed", 409, ["other items under the ids", "0 of 500"]),
        ("broken", 409, ["cannot be compared", "broken"]),
        ("notes", 409, ["not a run"]),
        ("nowhere", 404, ["nowhere"]),
        ("../now", 422, ["../now"]),
        ("x" * 300, 422, []),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_with_the_reason(client, folder, name, status, words):
    answer = client.post("/v1/recommend", json={**ASK, "beside": name})
    refused(answer, status, *words)
    assert str(folder) not in answer.text


def test_a_run_that_does_not_fit_into_memory_is_refused(client_of, folder, monkeypatch):
    monkeypatch.setattr(beside, "memory_left", lambda device: 10 * 2**20)
    client = client_of(folder / "now", edits="yes")
    refused(client.post("/v1/recommend", json={**ASK, "beside": "next"}), 503, "next", "10 MiB are free", "macrid diff")
    ok(client.post("/v1/recommend", json=ASK))


def test_the_served_run_needs_no_other(client_of, folder, monkeypatch):
    monkeypatch.setattr(beside, "memory_left", lambda device: 0)
    client = client_of(folder / "now", edits="yes")
    answer = ok(client.post("/v1/recommend", json={**ASK, "beside": "now"}))
    assert answer.pop("answered_by")["run"] == "now"
    assert answer == ok(client.post("/v1/recommend", json=ASK))


def test_many_requests_to_two_runs_at_once_are_all_answered_right(client, following):
    expected = {
        "next": following.recommend(ASK["history"], 8).ids,
        "now": ids(ok(client.post("/v1/recommend", json=ASK))["items"]),
    }
    expected["twin"] = expected["now"]
    found = []

    def ask(name):
        found.append((name, ids(ok(client.post("/v1/recommend", json={**ASK, "beside": name}))["items"])))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ["next", "twin", "now", "next", "twin", "next"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(threads)
    assert all(listed == expected[name] for name, listed in found)


@pytest.fixture
def alone(folder, monkeypatch):
    """(a function that uses runs one after the other, and waits; the runs loaded, newest last)"""
    monkeypatch.setattr(beside, "KEPT", 0.05)
    served, loaded = Hosted(folder / "now", ServingSettings.make(device="cpu")), []

    async def use(*names, wait=0.0, between=None):
        async def at_length(function, *arguments):
            result = await asyncio.to_thread(function, *arguments)
            if isinstance(result, Hosted):
                loaded.append(weakref.ref(result.model))
            return result

        kept = Beside(served.settings, at_length)
        for place, name in enumerate([*names, *names[-1:]] if between else names):
            if place and between:
                between()
            async with kept.using(folder / name, served) as hosted:
                assert hosted.run.name == name
            del hosted
            gc.collect()
            assert sum(ref() is not None for ref in loaded) <= 1
        await asyncio.sleep(wait)
        return kept

    yield use, loaded
    served.close()


@pytest.mark.slow
def test_at_most_one_run_is_kept_and_it_is_loaded_once(alone):
    use, loaded = alone
    asyncio.run(use("next", "next"))
    assert len(loaded) == 1
    asyncio.run(use("next", "twin", "next"))
    assert len(loaded) == 4


def test_a_run_is_released_after_a_while(alone):
    use, loaded = alone
    kept = asyncio.run(use("next", wait=0.3))
    assert kept.name is None
    assert [ref() for ref in loaded] == [None]


def test_a_run_goes_on_loading_if_whoever_asked_stops_waiting(folder):
    served = Hosted(folder / "now", ServingSettings.make(device="cpu"))

    async def slowly(function, *arguments):
        await asyncio.sleep(0.05)
        return await asyncio.to_thread(function, *arguments)

    async def use(kept, name):
        async with kept.using(folder / name, served) as hosted:
            return hosted.run.name

    async def story():
        kept = Beside(served.settings, slowly)
        for name in ("next", "broken"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(use(kept, name), 0.01)
            assert await use(kept, "next") == "next"
        with pytest.raises(RunError):
            await use(kept, "broken")
        kept.close()

    asyncio.run(story())
    served.close()


def test_a_run_that_has_changed_on_disk_is_loaded_again(alone, folder):
    use, loaded = alone
    asyncio.run(use("twin", between=lambda: os.utime(folder / "twin" / "model.safetensors")))
    assert len(loaded) == 2


def test_lookups_give_attributes_on_request(client, following):
    plain = ok(client.post("/v1/items/lookup", json={"ids": ["bag-0001", "mug-0004"]}))["items"]
    assert all("attributes" not in item for item in plain)
    items = ok(client.post("/v1/items/lookup", json={"ids": ["mug-0004", "x", "bag-0001"], "attributes": True}))
    assert items["unknown"] == ["x"]
    assert ids(items["items"]) == ["mug-0004", "bag-0001"]
    for item in items["items"]:
        assert item["attributes"] == ok(client.get(f"/v1/items/{item['id']}"))["attributes"]


def test_a_contrast_says_what_two_lists_differ_in(client):
    cheap, dear = (
        ids(ok(client.post("/v1/recommend", json={**ASK, "n": 20, "rules": {"where": where}}))["items"])
        for where in ("price < 25", "price > 60")
    )
    found = ok(client.post("/v1/contrast", json={"left": [*cheap, "x"], "right": dear}))
    assert found["both"] == 0
    price = next(each for each in found["attributes"] if each["name"] == "price")
    assert price["left"] < 25 < 60 < price["right"]
    assert (price["kind"], price["left_known"]) == ("number", 20)
    assert ok(client.post("/v1/contrast", json={"left": cheap, "right": cheap})) == {"both": 20, "attributes": []}
    assert ok(client.post("/v1/contrast", json={"left": [], "right": cheap}))["attributes"] == []
