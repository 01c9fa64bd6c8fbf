"""Directions: a dimension by number or name, or the growth of an attribute."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.concepts import directions, naming
from macrid.concepts.axes import find, use
from macrid.concepts.directions import Direction, along, dimension_names, dimension_number, directions_towards
from macrid.concepts.meaning import Axes, Fit, meaning_of
from macrid.concepts.space import space_of
from macrid.concepts.understanding import understand
from macrid.errors import RequestError
from tests.concepts.conftest import DIM, random_rotation, unit


@pytest.fixture
def planted(place):
    """(model, direction): "year" grows along it in concepts 0 and 1, "luck" along nothing; other concepts are empty."""
    random = np.random.default_rng(0)
    direction = unit(random.normal(size=DIM))
    vectors = unit(random.normal(size=(560, DIM)))
    table = {"year": vectors @ direction + 0.1 * random.normal(size=560), "luck": random.normal(size=560)}
    return place(vectors, np.arange(560) % 2, table), direction


def test_a_dimension_is_an_axis_in_use_with_the_range_of_users(editable):
    axes = find(editable, "independence")
    use(editable, axes)
    direction = along(space_of(editable), 2, np.int64(5))
    assert (direction.concept, direction.dimension, direction.name) == (2, 5, None)
    np.testing.assert_array_equal(direction.vector, axes.rotation[2, 5])
    assert (direction.low, direction.high) == (axes.low[2, 5], axes.high[2, 5])
    assert direction.half == pytest.approx((axes.high[2, 5] - axes.low[2, 5]) / 2)
    use(editable, axes, ["original"] * 7)
    np.testing.assert_array_equal(along(space_of(editable), 2, 5).vector, np.eye(DIM)[5])


def test_without_users_a_direction_has_no_range(editable):
    editable.sample, editable.cached = None, None
    direction = along(space_of(editable), 0, 0)
    assert (direction.low, direction.high, direction.half) == (None, None, 0.5)
    assert direction.reaches(99.0, 0.0)


def test_a_direction_reaches_no_further_than_its_range_or_the_value_before():
    direction = Direction(0, 1, np.eye(4)[1], low=-0.2, high=0.3)
    assert direction.reaches(0.3, 0.0)
    assert not direction.reaches(0.31, 0.0)
    assert direction.reaches(0.35, 0.4)
    assert not direction.reaches(-0.21, 0.4)


def test_a_direction_as_text():
    assert str(Direction(2, 3, np.eye(4)[0])) == "concept 2, dimension 3"
    assert str(Direction(2, 3, np.eye(4)[0], name="size")) == "concept 2, dimension 3 (size)"
    assert str(Direction(2, None, np.eye(4)[0], name="year")) == "concept 2, year"


@pytest.mark.parametrize("concept", [7, -1, True, "0", 1.0, None])
def test_unknown_concepts_are_refused(wide, concept):
    with pytest.raises(RequestError, match=re.escape(repr(concept))):
        along(space_of(wide[0]), concept, 0)


@pytest.mark.parametrize("dimension", [16, -1, True, 2.0])
def test_unknown_dimensions_are_refused(wide, dimension):
    with pytest.raises(RequestError, match=re.escape(repr(dimension))):
        along(space_of(wide[0]), 0, dimension)


def test_a_dimension_goes_by_its_name_its_attribute_and_its_edited_name(editable):
    understand(editable, "attributes", always=True)
    space, meaning = space_of(editable), meaning_of(editable)
    entry = next(entry for entry in meaning.names.dimensions if entry.attribute is not None)
    k, j = entry.concept, entry.dimension
    for name in (entry.name, entry.attribute.upper()):
        assert dimension_number(space, k, name) == j
    meaning.names = meaning.names.renamed_dimension(k, j, name="My Own")
    assert along(space, k, "my own").dimension == j
    assert along(space, k, j).name == "My Own"
    assert dimension_number(space, k, entry.attribute) == j
    with pytest.raises(RequestError, match=rf"'nonsense'.* {k}.*My Own"):
        along(space, k, "nonsense")


def test_without_names_dimensions_go_by_the_attributes_they_were_fitted_to(editable):
    use(editable, Axes("attributes", find(editable, "original").rotation, fits=(Fit(1, 4, "year", 0.5, 0.005),)))
    assert dimension_names(space_of(editable), 1) == {4: ["year"]}
    assert along(space_of(editable), 1, "Year").dimension == 4
    with pytest.raises(RequestError, match="'year'"):
        along(space_of(editable), 0, "year")


def test_names_of_other_axes_do_not_apply_to_the_axes_in_use(editable):
    meaning_of(editable).names = naming.find(editable).renamed_dimension(0, 3, name="mine")
    assert dimension_number(space_of(editable), 0, "mine") == 3
    use(editable, find(editable, "independence"))
    assert dimension_names(space_of(editable), 0).get(3) is None
    with pytest.raises(RequestError, match="'mine'"):
        along(space_of(editable), 0, "mine")


def test_an_attribute_has_a_direction_in_every_concept_that_predicts_it(planted):
    model, direction = planted
    space = space_of(model)
    towards = directions_towards(space, "year")
    assert [(each.concept, each.dimension, each.name) for each in towards] == [(0, None, "year"), (1, None, "year")]
    components, confidence = space.components(model.sample), space.confidence(model.sample)
    for each in towards:
        assert each.vector @ direction > 0.95
        assert np.linalg.norm(each.vector) == pytest.approx(1, abs=1e-6)
        users = components[confidence[:, each.concept] >= 1, each.concept]
        assert (each.low, each.high) == pytest.approx(np.percentile(users @ each.vector, [1, 99]), abs=1e-5)
    assert directions_towards(space, "year", 1) == [towards[1]]
    assert directions_towards(space, "year") == towards  # cached: arrays would not compare


def test_without_users_the_range_is_that_of_the_items(planted):
    model, _ = planted
    model.sample = None
    each = directions_towards(space_of(model), "year")[1]
    items = space_of(model).items[1::2]
    assert (each.low, each.high) == pytest.approx(np.percentile(items @ each.vector, [1, 99]), abs=1e-5)


def test_an_attribute_keeps_its_own_direction_whatever_axes_come_before_its_axis(place):
    random = np.random.default_rng(0)
    year, other = random_rotation(random)[:2]
    size = unit(year + other)
    vectors = unit(random.normal(size=(560, DIM)))
    table = {
        "year": vectors @ year + 0.05 * random.normal(size=560),
        "size": vectors @ size + 0.1 * random.normal(size=560),
    }
    model = place(vectors, np.arange(560) % 2, table)
    before = directions_towards(space_of(model), "size")
    use(model, find(model, "attributes"))
    fit = next(fit for fit in space_of(model).fits(0) if fit.attribute == "size")
    assert space_of(model).axes(0)[fit.dimension] @ size < 0.8  # orthogonal to the year
    after = directions_towards(space_of(model), "size")
    assert [each.concept for each in after] == [0, 1]
    for one, two in zip(before, after, strict=True):
        assert two.vector @ size > 0.97
        np.testing.assert_allclose(two.vector, one.vector, atol=1e-5)
        assert (two.low, two.high) == pytest.approx((one.low, one.high), abs=1e-5)


def test_an_unpredictable_attribute_is_refused_with_the_concepts_that_predict_it(planted):
    space = space_of(planted[0])
    with pytest.raises(RequestError, match="'luck'"):
        directions_towards(space, "luck")
    with pytest.raises(RequestError, match=r"'year'.* 4.* 0, 1"):
        directions_towards(space, "year", 4)
    with pytest.raises(RequestError, match="'colour'"):
        directions_towards(space, "colour")


def test_large_concepts_are_sampled_evenly(planted, monkeypatch):
    """Not from the first items, which may be the oldest."""
    samples, inner = [], directions.attribute_axes

    def recording(vectors, weights, items, *rest):
        samples.append(items)
        return inner(vectors, weights, items, *rest)

    monkeypatch.setattr(directions, "MOST_FITTED_ITEMS", 100)
    monkeypatch.setattr(directions, "attribute_axes", recording)
    directions_towards(space_of(planted[0]), "year")
    assert [len(set(items.tolist())) for items in samples] == [100, 100]
    assert all(items.max() > 500 for items in samples)


def test_without_an_items_table_only_popularity_has_directions(place):
    random = np.random.default_rng(1)
    popularity = random.integers(1, 500, size=560)
    vectors = unit(random.normal(size=(560, DIM)))
    vectors[:, 3] += (np.log(popularity) - 5) / 3
    space = space_of(place(vectors, np.arange(560) % 2, popularity=popularity))
    assert [each.vector.argmax() for each in directions_towards(space, "popularity")] == [3, 3]
    with pytest.raises(RequestError, match="'year'"):
        directions_towards(space, "year")


def test_a_plain_matrix_is_enough_to_train_turn_and_steer():
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


def test_the_space_has_the_vectors_and_concepts_that_scores_are_made_of(wide):
    model, space = wide[0], space_of(wide[0])
    with torch.no_grad():
        np.testing.assert_array_equal(space.items, model.network.direction(model.network.item_vectors).numpy())
    np.testing.assert_array_equal(space.concept_of, model.concepts_of_items())
    np.testing.assert_array_equal(
        np.sort(np.concatenate([space.members(k) for k in range(7)])), range(len(model.items))
    )
