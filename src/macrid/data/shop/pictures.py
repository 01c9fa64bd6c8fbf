"""Small pictures of the shop's items: self-contained SVG, drawn from the factors that users care about.

They contain only shapes, gradients and one pattern; nothing is fetched, styled or run. Ids start with a digest of the
content, so many pictures can share a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape, quoteattr
from zlib import crc32

from macrid.errors import RequestError

COLOURS = {"red": "#c53a3f", "orange": "#e0713c", "amber": "#e7ab3e", "olive": "#98a64c", "green": "#459a6b",
           "teal": "#2f8f98", "blue": "#3d78c0", "navy": "#2f4080"}  # fmt: skip
"""From warm to cool: the colour factor −1 … 1 in eight equal parts."""

STYLES = ("plain", "pinstriped", "striped", "dotted", "patterned")
"""From quiet to bold: the style factor −1 … 1 in five equal parts."""

INK = "#23202e"
PAPER = "#fbf8f3"
METALS = ("#8d8893", "#b4bbc4", "#c9ccd1", "#d9b566", "#d8a233")  # from cheap to expensive
GROUND = 88


def word(words: tuple[str, ...], value: float) -> str:
    """The word for a factor in [−1, 1], which is divided equally among the words."""
    return words[min(max(int((value + 1) / 2 * len(words)), 0), len(words) - 1)]


def colour_code(value: float) -> str:
    """'#rrggbb' of a colour factor in [−1, 1], blended between neighbours."""
    return _along(tuple(COLOURS.values()), ((value + 1) / 2 * len(COLOURS) - 0.5) / (len(COLOURS) - 1))


def picture(category: str, factors: Mapping[str, float], title: str = "") -> str:
    """An SVG of 100 × 100 units.

    category: one of the shop's categories, such as "bags".
    factors: name → value in [−1, 1]: size, colour, price, style, heel, brightness; a missing one is drawn as 0.
    title: for screen readers.
    """
    if category not in _DRAWINGS:
        raise RequestError(f"no picture for category '{category}'; choose from {', '.join(_DRAWINGS)}")
    known = {name: min(max(value, -1.0), 1.0) for name, value in factors.items() if not math.isnan(value)}
    label = _printable(title) or category
    tag = f"m{crc32(repr((category, sorted(known.items()))).encode()):08x}"
    look = _Look(tag, known)
    drawing = _DRAWINGS[category](look)
    backdrop = mix(PAPER, look.colour, 0.10)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100" role="img" aria-label={quoteattr(label)}>'
        f"<title>{escape(label)}</title><defs>{look.definitions()}</defs>"
        f'<rect width="100" height="100" rx="12" fill="{backdrop}"/>{drawing}</svg>'
    )


def mix(first: str, second: str, part: float) -> str:
    """A blend of two colours: `part` of the second, the rest of the first."""
    pairs = zip(bytes.fromhex(first[1:]), bytes.fromhex(second[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in pairs)


class _Look:
    """The factors of one item as colours and patterns."""

    def __init__(self, tag: str, factors: Mapping[str, float]) -> None:
        self.tag, self.factors = tag, factors
        self.price = self.part("price")
        self.style = word(STYLES, factors.get("style", -1.0))
        self.colour = colour_code(factors.get("colour", 0.0))
        self.dark = mix(self.colour, INK, 0.32)
        self.light = mix(self.colour, "#ffffff", 0.55)
        self.metal = _along(METALS, self.price)

    def part(self, name: str) -> float:
        """A factor in [0, 1]."""
        return (self.factors.get(name, 0.0) + 1) / 2

    def paint(self, name: str) -> str:
        return f"url(#{self.tag}{name})"

    def definitions(self) -> str:
        """Gradients for cloth, metal, shadow and light, and the style's pattern."""
        glow = 0.18 + 0.77 * self.part("brightness")
        return (
            self._gradient("body", mix(self.colour, "#ffffff", 0.16), mix(self.colour, INK, 0.14))
            + self._gradient("metal", mix(self.metal, "#ffffff", 0.45), mix(self.metal, INK, 0.18))
            + self._spot("shade", INK, 0.30)
            + (self._spot("glow", "#ffe08a", glow) if "brightness" in self.factors else "")
            + self._pattern()
        )

    def _gradient(self, name: str, top: str, bottom: str) -> str:
        return (
            f'<linearGradient id="{self.tag}{name}" x1="0" y1="0" x2=".35" y2="1"><stop offset="0" stop-color="{top}"/>'
            f'<stop offset="1" stop-color="{bottom}"/></linearGradient>'
        )

    def _spot(self, name: str, colour: str, strength: float) -> str:
        stops = "".join(
            f'<stop offset="{offset}" stop-color="{colour}" stop-opacity="{strength * part:.2f}"/>'
            for offset, part in ((0, 1.0), (0.55, 0.45), (1, 0.0))
        )
        return f'<radialGradient id="{self.tag}{name}">{stops}</radialGradient>'

    def _pattern(self) -> str:
        if self.style == "plain":
            return ""
        light, dark = self.light, self.dark
        side, drawn = {
            "pinstriped": (6, _line("M2 0V6", light, 0.7)),
            "striped": (9, _line("M0 2.5H9", light, 3.4)),
            "dotted": (9, _dot(2.2, 2.2, 1.7, light) + _dot(6.7, 6.7, 1.7, light)),
            "patterned": (
                13,
                _line("M0 4L3.25 1L6.5 4L9.75 1L13 4", light, 1.9)
                + _fill("M6.5 6.6L9 9.3L6.5 12L4 9.3Z", mix(light, "#ffffff", 0.5))
                + _dot(0, 9.3, 1.5, dark)
                + _dot(13, 9.3, 1.5, dark),
            ),
        }[self.style]
        return (
            f'<pattern id="{self.tag}style" width="{side}" height="{side}" patternUnits="userSpaceOnUse">'
            f'<g opacity="{0.55 + 0.4 * self.part("style"):.2f}">{drawn}</g></pattern>'
        )

    def cloth(self, path: str) -> str:
        """A filled shape with the style's pattern."""
        return _fill(path, self.paint("body")) + ("" if self.style == "plain" else _fill(path, self.paint("style")))

    def shadow(self, width: float, y: float = GROUND) -> str:
        return _oval(50, y, width, 0.16 * width, self.paint("shade"))

    def sized(self, drawing: str, smallest: float, floor: float = GROUND) -> str:
        """The drawing scaled to the item's size, standing on the floor."""
        scale = smallest + (1 - smallest) * self.part("size")
        place = f"translate({50 * (1 - scale):.2f} {floor * (1 - scale):.2f}) scale({scale:.3f})"
        return f'<g transform="{place}">{drawing}</g>'


