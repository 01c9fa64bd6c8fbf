"""Initial item vectors, context vectors and prototypes that already group similar items.

Random starts make the concepts a matter of luck. In a truncated SVD of the row-normalised interactions, items with the
same users are close. A truncated SVD of EASE's weights contains more: how an item predicts others (context vectors) and
is predicted by them (item vectors), given the rest of the history.

Either way, prototypes are the centres of a consensus: a partition of the items that depends on the data, not on the
seed of the training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from macrid.models.reference import ease_weights
from macrid.ops.sparse import csr_tensor
from macrid.ops.streaming import fits

OVERSAMPLING = 10
POWER_ITERATIONS = 6
EASE_REGULARISATION = 5.0  # times the mean popularity: a third to twice EASE's best on four data sets
KMEANS_STARTS = 20
KMEANS_ROUNDS = 50
KMEANS_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 26}  # runs × items × clusters at once: what fits in cache, or memory
KMEANS_SAMPLE = 1 << 16  # random items of larger catalogues
CONSENSUS_RANK = 20
CONSENSUS_POPULARITY = 0.25  # columns are divided by this power of their sum
CONSENSUS_SEEDS = 3
CONSENSUS_STARTS = 20
CONSENSUS_ITEMS = 1 << 15  # random items of larger catalogues
CONSENSUS_EVENTS = 1 << 22  # of random users
USUAL = 10  # concepts, where no number is plain
CANDIDATES = (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20)
FEWEST_PER_CONCEPT = 10  # items, on average
PLAIN = 0.96
HALVINGS = 2
HALVING_STARTS = 16
HALVING_ITEMS = 1 << 10  # the most popular


def svd_start(
    matrix: sp.csr_array, concepts: int | Literal["auto"], dim: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Item vectors (items, dim) and prototypes (concepts, dim), rows of unit length, on the CPU.

    concepts: auto takes `number_of_concepts`. device: for SVDs and k-means, which are most of the work.
    """
    generator = torch.Generator().manual_seed(0)
    vectors = svd_vectors(matrix, dim, generator, device)
    return vectors, prototypes_among(matrix, vectors, concepts, generator, device)


def svd_vectors(matrix: sp.csr_array, dim: int, generator: Generator, device: torch.device | str = "cpu") -> Tensor:
    """Item vectors (items, dim) of unit length, on the CPU; the generator fills what the SVD leaves open."""
    vectors = 1e-3 * torch.randn(matrix.shape[1], dim, generator=generator)
    rank = min(dim, *(side - 1 for side in matrix.shape))
    if rank >= 1:
        vectors[:, :rank] += item_factors(matrix, rank, torch.Generator().manual_seed(0), device=device)
    return F.normalize(vectors, dim=1)


def ease_start(
    matrix: sp.csr_array, concepts: int | Literal["auto"], dim: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor, Tensor]:
    """Item and context vectors, (items, dim) each, and prototypes (concepts, dim), on the CPU.

    B ≈ contexts · itemsᵀ up to lengths: item vectors and prototypes have length 1, context vectors on average.
    concepts: auto takes `number_of_concepts`. device: for B and k-means, which are most of the work.
    """
    generator = torch.Generator().manual_seed(0)
    regularisation = max(1.0, EASE_REGULARISATION * matrix.nnz / matrix.shape[1])
    weights = ease_weights(matrix, torch.device(device), regularisation)
    left, scale, right = truncated_svd(
        weights.matmul, weights.t().matmul, weights.shape, min(dim, len(weights)), torch.Generator().manual_seed(0),
        device,
    )  # fmt: skip
    vectors = 1e-3 * torch.randn(2, len(weights), dim, generator=generator)
    for table, factors in zip(vectors, (right, left), strict=True):
        table[:, : len(scale)] += (factors * scale.sqrt()).cpu()
    items, contexts = F.normalize(vectors[0], dim=1), vectors[1] / vectors[1].norm(dim=1).mean()
    return items, contexts, prototypes_among(matrix, items, concepts, generator, device)


