import bz2
import gzip
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from macrid.data.columns import encode_ids, numbers
from macrid.data.interactions import Interactions
from macrid.data.tables import ITEM_NAMES, RATING_NAMES, USER_NAMES, open_table, read_items
from macrid.errors import DataError


def rows(path, columns=None, text=(), **how):
    table = open_table(path, **how)
    return table.read(columns or table.columns, text=text).to_pydict()


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
def test_common_column_names_are_found_however_they_are_spelled(columns, user, item, rating):
    table = open_table(pa.table({name: [1] for name in columns}))
    assert table.find(None, USER_NAMES, "user") == user
    assert table.find(None, ITEM_NAMES, "item") == item
    assert table.guess(RATING_NAMES) == rating


@pytest.mark.parametrize(
    ("column", "named"), [("user", "'user'.*'who', 'what'"), (None, "--user-col.*'who', 'what'"), (5, "5.* 2 columns")]
)
def test_a_missing_column_is_an_error_that_lists_the_columns(tmp_path, column, named):
    path = tmp_path / "events.csv"
    path.write_text("who,what\n1,2\n")
    with pytest.raises(DataError, match=rf"events\.csv: .*{named}"):
        open_table(path).find(column, USER_NAMES, "user")


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("tsv", "\t"), ("csv", ";"), ("txt", "|"), ("data", "\t")])
def test_the_delimiter_is_detected(tmp_path, ending, mark):
    path = tmp_path / f"events.{ending}"
    path.write_text(f"a{mark}b\n1{mark}2\n")
    assert rows(path) == {"a": [1], "b": [2]}


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("text", ["user,item\n007,x\n", "007::x\n"])
def test_compressed_files_are_read(tmp_path, ending, pack, text):
    path = tmp_path / f"events.dat.{ending}"
    path.write_bytes(pack(text.encode()))
    assert rows(path, ["user", "item"], text=["user", "item"]) == {"user": ["007"], "item": ["x"]}


@pytest.mark.parametrize(("name", "pack"), [("events.tsv", bytes), ("events.tsv.gz", gzip.compress)])
def test_a_tab_separated_file_may_have_commas_in_its_header(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack(b"a,b,c\td\n1\t2\n"))
    assert rows(path) == {"a,b,c": [1], "d": [2]}


def test_a_file_without_a_header_gets_default_names(tmp_path):
    path = tmp_path / "u.data"
    path.write_text("1\t2\t3\t4\t5\n")
    assert rows(path, header=False) == {"user": [1], "item": [2], "rating": [3], "timestamp": [4], "column4": [5]}


def test_byte_order_marks_and_windows_line_endings_are_ignored(tmp_path):
    path = tmp_path / "events.csv"
    path.write_bytes(b"\xef\xbb\xbfuser,item\r\n1,2\r\n")
    assert rows(path) == {"user": [1], "item": [2]}


def test_a_quoted_cell_may_contain_delimiters_quotes_and_newlines(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text('id,title\n1,"one, ""two""\nthree"\n')
    assert rows(path) == {"id": [1], "title": ['one, "two"\nthree']}


def test_newlines_in_unread_cells_do_no_harm_in_a_large_file(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text('user,item,review\n1,2,"a\n"\n' + '3,4,"a\nb\nc"\n' * 800_000)
    table = open_table(path)
    assert path.stat().st_size > 8 << 20
    assert table.read(["user", "item"]).num_rows == 800_001


@pytest.mark.parametrize("header", ["id,title", "número,título"])
def test_latin_1_is_read_where_utf_8_fails_even_in_headers_and_ids(tmp_path, header):
    path = tmp_path / "items.csv"
    path.write_bytes(f"{header}\nZoë,Amélie\n".encode("latin-1"))
    key, title = header.split(",")
    assert rows(path, text=[key]) == {key: ["Zoë"], title: ["Amélie"]}


def test_a_missing_file_is_an_error_that_shows_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"nothing\.csv: .*{tmp_path}"):
        open_table("nothing.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_an_error(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item\n1,2\n")
    path.chmod(0)
    with pytest.raises(DataError, match=r"events\.csv"):
        open_table(path)


def test_a_folder_and_a_path_through_a_file_are_errors(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "events.csv"):
        with pytest.raises(DataError, match=f"{path}: "):
            open_table(path)
    with pytest.raises(DataError, match="is a folder; give one file or, in Python, a frame with the rows of all files"):
        Interactions.read(tmp_path)


NOT_TEXT = ["user,item\n1\n".encode("utf-16-le"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"]


@pytest.mark.parametrize("content", [b"", b"\n", b"  \n1,2\n", b"\xef\xbb\xbf", *NOT_TEXT])
def test_a_file_that_is_empty_or_not_text_is_an_error(tmp_path, content):
    path = tmp_path / "events.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"events\.csv(, line \d)?: "):
        open_table(path)


def test_a_row_with_too_few_cells_is_named_by_its_number(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item\n" + "1,2\n" * 4_999 + "17\n" + "1,2\n" * 1_000)
    with pytest.raises(DataError, match=r"row 5,000 \(line 5,001\): .*17"):
        rows(path)


def test_a_truncated_compressed_file_is_an_error(tmp_path):
    path = tmp_path / "events.csv.gz"
    random = np.random.default_rng(0).integers(0, 10**9, 200_000)
    path.write_bytes(gzip.compress(("user,item\n" + "".join(f"{n},1\n" for n in random)).encode())[:-1_000])
    with pytest.raises(DataError, match=r"events\.csv\.gz: "):
        rows(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: b"PAR1",
        lambda whole: whole[:4] + b"\xff" * 4_996 + whole[5_000:],
    ],
)
def test_a_damaged_parquet_file_is_an_error(tmp_path, damage):
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": list(range(100_000))}), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"events\.parquet: "):
        rows(path)


def test_other_objects_are_refused_by_type():
    with pytest.raises(DataError, match="dict"):
        open_table({"user": [1]})


def test_mixed_types_in_a_column_are_an_error_that_names_it():
    with pytest.raises(DataError, match="column user"):
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
def test_typed_ids_keep_their_type(values):
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
def test_ids_in_text_are_integers_only_if_they_round_trip(written, meant):
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
def test_every_type_of_string_column_gives_the_same_ids(kind):
    column = pa.chunked_array([pa.array(["b", "a"]), pa.array(["c", "a"])]).cast(kind)
    assert encoded(column) == ["b", "a", "c", "a"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"user": pd.Categorical(["z", "a"], categories=["a", "m", "z"])}),
        pl.DataFrame({"user": pl.Series(["z", "a"], dtype=pl.Categorical)}),
    ],
)
def test_unused_categories_do_no_harm(frame):
    assert encoded(open_table(frame).read(["user"]).column("user")) == ["z", "a"]


