"""The tables of docs/new-items.md, from the results of benchmarks/cold.py."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "cold.jsonl"
FILE = Path(__file__).parents[1] / "docs" / "new-items.md"
COLUMNS = {
    "recall@20": "Recall@20 among new items",
    "whole": "Recall@20 in the whole catalogue",
    "share": "share of lists",
}


def write(file: Path = FILE) -> None:
    """Put the tables between their marks."""
    file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The text with the part between `<!-- cold -->` and `<!-- end -->` rewritten."""
    lines = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    return re.sub(
        r"(<!-- cold -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{table(lines)}\n{match[2]}",
        text,
        flags=re.DOTALL,
    )


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Means over seeds, a table per data set."""
    parts = []
    for name in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == name]
        rows = [f"| {name} | {' | '.join(COLUMNS.values())} |", "| --- |" + " --- |" * len(COLUMNS)]
        for way in own[0]["ways"]:
            cells = [_mean([line["ways"][way].get(key) for line in own]) for key in COLUMNS]
            rows.append(f"| {way} | {' | '.join(cells)} |")
        parts += ["\n".join(rows), _about(own)]
    return "\n\n".join(parts)


def _about(lines: Sequence[dict[str, Any]]) -> str:
    first, strengths = lines[0], [line["strength"] for line in lines]
    figures = {
        key: float(np.mean([entry[key] or np.nan for entry in strengths]))
        for key in ("strength", "concepts", "largest")
    }
    found = [
        np.mean([entry[key] for entry in strengths if entry[key] is not None]) for key in ("found", "found_trained")
    ]
    gpu = first["machine"]["gpu"] or first["machine"]["cpu"]
    return (
        f"{first['held_out']:,} of {first['items']:,} items held out, {first['users']:,} users, means of {len(lines)}"
        f" seed{'s' * (len(lines) > 1)}. What the map says of itself: strength {figures['strength']:.2f}; concept right"
        f" {figures['concepts']:.0%} (largest concept {figures['largest']:.0%}); preferred {found[0]:.2f}, with trained"
        f" vectors {found[1]:.2f}. macrid {first['versions']['macrid']}, {gpu}, {first['date']}."
    )


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    error = f" ± {np.std(known, ddof=1) / np.sqrt(len(known)):.3f}" if len(known) > 1 else ""
    return f"{np.mean(known):.3f}{error}"
