"""A warm start: whose vectors an item starts from, and under which numbers concepts go on."""

import copy
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import macrid
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.errors import DataError, SettingsError
from macrid.models import warm
from macrid.models.warm import Origin

QUICK = {"epochs": 2, "batch_size": 100, "device": "cpu"}


def interactions(rows, table=None):
    matrix = sp.csr_array(np.array(rows, dtype=np.float32))
    return Interactions(matrix, Ids.range(matrix.shape[0]), Ids.range(matrix.shape[1]), table)


def test_a_new_item_starts_from_the_items_of_its_users():
    users = [[1, 0, 0, 1]] * 30 + [[0, 1, 0, 0]] * 30 + [[0, 0, 1, 1]] * 10
    data = interactions(users)
    weights = warm.neighbour_weights(data, data.matrix, Origin(np.array([0, 1, 2, -1]), 0)).toarray()
    # cosine: 30 / √30 and 10 / √10
    np.testing.assert_allclose(weights, [[30**0.5 / (30**0.5 + 10**0.5), 0, 10**0.5 / (30**0.5 + 10**0.5)]])


def test_a_new_item_without_users_starts_from_items_with_its_attributes():
    kinds = ["bag"] * 12 + ["shoe"] * 12 + ["shoe"]
    users = np.eye(25)
    users[24] = 0
    data = interactions(users, pa.table({"kind": kinds}))
    weights = warm.neighbour_weights(data, data.matrix, Origin(np.array([*range(24), -1]), 0)).toarray()[0]
    assert weights[12:24].sum() == pytest.approx(1)
    assert (weights[:12] == 0).all()


def test_a_new_item_about_which_nothing_is_known_starts_from_what_is_popular():
    data = interactions([[1, 0, 0], [1, 1, 0], [1, 0, 0]])
    weights = warm.neighbour_weights(data, data.matrix, Origin(np.array([0, 1, -1]), 0)).toarray()
    np.testing.assert_allclose(weights, [[0.75, 0.25]])


def test_a_new_vector_is_as_long_as_its_neighbours_and_no_closer_to_anybody():
    generator = torch.Generator().manual_seed(1)
    kept = torch.nn.functional.normalize(torch.randn(6, 40, generator=generator), dim=1)
    weights = sp.csr_array(np.full((1, 6), 1 / 6))
    vector = warm.blended(kept, weights, generator)
    assert vector.norm() == pytest.approx(1, abs=1e-5)
    mean = kept.mean(dim=0)
    assert vector[0] @ mean == pytest.approx(float(mean @ mean), abs=1e-5)


@given(arrays.arrays(np.float64, (4, 4), elements=st.integers(0, 9).map(float)))
def test_concepts_get_the_numbers_under_which_most_choices_stay(joint):
    numbers = warm.old_numbers(joint)
    assert sorted(numbers.tolist()) == [0, 1, 2, 3]
    best = max(sum(joint[now, before] for now, before in enumerate(order)) for order in permutations(range(4)))
    assert joint[np.arange(4), numbers].sum() == best


def test_concepts_without_a_counterpart_get_the_numbers_left_over():
    assert warm.old_numbers(np.array([[0.0, 5], [0, 0], [7, 0]])).tolist() == [1, 2, 0]
    assert warm.old_numbers(np.zeros((3, 3))).tolist() == [0, 1, 2]


def test_prototypes_in_another_order_are_put_back(trained):
    old, _ = trained
    model = copy.deepcopy(old)
    with torch.no_grad():
        model.network.prototypes.copy_(model.network.prototypes[[2, 0, 1, 3, 4, 6, 5]].clone())
    assert warm.keep_numbers(model, old, warm.origin_of(model.items, old)) == 5
    torch.testing.assert_close(model.network.prototypes, old.network.prototypes)


def test_fit_goes_on_from_an_earlier_model_over_other_items(trained):
    old, split = trained
    keep = np.arange(3, len(split.items))
    ids = Ids([*list(split.items.take(keep)), "new"])
    matrix = sp.csr_array(sp.hstack([split.train.matrix[:, keep], split.train.matrix[:, [5]]]))
    model = macrid.MacridVAE().fit(Interactions(matrix, split.train.users, ids), warm_start=old, **QUICK)
    assert (model.settings.dim, model.network.concepts, model.settings.temperature) == (16, 7, old.settings.temperature)
    assert model.origin.dropped == 3
    assert model.origin.new.tolist() == [len(ids) - 1]
    same = model.concepts_of_items()[:-1] == old.concepts_of_items()[keep]
    assert same.mean() > 0.9
    assert model.concepts_of_items()[-1] == old.concepts_of_items()[5]  # the same users, the same concept


def test_another_number_of_concepts_is_possible_if_asked_for(trained):
    old, split = trained
    model = macrid.MacridVAE(concepts=4).fit(split.train, warm_start=old, **QUICK)
    assert model.network.concepts == 4


def test_labels_and_earlier_concepts_add_up(trained):
    from macrid.training.anchoring import WEIGHT, Together, anchor_of

    old, split = trained
    model = copy.deepcopy(old)
    model.started_from, model.origin = old, warm.origin_of(old.items, old)
    anchor = anchor_of(model, split.train.matrix)
    model.network.requires_grad_(False)
    vectors = model.network.item_vectors
    # H(c) of each item, weighted by the root of popularity, is the least that the term can be
    c = model.network.log_assignment().exp()
    weights = torch.from_numpy(np.sqrt(np.maximum(old.popularity, 1)))
    entropy = -(c * c.log()).sum(dim=1).double() @ weights.double() / weights.double().sum()
    scale = WEIGHT * split.train.matrix.nnz / split.train.matrix.shape[0]
    assert float(anchor.loss(model.network, vectors, None)) == pytest.approx(scale * float(entropy), rel=1e-4)
    both = Together((anchor, anchor)).loss(model.network, vectors, None)
    assert float(both) == pytest.approx(2 * scale * float(entropy), rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"dim": 8}, "dim is 8, but 16"), ({"similarity": "inner"}, "similarity"), ({"concepts": "merge"}, "merge")],
)
def test_settings_that_do_not_fit_the_earlier_weights_are_named(trained, settings, problem):
    with pytest.raises(SettingsError, match=problem):
        macrid.MacridVAE(**settings).fit(trained[1].train, warm_start=trained[0], **QUICK)


def test_labels_must_be_those_of_the_earlier_model(trained):
    old, split = trained
    labels = {"concept": {item: f"group {place % 2}" for place, item in enumerate(split.items)}}
    with pytest.raises(SettingsError, match=r"'group 0', 'group 1', but .* not labelled"):
        macrid.MacridVAE().fit(split.train, warm_start=old, labels=labels, **QUICK)


def test_only_a_macridvae_has_a_warm_start(trained):
    old, split = trained
    ease = macrid.EASE().fit(split.train)
    with pytest.raises(SettingsError, match="not of EASE"):
        macrid.MacridVAE().fit(split.train, warm_start=ease, **QUICK)
    with pytest.raises(SettingsError, match="MultVAE has no warm start"):
        macrid.MultVAE().fit(split.train, warm_start=old, **QUICK)


def test_a_model_that_shares_no_item_is_refused_with_ids_of_both(trained):
    old, split = trained
    other = Interactions(split.train.matrix, split.train.users, Ids([f"x{i}" for i in range(len(split.items))]))
    with pytest.raises(DataError, match=r"shares no item .*'x0', 'x1'"):
        macrid.MacridVAE().fit(other, warm_start=old, **QUICK)
