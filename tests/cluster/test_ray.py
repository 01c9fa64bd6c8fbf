"""A real Ray cluster on this machine: its lists are those of one process, and what dies on the way is made again."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks.processes import below

from macrid.cluster import connecting
from macrid.cluster.connecting import connected
from macrid.data import store
from macrid.errors import ClusterError
from tests.cluster.test_parts import at_once, lists  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.alone]


class Cluster(NamedTuple):
    """How to get there, as a driver and as a client."""

    address: str
    client: str
    token: dict[str, str]


@pytest.fixture(scope="module")
def cluster():
    """Two cores of this machine, which ask for a token."""
    if " " in sys.executable:
        pytest.skip("Ray's client server cannot be started from a folder with a blank in its name")
    folder = Path("/tmp") / f"ray-{secrets.token_hex(3)}"  # its sockets need a short path
    port, client = free_port(), free_port()
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2",
        f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false",
        f"--object-store-memory={128 << 20}", f"--temp-dir={folder}", "--disable-usage-stats",
    ]  # fmt: skip
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **token}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    head = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)
    try:
        for each in (port, client):
            wait_for(lambda each=each: is_open(each), 60, head)
        yield Cluster(f"127.0.0.1:{port}", f"ray://127.0.0.1:{client}", token)
    finally:
        left = below(head.pid)
        for pid in [head.pid, *left]:
            kill(pid)
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_open(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def wait_for(is_so, seconds, process):
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def command(cluster, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "macrid", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **cluster.token},
    )  # fmt: skip


def test_a_cluster_writes_the_lists_of_one_process_though_a_worker_dies(at_once, cluster, batch_run, tmp_path):  # noqa: F811
    expected, counts, _, source = at_once
    recs = tmp_path / "recs"
    process = command(
        cluster, "recommend", batch_run, "--input", source, "--output", recs, "-n", 4, "--parts", 150,
        "--ray", cluster.address, "--json",
    )  # fmt: skip
    wait_for(lambda: len(list(recs.glob("part-*"))) > 2, 90, process)
    victims = below(os.getpid(), "ray::MapWorker")
    assert victims
    kill(victims[0])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out) == {**counts, "output": str(recs), "parts": 150}  # and nothing of Ray's
    assert lists(recs).equals(expected)
    assert sorted(path.name for path in recs.iterdir()) == [
        "_SUCCESS",
        "_job.json",
        *(f"part-{n:05d}.parquet" for n in range(150)),
    ]
    assert "(raylet)" not in err


def test_a_client_elsewhere_gets_the_same_lists(at_once, cluster, batch_run, tmp_path):  # noqa: F811
    expected, _, _, source = at_once
    recs = tmp_path / "recs"
    process = command(
        cluster,
        "recommend",
        batch_run,
        "--input",
        source,
        "--output",
        recs,
        "-n",
        4,
        "--parts",
        3,
        "--ray",
        cluster.client,
    )
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert lists(recs).equals(expected)


def test_what_a_worker_cannot_do_is_one_clear_line(at_once, cluster, batch_run, tmp_path):  # noqa: F811
    source = at_once[3]
    process = command(
        cluster, "recommend", batch_run, "--input", source, "--output", tmp_path / "recs", "-n", 4, "--parts", 3,
        "--strict", "--ray", cluster.address, "--json",
    )  # fmt: skip
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines()[-1].startswith("error: ")
    assert "users.parquet" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_trials_run_on_a_cluster_and_one_whose_process_is_killed_is_repeated(cluster, shop_split, tmp_path):
    store.write(shop_split, tmp_path / "data")
    process = command(
        cluster, "tune", tmp_path / "data", "--trials", 3, "--jobs", 2, "--confirm", 1, "--epochs", 8, "--patience", 8,
        "--device", "cpu", "--out", tmp_path / "tuned", "--fix", "dim=64", "--fix", "hidden-layers=0",
        "--ray", cluster.address, "--json",
    )  # fmt: skip
    wait_for(lambda: below(os.getpid(), "ray::_run"), 90, process)
    kill(below(os.getpid(), "ray::_run")[0])
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    found = json.loads(out)
    assert (found["trials"], found["failed"]) == (3, 0)
    assert len(found["best"]["scores"]) == 3


TASKS = """
import os, sys
from macrid.cluster.connecting import connected
from macrid.cluster.trials import RayWorkers
from macrid.errors import SettingsError

def task(shared, what):
    if what == "ours":
        raise SettingsError("dim is -1")
    if what == "other":
        raise ValueError("no such thing")
    if what == "dies":
        os._exit(1)
    return shared + what

with connected(sys.argv[1]) as resources, RayWorkers({"num_cpus": 1, "num_gpus": 0}, 4, "shared ") as workers:
    futures = [workers.submit(task, what) for what in ("works", "ours", "other", "dies")]
    idle = len(workers.idle())
    ended = [future.exception() or future.result() for future in futures]
    found = [f"{type(end).__name__}: {end}" for end in ended]
    freed = len(workers.idle())
print(idle < 4, freed, *found, sep="\\n")
"""


def test_every_error_of_a_training_is_one_of_ours(cluster, tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **cluster.token}
    script = [sys.executable, tmp_path / "tasks.py", cluster.address]
    out = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout
    was_busy, freed, works, ours, other, dies = out.splitlines()
    assert (was_busy, freed) == ("True", "4")
    assert works == "str: shared works"
    assert ours == "SettingsError: dim is -1"
    assert other == "TrainingError: ValueError: no such thing"
    assert dies.startswith("TrainingError: the training process was lost (WorkerCrashedError")


def test_a_port_that_is_not_rays_is_an_error_soon(monkeypatch):
    monkeypatch.setattr(connecting, "ANSWER", 3.0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        begin, address = time.monotonic(), f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            pytest.raises(ClusterError, match="no answer from Ray"),
            connected(address),
        ):
            pass
        assert time.monotonic() - begin < 20


def test_a_local_ray_starts_whatever_the_folder_for_temporary_files_and_leaves_nothing(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    code = """
from macrid.cluster.connecting import connected, ray_or_explain
with connected("local") as found:
    where = ray_or_explain()._private.worker._global_node.get_session_dir_path()
print(found.cpus, where)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    cpus, where = process.stdout.split()
    assert int(cpus) >= 1
    assert process.stderr == ""
    assert not Path(where).parent.exists()
    until = time.monotonic() + 10
    while below(1, where) and time.monotonic() < until:
        time.sleep(0.1)
    assert below(1, where) == []
