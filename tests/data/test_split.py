import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.interactions import Interactions
from macrid.errors import DataError
from tests.data.released import write_released

DATA = os.environ.get("MACRID_DATA")

# of the split written out; the first two are those of the files that the paper's authors released
RELEASED = {
    ("ml-latest-small/ratings.csv", 4, 50): {
        "test_te.csv": "fc199c7c2e09f1a9012d0fd28e058ba17bdac97a50e481391f30794eaac8bf6b",
        "test_tr.csv": "db8682794e2d1d1a6cb6872f823ef20ba229df10da3cb32d1c14531abb01b0e2",
        "train.csv": "725d12ea8a176d1c4f44848dacb0375276af04dd5828f969a2fb46e47dc265a7",
        "unique_sid.txt": "0eca1946538d3f2e2878b241d31f4c3a6a27923c4bae93bb438be1b4b1124561",
        "validation_te.csv": "a3ab7e72003fc57403de8593cab81c2096801a4c65b6d6693985547c0b6e0386",
        "validation_tr.csv": "53569e49c46dd1e27694595e2bebd2e13cd0f3a70c6c530852583b15a5b23532",
    },
    ("ml-1m/ratings.dat", 4, 500): {
        "test_te.csv": "5c6827e0736e144184c62db4be66db5ee7eb18a5917fa9844f63f6a5b522c6d0",
        "test_tr.csv": "b468f58f6a04850202761c5d2d5f5a93356333c40fc0a276dcde35f3dade91b8",
        "train.csv": "303e00420feb5efa828cf724d2877d1999077c4b9c1c9bad6019f992c7b1e7d5",
        "unique_sid.txt": "2618fa83da962638ce5686296741af8a783aed34a6df3f206bf2d000392aa684",
        "validation_te.csv": "8bbd95fc1b0bc17f11941c00d3b4e115dbab7c2f937f90d32d42116b075ac99f",
        "validation_tr.csv": "d90792e97c335dc5eb21b4b35637394148494d3fe5ebd661c34c06d7cf5cd348",
    },
    ("ml-1m/ratings.dat", 3, 500): {
        "test_te.csv": "85652512dbe8784cf8fbf6cae5e623453bb998e6189bd8784159e75dee219fdb",
        "test_tr.csv": "c7ce96376967ab41bd9507f610a601415133fba66f7be4c31dee1559b8e3bcf2",
        "train.csv": "a28373e7ef879ad0ebaa04e43061b356506a461d427d171c8dcb062e3a753c0f",
        "unique_sid.txt": "883ae34b17978ef74db508997b5d0747c85b1737bdd2e78ff7dc4c1045e9a93e",
        "validation_te.csv": "d46c1ec3f6b346feb0461904bb7f30991cc100891f30addf1955ebe60d8efdf8",
        "validation_tr.csv": "3d300c4375c9227a81142a08ff26d9ce742b07f33470439100a28671036d46d5",
    },
}


@pytest.mark.skipif(DATA is None, reason="needs the real files (MACRID_DATA)")
@pytest.mark.parametrize("recipe", RELEASED, ids=lambda recipe: f"{recipe[0].split('/')[0]}-ge{recipe[1]}")
def test_the_split_is_byte_identical_to_the_published_one(recipe, tmp_path):
    file, min_rating, heldout = recipe
    write_released(Interactions.read(Path(DATA) / file, min_rating=min_rating).split(heldout), tmp_path)
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert found == RELEASED[recipe]


