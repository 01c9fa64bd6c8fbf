"""Lists of a cohort are those that the engine gives to each user alone, whatever the moves and rules."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import macrid
from macrid.concepts.space import space_of
from macrid.control.cohort import DEPTH, KEPT, Cohort
from macrid.control.engine import Engine, Question
from macrid.control.many import Linear, States
from macrid.control.moves import Move
from macrid.control.rulebook import rulebook_of
from macrid.control.rules import Rules
from macrid.errors import MacridError, RequestError
from macrid.ops.topk import BLOCK

NOTHING = np.zeros(0, dtype=np.int64)
KINDS = ("soft", "hard", "with neighbours", "inner products")
PLACES = {"concept": st.integers(0, 6), "dimension": st.integers(0, 15)}
MOVES = st.lists(
    st.one_of(
        st.builds(Move, **PLACES, to=st.floats(-0.5, 0.5)),
        st.builds(Move, **PLACES, by=st.floats(-0.3, 0.3)),
        st.builds(Move, concept=st.integers(0, 6), share=st.floats(0, 1)),
        st.builds(Move, towards=st.sampled_from(["price", "size", "popularity"]), amount=st.floats(-2, 2)),
    ),
    max_size=3,
)
RULES = st.builds(
    Rules,
    where=st.sampled_from([None, "price < 40", "price < 1"]),
    exclude=st.sampled_from([None, ("mug-0001", "bag-0002")]),
    pins=st.sampled_from([None, ("bag-0003", "mug-0004"), {"bag-0003": 4}]),
    boosts=st.sampled_from([None, [{"where": "price > 30", "amount": 0.7}]]),
    at_most=st.sampled_from([None, {"category": 1}, {"colour": 2}]),
    diversity=st.sampled_from([None, 0.3, 1.0]),
    diversity_by=st.sampled_from([None, ("category", "price")]),
    strict=st.sampled_from([None, True]),
)


@pytest.fixture(scope="module")
def models(trained, shop_split):
    model, split = trained
    hard = copy.deepcopy(model)
    hard.settings = hard.network.settings = hard.settings.model_copy(update={"assignment": "hard"})
    linear = macrid.MacridVAE(concepts=7, dim=16, neighbours=20)
    linear.fit(shop_split.train, validation=shop_split.validation, epochs=3, batch_size=50, seed=1, device="cpu")
    assert linear.neighbours is not None
    inner = macrid.MacridVAE(concepts=7, dim=16, neighbours=0, similarity="inner")
    inner.fit(shop_split.train, validation=shop_split.validation, epochs=3, batch_size=50, seed=1, device="cpu")
    return dict(zip(KINDS, (model, hard, linear, inner), strict=True)), split


def one_by_one(model, histories, n, *, exclude_seen=True, rules=(), **options):
    """What the engine answers; strict rules would refuse short lists."""
    lists = []
    for user in range(histories.shape[0]):
        history = histories[[user]].indices.astype(np.int64)
        hidden = history if exclude_seen else NOTHING
        question = Question(history, n, hidden, rules=(*rules, Rules(strict=False)), **options)
        lists.append(Engine(model).ask(question).ranking.positions.tolist())
    return lists


def clear_users(model, histories, rules, **options):
    """Users for whom no two items are so close that the order of a sum decides which comes first."""
    boost, clear = rulebook_of(model).apply((rules,)).boost, []
    for user in range(histories.shape[0]):
        question = Question(histories[[user]].indices.astype(np.int64), len(model.items), NOTHING, **options)
        ranking = Engine(model).ask(question).ranking
        values = ranking.scores + (0 if boost is None else boost[ranking.positions])
        if (np.diff(np.sort(values)) > 1e-5).all():
            clear.append(user)
    return clear


def of_cohort(cohort, n, **options):
    lists = cohort.lists(n, **options)
    assert lists.listed.shape == (len(cohort), n)
    return [[position for position in row if position >= 0] for row in lists.listed.tolist()]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(moves=MOVES, rules=RULES, n=st.sampled_from([1, 10, 60, 155]), bounded=st.booleans(), exclude_seen=st.booleans())
@example(moves=[], rules=Rules(), n=10, bounded=True, exclude_seen=True)
@example(moves=[], rules=Rules(at_most={"category": 1}), n=60, bounded=True, exclude_seen=True)
def test_lists_are_those_of_the_engine_one_by_one(models, kind, moves, rules, n, bounded, exclude_seen):
    model, split = models[0][kind], models[1]
    histories = split.test.history[:7]
    options = {"moves": tuple(moves), "rules": (rules,), "bounded": bounded, "exclude_seen": exclude_seen}
    try:
        expected = one_by_one(model, histories, n, **options)
    except MacridError as error:
        with pytest.raises(type(error)):
            Cohort(model, histories).lists(n, **options)
        return
    lists = of_cohort(Cohort(model, histories), n, **options)
    assert list(map(len, lists)) == list(map(len, expected))
    clear = clear_users(model, histories, rules, moves=tuple(moves), bounded=bounded)
    assert clear
    assert [lists[user] for user in clear] == [expected[user] for user in clear]


@pytest.mark.parametrize("kind", [macrid.EASE, macrid.MultVAE])
@pytest.mark.parametrize(
    "rules",
    [
        Rules(),
        Rules(where="price < 40"),
        Rules(boosts=[{"where": "price > 30", "amount": 1}]),
        Rules(at_most={"category": 1}, diversity_by=["price"], diversity=0.4),
    ],
)
def test_models_without_concepts_follow_rules(shop_split, kind, rules):
    model = kind().fit(shop_split.train, **({"epochs": 1} if kind.has_epochs else {}))
    histories = shop_split.test.history[:5]
    expected = one_by_one(model, histories, 8, rules=(rules,))
    assert of_cohort(Cohort(model, histories), 8, rules=(rules,)) == expected
    with pytest.raises(MacridError, match="no concepts"):
        Cohort(model, histories).lists(8, [Move(concept=0, share=0.5)])


def test_after_the_list_come_the_best_of_the_rest(models):
    model, split = models[0]["soft"], models[1]
    cohort = Cohort(model, split.test.history[:6])
    ranked = cohort.lists(10).positions
    chosen = cohort.lists(10, rules=[Rules(diversity=0.6)])
    for user, (whole, places) in enumerate(zip(ranked.tolist(), chosen.positions.tolist(), strict=True)):
        rest = [position for position in whole if position not in places[:10]][: DEPTH - 10]
        assert places[10 : 10 + len(rest)] == rest
        listed = [position for position in places if position >= 0]
        assert len(listed) == len(set(listed)) == min(DEPTH, len(model.items) - cohort.histories[[user]].nnz)


def test_seen_items_need_not_be_those_of_the_history(models):
    model, split = models[0]["soft"], models[1]
    histories = split.test.history[:5]
    seen = sp.csr_array(histories + split.test.target[:5])
    lists = Cohort(model, histories, seen=seen).lists(30).listed
    for user in range(5):
        assert not set(lists[user]) & set(seen[[user]].indices)
        assert set(Cohort(model, histories).lists(30).listed[user]) & set(seen[[user]].indices)


def test_users_without_a_known_item_are_left_out(models):
    model, split = models[0]["soft"], models[1]
    histories = split.test.history[:4].tolil()
    histories[[1]] = 0
    cohort = Cohort(model, sp.csr_array(histories))
    assert (cohort.rows.tolist(), cohort.skipped, len(cohort)) == ([0, 2, 3], 1, 3)
    assert cohort.lists(5).listed.tolist() == Cohort(model, split.test.history[[0, 2, 3]]).lists(5).listed.tolist()


def test_moves_beyond_the_range_of_real_users_are_counted(models):
    model, split = models[0]["soft"], models[1]
    cohort = Cohort(model, split.test.history[:20])
    far = [Move(concept=1, dimension=2, to=5.0)]
    assert cohort.lists(5, far).stopped == 20
    assert cohort.lists(5, [Move(concept=1, dimension=2, by=0.0)]).stopped == 0


def test_a_linear_part_that_is_too_large_is_computed_for_every_ranking(models, monkeypatch):
    model, split = models[0]["with neighbours"], models[1]
    moves = [Move(concept=1, dimension=2, by=0.2)]
    kept = Cohort(model, split.test.history).lists(10, moves).positions
    monkeypatch.setattr("macrid.control.many.MOST_KEPT", 0)
    monkeypatch.setitem(BLOCK, "cpu", 1_000)  # 6 users at a time
    np.testing.assert_array_equal(Cohort(model, split.test.history).lists(10, moves).positions, kept)
    linear = States.of(space_of(model), split.test.history).linear
    assert isinstance(linear, Linear)
    linear.of(slice(0, 3))
    assert linear._kept is None


def test_lists_without_moves_are_kept_and_only_a_few_of_them(models):
    model, split = models[0]["soft"], models[1]
    cohort = Cohort(model, split.test.history[:3])
    assert cohort.lists(5) is cohort.lists(5)
    assert cohort.lists(5) is not cohort.lists(5, exclude_seen=False)
    for n in range(1, KEPT + 3):
        cohort.lists(n)
    assert len(cohort._kept) == KEPT


def test_work_that_is_no_longer_wanted_ends(models):
    class GoneError(Exception):
        pass

    def gone():
        raise GoneError

    model, split = models[0]["soft"], models[1]
    for rules in ([], [Rules(diversity=0.5)]):
        with pytest.raises(GoneError):
            Cohort(model, split.test.history).lists(5, [Move(concept=1, share=0.5)], rules, check=gone)


def test_impossible_moves_and_numbers_are_refused(models):
    model, split = models[0]["soft"], models[1]
    cohort = Cohort(model, split.test.history[:3])
    with pytest.raises(RequestError, match="no concept 'hats'"):
        cohort.lists(5, [Move(concept="hats", share=0.5)])
    with pytest.raises(RequestError, match="at least 1"):
        cohort.lists(0)
