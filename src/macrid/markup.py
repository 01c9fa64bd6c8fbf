"""HTML for notebooks: cards, tables and bars.

Text is escaped, and nothing runs or is fetched. Colours are those of the surrounding page, light or dark, or mixed with
them, because a notebook's theme need not be the browser's.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from itertools import chain
from typing import Any, NamedTuple

LONGEST = 500  # characters of a caption


class Card(NamedTuple):
    """An item, with a picture or its caption in a coloured box."""

    caption: str
    notes: Sequence[str] = ()
    """Short lines below it."""
    picture: str | None = None
    """SVG from `macrid.data.shop.pictures` only, because it is inserted unescaped."""
    group: int | None = None
    """Decides the colour of a box without a picture."""
    mark: str = ""
    """A word in its corner."""
    is_chosen: bool = False


def text(value: Any) -> str:
    """Escaped for HTML; lone surrogates become question marks."""
    return escape(str(value)[:LONGEST].encode("utf-8", "replace").decode())


def fragment(*parts: str) -> str:
    return f'<div class="macrid"><style>{STYLE}</style>{"".join(parts)}</div>'


def heading(title: str, note: str = "") -> str:
    """Nothing if both are empty."""
    shown = f"<b>{text(title)}</b>" if title else ""
    return f'<p class="m-head">{shown}{f"<small>{text(note)}</small>" if note else ""}</p>' if title or note else ""


def ends(low: str, high: str) -> str:
    """The names of both ends of a row of cards, with an arrow between them."""
    return f'<p class="m-ends"><span>{text(low)}</span><i></i><span>{text(high)}</span></p>' if low or high else ""


def cards(entries: Iterable[Card], *, in_a_row: bool = False) -> str:
    """in_a_row: scroll sideways instead of wrapping."""
    return f'<ol class="m-cards{" m-row" if in_a_row else ""}">{"".join(map(_card, entries))}</ol>'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Container[str] = ()) -> str:
    """numbers: columns aligned on the right."""
    kinds = [' class="m-number"' if column in numbers else "" for column in columns]
    head = "".join(f"<th{kind}>{text(column)}</th>" for column, kind in zip(columns, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{text(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bar(title: str, done: int, total: int | None, status: str) -> str:
    """A progress bar; without a total, one that says only that something is going on."""
    share = f' value="{done}" max="{total}"' if total else ""
    return f'<p class="m-bar"><span>{text(title)}</span><progress{share}></progress><small>{text(status)}</small></p>'


def _card(card: Card) -> str:
    caption = text(card.caption)
    tint = "" if card.group is None else f' style="--m-hue:{(card.group * 137 + 210) % 360}"'
    box = f'<div class="m-text"{tint}><span>{caption}</span></div>'
    shown = box if card.picture is None else f'<div class="m-picture">{card.picture}</div>'
    lines = chain([] if card.picture is None else [caption], map(text, card.notes))
    below = "".join(f"<span>{line}</span>" for line in lines)
    mark = f"<em>{text(card.mark)}</em>" if card.mark else ""
    chosen = ' class="m-chosen"' if card.is_chosen else ""
    return f'<li{chosen} title="{caption}">{shown}{mark}{below}</li>'


STYLE = """
.macrid { font: 13px/1.4 system-ui, sans-serif; max-width: 70rem; }
.macrid p { margin: .3rem 0; }
.macrid .m-head small { margin-left: .6rem; opacity: .75; font-size: 1em; }
.macrid .m-ends { display: flex; align-items: center; gap: .6rem; font-style: italic; }
.macrid .m-ends i { flex: 1; height: 1px; background: currentColor; opacity: .35; }
.macrid ol.m-cards { list-style: none; margin: .4rem 0; padding: 4px; display: flex; flex-wrap: wrap; gap: .7rem; }
.macrid ol.m-row { flex-wrap: nowrap; overflow-x: auto; }
.macrid ol.m-cards > li { width: 6.6rem; flex: none; position: relative; margin: 0; text-align: center; }
.macrid li > span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden;
  overflow-wrap: anywhere; font-size: 12px; line-height: 1.3; }
.macrid li > span:last-child { opacity: .8; }
.macrid .m-picture, .macrid .m-text { width: 6.6rem; height: 6.6rem; border-radius: .8rem; margin-bottom: .25rem;
  overflow: hidden; }
.macrid .m-picture svg { display: block; width: 100%; height: 100%; }
.macrid .m-text { box-sizing: border-box; padding: .5rem; display: flex; align-items: center; justify-content: center;
  background: hsl(var(--m-hue, 0) 45% 50% / .22); border: 1px solid hsl(var(--m-hue, 0) 45% 50% / .55); }
.macrid .m-text:not([style]) { background: none; border-color: currentColor; }
.macrid .m-text span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 5; overflow: hidden;
  overflow-wrap: anywhere; line-height: 1.25; }
.macrid li em { position: absolute; top: .3rem; right: .3rem; padding: 0 .4em; border-radius: .7em; font-style: normal;
  font-size: 11px; background: #0072b2; color: #fff; }
.macrid .m-chosen .m-picture, .macrid .m-chosen .m-text { outline: 3px solid #3a95cf; }
div.macrid table { border-collapse: collapse; margin: .4rem 0; background: none; }
div.macrid table tr { background: none !important; }
div.macrid table th, div.macrid table td { padding: .2rem .8rem .2rem 0; text-align: left !important;
  vertical-align: top; border: 0; background: none; color: inherit; max-width: 34rem; white-space: normal; }
div.macrid table th { border-bottom: 1px solid currentColor; }
div.macrid table .m-number { text-align: right !important; font-variant-numeric: tabular-nums; white-space: nowrap; }
.macrid .m-bar { display: flex; align-items: center; gap: .8rem; }
.macrid progress { flex: 0 0 14rem; accent-color: #0072b2; }
"""
