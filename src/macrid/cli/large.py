"""macrid data prepare of several files, or of data larger than memory: when to stream, and the bar meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macrid.cli.common import error_console, step_progress, working
from macrid.errors import DataError

if TYPE_CHECKING:
    from macrid.data.large.preparing import Query, Tell
    from macrid.data.split import Split
    from macrid.data.tables import Table

UNITS = {"": 1, "K": 10, "M": 20, "G": 30, "T": 40}


def bytes_of(text: str) -> int:
    """'2GiB', '500M' or '1.5 GB' in bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise DataError(f"--memory: {text!r} is not an amount of memory; write 2GiB or 500MiB")
    unit = match[2].upper()
    return int(float(match[1]) * (2 ** UNITS[unit] if unit else 1))


def needs_streaming(files: Sequence[Path], stream: bool | None, memory: int) -> bool:
    """Whether files are too many or too large for memory. stream: what the user wants, if anything."""
    from macrid.data.large.engine import is_installed
    from macrid.data.large.sources import fits_in_memory

    if len(files) > 1:
        if stream is False:
            raise DataError(f"--no-stream reads one file, but there are {len(files):,}; remove it")
        return True
    if stream is not None:
        return stream
    return is_installed() and not fits_in_memory(files[0], memory)


def query_or_table(query: Query, out: Path, stream: bool | None, memory: int) -> Query | Table:
    """A query with too many rows for memory, to be streamed; or else its rows."""
    from dataclasses import replace

    from macrid.data.large.engine import is_installed
    from macrid.data.large.preparing import is_begun
    from macrid.data.large.sources import BYTES_PER_ROW
    from macrid.data.tables import FrameTable

    if stream or (stream is None and is_begun(out)):
        return query
    with working("reading the database"):
        table = query.open()
        if stream is False or not is_installed():
            return FrameTable(table.whole(), table.name)
        return table.within(memory // BYTES_PER_ROW) or replace(query, table=table)


def prepare_streamed(source: Sequence[Path] | Query, out: Path, **options: Any) -> Split:
    """See `macrid.data.large.preparing.prepare`."""
    from macrid.data.large.preparing import prepare

    with stage_progress() as tell:
        return prepare(source, out, tell=tell, say=lambda text: error_console.print(text, soft_wrap=True), **options)


@contextmanager
def stage_progress() -> Iterator[Tell]:
    """A bar for each stage."""
    with step_progress() as bar:
        task = bar.add_task("", total=None, status="")

        def tell(title: str, done: int, total: int | None) -> None:
            is_share = total == 100  # else rows or parts
            status = f"{done} %" if is_share else f"{done:,}" + (f" of {total:,}" if total else "")
            bar.update(task, description=title, completed=done, total=total, status=status if done else "")

        yield tell
