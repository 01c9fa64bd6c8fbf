"""Labels in every form that they may have, and what is said about those that cannot be used."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from macrid.data.ids import Ids
from macrid.data.labels import Labels
from macrid.errors import DataError

ITEMS = Ids(["a", "b", "c", "d", "e"])
GIVEN = {"concept": {"a": "shoes", "c": "bags", "d": "shoes"}, "size": {"a": 3.0, "e": 1.5}}


def read(source, items=ITEMS, concepts=3, dim=4):
    return Labels.read(source, items, concepts, dim)


def frame():
    return pa.table(
        {"item": ["d", "a", "c", "e"], "concept": ["shoes", "shoes", "bags", None], "size": [None, 3.0, None, 1.5]}
    )


def same(found, expected):
    np.testing.assert_array_equal(found.concept, expected.concept)
    assert found.concept_names == expected.concept_names
    assert list(found.attributes) == list(expected.attributes)
    for name, values in expected.attributes.items():
        np.testing.assert_array_equal(found.attributes[name], values)
    assert found.digest() == expected.digest()


def test_a_mapping_is_put_in_the_order_of_the_items_with_gaps():
    found = read(GIVEN)
    np.testing.assert_array_equal(found.concept, [1, -1, 0, 1, -1])
    assert found.concept_names == ("bags", "shoes")
    np.testing.assert_array_equal(found.attributes["size"], [3.0, np.nan, np.nan, np.nan, 1.5])
    np.testing.assert_array_equal(found.known, [True, False, True, True, False])


def test_tables_and_files_say_the_same_as_a_mapping(tmp_path):
    expected, table = read(GIVEN), frame()
    same(read(table), expected)
    same(read(table.to_pandas()), expected)
    same(read(pl.from_arrow(table)), expected)
    pa.parquet.write_table(table, tmp_path / "labels.parquet")
    same(read(tmp_path / "labels.parquet"), expected)
    (tmp_path / "labels.csv").write_text("item,concept,size\nd,shoes,\na,shoes,3\nc,bags,\ne,,1.5\n")
    same(read(tmp_path / "labels.csv"), expected)


def test_the_first_column_holds_ids_if_none_is_called_so():
    table = frame()
    same(read(table.rename_columns(["what", "concept", "size"])), read(GIVEN))


def test_integers_and_categories_are_labels_and_floats_of_pandas_are_integers():
    table = pd.DataFrame({"id": ["a", "b", "c"], "concept": [4.0, None, 2.0]})
    assert read(table).concept_names == (2, 4)
    table = pd.DataFrame({"id": ["a", "b", "c"], "concept": pd.Categorical(["x", None, "y"])})
    assert read(table).concept_names == ("x", "y")
    assert read({"concept": {"a": np.int64(4), "b": 2}}).concept_names == (2, 4)


def test_integer_ids_are_found_by_text_and_the_other_way_round(tmp_path):
    (tmp_path / "labels.csv").write_text("id,size\n7,1\n8,2\n")
    for items in (Ids([7, 8, 9]), Ids(["7", "8", "x"])):
        np.testing.assert_array_equal(read(tmp_path / "labels.csv", items).attributes["size"][:2], [1, 2])
    np.testing.assert_array_equal(read({"size": {7: 1, 8: 2}}, Ids(["7", "8"])).attributes["size"], [1, 2])


def test_the_same_label_twice_is_no_contradiction():
    table = pa.table({"id": ["a", "a", "b"], "concept": ["x", "x", "y"]})
    assert read(table).concept_names == ("x", "y")


def test_other_labels_have_another_digest():
    digests = {
        read(source).digest()
        for source in (
            GIVEN,
            {"concept": GIVEN["concept"]},
            {**GIVEN, "size": {"a": 3.0, "e": 1.0}},
            {**GIVEN, "size": {"a": 3.0, "d": 1.5}},
            {"concept": {**GIVEN["concept"], "c": "boots"}, "size": GIVEN["size"]},
            {"concept": GIVEN["concept"], "width": GIVEN["size"]},
        )
    }
    assert len(digests) == 6


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, ["there are none", "'concept'"]),
        ({"a": "shoes"}, ["'a' holds 'shoes'", "mapping from item to value"]),
        ({"concept": ["a", "b"]}, ["'concept' holds ['a', 'b']"]),
        ({"concept": {"a": "x", "q": "y", "r": "y"}}, ["2 of 3", "'q', 'r'", "strings such as 'a'", "leave their"]),
        ({"size": {1: 2.0, 2: 3.0}}, ["2 of 2", "'1', '2'", "strings such as"]),
        (pa.table({"id": ["a", "b", "a"], "concept": ["x", "y", "z"]}), ["item 'a'", "'x' and 'z'", "keep one"]),
        (pa.table({"id": ["a", "b", "a"], "size": [1.0, 2.0, 3.0]}), ["'size'", "item 'a'", "1.0 and 3.0"]),
        ({"concept": dict(zip("abcd", "wxyz", strict=True))}, ["4 different", "'w', 'x', 'y'", "has 3 concepts"]),
        ({"concept": {"a": "x"}}, ["only one item", "at least 2"]),
        ({"concept": {"a": "x", "b": "x"}}, ["all 2 are 'x'", "two different"]),
        ({"concept": {"a": 1.5, "b": "x"}}, ["item 'a' has 1.5", "string or an integer"]),
        ({"concept": {"a": True, "b": False}}, ["item 'a' has True", "string or an integer"]),
        ({"concept": {"a": 1, "b": "x"}}, ["'x' is a string, 1 is not"]),
        ({"size": {"a": 2, "b": 2}}, ["'size'", "all 2 values are 2", "leave it out"]),
        ({"size": {}}, ["'size'", "no item has a label"]),
        ({"size": {"a": None, "b": None}}, ["'size'", "no item has a label"]),
        ({"size": {"a": "large", "b": 2}}, ["item 'a' has 'large'", "not a finite number", "'concept'"]),
        ({"size": {"a": math.nan, "b": 2}}, ["item 'a' has nan"]),
        ({"size": {"a": math.inf, "b": 2}}, ["item 'a' has inf"]),
        ({name: {"a": 1, "b": 2} for name in "pqrst"}, ["5 attributes ('p', 'q', 'r' and 2 more)", "4 dimensions"]),
        (pa.table({"id": ["a", "b"]}), ["'id' only"]),
        (pa.table({"id": ["a", "b"], "size": [[1], [2]]}), ["'size'", "lists"]),
        (7, ["cannot read a table from int"]),
    ],
)
def test_what_cannot_be_used_is_named_with_what_is_allowed(source, words):
    with pytest.raises(DataError) as error:
        read(source)
    for word in words:
        assert word in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        read(tmp_path / "none.csv")
