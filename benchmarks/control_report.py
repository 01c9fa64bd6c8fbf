"""The tables of docs/control.md, from the results of benchmarks/control.py, labels.py, global_sliders.py, cohort.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import global_sliders
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
    """Put the tables between their marks."""
    file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The text with every part between `<!-- NAME -->` and `<!-- end -->` rewritten, if there are results for it."""
    parts: dict[str, tuple[str, Callable[[Any], str]]] = {
        "shop": ("control-shop.json", shop),
        "every seed": ("control-shop.json", every_seed),
        "axes of movies": ("control-movies.json", axes_of_movies),
        "knobs of movies": ("control-movies.json", knobs_of_movies),
        "year": ("control-movies.json", year),
        "labels": ("labels.json", labels),
        "speed": ("control-speed.json", speed),
        "walks": ("walks.json", walks),
        "global sliders": ("global-sliders.json", global_sliders.table),
        "cohort": ("cohort.json", cohort),
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


def axes_of_movies(results: dict[str, Any]) -> str:
    """The strongest axis of each attribute, and in how many concepts it has one."""
    names = ("attribute", "best raw dimension", "best axis, cross-validated", "median over concepts", "with an axis")
    lines = _head(*names, "p at most")
    fits: dict[str, list[dict[str, Any]]] = {}
    for fit in results["fits"]:
        fits.setdefault(fit["attribute"], []).append(fit)
    for name, fitted in sorted(fits.items(), key=lambda entry: -max(fit["strength"] for fit in entry[1])):
        strengths = [fit["strength"] for fit in fitted]
        numbers = (results["original"][name], max(strengths), float(np.median(strengths)))
        p = max(fit["p"] for fit in fitted)
        lines.append(_row(name, *map(_number, numbers), f"{len(fitted)} of 7", f"{p:.3f}"))
    scores = f"Test NDCG@100 {results['ndcg@100']:.4f} before and after: turning changes no weight"
    change = f"computed along the turned axes, no score differs by more than {results['largest_change_of_a_score']:.0e}"
    return "\n".join(lines) + f"\n\n{scores}; {change}. {_where(results)}"


def knobs_of_movies(results: dict[str, Any]) -> str:
    """Knobs for several concepts at once, next to the same in a MultVAE."""
    keys = ("monotonicity", "leakage", "drift", "moves", "retention", "overlap", "smoothness")
    beside = {knob["name"]: knob for knob in results["control"]["beside"] if knob["concept"] is None}
    joint = [knob for knob in results["control"]["knobs"] if knob["concept"] is None]
    lines = _head("knob, all concepts", *keys, "MultVAE: monotonicity", "leakage")
    for knob in sorted(joint, key=lambda knob: -knob["monotonicity"]):
        other = beside.get(knob["name"])
        theirs = ("", "") if other is None else (_number(other[key]) for key in ("monotonicity", "leakage"))
        lines.append(_row(knob["name"], *(_number(knob[key]) for key in keys), *theirs))
    single = [knob["monotonicity"] for knob in results["control"]["knobs"] if knob["concept"] is not None]
    summary = f"{len(single)} knobs for a single concept have a mean monotonicity of {np.mean(single):.2f}"
    return "\n".join(lines) + f"\n\n{summary}; random directions {results['control']['random']:.2f}. {_where(results)}"


def year(results: dict[str, Any]) -> str:
    knob = results["year"]
    older, newer = (
        f"the {side} end it shifts by at least {knob['years']} years for {knob[side]['share']:.0%}, and by"
        f" {knob[side]['median']:.0f} for half of them"
        for side in ("older", "newer")
    )
    return (
        f'From one end of the knob "year" to the other, the median year of the ten best rises by at least'
        f" {knob['years']} years for {knob['share']:.0%} of the {knob['users']} (of {knob['of']}) test users who have"
        f" movies on both sides of the middle, and by {knob['median']:.0f} years for half of them. From the unmoved"
        f" list to {older}; to {newer}: most lists are already from the nineties, and the catalogue ends in 2000."
    )


def labels(results: dict[str, Any]) -> str:
    """By the share of labelled items, with the range over seeds."""
    lines = _head("labelled items", "seeds", "NMI of the others, mean (range)", "validation NDCG@100", "test NDCG@100")
    for share in sorted({row["share"] for row in results["rows"]}):
        rows = [row for row in results["rows"] if row["share"] == share]
        nmi = [row["nmi"] for row in rows]
        spread = f"{_number(float(np.mean(nmi)), 3)} ({_number(min(nmi), 3)}–{_number(max(nmi), 3)})"
        scores = [_number(float(np.mean([row[key] for row in rows])), 4) for key in ("validation", "test")]
        lines.append(_row(f"{100 * share:g} %", str(len(rows)), spread, *scores))
    limit = f"Knowing the categories of nearly all other items gives {_number(results['limit'], 3)}"
    setting = f"{results['data']}, K = 7, default settings; labels for random items, a different seed for each training"
    return "\n".join(lines) + f"\n\n{setting}. {limit}: many items have only a click or two. {_where(results)}"


def speed(results: dict[str, Any]) -> str:
    lines = _head("", "median of 100")
    names = {
        "traverse_ms": "traverse, 8 steps, holding nothing",
        "hold_ms": "the same, holding attributes",
        "steer_ms": "steer and recommend",
        "recommend_ms": "recommend alone",
        "first_frame_ms": "one concept's list after a move and before it",
        "frame_ms": "the same, the list before being known",
        "every_concept_ms": "the lists of every concept after a move",
    }
    lines += [_row(name, f"{results[key]:.1f} ms") for key, name in names.items() if key in results]
    return "\n".join(lines) + f"\n\n{results['items']:,} items. {_where(results)}"


def walks(results: dict[str, Any]) -> str:
    """Both ways on every data set, and how long a walk takes in a large catalogue."""
    columns = {
        "kept": "other attributes kept",
        "kept_all": "stops that keep all",
        "moves": "its attribute, end to end",
        "follows": "rank correlation",
        "cosine": "cosine to the start",
        "ms": "CPU time",
    }
    lines = _head("data", "", *columns.values())
    for data, found in results["data"].items():
        for way, values in found["ways"].items():
            shares = [f"{100 * values[key]:.0f} %" for key in ("kept", "kept_all")]
            numbers = [_number(values[key]) for key in ("moves", "follows", "cosine")]
            lines.append(_row(data, way, *shares, *numbers, f"{values['ms']:.1f} ms"))
    counts = ", ".join(f"{found['walks']:,} on {data}" for data, found in results["data"].items())
    most = " and ".join(f"{100 * found['most_kept']:.0f} % on {data}" for data, found in results["data"].items())
    error = max(values["kept_se"] for found in results["data"].values() for values in found["ways"].values())
    speed = results["speed"]
    times = f"{speed['holding']:.1f} ms instead of {speed['the walk of the paper']:.1f}"
    starts = next(iter(results["data"].values()))["starts"]
    return (
        "\n".join(lines)
        + f"\n\nWalks of {results['steps']} steps from {starts} random items along every dimension named after an"
        f" attribute other than popularity ({counts}); the standard error of the share kept is at most"
        f" {100 * error:.1f} points. Without regard to vectors and order, walks could keep {most}. In a catalogue of"
        f" {speed['items']:,} items a walk takes {times} of CPU time. {_where(results)}"
    )


def cohort(results: dict[str, Any]) -> str:
    """What a slider or a rule tried on many users takes."""
    lines = _head("tried", "all at once, summary included", "one by one, lists only", "ratio")
    for way, found in results["ways"].items():
        together, apart = (f"{1000 * found[part]:.0f} ms" for part in ("together", "apart"))
        lines.append(_row(way, together, apart, f"{found['apart'] / found['together']:.1f}"))
    request, page = (results[part] for part in ("request to result", "slider to numbers"))
    served = (
        f"Over HTTP a slider takes {request['median']:.0f} ms (95 %: {request['p95']:.0f}); from letting go to the"
        f" numbers on the page, it takes {page['median']:.0f} ms (95 %: {page['p95']:.0f})"
    )
    busy = f", load {results['load']:.1f}" if results.get("load", 0) > 1.5 else ""
    where = f"{results['machine']['cpu']}, {results['machine']['cores']} cores{busy}, {results['date']}"
    what = f"{results['items']:,} items, {results['users']:,} users; CPU time of one thread"
    return "\n".join(lines) + f"\n\n{what}. {served}. {where}."


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _mean(rows: Sequence[dict[str, Any]], key: str) -> str:
    """Over rows; for the least factor, the least."""
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


def _where(results: dict[str, Any]) -> str:
    machine, versions = results["about"]["machine"], results["about"]["versions"]
    place = machine["gpu"] or f"{machine['cpu']}, {machine['cores']} cores"
    return f"{place}, torch {versions['torch']}, {results['about']['date']}."


if __name__ == "__main__":
    write()
