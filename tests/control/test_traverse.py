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
def test_values_grow_over_items_of_one_concept_with_the_item_among_them(
    trained, turned, place, dimension, is_turned, steps, gamma
):
    model = turned if is_turned else trained[0]
    item, space = model.items[place], space_of(model)
    found = traverse(model, item, dimension, steps, gamma=gamma, keep_start=True)
    values = [stop.value for stop in found.items]
    assert values == sorted(set(values))
    assert 1 <= len(values) <= steps == found.steps
    assert [stop.id for stop in found.items if stop.is_start] == [item]
    positions = model.items.positions(found.ids)
    assert set(space.concept_of[positions]) == {found.concept} == {space.concept_of[place]}
    coordinates = unit(model.network.item_vectors) @ space.axes(found.concept)[dimension]
    assert values == pytest.approx(coordinates[positions], abs=1e-6)
    assert found.start == pytest.approx(coordinates[place], abs=1e-6)
    assert found.low - 1e-6 <= values[0]
    assert values[-1] <= found.high + 1e-6
    titles = model.table.column("title").to_pylist()
    assert [stop.title for stop in found.items] == [titles[at] for at in positions]


@settings(max_examples=60, deadline=None)
@given(**places)
def test_the_range_ends_where_another_prototype_becomes_the_closest_or_items_end(
    trained, turned, place, dimension, is_turned
):
    model = turned if is_turned else trained[0]
    found = traverse(model, model.items[place], dimension)
    space, items = space_of(model), unit(model.network.item_vectors)
    axis = space.axes(found.concept)[dimension].astype(np.float64)
    ends = change(items[place], axis, unit(model.network.prototypes), found.concept)
    reach = items[space.members(found.concept)] @ axis
    limit = np.abs(reach).max()
    for end, told, is_open, sign, furthest in zip(
        ends, (found.low, found.high), found.is_open, (-1, 1), (reach.min(), reach.max()), strict=True
    ):
        if abs(abs(end) - limit) < 1e-5:
            continue  # as good as a tie
        assert is_open == (sign * end > limit)
        assert told == pytest.approx(furthest if is_open else end, abs=1e-5)


def test_where_lengths_matter_items_keep_theirs(trained):
    model = copy.deepcopy(trained[0])
    model.settings = model.network.settings = model.settings.model_copy(update={"similarity": "inner"})
    model.cached = None
    vectors, concepts = model.network.item_vectors.detach().numpy(), model.concepts_of_items()
    for place in range(0, 160, 8):
        found = traverse(model, model.items[place], 3, keep_start=True)
        positions = model.items.positions(found.ids)
        assert place in positions
        assert set(concepts[positions]) == {found.concept} == {concepts[place]}
        assert [stop.value for stop in found.items] == pytest.approx(vectors[positions, 3], abs=1e-6)


def test_the_objective_alone_decides_unless_the_start_is_to_be_kept(trained):
    model = trained[0]
    space = space_of(model)
    for place in range(0, 160, 16):
        found = traverse(model, model.items[place], 1, gamma=3.0, width=200)
        own = space.members(found.concept)
        core = walk(space.items[place], 1, space.items[own], space.prototypes, gamma=3.0, width=200, limit=0.0)
        assert found.ids == [model.items[at] for at in own[core.positions]]


def test_items_of_few_users_are_left_out_but_for_the_start(trained):
    model = trained[0]
    least = int(np.median(model.popularity))
    rare = int(np.argmin(model.popularity))
    for place in (rare, *range(0, 160, 20)):
        found = traverse(model, model.items[place], 2, min_users=least, keep_start=True)
        positions = model.items.positions(found.ids)
        assert ((model.popularity[positions] >= least) | (positions == place)).all()
        assert place in positions
    history = [model.items[at] for at in range(3)]
    with pytest.raises(RequestError, match="no item of concept 0 was had by 1000000 users"):
        traverse(model, dimension=0, history=history, concept=0, min_users=1_000_000)


