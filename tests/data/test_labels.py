"""Labels in every accepted form, and the errors for those that cannot be used."""

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
LABELS = {"concept": {"a": "shoes", "c": "bags", "d": "shoes"}, "size": {"a": 3.0, "e": 1.5}}


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


def test_a_mapping_is_ordered_by_item_with_gaps():
    found = read(LABELS)
    np.testing.assert_array_equal(found.concept, [1, -1, 0, 1, -1])
    assert found.concept_names == ("bags", "shoes")
    np.testing.assert_array_equal(found.attributes["size"], [3.0, np.nan, np.nan, np.nan, 1.5])
    np.testing.assert_array_equal(found.known, [True, False, True, True, False])


def test_tables_and_files_read_like_a_mapping(tmp_path):
    expected, table = read(LABELS), frame()
    same(read(table), expected)
    same(read(table.to_pandas()), expected)
    same(read(pl.from_arrow(table)), expected)
    pa.parquet.write_table(table, tmp_path / "labels.parquet")
    same(read(tmp_path / "labels.parquet"), expected)
    (tmp_path / "labels.csv").write_text("item,concept,size\nd,shoes,\na,shoes,3\nc,bags,\ne,,1.5\n")
    same(read(tmp_path / "labels.csv"), expected)


def test_the_first_column_holds_ids_if_no_name_says_so():
    table = frame()
    same(read(table.rename_columns(["what", "concept", "size"])), read(LABELS))


def test_concept_labels_may_be_integers_categories_or_pandas_floats():
    table = pd.DataFrame({"id": ["a", "b", "c"], "concept": [4.0, None, 2.0]})
    assert read(table).concept_names == (2, 4)
    table = pd.DataFrame({"id": ["a", "b", "c"], "concept": pd.Categorical(["x", None, "y"])})
    assert read(table).concept_names == ("x", "y")
    assert read({"concept": {"a": np.int64(4), "b": 2}}).concept_names == (2, 4)


def test_integer_ids_match_text_and_vice_versa(tmp_path):
    (tmp_path / "labels.csv").write_text("id,size\n7,1\n8,2\n")
    for items in (Ids([7, 8, 9]), Ids(["7", "8", "x"])):
        np.testing.assert_array_equal(read(tmp_path / "labels.csv", items).attributes["size"][:2], [1, 2])
    np.testing.assert_array_equal(read({"size": {7: 1, 8: 2}}, Ids(["7", "8"])).attributes["size"], [1, 2])


def test_a_repeated_label_is_not_a_contradiction():
    table = pa.table({"id": ["a", "a", "b"], "concept": ["x", "x", "y"]})
    assert read(table).concept_names == ("x", "y")


def test_different_labels_have_different_digests():
    digests = {
        read(source).digest()
        for source in (
            LABELS,
            {"concept": LABELS["concept"]},
            {**LABELS, "size": {"a": 3.0, "e": 1.0}},
            {**LABELS, "size": {"a": 3.0, "d": 1.5}},
            {"concept": {**LABELS["concept"], "c": "boots"}, "size": LABELS["size"]},
            {"concept": LABELS["concept"], "width": LABELS["size"]},
        )
    }
    assert len(digests) == 6


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ({}, ["labels"]),
        ({"a": "shoes"}, ["'a'", "'shoes'"]),
        ({"concept": ["a", "b"]}, ["'concept'", "['a', 'b']"]),
        ({"concept": {"a": "x", "q": "y", "r": "y"}}, ["2 of 3", "'q', 'r'", "strings such as 'a'"]),
        ({"size": {1: 2.0, 2: 3.0}}, ["2 of 2", "'1', '2'", "strings such as 'a'"]),
        (pa.table({"id": ["a", "b", "a"], "concept": ["x", "y", "z"]}), ["'concept'", "'a'", "'x' and 'z'"]),
        (pa.table({"id": ["a", "b", "a"], "size": [1.0, 2.0, 3.0]}), ["'size'", "'a'", "1.0 and 3.0"]),
        ({"concept": dict(zip("abcd", "wxyz", strict=True))}, ["'concept': 4", "'w', 'x', 'y'", "3"]),
        ({"concept": {"a": "x"}}, ["'concept'", "one"]),
        ({"concept": {"a": "x", "b": "x"}}, ["'concept'", "'x'"]),
        ({"concept": {"a": 1.5, "b": "x"}}, ["'concept'", "'a'", "1.5"]),
        ({"concept": {"a": True, "b": False}}, ["'concept'", "'a'", "True"]),
        ({"concept": {"a": 1, "b": "x"}}, ["'concept'", "'x'", "1"]),
        ({"size": {"a": 2, "b": 2}}, ["'size'", "2 values are 2"]),
        ({"size": {}}, ["'size'"]),
        ({"size": {"a": None, "b": None}}, ["'size'"]),
        ({"size": {"a": "large", "b": 2}}, ["'size'", "'a'", "'large'"]),
        ({"size": {"a": math.nan, "b": 2}}, ["'size'", "'a'", "nan"]),
        ({"size": {"a": math.inf, "b": 2}}, ["'size'", "'a'", "inf"]),
        ({name: {"a": 1, "b": 2} for name in "pqrst"}, ["5 attributes ('p', 'q', 'r' and 2 more)", "4"]),
        (pa.table({"id": ["a", "b"]}), ["'id'"]),
        (pa.table({"id": ["a", "b"], "size": [[1], [2]]}), ["'size'", "lists"]),
        (7, ["int"]),
        ("none.csv", ["none.csv"]),
    ],
)
def test_unusable_labels_are_an_error_that_names_them(source, values):
    with pytest.raises(DataError) as error:
        read(source)
    for value in values:
        assert value in str(error.value)
