"""Traversing a trained model: which items, in which order, and where the range ends, against closed forms."""

import copy
import json
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import macrid
from macrid.concepts.axes import use
from macrid.concepts.meaning import Axes, meaning_of
from macrid.concepts.naming import find
from macrid.concepts.space import space_of
from macrid.control.traverse import Stop, traverse
from macrid.control.walk import walk
from macrid.errors import MacridError, RequestError, UnknownItemsWarning
from tests.planted import PAIRS, SIZE, planted


@pytest.fixture(scope="module")
def turned(trained):
    """The trained model, looked at along other axes."""
    model = copy.deepcopy(trained[0])
    random = np.random.default_rng(5)
    rotation = np.stack([np.linalg.qr(random.normal(size=(16, 16)))[0] for _ in range(7)])
    use(model, Axes("independence", rotation.astype(np.float32)))
    return model


@pytest.fixture(scope="module")
def world():
    return planted()


def change(vector, axis, prototypes, concept):
    """Where another prototype becomes the closest, below and above: float64, in the original coordinates."""
    below, above, here = -np.inf, np.inf, float(vector @ axis)
    for other, prototype in enumerate(prototypes):
        if other == concept:
            continue
        lead, slope = (prototypes[concept] - prototype) @ vector, (prototypes[concept] - prototype) @ axis
        if slope > 0:
            below = max(below, here - lead / slope)
        if slope < 0:
            above = min(above, here - lead / slope)
    return below, above


def unit(table):
    table = table.detach().double().numpy()
    return table / np.linalg.norm(table, axis=1, keepdims=True)


places = {"place": st.integers(0, 159), "dimension": st.integers(0, 15), "is_turned": st.booleans()}


@settings(max_examples=60, deadline=None)
@given(**places, steps=st.integers(1, 30), gamma=st.sampled_from([0.0, 0.3, 5.0]))
def test_values_increase_over_items_of_one_concept_including_the_start(
    trained, turned, place, dimension, is_turned, steps, gamma
):
    model = turned if is_turned else trained[0]
    item, space = model.items[place], space_of(model)
    traversal = traverse(model, item, dimension, steps, gamma=gamma, keep_start=True)
    values = [stop.value for stop in traversal.items]
    assert values == sorted(set(values))
    assert 1 <= len(values) <= steps == traversal.steps
    assert [stop.id for stop in traversal.items if stop.is_start] == [item]
    positions = model.items.positions(traversal.ids)
    assert set(space.concept_of[positions]) == {traversal.concept} == {space.concept_of[place]}
    coordinates = unit(model.network.item_vectors) @ space.axes(traversal.concept)[dimension]
    assert values == pytest.approx(coordinates[positions], abs=1e-6)
    assert traversal.start == pytest.approx(coordinates[place], abs=1e-6)
    assert traversal.low - 1e-6 <= values[0]
    assert values[-1] <= traversal.high + 1e-6
    titles = model.table.column("title").to_pylist()
    assert [stop.title for stop in traversal.items] == [titles[at] for at in positions]


@settings(max_examples=60, deadline=None)
@given(**places)
def test_the_range_ends_where_another_prototype_becomes_the_closest_or_items_end(
    trained, turned, place, dimension, is_turned
):
    model = turned if is_turned else trained[0]
    traversal = traverse(model, model.items[place], dimension)
    space, items = space_of(model), unit(model.network.item_vectors)
    axis = space.axes(traversal.concept)[dimension].astype(np.float64)
    ends = change(items[place], axis, unit(model.network.prototypes), traversal.concept)
    reach = items[space.members(traversal.concept)] @ axis
    limit = np.abs(reach).max()
    for end, reported, is_open, sign, furthest in zip(
        ends, (traversal.low, traversal.high), traversal.is_open, (-1, 1), (reach.min(), reach.max()), strict=True
    ):
        if abs(abs(end) - limit) < 1e-5:
            continue  # as good as a tie
        assert is_open == (sign * end > limit)
        assert reported == pytest.approx(furthest if is_open else end, abs=1e-5)


def test_with_inner_products_items_keep_their_length(trained):
    model = copy.deepcopy(trained[0])
    model.settings = model.network.settings = model.settings.model_copy(update={"similarity": "inner"})
    model.cached = None
    vectors, concepts = model.network.item_vectors.detach().numpy(), model.concepts_of_items()
    for place in range(0, 160, 8):
        traversal = traverse(model, model.items[place], 3, keep_start=True)
        positions = model.items.positions(traversal.ids)
        assert place in positions
        assert set(concepts[positions]) == {traversal.concept} == {concepts[place]}
        assert [stop.value for stop in traversal.items] == pytest.approx(vectors[positions, 3], abs=1e-6)


