"""Pictures show what the factors say, are well-formed, and bring nothing in from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, product
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.data.shop.assortment import CATEGORIES, Category
from macrid.data.shop.pictures import COLOURS, STYLES, colour_code, mix, picture, word
from macrid.errors import RequestError

NAMES = [entry.name for entry in CATEGORIES]
SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]


def parse(category: str, **factors: float) -> Element:
    return ElementTree.fromstring(picture(category, factors))


def points(element: Element, scale: float = 1.0, shift: Point = (0.0, 0.0)) -> Iterator[Point]:
    """Corners and control points of everything drawn but the backdrop, in units of the picture."""
    if found := re.match(r"translate\((\S+) (\S+)\)(?: scale\((\S+)\))?", element.get("transform", "")):
        x, y, factor = (float(value or 1) for value in found.groups())
        shift, scale = (shift[0] + scale * x, shift[1] + scale * y), scale * factor
    for child in element:
        if child.tag != f"{SVG}defs":
            yield from points(child, scale, shift)
    for x, y in corners(element):
        yield shift[0] + scale * x, shift[1] + scale * y


def corners(element: Element) -> Iterator[Point]:
    get = {key: float(value) for key, value in element.attrib.items() if re.fullmatch(r"-?[\d.]+", value)}
    if element.tag == f"{SVG}path":
        yield from path_points(element.attrib["d"])
    elif element.tag in (f"{SVG}circle", f"{SVG}ellipse"):
        wide, high = get.get("r", get.get("rx", 0)), get.get("r", get.get("ry", 0))
        yield from product((get["cx"] - wide, get["cx"] + wide), (get["cy"] - high, get["cy"] + high))
    elif element.tag == f"{SVG}rect" and "x" in get:
        yield from product((get["x"], get["x"] + get["width"]), (get["y"], get["y"] + get["height"]))


def path_points(path: str) -> Iterator[Point]:
    x = y = 0.0
    for command, text in re.findall(r"([A-Z])([^A-Z]*)", path):
        values = [float(value) for value in text.split()]
        if command == "H":
            values = [values[0], y]
        elif command == "V":
            values = [x, values[0]]
        elif command == "A":
            values = values[-2:]
        for x, y in zip(values[::2], values[1::2], strict=True):
            yield x, y


def extent(root: Element) -> tuple[float, float]:
    """Width and height of what is drawn."""
    xs, ys = zip(*points(root), strict=True)
    return max(xs) - min(xs), max(ys) - min(ys)


def shapes(root: Element) -> int:
    return sum(1 for _ in root.iter()) - sum(1 for defs in root.iter(f"{SVG}defs") for _ in defs.iter())


def channels(code: str) -> tuple[int, int, int]:
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)


@pytest.mark.parametrize("category", CATEGORIES, ids=NAMES)
def test_pictures_are_well_formed_and_refer_only_to_themselves(category: Category) -> None:
    for values in product((-1.0, -0.3, 0.4, 1.0), repeat=len(category.factors)):
        text = picture(category.name, dict(zip(category.factors, values, strict=True)), "A thing")
        root = ElementTree.fromstring(text)
        assert root.get("viewBox") == "0 0 100 100"
        ids = {element.get("id") for element in root.iter() if element.get("id")}
        assert set(re.findall(r"url\(#(\w+)\)", text)) <= ids
        assert text.count("url(") == text.count("url(#")
        assert not re.search(
            r"href|<script|<style|style=|<image|<foreignObject| on\w+=|https?://(?!www\.w3\.org/2000/svg)", text
        )


@pytest.mark.parametrize("category", [entry.name for entry in CATEGORIES if "size" in entry.factors])
def test_a_larger_item_is_drawn_larger(category: str) -> None:
    sizes = [extent(parse(category, size=size, brightness=0.0)) for size in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    assert all(small[0] < large[0] and small[1] < large[1] for small, large in pairwise(sizes))
    assert sizes[-1][0] > 1.6 * sizes[0][0]


@pytest.mark.parametrize("category", CATEGORIES, ids=NAMES)
def test_nothing_is_drawn_outside_the_picture(category: Category) -> None:
    for values in product((-1.0, 1.0), repeat=len(category.factors)):
        factors = dict(zip(category.factors, values, strict=True))
        for x, y in points(parse(category.name, **factors)):
            assert -1 <= x <= 101
            assert -9 <= y <= 101


def test_a_higher_heel_is_drawn_higher() -> None:
    heights = [extent(parse("shoes", heel=heel))[1] for heel in (-1.0, 0.0, 1.0)]
    assert heights[0] + 15 < heights[1] < heights[2] - 15


@pytest.mark.parametrize("category", NAMES)
def test_the_colour_of_an_item_is_in_its_picture(category: str) -> None:
    for value, strongest in ((-1.0, 0), (0.1, 1), (1.0, 2)):
        root = parse(category, colour=value)
        gradient = next(one for one in root.iter(f"{SVG}linearGradient") if one.attrib["id"].endswith("body"))
        for stop in gradient:
            seen = channels(stop.attrib["stop-color"])
            assert max(range(3), key=lambda channel: seen[channel]) == strongest
        assert f"url(#{gradient.attrib['id']})" in ElementTree.tostring(root, encoding="unicode")


@pytest.mark.parametrize("category", [entry.name for entry in CATEGORIES if "price" in entry.factors])
def test_a_more_expensive_item_has_more_detail(category: str) -> None:
    details = [shapes(parse(category, price=price)) for price in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    assert details == sorted(details)
    assert details[-1] >= details[0] + 3


@pytest.mark.parametrize("category", [entry.name for entry in CATEGORIES if "style" in entry.factors])
def test_each_style_has_its_own_pattern(category: str) -> None:
    drawn = []
    for place in range(len(STYLES)):
        root = parse(category, style=-1 + (2 * place + 1) / len(STYLES))
        drawn.append([ElementTree.tostring(child) for one in root.iter(f"{SVG}pattern") for child in one.iter("*")])
    assert drawn[0] == []
    assert all(drawn[1:])
    assert len({str(one) for one in drawn}) == len(STYLES)


def test_a_brighter_lamp_shines_more() -> None:
    def glow(brightness: float) -> float:
        root = parse("lamps", brightness=brightness)
        spot = next(one for one in root.iter(f"{SVG}radialGradient") if one.attrib["id"].endswith("glow"))
        return float(spot[0].attrib["stop-opacity"])

    assert glow(-1) < glow(0) < glow(1)


@given(st.text())
def test_any_title_is_shown_as_text(title: str) -> None:
    root = ElementTree.fromstring(picture("mugs", {}, title))
    assert root[0].tag == f"{SVG}title"
    assert len(root[0]) == 0


def test_markup_in_a_title_is_escaped() -> None:
    title = "</title><script>alert(\"1\")</script> & 'tea'"
    text = picture("mugs", {}, title)
    assert "<script" not in text
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == title == root[0].text


def test_characters_that_xml_does_not_allow_are_dropped() -> None:
    root = ElementTree.fromstring(picture("mugs", {}, "A\x00 mug\x08\ud800"))
    assert root[0].text == "A mug"
    assert ElementTree.fromstring(picture("mugs", {}, "\x00"))[0].text == "mugs"


def test_pictures_of_different_items_share_no_ids() -> None:
    first, second = (parse("bags", size=0.0, colour=colour, style=1.0) for colour in (0.1, 0.2))
    ids = [{one.get("id") for one in root.iter() if one.get("id")} for root in (first, second)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])


def test_missing_and_extreme_factors_are_drawn_sensibly() -> None:
    assert picture("bags", {"size": float("nan")}) == picture("bags", {})
    assert picture("bags", {"size": 7.0}) == picture("bags", {"size": 1.0})


def test_an_unknown_category_is_named_with_those_that_exist() -> None:
    with pytest.raises(RequestError, match=r"'pianos'.* bags, phone cases"):
        picture("pianos", {})


def test_colours_go_from_warm_to_cool_and_agree_with_their_names() -> None:
    middles = [-1 + (2 * place + 1) / len(COLOURS) for place in range(len(COLOURS))]
    assert [(word(tuple(COLOURS), value), colour_code(value)) for value in middles] == list(COLOURS.items())
    assert colour_code(-1) == COLOURS["red"]
    assert colour_code(1) == COLOURS["navy"]
    assert mix("#000000", "#ffffff", 0.5) == "#808080"


def test_words_divide_the_range_into_equal_parts() -> None:
    assert [word(("low", "middle", "high"), value) for value in (-1, -0.4, -0.3, 0.3, 0.4, 1)] == [
        "low", "low", "middle", "middle", "high", "high",
    ]  # fmt: skip
