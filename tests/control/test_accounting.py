"""Why an item has its place: every stage against a slow truth, and sums that are exact whatever is asked."""

import copy
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import macrid
from macrid.concepts.space import space_of
from macrid.control.accounting import accounts_of, label_of
from macrid.control.engine import Engine, Question
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.control.state import State
from macrid.models.neighbours import Neighbours

NOTHING = np.zeros(0, dtype=np.int64)
CLOSE = 1e-4  # scores nearer than this may change places


@pytest.fixture(scope="module")
def linked(trained):
    """A model with a linear part."""
    model, split = trained
    model = copy.deepcopy(model)
    model.neighbours = Neighbours.fit(split.train.matrix, 12, model.device).times(4)
    return model


@pytest.fixture(scope="module")
def models(trained, linked):
    model, split = trained
    mult = macrid.MultVAE().fit(split.train, device="cpu", epochs=2, batch_size=50)
    ease, popular = (kind().fit(split.train, device="cpu") for kind in (macrid.EASE, macrid.Popularity))
    return {"linked": linked, "plain": model, "mult": mult, "ease": ease, "popular": popular}


def ask(model, history, n=8, **options):
    """(question, answer)"""
    history = np.asarray(history, dtype=np.int64)
    options.setdefault("hidden", history)
    question = Question(history, n, **options)
    return question, Engine(model).ask(question)


def accounts(model, history, items, **options):
    question, answer = ask(model, history, **options)
    return accounts_of(model, question, answer, np.asarray(items, dtype=np.int64))


def thousandths(value):
    whole = round(1000 * value)
    assert whole / 1000 == value
    return whole


def check_sums(account):
    assert sum(part.places for part in account.parts) == account.stages[0].rank - account.rank
    total = thousandths(account.score) - thousandths(account.stages[0].score)
    assert sum(thousandths(part.amount) for part in account.parts) == total
    assert account.rank == account.stages[-1].rank
    assert 1 <= account.rank <= account.of
    assert all(part.places or part.amount for part in account.parts)


# A slow truth


def mixture(model, components, weights):
    """log p of every item by the paper's formula, in double precision."""
    space = space_of(model)
    items, log_c = space.items.astype(np.float64), space.log_assignment.double().numpy()
    terms = np.stack([z @ items.T / model.settings.temperature for z in components.astype(np.float64)], axis=1)
    raw = np.log(np.exp(terms + log_c + weights.astype(np.float64)).sum(axis=1))
    return raw - np.log(np.exp(raw).sum())


def slowly(model, question):
    """(values, whether items may be listed) of every stage: one thing at a time, by the definitions."""
    q, space = question, space_of(model)
    may = np.ones(len(model.items), dtype=bool)
    may[q.hidden] = False
    popularity = model.popularity.astype(np.float64) + 1
    (state,) = State.all_of(space, model.matrix([q.history]))
    log_p = mixture(model, state.components.numpy(), state.weights.numpy())
    linear = np.zeros(len(model.items))
    for item in q.history:
        linear += model.neighbours._matrix.toarray()[item]
    stages = [(np.log(popularity / popularity.sum()), may), (log_p, may)]
    values = log_p + linear - np.log(np.exp(log_p + linear).sum())
    stages.append((values, may))
    price = np.array(model.table.column("price").to_pylist(), dtype=np.float64)
    (rules,) = q.rules
    if rules.where:
        may = may & (price < 60)
        stages.append((values, may))
    boost = np.where(price < 20, 0.5, 0.0) if rules.boosts else np.zeros(len(price))
    if rules.boosts:
        stages.append((values + boost, may))
    first = state
    for move in q.moves:
        state = state.after([move]).state
        log_p = mixture(model, state.components.numpy(), state.weights.numpy())
        z, moved = (each.components.double().numpy() for each in (first, state))
        cosine = ((z * moved).sum(1) / (np.linalg.norm(z, axis=1) * np.linalg.norm(moved, axis=1))).min()
        w, other = (each.weights.double().softmax(0).numpy() for each in (first, state))
        factor = float(np.minimum(w, other).sum() * np.exp((cosine - 1) / model.settings.temperature)) ** 2
        raw = log_p + factor * linear
        stages.append((raw - np.log(np.exp(raw).sum()) + boost, may))
    return stages


