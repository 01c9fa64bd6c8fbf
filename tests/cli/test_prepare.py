"""macrid data prepare with times, weights and published splits."""

import json

import numpy as np
import pandas as pd
import pytest

from macrid.data import store
from macrid.data.interactions import Interactions

DAY = 86_400
KINDS = ("view", "cart", "purchase")


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(0)
    rows = 1_500
    return pd.DataFrame(
        {
            "user": random.integers(0, 40, rows),
            "item": random.integers(0, 50, rows),
            "event_type": random.choice(KINDS, rows),
            "event_time": pd.to_datetime(10**9 + DAY * random.integers(0, 100, rows), unit="s"),
        }
    )


@pytest.fixture(scope="module")
def events(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "events.csv"
    frame.to_csv(path, index=False)
    return path


def test_times_weights_and_a_split_by_time(invoke, events, frame, tmp_path):
    options = ("--split", "time", "--at", "2001-12-01", "--weights", "view=1,cart=3,purchase=10", "--half-life", 30)
    code, out, err = invoke("data", "prepare", events, *options, "--out", tmp_path / "data", "--json")
    assert code == 0, err
    assert json.loads(out)["protocol"] == "before and after 2001-12-01"
    assert "event = 'event_type'" in err
    assert "time = 'event_time'" in err
    assert "half-life 30 days" in err
    split = store.read(tmp_path / "data")
    weights = {"view": 1, "cart": 3, "purchase": 10}
    data = Interactions.read(frame, time="event_time", event="event_type", weights=weights, half_life=30)
    expected = data.split(by="time", at="2001-12-01")
    np.testing.assert_array_equal(split.train.matrix.data, expected.train.matrix.data)
    np.testing.assert_array_equal(split.test.target.indices, expected.test.target.indices)
    recipe = store.read_about(tmp_path / "data")["recipe"]
    assert (recipe["split"], recipe["at"], recipe["half_life"]) == ("time", "2001-12-01", 30)


def test_a_run_says_by_which_protocol_it_was_scored(invoke, events, tmp_path):
    assert invoke("data", "prepare", events, "--split", "last", "--last", 2, "--out", tmp_path / "data")[0] == 0
    code, out, err = invoke("train", tmp_path / "data", "--out", tmp_path / "run", "--model", "popularity")
    assert code == 0, err
    assert "test: last 2 items of each user" in out
    assert "last 2 items of each user" in err
    assert "last 2 items of each user" in invoke("evaluate", tmp_path / "run")[1]
    scores = json.loads(invoke("evaluate", tmp_path / "run", "--split", "validation", "--json")[1])
    assert scores["protocol"] == "2 items before the last 2 of each user"
    assert (
        invoke("recommend", tmp_path / "run", "--input", events, "--output", tmp_path / "lists.parquet", "-n", 3)[0]
        == 0
    )


def test_a_published_split_is_prepared_and_trained_on(invoke, tmp_path):
    random = np.random.default_rng(0)
    lists = [random.permutation(40)[:14] for _ in range(30)]
    for name, part in (("train.txt", slice(0, 10)), ("test.txt", slice(10, 14))):
        lines = [" ".join(map(str, [user, *items[part]])) for user, items in enumerate(lists)]
        (tmp_path / name).write_text("\n".join(lines))
    arguments = (tmp_path / "train.txt", "--test", tmp_path / "test.txt", "--out", tmp_path / "data")
    code, out, err = invoke("data", "prepare", *arguments)
    assert code == 0, err
    assert "30 validation and 30 test users: published test items of known users" in out
    assert invoke("train", tmp_path / "data", "--out", tmp_path / "run", "--model", "ease")[0] == 0
    assert json.loads(invoke("evaluate", tmp_path / "run", "--json")[1])["users"] == 30
    code, _, err = invoke("data", "prepare", *arguments, "--min-items", 3, "--split", "time", "--overwrite")
    assert code == 1
    assert "remove --min-items, --split" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weights", "view"), "--weights: 'view' is not a kind of event and its weight; write view=1,cart=3"),
        (("--weights", "view=1,view=2"), "--weights: 'view' has two weights"),
        (("--weights", "view=1,cart=x"), "'cart=x' is not a kind of event and its weight"),
        (("--weights", "view=1,cart=-3"), "the weight of 'cart' is -3.0; give a finite number"),
        (("--weights", "view=1,cart=3"), "no weight for 'purchase' ("),
        (("--event-col", "event_type"), "no kind has a weight"),
        (("--half-life", "-1"), "half_life is -1.0; give a number of days above 0"),
        (("--time-col", "when", "--split", "time"), "no column 'when' for the time"),
        (
            ("--split", "time", "--at", "2031-01-01"),
            "nothing happened from 2031-01-01 on; the data are from 2001-09-09",
        ),
        (("--at", "2001-10-01"), "the split is by users; choose by='time' (--split time)"),
        (("--split", "last", "--heldout", "0.2"), "heldout is 0.2, but the split is by last"),
        (("--weight-col", "event_type"), "which is not a number"),
        (("--time-col", "event_type"), "which is not a time"),
    ],
)
def test_wrong_options_are_an_error_that_says_what_to_do(invoke, events, tmp_path, options, message):
    code, _, err = invoke("data", "prepare", events, *options, "--out", tmp_path / "data")
    assert code == 1
    assert message in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("options", [("--split", "time"), ("--half-life", 30), ("--split", "last", "--last", 2)])
def test_a_data_set_without_times_refuses_what_needs_them(invoke, tmp_path, options):
    code, _, err = invoke("data", "prepare", "shop", *options, "--out", tmp_path / "data")
    assert code == 1
    assert "shop: has no times, which other splits and a half-life need; ml-latest-small, ml-100k" in err
