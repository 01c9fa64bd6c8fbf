"""Streaming gives the same folder, to the bit, as reading everything into memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macrid.data import store
from macrid.data.interactions import Interactions
from macrid.data.large import assembling, preparing
from macrid.data.large.parts import Request
from macrid.data.large.preparing import Division, prepare
from macrid.data.weighing import Weighing
from macrid.errors import DataError

LIKELY = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))


def events(seed=0, rows=600, users=30, items=40):
    random = np.random.default_rng(seed)
    return pd.DataFrame({
        "user": random.integers(0, users, rows) * 37 % 101,
        "item": (items * random.random(rows) ** 2).astype(int) * 7 % 83,
        "rating": random.integers(1, 6, rows),
    })  # fmt: skip


def as_text(frame):
    return frame.assign(user="u" + frame.user.astype(str), item="ü" + frame.item.astype(str))


def in_memory(source, folder, request=None, items=None, division=None, min_items=1):
    """The folder as it is made from data in memory."""
    request, division = request or Request(), division or Division()
    data = Interactions.read(
        source, user=request.user, item=request.item, rating=request.rating, min_rating=request.min_rating,
        min_items=min_items, items=items, encoding=request.encoding, weight=request.weighing.weight,
        weights=request.weighing.weights, event=request.weighing.event, half_life=request.weighing.half_life,
        time=request.weighing.time,
    )  # fmt: skip
    split = data.split(division.heldout, division.seed, by=division.by, at=division.at, last=division.last)
    store.write(split, folder, overwrite=True)
    return data.report


def same_folder(one: Path, other: Path):
    """Two prepared folders, file by file."""
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())
    for path in one.glob("*.npy"):
        assert path.read_bytes() == (other / path.name).read_bytes(), path.name
    for path in one.glob("*.parquet"):
        assert pq.read_table(path).equals(pq.read_table(other / path.name)), path.name
    first, second = store.read_about(one), store.read_about(other)
    for about in (first, second):
        about["made"] = about["recipe"] = None
    if first["report"].get("mean_weight"):
        assert first["report"].pop("mean_weight") == pytest.approx(second["report"].pop("mean_weight"))
    assert first == second


def check(frame, folder, request=None, suffix=".parquet", **options):
    """Write a frame as a file, prepare it in both ways, and compare."""
    folder.mkdir(exist_ok=True)
    path = folder / f"events{suffix}"
    frame.to_parquet(path, row_group_size=100) if suffix == ".parquet" else frame.to_csv(path, index=False)
    in_memory(path, folder / "small", request, **options)
    split = prepare([path], folder / "large", request or Request(), **{"min_items": 1, **options}, overwrite=True)
    same_folder(folder / "small", folder / "large")
    assert not list(folder.glob(".large*"))
    return split


def refused(action):
    """The message of a `DataError`, or None."""
    try:
        action()
    except DataError as error:
        return str(error)
    return None


@pytest.fixture
def tiny(monkeypatch):
    """Buckets and chunks so small that there are many of them."""
    monkeypatch.setattr(preparing, "BYTES_PER_PAIR", preparing.MEMORY // 60)
    monkeypatch.setattr(assembling, "CHUNK", 50)


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [(pd.DataFrame.copy, ".parquet"), (as_text, ".parquet"), (pd.DataFrame.copy, ".csv.gz"), (as_text, ".csv")],
)
def test_one_file_gives_the_folder_that_memory_gives(tmp_path, tiny, kind, suffix):
    check(kind(events()), tmp_path, Request(min_rating=2), suffix, min_items=4, division=Division(0.2))


@given(data=st.data())
@LIKELY
def test_whatever_the_events_the_folder_is_the_same(tmp_path_factory, data):
    rows = st.integers(40, 120)
    frame = events(data.draw(st.integers(0, 999)), data.draw(rows), data.draw(st.integers(5, 25)), 20)
    frame = as_text(frame) if data.draw(st.booleans()) else frame
    frame = frame.sort_values("user") if data.draw(st.booleans()) else frame
    request = Request(min_rating=data.draw(st.sampled_from([None, 2, 3.5])))
    min_items = data.draw(st.integers(1, 3))
    by = data.draw(st.sampled_from(["users", "stable"]))
    division = Division(data.draw(st.sampled_from([0.1, 0.25] if by == "stable" else [0, 1, 0.2])), seed=7, by=by)
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "BYTES_PER_PAIR", preparing.MEMORY // data.draw(st.sampled_from([10, 1000])))
        patch.setattr(assembling, "CHUNK", data.draw(st.sampled_from([7, 10**6])))
        options = {"min_items": min_items, "division": division}
        message = refused(lambda: check(frame, folder, request, **options))
        if message is not None:  # nobody to hold out, say: both refuse it in the same words
            path = folder / "events.parquet"
            assert refused(lambda: prepare([path], folder / "large", request, **options)) == message
    shutil.rmtree(folder)


def test_weights_and_kinds_of_events_count_as_in_memory(tmp_path, tiny):
    frame = events().assign(kind=lambda f: np.where(f.rating > 2, "view", "cart"), worth=lambda f: f.rating / 3)
    weighing = Weighing(weight="worth", event="kind", weights={"view": 1.0, "cart": 0.1, "never": 2.0})
    split = check(frame, tmp_path, Request(weighing=weighing))
    assert len(set(split.train.matrix.data.tolist())) > 3
    assert "no event is a 'never'" in split.train.report.notes
    check(frame, tmp_path / "zero", Request(weighing=Weighing(event="kind", weights={"view": 1, "cart": 0})))


@pytest.mark.slow
def test_weights_that_are_all_the_same_are_not_kept(tmp_path):
    frame = events().assign(kind=lambda f: np.where(f.rating > 2, "view", "cart"))
    check(frame, tmp_path, Request(weighing=Weighing(event="kind", weights={"view": 3, "cart": 3})))
    assert not list((tmp_path / "large").glob("*weights*"))


@pytest.mark.parametrize("weights", [pytest.param(None, marks=pytest.mark.slow), {"view": 1.0, "cart": 0.3}])
def test_old_events_lose_weight_as_in_memory(tmp_path, tiny, weights):
    frame = events().assign(kind=lambda f: np.where(f.rating > 2, "view", "cart"))
    frame["time"] = pd.to_datetime(10**9 + 86_400 * np.random.default_rng(1).integers(0, 400, len(frame)), unit="s")
    frame.loc[7, ["user", "time"]] = [999, frame.time.max() + pd.Timedelta(days=90)]  # latest, but of a dropped user
    request = Request(weighing=Weighing(half_life=30.0, weights=weights))
    split = check(frame, tmp_path, request, min_items=3)
    assert split.train.report.notes[0].startswith("times are timestamps, 2001-09-")
    check(frame, tmp_path / "unused", Request(min_rating=2, weighing=Weighing(time="time")))


def timed(rows=600, moments=40, seed=0):
    """Events of two kinds, many of them at the same time."""
    days = np.random.default_rng(seed + 1).integers(0, moments, rows)
    frame = events(seed, rows).assign(kind=lambda f: np.where(f.rating > 2, "view", "cart"))
    return frame.assign(time=pd.to_datetime(10**9 + 86_400 * days, unit="s"))


@pytest.mark.parametrize(
    "division",
    [Division(by="time"), Division(0.3, by="time"), Division(by="time", at="2001-09-30,2001-10-05"),
     Division(by="last"), Division(by="last", last=2)],
)  # fmt: skip
@pytest.mark.parametrize(
    "weighing",
    [{}, {"half_life": 20.0}, {"weights": {"view": 1.0, "cart": 0.3}},
     {"half_life": 5.0, "weights": {"view": 0, "cart": 2}}],
)  # fmt: skip
def test_a_split_by_time_is_that_of_memory(tmp_path, tiny, division, weighing):
    request = Request(min_rating=2, weighing=Weighing(time="time", **weighing))
    split = check(timed(), tmp_path, request, min_items=3, division=division)
    assert split.test.protocol.startswith("before and after" if division.by == "time" else "last")


def test_a_split_by_time_depends_on_no_order_of_several_files(tmp_path, tiny):
    frame = as_text(timed(900))
    request = Request(weighing=Weighing(time=True, half_life=20.0))
    for by in ("time", "last"):
        in_memory(frame.sort_values(["user", "item"]), tmp_path / "small", request, division=Division(by=by))
        for seed in range(2):
            shuffled = frame.sample(frac=1, random_state=seed)
            paths = [tmp_path / "a.parquet", tmp_path / "b.csv"]
            shuffled.iloc[:400].to_parquet(paths[0])
            shuffled.iloc[400:].assign(time=shuffled.time.astype(str)).to_csv(paths[1], index=False)
            with pytest.raises(DataError, match=r"write all parts|the same kind of times"):
                prepare(paths, tmp_path / "mixed", request, division=Division(by=by))
            shuffled.iloc[400:].to_parquet(paths[1].with_suffix(".parquet"))
            prepare(
                [paths[1].with_suffix(".parquet"), paths[0]][:: 1 - 2 * seed], tmp_path / "large", request,
                min_items=1, division=Division(by=by), overwrite=True,
            )  # fmt: skip
            for path in (tmp_path / "small").glob("*.npy"):
                assert path.read_bytes() == (tmp_path / "large" / path.name).read_bytes(), (by, seed, path.name)
            for path in (tmp_path / "small").glob("*.parquet"):
                assert pq.read_table(path).equals(pq.read_table(tmp_path / "large" / path.name)), (by, path.name)


@given(data=st.data())
@LIKELY
def test_whatever_the_events_a_split_by_time_is_the_same(tmp_path_factory, data):
    frame = timed(data.draw(st.integers(30, 150)), data.draw(st.sampled_from([3, 40])), data.draw(st.integers(0, 999)))
    weighing = data.draw(st.sampled_from([{}, {"half_life": 2.0}, {"weights": {"view": 1.0, "cart": 0.3}}]))
    request = Request(min_rating=data.draw(st.sampled_from([None, 3])), weighing=Weighing(time="time", **weighing))
    division = data.draw(st.sampled_from([
        Division(by="time"), Division(0.4, by="time"), Division(by="time", at="2001-09-20"),
        Division(by="last"), Division(by="last", last=3),
    ]))  # fmt: skip
    options = {"min_items": data.draw(st.integers(1, 5)), "division": division}
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "BYTES_PER_PAIR", preparing.MEMORY // data.draw(st.sampled_from([5, 1000])))
        patch.setattr(assembling, "CHUNK", data.draw(st.sampled_from([7, 10**6])))
        message = refused(lambda: check(frame, folder, request, **options))
        if message is not None:  # nothing to predict, say: both refuse it in the same words
            path = folder / "events.parquet"
            assert refused(lambda: prepare([path], folder / "large", request, **options)) == message
    shutil.rmtree(folder)


def test_a_split_by_time_keeps_titles_and_users_of_buckets_without_anybody(tmp_path, tiny):
    items = tmp_path / "items.csv"
    ids = sorted({*events().item})[3:]
    pd.DataFrame({"item": ids, "title": [f"№ {i}" for i in ids]}).to_csv(items, index=False)
    frame = timed().sort_values("user").assign(user=lambda f: np.where(f.user < 50, f.user * 1000 + f.item, f.user))
    for by in ("time", "last"):  # many users with one item, all in the first buckets
        request = Request(weighing=Weighing(time="time", half_life=9.0))
        split = check(frame, tmp_path / by, request, min_items=3, division=Division(by=by), items=items)
        assert split.table.column_names == ["title"]
        assert split.train.report.dropped_users > 100


def test_a_split_by_time_tells_how_far_it_is(tmp_path, tiny):
    timed().to_parquet(tmp_path / "events.parquet")
    said = []
    request, division = Request(weighing=Weighing(time="time", half_life=9.0)), Division(by="last")
    prepare(
        [tmp_path / "events.parquet"], tmp_path / "data", request, min_items=1, division=division,
        tell=lambda *event: said.append(event),
    )  # fmt: skip
    assert list(dict.fromkeys(title for title, _, _ in said)) == [
        "reading events.parquet", "numbering users", "numbering items", "mapping ids", "merging interactions",
        "finding the latest events", "dividing by time", "writing interactions", "checking",
    ]  # fmt: skip
    assert all(total is None or 0 <= done <= total for _, done, total in said)


def test_a_split_by_time_finds_the_column_of_times(tmp_path):
    frame, request, division = timed(), Request(), Division(by="time")
    in_memory(frame, tmp_path / "small", Request(weighing=Weighing(time=True)), division=division)
    frame.to_parquet(tmp_path / "events.parquet")
    prepare([tmp_path / "events.parquet"], tmp_path / "large", request, min_items=1, division=division)
    assert (tmp_path / "small" / "train.indices.npy").read_bytes() == (
        tmp_path / "large" / "train.indices.npy"
    ).read_bytes()
    events().to_parquet(tmp_path / "untimed.parquet")
    with pytest.raises(DataError, match="time"):
        prepare([tmp_path / "untimed.parquet"], tmp_path / "none", request, min_items=1, division=division)
    assert not (tmp_path / ".none.preparing").exists()


def test_moments_are_found_in_more_files_than_can_be_open(tmp_path):
    pytest.importorskip("resource")
    for number in range(300):
        (tmp_path / f"{number}").mkdir()
        np.save(tmp_path / f"{number}" / "moments.npy", np.arange(number, dtype=np.int64))  # none in the first
    code = """
