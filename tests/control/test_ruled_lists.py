"""Rules in every kind of question, against lists made naively from all scores in float64."""

import copy
import math
import warnings
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.concepts.space import space_of
from macrid.control.choosing import FEWEST_IN_POOL
from macrid.control.engine import Engine, Question
from macrid.control.moves import Move
from macrid.control.rulebook import Rulebook, rulebook_of
from macrid.control.rules import Boost, Rules
from macrid.control.state import State
from macrid.data.ids import Ids
from macrid.errors import FallbackWarning, MacridError, RequestError, RulesWarning, UnknownItemsWarning

NOTHING = np.zeros(0, dtype=np.int64)
TAGS = [["a"], ["a", "b"], ["b"], ["c"], [], ["a", "c"], ["b"]]


@pytest.fixture(scope="module")
def world(trained):
    """A model whose items have tags and a size, which mean nothing; and a history."""
    model = copy.deepcopy(trained[0])
    size = np.random.default_rng(0).normal(size=len(model.items)) / 4
    tags = pa.array([TAGS[place % len(TAGS)] for place in range(len(model.items))])
    model.table = model.table.append_column("tags", tags).append_column("extent", pa.array(size))
    return model, trained[1].test.history[[0]].indices.astype(np.int64)


def truth(model, history, rules, n, *, hidden=None, only=None, extra=0.0):
    """The list that rules give, by their definition; no pins. only: a mask of items. extra: added to scores."""
    scores = model.scores(model.matrix([history]))[0].double().numpy()
    extent, tags = np.asarray(model.table["extent"]), model.table["tags"].to_pylist()
    free = np.ones(len(scores), dtype=bool) if only is None else only.copy()
    free[history if hidden is None else hidden] = False
    if rules.where == "extent > 0":
        free &= extent > 0
    free[[model.items.positions([item])[0] for item in rules.exclude or ()]] = False
    values = scores + extra
    for boost in rules.boosts or ():
        assert boost.where == "extent < 0.2"
        values = values + boost.amount * (extent < 0.2)
    order = sorted(np.flatnonzero(free), key=lambda at: -values[at])
    pool = order[: max(FEWEST_IN_POOL, 5 * n)]
    low, high = values[pool[-1]], values[pool[0]]
    d, chosen = rules.diversity or 0.0, []
    vectors = model.item_vectors().double().numpy()
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def similar(one, other):
        if not rules.diversity_by:
            return max(0.0, vectors[one] @ vectors[other])
        mine, theirs = set(tags[one]), set(tags[other])
        return len(mine & theirs) / math.sqrt(max(1, len(mine)) * max(1, len(theirs)))

    def fits(item):
        most = (rules.at_most or {}).get("tags", len(scores))
        return all(sum(tag in tags[other] for other in chosen) < most for tag in tags[item])

    while len(chosen) < n:
        rest = [item for item in pool if item not in chosen and fits(item)]
        if not rest:
            rest = [item for item in order if item not in chosen and fits(item)][:1]
        if not rest:
            break
        chosen.append(
            max(
                rest,
                key=lambda item: (
                    (1 - d) * (values[item] - low) / (high - low)
                    - d * max([0.0, *(similar(item, other) for other in chosen)])
                ),
            )
        )
    return chosen, scores[chosen]


SOME_RULES = [
    Rules(where="extent > 0"),
    Rules(exclude=("bag-0011", "bag-0012")),
    Rules(boosts=(Boost("extent < 0.2", 1.5),)),
    Rules(at_most={"tags": 2}),
    Rules(diversity=0.4),
    Rules(diversity=0.7, diversity_by=("tags",)),
    Rules(where="extent > 0", boosts=(Boost("extent < 0.2", -1.0),), at_most={"tags": 3}, diversity=0.3),
]


