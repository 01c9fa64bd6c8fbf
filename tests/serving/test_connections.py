"""Connections that are slow, idle, too many, or send too much."""

import asyncio
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from macrid.serving import server
from macrid.serving.connections import FEWEST, SPARE_FILES, most_connections
from macrid.settings import ServingSettings

ASK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n"


async def _hello(request):
    return PlainTextResponse("hello")


async def _large(request):
    return PlainTextResponse("x" * 20_000_000)


async def _slow(request):
    await asyncio.sleep(0.8)
    return PlainTextResponse("slow")


@pytest.fixture
def open_to(request):
    """A function that starts a server with settings and returns a function that connects to it."""
    with ExitStack() as stack:

        def start(**settings):
            methods = ["GET", "POST"]
            routes = [("/", _hello), ("/large", _large), ("/slow", _slow)]
            app = Starlette(routes=[Route(path, endpoint, methods=methods) for path, endpoint in routes])
            made = ServingSettings.make(port=0, **settings)
            bound = stack.enter_context(server.bind(made))
            running = uvicorn.Server(server.config(app, made))
            thread = threading.Thread(target=running.run, args=([bound],))
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, running, "should_exit", True)
            while not running.started:
                time.sleep(0.01)
            address = bound.getsockname()

            def connect():
                connection = stack.enter_context(closing(socket.create_connection(address)))
                connection.settimeout(8)
                return connection

            connect.state = running.server_state
            return connect

        yield start


def answer(connection, *parts):
    """The status of the response, None if the connection is closed without one."""
    try:
        for part in parts:
            connection.sendall(part)
        line = connection.recv(65536).partition(b"\r\n")[0].split()
    except ConnectionError:
        return None
    return int(line[1]) if line else None


def is_closed(connection):
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


def test_a_header_has_a_deadline(open_to):
    connect = open_to(header_timeout=0.3)
    silent, half, empty, used = connect(), connect(), connect(), connect()
    assert answer(used, ASK) == 200
    begin = time.monotonic()
    for connection in (half, used):
        connection.sendall(ASK[:-2])
    empty.sendall(b"\r\n")
    assert [answer(half), answer(used)] == [408, 408]
    assert all(is_closed(each) for each in (silent, half, empty, used))
    assert 0.2 < time.monotonic() - begin < 4


def test_an_empty_line_between_requests_does_not_keep_a_connection(open_to):
    connection = open_to(header_timeout=0.3)()
    assert answer(connection, ASK) == 200
    connection.sendall(b"\r\n")
    assert is_closed(connection)


def test_an_idle_connection_is_closed(open_to):
    connection = open_to(idle_timeout=0.2)()
    assert answer(connection, ASK) == 200
    assert is_closed(connection)


@pytest.mark.parametrize(
    "header",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 3000 + b"\r\n\r\n",
        b"GET /?" + b"a" * 3000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 500 + b"\r\n",
    ],
    ids=["one value", "address", "many"],
)
def test_a_long_header_is_refused_whole_or_in_pieces(open_to, header):
    connect = open_to(max_header=2048)
    assert answer(connect(), header) == 431
    in_pieces, status = connect(), None
    in_pieces.settimeout(0.05)
    for start in range(0, 2900, 100):
        with suppress(TimeoutError):  # no response yet
            status = answer(in_pieces, header[start : start + 100])
            break
    assert status == 431
    assert answer(connect(), ASK) == 200


def test_a_trailer_is_part_of_the_header(open_to):
    chunked = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    connect = open_to(max_header=2048)
    assert answer(connect(), chunked, b"1\r\nx\r\n" * 2000, b"0\r\n\r\n") == 200
    endless = connect()
    assert answer(endless, chunked, b"0\r\nx: ") == 200
    try:
        for _ in range(100):
            endless.sendall(b"a" * 1000)
            time.sleep(0.002)
    except ConnectionError:
        return
    pytest.fail("an endless trailer is read on and on")


def test_other_protocols_are_refused_and_upgrades_ignored(open_to):
    connect = open_to()
    for content in (b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0\r\n\r\n", b"GET / HTTP/7.0\r\n\r\n"):
        assert answer(connect(), content) == 400
    connection = connect()
    assert answer(connection, ASK[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n") == 200
    assert answer(connection, ASK) == 200


def test_pipelined_requests_are_answered_however_many(open_to):
    connection, content = open_to(max_header=1024)(), b""
    connection.sendall(ASK * 300)
    while content.count(b"hello") < 300:
        content += connection.recv(65536)
    assert content.count(b"200 OK") == 300


def test_the_connection_that_waits_longest_makes_room_and_that_is_logged_once(open_to, caplog):
    connect = open_to(max_connections=4)
    with caplog.at_level(logging.WARNING, "macrid.serving"):
        busy = connect()
        busy.sendall(SLOW)
        time.sleep(0.1)
        idle = [connect() for _ in range(12)]
        assert [answer(connect(), ASK) for _ in range(5)] == [200] * 5
        assert all(is_closed(each) for each in idle)
    assert answer(busy) == 200
    assert [record.getMessage().split()[0] for record in caplog.records] == ["4"]


def test_nobody_who_is_being_answered_makes_room(open_to):
    connect = open_to(max_connections=4)
    busy = [connect() for _ in range(4)]
    for connection in busy:
        connection.sendall(SLOW)
    time.sleep(0.2)
    assert answer(connect()) == 503
    assert [answer(connection) for connection in busy] == [200] * 4


@pytest.mark.parametrize("requests", [1, 5])
def test_a_client_that_does_not_read_is_cut_off(open_to, requests, capfd):
    connect = open_to(idle_timeout=0.2, timeout=0.4)
    connection = connect()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n" * requests)
    begin = time.monotonic()
    while connect.state.connections or connect.state.tasks or not connect.state.total_requests:
        assert time.monotonic() - begin < 8
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


def test_a_client_that_reads_slowly_gets_everything(open_to):
    connection, size = open_to(idle_timeout=0.2, timeout=0.4)(), 0
    connection.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    begin = time.monotonic()
    while part := connection.recv(1_000_000):
        size += len(part)
        if time.monotonic() - begin < 1.5:
            time.sleep(0.1)
    assert size > 20_000_000
    assert time.monotonic() - begin > 1


def test_open_files_limit_connections():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0}));"
        "from macrid.serving.connections import most_connections; print(most_connections(1000))"
    )

    def most(files):
        command = [sys.executable, "-c", code.format(files)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert FEWEST < most(64) <= 64 - SPARE_FILES
    assert [most_connections(most) for most in (7, 2)] == [7, 2]


def test_the_documented_proxy_has_the_limits_of_the_service():
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
    proxy = dict(re.findall(r"^ +(\w+) +(.+);", re.search(r"```nginx\n(.*?)```", text, re.DOTALL)[1], re.MULTILINE))
    settings = ServingSettings.make()
    assert proxy["client_header_timeout"] == f"{settings.header_timeout:g}s"
    assert proxy["keepalive_timeout"] == f"{settings.idle_timeout:g}s"
    assert proxy["send_timeout"] == f"{settings.timeout:g}s"
    assert proxy["client_max_body_size"] == f"{settings.max_body >> 20}m"
    count, size = proxy["large_client_header_buffers"].split()
    assert int(count) * int(size.removesuffix("k")) * 1024 == settings.max_header
    assert float(proxy["proxy_read_timeout"].removesuffix("s")) > settings.timeout
