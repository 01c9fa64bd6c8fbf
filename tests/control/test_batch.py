"""Recommendations for many users are those for one, many times."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import macrid
from macrid.control import batch
from macrid.errors import LeftOutWarning, MacridError, RequestError, UnknownItemsWarning


@pytest.fixture(scope="module")
def histories(trained):
    model, split = trained
    return {f"u{row}": [model.items[place] for place in split.test.history[[row]].indices] for row in range(20)}


def by_user(table):
    rows = {}
    for row in table.to_pylist():
        rows.setdefault(row["user"], []).append(row)
    return rows


@pytest.mark.parametrize("limits", [{}, {"exclude_seen": False}, {"exclude": True}, {"include": True}])
def test_each_user_gets_what_recommend_gives(trained, histories, monkeypatch, limits):
    model, _ = trained
    limits = {name: list(model.items[:60]) if name != "exclude_seen" else value for name, value in limits.items()}
    monkeypatch.setattr(batch, "USERS_AT_ONCE", 7)
    rows_of = by_user(macrid.recommend_many(model, histories, 5, **limits))
    assert list(rows_of) == list(histories)
    for user, history in histories.items():
        alone = model.recommend(history, 5, **limits)
        assert [row["rank"] for row in rows_of[user]] == [1, 2, 3, 4, 5]
        assert [row["item"] for row in rows_of[user]] == alone.ids
        assert [(row["title"], row["concept"]) for row in rows_of[user]] == [
            (item.title, item.concept) for item in alone
        ]
        np.testing.assert_allclose([row["score"] for row in rows_of[user]], [item.score for item in alone], atol=1e-4)


def test_an_empty_history_is_answered_as_recommend_does(trained):
    model, _ = trained
    table = macrid.recommend_many(model, [[], [model.items[0]]], 3)
    assert by_user(table)[0][0]["item"] == model.recommend([], 3).ids[0]


def test_every_kind_of_source_gives_the_same_table(trained, histories, tmp_path):
    model, split = trained
    first = macrid.recommend_many(model, histories, 4)
    rows = [(user, item) for user, history in histories.items() for item in history]
    frame = pl.DataFrame(rows, schema=["who", "what"], orient="row")
    frame.write_parquet(tmp_path / "events.parquet")
    columns = {"user": "who", "item": "what"}
    for source in (frame, frame.to_pandas(), frame.to_arrow(), tmp_path / "events.parquet"):
        assert macrid.recommend_many(model, source, 4, **columns).drop("score") == first.drop("score")
    data = macrid.Interactions.read(frame, **columns, min_items=1)
    assert macrid.recommend_many(model, data, 4).drop("score") == first.drop("score")
    matrix = macrid.recommend_many(model, split.test.history[:20], 4)
    assert matrix["item"] == first["item"]
    assert matrix["user"].unique().to_pylist() == list(range(20))


def test_users_who_cannot_be_answered_are_named_and_left_out(trained):
    model, _ = trained
    ids = list(model.items)
    with pytest.warns(LeftOutWarning) as caught, pytest.warns(UnknownItemsWarning, match="'zz'"):
        table = macrid.recommend_many(model, {"stranger": ["zz"], "glutton": ids[3:], "other": ids[:2]}, 4)
    assert table["user"].unique().to_pylist() == ["other"]
    messages = [str(warning.message) for warning in caught if warning.category is LeftOutWarning]
    assert ["'stranger'" in messages[0], "'glutton'" in messages[1]] == [True, True]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_source_with_nobody_to_answer_is_an_error_and_an_empty_one_is_not(trained):
    model, _ = trained
    with pytest.raises(RequestError):
        macrid.recommend_many(model, {"stranger": ["zz"]}, 4)
    empty = macrid.recommend_many(model, {}, 4)
    assert empty.num_rows == 0
    assert empty.column_names == ["user", "rank", "item", "score", "concept", "title"]


@pytest.mark.parametrize("n", [0, -1, 2.5, "3"])
def test_n_must_be_a_positive_whole_number(trained, histories, n):
    with pytest.raises(RequestError, match=str(n)):
        macrid.recommend_many(trained[0], histories, n)


def test_progress_is_reported_after_each_batch(trained, histories, monkeypatch):
    monkeypatch.setattr(batch, "USERS_AT_ONCE", 8)
    calls = []
    macrid.recommend_many(trained[0], histories, 2, progress=lambda *counts: calls.append(counts))
    assert calls == [(8, 20), (16, 20), (20, 20)]


def test_pandas_and_polars_frames_hold_the_same_rows(trained, histories):
    model, _ = trained
    arrow = macrid.recommend_many(model, histories, 3)
    assert isinstance(arrow, pa.Table)
    pandas, polars = (macrid.recommend_many(model, histories, 3, as_=kind) for kind in ("pandas", "polars"))
    pd.testing.assert_frame_equal(pandas, arrow.to_pandas())
    assert polars.equals(pl.from_arrow(arrow))
    one = model.recommend(histories["u0"], 3)
    first = arrow.slice(0, 3).drop(["user", "score"])
    assert one.to_frame().drop("score").to_pylist() == first.to_pylist()
    assert isinstance(one.to_frame(as_="pandas"), pd.DataFrame)
    assert isinstance(one.to_frame(as_="polars"), pl.DataFrame)
    with pytest.raises(RequestError, match="excel"):
        one.to_frame(as_="excel")


def test_a_model_without_concepts_or_titles_has_no_such_columns():
    import scipy.sparse as sp

    model = macrid.Popularity().fit(sp.csr_array(np.eye(6) + np.eye(6, k=1)))
    assert model.recommend([0], 2).to_frame().column_names == ["rank", "item", "score"]
    assert macrid.recommend_many(model, [[0]], 2).column_names == ["user", "rank", "item", "score"]


def test_a_missing_library_is_named(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MacridError, match="polars"):
        trained[0].recommend([], 2).to_frame(as_="polars")