@pytest.mark.parametrize("rules", SOME_RULES, ids=lambda rules: "+".join(rules.as_json()))
def test_every_kind_of_question_follows_the_rules(world, rules):
    model, history = world
    engine, space = Engine(model), space_of(model)
    (state,) = State.all_of(space, model.matrix([history]))
    expected, scores = truth(model, history, rules, 8)
    lists = {
        "plain": engine.ask(Question(history, 8, history, rules=(rules,))).ranking,
        "standing": engine.ask(Question(history, 8, history, standing=(rules,))).ranking,
        "steered": engine.ask(Question(history, 8, history, shares=True, rules=(rules,))).ranking,
        "before": engine.ask(Question(history, 8, history, moves=(Move(0, share=0.7),), rules=(rules,))).before,
    }
    for name, ranking in lists.items():
        assert ranking.positions.tolist() == expected, name
        np.testing.assert_allclose(ranking.scores, scores, atol=1e-4)
    by_concept = engine.ask(Question(history, 8, history, by_concept=True, rules=(rules,))).of_concepts
    for k in range(7):
        expected, _ = truth(model, history, rules, 8, only=space.concept_of == k)
        one = engine.ask(Question(history, 8, history, concept=k, rules=(rules,))).ranking
        assert one.positions.tolist() == by_concept[k].positions.tolist() == expected
    shelved = Rules.read({**rules.as_json(), "shelves": True})
    for shelf in engine.ask(Question(history, 8, history, rules=(shelved,))).shelves:
        k, membership = shelf.concept, space.log_assignment[:, shelf.concept].double().numpy()
        expected, _ = truth(model, history, rules, 8, only=space.concept_of == k, extra=membership)
        assert shelf.ranking.positions.tolist() == expected
        assert shelf.share == pytest.approx(float(state.shares()[k]))


def test_questions_asked_together_are_answered_as_each_alone(world):
    model, history = world
    histories = [history, history[:3], history[4:9]]
    kinds = product((*SOME_RULES, Rules()), histories, (1, 9))
    questions = [Question(each, n, each, rules=(rules,)) for rules, each, n in kinds]
    together = Engine(model).answer(questions)
    for question, answer in zip(questions, together, strict=True):
        alone = Engine(model).ask(question)
        np.testing.assert_array_equal(answer.ranking.positions, alone.ranking.positions)
        assert answer.notes == alone.notes


@pytest.mark.parametrize("rules", [Rules(), Rules(diversity=0.0), Rules(exclude=()), Rules(where="extent > -9")])
def test_rules_that_demand_nothing_change_no_bit(world, rules):
    model, history = world
    plain = model.rank(model.matrix([history]), 12, model.matrix([history]))
    ranking = Engine(model).ask(Question(history, 12, history, rules=(rules,))).ranking
    np.testing.assert_array_equal(ranking.positions, plain[0][0].numpy())
    np.testing.assert_array_equal(ranking.scores, plain[1][0].numpy())


def test_a_small_pool_grows_until_the_list_is_full(world):
    """All items of one maker, but the worst of another: at most one per maker finds it."""
    model, history = copy.deepcopy(world[0]), world[1]
    ids = [model.items[at] for at in history]
    worst = model.recommend(ids, len(model.items) - len(ids)).ids[-1]
    maker = ["one" if item != worst else "other" for item in model.items]
    model.table = pa.table({"maker": maker})
    assert model.recommend(ids, 2, rules={"at_most": {"maker": 1}}).ids == [model.recommend(ids, 1).ids[0], worst]
    with pytest.warns(RulesWarning, match="only 2 of 3 items: rules allow no more"):
        assert len(model.recommend(ids, 3, rules={"at_most": {"maker": 1}})) == 2
    with pytest.raises(RequestError, match="rules allow only 2"):
        model.recommend(ids, 3, rules={"at_most": {"maker": 1}}, strict=True)


def test_pins_stand_at_their_places_with_their_own_scores(world):
    model, history = world
    ids = [model.items[at] for at in history]
    plain = model.recommend(ids, len(model.items) - len(ids))
    low, lower = plain.ids[-2:]
    score_of = {item.id: item.score for item in plain}
    pinned = model.recommend(ids, 5, rules={"pins": [lower, low]})
    assert pinned.ids == [lower, low, *plain.ids[:3]]
    assert [item.score for item in pinned] == pytest.approx([score_of[item] for item in pinned.ids], abs=1e-5)
    assert model.recommend(ids, 5, rules={"pins": {low: 4}}).ids == [*plain.ids[:3], low, plain.ids[3]]
    steered = macrid.steer(model, ids, n=5, rules={"pins": {low: 4}}, concept=0, share=0.5)
    assert steered.ids[3] == low
    with pytest.warns(RulesWarning, match=f"left out '{ids[0]}'"):
        assert model.recommend(ids, 2, rules={"pins": [ids[0], low]}).ids == [low, plain.ids[0]]
    with pytest.warns(RulesWarning, match=f"left out '{low}'"):
        assert model.recommend(ids, 2, exclude=[low], rules={"pins": {low: 1}}).ids == plain.ids[:2]
    with pytest.warns(UnknownItemsWarning, match="pins: ignored 1 unknown item: 'nope'"):
        assert model.recommend(ids, 2, rules={"pins": ["nope", low]}).ids == [low, plain.ids[0]]


