"""A start for item vectors and prototypes that already knows which items go together.

Random starts make the concepts a matter of luck. Items that the same users have lie together in a truncated SVD of
the row-normalised interactions, and spherical k-means on it gives prototypes in the middle of such groups.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


def svd_start(matrix: sp.csr_array, concepts: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Item vectors (items, dim) and prototypes (concepts, dim), rows of unit length."""
    random = np.random.default_rng(seed)
    rank = min(dim, *(side - 1 for side in matrix.shape))
    vectors = random.normal(size=(matrix.shape[1], dim)) * 1e-3
    if rank >= 1:
        vectors[:, :rank] += item_factors(matrix, rank, random)
    vectors = _unit(vectors)
    prototypes = spherical_kmeans(vectors, concepts, random)
    return torch.from_numpy(vectors).float(), torch.from_numpy(prototypes).float()


def item_factors(matrix: sp.csr_array, rank: int, random: np.random.Generator) -> np.ndarray:
    """V · S of the truncated SVD of the matrix with rows of unit length, by subspace iteration: (items, rank)."""
    lengths = np.sqrt(np.maximum(np.diff(matrix.indptr), 1))
    rows = sp.dia_array((1 / lengths[None, :], [0]), shape=(len(lengths), len(lengths))) @ matrix.astype(np.float64)
    columns = rows.T.tocsr()
    width = min(rank + 10, min(matrix.shape))
    basis = np.linalg.qr(random.normal(size=(matrix.shape[1], width)))[0]
    for _ in range(6):
        basis = np.linalg.qr(columns @ (rows @ basis))[0]
    _, scale, right = np.linalg.svd(rows @ basis, full_matrices=False)
    return (basis @ right.T * scale)[:, :rank]


def spherical_kmeans(
    vectors: np.ndarray, clusters: int, random: np.random.Generator, starts: int = 8, rounds: int = 50
) -> np.ndarray:
    """Unit centres (clusters, dim) of the best of several k-means runs by cosine, each from a k-means++ start."""
    best, best_score = None, -np.inf
    for _ in range(starts):
        centres = _spread(vectors, clusters, random)
        label = None
        for _ in range(rounds):
            similarity = vectors @ centres.T
            new = similarity.argmax(axis=1)
            if label is not None and np.array_equal(new, label):
                break
            label = new
            sums = np.eye(clusters)[label].T @ vectors
            empty = np.linalg.norm(sums, axis=1) == 0
            sums[empty] = vectors[random.integers(len(vectors), size=int(empty.sum()))]
            centres = _unit(sums)
        score = float((vectors @ centres.T).max(axis=1).sum())
        if score > best_score:
            best, best_score = centres, score
    assert best is not None
    return best


def _spread(vectors: np.ndarray, clusters: int, random: np.random.Generator) -> np.ndarray:
    """k-means++: each next centre far from those chosen, with probability by squared distance."""
    centres = [vectors[random.integers(len(vectors))]]
    far = np.full(len(vectors), np.inf)
    for _ in range(clusters - 1):
        far = np.minimum(far, np.maximum(1 - vectors @ centres[-1], 0))
        total = far.sum()
        centres.append(
            vectors[random.choice(len(vectors), p=far / total) if total > 0 else random.integers(len(vectors))]
        )
    return np.stack(centres)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
