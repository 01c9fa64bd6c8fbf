"""Batches cut from the interactions on a device."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from macrid.ops.batches import DeviceHistories


@pytest.fixture(scope="module")
def matrix():
    dense = np.random.default_rng(0).random((20, 9)) < 0.3
    dense[4] = False
    dense[7] = True
    return sp.csr_array(dense.astype(np.float32))


@pytest.mark.parametrize("users", [[4, 19, 0, 7], [4], [7, 4], list(range(20))])
def test_a_batch_has_the_histories_of_its_users_in_order(matrix, users):
    data = DeviceHistories(matrix, torch.device("cpu"))
    expected = [matrix[[user]].indices.tolist() for user in users]
    total = sum(map(len, expected))
    for batch in (data.batch(torch.tensor(users)), data.copied(torch.tensor(users), total)):
        assert [batch.items[a:b].tolist() for a, b in zip(batch.starts, batch.stops, strict=True)] == expected
        assert batch.items.tolist() == [item for row in expected for item in row]
        assert batch.rows.tolist() == [place for place, row in enumerate(expected) for _ in row]
        assert batch.longest >= max(map(len, expected))
    assert data.sizes([torch.tensor(users), torch.tensor([4])]) == [total, 0]


def test_all_users_are_one_batch(matrix):
    histories = DeviceHistories(matrix, torch.device("cpu")).all()
    assert histories.items.tolist() == matrix.indices.tolist()
    assert histories.offsets.tolist() == matrix.indptr.tolist()
    assert histories.rows.tolist() == matrix.nonzero()[0].tolist()
    assert histories.longest == 9


def test_the_weights_of_a_batch_are_those_of_its_interactions_over_their_mean(matrix):
    weighted = matrix.copy()
    weighted.data = np.random.default_rng(1).integers(1, 9, matrix.nnz).astype(np.float32)
    data, mean = DeviceHistories(weighted, torch.device("cpu")), weighted.data.mean()
    users = [4, 19, 0, 7]
    for batch in (data.batch(torch.tensor(users)), data.copied(torch.tensor(users))):
        expected = [weighted[[user]].data / mean for user in users]
        np.testing.assert_allclose(batch.values, np.concatenate(expected), rtol=1e-6)
        np.testing.assert_allclose(batch.mass, [values.sum() for values in expected], rtol=1e-6)
    everyone = data.all()
    np.testing.assert_allclose(everyone.mass, weighted.sum(axis=1) / mean, rtol=1e-6)
    np.testing.assert_allclose(everyone.of(slice(7, 9)).values, weighted[[7, 8]].data / mean, rtol=1e-6)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_interactions_of_the_same_weight_have_none(matrix, weight):
    batch = DeviceHistories(weight * matrix, torch.device("cpu")).all()
    assert batch.values is None
    assert batch.mass.tolist() == np.diff(matrix.indptr).tolist()


def test_a_matrix_without_interactions_has_empty_histories():
    histories = DeviceHistories(sp.csr_array((3, 5)), torch.device("cpu")).all()
    assert histories.counts.tolist() == [0, 0, 0]
