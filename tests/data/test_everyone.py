"""Everybody's interactions: nobody and nothing is left out, and the split's items keep their places."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from macrid.data.everyone import everyone_of, over_more_items
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut


def events(seed=0):
    """Events of 30 users, of whom each also has an item of their own."""
    random = np.random.default_rng(seed)
    shared = pd.DataFrame({"user": random.integers(0, 30, 400), "item": random.integers(0, 25, 400)})
    own = pd.DataFrame({"user": np.arange(30), "item": 100 + np.arange(30)})
    return pd.concat([shared, own])


def pairs(data):
    rows, columns = data.pairs
    return {(data.users[row], data.items[column]) for row, column in zip(rows, columns, strict=True)}


@pytest.mark.parametrize("kind", ["int64", "str"])
def test_items_of_the_split_come_first_and_nothing_is_lost(kind):
    titles = pd.DataFrame({"item": np.arange(130), "title": [f"item {n}" for n in range(130)]}).astype({"item": kind})
    data = Interactions.read(events().astype(kind), min_items=1, items=titles)
    split = data.split(6)
    whole = everyone_of(split)
    assert len(whole.items) == len(split.items) + 12
    assert whole.items[: len(split.items)] == split.items[:]
    assert pairs(whole) == pairs(data)
    assert whole.table.column("title").to_pylist() == [f"item {item}" for item in whole.items]
    assert everyone_of(replace(split, everyone=whole)) is whole


def test_weights_stay_with_their_interactions():
    data = Interactions.read(events(), min_items=1)
    data.matrix.data = np.arange(1, len(data) + 1, dtype=np.float32)
    whole = everyone_of(data.split(6))
    for user in range(len(data.users)):
        (row,) = whole.users.positions([data.users[user]])
        for one, other in ((data, user), (whole, row)):
            assert one.matrix[[other]].nnz
        before = dict(zip(data.items.take(data.matrix[[user]].indices), data.matrix[[user]].data, strict=True))
        after = dict(zip(whole.items.take(whole.matrix[[row]].indices), whole.matrix[[row]].data, strict=True))
        assert before == after


def test_without_more_data_everyone_is_what_the_split_holds():
    data = Interactions.read(events(), min_items=1)
    split = replace(data.split(6), everyone=None)
    whole = everyone_of(split)
    assert whole.items == split.items
    known = {*split.items}
    assert pairs(whole) == {(user, item) for user, item in pairs(data) if item in known}
    assert len(whole) == len(pairs(whole))


def test_a_user_in_several_groups_is_one_user():
    data = Interactions.read(events(), min_items=1)
    train = data.split(6).train
    again = HeldOut(train.matrix[:3], train.matrix[[5, 4, 3]], Ids(train.users[:3]))
    whole = everyone_of(replace(data.split(6), train=train, validation=again, test=again, everyone=None))
    assert whole.users == train.users
    for user in range(3):
        expected = {*train.matrix[[user]].indices} | {*train.matrix[[5 - user]].indices}
        assert {*whole.matrix[[user]].indices} == expected


def test_held_out_users_keep_their_items_among_more():
    split = Interactions.read(events(), min_items=1).split(6)
    wide = over_more_items(split.test, len(split.items) + 12)
    assert wide.history.shape == wide.target.shape == (6, len(split.items) + 12)
    np.testing.assert_array_equal(wide.history.toarray()[:, :-12], split.test.history.toarray())
    assert wide.target[:, -12:].nnz == 0
