"""Questions of an assistant: the answers are those of the engine, whatever items are called."""

import json
import warnings

import numpy as np
import pytest

import macrid
from macrid.assistant.desk import Desk
from macrid.control.explain import explain
from macrid.errors import MacridError, RequestError


@pytest.fixture(scope="module")
def desk(shop_model):
    return Desk(shop_model)


@pytest.fixture(scope="module")
def unique(shop_model):
    """Items whose titles no other item has or begins with: positions, most popular first."""
    titles = shop_model.table.column("title").to_pylist()
    order = np.argsort(-shop_model.popularity, kind="stable")
    return [int(at) for at in order if sum(other.startswith(titles[at]) for other in titles) == 1]


def title(model, position):
    return model.table.column("title")[position].as_py()


def ids(reply):
    return [item.id for item in reply.content.items]


def test_recommendations_are_those_of_the_model_for_titles_and_ids(desk, shop_model, unique):
    expected = [str(item) for item in shop_model.recommend([shop_model.items[at] for at in unique[:2]], 5).ids]
    likes = [title(shop_model, unique[0]).upper(), str(shop_model.items[unique[1]])]
    reply = desk.recommend(likes, 5, None, [])
    assert ids(reply) == expected
    assert all(name in reply.text for name in expected)
    assert reply.content.understood == [
        f"'{likes[0]}' = {title(shop_model, unique[0])} [{shop_model.items[unique[0]]}]"
    ]
    excluded = desk.recommend(likes, 5, None, [expected[0]])
    assert ids(excluded)[:4] == expected[1:]


def test_a_condition_filters_and_fewer_items_than_asked_for_is_said(desk, shop_model, unique):
    likes = [title(shop_model, unique[0])]
    prices = shop_model.table.column("price").to_pylist()
    limit = sorted(prices)[7]
    reply = desk.recommend(likes, 50, f"price < {limit}", [])
    assert 0 < len(reply.content.items) <= 7
    assert all(item.attributes["price"] < limit for item in reply.content.items)
    assert reply.content.warnings == [f"only {len(reply.content.items)} items are left"]
    assert "note: only" in reply.text
    with pytest.raises(RequestError, match="no item meets"):
        desk.recommend(likes, 5, "price < -1", [])
    with pytest.raises(RequestError, match="where, character 1"):
        desk.similar(likes[0], 5, "prise < 3")


def test_without_likes_the_list_is_generic(desk, shop_model):
    assert ids(desk.recommend([], 3, None, [])) == [str(item) for item in shop_model.recommend([], 3).ids]


def test_words_steer_as_their_moves_do(desk, shop_model, unique):
    item = shop_model.items[unique[0]]
    reply = desk.steer_in_words("cheaper, no blue, flurb", [title(shop_model, unique[0])], 5)
    colours = shop_model.table.column("colour").to_pylist()
    blue = [item for item, colour in zip(shop_model.items, colours, strict=True) if colour == "blue"]
    with warnings.catch_warnings(action="ignore", category=macrid.RangeWarning):
        steered = macrid.steer(shop_model, [item], towards="price", amount=-0.6, n=5, exclude=blue)
    assert ids(reply) == [str(each) for each in steered.ids]
    assert reply.content.moves == [{"towards": "price", "amount": -0.6}]
    assert reply.content.where == "colour != 'blue' or colour is missing"
    assert reply.content.not_understood == ["flurb: no attribute, value or name like this"]
    assert "cheaper = lower price" in reply.content.understood
    assert "not understood: flurb" in reply.text
    named = desk.steer_in_words(f"like '{title(shop_model, unique[0])}', cheaper, no blue", [], 5)
    assert ids(named) == ids(reply)


def test_wishes_need_no_likes(desk):
    assert len(desk.steer_in_words("cheaper", [], 3).content.items) == 3
    for wish, problem in {"flurb": "no attribute", "more": "no wish", " ": "empty"}.items():
        with pytest.raises(RequestError, match=problem):
            desk.steer_in_words(wish, [], 3)


