import bz2
import gzip
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from macrid.data.tables import (
    ITEM_NAMES,
    RATING_NAMES,
    USER_NAMES,
    encode_ids,
    numbers,
    open_table,
    read_items,
)
from macrid.errors import DataError


def rows(path, columns=None, ids=(), **how):
    table = open_table(path, **how)
    return table.read(columns or table.columns, ids=ids).to_pydict()


@pytest.mark.parametrize(
    ("columns", "user", "item", "rating"),
    [
        (["userId", "movieId", "rating", "timestamp"], "userId", "movieId", "rating"),
        (["user_id", "item_id", "stars"], "user_id", "item_id", "stars"),
        (["uid", "sid"], "uid", "sid", None),
        (["reviewerID", "asin", "overall"], "reviewerID", "asin", "overall"),
        (["Customer ID", "SKU", "Score"], "Customer ID", "SKU", "Score"),
        (["id", "item_id", "user"], "user", "item_id", None),
    ],
)
def test_usual_column_names_are_found_however_they_are_spelled(columns, user, item, rating):
    table = open_table(pa.table({name: [1] for name in columns}))
    assert table.find(None, USER_NAMES, "user") == user
    assert table.find(None, ITEM_NAMES, "item") == item
    assert table.find(None, RATING_NAMES, "rating", required=False) == rating


def test_a_column_that_is_not_there_is_an_error_that_lists_those_that_are(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("who,what\n1,2\n")
    table = open_table(path)
    with pytest.raises(DataError, match=r"events\.csv: no column 'user' for the user; the columns are 'who', 'what'"):
        table.find("user", USER_NAMES, "user")
    with pytest.raises(DataError, match=r"no column looks like the item; name it .*, the columns are 'who', 'what'"):
        table.find(None, ITEM_NAMES, "item")
    with pytest.raises(DataError, match="no column 5; it has 2 columns"):
        table.find(5, USER_NAMES, "user")


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("tsv", "\t"), ("csv", ";"), ("txt", "|"), ("data", "\t")])
def test_the_delimiter_is_found(tmp_path, ending, mark):
    path = tmp_path / f"events.{ending}"
    path.write_text(f"a{mark}b\n1{mark}2\n")
    assert rows(path) == {"a": [1], "b": [2]}


def test_a_tab_separated_file_may_have_commas_in_its_header(tmp_path):
    path = tmp_path / "events.tsv"
    path.write_text("a,b,c\td,e,f\n1\t2\n")
    assert rows(path) == {"a,b,c": [1], "d,e,f": [2]}


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("text", ["user,item\n007,x\n", "007::x\n"])
def test_compressed_files_are_read(tmp_path, ending, pack, text):
    path = tmp_path / f"events.dat.{ending}"
    path.write_bytes(pack(text.encode()))
    assert rows(path, ["user", "item"], ids=["user", "item"]) == {"user": ["007"], "item": ["x"]}


def test_a_compressed_tab_separated_file_is_known_by_its_name(tmp_path):
    path = tmp_path / "events.tsv.gz"
    path.write_bytes(gzip.compress(b"a,b,c\td\n1\t2\n"))
    assert rows(path) == {"a,b,c": [1], "d": [2]}


def test_column_numbers_mean_that_there_is_no_header(tmp_path):
    path = tmp_path / "u.data"
    path.write_text("1\t2\t3\t4\t5\n")
    assert rows(path, header=False) == {"user": [1], "item": [2], "rating": [3], "timestamp": [4], "column4": [5]}


def test_a_byte_order_mark_and_windows_line_ends_are_not_data(tmp_path):
    path = tmp_path / "events.csv"
    path.write_bytes(b"\xef\xbb\xbfuser,item\r\n1,2\r\n")
    assert rows(path) == {"user": [1], "item": [2]}


