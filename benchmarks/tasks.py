"""Five tasks in the studio, done as a person would: how many clicks and keys they take, and how long.

    python -m benchmarks.tasks --run RUN [--before CHECKOUT]

1 find out what this is, 2 make the list older and funnier, 3 take one film away and get another, 4 find out why one is
there, 5 send the list to a colleague. --before repeats them with the page of an earlier checkout, by its own controls.

Seconds are those of the keystroke-level model (Card, Moran and Newell 1980: 1.35 s to think before each unit of work,
1.1 s to point, 0.2 s to press a button, 0.28 s per key, 0.4 s to move a hand to the keyboard; reading at 4 words a
second) plus what the page itself took to answer, measured. The run must have the attributes year and genres, as ml-1m
has. Results go to benchmarks/results/tasks.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import circumstances, rounded, show

RESULTS = Path(__file__).parent / "results" / "tasks.json"
THINK, POINT, PRESS, KEY, HAND, READ = 1.35, 1.1, 0.2, 0.28, 0.4, 1 / 4
TASKS = (
    "find out what this is",
    "make the list older and funnier",
    "take one film away and get another",
    "why is this here",
    "send it to a colleague",
)


class Person:
    """Counts what a person does, and waits for the page to answer."""

    def __init__(self, page: Any) -> None:
        self.page, self.clicks, self.keys, self.seconds = page, 0, 0, 0.0

    def click(self, locator: Any) -> None:
        self.clicks += 1
        self.seconds += THINK + POINT + PRESS
        self._waiting(locator.click)

    def drag(self, slider: Any, part: float) -> None:
        """To a part of the slider's way."""
        self.clicks += 1
        self.seconds += THINK + 2 * POINT + PRESS
        box = slider.bounding_box()
        y, width = box["y"] + box["height"] / 2, box["width"] - 22
        self.page.mouse.move(box["x"] + box["width"] / 2, y)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + 11 + part * width, y, steps=8)
        self._waiting(self.page.mouse.up)

    def write(self, text: str, until: str) -> None:
        """until: a selector of what shows that it was read."""
        self.keys += len(text) + 1
        self.seconds += THINK + HAND + KEY * (len(text) + 1)
        self.page.keyboard.type(text)
        self._waiting(lambda: (self.page.keyboard.press("Enter"), self.page.wait_for_selector(until)))

    def read(self, text: str) -> None:
        self.seconds += READ * len(text.split())

    def _waiting(self, act: Callable[[], Any]) -> None:
        """Until the page is quiet again."""
        begin = time.perf_counter()
        act()
        self.page.wait_for_function("() => !document.querySelector('.lists[aria-busy=true]')")
        self.seconds += time.perf_counter() - begin


def first_edition(page: Any) -> Iterator[tuple[Person, str]]:
    """The page of macrid 0.1: knobs to the right, below a heading "In all concepts"."""
    hint = page.locator(".knobs-body > .quiet").inner_text()
    person = Person(page)
    person.read(hint)
    yield person, f"one sentence in the third column: {hint}"
    person = Person(page)
    person.click(page.get_by_role("button", name="More attributes"))
    for name, part in (("year", 0.15), ("genres: Comedy", 0.85)):
        person.drag(page.get_by_role("slider", name=f"{name}, all concepts", exact=True), part)
    yield person, ""
    yield _take_away(page), ""
    person = Person(page)
    person.click(page.locator(".lists .card-open").first)
    why = page.locator(".sheet .why")
    why.wait_for()
    person.read(why.inner_text())
    yield person, f"{why.locator('li').count()} items of the history, without the sliders; no sum"
    page.keyboard.press("Escape")
    yield _copy(page), ""


def second_edition(page: Any) -> Iterator[tuple[Person, str]]:
    person = Person(page)
    line = page.locator("#hero").inner_text()
    person.read(line)
    yield person, f"the first line of the page: {line.splitlines()[0]}"
    person = Person(page)
    person.click(page.locator("#wishes"))
    person.write("older, funnier", until=".wish")
    yield person, page.locator("#wishes-read").inner_text().replace("\n", "; ").removesuffix("; Undo")
    yield _take_away(page), ""
    person = Person(page)
    person.click(page.locator(".lists .card-open").first)
    why = page.locator(".sheet .why")
    why.wait_for()
    why.locator(".why-said").wait_for()
    said = " ".join(why.locator(".why-place, .why-said").all_inner_texts())  # the table below is for those who check
    person.read(said)
    yield person, said
    page.keyboard.press("Escape")
    yield _copy(page), ""


