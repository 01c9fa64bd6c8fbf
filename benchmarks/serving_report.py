"""Write what was measured of the service into docs/serving.md: python -m benchmarks.serving_report"""

from __future__ import annotations

from pathlib import Path

from benchmarks.events import table as events
from benchmarks.measuring import filled_from
from benchmarks.serving import table as load

FILE = Path(__file__).parents[1] / "docs" / "serving.md"
RESULTS = Path(__file__).parent / "results"


def filled(text: str) -> str:
    """The page with its measured parts made anew."""
    parts = {"load": ("serving.json", load), "events": ("events.json", events)}
    return filled_from(text, RESULTS, parts)


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text(encoding="utf-8")), encoding="utf-8")
