"""Neighbours: the sparse linear part of a score.

A history x adds x B to the scores of all items. Column i of EASE's B is a ridge regression of item i on all others;
here it keeps the few items with the strongest weights and is a regression on these alone, of which weak weights are
dropped. Where a matrix of all pairs of items is too large, or most pairs never occur together, neighbours are chosen by
a regression on the items that predict item i best one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.interactions import are_weighted
from macrid.errors import DataError
from macrid.models.devices import memory_left
from macrid.models.reference import ease_weights, gram
from macrid.ops import kernels
from macrid.ops.batches import relative
from macrid.ops.topk import BLOCK, pairs

EXACT_ITEMS = {"cpu": 20_000, "cuda": 60_000}  # the largest catalogue whose pairs are all computed: a few minutes
REGULARISATION = 20.0  # times the root of the mean popularity
REFIT = 0.5  # share of it where regressions have few predictors
CANDIDATES = 256  # predictors in each local regression
FEWEST_SPARSE = 4000  # items; of fewer, EASE's weights take no more than some seconds
SPARSE = 0.6  # share of items that occur together with at most CANDIDATES others
SMALLEST_GROUP = 8  # predictors; local regressions of about the same size are solved together
GATHERED = 1 << 23  # counts of pairs of predictors at once
TOGETHER = 16  # local regressions solved at once; their candidates overlap
USERS = 64  # scored at once by each thread on a CPU: more do not fit in cache
WEAK = 0.5  # of the mean weight; weaker ones cost time and hardly change a score
ENTRIES = 1 << 25  # weights added up at once on a GPU
WEIGHTS = (2.0, 4.0, 8.0, 16.0, 32.0)  # of the linear part, to choose from
USUAL = 8.0
FEWEST_USERS = 20  # to choose a weight on


@dataclass(frozen=True, eq=False)
class Neighbours:
    """B as CSR: item j adds weights[s] to the score of item targets[s] for s from offsets[j] to offsets[j + 1].

    8 bytes per weight and per offset: with 128 neighbours, 1,032 bytes per item.
    """

    offsets: Tensor
    """(items + 1,) int64"""
    targets: Tensor
    """(weights,) int32"""
    weights: Tensor
    """(weights,) float32"""
    width: int
    """Columns of B: all items, or those chosen by `columns`."""

    @classmethod
    def fit(cls, matrix: sp.csr_array, count: int, device: torch.device, regularisation: float | None = None) -> Self:
        """The `count` strongest neighbours of every item, computed on this device, from users × items.

        regularisation: EASE's; by default chosen from the popularity of the items.
        """
        matrix = relative(matrix)
        regularisation = suitable_regularisation(matrix) if regularisation is None else regularisation
        solve = exact_weights if is_exact(matrix.shape[1], device) else local_weights
        if solve is exact_weights and device.type == "cpu" and is_sparse(matrix):
            solve = sparse_weights
        sources, weights = solve(matrix, count, device, regularisation)
        return cls._from_columns(sources, without_weak(weights))

    @classmethod
    def _from_columns(cls, sources: Tensor, weights: Tensor) -> Self:
        """From the rows and values of the entries of every column: (items, count) each."""
        items, count = sources.shape
        targets = torch.arange(items, device=sources.device).repeat_interleave(count)
        kept = (weights.flatten() != 0).nonzero()[:, 0]
        sources, order = sources.flatten()[kept].sort(stable=True)
        kept = kept[order]
        offsets = torch.searchsorted(sources, torch.arange(items + 1, device=sources.device))
        return cls(offsets, targets[kept].int(), weights.flatten()[kept].float(), items)

    @classmethod
    def from_state(cls, state: dict[str, Tensor]) -> Self:
        """From what `state` returned; a ValueError if these tensors are not the CSR of a square matrix."""
        kinds = {name: (tensor.dtype, tensor.dim()) for name, tensor in state.items()}
        expected = {"offsets": (torch.int64, 1), "targets": (torch.int32, 1), "weights": (torch.float32, 1)}
        if kinds != expected:
            raise ValueError(f"neighbours have {kinds} instead of {expected}")
        offsets, targets, weights = state["offsets"], state["targets"], state["weights"]
        items = len(offsets) - 1
        if items < 0 or offsets[0] != 0 or offsets[-1] != len(targets) or (offsets.diff() < 0).any():
            raise ValueError(f"the offsets of neighbours do not rise from 0 to {len(targets)}, the number of targets")
        if len(targets) != len(weights):
            raise ValueError(f"neighbours have {len(targets)} targets and {len(weights)} weights")
        if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < items:
            raise ValueError(f"neighbours name items from {targets.min()} to {targets.max()}, but there are {items}")
        if not weights.isfinite().all():
            raise ValueError("neighbours have weights that are not finite")
        return cls(offsets, targets, weights, items)

    def state(self) -> dict[str, Tensor]:
        """All tensors by name, on the CPU."""
        return {name: getattr(self, name).cpu().contiguous() for name in ("offsets", "targets", "weights")}

    def to(self, device: torch.device) -> Self:
        return type(self)(self.offsets.to(device), self.targets.to(device), self.weights.to(device), self.width)

    def times(self, factor: float) -> Self:
        """With every weight multiplied."""
        return replace(self, weights=self.weights * factor)

    @property
    def items(self) -> int:
        return len(self.offsets) - 1

    @property
    def device(self) -> torch.device:
        return self.weights.device

    def columns(self, positions: Tensor) -> Self:
        """Only the weights towards these items, which are distinct, in this order."""
        place = torch.full((self.width,), -1, dtype=torch.int32, device=self.device)
        place[positions] = torch.arange(len(positions), dtype=torch.int32, device=self.device)
        targets = place[self.targets.long()]
        kept = (targets >= 0).nonzero()[:, 0]
        return type(self)(torch.searchsorted(kept, self.offsets), targets[kept], self.weights[kept], len(positions))

    def scores(self, histories: sp.csr_array) -> Tensor:
        """x B, where the weights of a user are 1 on average; 0 for an empty history: (users, width)."""
        if histories.shape[1] != self.items:
            raise DataError(f"the histories have {histories.shape[1]:,} items, the neighbours {self.items:,}")
        x = weights_by_user(histories)
        if self.device.type == "cpu":
            return self._scores_on_cpu(histories, x)
        if x is None and kernels.serve(self.weights):
            return self._scores_of_kernels(histories)
        return self._scores(histories, x)

    def sparse_scores(self, histories: sp.csr_array) -> sp.csr_array:
        """`scores` without the items that no neighbour of a history reaches: (users, width)."""
        rows = self._matrix[histories.indices]
        if (x := weights_by_user(histories)) is not None:
            rows.data *= np.repeat(x, np.diff(rows.indptr))
        merged = sp.csr_array(
            (rows.data, rows.indices, rows.indptr[histories.indptr]), (histories.shape[0], self.width)
        )
        merged.sum_duplicates()
        return merged

    @cached_property
    def _matrix(self) -> sp.csr_array:
        small = len(self.targets) < 2**31  # then all indices have four bytes; scipy wants them alike
        offsets = (self.offsets.int() if small else self.offsets).cpu().numpy()
        weights, targets = self.weights.cpu().numpy(), self.targets.cpu().numpy()
        return sp.csr_array((weights, targets, offsets), shape=(self.items, self.width))

    def _scores_on_cpu(self, histories: sp.csr_array, x: np.ndarray | None) -> Tensor:
        scores = torch.empty(histories.shape[0], self.width)
        matrix, blocks = self._matrix, scores.split(USERS)

        def fill(number: int) -> None:
            bounds = histories.indptr[USERS * number : USERS * (number + 1) + 1]
            rows = matrix[histories.indices[bounds[0] : bounds[-1]]]
            if x is not None:
                rows.data *= np.repeat(x[bounds[0] : bounds[-1]], np.diff(rows.indptr))
            # One row per user, in which a column may occur more than once: making it dense adds them up.
            merged = (rows.data, rows.indices, rows.indptr[bounds - bounds[0]])
            sp.csr_array(merged, shape=tuple(blocks[number].shape)).toarray(out=blocks[number].numpy())

        threads = min(len(blocks), torch.get_num_threads() // 2)  # torch's own still spin
        if threads <= 1:
            for number in range(len(blocks)):
                fill(number)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(fill, range(len(blocks))))
        return scores

    def _scores_of_kernels(self, histories: sp.csr_array) -> Tensor:
        from macrid.ops.rows_triton import add_rows

        users, items = pairs(histories, self.device)
        scores = self.weights.new_zeros(histories.shape[0], self.width)
        add_rows(items, users, self.offsets, self.targets, self.weights, scores)
        return scores

    def _scores(self, histories: sp.csr_array, x: np.ndarray | None = None) -> Tensor:
        users, total = histories.shape[0], self._lengths[histories.indices].sum()
        if users > 1 and total > ENTRIES:
            half = users // 2
            first, second = (None, None) if x is None else np.split(x, [histories.indptr[half]])
            return torch.cat([self._scores(histories[:half], first), self._scores(histories[half:], second)])
        number, targets, weights = self._rows(histories.indices)
        if x is not None:
            weights = weights * torch.from_numpy(x).to(self.device)[number]
        first = np.repeat(self.width * np.arange(users), np.diff(histories.indptr))  # of each user's scores
        scores = self.weights.new_zeros(users, self.width)
        scores.view(-1).index_add_(0, torch.from_numpy(first).to(self.device)[number] + targets, weights)
        return scores

    @cached_property
    def _starts(self) -> np.ndarray:
        return self.offsets.cpu().numpy()

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self._starts)

    def _rows(self, items: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of these rows of B: the place in `items`, the column and the weight of each.

        Their number is known on the CPU, so nothing waits for a GPU.
        """
        counts = self._lengths[items]
        stops = counts.cumsum()
        total = int(counts.sum())
        spans = np.stack([counts, self._starts[items] + counts - stops])
        lengths, shifts = torch.from_numpy(spans).to(self.device)
        number = torch.repeat_interleave(lengths, output_size=total)
        entries = torch.arange(total, device=self.device) + shifts[number]
        return number, self.targets[entries], self.weights[entries]

    def contributions(self, history: np.ndarray, items: np.ndarray) -> Tensor:
        """How much each item of a history adds to each of these items, both given by position: (history, items)."""
        number, targets, weights = self._rows(np.asarray(history, dtype=np.int64))
        wanted, place = torch.from_numpy(np.asarray(items, dtype=np.int64)).to(self.device).unique(return_inverse=True)
        column = torch.searchsorted(wanted, targets.long()).clamp_(max=max(len(wanted) - 1, 0))
        table = self.weights.new_zeros(len(history), len(wanted))
        if len(wanted):
            kept = wanted[column] == targets
            table[number[kept], column[kept]] = weights[kept]
        return table[:, place]


