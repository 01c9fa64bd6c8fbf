"""What is understood of a file, and what is wrong in which row."""

import gzip
import io
import json
import os
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from macrid.data.interactions import Interactions
from macrid.serving.examining import MIN_ITEMS, MOST_COLUMNS, Reading, examine, for_people, split
from tests.data.test_bad_files import parquet_files, text_files

HEADER = "user,item,rating\n"
ROWS = [(f"u{user}", f"i{(user + 3 * step) % 30}", 1 + (user * step) % 5) for user in range(40) for step in range(8)]
GOOD = (HEADER + "".join(f"{user},{item},{rating}\n" for user, item, rating in ROWS)).encode()


def parquet(**columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def workbook():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return sink.getvalue()


PARQUET = parquet(user=[row[0] for row in ROWS], item=[row[1] for row in ROWS])
NO_TABLES = {
    "photo.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), "PNG picture"),
    "photo.csv": (b"\xff\xd8\xff\xe0" + bytes(300), "JPEG picture"),
    "paper.pdf": (b"%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n", "PDF document"),
    "page.csv": (b"\n<!DOCTYPE html>\n<html><body>Hello, world</body></html>", "HTML page"),
    "empty.csv": (b"", "empty"),
    "header.csv": (HEADER.encode(), "no rows"),
    "one.csv": (b"user\n1\n2\n", "one column"),
    "prose.txt": (b"Lorem ipsum dolor sit amet\nconsectetur adipiscing elit\n", "one column"),
    "junk.csv": (bytes(range(256)) * 20, "not text"),
    "events.json": (json.dumps([{"user": 1, "item": 2}]).encode(), "JSON"),
    "events.jsonl": (b'{"user": 1, "item": 2}\n', "JSON"),
    "book.xlsx": (workbook(), "Excel workbook, not a table; save it as CSV"),
    "packed.csv": (gzip.compress(GOOD), "compressed"),
    "cut.csv.gz": (gzip.compress(GOOD)[:-200], "cut.csv.gz"),
    "cut.parquet": (PARQUET[: len(PARQUET) // 2], "not a whole one"),
    "named.parquet": (GOOD, "not a Parquet file"),
    "quotes.csv": (HEADER.encode() + b'1,2,"abc\n3,4,5\n', "line 3"),
}
TABLES = {
    "events.csv": GOOD,
    "semicolons.csv": GOOD.replace(b",", b";"),
    "wide.csv": GOOD.decode().encode("utf-16"),
    "marked.csv": b"\xef\xbb\xbf" + GOOD,
    "windows.csv": GOOD.replace(b"\n", b"\r\n"),
    "packed.csv.gz": gzip.compress(GOOD),
    "parquet.csv": PARQUET,  # whatever its name
    "events.parquet": PARQUET,
}


@pytest.fixture
def examined(tmp_path):
    """A function that examines the content of a file."""

    def do(name, content, items=None, **choice):
        (tmp_path / name).write_bytes(content)
        if items is not None:
            (tmp_path / "items.csv").write_text(items)
            choice["items"] = tmp_path / "items.csv"
        return examine(Reading(tmp_path / name, **choice))

    return do


@pytest.mark.parametrize("name", NO_TABLES)
def test_a_file_that_is_no_table_is_called_what_it_is(examined, name):
    content, words = NO_TABLES[name]
    found = examined(name, content)
    assert (found["is_table"], found["can_train"]) == (False, False)
    (problem,) = found["problems"]
    assert words in problem
    assert name in problem
    assert "--" not in problem


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_understood_whatever_its_format(examined, name):
    found = examined(name, TABLES[name])
    assert found["can_train"], found["problems"]
    assert (found["roles"]["user"], found["roles"]["item"]) == ("user", "item")
    assert (found["counts"]["rows"], found["counts"]["users"], found["counts"]["items"]) == (320, 40, 30)
    assert found["preview"][0][:2] == ["u0", "i0"]
    assert [column["name"] for column in found["columns"]][:2] == ["user", "item"]


def test_counts_are_those_that_training_will_read(examined, tmp_path):
    short = "".join(f"short,i{item},5\n" for item in range(4))
    content = GOOD + (short + "short,i0,5\n").encode()
    found = examined("events.csv", content, min_rating=3.0)
    data = Interactions.read(tmp_path / "events.csv", min_rating=3, min_items=MIN_ITEMS)
    counts, report = found["counts"], data.report
    assert (counts["kept_users"], counts["kept_items"], counts["kept_rows"]) == (
        len(data.users), len(data.items), len(data),
    )  # fmt: skip
    assert counts["short_users"] == report.dropped_users > 0
    assert counts["duplicates"] == report.duplicates > 0
    assert counts["below_min_rating"] == report.below_min_rating > 0
    dropped = counts["below_min_rating"] + counts["duplicates"] + counts["short_rows"]
    assert counts["rows"] == counts["kept_rows"] + dropped
    assert [value["value"] for value in found["ratings"]["values"]] == [1, 2, 3, 4, 5]
    read = Reading(tmp_path / "events.csv", min_rating=3.0).interactions()
    assert read.to_frame().equals(data.to_frame())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b"u3,i3,1", b",i3,1"), ["column 'user': row 25 (line 26)", "no id"]),
        ((b"u3,i3,1", b"u3,i3"), ["row 25 (line 26): 2 instead of 3 cells: 'u3,i3'"]),
        ((b"u3,i3,1", b"u3,,1"), ["column 'item': row 25 (line 26)"]),
    ],
)
def test_problems_name_the_row(examined, change, words):
    found = examined("events.csv", GOOD.replace(*change, 1))
    assert (found["is_table"], found["can_train"]) == (True, False)
    assert all(word in found["problems"][0] for word in ["events.csv", *words])


