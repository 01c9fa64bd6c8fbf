"""Lists of moved users against a loop in float64."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import logsumexp

from macrid.control.state import faded
from macrid.models.neighbours import Neighbours
from macrid.ops.topk import BLOCK, Decoder
from macrid.report.moving import Moving

USERS, CONCEPTS, DIM, ITEMS, N = 5, 3, 4, 40, 6


@pytest.fixture
def random():
    return np.random.default_rng(0)


def world(random, some, neighbours):
    vectors = random.standard_normal((ITEMS, DIM)).astype(np.float32)
    log_c = torch.from_numpy(random.standard_normal((ITEMS, CONCEPTS)).astype(np.float32)).log_softmax(dim=1)
    decoder = Decoder(torch.from_numpy(vectors), log_c, 0.3)
    components = random.standard_normal((USERS, CONCEPTS, DIM)).astype(np.float32)
    log_weights = np.log(random.dirichlet(np.ones(CONCEPTS), USERS)).astype(np.float32)
    histories = sp.csr_array((random.random((USERS, ITEMS)) < 0.2).astype(np.float32))
    items = np.sort(random.permutation(ITEMS)[:25]) if some else np.arange(ITEMS)
    linear = None
    if neighbours:
        weights = sp.random_array((ITEMS, ITEMS), density=0.2, rng=random, dtype=np.float32).tocsr()
        linear = Neighbours.from_state(
            {
                "offsets": torch.from_numpy(weights.indptr.astype(np.int64)),
                "targets": torch.from_numpy(weights.indices.astype(np.int32)),
                "weights": torch.from_numpy(weights.data),
            }
        )
    return Moving(decoder, components, log_weights, histories, items, linear)


def slow(moving, components, n):
    """(users, positions, n), one list at a time."""
    h, log_c = (part.double().numpy() for part in (moving.decoder.items, moving.decoder.log_assignment))
    linear = None if moving.neighbours is None else moving.neighbours.scores(moving.histories).double().numpy()
    lists = np.zeros((USERS, len(components), n), dtype=np.int64)
    for position, user in np.ndindex(len(components), USERS):
        z = components[position, user].astype(np.float64)
        log_w = moving.log_weights[user]
        scores = logsumexp(z @ h.T / 0.3 + log_c.T + log_w[:, None], axis=0)
        if linear is not None:
            before, after = (
                (torch.from_numpy(each), torch.from_numpy(log_w)) for each in (moving.components[user], z.astype("f4"))
            )
            scores = scores + float(faded(before, after, 0.3)) * linear[user]
        scores[moving.histories[[user]].indices] = -np.inf
        lists[user, position] = np.argsort(-scores[moving.items], kind="stable")[:n]
    return lists


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("concepts", [(), (1,), (2, 0), (0, 1, 2)])
def test_lists_of_moved_users_equal_those_scored_one_by_one(random, monkeypatch, concepts, some, neighbours):
    moving = world(random, some, neighbours)
    components = np.repeat(moving.components[None], 4, axis=0)
    for k in concepts:
        components[:, :, k] = random.standard_normal((4, USERS, DIM))
    expected = slow(moving, components, N)
    np.testing.assert_array_equal(moving.best(components, concepts, N), expected)
    monkeypatch.setitem(BLOCK, "cpu", 1)  # one position at a time
    np.testing.assert_array_equal(moving.best(components, concepts, N), expected)
