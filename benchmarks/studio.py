"""How long the studio takes, in a headless Chromium: to its first paint, from a slider to a new list, to draw its map.

    python -m benchmarks.studio [--run RUN] [--before CHECKOUT --rounds 3]

Without --run it is a run of 20,000 items, made for the occasion. A slider is turned by keys, one press after the other;
an answer counts once the browser has painted the list, items moving to their new places included. The map has random
points. Service and browser share the cores. Results go to benchmarks/results/studio.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import circumstances, rounded, show
from benchmarks.serving import ROOT, Running, made_run

RESULTS = Path(__file__).parent / "results" / "studio.json"
SLIDER = "#knobs .towards-row .slider:enabled"  # of the first attribute, over all items
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
WATCH = """
try { localStorage.setItem("macrid-toured", "true"); } catch { /* a blank page has no storage */ }
globalThis.watched = { turned: [], painted: [], frames: [] };
let to = null; // of the newest list
const ask = fetch;
globalThis.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (url.endsWith("/recommend")) to = JSON.parse(options.body).moves?.at(-1).amount ?? 0; // without a move
  return answer;
};
const keep = ({ target, timeStamp: at }) => watched.turned.push({ at, to: Number(Number(target.value).toFixed(5)) });
addEventListener("input", keep, true);
new MutationObserver((changes) => {
  const drawn = to;
  if (!changes.some(({ target }) => target.closest?.(".lists"))) return;
  requestAnimationFrame(() => setTimeout(() => watched.painted.push({ at: performance.now(), to: drawn })));
}).observe(document, { subtree: true, childList: true });
"""
ANSWERED = """() => watched.turned.map(({ at, to }) => {
  const answer = watched.painted.find((list) => list.at > at && list.to === to);
  return answer ? answer.at - at : null;
})"""
TIME_FRAMES = """() => {
  const request = requestAnimationFrame;
  globalThis.requestAnimationFrame = (draw) => request((now) => {
    const begin = performance.now();
    draw(now);
    watched.frames.push(performance.now() - begin);
  });
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run with concepts; made from the built-in shop if not given")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--presses", type=int, default=60)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier macrid, measured in turns with this one")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("there is no browser; install one (Debian: apt-get install chromium) or set CHROMIUM")
    editions = {"now": ROOT} if asked.before is None else {"before": asked.before.resolve(), "now": ROOT}
    values: dict[str, dict[str, list[float]]] = {name: {part: [] for part in PARTS} for name in editions}
    with tempfile.TemporaryDirectory() as folder:
        run = asked.run or made_run(Path(folder) / "run", asked.items)
        if asked.run is None:  # sliders are shown once it is known what they do
            subprocess.run([sys.executable, "-m", "macrid", "names", str(run), "--effects"], check=True)
        for _ in range(asked.rounds):  # in turns: a shared machine is not always equally fast
            for name, checkout in editions.items():
                about, times = measured(run, browser, asked.presses, asked.loads, asked.points, checkout)
                for part in PARTS:
                    values[name][part] += times[part]
    spread = {name: {part: _spread(times[part]) for part in PARTS} for name, times in values.items()}
    found = {**circumstances(), **about, **spread.pop("now"), **spread}
    RESULTS.write_text(json.dumps(rounded(found), indent=2) + "\n", encoding="utf-8")
    print(f"{found['items']:,} items, {asked.points:,} points on the map; milliseconds")
    for name in editions:
        told = found if name == "now" else found[name]
        rows = [(part, *(f"{told[part][which]:.0f}" for which in ("median", "p95", "worst"))) for part in PARTS]
        show((name, "median", "p95", "worst"), rows)


PARTS = ("first paint", "page ready", "slider to list", "map frame")


def measured(
    run: Path, browser: str, presses: int, loads: int, points: int, checkout: Path
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """What was measured, and milliseconds of every part, of the page of a checkout."""
    from playwright.sync_api import sync_playwright

    os.environ["PYTHONPATH"] = str(checkout / "src")
    with Running(run, 1) as port, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        paints, readies = [], []
        for _ in range(loads):
            page = opened.new_page(base_url=f"http://127.0.0.1:{port}", viewport={"width": 1280, "height": 800})
            page.add_init_script(WATCH)
            page.goto("/")
            page.wait_for_function("() => watched.painted.length")
            paints.append(page.evaluate(PAINT))
            readies.append(page.evaluate("() => watched.painted[0].at"))
        items = page.evaluate("async () => (await (await fetch('/v1/model')).json()).items")
        taken = answer_times(page, presses)
        frames = frame_times(page, points)
        about = {"browser": f"Chromium {opened.version}", "items": items, "points": points}
        opened.close()
    return about, dict(zip(PARTS, (paints, readies, taken, frames), strict=True))


def answer_times(page: Any, presses: int, pause: float = 120) -> list[float]:
    """From the press of a key on the first slider to its list on the screen, of a page that had `WATCH` before it."""
    page.locator(SLIDER).first.press("Home")
    page.wait_for_timeout(4 * pause)
    page.evaluate("() => { watched.turned = []; }")
    for press in range(presses):
        page.keyboard.press("PageUp" if press // 8 % 2 == 0 else "PageDown")
        page.wait_for_timeout(pause)
    page.wait_for_timeout(4 * pause)
    return [value for value in page.evaluate(ANSWERED) if value is not None]


def frame_times(page: Any, points: int) -> list[float]:
    """To draw the map once, while it is dragged and zoomed."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, points)).round(4).tolist()
    concepts = draw.integers(7, size=points).tolist()
    ids = [str(place) for place in range(points)]
    answer = {"state": "ready", "message": None, "id": ids, "concept": concepts, "x": x, "y": y}
    page.route("**/v1/map", lambda route: route.fulfill(json=answer))
    page.locator("#tab-map").click()
    page.wait_for_selector(".map-stage:not(.is-loading)")
    box = page.locator(".map-points").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.evaluate(TIME_FRAMES)
    page.mouse.move(*middle)
    for _ in range(10):
        page.mouse.wheel(0, -60)
        page.wait_for_timeout(20)
    page.mouse.down()
    page.mouse.move(middle[0] - 200, middle[1] - 100, steps=40)
    page.mouse.up()
    return page.evaluate("() => watched.frames")


def _spread(values: Sequence[float]) -> dict[str, float]:
    spread = {"median": float(np.median(values)), "p95": float(np.quantile(values, 0.95)), "worst": max(values)}
    return {**spread, "count": len(values)}


if __name__ == "__main__":
    main()
