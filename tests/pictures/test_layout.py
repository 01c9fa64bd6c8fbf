"""Positions of items and of components on the map."""

import numpy as np
import pytest

import macrid
from macrid.models.reference import EASE, Popularity
from macrid.pictures import layout as module
from macrid.pictures.layout import around, layout, rough
from tests.planted import planted


def check(placed, items):
    assert [part.shape for part in placed] == [(items,)] * 2
    assert [part.dtype for part in placed] == [np.float32] * 2
    assert np.isfinite(placed).all()
    assert 0.99 < np.abs(placed).max() <= 1


def inside(x, y, groups, k):
    """Distances of a group's items, and of all other items, from its centre."""
    placed = np.column_stack([x, y])
    distance = np.linalg.norm(placed - placed[groups == k].mean(axis=0), axis=1)
    return distance[groups == k], distance[groups != k]


def test_rough_positions_separate_concepts_and_are_deterministic(trained):
    model, _ = trained
    x, y = rough(model)
    check((x, y), len(model.items))
    groups = model.concepts_of_items()
    for k in np.unique(groups):
        members, others = inside(x, y, groups, k)
        assert members.max() < others.min()
    assert len(np.unique(np.column_stack([x, y]), axis=0)) == len(x)


@pytest.mark.parametrize("most", [120, 50_000])
def test_the_map_keeps_concepts_together_even_if_only_a_sample_goes_through_tsne(monkeypatch, most):
    model, _ = planted()
    monkeypatch.setattr(module, "MOST_TSNE_ITEMS", most)
    monkeypatch.setattr(module, "SAMPLE", most)
    x, y = layout(model)
    check((x, y), len(model.items))
    np.testing.assert_array_equal(np.stack(layout(model)), [x, y])
    assert len(np.unique(np.column_stack([x, y]), axis=0)) == len(x)
    groups = model.concepts_of_items()
    for k in (0, 1):
        members, others = inside(x, y, groups, k)
        assert np.median(members) < others.min()


@pytest.mark.parametrize("kind", [EASE, Popularity])
def test_models_without_concepts_have_a_map(shop_split, kind):
    model = kind().fit(shop_split.train)
    x, y = rough(model)
    assert np.isfinite([x, y]).all()
    assert np.abs([x, y]).max() <= 1
    assert len(np.unique(np.column_stack([x, y]), axis=0)) > 0.9 * len(x)
    if kind is Popularity:
        assert np.argmin(np.hypot(x, y)) == np.argmax(model.popularity)
        np.testing.assert_array_equal(np.stack(layout(model)), [x, y])


def test_long_vectors_are_projected_onto_their_main_directions(shop_split, monkeypatch):
    model = EASE().fit(shop_split.train)
    whole = module._vectors(model)
    monkeypatch.setattr(module, "MOST_DIMENSIONS", 60)
    short = module._vectors(model)
    assert short.shape == (len(model.items), 60)
    assert np.corrcoef((whole @ whole.T).ravel(), (short @ short.T).ravel())[0, 1] > 0.95


def test_single_and_equal_items_have_positions(trained):
    model = macrid.MacridVAE(concepts=1, dim=4).fit(trained[1].train, epochs=1, device="cpu")
    check(rough(model), len(model.items))
    for vectors in (np.ones((3, 4)), np.ones((1, 4)), np.zeros((2, 1))):
        assert np.isfinite(module._blob(vectors)).all()


def test_a_component_lies_among_its_most_similar_items_despite_outliers():
    random = np.random.default_rng(0)
    items = np.repeat(np.eye(3), 40, axis=0) + random.normal(scale=0.05, size=(120, 3))
    items *= random.uniform(0.1, 9, size=(120, 1))  # lengths do not matter
    x, y = np.repeat([-0.5, 0.5, 0.0], 40), np.repeat([0.0, 0.0, 0.9], 40)
    closest = np.argsort(-(items[:40] / np.linalg.norm(items[:40], axis=1, keepdims=True))[:, 0])
    x[closest[:5]], y[closest[:5]] = 1.0, -1.0
    found = around(x, y, items, np.array([[2.0, 0, 0], [0, 0.1, 0], [0, 0, 0]]))
    np.testing.assert_allclose(found[:2], [[-0.5, 0], [0.5, 0]], atol=1e-6)
    np.testing.assert_allclose(found[2], [np.median(x), np.median(y)])
    assert around(x[:4], y[:4], items[:4], np.ones((2, 3))).shape == (2, 2)


def test_new_items_lie_among_the_trained_ones_most_like_them(trained):
    from macrid.additions import add_items
    from macrid.cold import narrowed

    model = trained[0]
    x, y = rough(model)
    wide = narrowed(model)
    add_items(wide, [{"id": "new", "category": "bags"}])
    wide_x, wide_y = module.with_new(x, y, wide)
    assert (wide_x[:-1] == x).all()
    assert len(wide_x) == len(wide_y) == len(model.items) + 1
    concept = model.concepts_of_items() == wide.concepts_of_items()[-1]
    here, others = (np.hypot(x[part] - wide_x[-1], y[part] - wide_y[-1]).mean() for part in (concept, ~concept))
    assert here < others
