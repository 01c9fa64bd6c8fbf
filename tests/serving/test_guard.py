"""Host, origin and token checks, limits and security headers."""

import asyncio
import re
import time
from urllib.parse import quote, unquote

import pytest

from macrid.errors import SettingsError
from macrid.serving.app import create_app
from macrid.serving.guard import may_edit
from macrid.settings import ServingSettings
from tests.serving.test_app import ok, problem

WRONG = ("Bearer wrong", "Basic correct horse", "correct horse", "Bearer")
ASK = {"history": ["bag-0011"], "n": 2}


@pytest.fixture(scope="module")
def secret(client_of, shop_run):
    return client_of(shop_run, token="correct horse", host="0.0.0.0")


@pytest.fixture(scope="module")
def tight(client_of, shop_run):
    """With small limits."""
    limits = {"max_items": 5, "max_history": 4, "max_batch": 2, "max_moves": 1, "max_body": 2048, "timeout": 0.5}
    return client_of(shop_run, **limits, edits="no")


@pytest.mark.parametrize("path", ["/v1/model", "/v1/items", "/v1/pictures/bag-0011", "/v1/openapi.json", "/metrics"])
def test_requests_without_the_token_are_refused(secret, path, monkeypatch):
    monkeypatch.setattr("macrid.serving.tokens.FIRST_DELAY", 0.0)
    for header in ({}, *({"authorization": wrong} for wrong in WRONG)):
        answer = secret.get(path, headers=header)
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_opens_the_api_and_the_page_needs_none(secret):
    header = {"authorization": "Bearer correct horse"}
    assert ok(secret.get("/v1/model", headers=header))["can_rename"] is True
    assert ok(secret.get("/v1/openapi.json", headers=header))["security"] == [{"token": []}]
    assert secret.get("/").status_code == secret.get("/healthz").status_code == secret.get("/readyz").status_code == 200


def test_the_token_is_required_wherever_the_app_is_mounted(secret):
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    for client in (
        TestClient(Starlette(routes=[Mount("/rec", secret.app)])),
        TestClient(secret.app, root_path="/rec"),
    ):
        for path in ("/rec/v1/model", "/rec/metrics", "/rec/v1/openapi.json", "/rec/nothing"):
            assert client.get(path).status_code == 401
        assert client.get("/rec/healthz").status_code == 200
        assert client.get("/rec/v1/model", headers={"authorization": "Bearer correct horse"}).status_code == 200


def test_a_mounted_app_starts_with_its_first_request(popularity_run):
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    app = create_app(popularity_run)
    client = TestClient(Starlette(routes=[Mount("/rec", app)]), base_url="http://localhost")
    assert "macrid_items 160.0" in client.get("/rec/metrics").text
    app.state.service.close()


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({}, True),
        ({"hosts": ["shop.example"]}, False),  # behind a proxy, anybody may come from this machine
        ({"hosts": ["shop.example"], "token": "correct horse"}, True),
        ({"hosts": ["shop.example"], "edits": "yes"}, True),
        ({"edits": "no", "token": "correct horse"}, False),
    ],
)
def test_anybody_may_edit_only_what_is_local_or_has_a_token(settings, may):
    assert may_edit(ServingSettings.make(settings)) is may


def test_files_can_only_be_read(client):
    answer = client.post("/static/main.js")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "shop.example"}, False),
        ({"host": "0.0.0.0", "token": "correct horse"}, True),
        ({"host": "0.0.0.0", "edits": "yes"}, True),
        ({"edits": "no"}, False),
    ],
)
def test_edits_need_a_token_or_a_local_address(settings, expected):
    assert may_edit(ServingSettings.make(settings)) is expected


OTHERS = ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "[::1", "[", "shop.example")


@pytest.mark.parametrize(
    ("settings", "allowed", "refused"),
    [
        ({}, ("localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"), OTHERS),
        ({"host": "127.0.0.2"}, ("127.0.0.2:8000", "localhost"), OTHERS),
        ({"host": "0.0.0.0", "open": True}, ("shop.example", "10.0.0.7:8000"), ()),
        ({"hosts": ("Shop.Example", "*.inner.example", "::1")}, ("shop.example:8000", "a.inner.example", "[::1]"),
         ("localhost", "evil.example", "inner.example", "www.shop.example")),
    ],
)  # fmt: skip
def test_a_service_answers_only_to_its_names(client_of, popularity_run, settings, allowed, refused):
    client = client_of(popularity_run, **settings)
    for host in allowed:
        assert client.get("/v1/model", headers={"host": host}).status_code == 200, host
    for host in refused:
        problem(client.get("/v1/model", headers={"host": host}), 421, repr(host))
        assert client.get("/healthz", headers={"host": host}).status_code == 200  # probes use any name