@pytest.mark.parametrize("user", [0, 3, 7])
def test_every_stage_has_the_score_and_rank_of_a_slow_truth(linked, trained, user):
    history = trained[1].test.history[[user]].indices.astype(np.int64)
    moves = (Move(towards="price", amount=0.7), Move(concept=2, share=0.4), Move(concept=1, dimension=3, by=0.2))
    rules = Rules(where="price < 60", boosts=[{"where": "price < 20", "amount": 0.5}])
    question, answer = ask(linked, history, moves=moves, rules=(rules,))
    expected = slowly(linked, question)
    targets = np.setdiff1d(np.arange(len(linked.items)), history)[::9]
    for item, account in zip(targets, accounts_of(linked, question, answer, targets), strict=True):
        check_sums(account)
        kinds = [stage.kind for stage in account.stages]
        assert kinds == ["everybody", "history", "neighbours", "rule", "rule", "move", "move", "move"]
        for stage, (values, may) in zip(account.stages, expected, strict=True):
            assert stage.score == pytest.approx(values[item], abs=2e-3)
            ahead = values[may & (np.arange(len(may)) != item)] - values[item]
            assert 1 + (ahead > CLOSE).sum() <= stage.rank <= 1 + (ahead > -CLOSE).sum()


def test_ranks_of_all_items_are_a_list_of_them_all(linked):
    question, answer = ask(
        linked, [3, 8, 20], rules=(Rules(at_most={"category": 2}, diversity=0.3, pins=["bag-0001"]),)
    )
    everything = np.setdiff1d(np.arange(len(linked.items)), question.history)
    found = accounts_of(linked, question, answer, everything)
    for stage in range(len(found[0].stages)):
        assert sorted(account.stages[stage].rank for account in found) == list(range(1, len(everything) + 1))
    listed = sorted((account.rank, item) for item, account in zip(everything, found, strict=True) if account.is_listed)
    assert [item for _, item in listed] == answer.ranking.positions.tolist()


# Whatever is asked

MOVES = st.lists(
    st.sampled_from(
        [
            Move(towards="price", amount=1.5), Move(towards="price", amount=-1), Move(concept=2, share=0.5),
            Move(concept=0, share=0.0), Move(concept=1, dimension=3, to=0.3), Move(concept=4, dimension=0, by=-0.2),
        ]
    ),
    max_size=3,
)  # fmt: skip
RULES = st.fixed_dictionaries(
    {},
    optional={
        "where": st.sampled_from(["price < 60", "category = 'bags'", "price > 1"]),
        "include": st.just([f"{kind}-{number:04}" for kind in ("bag", "mug", "shoe") for number in range(40)]),
        "exclude": st.just(["bag-0001", "mug-0003"]),
        "boosts": st.lists(
            st.sampled_from([{"where": "price < 20", "amount": 0.5}, {"where": "category = 'mugs'", "amount": -1}]),
            max_size=2,
        ),
        "at_most": st.sampled_from([{"category": 1}, {"category": 2, "colour": 1}]),
        "diversity": st.sampled_from([0.0, 0.3, 1.0]),
        "pins": st.sampled_from([["bag-0002", "mug-0001"], {"mug-0002": 3}]),
    },
)


