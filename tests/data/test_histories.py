"""Users and histories over the items of a model, whatever they come from."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from macrid.data import reading, tables
from macrid.data.histories import from_lists, from_matrix, histories_of, read_histories
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.errors import DataError, RequestError

ITEMS = Ids(["a", "b", "c", "d"])
ROWS = [("ann", "b", 5), ("bob", "zz", 5), ("ann", "a", 1), ("ann", "b", 2), ("bob", "c", 4), ("cy", "d", 1)]


def lists(matrix):
    return [[ITEMS[place] for place in matrix[[row]].indices] for row in range(matrix.shape[0])]


@pytest.fixture(params=["csv", "parquet", "polars", "pandas"])
def events(request, tmp_path):
    frame = pl.DataFrame(ROWS, schema=["user", "item", "rating"], orient="row")
    if request.param in ("polars", "pandas"):
        return frame if request.param == "polars" else frame.to_pandas()
    getattr(frame, f"write_{request.param}")(tmp_path / f"events.{request.param}")
    return tmp_path / f"events.{request.param}"


def test_what_is_rated_low_is_seen_but_no_part_of_a_history(events):
    found = read_histories(events, ITEMS, min_rating=4)
    assert list(found.users) == ["ann", "bob", "cy"]
    assert lists(found.histories) == [["b"], ["c"], []]
    assert lists(found.seen) == [["b", "a"], ["c"], ["d"]]
    assert found.sizes.tolist() == [2, 2, 1]
    assert found.unknown == ("zz",)
    assert (found.report.below_min_rating, found.report.min_rating) == (3, 4)


def test_without_a_threshold_everything_counts_and_ratings_are_noticed(events):
    found = read_histories(events, ITEMS)
    assert lists(found.histories) == lists(found.seen) == [["b", "a"], ["c"], ["d"]]
    assert found.has_ratings
    assert (found.report.duplicates, found.report.rating_column) == (1, None)


def test_a_threshold_means_nothing_where_there_are_no_ratings(tmp_path):
    (tmp_path / "events.csv").write_text("user,item\nann,a\nann,d\n")
    found = read_histories(tmp_path / "events.csv", ITEMS, min_rating=4)
    assert lists(found.histories) == [["a", "d"]]
    assert not found.has_ratings


def test_a_threshold_above_all_ratings_is_an_error_that_names_both(events):
    with pytest.raises(DataError, match=r"\b9\b.*\b5\b"):
        read_histories(events, ITEMS, min_rating=9)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_read_once(tmp_path, monkeypatch, ending):
    frame = pl.DataFrame(ROWS, schema=["user", "item", "rating"], orient="row")
    getattr(frame, f"write_{ending}")(tmp_path / f"e.{ending}")
    calls = []
    for place, name in ((reading, "open_table"), (tables.DelimitedTable, "read"), (tables.ParquetTable, "read")):
        original = getattr(place, name)

        def counted(*args, original=original, name=name, **options):
            calls.append(name)
            return original(*args, **options)

        monkeypatch.setattr(place, name, counted)
    read_histories(tmp_path / f"e.{ending}", ITEMS, min_rating=4)
    assert calls == ["open_table", "read"]


def test_lists_interactions_and_matrices_are_the_same_histories():
    by_user = {"ann": ["b", "a"], "bob": ["c"]}
    matrix = sp.csr_array(([1, 1, 1], [1, 0, 2], [0, 2, 3]), shape=(2, 4))
    data = Interactions.from_pairs(np.array([0, 0, 1]), np.array([1, 0, 2]), Ids(by_user), ITEMS)
    for source, users in (
        (by_user, ["ann", "bob"]),
        ([*by_user.values()], [0, 1]),
        (data, ["ann", "bob"]),
        (matrix, [0, 1]),
    ):
        found = histories_of(source, ITEMS)
        assert list(found.users) == users
        assert [set(history) for history in lists(found.histories)] == [{"a", "b"}, {"c"}]
        assert found.sizes.tolist() == [2, 1]
    assert histories_of(found, ITEMS) is found


def test_unknown_items_are_named_once_and_repeated_ones_count_once():
    found = from_lists({7: ["x", "a", "a", "y"], 8: ["x"], 9: []}, ITEMS)
    assert lists(found.histories) == [["a"], [], []]
    assert found.unknown == ("x", "y")
    assert found.sizes.tolist() == [3, 1, 0]


def test_a_matrix_of_other_items_is_refused():
    with pytest.raises(DataError, match="5"):
        from_matrix(sp.csr_array((2, 5)), ITEMS)


@pytest.mark.parametrize("history", ["abc", 7, [["a"]]])
def test_a_history_that_is_no_list_of_ids_is_refused(history):
    with pytest.raises(RequestError):
        from_lists([history], ITEMS)


def test_columns_go_with_a_table_only():
    with pytest.raises(RequestError, match="min_rating"):
        histories_of({"ann": ["a"]}, ITEMS, user=None, min_rating=4)
    assert histories_of({"ann": ["a"]}, ITEMS, user=None).sizes.tolist() == [1]


def test_weights_of_interactions_are_those_of_the_histories():
    frame = pl.DataFrame(
        {"user": [1, 1, 2, 1], "item": ["b", "a", "b", "x"], "weight": [2.0, 0.5, 3.0, 9.0], "time": [1, 2, 3, 4]}
    )
    weighted = histories_of(Interactions.read(frame, min_items=1, weight="weight"), ITEMS)
    assert weighted.histories.toarray().tolist() == [[0.5, 2, 0, 0], [0, 3, 0, 0]]
    assert histories_of(frame, ITEMS).histories.toarray().tolist() == [[1, 1, 0, 0], [0, 1, 0, 0]]
