"""Moves and rules tried on many users over HTTP: the numbers are those of single requests, and nothing surprises."""

import asyncio
import threading
import time

import numpy as np
import pytest

from macrid import runs
from macrid.control.cohort import Cohort
from macrid.control.moves import Move
from macrid.control.trial import try_on
from macrid.serving import cohorts as module
from macrid.serving.app import create_app
from macrid.serving.schemas.cohort import MOST_USERS, CohortResult
from macrid.settings import ServingSettings
from tests.serving.test_app import history_of, ok, problem

CHEAPER = {"towards": "price", "amount": -1.0}


def tried(client, **request):
    content = ok(client.post("/v1/cohort", json=request))
    CohortResult.model_validate(content)
    return content


def test_numbers_are_those_of_single_requests(client):
    rules = {"at_most": {"category": 4}}
    users = [f"test-{number}" for number in range(8)]
    found = tried(client, users=users, moves=[CHEAPER], rules=rules, n=6, per_user=True)
    new, lists = {}, {"before": [], "after": []}
    for user in users:
        before = [i["id"] for i in ok(client.post("/v1/recommend", json={"user": user, "n": 6}))["items"]]
        request = {"user": user, "n": 6, "moves": [CHEAPER], "rules": rules}
        after = [item["id"] for item in ok(client.post("/v1/recommend", json=request))["items"]]
        new[user] = len(set(after) - set(before))
        lists["before"] += before
        lists["after"] += after
    assert {each["id"]: each["new"] for each in found["per_user"]} == new
    assert found["new"] == pytest.approx(np.mean([*new.values()]) / 6)
    assert found["coverage"] == {side: len(set(items)) for side, items in lists.items()}
    assert (found["users"], found["chosen"], found["skipped"], found["warnings"]) == (8, 8, 0, [])


def test_by_default_everybody_is_meant_and_accuracy_is_on_their_targets(client, shop_run, shop_model):
    found = tried(client, moves=[CHEAPER])
    groups = [runs.read_heldout(shop_run, name) for name in ("test", "validation")]
    parts = [try_on(Cohort(shop_model, g.history, targets=g.target), 10, [Move(**CHEAPER)]) for g in groups]
    assert found["users"] == sum(part.users for part in parts) == 120
    accuracy = [part.accuracy for part in parts]
    for kind in ("users", "gained", "lost", "same"):
        assert found["accuracy"][kind] == sum(getattr(part, kind) for part in accuracy)
    means = [part.metrics["ndcg@100"].after.mean * part.users for part in accuracy]
    assert found["accuracy"]["metrics"]["ndcg@100"]["after"]["mean"] == pytest.approx(
        sum(means) / found["accuracy"]["users"]
    )
    assert found["losses"][0]["before"] > found["losses"][0]["after"]
    assert "per_user" not in found


