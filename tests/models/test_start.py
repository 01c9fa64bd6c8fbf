"""The SVD start: against an exact SVD, and on groups that are plain to see."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from macrid.evaluation.disentanglement import nmi
from macrid.models.start import item_factors, spherical_kmeans, svd_start


def groups(users=300, items=60, clusters=4, noise=0.02, seed=0):
    """Users who each have items of one group, and a little noise."""
    random = np.random.default_rng(seed)
    own = np.arange(items) % clusters
    likes = random.integers(clusters, size=users)
    x = random.random((users, items)) < np.where(likes[:, None] == own, 0.5, noise)
    return sp.csr_array(x.astype(np.float32)), own


def test_factors_span_what_the_exact_svd_spans():
    matrix, _ = groups()
    dense = matrix.toarray().astype(np.float64)
    dense /= np.sqrt(np.maximum(dense.sum(axis=1, keepdims=True), 1))
    _, s, vt = np.linalg.svd(dense, full_matrices=False)
    ours = item_factors(matrix, 4, torch.Generator().manual_seed(0)).numpy()
    np.testing.assert_allclose(np.linalg.norm(ours, axis=0), s[:4], rtol=1e-6)
    np.testing.assert_allclose(ours @ ours.T, (vt[:4].T * s[:4] ** 2) @ vt[:4], atol=2e-4)


def test_prototypes_lie_in_the_middle_of_the_groups():
    matrix, own = groups()
    vectors, prototypes = svd_start(matrix, 4, 10, seed=0)
    assert nmi((vectors @ prototypes.t()).argmax(dim=1).numpy(), own) == pytest.approx(1)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(60))
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(4))


def test_the_same_seed_gives_the_same_start():
    matrix, _ = groups()
    for a, b in zip(svd_start(matrix, 3, 8, 5), svd_start(matrix, 3, 8, 5), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 2), (3, 50), (50, 3)])
@pytest.mark.parametrize("clusters", [1, 4])
def test_data_smaller_than_the_dimension_still_starts(shape, clusters):
    vectors, prototypes = svd_start(sp.csr_array(np.ones(shape, dtype=np.float32)), clusters, 8, 0)
    assert vectors.shape == (shape[1], 8)
    assert prototypes.shape == (clusters, 8)
    assert torch.isfinite(vectors).all()
    assert torch.isfinite(prototypes).all()


def test_users_without_items_and_items_without_users_are_no_obstacle():
    matrix = sp.csr_array(np.pad(groups(40, 20)[0].toarray(), ((0, 3), (0, 3))))
    vectors, _ = svd_start(matrix, 4, 6, 0)
    assert torch.isfinite(vectors).all()


def test_kmeans_finds_directions_that_are_plain_to_see():
    random = torch.Generator().manual_seed(0)
    centres = torch.eye(5, dtype=torch.float64)
    label = torch.arange(200) % 5
    points = torch.nn.functional.normalize(
        centres[label] + 0.1 * torch.randn(200, 5, generator=random, dtype=torch.float64), dim=1
    )
    found = spherical_kmeans(points, 5, random)
    assert nmi((points @ found.t()).argmax(dim=1).numpy(), label.numpy()) == pytest.approx(1)