def _take_away(page: Any) -> Person:
    person, card = Person(page), page.locator(".lists .card").nth(1)
    gone = card.get_attribute("data-id")
    card.hover()
    person.click(card.locator(".card-ban"))
    page.wait_for_function("(id) => !document.querySelector(`.lists .card[data-id='${id}']`)", arg=gone)
    return person


def _copy(page: Any) -> Person:
    """Copy the link, and see that it shows a colleague the same list."""
    person = Person(page)
    person.click(page.get_by_role("button", name="Copy link"))
    page.wait_for_timeout(500)  # the address follows
    colleague = page.context.browser.new_context(viewport={"width": 1280, "height": 800})
    other = colleague.new_page()
    other.goto(page.url)
    until = time.monotonic() + 15
    while _shown(other) != _shown(page):
        assert time.monotonic() < until, "the link shows another list"
        other.wait_for_timeout(100)
    colleague.close()
    return person


def _shown(page: Any) -> list[str]:
    return page.locator(".lists .card").evaluate_all("(cards) => cards.map((card) => card.dataset.id)")


def measured(address: str, tasks: Callable[[Any], Iterator[tuple[Person, str]]], user: str) -> list[dict[str, Any]]:
    from playwright.sync_api import sync_playwright

    browser = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser is None:
        sys.exit("there is no browser; install one (Debian: apt-get install chromium) or set CHROMIUM")
    rows = []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        context = opened.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        context.add_init_script("try { localStorage.setItem('macrid-toured', 'true'); } catch { /* blank */ }")
        page = context.new_page()
        page.goto(f"{address}/?user={user}")
        page.wait_for_selector(".towards-row .slider:enabled")
        page.wait_for_timeout(500)
        before = _about(page)
        for name, (person, note) in zip(TASKS, tasks(page), strict=True):
            row = {"task": name, "clicks": person.clicks, "keys": person.keys, "seconds": person.seconds, "note": note}
            if name == TASKS[1]:
                page.wait_for_timeout(700)
                row |= {"before": before, "after": _about(page)}
            rows.append(row)
        opened.close()
    return rows


def _about(page: Any) -> dict[str, Any]:
    """The mean year and the number of comedies of the list shown."""
    items = [
        page.evaluate(
            "async (id) => (await (await fetch(`/v1/items/${encodeURIComponent(id)}`)).json()).attributes", id
        )
        for id in _shown(page)
    ]
    years = [item["year"] for item in items if item.get("year") is not None]
    return {"year": f"{np.mean(years):.1f}", "comedies": sum("Comedy" in str(item.get("genres")) for item in items)}


@contextmanager
def _serving(checkout: Path, run: Path) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-m", "macrid", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            line = next(text for text in process.stdout if "http://" in text)
            yield line.split("http://")[1].split("/")[0].join(("http://", ""))
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="a checkout of macrid 0.1")
    parser.add_argument("--user", default="test-0")
    asked = parser.parse_args()
    here = Path(__file__).parents[1]
    editions = {"now": (here, second_edition)}
    if asked.before is not None:
        editions = {"before": (asked.before.resolve(), first_edition), **editions}
    found: dict[str, Any] = {**circumstances(), "run": asked.run.name}
    for name, (checkout, tasks) in editions.items():
        with _serving(checkout, asked.run) as address:
            found[name] = measured(address, tasks, asked.user)
        print(f"\n{name}")
        rows = [
            (row["task"], str(row["clicks"]), str(row["keys"]), f"{row['seconds']:.1f}", row["note"][:90])
            for row in found[name]
        ]
        show(("task", "clicks", "keys", "seconds", ""), rows)
        change = found[name][1]
        print(f"older and funnier: {change['before']} → {change['after']}")
    RESULTS.write_text(json.dumps(rounded(found), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
