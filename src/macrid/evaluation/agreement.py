"""How well concepts agree with known groups of items, how many are in use, and how independent dimensions are.

Known groups are labels (items,) or, where an item may have several values, shares (items, values) whose rows sum to
one: a film of two genres is half of each. Scores are then those of items whose value is drawn by their shares.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.special import entr

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
    """Adjusted Rand index: how often two items are together in both; 0 by chance, 1 for the same partition."""
    a, b = _shares(first), _shares(second)
    pairs = a.shape[0] * (a.shape[0] - 1) / 2
    together_a, together_b = _together(a.sum(axis=0), a.data), _together(b.sum(axis=0), b.data)
    with_itself = a.multiply(a).sum(axis=1) * b.multiply(b).sum(axis=1)  # an item is not paired with itself
    both = (np.square(_crossing(a, b).data).sum() - with_itself.sum()) / 2
    highest = (together_a + together_b) / 2
    expected = together_a * together_b / pairs if pairs else highest
    return 1.0 if highest == expected else float((both - expected) / (highest - expected))


def purity(first: Groups, second: Groups) -> float:
    """Share of items with the most frequent value of their concept; it grows with the number of concepts."""
    joint = _crossing(first, second)
    return float(joint.max(axis=1).sum() / joint.sum())


def match(first: Groups, second: Groups) -> dict[Any, Any]:
    """Each concept's label under the one-to-one matching that gets most items right; None for unmatched concepts."""
    from scipy.optimize import linear_sum_assignment

    concepts, labels = _names(first), _names(second)
    rows, columns = linear_sum_assignment(_crossing(first, second).toarray(), maximize=True)
    column_of = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return {concept: labels[column_of[row]] if row in column_of else None for row, concept in enumerate(concepts)}


def matched_accuracy(first: Groups, second: Groups) -> float:
    """Share of items whose concept is matched to their label, under the best one-to-one matching."""
    from scipy.optimize import linear_sum_assignment

    joint = _crossing(first, second).toarray()
    return float(joint[linear_sum_assignment(joint, maximize=True)].sum() / joint.sum())


def agreement(concepts: np.ndarray, attribute: Attribute) -> dict[str, float]:
    """How well the concepts of items (items,) agree with an attribute.

    Besides the scores: the number of items and values, and the share of the most frequent value, which is the purity of
    a single concept.
    """
    known = concepts[attribute.items]
    scores = {"nmi": nmi, "ari": ari, "purity": purity, "matched_accuracy": matched_accuracy}
    largest = float(attribute.shares.sum(axis=0).max() / len(known))
    counts = {"items": len(known), "values": len(attribute.values), "largest": largest}
    return {**{name: score(known, attribute.shares) for name, score in scores.items()}, **counts}


def effective_concepts(labels: np.ndarray) -> float:
    """Effective number of concepts: exp of the entropy of how items divide among them."""
    _, counts = np.unique(labels, return_counts=True)
    return float(np.exp(entr(counts / counts.sum()).sum()))


def is_collapsed(in_use: float, concepts: int) -> bool:
    """Whether at most half of the concepts are in use (for two concepts: whether all items are in one)."""
    return concepts > 1 and (in_use < concepts / 2 or math.isclose(in_use, concepts / 2, rel_tol=1e-6))


def independence(vectors: np.ndarray) -> float:
    """1 − 2 / (d (d − 1)) · sum over i < j of |corr_ij| for rows (users, d): 1 if no two dimensions are correlated.

    A constant dimension has correlation 0 with every other. A single dimension gives 1.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    if vectors.ndim != 2 or not vectors.size:
        raise DataError(f"vectors have shape {vectors.shape}; they must be (users, d) with at least one user")
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
    labels, codes = _distinct(groups)
    count = len(codes)
    return sp.csr_array((np.ones(count), codes, np.arange(count + 1)), shape=(count, len(labels)))


def _names(groups: Groups) -> list[Any]:
    one_dimensional = not sp.issparse(groups) and groups.ndim == 1
    return _distinct(groups)[0].tolist() if one_dimensional else list(range(groups.shape[1]))


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and the code of each item."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError:  # not sortable
        raise DataError("labels must be all numbers or all text; remove items without a label (None)") from None


def _crossing(first: Groups, second: Groups) -> sp.csr_array:
    """(values of the first, values of the second) number of items with both."""
    return sp.csr_array(_shares(first).T @ _shares(second))


def _together(sizes: np.ndarray, shares: np.ndarray) -> float:
    """Pairs of items in the same group, from the sizes of the groups and the items' shares in them."""
    return float((np.square(sizes).sum() - np.square(shares).sum()) / 2)


def ranks_of(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, ties averaged, in each column: (n,) or (n, columns); without NaN.

    What `scipy.stats.rankdata` returns, without importing scipy.stats, which takes as long as a small training.
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    place = np.arange(1.0, len(values) + 1)
    if values.ndim == 1:
        ordered_ranks = _averaged(ordered, place)
    else:
        ordered_ranks = np.repeat(place[:, None], values.shape[1], axis=1)
        for column in np.flatnonzero((ordered[1:] == ordered[:-1]).any(axis=0)):
            ordered_ranks[:, column] = _averaged(ordered[:, column], place)
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, ordered_ranks, axis=0)
    return ranks


def _averaged(ordered: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The mean place of equal values: (n,), both in ascending order."""
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, np.int64)
    counts = np.diff(np.append(starts, len(ordered)))
    return np.repeat(place[starts] + (counts - 1) / 2, counts)


def scores_of(values: np.ndarray) -> np.ndarray:
    """(items,) ranks with mean 0 and variance 1; NaN stays NaN."""
    known = np.isfinite(values)
    scores = np.full(len(values), np.nan)
    if not known.any():
        return scores
    ranks = ranks_of(values[known])
    scores[known] = (ranks - ranks.mean()) / max(float(ranks.std()), 1e-12)
    return scores


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation of two arrays where both are known; 0 if one is constant."""
    known = np.isfinite(x) & np.isfinite(y)
    return float(np.mean(scores_of(x[known]) * scores_of(y[known]))) if known.any() else 0.0