def test_users_are_chosen_by_taste_and_by_items(client):
    bags = next(entry["concept"] for entry in ok(client.get("/v1/model"))["concepts"] if entry["name"] == "bags")
    pages = [ok(client.get("/v1/users", params={"limit": 100, "offset": at}))["users"] for at in (0, 100)]
    users = [user for page in pages for user in page]
    keen = {user["id"] for user in users if user["shares"][bags] >= 0.3}
    found = tried(client, taste={"concept": "bags", "at_least": 0.3}, per_user=True)
    assert {each["id"] for each in found["per_user"]} == keen
    wanted = history_of(client, "test-0")[:6]
    having = {user["id"] for user in users if len({*history_of(client, user["id"])} & {*wanted}) >= 2}
    found = tried(client, items=wanted, at_least=2, per_user=True)
    assert {each["id"] for each in found["per_user"]} == having
    both = {"taste": {"concept": bags, "at_least": 0.3}, "items": wanted, "at_least": 1}
    some = {user["id"] for user in users if {*history_of(client, user["id"])} & {*wanted}}
    if keen & some:
        assert {each["id"] for each in tried(client, **both, per_user=True)["per_user"]} == keen & some


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"users": ["nobody"]}, ["none of them is known: 'nobody'"]),
        ({"users": []}, ["the list is empty"]),
        ({"users": ["test-0"] * (MOST_USERS + 1)}, ["at most 2000"]),
        ({"taste": {"concept": "bags", "at_least": 1}}, ["lower at_least"]),
        ({"taste": {"concept": "hats"}}, ["no concept 'hats'"]),
        ({"items": ["nothing"]}, ["unknown item"]),
        ({"users": ["test-0"], "items": ["bag-0001"]}, ["either users, or a taste and items"]),
        ({"rules": {"where": "prise < 3"}}, ["did you mean 'price'?"]),
        ({"moves": [{"towards": "prise", "amount": 1}]}, ["prise"]),
        ({"moves": [CHEAPER] * 21}, ["21 moves; the limit is 20"]),
        ({"n": 0}, ["n"]),
        ({"n": 101}, ["n"]),
        ({"at_least": 0, "items": ["bag-0001"]}, ["at_least"]),
    ],
)
def test_bad_requests_say_what_is_wrong(client, request_, words):
    problem(client.post("/v1/cohort", json=request_), 422, *words)


def test_unknown_users_are_left_out_and_named(client):
    found = tried(client, users=["test-1", "nobody", 7, "test-1"], moves=[CHEAPER])
    assert found["users"] == 1
    assert found["warnings"] == ["users: ignored 2 unknown users: 'nobody', '7'"]


def test_a_large_cohort_is_drawn_evenly_and_says_so(client_of, shop_run, monkeypatch):
    monkeypatch.setattr(module, "MOST_PAIRS", 500 * 40)
    client = client_of(shop_run)
    found = tried(client, per_user=True)
    most = len(found["per_user"])
    assert (found["users"], found["chosen"]) == (most, 120)
    assert 20 <= most < 60
    assert found["warnings"] == [f"computed for {most} of 120 users, drawn evenly"]
    ids = [each["id"] for each in found["per_user"]]
    assert (ids[0], ids[-1]) == ("test-0", "validation-59")
    assert abs(sum(user.startswith("test") for user in ids) - most / 2) <= 1


def test_a_smaller_number_of_users_can_be_asked_for(client):
    found = tried(client, most=7)
    assert (found["users"], found["chosen"], found["warnings"]) == (
        7,
        120,
        ["computed for 7 of 120 users, drawn evenly"],
    )
    assert tried(client, users=["test-0", "test-1"], most=7)["users"] == 2


def test_rules_that_leave_too_little_are_reported(client):
    found = tried(client, rules={"where": "price < 8", "strict": True}, n=100)
    assert found["short_users"] == found["users"] == 120
    assert found["short"][0]["length"] < 100


def test_moves_of_another_run_are_carried_over_or_left_out(client):
    found = tried(client, run="another", users=["test-0"], moves=[CHEAPER, {"concept": 1, "share": 0.9}])
    assert any("left out the move" in warning for warning in found["warnings"])


def test_a_run_without_users_says_how_to_give_it_some(client_of, popularity_run):
    problem(client_of(popularity_run).post("/v1/cohort", json={}), 422, "no users are known", "--users FILE")


def test_users_of_a_file_have_no_accuracy_and_a_model_without_concepts_only_rules(client_of, popularity_run, tmp_path):
    model = runs.load(popularity_run, "cpu")
    first, second, *_ = sorted(range(len(model.items)), key=lambda at: -model.popularity[at])
    events = tmp_path / "events.csv"
    events.write_text(f"user,item\nann,{model.items[first]}\nbob,{model.items[second]}\nold,gone\n", "utf-8")
    client = client_of(popularity_run, users=str(events))
    found = tried(client, rules={"exclude": [model.items[first]]}, n=5)
    assert (found["users"], found["skipped"], found["accuracy"]) == (2, 1, None)
    assert (found["shares"], found["tastes"]) == ({"before": [], "after": []}, [])
    assert found["new"] == pytest.approx(0.1)  # of bob's list only, whose best is what ann has
    problem(client.post("/v1/cohort", json={"moves": [CHEAPER]}), 409, "has no concepts")
    problem(client.post("/v1/cohort", json={"users": ["old"]}), 422, "known item")


