"""What lists are like besides accurate: novel, diverse, calibrated, and spread over the catalogue.

Novelty, diversity and calibration are numbers of each list, (users,), NaN where undefined. Coverage and Gini are
numbers of all lists together: `catalogue_coverage` and `gini_index` return one value per user, whose mean is the number
and whose spread is its jackknife error. With theta of all n users and theta_u of all but user u, these values are
theta + (n − 1) (mean of theta_u − theta_u).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from macrid.evaluation.lists import Lists

SMOOTHING = 0.01  # share of the history mixed into the list, so that a missing group has a finite divergence


def novelty(lists: Lists, k: int) -> Tensor:
    """Mean −log2 of the popularity share."""
    first, shown = lists.shown(k)
    information = lists.catalogue.information.to(first.device)[first]
    return information.where(shown, 0.0).sum(dim=1) / shown.sum(dim=1)


def diversity(lists: Lists, k: int, attribute: str | None = None) -> Tensor:
    """Mean of 1 − cosine over pairs of items, of their vectors or of their values of an attribute."""
    sums, squares, counts = _by_vectors(lists, k) if attribute is None else _by_attribute(lists, k, attribute)
    pairs = counts * (counts - 1)
    return torch.where(pairs > 0, 1 - (sums - squares) / pairs, torch.nan)


def _by_vectors(lists: Lists, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """|sum of directions|², sum of |direction|², and the number of items of each list."""
    first, shown = lists.shown(k)
    directions = lists.catalogue.directions.to(first.device)
    sums = F.embedding_bag(first, directions, mode="sum", per_sample_weights=shown.to(directions.dtype))
    lengths = directions.square().sum(dim=1).double()[first]
    return sums.double().square().sum(dim=1), (lengths * shown).sum(dim=1), shown.sum(dim=1)


def _by_attribute(lists: Lists, k: int, attribute: str) -> tuple[Tensor, Tensor, Tensor]:
    """The same, of values; items where the attribute is unknown are left out."""
    values = (lists.catalogue.groups(attribute) > 0).astype(np.float64)
    counts = np.asarray(values.sum(axis=1))  # (items,)
    directions = sp.csr_array(sp.diags_array(np.where(counts > 0, counts, 1) ** -0.5) @ values)
    shown = lists.matrix(k)
    sums = shown @ directions
    known = torch.from_numpy(shown @ (counts > 0).astype(np.float64))
    return torch.from_numpy(np.asarray(sums.multiply(sums).sum(axis=1))), known, known


def calibration(lists: Lists, k: int, attribute: str | None = None) -> Tensor:
    """KL divergence of the list's shares of concepts, or of an attribute's values, from those of the history."""
    groups = lists.catalogue.groups(attribute)
    history = lists.history.copy()
    history.data = np.ones(history.nnz)
    (wanted, has_history), (given, has_list) = (_shares(part @ groups) for part in (history, lists.matrix(k)))
    mixed = sp.csr_array((1 - SMOOTHING) * given.multiply(wanted > 0) + SMOOTHING * wanted)
    mixed.sort_indices()  # now its entries are those of `wanted`, in the same order
    rows = np.repeat(np.arange(wanted.shape[0]), np.diff(wanted.indptr))
    terms = wanted.data * np.log(wanted.data / mixed.data)
    divergence = np.bincount(rows, weights=terms, minlength=wanted.shape[0])
    return torch.from_numpy(np.where(has_history & has_list, np.maximum(divergence, 0), np.nan))


def _shares(sums: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """Rows divided by their sums, and whether there is anything in them."""
    totals = np.asarray(sums.sum(axis=1))
    shares = sp.csr_array(sp.diags_array(1 / np.where(totals > 0, totals, 1)) @ sums)
    shares.sum_duplicates()
    return shares, totals > 0


def recommended(lists: Lists, k: int) -> Tensor:
    """(users, k) the first k items, −1 where there are fewer."""
    first, shown = lists.shown(k)
    return first.where(shown, -1).int()


def catalogue_coverage(lists: np.ndarray, items: int) -> np.ndarray:
    """Share of the catalogue in any of the lists (users, k), by user."""
    counts = _counts(lists, items)
    alone = ((counts[lists] == 1) & (lists >= 0)).sum(axis=1)  # items that no other user gets
    coverage = float((counts > 0).mean())
    return _by_user(coverage, coverage - alone / items)


def gini_index(lists: np.ndarray, items: int) -> np.ndarray:
    """Gini index of how often items of the catalogue are in the lists (users, k), by user.

    Without a user, the counts of some items fall by one. Of equal counts, let those with the lowest ranks fall: the
    order then stays, and the index follows from the ranks.
    """
    counts = _counts(lists, items)
    ordered = np.sort(counts)
    concentration = float((2 * np.arange(1, items + 1) - items - 1) @ ordered)
    own = np.sort(np.where(lists >= 0, counts[lists], 0), axis=1)
    place = np.arange(own.shape[1])
    is_first = np.diff(own, axis=1, prepend=-1) > 0
    among_equals = place - np.maximum.accumulate(np.where(is_first, place, 0), axis=1)
    rank = 1 + np.searchsorted(ordered, own) + among_equals
    taken = np.where(own > 0, 2 * rank - items - 1, 0).sum(axis=1)
    total, sizes = int(counts.sum()), (own > 0).sum(axis=1)
    left = items * (total - sizes)
    without = np.divide(concentration - taken, left, out=np.full(len(lists), np.nan), where=left > 0)
    return _by_user(concentration / (items * total) if total else np.nan, without)


def _counts(lists: np.ndarray, items: int) -> np.ndarray:
    return np.bincount(lists[lists >= 0], minlength=items)


def _by_user(whole: float, without: np.ndarray) -> np.ndarray:
    """Jackknife values from a number of all users and of all but each."""
    if len(without) < 2:
        return np.full(len(without), whole)
    return whole + (len(without) - 1) * (without.mean() - without)
