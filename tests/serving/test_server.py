"""The server process: reloads and shutdown under load, with one process and several."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest

from macrid.errors import SettingsError
from macrid.serving import server
from macrid.settings import ServingSettings

pytestmark = pytest.mark.alone  # uses signals, and processes that wait for each other

SHARED = (r"/model\.safetensors$", r"/macrid-serving-\w+/[\w-]+\.safetensors$")
ASK = json.dumps({"history": ["bag-0011", "mug-0003"], "n": 5})


class Server:
    """`macrid serve` in its own process."""

    def __init__(self, process):
        self.process, self.requests = process, 0
        address = re.search(r"http://.*:(\d+)/", process.stdout.readline())
        assert address, process.stderr.read()
        self.port = int(address[1])

    def ask(self, method, path, body=None):
        self.requests += 1
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
            with connection.getresponse() as answer:
                return answer.status, answer.read()

    def served_now(self):
        return json.loads(self.ask("GET", "/readyz")[1])["run"]


@contextmanager
def serving(run, *options):
    command = [sys.executable, "-m", "macrid", "serve", str(run), "--port", "0", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    with process:
        try:
            yield Server(process)
        finally:
            process.kill() if process.poll() is None else None


class Clients:
    """Clients that send requests over open connections and record failures."""

    def __init__(self, port, count=12):
        self.port, self.answered, self.refused, self.lost, self.firsts = port, 0, 0, [], set()
        self.stop, self.is_ending, self._lock = threading.Event(), False, threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, count):
        wait_until(lambda: self.answered >= count)

    def _ask(self):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            self._ask_through(connection)

    def _ask_through(self, connection):
        is_new = True
        while not self.stop.is_set():
            try:
                if connection.sock is None:
                    is_new = True
                    connection.connect()
                connection.request("POST", "/v1/recommend", ASK, {"content-type": "application/json"})
                answer = connection.getresponse()
                content = json.loads(answer.read())
                assert answer.status == 200, content
                assert len(content["items"]) == 5
            except OSError as error:
                if not (self.is_ending and is_new):
                    self.lost.append(repr(error))
                else:  # the server takes no new connections
                    self.refused += 1
                return
            is_new = False
            with self._lock:
                self.answered += 1
                self.firsts.add(content["items"][0]["id"])
            if answer.will_close:
                connection.close()


def wait_until(fact):
    begin = time.monotonic()
    while not fact():
        assert time.monotonic() - begin < 40
        time.sleep(0.02)


@pytest.fixture
def two_runs(shop_run, tmp_path):
    """A link to a run, and another run that recommends something else."""
    from macrid import runs

    shutil.copytree(shop_run, tmp_path / "one")
    model = runs.load(shop_run, "cpu")
    with_other = model.network.item_vectors.detach().flip(0).contiguous()
    model.network.item_vectors.data.copy_(with_other)
    runs.save(model, tmp_path / "two")
    (tmp_path / "current").symlink_to(tmp_path / "one")
    return tmp_path


def point_to(folder, name):
    (folder / "next").symlink_to(folder / name)
    os.replace(folder / "next", folder / "current")


def test_reloads_and_shutdown_under_load_drop_no_request(two_runs):
    with serving(two_runs / "current", "--drain", "0.5") as server, Clients(server.port) as clients:
        clients.wait_for(50)
        assert len(clients.firsts) == 1
        point_to(two_runs, "two")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.served_now() == "two")
        clients.wait_for(clients.answered + 50)
        assert len(clients.firsts) == 2
        assert server.ask("POST", "/v1/reload", {"run": "one"})[0] == 200
        (two_runs / "one" / "config.json").write_text("{", "utf-8")
        server.process.send_signal(signal.SIGHUP)  # a damaged run is not loaded
        clients.wait_for(clients.answered + 50)
        assert server.served_now() == "one"
        clients.is_ending = True
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: clients.refused == 12 or clients.lost)
        log = server.process.communicate(timeout=20)[1]
        assert clients.lost == []
        answered = int(re.search(r"stopped after ([\d,]+)", log)[1].replace(",", ""))
        assert clients.answered + server.requests == answered
        assert "config.json" in log
        assert "Traceback" not in log


@pytest.mark.slow
def test_processes_share_the_weights_and_reload_together(two_runs):
    with serving(two_runs / "current", "--workers", "2", "--drain", "0.2") as server:
        wait_until(lambda: len(workers_of(server.process.pid)) == 2)
        for pid in workers_of(server.process.pid):
            assert [written_to(pid, name) for name in SHARED] == [0, 0]
        with Clients(server.port, 6) as clients:
            clients.wait_for(30)
            assert server.ask("POST", "/v1/reload", {"run": "two"})[0] == 200
            wait_until(lambda: all(server.served_now() == "two" for _ in range(20)))
            assert b'macrid_reloads_total{outcome="swapped"}' in server.ask("GET", "/metrics")[1]
        assert clients.lost == []
        assert len(clients.firsts) == 2
        server.process.send_signal(signal.SIGTERM)
        log = server.process.communicate(timeout=30)[1]
        assert log.count("stopped after") == 2
        assert "Traceback" not in log


def workers_of(pid):
    """Processes that have mapped the weights and the tables derived from them."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = map(int, file.read().split())
    return [child for child in children if all(any(re.search(name, line) for line in _maps(child)) for name in SHARED)]


def _maps(pid):
    try:
        with open(f"/proc/{pid}/smaps") as file:
            return file.read().splitlines()
    except OSError:
        return []


def written_to(pid, name):
    """kB of pages of a mapped file that a process has written to."""
    is_named, total = False, 0
    for line in _maps(pid):
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_named = re.search(name, line) is not None
        elif is_named and line.startswith("Private_Dirty:"):
            total += int(line.split()[1])
    return total


def test_a_port_in_use_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=str(port)):
            server.bind(ServingSettings.make(port=port))


def test_the_address_works_in_a_browser():
    for host, expected in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")):
        settings = ServingSettings.make(host=host, port=0, open=True)
        with server.bind(settings) as bound:
            port = bound.getsockname()[1]
            assert server.address_of(bound, settings) == f"http://{expected}:{port}/"


PRELOADED = """
import os, signal, socket, sys
import torch, uvicorn
from macrid.serving.app import create_app
from macrid.settings import ServingSettings

torch.set_num_threads(2)
(torch.randn(400, 400) @ torch.randn(400, 400)).exp().sum()  # starts torch's threads
app = create_app(sys.argv[1], ServingSettings.make(edits="no"))
bound = socket.create_server(("127.0.0.1", 0))
bound.set_inheritable(True)
children = []
for _ in range(2):
    children.append(os.fork())
    if not children[-1]:
        signal.alarm(60)
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run([bound])
        os._exit(0)
print("http://127.0.0.1:%d/" % bound.getsockname()[1], flush=True)
sys.stdin.read()
for child in children:
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
"""


def test_an_app_made_before_a_fork_answers_after_it(shop_run, shop_model):
    """As `gunicorn --preload` does."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "ignore", "-c", PRELOADED, str(shop_run)]
    with subprocess.Popen(command, **pipes) as process:
        preloaded = Server(process)
        expected = [item.id for item in shop_model.recommend(["bag-0011", "mug-0003"], n=5)]
        for _ in range(20):  # each on a connection that either process may take
            status, content = preloaded.ask("POST", "/v1/recommend", json.loads(ASK))
            assert status == 200, content
            assert [item["id"] for item in json.loads(content)["items"]] == expected
        _, log = process.communicate("", timeout=20)
    assert log == ""
