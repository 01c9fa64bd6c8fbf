"""The tables of docs/retraining.md, from the results of benchmarks/retraining.py."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = {kind: Path(__file__).parent / "results" / f"retraining-{kind}.jsonl" for kind in ("cuda", "cpu")}
FILE = Path(__file__).parents[1] / "docs" / "retraining.md"
HEAD = ("", "", "ARI", "numbers", "names", "named dimensions", "NDCG@100", "epochs", "seconds", "time")


def write(file: Path = FILE) -> None:
    """Put the tables between their marks."""
    file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The text with every part between `<!-- NAME -->` and `<!-- end -->` rewritten, if there are results for it."""
    for kind, file in RESULTS.items():
        if file.exists():
            made = table([json.loads(each) for each in file.read_text(encoding="utf-8").splitlines()])
            pattern = rf"(<!-- {kind} -->\n).*?(<!-- end -->)"
            text = re.sub(pattern, rf"\g<1>{made}\n\g<2>", text, flags=re.DOTALL)
    return text


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A fresh training and a warm start for every data set and change: means over seeds, and sums of what is kept."""
    lines = [_row(*HEAD), _row(*["---", "---", *["---:"] * (len(HEAD) - 2)])]
    for data, change in dict.fromkeys((row["data"], row["change"]) for row in rows):
        own = [row for row in rows if (row["data"], row["change"]) == (data, change)]
        for way in ("fresh", "warm"):
            parts = [row[way] for row in own]
            ndcg = f"{np.mean([part['ndcg'] for part in parts]):.4f}"
            ratio = ""
            if way == "warm":
                ndcg += f" ({_difference(own)})"
                ratio = f"{np.mean([row['time_ratio'] for row in own]):.2f}"
            lines.append(
                _row(
                    f"{data}, {change}" if way == "fresh" else "",
                    way,
                    f"{np.mean([part['ari'] for part in parts]):.3f}",
                    _of(parts, "numbers_kept", "concepts"),
                    _of(parts, "names_kept", "names"),
                    _of(parts, "knobs_kept", "knobs"),
                    ndcg,
                    f"{np.mean([part['epochs'] for part in parts]):.0f}",
                    f"{np.mean([part['seconds'] for part in parts]):.1f}",
                    ratio,
                )
            )
    machine = rows[0].get("machine", {})
    where = machine.get("gpu") or machine.get("cpu")
    counts = {len([row for row in rows if row["data"] == name]) // 2 for name in {row["data"] for row in rows}}
    seeds = " to ".join(map(str, sorted({min(counts), max(counts)})))
    return "\n".join([*lines, "", f"{seeds} {'seed' if seeds == '1' else 'seeds'} each, {where}."])


def line(row: dict[str, Any]) -> str:
    """One measurement."""
    parts = [
        f"{way}: ARI {part['ari']:.3f} ({part['ari_unweighted']:.3f} unweighted), numbers {part['numbers_kept']}/"
        f"{part['concepts']}, names {part['names_kept']}/{part['names']}, knobs {part['knobs_kept']}/{part['knobs']},"
        f" {part['epochs']} epochs, {part['seconds']:.1f} s ({_phases(part)}), NDCG {part['ndcg']:.4f}"
        for way, part in ((way, row[way]) for way in ("fresh", "warm"))
    ]
    gain = f"difference {row['ndcg_difference']:+.4f} ± {row['ndcg_se']:.4f}, time {row['time_ratio']:.2f}"
    return f"{row['data']}, {row['change']}, seed {row['seed']}: " + "; ".join([*parts, gain])


def _phases(part: dict[str, Any]) -> str:
    return ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in part["phases"].items())


def _difference(rows: Sequence[dict[str, Any]]) -> str:
    """Mean over seeds, with the larger of the standard errors over seeds and over users."""
    values = np.array([row["ndcg_difference"] for row in rows])
    over_users = float(np.mean([row["ndcg_se"] for row in rows]))
    over_seeds = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return f"{values.mean():+.4f} ± {max(over_users, over_seeds):.4f}"


def _of(parts: Sequence[dict[str, Any]], kept: str, total: str) -> str:
    return f"{sum(part[kept] for part in parts)} of {sum(part[total] for part in parts)}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