def test_all_columns_with_problems_are_named_at_once(examined):
    content = GOOD.replace(b"u3,i3,1", b",i3,1", 1).replace(b"u5,i5,1", b"u5,,1", 1) + b"u1,i2,good\n"
    found = examined("events.csv", content, min_rating=2.0)
    assert ["'user'" in found["problems"][0], "'item'" in found["problems"][1], "'rating'" in found["problems"][2]] == [
        True, True, True,
    ]  # fmt: skip
    assert "row 321 (line 322) is 'good'" in found["problems"][2]


def test_ratings_that_are_not_needed_only_warn(examined):
    found = examined("events.csv", GOOD + b"u1,i2,good\n")
    assert found["can_train"]
    assert "row 321 (line 322) is 'good'" in found["warnings"][0]
    assert found["ratings"] is None


def test_columns_that_cannot_be_guessed_can_be_chosen(examined, tmp_path):
    content = GOOD.replace(b"user,item,rating", b"who,what,how")
    assert "the customer or the item" in examined("events.csv", content)["problems"][0]
    columns = {"user": "who", "item": "what", "rating": "how"}
    found = examined("events.csv", content, columns=columns, min_rating=2.0)
    assert found["can_train"]
    assert (
        len(Reading(tmp_path / "events.csv", columns=columns, min_rating=2.0).interactions())
        == (found["counts"]["kept_rows"])
    )
    for wrong, words in (
        ({"user": "who", "item": "who"}, "both"),
        ({"user": "nobody", "item": "what"}, "'nobody'"),
        ({"item": "what"}, "the customer"),
    ):
        assert words in examined("events.csv", content, columns=wrong)["problems"][0]
    assert "ratings" in examined("events.csv", GOOD, columns={"rating": None}, min_rating=1.0)[
        "problems"
    ][0]  # fmt: skip