import resource, sys
from pathlib import Path
from macrid.data.large.timed import moments
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
times = moments(sorted(Path(sys.argv[1]).iterdir()))
print(len(times), times.before(2), times[598])
"""
    ran = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(300 * 299 // 2), str(298 + 299), "2"]


def test_arrays_of_unknown_length_are_complete_without_assertions(tmp_path):
    code = """
import sys, numpy as np
from pathlib import Path
from macrid.data.large.assembling import array_file
with array_file(Path(sys.argv[1]), np.dtype(np.int32)) as file:
    file.write(np.arange(5, dtype=np.int32).tobytes())
"""
    subprocess.run([sys.executable, "-O", "-c", code, tmp_path / "a.npy"], check=True)
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2, 3, 4]


def test_divisions_that_make_no_sense_are_refused():
    for options in ({"by": "users", "at": "2001-01-01"}, {"by": "time", "last": 2}, {"by": "last", "heldout": 0.1}):
        with pytest.raises(DataError, match="the split is by"):
            Division(**options)
    for options, message in (
        ({"by": "time", "at": "soon"}, "soon"),
        ({"by": "time", "at": "2001-02-01,2001-01-01"}, "2001-02-01.*2001-01-01.*the earlier one first"),
        ({"by": "time", "heldout": 500}, "heldout is 500.*between 0 and 0.5"),
        ({"by": "last", "last": 0}, "last is 0"),
    ):
        with pytest.raises(DataError, match=message):
            Division(**options)


def test_times_of_another_kind_are_refused(tmp_path):
    frame = events().assign(time=1_700_000_000)
    frame.iloc[:300].to_parquet(tmp_path / "a.parquet")
    frame.iloc[300:].assign(time=1_700_000_000_000).to_parquet(tmp_path / "b.parquet")
    naive = pd.to_datetime(frame.time, unit="s")
    for name, times in (("c", naive), ("d", naive.dt.tz_localize("UTC"))):
        frame.assign(time=times).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=r"d.parquet: times are timestamps with a zone, but times are timestamps in"):
        prepare(
            [tmp_path / "c.parquet", tmp_path / "d.parquet"], tmp_path / "data",
            Request(weighing=Weighing(half_life=3.0)),
        )  # fmt: skip
    message = "b.parquet: times are epoch milliseconds, but times are epoch seconds in .*a.parquet"
    with pytest.raises(DataError, match=message):
        prepare([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "data",
                Request(weighing=Weighing(half_life=3.0)))  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        "float64",
        "dictionary",
        "uuid",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("int8", "uint64", "decimal")),
    ],
)
def test_ids_of_any_type_mean_the_same(tmp_path, kind):
    import uuid

    frame = events()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    values = {
        "decimal": lambda column: column.cast(pa.decimal128(20, 0)),
        "dictionary": lambda column: column.cast(pa.string()).dictionary_encode(),
        "uuid": lambda column: pa.array([uuid.UUID(int=value.as_py()).bytes for value in column], pa.uuid()),
    }
    change = values.get(kind, lambda column: column.cast(kind))
    for place, name in enumerate(("user", "item")):
        table = table.set_column(place, name, change(table.column(name)))
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    in_memory(path, tmp_path / "small")
    prepare([path], tmp_path / "large", Request(), min_items=1)
    same_folder(tmp_path / "small", tmp_path / "large")


def test_ratings_are_compared_in_their_own_type(tmp_path):
    frame = events().assign(rating=lambda f: (f.rating + np.float32(0.1)).astype("float32"))
    check(frame, tmp_path, Request(min_rating=4.1))  # 4.1 is less than float32(4.1)


def test_titles_and_attributes_join_as_in_memory(tmp_path):
    items = tmp_path / "items.csv"
    ids = sorted({*events().item})[3:]
    pd.DataFrame({"item": ids, "title": [f"№ {i}" for i in ids], "price": np.arange(len(ids)) / 2}).to_csv(items)
    split = check(events(), tmp_path / "titled", items=items)
    assert split.table.column_names[0] == "title"


def test_several_files_count_as_one_that_is_sorted_whatever_their_order(tmp_path, tiny):
    frame = as_text(events(rows=900))
    in_memory(frame.sort_values(["user", "item"]), tmp_path / "small", Request(min_rating=2))
    about = {"about": None}
    for seed in range(2):
        shuffled = frame.sample(frac=1, random_state=seed)
        paths = [tmp_path / f"{name}{seed}.parquet" for name in "bca"]
        for path, part in zip(paths, np.array_split(np.arange(len(frame)), 3), strict=True):
            shuffled.iloc[part].to_parquet(path)
        prepare(paths[:: 1 - 2 * seed], tmp_path / "large", Request(min_rating=2), min_items=1, overwrite=True, **about)
        for path in (tmp_path / "small").glob("*.npy"):
            assert path.read_bytes() == (tmp_path / "large" / path.name).read_bytes(), (seed, path.name)
        for path in (tmp_path / "small").glob("*.parquet"):
            assert pq.read_table(path).equals(pq.read_table(tmp_path / "large" / path.name)), (seed, path.name)


def test_progress_tells_every_stage_and_how_far_it_is(tmp_path, tiny):
    events().to_csv(tmp_path / "events.csv", index=False)
    told = []
    prepare(
        [tmp_path / "events.csv"], tmp_path / "data", Request(), min_items=1, tell=lambda *event: told.append(event)
    )
    titles = list(dict.fromkeys(title for title, _, _ in told))
    assert titles == ["reading events.csv", "numbering users", "numbering items", "mapping ids", "merging interactions",
                      "writing interactions", "checking"]  # fmt: skip
    assert all(total is None or 0 <= done <= total for _, done, total in told)
    assert ("reading events.csv", 600, None) in told


@pytest.mark.slow
@pytest.mark.skipif("MACRID_DATA" not in os.environ, reason="MACRID_DATA has no data sets")
@pytest.mark.parametrize("name", ["ml-1m/ratings.dat", "ml-latest-small/ratings.csv"])
def test_published_data_sets_give_the_same_folder(tmp_path, name):
    path = Path(os.environ["MACRID_DATA"], name)
    request, division = Request(min_rating=4), Division(50)
    in_memory(path, tmp_path / "small", request, division=division, min_items=5)
    prepare([path], tmp_path / "large", request, min_items=5, division=division)
    same_folder(tmp_path / "small", tmp_path / "large")
