"""What each slider for more or less of something does to held-out users, from one end to the other.

    python -m benchmarks.global_sliders --run RUN --users 100

Every attribute is moved in all concepts together, as the studio's first panel does: all the way (2, which leads to the
end of the range of real users from anywhere) and moderately (0.5, a quarter of the range). Lists have ten items.
Results go to benchmarks/results/global-sliders.json; `python -m benchmarks.control_report` writes the table of
docs/control.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.measuring import circumstances, rounded, show

from macrid.concepts.effects import KnobEffect, span
from macrid.concepts.space import draw
from macrid.control.cohort import Cohort
from macrid.control.moves import Move
from macrid.control.trial import ACCURACY, AttributeMove, Trial, compare
from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.report.controllability import LIST, measure
from macrid.report.knobs import knobs_of
from macrid.runs import load, read_heldout

RESULTS = Path(__file__).parent / "results" / "global-sliders.json"
FULL, MODERATE = 2.0, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="a run with concepts, attributes and held-out users")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    found = measured(asked.run, asked.users)
    asked.out.write_text(json.dumps(rounded(found), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    show(HEADER, [row(slider) for slider in found["sliders"]])


def measured(run: Path, users: int, seed: int = 0) -> dict[str, Any]:
    """Every slider that does something, strongest first."""
    model, heldout = load(run, "cpu"), read_heldout(run, "test")
    has_target = np.flatnonzero(np.diff(heldout.target.indptr) > 0)
    chosen = draw(has_target, users, np.random.default_rng(seed))
    heldout = HeldOut(heldout.history[chosen], heldout.target[chosen], Ids.range(len(chosen)), heldout.protocol)
    knobs = [knob for knob in knobs_of(model) if knob.concept is None]
    effects = [each for each in measure(model, heldout, knobs, most_users=users, chance=False).knobs if each.is_clear]
    cohort = Cohort(model, heldout.history, targets=heldout.target)
    sliders = [_slider(cohort, effect) for effect in sorted(effects, key=lambda effect: -effect.strength)]
    return {
        "run": run.name, "items": len(model.items), "users": len(cohort), "left_out": len(knobs) - len(effects),
        "sliders": sliders, "about": circumstances(),
    }  # fmt: skip


def _slider(cohort: Cohort, effect: KnobEffect) -> dict[str, Any]:
    before = cohort.lists(LIST)
    lists = {amount: cohort.lists(LIST, [Move(towards=effect.name, amount=amount)])
             for amount in (-FULL, -MODERATE, MODERATE, FULL)}  # fmt: skip
    trials = {amount: compare(cohort, before, each) for amount, each in lists.items()}
    ends = compare(cohort, lists[-FULL], lists[FULL])
    less, more = (_own(trials[amount], effect.name) for amount in (-FULL, FULL))
    others = [each for each in ends.attributes if each.name != effect.name]
    return {
        "name": effect.name,
        "is_share": effect.is_share,
        "less": less.after,
        "today": less.before,
        "more": more.after,
        "monotonicity": effect.monotonicity,
        "moves": effect.moves,
        "others": [_other(each) for each in others[:2]],
        "kept": {name: float(np.mean([trials[sign * far].kept for sign in (-1, 1)])) for name, far in FAR.items()},
        "left": {name: _left([trials[sign * far] for sign in (-1, 1)]) for name, far in FAR.items()},
    }


FAR = {"moderate": MODERATE, "full": FULL}


def _own(trial: Trial, name: str) -> AttributeMove:
    return next(each for each in trial.attributes if each.name == name)


def _other(each: AttributeMove) -> dict[str, Any]:
    return {"name": each.name, "moves": each.moves, "span": span(each.before, each.after, each.is_share)}


def _left(trials: list[Trial]) -> dict[str, float]:
    """The share of NDCG@100 that is left, averaged over less and more, and its standard error (paired, the NDCG before
    taken as given)."""
    scores = [trial.accuracy.metrics[ACCURACY] for trial in trials if trial.accuracy is not None]
    before = scores[0].before.mean
    share = float(np.mean([score.after.mean for score in scores])) / before
    return {"share": share, "se": float(np.mean([score.difference.se for score in scores])) / before}


HEADER = (
    "slider", "all the way less", "today", "all the way more", "steadiness", "what else moves most, end to end",
    "list kept, moderate", "accuracy left, moderate", "accuracy left, all the way",
)  # fmt: skip


def row(slider: dict[str, Any]) -> list[str]:
    ends = [_shown(slider[key], slider["is_share"]) for key in ("less", "today", "more")]
    others = ", ".join(f"{each['name'].rpartition(': ')[2]} {each['span']}" for each in slider["others"])
    left = [f"{100 * slider['left'][far]['share']:.0f} ± {100 * slider['left'][far]['se']:.0f} %" for far in FAR]
    steady, kept = f"{slider['monotonicity']:.2f}", f"{100 * slider['kept']['moderate']:.0f} %"
    return [slider["name"].rpartition(": ")[2], *ends, steady, others, kept, *left]


def _shown(value: float, is_share: bool) -> str:
    return f"{100 * value:.0f} %" if is_share else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(found: dict[str, Any]) -> str:
    """In Markdown."""
    lines = [f"| {' | '.join(HEADER)} |", "| --- " * len(HEADER) + "|"]
    lines += [f"| {' | '.join(row(slider))} |" for slider in found["sliders"]]
    machine, versions = found["about"]["machine"], found["about"]["versions"]
    about = f"{found['run']}, {found['items']:,} items, {found['users']} test users, lists of {LIST}"
    left_out = f"{found['left_out']} attributes that move less than a random direction might are left out"
    place = f"{machine['cpu']}, torch {versions['torch']}, {found['about']['date']}"
    return "\n".join(lines) + f"\n\n{about}; {left_out}. {place}."


if __name__ == "__main__":
    main()
