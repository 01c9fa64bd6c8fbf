"""Initial item vectors, context vectors and prototypes that already group similar items.

Random starts make the concepts a matter of luck. In a truncated SVD of the row-normalised interactions, items with the
same users are close, and spherical k-means puts a prototype at the centre of each group. A truncated SVD of EASE's
weights contains more: how an item predicts others (context vectors) and is predicted by them (item vectors), given the
rest of the history.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from macrid.models.reference import ease_weights

OVERSAMPLING = 10
POWER_ITERATIONS = 6
EASE_REGULARISATION = 5.0  # times the mean popularity: a third to twice EASE's best on four data sets
KMEANS_STARTS = 20
KMEANS_ROUNDS = 50
KMEANS_NUMBERS = 1 << 26  # runs × items × clusters at once
KMEANS_SAMPLE = 1 << 16  # random items of larger catalogues


def svd_start(
    matrix: sp.csr_array, concepts: int, dim: int, seed: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Item vectors (items, dim) and prototypes (concepts, dim), rows of unit length, on the CPU.

    device: for k-means, which is most of the work.
    """
    generator = torch.Generator().manual_seed(seed)
    vectors = 1e-3 * torch.randn(matrix.shape[1], dim, generator=generator)
    rank = min(dim, *(side - 1 for side in matrix.shape))
    if rank >= 1:
        vectors[:, :rank] += item_factors(matrix, rank, generator)
    vectors = F.normalize(vectors, dim=1)
    return vectors, spherical_kmeans(vectors, concepts, generator, device)


def ease_start(
    matrix: sp.csr_array, concepts: int, dim: int, seed: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor, Tensor]:
    """Item and context vectors, (items, dim) each, and prototypes (concepts, dim), on the CPU.

    B ≈ contexts · itemsᵀ up to lengths: item vectors and prototypes have length 1, context vectors on average.
    device: for B and k-means, which are most of the work.
    """
    generator = torch.Generator().manual_seed(seed)
    regularisation = max(1.0, EASE_REGULARISATION * matrix.nnz / matrix.shape[1])
    weights = ease_weights(matrix, torch.device(device), regularisation)
    left, scale, right = truncated_svd(
        weights.matmul, weights.t().matmul, weights.shape, min(dim, len(weights)), generator, device
    )
    vectors = 1e-3 * torch.randn(2, len(weights), dim, generator=generator)
    for table, factors in zip(vectors, (right, left), strict=True):
        table[:, : len(scale)] += (factors * scale.sqrt()).cpu()
    items, contexts = F.normalize(vectors[0], dim=1), vectors[1] / vectors[1].norm(dim=1).mean()
    return items, contexts, spherical_kmeans(items, concepts, generator, device)


def item_factors(matrix: sp.csr_array, rank: int, generator: Generator, values: np.ndarray | None = None) -> Tensor:
    """V · S of the truncated SVD of the matrix with these values, or with rows of unit length: (items, rank)."""
    sizes = np.diff(matrix.indptr)
    values = np.repeat(np.maximum(sizes, 1).astype(np.float32) ** -0.5, sizes) if values is None else values
    rows = sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
    columns = rows.T.tocsr()
    _, scale, right = truncated_svd(
        lambda x: torch.from_numpy(rows @ x.numpy()),
        lambda x: torch.from_numpy(columns @ x.numpy()),
        matrix.shape,
        rank,
        generator,
    )
    return right * scale


def truncated_svd(
    times: Callable[[Tensor], Tensor],
    transposed_times: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    rank: int,
    generator: Generator,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, Tensor, Tensor]:
    """U (rows, rank), S (rank,), V (columns, rank) of a matrix given by its products, by subspace iteration."""
    basis = torch.randn(shape[1], min(rank + OVERSAMPLING, *shape), generator=generator).to(device)
    basis = torch.linalg.qr(basis).Q
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(transposed_times(times(basis))).Q
    left, scale, inner = torch.linalg.svd(times(basis), full_matrices=False)
    return left[:, :rank], scale[:rank], (basis @ inner.t())[:, :rank]


def spherical_kmeans(
    vectors: Tensor, clusters: int, generator: Generator, device: torch.device | str = "cpu"
) -> Tensor:
    """Unit centres (clusters, dim) of the best of several k-means runs by cosine, each from a k-means++ start.

    All runs share two matrix products per round.
    """
    if len(vectors) > KMEANS_SAMPLE:
        vectors = vectors[torch.randint(len(vectors), (KMEANS_SAMPLE,), generator=generator)]
    at_once = max(1, KMEANS_NUMBERS // (len(vectors) * clusters))
    starts = [_spread(vectors, clusters, generator).to(device) for _ in range(KMEANS_STARTS)]
    vectors = vectors.to(device)
    runs = [_kmeans(vectors, torch.stack(starts[i : i + at_once]), generator) for i in range(0, len(starts), at_once)]
    best = [centres for group in runs for centres in group]
    return max(best, key=lambda centres: float((vectors @ centres.t()).amax(dim=1).sum())).cpu()


def _kmeans(vectors: Tensor, centres: Tensor, generator: Generator) -> Tensor:
    """Several runs at once, from centres (runs, clusters, dim), until none changes."""
    count, clusters, _ = centres.shape
    label = torch.full((count, len(vectors)), -1, device=vectors.device)
    running = torch.arange(count, device=vectors.device)
    for _ in range(KMEANS_ROUNDS):
        new = (centres[running] @ vectors.t()).argmax(dim=1)  # (runs, items)
        moved = (new != label[running]).any(dim=1)
        label[running], running = new, running[moved]
        if not len(running):
            break
        members = vectors.new_zeros(len(running), clusters, len(vectors)).scatter_(1, label[running, None], 1.0)
        sums = members @ vectors
        empty = sums.norm(dim=2) == 0
        others = torch.randint(len(vectors), (int(empty.sum()),), generator=generator)
        sums[empty] = vectors[others.to(vectors.device)]
        centres[running] = F.normalize(sums, dim=2)
    return centres


def _spread(vectors: Tensor, clusters: int, generator: Generator) -> Tensor:
    """k-means++: each centre is drawn with probability by its squared distance (2 − 2 · cosine) from those before."""
    chosen = [int(torch.randint(len(vectors), (1,), generator=generator))]
    far = torch.full((len(vectors),), torch.inf, dtype=vectors.dtype)
    for _ in range(clusters - 1):
        far = torch.minimum(far, (1 - vectors @ vectors[chosen[-1]]).clamp(min=0))
        weights = far if far.sum() > 0 else torch.ones_like(far)
        chosen.append(int(torch.multinomial(weights, 1, generator=generator)))
    return vectors[chosen]
