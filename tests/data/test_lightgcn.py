import numpy as np
import pandas as pd
import pytest

from macrid.data import store
from macrid.data.lightgcn import read_published
from macrid.errors import DataError


def write(path, lines):
    path.write_text(lines)
    return path


def random_lines(seed, users=40, items=60):
    random = np.random.default_rng(seed)
    train, test = {}, {}
    for user in range(users):
        mine = random.permutation(items)[: random.integers(6, 40)].tolist()
        train[user], test[user] = mine[:-3], mine[-3:]
    return train, test


def text(lines):
    return "".join(" ".join(map(str, [user, *items])) + " \n" for user, items in lines.items())


@pytest.fixture
def published(tmp_path):
    train, test = random_lines(0)
    return (
        train,
        test,
        read_published(write(tmp_path / "train.txt", text(train)), write(tmp_path / "test.txt", text(test))),
    )


def lists(matrix, users, items):
    rows = zip(users, matrix.indptr, matrix.indptr[1:], strict=False)
    return {user: [items[column] for column in matrix.indices[start:end]] for user, start, end in rows}


def test_the_test_folds_in_on_all_train_items_and_predicts_the_test_line(published):
    train, test, split = published
    known = {item for line in train.values() for item in line}
    assert lists(split.test.history, split.test.users, split.items) == train
    assert lists(split.test.target, split.test.users, split.items) == {
        user: [item for item in line if item in known] for user, line in test.items()
    }
    assert split.protocol == "published test items of known users"


def test_everyone_has_the_complete_train_lines(published):
    train, _, split = published
    assert lists(split.everyone.matrix, split.everyone.users, split.items) == train


def test_validation_is_a_tenth_of_the_train_items_and_not_trained_on(published):
    train, _, split = published
    kept = lists(split.train.matrix, split.train.users, split.items)
    held_back = lists(split.validation.target, split.validation.users, split.items)
    history = lists(split.validation.history, split.validation.users, split.items)
    for user, items in train.items():
        mine = held_back.get(user, [])
        assert len(mine) <= max(1, len(items) // 10) if len(items) >= 5 else not mine
        assert sorted(kept[user] + mine) == sorted(items)
        assert user not in history or history[user] == kept[user]
    assert sum(map(len, held_back.values())) > 0.9 * sum(
        max(1, len(line) // 10) for line in train.values() if len(line) > 4
    )
    assert split.validation.protocol == "10 % of each known user's train items"


def test_no_item_loses_its_last_train_user(tmp_path):
    train, test = random_lines(1, users=30, items=1_000)  # most items belong to one user
    split = read_published(write(tmp_path / "a", text(train)), write(tmp_path / "b", text(test)))
    assert (split.train.popularity > 0).all()
    assert (np.diff(split.train.matrix.indptr) > 0).all()


def test_the_seed_determines_what_is_held_back(tmp_path):
    train, test = random_lines(2)
    files = write(tmp_path / "a", text(train)), write(tmp_path / "b", text(test))
    one, same, other = (read_published(*files, seed=seed).validation.target for seed in (1, 1, 2))
    assert np.array_equal(one.indices, same.indices)
    assert not np.array_equal(one.indices, other.indices)
    with pytest.raises(DataError, match="seed is -1"):
        read_published(*files, seed=-1)


def test_what_cannot_be_predicted_is_counted(tmp_path):
    train = write(tmp_path / "train.txt", "0 1 2 3 4 5\n\n1\n2 3 3 3 1 2 7 8 9\r\n")
    split = read_published(train, write(tmp_path / "test.txt", "0 6 7\n1 3\n2 5 1\n3\n"))
    assert split.train.report.rows == 13
    assert split.train.report.duplicates == 2
    assert split.train.report.notes == (
        "skipped 1 test users without train items",
        "dropped 1 of 5 test items: not in the train file",
        "dropped 1 of 5 test items: also in the user's train line",
    )
    assert lists(split.test.target, split.test.users, split.items) == {0: [7], 2: [5]}


def test_items_get_their_titles(tmp_path):
    train, test = random_lines(0)
    items = pd.DataFrame({"id": range(60), "title": [f"№ {n}" for n in range(60)]})
    split = read_published(write(tmp_path / "a", text(train)), write(tmp_path / "b", text(test)), items=items)
    assert split.table.column("title").to_pylist() == [f"№ {item}" for item in split.items]


def test_a_published_split_is_kept_in_a_prepared_folder(published, tmp_path):
    _, _, split = published
    store.write(split, tmp_path / "data")
    again = store.read(tmp_path / "data")
    assert again.protocol == split.protocol
    assert again.validation.protocol == split.validation.protocol
    assert again.test.users == split.test.users
    assert again.train.users == split.train.users


GOOD = "0 1 2 3 4 5\n1 1 2 3 4 6\n"


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("0 1 2\n0,1,2\n", "0 1\n", r"train.txt, line 2: '0,1,2' is not a user and items; expected whole numbers"),
        ("user item\n", "0 1\n", r"train.txt, line 1: 'user item' is not"),
        ("0 1 -2\n", "0 1\n", r"train.txt, line 1: '0 1 -2' is not"),
        (GOOD, "0 6\n1 5\n2 1.5\n", r"test.txt, line 3: '2 1.5' is not"),
        (GOOD, "0 99999999999999999999\n", r"test.txt, line 1: .* is not a user and items"),
        (GOOD + "0 7\n", "0 6\n", r"train.txt, line 3: user 0 is already on line 1"),
        ("", "0 1\n", r"train.txt: the file is empty; expected"),
        ("0\n1\n", "0 1\n", r"train.txt: no user has an item"),
        (GOOD, "0 7 8\n", r"test.txt: nothing to predict \(dropped 2 of 2 test items: not in the train file\)"),
        (GOOD, "0\n", r"test.txt: nothing to predict; give the test file that goes with train.txt"),
        ("0 1 2\n1 3 4\n", "0 3\n", r"train.txt: no user has 5 items, which validation takes"),
    ],
)
def test_bad_lines_are_an_error_that_names_file_and_line(tmp_path, train, test, message):
    with pytest.raises(DataError, match=message):
        read_published(write(tmp_path / "train.txt", train), write(tmp_path / "test.txt", test))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"train.txt: no such file"):
        read_published(tmp_path / "train.txt", tmp_path / "test.txt")
