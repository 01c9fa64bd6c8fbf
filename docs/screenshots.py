"""Take the pictures of the studio in README.md and studio.md: python docs/screenshots.py http://127.0.0.1:8000/

Of the run that `macrid demo` makes and serves. A Chromium is needed (Debian: apt-get install chromium).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).parent
USER = "test-7"
SIZE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
SEEN = "try { localStorage.setItem('macrid-toured', 'true'); } catch { /* a blank page has no storage */ }"
QUIET = 2_500  # ms until nothing moves
EVENTS = "customer,product,stars,day\n" + "".join(
    f"c{(7 * at) % 40},p{(11 * at) % 23},{1 + at % 5},2026-01-{1 + at % 28:02}\n" for at in range(600)
)


def main(address: str) -> None:
    steered = "towards=size:1.4&towards=price:-0.8"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, query, does in (
            ("studio", steered, None),
            ("studio-why", steered, open_first),
            ("studio-customers", f"view=customers&{steered}", None),
            ("studio-variations", "view=walk&from=watch-0089", None),
            ("studio-compare", f"view=compare&{steered}", None),
            ("studio-map", "view=map", draw_around),
            ("studio-training", "", upload),
        ):
            take(browser, f"{address}?user={USER}&{query}", name, does)
        take(browser, f"{address}?user={USER}&{steered}", "studio-phone", open_drawer, PHONE, "dark")
        browser.close()


def take(
    browser: Browser,
    address: str,
    name: str,
    does: Callable[[Page], None] | None = None,
    size: dict[str, int] = SIZE,
    theme: str = "light",
) -> None:
    context = browser.new_context(viewport=size, color_scheme=theme)  # type: ignore[arg-type]
    context.add_init_script(SEEN)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#picks:not([aria-busy])", state="attached")
    page.wait_for_timeout(QUIET)
    if does is not None:
        does(page)
        page.wait_for_timeout(QUIET)
    page.screenshot(path=FOLDER / f"{name}.png")
    context.close()


def open_first(page: Page) -> None:
    page.locator(".lists .card-open").nth(1).click()
    page.locator(".sheet .why").wait_for()
    page.locator(".sheet .why").evaluate("(section) => section.scrollIntoView({ block: 'start' })")


def draw_around(page: Page) -> None:
    """A segment: the upper left part of the map."""
    page.wait_for_selector(".map-stage:not(.is-loading):has(.map-note[hidden])", timeout=180_000)
    box = page.locator(".map-points").bounding_box()
    assert box is not None
    corners = [(0.08, 0.08), (0.42, 0.08), (0.42, 0.55), (0.08, 0.55), (0.08, 0.08)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.keyboard.down("Shift")
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=8)
    page.mouse.up()
    page.keyboard.up("Shift")


def upload(page: Page) -> None:
    page.locator(".training-open").click()
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "orders.csv"
        events.write_text(EVENTS, encoding="utf-8")
        page.locator("dialog input[type=file]").first.set_input_files(events)
        page.wait_for_timeout(2 * QUIET)


def open_drawer(page: Page) -> None:
    page.locator(".drawer-toggle").click()


if __name__ == "__main__":
    main(sys.argv[1])
