"""The events of users in a database that several processes share: SQLite or PostgreSQL, by one URL.

| table | one row per | columns |
| --- | --- | --- |
| macrid_events | event | user_id, event_id, item_id, time, received, kind, weight, rating |
| macrid_users | user with events | user_id, stamp: another number after every change |
| macrid_erased | erased user | user_hash: keyed, so it cannot be read back without the database; time |
| macrid_meta | name | the version of these tables, and the key of the hashes |

An event is known by its user and its id: adding it again changes nothing. Whatever `append` has returned is on disk.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Lock, local
from typing import Any, NamedTuple, TypeVar

from macrid.data.databases import (
    hidden_password,
    is_postgres,
    open_postgres,
    open_sqlite,
    psycopg_or_explain,
    reachable,
    sqlite_path,
)
from macrid.errors import DatabaseError

T = TypeVar("T")
SCHEMA = 1
TABLES = (
    "CREATE TABLE IF NOT EXISTS macrid_meta (name {text} PRIMARY KEY, value {text} NOT NULL)",
    "CREATE TABLE IF NOT EXISTS macrid_users (user_id {text} PRIMARY KEY, stamp {integer} NOT NULL)",
    "CREATE TABLE IF NOT EXISTS macrid_erased (user_hash {text} PRIMARY KEY, time {time} NOT NULL)",
    "CREATE TABLE IF NOT EXISTS macrid_events (user_id {text} NOT NULL, event_id {text} NOT NULL,"
    " item_id {text} NOT NULL, time {time} NOT NULL, received {time} NOT NULL, kind {text}, weight {real},"
    " rating {real}, PRIMARY KEY (user_id, event_id))",
    "CREATE INDEX IF NOT EXISTS macrid_events_by_time ON macrid_events (time)",
)
CREATION_LOCK = 0x6D616372696400  # of PostgreSQL: two processes that create the same table at once would fail
COLUMNS = "event_id, item_id, time, kind, weight, rating, received"


@dataclass(frozen=True)
class Event:
    """Something that a user did with an item."""

    id: str
    item: str
    time: datetime
    """With a time zone."""
    kind: str | None = None
    """Such as view or purchase."""
    weight: float | None = None
    rating: float | None = None
    received: datetime | None = None
    """When it was stored; None before that."""

    def as_json(self) -> dict[str, Any]:
        times = {name: None if time is None else _written(time) for name, time in self._times().items()}
        return {**asdict(self), **times}

    def _times(self) -> dict[str, datetime | None]:
        return {"time": self.time, "received": self.received}


class UserState(NamedTuple):
    """Whether anything has changed for a user."""

    stamp: int | None
    """Another one after every change; None without events."""
    is_erased: bool
    """Whether the user was erased at some time; events may have come since."""


class EventLog(ABC):
    """A database of events. Every thread has its own connection, opened again after an error."""

    kinds: dict[str, str]
    """The types of columns."""
    mark: str
    """Stands for a value in a statement."""

    def __init__(self, url: str) -> None:
        self.url, self.name = url, hidden_password(url)
        self._local, self._open_connections, self._lock = local(), set[Any](), Lock()
        try:
            self._create()
            self._key = bytes.fromhex(self._meta()["key"])
        except BaseException:
            self.close()
            raise

    def _meta(self) -> dict[str, str]:
        meta = dict(self._read("SELECT name, value FROM macrid_meta"))
        if meta["schema"] != str(SCHEMA):
            raise DatabaseError(
                f"{self.name}: its event tables have version {meta['schema']}, and this macrid reads version {SCHEMA};"
                " use the macrid that wrote them"
            )
        return meta

    def _create(self) -> None:
        def create(connection: Any) -> None:
            for table in TABLES:
                connection.execute(table.format(**self.kinds))
            for name, value in (("schema", str(SCHEMA)), ("key", secrets.token_hex(16))):
                insert = "INSERT INTO macrid_meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
                connection.execute(self._sql(insert), (name, value))

        self._write(create)

    # Events

    def append(self, user: str, events: Sequence[Event]) -> int:
        """Store events durably; returns how many were new."""
        now = self._to_time(datetime.now(UTC))
        rows = [
            (user, e.id, e.item, self._to_time(e.time), now, e.kind, e.weight, e.rating) for e in events
        ]  # fmt: skip

        def append(connection: Any) -> int:
            self._touch(connection, user)  # first: it lets one process at a time change a user
            insert = (
                "INSERT INTO macrid_events (user_id, event_id, item_id, time, received, kind, weight, rating)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            )
            cursor = connection.cursor()
            cursor.executemany(self._sql(insert), rows)
            return max(0, int(cursor.rowcount))

        return self._write(append)

    def _touch(self, connection: Any, user: str) -> None:
        touch = (
            "INSERT INTO macrid_users (user_id, stamp) VALUES (?, ?)"
            " ON CONFLICT (user_id) DO UPDATE SET stamp = excluded.stamp"
        )
        connection.execute(self._sql(touch), (user, secrets.randbits(62)))

    def state(self, user: str) -> UserState:
        """Read it before the events: then they are at least as new."""
        ((stamp, is_erased),) = self._read(
            "SELECT (SELECT stamp FROM macrid_users WHERE user_id = ?),"
            " EXISTS (SELECT 1 FROM macrid_erased WHERE user_hash = ?)",
            user,
            self.hash_of(user),
        )
        return UserState(stamp, bool(is_erased))

    def latest(self, user: str, limit: int) -> list[tuple[str, float | None]]:
        """Items and ratings of the latest events, newest first."""
        query = "SELECT item_id, rating FROM macrid_events WHERE user_id = ? ORDER BY time DESC, event_id LIMIT ?"
        return [(item, rating) for item, rating in self._read(query, user, limit)]

    def events(self, user: str) -> list[Event]:
        """All events of a user, oldest first."""
        query = f"SELECT {COLUMNS} FROM macrid_events WHERE user_id = ? ORDER BY time, event_id"
        return [
            Event(id, item, self._from_time(time), kind, weight, rating, self._from_time(received))
            for id, item, time, kind, weight, rating, received in self._read(query, user)
        ]

    def users(self, prefix: str, limit: int) -> list[str]:
        """Users with events whose id starts with a prefix, sorted by code point."""
        query = "SELECT user_id FROM macrid_users WHERE substr(user_id, 1, ?) = ? ORDER BY user_id LIMIT ?"
        return [user for (user,) in self._read(query, len(prefix), prefix, limit)]

    # Erasure

    def erase(self, user: str) -> int:
        """Delete a user's events and remember a hash of the id; returns how many events there were."""

        def erase(connection: Any) -> int:
            connection.execute(self._sql("DELETE FROM macrid_users WHERE user_id = ?"), (user,))
            deleted = connection.execute(self._sql("DELETE FROM macrid_events WHERE user_id = ?"), (user,)).rowcount
            erased = "INSERT INTO macrid_erased (user_hash, time) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.execute(self._sql(erased), (self.hash_of(user), self._to_time(datetime.now(UTC))))
            return int(deleted)

        deleted = self._write(erase)
        self._after_deletion()
        return deleted

    def erased(self) -> set[str]:
        """Hashes of the ids of erased users."""
        return {hash_ for (hash_,) in self._read("SELECT user_hash FROM macrid_erased")}

    def erasures(self) -> int:
        """How many users have been erased."""
        return int(self._read("SELECT count(*) FROM macrid_erased")[0][0])

    def hash_of(self, user: str) -> str:
        return hmac.digest(self._key, user.encode(), "sha256").hex()

    def prune(self, before: datetime) -> int:
        """Delete all events before a time; returns how many."""
        time = self._to_time(before)

        def prune(connection: Any) -> int:
            query = "SELECT DISTINCT user_id FROM macrid_events WHERE time < ?"
            for (user,) in connection.execute(self._sql(query), (time,)).fetchall():
                self._touch(connection, user)
            deleted = connection.execute(self._sql("DELETE FROM macrid_events WHERE time < ?"), (time,)).rowcount
            connection.execute(
                "DELETE FROM macrid_users WHERE NOT EXISTS"
                " (SELECT 1 FROM macrid_events WHERE macrid_events.user_id = macrid_users.user_id)"
            )
            return int(deleted)

        deleted = self._write(prune)
        self._after_deletion()
        return deleted

    def _after_deletion(self) -> None:  # noqa: B027
        """Remove what deleted rows have left behind."""

    # Connections

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _transaction(self, connection: Any) -> Any:
        """A context manager that commits, or rolls back after an error."""

    @property
    @abstractmethod
    def _errors(self) -> type[Exception]:
        """Of the driver."""

    def _is_current(self, connection: Any) -> bool:
        """Whether a connection opened earlier still leads to the database."""
        return True

    def _to_time(self, time: datetime) -> Any:
        return time

    def _from_time(self, value: Any) -> datetime:
        return value.astimezone(UTC)

    def _sql(self, statement: str) -> str:
        return statement.replace("?", self.mark)

    def _read(self, query: str, *values: Any) -> list[Any]:
        return self._with_connection(lambda connection: connection.execute(self._sql(query), values).fetchall())

    def _write(self, change: Callable[[Any], T]) -> T:
        def within_transaction(connection: Any) -> T:
            with self._transaction(connection):
                return change(connection)

        return self._with_connection(within_transaction)

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        """Once more with a new connection if the one from earlier fails: whatever is done here may be done twice."""
        with reachable(self.url, "the event store is not available"):
            connection = getattr(self._local, "connection", None)
            if connection is not None and self._is_current(connection):
                try:
                    return work(connection)
                except self._errors:
                    pass
            self._discard(connection)
            connection = self._connect()
            with self._lock:
                self._open_connections.add(connection)
            self._local.connection = connection
            try:
                return work(connection)
            except BaseException:
                self._discard(connection)
                raise

    def _discard(self, connection: Any) -> None:
        self._local.connection = None
        if connection is not None:
            with self._lock:
                self._open_connections.discard(connection)
            with suppress(self._errors):
                connection.close()

    def close(self) -> None:
        """Close the connections of all threads; whatever is asked later opens new ones."""
        with self._lock:
            connections, self._open_connections, self._local = self._open_connections, set(), local()
        for connection in connections:
            with suppress(self._errors):
                connection.close()


