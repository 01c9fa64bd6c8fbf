"""The shop's pictures in matplotlib, which cannot read SVG: the shapes, paints and path commands that they use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

NAMESPACE = "{http://www.w3.org/2000/svg}"
GRADIENT_PIXELS = 32  # per side, interpolated
POINTS = 72  # per inch
ZORDER = 2  # of every shape: equal ones are drawn in the order they are added


class _Tiles(NamedTuple):
    """Where a pattern is repeated, and the outline that clips it."""

    offsets: np.ndarray
    """(tiles, 2)"""
    path: Path
    place: Affine2D


def draw_picture(panel: Axes, picture: str, x: float, y: float, side: float) -> None:
    """Draw an SVG of 100 × 100 units at (x, y), `side` wide, on a panel in inches with y downwards.

    picture: from `macrid.data.shop.pictures`.
    """
    from matplotlib.transforms import Affine2D

    root = ElementTree.fromstring(picture)
    paints = {f"url(#{node.get('id')})": node for node in root.iter() if node.get("id")}
    _Painter(panel, paints).group(root, Affine2D().scale(side / 100).translate(x, y), 1.0)


class _Painter:
    def __init__(self, panel: Axes, paints: dict[str, ElementTree.Element]) -> None:
        self.panel, self.paints = panel, paints

    def group(self, group: ElementTree.Element, place: Affine2D, opacity: float, tiles: _Tiles | None = None) -> None:
        for node in group:
            kind = node.tag.removeprefix(NAMESPACE)
            inner, faint = _placed(node.get("transform", ""), place), opacity * float(node.get("opacity", 1))
            if kind == "g":
                self.group(node, inner, faint, tiles)
            elif kind not in ("defs", "title"):
                self.shape(node, _outline(kind, node), inner, faint, tiles)

    def shape(
        self, node: ElementTree.Element, path: Path, place: Affine2D, opacity: float, tiles: _Tiles | None
    ) -> None:
        fill, stroke = node.get("fill", "black"), node.get("stroke", "none")
        paint = self.paints.get(fill)
        if paint is None and fill != "none":
            self.patch(path, place, tiles, facecolor=fill, linewidth=0, alpha=opacity)
        elif paint is not None and paint.tag == NAMESPACE + "pattern":
            side = float(paint.get("width", 1))
            (left, low), (right, high) = path.get_extents().get_points() // side * side
            across, down = np.arange(left, right + side, side), np.arange(low, high + side, side)
            offsets = np.stack(np.meshgrid(across, down), axis=-1).reshape(-1, 2)
            self.group(paint, place, opacity, _Tiles(offsets, path, place))
        elif paint is not None:
            self.gradient(paint, path, place, opacity)
        if stroke != "none":
            paint = self.paints.get(stroke)  # only a gradient's first colour, since lines are thin
            width = float(node.get("stroke-width", 1))
            dashes = tuple(float(part) / width for part in node.get("stroke-dasharray", "").split())
            look: dict[str, Any] = {
                "edgecolor": stroke if paint is None else paint[0].get("stop-color"),
                "alpha": opacity,
            }
            look |= {"linestyle": (0, dashes) if dashes else "-", "capstyle": node.get("stroke-linecap", "butt")}
            scale = abs(np.linalg.det(place.get_matrix()[:2, :2])) ** 0.5
            self.patch(path, place, tiles, fill=False, linewidth=width * scale * POINTS, **look)

    def patch(self, path: Path, place: Affine2D, tiles: _Tiles | None, **look: Any) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        if tiles is not None:
            vertices = (np.asarray(path.vertices)[None] + tiles.offsets[:, None]).reshape(-1, 2)
            path = Path(vertices, np.tile(np.asarray(path.codes), len(tiles.offsets)))
        drawn = PathPatch(path, transform=place + self.panel.transData, zorder=ZORDER, **look)
        self.panel.add_artist(drawn)
        if tiles is not None:
            drawn.set_clip_path(tiles.path, tiles.place + self.panel.transData)

    def gradient(self, paint: ElementTree.Element, path: Path, place: Affine2D, opacity: float) -> None:
        from matplotlib.colors import to_rgba

        middles = (np.arange(GRADIENT_PIXELS) + 0.5) / GRADIENT_PIXELS
        x, y = middles[None, :], middles[:, None]
        if paint.tag == NAMESPACE + "radialGradient":
            part = np.hypot(x - 0.5, y - 0.5) / 0.5
        else:
            x1, y1, x2, y2 = (float(paint.get(name, 0)) for name in ("x1", "y1", "x2", "y2"))
            part = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / ((x2 - x1) ** 2 + (y2 - y1) ** 2)
        offsets = [float(stop.get("offset", 0)) for stop in paint]
        colours = np.array(
            [to_rgba(stop.get("stop-color", "black"), opacity * float(stop.get("stop-opacity", 1))) for stop in paint]
        )
        shades = np.stack([np.interp(part, offsets, channel) for channel in colours.T], axis=-1)  # (y, x, 4)
        (left, top), (right, bottom) = path.get_extents().get_points()
        image = self.panel.imshow(shades, interpolation="bilinear", extent=(left, right, bottom, top), aspect="auto")
        transform = place + self.panel.transData
        image.set(transform=transform, zorder=ZORDER)
        image.set_clip_path(path, transform)


def _placed(text: str, place: Affine2D) -> Affine2D:
    """Apply translate, scale and rotate, last first, then the transformation of the group."""
    from matplotlib.transforms import Affine2D

    result = Affine2D()
    for name, inside in reversed(re.findall(r"(\w+)\(([^)]*)\)", text)):
        first, *others = (float(part) for part in inside.split())
        if name == "rotate":
            result.rotate_deg_around(others[0], others[1], first)
        elif name == "scale":
            result.scale(first)
        else:
            result.translate(first, others[0])
    return Affine2D(place.get_matrix() @ result.get_matrix())


def _outline(kind: str, node: ElementTree.Element) -> Path:
    from matplotlib.patches import BoxStyle
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    def number(name: str) -> float:
        return float(node.get(name, 0))

    if kind == "path":
        return _path(node.get("d", ""))
    if kind == "rect":
        box = BoxStyle.Round(pad=0, rounding_size=number("rx"))
        return box(number("x"), number("y"), number("width"), number("height"), 1)
    radii = (number("r"), number("r")) if kind == "circle" else (number("rx"), number("ry"))
    return Affine2D().scale(*radii).translate(number("cx"), number("cy")).transform_path(Path.unit_circle())


def _path(text: str) -> Path:
    """A path of the absolute commands M, L, H, V, Q, C, A and Z."""
    from matplotlib.path import Path

    kinds = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3, "C": Path.CURVE4}
    points: list[Any] = []
    codes: list[Any] = []
    for command, inside in re.findall(r"([MLHVQCAZ])([^MLHVQCAZ]*)", text):
        numbers = [float(part) for part in re.findall(r"-?[\d.]+(?:e-?\d+)?", inside)]
        if command == "A":
            arc = _arc(points[-1], numbers)
            points += list(arc)
            codes += [Path.LINETO] * len(arc)
            continue
        if command == "Z":
            numbers, code = [*points[-1]], Path.CLOSEPOLY
        elif command in "HV":
            there = points[-1][1 - "HV".index(command)]
            numbers, code = [numbers[0], there] if command == "H" else [there, numbers[0]], Path.LINETO
        else:
            code = kinds[command]
        points += zip(numbers[::2], numbers[1::2], strict=True)
        codes += [code] * (len(numbers) // 2)
    return Path(np.array(points), codes)


def _arc(start: tuple[float, float], numbers: list[float]) -> np.ndarray:
    """(points, 2) along the smaller arc of a circle, in the direction of the sweep flag."""
    radius, sweep, end = numbers[0], numbers[4], np.array(numbers[5:])
    half = (end - start) / 2
    squared = float(half @ half)
    far = max(radius**2 / max(squared, 1e-12) - 1, 0.0) ** 0.5
    middle = np.array(start) + half + far * (1 if sweep else -1) * np.array([-half[1], half[0]])
    first, last = (np.arctan2(y, x) for x, y in (start - middle, end - middle))
    turn = (last - first) % (2 * np.pi) if sweep else -((first - last) % (2 * np.pi))
    angles = first + turn * np.linspace(0, 1, 13)[1:]
    return middle + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
