"""Two plots of a study: how the search went, and which settings mattered."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from macrid.errors import MacridError
from macrid.pictures.drawing import INK, dress, heading, literal, new_figure
from macrid.recipe import Recipe
from macrid.tuning.study import finished, optuna_or_explain

if TYPE_CHECKING:
    import optuna
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colour-blind safe palette; shapes differ too
COMPLETE, PRUNED, FAILED, CHOSEN = "#0072B2", "#9A9A9A", "#D55E00", "#E69F00"
FEWEST_TRIALS = 20
"""Complete trials needed to tell the importance of settings from chance."""
SPREAD = 4.0  # height of the scale, in distances from the best to the median


def history(study: optuna.Study, chosen: Recipe | None = None) -> Figure:
    """The score of each trial, the best so far, and the chosen one."""
    trials = finished(study)
    groups = {state: [trial for trial in trials if trial.state.name == state] for state in ("COMPLETE", "PRUNED")}
    complete, pruned = (_points(group) for group in groups.values())
    failed = [trial.number for trial in trials if trial.state.name == "FAIL"]
    if not len(complete):
        raise MacridError("no complete trial, so there is nothing to draw")
    low, high = sensible_range(complete[:, 1], pruned[:, 1])
    figure = new_figure(8.0, 4.8, "constrained")
    panel = figure.subplots()
    counts = {"complete": len(complete), "pruned": len(groups["PRUNED"]), "failed": len(failed)}
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    heading(panel, literal(study.study_name), f"{len(trials)} trials: {summary}")
    dress(panel)
    _dots(panel, complete, low, "complete", "o", COMPLETE)
    _dots(panel, pruned, low, "pruned", "v", PRUNED)
    if failed:
        style: dict[str, Any] = {"color": FAILED, "markersize": 7, "markeredgewidth": 2, "clip_on": False}
        panel.plot(failed, [low] * len(failed), "x", label="failed", zorder=5, **style)
    rising = np.maximum.accumulate(complete[:, 1])
    last = max([*complete[:, 0], *pruned[:, 0], *failed])
    steps = np.append(complete[:, 0], last), np.append(rising, rising[-1])
    panel.plot(*steps, color=INK, linewidth=1.6, drawstyle="steps-post", label="best so far", zorder=4)
    if min(*complete[:, 1], *pruned[:, 1], low) < low:
        panel.plot([], [], "o", color=PRUNED, alpha=0.3, markersize=5, label="faint: below the scale")
    if chosen is not None:
        _name_chosen(panel, chosen)
    panel.set_xlim(-0.02 * max(last, 5), 1.02 * max(last, 5))
    panel.set_ylim(low, high)
    panel.xaxis.set_major_locator(import_module("matplotlib.ticker").MaxNLocator(integer=True))
    panel.set_xlabel("trial", fontsize=11, color=INK)
    panel.set_ylabel("validation NDCG@100", fontsize=11, color=INK)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=5, frameon=False, fontsize=10, labelcolor=INK,
                 handletextpad=0.3, columnspacing=1.4)  # fmt: skip
    return figure


def importance(study: optuna.Study) -> Figure:
    """How much each setting contributed to reaching the best tenth (PED-ANOVA)."""
    shares = importances(study)
    figure = new_figure(8.0, 1.7 + 0.42 * len(shares), "constrained")
    panel = figure.subplots()
    complete = sum(trial.state.name == "COMPLETE" for trial in study.get_trials(deepcopy=False))
    heading(panel, literal(study.study_name), f"share of each setting in reaching the best tenth of {complete} trials")
    dress(panel)
    names, values = list(shares)[::-1], list(shares.values())[::-1]
    bars = panel.barh(names, values, color=COMPLETE, height=0.66)
    panel.bar_label(bars, [_percent(value) for value in values], padding=5, fontsize=11, color=INK)
    panel.set_xlim(0, 1.12 * max(values))
    panel.grid(visible=False)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(axis="y", labelsize=11, labelcolor=INK)
    return figure


def importances(study: optuna.Study) -> dict[str, float]:
    """Shares that sum to 1, largest first; an error if there are too few trials or settings."""
    optuna = optuna_or_explain()
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if len({name for trial in complete for name in trial.params}) == 1:
        raise MacridError("only one setting was searched, so there is nothing to compare")
    if len(complete) < FEWEST_TRIALS:
        raise MacridError(f"importance needs {FEWEST_TRIALS} complete trials; there are {len(complete)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def sensible_range(complete: Any, pruned: Any) -> tuple[float, float]:
    """The lowest and highest score to show, so that good trials are distinguishable; hopeless ones lie below."""
    best, worst = float(max(complete)), float(min(*complete, *pruned, max(complete)))
    low = max(worst, best - SPREAD * (best - float(np.median(complete))))
    room = 0.08 * (best - low) or 0.05 * abs(best) or 0.05
    return low - room, best + 1.5 * room


def _points(trials: list[optuna.trial.FrozenTrial]) -> np.ndarray:
    """(trials, 2): number and score."""
    pairs = [(trial.number, trial.value) for trial in trials if trial.value is not None]
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def _dots(panel: Axes, points: np.ndarray, low: float, name: str, marker: str, colour: str) -> None:
    """Points below the scale are drawn faintly at its lower edge."""
    inside = points[:, 1] >= low
    style: dict[str, Any] = {"linestyle": "none", "marker": marker, "color": colour, "markeredgewidth": 0}
    if len(points):
        panel.plot(*points[inside].T, markersize=5.5, alpha=0.75, label=name, zorder=3, **style)
    below = points[~inside, 0]
    if len(below):
        panel.plot(below, np.full(len(below), low), markersize=5, alpha=0.3, clip_on=False, **style)


def _name_chosen(panel: Axes, chosen: Recipe) -> None:
    number, score = chosen.about["trial"], chosen.about["score"]
    scores = chosen.about.get("scores")
    panel.plot(number, score, "*", color=CHOSEN, markeredgecolor=INK, markersize=15, zorder=6, clip_on=False)
    mean = f", {np.mean(scores):.4f} over {len(scores)} seeds" if scores else ""
    panel.set_title(f"chosen: trial {number}, {score:.4f}{mean}", loc="right", fontsize=10, color=INK, pad=24)


def _percent(share: float) -> str:
    return "< 1%" if 0 < share < 0.005 else f"{share:.0%}"
