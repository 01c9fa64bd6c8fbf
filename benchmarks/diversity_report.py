"""The tables and the picture of docs/rules.md, from the results of benchmarks/diversity.py and benchmarks/rules.py."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import filled_from
from benchmarks.rules import RESULTS as TIMES
from benchmarks.rules import table as times

RESULTS = Path(__file__).parent / "results" / "diversity.jsonl"
DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "rules.md"
PICTURE = DOCS / "results" / "diversity.png"
COLUMNS = {
    "ndcg@10": "NDCG@10",
    "recall@20": "Recall@20",
    "unlike_by_vectors": "unlike, by vectors",
    "unlike_by_attribute": "unlike, by attribute",
    "coverage": "coverage",
    "kept": "items kept",
}
MARKED = (0.0, 0.3, 0.5, 1.0)  # values of d written beside their points
COLOURS = {"vectors": "#1f5fa8", "attribute": "#c2571a"}


def write() -> None:
    """Put the tables between their marks, and draw."""
    FILE.write_text(filled(FILE.read_text(encoding="utf-8")), encoding="utf-8")
    draw(_rows(), PICTURE)


def filled(text: str) -> str:
    """The page with its parts between `<!-- NAME -->` and `<!-- end -->` rewritten, where there are results."""
    if RESULTS.exists():
        made, marks = curve(_rows()), r"(<!-- diversity -->\n).*?(<!-- end -->)"
        text = re.sub(marks, lambda found: f"{found[1]}{made}\n{found[2]}", text, flags=re.DOTALL)
    return filled_from(text, RESULTS.parent, {"speed": (TIMES.name, times)})


def curve(rows: Sequence[dict[str, Any]]) -> str:
    """Means over seeds, in Markdown."""
    lines = [f"| data | by | d or k | {' | '.join(COLUMNS.values())} |", "| --- " * (3 + len(COLUMNS)) + "|"]
    for (data, by, amount), own in _groups(rows).items():
        cells = [_cell(own, name) for name in COLUMNS]
        lines.append(f"| {data} | {by} | {amount:g} | {' | '.join(cells)} |")
    about, seeds = rows[0]["about"], len({row["seed"] for row in rows})
    users = ", ".join(f"{count:,} of {data}" for data, count in {row["data"]: row["users"] for row in rows}.items())
    error = max(row["ndcg@10 se"] for row in rows)  # over users, who are the same for every seed
    place = about["machine"]["gpu"] or f"{about['machine']['cpu']}, {about['machine']['cores']} cores"
    return (
        "\n".join(lines)
        + f"\n\nMeans over {seeds} seed{'s' * (seeds > 1)} and the test users ({users}); the standard error of NDCG@10"
        f" is at most {error:.3f}. {place}, torch {about['versions']['torch']}, {about['date']}."
    )


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """NDCG@10 against variety and against coverage, one row per data set, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    names = list(dict.fromkeys(row["data"] for row in rows))
    kinds = {
        "unlike_by_vectors": "variety by vectors",
        "unlike_by_attribute": "variety by attribute",
        "coverage": "catalogue covered",
    }
    size = (3.2 * len(kinds), 2.9 * len(names))
    figure, panels = plt.subplots(
        len(names), len(kinds), figsize=size, squeeze=False, sharey="row", layout="constrained"
    )
    for line, data in zip(panels, names, strict=True):
        groups = {key: own for key, own in _groups(rows).items() if key[0] == data}
        for panel, kind in zip(line, kinds, strict=True):
            for kind_of, by in (("vectors", "vectors"), ("attribute", _attribute(rows, data))):
                own = {key[2]: found for key, found in groups.items() if key[1] == by}
                x, y = ([_mean(found, name) for found in own.values()] for name in (kind, "ndcg@10"))
                style = {"color": COLOURS[kind_of], "markersize": 3, "linewidth": 1.4}
                panel.plot(x, y, "o-", label=f"by {by}", **style)
                for amount, *place in zip(own, x, y, strict=True):
                    if amount in MARKED:
                        text = {"fontsize": 7, "xytext": (3, 3), "textcoords": "offset points"}
                        panel.annotate(f"{amount:g}", place, color=COLOURS[kind_of], **text)
            panel.grid(alpha=0.3)
            panel.set_xlabel(kinds[kind])
        line[0].set_ylabel(f"NDCG@10, {data}")
        line[0].legend(fontsize=8, loc="best")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(64).save(file, optimize=True)


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def _attribute(rows: Sequence[dict[str, Any]], data: str) -> str:
    return next(row["attribute"] for row in rows if row["data"] == data)


def _groups(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str, float], list[dict[str, Any]]]:
    """By data, way and amount; all seeds of each."""
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["by"], row["amount"]), []).append(row)
    return groups


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _cell(rows: Sequence[dict[str, Any]], name: str) -> str:
    if any(row[name] is None for row in rows):
        return "–"
    mean = _mean(rows, name)
    return f"{mean:.0%}" if name in ("coverage", "kept") else f"{mean:.3f}".removeprefix("0")
