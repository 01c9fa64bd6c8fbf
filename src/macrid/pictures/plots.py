"""Drawings of t-SNE maps of items and users, coloured by concept or by attribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from macrid.pictures.drawing import (
    FAINT,
    INK,
    LINE,
    NO_COLOUR,
    PALETTE,
    colour_of,
    heading,
    new_figure,
    plural,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from macrid.data.attributes import Attribute

UNKNOWN = "#E4E4E4"  # for items without a value
MOST_KEY_LINES = 16


class Colouring(NamedTuple):
    """What the colours of items mean."""

    title: str
    of_items: list[str]
    """One per item on the map."""
    key: list[tuple[str, str, int]]
    """Colour, name, and number of items on the map."""
    names: str
    """What the names stand for."""
    concept_axes: dict[int, str]
    """Colours of users' components; all the same unless items are coloured by concept."""


def map_figure(points: Mapping[str, Any], colouring: Colouring) -> Figure:
    """Items on the left, users' components on the right in the same space, and a key.

    points: from `maps.items_and_users`.
    """
    items, users = points["items"], points["users"]
    figure = new_figure(14.4, 5.25)
    grid = grid_of(figure, ("items", "users", "key"), side=4.4)
    map_panel(grid["items"], colouring.title, plural(len(items["x"]), "item"))
    scatter(grid["items"], (items["x"], items["y"], colouring.of_items))
    subtitle = plural(len(users["x"]), "component") + " of held-out users, over the items in grey"
    map_panel(grid["users"], "Users by concept" if len(set(colouring.concept_axes.values())) > 1 else "Users", subtitle)
    scatter(grid["users"], (items["x"], items["y"], [UNKNOWN] * len(items["x"])))
    scatter(grid["users"], dots(users, colouring.concept_axes))
    for name in ("items", "users"):
        square(grid[name], *joined(items, users))
    _key(grid["key"], colouring.names, colouring.key)
    return figure


def by_concept(points: Mapping[str, Any], names: Mapping[int, str]) -> Colouring:
    """names: of concepts, shown next to their numbers."""
    concepts = points["items"]["concept"]
    count = Counter(concepts)
    by_size = sorted(_concepts(points), key=lambda k: -count[k])  # the smallest may go without a colour
    concept_axes = {k: colour_of(rank) for rank, k in enumerate(by_size)}
    key = [(concept_axes[k], f"{k}  {names.get(k, '')}".rstrip(), count[k]) for k in sorted(concept_axes)]
    title = "concept, with a typical item" if names else "concept"
    return Colouring("Items by concept", [concept_axes[k] for k in concepts], key, title, concept_axes)


def by_attribute(points: Mapping[str, Any], attribute: Attribute) -> Colouring:
    """An item with several values gets the colour of its rarest, which says most."""
    frequency, shares = np.asarray(attribute.shares.sum(axis=0)).ravel(), attribute.shares
    values = np.split(shares.indices, shares.indptr[1:-1])
    row_of = {int(item): row for row, item in enumerate(attribute.items)}
    rows = [row_of.get(item) for item in points["items"]["position"]]
    value_of = [None if row is None else int(min(values[row], key=lambda value: frequency[value])) for row in rows]
    count = Counter(value_of)
    if attribute.numbers is None:
        ranked = sorted((value for value in count if value is not None), key=lambda value: (-count[value], value))
        colour = {value: PALETTE[rank] for rank, value in enumerate(ranked[: len(PALETTE)])}
    else:
        scale = import_module("matplotlib").colormaps["viridis"]
        to_hex = import_module("matplotlib.colors").to_hex
        last = max(1, len(attribute.values) - 1)
        colour = {value: to_hex(scale(value / last)) for value in range(len(attribute.values))}
    key = [(colour[value], attribute.values[value], count[value]) for value in colour]
    others = sum(count[value] for value in count if value is not None and value not in colour)
    key += [(NO_COLOUR, "others", others)] * bool(others) + [(UNKNOWN, "unknown", count[None])] * bool(count[None])
    colours = [UNKNOWN if value is None else colour.get(value, NO_COLOUR) for value in value_of]
    return Colouring(
        f"Items by {shortened(attribute.name)}", colours, key, attribute.name, dict.fromkeys(_concepts(points), FAINT)
    )


def _concepts(points: Mapping[str, Any]) -> list[int]:
    return sorted({*points["items"]["concept"], *points["users"]["concept"]})


def _key(panel: Axes, names: str, lines: Sequence[tuple[str, str, int]]) -> None:
    panel.set_axis_off()
    panel.set_xlim(0, 1)
    panel.set_ylim(MOST_KEY_LINES + 1.5, -0.5)
    panel.text(0.07, 0, shortened(names, 34), fontsize=10, color=FAINT, va="center")
    panel.text(1.0, 0, "items", fontsize=10, color=FAINT, va="center", ha="right")
    hidden = len(lines) - MOST_KEY_LINES
    for row, (shade, name, count) in enumerate(lines[:MOST_KEY_LINES], start=1):
        panel.plot(0.02, row, "o", color=shade, markersize=8, clip_on=False)
        panel.text(0.07, row, shortened(name, 34), fontsize=10.5, color=INK, va="center")
        panel.text(1.0, row, f"{count:,}", fontsize=10.5, color=FAINT, va="center", ha="right")
    if hidden > 0:
        panel.text(0.07, MOST_KEY_LINES + 1, f"and {hidden} more", fontsize=10.5, color=FAINT, va="center")


def grid_of(figure: Figure, *rows: Sequence[str], side: float = 3.7, head: float = 0.6) -> dict[str, Axes]:
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


def map_panel(panel: Axes, title: str, subtitle: str) -> None:
    heading(panel, title, subtitle)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.set_aspect("equal")
    for spine in panel.spines.values():
        spine.set_color(LINE)


def scatter(panel: Axes, points: tuple[Any, Any, Any]) -> None:
    """In random order, so that no colour covers the others."""
    x, y, shades = (np.asarray(column) for column in points)
    order = np.random.default_rng(0).permutation(len(x))
    size = float(np.clip(9000 / max(len(x), 1), 1.5, 14))
    panel.scatter(x[order], y[order], s=size, c=shades[order], alpha=0.8, linewidths=0, rasterized=True)


def dots(columns: Mapping[str, Any], concept_axes: Mapping[int, str]) -> tuple[Any, Any, Any]:
    return columns["x"], columns["y"], [concept_axes[concept] for concept in columns["concept"]]


def joined(*many: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.concatenate([columns[axis] for columns in many]) for axis in "xy")
    return x, y


def square(panel: Axes, x: Any, y: Any) -> None:
    """Square limits around all points."""
    ends = np.array([[np.min(x), np.max(x)], [np.min(y), np.max(y)]])
    half = 0.53 * max(np.ptp(ends, axis=1).max(), 1e-6)
    (left, low), (right, high) = ends.mean(axis=1) - half, ends.mean(axis=1) + half
    panel.set_xlim(left, right)
    panel.set_ylim(low, high)


def paler(shade: str) -> str:
    """Mixed with white rather than transparent, so that overlapping points stay pale."""
    return "#" + "".join(f"{round(0.4 * int(shade[at : at + 2], 16) + 0.6 * 255):02X}" for at in (1, 3, 5))
