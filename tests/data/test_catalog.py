import hashlib
import io
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from macrid.data import catalog, download, netflix
from macrid.data.catalog import Counts, Recipe
from macrid.data.interactions import Interactions
from macrid.data.netflix import read_netflix
from macrid.data.released import read_released
from macrid.errors import DataError
from tests.data.released import write_released

DATA = os.environ.get("MACRID_DATA")
NAMES = ["shop", "ml-latest-small", "ml-100k", "ml-1m", "ml-1m-ge3", "ml-20m", "netflix", "alishop-7c", "alishop-7c-4k"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder that MACRID_DATA points to, and a cache beside it."""
    monkeypatch.setenv("MACRID_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MACRID_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def ratings(users=12, seed=0):
    """Ratings of 1 to 5, unsorted; every user has all of ten items, half of them with 4 or more."""
    random = np.random.default_rng(seed)
    rows = [
        (user, item, 4 + item % 2 if (item + user) % 2 else 1 + item % 3)
        for user in range(1, users + 1)
        for item in range(1, 11)
    ]
    return pd.DataFrame(rows, columns=["user", "item", "rating"]).iloc[random.permutation(len(rows))]


def tiny(monkeypatch, name, **changes):
    """The entry of that name with a recipe for few users."""
    entry = replace(catalog.entry(name), recipe=Recipe(4, 2), **changes)
    monkeypatch.setitem(catalog._BY_NAME, name, entry)
    return entry


@pytest.mark.skipif(DATA is None, reason="needs the real files (MACRID_DATA)")
def test_a_data_set_with_times_can_be_split_by_time_and_weighted():
    split = catalog.load("ml-latest-small", split="time", at="2016-01-01", half_life=365)
    assert split.protocol == "before and after 2016-01-01"
    assert split.train.times.max() < split.everyone.times.max()
    assert 0 < split.train.matrix.data.min() < split.train.matrix.data.max() < 1
    assert catalog.load("ml-latest-small", split="last", last=3).protocol == "last 3 items of each user"
    with pytest.raises(DataError, match=r"ml-latest-small, in .*: nothing happened from 2026-01-01 on"):
        catalog.load("ml-latest-small", split="time", at="2026-01-01")
    weighted = catalog.load("ml-latest-small", half_life=365)
    np.testing.assert_array_equal(weighted.train.matrix.indices, catalog.load("ml-latest-small").train.matrix.indices)


@pytest.mark.parametrize("name", ["shop", "netflix", "alishop-7c"])
def test_a_data_set_without_times_cannot_be_split_by_time(name):
    for options in ({"split": "time"}, {"half_life": 30}, {"last": 2}):
        with pytest.raises(DataError, match=f"{name}: has no times, which other splits and a half-life need"):
            catalog.load(name, **options)


def by_id(split):
    train = split.train
    return {
        train.users[row]: [train.items[column] for column in train.matrix.indices[start:end]]
        for row, (start, end) in enumerate(zip(train.matrix.indptr, train.matrix.indptr[1:], strict=False))
    }


TITLES = {item: f"Movie, the {item}th (19{80 + item})" for item in range(1, 10)} | {10: "Été"}


def write_latest(folder):
    folder.mkdir(parents=True)
    frame = ratings().rename(columns={"user": "userId", "item": "movieId"})
    frame.assign(rating=frame.rating + 0.5 * (frame.rating < 5), timestamp=1).to_csv(
        folder / "ratings.csv", index=False
    )
    movies = pd.DataFrame({"movieId": TITLES.keys(), "title": TITLES.values(), "genres": "Action|Comedy"})
    movies.to_csv(folder / "movies.csv", index=False)


def write_1m(folder):
    folder.mkdir(parents=True)
    lines = [f"{user}::{item}::{rating}::978300760" for user, item, rating in ratings().itertuples(index=False)]
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")
    movies = [f"{item}::{title}::Action|Comedy" for item, title in TITLES.items()]
    (folder / "movies.dat").write_text("\n".join(movies) + "\n", encoding="latin-1")


def write_100k(folder):
    folder.mkdir(parents=True)
    lines = [f"{user}\t{item}\t{rating}\t881250949" for user, item, rating in ratings().itertuples(index=False)]
    (folder / "u.data").write_text("\n".join(lines) + "\n")
    flags = "|".join("1" if place in (1, 5) else "0" for place in range(19))
    movies = [f"{item}|{title}|01-Jan-1995||http://example.org/?x,y|{flags}" for item, title in TITLES.items()]
    (folder / "u.item").write_text("\n".join(movies) + "\n", encoding="latin-1")


def netflix_lines(frame, item):
    rows = frame[frame.item == item]
    return f"{item}:\n" + "".join(f"{user},{rating},2005-09-06\n" for user, _, rating in rows.itertuples(index=False))


def write_titles(folder, name):
    lines = [f"{item},{'NULL' if item == 3 else 1990 + item},{title}\n" for item, title in TITLES.items()]
    (folder / name).write_text("".join(lines), encoding="latin-1")


def write_netflix(folder, frame=None):
    frame = ratings() if frame is None else frame
    (folder / "training_set").mkdir(parents=True)
    for item in sorted(frame.item.unique()):
        (folder / "training_set" / f"mv_{item:07d}.txt").write_text(netflix_lines(frame, item))
    write_titles(folder, "movie_titles.txt")


def write_combined(folder, frame=None):
    frame = ratings() if frame is None else frame
    folder.mkdir(parents=True)
    for number, items in enumerate(np.array_split(sorted(frame.item.unique()), 4), start=1):
        (folder / f"combined_data_{number}.txt").write_text("".join(netflix_lines(frame, item) for item in items))
    write_titles(folder, "movie_titles.csv")


WRITERS = {
    "ml-latest-small": write_latest,
    "ml-100k": write_100k,
    "ml-1m": write_1m,
    "ml-20m": write_latest,
    "netflix": write_netflix,
}


@pytest.mark.parametrize("name", NAMES[1:])
def test_every_entry_has_files_a_page_a_licence_and_counts(name):
    entry = catalog.entry(name)
    assert entry.name == name
    assert entry.what
    assert entry.files
    assert entry.page.startswith("https://")
    assert entry.licence
    assert entry.expected or entry.raw


def test_an_unknown_name_is_an_error_that_lists_the_catalogue():
    assert catalog.names() == NAMES
    with pytest.raises(DataError, match=f"'ml-2m'.*{', '.join(NAMES)}"):
        catalog.load("ml-2m")


@pytest.mark.parametrize(
    ("name", "min_rating", "heldout"),
    [
        ("ml-latest-small", 4, 50),
        ("ml-100k", 4, 50),
        ("ml-1m", 4, 500),
        ("ml-1m-ge3", 3, 500),
        ("ml-20m", 4, 10_000),
        ("netflix", 4, 40_000),
    ],
)
def test_recipes_match_the_literature(name, min_rating, heldout):
    assert catalog.entry(name).recipe == Recipe(min_rating, heldout, min_items=5)


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_is_read_by_its_recipe_with_titles_and_years(data, monkeypatch, name):
    entry = tiny(monkeypatch, name, expected=Counts(12, 10, 60), raw=Counts(12, 10, 120))
    WRITERS[name](data / entry.folder)
    split = catalog.load(name)
    frame = ratings()
    if name == "netflix":  # by movie, not in the order of one file
        frame = frame.sort_values("item", kind="stable")
    assert by_id(split) == by_id(Interactions.read(frame, min_rating=4).split(2))
    titles = dict(zip(split.items, split.table.column("title").to_pylist(), strict=True))
    assert titles == {item: TITLES[item] for item in split.items}
    years = dict(zip(split.items, split.table.column("year").to_pylist(), strict=True))
    if name == "netflix":
        assert years[2] == 1992
        assert years[3] is None
    else:
        assert years[2] == 1982
        assert years[10] is None
        assert set(split.table.column("genres").to_pylist()) == {"Action|Comedy"}
    assert split.table.schema.field("year").type == "int32"


def test_both_thresholds_of_ml_1m_read_the_same_folder(data, monkeypatch):
    entry = replace(catalog.entry("ml-1m-ge3"), recipe=Recipe(3, 2), expected=None, raw=None)
    monkeypatch.setitem(catalog._BY_NAME, "ml-1m-ge3", entry)
    write_1m(data / "ml-1m")
    assert by_id(catalog.load("ml-1m-ge3")) == by_id(Interactions.read(ratings(), min_rating=3).split(2))


@pytest.mark.parametrize(
    "title", ["Up (2009)", "Up (2009) ", "Up (2009-)", "Up (2009–2012)", "(500) Days (1999) (2009)"]
)
def test_the_year_is_the_last_thing_in_a_title(data, monkeypatch, title):
    tiny(monkeypatch, "ml-latest-small", expected=None, raw=None)
    write_latest(data / "ml-latest-small")
    movies = pd.DataFrame({"movieId": range(1, 11), "title": title, "genres": "Action"})
    movies.to_csv(data / "ml-latest-small" / "movies.csv", index=False)
    assert set(catalog.load("ml-latest-small").table.column("year").to_pylist()) == {2009}


def test_a_file_that_is_not_u_item_is_an_error_with_its_line(data, monkeypatch):
    tiny(monkeypatch, "ml-100k", raw=None)
    write_100k(data / "ml-100k")
    with (data / "ml-100k" / "u.item").open("a") as file:
        file.write("11|too|short\n")
    with pytest.raises(DataError, match=r"u\.item: line 11 "):
        catalog.load("ml-100k")


def test_movies_without_titles_are_an_error(data, monkeypatch):
    tiny(monkeypatch, "ml-latest-small", expected=None, raw=None)
    write_latest(data / "ml-latest-small")
    (data / "ml-latest-small" / "movies.csv").write_text("movieId,imdbId\n1,2\n")
    with pytest.raises(DataError, match=r"movies\.csv: no titles"):
        catalog.load("ml-latest-small")


def test_unexpected_counts_are_an_error_with_both_counts_and_the_likely_file(data, monkeypatch):
    tiny(monkeypatch, "ml-1m")
    write_1m(data / "ml-1m")
    with pytest.raises(DataError) as error:
        catalog.load("ml-1m")
    message = str(error.value)
    assert "expected 6,034 users, 3,502 items and 575,235 interactions" in message
    assert "found 12 users, 10 items and 60 interactions" in message
    assert "ratings.dat" in message
    assert "120 rows instead of 1,000,209" in message


def test_raw_counts_of_ml_100k_are_checked(data):
    write_100k(data / "ml-100k")
    with pytest.raises(DataError, match=r"943 users, 1,682 items and 100,000 .* 12 users, 10 items .*u\.data"):
        catalog.load("ml-100k")


def test_files_are_found_in_the_data_folder_then_in_the_cache(data, tmp_path, monkeypatch):
    entry = catalog.entry("ml-1m")
    assert catalog.locate(entry) is None
    write_1m(tmp_path / "cache" / "ml-1m")
    assert catalog.locate(entry) == tmp_path / "cache" / "ml-1m"
    (data / "ml-1m").mkdir()
    (data / "ml-1m" / "ratings.dat").write_text("1::2::3::4\n")
    assert catalog.locate(entry) == tmp_path / "cache" / "ml-1m"
    (data / "ml-1m" / "movies.dat").write_text("1::a::b\n")
    assert catalog.locate(entry) == data / "ml-1m"
    monkeypatch.setenv("MACRID_DATA", "")
    assert catalog.locate(entry) == tmp_path / "cache" / "ml-1m"


def test_the_status_says_what_a_user_has_to_do(data):
    states = {name: catalog.status(catalog.entry(name)) for name in ("shop", "ml-1m", "netflix")}
    assert states == {"shop": "built in", "ml-1m": "downloads", "netflix": "bring files"}
    write_1m(data / "ml-1m")
    assert catalog.status(catalog.entry("ml-1m-ge3")) == "at hand"


def test_the_shop_needs_no_files(data):
    assert catalog.locate(catalog.entry("shop")) is None
    assert len(catalog.load("shop", download=False).train.users) == 3200
    assert not any(data.iterdir())


def test_a_portable_message_names_no_folder_of_this_machine(data, tmp_path, monkeypatch):
    message = f"missing in {data}/netflix; {tmp_path}/cache/x"
    assert catalog.portable(message) == "missing in $MACRID_DATA/netflix; $MACRID_CACHE/x"
    monkeypatch.delenv("MACRID_DATA")
    assert catalog.portable("nothing to change") == "nothing to change"


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MACRID_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert catalog.cache_folder() == tmp_path / ".cache" / "macrid"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert catalog.cache_folder() == tmp_path / "xdg" / "macrid"
    monkeypatch.setenv("MACRID_CACHE", "~/mine")
    assert catalog.cache_folder() == tmp_path / "mine"


def test_missing_files_are_named_with_their_folder_and_where_to_get_them(data):
    with pytest.raises(DataError) as error:
        catalog.load("netflix")
    message = str(error.value)
    assert f"in {data / 'netflix'}" in message
    assert "training_set/mv_0000001.txt" in message
    assert "combined_data_1.txt, combined_data_2.txt, combined_data_3.txt, combined_data_4.txt" in message
    assert "movie_titles.csv or movie_titles.txt" in message
    with pytest.raises(DataError, match=r"ml-1m: missing ratings\.dat, movies\.dat in .*grouplens\.org/.*ml-1m\.zip"):
        catalog.load("ml-1m", download=False)


def test_files_that_exist_are_not_named_as_missing(data):
    write_netflix(data / "netflix")
    (data / "netflix" / "movie_titles.txt").unlink()
    with pytest.raises(DataError, match=r"netflix: missing movie_titles\.csv or movie_titles\.txt in"):
        catalog.load("netflix")
    write_alishop(data / "alishop-7c" / "pro_sg")
    (data / "alishop-7c" / "pro_sg" / "train.csv").unlink()
    with pytest.raises(DataError, match=rf"alishop-7c: missing train\.csv in {data / 'alishop-7c' / 'pro_sg'}"):
        catalog.load("alishop-7c")


@pytest.mark.parametrize("block", [20, 64, 1_000_000])
@pytest.mark.parametrize("write", [write_netflix, write_combined])
def test_both_netflix_layouts_read_like_one_file_of_events_wherever_blocks_end(tmp_path, monkeypatch, block, write):
    random = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"user": random.integers(1, 40, 500), "item": random.integers(1, 11, 500), "rating": random.integers(1, 6, 500)}
    )
    frame = frame.sort_values("item", kind="stable")
    monkeypatch.setattr(netflix, "BLOCK", block)
    write(tmp_path / "netflix", frame)
    same_interactions(read_netflix(tmp_path / "netflix", 3, 2), Interactions.read(frame, min_rating=3, min_items=2))


def same_interactions(one, other):
    assert one.users == other.users
    assert one.items == other.items
    for mine, theirs in zip(one.pairs, other.pairs, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for count in ("rows", "below_min_rating", "duplicates", "dropped_users"):
        assert getattr(one.report, count) == getattr(other.report, count)


@pytest.mark.parametrize("block", [20, 37, 1_000_000])
def test_netflix_files_may_have_windows_line_endings_and_lack_the_last(tmp_path, monkeypatch, block):
    monkeypatch.setattr(netflix, "BLOCK", block)
    write_combined(tmp_path / "netflix")
    truth = read_netflix(tmp_path / "netflix", 4, 5)
    for path in (tmp_path / "netflix").glob("combined_data_*.txt"):
        path.write_bytes(path.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n"))
    same_interactions(read_netflix(tmp_path / "netflix", 4, 5), truth)


BAD_LINES = [
    "12,five,2005-01-01",
    "12,5",
    "12,9,2005-01-01",
    ",5,2005-01-01",
    "",
    "7,:",
    "99999999,5,2005-01-01",
    "-3,5,2005-01-01",
    "999999999:",
]


@pytest.mark.parametrize("line", BAD_LINES)
@pytest.mark.parametrize("write", [write_netflix, write_combined])
def test_a_malformed_netflix_line_is_named_with_file_and_number(tmp_path, write, line):
    write(tmp_path / "netflix")
    name = "training_set/mv_0000003.txt" if write is write_netflix else "combined_data_2.txt"
    path = tmp_path / "netflix" / name
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], line, *lines[5:]]) + "\n")
    with pytest.raises(DataError) as error:
        read_netflix(tmp_path / "netflix", 4, 5)
    assert f"{path}: line 6 is {line!r}" in str(error.value)


@pytest.mark.parametrize("write", [write_netflix, write_combined])
def test_netflix_ratings_without_a_movie_are_an_error(tmp_path, write):
    write(tmp_path / "netflix")
    name = "training_set/mv_0000001.txt" if write is write_netflix else "combined_data_1.txt"
    path = tmp_path / "netflix" / name
    path.write_text(path.read_text().partition("\n")[2])
    with pytest.raises(DataError, match=f"{path}: "):
        read_netflix(tmp_path / "netflix", 4, 5)


def test_netflix_ratings_all_below_the_threshold_are_an_error(tmp_path):
    write_netflix(tmp_path / "netflix")
    with pytest.raises(DataError, match=r"120 ratings .* min_rating 6"):
        read_netflix(tmp_path / "netflix", 6, 5)


def test_a_malformed_netflix_title_is_named(tmp_path):
    write_netflix(tmp_path / "netflix")
    with (tmp_path / "netflix" / "movie_titles.txt").open("a") as file:
        file.write("no title\n")
    with pytest.raises(DataError, match=r"movie_titles\.txt: line 11 is 'no title'"):
        read_netflix(tmp_path / "netflix", 4, 5)


def write_alishop(folder, categories="item_cate.csv"):
    split = Interactions.read(ratings(), min_rating=4).split(2)
    write_released(split, folder)
    rows = [(item, item % 7 + 1) for item in split.items] + [(split.items[0], 99)]
    if categories == "item_cate_sid.csv":
        rows = [(sid, item % 7 + 1) for sid, item in enumerate(split.items)]
    header = ["sid", "cate"] if categories == "item_cate_sid.csv" else False
    pd.DataFrame(rows[::-1], columns=["sid", "cate"]).to_csv(folder / categories, index=False, header=header)
    return split


@pytest.mark.parametrize("categories", ["item_cate.csv", "item_cate_sid.csv", None])
def test_a_released_split_is_read_in_file_order(tmp_path, categories):
    split = write_alishop(tmp_path, categories or "item_cate.csv")
    found = read_released(tmp_path, categories)
    assert list(found.items) == list(split.items)
    for mine, theirs in zip(found.train.pairs, split.train.pairs, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for group in ("validation", "test"):
        for part in ("history", "target"):
            mine, theirs = getattr(getattr(found, group), part), getattr(getattr(split, group), part)
            np.testing.assert_array_equal(mine.indptr, theirs.indptr)
            np.testing.assert_array_equal(mine.indices, theirs.indices)
    if categories:
        assert found.table.to_pydict() == {"category": [item % 7 + 1 for item in split.items]}
    else:
        assert found.table is None


def test_users_of_a_released_split_need_not_be_sorted(tmp_path):
    split = write_alishop(tmp_path)
    for part in ("tr", "te"):
        path = tmp_path / f"validation_{part}.csv"
        pd.read_csv(path).sort_values("uid", ascending=False, kind="stable").to_csv(path, index=False)
    found = read_released(tmp_path)
    np.testing.assert_array_equal(found.validation.history.indices, split.validation.history.indices)
    np.testing.assert_array_equal(found.validation.target.indices, split.validation.target.indices)


def test_a_repeated_pair_in_a_released_split_is_dropped_and_counted(data, monkeypatch):
    split = write_alishop(data / "alishop-7c" / "pro_sg")
    with (data / "alishop-7c" / "pro_sg" / "train.csv").open("a") as file:
        file.write(f"0,{split.train.matrix.indices[0]}\n")
    entry = replace(catalog.entry("alishop-7c"), expected=Counts(12, 10, 61))
    monkeypatch.setitem(catalog._BY_NAME, "alishop-7c", entry)
    found = catalog.load("alishop-7c")
    assert found.train.report.duplicates == 1
    assert len(found.train) == len(split.train)


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("train.csv", "uid,sid\n", "train.csv: no rows"),
        ("train.csv", "uid,sid\n0,99\n", "train.csv: row 1 .* 99,"),
        ("train.csv", "uid,sid\n0,-1\n", "train.csv: row 1 .* -1,"),
        ("train.csv", "uid,sid\n0,x\n", "train.csv: column 'sid'"),
        ("train.csv", "user,sid\n0,1\n", "train.csv: no column 'uid' .*'user', 'sid'"),
        ("train.csv", "uid,sid\n11,0\n", "user 11 "),
        ("unique_sid.txt", "1\n1\n", "unique_sid.txt: 1 "),
        ("item_cate_sid.csv", "sid,cate\n99,1\n", "item_cate_sid.csv: .* 10 lines"),
        ("item_cate_sid.csv", "sid,cate\n1,bag\n", "item_cate_sid.csv: "),
    ],
)
def test_a_damaged_released_split_is_an_error_that_names_the_place(tmp_path, file, text, place):
    write_alishop(tmp_path, "item_cate_sid.csv")
    (tmp_path / file).write_text(text)
    with pytest.raises(DataError, match=place):
        read_released(tmp_path, "item_cate_sid.csv")


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A server of files, in the place of the one that publishes MovieLens."""
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "web").mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "web"))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/ml-1m.zip"
    tiny(monkeypatch, "ml-1m", expected=Counts(12, 10, 60), raw=None, archive=address)
    yield tmp_path / "web"
    server.shutdown()
    thread.join()
    server.server_close()


