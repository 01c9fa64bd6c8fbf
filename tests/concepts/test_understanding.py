"""Which axes are used: those with more evidence, concept by concept; what people wrote is kept."""

import copy

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from macrid.concepts import understanding as meaning
from macrid.concepts.axes import find
from macrid.concepts.meaning import Axes, meaning_of
from macrid.concepts.space import space_of
from macrid.concepts.understanding import evidence, oriented, understand
from macrid.data.attributes import columns_of
from macrid.errors import RequestError

DIM = 16


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def a_rotation(random):
    return np.linalg.qr(random.normal(size=(DIM, DIM)))[0]


@pytest.fixture
def planted(place):
    """In concept 0 "year" and "size" grow along original axes, in concept 1 along turned ones; others have no items."""
    random = np.random.default_rng(0)
    vectors = unit(random.normal(size=(560, DIM)))
    concepts = np.arange(560) % 2
    turn = a_rotation(random)
    seen = np.where(concepts[:, None] == 0, vectors, vectors @ turn.T) + 0.05 * random.normal(size=(560, DIM))
    return place(vectors, concepts, {"year": seen[:, 2], "size": -seen[:, 5]}, random.permutation(560) + 1), turn


def test_axes_are_used_where_they_tell_more(planted):
    model, turn = planted
    choice = understand(model, ["attributes"])
    assert choice.in_use[1] == "attributes"
    assert choice.evidence["attributes"][1] > choice.evidence["original"][1] + 0.1
    assert meaning_of(model).in_use == choice.in_use
    space = space_of(model)
    first = space.axes(1)[:2]
    assert np.abs(first @ turn[[2, 5]].T).max(axis=1).min() > 0.97
    assert {entry.attribute for entry in meaning_of(model).names.dimensions if entry.concept == 1 and entry.name} == {
        "year",
        "size",
    }


def test_original_axes_stay_where_they_tell_as_much(planted):
    model, _ = planted
    random = np.random.default_rng(1)
    mixed = Axes("independence", np.stack([a_rotation(random).astype(np.float32)] * 7))
    space = space_of(model)
    told = {"original": evidence(space, None), "independence": evidence(space, mixed)}
    assert told["original"][0] > 0.6
    assert told["independence"][0] < 0.5
    assert meaning._best({kind: values[0] for kind, values in told.items()}, "independence") == "original"


def test_without_an_attribute_axes_by_independence_are_used(planted):
    model, _ = planted
    model.table = None
    found = understand(model)
    assert all(kind == ("independence" if len(space_of(model).own(k)) >= 40 else "original")
               for k, kind in enumerate(found.in_use))  # fmt: skip


def test_kinds_found_before_are_compared_with_and_used_where_they_tell_more(planted):
    model, _ = planted
    before = understand(model, ["attributes"])
    after = understand(model, ["independence"])
    assert {"original", "attributes", "independence"} <= set(after.evidence)
    for k, kind in enumerate(after.in_use):
        if kind == "independence":
            assert after.evidence["independence"][k] >= before.evidence["attributes"][k] - 0.02


@pytest.mark.parametrize(
    ("told", "best"),
    [
        ({"original": 0.5, "attributes": 0.4}, "original"),
        ({"original": 0.5, "attributes": 0.5}, "original"),
        ({"original": 0.4, "attributes": 0.5, "independence": 0.51}, "attributes"),
        ({"original": 0.4, "attributes": 0.5, "independence": 0.53}, "independence"),
        ({"original": 0.49, "attributes": 0.5}, "attributes"),
        ({"original": np.nan, "attributes": np.nan, "independence": np.nan}, "independence"),
    ],
)
def test_the_kind_with_the_most_evidence_is_used(told, best):
    assert meaning._best(told, "independence") == best


def test_evidence_of_original_axes_is_the_mean_of_the_strongest_correlations_beyond_chance(planted):
    model, _ = planted
    space = space_of(model)
    found = evidence(space, None)
    assert np.isnan(found[2:]).all()  # concepts without items
    for k in (0, 1):
        own = space.own(k)
        strongest = [
            max(abs(spearmanr(column.values[own], space.items[own, j]).statistic) for j in range(DIM))
            for column in columns_of(model)
            if column.name != "popularity"
        ]
        by_chance = norm.isf(0.025 / DIM) / np.sqrt(len(own) - 1)
        strongest = [max(value**2 - by_chance**2, 0) ** 0.5 for value in strongest]
        assert found[k] == pytest.approx(np.mean(strongest), abs=1e-5)


