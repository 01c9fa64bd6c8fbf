"""Rows of items tables as vectors."""

import numpy as np
import pyarrow as pa
import pytest

from macrid.cold.features import Features, conformed
from macrid.errors import DataError

TABLE = pa.table(
    {
        "title": ["red bag", "blue bag", "red mug", None],
        "price": [10.0, 20.0, 30.0, None],
        "kind": ["bag", "bag", "mug", "mug"],
        "tags": ["a|b", "a", "b", "a"],
        "same": ["x", "x", "x", "x"],
    }
)


def test_the_inner_product_of_two_items_is_the_share_of_columns_in_which_they_agree():
    features = Features.fit(TABLE)
    assert features.names == ("title", "price", "kind", "tags")
    x, known = features.of(TABLE)
    products = (x @ x.T).toarray()
    assert np.allclose(products.diagonal(), 1)
    assert known.tolist()[3] == [False, False, True, True]
    assert products[2, 3] > products[0, 3] > 0  # they are both mugs; the first has a tag of the last
    assert (products <= 1 + 1e-9).all()


def test_numbers_are_alike_when_they_are_close_and_stop_at_the_ends():
    features = Features.fit(pa.table({"price": [float(value) for value in range(11)]}))
    x, _ = features.of(pa.table({"price": [3.0, 3.5, 9.0, 100.0, 10.0]}))
    products = (x @ x.T).toarray()
    assert products[0, 1] > products[0, 2] == 0
    assert products[3, 4] == pytest.approx(1)


def test_unknown_values_and_missing_columns_say_nothing():
    x, known = Features.fit(TABLE).of(pa.table({"kind": ["hat", "bag"]}))
    assert known.tolist() == [[False] * 4, [False, False, True, False]]
    assert x[[0]].nnz == 0


def test_new_items_get_the_columns_and_types_of_the_trained_ones():
    table, unknown = conformed(
        pa.table({"price": [5, 6], "tags": [["a", "c"], None], "ean": [1, 2]}), TABLE.schema, "new.csv"
    )
    assert unknown == ["ean"]
    assert table.schema.names == TABLE.schema.names
    assert table.column("price").to_pylist() == [5.0, 6.0]
    assert table.column("tags").to_pylist() == ["a|c", None]
    assert table.column("title").null_count == 2


def test_a_text_where_training_had_numbers_names_row_and_column():
    with pytest.raises(DataError, match=r"new\.csv, row 2: 'price' is 'cheap'.*a number"):
        conformed(pa.table({"price": ["5", "cheap"]}), TABLE.schema, "new.csv")


def test_whole_numbers_may_become_decimal_ones():
    schema = pa.schema([("price", pa.int64())])
    table, _ = conformed(pa.table({"price": [9.5]}), schema, "new.csv")
    assert table.column("price").to_pylist() == [9.5]
