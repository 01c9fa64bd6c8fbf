"""The starts: against an exact SVD, against EASE, and on groups that are plain to see."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.errors import TrainingError
from macrid.evaluation.agreement import nmi
from macrid.models import reference, start
from macrid.models.base import checked
from macrid.models.macridvae import NOISE
from macrid.models.start import (
    EASE_REGULARISATION,
    agreement,
    consensus,
    ease_start,
    item_factors,
    number_of_concepts,
    spherical_kmeans,
    svd_start,
)
from macrid.settings import TrainingSettings


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
    vectors, prototypes = svd_start(matrix, 4, 10)
    assert nmi((vectors @ prototypes.t()).argmax(dim=1).numpy(), group) == pytest.approx(1)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(60))
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(4))


def test_the_same_data_gives_the_same_start():
    matrix, _ = groups()
    for a, b in zip(svd_start(matrix, 3, 8), svd_start(matrix, 3, 8), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 2), (3, 50), (50, 3)])
@pytest.mark.parametrize("clusters", [1, 4])
def test_data_smaller_than_the_dimension_is_accepted(shape, clusters):
    vectors, prototypes = svd_start(sp.csr_array(np.ones(shape, dtype=np.float32)), clusters, 8)
    assert vectors.shape == (shape[1], 8)
    assert prototypes.shape == (clusters, 8)
    assert torch.isfinite(vectors).all()
    assert torch.isfinite(prototypes).all()


def test_empty_users_and_items_are_allowed():
    matrix = sp.csr_array(np.pad(groups(40, 20)[0].toarray(), ((0, 3), (0, 3))))
    vectors, _ = svd_start(matrix, 4, 6)
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


def test_the_consensus_finds_the_groups():
    matrix, group = groups()
    assert nmi(consensus(matrix, 4).numpy(), group) == pytest.approx(1)


def test_the_consensus_is_the_same_for_any_order_of_users():
    matrix, _ = groups(noise=0.3)
    labels = consensus(matrix, 5)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(matrix.shape[0])
        assert torch.equal(consensus(matrix[order], 5), labels)


def test_concepts_are_numbered_by_popularity():
    matrix, _ = groups(users=400, items=50, clusters=5)
    labels = consensus(matrix, 5)
    events = np.bincount(labels[matrix.indices], minlength=5)
    assert (np.diff(events) <= 0).all()


def test_rare_items_do_not_move_the_concepts_of_popular_ones():
    matrix, group = groups()
    random = np.random.default_rng(1)
    rare = random.random((matrix.shape[0], 300)) < 0.004
    both = sp.csr_array(np.hstack([matrix.toarray(), rare.astype(np.float32)]))
    assert nmi(consensus(both, 4).numpy()[:60], group) == pytest.approx(1)


@pytest.mark.parametrize("begin", [svd_start, ease_start])
def test_a_start_finds_nearly_the_same_groups_in_halves_of_the_users(begin):
    matrix, _ = groups(users=800, noise=0.2)
    labels = [
        (items @ prototypes.t()).argmax(dim=1)
        for items, *_, prototypes in (begin(matrix[half::2], 4, 10) for half in (0, 1))
    ]
    assert agreement(*labels, torch.ones(60)) > 0.9


@pytest.mark.parametrize("start", ["svd", "svd-encoder", "ease", "random"])
def test_only_a_random_start_depends_on_the_seed(start):
    matrix, _ = groups()
    networks = []
    for seed in (0, 1):
        model = macrid.MacridVAE(concepts=4, dim=6, start=start)
        model.prepare(checked(matrix, None), TrainingSettings(seed=seed, device="cpu"))
        networks.append(model.network)
    same = [torch.equal(*pair) for pair in zip(*(network.parameters() for network in networks), strict=True)]
    assert all(same) == (start != "random")


@pytest.mark.parametrize("clusters", [4, 7, 10, 12])
def test_the_number_of_planted_groups_is_found(clusters):
    matrix, _ = groups(users=600, items=180, clusters=clusters)
    assert number_of_concepts(matrix) == clusters


@pytest.mark.parametrize(("items", "expected"), [(150, 10), (50, 5)])
def test_data_without_plain_groups_has_ten_concepts_or_fewer_if_it_is_small(items, expected):
    chosen = np.random.default_rng(0).random((400, items)) < 0.1
    assert number_of_concepts(sp.csr_array(chosen.astype(np.float32))) == expected


def test_the_number_of_concepts_is_the_same_for_any_order_of_users():
    matrix, _ = groups(users=200, noise=0.3)
    order = np.random.default_rng(0).permutation(200)
    assert number_of_concepts(matrix[order]) == number_of_concepts(matrix)


def test_auto_starts_with_as_many_prototypes_as_there_are_groups():
    matrix, group = groups(users=600, items=120, clusters=5)
    vectors, prototypes = svd_start(matrix, "auto", 10)
    assert prototypes.shape == (5, 10)
    assert nmi((vectors @ prototypes.t()).argmax(dim=1).numpy(), group) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (3, 50), (50, 3)])
def test_tiny_data_has_a_consensus_and_a_number_of_concepts(shape):
    matrix = sp.csr_array(np.ones(shape, dtype=np.float32))
    labels = consensus(matrix, 6)
    assert labels.shape == (shape[1],)
    assert 0 <= int(labels.min()) <= int(labels.max()) < 6
    assert number_of_concepts(matrix) == max(2, min(10, shape[1] // 10))


def test_no_events_at_all_are_accepted():
    matrix = sp.csr_array((4, 9), dtype=np.float32)
    assert number_of_concepts(matrix) == 2
    assert torch.isfinite(svd_start(matrix, "auto", 5)[1]).all()


def test_more_concepts_than_items_have_prototypes_of_unit_length():
    _, prototypes = svd_start(groups(users=40, items=5)[0], 9, 4)
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(9))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=40))
def test_agreement_of_equal_weights_follows_the_pairs_of_items(pairs):
    first, second = torch.tensor(pairs).t()
    weights = torch.ones(len(pairs))
    same = [[a == b for a in labels for b in labels] for labels in (first.tolist(), second.tolist())]
    one, other, both = np.mean(same[0]), np.mean(same[1]), np.mean(np.logical_and(*same))
    expected = 1 if one == other == 1 else (both - one * other) / ((one + other) / 2 - one * other)
    assert agreement(first, second, weights) == pytest.approx(expected)


def test_an_item_of_weight_two_counts_as_two_items():
    first, second = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 1, 1, 0])
    weights = torch.tensor([2, 1, 1, 3, 1])
    repeated = agreement(first.repeat_interleave(weights), second.repeat_interleave(weights), torch.ones(8))
    assert agreement(first, second, weights) == pytest.approx(repeated)


def test_a_heavy_vector_keeps_a_centre_of_its_own():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(100, 3, generator=generator), dim=1)
    weights = torch.ones(100)
    weights[7] = 1e6
    centres = spherical_kmeans(vectors, 4, generator, weights=weights)
    torch.testing.assert_close(centres[(centres @ vectors[7]).argmax()], vectors[7], atol=1e-3, rtol=0)


def test_large_data_is_sampled(monkeypatch):
    matrix, group = groups(users=600)
    monkeypatch.setattr(start, "CONSENSUS_EVENTS", matrix.nnz // 3)
    monkeypatch.setattr(start, "CONSENSUS_ITEMS", 30)
    assert nmi(consensus(matrix, 4).numpy(), group) == pytest.approx(1)
    assert start._sorted_users(matrix).nnz <= matrix.nnz // 3


def test_item_and_context_vectors_of_full_rank_reproduce_the_weights_of_ease():
    matrix, _ = groups(users=200, items=30)
    weights = macrid.EASE(regularisation=EASE_REGULARISATION * matrix.nnz / 30).fit(matrix, device="cpu").weights
    items, contexts, prototypes = ease_start(matrix, 4, 30)
    product = contexts @ items.t()  # (items, items)
    cosine = torch.nn.functional.cosine_similarity(product, weights, dim=0)
    torch.testing.assert_close(cosine, torch.ones(30), atol=2e-3, rtol=0)
    torch.testing.assert_close(items.norm(dim=1), torch.ones(30))
    torch.testing.assert_close(contexts.norm(dim=1).mean(), torch.tensor(1.0))
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(4))


def test_ease_separates_groups():
    matrix, group = groups()
    items, _, prototypes = ease_start(matrix, 4, 4)
    assert nmi((items @ prototypes.t()).argmax(dim=1).numpy(), group) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 2), (3, 50), (50, 3)])
def test_ease_accepts_data_smaller_than_the_dimension(shape):
    tables = ease_start(sp.csr_array(np.ones(shape, dtype=np.float32)), 3, 8)
    assert [tuple(table.shape) for table in tables] == [(shape[1], 8), (shape[1], 8), (3, 8)]
    assert all(torch.isfinite(table).all() for table in tables)


def test_a_start_from_ease_begins_as_the_sum_of_the_context_vectors(shop_split):
    model = macrid.MacridVAE(start="ease", dim=12, concepts=3)
    model.fit(shop_split.train, epochs=1, learning_rate=1e-12, average=1, device="cpu")
    items, contexts, _ = ease_start(shop_split.train.matrix, 3, 12)
    network = model.network
    for table, begun, length in ((network.item_vectors, items, NOISE), (network.context_vectors, contexts, 1)):
        noise = table.detach() - begun
        assert float(noise.norm(dim=1).mean()) == pytest.approx(length, rel=0.1)
    identity = model.network.layers[0].weight[:12].detach()
    assert float((identity - torch.eye(12)).abs().max()) < 12**-0.5 + 1e-6


def test_too_many_items_for_a_start_from_ease_are_an_error(shop_split, monkeypatch):
    monkeypatch.setattr(reference, "memory_left", lambda device: 1000)
    with pytest.raises(TrainingError, match="160 items"):
        macrid.MacridVAE(start="ease").fit(shop_split.train, epochs=1)
