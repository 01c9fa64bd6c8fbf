import hashlib
import io
import re
import socket
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from macrid.data import download
from macrid.data.download import fetch_archive
from macrid.errors import DataError
from macrid.files import lock

EVENTS = np.random.default_rng(0).bytes(300_000)


def zipped(members=None):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in (members or {"set/events.csv": EVENTS, "set/deep/items.csv": b"a"}).items():
            archive.writestr(name, content)
    return packed.getvalue()


class Server:
    """A real server on this machine whose faults a test can choose."""

    def __init__(self):
        self.content = zipped()
        self.md5 = None  # by default, that of the content
        self.ranges = True
        self.tag = '"one"'
        self.lengths = True
        self.cuts = []  # bytes sent by each of the next responses before the connection breaks
        self.failures = []  # statuses of the next responses
        self.ranges_requested = []  # one per request for the archive
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/files/set.zip"

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def answer(self, request):
        if request.path.endswith(".md5"):
            text = f"MD5 (set.zip) = {self.md5 or hashlib.md5(self.content).hexdigest()}\n".encode()
            request.send_response(200)
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text)
            return
        requested = request.headers.get("Range")
        self.ranges_requested.append(requested)
        if self.failures:
            request.send_error(self.failures.pop(0))
            return
        start = 0
        if requested and self.ranges and request.headers.get("If-Range", self.tag) == self.tag:
            start = int(re.fullmatch(r"bytes=(\d+)-", requested)[1])
            if start >= len(self.content):
                request.send_error(416)
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        else:
            request.send_response(200)
        body = self.content[start:]
        if self.tag:
            request.send_header("ETag", self.tag)
        if self.lengths:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)
        request.close_connection = True


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setattr(download, "CHUNK", 10_000)
    monkeypatch.setenv("no_proxy", "*")
    running = Server()
    yield running
    running.close()


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def is_complete(cache):
    return (
        names(cache) == ["set/deep/items.csv", "set/events.csv"] and (cache / "set/events.csv").read_bytes() == EVENTS
    )


def test_an_archive_is_fetched_and_unpacked_leaving_nothing_else(server, tmp_path):
    seen = []
    fetch_archive(server.url, tmp_path / "cache" / "set", lambda done, total: seen.append((done, total)))
    assert is_complete(tmp_path / "cache")
    assert server.ranges_requested == [None]
    total = len(server.content)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 20


def test_a_broken_connection_is_resumed(server, tmp_path):
    server.cuts = [100_000, 50_000]
    seen = []
    fetch_archive(server.url, tmp_path / "set", lambda done, total: seen.append(done))
    assert is_complete(tmp_path)
    assert server.ranges_requested == [None, "bytes=100000-", "bytes=150000-"]
    assert seen == sorted(seen)


def test_a_stalled_download_fails_and_the_next_call_resumes_it(server, tmp_path):
    server.cuts = [100_000, 0, 0, 0, 0]
    with pytest.raises(DataError, match=r"set\.zip: .* 100,000 of 300,\d+ bytes"):
        fetch_archive(server.url, tmp_path / "set")
    assert (tmp_path / "set.zip.part").stat().st_size == 100_000
    server.ranges_requested.clear()
    server.cuts.clear()
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.ranges_requested == ["bytes=100000-"]


def test_a_server_that_cannot_resume_sends_everything_again(server, tmp_path):
    server.ranges = False
    server.cuts = [100_000]
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.ranges_requested == [None, "bytes=100000-"]


def test_a_server_that_cannot_resume_and_always_breaks_is_abandoned(server, tmp_path):
    server.ranges = False
    server.cuts = [100_000, 50_000] * 25
    with pytest.raises(DataError, match=r"set\.zip: .*bytes"):
        fetch_archive(server.url, tmp_path / "set")
    assert len(server.ranges_requested) < 10


@pytest.mark.parametrize("tag", ['"two"', ""])
def test_a_file_that_has_changed_is_fetched_again_in_one_request(server, tmp_path, tag):
    (tmp_path / "set.zip.part").write_bytes(b"an older version" * 1_000)
    (tmp_path / "set.zip.part.tag").write_text('"one"')
    server.tag = tag
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.ranges_requested == ["bytes=16000-"]


@pytest.mark.parametrize("length", [14_000, 1_000_000])
def test_a_part_of_another_file_is_fetched_again_from_scratch(server, tmp_path, length):
    (tmp_path / "set.zip.part").write_bytes(b"x" * length)
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.ranges_requested == [f"bytes={length}-", None]