def test_pins_beyond_a_limit_are_kept_and_said(world):
    model, history = world
    ids = [model.items[at] for at in history]
    tagged = [item for item, tags in zip(model.items, model.table["tags"].to_pylist(), strict=True) if tags == ["c"]]
    pins = [item for item in tagged if item not in ids][:3]
    with pytest.warns(RulesWarning, match="at_most: 3 pins share a value of 'tags', more than 2"):
        pinned = model.recommend(ids, 6, rules={"pins": pins, "at_most": {"tags": 2}})
    assert pinned.ids[:3] == pins
    assert not set(pinned.ids[3:]) & set(tagged)


def test_scores_stay_the_models_own_under_boosts(world):
    model, history = world
    ids = [model.items[at] for at in history]
    scores = {item.id: item.score for item in model.recommend(ids, len(model.items) - len(ids))}
    boosted = model.recommend(ids, 5, rules={"boosts": [{"where": "extent < 0.2", "amount": 2}]})
    assert [item.score for item in boosted] == pytest.approx([scores[item] for item in boosted.ids], abs=1e-5)


def test_the_cost_of_diversity_is_that_against_the_same_list_without_it(world):
    model, history = world
    ids = [model.items[at] for at in history]
    plain = model.recommend(ids, 8, where="extent > 0")
    spread = model.recommend(ids, 8, where="extent > 0", rules={"diversity": 0.5})
    cost = spread.diversity
    assert cost.kept == len(set(plain.ids) & set(spread.ids)) / 8 < 1
    means = [np.mean([item.score for item in each]) for each in (plain, spread)]
    assert cost.score == pytest.approx(means[0] - means[1], abs=1e-5)
    assert cost.score > 0
    assert cost.similarity < cost.similarity_without
    assert plain.diversity is None
    assert spread.as_json()["diversity"]["kept"] == cost.kept


def test_shelves_have_names_and_no_item_twice(trained):
    model = copy.deepcopy(trained[0])
    history = model.items[:6]
    shelves = model.recommend(history, 4, rules={"shelves": True}).shelves
    ids = [item.id for shelf in shelves for item in shelf.items]
    assert len(ids) == len(set(ids))
    assert not set(ids) & set(history)
    assert [shelf.share for shelf in shelves] == sorted((shelf.share for shelf in shelves), reverse=True)
    assert all(shelf.name == f"concept {shelf.concept}" for shelf in shelves)
    macrid.understand(model)
    named = model.recommend(history, 4, rules={"shelves": 3}).shelves
    assert [shelf.concept for shelf in named] == [shelf.concept for shelf in shelves[:3]]
    names = {entry.concept: entry.name for entry in model.meaning.names.concepts}
    assert any(names.values())
    assert all(shelf.name == (names[shelf.concept] or shelf.name) for shelf in named)


def test_filters_of_all_rules_apply_and_otherwise_the_last_word_counts(world):
    book = rulebook_of(world[0])
    first, second, third = world[0].items[:3]
    standing = Rules(where="extent > 0", exclude=(first, "gone"), pins=(second,), diversity=0.2, strict=False)
    applied = book.apply([Rules(where="extent < 0.2", pins={third: 2}, at_most={"tags": 1})], [standing])
    extent = np.asarray(world[0].table["extent"])
    expected = (extent > 0) & (extent < 0.2)
    expected[0] = False
    np.testing.assert_array_equal(applied.allowed, expected)
    assert [tuple(pin) for pin in applied.pins] == [(2, 2)]
    assert applied.demands.diversity == 0.2
    assert applied.warnings == ()  # standing rules are not the asker's
    assert book.apply([standing]).warnings == ("exclude: ignored 1 unknown item: 'gone'",)


