"""A server around the app: one process, or several that share the weights; SIGHUP swaps the run, SIGTERM drains."""

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

ASKED = "MACRID_SERVING"  # what processes are to serve, as JSON
KEEP_ALIVE = 75  # seconds that an idle connection stays open
SWITCH = 0.0005  # seconds after which a busy thread makes way; the model's asks for that many times a batch
FORCED_AFTER = 30.0  # seconds after which answers that are still being made are given up when it is to end


def serve(
    run: str | Path,
    settings: ServingSettings,
    *,
    listening: socket.socket | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a run until told to end.

    listening: a socket bound already. on_ready: called with the address of the studio once requests are answered.
    """
    bound = listening or bind(settings)
    _log_to_stderr()
    _ignore_hangups()
    address = address_of(bound, settings)
    if settings.workers == 1:
        use_threads(settings)
        app = create_app(run, settings, on_start=lambda service: started(service, lambda: _tell(on_ready, address)))
        server = uvicorn.Server(_config(app, settings))
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn passes on what it was told to end by
            server.run([bound])
        return
    _serve_many(Path(run), settings, bound, lambda: _tell(on_ready, address))


def bind(settings: ServingSettings) -> socket.socket:
    """A socket at the address of the settings; a `MacridError` if it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise SettingsError(
            f"{settings.host}:{settings.port} cannot be listened on ({error.strerror or error}); choose another --port"
            " or --host"
        ) from None
    bound.set_inheritable(True)
    return bound


def address_of(bound: socket.socket, settings: ServingSettings) -> str:
    """Of the studio, for a browser on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)
    return f"http://{in_brackets(host)}:{bound.getsockname()[1]}/"


def use_threads(settings: ServingSettings) -> None:
    """A process that has several cores leaves one of them to the requests themselves."""
    torch.set_num_threads(settings.threads or max(1, cores() // settings.workers - 1))


def started(service: Service, tell: Callable[[], None] | None = None) -> None:
    """Take over the signals of a process that serves, and tell that it does."""
    spare_the_collector()
    sys.setswitchinterval(SWITCH)
    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, service.reload_soon)
        end = signal.getsignal(signal.SIGTERM)

        def drain(number: int, frame: FrameType | None) -> None:
            if service.is_draining:
                return
            service.is_draining = True
            log.info("about to end: answering what is asked for another %g s", service.settings.drain)
            loop.call_soon_threadsafe(loop.call_later, service.settings.drain, lambda: end(number, None))  # type: ignore[misc,operator]

        if callable(end):
            signal.signal(signal.SIGTERM, drain)
    if tell is not None:
        loop.call_later(0.05, tell)  # the server listens right after


def worker_app() -> Any:
    """The app of one of several processes; uvicorn calls it in each."""
    asked = json.loads(os.environ[ASKED])
    settings = ServingSettings.make(asked["settings"])
    use_threads(settings)
    _log_to_stderr()
    _ignore_hangups()
    parent = os.getppid()
    return create_app(
        asked["run"], settings, shared=Path(asked["shared"]), on_start=started,
        on_reload=lambda: os.kill(parent, signal.SIGHUP),
    )  # fmt: skip


class _Many(Multiprocess):
    """uvicorn's processes, which on SIGHUP swap the run inside instead of starting anew."""

    def keep_subprocess_alive(self) -> None:
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # its requests in flight are no longer counted

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def _serve_many(run: Path, settings: ServingSettings, bound: socket.socket, tell: Callable[[], None]) -> None:
    from macrid.serving.hosted import Hosted

    shared = Path(tempfile.mkdtemp(prefix="macrid-serving-"))
    try:
        (shared / "metrics").mkdir()
        use_threads(settings)
        Hosted(run, settings, shared).close()  # a run that cannot be served is told of once; tables are made once
        os.environ[SHARED] = str(shared / "metrics")
        os.environ[ASKED] = json.dumps(
            {"run": str(run.absolute()), "settings": settings.model_dump(mode="json"), "shared": str(shared)}
        )
        config = _config("macrid.serving.server:worker_app", settings, factory=True, workers=settings.workers)
        many = _Many(config, sockets=[bound])
        threading.Thread(target=_when_ready, args=(bound, tell), daemon=True).start()
        many.run()
    finally:
        for name in (SHARED, ASKED):
            os.environ.pop(name, None)
        shutil.rmtree(shared, ignore_errors=True)


def _when_ready(bound: socket.socket, tell: Callable[[], None]) -> None:
    """Wait until one of the processes answers."""
    family, address = bound.family, bound.getsockname()
    while True:
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.settimeout(2)
            probe.connect(address)
            probe.sendall(b"GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n")
            if probe.recv(16).startswith(b"HTTP/1.1 200"):
                tell()
                return
        time.sleep(0.1)


def _config(app: Any, settings: ServingSettings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app, host=settings.host, port=settings.port, log_level="warning", access_log=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=int(FORCED_AFTER), lifespan="on", **more,
    )  # fmt: skip


def _ignore_hangups() -> None:
    """Until there is a run that could be swapped."""
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _log_to_stderr() -> None:
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _tell(on_ready: Callable[[str], None] | None, address: str) -> None:
    if on_ready is not None:
        on_ready(address)
