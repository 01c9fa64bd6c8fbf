"""Several processes that serve one run, and their supervisor.

They share a folder: derived tables, metrics, the path of the run, and a note that changes when all should reload.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from macrid.data.eventlog import open_log
from macrid.errors import MacridError
from macrid.files import lock, write_atomically
from macrid.serving.app import create_app
from macrid.serving.hosted import Hosted
from macrid.serving.metrics import SHARED
from macrid.serving.processes import how_it_ended
from macrid.serving.server import SHUTDOWN_TIMEOUT, config, prepare, started
from macrid.serving.service import Service, log
from macrid.settings import ServingSettings

WORKER_ENV = "MACRID_SERVING"  # environment variable with the arguments of worker processes, as JSON
PREFIX = "macrid-serving-"  # of the shared folder
ALIVE = "alive"  # file in it that the supervisor holds locked
NOTE = "reload"  # file in it
LOOK = 0.25  # seconds between looks at it
SHORT_LIFE = 30.0  # seconds of service; processes that die sooner are restarted later each time
LONGEST_PAUSE = 60.0  # seconds
SETTLED = 60.0  # seconds in which a new service has surely locked its folder


def serve_many(run: Path, settings: ServingSettings, bound: socket.socket, report_ready: Callable[[], None]) -> None:
    """Serve a run with several processes until stopped."""
    remove_abandoned()
    shared = Path(tempfile.mkdtemp(prefix=PREFIX))
    alive = (shared / ALIVE).open("wb")
    lock(alive.fileno())
    try:
        (shared / "metrics").mkdir()
        if settings.events is not None:
            open_log(settings.events).close()
        Hosted(run, settings, shared).close()  # one error for a bad run, and tables written once
        os.environ[SHARED] = str(shared / "metrics")
        arguments = str(run.absolute()), settings.model_dump(mode="json"), str(shared)
        os.environ[WORKER_ENV] = json.dumps(arguments)
        app = f"{__name__}:worker_app"  # by name: a process must answer uvicorn before it has imported torch
        supervisor = Supervisor(config(app, settings, factory=True, workers=settings.workers), bound, shared)

        def ready() -> None:
            supervisor.was_ready = True
            report_ready()

        threading.Thread(target=_when_ready, args=(bound, ready), daemon=True).start()
        supervisor.run()
        if supervisor.has_failed:
            raise MacridError("no process could start; see the log above")
    finally:
        for name in (SHARED, WORKER_ENV):
            os.environ.pop(name, None)
        shutil.rmtree(shared, ignore_errors=True)
        alive.close()


def remove_abandoned() -> None:
    """Delete the shared folders of services that were killed together with all their processes."""
    if os.name != "posix":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid():  # another user's
                continue
            with (folder / ALIVE).open("rb") as alive:
                if time.time() - os.fstat(alive.fileno()).st_mtime > SETTLED and lock(alive.fileno()):
                    shutil.rmtree(folder, ignore_errors=True)


def _when_ready(bound: socket.socket, report_ready: Callable[[], None]) -> None:
    """Wait until a process answers."""
    host, port, *_ = bound.getsockname()
    while True:
        with contextlib.suppress(OSError, HTTPException):
            probe = HTTPConnection(host, port, timeout=2)
            probe.request("GET", "/healthz", headers={"connection": "close"})
            if probe.getresponse().status == 200:
                report_ready()
                return
        time.sleep(0.1)


class Supervisor(Multiprocess):
    """Restarts processes that end, and has all of them reload."""

    def __init__(self, config: Config, bound: socket.socket, shared: Path) -> None:
        super().__init__(config, sockets=[bound])
        self.was_ready = self.has_failed = False
        self._shared = shared
        self._lives: dict[Process, _Life] = {}

    def run(self) -> None:
        try:
            super().run()
        finally:  # after an error they would wait for this process, and it for them
            self.terminate_all()

    def init_processes(self) -> None:
        for _ in range(self.processes_num):
            self.processes.append(self._start(_Life()))

    def _start(self, life: _Life) -> Process:
        life.begin()
        process = Process(self.config, self.sockets)
        process.start()
        self._lives[process] = life
        return process

    def _start_again(self, place: int, life: _Life) -> None:
        try:
            process = self._start(life)
        except OSError as error:  # no memory, too many files
            log.error("no process could be started: %s; trying again in %g s", error, life.end())
            return
        del self._lives[self.processes[place]]
        self.processes[place] = process

    def keep_subprocess_alive(self) -> None:
        for place, process in enumerate(self.processes):
            life = self._lives[process]
            if self.should_exit.is_set():
                return
            if life.next_at is not None:
                if time.monotonic() >= life.next_at:
                    self._start_again(place, life)
            elif not self._is_well(process, life):
                self._bury(process, life)

    def _is_well(self, process: Process, life: _Life) -> bool:
        """Whether a process responds; unlike uvicorn's check, it does not wait for one that ends meanwhile."""
        with contextlib.suppress(OSError, EOFError):
            process.parent_conn.send(b"ping")
            sources: list[Any] = [process.parent_conn, process.process.sentinel]
            ready = wait(sources, self.config.timeout_worker_healthcheck)
            if process.parent_conn in ready:
                if process.parent_conn.recv():  # it serves
                    life.serve()
                return True
            if ready:
                process.process.join(self.config.timeout_worker_healthcheck)  # it ends; its status comes a bit later
        return False

    def _bury(self, process: Process, life: _Life) -> None:
        """Log how a process ended, and decide when to start another."""
        is_hung = process.process.is_alive()
        process.kill()
        process.join()
        mark_process_dead(process.pid)  # drops its requests in flight from the count
        pause = life.end()
        reason = "did not respond and was killed" if is_hung else how_it_ended(process.exitcode)
        if process.exitcode == STARTUP_FAILURE and not self.was_ready:
            log.error("process %s %s; stopping", process.pid, reason)
            self.has_failed = True
            self.should_exit.set()
            return
        log.error("process %s %s; starting another%s", process.pid, reason, f" in {pause:g} s" if pause else "")

    def handle_hup(self) -> None:
        try:
            call_for_reload(self._shared)
        except OSError as error:
            log.error("no reload: %s", error)

    def handle_ttin(self) -> None:
        self.processes_num += 1
        self.processes.append(self._start(_Life()))