def consensus(matrix: sp.csr_array, concepts: int, device: torch.device | str = "cpu") -> Tensor:
    """The concept of each item (items,), the most popular concept first, whatever the order of the users.

    k-means finds the best of many partitions in each of several SVDs; of these, the one that the others agree with
    most is taken. An item counts by the square root of its popularity, since a few events say little about it.
    """
    matrix = _sorted_users(matrix)
    weights = _popularity(matrix).sqrt()
    generators = [torch.Generator().manual_seed(seed) for seed in range(CONSENSUS_SEEDS)]
    partitions = []
    for generator in generators:
        space = _concept_space(matrix, generator, device)
        partitions += _partitions(space, (concepts,), weights, generator, CONSENSUS_STARTS, device)
    best = max(partitions, key=lambda one: sum(agreement(one, other, weights) for other in partitions))
    mass = torch.bincount(best, weights.square(), minlength=concepts)
    return mass.argsort(descending=True, stable=True).argsort()[best]


def number_of_concepts(matrix: sp.csr_array, device: torch.device | str = "cpu") -> int:
    """The number of groups that are plain in the data, if there is one; else 10, or fewer for small catalogues.

    A number is plain if halves of the users give the same partition of the popular items, with an agreement (ARI) of at
    least PLAIN; of several, the largest counts. Most data has no such number: there, 10 is as many as most people can
    take in and come out much the same in every training.
    """
    matrix = _sorted_users(matrix)
    popularity, popular = _popularity(matrix).sort(descending=True, stable=True)
    weights, popular = popularity[:HALVING_ITEMS], popular[:HALVING_ITEMS]
    sides = [side for half in _halves(matrix, HALVINGS) for side in (half, ~half)]
    numbers = [number for number in CANDIDATES if number * FEWEST_PER_CONCEPT <= len(popular)]
    found: dict[int, list[Tensor]] = {number: [] for number in numbers}
    pairs = len(sides) * (len(sides) - 1) / 2
    lacking = dict.fromkeys(numbers, pairs * (1 - PLAIN))  # how far all pairs together may be from 1
    for seed, side in enumerate(sides):
        numbers = [number for number in numbers if lacking[number] >= 0]
        if not numbers:
            break
        generator = torch.Generator().manual_seed(seed)
        space = _concept_space(matrix[side], generator, device)[popular]
        for number, labels in zip(
            numbers, _partitions(space, numbers, weights.sqrt(), generator, HALVING_STARTS, device), strict=True
        ):
            lacking[number] -= sum(1 - agreement(labels, other, weights) for other in found[number])
            found[number].append(labels)
    usual = max(2, min(USUAL, len(popular) // FEWEST_PER_CONCEPT))
    return max((number for number in numbers if lacking[number] >= 0), default=usual)


def agreement(first: Tensor, second: Tensor, weights: Tensor) -> float:
    """Adjusted Rand index of two partitions whose items have weights: (items,) each."""
    _, codes = (first * (int(second.max()) + 1) + second).unique(return_inverse=True)
    together = [torch.bincount(labels, weights.double()).square().sum() for labels in (codes, first, second)]
    both, one, other = (float(pairs / weights.double().sum().square()) for pairs in together)
    by_chance = one * other
    return 1.0 if one == other == 1 else (both - by_chance) / ((one + other) / 2 - by_chance)


def prototypes_among(
    matrix: sp.csr_array,
    vectors: Tensor,
    concepts: int | Literal["auto"],
    generator: Generator,
    device: torch.device | str,
) -> Tensor:
    """Unit centres (concepts, dim) of the consensus among these vectors; a random item's where a concept is empty."""
    count = number_of_concepts(matrix, device) if concepts == "auto" else concepts
    weighted = vectors * _popularity(matrix).sqrt()[:, None]
    sums = vectors.new_zeros(count, vectors.shape[1]).index_add_(0, consensus(matrix, count, device), weighted)
    others = vectors[torch.randint(len(vectors), (count,), generator=generator)]
    return F.normalize(torch.where(sums.norm(dim=1, keepdim=True) > 1e-6, sums, others), dim=1)


def _sorted_users(matrix: sp.csr_array) -> sp.csr_array:
    """The users in an order that depends on their items alone, and no more of them than CONSENSUS_EVENTS allows."""
    order = np.argsort(matrix @ np.random.default_rng(0).random(matrix.shape[1]), kind="stable")
    sizes = np.diff(matrix.indptr)[order]
    if matrix.nnz > CONSENSUS_EVENTS:
        sample = np.random.default_rng(0).permutation(len(order))
        order = order[np.sort(sample[np.cumsum(sizes[sample]) <= CONSENSUS_EVENTS])]
    return matrix[order]


def _halves(matrix: sp.csr_array, count: int) -> np.ndarray:
    """Whether each user is in the first half, several times: (count, users).

    A hash of three of the user's items decides, so that the loss of a few events leaves most users where they are.
    """
    random = np.random.default_rng(0)
    sizes = np.diff(matrix.indptr)
    users = np.repeat(np.arange(len(sizes)), sizes)
    items = matrix.indices[np.lexsort((random.permutation(matrix.shape[1])[matrix.indices], users))]
    table = random.integers(1 << 62, size=(3, matrix.shape[1]))
    codes = np.zeros(len(sizes), dtype=np.int64)
    for place in range(3):
        known = sizes > place
        codes[known] ^= table[place, items[matrix.indptr[:-1][known] + place]]
    return (codes >> np.arange(count)[:, None]) % 2 == 1


def _popularity(matrix: sp.csr_array) -> Tensor:
    """Users of each item, or nearly none: (items,)."""
    return torch.from_numpy(np.bincount(matrix.indices, minlength=matrix.shape[1])).float().clamp(min=1e-3)


def _concept_space(matrix: sp.csr_array, generator: Generator, device: torch.device | str) -> Tensor:
    """Unit item vectors (items, rank) of a truncated SVD, in which popular items do not set the directions alone."""
    rank = min(CONSENSUS_RANK, *(side - 1 for side in matrix.shape))
    if rank < 1:
        return torch.zeros(matrix.shape[1], 1)
    sizes = np.diff(matrix.indptr)
    columns = _popularity(matrix).numpy()[matrix.indices] ** -CONSENSUS_POPULARITY
    values = columns * np.repeat(np.maximum(sizes, 1).astype(np.float32) ** -0.5, sizes)
    return F.normalize(item_factors(matrix, rank, generator, values, device), dim=1)


def _partitions(
    vectors: Tensor,
    sizes: Sequence[int],
    weights: Tensor,
    generator: Generator,
    starts: int,
    device: torch.device | str,
) -> list[Tensor]:
    """Labels (items,) of the best of many k-means runs, for each number of clusters."""
    sample = torch.randperm(len(vectors), generator=generator)[:CONSENSUS_ITEMS]
    found = kmeans_of_sizes(vectors[sample], sizes, generator, device, weights[sample], starts)
    return [(vectors @ centres.t()).max(dim=1).indices for centres in found]


def item_factors(
    matrix: sp.csr_array,
    rank: int,
    generator: Generator,
    values: np.ndarray | None = None,
    device: torch.device | str = "cpu",
) -> Tensor:
    """V · S of the truncated SVD of the matrix with these values, or with rows of unit length: (items, rank)."""
    sizes = np.diff(matrix.indptr)
    values = np.repeat(np.maximum(sizes, 1).astype(np.float32) ** -0.5, sizes) if values is None else values
    rows = sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
    times, transposed_times = _product(rows, device), _product(rows.T.tocsr(), device)
    _, scale, right = truncated_svd(times, transposed_times, matrix.shape, rank, generator, device)
    return (right * scale).cpu()


def _product(matrix: sp.csr_array, device: torch.device | str) -> Callable[[Tensor], Tensor]:
    """The product with a dense matrix on this device, computed on the CPU if it is that or has no room for both."""
    if not fits(matrix, torch.device(device)):
        return lambda x: torch.from_numpy(matrix @ x.cpu().numpy()).to(device)
    starts, columns, values = (
        torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return csr_tensor(starts, columns, values, matrix.shape).matmul


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
    left, triangle = torch.linalg.qr(times(basis))
    turn, scale, inner = (part.to(device) for part in torch.linalg.svd(triangle.cpu()))
    return left @ turn[:, :rank], scale[:rank], basis @ inner.t()[:, :rank]


def spherical_kmeans(
    vectors: Tensor,
    clusters: int,
    generator: Generator,
    device: torch.device | str = "cpu",
    weights: Tensor | None = None,
    starts: int = KMEANS_STARTS,
) -> Tensor:
    """Unit centres (clusters, dim) of the best of several k-means runs by cosine, each from a k-means++ start.

    weights: how much each vector counts, (items,); equal by default.
    """
    weights = torch.ones(len(vectors), dtype=vectors.dtype) if weights is None else weights
    if len(vectors) > KMEANS_SAMPLE:
        sample = torch.randint(len(vectors), (KMEANS_SAMPLE,), generator=generator)
        vectors, weights = vectors[sample], weights[sample]
    return kmeans_of_sizes(vectors, (clusters,), generator, device, weights, starts)[0]


def kmeans_of_sizes(
    vectors: Tensor,
    sizes: Sequence[int],
    generator: Generator,
    device: torch.device | str,
    weights: Tensor,
    starts: int,
) -> list[Tensor]:
    """As `spherical_kmeans`, for several numbers of clusters, whose runs share matrix products."""
    vectors, weights = vectors.to(device), weights.to(device)
    spread = _spread(vectors, max(sizes), generator, weights, starts)
    runs = [(size, start) for size in sorted(sizes) for start in range(starts)]
    at_once = KMEANS_NUMBERS[vectors.device.type] // len(vectors)  # runs × clusters
    found: dict[int, list[tuple[float, Tensor]]] = {size: [] for size in sizes}
    while runs:
        count = max(1, sum(size * place <= at_once for place, (size, _) in enumerate(runs, start=1)))
        (group, from_starts), runs = zip(*runs[:count], strict=True), runs[count:]
        centres = spread[list(from_starts), : group[-1]]
        centres, fits = _kmeans(vectors, centres, torch.tensor(group, device=vectors.device), generator, weights)
        for size, fit, run in zip(group, fits.tolist(), centres, strict=True):
            found[size].append((fit, run[:size]))
    return [max(found[size], key=lambda run: run[0])[1].cpu() for size in sizes]


def _kmeans(
    vectors: Tensor, centres: Tensor, sizes: Tensor, generator: Generator, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Several runs at once, from centres (runs, clusters, dim), of which run r has the first sizes[r].

    Returns their centres, and the sums of the cosines of all vectors with the nearest (runs,).
    """
    count, clusters, _ = centres.shape
    unused = torch.arange(clusters, device=vectors.device) >= sizes[:, None]  # (runs, clusters)
    label = torch.full((count, len(vectors)), -1, device=vectors.device)
    running = torch.arange(count, device=vectors.device)
    fits = vectors.new_zeros(count)
    for _ in range(KMEANS_ROUNDS):
        cosines = (centres[running] @ vectors.t()).masked_fill_(unused[running, :, None], -2)  # (runs, clusters, items)
        nearest, new = cosines.max(dim=1)  # argmax alone is many times slower
        fits[running] = nearest @ weights
        moved = (new != label[running]).any(dim=1)
        label[running], running = new, running[moved]
        if not len(running):
            break
        members = vectors.new_zeros(len(running), clusters, len(vectors))
        sums = members.scatter_(1, label[running, None], weights.expand(len(running), 1, -1)) @ vectors
        empty = (sums.norm(dim=2) == 0) & ~unused[running]
        others = torch.randint(len(vectors), (int(empty.sum()),), generator=generator)
        sums[empty] = vectors[others.to(vectors.device)]
        centres[running] = F.normalize(sums, dim=2)
    return centres, fits


def _spread(vectors: Tensor, clusters: int, generator: Generator, weights: Tensor, starts: int) -> Tensor:
    """k-means++ (starts, clusters, dim): each centre is drawn by weight and squared distance (2 − 2 · cosine).

    The first of several exponential clocks to ring is a draw by their rates, the same on all devices.
    """
    odds, chosen = weights.expand(starts, -1), []
    far = torch.full((starts, len(vectors)), torch.inf, dtype=vectors.dtype, device=vectors.device)
    for _ in range(clusters):
        clocks = torch.empty(starts, len(vectors)).exponential_(generator=generator)
        chosen.append((odds / clocks.to(vectors.device)).max(dim=1).indices)
        far = torch.minimum(far, (1 - vectors[chosen[-1]] @ vectors.t()).clamp(min=0))
        odds = far * weights
        odds[odds.sum(dim=1) == 0] = weights
    return vectors[torch.stack(chosen, dim=1)]
