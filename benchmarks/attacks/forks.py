"""A loaded model in forked processes, in eight threads, and in an app that is loaded before its workers are forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.attacks import Outcome
from benchmarks.serving import made_run

SECONDS = 60  # for each try; a hung process is ended then
START = """
import os, sys, threading
import torch
import macrid

torch.set_num_threads(2)
(torch.randn(400, 400) @ torch.randn(400, 400)).exp().sum()  # starts torch's threads

def near(one, other):
    is_same = [item.id for item in one] == [item.id for item in other]
    return is_same and all(abs(a.score - b.score) < 1e-4 for a, b in zip(one, other))
"""
FORK = """
model = macrid.load(sys.argv[1])
history = [model.items[place] for place in range(12)]
before = model.recommend(history, n=10)
child = os.fork()
if not child:
    os._exit(0 if near(model.recommend(history, n=10), before) else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
THREADS = """
from concurrent.futures import ThreadPoolExecutor
model = macrid.load(sys.argv[1])
histories = [[model.items[place] for place in range(start, start + 12)] for start in range(80)]
expected = [model.recommend(history, n=10) for history in histories]
with ThreadPoolExecutor(8) as pool:
    lists = list(pool.map(lambda history: model.recommend(history, n=10), histories))
sys.exit(0 if all(map(near, lists, expected)) else 3)
"""
PRELOAD = """
import http.client, json, signal, socket
import uvicorn
from macrid.serving.app import create_app

app = create_app(sys.argv[1])
model = macrid.load(sys.argv[1])
history = [model.items[place] for place in range(12)]
expected = [item.id for item in model.recommend(history, n=10)]
children = []
for _ in range(3):
    bound = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run([bound])
        os._exit(0)
    children.append((pid, bound.getsockname()[1]))
status = 0
for pid, port in children:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        body, headers = json.dumps({"history": history}), {"content-type": "application/json"}
        connection.request("POST", "/v1/recommend", body, headers)
        items = json.loads(connection.getresponse().read())["items"]
        status = status or (0 if [item["id"] for item in items] == expected else 3)
    except OSError:
        status = 4
    os.kill(pid, signal.SIGKILL)
sys.exit(status)
"""
PROBLEMS = {3: "other items", 4: "no response"}


def attack(times: int | None, seed: int) -> list[Outcome]:
    """Each case so many times."""
    cases = {
        "fork after macrid.load, recommend in the child": FORK,
        "eight threads recommend at once": THREADS,
        "an app loaded before its three workers are forked": PRELOAD,
    }
    with tempfile.TemporaryDirectory() as name:
        run = made_run(Path(name) / "run", 500)
        outcomes = []
        for case, code in cases.items():
            outcomes.append(Outcome(case, "the same lists"))
            for _ in range(times or 5):
                outcomes[-1].note(_problem(START + code, run))
    return outcomes


def _problem(code: str, run: Path) -> str | None:
    """What goes wrong in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", code, str(run)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children too, which may be those that hang
            return "hangs"
    return None if status == 0 else PROBLEMS.get(status, f"ends with status {status}")
