"""Whatever a file holds, reading it gives interactions that account for every row, or an error that names the file."""

import csv
import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.interactions import Interactions
from macrid.data.labels import Labels
from macrid.data.tables import open_table, read_items
from macrid.errors import DataError

cells = st.one_of(
    st.integers(0, 9).map(str),
    st.sampled_from(["", "nan", "inf", "1e999", "²", "٣", "007", "9" * 400, "0x10", "1_0", '"', " ", "é", "x\ty"]),
    st.text(max_size=3),
)
tables = st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=8)
separators = st.sampled_from([",", "\t", ";", "|", "::"])
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
HEADER = ["user", "item", "rating"]


@st.composite
def damage(draw, content):
    """The content with a few bytes changed, inserted or missing."""
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content)))
        piece = draw(st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b"\n", b"\r", b",", b"\xe9", b"\0"])))
        content = content[:place] + piece + content[place + draw(st.integers(0, 3)) :]
    return content


@st.composite
def text_files(draw):
    mark = draw(separators)
    rows = [HEADER, *draw(tables)] if draw(st.booleans()) else draw(tables)
    out = io.StringIO()
    for row in rows:
        if mark == "::" or draw(st.booleans()):
            out.write(mark.join(row) + "\n")
        else:
            csv.writer(out, delimiter=mark, lineterminator="\n").writerow(row)
    return draw(damage(out.getvalue().encode(draw(encodings), "replace")))


columns = st.one_of(
    st.lists(st.one_of(st.none(), st.floats()), min_size=4, max_size=4).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=4, max_size=4).map(
        lambda v: pa.array(v, pa.int64())
    ),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=4, max_size=4).map(lambda v: pa.array(v, pa.string())),
    st.sampled_from(
        [pa.bool_(), pa.timestamp("s"), pa.list_(pa.int8()), pa.binary(), pa.decimal128(5, 2), pa.null()]
    ).map(lambda kind: pa.nulls(4, kind)),
)


@st.composite
def parquet_files(draw):
    names = draw(st.permutations([*HEADER, *draw(st.lists(st.sampled_from(["", "user", "id", "a.b"]), max_size=2))]))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([draw(columns) for _ in names], list(names)), sink, write_page_checksum=True)
    return draw(damage(sink.getvalue().to_pybytes()))


def read_or_refused(path, read):
    """What reading gives; None if it is refused, by name."""
    try:
        return read(path)
    except DataError as error:
        message = str(error)
    assert path.name in message
    return None


def check_reading(path, **how):
    data = read_or_refused(path, lambda path: Interactions.read(path, min_items=2, **how))
    if data is None:
        return
    report = data.report
    assert report.rows == len(data) + report.below_min_rating + report.duplicates + report.dropped_rows
    assert "" not in [str(user).strip("\0") for user in data.users]


@given(
    text_files(), st.sampled_from(["csv", "tsv", "dat"]), st.sampled_from([None, 2.0]),
    st.sampled_from([{}, dict(zip(HEADER, HEADER, strict=True)), dict(zip(HEADER, range(3), strict=True))]),
)  # fmt: skip
@settings(max_examples=150)
def test_a_text_file_is_read_to_the_last_row_or_refused_by_name(tmp_path_factory, content, suffix, min_rating, how):
    path = tmp_path_factory.mktemp("text") / f"events.{suffix}"
    path.write_bytes(content)
    check_reading(path, min_rating=min_rating, **how)


@given(parquet_files(), st.sampled_from([None, 2.0]))
@settings(max_examples=80)
def test_a_parquet_file_is_read_to_the_last_row_or_refused_by_name(tmp_path_factory, content, min_rating):
    path = tmp_path_factory.mktemp("parquet") / "events.parquet"
    path.write_bytes(content)
    check_reading(path, min_rating=min_rating)


@given(text_files())
@settings(max_examples=60)
def test_an_items_table_has_free_names_or_is_refused_by_name(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("items") / "items.csv"
    path.write_bytes(content.replace(b"rating", b"popularity").replace(b"user", b"id"))
    items = read_or_refused(path, read_items)
    if items is not None:
        assert len({*items.columns.column_names, "id", "popularity", ""}) == items.columns.num_columns + 3


@given(text_files())
@settings(max_examples=60)
def test_labels_are_finite_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_bytes(content.replace(b"user", b"concept"))
    items = Interactions.read(pa.table({"user": [1, 1, 1], "item": ["1", "2", "3"]}), min_items=1).items
    try:
        labels = Labels.read(path, items, 7, 4)
    except DataError:
        return
    assert not any(math.isinf(value) for values in labels.attributes.values() for value in values)


@pytest.mark.parametrize("bad", ["inf", "-inf", "1e999", "nan", "²", "٣", "1_000", "0x10", "9" * 400])
def test_a_rating_that_is_no_finite_number_is_refused_with_its_row_and_line(tmp_path, bad):
    path = tmp_path / "e.csv"
    path.write_text(f"user,item,rating\n1,2,5\n1,3,{bad}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"e\.csv, column 'rating': row 2 \(line 3\) is "):
        Interactions.read(path, min_rating=1)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, None])
