"""How long a comparison takes in the studio, in a headless Chromium: of a list with the one before the moves, and with
that of another model, which is loaded first.

    python -m benchmarks.comparing RUN OTHER

OTHER is the name of a run beside RUN. Each of the first users has two attributes moved. Both lists and the words about
them must be on the page. Service and browser share the cores. Results go to benchmarks/results/comparing.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from benchmarks.measuring import circumstances, rounded, show
from benchmarks.serving import Running

RESULTS = Path(__file__).parent / "results" / "comparing.json"
READY = "#picks:not([aria-busy])"
DRAWN = """() => document.querySelectorAll(".compare-row").length > 40
  && /same|in both/.test(document.querySelector(".compare-overlap").textContent)"""
OTHER = """() => document.querySelector(".is-left .compare-row:not(:has(.dot))")
  && /same|in both/.test(document.querySelector(".compare-overlap").textContent)"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("other", help="name of a run beside it")
    parser.add_argument("--users", type=int, default=20)
    asked = parser.parse_args()
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if browser is None:
        sys.exit("there is no browser; install one (Debian: apt-get install chromium) or set CHROMIUM")
    found = measured(asked.run, asked.other, browser, asked.users)
    RESULTS.write_text(json.dumps(rounded(found), indent=2) + "\n", encoding="utf-8")
    print(f"{found['items']:,} items; milliseconds")
    show(
        ("", "median", "worst"),
        [
            (name, f"{found[name]['median']:.0f}", f"{found[name]['worst']:.0f}")
            for name in ("before and after", "other model")
        ],
    )
    print(f"the other model, loaded first: {found['other model, first']:.0f} ms")


def measured(run: Path, other: str, browser: str, users: int) -> dict[str, Any]:
    """Milliseconds."""
    from playwright.sync_api import sync_playwright

    with Running(run, 1) as port, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(base_url=f"http://127.0.0.1:{port}", viewport={"width": 1280, "height": 800})
        page.goto("/")
        card = page.evaluate("async () => (await fetch('/v1/model')).json()")
        moves = [("towards", f"{quote(name)}:1") for name in card["towards"][:2]]
        before, beside = [], []
        for user in range(users):
            page.goto(f"/?{urlencode([('user', f'test-{user}'), *moves])}")
            page.wait_for_selector(READY)
            page.wait_for_timeout(200)
            before.append(_taken(lambda: page.locator("#tab-compare").click(), lambda: page.wait_for_function(DRAWN)))
            choose = page.locator("#compare-left")
            beside.append(_taken(lambda: choose.select_option(f"run:{other}"), lambda: page.wait_for_function(OTHER)))  # noqa: B023
        version = opened.version
        opened.close()
    return {
        **circumstances(), "browser": f"Chromium {version}", "items": card["items"], "users": users,
        "before and after": _spread(before), "other model, first": beside[0], "other model": _spread(beside[1:]),
    }  # fmt: skip


def _taken(act: Any, wait: Any) -> float:
    begin = time.perf_counter()
    act()
    wait()
    return 1000 * (time.perf_counter() - begin)


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "worst": max(values)}


if __name__ == "__main__":
    main()