@pytest.mark.parametrize("name", ["a*b.example", "*example", "**", ""])
def test_invalid_host_names_are_refused(name):
    with pytest.raises(SettingsError, match=re.escape(repr(name))):
        ServingSettings.make({"hosts": (name,)})


def test_pages_of_other_sites_are_refused(client, client_of, shop_run):
    other = {"origin": "https://evil.example"}
    problem(client.post("/v1/recommend", json=ASK, headers=other), 403)
    for origin in ("null", "http://[", "127.0.0.1"):
        problem(client.post("/v1/recommend", json=ASK, headers={"origin": origin}), 403)
    assert "access-control-allow-origin" not in client.get("/v1/model", headers=other).headers
    assert client.post("/v1/recommend", json=ASK, headers={"origin": "http://127.0.0.1"}).status_code == 200
    allowed = client_of(shop_run, origins=("https://shop.example",))
    answer = allowed.post("/v1/recommend", json=ASK, headers={"origin": "https://shop.example"})
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    problem(allowed.post("/v1/recommend", json=ASK, headers=other), 403)
    refused = allowed.post("/v1/recommend", json={}, headers={"origin": "https://shop.example"})
    assert refused.headers["access-control-allow-origin"] == "https://shop.example"


def test_a_form_is_not_taken_for_json(client):
    answer = client.post("/v1/recommend", content='{"history": []}', headers={"content-type": "text/plain"})
    problem(answer, 422)


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/v1/model", "/v1/nothing", "/healthz"])
def test_every_response_has_security_headers(client, path):
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_only_files_of_the_studio_are_served(client):
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/static"):
        assert client.get(path).status_code in (404, 405), path


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/recommend", {"history": [], "n": 6}, ["6", "5"]),
        ("/v1/recommend", {"history": ["a", "b", "c", "d", "e"]}, ["history", "4"]),
        ("/v1/recommend", {"history": [], "n": 1, "exclude": ["a"] * 5}, ["exclude", "4"]),
        ("/v1/recommend", {"history": [], "n": 1, "include": ["a"] * 5}, ["include", "4"]),
        ("/v1/recommend", {"history": [], "n": 1, "moves": [{"concept": 0, "share": 0.5}] * 2}, ["2", "1"]),
        ("/v1/recommend/batch", {"histories": [[], [], []], "n": 1}, ["3", "2"]),
        ("/v1/encode", {"history": ["a", "b", "c", "d", "e"]}, ["4"]),
        ("/v1/items/lookup", {"ids": ["a", "b", "c", "d", "e"]}, ["4"]),
    ],
)
def test_requests_beyond_a_limit_are_refused_with_the_limit(tight, path, body, words):
    problem(tight.post(path, json=body), 422, *words)


def test_similar_items_have_the_same_limit(tight):
    problem(tight.get("/v1/similar", params={"item": "bag-0011", "n": 6}), 422, "5")


def test_a_large_body_is_refused_with_or_without_its_length(tight):
    large = b'{"history": ["' + b"x" * 4000 + b'"]}'
    json_type = {"content-type": "application/json"}
    problem(tight.post("/v1/recommend", content=large, headers=json_type), 413, "2,048")
    problem(tight.post("/v1/recommend", content=iter([large[:100], large[100:]]), headers=json_type), 413, "2,048")


def test_a_slow_response_times_out(tight, monkeypatch):
    served = tight.app.state.service.hosted
    monkeypatch.setattr(served.search, "hits", lambda *_, **__: time.sleep(1.0))
    begin = time.monotonic()
    problem(tight.get("/v1/items"), 503, "0.5 s")
    assert time.monotonic() - begin < 0.9


def test_an_incomplete_request_times_out(tight):
    """A slow client must not hold a connection for ever."""
    sent, parts = [], [{"type": "http.request", "body": b"{", "more_body": True}]
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/recommend", "query_string": b"", "headers": headers}

    async def receive():
        if not parts:
            await asyncio.sleep(60)
        return parts.pop()

    async def send(message):
        sent.append(message)

    asyncio.run(asyncio.wait_for(tight.app(scope, receive, send), 10))
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]


def test_many_errors_give_a_short_response(client):
    begin = time.monotonic()
    for body in (
        {"history": [[]] * 100_000},
        {"history": [], "moves": [3] * 100_000},
        {f"x{i}": 1 for i in range(50_000)},
    ):
        answer = client.post("/v1/recommend", json=body)
        problem(answer, 422)
        assert len(answer.content) < 5_000
    assert time.monotonic() - begin < 5