def test_rules_and_conditions_are_applied_once(world, monkeypatch):
    book, calls = Rulebook(world[0]), []
    selector = book.selector
    monkeypatch.setattr(book, "selector", lambda condition: calls.append(condition) or selector(condition))
    first = book.apply([Rules(where="extent > 0")])
    assert book.apply([Rules(where="extent > 0")]) is first
    assert book.apply([Rules(where="extent > 0", strict=True)]).allowed is first.allowed
    assert calls == ["extent > 0"]
    monkeypatch.setattr("macrid.control.rulebook.RULES_KEPT", 1)
    book.apply([Rules(exclude=(world[0].items[0],))])
    assert book.apply([Rules(where="extent > 0")]) is not first


def test_a_new_table_of_items_makes_a_new_rulebook(world):
    model = copy.deepcopy(world[0])
    before = rulebook_of(model)
    assert rulebook_of(model) is before
    model.table = model.table.append_column("extra", pa.array(["x"] * len(model.items)))
    assert rulebook_of(model).apply([Rules(where="extra = 'x'")]).allowed.all()


def test_similarity_of_attributes_is_their_mean_cosine():
    model = macrid.Popularity().fit(sp.csr_array(np.eye(4)))
    model.items = Ids(["p", "q", "r", "s"])
    genres, years = ["x|y", "x", None, "y|z"], [1990, 2000, 2010, None]
    model.table = pa.table({"genre": genres, "year": years, "new": [True, True, False, None]})

    def similar(*names):
        rows = Rulebook(model).apply([Rules(diversity=0.5, diversity_by=names)]).demands.rows(np.arange(4))
        return (rows @ rows.T).round(5)

    half = math.sqrt(0.5)
    genre = np.array([[1, half, 0, 0.5], [half, 1, 0, 0], [0, 0, 0, 0], [0.5, 0, 0, 1]])
    year = np.array([[1, half, 0, 0], [half, 1, half, 0], [0, half, 1, 0], [0, 0, 0, 0]])
    new = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(similar("genre"), genre, atol=1e-4)
    np.testing.assert_allclose(similar("year"), year, atol=1e-4)
    np.testing.assert_allclose(similar("new"), new, atol=1e-4)
    np.testing.assert_allclose(similar("genre", "year", "new"), (genre + year + new) / 3, atol=1e-4)


def test_concepts_count_as_an_attribute(trained):
    model = trained[0]
    items = model.recommend(model.items[:6], 7, rules={"at_most": {"concept": 1}})
    assert len({item.concept for item in items}) == 7


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"where": "exten > 0"}, "where, character 1: 'exten' is not an attribute .* did you mean 'extent'"),
        ({"boosts": [{"where": "extent >", "amount": 1}]}, r"boosts\[0\].where, character 9: a value is expected"),
        ({"at_most": {"tag": 1}}, "at_most: 'tag' is not an attribute .* did you mean 'tags'"),
        ({"diversity": 0.1, "diversity_by": "exten"}, "diversity_by: 'exten' is not an attribute"),
    ],
)
def test_a_rule_about_something_unknown_says_what_was_meant(world, rules, problem):
    with pytest.raises(RequestError, match=problem):
        world[0].recommend([], 3, rules=rules)


def test_models_without_vectors_or_concepts_say_so(trained):
    model = macrid.Popularity().fit(trained[1].train)
    with pytest.raises(RequestError, match="similar"):
        model.recommend([], 3, rules={"diversity": 0.5})
    assert len(model.recommend([], 3, rules={"diversity": 0.5, "diversity_by": "category"})) == 3
    with pytest.raises(MacridError, match="no concepts"):
        model.recommend([], 3, rules={"shelves": True})
    with pytest.raises(RequestError, match="shelves are for one user"):
        macrid.recommend_many(trained[0], {"u": []}, rules={"shelves": True})


