"""A real service to attack, in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.soak import workers_of

HOST = "127.0.0.1"


class Service:
    """`macrid serve`, its port and its log."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self._log = process, port, log

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def workers(self) -> list[int]:
        with suppress(OSError):
            return workers_of(self.process.pid)
        return []

    def ask(
        self, method: str, path: str, body: bytes | None = None, seconds: float = 5.0, **headers: str
    ) -> tuple[int, bytes]:
        """Status and content of the response; status 0 without one."""
        try:
            with closing(http.client.HTTPConnection(HOST, self.port, timeout=seconds)) as connection:
                connection.request(method, path, body, {"content-type": "application/json", **headers})
                answer = connection.getresponse()
                return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""

    def is_well(self, seconds: float = 5.0) -> bool:
        return self.ask("GET", "/healthz", seconds=seconds)[0] == 200

    def connect(self, content: bytes = b"") -> socket.socket:
        connection = socket.create_connection((HOST, self.port), timeout=10)
        with suppress(OSError):
            connection.sendall(content)
        return connection


@contextmanager
def serving(run: Path, *options: str, files: int | None = None, wait: float = 60.0) -> Iterator[Service]:
    """Serve a run; files: the most that each process may have open."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        command = [sys.executable, "-m", "macrid", "serve", str(run), "--port", str(port), *options]
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=limit,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        )  # fmt: skip
        service = Service(process, port, Path(log.name))
        workers: list[int] = []
        try:
            until(lambda: process.poll() is not None or service.is_well(), wait)
            workers = service.workers
            yield service
        finally:
            for pid in {process.pid, *workers, *service.workers}:
                end(pid)
            process.wait()


def until(fact: Callable[[], Any], seconds: float) -> bool:
    """Whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fact():
            return True
        time.sleep(0.05)
    return bool(fact())


def end(pid: int) -> None:
    """Kill a process of ours, if it still is one."""
    with suppress(OSError):
        if b"macrid" in (command := Path(f"/proc/{pid}/cmdline").read_bytes()) or b"spawn_main" in command:
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether it runs; an ended process that nobody has waited for does not."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] != "Z"
        )
    return False


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it, after whatever it had to say."""
    connection.settimeout(0.05)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def post(path: str, content: bytes, length: int | None = None) -> bytes:
    """A request as sent; length: what it says its body has."""
    size = len(content) if length is None else length
    header = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"
    )
    return header.encode() + content


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()