class Choice(NamedTuple):
    """The weight of the linear part, and why it is 0 if it is."""

    weight: float
    reason: str | None = None


def choose_weight(ndcg: Callable[[float], np.ndarray]) -> Choice:
    """The usual weight, or another that is better by more than a standard error; 0 if it does not help.

    ndcg: each validation user's NDCG@100 at a weight. The best weight on a few users is mostly luck: on 50 of
    MovieLens, the usual one does better on test users.
    """
    scores = {weight: ndcg(weight) for weight in (0.0, *WEIGHTS)}
    users = len(scores[0.0])
    gains = {weight: values - scores[USUAL] for weight, values in scores.items()}
    better = [weight for weight, gain in gains.items() if gain.mean() > gain.std(ddof=1) / users**0.5]
    best = max(better, key=lambda weight: gains[weight].mean(), default=USUAL)
    if gains[best].mean() > gains[0.0].mean():
        return Choice(best)
    return Choice(0.0, f"they do not help {users:,} validation users")


def weights_by_user(histories: sp.csr_array) -> np.ndarray | None:
    """The weight of each interaction over the mean weight of its user: (interactions,); None if all are the same."""
    if not are_weighted(histories):
        return None
    sizes = np.diff(histories.indptr)
    users = np.repeat(np.arange(len(sizes)), sizes)
    means = np.bincount(users, histories.data, minlength=len(sizes)) / np.maximum(sizes, 1)
    return (histories.data / means[users]).astype(np.float32)


