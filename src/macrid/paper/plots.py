"""The pictures of Figures 2 and 4, from their numbers. `figure…` makes a matplotlib figure, `draw_…` writes a PNG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from macrid.errors import MacridError
from macrid.evaluation.disentanglement import match, matched_accuracy
from macrid.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart, then four of Tol's; yellow late, for it is faint
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#333333", "#E6D72A"),
    *("#882255", "#999933", "#44AA99", "#332288"),
)
WITHOUT = "#C4C4C4"  # for what no colour is left
INK, FAINT, LINE = "#222222", "#666666", "#D0D0D0"
DPI = 150
MARKERS = ("o", "^", "s", "D", "v", "P")
METHOD_COLOURS = ("#0072B2", "#E69F00", "#B0457B", "#009E73", "#56B4E9", "#333333")
INDEPENDENCE = (
    ("independence", "Of all dimensions of a user", "as in the paper"),
    ("independence_per_concept", "Inside a concept", "pairs of dimensions of different concepts do not count"),
)


def draw_figure2(
    cosine: Mapping[str, Any], inner: Mapping[str, Any], categories_of_items: Sequence[Any], path: str | PathLike[str]
) -> None:
    _save(figure2(cosine, inner, categories_of_items), path)


def draw_figure4(
    points: Mapping[str, Sequence[Mapping[str, float]]], names: Mapping[str, str], path: str | PathLike[str]
) -> None:
    _save(figure4(points, names), path)


def figure2(cosine: Mapping[str, Any], inner: Mapping[str, Any], categories_of_items: Sequence[Any]) -> Figure:
    """Five maps and a key. cosine, inner: from `maps.items_and_users`; a colour means the same category in all maps."""
    truth = np.asarray(categories_of_items)
    items, users, others = cosine["items"], cosine["users"], inner["items"]
    shown, shown_by_inner = truth[items["position"]], truth[others["position"]]
    concepts = np.asarray(items["concept"])
    of_concept, of_category = colours(concepts, shown, users["concept"])
    of_inner = _colours_like(np.asarray(others["concept"]), shown_by_inner, of_category)

    figure = _figure(12.0, 8.9)
    grid = _grid(figure, ("a", "b", "key"), ("c", "d", "e"))
    pale = {concept: _paler(colour) for concept, colour in of_concept.items()}
    _map(grid["a"], "(a) Items and users", _plural(len(concepts), "item") + "; behind them, paler, users")
    _scatter(grid["a"], _dots(users, pale))
    _scatter(grid["a"], _dots(items, of_concept))
    _map(grid["b"], "(b) Users", _plural(len(users["x"]), "component") + ", by their concept")
    _scatter(grid["b"], _dots(users, of_concept))
    _map(grid["c"], "(c) Items by concept", _use(concepts))
    _scatter(grid["c"], _dots(items, of_concept))
    accuracy = matched_accuracy(concepts, shown)
    _map(grid["d"], "(d) Items by true category", f"{accuracy:.0%} are in the concept of their category")
    _scatter(grid["d"], (items["x"], items["y"], [of_category[label] for label in shown.tolist()]))
    _map(grid["e"], "(e) Items by concept, inner product", _use(np.asarray(others["concept"])))
    _scatter(grid["e"], _dots(others, of_inner))
    for name in "abcd":  # the same place in all four
        _square(grid[name], *_joined(items, users))
    _square(grid["e"], others["x"], others["y"])
    _key(grid["key"], concepts, shown, of_concept, of_category)
    return figure


def figure4(points: Mapping[str, Sequence[Mapping[str, float]]], names: Mapping[str, str]) -> Figure:
    """Independence against NDCG@100, a point for every configuration of every method, with medians of neighbours.

    On the left as in the paper. There the components of different concepts, which are hardly related, raise the score
    of a model with many concepts; on the right is what remains inside a concept.
    """
    figure = _figure(12.0, 6.0, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[call-arg, union-attr]
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, (key, title, told) in zip(panels, INDEPENDENCE, strict=True):
        handles = [
            _method(panel, _finite(own, key), names.get(method, method), index)
            for index, (method, own) in enumerate(points.items())
        ]
        _head(panel, title, told)
        panel.set_xlabel("independence", fontsize=11, color=INK)
        panel.legend(handles=handles, frameon=False, fontsize=10, loc="upper left", bbox_to_anchor=(0, -0.13))
        _dress(panel)
    panels[0].set_ylabel("NDCG@100 of test users", fontsize=11, color=INK)
    return figure


def colours(
    concepts: np.ndarray, categories: np.ndarray, others: Sequence[int] = ()
) -> tuple[dict[int, str], dict[Any, str]]:
    """A colour for every concept and for every category, the same for a concept and the category matched to it.

    others: more concepts, perhaps without items.
    """
    known = sorted({*concepts.tolist(), *others})
    of_concept = {concept: _colour(rank) for rank, concept in enumerate(known)}
    matched = {
        label: of_concept[concept] for concept, label in match(concepts, categories).items() if label is not None
    }
    left = iter(range(len(known), len(PALETTE)))
    of_category = {
        label: matched[label] if label in matched else _colour(next(left, len(PALETTE)))
        for label in np.unique(categories).tolist()
    }
    return of_concept, of_category


def _colours_like(concepts: np.ndarray, categories: np.ndarray, of_category: Mapping[Any, str]) -> dict[int, str]:
    """Colours of the concepts of another model: of the category matched to them, or else of none."""
    found = match(concepts, categories)
    return {concept: of_category.get(label, WITHOUT) for concept, label in found.items()}


def _colour(rank: int) -> str:
    return PALETTE[rank] if rank < len(PALETTE) else WITHOUT


def _paler(colour: str) -> str:
    """Mixed with white, so that it stays pale where points lie on each other."""
    return "#" + "".join(f"{round(0.4 * int(colour[at : at + 2], 16) + 0.6 * 255):02X}" for at in (1, 3, 5))


def _grid(figure: Figure, *rows: Sequence[str], side: float = 3.7, head: float = 0.6) -> dict[str, Axes]:
    """Square panels, `side` inches wide, with room for two lines above each."""
    width, height = figure.get_size_inches()
    across = (width - len(rows[0]) * side) / len(rows[0])
    down = height / len(rows)
    return {
        name: figure.add_axes(
            (
                (column * (side + across) + across / 2) / width,
                1 - (row * down + head + side) / height,
                side / width,
                side / height,
            )
        )
        for row, names in enumerate(rows)
        for column, name in enumerate(names)
    }


def _map(panel: Axes, title: str, told: str) -> None:
    _head(panel, title, told)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.set_aspect("equal")
    for spine in panel.spines.values():
        spine.set_color(LINE)


def _head(panel: Axes, title: str, told: str) -> None:
    panel.set_title(title, loc="left", fontsize=12, color=INK, fontweight="bold", pad=20)
    panel.text(0, 1.015, told, transform=panel.transAxes, fontsize=10, color=FAINT, va="bottom")


def _scatter(panel: Axes, dots: tuple[Any, Any, Any]) -> None:
    """In a random order, so that no colour covers the others."""
    x, y, shades = (np.asarray(column) for column in dots)
    order = np.random.default_rng(0).permutation(len(x))
    size = float(np.clip(9000 / max(len(x), 1), 1.5, 14))
    panel.scatter(x[order], y[order], s=size, c=shades[order], alpha=0.8, linewidths=0, rasterized=True)


def _dots(columns: Mapping[str, Any], of_concept: Mapping[int, str]) -> tuple[Any, Any, Any]:
    return columns["x"], columns["y"], [of_concept[concept] for concept in columns["concept"]]


def _joined(*many: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.concatenate([columns[axis] for columns in many]) for axis in "xy")
    return x, y


def _square(panel: Axes, x: Any, y: Any) -> None:
    """Limits around all points, as wide as high."""
    ends = np.array([[np.min(x), np.max(x)], [np.min(y), np.max(y)]])
    half = 0.53 * max(np.ptp(ends, axis=1).max(), 1e-6)
    (left, low), (right, high) = ends.mean(axis=1) - half, ends.mean(axis=1) + half
    panel.set_xlim(left, right)
    panel.set_ylim(low, high)


def _use(concepts: np.ndarray) -> str:
    """How items divide over concepts."""
    found, counts = np.unique(concepts, return_counts=True)
    return f"{_plural(len(found), 'concept')} with items; the largest has {counts.max() / counts.sum():.0%} of them"


def _key(
    panel: Axes,
    concepts: np.ndarray,
    categories: np.ndarray,
    of_concept: Mapping[int, str],
    of_category: Mapping[Any, str],
) -> None:
    """A line for every concept with its category, then categories without a concept."""
    panel.set_axis_off()
    found = match(concepts, categories)
    lines: list[tuple[str, str, str, str]] = []
    for concept, colour in of_concept.items():
        label, own = found.get(concept), categories[concepts == concept].tolist()
        share = f"{own.count(label) / len(own):.0%} of {len(own):,}" if own and label is not None else f"{len(own):,}"
        lines.append((colour, f"concept {concept}", "–" if label is None else _named(label), share))
    taken = set(found.values())
    lines += [(shade, "–", _named(label), "") for label, shade in of_category.items() if label not in taken]
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
    """Points and medians of a method; returns what stands for it in the legend."""
    from matplotlib.lines import Line2D

    colour, marker = METHOD_COLOURS[index % len(METHOD_COLOURS)], MARKERS[index % len(MARKERS)]
    x, y = dots.T
    alpha = float(np.clip(250 / max(len(x), 1), 0.2, 0.6))
    panel.scatter(x, y, s=11, c=colour, marker=marker, alpha=alpha, linewidths=0, rasterized=True)
    middle_x, middle_y = binned_medians(x, y)
    panel.plot(middle_x, middle_y, color="white", linewidth=4, alpha=0.8, zorder=3)
    panel.plot(middle_x, middle_y, color=colour, linewidth=1.8, zorder=4)
    rank = rank_correlation(x, y)
    told = f"{name}: {_plural(len(x), 'model')}" + (
        "" if rank is None else f", Spearman ρ = {rank:+.2f}".replace("-", "−")
    )
    return Line2D([], [], color=colour, marker=marker, markersize=6, linewidth=1.8, label=told)


def binned_medians(x: np.ndarray, y: np.ndarray, most: int = 12, fewest: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Medians of both over groups of neighbours along x, equally many in each: at most `most`, of at least `fewest`."""
    groups = np.array_split(np.argsort(x, kind="stable"), max(1, min(most, len(x) // fewest)))
    if len(x) < 2 * fewest:
        return np.empty(0), np.empty(0)
    return np.array([np.median(x[own]) for own in groups]), np.array([np.median(y[own]) for own in groups])


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(spearmanr(x, y).statistic)


def _finite(points: Sequence[Mapping[str, float]], key: str) -> np.ndarray:
    """(points, 2): independence and NDCG@100, without points that miss one."""
    table = np.array([[point[key], point["ndcg@100"]] for point in points], dtype=np.float64).reshape(-1, 2)
    return table[np.isfinite(table).all(axis=1)]


def _dress(panel: Axes) -> None:
    panel.grid(color="#EEEEEE", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=10, labelleft=True, colors=FAINT, length=0)
    for side, spine in panel.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LINE)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _named(category: Any) -> str:
    """As text that matplotlib takes literally."""
    told = str(category) if isinstance(category, str) else f"category {category}"
    return (told if len(told) <= 22 else told[:21] + "…").replace("$", r"\$")


def _figure(width: float, height: float, layout: str = "none") -> Figure:
    """Without pyplot: nothing global, no window, no backend to choose."""
    try:
        made = import_module("matplotlib.figure").Figure
    except ModuleNotFoundError as error:
        raise MacridError("a picture needs matplotlib; install it with `pip install 'macrid[plot]'`") from error
    return made(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")


def _save(figure: Figure, path: str | PathLike[str]) -> None:
    from PIL import Image

    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(packed, format="png", optimize=True)  # a third of the size
    try:
        write_atomically(path, packed.getvalue())
    except OSError as error:
        raise MacridError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from error