def publish(web, name="ml-1m.zip", write=write_1m):
    write(web / "ml-1m")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in (web / "ml-1m").iterdir():
            archive.write(path, f"ml-1m/{path.name}")
    (web / name).write_bytes(packed.getvalue())
    (web / f"{name}.md5").write_text(f"{hashlib.md5(packed.getvalue()).hexdigest()}  {name}\n")


def test_missing_data_is_downloaded_into_the_cache_once(data, web, tmp_path):
    publish(web)
    seen = []
    split = catalog.load("ml-1m", progress=lambda done, total: seen.append((done, total)))
    assert by_id(split) == by_id(Interactions.read(ratings(), min_rating=4).split(2))
    assert seen[-1][0] == seen[-1][1] == (web / "ml-1m.zip").stat().st_size
    assert sorted(path.name for path in (tmp_path / "cache" / "ml-1m").iterdir()) == ["movies.dat", "ratings.dat"]
    seen.clear()
    catalog.load("ml-1m", progress=lambda done, total: seen.append((done, total)))
    assert seen == []


def test_a_failed_download_says_what_to_put_where(data, web, tmp_path):
    with pytest.raises(DataError, match=rf"ml-1m: .* 404 .*ratings\.dat, movies\.dat in {tmp_path}/cache/ml-1m"):
        catalog.load("ml-1m")