def test_without_keep_start_and_holding_the_objective_of_the_paper_alone_decides(trained):
    model = trained[0]
    space = space_of(model)
    for place in range(0, 160, 16):
        traversal = traverse(model, model.items[place], 1, gamma=3.0, width=200, hold=False)
        members = space.members(traversal.concept)
        core = walk(space.items[place], 1, space.items[members], space.prototypes, gamma=3.0, width=200, limit=0.0)
        assert traversal.ids == [model.items[at] for at in members[core.positions]]


def test_rare_items_are_left_out_except_the_start(trained):
    model = trained[0]
    least = int(np.median(model.popularity))
    rare = int(np.argmin(model.popularity))
    for place in (rare, *range(0, 160, 20)):
        traversal = traverse(model, model.items[place], 2, min_users=least, keep_start=True)
        positions = model.items.positions(traversal.ids)
        assert ((model.popularity[positions] >= least) | (positions == place)).all()
        assert place in positions
    history = [model.items[at] for at in range(3)]
    with pytest.raises(RequestError, match=r"concept 0 .*1000000"):
        traverse(model, dimension=0, history=history, concept=0, min_users=1_000_000)


def test_with_one_concept_both_ends_are_open(trained):
    model = macrid.MacridVAE(concepts=1, dim=8).fit(trained[1].train, epochs=1, device="cpu")
    traversal = traverse(model, model.items[0], 2)
    reach = space_of(model).items[:, 2]
    assert traversal.is_open == (True, True)
    assert (traversal.low, traversal.high) == pytest.approx((reach.min(), reach.max()))


def test_a_known_walk_differs_in_size_only(world):
    model, _ = world
    traversal = traverse(model, "item-000", SIZE, steps=PAIRS)
    assert len(traversal.items) == PAIRS  # twins have the same size, so there is one of each pair
    assert [stop.value for stop in traversal.items] == pytest.approx(np.linspace(-0.45, 0.45, PAIRS), abs=1e-6)
    assert (traversal.low, traversal.high, traversal.is_open) == (
        pytest.approx(-0.45),
        pytest.approx(0.45),
        (True, True),
    )
    eight = traverse(model, "item-000", SIZE)
    prices = [int(stop.id[-3:]) % 2 for stop in eight.items]
    assert prices == [0] * 8  # the start is the cheaper one of its pair


def test_towards_the_other_concept_the_range_is_closed(world):
    model, _ = world
    traversal = traverse(model, "item-000", 1)  # m_0 = e_0 with coordinate 0.6, m_1 = e_1
    assert traversal.is_open == (True, True)  # items of concept 0 do not reach 0.6 along dimension 1
    down = traverse(model, "item-000", 0)
    assert (down.low, down.is_open) == (pytest.approx(0, abs=1e-6), (False, True))


def test_a_walk_has_no_more_items_than_its_range(trained):
    model = trained[0]
    traversal = traverse(model, model.items[0], 4, steps=100)
    values = space_of(model).turned(traversal.concept)[:, 4]
    assert (
        len(traversal.items)
        == ((values > traversal.low) & (values <= traversal.high)).sum() + traversal.is_open[0]
        < 100
    )
    assert traversal.steps == 100


def test_keep_start_holds_for_any_gamma(trained):
    model = trained[0]
    for item in model.items[:40]:
        assert item in traverse(model, item, 3, gamma=1000.0, keep_start=True).ids


def test_a_history_walks_in_the_given_concept(trained):
    model, split = trained
    history = [model.items[int(place)] for place in split.test.history[[0]].indices]
    space = space_of(model)
    for concept in range(7):
        traversal = traverse(model, history=history, concept=concept, dimension=2)
        component = space.components(model.histories([history]))[0, concept]
        assert traversal.concept == concept
        assert set(space.concept_of[model.items.positions(traversal.ids)]) == {concept}
        assert traversal.start == pytest.approx(component[2])
        assert not any(stop.is_start for stop in traversal.items)


def test_a_history_outside_a_concept_walks_over_all_of_its_items(world):
    model, _ = world
    history = model.items[:4]  # all of concept 0
    traversal = traverse(model, history=history, concept=1, dimension=SIZE, steps=100)
    assert traversal.concept == 1
    assert [stop.value for stop in traversal.items] == pytest.approx(np.linspace(-0.45, 0.45, PAIRS), abs=1e-6)
    assert traversal.is_open == (True, True)


def test_a_component_beyond_all_items_of_its_concept_is_an_error(world):
    model, _ = copy.deepcopy(world)
    with torch.no_grad():
        model.network.prototypes[1] = -torch.eye(6)[5]
    model.cached = None
    with pytest.raises(RequestError, match=r"concept 1 .*dimension 2"):
        traverse(model, history=model.items[:4], concept=1, dimension=SIZE)


