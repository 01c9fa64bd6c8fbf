"""POST /v1/explain, and the accounts that lists come with: those of the library, for the list that was asked for."""

import numpy as np
import pytest

import macrid
from macrid.serving import explaining
from macrid.serving.schemas import lists
from macrid.serving.schemas.requests import EXPLAIN_EXAMPLES
from tests.serving.test_app import history_of, ok, problem

RULES = {"where": "price < 80", "boosts": [{"where": "price < 30", "amount": 0.7}], "at_most": {"category": 3},
         "diversity": 0.3, "pins": ["mug-0003"]}  # fmt: skip
MOVES = [{"concept": 1, "share": 0.5}, {"towards": "price", "amount": -1.0}, {"concept": 2, "dimension": 0, "by": 0.1}]


def explained(client, **request):
    content = ok(client.post("/v1/explain", json=request))
    lists.Explained.model_validate(content)
    for item in content["items"]:
        account = item["account"]
        assert sum(part["places"] for part in account["parts"]) == account["stages"][0]["rank"] - account["rank"]
        total = round(1000 * account["score"]) - round(1000 * account["stages"][0]["score"])
        assert sum(round(1000 * part["amount"]) for part in account["parts"]) == total
    return content


def test_accounts_are_those_of_the_library(client, shop_model):
    history = history_of(client)
    listed = ok(client.post("/v1/recommend", json={"history": history, "n": 6, "moves": MOVES, "rules": RULES}))
    items = [item["id"] for item in listed["items"]]
    content = explained(client, history=history, items=[*items, "bag-0030"], n=6, moves=MOVES, rules=RULES)
    expected = macrid.explain(shop_model, history, [*items, "bag-0030"], n=6, moves=MOVES, rules=RULES)
    for item, reason in zip(content["items"], expected, strict=True):
        assert item["id"] == reason.item.id
        assert item["account"] == reason.account.as_json()
        assert item["share"] == pytest.approx(reason.share, abs=1e-6)
    assert [item["account"]["rank"] for item in content["items"][:-1]] == list(range(1, 7))
    assert content["moves"] == listed["moves"]
    kinds = {part["kind"] for item in content["items"] for part in item["account"]["parts"]}
    assert kinds >= {"history", "rule", "move"}
    before = {change["id"]: change["before"] for kind in ("up", "down") for change in listed["moved"][kind]}
    assert before
    for item in content["items"]:
        if item["id"] in before:
            stages = [stage for stage in item["account"]["stages"] if stage["kind"] != "move"]
            assert stages[-1]["rank"] == before[item["id"]]


def test_explained_lists_have_the_same_accounts(client):
    request = {"history": history_of(client), "n": 5, "moves": MOVES, "rules": RULES}
    listed = ok(client.post("/v1/recommend", json={**request, "explain": True}))
    lists.Recommended.model_validate(listed)
    content = explained(client, **request, items=[item["id"] for item in listed["items"]])
    for item, same in zip(listed["items"], content["items"], strict=True):
        assert item["reason"]["account"] == same["account"]
        assert item["reason"]["share"] == same["share"]
        assert item["reason"]["pulls"]


def test_an_item_outside_the_list_is_placed_without_changing_it(client, shop_model):
    history = history_of(client)
    (item,) = explained(client, history=history, items=["watch-0007"])["items"]
    ranking = shop_model.recommend(history, len(shop_model.items) - len(history)).ids
    assert item["account"]["rank"] == ranking.index("watch-0007") + 1
    assert not item["account"]["listed"]
    assert item["account"]["of"] == len(ranking)


def test_what_may_not_be_listed_says_why(client):
    history = history_of(client)
    rules = {"where": "category = 'mugs'", "exclude": ["mug-0003"]}
    items = ["bag-0001", "mug-0003", history[0], "mug-0005"]
    content = explained(client, history=history, items=items, exclude=["mug-0005"], rules=rules)
    reasons = [item["account"]["left_out"] for item in content["items"]]
    assert reasons[0] == ["filter: category = 'mugs'"]
    assert reasons[1] == ["1 item excluded"]
    assert reasons[2][0] == "in the history"
    assert reasons[3] == ["excluded"]


