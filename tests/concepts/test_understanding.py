"""Each concept uses the axes with the most evidence, and edited names survive."""

import copy

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from macrid.concepts import understanding
from macrid.concepts.axes import find
from macrid.concepts.directions import directions_towards
from macrid.concepts.evidence import FEWEST_MEMBERS, axes_evidence
from macrid.concepts.meaning import Meaning, meaning_of
from macrid.concepts.space import space_of
from macrid.concepts.understanding import oriented, understand
from macrid.data.attributes import columns_of
from macrid.errors import RequestError
from tests.concepts.conftest import DIM, random_rotation, unit


@pytest.fixture
def planted(place):
    """(model, turn): "year" and "size" follow original axes in concept 0, turned ones in 1; others have no items."""
    random = np.random.default_rng(0)
    vectors = unit(random.normal(size=(560, DIM)))
    concepts = np.arange(560) % 2
    turn = random_rotation(random)
    along = np.where(concepts[:, None] == 0, vectors, vectors @ turn.T) + 0.05 * random.normal(size=(560, DIM))
    return place(vectors, concepts, {"year": along[:, 2], "size": -along[:, 5]}, random.permutation(560) + 1), turn


def test_axes_are_used_where_they_say_more(planted):
    model, turn = planted
    choice = understand(model, ["attributes"])
    assert choice.in_use[1] == "attributes"
    assert choice.evidence["attributes"][1] > choice.evidence["original"][1] + 0.1
    assert meaning_of(model).in_use == choice.in_use
    assert np.abs(space_of(model).axes(1)[:2] @ turn[[2, 5]].T).max(axis=1).min() > 0.97
    named = [entry for entry in meaning_of(model).names.dimensions if entry.concept == 1 and entry.name]
    assert {entry.attribute for entry in named} == {"year", "size"}


def by_size(space, kind):
    """A kind of axes in every concept with enough items, else the original ones."""
    return tuple(kind if len(space.members(k)) >= FEWEST_MEMBERS else "original" for k in range(7))


def test_without_attributes_axes_by_independence_are_used(planted):
    model, _ = planted
    model.table = None
    assert understand(model).in_use == by_size(space_of(model), "independence")


def test_kinds_found_earlier_compete(planted):
    model, _ = planted
    understand(model, ["attributes"])
    choice = understand(model, ["independence"])
    assert set(choice.evidence) == {"original", "attributes", "independence"}
    assert choice.in_use[1] == "attributes"


@pytest.mark.parametrize(
    ("evidence", "best"),
    [
        ({"original": 0.5, "attributes": 0.4}, "original"),
        ({"original": 0.5, "attributes": 0.5}, "original"),
        ({"original": 0.4, "attributes": 0.5, "independence": 0.51}, "attributes"),
        ({"original": 0.4, "attributes": 0.5, "independence": 0.53}, "independence"),
        ({"original": 0.49, "attributes": 0.5}, "attributes"),
        ({"original": np.nan, "attributes": np.nan, "independence": np.nan}, "independence"),
    ],
)
def test_the_kind_with_the_most_evidence_is_used(evidence, best):
    assert understanding._best(evidence, "independence") == best


def test_evidence_is_the_mean_of_the_strongest_correlations_beyond_chance(planted):
    model, _ = planted
    space = space_of(model)
    evidence = axes_evidence(space, None)
    assert np.isnan(evidence[2:]).all()  # concepts without items
    for k in (0, 1):
        members = space.members(k)
        strongest = [
            max(abs(spearmanr(column.values[members], space.items[members, j]).statistic) for j in range(DIM))
            for column in columns_of(model)
            if column.name != "popularity"
        ]
        by_chance = norm.isf(0.025 / DIM) / np.sqrt(len(members) - 1)
        strongest = [max(value**2 - by_chance**2, 0) ** 0.5 for value in strongest]
        assert evidence[k] == pytest.approx(np.mean(strongest), abs=1e-5)


def test_always_uses_the_last_kind_in_every_large_concept(planted):
    model, _ = planted
    assert understand(model, ["attributes", "independence"], always=True).in_use == by_size(
        space_of(model), "independence"
    )
    assert {"attributes", "independence"} <= set(meaning_of(model).axes)
    np.testing.assert_array_equal(space_of(model).axes(1), meaning_of(model).axes["independence"].rotation[1])


