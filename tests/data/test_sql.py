"""Tables from queries."""

import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import macrid
from macrid.data import sql
from macrid.data.sql import read_sql, read_url
from macrid.data.tables import FrameTable
from macrid.errors import DatabaseError, DataError

UUID = "0b5e3b4c-0000-4000-8000-000000000001"


@pytest.fixture
def shop(tmp_path):
    """A SQLite database with 40 users × 6 items."""
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (user_id INTEGER, item_id TEXT, stars REAL)")
        rows = [(user, f"i{(user + item) % 9}", 1 + item % 5) for user in range(40) for item in range(6)]
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{path}"


def test_a_query_is_read_in_batches_with_its_types(shop, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 7)
    table = read_sql("SELECT user_id, item_id, stars, NULL AS empty FROM orders;", shop)
    assert [str(kind) for kind in table.schema.types] == ["int64", "string", "double", "null"]
    assert table.num_rows == 240
    data = macrid.Interactions.read(table, min_rating=3, min_items=1)
    assert (len(data.users), data.report.user_column) == (40, "user_id")


def test_types_of_postgres_are_read_or_become_text(database, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 1)
    query = f"""
        SELECT 7::int2 AS small, 2.50::numeric AS price, '{UUID}'::uuid AS uuid, '\\x00ff'::bytea AS bytes,
        true AS yes, date '2026-01-31' AS day, timestamptz '2026-01-31 12:00+02' AS moment, ARRAY['a', 'b'] AS tags,
        '{{"a": [1]}}'::jsonb AS json, '10.0.0.1'::inet AS address, NULL::int AS later, '50%' AS "50%"
        UNION ALL
        SELECT 8, 1234.5, '{UUID}', NULL, NULL, NULL, NULL, NULL, '{{}}', NULL, 3, NULL"""
    table = read_sql(query, database)
    first, second = table.to_pylist()
    assert first | {"moment": None} == {
        "small": 7, "price": Decimal("2.50"), "uuid": UUID, "bytes": b"\x00\xff", "yes": True,
        "day": date(2026, 1, 31), "moment": None, "tags": ["a", "b"], "json": '{"a": [1]}', "address": "10.0.0.1",
        "later": None, "50%": "50%",
    }  # fmt: skip
    assert first["moment"] == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert (second["price"], second["later"]) == (Decimal("1234.5"), 3)


def test_numbers_that_no_decimal_can_hold_become_floats(database):
    table = read_sql("SELECT 'NaN'::numeric AS x UNION ALL SELECT 2.5", database)
    assert table.schema.types == [pa.float64()]


def test_a_query_cannot_change_the_database(database, shop):
    import psycopg

    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (x int); CREATE FUNCTION f() RETURNS int LANGUAGE sql"
                           " AS 'INSERT INTO t VALUES (1) RETURNING x'")  # fmt: skip
    with pytest.raises(DatabaseError, match="cannot execute INSERT in a read-only transaction"):
        read_sql("SELECT f()", database)
    with pytest.raises(DatabaseError, match="attempt to write a readonly database"):
        read_sql("DELETE FROM orders", shop)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM oders", r"shop.db: the query failed \(no such table: oders\)"),
        ("SELECT user_id FROM", r"the query failed \(incomplete input\)"),
        ("SELECT 1; SELECT 2", r"the query failed \(You can only execute one statement at a time"),
        ("", "the query returns no table; use a SELECT"),
        ("SELECT 1 AS x UNION ALL SELECT 'a'", "column 'x': values of type int and str do not fit together; CAST them"),
    ],
)
def test_a_bad_query_is_one_line(shop, query, message):
    with pytest.raises((DatabaseError, DataError), match=message):
        read_sql(query, shop)


def test_values_that_differ_between_batches_are_named(shop, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 1)
    with pytest.raises(DataError, match="column 'x': values of type int64 and string do not fit"):
        read_sql("SELECT 1 AS x UNION ALL SELECT 'a'", shop)
    assert read_sql("SELECT 1 AS x UNION ALL SELECT 2.5", shop)["x"].to_pylist() == [1.0, 2.5]


def test_a_bad_query_to_postgres_is_one_line_without_the_password(database):
    with pytest.raises(DatabaseError, match=r'the query failed \(relation "oders" does not exist\)') as caught:
        read_sql("SELECT * FROM oders", database)
    assert "sesame" not in str(caught.value)
    with pytest.raises(DatabaseError, match=r"password authentication failed") as caught:
        read_sql("SELECT 1", database.replace("open-sesame", "close-sesame"))
    assert "sesame" not in str(caught.value)
    with pytest.raises(DatabaseError, match="refused"):
        read_sql("SELECT 1", "postgresql://me:secret@127.0.0.1:1/x")


def test_columns_of_one_name_and_no_rows_are_named(shop):
    table = FrameTable(read_sql("SELECT user_id, item_id, item_id FROM orders", shop), "query")
    with pytest.raises(DataError, match="query: several columns are called 'item_id'"):
        macrid.Interactions.read(table)
    table = FrameTable(read_sql("SELECT user_id, item_id FROM orders WHERE user_id < 0", shop), "query")
    with pytest.raises(DataError, match="query: no rows"):
        macrid.Interactions.read(table)


def test_a_missing_file_is_not_created(tmp_path):
    with pytest.raises(DatabaseError, match=r"none.db: no such file"):
        read_sql("SELECT 1", f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(DatabaseError, match=r"PostgreSQL needs psycopg; .*macrid\[postgres\]"):
        read_sql("SELECT 1", "postgresql://me@host/x")


def test_the_address_comes_from_the_environment_or_a_file(shop, tmp_path):
    file = tmp_path / "url"
    file.write_text(f"{shop}\n")
    assert read_url(None, file, "X") == shop
    assert read_url("ignored", tmp_path / "shop.db", "X") == shop
    assert read_url(shop, None, "X") == shop
    with pytest.raises(
        DatabaseError, match=r"no database; set X to a URL such as sqlite:///events.db .* --database-file"
    ):
        read_url(None, None, "X")
    with pytest.raises(DatabaseError, match="No such file"):
        read_url(None, tmp_path / "none", "X")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatabaseError, match="neither a SQLite database nor"):
        read_url(None, file, "X")