def test_users_groups_and_fallbacks(client):
    (item,) = explained(client, user="test-0", items=["bag-0001"], concept=0)["items"]
    card = ok(client.get("/v1/model"))["concepts"][0]
    assert item["account"]["of"] <= card["items"]
    content = explained(client, history=[], items=["bag-0001"])
    assert content["fallback"]
    assert content["items"][0]["account"]["parts"] == []
    assert content["warnings"] == ["no known item in the history: these are the most popular items"]
    content = explained(client, history=["gone", "bag-0002"], items=["bag-0001"])
    assert content["unknown"] == ["gone"]
    moved = explained(client, history=[], items=["bag-0001"], moves=[{"concept": 1, "share": 0.9}])
    assert [stage["kind"] for stage in moved["items"][0]["account"]["stages"]] == ["everybody", "move"]


def test_examples_of_the_description_work(client):
    for example in EXPLAIN_EXAMPLES:
        explained(client, **example)


def test_wrong_questions_are_refused(client, monkeypatch):
    history = history_of(client)
    problem(client.post("/v1/explain", json={"history": history, "items": ["nope"]}), 422, "items", "nope")
    problem(client.post("/v1/explain", json={"history": history, "items": []}), 422, "items")
    problem(client.post("/v1/explain", json={"history": history, "items": ["bag-0001"] * 101}), 422, "101", "100")
    problem(client.post("/v1/explain", json={"items": ["bag-0001"]}), 422, "history")
    problem(client.post("/v1/explain", json={"user": "nobody", "items": ["bag-0001"]}), 404, "nobody")
    wrong = {"history": history, "items": ["bag-0001"], "rules": {"where": "prize < 3"}}
    problem(client.post("/v1/explain", json=wrong), 422, "rules.where", "price")
    monkeypatch.setattr(explaining, "LONGEST_EXPLAINED_HISTORY", len(history) - 1)
    for path, more in (("explain", {"items": ["bag-0001"]}), ("recommend", {"explain": True})):
        refused = client.post(f"/v1/{path}", json={"history": history, **more})
        problem(refused, 422, f"{len(history)} items", str(len(history) - 1))


def test_a_model_without_groups_explains_by_popularity(client_of, popularity_run):
    client = client_of(popularity_run)
    content = explained(client, history=[3, 4], items=[9, 10])
    for item in content["items"]:
        assert item["share"] is None
        assert item["account"]["parts"] == []
    problem(client.post("/v1/explain", json={"history": [3], "items": [9], "concept": 1}), 409)


def test_standing_rules_are_parts_marked_as_such(client_of, own_run):
    client = client_of(own_run, edits="yes")
    ok(client.put("/v1/rules", json={"where": "price < 60"}))
    price = macrid.load(own_run, "cpu").table.column("price").to_pylist()
    cheap = [int(at) for at in np.flatnonzero(np.array(price) < 60)[-8:]]
    ids = [macrid.load(own_run, "cpu").items[at] for at in cheap]
    content = explained(client, user="test-0", items=ids)
    parts = [part for item in content["items"] for part in item["account"]["parts"] if part["kind"] == "rule"]
    assert parts
    assert all(part["standing"] and part["rule"] == "where" for part in parts)


def test_a_new_item_says_how_it_was_placed(client_of, own_run):
    client = client_of(own_run, edits="yes")
    ok(client.post("/v1/items", json={"items": [{"id": "new/1", "category": "bags", "price": 60.0}]}))
    (item,) = explained(client, user="test-0", items=["new/1"])["items"]
    assert item["new"]
    assert item["placed"].startswith("placed by its attributes")
