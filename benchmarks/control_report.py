"""The tables of docs/control.md, from what benchmarks/control.py and benchmarks/labels.py have measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import filled_from

RESULTS = Path(__file__).parent / "results"
FILE = Path(__file__).parents[1] / "docs" / "control.md"
REMOVED = RESULTS / "control-removed.json"
"""What was tried, made things worse and is no longer in the code."""
COLUMNS = {
    "ndcg@100": "NDCG@100",
    "factor_mean": "factor, mean",
    "factor_least": "least",
    "dci": "DCI",
    "monotonicity": "monotonicity",
    "leakage": "leakage",
    "drift": "drift",
    "retention": "NDCG kept",
    "overlap": "overlap",
    "random": "random directions",
}


def write(file: Path = FILE) -> None:
    """Put the tables where the marks are."""
    file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The text with every part between `<!-- NAME -->` and `<!-- end -->` made anew, where it was measured."""
    parts: dict[str, tuple[str, Callable[[Any], str]]] = {
        "shop": ("control-shop.json", shop),
        "every seed": ("control-shop.json", every_seed),
        "axes of movies": ("control-movies.json", axes_of_movies),
        "knobs of movies": ("control-movies.json", knobs_of_movies),
        "year": ("control-movies.json", year),
        "labels": ("labels.json", labels),
        "speed": ("control-speed.json", speed),
    }
    return filled_from(text, RESULTS, parts)


def shop(found: dict[str, Any]) -> str:
    """Means over seeds; the MultVAE below."""
    rows, removed = found["rows"], _removed()
    seeds = sorted({row["seed"] for row in rows})
    lines = _head("", *COLUMNS.values())
    for way in dict.fromkeys(row["way"] for row in (*rows, *removed["rows"])):
        own = [row for row in (*rows, *removed["rows"]) if row["way"] == way]
        lines.append(_row(way, *(_mean(own, key) for key in COLUMNS)))
    beside = [row["beside"] for row in rows if "beside" in row]
    cells = [_mean(beside, key) if key in beside[0] else "" for key in COLUMNS]
    lines.append(_row("MultVAE, concept activation vectors", *cells))
    means = f"Means over {len(seeds)} seeds, the least factor over all of them. {_where(found)}"
    return "\n".join(lines) + f"\n\n{means} What was removed: {_where(removed)}"


def every_seed(found: dict[str, Any]) -> str:
    chosen = ("ndcg@100", "factor_mean", "factor_least", "dci", "monotonicity", "leakage", "random")
    lines = _head("", "seed", *(COLUMNS[key] for key in chosen))
    rows = [*found["rows"], *_removed()["rows"]]
    for way in dict.fromkeys(row["way"] for row in rows):
        for row in (row for row in rows if row["way"] == way):
            lines.append(_row(way, str(row["seed"]), *(_number(row[key], _digits(key)) for key in chosen)))
    return "\n".join(lines)


def _removed() -> dict[str, Any]:
    removed = json.loads(REMOVED.read_text(encoding="utf-8"))
    return {**removed, "rows": [{**row, "way": f"{row['way']} (tried, removed)"} for row in removed["rows"]]}


def axes_of_movies(found: dict[str, Any]) -> str:
    """The strongest axis of each attribute, and in how many concepts it has one."""
    names = ("attribute", "best raw dimension", "best axis, cross-validated", "median over concepts", "with an axis")
    lines = _head(*names, "p at most")
    fits: dict[str, list[dict[str, Any]]] = {}
    for fit in found["fits"]:
        fits.setdefault(fit["attribute"], []).append(fit)
    for name, own in sorted(fits.items(), key=lambda entry: -max(fit["strength"] for fit in entry[1])):
        best = max(fit["strength"] for fit in own)
        worst = max(fit["p"] for fit in own)
        middle = float(np.median([fit["strength"] for fit in own]))
        strengths = _number(found["original"][name]), _number(best), _number(middle)
        lines.append(_row(name, *strengths, f"{len(own)} of 7", f"{worst:.3f}"))
    scores = f"Test NDCG@100 {found['ndcg@100']:.4f}, before and after: turning changes no weight"
    change = f"worked out along the turned axes, no score differs by more than {found['largest_change_of_a_score']:.0e}"
    return "\n".join(lines) + f"\n\n{scores}; {change}. {_where(found)}"