def slow_truth(frame, n, seed=98765):
    """The protocol of Liang et al., step by step in pandas: each user's items by group, in order."""
    frame = frame.drop_duplicates(["user", "item"])
    frame = frame[frame.groupby("user").item.transform("size") >= 5]
    users = np.array(sorted(frame.user.unique()), dtype=object)
    np.random.seed(seed)
    users = users[np.random.permutation(len(users))]
    groups = {"train": users[: -2 * n], "validation": users[-2 * n : -n], "test": users[-n:]}
    train = frame[frame.user.isin(groups["train"])]
    items = list(dict.fromkeys(train.item))
    result = {"items": items, "users": {group: list(ids) for group, ids in groups.items()}}
    result["train"] = {user: list(train.item[train.user == user]) for user in groups["train"]}
    for group in ("validation", "test"):
        rows = frame[frame.user.isin(groups[group]) & frame.item.isin(items)]
        history, target = {}, {}
        np.random.seed(seed)
        for user, events in rows.groupby("user", sort=True):
            drawn = np.zeros(len(events), dtype=bool)
            if len(events) >= 5:
                drawn[np.random.choice(len(events), size=int(0.2 * len(events)), replace=False)] = True
            history[user], target[user] = list(events.item[~drawn]), list(events.item[drawn])
        result[f"{group} history"] = {user: history.get(user, []) for user in groups[group]}
        result[f"{group} target"] = {user: target.get(user, []) for user in groups[group]}
    return result


def by_id(matrix, users, items):
    starts = zip(users, matrix.indptr, matrix.indptr[1:], strict=False)
    return {user: [items[column] for column in matrix.indices[start:end]] for user, start, end in starts}


def found(split):
    """The split in the form of the slow truth."""
    items = split.items
    result = {"items": list(items), "users": {}, "train": by_id(split.train.matrix, split.train.users, items)}
    for group in ("train", "validation", "test"):
        result["users"][group] = list(getattr(split, group).users)
    for group in ("validation", "test"):
        heldout = getattr(split, group)
        result[f"{group} history"] = by_id(heldout.history, heldout.users, items)
        result[f"{group} target"] = by_id(heldout.target, heldout.users, items)
    return result