def test_always_uses_the_last_kind_everywhere(planted):
    model, _ = planted
    expected = tuple("independence" if len(space_of(model).own(k)) >= 40 else "original" for k in range(7))
    assert "independence" in expected
    assert understand(model, ["attributes", "independence"], always=True).in_use == expected
    assert set(meaning_of(model).axes) >= {"attributes", "independence"}
    np.testing.assert_array_equal(space_of(model).axes(1), meaning_of(model).axes["independence"].rotation[1])


def test_original_goes_back_and_keeps_the_other_axes(planted):
    model, _ = planted
    understand(model, "attributes", always=True)
    turned = meaning_of(model).axes["attributes"]
    assert understand(model, "original").in_use == ("original",) * 7
    np.testing.assert_array_equal(space_of(model).axes(1), np.eye(DIM))
    assert {entry.axes for entry in meaning_of(model).names.dimensions} == {"original"}
    assert meaning_of(model).axes["attributes"] is turned


def test_unless_told_otherwise_attributes_and_independence_are_found(own):
    choice = understand(own)
    assert list(choice.evidence) == ["original", "attributes", "independence"]
    assert {"attributes", "independence"} <= set(meaning_of(own).axes)
    assert meaning_of(own).in_use == choice.in_use
    for k, kind in enumerate(choice.in_use):
        told = [values[k] for values in choice.evidence.values()]
        assert choice.evidence[kind][k] >= max(told) - meaning.AS_GOOD
    assert {entry.axes for entry in meaning_of(own).names.dimensions} == set(choice.in_use)
    plain = copy.deepcopy(own)
    understand(plain, "original")
    named, before = (
        sum(entry.name is not None for entry in meaning_of(model).names.dimensions) for model in (own, plain)
    )
    assert named > before


def test_a_request_that_cannot_be_met_changes_nothing(own):
    with pytest.raises(RequestError, match="axes by 'magic' are not known"):
        understand(own, "magic")
    with pytest.raises(RequestError, match="'colour of x'"):
        understand(own, attributes=["colour of x"])
    assert (meaning_of(own).axes, meaning_of(own).in_use, meaning_of(own).names) == ({}, (), None)


@pytest.mark.parametrize("by", ["independence", "attributes"])
def test_the_column_that_is_told_best_grows_along_every_axis(wide, by):
    model, space = wide[0], space_of(wide[0])
    before = find(model, by)
    after = oriented(space, before)
    columns = [column for column in columns_of(model) if column.is_usable()]
    flipped = 0
    for k in range(7):
        own = space.own(k)
        usable = [column.values[own] for column in columns if column.is_usable(own)]
        for j in range(DIM):
            sign = float(before.rotation[k, j] @ after.rotation[k, j])
            assert abs(sign) == pytest.approx(1, abs=1e-5)
            ends = (after.low[k, j], after.high[k, j])
            assert ends == (
                (before.low[k, j], before.high[k, j]) if sign > 0 else (-before.high[k, j], -before.low[k, j])
            )
            flipped += sign < 0
            if any((fit.concept, fit.dimension) == (k, j) for fit in before.fits):
                assert sign > 0
                continue
            if len(own) < 40:
                continue
            along = space.items[own] @ after.rotation[k, j]
            rho = [spearmanr(values[np.isfinite(values)], along[np.isfinite(values)]).statistic for values in usable]
            assert max(rho) >= -min(rho) - 1e-6
    assert flipped > 0


def test_edited_names_survive_and_come_back_with_their_axes(own):
    understand(own, "independence", always=True)
    meaning_of(own).names = meaning_of(own).names.renamed(3, "Mine").renamed_dimension(0, 4, low="dull", high="bright")
    understand(own, "original")
    assert meaning_of(own).names.concept_name(3) == "Mine"
    assert meaning_of(own).names.dimension(0, 4).low != "dull"
    understand(own, "independence", always=True)
    entry = meaning_of(own).names.dimension(0, 4)
    assert (entry.low, entry.high, entry.edited) == ("dull", "bright", True)
    assert meaning_of(own).names.concept_name(3) == "Mine"


def test_the_same_seed_gives_the_same_axes_and_names(wide):
    one, two = copy.deepcopy(wide[0]), copy.deepcopy(wide[0])
    assert understand(one, "independence", seed=3).in_use == understand(two, "independence", seed=3).in_use
    assert meaning_of(one).names == meaning_of(two).names
    np.testing.assert_array_equal(
        meaning_of(one).axes["independence"].rotation, meaning_of(two).axes["independence"].rotation
    )


def test_directions_that_were_asked_for_are_found_anew_along_new_axes(planted):
    from macrid.concepts.directions import directions_towards

    model, _ = planted
    assert directions_towards(space_of(model), "year")[0].dimension is None
    understand(model, "attributes", always=True)
    assert directions_towards(space_of(model), "year")[0].dimension is not None
