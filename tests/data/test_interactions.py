import gzip
import json
import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, csr_from_pairs
from macrid.errors import DataError

EVENTS = [
    (7, 30, 5.0),
    (3, 10, 4.0),
    (7, 10, 4.5),
    (3, 20, 2.0),
    (7, 30, 4.0),
    (5, 40, 4.0),
    (3, 40, 5.0),
    (7, 20, 1.0),
]
FRAME = pd.DataFrame(EVENTS, columns=["user_id", "item_id", "rating"])
KEPT = {7: [30, 10], 3: [10, 40], 5: [40]}  # at least 4, in order, once each


def histories(data):
    """Each user's items, in order, by the caller's ids."""
    return {
        data.users[row]: [data.items[column] for column in data.matrix.indices[start:end]]
        for row, (start, end) in enumerate(zip(data.matrix.indptr, data.matrix.indptr[1:], strict=False))
    }


def delimited(path, mark, header=True):
    lines = [["user_id", "item_id", "rating"]] if header else []
    lines += [[str(cell) for cell in row] for row in EVENTS]
    text = "".join(mark.join(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def parquet(path):
    pq.write_table(pa.Table.from_pandas(FRAME), path)
    return path


def csr():
    """The same events as a matrix by position, with one value per pair."""
    best = FRAME.groupby(["user_id", "item_id"], sort=False, as_index=False).rating.max()
    return sp.csr_array((best.rating, (best.user_id, best.item_id)), shape=(8, 41))


SOURCES = {
    "csv": lambda folder: delimited(folder / "e.csv", ","),
    "tsv": lambda folder: delimited(folder / "e.tsv", "\t"),
    "semicolon": lambda folder: delimited(folder / "e.csv", ";"),
    "double colon": lambda folder: delimited(folder / "e.dat", "::", header=False),
    "csv.gz": lambda folder: delimited(folder / "e.csv.gz", ","),
    "dat.gz": lambda folder: delimited(folder / "e.dat.gz", "::", header=False),
    "parquet": lambda folder: parquet(folder / "e.parquet"),
    "path as text": lambda folder: str(delimited(folder / "e.csv", ",")),
    "pandas": lambda folder: FRAME,
    "polars": lambda folder: pl.DataFrame(FRAME.to_dict("list")),
    "arrow": lambda folder: pa.Table.from_pandas(FRAME),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_interactions(kind, tmp_path):
    data = Interactions.read(SOURCES[kind](tmp_path), min_rating=4, min_items=1)
    assert histories(data) == KEPT
    assert list(data.users) == [7, 3, 5]
    assert list(data.items) == [30, 10, 40]
    rows, columns = data.pairs
    assert rows.tolist() == [0, 1, 0, 2, 1]
    assert columns.tolist() == [0, 1, 1, 2, 2]
    assert (data.report.rows, data.report.below_min_rating, data.report.duplicates) == (8, 2, 1)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_array])
def test_a_sparse_matrix_gives_the_same_histories_with_positions_as_ids(form):
    data = Interactions.read(form(csr()), min_rating=4, min_items=1)
    assert {user: sorted(items) for user, items in histories(data).items()} == {
        user: sorted(items) for user, items in KEPT.items()
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet"])
def test_strings_of_digits_stay_strings_in_typed_sources(kind, tmp_path):
    frame = pd.DataFrame({"user": ["1", "1", "2"], "item": ["10", "20", "10"]})
    source = {
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")),
        "arrow": pa.Table.from_pandas(frame),
        "parquet": tmp_path / "e.parquet",
    }[kind]
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "e.parquet")
    assert histories(Interactions.read(source, min_items=1)) == {"1": ["10", "20"], "2": ["10"]}


text_ids = st.text(st.characters(codec="utf-8", exclude_characters='\0\r\n"', exclude_categories=["Cs"]), min_size=1)
written_ids = text_ids.filter(lambda value: value not in ("nan", "NaN", "null", "NULL") and value.strip() == value)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(written_ids, written_ids), min_size=1, max_size=30))
def test_any_ids_survive_csv_and_frames(tmp_path_factory, pairs):
    frame = pd.DataFrame(pairs, columns=["user", "item"], dtype="str")
    path = tmp_path_factory.mktemp("any") / "e.csv"
    frame.to_csv(path, index=False, quoting=1)
    expected: dict[str, list[str]] = {}
    for user, item in dict.fromkeys(pairs):
        expected.setdefault(user, []).append(item)
    for source in (path, frame, pl.DataFrame(frame.to_dict("list"))):
        found = histories(Interactions.read(source, min_items=1))
        assert {str(user): [str(item) for item in items] for user, items in found.items()} == expected


events = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from([1, 3.5, 4, 5])), min_size=1, max_size=80
)


