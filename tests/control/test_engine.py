"""The engine: questions answered together as each alone, lists of one concept, what changed, and what is kept."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import macrid
from macrid.concepts.space import space_of
from macrid.control.engine import SHORT, Change, Engine, Question, changes
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.control.state import State
from macrid.errors import MacridError, RequestError
from tests.truth import share_weights

NOTHING, STRICT = np.zeros(0, dtype=np.int64), Rules(strict=True)
MOVES = st.lists(
    st.one_of(
        st.builds(Move, concept=st.integers(0, 6), dimension=st.integers(0, 15), to=st.floats(-0.5, 0.5)),
        st.builds(Move, concept=st.integers(0, 6), dimension=st.integers(0, 15), by=st.floats(-0.3, 0.3)),
        st.builds(Move, concept=st.integers(0, 6), share=st.floats(0, 1)),
    ),
    max_size=3,
)
QUESTIONS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 159), max_size=10, unique=True),  # history
        st.integers(1, SHORT + 10),  # n
        st.booleans(),  # exclude what was seen
        st.sampled_from([None, (0, 155), (4, 160)]),  # included
        MOVES,
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module", params=["soft", "hard"])
def model(request, trained):
    model = copy.deepcopy(trained[0])
    model.settings = model.network.settings = model.settings.model_copy(update={"assignment": request.param})
    return model


@pytest.fixture
def history(trained):
    return trained[1].test.history[[0]].indices.astype(np.int64)


def best_of_concept(model, question, concept, components=None):
    """Of all items in float64: positions of a concept's items that may be chosen, best first, and log p."""
    network, s = model.network, model.settings
    h, m = (table.detach().double().numpy() for table in (network.item_vectors, network.prototypes))
    h, m = (table / np.linalg.norm(table, axis=1, keepdims=True) for table in (h, m))
    c = np.exp(h @ m.T / network.assignment_temperature)
    c = np.eye(len(m))[c.argmax(axis=1)] if s.assignment == "hard" else c / c.sum(axis=1, keepdims=True)
    if components is None:
        components = space_of(model).components(model.matrix([question.history]))[0]
    w = share_weights(c[question.history].sum(axis=0), network.share_power.item())
    p = (np.exp(components.astype(np.float64) @ h.T / s.temperature) * w[:, None] * c.T).sum(axis=0)
    may = [
        at for at in np.flatnonzero(c.argmax(axis=1) == concept)
        if at not in question.hidden and (question.allowed is None or question.allowed[at])
    ]  # fmt: skip
    best = sorted(may, key=lambda at: -p[at])[: question.n]
    return best, np.log(p[best] / p.sum())


@settings(max_examples=25, deadline=None)
@given(questions=QUESTIONS)
@pytest.mark.filterwarnings("ignore::macrid.errors.RangeWarning")
def test_batched_answers_match_steer_one_by_one(model, questions):
    posed = []
    for history, n, is_seen, included, moves in questions:
        known, allowed = np.array(history, dtype=np.int64), None
        if included is not None:
            allowed = np.zeros(len(model.items), dtype=bool)
            allowed[slice(*included)] = True
        posed.append(Question(known, n, known if is_seen else NOTHING, allowed, tuple(moves)))
    for question, answer in zip(questions, Engine(model).answer(posed), strict=True):
        history, n, is_seen, included, moves = question
        if not history and not moves:  # what is popular; moves have to start from somewhere
            assert answer.is_fallback
            continue
        expected = macrid.steer(
            model, [model.items[at] for at in history], moves=moves, n=n, exclude_seen=is_seen,
            include=None if included is None else model.items[slice(*included)],
        )  # fmt: skip
        scores = [item.score for item in expected]
        np.testing.assert_allclose(answer.ranking.scores, scores, atol=2e-4)
        if np.abs(np.diff(scores)).min(initial=1) > 1e-3:  # which of two equal ones comes first is left open
            assert [model.items[int(at)] for at in answer.ranking.positions] == expected.ids
        if moves:
            np.testing.assert_allclose(answer.shares, expected.shares, atol=1e-4)
            np.testing.assert_allclose(answer.before.scores, [item.score for item in expected.before], atol=2e-4)


@pytest.mark.parametrize("n", [3, 500])
def test_a_list_of_one_concept_has_its_best_items_before_and_after_moves(model, history, n):
    allowed = np.random.default_rng(0).random(len(model.items)) < 0.8
    space = space_of(model)
    (start,) = State.all_of(space, model.matrix([history]))
    move = Move(concept=2, dimension=3, by=0.05)
    moved = start.after([move]).state.components.numpy()
    for k in range(7):
        question = Question(history, n, history, allowed, (move,), concept=k)
        answer = Engine(model).ask(question)
        for ranking, components in ((answer.before, None), (answer.ranking, moved)):
            positions, log_p = best_of_concept(model, question, k, components)
            assert ranking.positions.tolist() == positions
            np.testing.assert_allclose(ranking.scores, log_p, atol=1e-4)
        plain = Engine(model).ask(Question(history, n, history, allowed, concept=k))
        np.testing.assert_array_equal(plain.ranking.positions, answer.before.positions)


