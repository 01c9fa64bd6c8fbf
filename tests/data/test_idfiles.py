"""Files of ids: lines or tables, and what is wrong with others."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from macrid.data.idfiles import read_ids
from macrid.errors import DataError


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("out.txt", b"a\n b \r\n\na\n007", ("a", "b", "007")),
        ("out", b"x,y\n", ("x,y",)),
        ("out.txt", "\ufeffé\n".encode(), ("é",)),
        ("out.txt", "é\n".encode("latin-1"), ("é",)),
        ("out.txt", b"", ()),
        ("out.csv", b"", ()),
        ("out.csv", b"sku,stock\na,0\nb,0\na,0\n", ("a", "b")),
        ("out.tsv", b"stock\titem_id\n0\t7\n", (7,)),
    ],
)
def test_ids_are_lines_or_the_item_column_of_a_table(tmp_path, name, content, ids):
    (tmp_path / name).write_bytes(content)
    assert read_ids(tmp_path / name) == ids


def test_ids_of_a_parquet_file_keep_their_type(tmp_path):
    pq.write_table(pa.table({"item": [3, 4]}), tmp_path / "out.parquet")
    assert read_ids(tmp_path / "out.parquet") == (3, 4)


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "out.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"out.csv: no column looks like the item"):
        read_ids(tmp_path / "out.csv")
    with pytest.raises(DataError, match=r"none.txt: no such file"):
        read_ids(tmp_path / "none.txt")
    with pytest.raises(DataError, match="is a folder"):
        read_ids(tmp_path)
    (tmp_path / "zeros.txt").write_bytes(b"a\0b\n")
    with pytest.raises(DataError, match=r"zeros.txt"):
        read_ids(tmp_path / "zeros.txt")