def test_with_one_concept_both_ends_are_open(trained):
    model = macrid.MacridVAE(concepts=1, dim=8).fit(trained[1].train, epochs=1, device="cpu")
    found = traverse(model, model.items[0], 2)
    reach = space_of(model).items[:, 2]
    assert found.is_open == (True, True)
    assert (found.low, found.high) == pytest.approx((reach.min(), reach.max()))


def test_a_known_walk_differs_in_size_only(world):
    model, _ = world
    found = traverse(model, "item-000", SIZE, steps=PAIRS)
    assert len(found.items) == PAIRS  # twins have the same size, so there is one of each pair
    assert [stop.value for stop in found.items] == pytest.approx(np.linspace(-0.45, 0.45, PAIRS), abs=1e-6)
    assert (found.low, found.high, found.is_open) == (pytest.approx(-0.45), pytest.approx(0.45), (True, True))
    eight = traverse(model, "item-000", SIZE)
    prices = [int(stop.id[-3:]) % 2 for stop in eight.items]
    assert prices == [0] * 8  # the start is the cheaper one of its pair


def test_towards_the_other_concept_the_range_is_closed(world):
    model, _ = world
    found = traverse(model, "item-000", 1)  # m_0 = e_0 with coordinate 0.6, m_1 = e_1
    assert found.is_open == (True, True)  # items of concept 0 do not reach 0.6 along dimension 1
    down = traverse(model, "item-000", 0)
    assert (down.low, down.is_open) == (pytest.approx(0, abs=1e-6), (False, True))


def test_there_are_no_more_items_than_the_range_holds(trained):
    model = trained[0]
    found = traverse(model, model.items[0], 4, steps=100)
    values = space_of(model).turned(found.concept)[:, 4]
    assert len(found.items) == ((values > found.low) & (values <= found.high)).sum() + found.is_open[0] < 100
    assert found.steps == 100


def test_a_start_to_be_kept_is_however_much_items_are_to_be_like_each_other(trained):
    model = trained[0]
    for item in model.items[:40]:
        assert item in traverse(model, item, 3, gamma=1000.0, keep_start=True).ids


def test_a_history_walks_in_the_concept_that_was_asked_for(trained):
    model, split = trained
    history = [model.items[int(place)] for place in split.test.history[[0]].indices]
    space = space_of(model)
    for concept in range(7):
        found = traverse(model, history=history, concept=concept, dimension=2)
        component = space.components(model.histories([history]))[0, concept]
        assert found.concept == concept
        assert set(space.concept_of[model.items.positions(found.ids)]) == {concept}
        assert found.start == pytest.approx(component[2])
        assert not any(stop.is_start for stop in found.items)


def test_a_history_without_a_word_on_a_concept_walks_over_all_of_its_items(world):
    model, _ = world
    history = model.items[:4]  # all of concept 0
    found = traverse(model, history=history, concept=1, dimension=SIZE, steps=100)
    assert found.concept == 1
    assert [stop.value for stop in found.items] == pytest.approx(np.linspace(-0.45, 0.45, PAIRS), abs=1e-6)
    assert found.is_open == (True, True)


def test_a_component_beyond_all_items_of_its_concept_is_an_error(world):
    model, _ = copy.deepcopy(world)
    with torch.no_grad():
        model.network.prototypes[1] = -torch.eye(6)[5]
    model.cached = None
    with pytest.raises(RequestError, match="concept 1 has no item with dimension 2 between"):
        traverse(model, history=model.items[:4], concept=1, dimension=SIZE)


def test_a_name_stands_for_its_dimension(world):
    model, _ = copy.deepcopy(world)
    with pytest.raises(RequestError, match="no dimension 'size' in concept 0; none has a name"):
        traverse(model, "item-000", "size")
    meaning_of(model).names = find(model)
    found = traverse(model, "item-000", "Size")
    assert (found.dimension, found.name) == (SIZE, "size")
    assert found == traverse(model, "item-000", SIZE)
    meaning_of(model).names = meaning_of(model).names.renamed_dimension(0, SIZE, name="Länge")
    assert traverse(model, "item-000", "länge") == traverse(model, "item-000", "size")
    with pytest.raises(RequestError, match=r"no dimension 'weight' in concept 0; it has .*Länge"):
        traverse(model, "item-000", "weight")


