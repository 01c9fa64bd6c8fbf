"""Text files: which encoding they have, decided once and checked to the last byte, and whether their quotes match.

Unless it is named, the encoding follows from the file: a byte order mark decides between UTF-8, UTF-16 and UTF-32;
a file that is UTF-8 throughout is UTF-8; one whose bytes beyond ASCII never form UTF-8 is Latin-1 (Windows-1252 if it
uses the characters that only that has); and one that is UTF-8 in some places only is refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from macrid.errors import DataError, first_line

BLOCK = 1 << 24
SNIFFED = 1 << 20  # bytes in which the first line must end
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
UTF8 = ("utf-8", "utf-8-sig")
UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
NOT_LATIN = re.compile(rb"[\x81\x8d\x8f\x90\x9d\xff]")  # nothing in Windows-1252, or what only damage writes
ONLY_WINDOWS = re.compile(rb"[\x80-\x9f]")
QUOTE, LINE_ENDS = ord('"'), (ord("\n"), ord("\r"))
REMEDY = "correct the file, or name its encoding with --encoding (encoding= in Python)"


@dataclass(frozen=True)
class Text:
    """A file that has been checked."""

    path: Path
    encoding: str
    """As Python calls it."""
    note: str = ""
    """How the encoding was decided, unless it is UTF-8."""
    has_quotes: bool = False

    def open(self) -> Any:
        """The bytes in UTF-8, decompressed."""
        stream = open_bytes(self.path)
        return stream if self.encoding in UTF8 else pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    def lines(self) -> io.TextIOWrapper:
        """As written, line ends included."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="")

    def first_line(self) -> str:
        """Without its line end."""
        start = self.open().read(SNIFFED).removeprefix(codecs.BOM_UTF8)
        line = re.split(rb"[\r\n]", start, maxsplit=1)[0].decode(errors="ignore")  # the end may be cut
        if not line.strip():
            raise DataError(f"{self.path}: the first line is empty; start the file with its header")
        return line

    def check_quotes(self, delimiter: str) -> None:
        """Raise if a quoted cell does not end at a delimiter: a stray quote would swallow rows up to the next one."""
        if self.has_quotes and not _quotes_match(_pieces(self.open()), ord(delimiter)):
            with self.records(delimiter, strict=True) as records:
                try:
                    for _ in records:
                        pass
                except csv.Error as error:
                    raise DataError(
                        f"{self.path}, line {records.line_num:,}: a quoted cell ends in the wrong place"
                        f" ({error}); double the quotes inside a cell, and close every cell that starts with one"
                    ) from None

    def line_of(self, row: int, delimiter: str, quoted: bool) -> int | None:
        """The line, from 1, on which a row starts; blank lines do not count. None if unknown."""
        with self.records(delimiter, quoted=quoted) as records:
            start = 1
            try:
                for cells in records:
                    if cells:
                        row -= 1
                    if row < 0:
                        return start
                    start = records.line_num + 1
            except csv.Error:
                pass
        return None

    @contextmanager
    def records(self, delimiter: str, quoted: bool = True, strict: bool = False) -> Iterator[Any]:
        """Rows as Python's csv module reads them."""
        limit = csv.field_size_limit(2**31 - 1)
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        try:
            with self.lines() as lines:
                yield csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)
        finally:
            csv.field_size_limit(limit)


def check_text(path: Path, encoding: str | None = None) -> Text:
    """Decide the encoding of a file, unless it is given, and check that all of the file has it."""
    try:
        if encoding is not None:
            return _check_given(path, _known(encoding), f"encoding {encoding}")
        mark = open_bytes(path).read(4)
        marked = next((name for start, name in MARKS if mark.startswith(start)), None)
        if marked in (None, "utf-8-sig"):
            return _check_bytes(path, marked)
        return _check_given(path, marked, f"encoding {marked}, by its byte order mark")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read ({first_line(error)})") from error


def is_utf8(path: Path) -> bool:
    """Whether all of a file is UTF-8."""
    try:
        return check_text(path).encoding in UTF8
    except DataError:
        return False