def test_an_archive_without_the_files_is_an_error(data, web):
    publish(web, write=write_latest)
    with pytest.raises(DataError, match=r"ml-1m: ratings\.dat, movies\.dat not in .*ml-1m\.zip"):
        catalog.load("ml-1m")


REAL = {
    "ml-latest-small": (503, 5_697, 47_922),
    "ml-1m": (5_034, 3_502, 575_235),
    "ml-1m-ge3": (5_038, 3_605, 836_452),
    "alishop-7c-4k": (3_000, 19_362, 285_777),  # of 285,778 rows, one comes twice
}


@pytest.mark.skipif(DATA is None, reason="needs the real files (MACRID_DATA)")
@pytest.mark.parametrize("name", REAL)
def test_the_real_files_give_the_published_counts(name):
    train_users, items, interactions = REAL[name]
    split = catalog.load(name, download=False)
    assert (len(split.train.users), len(split.items)) == (train_users, items)
    heldout = sum(group.history.nnz + group.target.nnz for group in (split.validation, split.test))
    assert len(split.train) + heldout == interactions
    attribute = "category" if name.startswith("alishop") else "title"
    assert split.table.column(attribute).null_count == 0


def test_data_sets_are_at_hand_in_python_by_name_and_imported_when_asked_for():
    code = """if True:
        import sys, macrid
        assert not {"torch", "macrid.datasets"} & {*sys.modules}
        assert "ml-1m" in macrid.datasets.names()
        assert type(macrid.datasets.load("shop")) is macrid.Split
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
