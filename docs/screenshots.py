"""Take the pictures of the studio in README.md and serving.md: python docs/screenshots.py http://127.0.0.1:8000/

Of the run that `macrid demo` makes and serves. A Chromium is needed (Debian: apt-get install chromium).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent
USER = "test-7"
SIZE = {"width": 1280, "height": 800}


def main(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        bags = next(
            entry for entry in page.request.get(f"{address}v1/model").json()["concepts"] if entry["name"] == "bags"
        )
        size = next(entry for entry in bags["dimensions"] if entry["name"] == "size")
        far = size["range"][1] - 0.02 * (size["range"][1] - size["range"][0])
        steered = (
            f"user={USER}&concept={bags['concept']}&list=concept&move={bags['concept']}.{size['dimension']}:{far:.4f}"
        )
        take(page, f"{address}?{steered}", "studio.png", "#picks .card", size["label"])
        take(
            page,
            f"{address}?user={USER}&view=map",
            "studio-map.png",
            ".map-stage:not(.is-loading):has(.map-note[hidden])",
        )
        browser.close()


def take(page: Page, address: str, name: str, ready: str, knob: str | None = None) -> None:
    page.goto(address)
    page.wait_for_selector("#picks:not([aria-busy])", state="attached")
    page.wait_for_selector(ready, timeout=120_000)
    if knob is not None:
        page.get_by_role("slider", name=knob).first.evaluate("slider => slider.scrollIntoView({block: 'center'})")
        page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(2_000)  # until nothing moves
    page.screenshot(path=FOLDER / name)


if __name__ == "__main__":
    main(sys.argv[1])