def open_bytes(path: Path) -> Any:
    """The bytes of a file, decompressed."""
    return pa.input_stream(str(path), compression="detect")


def _known(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding)
        if codec._is_text_encoding and codec.incrementaldecoder is not None:
            return codec.name
    except (LookupError, ValueError):  # the latter for a name that is no text
        pass
    raise DataError(f"unknown encoding {encoding!r}; give one such as utf-8, latin-1, windows-1252 or utf-16")


def _check_bytes(path: Path, marked: str | None) -> Text:
    """A file that should be UTF-8 and may be Latin-1 if it has no mark."""
    line, has_quotes, bad, good, wide = 1, False, None, None, False
    for piece in _pieces(open_bytes(path)):
        if b"\0" in piece:
            raise _not_text(path, line + piece[: piece.index(b"\0")].count(b"\n"))
        has_quotes = has_quotes or b'"' in piece
        if not piece.isascii():
            if good is None and (match := UTF8_CHARACTER.search(piece)):
                good = line + piece[: match.start()].count(b"\n")
            try:
                piece.decode()
            except UnicodeDecodeError as error:
                bad = bad or (line + piece[: error.start].count(b"\n"), piece[error.start])
                wide = wide or ONLY_WINDOWS.search(piece) is not None
                if marked or good is not None or NOT_LATIN.search(piece):
                    break
        line += piece.count(b"\n")
    if bad is None:
        return Text(path, marked or "utf-8", has_quotes=has_quotes)
    where = f"{path}, line {bad[0]:,}: byte 0x{bad[1]:02X} is not UTF-8"
    if marked or good is not None:
        raise DataError(f"{where}, but {f'line {good:,}' if good else 'the file says it'} is; {REMEDY}")
    if NOT_LATIN.search(piece):
        raise DataError(f"{where}, nor is the file Latin-1; {REMEDY}")
    encoding = "windows-1252" if wide else "latin-1"
    return Text(path, encoding, f"encoding {encoding}, as line {bad[0]:,} is not UTF-8", has_quotes)


def _check_given(path: Path, encoding: str, note: str) -> Text:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    stream, line, has_quotes, more = open_bytes(path), 1, False, True
    while more:
        block = stream.read(BLOCK)
        more = bool(block)
        try:
            text = decoder.decode(block, not more)
        except UnicodeError as error:
            line += block[: getattr(error, "start", 0)].count(b"\n")
            raise DataError(f"{path}, line {line:,}: not {encoding} ({_reason(error)}); {REMEDY}") from None
        if "\0" in text:
            raise _not_text(path, line + text[: text.index("\0")].count("\n"))
        has_quotes = has_quotes or '"' in text
        line += text.count("\n")
    return Text(path, encoding, "" if encoding in UTF8 else note, has_quotes)


def _reason(error: UnicodeError) -> str:
    return str(getattr(error, "reason", error))


def _not_text(path: Path, line: int) -> DataError:
    return DataError(f"{path}, line {line:,}: contains a zero byte, so it is not text; {REMEDY}")


def _pieces(stream: Any) -> Iterator[bytes]:
    """The content in large pieces that end with a line, the last perhaps without."""
    rest = b""
    while block := stream.read(BLOCK):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield rest


def _quotes_match(pieces: Iterable[bytes], delimiter: int) -> bool:
    """Whether every other quote starts a cell, and those between end one; two in a row are a quote inside a cell."""
    beside = (delimiter, QUOTE, *LINE_ENDS)
    opens = True
    for piece in pieces:
        content = np.frombuffer(b"\n" + piece.removeprefix(codecs.BOM_UTF8) + b"\n", np.uint8)
        places = np.flatnonzero(content == QUOTE)
        first, second = (places[0::2], places[1::2]) if opens else (places[1::2], places[0::2])
        if not np.isin(content[first - 1], beside).all() or not np.isin(content[second + 1], beside).all():
            return False
        opens = opens == (len(places) % 2 == 0)
    return opens
