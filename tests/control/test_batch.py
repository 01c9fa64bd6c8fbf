"""Recommendations for many users are those for one, many times."""

import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import macrid
from macrid.control import batch
from macrid.errors import (
    FallbackWarning,
    LeftOutWarning,
    MacridError,
    RequestError,
    RulesWarning,
    UnknownItemsWarning,
)


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


def test_a_stranger_gets_what_is_popular_a_glutton_what_is_left_and_both_are_named(trained):
    model, _ = trained
    ids = list(model.items)
    people = {"stranger": ["zz"], "glutton": ids[3:], "other": ids[:2], "full": ids, "new": []}
    with warnings.catch_warnings(record=True, action="always") as caught:
        table = macrid.recommend_many(model, people, 4)
    messages = [(warning.category, str(warning.message)) for warning in caught]
    assert [(kind, name) for kind, message in messages for name in ("zz", *people) if f"'{name}'" in message] == [
        (UnknownItemsWarning, "zz"), (FallbackWarning, "stranger"), (RulesWarning, "glutton"), (LeftOutWarning, "full")
    ]  # fmt: skip
    assert table["user"].to_pylist() == ["stranger"] * 4 + ["glutton"] * 3 + ["other"] * 4 + ["new"] * 4
    assert table["rank"].to_pylist() == [1, 2, 3, 4, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4]
    assert table["fallback"].to_pylist() == [True] * 4 + [False] * 7 + [True] * 4
    items = table["item"].to_pylist()
    assert items[:4] == items[11:] == model.recommend([], 4).ids
    assert sorted(items[4:7]) == sorted(ids[:3])
    assert items[7:11] == model.recommend(ids[:2], 4).ids


@pytest.mark.parametrize(("history", "problem"), [(["zz"], "no known item"), (slice(3, None), "fewer than 4 items")])
@pytest.mark.filterwarnings("ignore::macrid.errors.UnknownItemsWarning")
def test_strict_lists_for_many_are_an_error_that_names_the_user(trained, history, problem):
    model, _ = trained
    history = model.items[history] if isinstance(history, slice) else history
    with pytest.raises(RequestError, match=f"'someone'.*{problem}"):
        macrid.recommend_many(model, {"other": model.items[:2], "someone": history}, 4, strict=True)


def test_without_users_there_are_no_rows(trained):
    model, _ = trained
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
