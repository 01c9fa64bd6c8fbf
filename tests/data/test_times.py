from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.data.interactions import Interactions
from macrid.data.times import moment_text, moments, parse_moment, read_times
from macrid.errors import DataError

MOMENTS = [
    datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC),
    datetime(1999, 12, 31, tzinfo=UTC),
    datetime(2020, 2, 29, 23, 59, 59, tzinfo=UTC),
]
SECONDS = [int(moment.timestamp()) for moment in MOMENTS]


def read(values, kind=None):
    return read_times(pa.chunked_array([pa.array(values, kind)]), "events.csv, column 'time'")


ISO = [moment.replace(tzinfo=None).isoformat() for moment in MOMENTS]
FORMS = {
    "epoch seconds": SECONDS,
    "epoch seconds as floats": [float(value) for value in SECONDS],
    "epoch seconds as text": [str(value) for value in SECONDS],
    "epoch milliseconds": [value * 1_000 for value in SECONDS],
    "epoch microseconds": [value * 10**6 for value in SECONDS],
    "epoch nanoseconds": [value * 10**9 for value in SECONDS],
    "epoch nanoseconds as text": [str(value * 10**9) for value in SECONDS],
    "ISO without a zone": ISO,
    "ISO with a space": [text.replace("T", " ") for text in ISO],
    "ISO in UTC": [f"{text}Z" for text in ISO],
    "as databases write UTC": [f"{text.replace('T', ' ')} UTC" for text in ISO],
    "ISO in several zones": [
        moment.astimezone(timezone(timedelta(hours=hours))).isoformat()
        for moment, hours in zip(MOMENTS, (2, -5, 9), strict=True)
    ],
    "ISO with a space before the zone": [f"{text} +00:00" for text in ISO],
    "ISO with nanoseconds": [f"{text}.000000001" for text in ISO],
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_time_are_read_alike(form):
    times, note = read(FORMS[form])
    assert times.dtype == np.int64
    assert (times // 10**6).tolist() == SECONDS
    assert "1999-12-31 to 2020-02-29" in note
    if form.startswith("epoch"):
        assert " ".join(form.split()[:2]) in note


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "+05:00"])
def test_arrow_timestamps_of_every_unit_are_read(unit, zone):
    moments = MOMENTS if zone else [moment.replace(tzinfo=None) for moment in MOMENTS]
    assert (read(moments, pa.timestamp(unit, zone))[0] // 10**6).tolist() == SECONDS


def test_dates_are_midnight_in_utc():
    days = [date(2001, 2, 3), date(1970, 1, 1)]
    expected = [981_158_400 * 10**6, 0]
    for kind in (pa.date32(), pa.date64()):
        assert read(days, kind)[0].tolist() == expected
    assert read(["2001-02-03", "1970-01-01"])[0].tolist() == expected


def test_numbers_that_are_all_calendar_dates_are_read_as_dates():
    times, note = read([20240531, 19991231])
    assert [moment_text(time) for time in times] == ["2024-05-31", "1999-12-31"]
    assert "YYYYMMDD" in note
    assert "epoch seconds" in read([20240531, 20241331])[1]  # there is no month 13


@settings(deadline=None, max_examples=50)
@given(st.lists(st.datetimes(datetime(1980, 1, 1), datetime(2026, 1, 1)), min_size=1))
def test_written_and_read_again_a_time_is_the_same_to_the_microsecond(values):
    expected = [(value - datetime(1970, 1, 1)) // timedelta(microseconds=1) for value in values]
    assert read([value.isoformat() for value in values])[0].tolist() == expected
    assert [parse_moment(value) for value in values] == expected
    assert [parse_moment(value.isoformat()) for value in values] == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2001-02-03", "yesterday", "soon"], "row 2 is 'yesterday', which is not a time; use ISO 8601"),
        (["2001-02-03", "2001-02-30"], "row 2 is '2001-02-30', which is not a time"),
        (["17", "18", "yesterday"], "row 3 is 'yesterday', which is not a time"),
        (["2001-02-03", "17"], "row 2 is '17', which is not a time"),
        (["2001-02-03T04:05", "2001-02-03T04:05Z"], "zone: row 2 is '2001-02-03T04:05Z', row 1 is '2001-02-03T04:05'"),
        (["2001-02-03T04:05Z", "rubbish", "2001-02-03"], "row 2 is 'rubbish', which is not a time"),
        ([1.5, None, float("nan"), 3.0], r"row 2, row 3 have no time \(2 of 4 rows\); drop these rows"),
        (["2001-02-03", "", None, "NaN"], r"row 2, row 3, row 4 have no time \(3 of 4 rows\)"),
        ([None, 5], r"row 1 has no time \(1 of 2 rows\)"),
        ([None] * 9, r"row 1, row 2, row 3, row 4, row 5 and 4 more have no time"),
        ([1.7e9, 1.7e12], "mixes units: row 1 is 1700000000, which looks like seconds, and row 2 is 1700000000000, "),
        ([0, 1_700_000_000_000], "mixes units: row 1 is 0, which looks like seconds"),
        ([1.0, float("inf")], "row 2 is inf; a finite number is required"),
        ([1e300], "row 1 is 1e.300, which is not a time"),
        ([-9e10], "row 1 is no time of the years 1 to 9999"),
        ([True, False], "times have type bool"),
        ([[1], [2]], "times have type list"),
        ([1, 4_000_000_000, 5_000_000_000], r"row 3 are in the future \(2 of 3 rows; row 2 is 2096-10-02 07:06:40 UTC"),
        (["2001-01-01", "2999-01-01"], r"row 2 is in the future \(1 of 2 rows; row 2 is 2999-01-01\); correct or drop"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_an_error_that_names_the_rows(values, message):
    kind = pa.float64() if values == [None] * 9 else None
    with pytest.raises(DataError, match=message):
        read(values, kind)


def test_a_few_hours_ahead_are_not_the_future():
    soon = datetime.now(UTC) + timedelta(hours=20)
    assert read([soon.isoformat()])[0][0] == parse_moment(soon)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2001-02-03", [981_158_400]),
        (date(2001, 2, 3), [981_158_400]),
        (datetime(2001, 2, 3, 1, tzinfo=timezone(timedelta(hours=1))), [981_158_400]),
        (np.datetime64("2001-02-03"), [981_158_400]),
        (pd.Timestamp("2001-02-03"), [981_158_400]),
        (981_158_400, [981_158_400]),
        ("981158400000", [981_158_400]),
        (("2001-02-03", 981_158_401.0), [981_158_400, 981_158_401]),
        ("2001-02-03, 2001-02-03T00:00:01Z", [981_158_400, 981_158_401]),
    ],
)
def test_a_moment_may_be_given_in_any_form(at, expected):
    assert [moment // 10**6 for moment in moments(at)] == expected


@pytest.mark.parametrize("at", ["", "noon", [], (1, 2, 3), None, {}, float("nan"), "1,2,3", np.datetime64("NaT")])
def test_what_is_no_moment_is_an_error(at):
    with pytest.raises(DataError, match=r"\bat\b"):
        moments(at)


def test_the_line_of_a_file_is_named(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text('user,item,time\n1,"a\nb",2001-01-01\n1,c,later\n')
    with pytest.raises(DataError, match=r"events.csv, column 'time': row 2 \(line 4\) is 'later'"):
        Interactions.read(path, time=True)


@pytest.mark.parametrize("as_frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_times_of_frames_are_in_the_order_of_pairs(as_frame):
    columns = {"user": [2, 1, 2], "item": [5, 5, 6], "created_at": [moment.replace(tzinfo=None) for moment in MOMENTS]}
    data = Interactions.read(as_frame(columns), min_items=1, time=True)
    assert data.times.tolist() == SECONDS
    assert data.report.time_column == "created_at"
    assert "time = 'created_at'" in data.report.guessed
    assert Interactions.read(as_frame(columns), min_items=1).times is None
