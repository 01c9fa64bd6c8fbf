"""Write what was measured of the service and the studio into docs/serving.md: python -m benchmarks.serving_report"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measuring import filled_from
from benchmarks.serving import table as load

FILE = Path(__file__).parents[1] / "docs" / "serving.md"
RESULTS = Path(__file__).parent / "results"


def filled(text: str) -> str:
    """The page with its measured parts made anew."""
    return filled_from(text, RESULTS, {"load": ("serving.json", load), "studio": ("studio.json", studio)})


def studio(found: dict[str, Any]) -> str:
    """Times of the page."""
    lines = ["| in a headless Chromium | median | 95 % |", "| --- | ---: | ---: |"]
    lines += [f"| {row['what']} | {row['median']:.0f} ms | {row['p95']:.0f} ms |" for row in found["rows"]]
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text(encoding="utf-8")), encoding="utf-8")