def test_an_unclear_name_becomes_a_question_and_an_unknown_one_an_error(desk):
    for reply in (
        desk.recommend(["leather bag"], 3, None, []),
        desk.steer_in_words("like leather bag, cheaper", [], 3),
        desk.similar("leather bag", 3, None),
    ):
        assert reply.content.question == reply.text
        assert reply.text.startswith("which 'leather bag' is meant: ")
        assert "[bag-" in reply.text
    with pytest.raises(RequestError, match="no item is called 'Zzyzx'"):
        desk.similar("Zzyzx", 3, None)


def test_search_finds_titles_with_typos(desk, shop_model):
    reply = desk.search("lether bag", 4, None)
    assert reply.content.total >= len(reply.content.items) > 0
    assert all("eather" in item.title for item in reply.content.items)
    assert "no item matches" in desk.search("zzyzx", 3, None).text
    only = desk.search("", 100, "category = 'mugs'").content
    assert {item.attributes["category"] for item in only.items} == {"mugs"}
    with pytest.raises(RequestError, match="from 1 to 100"):
        desk.search("bag", 101, None)


def test_reasons_are_those_of_explain(desk, shop_model, unique):
    liked = [shop_model.items[at] for at in unique[:3]]
    target = shop_model.recommend(liked, 1).ids[0]
    reply = desk.explain([str(target)], [str(item) for item in liked])
    (expected,) = explain(shop_model, liked, [target])
    (reason,) = reply.content.reasons
    assert reason.raised_by == [pull.title for pull in expected.pulls if pull.amount > 0]
    assert (reason.place, reason.place_for_everybody) == (expected.account.rank, expected.account.stages[0].rank)
    assert sum(moved.places for moved in reason.moved) == reason.place_for_everybody - reason.place
    assert reason.share == expected.share
    assert f"{expected.share:.0%}" in reply.text
    with pytest.raises(RequestError, match="at least one liked item"):
        desk.explain([str(target)], [])


def test_variations_walk_along_a_dimension_by_name_end_or_comparison(desk, shop_model):
    entry = next(each for each in shop_model.meaning.dimensions if each.attribute == "price")
    position = int(np.flatnonzero(desk.space.concept_of == entry.concept)[0])
    item = shop_model.items[position]
    walk = macrid.traverse(shop_model, item, "price", 5, keep_start=True)
    for along in ("price", "cheaper", "prices", "pricee", str(entry.dimension)):
        reply = desk.variations(str(item), along, 5)
        assert [step.item.id for step in reply.content.steps] == [str(each) for each in walk.ids], along
        assert sum(step.is_start for step in reply.content.steps) == 1
        assert "→" in reply.text
    with pytest.raises(RequestError, match=r"no dimension 'flurb' for this item; its dimensions are .*price"):
        desk.variations(str(item), "flurb", 5)


def test_similar_items_are_those_of_the_model(desk, shop_model, unique):
    item = shop_model.items[unique[0]]
    assert ids(desk.similar(str(item), 4, None)) == [str(each) for each in shop_model.similar_items(item, 4).ids]


def test_concepts_tell_what_can_be_asked_for(desk, shop_model):
    reply = desk.concepts()
    known = reply.content
    assert (known.model, known.items, len(known.concepts)) == ("MacridVAE", len(shop_model.items), 7)
    assert sum(concept.items for concept in known.concepts) == known.items
    assert "bags" in [concept.name for concept in known.concepts]
    assert "mugs" in known.attributes["category"]
    assert "price" in known.towards
    assert "price: " in reply.text
    json.dumps(known.model_dump(mode="json"), allow_nan=False)


def test_a_model_without_concepts_answers_what_it_can(trained):
    desk = Desk(macrid.Popularity().fit(trained[1].train))
    assert len(desk.recommend([], 3, "category = 'mugs'", []).content.items) == 3
    assert len(desk.steer_in_words("no blue", [], 3).content.items) == 3
    assert desk.concepts().content.concepts == []
    with pytest.raises(MacridError, match="no concepts"):
        desk.variations(str(desk.model.items[0]), "price", 3)
    with pytest.raises(RequestError, match="no concepts"):
        desk.steer_in_words("cheaper", [], 3)
    with pytest.raises(MacridError, match="not trained"):
        Desk(macrid.Popularity())
