"""Strips of items: complete, escaped, and written atomically."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image

from macrid.data.shop import pictures
from macrid.errors import MacridError
from macrid.pictures import strips, svg
from macrid.pictures.drawing import new_figure
from macrid.pictures.strips import Cell, Strip, draw_strip, strip_figure, strip_page

HOSTILE = "</li><script>alert('1')</script> & \"$5^\\frac$\" <b onmouseover=x>"
RED = pictures.picture("bags", {"size": 0.5, "colour": -1.0, "price": 0.9, "style": 0.3}, "a red bag")


class Reader(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, text):
        self.texts.append(text)


def a_strip(count=4, picture=RED, **changes):
    cells = [Cell(f"bag {place}", f"{place - 2:+d}", picture, place == 1) for place in range(count)]
    return Strip("size, from small to large", cells, "small", "large")._replace(**changes)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_page_has_every_cell_in_order_and_one_start_per_strip():
    page = Reader(strip_page([a_strip(4), a_strip(3, picture=None)]))
    shown = [text for text in page.texts if text.startswith("bag")]
    assert shown == [f"bag {place}" for place in (0, 1, 2, 3, 0, 1, 2)]
    assert page.tags.count("li") == 7
    assert page.tags.count("svg") == 4
    assert [value for name, value in page.attributes if name == "class"].count("start") == 2
    assert {"small", "large", "size, from small to large", "+1"} <= set(page.texts)


def test_hostile_titles_are_escaped():
    strip = Strip(HOSTILE, [Cell(HOSTILE, HOSTILE), Cell(HOSTILE, HOSTILE, RED)], HOSTILE, HOSTILE)
    page = Reader(strip_page([strip]))
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert page.tags.count("li") == 2
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.texts.count(HOSTILE) == 8  # the page's title, the strip's, two ends, two captions and two values
    assert ("title", HOSTILE) in page.attributes


def test_a_page_fetches_nothing_and_follows_the_readers_settings():
    page = strip_page([a_strip()])
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\"\s<]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not {"src", "href"} & {name for name, _ in Reader(page).attributes}
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page


def test_a_lone_surrogate_in_a_title_becomes_a_question_mark(tmp_path):
    draw_strip([a_strip(title="half \ud83d of one")], tmp_path / "strip.html")
    assert "half ? of one" in (tmp_path / "strip.html").read_text(encoding="utf-8")


def test_a_figure_has_every_caption_and_value_and_both_ends():
    shown = texts(strip_figure([a_strip(4), a_strip(2, picture=None, low="", high="very very large indeed")]))
    assert [text for text in shown if text.startswith("bag")] == [f"bag {place}" for place in (0, 1, 2, 3, 0, 1)]
    assert [text for text in shown if text[0:1] in "+-" and text] == ["-2", "-1  start", "+0", "+1", "-2", "-1  start"]
    assert {"small", "large", "very very\nlarge indeed"} <= set(shown)


def test_long_titles_are_wrapped_and_shortened_and_dollars_are_literal(tmp_path):
    strip = Strip("t" * 500, [Cell("word $x^2$ " * 40, "$1"), Cell("w" * 500, "2", RED)])
    captions = [text for text in texts(strip_figure([strip])) if text.startswith("w")]
    assert [len(caption.splitlines()) for caption in captions] == [6, 3]
    assert all(caption.endswith("…") for caption in captions)
    draw_strip([strip], tmp_path / "strip.png")


def test_strips_are_stacked():
    one, two = strip_figure([a_strip()]), strip_figure([a_strip(), a_strip(2)])
    assert two.get_figwidth() == one.get_figwidth()
    assert two.get_figheight() > 1.8 * one.get_figheight()
    assert strip_figure([a_strip(8)]).get_figwidth() > 1.5 * one.get_figwidth()


@pytest.mark.parametrize(
    ("name", "first"),
    [("s.png", b"\x89PNG"), ("s.svg", b"<?xml"), ("s.pdf", b"%PDF"), ("s.html", b"<!doctype"), ("s.HTM", b"<!doctype")],
)
def test_the_suffix_determines_the_format(tmp_path, name, first):
    draw_strip([a_strip(2)], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(first)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["strip.gif", "strip"])
def test_an_unknown_suffix_is_an_error_that_lists_the_known_ones(tmp_path, name):
    with pytest.raises(MacridError, match=rf"{name}: .*\.html, \.png, \.svg, \.pdf"):
        draw_strip([a_strip()], tmp_path / name)


def test_no_strips_are_an_error_and_an_empty_strip_says_so(tmp_path):
    with pytest.raises(MacridError, match=r"strip\.png"):
        draw_strip([], tmp_path / "strip.png")
    assert "no items in this range" in texts(strip_figure([a_strip(0)]))
    assert "no items in this range" in Reader(strip_page([a_strip(0)])).texts


@pytest.mark.parametrize("name", ["strip.png", "strip.html"])
def test_a_path_that_cannot_be_written_is_an_error(tmp_path, name):
    with pytest.raises(MacridError, match=f"{name}: .*No such file"):
        draw_strip([a_strip(1)], tmp_path / "nowhere" / name)


def test_titles_in_any_script_are_drawn_without_a_warning(tmp_path):
    draw_strip([Strip("価格", [Cell("人民币 сумка", "1")])], tmp_path / "strip.png")


def drawn(picture, pixels=200):
    """(y, x, 3) of a picture on white."""
    figure = new_figure(2, 2)
    figure.set_dpi(pixels / 2)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, 2), ylim=(2, 0), autoscale_on=False)
    panel.set_axis_off()
    svg.draw_picture(panel, picture, 0, 0, 2)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] / 255


def inline(*shapes):
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">{"".join(shapes)}</svg>'


def colours_at(picture, *points):
    image = drawn(picture)
    return [tuple(np.round(image[int(2 * y), int(2 * x)], 2).tolist()) for x, y in points]


def test_shapes_are_drawn_in_place():
    picture = inline(
        '<rect x="10" y="20" width="30" height="10" rx="0" fill="#ff0000"/>',
        '<circle cx="70" cy="25" r="10" fill="#0000ff" opacity="0.50"/>',
        '<path d="M10 60H40V80Q25 90 10 80Z" fill="#00ff00"/>',
        '<g transform="translate(50 50) scale(0.5)"><ellipse cx="40" cy="40" rx="30" ry="10" fill="#000000"/></g>',
    )
    found = colours_at(picture, (11, 21), (39, 29), (41, 25), (70, 25), (25, 82), (25, 88), (58, 70), (70, 76))
    red, blue, green, black, white = (1, 0, 0), (0.5, 0.5, 1), (0, 1, 0), (0, 0, 0), (1, 1, 1)
    assert found == [red, red, white, blue, green, white, black, white]


def test_a_rotation_is_about_its_point_and_clockwise():
    picture = inline('<g transform="rotate(90 50 50)"><path d="M45 10H55V30H45Z" fill="#ff0000"/></g>')
    assert colours_at(picture, (80, 50), (50, 20)) == [(1, 0, 0), (1, 1, 1)]


def test_an_arc_bulges_to_the_side_of_its_sweep_flag():
    picture = inline('<path d="M20 50A30 30 0 0 1 80 50Z" fill="#ff0000"/>')
    assert colours_at(picture, (50, 22), (50, 55), (22, 25)) == [(1, 0, 0), (1, 1, 1), (1, 1, 1)]
    picture = inline('<path d="M20 50A30 30 0 0 0 80 50Z" fill="#ff0000"/>')
    assert colours_at(picture, (50, 45), (50, 78)) == [(1, 1, 1), (1, 0, 0)]


def test_a_gradient_runs_from_its_first_colour_to_its_last():
    picture = inline(
        '<defs><linearGradient id="g" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#000000"/>'
        '<stop offset="1" stop-color="#ff0000"/></linearGradient></defs>'
        '<rect x="20" y="20" width="60" height="60" fill="url(#g)"/>'
    )
    top, middle, bottom, outside = colours_at(picture, (50, 21), (50, 50), (50, 79), (50, 81.5))
    assert (top[0], middle[0], bottom[0]) == pytest.approx((0, 0.5, 1), abs=0.04)
    assert outside == (1, 1, 1)


def test_a_pattern_repeats_only_within_its_shape():
    picture = inline(
        '<defs><pattern id="p" width="10" height="10" patternUnits="userSpaceOnUse">'
        '<g opacity="1.00"><circle cx="5" cy="5" r="3" fill="#ff0000"/></g></pattern></defs>',
        '<path d="M20 20H80V80H20Z" fill="url(#p)"/>',
    )
    found = colours_at(picture, (25, 25), (75, 75), (30, 30), (15, 25), (85, 85))
    assert found == [(1, 0, 0), (1, 0, 0), (1, 1, 1), (1, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize("category", pictures._DRAWINGS)
@pytest.mark.parametrize("price", [-1.0, 0.0, 1.0])
def test_every_picture_of_the_shop_can_be_drawn(category, price):
    factors = {"price": price, "colour": 1.0, "size": 1.0, "style": price, "heel": price, "brightness": price}
    image = drawn(pictures.picture(category, factors), pixels=60)
    backdrop = to_rgb(pictures.mix(pictures.PAPER, pictures.colour_code(1.0), 0.10))
    assert image[30, 1] == pytest.approx(backdrop, abs=0.01)  # left of all things
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50


def test_the_pictures_and_the_frame_of_the_start_are_in_the_png(tmp_path):
    draw_strip([a_strip(2)], tmp_path / "strip.png")
    with Image.open(tmp_path / "strip.png") as image:
        shades = np.asarray(image.convert("RGB")).reshape(-1, 3) / 255
    flap = pictures.mix(pictures.colour_code(-1.0), pictures.INK, 0.32)
    for colour in (flap, strips.START):
        assert (np.abs(shades - to_rgb(colour)).max(axis=1) < 0.01).sum() > 100