class SqliteLog(EventLog):
    """In a file: for the processes of one machine."""

    kinds = {"text": "TEXT", "integer": "INTEGER", "real": "REAL", "time": "TEXT"}  # noqa: RUF012
    mark = "?"
    _errors = sqlite3.Error

    def __init__(self, url: str, create: bool) -> None:
        self.path = sqlite_path(url).absolute()
        with reachable(url, "cannot open the event store"):
            open_sqlite(self.path, "rwc" if create else "rw").close()
        super().__init__(url)

    def _connect(self) -> Any:
        connection = open_sqlite(self.path, "rw")  # a file that has gone is not replaced by an empty one
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        self._local.file = self._identity()
        return connection

    def _identity(self) -> tuple[int, int] | None:
        with suppress(OSError):
            found = os.stat(self.path)
            return found.st_dev, found.st_ino
        return None

    def _is_current(self, connection: Any) -> bool:
        """A deleted file could be written to, but never read again."""
        return self._identity() == self._local.file is not None

    @contextmanager
    def _transaction(self, connection: Any) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _after_deletion(self) -> None:
        """The log of changes still has the deleted rows, until it is written back."""
        with suppress(DatabaseError):
            self._read("PRAGMA wal_checkpoint(TRUNCATE)")

    def _to_time(self, time: datetime) -> str:
        return _written(time)

    def _from_time(self, value: str) -> datetime:
        return datetime.fromisoformat(value)


