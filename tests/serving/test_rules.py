"""Rules over HTTP: in requests, standing, from files that change, and what they can be about."""

import json
import os
import shutil

import pytest

import macrid
from macrid.errors import MacridError
from macrid.serving.app import create_app
from macrid.serving.schemas import lists
from macrid.serving.schemas import rules as schema
from macrid.settings import ServingSettings
from tests.serving.test_app import history_of, ok, problem


def asked(client, **request):
    return ok(client.post("/v1/recommend", json={"history": ["bag-0001", "bag-0012"], **request}))


def ids(content):
    return [item["id"] for item in content["items"]]


RULES = {
    "where": "price < 60",
    "exclude": ["bag-0003"],
    "pins": {"mug-0004": 2},
    "boosts": [{"where": "category = 'mugs'", "amount": 0.5}],
    "at_most": {"category": 3},
    "diversity": 0.3,
    "diversity_by": ["colour", "price"],
}


def test_lists_by_rules_match_the_library(client, shop_model):
    history = history_of(client)
    content = ok(client.post("/v1/recommend", json={"history": history, "n": 9, "rules": RULES}))
    shown = lists.Recommended.model_validate(content)
    expected = shop_model.recommend(history, 9, rules=RULES)
    assert [item.id for item in shown.items] == expected.ids
    assert shown.diversity.model_dump() == pytest.approx(expected.diversity.as_json(), abs=1e-5)
    move = {"concept": 1, "share": 0.5}
    moved = ok(client.post("/v1/recommend", json={"history": history, "n": 9, "rules": RULES, "moves": [move]}))
    steered = macrid.steer(shop_model, history, n=9, rules=RULES, moves=[move])
    assert ids(moved) == steered.ids
    batch = ok(client.post("/v1/recommend/batch", json={"histories": [history, []], "n": 9, "rules": RULES}))
    assert [ids(row) for row in batch["results"]] == [expected.ids, shop_model.recommend([], 9, rules=RULES).ids]


def test_shelves_have_names_items_and_reasons(client, shop_model):
    content = asked(client, n=4, rules={"shelves": 3}, explain=True)
    shelves = lists.Recommended.model_validate(content).shelves
    expected = shop_model.recommend(["bag-0001", "bag-0012"], 4, rules={"shelves": 3}).shelves
    assert [(shelf.concept, shelf.name, [item.id for item in shelf.items]) for shelf in shelves] == [
        (shelf.concept, shelf.name, [item.id for item in shelf.items]) for shelf in expected
    ]
    assert all(item.reason for shelf in shelves for item in shelf.items)


def test_fewer_items_and_unknown_ids_are_warnings(client):
    content = asked(client, n=5, include=["bag-0003", "mug-0004", "gone"], exclude=["lost"])
    assert sorted(ids(content)) == ["bag-0003", "mug-0004"]
    told = " ".join(content["warnings"])
    assert all(words in told for words in ("'gone'", "'lost'", "only 2 of 5 items"))
    content = asked(client, n=5, rules={"exclude": ["lost"], "where": "colour = 'green!'"})
    assert content["items"] == []
    assert content["warnings"][:2] == [
        "where: no item has colour 'green!'; did you mean 'green'?", "exclude: ignored 1 unknown item: 'lost'"
    ]  # fmt: skip


def test_one_bad_history_does_not_fail_a_batch(client_of, shop_run, shop_model):
    client = client_of(shop_run, edits="no", max_history=3)
    histories = [["bag-0001"], ["gone"], ["bag-0001"] * 4, ["bag-0012"]]
    content = ok(client.post("/v1/recommend/batch", json={"histories": histories, "n": 3}))
    rows = lists.BatchRecommended.model_validate(content).results
    assert [len(row.items) for row in rows] == [3, 3, 0, 3]
    assert [row.fallback for row in rows] == [False, True, False, False]
    assert "the limit is 3" in rows[2].error
    assert [item.id for item in rows[3].items] == shop_model.recommend(["bag-0012"], 3).ids
    strict = {"histories": histories, "n": 3, "rules": {"strict": True}}
    errors = [row.get("error", "") for row in ok(client.post("/v1/recommend/batch", json=strict))["results"]]
    assert ["gone" in errors[1], bool(errors[2]), errors[0], errors[3]] == [True, True, "", ""]


