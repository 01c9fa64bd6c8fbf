"""A real PostgreSQL."""

import glob
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

PASSWORD = "open-sesame"


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
    return _created(postgres)


def _created(server):
    import psycopg

    name = f"test_{secrets.token_hex(4)}"
    with psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.removesuffix("postgres") + name


@pytest.fixture(scope="session")
def event_database(postgres):
    return _created(postgres)


@pytest.fixture
def event_store(event_database):
    """The address of a database without events, faster than a new one."""
    import psycopg

    with psycopg.connect(event_database.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS macrid_events, macrid_users, macrid_erased, macrid_meta")
    return event_database