def _fill(path: str, paint: str, opacity: float = 1.0) -> str:
    return f'<path d="{path}" fill="{paint}"{_faint(opacity)}/>'


def _line(path: str, paint: str, width: float, opacity: float = 1.0) -> str:
    pen = f'stroke="{paint}" stroke-width="{width:g}" stroke-linecap="round"'
    return f'<path d="{path}" fill="none" {pen}{_faint(opacity)}/>'


def _stitches(path: str, paint: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{paint}" stroke-width="1" stroke-dasharray="2.2 1.5"/>'


def _dot(x: float, y: float, radius: float, paint: str, opacity: float = 1.0) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{paint}"{_faint(opacity)}/>'


def _ring(x: float, y: float, radius: float, paint: str, width: float) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="none" stroke="{paint}" stroke-width="{width:g}"/>'


def _oval(x: float, y: float, width: float, height: float, paint: str) -> str:
    return f'<ellipse cx="{x:g}" cy="{y:g}" rx="{width:.3g}" ry="{height:.3g}" fill="{paint}"/>'


def _box(x: float, y: float, width: float, height: float, radius: float, paint: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" fill="{paint}"/>'


def _faint(opacity: float) -> str:
    return "" if opacity == 1 else f' opacity="{opacity:.2f}"'


def _bag(look: _Look) -> str:
    metal = look.paint("metal")
    body = "M23 45Q23 41 28 41H72Q77 41 77 45L82 80Q83 88 75 88H25Q17 88 18 80Z"
    drawn = look.shadow(42) + _line("M35 43C35 14 65 14 65 43", look.dark, 4) + look.cloth(body)
    if 0.15 < look.price <= 0.3:  # a hem
        drawn += _line("M24.2 48H75.8", look.dark, 2.4)
    if look.price > 0.3:  # a flap
        drawn += _fill("M23 45Q23 41 28 41H72Q77 41 77 45L78.6 57Q64 68 50 68Q36 68 21.4 57Z", look.dark)
    if look.price > 0.5:  # seams
        drawn += _stitches("M24.2 56.2Q37 65.6 50 65.6Q63 65.6 75.8 56.2", look.light)
        drawn += _stitches("M21.6 80Q21 84.8 26 84.8H74Q79 84.8 78.4 80", look.light)
    if look.price > 0.3:  # a lock
        drawn += _box(45, 62, 10, 9, 2.2, metal) + _dot(50, 66.5, 1.4, INK, 0.5)
    if look.price > 0.7:  # rings and a charm
        drawn += _dot(35, 43.5, 3, metal) + _dot(65, 43.5, 3, metal)
        drawn += _line("M65 46L69 56", look.metal, 1) + _fill("M67 55H71L73 67H65Z", metal)
    return look.sized(drawn, 0.52)


def _case(look: _Look) -> str:
    metal = look.paint("metal")
    body = "M40 8H60Q69 8 69 17V81Q69 90 60 90H40Q31 90 31 81V17Q31 8 40 8Z"
    drawn = f'<g transform="translate(1.6 1)">{_fill(body, look.dark)}</g>' + look.cloth(body)
    if look.price > 0.35:  # a frame
        drawn += _line(body, metal, 0.8 + 1.8 * look.price)
    if look.price > 0.15:  # buttons
        drawn += _line("M69.8 34V42M69.8 46V50", look.metal, 1.8)
    drawn += _box(35, 13, 17, 17, 5, look.dark)
    for x, y in ((39.5, 17.5), (47.5, 25.5), (47.5, 17.5))[: 2 + (look.price > 0.5)]:  # lenses
        drawn += _dot(x, y, 3.1, look.metal) + _dot(x, y, 2.2, INK) + _dot(x - 0.7, y - 0.7, 0.7, "#ffffff", 0.8)
    if look.price > 0.7:  # a ring to hold it by
        drawn += _ring(50, 56, 9.5, metal, 2.6) + _box(48, 43.5, 4, 4.5, 1.2, metal)
    drawn += _fill("M58 10H61Q67 10 67 17V40Z", "#ffffff", 0.22)
    return look.shadow(26, 91) + f'<g transform="rotate(7 50 50)">{drawn}</g>'


def _shoe(look: _Look) -> str:
    rise = 34 * look.part("heel")
    seat, collar, leather = 81 - rise, 55 - rise, mix(look.dark, INK, 0.35)
    tip = 33 - 9 * look.part("heel")  # the heel gets thinner as it gets higher
    throat = f"{collar + 17:.1f} 50 {70 - 0.42 * rise:.1f}"
    upper = (
        f"M17 {seat:.1f}C13 {seat - 8:.1f} 13 {collar + 8:.1f} 15 {collar:.1f}Q17 {collar - 2:.1f} 20 {collar + 1:.1f}"
        f"C25 {collar + 12:.1f} 37 {throat}C60 {68.5 - 0.3 * rise:.1f} 66 67 74 71"
        f"C83 75 91 76 92 83Q92 86 88 86H63C50 86 42 {84 - 0.85 * rise:.1f} 33 {seat + 1:.1f}Z"
    )
    sole = (
        f"M16 {seat - 1:.1f}L35 {seat:.1f}C44 {83 - 0.8 * rise:.1f} 51 84 63 84H92Q93 88 88 88H62"
        f"C48 88 42 {86 - 0.8 * rise:.1f} 33 {seat + 3:.1f}L16 {seat + 2:.1f}Z"
    )
    heel = f"M16.5 {seat:.1f}H35Q{12.5 + 0.7 * tip:.1f} {0.55 * seat + 39.6:.1f} {tip:.1f} 88H20Z"
    drawn = look.shadow(44) + _fill(heel, leather) + look.cloth(upper) + _fill(sole, leather)
    if look.price > 0.2:  # a seam
        edge = f"M18.5 {collar + 4:.1f}C25 {collar + 15:.1f} 37 {collar + 20:.1f} 51 {73.5 - 0.42 * rise:.1f}"
        drawn += _stitches(edge, look.light)
    if look.price > 0.4:  # a cap on the toe
        drawn += _fill("M77 72.4C85 75.6 91 77 92 83Q92 84 91.6 84H73Q73 77 77 72.4Z", look.dark, 0.8)
    drawn += _fill("M70 72C80 75 86 77 88 81C80 80 73 77 67 74Z", "#ffffff", 0.28)
    if look.price > 0.6:  # a buckle
        y = 70 - 0.24 * rise
        drawn += f'<path d="M57.5 {y - 1.5:.1f}L65 83" stroke="{look.dark}" stroke-width="5.5"/>'
        drawn += _line(f"M58 {y + 2:.1f}H65V{y + 8:.1f}H58Z", look.paint("metal"), 2)
    return drawn


def _shirt(look: _Look) -> str:
    left = "Q26 87 26 82V43L19 52L7 43L20 25Q24 19 30 17Z"
    body = "M37 14Q50 26 63 14L70 17Q76 19 80 25L93 43L81 52L74 43V82Q74 87 69 87H31" + left
    drawn = look.shadow(36, 91) + look.cloth(body)
    drawn += _fill("M37 14Q50 26 63 14L66.5 15.5Q50 33 33.5 15.5Z", look.dark)
    drawn += _line("M26 44Q25 34 22 29M74 44Q75 34 78 29", look.dark, 1, 0.7)
    drawn += _stitches("M27 83.5H73", look.dark)
    drawn += _line("M36 50Q40 66 36 80M65 55Q61 68 64 79", INK, 1.6, 0.08)
    return look.sized(drawn, 0.55, 91)


def _mug(look: _Look) -> str:
    drawn = look.shadow(36) + _line("M67 42H74Q85 42 85 55Q85 70 67 72", look.dark, 6.5)
    drawn += look.cloth("M20 32H68V76Q68 88 56 88H32Q20 88 20 76Z")
    drawn += _fill("M25 38V75Q25 81 29 84Q30 60 30 38Z", "#ffffff", 0.25)
    drawn += _oval(44, 32, 24, 5.6, look.light) + _oval(44, 32.6, 21, 4.2, "#5b3a29")
    drawn += _line("M36 25C32 20 40 16 36 10M44 24C40 18 48 14 44 7M52 25C48 20 56 16 52 10", INK, 1.8, 0.16)
    return look.sized(drawn, 0.52)


def _lamp(look: _Look) -> str:
    bright, metal = look.part("brightness"), look.paint("metal")
    foot, shade = 12 + 5 * look.price, "M37 12H63L78 46H22Z"
    drawn = _fill("M22 46L8 88H92L78 46Z", "#ffe08a", 0.42 * bright)
    if "brightness" in look.factors:
        drawn += _dot(50, 40, 22 + 26 * bright, look.paint("glow"))
    drawn += look.shadow(28) + _box(47.8, 44, 4.4, 40, 0, metal)
    if look.price > 0.45:  # a turned stem
        drawn += _oval(50, 66, 4 + 5 * look.price, 9, metal) + _oval(50, 55, 5, 2, metal)
    drawn += _fill(f"M{50 - foot:.1f} 88Q{50 - foot:.1f} 82 50 82Q{50 + foot:.1f} 82 {50 + foot:.1f} 88Z", metal)
    drawn += _fill(shade, look.paint("body")) + _fill(shade, "#fff3c4", 0.62 * bright)
    if look.price > 0.25:  # pleats
        drawn += _line("M43 13L36 45M50 13V45M57 13L64 45", look.dark, 0.8, 0.45)
    drawn += _line("M37 12H63M22 46H78", look.dark, 2)
    if look.price > 0.7:  # a trim and a chain
        drawn += _line("M24 42H76", look.metal, 1.6) + _line("M66 46V58", look.metal, 0.9)
        drawn += _dot(66, 59.5, 1.7, look.metal)
    return look.sized(drawn, 0.55)


def _watch(look: _Look) -> str:
    metal = look.paint("metal")
    drawn = look.shadow(20, 95) + look.cloth("M38 4H62L65 34H35ZM35 66H65L62 96H38Z")
    drawn += _stitches("M40.5 6L38.5 32M59.5 6L61.5 32M38.5 68L40.5 94M61.5 68L59.5 94", look.light)
    drawn += "".join(_dot(50, y, 1.1, look.dark) for y in (81, 86, 91))
    drawn += _box(71, 46, 6, 8, 2, metal) + _dot(50, 50, 25, metal)
    drawn += _dot(50, 50, 20.5, mix("#ffffff", look.colour, 0.06 + 0.1 * look.price))
    marks = 4 if look.price < 0.35 else 12
    for mark in range(marks):
        (x, y), (far_x, far_y) = _on_circle(mark / marks, 16.2), _on_circle(mark / marks, 18.6)
        thick = 1.6 if 4 * mark % marks == 0 else 0.9
        drawn += _line(f"M{x:.1f} {y:.1f}L{far_x:.1f} {far_y:.1f}", INK, thick)
    if look.price > 0.6:  # small dials
        drawn += "".join(_ring(x, y, 4.6, look.metal, 1.2) for x, y in ((42, 54), (58, 54), (50, 62)))
    if look.price > 0.8:  # stones
        drawn += "".join(_dot(*_on_circle(step / 24, 22.8), 1, "#ffffff") for step in range(24))
    drawn += _line("M50 50L41 42M50 50L63 40", INK, 2) + _dot(50, 50, 1.8, look.metal)
    drawn += _fill("M36 36A20 20 0 0 1 58 31L40 62A20 20 0 0 1 36 36Z", "#ffffff", 0.18)
    return look.sized(drawn, 0.5, 93)


def _on_circle(turn: float, radius: float) -> tuple[float, float]:
    """A point on a circle around the centre, `turn` of the way round from the top."""
    angle = 2 * math.pi * turn
    return round(50 + radius * math.sin(angle), 2), round(50 - radius * math.cos(angle), 2)


_DRAWINGS: dict[str, Callable[[_Look], str]] = {
    "bags": _bag, "phone cases": _case, "shoes": _shoe, "T-shirts": _shirt, "mugs": _mug, "lamps": _lamp,
    "watches": _watch,
}  # fmt: skip


def _along(codes: tuple[str, ...], part: float) -> str:
    """The colour `part` (0 … 1) of the way along a row of colours."""
    place = min(max(part, 0.0), 1.0) * (len(codes) - 1)
    left = min(int(place), len(codes) - 2)
    return mix(codes[left], codes[left + 1], place - left)


def _printable(text: str) -> str:
    """Without the characters that XML does not allow."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
