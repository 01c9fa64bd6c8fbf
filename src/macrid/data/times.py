"""Times of events: epoch numbers, ISO 8601 text and Arrow's types, as microseconds since 1970 in UTC.

A time without a zone is in UTC. An error names the rows that are no times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.columns import MISSING_IDS, numbers, row_text, shown
from macrid.data.ids import is_text
from macrid.errors import DataError

SECOND = 1_000_000
DAY = 86_400 * SECOND
UNITS = (
    ("seconds", SECOND, 1e11),
    ("milliseconds", 1_000, 1e14),
    ("microseconds", 1, 1e17),
    ("nanoseconds", -1_000, np.inf),
)
EARLIEST, LATEST = -62_135_596_800 * SECOND, 253_402_300_799 * SECOND  # the years 1 and 9999
NUMBER = r"^\s*[-+]?\d+(\.\d*)?([eE][-+]?\d+)?\s*$"
ZONE = r"[T ].*\d(Z|z|[-+]\d\d(:?\d\d)?)$"
LISTED = 5
Place = Callable[[int], str]


def read_times(column: pa.ChunkedArray, where: str, place: Place = row_text) -> tuple[np.ndarray, str]:
    """Microseconds of every row (rows,), and what a report should say about them."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type):
        column = pc.utf8_trim_whitespace(column.cast(pa.string()))
        column = pc.if_else(pc.is_in(column, pa.array(MISSING_IDS)), pa.scalar(None, pa.string()), column)
    elif pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    _check_present(column, where, place)
    zoned = False
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        times, kind = _from_arrow(column, where), "dates" if pa.types.is_date(column.type) else "timestamps"
        zoned = getattr(column.type, "tz", None) is not None
    elif is_text(column.type) and not pc.all(pc.match_substring_regex(column, NUMBER)).as_py():
        (times, zoned), kind = _from_text(column, where, place), "dates and times in text"
    elif is_text(column.type) or _is_number(column.type):
        times, kind = _from_numbers(_whole_if_possible(column), where, place)
    else:
        raise DataError(f"{where}: times have type {column.type}; use timestamps, dates, ISO text or epoch seconds")
    _check_range(times, where, place)
    kind += " with a zone" * zoned
    return times, f"times are {kind}, {span_text(int(times.min()), int(times.max()))}"


def span_text(first: int, last: int) -> str:
    """The days of two times: 2024-01-01 to 2024-05-31."""
    return f"{_day(first)} to {_day(last)}"


def parse_moment(value: Any) -> int:
    """Microseconds of a date, a datetime, ISO text or epoch seconds (or milli-, micro- or nanoseconds)."""
    try:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").astype(object)
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        if isinstance(value, date):
            return parse_moment(datetime(value.year, value.month, value.day, tzinfo=UTC))
        if isinstance(value, str) and not re.match(NUMBER, value):
            return parse_moment(_from_iso(re.sub(r"\s*(UTC|GMT)\s*$", "Z", value.strip())))
        column = pa.chunked_array([pa.array([int(value) if float(value).is_integer() else float(value)])])
        return int(_from_numbers(column, "at", lambda _: "the moment")[0][0])
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"at is {shown(value)}, which is not a moment; give a date or time such as 2024-05-31 or 2024-05-31T18:00"
        ) from None


