"""Strips of items: walks along dimensions, one per row, as a picture or a web page."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from macrid.errors import MacridError
from macrid.pictures.drawing import FAINT, INK, LINE, PALETTE, literal, new_figure, shortened, write
from macrid.pictures.svg import draw_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGES, PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")
START = PALETTE[0]
PALE, PALE_START = "#F4F4F2", "#E5F1F8"

# in inches from the top of a strip
PITCH, SIDE = 1.46, 1.26
TITLE, TOP, AXIS, VALUE, CAPTION, HEIGHT, HEIGHT_OF_CARDS = 0.2, 0.46, 1.93, 2.13, 2.27, 2.95, 2.55
MARGIN, LETTER = 0.25, 0.095  # edge of the figure; width of a letter in the names of the ends
MOST_LETTERS = 12  # per line of these names


class Cell(NamedTuple):
    """One item of a strip."""

    caption: str
    """The full title; it is wrapped and shortened to fit."""
    value: str
    """Its coordinate, formatted."""
    picture: str | None = None
    """SVG from `macrid.data.shop.pictures` only, because it is inserted into pages unescaped."""
    is_start: bool = False


class Strip(NamedTuple):
    """Items from one end of a dimension to the other."""

    title: str
    cells: Sequence[Cell]
    low: str = ""
    """Name of the left end."""
    high: str = ""


def draw_strip(strips: Sequence[Strip], path: str | PathLike[str]) -> None:
    """Write strips, one per row, to .html (or .htm), .png, .svg or .pdf.

    A page is self-contained and follows the reader's light or dark setting.
    """
    kind = Path(path).suffix.lower()
    if kind not in PAGES + PICTURES:
        known = ", ".join((PAGES[0], *PICTURES))
        raise MacridError(f"{path}: cannot draw a strip as {kind or 'a file without a suffix'}; use one of {known}")
    if not strips:
        raise MacridError(f"{path}: no strips to draw")
    write(path, strip_page(strips).encode() if kind in PAGES else _saved(strip_figure(strips), kind[1:]))


def strip_figure(strips: Sequence[Strip]) -> Figure:
    """A row per strip, with the start in colour and the names of the ends on either side."""
    longest = max(1, *(len(strip.cells) for strip in strips))
    names = [line for strip in strips for name in (strip.low, strip.high) for line in _wrapped(name, MOST_LETTERS, 4)]
    left = MARGIN + LETTER * max((len(name) for name in names), default=0)
    heights = [HEIGHT if any(cell.picture for cell in strip.cells) else HEIGHT_OF_CARDS for strip in strips]
    width, height = 2 * left + PITCH * longest, sum(heights) + MARGIN
    figure = new_figure(width, height)
    panel = figure.add_axes((0, 0, 1, 1))  # in inches, y downwards
    panel.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    panel.set_axis_off()
    for row, strip in enumerate(strips):
        _draw_row(panel, strip, left, MARGIN / 2 + sum(heights[:row]))
    return figure


def _draw_row(panel: Axes, strip: Strip, left: float, top: float) -> None:
    inset = (PITCH - SIDE) / 2
    title = shortened(strip.title, 24 + 14 * len(strip.cells))
    panel.text(left + inset, top + TITLE, title, fontsize=13, fontweight="bold", color=INK, va="center")
    right = left + PITCH * max(1, len(strip.cells))
    for name, x, side in ((strip.low, left, "right"), (strip.high, right, "left")):
        lines = "\n".join(literal(line) for line in _wrapped(name, MOST_LETTERS, 4))
        panel.text(x, top + TOP + SIDE / 2, lines, fontsize=11, color=FAINT, ha=side, va="center", fontstyle="italic")
    if not strip.cells:
        panel.text(left + inset, top + TOP + SIDE / 2, "no items in this range", fontsize=10.5, color=FAINT)
        return
    arrow = {"arrowstyle": "-|>", "color": LINE, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12}
    ends = (left + inset, top + AXIS), (right - inset, top + AXIS)
    panel.annotate("", ends[1], ends[0], arrowprops=arrow, zorder=1)
    for place, cell in enumerate(strip.cells):
        _draw_cell(panel, cell, left + place * PITCH + inset, top)


def _draw_cell(panel: Axes, cell: Cell, x: float, top: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    middle, colour = x + SIDE / 2, START if cell.is_start else INK
    weight = "bold" if cell.is_start else "normal"
    lines = [literal(line) for line in _wrapped(cell.caption, 19 if cell.picture else 14, 3 if cell.picture else 6)]
    round_box = f"round,pad=0,rounding_size={0.12 * SIDE}"
    if cell.picture is None:
        card = FancyBboxPatch((x, top + TOP), SIDE, SIDE, round_box, linewidth=0, zorder=1)
        card.set_facecolor(PALE_START if cell.is_start else PALE)
        panel.add_patch(card)
        panel.text(middle, top + TOP + SIDE / 2, "\n".join(lines), fontsize=9.5, color=INK, ha="center", va="center")
    else:
        draw_picture(panel, cell.picture, x, top + TOP, SIDE)
        panel.text(middle, top + CAPTION, "\n".join(lines), fontsize=8.5, color=INK, ha="center", va="top")
    if cell.is_start:
        frame = FancyBboxPatch((x, top + TOP), SIDE, SIDE, round_box, fill=False, zorder=4)
        frame.set(edgecolor=START, linewidth=2.4)
        panel.add_patch(frame)
    panel.plot(middle, top + AXIS, "o", color=colour if cell.is_start else FAINT, markersize=8 if cell.is_start else 5)
    value = literal(f"{cell.value}  start" if cell.is_start else cell.value)
    panel.text(middle, top + VALUE, value, fontsize=9.5, color=colour, fontweight=weight, ha="center", va="center")


def _wrapped(text: str, width: int, lines: int) -> list[str]:
    return textwrap.wrap(text, width, max_lines=lines, placeholder=" …")


def _saved(figure: Figure, kind: str) -> bytes:
    drawn = io.BytesIO()
    with warnings.catch_warnings():  # characters missing from the font are drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, format=kind)
    return drawn.getvalue()


def strip_page(strips: Sequence[Strip]) -> str:
    """One HTML page. Titles are escaped, and the page can neither run nor fetch anything."""
    title = _text("; ".join(strip.title for strip in strips))
    return PAGE.format(title=title, style=STYLE, strips="\n".join(map(_section, strips)))


def _section(strip: Strip) -> str:
    cells = "".join(map(_item, strip.cells)) or '<li class="none">no items in this range</li>'
    return (
        f"<section>\n<h2>{_text(strip.title)}</h2>\n"
        f'<p class="ends"><span>{_text(strip.low)}</span><i></i><span>{_text(strip.high)}</span></p>\n'
        f"<ol>{cells}\n</ol>\n</section>"
    )


def _item(cell: Cell) -> str:
    caption = _text(cell.caption)
    shown = (
        f'<div class="card">{caption}</div>' if cell.picture is None else f'<div class="picture">{cell.picture}</div>'
    )
    label = "" if cell.picture is None else f'<span class="caption" title="{caption}">{caption}</span>'
    start, mark = (' class="start" aria-current="true"', " <em>start</em>") if cell.is_start else ("", "")
    return f'\n<li{start}>{shown}<span class="value">{_text(cell.value)}{mark}</span>{label}</li>'


def _text(text: str) -> str:
    """Escaped for HTML; lone surrogates become question marks."""
    return escape(text.encode("utf-8", "replace").decode())


STYLE = """
:root { color-scheme: light dark;
  --paper: #fff; --ink: #222; --faint: #666; --line: #d0d0d0; --card: #f4f4f2; --start: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16171a; --ink: #ececec; --faint: #a3a3a8; --line: #45464c; --card: #25262b; --start: #56b4e9; }
}
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem); max-width: 90rem;
  background: var(--paper); color: var(--ink); font: 1rem/1.4 system-ui, sans-serif; }