def test_ratings_of_frames_and_parquet_must_be_finite_too(tmp_path, bad):
    table = pa.table({"user": [1, 1], "item": [2, 3], "rating": pa.array([5.0, bad])})
    pq.write_table(table, tmp_path / "e.parquet")
    for source, name in ((table, "frame"), (tmp_path / "e.parquet", r"e\.parquet")):
        with pytest.raises(DataError, match=rf"{name}, column 'rating': row 2 is "):
            Interactions.read(source, min_rating=1)


def test_text_in_parquet_that_is_not_utf_8_is_refused_with_its_row(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 1, 3], pa.int32()).buffers()[1], pa.py_buffer(b"ab\xff")]
    )
    pq.write_table(pa.table({"user": bad, "item": [1, 2]}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match=r"e\.parquet, column 'user': row 2 is not UTF-8"):
        Interactions.read(tmp_path / "e.parquet")


@pytest.mark.parametrize("header", ["UserID::MovieID::Rating::Timestamp", "user_id::item_id::rating::time"])
def test_the_header_of_a_double_colon_file_is_recognised(tmp_path, header):
    rows = "".join(f"{user}::{item}::5::0\n" for user in range(2) for item in range(5))
    (tmp_path / "bare.dat").write_text(rows)
    (tmp_path / "headed.dat").write_text(f"{header}\n{rows}")
    bare, headed = (Interactions.read(tmp_path / name, min_rating=4) for name in ("bare.dat", "headed.dat"))
    assert headed.report.rows == bare.report.rows == 10
    assert list(headed.users) == list(bare.users) == [0, 1]
    assert headed.report.user_column == header.split("::")[0]


def test_column_numbers_for_a_file_that_has_a_header_are_refused(tmp_path):
    (tmp_path / "e.csv").write_text("userId,itemId\n1,2\n")
    with pytest.raises(DataError, match=r"e\.csv: starts with a header, 'userId', 'itemId'"):
        Interactions.read(tmp_path / "e.csv", user=0, item=1)


@pytest.mark.parametrize("ids", [["007", "7"], ["٣١٨", "318"], ["1", "²"], ["+1", "1"], ["9" * 400, "1"]])
def test_ids_that_look_alike_stay_apart(tmp_path, ids):
    path = tmp_path / "e.csv"
    path.write_text("user,item\n" + "".join(f"u,{item}\n" for item in ids), encoding="utf-8")
    data = Interactions.read(path, min_items=1)
    assert list(data.items) == ids
    assert [data.items.parse(item) for item in ids] == ids


def test_floats_too_large_to_be_distinct_are_no_ids():
    with pytest.raises(DataError, match="run together"):
        Interactions.read(pa.table({"user": [2.0**53, 1.0], "item": [1, 2]}))


def test_columns_without_a_name_or_with_the_name_of_another_get_one(tmp_path):
    (tmp_path / "e.csv").write_text(",user,item,x,x\n0,1,2,3,4\n")
    table = open_table(tmp_path / "e.csv")
    assert table.columns == ["column0", "user", "item", "x", "x_"]
    assert table.read(table.columns).to_pydict() == {"column0": [0], "user": [1], "item": [2], "x": [3], "x_": [4]}


@pytest.mark.parametrize("source", ["csv", "parquet", "frame"])
def test_a_column_that_exists_twice_cannot_be_chosen(tmp_path, source):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["user", "item", "user"])
    path = tmp_path / f"e.{source}"
    if source == "parquet":
        pq.write_table(table, path)
    elif source == "csv":
        path.write_text("user,item,user\n1,2,3\n")
    with pytest.raises(DataError, match="several columns are called 'user'"):
        Interactions.read(table if source == "frame" else path)


def test_names_that_prepared_folders_and_runs_need_are_taken_from_no_table(tmp_path):
    (tmp_path / "items.csv").write_text("item,popularity,popularity_,id,,name\n" + "1,a,b,c,d,e\n")
    events = pa.table({"user": [1], "item": [1]})
    data = Interactions.read(events, min_items=1, items=tmp_path / "items.csv")
    assert data.table.column_names == ["title", "popularity_", "popularity__", "id_", "column4"]
    assert "items.csv: column 'popularity' renamed to 'popularity_'" in str(data.report)
    by_hand = Interactions(data.matrix, data.users, data.items, pa.table({"popularity": [1], "id": [2]}))
    assert by_hand.table.column_names == ["popularity_", "id_"]


def test_a_matrix_beyond_what_positions_can_hold_is_refused():
    import scipy.sparse as sp

    matrix = sp.coo_array(([1.0], ([0], [2**31])), shape=(1, 2**31 + 1))
    with pytest.raises(DataError, match="2,147,483,649"):
        Interactions.read(matrix)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_threshold_that_is_no_number_is_refused(value):
    with pytest.raises(DataError, match="min_rating is"):
        Interactions.read(pa.table({"user": [1], "item": [1], "rating": [1]}), min_rating=value)
