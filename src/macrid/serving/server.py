"""The server: one process, or several that share the weights; SIGHUP reloads the run, SIGTERM drains."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
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
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.supervisors import Multiprocess

from macrid.errors import SettingsError
from macrid.models.devices import cores
from macrid.serving.app import create_app
from macrid.serving.guard import in_brackets
from macrid.serving.metrics import SHARED
from macrid.serving.service import Service, log, spare_the_collector
from macrid.settings import ServingSettings

WORKER_ENV = "MACRID_SERVING"  # environment variable with the arguments of worker processes, as JSON
KEEP_ALIVE = 75  # seconds for an idle connection
SWITCH_INTERVAL = 0.0005  # seconds; the model's thread needs the interpreter many times per batch
SHUTDOWN_TIMEOUT = 30  # seconds for unfinished responses


def serve(
    run: str | Path,
    settings: ServingSettings,
    *,
    listening: socket.socket | None = None,
    on_ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a run until stopped.

    listening: a bound socket. on_ready: called with the address of the studio once requests are answered.
    """
    bound = listening or bind(settings)
    _prepare(settings)
    report_ready = partial(on_ready, address_of(bound, settings))
    if settings.workers == 1:
        app = create_app(run, settings, on_start=lambda service: started(service, report_ready))
        server = uvicorn.Server(_config(app, settings))
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again
            server.run([bound])
        return
    _serve_many(Path(run), settings, bound, report_ready)


def bind(settings: ServingSettings) -> socket.socket:
    """A socket at the address in the settings; a `SettingsError` if that fails."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror or error});"
            " choose another --port or --host"
        ) from None
    bound.set_inheritable(True)
    return bound


def address_of(bound: socket.socket, settings: ServingSettings) -> str:
    """The URL of the studio, for a browser on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)
    return f"http://{in_brackets(host)}:{bound.getsockname()[1]}/"


def _prepare(settings: ServingSettings) -> None:
    """Leave one core of several to requests, log to stderr, and ignore SIGHUP until there is a run to reload."""
    torch.set_num_threads(settings.threads or max(1, cores() // settings.workers - 1))
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def started(service: Service, report_ready: Callable[[], None] | None = None) -> None:
    """Install signal handlers, then report that the process is ready."""
    spare_the_collector()
    sys.setswitchinterval(SWITCH_INTERVAL)
    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, service.reload_soon)
        end = signal.getsignal(signal.SIGTERM)

        def drain(number: int, frame: FrameType | None) -> None:
            if service.is_draining:
                return
            service.is_draining = True
            log.info("shutting down: still answering for %g s", service.settings.drain)
            loop.call_soon_threadsafe(loop.call_later, service.settings.drain, lambda: end(number, None))  # type: ignore[misc,operator]

        if callable(end):
            signal.signal(signal.SIGTERM, drain)
    if report_ready is not None:
        loop.call_later(0.05, report_ready)  # the server starts listening right after this


def worker_app() -> Any:
    """The app of a worker process, called by uvicorn."""
    run, settings, shared = json.loads(os.environ[WORKER_ENV])
    settings = ServingSettings.make(settings)
    _prepare(settings)
    reload_all = partial(os.kill, os.getppid(), signal.SIGHUP)
    return create_app(run, settings, shared=Path(shared), on_start=started, on_reload=reload_all)


class _Many(Multiprocess):
    """uvicorn's processes, which reload the run on SIGHUP instead of restarting."""

    def keep_subprocess_alive(self) -> None:
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # drops its requests in flight from the count

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def _serve_many(run: Path, settings: ServingSettings, bound: socket.socket, report_ready: Callable[[], None]) -> None:
    from macrid.serving.hosted import Hosted

    shared = Path(tempfile.mkdtemp(prefix="macrid-serving-"))
    try:
        (shared / "metrics").mkdir()
        Hosted(run, settings, shared).close()  # one error for a bad run, and tables written once
        os.environ[SHARED] = str(shared / "metrics")
        arguments = str(run.absolute()), settings.model_dump(mode="json"), str(shared)
        os.environ[WORKER_ENV] = json.dumps(arguments)
        app = f"{__name__}:worker_app"  # by name: a process must answer uvicorn before it has imported torch
        config = _config(app, settings, factory=True, workers=settings.workers)
        many = _Many(config, sockets=[bound])
        threading.Thread(target=_when_ready, args=(bound, report_ready), daemon=True).start()
        many.run()
    finally:
        for name in (SHARED, WORKER_ENV):
            os.environ.pop(name, None)
        shutil.rmtree(shared, ignore_errors=True)


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


def _config(app: Any, settings: ServingSettings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app, host=settings.host, port=settings.port, log_level="warning", access_log=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=SHUTDOWN_TIMEOUT, lifespan="on", **more,
    )  # fmt: skip