def test_lists_of_every_concept_are_those_of_each_concept_alone(model, history):
    engine, move = Engine(model), Move(concept=1, share=0.6)
    answer = engine.ask(Question(history, 5, history, moves=(move,), by_concept=True))
    assert [answer.shares[k] for k in answer.of_concepts] == sorted(answer.shares, reverse=True)
    for k in range(7):
        alone = engine.ask(Question(history, 5, history, moves=(move,), concept=k))
        np.testing.assert_array_equal(answer.of_concepts[k].positions, alone.ranking.positions)
        np.testing.assert_array_equal(answer.of_concepts_before[k].positions, alone.before.positions)


def test_an_error_answers_its_own_question_only(model, history):
    good = Question(history, 5, history)
    wrong = [
        Question(history, 5, history, moves=(Move(concept=99, share=0.5),)),
        Question(history, 5, history, concept=7),
        Question(history, len(model.items), history, rules=(STRICT,)),
        Question(history, len(model.items), history, moves=(Move(concept=1, share=0.5),), rules=(STRICT,)),
        Question(history, 5, history, rules=(Rules(where="price <"),)),
        Question(history, 0, history),
    ]
    first, *errors, last = Engine(model).answer([good, *wrong, good])
    assert [type(error) for error in errors] == [RequestError] * 6
    np.testing.assert_array_equal(first.ranking.positions, last.ranking.positions)


def test_a_model_without_concepts_answers_plain_questions_only(trained, history):
    model = macrid.EASE().fit(trained[1].train)
    plain, *errors = Engine(model).answer([
        Question(history, 7, history),
        Question(history, 7, history, moves=(Move(concept=0, share=0.5),)),
        Question(history, 7, history, concept=0),
    ])  # fmt: skip
    assert [model.items[int(at)] for at in plain.ranking.positions] == model.recommend(
        [model.items[int(at)] for at in history], 7
    ).ids
    assert all(isinstance(error, MacridError) for error in errors)


@given(before=st.lists(st.integers(0, 9), unique=True), after=st.lists(st.integers(0, 9), unique=True))
def test_changes_lead_from_one_list_to_the_other(before, after):
    kinds = changes(before, after)
    assert [change.item for change in kinds["in"]] == [item for item in after if item not in before]
    assert [change.item for change in kinds["out"]] == [item for item in before if item not in after]
    places = {item: place for place, item in enumerate(before, start=1)} | {
        change.item: change.after for kind in kinds.values() for change in kind
    }
    assert sorted((item for item in places if places[item]), key=places.get) == after
    assert all(change.after < change.before for change in kinds["up"])
    assert all(change.after > change.before for change in kinds["down"])


def test_an_item_in_its_old_place_has_not_changed():
    assert changes("abcd", "abdx") == {
        "in": [Change("x", None, 4)], "out": [Change("c", 3, None)], "up": [Change("d", 4, 3)], "down": []
    }  # fmt: skip


@pytest.fixture
def rankings(monkeypatch):
    """The concept of every list that was ranked."""
    made, best = [], State.best
    monkeypatch.setattr(State, "best", lambda self, *args: made.append(args[-1]) or best(self, *args))
    return made


def test_the_unmoved_list_is_ranked_once_while_moves_change(model, history, rankings):
    engine = Engine(model)
    for to in (0.0, 0.05, 0.1):
        engine.ask(Question(history, 5, history, moves=(Move(concept=2, dimension=3, to=to),), concept=2))
    assert len(rankings) == 4
    others = [
        Question(history, 6, history, concept=2),
        Question(history, 5, NOTHING, concept=2),
        Question(history[1:], 5, history, concept=2),
        Question(history, 5, history, np.ones(len(model.items), dtype=bool), concept=2),
        Question(history, 5, history),
    ]
    for other in others:
        moved = Question(other.history, other.n, other.hidden, other.allowed, (Move(concept=2, share=0.4),),
                         concept=other.concept)  # fmt: skip
        np.testing.assert_array_equal(
            engine.ask(moved).before.positions, Engine(model).ask(other).ranking.positions
        )  # fmt: skip


def test_few_lists_are_kept(model, history, monkeypatch, rankings):
    monkeypatch.setattr("macrid.control.engine.LISTS_KEPT", 2)
    engine, move = Engine(model), Move(concept=2, share=0.4)
    for concept in (0, 1, 0, 2, 0, 1):  # 0 is always among the two most recent; 1 has gone in the end
        engine.ask(Question(history, 5, history, moves=(move,), concept=concept))
    assert rankings == [0, 0, 1, 1, 0, 2, 2, 0, 1, 1]


def test_after_a_change_of_weights_everything_is_ranked_again(model, history):
    model = copy.deepcopy(model)
    question = Question(history, 10, history, moves=(Move(concept=2, share=0.4),))
    engine, ids = Engine(model), [model.items[int(at)] for at in history]
    answer, recommended = engine.ask(question), model.recommend(ids)
    for table in (model.network.item_vectors, model.network.context_vectors):
        with torch.no_grad():
            table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(0)))
        again, fresh = engine.ask(question), Engine(copy.deepcopy(model)).ask(question)
        np.testing.assert_array_equal(again.before.positions, fresh.before.positions)
        np.testing.assert_array_equal(again.ranking.positions, fresh.ranking.positions)
        assert again.before.positions.tolist() != answer.before.positions.tolist()
        assert model.recommend(ids).ids == copy.deepcopy(model).recommend(ids).ids != recommended.ids
        answer, recommended = again, model.recommend(ids)
