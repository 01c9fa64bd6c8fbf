"""A start for item vectors and prototypes that already knows which items go together.

Random starts make the concepts a matter of luck. Items that the same users have lie together in a truncated SVD of
the row-normalised interactions, and spherical k-means on it gives prototypes in the middle of such groups.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

OVERSAMPLING = 10
POWER_ITERATIONS = 6
KMEANS_STARTS = 20
KMEANS_ROUNDS = 50


def svd_start(matrix: sp.csr_array, concepts: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Item vectors (items, dim) and prototypes (concepts, dim), rows of unit length."""
    generator = torch.Generator().manual_seed(seed)
    vectors = 1e-3 * torch.randn(matrix.shape[1], dim, generator=generator, dtype=torch.float64)
    rank = min(dim, *(side - 1 for side in matrix.shape))
    if rank >= 1:
        vectors[:, :rank] += item_factors(matrix, rank, generator)
    vectors = F.normalize(vectors, dim=1)
    return vectors.float(), spherical_kmeans(vectors, concepts, generator).float()


def item_factors(matrix: sp.csr_array, rank: int, generator: Generator) -> Tensor:
    """V · S of the truncated SVD of the matrix with rows of unit length, by subspace iteration: (items, rank)."""
    counts = np.maximum(np.diff(matrix.indptr), 1)
    rows = sp.csr_array((np.repeat(counts**-0.5, np.diff(matrix.indptr)), matrix.indices, matrix.indptr), matrix.shape)
    columns = rows.T.tocsr()
    basis = torch.randn(
        matrix.shape[1], min(rank + OVERSAMPLING, *matrix.shape), generator=generator, dtype=torch.float64
    )
    basis = torch.linalg.qr(basis).Q
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(torch.from_numpy(columns @ (rows @ basis.numpy()))).Q
    _, scale, right = torch.linalg.svd(torch.from_numpy(rows @ basis.numpy()), full_matrices=False)
    return (basis @ right.t() * scale)[:, :rank]


def spherical_kmeans(vectors: Tensor, clusters: int, generator: Generator) -> Tensor:
    """Unit centres (clusters, dim) of the best of several k-means runs by cosine, each from a k-means++ start."""
    runs = [_kmeans(vectors, clusters, generator) for _ in range(KMEANS_STARTS)]
    return max(runs, key=lambda centres: float((vectors @ centres.t()).amax(dim=1).sum()))


def _kmeans(vectors: Tensor, clusters: int, generator: Generator) -> Tensor:
    centres = _spread(vectors, clusters, generator)
    label = torch.full((len(vectors),), -1)
    for _ in range(KMEANS_ROUNDS):
        new = (vectors @ centres.t()).argmax(dim=1)
        if torch.equal(new, label):
            break
        label = new
        sums = torch.zeros_like(centres).index_add_(0, label, vectors)
        empty = sums.norm(dim=1) == 0
        sums[empty] = vectors[torch.randint(len(vectors), (int(empty.sum()),), generator=generator)]
        centres = F.normalize(sums, dim=1)
    return centres


def _spread(vectors: Tensor, clusters: int, generator: Generator) -> Tensor:
    """k-means++: each next centre far from those chosen, with probability by squared distance (2 − 2 · cosine)."""
    chosen = [int(torch.randint(len(vectors), (1,), generator=generator))]
    far = torch.full((len(vectors),), torch.inf, dtype=vectors.dtype)
    for _ in range(clusters - 1):
        far = torch.minimum(far, (1 - vectors @ vectors[chosen[-1]]).clamp(min=0))
        weights = far if far.sum() > 0 else torch.ones_like(far)
        chosen.append(int(torch.multinomial(weights, 1, generator=generator)))
    return vectors[chosen]