@settings(max_examples=60)
@given(
    name=st.sampled_from(["linked", "plain", "mult", "ease", "popular"]),
    history=st.lists(st.integers(0, 159), max_size=12, unique=True),
    moves=MOVES,
    rules=RULES,
    items=st.lists(st.integers(0, 159), min_size=1, max_size=4, unique=True),
    seen=st.booleans(),
    data=st.data(),
)
def test_parts_add_up_and_ranks_are_those_of_the_lists(models, name, history, moves, rules, items, seen, data):
    model = models[name]
    size = len(model.items)
    history, items = ([at for at in positions if at < size] for positions in (history, items))
    if name not in ("linked", "plain"):
        moves = []
        rules.pop("diversity", None)
    hidden = NOTHING if seen else np.asarray(history, dtype=np.int64)
    question, answer = ask(model, history, hidden=hidden, moves=tuple(moves), rules=(Rules(**rules),))
    listed = answer.ranking.positions.tolist()
    before = listed if answer.before is None else answer.before.positions.tolist()
    items = [*items, *data.draw(st.permutations(listed))[:2]]
    for item, account in zip(items, accounts_of(model, question, answer, np.array(items)), strict=True):
        check_sums(account)
        assert account.is_listed == (item in listed)
        if item in listed:
            assert account.rank == listed.index(item) + 1
            assert account.left_out == ()
        elif not account.left_out:
            assert account.rank > len(listed)
        if item in before and name in ("linked", "plain"):
            assert account.before.rank == before.index(item) + 1
        for kind in ("history", "neighbours"):
            own = [part for part in account.parts if part.kind == kind]
            assert sum(part.count or 1 for part in own if part.item is not None or part.count) <= len(history)
            assert max(Counter((part.item, part.count) for part in own).values(), default=1) == 1


def test_every_rule_and_move_has_a_part_with_its_name(linked):
    rules = Rules(
        where="price < 90", include=linked.items[:120], exclude=linked.items[:9], at_most={"category": 2},
        boosts=[{"where": "price < 30", "amount": 0.6}, {"where": "price > 50", "amount": -0.4}],
        diversity=0.5, diversity_by=["colour"], pins=linked.items[60:62],
    )  # fmt: skip
    moves = (Move(towards="price", amount=1), Move(concept=3, share=0.5), Move(concept=1, dimension=2, to=0.2))
    found = accounts(linked, range(100, 110), range(9, 100), rules=(rules,), moves=moves)
    labels = Counter((part.rule, part.label) for account in found for part in account.parts if part.kind == "rule")
    assert {rule for rule, _ in labels} == {"where", "include", "exclude", "boosts", "at_most", "diversity", "pins"}
    assert {
        ("where", "filter: price < 90"), ("include", "120 chosen items only"), ("exclude", "9 items excluded"),
        ("boosts", "boost +0.6: price < 30"), ("boosts", "boost -0.4: price > 50"),
        ("at_most", "at most 2 per category"), ("diversity", "diversity 0.5"),
        ("pins", "pinned"), ("pins", "2 pinned items"),
    } == set(labels)  # fmt: skip
    moved = {part.label for account in found for part in account.parts if part.kind == "move"}
    assert moved == {"price", "share of concept 3", "dimension 2 in concept 1"}
    assert {part.move.share for account in found for part in account.parts if part.move} >= {0.5, None}
    assert not any(part.is_standing for account in found for part in account.parts)


def test_standing_rules_are_marked_and_come_first(linked):
    standing, own = (Rules(where="price < 90", diversity=0.2),), (Rules(where="price > 5", diversity=0.6),)
    found = accounts(linked, [1, 2], range(10, 150), rules=own, standing=standing)
    stages = [stage.label for stage in found[0].stages if stage.kind == "rule"]
    assert stages == ["filter: price < 90", "filter: price > 5", "diversity 0.6"]
    marks = {(part.label, part.is_standing) for account in found for part in account.parts if part.kind == "rule"}
    assert ("filter: price < 90", True) in marks
    assert {mark for label, mark in marks if label != "filter: price < 90"} == {False}


