"""What is wrong with a cluster is said at once, in one line, without a credential."""

import socket
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import macrid
from macrid.cluster import connecting, recommending
from macrid.cluster.connecting import Resources, check, connected, without_credentials
from macrid.cluster.trials import share_of
from macrid.errors import ClusterError


@pytest.fixture
def closed_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]  # nobody listens


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_cannot_be_reached_is_an_error_at_once(closed_port, scheme):
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=f"127.0.0.1:{closed_port}: no Ray cluster can be reached"):
        check(f"{scheme}127.0.0.1:{closed_port}")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "command", [("recommend", "RUN", "--input", "x", "--output", "y"), ("tune", "D", "--out", "y")]
)
def test_commands_say_so_before_any_work(invoke, closed_port, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = invoke(*command, "--ray", f"127.0.0.1:{closed_port}")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: 127.0.0.1:{closed_port}: no Ray cluster")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    ["", "host", "ftp://host:1",
     "ray://u:s3cret@host:10001", "u:s3cret@host:1", "ray://host:10001?token=s3cret",
     "host:x", "ray://h/path", "ray://host:99999"],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_its_secrets(address):
    with pytest.raises(ClusterError, match=r"use local, auto, ray://HOST:10001 or HOST:6379") as caught:
        check(address)
    assert "s3cret" not in str(caught.value)


def test_no_token_is_shown(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "abc123")
    assert "abc123" not in without_credentials("rpc failed: bearer abc123 was refused")
    assert without_credentials("x?api_key=hello&y=1") == "x?api_key=***&y=1"


def test_without_ray_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(connecting, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match=r"pip install 'macrid\[cluster\]'"), connected("local"):
        pass


def test_a_cluster_is_asked_for_before_events_are_read(batch_run, tmp_path, monkeypatch):
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "events.parquet")

    def unreachable(address):
        raise ClusterError(f"{address}: nobody there")

    monkeypatch.setattr(recommending, "connected", unreachable)
    monkeypatch.setattr(recommending.Divider, "divide", lambda *_, **__: pytest.fail("divided"))
    source, output = tmp_path / "events.parquet", tmp_path / "recs"
    with pytest.raises(ClusterError, match="nobody there"):
        recommending.recommend_in_parts(
            macrid.load(batch_run), batch_run, source, output, recommending.Lists(), columns={}, ray="auto"
        )
    assert not output.exists()


def test_ray_needs_a_folder_to_write_to(invoke, batch_run, tmp_path):
    for output in (("--output", tmp_path / "recs.parquet", "--input", "x.csv"), ("--history", "a")):
        assert invoke("recommend", batch_run, *output, "--ray", "local")[0] == 2


@pytest.mark.parametrize(
    ("resources", "count", "device", "share"),
    [
        (Resources(8, 0, 8), 2, "auto", (4, 0)),
        (Resources(64, 0, 8), 2, "auto", (8, 0)),
        (Resources(4, 0, 2), 16, "auto", (1, 0)),
        (Resources(32, 2, 16), 16, "auto", (1, 1 / 8)),
        (Resources(32, 4, 16), 2, "cuda", (1, 1)),
        (Resources(32, 4, 16), 2, "cpu", (16, 0)),
    ],
)
def test_trainings_share_cores_and_gpus_equally(resources, count, device, share):
    found = share_of(resources, count, device)
    assert (found["num_cpus"], found["num_gpus"]) == share
