import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from macrid.errors import MacridError
from macrid.pictures.maps import items_and_users, positions


@pytest.fixture(scope="module")
def clusters():
    """(vectors, cluster): three directions, twenty vectors around each, of very different lengths."""
    generator = np.random.default_rng(0)
    cluster = np.repeat(np.arange(3), 20)
    vectors = np.eye(8)[cluster] + generator.normal(scale=0.1, size=(60, 8))
    return vectors * generator.uniform(0.1, 10, size=(60, 1)), cluster


@pytest.fixture(scope="module")
def shop_map(trained):
    model, split = trained
    return items_and_users(model, split.train.matrix, most_items=90, most_users=50, seed=1)


def test_clusters_by_cosine_stay_apart(clusters):
    vectors, cluster = clusters
    placed = positions(vectors)
    distance = np.linalg.norm(placed[:, None] - placed[None], axis=2)
    same = cluster[:, None] == cluster[None]
    assert distance[same].max() < distance[~same].min()


def test_a_map_is_deterministic_and_ignores_the_lengths_of_vectors(clusters):
    vectors, _ = clusters
    np.testing.assert_array_equal(positions(vectors, seed=5), positions(vectors * 2.0, seed=5))


@pytest.mark.parametrize("points", [0, 1, 3, 4, 10])
def test_few_points_have_distinct_positions(points):
    placed = positions(np.random.default_rng(0).normal(size=(points, 5)))
    assert placed.shape == (points, 2)
    assert np.isfinite(placed).all()
    assert len(np.unique(placed, axis=0)) == points


@pytest.mark.parametrize("vectors", [np.ones((50, 3)), np.zeros((8, 3))])
def test_equal_points_have_finite_positions(vectors):
    assert np.isfinite(positions(vectors)).all()


def test_equal_points_lie_together():
    placed = positions(np.repeat(np.eye(4), 10, axis=0)).reshape(4, 10, 2)
    centres = placed.mean(axis=1)
    spread = np.linalg.norm(placed - centres[:, None], axis=2).max()
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)[np.triu_indices(4, 1)].min()
    assert spread < apart / 2


def test_items_and_users_are_json_with_their_concepts(shop_map, trained):
    model, _ = trained
    items, users = shop_map["items"], shop_map["users"]
    assert json.loads(json.dumps(shop_map, allow_nan=False)) == shop_map
    assert [len(items[key]) for key in ("x", "y", "concept", "position")] == [90] * 4
    assert [len(users[key]) for key in ("x", "y", "concept")] == [100] * 3
    assert items["position"] == sorted(set(items["position"]))
    assert items["concept"] == model.concepts_of_items()[items["position"]].tolist()
    assert items["x"] == [round(x, 2) for x in items["x"]]


def test_a_user_shows_the_most_confident_components_first(trained):
    model, split = trained
    histories = split.train.matrix[:10]
    shown = items_and_users(model, histories, components=3, most_items=5)["users"]["concept"]
    confidence = model.confidence(histories)
    for user, concepts in enumerate(np.reshape(shown, (10, 3))):
        np.testing.assert_array_equal(confidence[user, concepts], np.sort(confidence[user])[::-1][:3])


def test_components_lie_near_others_of_the_same_concept(shop_map):
    placed = np.column_stack([shop_map["users"]["x"], shop_map["users"]["y"]])
    concept = np.array(shop_map["users"]["concept"])
    distance = np.linalg.norm(placed[:, None] - placed[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert np.mean(concept[distance.argmin(axis=1)] == concept) > 0.9


def test_an_empty_history_and_more_components_than_concepts(trained):
    model, split = trained
    none = sp.csr_array((3, split.train.matrix.shape[1]), dtype=np.float32)
    assert items_and_users(model, none, most_items=6)["users"] == {"x": [], "y": [], "concept": []}
    one = sp.csr_array(split.train.matrix[:1])
    found = items_and_users(model, one, components=99, most_items=6)["users"]["concept"]
    assert sorted(found) == list(range(7))


def test_without_opentsne_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(MacridError, match=r"openTSNE.*pip install 'macrid\[plot\]'"):
        positions(np.eye(5))