def test_a_complete_part_is_not_fetched_again(server, tmp_path):
    (tmp_path / "set.zip.part").write_bytes(server.content)
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.ranges_requested == []


def test_an_unknown_length_is_fine_if_the_checksum_matches(server, tmp_path):
    server.lengths = False
    seen = []
    fetch_archive(server.url, tmp_path / "set", lambda done, total: seen.append(total))
    assert is_complete(tmp_path)
    assert set(seen) == {None}


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(server, tmp_path):
    server.md5 = "0" * 32
    with pytest.raises(DataError, match=f"MD5 {'0' * 32}"):
        fetch_archive(server.url, tmp_path / "set")
    assert not (tmp_path / "set").exists()
    assert (tmp_path / "set.zip.part").stat().st_size == 0


def test_a_checksum_file_without_a_checksum_is_an_error(server, tmp_path):
    server.md5 = "none today"
    with pytest.raises(DataError, match=r"set\.zip\.md5"):
        fetch_archive(server.url, tmp_path / "set")


def test_server_errors_are_retried(server, tmp_path):
    server.failures = [503, 500]
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)


@pytest.mark.parametrize(("status", "requests"), [(403, 1), (404, 1), (503, download.ATTEMPTS)])
def test_a_refusal_is_final_and_a_server_error_is_retried_a_few_times(server, tmp_path, status, requests):
    server.failures = [status] * 10
    with pytest.raises(DataError, match=f"{status} "):
        fetch_archive(server.url, tmp_path / "set")
    assert len(server.ranges_requested) == requests


def test_a_refused_connection_is_an_error_that_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DataError, match=r"set\.zip\.md5: Connection refused"):
        fetch_archive(f"http://127.0.0.1:{port}/set.zip", tmp_path / "set")


@pytest.mark.parametrize("name", ["set/../../evil", "/etc/evil", "../evil", "set\\..\\evil", "C:/evil", "set/a:b"])
def test_an_archive_that_escapes_its_folder_is_not_unpacked(server, tmp_path, name):
    server.content = zipped({"set/events.csv": b"a", name: b"evil"})
    with pytest.raises(DataError, match=re.escape(f"'{name}'")):
        fetch_archive(server.url, tmp_path / "cache" / "set")
    assert names(tmp_path) == ["cache/set.zip.part", "cache/set.zip.part.tag"]


def test_an_archive_with_links_is_not_unpacked(server, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo("set/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    server.content = packed.getvalue()
    with pytest.raises(DataError, match="'set/link'"):
        fetch_archive(server.url, tmp_path / "set")


def test_files_outside_the_folder_of_an_archive_are_ignored(server, tmp_path):
    server.content = zipped({"set/events.csv": EVENTS, "set/deep/items.csv": b"a", "__MACOSX/x": b"b", "note": b"c"})
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)


def test_an_archive_without_the_folder_is_an_error(server, tmp_path):
    server.content = zipped({"other/events.csv": b"a"})
    with pytest.raises(DataError, match=r"set\.zip.*'set'"):
        fetch_archive(server.url, tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("content", [zipped()[:5_000] + b"\xff" + zipped()[5_001:], b"<html>login</html>"])
def test_a_damaged_archive_is_an_error_even_if_its_checksum_matches(server, tmp_path, content):
    assert content != server.content
    server.content = content
    with pytest.raises(DataError, match=r"set\.zip\.part: damaged"):
        fetch_archive(server.url, tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_concurrent_downloads_of_an_archive_do_not_mix(server, tmp_path):
    with (tmp_path / "set.zip.part").open("ab") as other:
        assert lock(other.fileno())
        with pytest.raises(DataError, match=r"set\.zip\.part"):
            fetch_archive(server.url, tmp_path / "set")


LIMITED = """
import resource, sys
from pathlib import Path
from macrid.data.download import fetch_archive
from macrid.errors import DataError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    fetch_archive(sys.argv[1], Path(sys.argv[2]))
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize("compressed", [True, False])
def test_a_full_disk_is_an_error_and_leaves_no_partial_folder(server, tmp_path, compressed):
    if compressed:  # the archive fits, its contents do not
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("set/events.csv", b"0" * 500_000)
        server.content = packed.getvalue()
    command = [sys.executable, "-c", LIMITED, server.url, tmp_path / "set", "100000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "(File too large)" in done.stdout
    assert names(tmp_path) == ["set.zip.part", "set.zip.part.tag"]
