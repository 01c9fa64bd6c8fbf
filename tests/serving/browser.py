"""A headless Chromium, sites for it to visit, and helpers for studio pages."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from urllib.parse import quote, urlencode, urlsplit

import pytest
import uvicorn

from macrid.serving.app import create_app
from macrid.settings import ServingSettings

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the first does half the work
INSTALL = "apt-get -qq update && apt-get install -y -qq --no-install-recommends chromium-headless-shell"
SETTLED = 8.0  # seconds for a page to update on a busy machine
READ = "(cards) => cards.map((card) => card.dataset.id)"
MOVE = re.compile(r"move=(\d+)\.(\d+)%3A([-.\de]+)")
READY = "#picks:not([aria-busy])"
TOURED = "try { localStorage.setItem('macrid-toured', 'true'); } catch { /* a blank page has no storage */ }\n"


def chromium():
    """The browser. If there is none and none can be installed, tests are skipped, or fail in CI."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None and getattr(os, "geteuid", lambda: 1)() == 0 and shutil.which("apt-get"):
        subprocess.run(["sh", "-c", INSTALL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        program = shutil.which(PROGRAMS[0])
    if program is None:
        message = f"no browser: set CHROMIUM, or put one of {', '.join(PROGRAMS)} in PATH"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return program


class Site:
    """Serves a run on a free port, in a thread."""

    def __init__(self, run, **settings):
        self.run, self._token, self.visitors = run, settings.get("token"), []
        self._bound = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._bound.getsockname()[1]}"
        app = create_app(run, ServingSettings.make(settings))
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", lifespan="on", ws="none", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._bound],), daemon=True)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self._server.started)
        return self

    def __exit__(self, *_):
        for studio in [*self.visitors]:  # so that no page loads from a closed server
            studio.leave()
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()

    def get(self, path, **query):
        return self._ask(f"{path}?{urlencode(query)}" if query else path)

    def post(self, path, **body):
        return self._ask(path, json.dumps(body).encode())

    def _ask(self, path, body=None):
        headers = {"content-type": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(f"{self.address}/v1{path}", body, headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def item(self, id):
        return self.get(f"/items/{quote(id, safe='')}")

    def recommended(self, concept=None, **who_and_moves):
        """Ids that the page should show: overall, or of one concept."""
        return ids(self.post("/recommend", n=24, concept=concept, **who_and_moves)["items"])

    def concept(self, label):
        return next(concept for concept in self.get("/model")["concepts"] if concept["label"] == label)

    def dimension(self, concept, name):
        """(number of the concept, number of the dimension)"""
        entry = self.concept(concept)
        return entry["concept"], next(knob["dimension"] for knob in entry["dimensions"] if knob["name"] == name)


class Studio:
    """A page in its own context. Errors and requests to other sites are recorded in `trouble`."""

    def __init__(
        self, browser, site, query="", *, allow=(), reduced_motion="reduce", script="", first=False, **options
    ):
        """allow: patterns of trouble that a test causes on purpose; script: runs before the page's own scripts;
        first: a visit of somebody who has not seen the tour."""
        self.site, self._trouble, self._allowed = site, [], allow
        options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": reduced_motion, **options}
        self.context = browser.new_context(base_url=site.address, **options)
        self.context.add_init_script(script if first else f"{TOURED}{script}")
        self.context.on("console", self._logged)
        self.context.on("weberror", lambda event: self._trouble.append(str(event.error)))
        self.context.on("requestfailed", self._failed)
        self.context.on("request", self._requested)
        site.visitors.append(self)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * SETTLED)
        self.query = query

    def _logged(self, message):
        if message.type in ("error", "warning"):
            self._trouble.append(f"{message.text} ({message.location['url']})")

    def _failed(self, request):
        if "ERR_ABORTED" not in (request.failure or ""):  # cancelled by the page itself
            self._trouble.append(f"{request.url}: {request.failure}")

    def _requested(self, request):
        if urlsplit(request.url).hostname != "127.0.0.1" and not request.url.startswith("data:"):
            self._trouble.append(f"requested {request.url}")

    @property
    def trouble(self):
        return [text for text in self._trouble if not any(re.search(pattern, text) for pattern in self._allowed)]

    def open(self, query=None):
        self.page.goto(f"/{self.query if query is None else query}")
        self.ready()
        return self

    def ready(self):
        self.page.wait_for_selector(READY, state="attached")

    def leave(self):
        if self in self.site.visitors:
            self.site.visitors.remove(self)
            self.context.close()

    def close(self):
        self.leave()
        assert self.trouble == [], self.trouble

    def one(self, selector):
        return self.page.locator(selector)

    def list(self, label="Recommended"):
        return self.one(f'[role=region][aria-label="{label}"]')

    def button(self, name, within=""):
        return self.one(f"{within} button").and_(self.page.get_by_role("button", name=name, exact=True))

    def knob(self, concept, name):
        return self.page.get_by_role("slider", name=f"{name}, {concept}", exact=True)

    def share(self, concept):
        return self.page.get_by_role("slider", name=f"share of {concept}", exact=True)

    def towards(self, label):
        return self.page.get_by_role("slider", name=label, exact=True)

    def tab(self, name):
        """Open a tab, by its heading: Walk, Map or Report."""
        self.one(f"#tab-{name}").click()
        self.page.wait_for_selector(f"#view-{name}:not([hidden])")

    @property
    def url(self):
        """The address as the page has it; `page.url` is the last one that playwright was sent, which may be another."""
        return self.page.evaluate("location.href")

    def shown(self, label="Recommended"):
        """Ids of the cards, in order."""
        return self.list(label).locator(".card").evaluate_all(READ)

    def shows(self, expected, label="Recommended"):
        """Wait for these cards."""
        wait_until(lambda: self.shown(label) == expected, lambda: (self.shown(label), expected))

    def badges(self):
        """{id: "new", "↑ 3" or "↓ 2"}, for cards with a badge."""
        read = "(cards) => cards.map((card) => [card.dataset.id, card.querySelector('.badge').textContent])"
        return {id: text for id, text in self.list().locator(".card").evaluate_all(read) if text}

    def history(self):
        return self.one('[aria-label="History"] .chip').evaluate_all(READ)

    def value(self, slider):
        """Of a slider; of a share as a part of 1."""
        if slider.evaluate("(node) => node instanceof HTMLInputElement"):
            return float(slider.input_value())
        return round(float(slider.evaluate("(node) => node.style.flexGrow")), 5)

    def turned(self, slider):
        """The only move in the address, once it agrees with the slider."""
        wait_until(lambda: (move := MOVE.search(self.url)) and abs(float(move[3]) - self.value(slider)) < 1e-4)
        concept, dimension, to = MOVE.search(self.url).groups()
        return {"concept": int(concept), "dimension": int(dimension), "to": float(to)}


def ready(site, path):
    """The result of a background computation, once ready."""
    begin = time.monotonic()
    while (result := site.get(path))["state"] == "computing":
        assert time.monotonic() - begin < 200  # it has a low priority
        time.sleep(0.2)
    return result


def ids(items):
    return [item["id"] for item in items]


def still_box(element):
    """Where an element is on the screen, once it can be used and no longer moves: what is above it may still arrive."""
    boxes = [None, None]

    def is_still():
        element.scroll_into_view_if_needed()
        boxes[:] = boxes[1], element.bounding_box()
        time.sleep(0.1)
        return boxes[0] == boxes[1] is not None and element.is_enabled()

    wait_until(is_still, lambda: f"it moves: {boxes}")
    return boxes[1]


def press(slider, key, times=1):
    """Press a key on a slider, once it can be used."""
    wait_until(lambda: slider.is_enabled() and slider.get_attribute("aria-disabled") != "true")
    slider.focus()
    for _ in range(times):
        slider.page.keyboard.press(key)


def wait_until(fact, message=lambda: "timed out"):
    begin = time.monotonic()
    while not fact():
        assert time.monotonic() - begin < SETTLED, message()
        time.sleep(0.02)
