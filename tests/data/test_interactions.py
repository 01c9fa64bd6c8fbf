import gzip

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
from macrid.data.interactions import Interactions, csr_from_pairs
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
    """What each user has, in order, by the caller's ids."""
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
    """The same events as a matrix over positions, which can hold one value a pair."""
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
def test_every_kind_of_source_gives_the_same_interactions(kind, tmp_path):
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
def test_strings_of_digits_stay_strings_where_the_source_has_types(kind, tmp_path):
    frame = pd.DataFrame({"user": ["1", "1", "2"], "item": ["10", "20", "10"]})
    source = {
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")),
        "arrow": pa.Table.from_pandas(frame),
        "parquet": tmp_path / "e.parquet",
    }[kind]
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "e.parquet")
    assert histories(Interactions.read(source, min_items=1)) == {"1": ["10", "20"], "2": ["10"]}


def test_ids_with_leading_zeros_survive_as_strings(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item\n007,1\n8,2\n")
    assert histories(Interactions.read(path, min_items=1)) == {"007": [1], "8": [2]}


text_ids = st.text(st.characters(codec="utf-8", exclude_characters='\0\r\n"', exclude_categories=["Cs"]), min_size=1)
written_ids = text_ids.filter(lambda value: value not in ("nan", "NaN", "null", "NULL") and value.strip() == value)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(written_ids, written_ids), min_size=1, max_size=30))
def test_any_ids_survive_csv_and_frames_alike(tmp_path_factory, pairs):
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
def test_reading_keeps_first_pairs_of_users_with_enough_items_and_counts_the_rest(rows, min_items):
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


def test_without_a_threshold_every_row_is_an_interaction_and_ratings_are_not_looked_at(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item,rating\n1,1,bad\n1,2,\n")
    data = Interactions.read(path, min_items=1)
    assert histories(data) == {1: [1, 2]}
    assert data.report.rating_column is None


def test_columns_are_guessed_and_the_report_says_so(tmp_path):
    data = Interactions.read(delimited(tmp_path / "e.csv", ","), min_rating=4, min_items=2)
    assert data.report.guessed == ("user = 'user_id'", "item = 'item_id'", "rating = 'rating'")
    assert str(data.report) == (
        "e.csv: 8 rows; guessed user = 'user_id', item = 'item_id', rating = 'rating';"
        " 2 rows below the rating threshold left out; 1 duplicates dropped; 1 users with too few items left out"
    )


def test_columns_can_be_named_or_numbered(tmp_path):
    named = Interactions.read(FRAME.rename(columns={"user_id": "b", "item_id": "a"}), user="b", item="a", min_items=1)
    assert named.report.guessed == ()
    numbered = Interactions.read(delimited(tmp_path / "e.csv", ",", header=False), user=0, item=1, min_items=1)
    assert histories(named) == histories(numbered)


def test_floats_as_thresholds_work_on_whole_ratings():
    data = Interactions.read(FRAME.assign(rating=FRAME.rating.astype("int8")), min_rating=4.5, min_items=1)
    assert len(data) == 2


@pytest.mark.parametrize("far", [3, 1_200_000])
def test_a_rating_that_is_not_a_number_is_named_by_its_row_also_far_down(tmp_path, far):
    path = tmp_path / "e.csv"
    path.write_text("user,item,rating\n" + "1,22,4.5\n" * (far - 1) + "1,2,good\n" + "1,2,4\n")
    with pytest.raises(DataError, match=rf"e\.csv, column 'rating': row {far:,} holds 'good', which is not a number"):
        Interactions.read(path, min_rating=4)


@pytest.mark.parametrize("cell", ["", "NaN"])
def test_an_empty_rating_is_named_by_its_row(tmp_path, cell):
    path = tmp_path / "e.csv"
    path.write_text(f"user,item,rating\n1,1,4\n1,2,{cell}\n")
    with pytest.raises(DataError, match="row 2 is empty"):
        Interactions.read(path, min_rating=4)


@pytest.mark.parametrize("cell", ["", "NaN", "null"])
@pytest.mark.parametrize("column", ["user", "item"])
def test_an_empty_id_is_named_by_column_and_row(tmp_path, cell, column):
    path = tmp_path / "e.csv"
    bad = f"{cell},1" if column == "user" else f"1,{cell}"
    path.write_text(f"user,item\n1,1\n{bad}\n")
    with pytest.raises(DataError, match=rf"e\.csv, column '{column}': the id is empty in row 2"):
        Interactions.read(path)


def test_ratings_all_below_the_threshold_are_an_error_with_the_highest():
    with pytest.raises(DataError, match="all 8 ratings are below min_rating 9; the highest is 5, lower the threshold"):
        Interactions.read(FRAME, min_rating=9)
    with pytest.raises(DataError, match="the highest is 5"):
        Interactions.read(csr(), min_rating=9)


def test_no_user_with_enough_items_is_an_error_with_the_most():
    with pytest.raises(DataError, match="no user has 5 items, the most is 3; lower min_items"):
        Interactions.read(FRAME)


def test_a_header_without_rows_is_an_error(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item\n")
    with pytest.raises(DataError, match=r"e\.csv: (there are no rows|the file has no rows)"):
        Interactions.read(path)
    with pytest.raises(DataError, match="there are no rows"):
        Interactions.read(pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())}))