def test_axes_in_use_are_walked_along(world):
    model, _ = copy.deepcopy(world)
    rotation = np.broadcast_to(np.eye(6, dtype=np.float32)[[SIZE, 0, 1, 3, 4, 5]], (2, 6, 6))
    use(model, Axes("attributes", rotation), ["original", "attributes"])
    assert traverse(model, "item-000", SIZE).ids == traverse(world[0], "item-000", SIZE).ids
    found, plain = traverse(model, "item-150", 0), traverse(world[0], "item-150", SIZE)
    assert found.items == plain.items
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "start from an item, or from a history and a concept: give one of them"),
        ({"item": "item-000", "history": ["item-001"], "dimension": 1}, "start from an item, or from a history"),
        ({"item": "item-000"}, "give a dimension: a number from 0 to 5, or a name"),
        ({"item": "item-000", "dimension": 6}, "dimension is 6; this model has dimensions 0 to 5"),
        ({"item": "item-000", "dimension": -1}, "dimension is -1; this model has dimensions 0 to 5"),
        ({"item": "item-000", "dimension": True}, "dimension is True; this model has dimensions 0 to 5"),
        ({"item": "item-000", "dimension": 1, "concept": 0}, "an item has a concept already"),
        ({"item": "nope", "dimension": 1}, "item: 'nope' is not in the catalogue"),
        ({"history": ["item-000"], "dimension": 1}, "a history has a component in each concept; give one, from 0 to 1"),
        ({"history": ["item-000"], "dimension": 1, "concept": 2}, "concept is 2; this model has concepts 0 to 1"),
        ({"history": "item-000", "dimension": 1, "concept": 1}, "a history is a list of item ids"),
        ({"history": ["nope"], "dimension": 1, "concept": 1}, "no item of the history is known"),
        ({"item": "item-000", "dimension": 1, "steps": 0}, "steps is 0; ask for a whole number"),
        ({"item": "item-000", "dimension": 1, "steps": 2.5}, r"steps is 2\.5; ask for a whole number"),
        ({"item": "item-000", "dimension": 1, "steps": True}, "steps is True; ask for a whole number"),
        ({"item": "item-000", "dimension": 1, "gamma": -1.0}, "gamma"),
        ({"item": "item-000", "dimension": 1, "gamma": float("nan")}, "gamma"),
        ({"item": "item-000", "dimension": 1, "width": 0}, "width is 0"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_what_is_allowed(world, given, told):
    with pytest.raises(RequestError, match=told):
        traverse(world[0], **{"steps": 4, **given})


def test_unknown_items_of_a_history_are_warned_about(world):
    with pytest.warns(UnknownItemsWarning, match="'zz' is not in the catalogue"):
        traverse(world[0], history=["item-000", "zz"], concept=0, dimension=SIZE)


def test_models_without_concepts_say_so(trained):
    with pytest.raises(MacridError, match="EASE has no concepts"):
        traverse(macrid.EASE().fit(trained[1].train), "x", 1)


def test_the_json_has_the_documented_shape(world):
    found = traverse(world[0], "item-000", SIZE, 4)
    answer = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert (answer["concept"], answer["dimension"]) == (0, SIZE)
    assert answer["range"] == [found.low, found.high]
    assert [{"id", "title", "value"} - set(item) for item in answer["items"]] == [set()] * 4
    assert [item["id"] for item in answer["items"]] == found.ids


def test_people_read_values_ids_and_titles(world):
    found = traverse(world[0], "item-000", SIZE, 2)
    assert isinstance(found.items[0], Stop)
    first = found.items[0]
    assert str(found).splitlines()[0] == f"{first.value:+.3f}  {first.id}  {first.title}"


def test_integers_of_numpy_are_numbers(world):
    with warnings.catch_warnings(action="error"):
        found = traverse(world[0], "item-000", np.int64(SIZE), np.int64(3))
    json.dumps(found.as_json())
