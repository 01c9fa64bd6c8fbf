"""What a file is, by its first bytes, where it is plainly no table: people drop pictures and workbooks, too."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from macrid.data.texts import open_bytes

SNIFFED = 1 << 12  # bytes
GIVE, SAVE, UNPACK = "give a CSV, TSV or Parquet file", "save it as CSV", "unpack it first"
SIGNATURES = (
    (b"\x89PNG", "a PNG picture", GIVE),
    (b"\xff\xd8\xff", "a JPEG picture", GIVE),
    (b"GIF87a", "a GIF picture", GIVE),
    (b"GIF89a", "a GIF picture", GIVE),
    (b"%PDF-", "a PDF document", GIVE),
    (b"SQLite format 3\0", "a database", "read it with a query (--sql)"),
    (b"\xd0\xcf\x11\xe0", "an Excel or Word document", SAVE),
    (b"ARROW1\0", "an Arrow file", "write it as Parquet"),
    (b"Obj\x01", "an Avro file", "write it as Parquet"),
    (b"7z\xbc\xaf", "an archive", UNPACK),
    (b"Rar!\x1a", "an archive", UNPACK),
    (b"\x1f\x8b", "a compressed file", "its name should end with .gz"),
    (b"BZh91AY", "a compressed file", "its name should end with .bz2"),
    (b"\x28\xb5\x2f\xfd", "a compressed file", "its name should end with .zst"),
    (b"\xfd7zXZ", "a compressed file", UNPACK),
)
MARKUP = re.compile(rb"\s*<(!doctype|html|head|body|\?xml|svg)", re.IGNORECASE)
JSON = re.compile(rb'\s*(\{\s*("|$)|\[\s*[\[{])')


def is_parquet(path: Path) -> bool:
    """Whether a file starts as Parquet does, whatever its name: with its mark and bytes that no text has."""
    with path.open("rb") as file:
        head = file.read(64)
    return head.startswith(b"PAR1") and re.search(rb"[\0-\x08]", head) is not None


def why_no_table(path: Path) -> str | None:
    """What a file is instead of a table, and what to do; None if it may be one."""
    try:
        head = bytes(open_bytes(path).read(SNIFFED))
    except (pa.ArrowException, OSError):  # reported by whoever reads it
        return None
    if head.startswith(b"PK\x03\x04"):
        is_workbook = path.suffix.lower() in (".xlsx", ".xlsm") or b"xl/" in head
        return f"is an Excel workbook, not a table; {SAVE}" if is_workbook else f"is an archive, not a table; {UNPACK}"
    for start, what, remedy in SIGNATURES:
        if head.startswith(start):
            return f"is {what}, not a table; {remedy}"
    text = head.removeprefix(b"\xef\xbb\xbf")
    if found := MARKUP.match(text):
        kind = "an XML file" if found[1].lower() in (b"?xml", b"svg") else "an HTML page"
        return f"is {kind}, not a table; {GIVE}"
    return "is JSON, not a table; write it as CSV or Parquet, with one row per event" if JSON.match(text) else None