def knobs_of_movies(found: dict[str, Any]) -> str:
    """Of several concepts at once, beside the same in a MultVAE."""
    keys = ("monotonicity", "leakage", "drift", "moves", "retention", "overlap", "smoothness")
    beside = {knob["name"]: knob for knob in found["control"]["beside"] if knob["concept"] is None}
    joint = [knob for knob in found["control"]["knobs"] if knob["concept"] is None]
    lines = _head("knob, all concepts", *keys, "MultVAE: monotonicity", "leakage")
    for knob in sorted(joint, key=lambda knob: -knob["monotonicity"]):
        other = beside.get(knob["name"])
        theirs = ("", "") if other is None else (_number(other[key]) for key in ("monotonicity", "leakage"))
        lines.append(_row(knob["name"], *(_number(knob[key]) for key in keys), *theirs))
    single = [knob["monotonicity"] for knob in found["control"]["knobs"] if knob["concept"] is not None]
    told = f"{len(single)} knobs of a single concept have a mean monotonicity of {np.mean(single):.2f}"
    return "\n".join(lines) + f"\n\n{told}; random directions {found['control']['random']:.2f}. {_where(found)}"


def year(found: dict[str, Any]) -> str:
    own = found["year"]
    sides = [
        f"to the {side} end by that much for {own[side]['share']:.0%}, by {own[side]['median']:.0f} for half of them"
        for side in ("older", "newer")
    ]
    return (
        f'From one end of the knob "year" to the other, the median year of the ten best goes up by at least'
        f" {own['years']} years for {own['share']:.0%} of the {own['users']} (of {own['of']}) test users who have"
        f" movies on both sides of the middle, by {own['median']:.0f} years for half of them. From the list without a"
        f" move, {sides[0]}; {sides[1]}: most lists are of the nineties already, and the catalogue ends in 2000."
    )


def labels(found: dict[str, Any]) -> str:
    """Without labels and with: every seed's range."""
    lines = _head("labelled items", "seeds", "NMI of the others, mean (range)", "validation NDCG@100", "test NDCG@100")
    for share in sorted({row["share"] for row in found["rows"]}):
        own = [row for row in found["rows"] if row["share"] == share]
        nmi = [row["nmi"] for row in own]
        spread = f"{_number(float(np.mean(nmi)), 3)} ({_number(min(nmi), 3)}–{_number(max(nmi), 3)})"
        scores = [_number(float(np.mean([row[key] for row in own])), 4) for key in ("validation", "test")]
        lines.append(_row(f"{100 * share:g} %", str(len(own)), spread, *scores))
    limit = f"Knowing the categories of nearly all other items gives {_number(found['limit'], 3)}"
    told = f"{found['data']}, K = 7, default settings; labels of items drawn at random, another seed for each training"
    return "\n".join(lines) + f"\n\n{told}. {limit}: many items have a click or two. {_where(found)}"


def speed(found: dict[str, Any]) -> str:
    lines = _head("", "median of 100")
    names = {
        "traverse_ms": "traverse, 8 steps",
        "steer_ms": "steer and recommend",
        "recommend_ms": "recommend alone",
        "first_frame_ms": "one concept's list after a move and before it",
        "frame_ms": "the same, the list before being known",
        "every_concept_ms": "the lists of every concept after a move",
    }
    lines += [_row(name, f"{found[key]:.1f} ms") for key, name in names.items() if key in found]
    return "\n".join(lines) + f"\n\n{found['items']:,} items. {_where(found)}"


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _mean(rows: Sequence[dict[str, Any]], key: str) -> str:
    """Over rows; of the least factor the least."""
    known = [row[key] for row in rows if row.get(key) is not None]
    how = np.min if key == "factor_least" else np.mean
    return _number(float(how(known)), _digits(key)) if known else "–"


def _digits(key: str) -> int:
    return 3 if key == "ndcg@100" else 2


def _number(value: float | None, digits: int = 2) -> str:
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _where(found: dict[str, Any]) -> str:
    machine, versions = found["about"]["machine"], found["about"]["versions"]
    place = machine["gpu"] or f"{machine['cpu']}, {machine['cores']} cores"
    return f"{place}, torch {versions['torch']}, {found['about']['date']}."
