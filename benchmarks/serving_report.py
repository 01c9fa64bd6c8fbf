"""Write what was measured of the service and the studio into docs/serving.md: python -m benchmarks.serving_report"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.events import table as events
from benchmarks.measuring import filled_from
from benchmarks.serving import table as load

FILE = Path(__file__).parents[1] / "docs" / "serving.md"
RESULTS = Path(__file__).parent / "results"


def filled(text: str) -> str:
    """The page with its measured parts made anew."""
    parts = {"load": ("serving.json", load), "events": ("events.json", events), "studio": ("studio.json", studio)}
    return filled_from(text, RESULTS, parts)


def studio(found: dict[str, Any]) -> str:
    """Times of the page."""
    rows = {
        "first paint": "first paint",
        "page ready": "page with its first list",
        "slider to list": "from a slider to the new list",
        "map frame": f"a frame of the map with {found['points']:,} items",
    }
    browser, cores = found["browser"].split(".")[0], found["machine"]["cores"]
    lines = [
        f"The studio in {browser}, headless, {found['items']:,} items, {cores} cores:",
        "",
        "| | median ms | 95 % | worst | measured |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, told in rows.items():
        own = found[name]
        lines.append(
            f"| {told} | {own['median']:,.0f} | {own['p95']:,.0f} | {own['worst']:,.0f} | {own['count']} times |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text(encoding="utf-8")), encoding="utf-8")