def test_original_axes_can_be_restored_without_losing_others(planted):
    model, _ = planted
    understand(model, "attributes", always=True)
    turned = meaning_of(model).axes["attributes"]
    assert understand(model, "original").in_use == ("original",) * 7
    np.testing.assert_array_equal(space_of(model).axes(1), np.eye(DIM))
    assert {entry.axes for entry in meaning_of(model).names.dimensions} == {"original"}
    assert meaning_of(model).axes["attributes"] is turned


def test_attributes_and_independence_are_found_by_default(editable):
    choice, meaning = understand(editable), meaning_of(editable)
    assert list(choice.evidence) == ["original", "attributes", "independence"]
    assert {"attributes", "independence"} <= set(meaning.axes)
    assert meaning.in_use == choice.in_use
    for k, kind in enumerate(choice.in_use):
        best = max(values[k] for values in choice.evidence.values())
        assert choice.evidence[kind][k] >= best - understanding.TOLERANCE
    assert {entry.axes for entry in meaning.names.dimensions} == set(choice.in_use)
    in_use = [choice.evidence[kind][k] for k, kind in enumerate(choice.in_use)]
    assert np.mean(in_use) > 1.2 * np.mean(choice.evidence["original"])


def test_an_invalid_request_changes_nothing(editable):
    with pytest.raises(RequestError, match="'magic'"):
        understand(editable, "magic")
    with pytest.raises(RequestError, match="'colour of x'"):
        understand(editable, attributes=["colour of x"])
    assert meaning_of(editable) == Meaning()


@pytest.mark.parametrize("by", ["independence", "attributes"])
def test_the_attribute_that_an_axis_follows_best_grows_along_it(wide, by):
    model, space = wide[0], space_of(wide[0])
    before = find(model, by)
    after = oriented(space, before)
    signs = np.einsum("kjd,kjd->kj", before.rotation, after.rotation)  # (concepts, dim)
    np.testing.assert_allclose(np.abs(signs), 1, atol=1e-5)
    np.testing.assert_array_equal(after.low, np.where(signs > 0, before.low, -before.high))
    np.testing.assert_array_equal(after.high, np.where(signs > 0, before.high, -before.low))
    assert (signs < 0).any()
    for fit in before.fits:
        assert signs[fit.concept, fit.dimension] > 0
    for k in (k for k in range(7) if len(space.members(k)) >= FEWEST_MEMBERS):
        members = space.members(k)
        coordinates = space.items[members] @ after.rotation[k].T
        correlations = []
        for column in (column for column in columns_of(model) if column.is_usable() and column.is_usable(members)):
            known = np.isfinite(column.values[members])
            correlations.append(spearmanr(column.values[members][known], coordinates[known]).statistic[0, 1:])
        grows = np.max(correlations, axis=0) >= -np.min(correlations, axis=0) - 1e-6
        grows[[fit.dimension for fit in before.fits if fit.concept == k]] = True
        assert grows.all()


def test_edited_names_survive_and_return_with_their_axes(planted):
    model, _ = planted
    understand(model, "independence", always=True)
    meaning = meaning_of(model)
    meaning.names = meaning.names.renamed(3, "Mine").renamed_dimension(0, 4, low="dull", high="bright")
    understand(model, "original")
    assert meaning.names.concept_name(3) == "Mine"
    assert meaning.names.dimension(0, 4).low != "dull"
    understand(model, "independence", always=True)
    entry = meaning.names.dimension(0, 4)
    assert (entry.low, entry.high, entry.edited) == ("dull", "bright", True)
    assert meaning.names.concept_name(3) == "Mine"


def test_the_same_seed_gives_the_same_axes_and_names(planted):
    model, other = planted[0], copy.copy(planted[0])
    other.meaning = Meaning()
    assert understand(model, seed=3).in_use == understand(other, seed=3).in_use
    assert meaning_of(model).names == meaning_of(other).names
    for kind, axes in meaning_of(model).axes.items():
        np.testing.assert_array_equal(axes.rotation, meaning_of(other).axes[kind].rotation)
        assert axes.fits == meaning_of(other).axes[kind].fits


def test_new_axes_replace_cached_directions(planted):
    model, _ = planted
    directions_towards(space_of(model), "year")
    assert set(space_of(model).towards) == {"year"}
    understand(model, "attributes", always=True)
    assert space_of(model).towards == {}