class PostgresLog(EventLog):
    """On a server."""

    kinds = {"text": 'text COLLATE "C"', "integer": "bigint", "real": "double precision", "time": "timestamptz"}  # noqa: RUF012
    mark = "%s"

    def __init__(self, url: str, patience: float) -> None:
        self.patience = patience
        super().__init__(url)

    @property
    def _errors(self) -> Any:
        return psycopg_or_explain().Error

    def _create(self) -> None:
        create = super()._create
        with reachable(self.url, "cannot open the event store"), self._connect() as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (CREATION_LOCK,))  # released with the connection
            create()

    def _connect(self) -> Any:
        timeout = str(round(self.patience * 1000))  # 0 for none
        settings = {"statement_timeout": timeout, "client_min_messages": "warning"}
        return open_postgres(self.url, settings | {"synchronous_commit": "on"})  # whatever the server's default

    def _transaction(self, connection: Any) -> Any:
        return connection.transaction()


def open_log(url: str, *, patience: float = 0.0, create: bool = True) -> EventLog:
    """The events at a URL, with tables created if needed.

    patience: seconds for a statement on a PostgreSQL server; 0 for any number. create: a SQLite file, if there is none.
    """
    return PostgresLog(url, patience) if is_postgres(url) else SqliteLog(url, create)


def _written(time: datetime) -> str:
    """In UTC, such that texts have the order of times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