@settings(deadline=None, max_examples=150)
@given(events, st.integers(1, 4))
def test_reading_keeps_distinct_pairs_of_users_with_enough_items_and_counts_the_rest(rows, min_items):
    kept = [(user, item) for user, item, rating in rows if rating >= 4]
    once = list(dict.fromkeys(kept))
    items_of = {user: [item for other, item in once if other == user] for user, _ in once}
    expected = {user: items for user, items in items_of.items() if len(items) >= min_items}
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    if not expected:
        with pytest.raises(DataError):
            Interactions.read(frame, min_rating=4, min_items=min_items)
        return
    data = Interactions.read(frame, min_rating=4, min_items=min_items)
    assert histories(data) == expected
    assert data.report.below_min_rating == len(rows) - len(kept)
    assert data.report.duplicates == len(kept) - len(once)
    assert data.report.dropped_users == len(items_of) - len(expected)
    assert sorted(data.items) == sorted({item for items in expected.values() for item in items})
    assert len(data) == sum(map(len, expected.values()))
    assert data.popularity.sum() == len(data)


def test_without_a_threshold_every_row_counts_and_ratings_are_ignored(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item,rating\n1,1,bad\n1,2,\n")
    data = Interactions.read(path, min_items=1)
    assert histories(data) == {1: [1, 2]}
    assert data.report.rating_column is None


def test_columns_are_guessed_and_the_report_says_so(tmp_path):
    data = Interactions.read(delimited(tmp_path / "e.csv", ","), min_rating=4, min_items=2)
    assert data.report.guessed == ("user = 'user_id'", "item = 'item_id'", "rating = 'rating'")
    counts = re.findall(r"\d+ \w+", str(data.report))
    assert counts == ["8 rows", "2 rows", "1 duplicate", "1 user", "1 row"]


def test_columns_can_be_named_or_numbered(tmp_path):
    named = Interactions.read(FRAME.rename(columns={"user_id": "b", "item_id": "a"}), user="b", item="a", min_items=1)
    assert named.report.guessed == ()
    numbered = Interactions.read(delimited(tmp_path / "e.csv", ",", header=False), user=0, item=1, min_items=1)
    assert histories(named) == histories(numbered)


def test_a_fractional_threshold_works_on_integer_ratings():
    data = Interactions.read(FRAME.assign(rating=FRAME.rating.astype("int8")), min_rating=4.5, min_items=1)
    assert len(data) == 2


def test_a_bad_rating_is_named_by_its_row_even_far_down(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item,rating\n" + "1,22,4.5\n" * 1_199_999 + "1,2,good\n" + "1,2,4\n")
    with pytest.raises(DataError, match=r"e\.csv, column 'rating': row 1,200,000 \(line 1,200,001\) is 'good'"):
        Interactions.read(path, min_rating=4)


@pytest.mark.parametrize(
    ("row", "column"), [(",1,4", "user"), ("NaN,1,4", "user"), ("1,null,4", "item"), ("1,2,", "rating")]
)
def test_an_empty_cell_is_named_by_column_and_row(tmp_path, row, column):
    path = tmp_path / "e.csv"
    path.write_text(f"user,item,rating\n1,1,4\n{row}\n")
    with pytest.raises(DataError, match=rf"e\.csv, column '{column}': row 2 "):
        Interactions.read(path, min_rating=4)


@pytest.mark.parametrize("source", [FRAME, csr()])
def test_ratings_all_below_the_threshold_are_an_error_with_the_highest(source):
    with pytest.raises(DataError, match=r"min_rating 9.* 5;"):
        Interactions.read(source, min_rating=9)


def test_no_user_with_enough_items_is_an_error_with_the_longest_history():
    with pytest.raises(DataError, match=r" 5 items.* 3,"):
        Interactions.read(FRAME)


def test_a_header_without_rows_is_an_error(tmp_path):
    (tmp_path / "e.csv").write_text("user,item\n")
    for source in (tmp_path / "e.csv", FRAME[:0]):
        with pytest.raises(DataError, match="no rows"):
            Interactions.read(source)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"user": "who"}, "'who'.*'user_id', 'item_id'"), ({"user": "item_id"}, "'item_id'"), ({"min_items": 0}, "0"),
     ({"min_rating": 4}, "rating")],
)  # fmt: skip
def test_impossible_arguments_are_an_error_that_names_them(arguments, named):
    with pytest.raises(DataError, match=named):
        Interactions.read(FRAME.drop(columns="rating"), **arguments)


def test_stored_zeros_in_a_matrix_are_not_interactions():
    matrix = sp.csr_array(np.array([[1.0, 2.0], [3.0, 4.0]]))
    matrix.data[0] = 0
    assert histories(Interactions.read(matrix, min_items=1)) == {0: [1], 1: [0, 1]}


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_matrix_without_usable_values_is_refused(value):
    with pytest.raises(DataError):
        Interactions.read(sp.csr_array(([value], ([0], [0])), shape=(2, 2)))


def test_items_are_joined_by_id_with_nulls_for_missing_ones():
    items = pd.DataFrame({"item": [10, 30, 99], "title": ["ten", "thirty", "never seen"], "price": [1, 3, 9]})
    data = Interactions.read(FRAME, min_rating=4, min_items=1, items=items)
    assert list(data.items) == [30, 10, 40]
    assert data.table.to_pydict() == {"title": ["thirty", "ten", None], "price": [3, 1, None]}