def test_a_pinned_item_owes_its_place_to_the_pin(linked):
    (account,) = accounts(linked, [3, 4], [77], rules=(Rules(pins={linked.items[77]: 2}),))
    assert account.rank == 2
    assert account.parts[-1].label == "pinned"
    assert account.parts[-1].places == account.stages[-2].rank - 2


def test_an_item_that_may_not_be_listed_gets_the_place_it_would_have(linked):
    rules = Rules(where="price < 30")
    price = np.array(linked.table.column("price").to_pylist())
    dear, history = int(np.flatnonzero(price >= 30)[5]), [int(at) for at in np.flatnonzero(price < 30)[:3]]
    gone, barred = np.flatnonzero(price < 30)[3:5].tolist()
    hidden = np.array([*history, gone])
    allowed = np.arange(len(price)) != barred
    question, answer = ask(linked, history, hidden=hidden, allowed=allowed, rules=(rules,))
    items = [dear, history[0], gone, barred, answer.ranking.positions[0]]
    found = accounts_of(linked, question, answer, np.array(items))
    scores = linked.scores(linked.matrix([question.history]))[0].numpy()
    may = allowed & (price < 30)
    may[hidden] = False
    assert not found[-1].left_out
    for item, account in zip(items[:-1], found, strict=False):
        assert not account.is_listed
        assert account.rank == 1 + (scores[may] > scores[item]).sum()
        assert account.of == may.sum() + 1
        check_sums(account)
    assert [account.left_out[0] for account in found[:-1]] == [
        "filter: price < 30", "in the history", "excluded", "not among the items to choose from"
    ]  # fmt: skip


def test_a_blocked_item_is_placed_by_rules_as_if_it_might_be_listed(linked):
    history, rules = [3, 8], {"at_most": {"category": 1}, "diversity": 0.4, "pins": [linked.items[90]]}
    _, free = ask(linked, history, rules=(Rules(**rules),))
    for item in free.ranking.positions[:4].tolist():
        question, answer = ask(linked, history, rules=(Rules(**rules, exclude=[linked.items[item]]),))
        (account,) = accounts_of(linked, question, answer, np.array([item]))
        assert account.left_out == ("1 item excluded",)
        assert account.rank == free.ranking.positions.tolist().index(item) + 1


def test_places_within_a_concept_are_among_its_items(linked):
    question, answer = ask(linked, [3, 8, 40], concept=2, moves=(Move(concept=2, dimension=1, by=0.3),))
    inside = answer.ranking.positions[[0, 4]]
    outside = np.flatnonzero(linked.concepts_of_items() != 2)[:1]
    *found, other = accounts_of(linked, question, answer, np.concatenate([inside, outside]))
    assert [account.rank for account in found] == [1, 5]
    members = linked.concepts_of_items() == 2
    members[question.history] = False
    assert found[0].of == members.sum()
    assert other.left_out == ("in another concept",)


def test_without_a_history_items_have_the_places_of_what_is_popular(models):
    for name, model in models.items():
        question, answer = ask(model, [])
        found = accounts_of(model, question, answer, answer.ranking.positions)
        assert [account.rank for account in found] == list(range(1, 9)), name
        assert all(account.parts == () and len(account.stages) == 1 for account in found)
    moved = ask(models["linked"], [], moves=(Move(concept=1, share=0.9),))
    account = accounts_of(models["linked"], *moved, moved[1].ranking.positions[:1])[0]
    assert [stage.kind for stage in account.stages] == ["everybody", "move"]
    empty = models["linked"].scores(models["linked"].matrix([NOTHING]))[0]
    assert account.stages[0].score == pytest.approx(float(empty[moved[1].ranking.positions[0]]), abs=1e-3)


def test_a_model_that_ignores_histories_has_no_parts(models):
    for account in accounts(models["popular"], [1, 2, 3], range(20, 40)):
        assert account.parts == ()
        assert account.stages[0].rank == account.rank


