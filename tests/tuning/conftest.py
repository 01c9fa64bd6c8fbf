"""A real PostgreSQL, and workers that need no process."""

import glob
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from concurrent.futures import Future
from pathlib import Path

import pytest
import sqlalchemy

from macrid.tuning import search
from macrid.tuning.search import Trained

PASSWORD = "open-sesame"


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def _fast(connection, _):
    """No test pulls the plug: SQLite need not wait for the disk."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


class Server:
    """A PostgreSQL cluster in its own folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        self.before = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []  # root may not run it
        if self.before:
            shutil.chown(folder, "postgres")
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        self._run(
            "initdb", "-D", folder / "data", "-U", "tuner", "-A", "scram-sha-256", "--pwfile", folder / "password", "-N"
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql+psycopg://tuner:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c unix_socket_directories='' -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-o", options, "-l", self.folder / "log", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def _run(self, program: str, *args: object) -> None:
        command = [*self.before, str(self.programs / program), *map(str, args)]
        done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="session")
def postgres():
    """A server that runs, with a password; skipped where PostgreSQL is not installed, but not in CI."""
    initdb = shutil.which("initdb")
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) if initdb is None else [initdb]
    if not programs:
        message = "PostgreSQL is not installed (no initdb in PATH or /usr/lib/postgresql)"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    folder = Path(tempfile.mkdtemp(prefix="macrid-pg-"))
    server = Server(Path(programs[-1]).parent, folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def database(postgres):
    """The address of an empty database."""
    import psycopg

    name = f"study_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.url.removesuffix("postgres") + name


class Here:
    """Workers that are done at once; how well, `score` says: a number, what came of it, or an error."""

    def __init__(self, count, train, validation, score):
        self.free, self.score = count, score

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def idle(self):
        return list(range(self.free))

    def submit(self, task, config, is_hopeless=None):
        def result():
            self.free += 1
            score = self.score(config)
            if isinstance(score, Exception):
                raise score
            return score if isinstance(score, Trained) else Trained(score, 3, 1000)

        self.free -= 1
        future = Future()
        future.set_result(None)
        future.result = result
        return future


@pytest.fixture
def here(monkeypatch):
    """Let searches use a function of a config instead of trainings."""

    def use(score):
        monkeypatch.setattr(search, "Workers", lambda *args: Here(*args, score))

    use(lambda config: 1 / (1 + abs(config.settings["regularisation"] - 100)))
    return use
