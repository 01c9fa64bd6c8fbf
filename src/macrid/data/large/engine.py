"""DuckDB with limits to what it takes of memory and threads; what does not fit into memory goes to a folder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from macrid.errors import DataError, first_line
from macrid.openmp import cores

SECONDS_BETWEEN = 0.1  # updates of a progress bar
FLUSHED = 1 << 16  # rows that a thread keeps of each partition before it writes them


class Engine:
    """A connection of its own, for one thread at a time."""

    def __init__(self, folder: Path, memory: int, threads: int | None = None) -> None:
        """folder: for what is spilled. memory: in bytes."""
        duckdb = duckdb_or_explain()
        self._errors, self.folder = duckdb, folder
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory // 2**20}MiB",
                "threads": threads or cores(),
                "temp_directory": str(folder),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        for setting in (
            "enable_progress_bar = true",
            "enable_progress_bar_print = false",
            f"partitioned_write_flush_threshold = {FLUSHED}",
        ):
            self._connection.execute(f"SET {setting}")
        self._work: _Work | None = None  # that may still run

    def close(self) -> None:
        self._stop()
        self._connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to a short query."""
        result: list[tuple[Any, ...]] = []
        self._run(lambda: result.extend(self._connection.execute(query).fetchall()), None)
        return result

    def run(self, query: str, tell: Callable[[float], None] | None = None) -> None:
        """Run a long query. tell: is called with the share that is done."""
        self._run(lambda: self._connection.execute(query), tell)

    def _run(self, action: Callable[[], Any], tell: Callable[[float], None] | None) -> None:
        """In a thread of its own, so that an interrupt ends it at once."""
        self._stop()
        work = self._work = _Work(action)
        try:
            threading.Thread(target=work, name="duckdb", daemon=True).start()
            while not work.ended.wait(SECONDS_BETWEEN):
                if tell is not None:
                    tell(max(0.0, self._connection.query_progress()) / 100)
        except BaseException:
            self._stop()
            raise
        if work.failure is not None:
            raise self._explained(work.failure) from work.failure
        if tell is not None:
            tell(1.0)

    def _stop(self) -> None:
        """End what runs, however impatient the user is: a connection in use takes no queries and cannot be closed."""
        while self._work is not None:
            with suppress(KeyboardInterrupt):
                if self._work.is_called_off() or self._work.ended.wait(SECONDS_BETWEEN):
                    self._work = None
                else:
                    self._connection.interrupt()  # has no effect on a query that has not begun

    def _explained(self, error: BaseException) -> BaseException:
        if not isinstance(error, self._errors.Error):
            return error
        reason = first_line(error)
        if any(
            text in str(error)
            for text in ("No space left", "max_temp_directory_size", "File too large", "Disk quota exceeded")
        ):
            return ExhaustedError(f"{self.folder.parent}: the disk is full ({reason})")
        if isinstance(error, self._errors.OutOfMemoryException):
            return ExhaustedError(f"not enough memory ({reason}); allow more with --memory")
        return QueryError(reason)


class _Work:
    """What a thread does, unless it is called off before it begins.

    An interrupt may hit the caller anywhere, even while the thread starts, so one step decides, which can be repeated.
    """

    def __init__(self, action: Callable[[], Any]) -> None:
        self.failure: BaseException | None = None
        self.ended = threading.Event()  # after an interrupt, Python 3.11 may take a thread for ended that is not
        self._action, self._decided = action, dict[str, bool]()

    def __call__(self) -> None:
        if not self._decided.setdefault("begins", True):
            return
        try:
            self._action()
        except BaseException as error:  # raised again by the caller's thread
            self.failure = error
        finally:
            self.ended.set()

    def is_called_off(self) -> bool:
        """Whether the thread has not begun, and never will."""
        return not self._decided.setdefault("begins", False)


class ExhaustedError(DataError):
    """No disk or memory left; what was finished can be used again."""


class QueryError(DataError):
    """DuckDB could not read what it was given."""


def duckdb_or_explain() -> Any:
    try:
        import duckdb
    except ImportError:
        raise DataError(
            "several files, or data larger than memory, need DuckDB; install it with `pip install 'macrid[large]'`"
        ) from None
    return duckdb


def is_installed() -> bool:
    try:
        duckdb_or_explain()
    except DataError:
        return False
    return True


def quoted(name: str) -> str:
    """A column in a query."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string in a query."""
    return "'" + value.replace("'", "''") + "'"
