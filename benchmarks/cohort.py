"""How long a slider or a rule tried on many users takes: computed at once against one by one, over HTTP, on the page.

    python -m benchmarks.cohort --run RUN --users 500

Without --run it is a run of 3,500 items, made for the occasion. Computed at once, lists and everything said about them
are included; one by one, the engine answers the same questions, and nothing is said: CPU time of one thread, the ways
taking turns. On the page, a slider is turned by keys: from letting go to the numbers on the screen of a headless
Chromium, service and browser sharing the cores.
Results go to benchmarks/results/cohort.json; `python -m benchmarks.control_report` writes the table of docs/control.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measuring import circumstances, rounded, show
from benchmarks.serving import Running, made_run

from macrid.concepts.meaning import meaning_of
from macrid.concepts.space import space_of
from macrid.control.cohort import Cohort
from macrid.control.engine import Engine, Question
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.control.trial import attributes_of, try_on
from macrid.models.base import Recommender
from macrid.runs import load, read_heldout

RESULTS = Path(__file__).parent / "results" / "cohort.json"
N = 10
SLIDER = ".trial-sliders .slider"
WATCH = """
try { localStorage.setItem("macrid-toured", "true"); } catch { /* a blank page has no storage */ }
globalThis.watched = { released: [], painted: [] };
let amount = null; // of the newest result
const ask = fetch;
globalThis.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (url.endsWith("/cohort")) amount = JSON.parse(options.body).moves?.at(-1)?.amount ?? 0;
  return answer;
};
addEventListener("change", ({ target, timeStamp: at }) => {
  watched.released.push({ at, amount: Number(Number(target.value).toFixed(5)) });
}, true);
new MutationObserver((changes) => {
  const drawn = amount;
  if (!changes.some(({ target }) => target.matches?.(".trial-result"))) return;
  requestAnimationFrame(() => setTimeout(() => watched.painted.push({ at: performance.now(), amount: drawn })));
}).observe(document, { subtree: true, childList: true });
"""
DRAWN = """() => watched.released.map(({ at, amount }) => {
  const answer = watched.painted.find((result) => result.at > at && result.amount === amount);
  return answer ? answer.at - at : null;
})"""


ALL_DRAWN = f"() => watched.released.length > 0 && !({DRAWN})().includes(null)"
PAUSE = 300  # ms between presses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run with concepts and held-out users; made if not given")
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--presses", type=int, default=24)
    asked = parser.parse_args()
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if browser is None:
        sys.exit("there is no browser; install one (Debian: apt-get install chromium) or set CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        run = asked.run or made_run(Path(folder) / "run", 3_500)
        found = measured(run, asked.users, asked.rounds)
        found |= served(run, asked.users, asked.presses, browser)
    RESULTS.write_text(json.dumps(rounded(found), indent=2) + "\n", encoding="utf-8")
    rows = [
        (way, *(f"{1000 * each[part]:.0f}" for part in ("together", "apart"))) for way, each in found["ways"].items()
    ]
    print(f"{found['items']:,} items, {found['users']:,} users, lists of {N}; milliseconds of CPU time, medians")
    show(("", "at once", "one by one"), rows)
    spreads = [(name, *(f"{found[name][part]:.0f}" for part in ("median", "p95", "worst"))) for name in SERVED]
    print(f"on the clock, at a load of {found.get('load', 0):.1f}")
    show(("", "median", "p95", "worst"), spreads)


PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
SERVED = ("request to result", "slider to numbers")


def ways_of(model: Recommender) -> dict[str, dict[str, Any]]:
    """Moves and rules to try, by what the items of a run have."""
    columns = [each.column for each in attributes_of(model)]
    towards = strongest(model)
    several = next((column.attribute for column in columns if column.value is not None), "concept")
    number = next((column for column in columns if column.kind == "number"), columns[0])
    middle = float(np.nanmedian(number.values))
    return {
        "one slider": {"moves": (Move(towards=towards, amount=-1.0),)},
        "a share": {"moves": (Move(concept=0, share=0.5),)},
        "a filter": {"rules": (Rules(where=f"`{number.attribute}` < {middle:g}"),)},
        "a boost": {"rules": (Rules(boosts=({"where": f"`{number.attribute}` < {middle:g}", "amount": 0.7},)),)},  # type: ignore[arg-type]
        "diversity": {"rules": (Rules(diversity=0.3),)},
        "at most 2 per value": {"rules": (Rules(at_most={several: 2}),)},
        "slider, filter and diversity": {
            "moves": (Move(towards=towards, amount=-1.0),),
            "rules": (Rules(where=f"`{number.attribute}` < {middle:g}", diversity=0.3),),
        },
    }


def strongest(model: Recommender) -> str:
    """The attribute of the first slider."""
    effects = [effect.name for effect in meaning_of(model).effects if effect.concept is None and effect.is_clear]
    return effects[0] if effects else space_of(model).columns[0].name


def measured(run: Path, users: int, rounds: int) -> dict[str, Any]:
    """Seconds of every way, together and apart."""
    torch.set_num_threads(1)
    model, heldout = load(run, "cpu"), read_heldout(run, "test")
    histories, targets = heldout.history[:users], heldout.target[:users]
    cohort, engine = Cohort(model, histories, targets=targets), Engine(model)
    rows = [histories[[user]].indices.astype(np.int64) for user in range(histories.shape[0])]
    found = {}
    for way, options in ways_of(model).items():
        questions = [Question(row, N, row, **options) for row in rows]
        works = {
            "together": lambda options=options: _afresh(cohort, options),
            "apart": lambda questions=questions: engine.answer(questions),
        }
        found[way] = {name: float(np.median(values)) for name, values in _turns(works, rounds).items()}
    busy = {"load": os.getloadavg()[0]} if hasattr(os, "getloadavg") else {}  # what else the machine was doing
    return {**circumstances(), **busy, "items": len(model.items), "users": len(cohort), "ways": found}


def _turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of CPU time, A B, A B, …; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            begin = time.process_time()
            work()
            if number:
                taken[name].append(time.process_time() - begin)
    return taken


def _afresh(cohort: Cohort, options: dict[str, Any]) -> None:
    """As after a slider was moved: encodings and the lists before are known, the lists after are not."""
    for key in list(cohort._kept)[1:]:  # rules without moves would be, too
        del cohort._kept[key]
    try_on(cohort, N, **options)


def served(run: Path, users: int, presses: int, browser: str) -> dict[str, Any]:
    """Milliseconds over HTTP and on the page."""
    from playwright.sync_api import sync_playwright

    with Running(run, 1) as port, sync_playwright() as playwright:
        address = f"http://127.0.0.1:{port}"
        card = json.load(urllib.request.urlopen(f"{address}/v1/model"))
        towards = card["towards"][0]
        requests = [_request(address, towards, users, at / presses) for at in range(presses + 3)][3:]
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(base_url=address, viewport={"width": 1280, "height": 800})
        page.add_init_script(WATCH)
        page.goto("/?view=customers&user=test-0")
        page.wait_for_selector(".trial-result:not([aria-busy]) .trial-headline")
        drawn = drawn_times(page, presses)
        version = opened.version
        opened.close()
    parts = dict(zip(SERVED, (requests, drawn), strict=True))
    spread = {
        name: {"median": float(np.median(values)), "p95": float(np.quantile(values, 0.95)), "worst": max(values)}
        for name, values in parts.items()
    }
    return {"browser": f"Chromium {version}", "known": card["users"], **spread}


def _request(address: str, towards: str, users: int, amount: float) -> float:
    body = json.dumps({"moves": [{"towards": towards, "amount": 2 * amount - 1}], "most": users}).encode()
    request = urllib.request.Request(f"{address}/v1/cohort", body, {"content-type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        answer.read()
    return 1000 * (time.perf_counter() - begin)


def drawn_times(page: Any, presses: int) -> list[float]:
    """From letting go of a key on the first slider to its numbers on the screen, of a page that had `WATCH` before."""
    page.locator(SLIDER).first.press("Home")
    page.wait_for_function(ALL_DRAWN)
    page.evaluate("() => { watched.released = []; }")
    for press in range(presses):
        page.keyboard.press("PageUp" if press // 8 % 2 == 0 else "PageDown")
        page.wait_for_function(ALL_DRAWN)
        page.wait_for_timeout(PAUSE)
    return list(page.evaluate(DRAWN))


if __name__ == "__main__":
    main()
