"""Commands and final models, data of which nobody is held out, and what is said about ratings and leads."""

import json
import re
import shlex

import polars as pl
import pytest

from macrid.data import store
from macrid.data.interactions import Interactions

QUICK = ("--concepts", 3, "--dim", 4, "--epochs", 2, "--device", "cpu")


@pytest.fixture(scope="module")
def events(shop, tmp_path_factory):
    """A file of events in which every eighth user has an item of their own."""
    rows, columns = shop.interactions.pairs
    users, items = shop.interactions.users, shop.interactions.items
    frame = pl.DataFrame({
        "user": [*users.take(rows), *users[::8]],
        "item": [*items.take(columns), *(f"own-{user}" for user in users[::8])],
    })  # fmt: skip
    path = tmp_path_factory.mktemp("events") / "events.csv"
    frame.with_columns(rating=pl.lit(3)).write_csv(path)
    return path


@pytest.fixture
def prepared(events, tmp_path):
    store.write(Interactions.read(events).split(50), tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def final_run(invoke, prepared, tmp_path):
    code, out, err = invoke("train", prepared, "--out", tmp_path / "run", "--final", *QUICK)
    assert code == 0, err
    return tmp_path / "run", out, err


def test_preparing_says_what_a_model_would_not_learn_and_that_ratings_were_ignored(invoke, events, tmp_path):
    code, out, err = invoke("data", "prepare", events, "--heldout", 50, "--out", tmp_path / "data")
    assert code == 0, err
    lost = len(Interactions.read(events).items) - len(store.read(tmp_path / "data").items)
    assert f"{lost} more items occur only with held-out users" in out
    assert f"macrid train {shlex.quote(str(tmp_path / 'data'))} --out RUN --final" in out
    assert "ratings in column 'rating' were ignored" in err
    assert "--min-rating 4" in err
    code, _, err = invoke("data", "prepare", events, "--min-rating", 2, "--out", tmp_path / "rated")
    assert code == 0
    assert "ignored" not in err


def test_the_report_of_a_file_says_that_ratings_were_ignored(events):
    (note,) = Interactions.read(events).report.notes
    assert "'rating' were ignored" in note
    assert not Interactions.read(events, min_rating=1).report.notes
    unrated = pl.read_csv(events).drop("rating")
    assert not Interactions.read(unrated).report.notes
    named = Interactions.read(unrated.with_columns(worth=pl.lit(1)), rating="worth").report
    assert "'worth' were ignored" in named.notes[0]
    assert named.rating_column is None


def test_a_final_training_says_which_scores_belong_to_which_model(final_run, events):
    run, out, err = final_run
    data = Interactions.read(events)
    assert re.search(r"these scores are of the model trained without the held-out users; the run holds the final", out)
    assert f"{len(data.users)} users, {len(data.items)} items, " in out
    assert "training once more, on everybody" in err
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["final"]["items"] == len(data.items)
    for remark in metrics["remarks"]:
        assert remark in out


def test_evaluating_a_final_model_shows_the_scores_of_the_first_and_says_so(invoke, final_run):
    run, printed, _ = final_run
    stored = json.loads((run / "metrics.json").read_text())
    code, out, err = invoke("evaluate", run)
    assert code == 0
    first = re.search(r"^test +(\S+ ± \S+)", printed, re.MULTILINE)[1]
    assert f"NDCG@100    {first}" in out
    assert "stored scores of the model trained without the held-out users" in err
    answer = json.loads(invoke("evaluate", run, "--split", "validation", "--metric", "recall@20", "--json")[1])
    assert answer["metrics"] == {"recall@20": stored["validation"]["metrics"]["recall@20"]}
    assert answer["scores_are_of"] == stored["final"]["scores_are_of"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--metric", "ndcg@7"), "ndcg@7"),
        (("--data", "shop"), "--data"),
        (("--nothing-to-predict", "zero"), "--nothing"),
    ],
)
def test_a_final_model_is_never_scored_on_users_it_was_trained_on(invoke, final_run, options, named):
    code, out, err = invoke("evaluate", final_run[0], *options)
    assert (code, out) == (1, "")
    assert "trained on everybody" in err
    assert named in err


def test_inspecting_a_final_model_says_that_its_users_were_trained_on(invoke, final_run):
    report = json.loads(invoke("inspect", final_run[0], "--json")[1])
    assert "the final model was also trained on these users" in report["notes"]


def test_data_of_which_nobody_is_held_out_becomes_a_run(invoke, events, tmp_path):
    data, run = tmp_path / "data", tmp_path / "run"
    code, out, _ = invoke("data", "prepare", events, "--heldout", 0, "--out", data)
    assert code == 0
    assert "nobody held out" in out
    assert f"macrid train {shlex.quote(str(data))} --out RUN --epochs N" in out
    code, _, err = invoke("train", data, "--out", run, *QUICK[:4])
    assert code == 1
    assert "--epochs" in err
    code, out, err = invoke("train", data, "--out", run, *QUICK)
    assert code == 0, err
    assert "2 epochs, " in out
    assert "nobody was held out, so there are no scores" in out
    assert "NDCG" not in out
    assert "more epochs" not in out
    assert "usual weight, 8" in err
    own = next(item for item in store.read(data).items if item.startswith("own-"))
    for command in (("inspect", run), ("names", run), ("recommend", run, "--history", own, "-n", 3)):
        assert invoke(*command)[0] == 0, command
    for command in (("evaluate", run), ("inspect", run, "--control")):
        code, _, err = invoke(*command)
        assert code == 1
        assert "nobody was held out" in err
    code, _, err = invoke("tune", data, "--trials", 1, "--out", tmp_path / "tuned")
    assert code == 1
    assert "prepare the data with more held-out users" in err


def test_a_baseline_that_is_ahead_is_said_with_what_to_try(invoke, prepared, tmp_path, monkeypatch):
    poor = ("--dim", 2, "--concepts", 2, "--neighbours", 0, "--start", "random", "--epochs", 1, "--device", "cpu")
    code, out, _ = invoke("train", prepared, "--out", tmp_path / "run", *poor)
    assert code == 0
    said = r"^EASE is ahead by 0\.\d{4} ± 0\.\d{4} (and .* )?NDCG@100 .*--epochs.*--model ease$"
    assert re.search(said, out, re.MULTILINE)
    monkeypatch.setattr("macrid.workflow.EASE_BASELINE_ITEMS", 10)
    _, out, _ = invoke("train", prepared, "--out", tmp_path / "large", *poor)
    assert "EASE was left out" in out
