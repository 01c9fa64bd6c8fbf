"""Clients that are slow, idle, too many, hostile or leave early; processes that are killed; strangers at the door."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.attacks import Outcome
from benchmarks.attacks.service import Service, end, is_alive, is_closed, post, serving, until
from benchmarks.serving import made_run

HEADER = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
PATHS = (
    "/v1/recommend", "/v1/recommend/batch", "/v1/encode", "/v1/traverse", "/v1/items", "/v1/items/lookup", "/v1/reload",
)  # fmt: skip
BODIES = (
    b'{"history": ["\\ud800"]}', b'{"ids": ["\\ud800"]}', b'{"user": "\\udfff"}', b'{"run": "\\ud800"}',
    b'{"item": "\\ud800", "dimension": 0}', b'{"histories": [["\\ud800"]]}', b"[" * 100_000, b"\xff\xfe",
    b'{"history": [NaN]}', b'{"ids": [' + b"9" * 5_000 + b"]}", b'{"history": [' + b"9" * 4_000 + b"]}",
    b'{"history": ["\\u0000"]}',
)  # fmt: skip
SECONDS = 12  # the header time-out, and a little


def attack(times: int | None, seed: int) -> list[Outcome]:
    """All of them; times: connections or tries of each, if fewer than usual."""
    outcomes = []
    with tempfile.TemporaryDirectory() as name:
        run = made_run(Path(name) / "shop", 500)
        for one in (
            slow_headers, large_headers, idle_flood, slow_bodies, slow_readers, early_leavers, hostile_bodies, pipes,
            guesses, open_doors, killed_workers, killed_supervisors, crash_loop,
        ):  # fmt: skip
            outcomes.append(one(run, times or 10**6))
    return outcomes


def slow_headers(run: Path, times: int) -> Outcome:
    outcome = Outcome("half a header, then silence", "closed in time")
    with serving(run) as service:
        held = [service.connect(HEADER) for _ in range(min(times, 200))]
        time.sleep(SECONDS)
        for connection in held:
            outcome.note(None if is_closed(connection) else "still open")
            connection.close()
    return outcome


def large_headers(run: Path, times: int) -> Outcome:
    outcome = Outcome("a header of 60 MB, in one line or many", "431")
    with serving(run) as service:
        for line in (b"a" * 1_000_000, b"x: y\r\n" * 166_000) * min(times, 3):
            connection = service.connect(HEADER + b"x: ")
            with suppress(OSError):
                for _ in range(60):
                    connection.sendall(line)
                connection.sendall(b"\r\n\r\n")
            try:
                status = connection.recv(1000).split()[1].decode()
            except (OSError, IndexError):
                status = "closed"
            outcome.note(None if status in ("431", "closed") else f"status {status}")
            connection.close()
        outcome.note(None if service.is_well() else "no response to others afterwards")
    return outcome


def idle_flood(run: Path, times: int) -> Outcome:
    outcome = Outcome("100 idle connections at 64 open files", "others are served, and it is logged")
    with serving(run, files=64) as service:
        held = [service.connect() for _ in range(100)]
        for _ in range(min(times, 20)):
            outcome.note(None if service.is_well(3) else "no response to others")
        outcome.note(None if "connections" in service.log else "not logged")
        for connection in held:
            connection.close()
    return outcome


def slow_bodies(run: Path, times: int) -> Outcome:
    outcome = Outcome("half a body, then silence (time-out 2 s)", "closed in time")
    with serving(run, "--timeout", "2") as service:
        held = [service.connect(post(PATHS[number % 5], b"{", 1000)) for number in range(min(times, 50))]
        time.sleep(5)
        for connection in held:
            outcome.note(None if is_closed(connection) else "still open")
            connection.close()
    return outcome


def slow_readers(run: Path, times: int) -> Outcome:
    outcome = Outcome("50 MB of responses that nobody reads (time-out 2 s)", "closed in time")
    with serving(run, "--timeout", "2") as service:
        request = b"GET /v1/model HTTP/1.1\r\nhost: localhost\r\n\r\n" * 2_000
        held = []
        for _ in range(min(times, 10)):
            held.append(service.connect())
            held[-1].setblocking(False)
            with suppress(OSError):
                held[-1].send(request)
        until(lambda: not _open_files(service.process.pid, service.port), 60)
        left = _open_files(service.process.pid, service.port)
        for number in range(len(held)):
            outcome.note("still open" if number < left else None)
            held[number].close()
        outcome.note(None if service.is_well() else "no response to others afterwards")
    return outcome


def _open_files(pid: int, port: int) -> int:
    """Connections that a process has open at its port."""
    inodes, count = set(), 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed just now
            inodes.add(os.readlink(entry))
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        is_ours = int(fields[1].split(":")[1], 16) == port and fields[3] != "0A"
        count += is_ours and f"socket:[{fields[9]}]" in inodes
    return count


def early_leavers(run: Path, times: int) -> Outcome:
    outcome = Outcome("a client leaves in the middle of its body", "no 500, no traceback")
    with serving(run) as service:
        count = min(times, 100)
        for number in range(count):
            service.connect(post(PATHS[number % 5], b'{"history": [', 1000)).close()
        until(lambda: service.log.count("Traceback") >= count, 2)
        seen = service.log.count("Traceback")
        for number in range(count):
            outcome.note("traceback in the log" if number < seen else None)
    return outcome


def hostile_bodies(run: Path, times: int) -> Outcome:
    outcome = Outcome("half characters, NaN, depth 100,000, long numbers in JSON", "4xx")
    with serving(run) as service:
        for path in PATHS:
            for body in BODIES[:times]:
                status, _ = service.ask("POST", path, body, 20)
                outcome.note(None if 200 <= status < 500 else f"status {status}")
    return outcome


def pipes(run: Path, times: int) -> Outcome:
    outcome = Outcome("a picture that has become a pipe", "404, and others are served")
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "bag-0001.png"
        picture.write_bytes(b"picture")
        with serving(run, "--pictures", folder) as service:
            picture.unlink()
            os.mkfifo(picture)
            for _ in range(min(times, 5)):
                asking = threading.Thread(target=service.ask, args=("GET", "/v1/pictures/bag-0001"))
                asking.start()
                time.sleep(0.2)
                outcome.note(None if service.is_well(2) else "no response to others")
                asking.join()
    return outcome


def guesses(run: Path, times: int) -> Outcome:
    outcome = Outcome("wrong tokens, one after the other for 10 s", "logged, and slower each time")
    with serving(run, "--token", "correct horse") as service:
        until_then = time.monotonic() + 10
        count = 0
        while time.monotonic() < until_then:
            service.ask("GET", "/v1/model", seconds=10, authorization=f"Bearer guess number {count}")
            count += 1
        outcome.note(f"{count:,} guesses in 10 s" if count > 20 else None)
        outcome.note(None if "invalid token from 127.0.0.1" in service.log else "not logged")
        outcome.note("the guess is in the log" if "guess number" in service.log else None)
        right = service.ask("GET", "/v1/model", seconds=2, authorization="Bearer correct horse")[0]
        outcome.note(None if right == 200 else "the right token is refused")
    return outcome


def open_doors(run: Path, times: int) -> Outcome:
    outcome = Outcome("--host 0.0.0.0 without a token", "refused without --open")
    with serving(run, "--host", "0.0.0.0", wait=30) as service:
        outcome.note(None if service.process.poll() == 1 and "--open" in service.log else "serves anybody")
    return outcome


def killed_workers(run: Path, times: int) -> Outcome:
    outcome = Outcome("a worker is killed", "logged with its reason, replaced, the others serve")
    with serving(run, "--workers", "2") as service:
        until(lambda: len(service.workers) == 2, 20)
        for _ in range(min(times, 4)):
            killed = service.workers[-1]
            os.kill(killed, signal.SIGKILL)
            answered = service.is_well(10)
            replaced = until(lambda: len(service.workers) == 2 and killed not in service.workers, 30)  # noqa: B023
            logged = f"{killed} was killed by SIGKILL" in service.log
            facts = {"no response": answered, "not replaced": replaced, "not logged": logged}
            outcome.note(next((problem for problem, is_fine in facts.items() if not is_fine), None))
            time.sleep(3)
    return outcome


def killed_supervisors(run: Path, times: int) -> Outcome:
    outcome = Outcome("the supervisor is killed", "its workers end")
    for _ in range(min(times, 3)):
        with serving(run, "--workers", "2") as service:
            until(lambda: len(service.workers) == 2, 20)
            workers = service.workers
            service.process.kill()
            ended = until(lambda: not any(is_alive(pid) for pid in workers), 15)  # noqa: B023
            outcome.note(None if ended else "workers go on alone")
            for pid in workers:
                end(pid)
    return outcome


def crash_loop(run: Path, times: int) -> Outcome:
    outcome = Outcome("workers that cannot start again, for 20 s", "few lines in the log, the others serve")
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(run, Path(folder) / "shop")
        with serving(copy, "--workers", "2") as service:
            until(lambda: len(service.workers) == 2, 20)
            before = len(service.log.splitlines())
            shutil.rmtree(copy)
            os.kill(service.workers[-1], signal.SIGKILL)
            time.sleep(20)
            lines = len(service.log.splitlines()) - before
            problems: list[Callable[[Service], str | None]] = [
                lambda each: None if each.is_well() else "the whole service stops",
                lambda each: f"{lines} lines in the log" if lines > 20 else None,
                lambda each: "traceback in the log" if "Traceback" in each.log else None,
            ]
            for problem in problems:
                outcome.note(problem(service))
    return outcome