@pytest.mark.parametrize(
    ("rules", "at", "words"),
    [
        ({"where": "prise < 3"}, "rules.where", ["character 1", "did you mean 'price'"]),
        ({"where": "price <"}, "rules.where", ["character 8", "a value is expected"]),
        ({"boosts": [{"where": "x = 1", "amount": 1}]}, "rules.boosts[0].where", ["'x' is not an attribute"]),
        ({"boosts": [{"where": "price < 1"}]}, "rules.boosts[0].amount", ["required"]),
        ({"boosts": [{"where": "price < 1", "amount": 1}] * 51}, "rules.boosts", ["at most 50"]),
        ({"at_most": {"colours": 2}}, "rules.at_most", ["did you mean 'colour'"]),
        ({"at_most": {"colour": 0}}, "rules.at_most.colour", ["greater than or equal to 1"]),
        ({"diversity": 2}, "rules.diversity", ["less than or equal to 1"]),
        ({"diversity": 0.5, "diversity_by": ["taste"]}, "rules.diversity_by", ["'taste' is not an attribute"]),
        ({"pins": {"a": 2, "b": 2}}, "rules.pins", ["two items have rank 2"]),
        ({"colour": 1}, "rules.colour", ["not permitted"]),
    ],
)
def test_an_error_in_rules_points_at_its_place(client, rules, at, words):
    answer = client.post("/v1/recommend", json={"history": [], "rules": rules})
    problem(answer, 422, *words)
    assert answer.json()["errors"][0]["at"] == at


def test_long_lists_of_ids_in_rules_are_refused(client_of, shop_run):
    client = client_of(shop_run, max_history=3)
    many = {"rules": {"exclude": list("abcd")}}
    problem(client.post("/v1/recommend", json={"history": [], **many}), 422, "rules.exclude has 4 items", "3")
    problem(client.put("/v1/rules", json=many["rules"]), 422, "rules.exclude has 4 items")


def test_attributes_have_kinds_ranges_and_values(client, shop_model):
    content = ok(client.get("/v1/attributes"))
    schema.ItemAttributes.model_validate(content)
    known = {entry["name"]: entry for entry in content["attributes"]}
    assert list(known) == ["id", *shop_model.table.column_names, "popularity"]
    price = [value for value in shop_model.table["price"].to_pylist() if value is not None]
    assert (known["price"]["kind"], known["price"]["low"], known["price"]["high"]) == ("number", min(price), max(price))
    colours = shop_model.table["colour"].to_pylist()
    first = known["colour"]["values"][0]
    assert known["colour"]["kind"] == "text"
    assert first["items"] == colours.count(first["value"]) == max(map(colours.count, set(colours) - {None}))
    assert known["heel"]["missing"] == shop_model.table["heel"].null_count
    assert known["title"]["values"] == [] or known["title"]["kind"] == "text"


@pytest.fixture
def own_copy(shop_run, tmp_path):
    return shutil.copytree(shop_run, tmp_path / "own")


def test_standing_rules_apply_to_every_answer_with_those_of_the_request(client_of, own_copy, shop_model, tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps({"where": "price < 60", "pins": ["mug-0004"], "exclude": ["gone"]}))
    client = client_of(own_copy, rules=str(tmp_path / "rules.json"))
    history, standing = ["bag-0001", "bag-0012"], {"where": "price < 60", "pins": ["mug-0004"]}
    assert ids(asked(client, n=6)) == shop_model.recommend(history, 6, rules=standing).ids
    assert asked(client, n=6)["warnings"] == []  # nobody who asks can do anything about 'gone'
    both = asked(client, n=6, rules={"where": "colour = 'red'", "pins": []})
    assert ids(both) == shop_model.recommend(history, 6, where="price < 60 and colour = 'red'").ids
    batch = ok(client.post("/v1/recommend/batch", json={"histories": [history], "n": 6}))
    assert ids(batch["results"][0]) == shop_model.recommend(history, 6, rules=standing).ids
    content = ok(client.get("/v1/rules"))
    schema.StandingRules.model_validate(content)
    assert content["rules"] == {"where": "price < 60", "pins": ["mug-0004"], "exclude": ["gone"]}
    assert content["warnings"] == ["exclude: ignored 1 unknown item: 'gone'"]
    assert 0 < content["items"] < len(shop_model.items)