def moment_text(time: int) -> str:
    """A date if it is midnight, else with the time of day, in UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(time))
    if moment.time() == datetime.min.time():
        return f"{moment:%Y-%m-%d}"
    return f"{moment.replace(microsecond=0, tzinfo=None).isoformat(sep=' ')} UTC"


def _day(time: int) -> str:
    return moment_text(int(time) // DAY * DAY)


def _from_iso(text: str) -> datetime:
    return datetime.fromisoformat(re.sub(r"\s+(?=[-+]\d\d)", "", text))


def rows_text(rows: np.ndarray, place: Place) -> str:
    """A few rows for a message: row 3, row 17 and 40 more."""
    few = ", ".join(place(int(row)) for row in rows[:LISTED])
    return few + (f" and {len(rows) - LISTED:,} more" if len(rows) > LISTED else "")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _check_present(column: pa.ChunkedArray, where: str, place: Place) -> None:
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy())
        has = "has" if len(missing) == 1 else "have"
        raise DataError(
            f"{where}: {rows_text(missing, place)} {has} no time ({len(missing):,} of {len(column):,} rows);"
            " drop these rows or fill in the times"
        )


def _from_arrow(column: pa.ChunkedArray, where: str) -> np.ndarray:
    zone = getattr(column.type, "tz", None)
    try:
        return column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()).to_numpy()
    except pa.ArrowException as error:
        raise DataError(f"{where}: times have type {column.type}, which cannot be read; use UTC") from error


def _whole_if_possible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as integers where all are, since floats cannot hold nanoseconds."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.float64())


def _from_numbers(column: pa.ChunkedArray, where: str, place: Place) -> tuple[np.ndarray, str]:
    values = numbers(column, where, place)
    if (dates := _calendar_dates(values)) is not None:
        return dates, "dates written as numbers (YYYYMMDD)"
    if (beyond := np.flatnonzero(np.abs(values.astype(np.float64)) >= 2.0**63)).size:
        raise DataError(f"{where}: {place(int(beyond[0]))} is {values[beyond[0]]}, which is not a time")
    sizes = np.searchsorted([limit for *_, limit in UNITS], np.abs(values.astype(np.float64)), side="right")
    low, high = int(sizes.argmin()), int(sizes.argmax())
    name, factor, _ = UNITS[sizes[high]]
    if sizes[low] != sizes[high]:
        raise DataError(
            f"{where}: mixes units: {place(low)} is {values[low]}, which looks like {UNITS[sizes[low]][0]},"
            f" and {place(high)} is {values[high]}, which looks like {name}; use one unit"
        )
    if factor < 0:
        return np.floor_divide(values, -factor).astype(np.int64), f"epoch {name}"
    if values.dtype.kind == "f":
        return np.round(values * factor).astype(np.int64), f"epoch {name}"
    return values.astype(np.int64) * factor, f"epoch {name}"


def _calendar_dates(values: np.ndarray) -> np.ndarray | None:
    """Dates such as 20240531, which as seconds would all be in August 1970; None if one is not a date."""
    if values.min() < 1900_01_01 or values.max() > 2100_12_31 or np.any(values % 1):
        return None
    distinct, places = np.unique(values.astype(np.int64), return_inverse=True)
    try:
        dates = [date(value // 10_000, value // 100 % 100, value % 100) for value in distinct.tolist()]
    except ValueError:
        return None
    return np.array([parse_moment(day) for day in dates], dtype=np.int64)[places]


def _from_text(column: pa.ChunkedArray, where: str, place: Place) -> tuple[np.ndarray, bool]:
    """Microseconds, and whether the times have zones."""
    column = pc.replace_substring_regex(column, r"\s*(UTC|GMT)$", "Z")
    zoned = pc.match_substring_regex(column, ZONE).to_numpy()
    if zoned.any() and not zoned.all():
        _parsed_one_by_one(column, where, place)  # text that is no time at all comes first
        first = [int(np.flatnonzero(zoned == kind)[0]) for kind in (True, False)]
        raise DataError(
            f"{where}: mixes times with and without a zone: {place(first[0])} is {shown(column[first[0]].as_py())},"
            f" {place(first[1])} is {shown(column[first[1]].as_py())}; give all of them one, or none for UTC"
        )
    is_zoned = bool(zoned.any())
    try:
        return column.cast(pa.timestamp("us", "UTC" if is_zoned else None)).cast(pa.int64()).to_numpy(), is_zoned
    except pa.ArrowException:
        return _parsed_one_by_one(column, where, place), is_zoned


def _parsed_one_by_one(column: pa.ChunkedArray, where: str, place: Place) -> np.ndarray:
    """More forms than Arrow reads, such as nine digits of a second; an error names the first that is none."""
    encoded = column.dictionary_encode().combine_chunks()
    codes = encoded.indices.to_numpy()
    texts, known = encoded.dictionary.to_pylist(), np.zeros(len(encoded.dictionary), dtype=np.int64)
    for code, text in enumerate(texts):
        try:
            known[code] = parse_moment(_from_iso(text))
        except ValueError:
            text = _least_like_a_time(text, texts)
            wrong = np.flatnonzero(codes == texts.index(text))
            raise DataError(
                f"{where}: {place(int(wrong[0]))} is {shown(text)}, which is not a time; use ISO 8601, such as"
                " 2024-05-31 or 2024-05-31T18:00:00Z, or epoch seconds"
            ) from None
    return known[codes]


def _least_like_a_time(text: str, texts: list[str]) -> str:
    """Among epoch numbers, the first text that is none; else the text itself."""
    others = [other for other in texts if not re.match(NUMBER, other)]
    return others[0] if re.match(NUMBER, text) and len(others) < len(texts) / 2 else text


def _check_range(times: np.ndarray, where: str, place: Place) -> None:
    if (beyond := np.flatnonzero((times < EARLIEST) | (times > LATEST))).size:
        raise DataError(f"{where}: {rows_text(beyond, place)} is no time of the years 1 to 9999")
    tomorrow = parse_moment(datetime.now(UTC)) + DAY
    if (future := np.flatnonzero(times > tomorrow)).size:
        row = int(future[0])
        raise DataError(
            f"{where}: {rows_text(future, place)} {'is' if len(future) == 1 else 'are'} in the future"
            f" ({len(future):,} of {len(times):,} rows; {place(row)} is {moment_text(times[row])});"
            " correct or drop them"
        )


def moments(at: Any) -> Sequence[int]:
    """One moment or two, in microseconds."""
    if isinstance(at, str) and "," in at:
        at = tuple(part.strip() for part in at.split(","))
    values = at if isinstance(at, tuple | list) else (at,)
    if len(values) not in (1, 2):
        raise DataError(f"at has {len(values)} moments; give that of the test, or those of validation and test")
    found = [parse_moment(value) for value in values]
    if found != sorted(set(found)):
        start, end = map(moment_text, found)
        raise DataError(f"validation begins at {start} and the test at {end}; give two moments, the earlier one first")
    return found