def suitable_regularisation(matrix: sp.csr_array) -> float:
    """A regularisation that suits data this dense: near the best of the neighbours on four data sets."""
    return REGULARISATION * max(1.0, matrix.nnz / matrix.shape[1]) ** 0.5


def is_exact(items: int, device: torch.device) -> bool:
    """Whether weights for all pairs of items can be computed, in single precision at least."""
    copies = 3 if device.type == "cuda" else 2
    return items <= EXACT_ITEMS[device.type] and 4 * copies * items**2 <= memory_left(device)


def exact_weights(
    matrix: sp.csr_array, count: int, device: torch.device, regularisation: float
) -> tuple[Tensor, Tensor]:
    """The items with the strongest of EASE's weights towards every item, and weights without the others.

    (items, count) each.
    """
    b = ease_weights(matrix, device, regularisation)
    blocks = b.split(max(1, BLOCK["cpu"] // len(b)), dim=1)
    sources = torch.cat([strongest(columns.t(), count) for columns in blocks])
    del b, blocks  # as large as the counts
    counts, items = gram(matrix, device), torch.arange(len(sources), device=device)[:, None]
    groups = torch.cat([items, sources], dim=1).split(max(1, GATHERED // sources.shape[1] ** 2))
    return sources, torch.cat([_ridge(counts, places, REFIT * regularisation) for places in groups]).float()


def is_sparse(matrix: sp.csr_array) -> bool:
    """Whether most of many items occur together with few others, so that regressions on these miss nothing."""
    if matrix.shape[1] < FEWEST_SPARSE:
        return False
    others = np.maximum(np.diff(matrix.indptr) - 1, 0)
    at_most = np.bincount(matrix.indices, np.repeat(others, others + 1), minlength=matrix.shape[1])
    return bool(np.mean(at_most <= CANDIDATES) >= SPARSE)


def sparse_weights(
    matrix: sp.csr_array, count: int, device: torch.device, regularisation: float
) -> tuple[Tensor, Tensor]:
    """As `exact_weights`, from a ridge regression of each item on those it occurs together with.

    If these are more than `count`, the best predictors one by one are taken.
    """
    counts = gram(matrix, device)
    scale = (counts.diagonal() + regularisation).rsqrt()
    most = min(count, len(counts) - 1)
    numbers = torch.empty(len(counts), dtype=torch.long, device=device)
    predictors = torch.empty(len(counts), most, dtype=torch.long, device=device)
    for rows in torch.arange(len(counts), device=device).split(max(1, BLOCK["cpu"] // len(counts))):
        together = counts[rows] * scale
        together[torch.arange(len(rows), device=device), rows] = 0
        numbers[rows] = together.count_nonzero(dim=1)
        predictors[rows] = together.topk(most, dim=1).indices
    weights = torch.zeros(predictors.shape, device=device)
    size, done = min(SMALLEST_GROUP, most), 0
    while done < most:  # fewer predictors are filled up to `size` by others, which hardly count
        group = ((numbers > done) & ((numbers <= size) | (size == most))).nonzero()[:, 0]
        for items in group.split(max(1, GATHERED // (size + 1) ** 2)):
            places = torch.cat([items[:, None], predictors[items, :size]], dim=1)
            weights[items, :size] = _ridge(counts, places, REFIT * regularisation).float()
        size, done = min(2 * size, most), size
    return predictors, weights


def without_weak(weights: Tensor) -> Tensor:
    """With 0 where a weight is below WEAK times the mean of those that are not 0, by absolute value."""
    sizes = weights.abs()
    mean = sizes.sum(dtype=torch.float64) / sizes.count_nonzero().clamp(min=1)
    return weights.masked_fill(sizes < WEAK * mean, 0)


def strongest(weights: Tensor, count: int) -> Tensor:
    """The columns of the largest entries of every row by absolute value: (rows, count)."""
    return weights.abs().topk(min(count, weights.shape[1]), dim=1).indices


def local_weights(
    matrix: sp.csr_array, count: int, device: torch.device, regularisation: float
) -> tuple[Tensor, Tensor]:
    """As `exact_weights`, from a ridge regression of each item on a few candidates.

    How often pairs occur together is counted once, or for some items at a time if all pairs take too much memory.
    """
    by_item, cpu = matrix.T.tocsr(), torch.device("cpu")
    counts = gram(matrix, cpu) if counts_once(matrix, device) else None
    predictors = best_predictors(matrix, by_item, CANDIDATES, regularisation, counts)
    sources = torch.empty(len(predictors), min(count, predictors.shape[1]), dtype=torch.long, device=device)
    weights = torch.empty(sources.shape, device=device)
    for items in predictors[:, 0].argsort().split(TOGETHER):  # with the best predictor, items share many others
        places = torch.cat([items[:, None], predictors[items]], dim=1)
        among = counts
        if among is None:
            pool, places = places.unique(return_inverse=True)
            among = gram(by_item[pool.numpy()].T.tocsr(), cpu).to(device)
        places = places.to(device)
        chosen = strongest(_ridge(among, places, regularisation), count)
        kept = torch.cat([places[:, :1], places[:, 1:].gather(1, chosen)], dim=1)
        sources[items.to(device)] = predictors[items].to(device).gather(1, chosen)
        weights[items.to(device)] = _ridge(among, kept, REFIT * regularisation).float()
    return sources, weights


def counts_once(matrix: sp.csr_array, device: torch.device) -> bool:
    """Whether to count all pairs of items: many occur together, and take at most half of the memory that is left."""
    return device.type == "cpu" and 2 * 4 * matrix.shape[1] ** 2 <= memory_left(device) and not is_sparse(matrix)


def _ridge(counts: Tensor, places: Tensor, regularisation: float) -> Tensor:
    """Weights of regressions on co-occurrence counts, each of its first place on the others: (regressions, others).

    An item among its own predictors gets no weight.
    """
    target, others = places[:, :1], places[:, 1:]
    is_other = others != target
    inner = counts[others[:, :, None], others[:, None, :]].double()
    inner *= is_other[:, :, None] & is_other[:, None, :]
    inner.diagonal(dim1=1, dim2=2).add_(regularisation)
    factor = torch.linalg.cholesky(inner)
    return torch.cholesky_solve((counts[others, target] * is_other).double()[:, :, None], factor)[:, :, 0]


def best_predictors(
    matrix: sp.csr_array, by_item: sp.csr_array, count: int, regularisation: float, counts: Tensor | None = None
) -> Tensor:
    """For every item the others that explain most of it, each in a ridge regression of its own: (items, count).

    counts: of all pairs of items, if known.
    """
    items = matrix.shape[1]
    squares = np.bincount(matrix.indices, np.square(matrix.data, dtype=np.float64), minlength=items)
    scale = torch.from_numpy(1 / np.sqrt(squares + regularisation)).float()
    at_once = max(1, BLOCK["cpu"] // items)
    best = []
    for start in range(0, items, at_once):
        if counts is None:
            together = torch.from_numpy((by_item[start : start + at_once] @ matrix).toarray()).float().mul_(scale)
        else:
            together = counts[start : start + at_once] * scale
        together.diagonal(start).fill_(-1)
        best.append(together.topk(min(count, items - 1), dim=1).indices)
    return torch.cat(best)
