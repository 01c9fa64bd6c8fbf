"""Write what was measured of the studio into docs/studio.md: python -m benchmarks.studio_report"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measuring import filled_from

FILE = Path(__file__).parents[1] / "docs" / "studio.md"
RESULTS = Path(__file__).parent / "results"
TIMES = {
    "first paint": "first paint",
    "page ready": "page with its first list",
    "slider to list": "from a slider to the new list",
    "map frame": "a frame of the map with {points:,} items",
}


def filled(text: str) -> str:
    """The page with its measured parts made anew."""
    return filled_from(text, RESULTS, {"tasks": ("tasks.json", tasks), "studio": ("studio.json", studio)})


def tasks(found: dict[str, Any]) -> str:
    """Clicks, keys and seconds of each task, before and now."""
    editions = [name for name in ("before", "now") if name in found]
    lines = [
        f"As a person would do them, on {found['run']}. Seconds are those of the keystroke-level model (to think,"
        " point, press and read) plus what the page took to answer.",
        "",
        "| | " + " | ".join(f"clicks {name} | keys | seconds" for name in editions) + " |",
        "| --- |" + " ---: |" * 3 * len(editions),
    ]
    for place, row in enumerate(found["now"]):
        cells = [
            f"{each['clicks']} | {each['keys']} | {each['seconds']:.1f}"
            for each in (found[name][place] for name in editions)
        ]
        lines.append(f"| {row['task']} | " + " | ".join(cells) + " |")
    changes = "; ".join(f"{name}: {_change(found[name][1])}" for name in editions)
    return "\n".join([*lines, "", f"What became older and funnier: {changes}."])


def _change(row: dict[str, Any]) -> str:
    before, after = row["before"], row["after"]
    return f"year {before['year']} → {after['year']}, comedies {before['comedies']} → {after['comedies']} of 24"


def studio(found: dict[str, Any]) -> str:
    """Times of the page, and of an earlier one if it was measured with it."""
    browser, cores = found["browser"].split(".")[0], found["machine"]["cores"]
    earlier = found.get("before")
    lines = [
        f"In {browser}, headless, {found['items']:,} items, {cores} cores, shared with the service; milliseconds"
        f"{', macrid 0.1 measured in turns with it' if earlier else ''}:",
        "",
        "| | median | 95 % | worst | measured |" + (" median of 0.1 | 95 % of 0.1 |" if earlier else ""),
        "| --- | ---: | ---: | ---: | ---: |" + (" ---: | ---: |" if earlier else ""),
    ]
    for name, told in TIMES.items():
        own = found[name]
        cells = [f"{own[part]:,.0f}" for part in ("median", "p95", "worst")] + [f"{own['count']} times"]
        cells += [f"{earlier[name][part]:,.0f}" for part in ("median", "p95")] if earlier else []
        lines.append(f"| {told.format(points=found['points'])} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text(encoding="utf-8")), encoding="utf-8")