def test_items_are_joined_across_strings_and_integers(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,title\n10,ten\n30,thirty\n")
    frame = FRAME.astype({"item_id": "str"})
    data = Interactions.read(frame, min_rating=4, min_items=1, items=path)
    assert data.table.column("title").to_pylist() == ["thirty", "ten", None]
    assert list(data.items) == ["30", "10", "40"]


def test_an_items_table_without_any_of_the_items_is_an_error_that_shows_both_ids():
    with pytest.raises(DataError, match=r"3 items.*'30', '10', '40'.*'a'"):
        Interactions.read(FRAME, min_rating=4, min_items=1, items=pd.DataFrame({"item": ["a"], "title": ["A"]}))


def test_an_items_table_with_only_ids_gives_no_attributes():
    data = Interactions.read(FRAME, min_rating=4, min_items=1, items=pd.DataFrame({"item": [10, 30]}))
    assert data.table is None


def test_the_matrix_is_binary_and_keeps_the_order_read():
    data = Interactions.read(FRAME, min_items=1)
    assert data.matrix.dtype == np.float32
    assert set(data.matrix.data) == {1.0}
    assert repr(data) == "Interactions(3 users, 4 items, 7 interactions)"
    assert histories(data)[7] == [30, 10, 20]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 9)), unique=True, max_size=50))
def test_pairs_keep_their_order_within_each_row(pairs):
    rows, columns = (np.array([pair[side] for pair in pairs], dtype=np.int32) for side in (0, 1))
    matrix = csr_from_pairs(rows, columns, (200_001, 10))
    for row in set(rows.tolist()):
        items = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        assert items.tolist() == [column for other, column in pairs if other == row]
    assert matrix.nnz == len(pairs)


def test_pairs_come_from_the_matrix_if_the_order_read_is_unknown():
    data = Interactions.read(FRAME, min_items=1)
    again = Interactions(data.matrix, data.users, data.items)
    assert again.pairs[0].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert again.pairs[1].tolist() == data.matrix.indices.tolist()


def test_mismatched_shapes_are_refused():
    matrix = sp.csr_array(np.eye(2))
    with pytest.raises(DataError, match="3 items"):
        Interactions(matrix, Ids.range(2), Ids.range(3))
    with pytest.raises(DataError, match="1 rows"):
        Interactions(matrix, Ids.range(2), Ids.range(2), pa.table({"title": ["a"]}))


def test_an_items_table_from_polars_joins_by_the_column_of_the_events():
    events = pl.DataFrame({"Kunde": ["a"] * 3, "Artikel": ["x", "y", "z"]})
    items = pl.DataFrame({"Artikel": ["y", "x"], "name": ["Y", "X"], "colour": ["red", None]})
    data = Interactions.read(events, user="Kunde", item="Artikel", min_items=1, items=items)
    assert data.table.to_pydict() == {"title": ["X", "Y", None], "colour": [None, "red", None]}


def test_lists_in_an_id_column_are_an_error_that_says_what_to_do():
    with pytest.raises(DataError, match=r"'item_id': .*lists.*explode"):
        Interactions.read(pl.DataFrame({"user_id": [1, 2], "item_id": [[1], [2]]}))


def test_a_report_survives_json():
    data = Interactions.read(FRAME, min_rating=4, min_items=2, items=pa.table({"item_id": [10], "popularity": [1]}))
    assert data.report.notes
    assert ReadReport(**json.loads(json.dumps(asdict(data.report)))) == data.report


def test_many_ones_are_one_number_in_memory(monkeypatch):
    from macrid.data import interactions

    few = interactions.binary_csr(np.array([0, 2, 3]), np.array([0, 2, 1], dtype=np.int32), (2, 3))
    monkeypatch.setattr(interactions, "MANY", 3)
    many = interactions.binary_csr(np.array([0, 2, 3]), np.array([0, 2, 1], dtype=np.int32), (2, 3))
    assert (few.data.strides, many.data.strides) == ((4,), (0,))
    assert not interactions.are_weighted(many)
    for calculate in (
        lambda matrix: matrix @ np.arange(6, dtype=np.float32).reshape(3, 2),
        lambda matrix: matrix[[1, 0]].toarray(),
        lambda matrix: matrix.T.tocsr().toarray(),
        lambda matrix: (matrix.T @ matrix).toarray(),
        lambda matrix: matrix.sum(axis=0),
    ):
        np.testing.assert_array_equal(calculate(few), calculate(many))


def test_weights_are_noticed_wherever_they_are(monkeypatch):
    from macrid.data import interactions

    monkeypatch.setattr(interactions, "MANY", 2)
    matrix = sp.csr_array((np.float32([2, 2, 2, 2, 3]), np.arange(5), np.array([0, 5])), (1, 5))
    assert interactions.are_weighted(matrix)
    assert not interactions.are_weighted(matrix[:, :4])


def test_popularity_is_counted_in_parts(monkeypatch):
    from macrid.data import interactions

    data = Interactions.read(pd.DataFrame({"user": [1, 1, 2, 3, 3], "item": [7, 8, 8, 8, 9]}), min_items=1)
    monkeypatch.setattr(interactions, "MANY", 2)
    assert data.popularity.tolist() == [1, 3, 1]
