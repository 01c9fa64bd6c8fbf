"""Batches that are sent to a device give the same histories, losses and weights as interactions that are there."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.data import store
from macrid.data.interactions import binary_csr
from macrid.ops.batches import DeviceHistories, shared
from macrid.ops.streaming import StreamedHistories, bytes_on_device, histories_on

CPU = torch.device("cpu")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = [CPU, pytest.param(torch.device("cuda"), marks=on_a_gpu)]


def matrix_of(users=50, items=30, weighted=False, seed=0):
    matrix = sp.random_array(
        (users, items), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(seed)
    )
    matrix.data = np.ceil(matrix.data * 5) if weighted else np.ones_like(matrix.data)
    return matrix


def parts(histories):
    """What the items of each user are, wherever they are kept."""
    items, starts, stops = (part.cpu().numpy() for part in (histories.items, histories.starts, histories.stops))
    values = None if histories.values is None else histories.values.cpu().numpy()
    users = [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
    totals = None if histories.totals is None else histories.totals.tolist()
    return [items[user].tolist() for user in users], values is None or [values[user].tolist() for user in users], totals


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_are_those_of_resident_interactions(device, weighted):
    matrix = matrix_of(weighted=weighted)
    resident, streamed = DeviceHistories(matrix, device, 0.5), StreamedHistories(matrix, device, 0.5)
    users = torch.randperm(50, device=device)
    batches = users.split(8)
    streamed.plan(batches)
    for batch in batches:
        assert parts(streamed.batch(batch)) == parts(resident.batch(batch))
    streamed.plan(batches)
    for batch in batches:
        one, other = streamed.copied(batch), resident.copied(batch)
        assert parts(one) == parts(other)
        assert torch.equal(one.rows, other.rows)
        assert torch.equal(one.weights, other.weights)
    assert parts(streamed.all()) == parts(resident.all())
    assert streamed.sizes(batches) == resident.sizes(batches)
    assert torch.equal(streamed.popularity(30), resident.popularity(30))


@pytest.mark.parametrize("device", DEVICES)
def test_batches_that_were_not_planned_are_right_and_the_plan_goes_on(device):
    matrix = matrix_of()
    resident, streamed = DeviceHistories(matrix, device), StreamedHistories(matrix, device)
    batches = torch.randperm(50, device=device).split(10)
    streamed.plan(batches)
    other = torch.arange(10, device=device)
    assert parts(streamed.batch(batches[0])) == parts(resident.batch(batches[0]))
    assert parts(streamed.batch(other)) == parts(resident.batch(other))
    assert parts(streamed.batch(batches[1])) == parts(resident.batch(batches[1]))
    streamed.plan(batches[::-1])
    assert parts(streamed.batch(batches[4])) == parts(resident.batch(batches[4]))


@pytest.mark.parametrize("device", DEVICES)
def test_users_without_items_and_empty_batches(device):
    matrix = binary_csr(np.array([0, 0, 2, 2]), np.array([1, 2], dtype=np.int32), (3, 4))
    streamed = StreamedHistories(matrix, device)
    assert parts(streamed.batch(torch.arange(3, device=device)))[0] == [[], [1, 2], []]
    assert parts(streamed.batch(torch.tensor([0, 2], device=device)))[0] == [[], []]


def test_what_does_not_fit_is_streamed():
    matrix = matrix_of()
    assert bytes_on_device(matrix) == 8 * matrix.nnz + 8 * 51
    assert histories_on(matrix, CPU).is_resident
    assert histories_on(matrix, CPU, 0.0, 1).is_resident
    assert not histories_on(matrix, CPU, 0.0, 0).is_resident


@pytest.mark.parametrize("likelihood", ["exact", "sampled"])
@pytest.mark.parametrize("device", DEVICES)
def test_training_gives_the_same_weights(shop_split, device, likelihood):
    models = []
    for limit in (None, 0):
        model = macrid.MacridVAE(concepts=3, dim=8, start="random", dropout=0.0)
        model.fit(shop_split.train, epochs=1, batch_size=64, likelihood=likelihood, device=device.type, seed=1,
                  precision="fp32", interactions_mib=limit)  # fmt: skip
        models.append(model)
    one, other = (model.network.item_vectors for model in models)
    torch.testing.assert_close(one, other, rtol=0, atol=0 if device == CPU else 1e-4)


def test_a_map_of_a_file_is_read_in_place(shop_split, tmp_path):
    store.write(shop_split, tmp_path / "data")
    matrix = store.read(tmp_path / "data").train.matrix
    data = DeviceHistories(matrix, CPU)
    assert data.items.data_ptr() == matrix.indices.ctypes.data
    assert not matrix.indices.flags.writeable
    expected = matrix.indices[:5].tolist()
    del matrix
    gc.collect()
    assert data.items[:5].tolist() == expected


def test_a_tensor_shares_memory_with_its_array():
    array = np.arange(5, dtype=np.int32)
    assert shared(array).data_ptr() == array.ctypes.data
    array.flags.writeable = False
    assert shared(array).data_ptr() == array.ctypes.data
    assert shared(np.empty(0, dtype=np.int32)).shape == (0,)