def test_a_file_of_ids_is_reread_when_it_changes_and_a_bad_one_changes_nothing(client_of, own_copy, tmp_path, caplog):
    path = tmp_path / "out-of-stock.csv"
    path.write_text("item,stock\n")
    client = client_of(own_copy, exclude_file=str(path))
    first = ids(asked(client, n=3))
    path.write_text(f"item,stock\n{first[0]},0\ngone,0\n")
    assert ids(asked(client, n=2)) == first[1:]
    assert ok(client.get("/v1/rules"))["excluded_by_file"] == 2
    path.write_text("a,b\n1,2\n")
    assert ids(asked(client, n=2)) == first[1:]
    problem_now = ok(client.get("/v1/rules"))["problem"]
    assert "out-of-stock.csv: no column looks like the item" in problem_now
    assert str(tmp_path) not in problem_now
    assert ok(client.get("/readyz"))["warnings"] == [problem_now]
    assert "the old rules stay in force" in caplog.text
    path.unlink()
    assert ids(asked(client, n=2)) == first[1:]
    path.write_text("item\n")
    assert ids(asked(client, n=3)) == first
    assert ok(client.get("/readyz"))["warnings"] == []


def test_rules_are_replaced_saved_and_seen_by_other_processes(client_of, own_copy, tmp_path):
    one, other = client_of(own_copy), client_of(own_copy)
    before = ids(asked(other, n=2))
    content = ok(one.put("/v1/rules", json={"exclude": before[:1]}))
    assert content["rules"] == {"exclude": before[:1]}
    assert ids(asked(one, n=1)) == ids(asked(other, n=1)) == before[1:]
    assert json.loads((tmp_path / "own.rules.json").read_text()) == {"exclude": before[:1]}
    assert ids(asked(client_of(own_copy), n=1)) == before[1:]  # after a restart
    bad = one.put("/v1/rules", json={"where": "taste > 3"})
    problem(bad, 422, "where, character 1", "'taste' is not an attribute")
    assert bad.json()["errors"][0]["at"] == "where"
    assert ids(asked(other, n=1)) == before[1:]
    ok(one.put("/v1/rules", json={}))
    assert ids(asked(other, n=2)) == before


def test_rules_beside_a_link_stay_when_it_leads_to_another_run(client_of, own_copy, tmp_path):
    link, tonight = tmp_path / "current", shutil.copytree(own_copy, tmp_path / "tonight")
    link.symlink_to("own")
    client = client_of(link)
    ok(client.put("/v1/rules", json={"exclude": ids(asked(client, n=1))}))
    expected = ids(asked(client, n=2))
    link.unlink()
    link.symlink_to(tonight.name)
    ok(client.post("/v1/reload", json={}))
    assert ids(asked(client, n=2)) == expected
    assert ids(asked(client_of(link), n=2)) == expected  # a process that is started again


def test_rules_stay_if_they_may_not_or_cannot_be_written(client_of, own_copy, tmp_path, monkeypatch):
    problem(client_of(own_copy, edits="no").put("/v1/rules", json={}), 403, "--edits no")
    client = client_of(own_copy)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("macrid.serving.standing.write_atomically", fail)
    problem(client.put("/v1/rules", json={"where": "price < 3"}), 409, "No space left", "have not changed")
    assert not (tmp_path / "own.rules.json").exists()
    assert ok(client.get("/v1/rules"))["rules"] == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "not JSON"), ('{"where": "taste > 3"}', "do not suit .*'taste'"), (None, "No such file")],
)
def test_a_service_does_not_start_with_bad_rules(own_copy, tmp_path, content, words):
    if content is not None:
        (tmp_path / "rules.json").write_text(content)
    with pytest.raises(MacridError, match=words):
        create_app(own_copy, ServingSettings.make({"rules": str(tmp_path / "rules.json")}))


def test_a_run_that_standing_rules_do_not_suit_is_never_swapped_in(client_of, own_copy, popularity_run, tmp_path):
    shutil.copytree(popularity_run, tmp_path / "other")
    client = client_of(own_copy)
    ok(client.put("/v1/rules", json={"where": "price < 60"}))
    problem(client.post("/v1/reload", json={"run": "other"}), 409, "still serving the old run", "'price'")
    ok(client.put("/v1/rules", json={"where": "popularity > 1"}))
    ok(client.post("/v1/reload", json={"run": "other"}))
    assert ok(client.get("/v1/rules"))["rules"] == {"where": "popularity > 1"}
    problem(client.post("/v1/recommend", json={"history": [], "rules": {"shelves": True}}), 409, "no concepts")


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_noticed(client_of, own_copy, tmp_path):
    path, new = tmp_path / "out.txt", tmp_path / "new.txt"
    path.write_text("bag-0001\n")
    client = client_of(own_copy, exclude_file=str(path))
    first = ids(asked(client, n=1))[0]
    new.write_text(f"{first}\n")
    path.write_text(f"{'x' * len(first)}\n")
    stat = path.stat()
    assert ids(asked(client, n=1)) == [first]
    os.utime(new, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.replace(new, path)
    assert ids(asked(client, n=1)) != [first]