section { margin-bottom: 2.5rem; }
h2 { font-size: 1.15rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
.ends { display: flex; align-items: center; gap: .75rem; margin: 0 0 .75rem; color: var(--faint); font-style: italic; }
.ends i { flex: 1; height: 1px; background: var(--line); position: relative; }
.ends i::after { content: ""; position: absolute; right: 0; top: -4px; border: 4.5px solid transparent;
  border-left: 8px solid var(--line); border-right: 0; }
ol { list-style: none; margin: 0; padding: 4px; display: flex; gap: .75rem; overflow-x: auto;
  scroll-snap-type: x proximity; }
li { flex: 1 0 7.5rem; max-width: 11rem; scroll-snap-align: start; text-align: center; }
li.none { max-width: none; text-align: left; color: var(--faint); }
.picture, .card { aspect-ratio: 1; border-radius: 12%; margin-bottom: .5rem; }
.picture svg { display: block; width: 100%; height: 100%; }
.card { background: var(--card); display: flex; align-items: center; justify-content: center; padding: .6rem;
  box-sizing: border-box; overflow: hidden; overflow-wrap: anywhere; font-size: .9rem; line-height: 1.25; }
.start .picture, .start .card { outline: 3px solid var(--start); }
.value { display: block; font-variant-numeric: tabular-nums; font-size: .95rem; }
.start .value { color: var(--start); font-weight: 600; }
.value em { font-style: normal; font-size: .8rem; }
.caption { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden;
  overflow-wrap: anywhere; color: var(--faint); font-size: .85rem; line-height: 1.25; margin-top: .15rem; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{strips}
</body>
</html>
"""