def test_events_count_and_erased_users_are_left_out(client_of, shop_run, tmp_path):
    client = client_of(shop_run, events=f"sqlite:///{tmp_path / 'events.db'}")
    before = {each["id"]: each["items"] for each in tried(client, per_user=True)["per_user"]}
    target = runs.read_heldout(shop_run, "test").target[[0]].indices
    model = runs.load(shop_run, "cpu")
    ok(client.post("/v1/users/test-0/events", json={"events": [{"id": "1", "item": model.items[int(target[0])]}]}))
    ok(client.post("/v1/users/zoe/events", json={"events": [{"id": "1", "item": "bag-0001"}]}))
    ok(client.delete("/v1/users/test-1/events"))
    found = {each["id"]: each for each in tried(client, per_user=True)["per_user"]}
    assert found.keys() == before.keys() - {"test-1"} | {"zoe"}
    assert found["test-0"]["items"] == before["test-0"] + 1
    assert (found["zoe"]["items"], found["zoe"]["before"]) == (1, None)
    named = tried(client, users=["zoe", "test-1", "test-2"])
    assert (named["users"], named["warnings"]) == (2, ["users: ignored 1 unknown user: 'test-1'"])


def test_the_same_cohort_is_encoded_once_and_only_a_few_are_kept(client_of, shop_run, monkeypatch):
    made = []

    class Counted(Cohort):
        def __init__(self, *arguments, **options):
            made.append(1)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(module, "Cohort", Counted)
    client = client_of(shop_run)
    for amount in (-1.0, 0.5, 1.0):
        tried(client, users=["test-0", "test-1"], moves=[{"towards": "price", "amount": amount}])
    assert len(made) == 1
    for number in range(6):
        tried(client, users=[f"test-{number}"])
    assert len(client.app.state.service.hosted.cohorts._kept) == module.KEPT


def test_work_of_a_client_that_has_gone_ends(shop_run, monkeypatch):
    """Through the whole stack: the thread stops at its next check, and the thread pool is free again."""
    app, started, ended = create_app(shop_run, ServingSettings.make(edits="no")), threading.Event(), []

    def endless(self, people, request, moves, rules, check):
        started.set()
        try:
            while True:
                check()
                time.sleep(0.01)
        finally:
            ended.append(1)

    monkeypatch.setattr(module.Cohorts, "tried", endless)
    messages, sent = [{"type": "http.request", "body": b"{}", "more_body": False}], []

    async def receive():
        if messages:
            return messages.pop()
        while not started.is_set():
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/cohort", "raw_path": b"/v1/cohort", "query_string": b"",
             "headers": headers, "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1), "root_path": "",
             "server": ("127.0.0.1", 80)}  # fmt: skip

    async def ask():
        await asyncio.wait_for(app(scope, receive, send), 10)
        begin = time.monotonic()
        while not ended and time.monotonic() - begin < 10:
            await asyncio.sleep(0.01)

    asyncio.run(ask())
    assert ended
    assert sent[0]["status"] == 499
    service = app.state.service
    assert service._waiting[service._long] == 0
    service.close()


def test_a_read_only_service_answers_as_well(client_of, shop_run):
    client = client_of(shop_run, edits="no", host="0.0.0.0", token="secret-token")
    answer = client.post("/v1/cohort", json={"users": ["test-0"]}, headers={"authorization": "Bearer secret-token"})
    assert ok(answer)["users"] == 1
    problem(client.post("/v1/cohort", json={}), 401)