class _Life:
    """The processes that take one place, one after the other."""

    def __init__(self) -> None:
        self._serves_since: float | None = None
        self._short_lives = 0
        self.next_at: float | None = None
        """When to start the next one; None while one lives."""

    def begin(self) -> None:
        self._serves_since = self.next_at = None

    def serve(self) -> None:
        if self._serves_since is None:
            self._serves_since = time.monotonic()

    def end(self) -> float:
        """Seconds until the next one starts: more each time while lives are short."""
        now = time.monotonic()
        is_short = self._serves_since is None or now - self._serves_since < SHORT_LIFE
        self._short_lives = self._short_lives + 1 if is_short else 0
        pause = pause_after(self._short_lives)
        self.next_at = now + pause
        return pause


def pause_after(short_lives: int) -> float:
    """Seconds before the next process starts: none after the first short life, then 2, 4, 8, …"""
    return 0.0 if short_lives < 2 else min(LONGEST_PAUSE, 2.0 ** min(short_lives - 1, 30))


def call_for_reload(shared: Path) -> None:
    """Have all processes reload. A file, because a process id may by now belong to somebody else."""
    write_atomically(shared / NOTE, secrets.token_hex(8))


def worker_app() -> Any:
    """The app of a worker process, called by uvicorn."""
    run, values, folder = json.loads(os.environ[WORKER_ENV])
    settings, shared = ServingSettings.make(values), Path(folder)
    orphaned = _end_with_supervisor(settings)
    note = _note(shared)  # before the run is opened, to miss no reload
    prepare(settings)

    def on_start(service: Service) -> None:
        started(service)
        _follow(service, shared, note)

    def on_stop() -> None:
        if orphaned.is_set():
            shutil.rmtree(shared, ignore_errors=True)

    try:
        on_reload = partial(call_for_reload, shared)
        return create_app(run, settings, shared=shared, on_start=on_start, on_stop=on_stop, on_reload=on_reload)
    except (MacridError, OSError) as error:  # OSError: the shared folder went with the supervisor
        log.error("%s", error)
        sys.exit(STARTUP_FAILURE)


def _follow(service: Service, shared: Path, note: str) -> None:
    """Reload whenever the note changes."""
    latest = _note(shared)
    if latest != note:
        service.reload_soon()
    asyncio.get_running_loop().call_later(LOOK, _follow, service, shared, latest)


def _note(shared: Path) -> str:
    with contextlib.suppress(OSError):
        return (shared / NOTE).read_text("ascii")
    return ""


def _end_with_supervisor(settings: ServingSettings) -> threading.Event:
    """Shut down when the supervisor dies, however it does; the event is set then."""
    orphaned, supervisor = threading.Event(), multiprocessing.parent_process()

    def watch() -> None:
        assert supervisor is not None
        supervisor.join()
        log.error("process %s: the supervisor has died; stopping", os.getpid())
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(settings.drain + SHUTDOWN_TIMEOUT + 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    return orphaned
