"""Databases by URL: SQLite files and PostgreSQL servers. No message shows a password."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from macrid.errors import DatabaseError, first_line

PASSWORD = re.compile(r"(://[^:/@]*:)(.*)@")
UNENCODED = re.compile(r"://[^:/@]*:(?!\d+[/?])[^@]*[/?#@][^@]*@")
"""A password with a character that ends it; a port may come before an @, too."""
POSTGRES = re.compile(r"(postgresql|postgres)(\+psycopg)?://")
LIKE_A_URL = re.compile(r"[A-Za-z][\w+.-]*://\S{0,300}")
EXAMPLES = "sqlite:///events.db (a relative path; four slashes for an absolute one) or postgresql://user@host/name"
NETWORK_TIMEOUT = 5  # seconds without a sign of life from a server
BUSY_TIMEOUT = 5.0  # seconds to wait for another process that writes to the same file


def hidden_password(url: str) -> str:
    """A URL as it may be shown."""
    return re.sub(r"(pass\w*|pwd)=[^&]*", r"\1=***", PASSWORD.sub(r"\1***@", url), flags=re.IGNORECASE)


def without_password(message: str, url: str) -> str:
    """A driver mistakes what follows an @ or a / in a password for the host or the database, and names it."""
    match = PASSWORD.search(url)
    for part in re.split("[@/?#:]", match[2]) if match else ():
        message = message.replace(part, "***") if len(part) > 2 else message
    return message


def is_postgres(url: str) -> bool:
    """Of a URL of either kind; a `DatabaseError` for others."""
    if POSTGRES.match(url):
        return True
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return False
    shown = (
        repr(hidden_password(url))
        if LIKE_A_URL.fullmatch(url)
        else "the address (not shown, as it may contain a password)"
    )
    raise DatabaseError(f"{shown}: not the URL of a database; use one such as {EXAMPLES}")


def sqlite_path(url: str) -> Path:
    """The file of a SQLite URL."""
    return Path(unquote(url.removeprefix("sqlite:///")))


def open_sqlite(path: Path, mode: str) -> sqlite3.Connection:
    """mode: ro, rw, or rwc to create the file. Transactions are begun and ended by statements only."""
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT,
        check_same_thread=False,
    )  # fmt: skip


def psycopg_or_explain() -> Any:
    try:
        import psycopg
    except ImportError:
        raise DatabaseError("PostgreSQL needs psycopg; install it with `pip install 'macrid[postgres]'`") from None
    return psycopg


def open_postgres(url: str, settings: Mapping[str, str]) -> Any:
    """A psycopg connection in autocommit mode. settings: of the session, such as a statement_timeout."""
    psycopg = psycopg_or_explain()
    try:
        if UNENCODED.search(url):
            raise psycopg.ProgrammingError
        options = psycopg.conninfo.conninfo_to_dict(POSTGRES.sub("postgresql://", url, count=1))
    except psycopg.ProgrammingError:  # its message quotes parts of the URL
        raise DatabaseError(
            f"{hidden_password(url)}: not a PostgreSQL URL; percent-encode special characters of the password"
        ) from None
    defaults = {"connect_timeout": NETWORK_TIMEOUT, "tcp_user_timeout": NETWORK_TIMEOUT * 1000, "keepalives_idle": 30}
    connection = psycopg.connect(**{**defaults, **options}, autocommit=True)
    try:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reachable(url: str, doing: str = "cannot use the database") -> Iterator[None]:
    """Turn errors of a driver into a `DatabaseError` of one line."""
    drivers: tuple[type[Exception], ...] = (sqlite3.Error,)
    if POSTGRES.match(url):
        drivers = (psycopg_or_explain().Error,)
    try:
        yield
    except drivers as error:
        raise DatabaseError(f"{hidden_password(url)}: {doing} ({reason_of(error, url)})") from None


def reason_of(error: Exception, url: str) -> str:
    """The message of a driver in one line, without a password."""
    message = getattr(getattr(error, "diag", None), "message_primary", None) or first_line(error)
    return without_password(message.strip(), url)