def test_an_empty_history_gets_what_is_popular_by_the_rules_without_a_warning(trained):
    model = trained[0]
    with warnings.catch_warnings(action="error"):
        popular = model.recommend([], 160)
    assert popular.fallback
    counts = model.popularity[model.items.positions(popular.ids)]
    assert (np.diff(counts) <= 0).all()
    expected = np.log((model.popularity + 1) / (model.popularity + 1).sum())
    assert [item.score for item in popular] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert popular.warnings == ("no known item in the history: these are the most popular items",)
    category = dict(zip(model.items, model.table["category"].to_pylist(), strict=True))
    limited = model.recommend([], 5, rules={"at_most": {"category": 1}})
    assert len({category[item] for item in limited.ids}) == 5
    with pytest.warns(FallbackWarning), pytest.warns(UnknownItemsWarning):
        assert model.recommend(["who"], 3).ids == popular.ids[:3]
    assert not model.recommend(model.items[:3]).fallback
    shelved = model.recommend([], 3, rules={"shelves": True})
    assert shelved.fallback
    assert shelved.ids == popular.ids[:3]
    assert sum(shelf.share for shelf in shelved.shelves) == pytest.approx(1, abs=1e-4)
    score_of = {item.id: item.score for item in popular}
    assert all(item.score == pytest.approx(score_of[item.id]) for shelf in shelved.shelves for item in shelf.items)


def test_lists_for_many_by_rules_are_those_for_each(trained):
    model, split = trained
    rules = {"at_most": {"category": 2}, "diversity": 0.3, "boosts": [{"where": "price < 50", "amount": 0.5}]}
    histories = {f"u{row}": [model.items[int(at)] for at in split.test.history[[row]].indices] for row in range(5)}
    table = macrid.recommend_many(model, histories, 6, where="price < 80", rules=rules)
    for user, history in histories.items():
        own = [row["item"] for row in table.to_pylist() if row["user"] == user]
        assert own == model.recommend(history, 6, where="price < 80", rules=rules).ids
    filtered = macrid.recommend_many(model, histories, 6, where="price < 80")
    assert filtered["item"].to_pylist()[:6] == model.recommend(histories["u0"], 6, where="price < 80").ids
    with pytest.warns(UnknownItemsWarning, match="exclude: ignored"):
        macrid.recommend_many(model, histories, 6, exclude=["nope"])


def test_explanations_are_about_the_items_that_rules_choose(trained):
    model, history = trained[0], trained[0].items[:4]
    rules = {"diversity": 0.6}
    reasons = macrid.explain(model, history, n=4, where="price < 80", rules=rules)
    assert [reason.item.id for reason in reasons] == model.recommend(history, 4, where="price < 80", rules=rules).ids


def test_steering_keeps_its_rules_from_move_to_move(trained):
    model, history = trained[0], trained[0].items[:4]
    price = dict(zip(model.items, model.table["price"].to_pylist(), strict=True))
    steered = macrid.steer(
        model, history, n=5, where="price < 60", rules={"at_most": {"category": 2}}, concept=0, share=0.4
    )
    again = steered.steer(concept=1, share=0.4)
    for each in (steered, steered.before, again, again.undo()):
        assert len(each) == 5
        assert all(price[item] < 60 for item in each.ids)
    assert again.undo().ids == steered.ids


def test_warnings_name_the_line_that_asked(trained):
    model = trained[0]
    with warnings.catch_warnings(record=True, action="always") as caught:
        model.recommend(["x9"], 2, exclude=["nope"])
        macrid.steer(model, ["x9"], n=2, exclude=["nope"])
        macrid.explain(model, ["x9"], n=2, exclude=["nope"])
        macrid.recommend_many(model, {"a": ["x9"]}, 2, exclude=["nope"])
    assert len(caught) == 3 + 2 + 3 + 3
    assert {warning.filename for warning in caught} == {__file__}


def test_on_integer_ids_text_in_rules_means_the_integer():
    model = macrid.EASE().fit(sp.csr_array(np.tri(30)))
    assert model.recommend([0], 3, rules={"pins": {"7": 2}}).ids[1] == 7
    assert 1 not in model.recommend([0], 5, exclude=[1]).ids


def test_float64_models_and_other_devices_are_no_obstacle(world):
    model = copy.deepcopy(world[0])
    with torch.no_grad():
        model.network.double()
    rules = {"diversity": 0.4, "boosts": [{"where": "extent < 0.2", "amount": 1}]}
    assert len(model.recommend(model.items[:2], 5, rules=rules)) == 5
