"""Axes and names of an earlier model: kept where they mean the same, and otherwise said."""

import copy

import numpy as np
import pytest
import torch

import macrid
from macrid.concepts.carrying import aligned, carry_over
from macrid.concepts.meaning import Fit, meaning_of
from macrid.concepts.space import space_of
from macrid.control.links import carried_over
from macrid.control.moves import Move
from tests.concepts.conftest import random_rotation


@pytest.fixture(scope="module")
def old(wide):
    model = copy.deepcopy(wide[0])
    macrid.understand(model)
    names = meaning_of(model).names
    place = next(entry for entry in names.dimensions if entry.name is not None)
    meaning_of(model).names = names.renamed(2, "my own").renamed_dimension(
        place.concept, place.dimension, low="few", high="many"
    )
    return model


def moved(old, noise):
    """A copy whose item vectors have moved a little, without a meaning."""
    model = copy.deepcopy(old)
    model.meaning, model.cached, model.kept_decoder = None, None, None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.network.item_vectors += noise * torch.randn(model.network.item_vectors.shape, generator=generator)
    return model


def test_a_model_that_hardly_moved_keeps_all_names_and_the_fingerprints_of_all_axes(old):
    model = moved(old, 0.005)
    carried = carry_over(model, old)
    before, now = meaning_of(old), meaning_of(model)
    assert [entry.axis for entry in now.dimensions] == [entry.axis for entry in before.dimensions]
    assert [entry.name for entry in now.names.concepts] == [entry.name for entry in before.names.concepts]
    assert now.names.concepts[2].edited
    assert [(e.low, e.high) for e in now.dimensions if e.edited] == [("few", "many")]
    assert carried.names_kept == carried.names > 0
    assert carried.dimensions_kept == carried.dimensions > 0
    assert carried.changes == ()
    assert now.in_use == before.in_use


def test_a_move_in_a_link_of_yesterday_turns_the_same_knob(old):
    model = moved(old, 0.005)
    carry_over(model, old)
    entry = next(entry for entry in meaning_of(old).dimensions if entry.name is not None)
    move = Move(concept=entry.concept, dimension=entry.dimension, to=0.2, axis=entry.axis, name=entry.name)
    moves, warnings = carried_over(space_of(model), [move], is_same_run=False)
    assert moves == (move,)
    assert warnings == ()


def test_a_concept_of_other_items_loses_its_name_and_that_is_said(old):
    model = copy.deepcopy(old)
    model.meaning, model.cached, model.kept_decoder = None, None, None
    with torch.no_grad():
        model.network.prototypes.copy_(model.network.prototypes[[1, 0, 2, 3, 4, 5, 6]].clone())
    carried = carry_over(model, old)
    text = " ".join(carried.changes)
    assert "concept 0" in text
    assert "concept 1" in text
    assert "100% of its choices are of other items now" in text
    assert meaning_of(model).names.concepts[2].name == "my own"
    assert carried.concepts == 5
    swapped = [meaning_of(each).names.concepts for each in (old, model)]
    if swapped[0][0].name is not None and swapped[0][0].fit is not None:
        assert swapped[1][1].name == swapped[0][0].name  # found again, for the same items


def test_a_name_that_is_no_longer_true_is_found_anew(old):
    model = moved(old, 0.0)
    place, kinds = model.table.column_names.index("category"), model.table.column("category")
    shuffled = kinds.take(np.random.default_rng(0).permutation(len(kinds)))
    model.table = model.table.set_column(place, "category", shuffled)
    carried = carry_over(model, old)
    assert carried.names_kept < carried.names
    assert any("of its choices carried it" in text for text in carried.changes)
    assert meaning_of(model).names.concepts[2].name == "my own"  # a person's choice stays


def test_another_number_of_concepts_starts_names_afresh(old, wide):
    model = macrid.MacridVAE(concepts=3).fit(wide[1].train, warm_start=old, epochs=1, batch_size=100, device="cpu")
    carried = carry_over(model, old)
    assert carried.names_kept == 0
    assert carried.changes == ("3 concepts instead of 7: names and axes are new",)
    assert len(meaning_of(model).names.concepts) == 3


def test_axes_found_again_take_the_places_and_signs_of_those_they_resemble():
    random = np.random.default_rng(0)
    axes = random_rotation(random, 6)
    points = random.normal(size=(200, 6)) * np.arange(1, 7)
    order, signs = np.array([3, 1, 5, 0, 2, 4]), np.array([1, -1, 1, 1, -1, 1])
    shuffled = (axes * signs[:, None])[order]
    turned, fits = aligned(shuffled, [Fit(0, 2, "size", 0.5, 0.01)], axes, (points, points))
    np.testing.assert_allclose(turned, axes, atol=1e-12)
    assert [fit.dimension for fit in fits] == [5]
