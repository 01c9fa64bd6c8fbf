"""Ray, found or started, without its chatter; a `ClusterError` of one line if that is not possible."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from contextlib import closing, contextmanager, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from macrid.errors import ClusterError, first_line
from macrid.openmp import cores

CLIENT_PORT = 10001  # of ray://
REACH = 3.0  # seconds to reach the port of a cluster
ANSWER = 8.0  # seconds for what listens there to speak gRPC, as Ray does
CONNECT = 60.0  # seconds to connect to a cluster, however busy
START = 120.0  # seconds to start Ray on this machine, however busy
LONGEST = 40  # characters of a folder for Ray's sockets, whose whole path must stay below 108
STORE = 128 << 20  # bytes of the object store of a Ray that is started here
MISSING = "--ray needs Ray; install it with `pip install 'macrid[cluster]'`"
HINT = "check the port (10001 for ray://, else 6379) and, if Ray asks for a token, RAY_AUTH_MODE and RAY_AUTH_TOKEN"
SECRET = re.compile(r"(?i)([\w-]*(?:token|password|passwd|secret|key)[\w-]*\s*[=:]\s*)[^\s&,;'\")]+")


class Resources(NamedTuple):
    """What a cluster has in total, and the cores of its largest machine."""

    cpus: int
    gpus: int
    cpus_of_one: int


def ray_or_explain() -> Any:
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # workers use this Python, not one that uv makes anew
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # and Ray does not warn that this will change
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings(action="ignore"):
        try:
            import ray
            import ray.data
        except ImportError:
            raise ClusterError(MISSING) from None
    return ray


@contextmanager
def connected(address: str, store: int = STORE) -> Iterator[Resources]:
    """A connection to Ray, closed at the end; what was started for it stops, too.

    address: "local" starts Ray on this machine, "auto" finds the cluster that this machine belongs to, ray://HOST:PORT
        or HOST:PORT is a cluster elsewhere. store: bytes of the object store of a local one.
    """
    shown = without_credentials(address)
    check(address)
    ray = ray_or_explain()
    if ray.is_initialized():
        raise ClusterError("this process is connected to Ray already; disconnect with ray.shutdown() first")
    folder = _short_folder() if address == "local" else None
    options: dict[str, Any] = {"address": address}
    if folder is not None:
        options |= {"num_cpus": cores(), "include_dashboard": False, "object_store_memory": store}
        options["_temp_dir"] = str(folder)
    try:
        with _quiet(ray), closing(_Connection(ray)):
            with _silent_errors():
                if address not in ("local", "auto"):
                    _check_answers(address)
                _init(ray, options, shown, START if folder else CONNECT)
            yield _resources(ray)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _resources(ray: Any) -> Resources:
    total = ray.cluster_resources()
    each = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return Resources(int(total.get("CPU", 0)), int(total.get("GPU", 0)), max(each, default=1))


class _Connection:
    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def close(self) -> None:
        with suppress(Exception), _silent_errors():
            self._ray.shutdown()


def _init(ray: Any, options: dict[str, Any], shown: str, limit: float) -> None:
    """Connect; Ray itself would wait for minutes where something else than Ray answers."""
    done: Future = Future()

    def init() -> None:
        try:
            done.set_result(ray.init(logging_level=logging.FATAL, log_to_driver=False, **options))
        except BaseException as error:
            done.set_exception(error)

    if options["address"] == "local":
        init()  # in the main thread, for Ray to get its signals
    else:
        Thread(target=init, daemon=True).start()
    try:
        done.result(limit)
    except LateError:
        raise ClusterError(f"{shown}: Ray does not let us in within {limit:.0f} seconds; {HINT}") from None
    except ConnectionError as error:
        if options["address"] == "auto":
            raise ClusterError(
                "auto: no Ray cluster on this machine; start one with `ray start --head`, give its address, or use"
                " --ray local"
            ) from None
        raise ClusterError(
            f"{shown}: cannot connect to Ray ({without_credentials(first_line(error))}); {HINT}"
        ) from None
    except (RuntimeError, ValueError, OSError) as error:
        raise ClusterError(f"{shown}: cannot use Ray ({without_credentials(first_line(error))})") from None


def check(address: str) -> None:
    """An error, soon, if this is no address, nobody listens there, or Ray is not installed."""
    if find_spec("ray") is None:
        raise ClusterError(MISSING)
    if address not in ("local", "auto"):
        host, port = _host(address)
        try:
            socket.create_connection((host, port), timeout=REACH).close()
        except OSError as error:
            raise ClusterError(
                f"{without_credentials(address)}: no Ray cluster can be reached there ({error.strerror or error});"
                " is it running, and its port open to us?"
            ) from None


def _host(address: str) -> tuple[str, int]:
    shown = without_credentials(address)
    usual = "use local, auto, ray://HOST:10001 or HOST:6379"
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ClusterError(f"{shown}: not the address of a Ray cluster; {usual}") from None
    if parts.scheme not in ("", "ray") or not host or parts.username or parts.path.strip("/") or parts.query:
        raise ClusterError(f"{shown}: not the address of a Ray cluster; {usual}")
    if port is None and parts.scheme != "ray":
        raise ClusterError(f"{shown}: no port; {usual}")
    return host, port or CLIENT_PORT


def _check_answers(address: str) -> None:
    """An error, soon, if what listens there is not Ray, for which Ray itself would wait for minutes."""
    try:
        import grpc
    except ImportError:  # pragma: no cover  (Ray's clients need it)
        return
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return
    host, port = _host(address)
    with grpc.insecure_channel(f"{host}:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER)
        except grpc.FutureTimeoutError:
            raise ClusterError(
                f"{without_credentials(address)}: no answer from Ray within {ANSWER:.0f} seconds; {HINT}"
            ) from None


def without_credentials(text: str) -> str:
    """As it may be shown: without what comes before an @, and without the values of tokens and passwords."""
    text = re.sub(r"://[^/\s]*@", "://***@", text)
    text = re.sub(r"^[^/\s]*@", "***@", text)
    token = os.environ.get("RAY_AUTH_TOKEN")
    text = text.replace(token, "***") if token else text
    return SECRET.sub(r"\1***", text)


def _short_folder() -> Path:
    """For the session of a Ray that is started here: its sockets need short paths."""
    usual = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="ray-", dir=usual if len(usual) <= LONGEST else "/tmp"))


@contextmanager
def _silent_errors() -> Iterator[None]:
    """Nothing on standard error, where Ray's C++ writes past Python; errors are raised, too."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Ray without warnings and logs: what matters reaches the user as an error or a result.

    It tells of workers that died on standard output, which is for results.
    """
    told = getattr(ray._private.worker, "_worker_logs_enabled", None)
    ray._private.worker._worker_logs_enabled = False
    loggers = [logging.getLogger(name) for name in ("ray", "ray.data")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.filterwarnings("ignore", module=r"ray(\..*)?$")
        for category in (FutureWarning, DeprecationWarning, ResourceWarning):
            warnings.filterwarnings("ignore", category=category)
        for logger in loggers:
            logger.setLevel(logging.FATAL)
        try:
            yield
        finally:
            ray._private.worker._worker_logs_enabled = told
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
