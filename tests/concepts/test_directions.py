"""Directions: a dimension by number or by name, and where an attribute grows."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.concepts import naming
from macrid.concepts.axes import find, use
from macrid.concepts.directions import Direction, along, directions_towards, names_in, numbered
from macrid.concepts.meaning import Axes, Fit, meaning_of
from macrid.concepts.space import Space, space_of
from macrid.concepts.understanding import understand
from macrid.errors import RequestError

DIM = 16


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture
def planted(place):
    """(model, direction): "year" grows along a direction in concepts 0 and 1, "luck" along none; others are empty."""
    random = np.random.default_rng(0)
    direction = unit(random.normal(size=DIM))
    vectors = unit(random.normal(size=(560, DIM)))
    table = {"year": vectors @ direction + 0.1 * random.normal(size=560), "luck": random.normal(size=560)}
    return place(vectors, np.arange(560) % 2, table), direction


def test_a_dimension_is_an_axis_in_use_with_the_range_of_users(own):
    found = find(own, "independence")
    use(own, found)
    direction = along(space_of(own), 2, np.int64(5))
    assert (direction.concept, direction.dimension, direction.name) == (2, 5, None)
    np.testing.assert_array_equal(direction.vector, found.rotation[2, 5])
    assert (direction.low, direction.high) == (found.low[2, 5], found.high[2, 5])
    assert direction.half == pytest.approx((found.high[2, 5] - found.low[2, 5]) / 2)
    use(own, found, ["original"] * 7)
    np.testing.assert_array_equal(along(space_of(own), 2, 5).vector, np.eye(DIM)[5])


def test_without_users_a_direction_has_no_range(own):
    own.sample, own.cached = None, None
    direction = along(space_of(own), 0, 0)
    assert (direction.low, direction.high, direction.half) == (None, None, 0.5)
    assert direction.reaches(99.0, 0.0)


def test_what_a_direction_reaches():
    direction = Direction(0, 1, np.eye(4)[1], low=-0.2, high=0.3)
    assert direction.reaches(0.3, 0.0)
    assert not direction.reaches(0.31, 0.0)
    assert direction.reaches(0.35, 0.4)  # no further out than before
    assert not direction.reaches(-0.21, 0.4)


@pytest.mark.parametrize(
    ("dimension", "name", "told"),
    [
        (3, None, "concept 2, dimension 3"),
        (3, "size", "concept 2, dimension 3 (size)"),
        (None, "year", "concept 2, year"),
    ],
)
def test_how_a_direction_is_said(dimension, name, told):
    assert str(Direction(2, dimension, np.eye(4)[0], name=name)) == told


@pytest.mark.parametrize(("concept", "dimension"), [(7, 0), (0, 16), (0, True), (-1, 0), (0, 2.0), (None, 0)])
def test_unknown_concepts_and_dimensions_are_refused(wide, concept, dimension):
    with pytest.raises(RequestError, match=r"this model has (concept|dimension)s 0 to"):
        along(space_of(wide[0]), concept, dimension)


def test_a_dimension_is_found_by_its_name_its_attribute_and_what_people_call_it(own):
    understand(own, "attributes", always=True)
    space = space_of(own)
    entry = next(entry for entry in meaning_of(own).names.dimensions if entry.attribute is not None)
    k, j = entry.concept, entry.dimension
    for name in (entry.name, entry.attribute.upper()):
        assert numbered(space, k, name) == j
    meaning_of(own).names = meaning_of(own).names.renamed_dimension(k, j, name="My Own")
    assert along(space, k, "my own").dimension == j
    assert along(space, k, j).name == "My Own"
    assert numbered(space, k, entry.attribute) == j
    with pytest.raises(RequestError, match=rf"no dimension 'nonsense' in concept {k}; it has .*My Own"):
        along(space, k, "nonsense")


def test_without_names_the_attributes_of_fitted_axes_serve(own):
    use(own, Axes("attributes", find(own, "original").rotation, fits=(Fit(1, 4, "year", 0.5, 0.005),)))
    assert names_in(space_of(own), 1) == {4: ["year"]}
    assert along(space_of(own), 1, "Year").dimension == 4
    with pytest.raises(RequestError, match="no dimension 'year' in concept 0; none has a name"):
        along(space_of(own), 0, "year")


def test_names_of_other_axes_are_not_those_of_the_axes_in_use(own):
    meaning_of(own).names = naming.find(own).renamed_dimension(0, 3, name="mine")
    assert numbered(space_of(own), 0, "mine") == 3
    use(own, find(own, "independence"))
    assert names_in(space_of(own), 0).get(3) is None
    with pytest.raises(RequestError, match="no dimension 'mine'"):
        along(space_of(own), 0, "mine")


def test_an_attribute_grows_along_its_direction_in_every_concept_that_tells_it(planted):
    model, direction = planted
    space = space_of(model)
    found = directions_towards(space, "year")
    assert [(each.concept, each.dimension, each.name) for each in found] == [(0, None, "year"), (1, None, "year")]
    components, confidence = space.components(model.sample), space.confidence(model.sample)
    for each in found:
        assert each.vector @ direction > 0.95
        assert np.linalg.norm(each.vector) == pytest.approx(1, abs=1e-6)
        users = components[confidence[:, each.concept] >= 1, each.concept]
        assert (each.low, each.high) == pytest.approx(np.percentile(users @ each.vector, [1, 99]), abs=1e-5)
    assert directions_towards(space, "year", 1) == [found[1]]
    assert directions_towards(space, "year") == found  # the same objects: nothing is worked out twice


def test_without_users_the_range_is_that_of_the_items(planted):
    model, _ = planted
    model.sample = None
    each = directions_towards(space_of(model), "year")[1]
    items = space_of(model).items[1::2]
    assert (each.low, each.high) == pytest.approx(np.percentile(items @ each.vector, [1, 99]), abs=1e-5)


def test_an_axis_that_was_fitted_to_the_attribute_is_its_direction(planted):
    model, _ = planted
    space = space_of(model)
    before = directions_towards(space, "year")
    use(model, find(model, "attributes"), ["attributes", *["original"] * 6])
    after = directions_towards(space, "year")
    assert [each.dimension for each in after] == [0, None]
    np.testing.assert_array_equal(after[0].vector, meaning_of(model).axes["attributes"].rotation[0, 0])
    assert after[0].vector @ before[0].vector > 0.99


def test_an_attribute_that_cannot_be_told_is_refused_with_where_it_can(planted):
    space = space_of(planted[0])
    with pytest.raises(
        RequestError, match="'luck' cannot be told from the item vectors in any concept; choose another"
    ):
        directions_towards(space, "luck")
    with pytest.raises(RequestError, match="'year' cannot be told from the item vectors in concept 4; it can in 0, 1"):
        directions_towards(space, "year", 4)
    with pytest.raises(RequestError, match="'colour'"):
        directions_towards(space, "colour")


def test_many_items_are_drawn_from_all_of_them(planted, monkeypatch):
    """Not the first ones, which may be the oldest."""
    from macrid.concepts import directions

    drawn = []
    monkeypatch.setattr(directions, "MOST_ITEMS", 100)
    inner = directions.attribute_axes

    def watched(vectors, weights, items, *rest):
        drawn.append(items)
        return inner(vectors, weights, items, *rest)

    monkeypatch.setattr(directions, "attribute_axes", watched)
    directions_towards(space_of(planted[0]), "year")
    assert [len(items) for items in drawn] == [100, 100]
    for items in drawn:
        assert len(set(items.tolist())) == 100
        assert items.max() > 500


def test_a_model_without_a_table_has_directions_of_popularity_only(place):
    random = np.random.default_rng(1)
    popularity = random.integers(1, 500, size=560)
    vectors = unit(random.normal(size=(560, DIM)))
    vectors[:, 3] += (np.log(popularity) - 5) / 3
    space = space_of(place(vectors, np.arange(560) % 2, popularity=popularity))
    assert [each.vector.argmax() for each in directions_towards(space, "popularity")] == [3, 3]
    with pytest.raises(RequestError, match="'year'; items have popularity"):
        directions_towards(space, "year")


def test_a_matrix_is_enough_to_train_turn_and_move():
    random = np.random.default_rng(2)
    matrix = sp.csr_array((random.random((150, 120)) < np.linspace(0.05, 0.4, 120)).astype(np.float32))
    model = macrid.MacridVAE(concepts=2, dim=4).fit(matrix, epochs=2, batch_size=50, device="cpu")
    choice = understand(model)
    assert len(choice.in_use) == 2
    assert len(meaning_of(model).names.dimensions) == 8
    direction = along(space_of(model), 1, 2)
    assert direction.low <= direction.high
    steered = macrid.steer(model, [3, 5, 8], concept=1, dimension=2, to=direction.high)
    assert len(steered) == 10


def test_items_and_concepts_of_the_space_are_those_of_the_model(wide):
    """What directions are found on is what scores are made of."""
    space = space_of(wide[0])
    assert isinstance(space, Space)
    with torch.no_grad():
        np.testing.assert_array_equal(space.items, wide[0].network.direction(wide[0].network.item_vectors).numpy())
    np.testing.assert_array_equal(space.concept_of, wide[0].concepts_of_items())
    np.testing.assert_array_equal(
        np.sort(np.concatenate([space.own(k) for k in range(7)])), np.arange(len(space.items))
    )
