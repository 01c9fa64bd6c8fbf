"""Files, folders and patterns, and what may be wrong with them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from macrid.data import tables
from macrid.data.large.parts import Request
from macrid.data.large.preparing import prepare
from macrid.data.large.sources import files_of, fits_in_memory
from macrid.data.weighing import Weighing
from macrid.errors import DataError
from tests.data.large.test_preparing import as_text, events


@pytest.fixture
def folder(tmp_path):
    """Three parts."""
    folder = tmp_path / "events"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(600), 3)):
        events().iloc[rows].to_parquet(folder / f"part-{number}.parquet")
    return folder


def refuse(folder, message, request=None):
    out = folder.parent / "out"
    with pytest.raises(DataError, match=message):
        prepare(files_of([str(folder)]), out, request or Request(), min_items=1)
    assert not out.exists()


def test_files_folders_and_patterns_are_the_same_files_in_the_same_order(folder):
    parts = sorted(folder.glob("*.parquet"))
    sources = [[str(folder)], [f"{folder}/*.parquet"], [f"{folder}/part-[21].parquet", f"{folder}/*0*"]]
    sources += [list(map(str, reversed(parts))), [str(folder), str(parts[0])], [f"{folder.parent}/ev*"]]
    for source in sources:
        assert files_of(source) == parts


def test_folders_below_are_read_and_marks_of_finished_jobs_ignored(folder):
    below = folder / "day=2026-01-01"
    below.mkdir()
    (folder / "part-0.parquet").rename(below / "part-0.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-1.parquet.crc").touch()
    assert [path.name for path in files_of([str(folder)])] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert files_of([f"{folder}/*"]) == files_of([str(folder)])
    assert files_of([f"{folder}/_S*"]) == [folder / "_SUCCESS"]  # asked for
    split = prepare(files_of([str(folder)]), folder.parent / "out", Request(), min_items=1)
    assert split.train.report.rows == 600


def test_names_with_the_characters_of_patterns_and_queries_are_names(tmp_path):
    folder = tmp_path / "a[b]*'c"
    folder.mkdir()
    for name in ("x?.parquet", "x'y.parquet"):
        events().to_parquet(folder / name)
    split = prepare(files_of([str(folder)]), tmp_path / "out", Request(), min_items=1)
    assert split.train.report.rows == 1200


def test_a_pattern_without_files_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"\*.parquet: no file matches; check the pattern"):
        files_of([f"{tmp_path}/*.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: no Parquet or CSV files in this folder"):
        files_of([str(tmp_path / "empty")])


@pytest.mark.parametrize("name", ["notes.docx", "README", "events.json", "archive.tar.gz"])
def test_a_foreign_file_in_a_folder_is_named(folder, name):
    (folder / name).write_text("hello")
    refuse(folder, f"{name}: neither Parquet nor CSV by its name; move it out of the folder, or give a pattern")


@pytest.mark.parametrize("name", ["part-3.parquet.tmp", "part-3.csv.part", "part-3.crdownload"])
def test_a_half_written_file_is_named(folder, name):
    (folder / name).write_text("hello")
    refuse(folder, f"{name}: looks half-written")


def test_a_half_written_folder_is_refused(folder):
    (folder / "_temporary").mkdir()
    refuse(folder, "events: half-written, as it contains '_temporary'; wait")


def test_a_half_written_part_is_named(folder):
    part = folder / "part-1.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    refuse(folder, "part-1.parquet: not a Parquet file, or not a whole one")


def test_a_damaged_part_is_named(folder):
    part = folder / "part-1.parquet"
    content = bytearray(part.read_bytes())
    content[4:60] = bytes(56)
    part.write_bytes(content)
    refuse(folder, "part-1.parquet: damaged Parquet file")


@pytest.mark.slow
def test_a_prepared_folder_is_not_a_source(folder):
    out = folder.parent / "prepared"
    prepare(files_of([str(folder)]), out, Request(), min_items=1)
    refuse(out, "prepared: is a folder that `macrid data prepare` wrote; give the events it was made from")


def test_a_part_with_other_columns_is_named(folder):
    part = folder / "part-1.parquet"
    pd.read_parquet(part).rename(columns={"item": "product"}).to_parquet(part)
    refuse(folder, "part-1.parquet: its item column is 'product', but 'item' in .*part-0.parquet; give all parts")
    pd.read_parquet(part).drop(columns="product").to_parquet(part)
    refuse(folder, "part-1.parquet: no column looks like the item")
    refuse(folder, "part-1.parquet: no column 'item' for the item", Request(item="item"))


def test_a_part_with_other_types_is_named(folder):
    part = folder / "part-1.parquet"
    as_text(pd.read_parquet(part)).to_parquet(part)
    refuse(folder, "part-1.parquet, column 'user': ids are text, but integers in .*part-0.parquet")
    part.unlink()
    as_text(events()).to_csv(folder / "part-1.csv", index=False)
    refuse(folder, "part-1.csv, column 'user': ids are text, but integers in .*part-0.parquet")


@pytest.mark.slow
def test_integers_of_several_sizes_and_of_text_files_go_together(folder, tmp_path):
    whole = prepare(files_of([str(folder)]), tmp_path / "whole", Request(), min_items=1)
    small = folder / "part-1.parquet"
    pd.read_parquet(small).astype("int16").to_parquet(small)
    pd.read_parquet(folder / "part-2.parquet").to_csv(folder / "part-2.csv", index=False)
    (folder / "part-2.parquet").unlink()
    mixed = prepare(files_of([str(folder)]), tmp_path / "mixed", Request(), min_items=1)
    assert mixed.train.users == whole.train.users
    np.testing.assert_array_equal(mixed.train.matrix.indices, whole.train.matrix.indices)


@pytest.mark.parametrize("missing", [None, "", "nan"])
def test_a_row_without_an_id_is_named(folder, missing):
    part = folder / "part-1.parquet"
    for path in folder.glob("*.parquet"):
        as_text(pd.read_parquet(path)).to_parquet(path)
    frame = pd.read_parquet(part)
    frame.loc[frame.index[4], "item"] = missing
    frame.to_parquet(part)
    refuse(folder, r"part-1.parquet, column 'item': row 5 has no id \(1 such row in all\)")


@pytest.mark.parametrize("others", [{}, {"rating": 5.0}], ids=["many ratings", "one rating"])
def test_a_rating_that_is_no_number_is_named(folder, others):
    part = folder / "part-1.parquet"
    frame = pd.read_parquet(part).astype({"rating": float}).assign(**others)
    frame.loc[frame.index[4], "rating"] = np.nan
    for keeps_nan in (True, False):  # pandas writes a null
        columns = {name: pa.array(frame[name].to_numpy(), from_pandas=not keeps_nan) for name in frame}
        pq.write_table(pa.table(columns), part)
        refuse(folder, "part-1.parquet, column 'rating': row 5 is empty or NaN; a finite number", Request(min_rating=2))
    refuse(folder, "column 'rating': row 5 is empty", Request(min_rating=2, rating="rating"))


@pytest.mark.parametrize("rows", [600, 100])
def test_a_count_says_which_rows_it_is_of(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(tables, "BATCH_ROWS", rows)
    frame = as_text(events()).assign(weight=1.0)
    frame.loc[frame.index[150:400], "weight"] = -1
    frame.to_parquet(tmp_path / "events.parquet")
    counted = r" \(counted in rows 101 to 200\)$" if rows == 100 else "(?<!rows 1 to 600\\))$"
    with pytest.raises(DataError, match=rf"row 151 .*\b{min(250, rows // 2)} such rows.*{counted}"):
        prepare(
            [tmp_path / "events.parquet"], tmp_path / "out", Request(weighing=Weighing(weight="weight")), min_items=1
        )


def test_the_highest_rating_is_found_beside_a_part_without_rows(folder):
    with_rows = pq.read_table(folder / "part-0.parquet")
    pq.write_table(with_rows.slice(0, 0), folder / "part-9.parquet")
    refuse(folder, "the highest is 5; lower the threshold", Request(min_rating=9))


def test_thresholds_that_leave_nothing_say_so(folder):
    refuse(folder, "3 files: all 600 ratings are below min_rating 9; the highest is 5", Request(min_rating=9))
    with pytest.raises(DataError, match="no user has 999 items; the longest history has"):
        prepare(files_of([str(folder)]), folder.parent / "out", Request(), min_items=999)


def test_size_decides_what_fits_into_memory(folder):
    part = folder / "part-0.parquet"
    rows = pq.read_metadata(part).num_rows
    assert fits_in_memory(part, rows * 128)
    assert not fits_in_memory(part, rows * 128 - 1)
    text = folder / "events.csv"
    text.write_text("user,item\n" * 100)
    assert fits_in_memory(text, 50 * 128)
    assert not fits_in_memory(text, 49 * 128)
