"""The starts: against an exact SVD, against EASE, and on groups that are plain to see."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.errors import TrainingError
from macrid.evaluation.agreement import nmi
from macrid.models import reference
from macrid.models.start import EASE_REGULARISATION, ease_start, item_factors, spherical_kmeans, svd_start


def groups(users=300, items=60, clusters=4, noise=0.02, seed=0):
    """Users who each have items of one group, and a little noise."""
    random = np.random.default_rng(seed)
    group = np.arange(items) % clusters
    likes = random.integers(clusters, size=users)
    x = random.random((users, items)) < np.where(likes[:, None] == group, 0.5, noise)
    return sp.csr_array(x.astype(np.float32)), group


def test_factors_span_what_the_exact_svd_spans():
    matrix, _ = groups()
    dense = matrix.toarray().astype(np.float64)
    dense /= np.sqrt(np.maximum(dense.sum(axis=1, keepdims=True), 1))
    _, s, vt = np.linalg.svd(dense, full_matrices=False)
    ours = item_factors(matrix, 4, torch.Generator().manual_seed(0)).numpy()
    np.testing.assert_allclose(np.linalg.norm(ours, axis=0), s[:4], rtol=1e-6)
    np.testing.assert_allclose(ours @ ours.T, (vt[:4].T * s[:4] ** 2) @ vt[:4], atol=2e-4)


def test_prototypes_are_the_centres_of_the_groups():
    matrix, group = groups()
    vectors, prototypes = svd_start(matrix, 4, 10, seed=0)
    assert nmi((vectors @ prototypes.t()).argmax(dim=1).numpy(), group) == pytest.approx(1)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(60))
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(4))


def test_the_same_seed_gives_the_same_start():
    matrix, _ = groups()
    for a, b in zip(svd_start(matrix, 3, 8, 5), svd_start(matrix, 3, 8, 5), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 2), (3, 50), (50, 3)])
@pytest.mark.parametrize("clusters", [1, 4])
def test_data_smaller_than_the_dimension_is_accepted(shape, clusters):
    vectors, prototypes = svd_start(sp.csr_array(np.ones(shape, dtype=np.float32)), clusters, 8, 0)
    assert vectors.shape == (shape[1], 8)
    assert prototypes.shape == (clusters, 8)
    assert torch.isfinite(vectors).all()
    assert torch.isfinite(prototypes).all()


def test_empty_users_and_items_are_allowed():
    matrix = sp.csr_array(np.pad(groups(40, 20)[0].toarray(), ((0, 3), (0, 3))))
    vectors, _ = svd_start(matrix, 4, 6, 0)
    assert torch.isfinite(vectors).all()


def test_kmeans_finds_well_separated_directions():
    random = torch.Generator().manual_seed(0)
    centres = torch.eye(5, dtype=torch.float64)
    label = torch.arange(200) % 5
    points = torch.nn.functional.normalize(
        centres[label] + 0.1 * torch.randn(200, 5, generator=random, dtype=torch.float64), dim=1
    )
    fitted = spherical_kmeans(points, 5, random)
    assert nmi((points @ fitted.t()).argmax(dim=1).numpy(), label.numpy()) == pytest.approx(1)


def test_item_and_context_vectors_of_full_rank_reproduce_the_weights_of_ease():
    matrix, _ = groups(users=200, items=30)
    weights = macrid.EASE(regularisation=EASE_REGULARISATION * matrix.nnz / 30).fit(matrix, device="cpu").weights
    items, contexts, prototypes = ease_start(matrix, 4, 30, seed=0)
    product = contexts @ items.t()  # (items, items)
    cosine = torch.nn.functional.cosine_similarity(product, weights, dim=0)
    torch.testing.assert_close(cosine, torch.ones(30), atol=2e-3, rtol=0)
    torch.testing.assert_close(items.norm(dim=1), torch.ones(30))
    torch.testing.assert_close(contexts.norm(dim=1).mean(), torch.tensor(1.0))
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(4))


def test_ease_separates_groups():
    matrix, group = groups()
    items, _, prototypes = ease_start(matrix, 4, 4, seed=0)
    assert nmi((items @ prototypes.t()).argmax(dim=1).numpy(), group) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 2), (3, 50), (50, 3)])
def test_ease_accepts_data_smaller_than_the_dimension(shape):
    tables = ease_start(sp.csr_array(np.ones(shape, dtype=np.float32)), 3, 8, 0)
    assert [tuple(table.shape) for table in tables] == [(shape[1], 8), (shape[1], 8), (3, 8)]
    assert all(torch.isfinite(table).all() for table in tables)


def test_a_start_from_ease_begins_as_the_sum_of_the_context_vectors(shop_split):
    model = macrid.MacridVAE(start="ease", dim=12, concepts=3)
    model.fit(shop_split.train, epochs=1, learning_rate=1e-12, average=1, device="cpu")
    items, contexts, _ = ease_start(shop_split.train.matrix, 3, 12, 0)
    for table, start in ((model.network.item_vectors, items), (model.network.context_vectors, contexts)):
        noise = table.detach() - start  # half structure, half noise
        assert float(noise.norm(dim=1).mean()) == pytest.approx(1, abs=0.1)
    identity = model.network.layers[0].weight[:12].detach()
    assert float((identity - torch.eye(12)).abs().max()) < 12**-0.5 + 1e-6


def test_too_many_items_for_a_start_from_ease_are_an_error(shop_split, monkeypatch):
    monkeypatch.setattr(reference, "memory_left", lambda device: 1000)
    with pytest.raises(TrainingError, match="160 items"):
        macrid.MacridVAE(start="ease").fit(shop_split.train, epochs=1)
