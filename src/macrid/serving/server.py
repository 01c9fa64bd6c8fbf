"""The server: one process, or several that share the weights; SIGHUP reloads the run, SIGTERM drains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import uvicorn

from macrid.errors import SettingsError
from macrid.openmp import cores
from macrid.serving.app import create_app
from macrid.serving.connections import Connection, Door
from macrid.serving.guard import check_may_be_reached, check_may_train, in_brackets, is_local
from macrid.serving.service import Service, log, spare_the_collector
from macrid.settings import ServingSettings

HEALTH_CHECK = 15  # seconds for a process to respond to its supervisor
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
    prepare(settings)
    if settings.token is None and not is_local(settings.host):
        log.warning("warning: anybody who can reach %s may use this service; set MACRID_TOKEN=…", settings.host)
    report_ready = partial(on_ready, address_of(bound, settings))
    if settings.workers == 1:
        app = create_app(run, settings, on_start=lambda service: started(service, report_ready))
        server = uvicorn.Server(config(app, settings))
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again
            server.run([bound])
        return
    from macrid.serving.workers import serve_many

    serve_many(Path(run), settings, bound, report_ready)


def bind(settings: ServingSettings) -> socket.socket:
    """A socket at the address in the settings; a `SettingsError` if that fails or needs a token."""
    check_may_be_reached(settings)
    check_may_train(settings)
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


def prepare(settings: ServingSettings) -> None:
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


def config(app: Any, settings: ServingSettings, **more: Any) -> uvicorn.Config:
    """Of uvicorn."""
    connections: Any = partial(Connection, Door(settings))
    return uvicorn.Config(
        app, host=settings.host, port=settings.port, http=connections, ws="none", log_level="warning",
        access_log=False, server_header=False, timeout_keep_alive=settings.idle_timeout,  # type: ignore[arg-type]
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT, timeout_worker_healthcheck=HEALTH_CHECK, lifespan="on", **more,
    )  # fmt: skip