def test_a_quoted_cell_may_hold_the_delimiter_quotes_and_line_ends(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text('id,title\n1,"one, ""two""\nthree"\n')
    assert rows(path) == {"id": [1], "title": ['one, "two"\nthree']}


def test_a_line_end_in_a_cell_that_is_not_asked_for_does_no_harm_anywhere_in_a_large_file(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text('user,item,review\n1,2,"a\n"\n' + '3,4,"a\nb\nc"\n' * 800_000)
    table = open_table(path)
    assert path.stat().st_size > 8 << 20
    assert table.read(["user", "item"]).num_rows == 800_001


@pytest.mark.parametrize("header", ["id,title", "número,título"])
def test_latin_1_is_read_where_utf_8_fails_and_in_the_header_too(tmp_path, header):
    path = tmp_path / "items.csv"
    path.write_bytes(f"{header}\n1,Amélie\n".encode("latin-1"))
    key, title = header.split(",")
    assert rows(path, ids=[key]) == {key: ["1"], title: ["Amélie"]}


def test_ids_in_latin_1_are_read(tmp_path):
    path = tmp_path / "events.csv"
    path.write_bytes("user,item\nZoë,1\n".encode("latin-1"))
    assert rows(path, ids=["user", "item"])["user"] == ["Zoë"]


def test_a_missing_file_is_named_with_where_relative_paths_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"nothing\.csv: no such file; .* start at {tmp_path}"):
        open_table("nothing.csv")


def test_a_path_through_a_file_is_an_error_and_not_a_traceback(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be read"):
        open_table(tmp_path / "file" / "events.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_the_right_to_read_it_is_an_error(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item\n1,2\n")
    path.chmod(0)
    with pytest.raises(DataError, match="cannot be read"):
        open_table(path)


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        open_table(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n", b"  \n1,2\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_error(tmp_path, content):
    path = tmp_path / "events.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"events\.csv: the file is empty"):
        open_table(path)


@pytest.mark.parametrize("content", ["user,item\n1\n".encode("utf-16"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"])
def test_what_is_not_text_is_said_not_to_be(tmp_path, content):
    path = tmp_path / "events.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a text file"):
        open_table(path)


def test_two_columns_of_one_name_are_an_error(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item,user\n1,2,3\n")
    with pytest.raises(DataError, match="two columns have the same name"):
        open_table(path)


def test_a_row_with_too_few_cells_is_named_by_its_number(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item\n" + "1,2\n" * 4_999 + "17\n" + "1,2\n" * 1_000)
    with pytest.raises(DataError, match="row 5,000: Expected 2 columns, got 1: 17"):
        rows(path)


def test_a_compressed_file_that_is_cut_short_is_an_error(tmp_path):
    path = tmp_path / "events.csv.gz"
    random = np.random.default_rng(0).integers(0, 10**9, 200_000)
    path.write_bytes(gzip.compress(("user,item\n" + "".join(f"{n},1\n" for n in random)).encode())[:-1_000])
    with pytest.raises(DataError, match=r"events\.csv\.gz: cannot be read"):
        rows(path)


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_a_damaged_parquet_file_is_an_error(tmp_path, keep):
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": list(range(1_000))}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)] or b"PAR1")
    with pytest.raises(DataError, match=r"events\.parquet: not a readable Parquet file"):
        open_table(path)


def test_a_parquet_file_damaged_in_the_middle_is_an_error(tmp_path):
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": list(range(100_000))}), path)
    whole = bytearray(path.read_bytes())
    whole[4:5_000] = b"\xff" * 4_996
    path.write_bytes(whole)
    with pytest.raises(DataError, match="damaged Parquet file"):
        rows(path)


def test_other_objects_are_refused_by_name():
    with pytest.raises(DataError, match="cannot read a table from dict; give a path"):
        open_table({"user": [1]})


def test_a_frame_that_mixes_types_in_a_column_is_an_error_that_names_it():
    with pytest.raises(DataError, match=r"mixes types.*column user"):
        open_table(pd.DataFrame({"user": [1, "a"], "item": [1, 2]}))


def encoded(values, typed=True):
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([pa.array(values)])
    codes, ids = encode_ids(column, "here", typed)
    assert codes.dtype == np.int32
    return [ids[code] for code in codes]


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "b"],
        ["007", "7"],
        [3, 1, 3],
        ["10", "9"],
        [-5, 0, 2**63 - 1],
    ],
)
def test_typed_ids_stay_what_they_are(values):
    assert encoded(values) == values


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["10", "9", "-3", "0"], [10, 9, -3, 0]),
        (["007", "8"], ["007", "8"]),
        (["1", "x"], ["1", "x"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["-0", "1"], ["-0", "1"]),
        (["1234567890123456789"], ["1234567890123456789"]),
        (["+1"], ["+1"]),
    ],
)
def test_ids_in_text_are_integers_only_if_they_can_be_written_back_the_same(written, meant):
    assert encoded(written, typed=False) == meant


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.large_string()),
        pa.dictionary(pa.int64(), pa.string()),
    ],
)
def test_every_kind_of_string_column_gives_the_same_ids(kind):
    column = pa.chunked_array([pa.array(["b", "a"]), pa.array(["c", "a"])]).cast(kind)
    assert encoded(column) == ["b", "a", "c", "a"]