def test_named_items_are_the_strongest_and_the_others_are_one_part(linked):
    history = list(range(0, 60, 3))
    question, answer = ask(linked, history)
    target = answer.ranking.positions[:1]
    (whole,) = accounts_of(linked, question, answer, target, named=99)
    (few,) = accounts_of(linked, question, answer, target, named=2)
    for account in (whole, few):
        check_sums(account)
    by_item = Counter()
    for part in whole.parts:
        by_item[part.item] += part.places
    assert by_item.pop(None, 0) == 0
    named = {part.item for part in few.parts if part.item is not None}
    assert len(named) == 2
    least = min(abs(by_item[item]) for item in named)
    assert all(abs(places) <= least for item, places in by_item.items() if item not in named)
    others = [part for part in few.parts if part.count]
    assert {part.count for part in others} == {18}
    assert {part.label for part in others} == {"18 other items of the history"}
    assert sum(part.places for part in others) == sum(by_item[item] for item in by_item if item not in named)
    assert len([part for part in few.merged if part.count]) == 1
    assert sum(part.places for part in few.merged) == sum(part.places for part in few.parts)


def test_items_of_the_history_that_are_alike_push_most(linked):
    """A history of one kind of thing and one odd item: what is alike gets the credit."""
    category = np.array(linked.table.column("category").to_pylist())
    bags, mugs = (np.flatnonzero(category == kind) for kind in ("bags", "mugs"))
    order = np.argsort(-linked.popularity[bags], kind="stable")
    history = np.array([*bags[order[:5]], mugs[0]])
    question, answer = ask(linked, history)
    listed = answer.ranking.positions
    target = next(at for at in listed if category[at] == "bags")
    (account,) = accounts_of(linked, question, answer, np.array([target]))
    places = Counter()
    for part in account.parts:
        places[part.item] += part.places
    assert account.rank < account.stages[0].rank
    assert places[linked.items[int(mugs[0])]] < sum(places.values()) / 6


def test_accounts_are_the_same_every_time_and_in_any_company(linked):
    question, answer = ask(linked, [1, 5, 9, 30], moves=(Move(concept=2, share=0.3),))
    together = accounts_of(linked, question, answer, answer.ranking.positions)
    assert together == accounts_of(linked, question, answer, answer.ranking.positions)
    for item, account in zip(answer.ranking.positions, together, strict=True):
        assert accounts_of(linked, question, answer, np.array([item])) == [account]
    assert accounts_of(linked, question, answer, NOTHING) == []


def test_labels_of_moves_use_names_where_there_are_some(trained):
    from macrid.concepts import naming
    from macrid.concepts.meaning import meaning_of

    model = copy.deepcopy(trained[0])
    meaning_of(model).names = naming.find(model).renamed(2, "Watches")
    assert label_of(model, Move(concept=2, share=0.5)) == "share of Watches"
    assert label_of(model, Move(concept=2, dimension=1, to=0.5, name="size")) == "size in Watches"
    assert label_of(model, Move(towards="price", amount=1)) == "price"
    assert label_of(model, Move(concept="Watches", towards="price", amount=1)) == "price in Watches"


def test_an_account_in_words_json_and_a_notebook(linked):
    (account,) = accounts(linked, [1, 2], [50], rules=(Rules(boosts=[{"where": "price > 0", "amount": 0.25}]),))
    text = str(account)
    assert text.startswith(f"place {account.rank} of 158, {account.stages[0].rank} for everybody")
    content = account.as_json()
    assert [part["places"] for part in content["parts"]] == [part.places for part in account.parts]
    boost = content["parts"][-1]
    assert (boost["rule"], boost["amount"], boost["places"]) == ("boosts", 0.25, 0)
    assert "item" not in boost
    html = account._repr_html_()
    assert "boost +0.25: price &gt; 0" in html
    assert f"{account.rank} of 158" in html
