"""The picture of how time and memory grow: one column for every size, log by log, with lines of slope 1 behind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.growth import SYMBOLS, WORDS, Growth, growths

COLOURS = {"exact": "#1f5fa8", "sampled": "#c2571a"}
ROWS = (("milliseconds", "of_time", "ms a step"), ("scratch_mib", "of_memory", "MiB a step"))


def draw(part: dict[str, Any], file: Path) -> None:
    """Write a PNG from the growth part of a result."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise SystemExit("the picture needs matplotlib: pip install 'macrid[plot]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    found = growths(part["points"])
    axes_names = list(dict.fromkeys(growth.axis for growth in found))
    figure, panels = plt.subplots(
        2, len(axes_names), figsize=(2.4 * len(axes_names), 4.8), sharey="row", squeeze=False, layout="constrained"
    )
    for row, (key, exponent, unit) in zip(panels, ROWS, strict=True):
        for panel, axis in zip(row, axes_names, strict=True):
            own = [growth for growth in found if growth.axis == axis and min(getattr(growth, key)) > 0]
            for growth in own:
                _curve(panel, growth, key, exponent)
            _dress(panel, own)
        row[0].set_ylabel(unit)
    for panel, axis in zip(panels[1], axes_names, strict=True):
        panel.set_xlabel(f"{WORDS[axis]} (${SYMBOLS[axis]}$)")
    for row, (key, *_) in zip(panels, ROWS, strict=True):
        values = [value for growth in found for value in getattr(growth, key) if value > 0]
        row[0].set_ylim(min(values) / 3, max(values) * 3)
        for panel in row:
            _guides(panel)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(64).save(file, optimize=True)  # a quarter of the size


def _curve(panel: Any, growth: Growth, key: str, exponent: str) -> None:
    colour = COLOURS[growth.mode]
    panel.plot(growth.sizes, getattr(growth, key), "o-", color=colour, markersize=3, linewidth=1.4)
    value = getattr(growth, exponent)
    told = growth.mode if value is None else f"{growth.mode} ~ ${SYMBOLS[growth.axis]}^{{{value:.2f}}}$"
    first = growth.mode == "exact"  # curves rise, so these two corners are free
    x, y = (0.03, 0.97) if first else (0.97, 0.03)
    sides = {"ha": "left", "va": "top"} if first else {"ha": "right", "va": "bottom"}
    panel.text(x, y, told, transform=panel.transAxes, fontsize=9, color=colour, **sides)


def _dress(panel: Any, own: list[Growth]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    sizes = sorted({size for growth in own for size in growth.sizes})
    panel.set_xlim(sizes[0] / 1.5, sizes[-1] * 1.5)
    ticks = sizes if len(sizes) <= 4 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    panel.set_xticks(ticks, [_short(size) for size in ticks])
    panel.minorticks_off()
    panel.tick_params(labelsize=8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _guides(panel: Any) -> None:
    """Lines of slope 1, ten times apart."""
    left, right = panel.get_xlim()
    low, high = panel.get_ylim()
    for start in 10.0 ** np.arange(np.floor(np.log10(low * left / right)), np.ceil(np.log10(high)) + 1):
        panel.plot([left, right], [start, start * right / left], color="#dddddd", linewidth=0.8, zorder=0)
    panel.set_xlim(left, right)
    panel.set_ylim(low, high)


def _short(size: float) -> str:
    """2000000 → 2M, 1024 → 1,024"""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if size >= unit and size % (unit / 10) == 0:
            return f"{size / unit:g}{letter}"
    return f"{size:,.0f}"