def test_a_file_of_numbers_without_a_header_loses_no_row(examined, tmp_path):
    content = "".join(f"{user}\t{(user + 3 * step) % 30}\t5\n" for user in range(40) for step in range(8)).encode()
    found = examined("u.data", content)
    assert found["can_train"]
    assert found["counts"]["rows"] == 320
    assert "called by their places" in found["warnings"][0]
    assert len(Reading(tmp_path / "u.data", columns=found["roles"]).interactions()) == 320


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"user,item\n" + b"".join(b"1,%d\n" % item for item in range(30)), "Only 1 customer has 5"),
        (b"user,item\n" + b"".join(b"%d,%d\n" % (user, user) for user in range(30)), "No customer has 5"),
        (b"user,item\n" + b"".join(b"%d,%d\n" % (at // 6, at) for at in range(180)), "too few items in common"),
    ],
)
def test_too_little_to_learn_from_is_a_problem(examined, content, words):
    found = examined("events.csv", content)
    assert words in found["problems"][0]
    assert not found["can_train"]


def test_a_threshold_above_all_ratings_is_a_problem(examined):
    assert "the highest is 5" in examined("events.csv", GOOD, min_rating=6.0)["problems"][0]


def test_an_items_table_adds_titles_and_attributes_or_a_problem(examined):
    items = "item,title,colour\n" + "".join(f"i{item},Thing {item},red\n" for item in range(29))
    found = examined("events.csv", GOOD, items)
    assert (found["items"]["has_titles"], found["items"]["attributes"]) == (True, ["colour"])
    assert "1 of 30 items" in found["items"]["notes"][0]
    for wrong in ("item,title\nx,y\n", "a,b\n1,2\n", "item,title\ni0,x\ni0,y\n"):
        found = examined("events.csv", GOOD, wrong)
        assert not found["can_train"]
        assert found["problems"]


def test_ten_thousand_columns_are_shown_in_part(examined):
    names = [f"c{place}" for place in range(10_000)]
    header = ",".join([*names, "user", "item"])
    rows = "".join(",".join(["1"] * 10_000 + list(row[:2])) + "\n" for row in ROWS[:80])
    found = examined("wide.csv", f"{header}\n{rows}".encode())
    assert (found["columns_total"], len(found["columns"])) == (10_002, MOST_COLUMNS)
    assert [column["name"] for column in found["columns"]][-2:] == ["user", "item"]
    assert len(json.dumps(found)) < 100_000


def test_values_are_clipped(examined):
    found = examined("events.csv", GOOD + b"x" * 20_000 + b",i1,1\n" + b"user,<b>i</b>,1\n")
    assert found["can_train"]
    content = HEADER.encode() + b"x" * 20_000 + b",<b>i</b>,1\n" + GOOD[len(HEADER) :]
    found = examined("events.csv", content)
    assert len(found["preview"][0][0]) == 60
    assert found["preview"][0][1] == "<b>i</b>"


def test_enough_customers_are_held_out_to_check_on(tmp_path):
    for users in (10, 40, 400):
        rows = [(user, (user + 3 * step) % 30) for user in range(users) for step in range(8)]
        data = Interactions.read(pa.table({"user": [row[0] for row in rows], "item": [row[1] for row in rows]}))
        parts = split(data)
        held = len(parts.test.users)
        assert held == len(parts.validation.users) == {10: 2, 40: 10, 400: 40}[users]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("f: bad; correct it, or name its encoding with --encoding (encoding= in Python)", "f: bad; correct it"),
        ("f: bad; use --overwrite", "f: bad"),
        ("f: bad; free some space", "f: bad; free some space"),
    ],
)
def test_people_are_told_nothing_about_options(message, said):
    assert for_people(message) == said


@given(text_files() | parquet_files())
@settings(max_examples=100)
def test_whatever_a_file_holds_every_row_is_accounted_for(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("examined") / "events.csv"
    path.write_bytes(content)
    found = examine(Reading(path))
    json.dumps(found)
    assert found["can_train"] == (not found["problems"])
    counts = found["counts"] or {}
    if counts.get("kept_rows"):
        dropped = counts["below_min_rating"] + counts["duplicates"] + counts["short_rows"]
        assert counts["rows"] == counts["kept_rows"] + dropped
    assert os.listdir(path.parent) == ["events.csv"]
