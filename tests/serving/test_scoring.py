"""Questions answered together are answered as each would be alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import macrid
from macrid import runs
from macrid.concepts.space import space_of
from macrid.control.moves import Move
from macrid.errors import RequestError
from macrid.serving.scoring import FEW, Ask, Scorer

MOVES = st.lists(
    st.one_of(
        st.builds(Move, concept=st.integers(0, 6), dimension=st.integers(0, 23), to=st.floats(-0.5, 0.5)),
        st.builds(Move, concept=st.integers(0, 6), dimension=st.integers(0, 23), by=st.floats(-0.3, 0.3)),
        st.builds(Move, concept=st.integers(0, 6), share=st.floats(0, 1)),
    ),
    max_size=3,
)
QUESTIONS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 499), max_size=20, unique=True),  # history
        st.integers(1, FEW + 20),  # n
        st.booleans(),  # exclude what was seen
        st.sampled_from([None, (0, 250), (100, 400)]),  # included
        MOVES,
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module", params=["soft", "hard"])
def scorer(request, shop_run):
    model = runs.load(shop_run, "cpu")
    model.settings = model.settings.model_copy(update={"assignment": request.param})
    model.network.settings = model.settings
    return Scorer(model, space_of(model))


@settings(max_examples=25, deadline=None)
@given(questions=QUESTIONS)
@pytest.mark.filterwarnings("ignore::macrid.errors.RangeWarning")
def test_answers_together_are_those_of_steer_one_by_one(scorer, questions):
    model, asks = scorer.model, []
    for history, n, is_seen, included, moves in questions:
        known, allowed = np.array(history, dtype=np.int64), None
        if included is not None:
            allowed = np.zeros(len(model.items), dtype=bool)
            allowed[slice(*included)] = True
        asks.append(Ask(known, n, known if is_seen else known[:0], allowed, tuple(moves)))
    for question, answer in zip(questions, scorer.answer(asks), strict=True):
        history, n, is_seen, included, moves = question
        expected = macrid.steer(
            model, [model.items[at] for at in history], moves=moves, n=n, exclude_seen=is_seen,
            include=None if included is None else model.items[slice(*included)],
        )  # fmt: skip
        scores = [item.score for item in expected]
        np.testing.assert_allclose(answer.best.scores, scores, atol=2e-4)
        if np.abs(np.diff(scores)).min(initial=1) > 1e-3:  # which of two equal ones comes first is left open
            assert [model.items[int(at)] for at in answer.best.positions] == expected.ids
        if moves:
            np.testing.assert_allclose(answer.shares, expected.shares, atol=1e-4)
            np.testing.assert_allclose(answer.before.scores, [item.score for item in expected.before], atol=2e-4)


def test_what_is_wrong_with_one_question_is_the_answer_to_that_one_only(scorer):
    known = np.array([1, 2, 3])
    good, bad = Ask(known, 5, known), Ask(known, 5, known, moves=(Move(concept=99, share=0.5),))
    first, wrong, last = scorer.answer([good, bad, good])
    assert isinstance(wrong, RequestError)
    np.testing.assert_array_equal(first.best.positions, last.best.positions)
