"""Every endpoint, compared with the library."""

import json
import logging
import shutil
import time
from urllib.parse import quote

import numpy as np
import pytest

import macrid
from macrid import manifest, runs
from macrid.concepts.meaning import meaning_of
from macrid.concepts.space import space_of
from macrid.serving.schemas import about, lists


def ok(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content = about.Problem.model_validate(answer.json())
    assert content.status == status
    for word in words:
        assert word in content.detail
    return content


def history_of(client, user="test-0"):
    return [item["id"] for item in ok(client.get(f"/v1/users/{user}"))["history"]]


def sizes(client, **params):
    """(id, length of the history) of a page of users."""
    return [(user["id"], user["items"]) for user in ok(client.get("/v1/users", params=params))["users"]]


def knob(client, concept="bags", dimension="size"):
    card = ok(client.get("/v1/model"))
    dimensions = next(entry for entry in card["concepts"] if entry["name"] == concept)["dimensions"]
    return next(entry for entry in dimensions if entry["name"] == dimension)


# About


def test_the_card_has_settings_scores_concepts_and_dimensions_with_evidence(client, shop_model):
    card = about.Model.model_validate(ok(client.get("/v1/model")))
    assert card.settings["dim"] == 24
    assert card.metrics["test"]["metrics"]["ndcg@100"]["mean"] > 0.4
    assert (card.items, card.users, card.has_pictures, card.can_rename) == (500, 120, True, False)
    assert {entry.name for entry in card.concepts} >= {"bags", "shoes", "lamps"}
    assert sum(entry.items for entry in card.concepts) == 500
    bags = next(entry for entry in card.concepts if entry.name == "bags")
    assert bags.evidence[0].value == "bags"
    assert bags.fit.columns == ("category: bags",)
    assert bags.fit.share > 0.6 > 2 * bags.fit.base
    size = next(entry for entry in bags.dimensions if entry.name == "size")
    ends = space_of(shop_model).range_of(bags.concept)
    np.testing.assert_allclose(size.range, [end[size.dimension] for end in ends], atol=1e-4)
    assert sum(size.histogram.counts) > 20
    assert size.evidence[0].attribute == "size"
    assert size.examples.low
    assert size.effect.name == "size"
    assert size.effect.label == size.effect.text != ""


def test_knobs_come_in_the_order_of_their_effects_without_those_that_do_nothing(client, shop_model):
    card = about.Model.model_validate(ok(client.get("/v1/model")))
    idle = {(effect.concept, effect.dimension) for effect in meaning_of(shop_model).effects if not effect.is_clear}
    for concept in card.concepts:
        named = [entry for entry in concept.dimensions if entry.name]
        strengths = [entry.effect.strength for entry in named if entry.attribute != "popularity"]
        assert strengths == sorted(strengths, reverse=True)
        assert all(entry.attribute == "popularity" for entry in named[len(strengths) :])
        assert not idle & {(entry.concept, entry.dimension) for entry in concept.dimensions}
    general = [effect.strength for effect in card.towards_effects]
    assert general == sorted(general, reverse=True)
    assert {effect.concept for effect in card.towards_effects} == {None}
    assert card.towards[: len(general)] == [effect.name for effect in card.towards_effects]
    assert set(card.towards) == {column.name for column in space_of(shop_model).columns}


def test_knobs_that_do_nothing_stay_in_the_full_list_unless_a_person_named_them(client_of, own_run):
    effects = json.loads((own_run / "effects.json").read_text("utf-8"))
    bare = [effect | {"moves": 0.0} if effect["concept"] == 2 else effect for effect in effects]
    (own_run / "effects.json").write_text(json.dumps(bare), "utf-8")
    manifest.seal(own_run, runs.FILES)
    client = client_of(own_run, edits="yes")
    idle = {effect["dimension"] for effect in bare if effect["concept"] == 2}
    assert idle

    def shown():
        return {entry["dimension"] for entry in ok(client.get("/v1/model"))["concepts"][2]["dimensions"]}

    assert not idle & shown()
    everything = ok(client.get("/v1/concepts/2/dimensions"))["dimensions"]
    assert idle <= {entry["dimension"] for entry in everything}
    one = min(idle)
    ok(client.patch(f"/v1/concepts/2/dimensions/{one}", json={"name": "mine"}))
    assert idle & shown() == {one}


def test_without_effects_knobs_come_in_the_order_of_their_evidence(client_of, own_run):
    (own_run / "effects.json").unlink()
    manifest.seal(own_run, runs.FILES)
    card = about.Model.model_validate(ok(client_of(own_run).get("/v1/model")))
    assert card.towards_effects == []
    bags = next(entry for entry in card.concepts if entry.name == "bags")
    strengths = [entry.strength for entry in bags.dimensions if entry.name and entry.attribute != "popularity"]
    assert strengths == sorted(strengths, reverse=True)
    assert bags.dimensions[len(strengths)].attribute == "popularity"
    assert {entry.effect for entry in bags.dimensions} == {None}


def test_an_item_that_two_concepts_share_has_both(client, shop_model):
    *_, second, best = np.sort(shop_model.membership(), axis=1).T
    least, most = (str(shop_model.items[place]) for place in ((second / best).argmin(), (second / best).argmax()))
    item = about.Item.model_validate(ok(client.get(f"/v1/items/{most}")))
    assert item.concepts[item.concept] == max(item.concepts)
    assert item.concepts[item.second_concept] == sorted(item.concepts)[-2] >= 0.25 * max(item.concepts)
    assert item.second_share == pytest.approx(item.concepts[item.second_concept], abs=1e-4)
    (listed,) = ok(client.post("/v1/items/lookup", json={"ids": [most]}))["items"]
    assert (listed["second_concept"], listed["second_share"]) == (item.second_concept, item.second_share)
    item = about.Item.model_validate(ok(client.get(f"/v1/items/{least}")))
    assert (item.second_concept, item.second_share) == (None, None)


def test_the_card_reveals_no_paths(client):
    assert "/somewhere" not in client.get("/v1/model").text


def test_a_concept_lists_all_its_dimensions(client):
    content = about.Dimensions.model_validate(ok(client.get("/v1/concepts/2/dimensions")))
    assert sorted(entry.dimension for entry in content.dimensions) == list(range(24))
    problem(client.get("/v1/concepts/7/dimensions"), 404, "7")


def test_the_report_has_scores_and_one_entry_per_epoch(client, shop_model):
    content = about.Report.model_validate(ok(client.get("/v1/report")))
    assert [line["epoch"] for line in content.log] == [epoch.epoch for epoch in shop_model.log]
    assert content.metrics["test"]["users"] == 60


def test_the_rough_map_has_every_item(client, shop_model):
    content = about.Map.model_validate(ok(client.get("/v1/map")))
    assert content.id == [str(item) for item in shop_model.items]
    assert content.concept == shop_model.concepts_of_items().tolist()
    assert np.isfinite([content.x, content.y]).all()
    assert len(set(zip(content.x, content.y, strict=True))) > 400


def test_a_large_catalogue_has_its_most_popular_items_on_the_map(client_of, shop_run, shop_model, monkeypatch):
    monkeypatch.setattr("macrid.serving.hosted.MOST_ON_MAP", 20)
    client = client_of(shop_run)
    content = ok(client.get("/v1/map"))
    known = dict(zip(shop_model.items, shop_model.popularity.tolist(), strict=True))
    assert len(content["x"]) == len(content["concept"]) == 20
    assert sorted(known[item] for item in content["id"]) == sorted(known.values())[-20:]
    assert ok(client.get("/v1/map/values", params={"by": "popularity"}))["values"] == [
        known[item] for item in content["id"]
    ]


def test_attribute_values_are_in_map_order(client, shop_model):
    price = ok(client.get("/v1/map/values", params={"by": "price"}))
    np.testing.assert_allclose(price["values"], shop_model.table.column("price").to_numpy())
    content = ok(client.get("/v1/map/values", params={"by": "category"}))
    labelled = [content["labels"][int(value)] for value in content["values"]]
    assert labelled == shop_model.table.column("category").to_pylist()
    heel = ok(client.get("/v1/map/values", params={"by": "heel"}))["values"]
    assert heel.count(None) == shop_model.table.column("heel").null_count
    problem(client.get("/v1/map/values", params={"by": "taste"}), 404, "taste")


# Items and users


def test_search_tolerates_typos_and_is_paged(client):
    content = ok(client.get("/v1/items", params={"q": "lether bag", "limit": 5}))
    assert content["total"] > 5
    assert all("leather" in item["title"] for item in content["items"])
    rest = ok(client.get("/v1/items", params={"q": "lether bag", "limit": 100, "offset": 5}))
    assert len(rest["items"]) == content["total"] - 5
    assert not {item["id"] for item in content["items"]} & {item["id"] for item in rest["items"]}
    members = ok(client.get("/v1/items", params={"concept": 3, "limit": 100}))
    assert {item["concept"] for item in members["items"]} == {3}


def test_search_finds_attributes_and_says_which(client, shop_model):
    page = about.ItemPage.model_validate(ok(client.get("/v1/items", params={"q": "teal phonecases", "limit": 100})))
    rows = shop_model.table.to_pylist()
    teal = {str(shop_model.items[at]) for at, row in enumerate(rows) if row["colour"] == "teal"}
    cases = {str(shop_model.items[at]) for at, row in enumerate(rows) if row["category"] == "phone cases"}
    assert {hit.id for hit in page.items} == teal & cases
    assert all("phone cases" in hit.matched or "teal" in hit.matched or "phone case" in hit.title for hit in page.items)
    by_title = about.ItemPage.model_validate(ok(client.get("/v1/items", params={"q": page.items[0].title})))
    assert by_title.items[0].title == page.items[0].title
    assert by_title.items[0].matched == []


def test_items_are_returned_by_id_without_duplicates(client):
    content = ok(client.post("/v1/items/lookup", json={"ids": ["mug-0003", "gone", "bag-0007", "mug-0003"]}))
    assert [item["id"] for item in content["items"]] == ["mug-0003", "bag-0007"]
    assert content["items"][1]["title"] == ok(client.get("/v1/items/bag-0007"))["title"]
    assert content["unknown"] == ["gone"]


def test_an_item_has_attributes_a_picture_and_a_concept(client, shop_model):
    item = about.Item.model_validate(ok(client.get("/v1/items/bag-0007")))
    row = shop_model.table.slice(list(shop_model.items).index("bag-0007"), 1).to_pylist()[0]
    assert item.attributes["price"] == row["price"]
    assert item.title == row["title"]
    assert sum(item.concepts) == pytest.approx(1, abs=1e-4)
    assert item.concept == int(np.argmax(item.concepts))
    picture = client.get(item.picture)
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in picture.headers["content-security-policy"]
    again = client.get(item.picture, headers={"if-none-match": picture.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/v1/pictures/bag-0008", headers={"if-none-match": picture.headers["etag"]})
    assert (other.status_code, other.headers["etag"] == picture.headers["etag"]) == (200, False)


def test_known_users_are_listed_and_have_histories(client, shop_run):
    content = ok(client.get("/v1/users", params={"q": "validation", "limit": 2, "offset": 1}))
    assert [user["id"] for user in content["users"]] == ["validation-1", "validation-2"]
    assert content["total"] == 60
    history = runs.read_heldout(shop_run, "validation").history
    assert content["users"][0]["items"] == history.indptr[2] - history.indptr[1]
    assert len(history_of(client, "validation-1")) == content["users"][0]["items"]


def test_similar_items_match_the_library(client, shop_model):
    content = lists.Similar.model_validate(ok(client.get("/v1/similar", params={"item": "mug-0003", "n": 4})))
    assert [item.id for item in content.items] == shop_model.similar_items("mug-0003", 4).ids


# Recommending


def test_recommendations_match_the_library(client, shop_model):
    history = history_of(client)
    content = lists.Recommended.model_validate(ok(client.post("/v1/recommend", json={"history": history, "n": 12})))
    expected = shop_model.recommend(history, 12)
    assert [item.id for item in content.items] == expected.ids
    np.testing.assert_allclose([item.score for item in content.items], [item.score for item in expected], rtol=1e-4)
    assert [(item.title, item.concept) for item in content.items] == [(item.title, item.concept) for item in expected]
    by_user = ok(client.post("/v1/recommend", json={"user": "test-0", "n": 12}))
    assert [item["id"] for item in by_user["items"]] == expected.ids


def test_include_exclude_and_exclude_seen_restrict_the_list(client, shop_model):
    history, among = history_of(client), [f"bag-{number:04d}" for number in range(1, 40)]
    request = {"history": history, "n": 8, "include": among, "exclude": [*among[:20], "gone"], "exclude_seen": False}
    content = ok(client.post("/v1/recommend", json=request))
    expected = shop_model.recommend(history, 8, exclude_seen=False, include=among[20:])
    assert [item["id"] for item in content["items"]] == expected.ids


def test_unknown_items_are_reported_and_ignored(client, shop_model):
    content = ok(client.post("/v1/recommend", json={"history": ["bag-0001", "gone", 17], "n": 3}))
    assert content["unknown"] == ["gone", "17"]
    assert [item["id"] for item in content["items"]] == shop_model.recommend(["bag-0001"], 3).ids


def test_moves_match_steer_and_report_what_changed(client, shop_model):
    history = history_of(client)
    moves = [{"concept": "bags", "dimension": "size", "to": 0.25}, {"concept": "bags", "share": 0.7}]
    request = {"history": history, "n": 10, "moves": moves, "before": True}
    content = lists.Recommended.model_validate(ok(client.post("/v1/recommend", json=request)))
    expected = macrid.steer(shop_model, history, moves=moves, n=10)
    assert [item.id for item in content.items] == expected.ids
    assert [item.id for item in content.before] == expected.before.ids
    assert content.moved.model_dump(by_alias=True) == json.loads(json.dumps(expected.as_json()["moved"]))
    np.testing.assert_allclose(content.shares, expected.shares, atol=1e-5)
    assert content.effects[0].after == pytest.approx(0.25, abs=1e-4)
    again = ok(client.post("/v1/recommend", json={**request, "moves": [m.model_dump() for m in content.moves]}))
    assert [item["id"] for item in again["items"]] == expected.ids


def test_a_move_beyond_the_range_of_real_users_gives_a_warning(client, shop_model):
    history = history_of(client)
    move = {"towards": "price", "amount": 5}
    content = ok(client.post("/v1/recommend", json={"history": history, "n": 5, "moves": [move]}))
    assert any("price" in warning for warning in content["warnings"])
    with pytest.warns(macrid.errors.RangeWarning):
        assert [item["id"] for item in content["items"]] == macrid.steer(shop_model, history, moves=[move], n=5).ids


def test_by_concept_lists_the_best_items_of_every_concept(client, shop_model):
    history = history_of(client)
    request = {"history": history, "n": 6, "by_concept": True}
    content = lists.Recommended.model_validate(ok(client.post("/v1/recommend", json=request)))
    assert sorted(row.concept for row in content.concepts) == list(range(7))
    shares = [content.shares[row.concept] for row in content.concepts]
    assert shares == sorted(shares, reverse=True)
    concepts = shop_model.concepts_of_items()
    for row in content.concepts:
        members = [shop_model.items[int(at)] for at in np.flatnonzero(concepts == row.concept)]
        assert [item.id for item in row.items] == shop_model.recommend(history, 6, include=members).ids


def test_a_list_of_one_concept_has_its_best_items_and_is_compared_with_itself_before_the_moves(client, shop_model):
    history, size = history_of(client), knob(client)
    request = {"history": history, "n": 6, "concept": size["concept"]}
    moves = [{"concept": size["concept"], "dimension": size["dimension"], "to": size["range"][1]}]
    plain = lists.Recommended.model_validate(ok(client.post("/v1/recommend", json=request)))
    rows = ok(client.post("/v1/recommend", json={"history": history, "n": 6, "by_concept": True, "moves": moves}))
    row = next(row for row in rows["concepts"] if row["concept"] == size["concept"])
    bags = [item for item, k in zip(shop_model.items, shop_model.concepts_of_items(), strict=True)
            if k == size["concept"]]  # fmt: skip
    assert [item.id for item in plain.items] == shop_model.recommend(history, 6, include=bags).ids
    assert plain.moved is None
    for _ in range(2):  # computed, then cached
        content = ok(client.post("/v1/recommend", json={**request, "moves": moves, "before": True}))
        assert content["items"] == row["items"]
        assert [item["id"] for item in content["before"]] == [item.id for item in plain.items]
        assert content["moved"] == row["moved"]
        assert len(content["moved"]["in"]) == len(content["moved"]["out"]) > 0
        assert "concepts" not in content
    everything = ok(client.post("/v1/recommend", json={**request, "n": 400}))["items"]
    assert {item["id"] for item in everything} == set(bags) - set(history)
    problem(client.post("/v1/recommend", json={**request, "concept": 7}), 422, "7")


def test_stored_moves_are_applied_carried_over_by_name_or_left_out(client, shop_model):
    history, size, card = history_of(client), knob(client), ok(client.get("/v1/model"))
    request = {
        "history": history,
        "n": 6,
        "moves": [{"concept": size["concept"], "dimension": size["dimension"], "to": 0.1}],
    }
    first = ok(client.post("/v1/recommend", json=request))
    (stored,) = first["moves"]
    assert stored["name"] == "size"
    again = ok(client.post("/v1/recommend", json={**request, "moves": [stored], "run": card["run_id"]}))
    assert again == first
    gone = {**stored, "dimension": (size["dimension"] + 1) % 24, "axis": "0123456789ab"}
    for run in (None, "another"):
        carried = ok(client.post("/v1/recommend", json={**request, "moves": [gone], "run": run}))
        assert carried["items"] == first["items"]
        assert carried["moves"] == [stored]
        assert "size" in carried["warnings"][0]
        unknown = {**gone, "name": "weight"}
        share = {"concept": "bags", "share": 0.6}
        left = ok(client.post("/v1/recommend", json={**request, "moves": [unknown, share], "run": run}))
        assert [move["concept"] for move in left["moves"]] == ["bags"]
        assert "weight" in left["warnings"][0]
        none = ok(client.post("/v1/recommend", json={**request, "moves": [unknown], "run": run}))
        assert (none["moves"], len(none["warnings"])) == ([], 1)
        assert [item["id"] for item in none["items"]] == shop_model.recommend(history, 6).ids
        assert (
            len(ok(client.post("/v1/encode", json={"history": history, "moves": [unknown], "run": run}))["warnings"])
            == 1
        )


def test_the_run_id_changes_with_the_weights_but_not_with_names(client_of, own_run, popularity_run):
    client = client_of(own_run)
    before = ok(client.get("/v1/model"))
    ok(client.patch("/v1/concepts/0", json={"name": "things"}))
    after = ok(client.get("/v1/model"))
    assert after["run_id"] == before["run_id"]
    assert after["digest"] != before["digest"]
    assert ok(client_of(popularity_run).get("/v1/model"))["run_id"] != before["run_id"]


def test_explanations_match_the_library(client, shop_model):
    history = history_of(client)
    content = ok(client.post("/v1/recommend", json={"history": history, "n": 3, "explain": True}))
    expected = macrid.explain(shop_model, history, n=3)
    for item, reason in zip(content["items"], expected, strict=True):
        assert [pull["id"] for pull in item["reason"]["pulls"]] == [pull.id for pull in reason.pulls]
        assert item["reason"]["share"] == pytest.approx(reason.share, abs=1e-6)


@pytest.mark.parametrize("history", [[], ["gone"]])
def test_a_history_without_known_items_falls_back_to_what_is_popular_and_says_so(client, shop_model, history):
    content = ok(client.post("/v1/recommend", json={"history": history, "n": 3, "explain": True}))
    lists.Recommended.model_validate(content)
    assert [item["id"] for item in content["items"]] == shop_model.recommend([], 3).ids
    assert content["fallback"]
    assert content["warnings"] == ["no known item in the history: these are the most popular items"]
    assert content["unknown"] == history
    moved = ok(client.post("/v1/recommend", json={"history": history, "moves": [{"concept": 1, "share": 0.5}]}))
    assert "fallback" not in moved
    assert len(moved["warnings"]) == len(history)  # where moves start from
    strict = client.post("/v1/recommend", json={"history": ["gone"], "rules": {"strict": True}})
    problem(strict, 422, "gone", "bag-0011")


def test_a_batch_returns_one_list_per_history(client, shop_model):
    histories = [history_of(client, f"test-{user}") for user in range(5)] + [[]]
    content = ok(client.post("/v1/recommend/batch", json={"histories": histories, "n": 7, "exclude": ["bag-0001"]}))
    for history, row in zip(histories, content["results"], strict=True):
        assert [item["id"] for item in row["items"]] == shop_model.recommend(history, 7, exclude=["bag-0001"]).ids
    assert content["results"][-1]["fallback"]
    many = client.post("/v1/recommend/batch", json={"histories": [[]] * 300, "n": 400})
    problem(many, 422, "100,000")


def test_encode_returns_shares_and_coordinates_after_moves(client, shop_model):
    history, size = history_of(client), knob(client)
    content = lists.Encoded.model_validate(ok(client.post("/v1/encode", json={"history": history})))
    confidence = shop_model.encode(history).confidence
    np.testing.assert_allclose([row.share for row in content.concepts], confidence / confidence.sum(), atol=1e-5)
    assert sum(row.recommended for row in content.concepts) == pytest.approx(1, abs=1e-4)
    move = {"concept": size["concept"], "dimension": size["dimension"], "to": 0.1}
    moved = ok(client.post("/v1/encode", json={"history": history, "moves": [move]}))["concepts"][size["concept"]]
    assert moved["coordinates"][size["dimension"]] == pytest.approx(0.1, abs=1e-3)


def test_a_walk_matches_the_library(client, shop_model):
    request = {"item": "bag-0007", "dimension": "size", "steps": 6, "keep_start": True}
    content = lists.Traversed.model_validate(ok(client.post("/v1/traverse", json=request)))
    expected = macrid.traverse(shop_model, "bag-0007", "size", 6, keep_start=True)
    assert [stop.id for stop in content.items] == expected.ids
    assert content.held == list(expected.held) != []
    assert [stop.differs for stop in content.items] == [list(stop.differs) for stop in expected.items]
    for hold in (False, ["price"]):
        answer = ok(client.post("/v1/traverse", json={**request, "hold": hold}))
        assert answer == macrid.traverse(shop_model, "bag-0007", "size", 6, keep_start=True, hold=hold).as_json()
    from_user = ok(client.post("/v1/traverse", json={"user": "test-0", "concept": "bags", "dimension": "size"}))
    history = history_of(client)
    assert [stop["id"] for stop in from_user["items"]] == macrid.traverse(
        shop_model, dimension="size", history=history, concept="bags"
    ).ids


# Errors


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/v1/recommend", {"history": ["bag-0001"], "user": "test-0"}, 422, ["history", "user"]),
        ("POST", "/v1/recommend", {}, 422, ["history", "user"]),
        ("POST", "/v1/traverse", {"item": "bag-0001", "dimension": 1, "hold": ["weight"]}, 422, ["'weight'", "price"]),
        ("POST", "/v1/traverse", {"item": "bag-0001", "dimension": 1, "hold": [3]}, 422, ["hold"]),
        ("POST", "/v1/recommend", {"user": "nobody"}, 404, ["nobody", "test-0"]),
        ("POST", "/v1/recommend", {"history": [], "n": 0}, 422, ["n:"]),
        ("POST", "/v1/recommend", {"history": [], "n": 600, "rules": {"strict": True}}, 422, ["600", "500"]),
        ("POST", "/v1/recommend", {"history": [], "colour": "red"}, 422, ["colour"]),
        ("POST", "/v1/recommend", {"history": [True]}, 422, ["history[0]"]),
        (
            "POST",
            "/v1/recommend",
            {"history": [], "include": ["gone"], "rules": {"strict": True}},
            422,
            ["include", "gone"],
        ),
        ("POST", "/v1/recommend", {"history": [], "moves": [{"concept": 99, "share": 0.1}]}, 422, ["99"]),
        ("POST", "/v1/recommend", {"history": [], "moves": [{"concept": 1}]}, 422, []),
        ("POST", "/v1/recommend", {"history": [], "moves": [{"towards": "taste", "amount": 1}]}, 422, ["taste"]),
        ("POST", "/v1/recommend/batch", {"histories": []}, 422, ["histories"]),
        ("POST", "/v1/encode", {"history": ["gone"]}, 422, ["gone"]),
        ("POST", "/v1/traverse", {"item": "gone", "dimension": 0}, 422, ["gone"]),
        ("POST", "/v1/traverse", {"item": "bag-0001", "dimension": "taste"}, 422, ["taste", "size"]),
        ("POST", "/v1/traverse", {"dimension": 0}, 422, ["item", "history", "user"]),
        ("GET", "/v1/items/gone", None, 404, ["gone"]),
        ("GET", "/v1/pictures/gone", None, 404, ["gone"]),
        ("GET", "/v1/users/nobody", None, 404, ["nobody"]),
        ("GET", "/v1/similar?item=gone", None, 404, ["gone"]),
        ("GET", "/v1/similar?item=bag-0001&n=500", None, 422, ["499"]),
        ("GET", "/v1/items?limit=0", None, 422, ["limit"]),
        ("GET", "/v1/items?concept=9", None, 404, ["9"]),
        ("GET", "/v1/nothing", None, 404, []),
        ("DELETE", "/v1/model", None, 405, []),
        ("PATCH", "/v1/concepts/1", {"name": "things"}, 403, ["--edits no"]),
        ("POST", "/v1/reload", {}, 403, ["--edits no"]),
    ],
)
def test_all_errors_use_one_format(client, method, path, body, status, words):
    problem(client.request(method, path, json=body), status, *words)


def test_invalid_json_is_refused(client):
    problem(client.post("/v1/recommend", content=b"{", headers={"content-type": "application/json"}), 422, "JSON")


# Names


def test_names_are_saved_in_the_run_and_seen_by_other_processes(client_of, own_run):
    one, other = client_of(own_run), client_of(own_run)
    digest = ok(one.get("/v1/model"))["digest"]
    size = knob(one)
    renamed = ok(one.patch(f"/v1/concepts/{size['concept']}", json={"name": "<b>handbags</b>"}))
    assert (renamed["name"], renamed["edited"]) == ("<b>handbags</b>", True)
    place = f"/v1/concepts/{size['concept']}/dimensions/{size['dimension']}"
    assert ok(one.patch(place, json={"name": "bulk", "low": "small"}))["name"] == "bulk"
    card = ok(other.get("/v1/model"))
    assert card["digest"] != digest
    assert card["concepts"][size["concept"]]["label"] == "<b>handbags</b>"
    assert meaning_of(runs.load(own_run, "cpu")).names.dimension(size["concept"], size["dimension"]).low == "small"
    moved = {"user": "test-0", "moves": [{"concept": "<b>handbags</b>", "dimension": "bulk", "to": 0.1}]}
    ok(other.post("/v1/recommend", json=moved))
    problem(one.patch(place, json={}), 422)
    problem(one.patch(f"/v1/concepts/{size['concept']}", json={"name": " "}), 422)


def test_concurrent_renames_are_all_kept(client_of, own_run):
    from concurrent.futures import ThreadPoolExecutor

    clients = client_of(own_run), client_of(own_run)
    for client in clients:  # FastAPI builds the routes of a router on its first request, which only one thread may do
        ok(client.get("/v1/concepts/0/dimensions"))
    with ThreadPoolExecutor(7) as pool:
        list(pool.map(lambda k: ok(clients[k % 2].patch(f"/v1/concepts/{k}", json={"name": f"things {k}"})), range(7)))
    assert [entry.name for entry in meaning_of(runs.load(own_run, "cpu")).names.concepts] == [
        f"things {k}" for k in range(7)
    ]


def test_a_rename_right_after_another_process_renamed_keeps_both(own_run, monkeypatch):
    from macrid.serving import hosted
    from macrid.settings import ServingSettings

    one, other = (hosted.Hosted(own_run, ServingSettings.make()) for _ in range(2))
    write = hosted.write_names

    def write_then_be_overtaken(names, run):
        write(names, run)
        monkeypatch.setattr(hosted, "write_names", write)
        other.rename(lambda names: names.renamed(1, "theirs"))

    monkeypatch.setattr(hosted, "write_names", write_then_be_overtaken)
    one.rename(lambda names: names.renamed(0, "mine"))
    one.rename(lambda names: names.renamed(2, "mine, too"))
    names = runs.read_names(own_run)
    assert [names.concept_name(k) for k in range(3)] == ["mine", "theirs", "mine, too"]
    for each in (one, other):
        each.close()


def test_a_run_replaced_while_it_is_opened_is_opened_again(own_run, popularity_run, monkeypatch):
    from macrid.serving import hosted
    from macrid.settings import ServingSettings

    load = hosted.load

    def load_then_be_replaced(*args, **options):
        monkeypatch.setattr(hosted, "load", load)
        model = load(*args, **options)
        shutil.rmtree(own_run)
        shutil.copytree(popularity_run, own_run)
        return model

    monkeypatch.setattr(hosted, "load", load_then_be_replaced)
    opened = hosted.Hosted(own_run, ServingSettings.make())
    assert type(opened.model).__name__ == "Popularity"
    assert opened.weights == runs.weights_digest(own_run)
    assert opened.is_same(own_run)
    opened.close()


def test_a_reload_goes_on_if_its_client_stops_waiting(client_of, own_run, monkeypatch, caplog):
    from macrid.serving import service

    class Slow(service.Hosted):
        def __init__(self, *args):
            time.sleep(1)
            super().__init__(*args)

    client = client_of(own_run, timeout=0.5)
    (own_run / "log.jsonl").touch()
    monkeypatch.setattr(service, "Hosted", Slow)
    with caplog.at_level(logging.INFO, "macrid.serving"):
        assert client.post("/v1/reload", json={}).status_code == 503
        end = time.monotonic() + 20
        while "now serving" not in caplog.text and time.monotonic() < end:
            client.get("/healthz")
            time.sleep(0.05)
    assert "now serving" in caplog.text


def test_duplicate_names_are_refused(client_of, own_run):
    client, size = client_of(own_run), knob(client_of(own_run))
    problem(client.patch(f"/v1/concepts/{(size['concept'] + 1) % 7}", json={"name": "Bags"}), 422, "Bags")
    price = knob(client, "bags", "price")["dimension"]
    problem(client.patch(f"/v1/concepts/{size['concept']}/dimensions/{price}", json={"name": "size"}), 422, "size")


def test_axes_turned_on_disk_apply_only_after_a_reload(client_of, own_run):
    from macrid.concepts.axes import find, use
    from macrid.concepts.understanding import fresh_names

    client = client_of(own_run)
    before = ok(client.get("/v1/model"))["concepts"]
    model = runs.load(own_run, "cpu")
    use(model, find(model, "independence"))
    meaning_of(model).names = fresh_names(model)
    runs.keep(model, own_run)
    assert ok(client.get("/v1/model"))["concepts"] == before
    problem(client.patch("/v1/concepts/0", json={"name": "things"}), 409)
    assert meaning_of(runs.load(own_run, "cpu")).in_use == ("independence",) * 7
    ok(client.post("/v1/reload", json={}))
    assert ok(client.get("/v1/model"))["concepts"] != before
    assert ok(client.patch("/v1/concepts/0", json={"name": "things"}))["name"] == "things"
    assert meaning_of(runs.load(own_run, "cpu")).in_use == ("independence",) * 7


def test_names_that_do_not_fit_the_model_are_ignored(client_of, own_run):
    client = client_of(own_run)
    names = json.loads((own_run / "names.json").read_text("utf-8"))
    few = {"concepts": names["concepts"][:3], "dimensions": names["dimensions"][: 3 * 24], "aside": []}
    (own_run / "names.json").write_text(json.dumps(few), "utf-8")
    assert len(ok(client.get("/v1/model"))["concepts"]) == 7
    (own_run / "names.json").write_text("{", "utf-8")
    assert len(ok(client.get("/v1/model"))["concepts"]) == 7


def test_names_stay_if_the_run_cannot_be_written(client_of, own_run, monkeypatch):
    client = client_of(own_run)
    monkeypatch.setattr("macrid.manifest.write_atomically", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
    problem(client.patch("/v1/concepts/0", json={"name": "things"}), 409, "disk full")
    assert "things" not in client.get("/v1/model").text


# Other models and runs


def test_a_model_without_concepts_recommends_but_refuses_everything_else(client_of, popularity_run):
    client, model = client_of(popularity_run), runs.load(popularity_run, "cpu")
    card = ok(client.get("/v1/model"))
    assert (card["has_concepts"], card["concepts"], card["has_titles"], card["users"]) == (False, [], False, 0)
    content = ok(client.post("/v1/recommend", json={"history": ["3", 5], "n": 4}))
    assert [int(item["id"]) for item in content["items"]] == model.recommend([3, 5], 4).ids
    assert ok(client.get("/v1/items", params={"q": "12"}))["items"][0]["id"] == "12"
    assert len(ok(client.get("/v1/map"))["x"]) == len(model.items)
    for path, body in (
        ("/v1/encode", {"history": [3]}),
        ("/v1/traverse", {"item": 3, "dimension": 0}),
        ("/v1/recommend", {"history": [3], "moves": [{"concept": 0, "share": 1}]}),
        ("/v1/recommend", {"history": [3], "by_concept": True}),
        ("/v1/recommend", {"history": [3], "concept": 0}),
    ):
        problem(client.post(path, json=body), 409, "Popularity")


def test_ids_with_slashes_and_hostile_titles_survive_a_round_trip(client_of, shop_model, tmp_path):
    import copy

    import pyarrow as pa

    from macrid.data.ids import Ids

    hostile = ["a/b", "../../etc/passwd", "q?x=1#y", "<script>alert(1)</script>", "% 20", 'say "hi"\\', "ümlaut 🎒"]
    model = copy.deepcopy(shop_model)
    model.items = Ids([*hostile, *list(model.items)[len(hostile) :]])
    titles = [*hostile, *model.table.column("title").to_pylist()[len(hostile) :]]
    model.table = model.table.set_column(0, "title", pa.array(titles))
    runs.save(model, tmp_path / "run")
    client = client_of(tmp_path / "run")
    for item in hostile:
        content = ok(client.get(f"/v1/items/{quote(item, safe='')}"))
        assert (content["id"], content["title"]) == (item, item)
        assert client.get(f"/v1/pictures/{quote(item, safe='')}").status_code in (200, 404)
        ok(client.post("/v1/recommend", json={"history": [item], "n": 2}))


def test_users_of_an_events_file_are_known_by_id(client_of, shop_run, shop_model, tmp_path):
    events = tmp_path / "events.csv"
    events.write_text("user_id,item_id\nann,bag-0001\nann,mug-0002\nann,gone\nbob,lamp-0003\n", "utf-8")
    client = client_of(shop_run, users=str(events))
    assert sizes(client) == [("ann", 2), ("bob", 1)]
    content = ok(client.post("/v1/recommend", json={"user": "ann", "n": 5}))
    assert [item["id"] for item in content["items"]] == shop_model.recommend(["bag-0001", "mug-0002"], 5).ids


def test_low_rated_items_are_not_in_the_history_and_not_recommended(client_of, own_run, tmp_path):
    config = json.loads((own_run / "config.json").read_text("utf-8"))
    (own_run / "config.json").write_text(json.dumps({**config, "data": {"min_rating": 4}}), "utf-8")
    manifest.seal(own_run, runs.FILES)
    model = runs.load(own_run, "cpu")
    liked = ["bag-0011", "mug-0003"]
    disliked = model.recommend(liked, 5).ids
    rows = [("ann", item, 5) for item in liked] + [("ann", item, 1) for item in disliked] + [("bob", "mug-0004", 2)]
    events = tmp_path / "events.csv"
    events.write_text("who,what,stars\n" + "".join(f"{u},{i},{r}\n" for u, i, r in rows), "utf-8")
    client = client_of(own_run, users=str(events), user_col="who", item_col="what", rating_col="stars")
    assert sizes(client) == [("ann", 2), ("bob", 0)]
    assert sorted(history_of(client, "ann")) == sorted(liked)
    content = ok(client.post("/v1/recommend", json={"user": "ann", "n": 5}))
    assert [item["id"] for item in content["items"]] == model.recommend(liked, 5, exclude=disliked).ids
    seen = ok(client.post("/v1/recommend", json={"user": "ann", "n": 5, "exclude_seen": False}))
    assert [item["id"] for item in seen["items"]] == model.recommend(liked, 5, exclude_seen=False).ids


def test_a_run_without_names_is_named_on_opening(client_of, own_run):
    (own_run / "names.json").unlink()
    manifest.seal(own_run, runs.FILES)
    assert {entry["name"] for entry in ok(client_of(own_run).get("/v1/model"))["concepts"]} >= {"bags", "mugs"}


# Running


def test_probes_and_metrics_are_at_the_root_and_under_v1(client):
    for root in ("", "/v1"):
        assert ok(client.get(f"{root}/healthz"))["status"] == "ok"
        assert ok(client.get(f"{root}/readyz"))["run"] == "run"
        assert client.head(f"{root}/healthz").status_code == client.head(f"{root}/readyz").status_code == 200
        text = client.get(f"{root}/metrics").text
        assert 'macrid_requests_total{method="GET",route="/healthz",status="200"}' in text
        assert "macrid_batch_requests_bucket" in text


def test_every_reload_follows_the_link_again(client_of, own_run, popularity_run):
    link = own_run.parent / "current"
    link.symlink_to(own_run)
    client = client_of(link)
    assert ok(client.post("/v1/reload", json={}))["run"] == "run"
    link.unlink()
    link.symlink_to(popularity_run)
    ok(client.post("/v1/reload", json={}))
    assert ok(client.get("/v1/model"))["model"] == "Popularity"
    link.unlink()
    link.symlink_to(own_run)
    ok(client.post("/v1/reload", json={}))
    assert ok(client.get("/v1/model"))["model"] == "MacridVAE"


def test_reload_loads_another_run_unless_it_is_bad(client_of, own_run, popularity_run):
    import shutil

    shutil.copytree(popularity_run, own_run.parent / "other")
    (own_run.parent / "bad").mkdir()
    client = client_of(own_run)
    refusal = problem(client.post("/v1/reload", json={"run": "bad"}), 409, "bad")
    assert str(own_run.parent) not in refusal.detail
    problem(client.post("/v1/reload", json={"run": "x" * 300}), 422)
    problem(client.post("/v1/reload", json={"run": "none"}), 404, "none")
    problem(client.post("/v1/reload", json={"run": "../run"}), 422, "../run")
    assert ok(client.get("/readyz"))["run"] == "run"
    assert ok(client.post("/v1/reload", json={"run": "other"}))["run"] == "other"
    assert ok(client.get("/v1/model"))["model"] == "Popularity"
    assert ok(client.post("/v1/reload", json={}))["run"] == "other"
    assert ok(client.post("/v1/reload", json={"run": "run"}))["run"] == "run"
    assert ok(client.get("/v1/model"))["model"] == "MacridVAE"


def test_numbers_and_characters_that_json_lacks_are_repaired(client_of, own_run):
    content = '{"test": {"ndcg@100": {"mean": NaN, "se": -Infinity}, "note\\ud800": "\\udfff", "n": 1}}'
    (own_run / "metrics.json").write_text(content, "ascii")
    manifest.seal(own_run, runs.FILES)
    expected = {"ndcg@100": {"mean": None, "se": None}, "note?": "?", "n": 1}
    client = client_of(own_run)
    assert ok(client.get("/v1/model"))["metrics"]["test"] == expected
    assert ok(client.get("/v1/report"))["metrics"]["test"] == expected


@pytest.mark.parametrize("name", ["model.safetensors", "axes.safetensors", "heldout.safetensors", "items.parquet"])
def test_a_run_with_a_flipped_bit_is_never_swapped_in(client_of, own_run, name):
    client = client_of(own_run)
    before = ok(client.post("/v1/recommend", json={"history": ["bag-0001"], "n": 5}))
    content = bytearray((own_run / name).read_bytes())
    content[len(content) // 2] ^= 1
    (own_run / name).write_bytes(content)
    problem(client.post("/v1/reload", json={}), 409, f"{name}: damaged")
    assert ok(client.post("/v1/recommend", json={"history": ["bag-0001"], "n": 5})) == before
