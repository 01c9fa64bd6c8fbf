"""Shared by all pictures: colours, text styles, and how figures are created and saved."""

from __future__ import annotations

import io
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING

from macrid.errors import MacridError
from macrid.files import write_atomically, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, safe for colour-blind readers, then four of Tol's; yellow late, because it is faint
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#333333", "#E6D72A"),
    *("#882255", "#999933", "#44AA99", "#332288"),
)
NO_COLOUR = "#C4C4C4"  # when the palette runs out
INK, FAINT, LINE = "#222222", "#666666", "#D0D0D0"
DPI = 150


def colour_of(rank: int) -> str:
    return PALETTE[rank] if rank < len(PALETTE) else NO_COLOUR


def heading(panel: Axes, title: str, subtitle: str) -> None:
    panel.set_title(title, loc="left", fontsize=12, color=INK, fontweight="bold", pad=20)
    panel.text(0, 1.015, subtitle, transform=panel.transAxes, fontsize=10, color=FAINT, va="bottom")


def dress(panel: Axes) -> None:
    """A quiet grid, no frame."""
    panel.grid(color="#EEEEEE", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=10, colors=FAINT, length=0)
    for side, spine in panel.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LINE)


def literal(text: str) -> str:
    """Escaped, so that matplotlib does not read it as a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, length: int = 22) -> str:
    return literal(text if len(text) <= length else text[: length - 1] + "…")


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def new_figure(width: float, height: float, layout: str = "none") -> Figure:
    """A figure made without pyplot, so without global state, windows or backends."""
    try:
        figure_class = import_module("matplotlib.figure").Figure
    except ImportError:
        raise MacridError("drawing needs matplotlib; install it with `pip install 'macrid[plot]'`") from None
    figure: Figure = figure_class(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    if layout == "constrained":
        figure.get_layout_engine().set(w_pad=0.13, h_pad=0.12)  # type: ignore[call-arg, union-attr]
    return figure


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Save as PNG, atomically."""
    from PIL import Image

    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(packed, format="png", optimize=True)  # a third of the size
    write(path, packed.getvalue())


def write(path: str | PathLike[str], content: bytes) -> None:
    with writing(path, MacridError, "choose another path"):
        write_atomically(path, content)