def test_a_name_stands_for_its_dimension(world):
    model, _ = copy.deepcopy(world)
    with pytest.raises(RequestError, match=r"'size' .*concept 0"):
        traverse(model, "item-000", "size")
    meaning_of(model).names = find(model)
    traversal = traverse(model, "item-000", "Size")
    assert (traversal.dimension, traversal.name) == (SIZE, "size")
    assert traversal == traverse(model, "item-000", SIZE)
    meaning_of(model).names = meaning_of(model).names.renamed_dimension(0, SIZE, name="Länge")
    assert traverse(model, "item-000", "länge") == traverse(model, "item-000", "size")
    with pytest.raises(RequestError, match=r"'weight' .*concept 0.*Länge"):
        traverse(model, "item-000", "weight")


def test_walks_follow_the_axes_in_use(world):
    model, _ = copy.deepcopy(world)
    rotation = np.broadcast_to(np.eye(6, dtype=np.float32)[[SIZE, 0, 1, 3, 4, 5]], (2, 6, 6))
    use(model, Axes("attributes", rotation), ["original", "attributes"])
    assert traverse(model, "item-000", SIZE).ids == traverse(world[0], "item-000", SIZE).ids
    traversal, plain = traverse(model, "item-150", 0), traverse(world[0], "item-150", SIZE)
    assert traversal.items == plain.items
    assert (traversal.low, traversal.high) == pytest.approx((plain.low, plain.high))


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({}, "item"),
        ({"item": "item-000", "history": ["item-001"], "dimension": 1}, "item"),
        ({"item": "item-000"}, "dimension"),
        ({"item": "item-000", "dimension": 6}, "dimension .*6"),
        ({"item": "item-000", "dimension": -1}, "dimension .*-1"),
        ({"item": "item-000", "dimension": True}, "dimension .*True"),
        ({"item": "item-000", "dimension": 1, "concept": 0}, "concept"),
        ({"item": "nope", "dimension": 1}, "'nope'"),
        ({"history": ["item-000"], "dimension": 1}, "concept"),
        ({"history": ["item-000"], "dimension": 1, "concept": 2}, "concept .*2"),
        ({"history": "item-000", "dimension": 1, "concept": 1}, "history"),
        ({"history": ["nope"], "dimension": 1, "concept": 1}, "nope"),
        ({"item": "item-000", "dimension": 1, "steps": 0}, "steps .*0"),
        ({"item": "item-000", "dimension": 1, "steps": 2.5}, r"steps .*2\.5"),
        ({"item": "item-000", "dimension": 1, "steps": True}, "steps .*True"),
        ({"item": "item-000", "dimension": 1, "gamma": -1.0}, r"gamma .*-1\.0"),
        ({"item": "item-000", "dimension": 1, "gamma": float("nan")}, "gamma .*nan"),
        ({"item": "item-000", "dimension": 1, "width": 0}, "width .*0"),
    ],
)
def test_bad_arguments_are_refused_by_name(world, arguments, value):
    with pytest.raises(RequestError, match=value):
        traverse(world[0], **{"steps": 4, **arguments})


def test_unknown_items_of_a_history_are_warned_about(world):
    with pytest.warns(UnknownItemsWarning, match="'zz'"):
        traverse(world[0], history=["item-000", "zz"], concept=0, dimension=SIZE)


def test_models_without_concepts_say_so(trained):
    with pytest.raises(MacridError, match="EASE"):
        traverse(macrid.EASE().fit(trained[1].train), "x", 1)


def test_the_json_has_the_documented_shape(world):
    traversal = traverse(world[0], "item-000", SIZE, 4)
    answer = json.loads(json.dumps(traversal.as_json(), allow_nan=False))
    assert (answer["concept"], answer["dimension"]) == (0, SIZE)
    assert answer["range"] == [traversal.low, traversal.high]
    assert [{"id", "title", "value"} - set(item) for item in answer["items"]] == [set()] * 4
    assert [item["id"] for item in answer["items"]] == traversal.ids


def test_it_prints_values_ids_and_titles(world):
    traversal = traverse(world[0], "item-000", SIZE, 2)
    assert isinstance(traversal.items[0], Stop)
    first = traversal.items[0]
    assert str(traversal).splitlines()[0] == f"{first.value:+.3f}  {first.id}  {first.title}"


def test_numpy_integers_are_accepted(world):
    with warnings.catch_warnings(action="error"):
        traversal = traverse(world[0], "item-000", np.int64(SIZE), np.int64(3))
    json.dumps(traversal.as_json())
