"""How well learned concepts agree with known groups of items, how many are in use, and how independent dimensions are.

Known groups are labels (items,), or, where an item may have several values, shares (items, values) whose rows sum to
one: a film of two genres is half of each. Every score then is that of an item whose value is drawn by its shares.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import entr
from scipy.stats import rankdata

from macrid.data.attributes import Attribute
from macrid.errors import DataError

Groups: TypeAlias = np.ndarray | sp.csr_array
"""Labels (items,) or shares (items, values)."""


def nmi(first: Groups, second: Groups) -> float:
    """Normalised mutual information 2 · I(a; b) / (H(a) + H(b)) of two labellings; 1 for the same partition."""
    joint = _crossing(first, second)
    joint = joint / joint.sum()
    h_a, h_b, h_ab = (float(entr(p).sum()) for p in (joint.sum(axis=1), joint.sum(axis=0), joint.data))
    return 1.0 if h_a + h_b == 0 else 2 * (h_a + h_b - h_ab) / (h_a + h_b)


def ari(first: Groups, second: Groups) -> float:
    """Adjusted Rand index: how often two items are together in both, 0 as chance would have it, 1 for the same."""
    a, b = _shares(first), _shares(second)
    pairs = a.shape[0] * (a.shape[0] - 1) / 2
    together_a, together_b = _together(a.sum(axis=0), a.data), _together(b.sum(axis=0), b.data)
    # an item is never paired with itself: what it shares with itself is the product of both squares
    own = _rows(a.multiply(a)) * _rows(b.multiply(b))
    both = (np.square(_crossing(a, b).data).sum() - own.sum()) / 2
    most = (together_a + together_b) / 2
    expected = together_a * together_b / pairs if pairs else most
    return 1.0 if most == expected else float((both - expected) / (most - expected))


def purity(first: Groups, second: Groups) -> float:
    """Share of items that have the most frequent value of their concept; it grows with the number of concepts."""
    joint = _crossing(first, second)
    return float(joint.max(axis=1).sum() / joint.sum())


def match(first: Groups, second: Groups) -> dict[Any, Any]:
    """The label of each concept under the one-to-one matching that puts most items right; None if there are too few."""
    concepts, labels = _names(first), _names(second)
    rows, columns = linear_sum_assignment(_crossing(first, second).toarray(), maximize=True)
    found = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return {concept: labels[found[row]] if row in found else None for row, concept in enumerate(concepts)}


def matched_accuracy(first: Groups, second: Groups) -> float:
    """Share of items whose concept is matched to their label, one concept to one label, as well as possible."""
    joint = _crossing(first, second).toarray()
    return float(joint[linear_sum_assignment(joint, maximize=True)].sum() / joint.sum())


def agreement(concepts: np.ndarray, attribute: Attribute) -> dict[str, float]:
    """How well the concepts of items (items,) and their values of an attribute agree.

    Beside the scores: how many items and values there are, and the share of the largest value, which is the purity of
    one concept for all.
    """
    own = concepts[attribute.items]
    scores = {"nmi": nmi, "ari": ari, "purity": purity, "matched_accuracy": matched_accuracy}
    largest = float(attribute.shares.sum(axis=0).max() / len(own))
    about = {"items": len(own), "values": len(attribute.values), "largest": largest}
    return {**{name: score(own, attribute.shares) for name, score in scores.items()}, **about}


def effective_concepts(labels: np.ndarray) -> float:
    """Concepts in use: exp of the entropy of how items divide over them."""
    _, counts = np.unique(labels, return_counts=True)
    return float(np.exp(entr(counts / counts.sum()).sum()))


def is_collapsed(in_use: float, concepts: int) -> bool:
    """Whether no more than half of the concepts are in use, which of two is all items in one."""
    return concepts > 1 and (in_use < concepts / 2 or math.isclose(in_use, concepts / 2, rel_tol=1e-6))


def independence(vectors: np.ndarray) -> float:
    """1 − 2 / (d (d − 1)) · sum over i < j of |corr_ij| for rows (users, d): 1 if no two dimensions are correlated.

    A dimension that is the same for all users has correlation 0 with every other. One dimension alone gives 1.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    if vectors.ndim != 2 or not vectors.size:
        raise DataError(f"vectors have shape {vectors.shape}; they must be (users, d), of one user at least")
    d = vectors.shape[1]
    if d == 1:
        return 1.0
    centred = vectors - vectors.mean(axis=0)
    centred[:, np.ptp(vectors, axis=0) == 0] = 0
    length = np.sqrt(np.square(centred).sum(axis=0))
    unit = centred / np.where(length > 0, length, 1)
    correlation = np.minimum(np.abs(unit.T @ unit), 1)
    return float(1 - (correlation.sum() - np.trace(correlation)) / (d * (d - 1)))


def _shares(groups: Groups) -> sp.csr_array:
    """(items, values)"""
    if sp.issparse(groups) or groups.ndim == 2:
        return sp.csr_array(groups, dtype=np.float64)
    labels, codes = _different(groups)
    count = len(codes)
    return sp.csr_array((np.ones(count), codes, np.arange(count + 1)), shape=(count, len(labels)))


def _names(groups: Groups) -> list[Any]:
    one_dimensional = not sp.issparse(groups) and groups.ndim == 1
    return _different(groups)[0].tolist() if one_dimensional else list(range(groups.shape[1]))


def _different(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels that occur, in order, and which of them each item has."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError:  # they have no order
        raise DataError("labels must be all numbers or all text; leave out items without a label (None)") from None


def _crossing(first: Groups, second: Groups) -> sp.csr_array:
    """How many items have both: (values of the first, values of the second)."""
    return sp.csr_array(_shares(first).T @ _shares(second))


def _together(sizes: np.ndarray, shares: np.ndarray) -> float:
    """Pairs of items in one group, from the sizes of the groups and the shares of the items in them."""
    return float((np.square(sizes).sum() - np.square(shares).sum()) / 2)


def _rows(matrix: sp.csr_array) -> np.ndarray:
    return np.asarray(matrix.sum(axis=1))


def scores_of(values: np.ndarray) -> np.ndarray:
    """Ranks with mean 0 and variance 1; NaN stays: (items,)."""
    known = np.isfinite(values)
    scores = np.full(len(values), np.nan)
    if not known.any():
        return scores
    ranks = rankdata(values[known])
    scores[known] = (ranks - ranks.mean()) / max(float(ranks.std()), 1e-12)
    return scores


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation of two sequences of numbers; 0 if one is constant."""
    a, b = scores_of(x), scores_of(y)
    return float(np.mean(a * b)) if len(a) else 0.0
