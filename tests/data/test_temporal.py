import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.interactions import Interactions, are_weighted
from macrid.data.temporal import Moments
from macrid.data.times import moment_text
from macrid.errors import DataError

DAY = 86_400
START = 10**9 // DAY * DAY  # 2001-09-09


def frame_of(events):
    """Events of (user, item, day, weight)."""
    frame = pd.DataFrame(events, columns=["user", "item", "day", "weight"])
    return frame.assign(time=START + frame.day * DAY)


def random_events(seed, rows=300, days=60):
    random = np.random.default_rng(seed)
    items = (40 * random.random(rows) ** 2).astype(int) + random.integers(0, 3, rows) * 100
    columns = random.integers(0, 20, rows), items, random.integers(0, days, rows), random.integers(1, 5, rows)
    return frame_of(list(zip(*columns, strict=True)))


def day_text(day):
    return moment_text((START + day * DAY) * 10**6)


def slow_weights(events, now, half_life):
    """The weight of each user and item from these events alone, with age counted from the day `now`."""
    age = (now - events.day).clip(lower=0)
    weight = events.weight * (1.0 if half_life is None else 0.5 ** (age / half_life).clip(upper=20))
    return weight.groupby([events.user, events.item]).max().astype(np.float32).to_dict()


def slow_time_split(events, start, end, half_life):
    """The protocol, step by step in pandas: by user and item."""
    first = events.groupby(["user", "item"]).day.min().reset_index()
    train = slow_weights(events[events.day < start], start, half_life)
    items = {item for _, item in train}
    result = {"train": train}
    for group, begin, until in (("validation", start, end), ("test", end, np.inf)):
        history = slow_weights(events[events.day < begin], begin, half_life)
        history = {pair: weight for pair, weight in history.items() if pair[1] in items}
        target = first[(first.day >= begin) & (first.day < until) & first.item.isin(items)]
        target = set(zip(target.user, target.item, strict=True))
        users = {user for user, _ in history} & {user for user, _ in target}
        result[f"{group} history"] = {pair: weight for pair, weight in history.items() if pair[0] in users}
        result[f"{group} target"] = {pair: 1.0 for pair in target if pair[0] in users}
    return result


def slow_last_split(events, last, half_life):
    ordered = events.reset_index().sort_values(["day", "index"])
    lists = {}
    first_row = events.reset_index().groupby(["user", "item"])["index"].min()
    first = events.groupby(["user", "item"]).day.min()
    for user in sorted(set(events.user)):
        mine = ordered[ordered.user == user].item.unique()
        lists[user] = sorted(mine, key=lambda item, user=user: (first[user, item], first_row[user, item]))

    def kept(cut):
        """Events of what remains without the last `cut` items, from before the first of these."""
        parts = []
        for user, items in lists.items():
            mine = events[events.user == user]
            if len(items) <= 2 * last:
                parts.append(mine)
                continue
            limit = first[user, items[-cut]]
            are_first = mine.day == [first[user, item] for item in mine.item]
            parts.append(mine[mine.item.isin(items[:-cut]) & ((mine.day < limit) | are_first)])
        return pd.concat(parts)

    predicted = {user: items for user, items in lists.items() if len(items) > 2 * last}
    before = kept(2 * last)
    train = slow_weights(before, before.day.max(), half_life)
    known = {item for _, item in train}
    result = {"train": train}
    for group, events_kept, low, high in (("validation", before, 2 * last, last), ("test", kept(last), last, 0)):
        history = slow_weights(events_kept, events_kept.day.max(), half_life)
        target = {
            (user, item)
            for user, items in predicted.items()
            for item in items[len(items) - low : len(items) - high]
            if item in known
        }
        users = {user for user, _ in target}
        result[f"{group} history"] = {p: weight for p, weight in history.items() if p[0] in users and p[1] in known}
        result[f"{group} target"] = dict.fromkeys(target, 1.0)
    return result


def entries(matrix, users, items):
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    pairs = zip(rows, matrix.indices, matrix.data, strict=True)
    return {(users[row], items[column]): float(weight) for row, column, weight in pairs}


def found(split):
    result = {"train": entries(split.train.matrix, split.train.users, split.items)}
    for group in ("validation", "test"):
        heldout = getattr(split, group)
        result[f"{group} history"] = entries(heldout.history, heldout.users, split.items)
        result[f"{group} target"] = entries(heldout.target, heldout.users, split.items)
    return result


def read(events, half_life=None, weighted=True):
    weight = "weight" if weighted else None
    return Interactions.read(events, min_items=1, time="time", weight=weight, half_life=half_life)


