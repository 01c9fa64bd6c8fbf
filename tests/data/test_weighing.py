import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.interactions import Interactions, are_weighted
from macrid.errors import DataError

DAY = 86_400
FRAME = pd.DataFrame(
    [
        ("ann", "a", "view", 0, 1.0, 3),
        ("ann", "b", "view", 1, 2.0, 5),
        ("ann", "a", "purchase", 2, 4.0, 4),
        ("bob", "a", "cart", 3, 0.5, 5),
        ("ann", "b", "remove", 9, 9.0, 1),
    ],
    columns=["user", "item", "event", "day", "price", "rating"],
).assign(timestamp=lambda frame: 10**9 + frame.day * DAY)
KINDS = {"view": 1, "cart": 3, "purchase": 10, "remove": 0}


def read(frame=FRAME, **options):
    return Interactions.read(frame, min_items=1, **options)


def weights(data):
    rows, columns = data.pairs
    pairs = zip(rows, columns, data.matrix[rows, columns], strict=True)
    return {(data.users[row], data.items[column]): float(value) for row, column, value in pairs}


def test_an_interaction_weighs_as_much_as_its_heaviest_event():
    data = read(weights=KINDS)
    assert weights(data) == {("ann", "a"): 10, ("ann", "b"): 1, ("bob", "a"): 3}
    assert data.weights.tolist() == [10, 1, 3]
    assert data.matrix.data.dtype == np.float32
    assert weights(read(weight="price")) == {("ann", "a"): 4, ("ann", "b"): 9, ("bob", "a"): 0.5}
    assert weights(read(weight="price", weights=KINDS)) == {("ann", "a"): 40, ("ann", "b"): 2, ("bob", "a"): 1.5}


def test_the_report_says_which_columns_what_was_dropped_and_the_mean_weight():
    report = read(weights=KINDS, half_life=2).report
    assert (report.event_column, report.time_column, report.zero_weights, report.duplicates) == (
        "event",
        "timestamp",
        1,
        1,
    )
    assert report.mean_weight == pytest.approx((10 * 2**-0.5 + 2**-1 * 1 + 3) / 3)
    text = str(report)
    assert "event = 'event', " not in text.split("guessed")[0]
    assert "dropped 1 row of weight 0" in text
    assert "merged 1 repeated event" in text
    assert "mean weight 3.52, half-life 2 days" in text
    assert "times are epoch seconds, 2001-09-09 to 2001-09-18" in text


def test_the_weight_halves_with_every_half_life_before_the_latest_event_in_use():
    data = read(FRAME[:4], half_life=0.5)
    assert weights(data) == {("ann", "a"): 0.25, ("ann", "b"): 0.0625, ("bob", "a"): 1}
    later = read(FRAME, half_life=0.5, rating="rating", min_rating=2)  # the latest event is rated too low
    assert weights(later) == weights(data)


def test_events_before_1970_lose_weight_like_any_others():
    early = FRAME.assign(timestamp=FRAME.day * DAY - 10**9)
    assert weights(read(early, half_life=2)) == weights(read(half_life=2))


def test_very_old_events_still_weigh_something():
    frame = FRAME.assign(timestamp=[0, 0, 0, 10**9, 0])
    assert set(weights(read(frame, half_life=1e-6)).values()) == {1.0, np.float32(2.0**-20)}


def test_the_time_of_an_interaction_is_that_of_its_first_event():
    shuffled = FRAME.iloc[[2, 1, 0, 4, 3]]
    assert (read(shuffled, time="timestamp").times - 10**9).tolist() == [0, DAY, 3 * DAY]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 50)), min_size=1), st.integers(1, 3))