def test_no_such_column_lists_the_columns(tmp_path):
    with pytest.raises(DataError, match="no column 'who' for the user; the columns are 'user_id', 'item_id', 'rating'"):
        Interactions.read(delimited(tmp_path / "e.csv", ","), user="who")
    with pytest.raises(DataError, match="no column looks like the rating"):
        Interactions.read(FRAME.drop(columns="rating"), min_rating=4)


def test_one_column_cannot_be_two_things():
    with pytest.raises(DataError, match="'item_id' cannot be both the user and the item"):
        Interactions.read(FRAME, user="item_id")


def test_min_items_must_be_at_least_one():
    with pytest.raises(DataError, match="min_items is 0"):
        Interactions.read(FRAME, min_items=0)


def test_stored_zeros_of_a_matrix_are_no_interactions():
    matrix = sp.csr_array(np.array([[1.0, 2.0], [3.0, 4.0]]))
    matrix.data[0] = 0
    assert histories(Interactions.read(matrix, min_items=1)) == {0: [1], 1: [0, 1]}


@pytest.mark.parametrize(("value", "message"), [(np.nan, "not numbers"), (np.inf, "not numbers"), (0.0, "is empty")])
def test_a_matrix_without_usable_values_is_refused(value, message):
    with pytest.raises(DataError, match=message):
        Interactions.read(sp.csr_array(([value], ([0], [0])), shape=(2, 2)))


def test_items_are_joined_by_id_and_unknown_ones_have_no_attributes():
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


def test_an_items_table_that_knows_no_item_is_an_error_that_shows_both_kinds_of_ids():
    with pytest.raises(
        DataError, match="none of the 3 items is in the items table; its ids start with 'a', the events' with"
    ):
        Interactions.read(FRAME, min_rating=4, min_items=1, items=pd.DataFrame({"item": ["a"], "title": ["A"]}))


def test_an_items_table_of_ids_alone_gives_no_attributes():
    data = Interactions.read(FRAME, min_rating=4, min_items=1, items=pd.DataFrame({"item": [10, 30]}))
    assert data.table is None


def test_the_matrix_is_binary_and_keeps_the_order_read():
    data = Interactions.read(FRAME, min_items=1)
    assert data.matrix.dtype == np.float32
    assert set(data.matrix.data) == {1.0}
    assert histories(data)[7] == [30, 10, 20]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 9)), unique=True, max_size=50))
def test_the_order_of_pairs_is_kept_inside_each_row_however_many_rows_there_are(pairs):
    rows, columns = (np.array([pair[side] for pair in pairs], dtype=np.int32) for side in (0, 1))
    matrix = csr_from_pairs(rows, columns, (200_001, 10))
    for row in set(rows.tolist()):
        own = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        assert own.tolist() == [column for other, column in pairs if other == row]
    assert matrix.nnz == len(pairs)


def test_pairs_come_from_the_matrix_where_the_order_read_is_not_known():
    data = Interactions.read(FRAME, min_items=1)
    again = Interactions(data.matrix, data.users, data.items)
    assert again.pairs[0].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert again.pairs[1].tolist() == data.matrix.indices.tolist()


def test_shapes_that_do_not_fit_are_refused():
    matrix = sp.csr_array(np.eye(2))
    with pytest.raises(DataError, match="2 users and 3 items"):
        Interactions(matrix, Ids.range(2), Ids.range(3))
    with pytest.raises(DataError, match="1 rows for 2 items"):
        Interactions(matrix, Ids.range(2), Ids.range(2), pa.table({"title": ["a"]}))


def test_repr_counts():
    assert repr(Interactions.read(FRAME, min_items=1)) == "Interactions(3 users, 4 items, 7 interactions)"


def test_an_items_table_from_polars_joins_by_the_column_of_the_events():
    events = pl.DataFrame({"Kunde": ["a"] * 3, "Artikel": ["x", "y", "z"]})
    items = pl.DataFrame({"Artikel": ["y", "x"], "name": ["Y", "X"], "colour": ["red", None]})
    data = Interactions.read(events, user="Kunde", item="Artikel", min_items=1, items=items)
    assert data.table.to_pydict() == {"title": ["X", "Y", None], "colour": [None, "red", None]}


def test_lists_in_an_id_column_are_answered_with_what_to_do():
    with pytest.raises(DataError, match="column 'item_id': holds lists; give one row per user and item"):
        Interactions.read(pl.DataFrame({"user_id": [1, 2], "item_id": [[1], [2]]}))