def test_categories_that_are_not_used_do_no_harm():
    frame = pd.DataFrame({"user": pd.Categorical(["z", "a"], categories=["a", "m", "z"])})
    codes, ids = encode_ids(open_table(frame).read(["user"]).column("user"), "here")
    assert [ids[code] for code in codes] == ["z", "a"]
    polars = pl.DataFrame({"user": pl.Series(["z", "a"], dtype=pl.Categorical)})
    codes, ids = encode_ids(open_table(polars).read(["user"]).column("user"), "here")
    assert [ids[code] for code in codes] == ["z", "a"]


def test_integers_that_pandas_turned_to_floats_are_integers_again():
    assert encoded([1.0, 2.0]) == [1, 2]


@pytest.mark.parametrize(
    ("values", "row", "count"),
    [
        (["a", "", "b", ""], 2, 2),
        (["a", None], 2, 1),
        ([1.0, 2.0, float("nan")], 3, 1),
        (["nan", "b"], 1, 1),
        ([None, 5], 1, 1),
    ],
)
def test_missing_ids_are_an_error_with_the_first_row_and_how_many(values, row, count):
    with pytest.raises(DataError, match=rf"here: the id is empty in row {row} \({count} such rows"):
        encoded(values)


@pytest.mark.parametrize("values", [[1.5, 2.0], [float("inf")], [True], [b"x"]])
def test_ids_that_are_neither_strings_nor_integers_are_refused_with_the_place(values):
    with pytest.raises(DataError, match="here: ids"):
        encoded(values)


def number_column(*values):
    return pa.chunked_array([pa.array(list(values))])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (number_column(1, 2), [1, 2]),
        (number_column(1.5, 2.0), [1.5, 2]),
        (number_column("1.5", "2"), [1.5, 2]),
        (number_column(" 3 ", "1e1"), [3, 10]),
        (number_column("4", "5").dictionary_encode(), [4, 5]),
    ],
)
def test_numbers_are_read_from_numbers_and_from_text(column, expected):
    assert numbers(column, "here").tolist() == expected


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (number_column("4", "good"), "here: row 2 holds 'good', which is not a number"),
        (number_column("4", ""), "row 2 holds ''"),
        (number_column(4, None), "row 2 is empty"),
        (number_column(4.0, float("nan")), "row 2 is empty"),
        (number_column(None, "4"), "row 1 is empty"),
        (number_column(None, " 4 "), "row 1 is empty"),
    ],
)
def test_a_row_that_holds_no_number_is_named(column, message):
    with pytest.raises(DataError, match=message):
        numbers(column, "here")


def test_an_items_table_gives_ids_and_attributes_with_the_title_first(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("price,product_id,name\n1.5,a,Chair\n2,b,Desk\n")
    ids, columns = read_items(path)
    assert list(ids) == ["a", "b"]
    assert columns.to_pydict() == {"title": ["Chair", "Desk"], "price": [1.5, 2.0]}


def test_titles_are_text_even_if_all_of_them_are_numbers(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("id,title\n1,1984\n2,007\n")
    assert read_items(path)[1].to_pydict() == {"title": ["1984", "007"]}


def test_movies_dat_is_read_with_its_accents(tmp_path):
    path = tmp_path / "movies.dat"
    path.write_bytes('7::Amélie, "the" film (2001)::Comedy|Romance\n'.encode("latin-1"))
    ids, columns = read_items(path)
    assert list(ids) == [7]
    assert columns.to_pydict() == {"title": ['Amélie, "the" film (2001)'], "genres": ["Comedy|Romance"]}


def test_attributes_whose_names_are_taken_get_a_mark():
    table = pa.table({"item_id": ["a"], "id": [1], "Title": ["T"], "title": ["t"], "id_": [2]})
    assert read_items(table)[1].column_names == ["title", "id_", "title_", "id__"]


def test_an_items_table_may_have_nothing_but_ids():
    ids, columns = read_items(pa.table({"item": [1, 2]}))
    assert list(ids) == [1, 2]
    assert columns.num_columns == 0


def test_an_item_with_two_rows_is_an_error_that_names_it():
    with pytest.raises(DataError, match="item 'b' has more than one row in column 'item'"):
        read_items(pa.table({"item": ["a", "b", "c", "b"]}))