@pytest.mark.parametrize("half_life", [None, 7])
@pytest.mark.parametrize("seed", range(3))
def test_a_split_by_time_matches_a_slow_transcription(seed, half_life):
    events = random_events(seed)
    split = read(events, half_life).split(by="time", at=(day_text(20), day_text(40)))
    assert found(split) == slow_time_split(events, 20, 40, half_life)


@pytest.mark.parametrize("half_life", [None, 7])
@pytest.mark.parametrize("last", [1, 2, 4])
def test_a_split_by_last_items_matches_a_slow_transcription(last, half_life):
    events = random_events(last, days=15)  # with ties
    assert found(read(events, half_life).split(by="last", last=last)) == slow_last_split(events, last, half_life)


some_events = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(0, 9), st.integers(1, 3)), min_size=20, max_size=60
)


@settings(deadline=None, max_examples=60)
@given(some_events, st.integers(3, 5), st.integers(6, 8), st.none() | st.integers(1, 30), st.integers(1, 9))
def test_nothing_from_the_moment_on_has_an_influence_on_what_is_trained_on(events, start, end, half_life, weight):
    events = frame_of(events)
    later = events.day >= start
    changed = events.assign(
        weight=np.where(later, weight, events.weight), item=np.where(later, 7 - events.item, events.item)
    )
    trained_on = []
    for version in (events, changed):
        try:
            split = read(version, half_life).split(by="time", at=(day_text(start), day_text(end)))
        except DataError:  # nothing is left to predict
            return
        assert found(split) == slow_time_split(version, start, end, half_life)
        trained_on.append(found(split)["train"])
    assert trained_on[0] == trained_on[1]


def test_items_are_those_of_the_train_data_in_order_of_first_appearance_with_their_table():
    events = random_events(0)
    items = pd.DataFrame({"item": events.item.unique(), "title": [f"№ {item}" for item in events.item.unique()]})
    data = Interactions.read(events, min_items=1, time="time", items=items)
    split = data.split(by="time", at=(day_text(20), day_text(40)))
    first = events.groupby(["user", "item"], sort=False).agg(day=("day", "min"), time=("time", "min")).reset_index()
    first = first[first.day < 20]
    assert list(split.items) == list(dict.fromkeys(first["item"]))
    assert split.table.column("title").to_pylist() == [f"№ {item}" for item in split.items]
    assert split.everyone is data
    assert split.train.times.tolist() == first.time.tolist()


def test_without_weights_all_matrices_are_binary():
    for how in ({"by": "time"}, {"by": "last"}):
        split = read(random_events(1), weighted=False).split(**how)
        assert not any(map(are_weighted, (split.train.matrix, split.validation.history, split.test.history)))


def test_by_default_a_tenth_of_the_interactions_is_in_each_of_validation_and_test():
    frame = frame_of(
        [(user, (step + 10 * user) % 100, 10 * step + user, 1) for step in range(100) for user in range(10)]
    )
    split = read(frame).split(by="time")
    assert (len(split.train), split.protocol) == (800, f"before and after {day_text(900)}")
    assert split.validation.protocol == f"before and after {day_text(800)}, until {day_text(900)}"
    assert len(read(frame).split(0.2, by="time").train) == 600


def test_validation_gets_as_many_interactions_as_the_test_but_at_most_half_of_those_before():
    frame = frame_of([(user, item, user, 1) for user in range(100) for item in range(2)])
    frame = pd.concat([frame, frame_of([(0, 0, 0, 1)])])

    def begin(day):
        try:
            read(frame).split(by="time", at=day_text(day))
        except DataError as error:  # everybody comes once
            return str(error)

    assert f"before and after {day_text(80)}, until {day_text(90)}" in begin(90)
    assert f"before and after {day_text(20)}, until {day_text(40)}" in begin(40)


def test_the_report_counts_unknown_items_and_users_without_a_history():
    events = [(1, "a", 0, 1), (1, "b", 1, 1), (2, "a", 1, 1)]
    events += [(1, "new", 5, 1), (2, "b", 5, 1), (3, "a", 5, 1)]
    events += [(1, "newer", 9, 1), (2, "new", 9, 1), (3, "b", 9, 1), (4, "a", 9, 1)]
    split = read(frame_of(events)).split(by="time", at=(day_text(4), day_text(8)))
    assert split.train.report.notes[-4:] == (
        "dropped 1 of 3 validation targets: unknown items",
        "skipped 1 validation users without a history",
        "dropped 2 of 4 test targets: unknown items",
        "skipped 1 test users without a history",
    )
    assert list(split.validation.users) == [2]
    assert list(split.test.users) == [3]


