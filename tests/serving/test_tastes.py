"""Users listed with their tastes, searched and sorted by them, however many there are."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from macrid import manifest, runs
from macrid.data.ids import Ids
from macrid.serving import tastes as module
from macrid.serving.schemas import about
from macrid.serving.users import Users
from tests.serving.test_app import ok, problem, sizes


@pytest.fixture(scope="module")
def space(shop_model):
    from macrid.concepts.space import space_of

    return space_of(shop_model)


def number_of(client, name):
    return next(entry["concept"] for entry in ok(client.get("/v1/model"))["concepts"] if entry["name"] == name)


def everybody(client, **params):
    first = ok(client.get("/v1/users", params={**params, "limit": 100}))
    users = list(first["users"])
    while len(users) < first["total"]:
        users += ok(client.get("/v1/users", params={**params, "limit": 100, "offset": len(users)}))["users"]
    return users


def test_users_have_the_shares_that_encode_gives(client):
    page = about.UserPage.model_validate(ok(client.get("/v1/users", params={"limit": 3})))
    for user in page.users:
        places = ok(client.post("/v1/encode", json={"user": user.id}))["concepts"]
        assert user.shares == pytest.approx([place["share"] for place in places], abs=1e-4)
        assert sum(user.shares) == pytest.approx(1, abs=1e-3)


def test_a_query_finds_ids_first_and_then_the_tastes_it_names(client):
    bags = number_of(client, "bags")
    users = everybody(client)
    page = ok(client.get("/v1/users", params={"q": "Bags", "limit": 100}))
    shares = [user["shares"][bags] for user in page["users"]]
    assert page["taste"] == {"name": "bags", "concepts": [bags]}
    assert page["total"] == sum(user["shares"][bags] >= module.LEAST for user in users)
    assert shares == sorted(shares, reverse=True)
    assert [user["taste"] for user in page["users"]] == pytest.approx(shares, abs=2e-4)
    assert sizes(client, q="test-5") == [
        (user["id"], user["items"]) for user in users if user["id"].startswith("test-5")
    ]
    nothing = ok(client.get("/v1/users", params={"q": "zzz"}))
    assert (nothing["total"], nothing["taste"]) == (0, None)


def test_a_query_may_name_the_value_of_an_attribute(client, shop_model):
    """Where no concept is called so."""
    colour = shop_model.table["colour"].to_pylist()
    value = next(name for name in dict.fromkeys(colour) if name is not None)
    page = ok(client.get("/v1/users", params={"q": value, "limit": 100}))
    assert page["taste"] == {"name": value, "concepts": []}
    of = dict(zip(map(str, shop_model.items), colour, strict=True))
    for user in page["users"][:5]:
        history = [item["id"] for item in ok(client.get(f"/v1/users/{user['id']}"))["history"]]
        assert user["taste"] == pytest.approx(np.mean([of[item] == value for item in history]), abs=1e-4)
        assert user["taste"] >= module.LEAST


def test_a_number_is_the_start_of_an_id_before_it_is_a_taste(client_of, own_run, tmp_path):
    items = [item["id"] for item in ok(client_of(own_run).get("/v1/items"))["items"]]
    names = json.loads((own_run / "names.json").read_text("utf-8"))
    names["concepts"][0]["name"] = "since 1997"
    (own_run / "names.json").write_text(json.dumps(names), "utf-8")
    manifest.seal(own_run, runs.FILES)
    events = tmp_path / "events.csv"
    events.write_text("user,item\n" + "".join(f"{user},{item}\n" for user in (19, 191, 7) for item in items), "utf-8")
    client = client_of(own_run, users=str(events))
    assert [user for user, _ in sizes(client, q="19")] == ["19", "191"]
    assert ok(client.get("/v1/users", params={"q": "199"}))["taste"] == {"name": "since 1997", "concepts": [0]}


@pytest.mark.parametrize("text", ["b", "b ags", "'", "(", "-", "  "])
def test_a_query_that_names_nothing_is_no_error(client, text):
    assert ok(client.get("/v1/users", params={"q": text}))["taste"] is None


def test_users_are_sorted_by_items_ids_and_tastes(client):
    users = everybody(client)
    mugs = number_of(client, "mugs")
    assert [user["items"] for user in everybody(client, sort="items")] == sorted(
        (u["items"] for u in users), reverse=True
    )
    by_taste = [user["shares"][mugs] for user in everybody(client, sort="taste:mugs")]
    assert by_taste == sorted(by_taste, reverse=True)
    assert everybody(client, sort=f"taste:{mugs}") == everybody(client, sort="taste:mugs")
    ids = [user["id"] for user in everybody(client, sort="id")]
    assert ids == [f"{group}-{number}" for group in ("test", "validation") for number in range(60)]
    narrowed = everybody(client, q="test-1", sort="items")
    assert {user["id"] for user in narrowed} == {user["id"] for user in users if user["id"].startswith("test-1")}
    assert [user["items"] for user in narrowed] == sorted((user["items"] for user in narrowed), reverse=True)


@pytest.mark.parametrize(
    ("sort", "words"),
    [
        ("size", "use items, id or taste"),
        ("taste:hats", "no concept 'hats'"),
        ("taste:99", "99"),
        ("taste:", "no concept"),
    ],
)
def test_an_impossible_order_is_refused(client, sort, words):
    problem(client.get("/v1/users", params={"sort": sort}), 422, words)


def test_a_model_without_concepts_lists_users_without_tastes(client_of, popularity_run, tmp_path):
    events = tmp_path / "events.csv"
    events.write_text("user,item\nann,1\nann,2\nbob,1\n", "utf-8")
    client = client_of(popularity_run, users=str(events))
    page = ok(client.get("/v1/users", params={"sort": "items"}))
    assert [(user["id"], user["shares"]) for user in page["users"]] == [("ann", None), ("bob", None)]
    assert ok(client.get("/v1/users", params={"q": "bags"}))["total"] == 0
    problem(client.get("/v1/users", params={"sort": "taste:0"}), 409, "has no concepts")


def test_only_the_first_so_many_are_sorted_and_the_page_says_so(client_of, shop_run, monkeypatch):
    monkeypatch.setattr(module, "MOST_COMPARED", 30)
    monkeypatch.setattr("macrid.serving.users.MOST_COMPARED", 30)
    monkeypatch.setattr(module, "CHUNK", 7)
    client = client_of(shop_run)
    whole = ok(client.get("/v1/users"))
    assert (whole["total"], whole["compared"]) == (120, None)
    for params in ({"sort": "items"}, {"sort": "taste:bags"}, {"sort": "id"}):
        page = ok(client.get("/v1/users", params={**params, "limit": 100}))
        assert (page["total"], page["compared"]) == (30, 30)
        assert {user["id"] for user in page["users"]} == {f"test-{number}" for number in range(30)}
    assert ok(client.get("/v1/users", params={"q": "bags"}))["compared"] == 30


class World:
    """As much of a served run as tastes need."""

    def __init__(self, model, space):
        self.model, self.space = model, space

    def concepts(self):
        return self.space


def test_tastes_in_chunks_are_those_of_all_at_once(shop_model, space, monkeypatch):
    random = np.random.default_rng(0)
    histories = sp.random_array((50, len(shop_model.items)), density=0.05, format="csr", rng=random)
    users = Users(Ids.range(50), histories)
    expected = np.argsort(-module.Tastes(World(shop_model, space)).shares(histories)[:, 3], kind="stable")
    monkeypatch.setattr(module, "CHUNK", 7)
    found = module.Tastes(World(shop_model, space))
    np.testing.assert_array_equal(found.order(users, "taste:3"), expected)
    assert found.order(users, "taste:3") is found.order(users, "taste:3")
    weights = space.log_assignment[:, 3].exp().cpu().numpy()
    np.testing.assert_allclose(found.amounts(users, weights), found.shares(histories)[:, 3], atol=1e-5)


def test_ids_are_sorted_as_people_count():
    texts = ["user-10", "user-9", "9", "10", "b", "user-9b", "", "12345678901234567890"]
    order = module._by_id(texts)
    assert [texts[at] for at in order] == sorted(texts, key=lambda text: order.tolist().index(texts.index(text)))
    ranked = [texts[at] for at in order]
    assert ranked.index("user-9") < ranked.index("user-9b") < ranked.index("user-10")
    assert ranked.index("9") < ranked.index("10")
