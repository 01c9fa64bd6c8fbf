"""Walks that change one thing: on a shelf of watches whose factors are known, and on a trained shop."""

import copy
import json

import numpy as np
import pyarrow as pa
import pytest
import torch

import macrid
from macrid.concepts.meaning import meaning_of
from macrid.concepts.naming import find
from macrid.concepts.space import space_of
from macrid.control.holding import held_of
from macrid.control.traverse import traverse
from macrid.data.ids import Ids
from macrid.errors import RequestError

COLOUR, SIZE, METAL = 1, 2, 3  # dimensions; 0 is the concept
COLOURS = ("red", "orange", "amber", "olive", "green", "teal", "blue", "navy")
SIZES = ("petite", "small", "large", "oversized")
METALS = ("plastic", "steel", "silver", "gold")


def shelf(missing=(), seed=0, noise=0.01):
    """A model of one concept with a watch of every colour, size and metal, three of each, except those missing.

    Item vectors follow the factors with noise: a walk by vectors alone strays.
    """
    random = np.random.default_rng(seed)
    kinds = [
        (c, s, m) for c in range(8) for s in range(4) for m in range(4) for _ in range(3) if (c, s, m) not in missing
    ]
    factors = np.array(kinds, dtype=float)
    vectors = np.zeros((len(kinds), 12))
    vectors[:, 0] = 0.6
    vectors[:, [COLOUR, SIZE, METAL]] = (factors / (7, 3, 3) - 0.5) * (0.8, 0.25, 0.25)
    vectors += noise * random.normal(size=vectors.shape)
    vectors[:, 4:] += 0.15 * random.normal(size=(len(kinds), 8))  # taste, which nobody has a name for
    model = macrid.MacridVAE(concepts=1, dim=12)
    model.items = Ids([f"watch-{at:03}" for at in range(len(kinds))])
    model.table = pa.table(
        {
            "title": [f"{SIZES[s]} {METALS[m]} watch, {COLOURS[c]} strap" for c, s, m in kinds],
            "coolness": factors[:, 0] / 3.5 - 1 + 0.02 * random.normal(size=len(kinds)),
            "colour": [COLOURS[c] for c, _, _ in kinds],
            "size": 2.6 + 0.7 * factors[:, 1] + 0.01 * random.normal(size=len(kinds)),
            "metal": [METALS[m] for _, _, m in kinds],
            "price": np.round(35.0 * 4 ** factors[:, 2] * np.exp(0.02 * random.normal(size=len(kinds))), 2),
            "tags": [["watch"] + ["quartz"] * (m < 2) + ["gift"] * (s % 2) for _, s, m in kinds],
            "heel": pa.nulls(len(kinds), pa.float64()),
        }
    )
    model.popularity = random.integers(1, 100, len(kinds))
    model.network = model._build(len(kinds))
    model.network.initialise(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.network.item_vectors.copy_(torch.from_numpy(vectors))
        model.network.prototypes.copy_(torch.eye(12)[:1])
    meaning_of(model).names = find(model)
    return model


@pytest.fixture(scope="module")
def watches():
    return shelf()


@pytest.fixture(scope="module")
def understood(trained):
    """The small shop along named axes."""
    model = copy.deepcopy(trained[0])
    macrid.understand(model)
    return model


def item_of(model, title):
    return model.items[model.table.column("title").to_pylist().index(title)]


def rows_of(model, traversal):
    return [model.table.slice(int(at), 1).to_pylist()[0] for at in model.items.positions(traversal.ids)]


def test_along_colour_all_watches_keep_size_and_metal(watches):
    start = item_of(watches, "oversized silver watch, blue strap")
    held, plain = (traverse(watches, start, COLOUR, keep_start=True, hold=hold) for hold in (True, False))
    assert {(row["metal"], row["title"].split()[0]) for row in rows_of(watches, held)} == {("silver", "oversized")}
    assert len({row["metal"] for row in rows_of(watches, plain)}) > 1
    assert held.name == "coolness"
    assert held.held == ("size", "metal", "price", "tags")
    assert held.tied == ("colour",)
    colours = [COLOURS.index(row["colour"]) for row in rows_of(watches, held)]
    assert colours == sorted(colours)
    assert len(set(colours)) >= 7


def test_what_the_catalogue_lacks_gives_way_and_nothing_else():
    """Without green and teal oversized silver watches, these two stops differ in one attribute each, or its twin."""
    model = shelf(missing=[(c, 3, 2) for c in (4, 5)])
    walk = traverse(
        model, item_of(model, "oversized silver watch, blue strap"), COLOUR, keep_start=True, hold=["size", "metal"]
    )
    lost = [len(stop.differs) for stop in walk.items]
    assert max(lost) <= 1
    assert sum(lost) <= 2
    for stop, row in zip(walk.items, rows_of(model, walk), strict=True):
        assert ("size" in stop.differs) == (not row["title"].startswith("oversized"))
        assert ("metal" in stop.differs) == (row["metal"] != "silver")


def test_stops_go_along_the_dimension_and_its_attribute(watches):
    space = space_of(watches)
    for place in range(0, len(watches.items), 17):
        walk = traverse(watches, watches.items[place], COLOUR)
        values = [stop.value for stop in walk.items]
        assert values == sorted(set(values))
        along = [row["coolness"] for row in rows_of(watches, walk)]
        assert (np.diff(along) > -0.1 * 2).all()
        assert values == pytest.approx(space.items[watches.items.positions(walk.ids), COLOUR])


def test_the_differences_of_a_stop_are_those_of_the_table(watches):
    for place in range(0, len(watches.items), 23):
        start = watches.table.slice(place, 1).to_pylist()[0]
        walk = traverse(watches, watches.items[place], SIZE)
        for stop, row in zip(walk.items, rows_of(watches, walk), strict=True):
            for name in ("metal", "colour", "tags"):
                assert (name in stop.differs) == (row[name] != start[name]), name
            assert "size" not in (*stop.differs, *walk.held)


def test_only_the_attributes_asked_for_are_held(watches):
    start = item_of(watches, "petite gold watch, red strap")
    walk = traverse(watches, start, COLOUR, hold=["metal"])
    assert walk.held == ("metal",)
    assert {row["metal"] for row in rows_of(watches, walk)} == {"gold"}
    assert len({row["title"].split()[0] for row in rows_of(watches, walk)}) > 1
    assert traverse(watches, start, COLOUR, hold=("metal",)) == walk
    assert traverse(watches, start, COLOUR, hold=[]) == traverse(watches, start, COLOUR, hold=False)


def test_an_attribute_that_moves_along_is_held_if_asked_for(watches):
    walk = traverse(watches, item_of(watches, "petite gold watch, green strap"), COLOUR, 3, hold=["colour"])
    assert (walk.held, walk.tied) == (("colour",), ())
    rows = rows_of(watches, walk)
    assert [not stop.differs for stop in walk.items] == [row["colour"] == "green" for row in rows]
    assert rows[0]["colour"] != "green"  # the low end is of other colours


def test_along_a_tag_the_other_tags_are_held(watches):
    model = copy.deepcopy(watches)
    names = meaning_of(model).names
    entry = names.dimension(0, METAL).model_copy(
        update={"name": "quartz", "attribute": "tags: quartz", "direction": -1, "kind": "tag"}
    )
    dimensions = tuple(entry if each.dimension == METAL else each for each in names.dimensions)
    meaning_of(model).names = type(names)(names.concepts, dimensions)
    walk = traverse(model, item_of(model, "oversized steel watch, orange strap"), METAL, keep_start=True)
    assert "other tags" in walk.held
    assert traverse(model, walk.ids[0], METAL, hold=["tags"]) == traverse(
        model, walk.ids[0], METAL, hold=["other tags"]
    )
    rows = rows_of(model, walk)
    has_quartz = ["quartz" in row["tags"] for row in rows]
    assert has_quartz == sorted(has_quartz, reverse=True)
    assert {True, False} == set(has_quartz)
    assert {tuple(set(row["tags"]) - {"quartz", "watch"}) for row in rows} == {("gift",)}
    assert walk.tied == ("metal", "price")


def test_a_dimension_named_by_a_person_is_held_by_its_coordinate(watches):
    model = copy.deepcopy(watches)
    assert "romance" not in traverse(model, model.items[0], COLOUR).held
    meaning_of(model).names = meaning_of(model).names.renamed_dimension(0, 7, name="romance")
    before, after = (traverse(each, each.items[0], COLOUR, keep_start=True) for each in (watches, model))
    assert after.held == (*before.held, "romance")
    taste = space_of(model).items[:, 7]
    there = {
        name: np.abs(taste[model.items.positions(walk.ids)] - taste[0]).mean()
        for name, walk in (("before", before), ("after", after))
    }
    assert there["after"] < 0.6 * there["before"]
    only = traverse(model, model.items[0], COLOUR, hold=["romance"], keep_start=True)
    assert only.held == ("romance",)


def test_a_dimension_of_an_attribute_the_start_lacks_is_held_by_its_coordinate(watches):
    model = copy.deepcopy(watches)
    place = int(model.items.positions([item_of(model, "large steel watch, orange strap")])[0])
    sizes = model.table.column("size").to_pylist()
    sizes[place] = None
    model.table = model.table.set_column(model.table.column_names.index("size"), "size", pa.array(sizes))
    model.cached = None
    walk = traverse(model, model.items[place], COLOUR)
    assert walk.held == ("metal", "price", "tags", "size")
    with pytest.raises(RequestError, match="'heel'"):
        traverse(model, model.items[place], COLOUR, hold=["heel"])


def test_items_without_the_attribute_lack_it(watches):
    model = copy.deepcopy(watches)
    metals = model.table.column("metal").to_pylist()
    start = int(model.items.positions([item_of(model, "small silver watch, teal strap")])[0])
    unknown = [None if at % 2 and at != start else metal for at, metal in enumerate(metals)]
    model.table = model.table.set_column(model.table.column_names.index("metal"), "metal", pa.array(unknown))
    model.cached = None
    held = held_of(space_of(model), 0, COLOUR, start)
    column = held.lost[:, held.names.index("metal")]
    assert (column == [float(metal != "silver") for metal in unknown]).all()


@pytest.mark.parametrize("hold", [True, ["metal", "size"]])
def test_rare_items_are_left_out_of_a_walk_that_holds(watches, hold):
    place = int(np.argmin(watches.popularity))
    walk = traverse(watches, watches.items[place], COLOUR, min_users=50, keep_start=True, hold=hold)
    positions = watches.items.positions(walk.ids)
    assert place in positions
    assert (watches.popularity[positions[positions != place]] >= 50).all()
    start = watches.table.column("metal").to_pylist()[place]
    for stop, row in zip(walk.items, rows_of(watches, walk), strict=True):
        assert ("metal" in stop.differs) == (row["metal"] != start)


def test_without_attributes_the_walk_is_the_papers(watches):
    model = copy.deepcopy(watches)
    meaning_of(model).names = None
    for table in (None, model.table.select(["title", "heel"])):
        model.table, model.cached = table, None
        for place in range(0, len(model.items), 40):
            walk = traverse(model, model.items[place], COLOUR, keep_start=True)
            assert walk == traverse(model, model.items[place], COLOUR, keep_start=True, hold=False)
            assert (walk.held, walk.tied) == ((), ())


def test_a_history_holds_nothing(watches):
    history = list(watches.items[:5])
    walk = traverse(watches, history=history, concept=0, dimension=COLOUR)
    assert walk == traverse(watches, history=history, concept=0, dimension=COLOUR, hold=False)
    with pytest.raises(RequestError, match="history"):
        traverse(watches, history=history, concept=0, dimension=COLOUR, hold=["metal"])


@pytest.mark.parametrize(
    ("hold", "value"),
    [
        ("metal", "hold is 'metal'"),
        ([1], r"hold is \[1\]"),
        (3, "hold is 3"),
        (None, "hold is None"),
        (["metall"], "'metall'.*size, metal, price"),
        (["coolness"], "'coolness'"),  # walked along
        (["popularity"], "'popularity'"),
        (["title"], "'title'"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(watches, hold, value):
    with pytest.raises(RequestError, match=value):
        traverse(watches, watches.items[0], COLOUR, hold=hold)


def test_on_a_trained_shop_walks_keep_more_and_still_move(understood):
    """The promise, over all named dimensions: more is kept, and the attribute walked along moves as far."""
    space, random = space_of(understood), np.random.default_rng(0)
    kept, moves = {True: [], False: []}, {True: [], False: []}
    for entry in space.meaning.dimensions:
        members = space.members(entry.concept)
        if entry.name is None or entry.kind != "number" or len(members) < 12:
            continue
        for start in random.choice(len(members), 5, replace=False):
            held = held_of(space, entry.concept, entry.dimension, int(start))
            for hold in (True, False):
                walk = traverse(
                    understood, understood.items[members[start]], entry.dimension, 6, keep_start=True, hold=hold
                )
                at = np.searchsorted(members, understood.items.positions(walk.ids))
                kept[hold].append((held.lost[at] == 0).mean())
                along = held.along[at]
                moves[hold].append(along[-1] - along[0])
    assert len(kept[True]) > 40
    assert np.mean(kept[True]) > np.mean(kept[False]) + 0.1
    assert np.mean(np.array(kept[True]) >= kept[False]) > 0.9
    assert np.mean(moves[True]) > 0.9 * np.mean(moves[False])


def test_the_json_says_what_was_held_and_what_differs(watches):
    walk = traverse(watches, item_of(watches, "oversized silver watch, blue strap"), METAL)
    answer = json.loads(json.dumps(walk.as_json(), allow_nan=False))
    assert answer["held"] == list(walk.held)
    assert answer["tied"] == (["metal"] if walk.name == "price" else ["price"])
    assert [stop["differs"] for stop in answer["items"]] == [list(stop.differs) for stop in walk.items]