def random_frame(seed, users=30, items=25, rows=400, kind="integers"):
    """Unsorted events with a long tail: some items only belong to held-out users, some of whom have few left."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"user": random.integers(0, users, rows) * 7, "item": (items * random.random(rows) ** 2).astype(int) + 100}
    )
    if kind == "strings":
        return frame.astype("str").map(lambda value: f"{value}é")
    return frame


@pytest.mark.parametrize("kind", ["integers", "strings"])
@pytest.mark.parametrize("seed", range(4))
def test_the_split_matches_a_slow_transcription_of_the_protocol(seed, kind):
    frame = random_frame(seed, items=25 if seed % 2 else 200, kind=kind)
    assert found(Interactions.read(frame).split(6)) == slow_truth(frame, 6)


def test_the_seed_determines_every_draw():
    frame = random_frame(0)
    assert found(Interactions.read(frame).split(5, seed=7)) == slow_truth(frame, 5, seed=7)
    assert found(Interactions.read(frame).split(5, seed=7)) != slow_truth(frame, 5)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_groups_share_no_users_items_come_from_train_and_nothing_is_lost(seed, heldout, min_items):
    frame = random_frame(seed, users=16, items=60, rows=200)
    data = Interactions.read(frame, min_items=min_items)
    split = data.split(heldout)
    groups = [set(split.train.users), set(split.validation.users), set(split.test.users)]
    assert sum(map(len, groups)) == len(set.union(*groups)) == len(data.users)
    assert [len(groups[1]), len(groups[2])] == [heldout, heldout]
    everything = by_id(data.matrix, data.users, data.items)
    assert set(split.items) == {item for user in split.train.users for item in everything[user]}
    assert by_id(split.train.matrix, split.train.users, split.items) == {u: everything[u] for u in split.train.users}
    for group in (split.validation, split.test):
        history = by_id(group.history, group.users, split.items)
        target = by_id(group.target, group.users, split.items)
        for user in group.users:
            known = [item for item in everything[user] if item in split.items]
            assert not set(history[user]) & set(target[user])
            assert sorted(history[user] + target[user]) == sorted(known)
            assert len(target[user]) == (int(0.2 * len(known)) if len(known) >= 5 else 0)


def test_items_of_no_train_user_are_dropped_with_their_attributes():
    frame = pd.DataFrame([(user, user * 10 + item) for user in range(3) for item in range(5)], columns=["user", "item"])
    titles = pd.DataFrame({"item": frame.item, "title": [f"item {item}" for item in frame.item]})
    split = Interactions.read(frame, items=titles).split(1)
    first = split.train.users[0] * 10
    assert list(split.items) == [first + item for item in range(5)]
    assert split.table.column("title").to_pylist() == [f"item {first + item}" for item in range(5)]
    assert split.validation.history.nnz == split.validation.target.nnz == split.test.history.nnz == 0


def test_a_share_is_of_all_users():
    data = Interactions.read(random_frame(0))
    split = data.split(0.1)
    assert len(split.validation.users) == len(split.test.users) == int(0.1 * len(data.users))


def test_all_users_and_items_are_kept_beside_the_split():
    data = Interactions.read(random_frame(0), min_items=1)
    assert data.split(5).everyone is data


@pytest.mark.parametrize("kind", ["integers", "strings"])
def test_nobody_is_held_out_if_nobody_should_be(kind):
    data = Interactions.read(random_frame(0, kind=kind), min_items=1)
    split = data.split(0)
    assert split.everyone is split.train
    assert {*split.train.users} == {*data.users}
    assert len(split.train) == len(data)
    for group in (split.validation, split.test):
        assert group.history.shape == group.target.shape == (0, len(data.items))
        assert len(group.users) == 0


@pytest.mark.parametrize(
    ("heldout", "named"),
    [(15, "2 × 15 .* 30; .* 14"), (1_000, " 14,"), (0.5, "2 × 15 "), (0.001, "0.001"), (-3, "-3"),
     (2.5, "2.5"), (float("nan"), "nan"), (float("inf"), "inf")],
)  # fmt: skip
def test_an_impossible_number_of_held_out_users_is_refused(heldout, named):
    data = Interactions.read(random_frame(0), min_items=1)
    assert len(data.users) == 30
    with pytest.raises(DataError, match=f"heldout.*{named}"):
        data.split(heldout)


def test_repr_shows_the_size_of_each_group():
    text = repr(Interactions.read(random_frame(0), min_items=1).split(5))
    assert text.startswith("Split(train=Interactions(20 users, ")
    assert "validation=HeldOut(5 users, " in text


@settings(max_examples=25, deadline=None)
@given(users=st.sets(st.integers(0, 10_000), min_size=60, max_size=90), more=st.sets(st.integers(10_001, 20_000)))
def test_a_stable_split_holds_out_the_same_users_whoever_else_is_there(users, more):
    def groups(ids):
        pairs = [(user, item) for user in sorted(ids) for item in range(user % 3, user % 3 + 6)]
        data = Interactions.read(pd.DataFrame(pairs, columns=["user", "item"]))
        split = data.split(0.2, by="stable")
        parts = (split.train, split.validation, split.test)
        return [{*part.users} for part in parts]

    before, after = groups(users), groups(users | more)
    assert [part & users for part in after] == before
    assert sum(map(len, before)) == len(users)
    assert all(0.02 < len(part) / len(users) < 0.45 for part in before[1:])


@pytest.mark.parametrize("heldout", [0, 0.5, 7])
def test_a_stable_split_needs_a_share(heldout):
    frame = pd.DataFrame({"user": np.repeat(np.arange(40), 5), "item": np.tile(np.arange(5), 40)})
    with pytest.raises(DataError, match=r"a stable split needs a share"):
        Interactions.read(frame).split(heldout, by="stable")


def test_a_stable_split_that_leaves_a_group_empty_says_so():
    frame = pd.DataFrame({"user": np.repeat(np.arange(3), 5), "item": np.tile(np.arange(5), 3)})
    with pytest.raises(DataError, match=r"3 users holds out 0 for validation .* another share"):
        Interactions.read(frame).split(0.01, by="stable")
