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
        self.md5 = None  # that of the content unless given
        self.ranges = True
        self.tag = '"one"'
        self.lengths = True
        self.cuts = []  # how many bytes each of the next answers sends before the connection breaks
        self.failures = []  # the status of each of the next answers
        self.asked = []  # the Range of every request for the archive
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
        asked = request.headers.get("Range")
        self.asked.append(asked)
        if self.failures:
            request.send_error(self.failures.pop(0))
            return
        start = 0
        if asked and self.ranges and request.headers.get("If-Range", self.tag) == self.tag:
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
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


def test_an_archive_is_fetched_verified_and_unpacked_and_nothing_else_is_left(server, tmp_path):
    seen = []
    fetch_archive(server.url, tmp_path / "cache" / "set", lambda done, total: seen.append((done, total)))
    assert is_complete(tmp_path / "cache")
    assert server.asked == [None]
    total = len(server.content)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 20


def test_a_connection_cut_in_the_middle_is_resumed_by_itself(server, tmp_path):
    server.cuts = [100_000, 50_000]
    seen = []
    fetch_archive(server.url, tmp_path / "set", lambda done, total: seen.append(done))
    assert is_complete(tmp_path)
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]
    assert seen == sorted(seen)


def test_a_server_that_never_gets_further_is_given_up_and_the_next_call_goes_on_from_there(server, tmp_path):
    server.cuts = [100_000, 0, 0, 0, 0]
    with pytest.raises(DataError, match=r"set\.zip: the connection broke after 100,000 of 300,\d+ bytes"):
        fetch_archive(server.url, tmp_path / "set")
    assert (tmp_path / "set.zip.part").stat().st_size == 100_000
    server.asked.clear()
    server.cuts.clear()
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.asked == ["bytes=100000-"]


def test_a_server_that_cannot_resume_is_asked_for_everything_again(server, tmp_path):
    server.ranges = False
    server.cuts = [100_000]
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.asked == [None, "bytes=100000-"]


def test_a_server_that_cannot_resume_and_always_breaks_is_given_up(server, tmp_path):
    server.ranges = False
    server.cuts = [100_000, 50_000] * 25
    with pytest.raises(DataError, match="the connection broke after"):
        fetch_archive(server.url, tmp_path / "set")
    assert len(server.asked) < 10


@pytest.mark.parametrize("tag", ['"two"', ""])
def test_a_file_that_changed_in_between_is_fetched_anew_in_one_request(server, tmp_path, tag):
    (tmp_path / "set.zip.part").write_bytes(b"an older version" * 1_000)
    (tmp_path / "set.zip.part.tag").write_text('"one"')
    server.tag = tag
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.asked == ["bytes=16000-"]


def test_what_was_resumed_from_something_else_is_fetched_once_more(server, tmp_path):
    (tmp_path / "set.zip.part").write_bytes(b"something else" * 1_000)
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.asked == ["bytes=14000-", None]


def test_a_part_longer_than_the_file_is_fetched_anew(server, tmp_path):
    (tmp_path / "set.zip.part").write_bytes(b"x" * 1_000_000)
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)


def test_a_part_that_is_already_whole_is_not_fetched_again(server, tmp_path):
    (tmp_path / "set.zip.part").write_bytes(server.content)
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)
    assert server.asked == []


def test_a_server_that_does_not_tell_the_length_is_believed_if_the_checksum_fits(server, tmp_path):
    server.lengths = False
    seen = []
    fetch_archive(server.url, tmp_path / "set", lambda done, total: seen.append(total))
    assert is_complete(tmp_path)
    assert set(seen) == {None}


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(server, tmp_path):
    server.md5 = "0" * 32
    with pytest.raises(DataError, match=f"does not have the published MD5 {'0' * 32}"):
        fetch_archive(server.url, tmp_path / "set")
    assert not (tmp_path / "set").exists()
    assert (tmp_path / "set.zip.part").stat().st_size == 0


def test_a_checksum_file_without_a_checksum_is_an_error(server, tmp_path):
    server.md5 = "none today"
    with pytest.raises(DataError, match=r"set\.zip\.md5 holds no MD5"):
        fetch_archive(server.url, tmp_path / "set")


def test_a_server_in_trouble_is_asked_again(server, tmp_path):
    server.failures = [503, 500]
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_an_error_at_once(server, tmp_path, status):
    server.failures = [status]
    with pytest.raises(DataError, match=f"the server answers {status}"):
        fetch_archive(server.url, tmp_path / "set")
    assert len(server.asked) == 1


def test_trouble_that_does_not_end_is_an_error_with_the_answer(server, tmp_path):
    server.failures = [503] * 10
    with pytest.raises(DataError, match="the server answers 503"):
        fetch_archive(server.url, tmp_path / "set")


def test_no_network_is_an_error_that_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DataError, match=r"set\.zip\.md5: Connection refused"):
        fetch_archive(f"http://127.0.0.1:{port}/set.zip", tmp_path / "set")


@pytest.mark.parametrize("name", ["set/../../evil", "/etc/evil", "../evil", "set\\..\\evil", "C:/evil", "set/a:b"])
def test_an_archive_that_reaches_out_of_its_folder_is_not_unpacked(server, tmp_path, name):
    server.content = zipped({"set/events.csv": b"a", name: b"evil"})
    with pytest.raises(DataError, match="outside of its folder; not unpacked"):
        fetch_archive(server.url, tmp_path / "cache" / "set")
    assert names(tmp_path) == ["cache/set.zip.part", "cache/set.zip.part.tag"]


def test_links_in_an_archive_are_not_unpacked(server, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo("set/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    server.content = packed.getvalue()
    with pytest.raises(DataError, match="outside of its folder"):
        fetch_archive(server.url, tmp_path / "set")


def test_files_beside_the_folder_of_an_archive_are_left_out(server, tmp_path):
    server.content = zipped({"set/events.csv": EVENTS, "set/deep/items.csv": b"a", "__MACOSX/x": b"b", "note": b"c"})
    fetch_archive(server.url, tmp_path / "set")
    assert is_complete(tmp_path)


def test_an_archive_without_the_folder_is_an_error(server, tmp_path):
    server.content = zipped({"other/events.csv": b"a"})
    with pytest.raises(DataError, match="has no folder 'set' inside"):
        fetch_archive(server.url, tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_damaged_archive_is_an_error_even_if_its_checksum_fits(server, tmp_path):
    content = bytearray(server.content)
    content[5_000] ^= 0xFF
    server.content = bytes(content)
    with pytest.raises(DataError, match=r"damaged zip file \(Bad CRC-32"):
        fetch_archive(server.url, tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_what_is_no_archive_is_an_error(server, tmp_path):
    server.content = b"<html>login</html>"
    with pytest.raises(DataError, match="damaged zip file"):
        fetch_archive(server.url, tmp_path / "set")


def test_two_downloads_of_one_archive_do_not_mix(server, tmp_path):
    with (tmp_path / "set.zip.part").open("ab") as other:
        assert lock(other.fileno())
        with pytest.raises(DataError, match="another process is downloading this"):
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
def test_a_full_disk_is_an_error_and_leaves_no_half_folder(server, tmp_path, compressed):
    if compressed:  # the archive fits, what is in it does not
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("set/events.csv", b"0" * 500_000)
        server.content = packed.getvalue()
    command = [sys.executable, "-c", LIMITED, server.url, tmp_path / "set", "100000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written (File too large)" in done.stdout
    assert names(tmp_path) == ["set.zip.part", "set.zip.part.tag"]