def test_an_internal_error_is_counted_and_has_security_headers(client_of, popularity_run, monkeypatch):
    client = client_of(popularity_run)
    monkeypatch.setattr(client.app.state.service.hosted.card, "model", lambda: 1 / 0)
    answer = client.get("/v1/model")
    problem(answer, 500)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert 'macrid_requests_total{method="GET",route="/v1/model",status="500"} 1.0' in client.get("/metrics").text


def test_counts_that_cannot_be_kept_are_no_error(client_of, popularity_run, monkeypatch):
    from starlette.testclient import TestClient

    def fail(*_):
        raise FileNotFoundError(2, "No such file or directory", "counter_1.db")  # its folder was cleaned up

    app = client_of(popularity_run).app
    monkeypatch.setattr(app.state.service.metrics.requests, "labels", fail)
    assert ok(TestClient(app, base_url="http://127.0.0.1").get("/v1/model"))["items"] == 160


def test_only_long_responses_are_compressed(client):
    long = client.get("/v1/model", headers={"accept-encoding": "gzip"})
    assert long.headers["content-encoding"] == "gzip"
    assert int(long.headers["content-length"]) < len(long.content) / 3
    assert "content-encoding" not in client.get("/healthz", headers={"accept-encoding": "gzip"}).headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "shop.example"])
def test_nobody_beyond_this_machine_gets_in_unless_allowed(popularity_run, host):
    with pytest.raises(SettingsError, match="--open"):
        create_app(popularity_run, ServingSettings.make(host=host))
    for allowed in ({"open": True}, {"token": "correct horse"}):
        create_app(popularity_run, ServingSettings.make(host=host, **allowed)).state.service.close()


@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/encode", "/v1/items", "/v1/items/lookup"])
def test_a_client_that_leaves_early_is_no_error(client, caplog, path):
    sent, parts = [], [{"type": "http.disconnect"}, {"type": "http.request", "body": b"{", "more_body": True}]
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}

    async def receive():
        return parts.pop()

    async def send(message):
        sent.append(message)

    asyncio.run(client.app(scope, receive, send))
    assert (sent, caplog.records) == ([], [])
    assert f'route="{path}",status="499"' in client.get("/metrics").text


HOSTILE = [
    b'{"history": ["\\ud800"]}', b'{"ids": ["\\ud800"]}', b'{"name": "\\udfff"}', b'{"\\ud800": 1}',
    b"[" * 100_000, b'{"history": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' * 100_000,
    b'{"history": [NaN]}', b'{"history": [1e999]}', b'{"history": [], "n": NaN}', b'{"ids": [' + b"9" * 5000 + b"]}",
    b'{"history": [' + b"9" * 1001 + b"]}", b'{"ids": [-' + b"9" * 4000 + b"]}", b"\xff", b"", b"\xef\xbb\xbf{}",
    b'{"history": [], "bounded": 0}', b'{"history": [], "explain": "yes"}', b'{"history": [], "n": 3.0}',
    b'{"history": [], "n": true}', b'{"item": "bag-0011", "dimension": 0, "steps": "8"}',
]  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        "/v1/recommend",
        "/v1/recommend/batch",
        "/v1/encode",
        "/v1/traverse",
        "/v1/items",
        "/v1/items/lookup",
        "/v1/reload",
        "/v1/concepts/0",
    ],
)
def test_json_that_is_no_json_or_not_of_the_right_type_is_refused(client, path):
    method = "PATCH" if path == "/v1/concepts/0" else "POST"
    for content in HOSTILE:
        answer = client.request(method, path, content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 403, 422), (content[:60], answer.text[:200])


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfff", "\x00", "\u202e", "%", "%ff", "%ed%a0%80", "%00", "²", "9" * 999]
)
def test_odd_characters_in_addresses_are_refused(client, text):
    for template in ("/v1/items/{}", "/v1/users/{}", "/v1/pictures/{}", "/v1/concepts/{}/dimensions", "/{}"):
        scope = {"type": "http", "method": "GET", "query_string": b"", "headers": [(b"host", b"127.0.0.1")]}
        for path in (template.format(text), template.format(unquote(text, errors="surrogateescape"))):
            sent = []

            async def send(message, sent=sent):
                sent.append(message)

            asyncio.run(client.app({**scope, "path": path}, _nothing_more, send))
            assert 400 <= sent[0]["status"] < 500, path
    for name in ("/v1/similar?item=", "/v1/items?q=", "/v1/users?q=", "/v1/map/values?by="):
        assert client.get(name + quote(text, errors="surrogatepass")).status_code < 500


async def _nothing_more():
    return {"type": "http.request", "body": b"", "more_body": False}
