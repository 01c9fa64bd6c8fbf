"""What a history does, split among its items: pushes against a slow truth, and Shapley values where they are exact."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.control import splitting
from macrid.control.sources import popular_scores
from macrid.control.splitting import (
    Crossing,
    additions_of_history,
    additions_of_neighbours,
    apportioned,
    scores_among,
    split,
)
from macrid.models.neighbours import Neighbours

parts = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(parts=parts, shift=st.integers(-1000, 1000))
def test_apportioned_numbers_add_up_and_stay_close(parts, shift):
    parts = np.array(parts)
    total = round(float(parts.sum())) + shift
    whole = apportioned(parts, total)
    assert whole.sum() == total
    even = parts + (total - parts.sum()) / len(parts)
    assert (np.abs(whole - even) < 1 + 1e-6).all()


def test_apportioned_nothing_is_nothing():
    assert apportioned(np.zeros(0), 0).tolist() == []
    assert apportioned(np.array([0.5, 0.5, 0.0]), 1).tolist() == [1, 0, 0]
    assert apportioned(np.array([2.4, 2.4, 1.2]), 6).tolist() == [3, 2, 1]


def one_by_one(added, crossing):
    """Places by the definition, opponent by opponent."""
    places = np.zeros(len(added))
    for sign, opponents in ((1, crossing.overtaken), (-1, crossing.overtaking)):
        for other in opponents:
            pushes = [max(0.0, sign * (row[crossing.item] - row[other])) for row in added]
            for place, push in enumerate(pushes):
                places[place] += sign * (push / sum(pushes) if sum(pushes) else 1 / len(pushes))
    return places


@given(seed=st.integers(0, 2**32 - 1), history=st.integers(1, 8), ups=st.integers(0, 12), downs=st.integers(0, 12))
def test_places_are_shared_by_those_who_pushed_and_add_up(seed, history, ups, downs):
    random = np.random.default_rng(seed)
    added = np.round(random.normal(size=(history, 40)), 1)
    order = random.permutation(40)
    crossing = Crossing(int(order[0]), np.sort(order[1 : 1 + ups]), np.sort(order[20 : 20 + downs]))
    (found,) = split(lambda columns: added[:, columns], [crossing])
    assert found.places == pytest.approx(one_by_one(added, crossing))
    assert found.places.sum() == pytest.approx(ups - downs)
    assert found.scores.tolist() == added[:, crossing.item].tolist()
    assert (found.places <= ups + 1e-9).all()
    assert (found.places >= -downs - 1e-9).all()


def test_some_opponents_stand_for_many(monkeypatch):
    random = np.random.default_rng(1)
    added = random.normal(size=(5, 4000)) + np.arange(5)[:, None] * (np.arange(4000) == 0)
    crossing = Crossing(0, np.arange(1, 3000), np.arange(3000, 4000))
    (some,) = split(lambda columns: added[:, columns], [crossing])
    monkeypatch.setattr(splitting, "MOST_OPPONENTS", 4000)
    (every,) = split(lambda columns: added[:, columns], [crossing])
    assert some.places.sum() == pytest.approx(every.places.sum()) == pytest.approx(1999)
    assert some.places == pytest.approx(every.places, abs=100)


def shapley(value, history):
    """Exact: the mean over all orders of what each item adds; `value` of a history: (items,)."""
    total = np.zeros((len(history), len(value([]))))
    orders = list(permutations(range(len(history))))
    for order in orders:
        for count, place in enumerate(order):
            before, after = ([history[at] for at in order[:most]] for most in (count, count + 1))
            total[place] += value(after) - value(before)
    return total / len(orders)


@pytest.mark.parametrize("length", [1, 2])
def test_additions_of_short_histories_are_shapley_values(trained, length):
    model, columns = trained[0], np.arange(160)
    history, start = np.array([5, 90])[:length], popular_scores(model).numpy()

    def value(items):
        return scores_among(model, [np.array(items)], columns, columns)[0] if items else start

    end = value(history.tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "COMPETITORS", 160)
        found = additions_of_history(model, history, start, end)(columns)
    assert found == pytest.approx(shapley(value, history.tolist()), abs=2e-4)


def test_additions_of_longer_histories_are_close_to_shapley_values(trained):
    """As margins over other items, which is what places go by."""
    model, columns = trained[0], np.arange(160)
    history, start = np.array([5, 90, 17, 60, 120]), popular_scores(model).numpy()

    def value(items):
        return scores_among(model, [np.array(items)], columns, columns)[0] if items else start

    truth = shapley(value, history.tolist())
    found = additions_of_history(model, history, start, value(history.tolist()))(columns)
    exact, near = (table - table.mean(axis=1, keepdims=True) for table in (truth, found))
    assert np.corrcoef(exact.ravel(), near.ravel())[0, 1] > 0.95


def test_additions_of_a_linear_model_are_its_weights(trained):
    model = macrid.EASE().fit(trained[1].train, device="cpu")
    history, start = np.array([5, 90, 17]), model.shares.numpy()
    end = model.scores(model.matrix([history]))[0].numpy()
    found = additions_of_history(model, history, start, end)(np.arange(160))
    assert found + start / 3 == pytest.approx(model.weights[history].numpy(), abs=1e-6)


def test_additions_of_neighbours_are_their_weights(trained):
    import copy

    model = copy.deepcopy(trained[0])
    model.neighbours = Neighbours.fit(trained[1].train.matrix, 12, model.device)
    columns, history = np.array([3, 50, 51, 159]), np.array([7, 52, 120])
    found = additions_of_neighbours(model, history)(columns)
    assert found == pytest.approx(model.neighbours._matrix.toarray()[history][:, columns])
    assert found.any()


def test_scores_among_items_differ_from_all_scores_by_a_number_per_user(trained):
    model, histories = trained[0], [np.array([1, 2, 3]), np.array([70])]
    columns, best = np.array([4, 9, 100]), np.arange(20, 60)
    found = scores_among(model, histories, columns, best)
    whole = model.scores(model.matrix(histories)).numpy()
    shift = np.log(np.exp(whole[:, best]).sum(axis=1))
    assert found == pytest.approx(whole[:, columns] - shift[:, None], abs=1e-4)


def test_many_histories_are_scored_in_parts(trained, monkeypatch):
    model, histories = trained[0], [np.array([at, at + 1]) for at in range(20)]
    arguments = histories, np.array([4, 9]), np.arange(30)
    ease = macrid.EASE().fit(trained[1].train, device="cpu")
    before = [scores_among(one, *arguments) for one in (model, ease)]
    monkeypatch.setattr(splitting, "USERS", 3)
    monkeypatch.setattr(splitting, "SCORES_AT_ONCE", 7 * 160)
    for one, expected in zip((model, ease), before, strict=True):
        assert scores_among(one, *arguments) == pytest.approx(expected, abs=1e-5)