def test_floats_from_pandas_become_integers_again():
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
def test_missing_ids_are_an_error_with_the_first_row_and_their_number(values, row, count):
    with pytest.raises(DataError, match=rf"here: row {row} .*\({count} "):
        encoded(values)


@pytest.mark.parametrize("values", [[1.5, 2.0], [float("inf")], [True], [b"x"]])
def test_ids_of_other_types_are_refused_with_their_place(values):
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
def test_numbers_are_read_from_numbers_and_text(column, expected):
    assert numbers(column, "here").tolist() == expected


@pytest.mark.parametrize(
    ("column", "place"),
    [
        (number_column("4", "good"), "row 2 is 'good'"),
        (number_column("4", ""), "row 2 is ''"),
        (number_column(4, None), "row 2 "),
        (number_column(4.0, float("nan")), "row 2 "),
        (number_column(None, "4"), "row 1 "),
        (number_column(None, " 4 "), "row 1 "),
    ],
)
def test_a_row_without_a_number_is_named(column, place):
    with pytest.raises(DataError, match=f"here: {place}"):
        numbers(column, "here")


def test_an_items_table_has_ids_and_attributes_with_the_title_first(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("price,product_id,name\n1.5,a,Chair\n2,b,Desk\n")
    ids, columns, _ = read_items(path)
    assert list(ids) == ["a", "b"]
    assert columns.to_pydict() == {"title": ["Chair", "Desk"], "price": [1.5, 2.0]}


def test_titles_are_text_even_if_all_are_numbers(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("id,title\n1,1984\n2,007\n")
    assert read_items(path)[1].to_pydict() == {"title": ["1984", "007"]}


def test_movies_dat_is_read_with_its_accents(tmp_path):
    path = tmp_path / "movies.dat"
    path.write_bytes('7::Amélie, "the" film (2001)::Comedy|Romance\n'.encode("latin-1"))
    ids, columns, _ = read_items(path)
    assert list(ids) == [7]
    assert columns.to_pydict() == {"title": ['Amélie, "the" film (2001)'], "genres": ["Comedy|Romance"]}


def test_the_encoding_of_events_is_not_forced_on_items_in_utf8(tmp_path):
    for encoding in ("utf-8", "utf-8-sig", "latin-1"):
        (tmp_path / "items.csv").write_text("item,title\n1,Amélie\n", encoding=encoding)
        assert read_items(tmp_path / "items.csv", encoding="latin-1").columns["title"].to_pylist() == ["Amélie"]


def test_a_header_cell_too_long_for_a_name_is_refused(tmp_path):
    (tmp_path / "e.csv").write_text("user," + "x" * 200_000 + "\n1,2\n")
    with pytest.raises(DataError, match=r"e\.csv, line 1: not the header"):
        open_table(tmp_path / "e.csv")


def test_attributes_with_reserved_names_get_an_underscore_and_that_is_noted():
    table = pa.table({"item_id": ["a"], "id": [1], "Title": ["T"], "title": ["t"], "id_": [2], "popularity": [3]})
    _, columns, notes = read_items(table)
    assert columns.column_names == ["title", "id_", "title_", "id__", "popularity_"]
    assert "frame: column 'popularity' renamed to 'popularity_'" in notes


def test_an_items_table_may_have_only_ids():
    ids, columns, _ = read_items(pa.table({"item": [1, 2]}))
    assert list(ids) == [1, 2]
    assert columns.num_columns == 0


def test_an_item_with_two_rows_is_an_error_that_names_it():
    with pytest.raises(DataError, match=r"'b' .*'item'"):
        read_items(pa.table({"item": ["a", "b", "c", "b"]}))
