"""Every column type in every role, from Parquet and from frames: read, or named in one line."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import macrid
from macrid.data.attributes import read_attributes
from macrid.errors import DataError

ROWS = 60
KINDS = [row % 6 for row in range(ROWS)]  # six values, ten times each
UUIDS = [uuid.UUID(int=2**100 + kind) for kind in KINDS]
DAYS = [dt.datetime(2026, 1, kind + 1) for kind in KINDS]
TEXTS = [f"v{kind}" for kind in KINDS]
BYTES = [b"v%d" % kind for kind in KINDS]
TYPE, FRACTIONS, AS_BYTES = "use strings or integers", "ids have fractions", "ids are bytes"
LISTS, FIELD, NUMBER = "contains lists; give one row per", "choose one field", "which is not a number"
LEFT_OUT = "left out: items have no attributes of type"
OK = None


def extension(kind, storage):
    return pa.ExtensionArray.from_storage(kind, storage)


def decimals(kind=None, more="0"):
    return pa.array([Decimal(kind_) + Decimal(more) for kind_ in KINDS], kind)


UUID_ARRAY = extension(pa.uuid(), pa.array([value.bytes for value in UUIDS], pa.binary(16)))
# name: column, as ids, as ratings, as an attribute: its type, or what is said; None where all is well
COLUMNS = {
    "integers": (pa.array(KINDS, pa.int8()), OK, OK, "int8"),
    "large integers": (pa.array([2**63 + kind for kind in KINDS], pa.uint64()), "do not fit in 64 bits", OK, "uint64"),
    "half floats": (pa.array(np.array(KINDS, np.float16)), OK, OK, "float"),
    "booleans": (pa.array([kind % 2 == 0 for kind in KINDS]), TYPE, OK, "bool"),
    "booleans of 8 bits": (extension(pa.bool8(), pa.array([kind % 2 for kind in KINDS], pa.int8())), TYPE, OK, "bool"),
    "text": (pa.array(TEXTS), OK, NUMBER, "string"),
    "large text": (pa.array(TEXTS, pa.large_string()), OK, NUMBER, "large_string"),
    "text views": (pa.array(TEXTS, pa.string_view()), OK, NUMBER, "large_string"),
    "dictionary": (pa.array(TEXTS).dictionary_encode(), OK, NUMBER, "dictionary<values=large_string"),
    "dictionary of integers": (pa.array(KINDS).dictionary_encode(), OK, OK, "int64"),
    "dictionary of bytes": (pa.array(BYTES).dictionary_encode(), AS_BYTES, NUMBER, LEFT_OUT),
    "dictionary of dates": (pa.array(DAYS).dictionary_encode(), TYPE, NUMBER, "timestamp[us]"),
    "run ends": (pa.RunEndEncodedArray.from_arrays(range(1, ROWS + 1), KINDS), OK, OK, "int64"),
    "UUID": (UUID_ARRAY, OK, NUMBER, "string"),
    "JSON": (extension(pa.json_(), pa.array(['{"a": 1}', '{"a": 2}'] * 30)), OK, NUMBER, "string"),
    "whole decimals": (decimals(pa.decimal128(20, 2)), OK, OK, "double"),
    "decimals without fraction": (decimals(pa.decimal256(60, 0)), OK, OK, "int64"),
    "decimals": (decimals(more="0.25"), FRACTIONS, OK, "double"),
    "long decimals": (pa.array([Decimal(kind * 10**30) for kind in KINDS]), "beyond 64 bits", OK, "double"),
    "bytes": (pa.array(BYTES), AS_BYTES, NUMBER, LEFT_OUT),
    "large bytes": (pa.array(BYTES, pa.large_binary()), AS_BYTES, NUMBER, LEFT_OUT),
    "byte views": (pa.array(BYTES, pa.binary_view()), AS_BYTES, NUMBER, LEFT_OUT),
    "fixed bytes": (pa.array(BYTES, pa.binary(2)), AS_BYTES, NUMBER, LEFT_OUT),
    "timestamps": (pa.array(DAYS), TYPE, NUMBER, "timestamp[us]"),
    "timestamps with a zone": (pa.array(DAYS, pa.timestamp("ms", "Europe/Paris")), TYPE, NUMBER, "timestamp[ms, tz="),
    "nanoseconds": (pa.array([kind * 10**9 + 1 for kind in KINDS], pa.timestamp("ns")), TYPE, NUMBER, "timestamp[us]"),
    "dates": (pa.array([day.date() for day in DAYS]), TYPE, NUMBER, "date32[day]"),
    "times of day": (pa.array([dt.time(kind) for kind in KINDS]), TYPE, NUMBER, "string"),
    "durations": (pa.array([dt.timedelta(hours=kind) for kind in KINDS]), TYPE, NUMBER, "double"),
    "intervals": (pa.array([(1, kind, 1) for kind in KINDS], pa.month_day_nano_interval()), TYPE, NUMBER, LEFT_OUT),
    "nothing": (pa.nulls(ROWS), "row 1 has no id", "row 1 is empty or NaN", "null"),
    "lists": (pa.array([[text, "all"] for text in TEXTS]), LISTS, NUMBER, "list<"),
    "lists of integers": (pa.array([[kind] for kind in KINDS]), LISTS, NUMBER, "list<"),
    "lists of decimals": (pa.array([[Decimal(kind)] for kind in KINDS]), LISTS, NUMBER, "large_list<item: double>"),
    "large lists": (pa.array([[text] for text in TEXTS], pa.large_list(pa.string())), LISTS, NUMBER, "large_list<"),
    "lists of one size": (pa.array([[kind] for kind in KINDS], pa.list_(pa.int64(), 1)), LISTS, NUMBER, "large_list<"),
    "list views": (pa.array([[text] for text in TEXTS], pa.list_view(pa.string())), LISTS, NUMBER, "large_list<"),
    "lists of UUIDs": (pa.ListArray.from_arrays(range(ROWS + 1), UUID_ARRAY), LISTS, NUMBER, "large_list<"),
    "lists of bytes": (pa.array([[value] for value in BYTES]), LISTS, NUMBER, LEFT_OUT),
    "lists of structs": (pa.array([[{"a": kind}] for kind in KINDS]), LISTS, NUMBER, LEFT_OUT),
    "structs": (pa.array([{"a": kind, "b": {"c": text}} for kind, text in zip(KINDS, TEXTS, strict=True)]), FIELD,
                NUMBER, ("int64", "string")),
    "structs of UUIDs": (pa.StructArray.from_arrays([UUID_ARRAY], ["a"]), FIELD, NUMBER, ("string",)),
    "maps": (pa.array([[("a", kind)] for kind in KINDS], pa.map_(pa.string(), pa.int64())), FIELD, NUMBER, LEFT_OUT),
    "unions": (pa.UnionArray.from_sparse(pa.array([0] * ROWS, pa.int8()), [pa.array(KINDS)]), FIELD, OK, LEFT_OUT),
}  # fmt: skip
FRAMES = {
    "pandas UUID objects": (pd.Series(UUIDS, dtype=object), OK, NUMBER, "string"),
    "pandas decimal objects": (pd.Series(decimals().to_pylist(), dtype=object), OK, OK, "int64"),
    "pandas bytes": (pd.Series(BYTES, dtype=object), AS_BYTES, NUMBER, LEFT_OUT),
    "pandas categories": (pd.Series(TEXTS).astype("category"), OK, NUMBER, "dictionary<values=large_string"),
    "pandas integers with gaps": (pd.Series([None, *KINDS[1:]]), "row 1 has no id", "row 1 is empty", "double"),
    "pandas dictionaries": (pd.Series([{"a": kind} for kind in KINDS]), FIELD, NUMBER, ("int64",)),
    "pandas sets": (pd.Series([{kind} for kind in KINDS]), LISTS, NUMBER, "list<"),
    "pandas complex": (pd.Series([complex(kind) for kind in KINDS]), *["unsupported type"] * 3),
    "pandas mixture": (pd.Series([kind if kind % 2 else f"v{kind}" for kind in KINDS], dtype=object),
                       *["a column mixes types"] * 3),
    "polars decimals": (pl.Series(decimals(more="0.5").to_pylist()), FRACTIONS, OK, "double"),
    "polars bytes": (pl.Series(BYTES), AS_BYTES, NUMBER, LEFT_OUT),
    "polars objects": (pl.Series(UUIDS, dtype=pl.Object), AS_BYTES, NUMBER, LEFT_OUT),
    "polars categories": (pl.Series(TEXTS, dtype=pl.Categorical), OK, NUMBER, "dictionary<values=large_string"),
    "polars integers of 128 bits": (pl.Series(KINDS, dtype=pl.Int128), *["unsupported type"] * 3),
    "polars structs": (pl.Series([{"a": text} for text in TEXTS]), FIELD, NUMBER, ("large_string",)),
    "polars arrays": (pl.Series([[kind] for kind in KINDS], dtype=pl.Array(pl.Int64, 1)), LISTS, NUMBER, "large_list<"),
    "polars times": (pl.Series([dt.time(kind) for kind in KINDS]), TYPE, NUMBER, "string"),
}  # fmt: skip
NOT_IN_PARQUET = ("run ends", "intervals", "unions")
SOURCES = [(name, "frame") for name in (*COLUMNS, *FRAMES)]
SOURCES += [(name, "parquet") for name in COLUMNS if name not in NOT_IN_PARQUET]


@pytest.fixture(params=SOURCES, ids=lambda source: f"{source[0]}, {source[1]}")
def source(request, tmp_path):
    """A function that makes a table of a column and others, and what to expect."""
    name, form = request.param
    column, *expected = {**COLUMNS, **FRAMES}[name]

    def make(column_name, **others):
        columns = {**others, column_name: column}
        if isinstance(column, pd.Series):
            return pd.DataFrame(columns)
        if isinstance(column, pl.Series):
            return pl.DataFrame(columns)
        if form == "frame":
            return pa.table(columns)
        pq.write_table(pa.table(columns), tmp_path / "table.parquet")
        return tmp_path / "table.parquet"

    return make, *expected


def check(read, expected, name):
    """It is read, or the error names the column in one line."""
    if expected is OK:
        return read()
    with pytest.raises(DataError) as caught:
        read()
    message = str(caught.value)
    assert expected in message
    assert "\n" not in message
    assert name in message or "128" in message  # polars' own type: Arrow does not say which column
    return None


def test_as_ids_of_users_and_of_items(source):
    make, expected, *_ = source
    others = [f"o{row // 6}" for row in range(ROWS)]
    data = check(lambda: macrid.Interactions.read(make("user", item=others), min_items=1), expected, "user")
    assert data is None or (len(data.users), len(data.items), len(data)) == (6, 10, 60) or len(data.users) == 2
    data = check(lambda: macrid.Interactions.read(make("item", user=others), min_items=1), expected, "item")
    assert data is None or {*map(type, data.items)} in ({int}, {str})


def test_as_ratings(source):
    make, _, expected, _ = source
    others = {"user": [f"u{row // 6}" for row in range(ROWS)], "item": TEXTS}
    check(lambda: macrid.Interactions.read(make("rating", **others), min_items=1, min_rating=0), expected, "rating")


def test_as_attributes_of_items_that_a_run_keeps_and_a_service_shows(source, tmp_path):
    make, *_, expected = source
    ids = [f"x{row}" for row in range(ROWS)]
    events = pa.table({"user": np.repeat(np.arange(60), 6), "item": [ids[(7 * n) % 60] for n in range(360)]})

    def read():
        return macrid.Interactions.read(events, items=make("thing", id=ids, title=ids))

    if expected in ("unsupported type", "a column mixes types"):
        check(read, expected, "thing")
        return
    data = read()
    kinds = [str(field.type) for field in data.table.schema][1:]
    if expected == LEFT_OUT:
        assert kinds == []
        assert f"column 'thing' {LEFT_OUT}" in str(data.report)
        return
    wanted = (expected,) if isinstance(expected, str) else expected
    assert [kind.startswith(start) for kind, start in zip(kinds, wanted, strict=True)] == [True] * len(wanted)
    assert len(read_attributes(data.table)) == (0 if expected == "null" else len(wanted))
    model = macrid.Popularity().fit(data)
    model.save(tmp_path / "run")
    loaded = macrid.load(tmp_path / "run")
    assert loaded.table.to_pylist() == data.table.to_pylist()
    check_served(tmp_path / "run", loaded)


def check_served(run, model):
    import json

    from starlette.testclient import TestClient

    from macrid.control.columns import read_column
    from macrid.serving.app import create_app

    for name in model.table.column_names:
        read_column(model.table.column(name), "|")
    with TestClient(create_app(run), base_url="http://127.0.0.1") as client:
        answer = client.get("/v1/items/x7")
    assert answer.status_code == 200, answer.text
    shown = json.loads(answer.text)["attributes"]
    assert [*shown] == model.table.column_names[1:]
    assert all(isinstance(value, str | int | float | bool | list | None) for value in shown.values())


def test_uuids_read_as_they_are_written():
    data = macrid.Interactions.read(pa.table({"user": UUID_ARRAY, "item": [f"o{n // 6}" for n in range(ROWS)]}))
    assert [*data.users] == [str(value) for value in UUIDS[:6]]


def test_fields_of_structs_become_attributes_of_their_own():
    items = pa.table({"id": ["a", "b"], "size": [{"w": 1, "h": {"cm": 2.5}}, None], "size.w": ["x", "y"]})
    data = macrid.Interactions.read(pa.table({"user": [1, 1], "item": ["a", "b"]}), items=items, min_items=1)
    assert data.table.to_pylist() == [
        {"size.w": 1, "size.h.cm": 2.5, "size.w_": "x"},
        {"size.w": None, "size.h.cm": None, "size.w_": "y"},
    ]
    assert "column 'size.w' renamed to 'size.w_'" in str(data.report)


def test_dates_beyond_the_calendar_count_as_missing_and_are_said():
    dates = pa.array([0, 10**14, -(10**14), None], pa.timestamp("s"))
    items = pa.table({"id": [1, 2, 3, 4], "day": dates})
    data = macrid.Interactions.read(pa.table({"user": [1] * 4, "item": [1, 2, 3, 4]}), items=items, min_items=1)
    assert data.table["day"].to_pylist() == [dt.datetime(1970, 1, 1), None, None, None]
    assert "column 'day': 2 dates outside the years 1 to 9999 count as missing" in str(data.report)