def test_weights_of_one_and_times_leave_the_data_as_they_are(events, min_items):
    frame = pd.DataFrame(events, columns=["user", "item", "time"]).assign(one=1.0, kind="view")
    try:
        plain = Interactions.read(frame, min_items=min_items)
    except DataError:
        return
    for options in ({"weight": "one"}, {"weights": {"view": 1}}, {"time": True}):
        data = Interactions.read(frame, min_items=min_items, **options)
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(data.matrix, name), getattr(plain.matrix, name))
        for one, other in zip(data.pairs, plain.pairs, strict=True):
            np.testing.assert_array_equal(one, other)
        assert (data.users, data.items) == (plain.users, plain.items)
        assert not are_weighted(data.matrix)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 50), st.integers(0, 3)), min_size=1),
    st.integers(1, 3),
    st.none() | st.floats(0.5, 1_000),
)
def test_weights_and_times_match_a_slow_transcription(events, min_items, half_life):
    frame = pd.DataFrame(events, columns=["user", "item", "day", "weight"]).assign(time=lambda frame: frame.day * DAY)
    frame = frame[frame.weight > 0]
    counts = frame.drop_duplicates(["user", "item"]).groupby("user").size() if len(frame) else pd.Series(dtype=int)
    kept = frame[frame.user.isin(counts[counts >= min_items].index)]
    if not len(kept):
        return
    age = kept.day.max() - kept.day
    kept = kept.assign(weight=kept.weight * (1.0 if half_life is None else 0.5 ** (age / half_life).clip(upper=20)))
    slow = kept.groupby(["user", "item"], sort=False).agg(weight=("weight", "max"), time=("time", "min"))
    data = Interactions.read(
        pd.DataFrame(events, columns=["user", "item", "day", "weight"]).assign(time=lambda frame: frame.day * DAY),
        min_items=min_items, weight="weight", time="time", half_life=half_life,
    )  # fmt: skip
    rows, columns = data.pairs
    assert [(data.users[row], data.items[column]) for row, column in zip(rows, columns, strict=True)] == list(
        slow.index
    )
    np.testing.assert_array_equal(data.weights, slow.weight.to_numpy(np.float32))
    np.testing.assert_array_equal(data.times, slow.time)
    np.testing.assert_array_equal(data.matrix[rows, columns], data.weights)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME.assign(w=[1, -2, 3, 4, -5]), {"weight": "w"}, r"'w': row 2 is -2 \(2 such rows\); a weight is 0 or"),
        (FRAME.assign(w=[1, 2, np.nan, 4, 5]), {"weight": "w"}, "column 'w': row 3 is empty or NaN; a finite number"),
        (FRAME.assign(w=[1, 2, 3, np.inf, 5]), {"weight": "w"}, "column 'w': row 4 is inf; a finite number"),
        (FRAME.assign(w=[1, 2, 3, 1e39, 5]), {"weight": "w"}, "row 4 is 1e.39, which is too large a weight"),
        (FRAME.assign(w=list("12x45")), {"weight": "w"}, "row 3 is 'x', which is not a number"),
        (FRAME.assign(w=0), {"weight": "w"}, "all 5 events weigh 0"),
        (FRAME, {"weight": "nothing"}, "no column 'nothing' for the weight; columns are 'user'"),
        (FRAME, {"weights": {"view": 1}}, r"for 'purchase' \(1 row\), 'cart' \(1 row\), 'remove' .*, or 0 to drop"),
        (FRAME, {"weights": {"view": -1}}, "the weight of 'view' is -1; give a finite number, 0 or more"),
        (FRAME, {"weights": {"view": float("nan")}}, "the weight of 'view' is nan"),
        (FRAME, {"weights": {"view": "1"}}, "the weight of 'view' is '1'"),
        (FRAME, {"weights": {}}, "weights is {}; give each kind of event one"),
        (FRAME, {"event": "event"}, "event is 'event', but no kind has a weight"),
        (FRAME.assign(event=[*"ab", None, "c", ""]), {"weights": {"a": 1}}, "row 3, row 5 have no kind of event"),
        (FRAME.drop(columns="event"), {"weights": KINDS}, r"looks like the event; choose one with --event-col"),
        (FRAME.drop(columns="timestamp"), {"half_life": 3}, r"looks like the time; choose one with --time-col"),
        (FRAME, {"half_life": 0}, "half_life is 0; give a number of days above 0"),
        (FRAME, {"half_life": float("inf")}, "half_life is inf"),
        (sp.csr_array(np.eye(3)), {"half_life": 3}, "a matrix has no columns of times or weights"),
    ],
)  # fmt: skip
def test_wrong_weights_are_an_error_that_names_the_place(frame, options, message):
    with pytest.raises(DataError, match=message):
        read(frame, **options)


def test_a_kind_that_no_event_has_is_mentioned():
    assert "no event is a 'wish'" in str(read(weights=KINDS | {"wish": 2}).report)


def test_kinds_may_be_numbers_and_columns_may_be_numbered(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("1,10,3,1000000000\n1,11,4,1000086400\n")
    data = Interactions.read(path, user=0, item=1, event=2, time=3, weights={3: 2, "4": 5}, half_life=1, min_items=1)
    assert weights(data) == {(1, 10): 1, (1, 11): 5}


def test_a_column_may_be_both_rating_and_weight():
    data = read(rating="rating", min_rating=4, weight="rating")
    assert weights(data) == {("ann", "b"): 5, ("ann", "a"): 4, ("bob", "a"): 5}


def test_held_out_users_keep_their_weights_and_their_split():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"user": random.integers(0, 30, 400), "item": random.integers(0, 40, 400), "w": random.random(400)}
    )
    plain, weighted = Interactions.read(frame).split(5), Interactions.read(frame, weight="w").split(5)
    heaviest = frame.groupby(["user", "item"]).w.max()
    for one, other, users in (
        (weighted.train.matrix, plain.train.matrix, plain.train.users),
        (weighted.test.history, plain.test.history, plain.test.users),
        (weighted.validation.history, plain.validation.history, plain.validation.users),
    ):
        np.testing.assert_array_equal(one.indices, other.indices)
        rows = np.repeat(np.arange(one.shape[0]), np.diff(one.indptr))
        expected = [heaviest[users[row], plain.items[column]] for row, column in zip(rows, one.indices, strict=True)]
        np.testing.assert_array_equal(one.data, np.float32(expected))
    np.testing.assert_array_equal(weighted.test.target.indices, plain.test.target.indices)
    assert not are_weighted(weighted.test.target)


def test_a_column_called_weight_that_is_not_used_is_said_with_the_option_that_uses_it():
    frame = pd.DataFrame({"user": ["a"] * 5, "item": [*"vwxyz"], "weight": [1.0, 2, 3, 4, 5]})
    assert "ignored column 'weight': use it with --weight-col" in str(Interactions.read(frame).report)
