"""Drawings of maps: what colours mean, and the key."""

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from macrid.data.attributes import read_attribute
from macrid.errors import MacridError
from macrid.pictures import plots
from macrid.pictures.drawing import NO_COLOUR, PALETTE, save

CONCEPTS = [2, 0, 0, 2, 5]


def a_map(concepts=CONCEPTS, users=(0, 2, 1)):
    x = np.arange(len(concepts), dtype=float).tolist()
    placed = {"x": x, "y": x[::-1], "concept": list(concepts), "position": list(range(len(concepts)))[::-1]}
    return {"items": placed, "users": {"x": [0.5] * len(users), "y": [1.5] * len(users), "concept": list(users)}}


def attribute(values):
    return read_attribute("kind", pa.chunked_array([pa.array(values)]))


def texts(panel):
    return [text.get_text() for text in panel.texts]


def test_items_and_users_have_the_colour_of_their_concept():
    found = a_map()
    colouring = plots.by_concept(found, {0: "mugs"})
    assert colouring.of_items == [PALETTE[rank] for rank in (1, 0, 0, 1, 2)]
    items, users, _ = plots.map_figure(found, colouring).axes
    assert users.get_title(loc="left") == "Users by concept"
    drawn = {to_hex(colour).upper() for colour in users.collections[1].get_facecolors()}
    assert drawn == {PALETTE[0], PALETTE[1], PALETTE[3]}
    assert len(items.collections[0].get_offsets()) == 5


def test_the_smallest_concepts_go_without_a_colour():
    sizes = [1, 1, *[3] * 12]
    found = a_map([concept for concept, size in enumerate(sizes) for _ in range(size)])
    grey = [name for shade, name, _ in plots.by_concept(found, {}).key if shade == NO_COLOUR]
    assert grey == ["0", "1"]


def test_the_key_lists_concepts_with_a_typical_item_and_their_size():
    colouring = plots.by_concept(a_map(), {0: "mugs"})
    assert colouring.key == [
        (PALETTE[0], "0  mugs", 2),
        (PALETTE[3], "1", 0),  # users only
        (PALETTE[1], "2", 2),
        (PALETTE[2], "5", 1),
    ]
    key = plots.map_figure(a_map(), colouring).axes[2]
    assert texts(key)[:4] == ["concept, with a typical item", "items", "0  mugs", "2"]


def test_colours_by_attribute_follow_the_positions_of_items():
    """The map lists them last to first."""
    colouring = plots.by_attribute(a_map(), attribute(["mug", "mug", "bag", "bag", "mug"]))
    mug, bag = PALETTE[:2]
    assert colouring.of_items == [mug, bag, bag, mug, mug]
    assert colouring.key == [(mug, "mug", 3), (bag, "bag", 2)]
    assert set(colouring.concept_axes.values()) == {"#666666"}
    assert plots.map_figure(a_map(), colouring).axes[1].get_title(loc="left") == "Users"


def test_an_item_without_a_value_is_unknown():
    colouring = plots.by_attribute(a_map(), attribute(["mug", "mug", "bag", "bag", None]))
    assert colouring.of_items[0] == plots.UNKNOWN
    assert colouring.key[-1] == (plots.UNKNOWN, "unknown", 1)


def test_an_item_with_several_values_has_the_colour_of_the_rarest():
    colouring = plots.by_attribute(a_map(), attribute(["a|b", "a", "a", "a|b", "a"]))
    a, b = PALETTE[:2]
    assert colouring.of_items == [a, b, a, a, b]


def test_values_beyond_the_palette_are_grouped_as_others():
    values = [f"v{n:02d}" for n in range(14) for _ in range(3)]
    colouring = plots.by_attribute(a_map([0] * 42), attribute(values))
    assert colouring.key[-1] == (NO_COLOUR, "others", 6)
    assert sum(count for *_, count in colouring.key) == 42


def test_numbers_are_coloured_by_their_order():
    prices = np.linspace(1, 100, 200)
    colouring = plots.by_attribute(a_map([0] * 200), attribute(prices))
    assert len({shade for shade, *_ in colouring.key}) == len(colouring.key) == 10
    assert colouring.of_items[-1] == colouring.key[0][0]  # the first item is the cheapest, and last on the map
    assert colouring.of_items[0] == colouring.key[-1][0]


@pytest.mark.parametrize("users", [(), (0, 1)])
def test_a_map_is_drawn_with_and_without_users(tmp_path, users):
    found = a_map(users=users)
    save(plots.map_figure(found, plots.by_concept(found, {0: "a $5 \\frac$ title " * 9})), tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        picture.load()
        assert picture.width > 2 * picture.height


def test_a_long_key_says_how_many_lines_are_hidden():
    found = a_map(list(range(25)))
    key = plots.map_figure(found, plots.by_concept(found, {})).axes[2]
    assert texts(key)[-1] == "and 9 more"


def test_a_path_that_cannot_be_written_is_an_error(tmp_path):
    found = a_map()
    with pytest.raises(MacridError, match=r"map\.png: .*No such file"):
        save(plots.map_figure(found, plots.by_concept(found, {})), tmp_path / "nowhere" / "map.png")