def test_ties_in_time_are_resolved_by_the_order_of_rows():
    events = [(1, item, 0, 1) for item in "dacb"] + [(2, item, 0, 1) for item in "bcda"]
    split = read(frame_of(events)).split(by="last")
    assert found(split)["test target"] == {(1, "b"): 1, (2, "a"): 1}
    assert found(split)["validation target"] == {(1, "c"): 1, (2, "d"): 1}
    assert split.protocol == "last 1 item of each user"
    assert split.validation.protocol == "1 item before the last 1 of each user"


def test_users_with_few_items_are_only_trained_on_and_counted():
    events = [(1, item, item, 1) for item in range(5)] + [(2, 0, 0, 1), (2, 1, 1, 1)]
    events += [(3, item, 5 - item, 1) for item in range(5)]
    split = read(frame_of(events)).split(by="last", last=1)
    assert 2 in split.train.users
    assert 2 not in split.test.users
    assert "1 users with fewer than 3 items are only trained on" in split.train.report.notes


DATA = read(random_events(3))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"by": "time", "at": "1999-01-01"}, "before 1999-01-01; the data are from 2001-09-09 to 2001-11-07"),
        ({"by": "time", "at": "2002-01-01"}, "from 2002-01-01 on; the data are from 2001-09-09 to 2001-11-07"),
        ({"by": "time", "at": ("1999-01-01", "2001-10-01")}, "nothing happened before 1999-01-01; the data are from"),
        ({"by": "time", "at": ("2001-10-02", "2001-10-01")}, "begins at 2001-10-02 and the test at 2001-10-01"),
        ({"by": "time", "at": "noon"}, "at is 'noon', which is not a moment"),
        ({"by": "time", "heldout": 0.5}, "heldout is 0.5; for a split by time, give a share"),
        ({"by": "time", "heldout": 50}, "heldout is 50; for a split by time"),
        ({"by": "last", "last": 0}, "last is 0; give a whole number"),
        ({"by": "last", "last": 1.5}, "last is 1.5; give a whole number"),
        ({"by": "last", "last": "2"}, "last is 2; give a whole number"),
        ({"by": "last", "last": 1_000}, "no user has the 2,001 items that a test on the last 1,000"),
        ({"by": "last", "heldout": 0.1}, "heldout is 0.1, but the split is by last"),
        ({"by": "last", "at": "2001-10-01"}, "at is '2001-10-01', but the split is by last; choose by='time'"),
        ({"by": "time", "last": 2}, "last is 2, but the split is by time; choose by='last'"),
        ({"at": "2001-10-01"}, "but the split is by users"),
        ({"by": "item"}, "by is 'item'; choose users, stable, time or last"),
    ],
)  # fmt: skip
def test_a_split_that_cannot_be_made_is_an_error_that_says_why(how, message):
    with pytest.raises(DataError, match=message):
        DATA.split(**how)


def test_a_split_by_time_without_times_is_an_error():
    data = Interactions.read(random_events(0), min_items=1, weight="weight")
    for by in ("time", "last"):
        with pytest.raises(DataError, match=rf"a split by {by} needs the times of events; read them with time="):
            data.split(by=by)


def test_a_split_by_time_without_anything_to_test_is_an_error():
    events = [(user, item, user, 1) for user in range(10) for item in range(5)]  # everybody comes once
    with pytest.raises(DataError, match=r"the validation is empty, as nobody with a history before has a known item"):
        read(frame_of(events)).split(by="time")
    same = [(user, item, 3, 1) for user in range(10) for item in range(5)]
    with pytest.raises(
        DataError, match="nothing happened before 2001-09-12; the data are from 2001-09-12 to 2001-09-12"
    ):
        read(frame_of(same)).split(by="time")


@given(parts=st.lists(st.lists(st.integers(-50, 50), max_size=20), min_size=1, max_size=5), moment=st.integers(-60, 60))
def test_moments_in_parts_are_those_of_one_sorted_array(parts, moment):
    whole = np.sort(np.concatenate([np.array(part, dtype=np.int64) for part in parts]))
    if not len(whole):
        return
    moments = Moments([np.sort(np.array(part, dtype=np.int64)) for part in parts])
    assert len(moments) == len(whole)
    assert [moments[place] for place in range(len(whole))] == whole.tolist()
    assert moments.before(moment) == np.count_nonzero(whole < moment)
    assert (moments.first, moments.latest) == (whole[0], whole[-1])


def test_moments_may_be_thousands_of_years_apart():
    far = 250_000_000_000_000_000  # microseconds: the year 9892
    assert Moments([np.array([-far, 5]), np.array([far])])[1] == 5
