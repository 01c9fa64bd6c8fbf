"""Pictures of Figures 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from macrid.data.shop.assortment import picture_of
from macrid.evaluation.agreement import match, matched_accuracy
from macrid.pictures.drawing import (
    FAINT,
    INK,
    NO_COLOUR,
    PALETTE,
    colour_of,
    dress,
    heading,
    new_figure,
    plural,
    shortened,
)
from macrid.pictures.plots import dots, grid_of, joined, map_panel, paler, scatter, square
from macrid.pictures.strips import Cell, Strip, draw_strip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyarrow import Table

    from macrid.data.ids import Ids

MARKERS = ("o", "^", "s", "D", "v", "P")
METHOD_COLOURS = ("#0072B2", "#E69F00", "#B0457B", "#009E73", "#56B4E9", "#333333")
INDEPENDENCE = (
    ("independence", "All dimensions of a user", "as in the paper"),
    ("independence_per_concept", "Within a concept", "ignoring pairs of dimensions from different concepts"),
)


def figure2(cosine: Mapping[str, Any], inner: Mapping[str, Any], categories_of_items: Sequence[Any]) -> Figure:
    """Five maps and a key, with one colour per category. cosine, inner: from `maps.items_and_users`."""
    truth = np.asarray(categories_of_items)
    items, users, others = cosine["items"], cosine["users"], inner["items"]
    shown, shown_by_inner = truth[items["position"]], truth[others["position"]]
    concepts = np.asarray(items["concept"])
    concept_axes, of_category = colours(concepts, shown, users["concept"])
    matched = match(np.asarray(others["concept"]), shown_by_inner)
    of_inner = {concept: of_category.get(label, NO_COLOUR) for concept, label in matched.items()}

    figure = new_figure(12.0, 8.9)
    grid = grid_of(figure, ("a", "b", "key"), ("c", "d", "e"))
    pale = {concept: paler(colour) for concept, colour in concept_axes.items()}
    map_panel(grid["a"], "(a) Items and users", plural(len(concepts), "item") + " over users, in paler colours")
    scatter(grid["a"], dots(users, pale))
    scatter(grid["a"], dots(items, concept_axes))
    map_panel(grid["b"], "(b) Users", plural(len(users["x"]), "component") + ", by their concept")
    scatter(grid["b"], dots(users, concept_axes))
    map_panel(grid["c"], "(c) Items by concept", _use(concepts))
    scatter(grid["c"], dots(items, concept_axes))
    accuracy = matched_accuracy(concepts, shown)
    map_panel(grid["d"], "(d) Items by true category", f"{accuracy:.0%} are in the concept of their category")
    scatter(grid["d"], (items["x"], items["y"], [of_category[label] for label in shown.tolist()]))
    map_panel(grid["e"], "(e) Items by concept, inner product", _use(np.asarray(others["concept"])))
    scatter(grid["e"], dots(others, of_inner))
    for name in "abcd":  # with the same limits
        square(grid[name], *joined(items, users))
    square(grid["e"], others["x"], others["y"])
    _key(grid["key"], concepts, shown, concept_axes, of_category)
    return figure


def figure4(points: Mapping[str, Sequence[Mapping[str, float]]], names: Mapping[str, str]) -> Figure:
    """Independence against NDCG@100: a point per configuration, with running medians.

    On the left as in the paper, where unrelated components of different concepts raise the score of a model with many
    concepts; on the right, independence within concepts only.
    """
    figure = new_figure(12.0, 6.0, layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, (key, title, subtitle) in zip(panels, INDEPENDENCE, strict=True):
        handles = [
            _method(panel, _finite(of_method, key), names.get(method, method), index)
            for index, (method, of_method) in enumerate(points.items())
        ]
        heading(panel, title, subtitle)
        panel.set_xlabel("independence", fontsize=11, color=INK)
        panel.legend(handles=handles, frameon=False, fontsize=10, loc="upper left", bbox_to_anchor=(0, -0.13))
        dress(panel)
        panel.tick_params(labelleft=True)
    panels[0].set_ylabel("NDCG@100 of test users", fontsize=11, color=INK)
    return figure


def colours(
    concepts: np.ndarray, categories: np.ndarray, others: Sequence[int] = ()
) -> tuple[dict[int, str], dict[Any, str]]:
    """A colour for every concept and category, the same for matching ones.

    others: more concepts, possibly without items.
    """
    known = sorted({*concepts.tolist(), *others})
    concept_axes = {concept: colour_of(rank) for rank, concept in enumerate(known)}
    matched = {
        label: concept_axes[concept] for concept, label in match(concepts, categories).items() if label is not None
    }
    unused = iter(range(len(known), len(PALETTE)))
    of_category = {
        label: matched[label] if label in matched else colour_of(next(unused, len(PALETTE)))
        for label in np.unique(categories).tolist()
    }
    return concept_axes, of_category


def _use(concepts: np.ndarray) -> str:
    """How items divide among concepts."""
    used, counts = np.unique(concepts, return_counts=True)
    return f"{plural(len(used), 'concept')} with items; the largest has {counts.max() / counts.sum():.0%} of them"


def _key(
    panel: Axes,
    concepts: np.ndarray,
    categories: np.ndarray,
    concept_axes: Mapping[int, str],
    of_category: Mapping[Any, str],
) -> None:
    """A line per concept with its category, then categories without a concept."""
    panel.set_axis_off()
    matched = match(concepts, categories)
    lines: list[tuple[str, str, str, str]] = []
    for concept, colour in concept_axes.items():
        label, items = matched.get(concept), categories[concepts == concept].tolist()
        count = f"{len(items):,}"
        share = f"{items.count(label) / len(items):.0%} of {count}" if items and label is not None else count
        lines.append((colour, f"concept {concept}", "–" if label is None else _named(label), share))
    taken = set(matched.values())
    lines += [(colour, "–", _named(label), "") for label, colour in of_category.items() if label not in taken]
    panel.set_xlim(0, 1)
    panel.set_ylim(max(len(lines) + 3.0, 10.5), -0.5)
    heads = ((0.09, "concept   ↔", "left"), (0.40, "category", "left"), (1.0, "of its items", "right"))
    for x, text, side in heads:
        panel.text(x, 0, text, fontsize=10, color=FAINT, va="center", ha=side)
    for row, (colour, *texts) in enumerate(lines, start=1):
        panel.plot(0.03, row, "o", color=colour, markersize=8, clip_on=False)
        for (x, _, side), text in zip(heads, texts, strict=True):
            panel.text(x, row, text, fontsize=11, color=INK, va="center", ha=side)
    note = "Concepts were learned without the categories.\nA concept and its category have the same colour."
    panel.text(0, len(lines) + 1.2, note, fontsize=10, color=FAINT, va="top", linespacing=1.5)


def _method(panel: Axes, dots: np.ndarray, name: str, index: int) -> Any:
    """Draw the points and medians of a method; returns its legend entry."""
    from matplotlib.lines import Line2D

    colour, marker = METHOD_COLOURS[index % len(METHOD_COLOURS)], MARKERS[index % len(MARKERS)]
    x, y = dots.T
    alpha = float(np.clip(250 / max(len(x), 1), 0.2, 0.6))
    panel.scatter(x, y, s=11, c=colour, marker=marker, alpha=alpha, linewidths=0, rasterized=True)
    middle_x, middle_y = binned_medians(x, y)
    panel.plot(middle_x, middle_y, color="white", linewidth=4, alpha=0.8, zorder=3)
    panel.plot(middle_x, middle_y, color=colour, linewidth=1.8, zorder=4)
    rank = rank_correlation(x, y)
    label = f"{name}: {plural(len(x), 'model')}" + (
        "" if rank is None else f", Spearman ρ = {rank:+.2f}".replace("-", "−")
    )
    return Line2D([], [], color=colour, marker=marker, markersize=6, linewidth=1.8, label=label)


def binned_medians(x: np.ndarray, y: np.ndarray, bins: int = 12, fewest: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Medians of x and y in at most `bins` equal bins along x, with at least `fewest` points each."""
    groups = np.array_split(np.argsort(x, kind="stable"), max(1, min(bins, len(x) // fewest)))
    if len(x) < 2 * fewest:
        return np.empty(0), np.empty(0)
    return np.array([np.median(x[group]) for group in groups]), np.array([np.median(y[group]) for group in groups])


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(spearmanr(x, y).statistic)


def _finite(points: Sequence[Mapping[str, float]], key: str) -> np.ndarray:
    """(points, 2) independence and NDCG@100, without points that lack either."""
    table = np.array([[point[key], point["ndcg@100"]] for point in points], dtype=np.float64).reshape(-1, 2)
    return table[np.isfinite(table).all(axis=1)]


def _named(category: Any) -> str:
    """Shortened and escaped for matplotlib."""
    return shortened(category if isinstance(category, str) else f"category {category}")


def draw_figure3(strips: Sequence[dict[str, Any]], items: Ids, table: Table | None, path: str | PathLike[str]) -> None:
    """Walks from `figure3.compute`, one per row."""
    rows = []
    for strip in strips:
        cells = []
        for stop in strip["items"]:
            picture = picture_of(items, table, items.parse(stop["id"]))
            cells.append(Cell(stop["title"] or stop["id"], f"{stop['value']:+.2f}", picture, stop["start"]))
        rows.append(Strip(f"{strip['concept_name']}: {strip['name']}", cells, strip["low"], strip["high"]))
    draw_strip(rows, path)
