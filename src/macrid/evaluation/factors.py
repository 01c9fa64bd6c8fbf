"""Whether single dimensions capture single factors: DCI (Eastwood & Williams, 2018), MIG (Chen et al., 2018).

Vectors are (items, dims). A factor is a known property of items: numbers, or labels of any kind. Items whose value is
None or NaN are ignored for that factor.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import entr

from macrid.data.attributes import MOST_DISTINCT, quantile_bins
from macrid.errors import DataError, RequestError

BINS = 20
SHUFFLES = 10
FEWEST_KNOWN = 10  # items with a known value, for a factor to be used


@dataclass(frozen=True)
class DCI:
    """All between 0 and 1."""

    disentanglement: float
    """1 if each dimension matters for only one factor; a mean over dimensions, weighted by their importance.

    NaN with a single factor, since even noise then matters for no other.
    """
    completeness: float
    """1 if each factor needs only one dimension; a mean over factors. NaN with a single dimension."""
    informativeness: float
    """How well factors can be predicted for unseen items; the mean of `scores`."""
    scores: dict[str, float]
    """Per factor: R² of ranks for numbers; for labels, accuracy rescaled so that guessing the most frequent is 0."""
    importance: np.ndarray = field(repr=False)
    """(dims, factors) columns sum to 1"""


def dci(
    vectors: np.ndarray, factors: Mapping[str, np.ndarray], *, seed: int = 0, folds: int = 3, trees: int = 20
) -> DCI:
    """Predict each factor with a random forest and see which dimensions it uses.

    Scores are cross-validated over `folds` of the items. A dimension's importance is its share of the decrease in
    impurity. Where a factor cannot be predicted, all dimensions help to fit noise, which lowers disentanglement and
    completeness: read them together with the scores.
    """
    vectors, known = _checked(vectors, factors)
    importance, scores = np.empty((vectors.shape[1], len(known))), {}
    for column, (name, (items, values)) in enumerate(known.items()):
        importance[:, column], scores[name] = _forest(vectors[items], values, seed, folds, trees)
    disentanglement = _concentration(importance)
    completeness = _concentration(importance.T)
    return DCI(disentanglement, completeness, float(np.mean(list(scores.values()))), scores, importance)


def _forest(vectors: np.ndarray, values: np.ndarray, seed: int, folds: int, trees: int) -> tuple[np.ndarray, float]:
    """The dimensions' importance (dims,), and the score on held-out items."""
    from scipy.stats import rankdata

    try:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
        from sklearn.model_selection import KFold
    except ImportError:
        raise RequestError("DCI needs scikit-learn; pip install 'macrid[plot]'") from None
    numeric = values.dtype.kind == "f"
    target = rankdata(values) / len(values) if numeric else values
    kind = RandomForestRegressor if numeric else RandomForestClassifier
    # choosing splits among all dimensions, with leaves that are not too small, keeps noise out of the importances
    options = {"max_features": 1.0, "min_samples_leaf": min(10, 1 + len(values) // 50), "random_state": seed}
    shares, predicted = np.zeros(vectors.shape[1]), np.empty_like(target)
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(vectors):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The number of unique classes")  # many values are allowed
            forest = kind(trees, **options).fit(vectors[train], target[train])
        predicted[test] = forest.predict(vectors[test])
        shares += forest.feature_importances_ / folds
    if numeric:
        error, baseline = np.square(predicted - target).sum(), np.square(target - target.mean()).sum()
    else:
        error, baseline = (predicted != target).sum(), len(target) - np.bincount(target).max()
    return shares / max(shares.sum(), 1e-12), max(0.0, float(1 - error / baseline))


def _concentration(importance: np.ndarray) -> float:
    """1 − the entropy of each row relative to its maximum; a mean weighted by row sums."""
    if importance.shape[1] < 2:
        return float("nan")
    weights = importance.sum(axis=1)
    if weights.sum() == 0:
        return 0.0
    used = weights > 0
    p = importance[used] / weights[used, None]
    entropy = entr(p).sum(axis=1) / np.log(importance.shape[1])
    return float((weights[used] * (1 - entropy)).sum() / weights.sum())


@dataclass(frozen=True)
class MIG:
    """Mutual information gap: 1 if one dimension alone determines a factor."""

    mean: float
    gaps: dict[str, float]  # per factor
    information: np.ndarray = field(repr=False)  # (dims, factors) 0 by chance, 1 if the dimension determines the factor


def mig(vectors: np.ndarray, factors: Mapping[str, np.ndarray], *, seed: int = 0) -> MIG:
    """Information about a factor in the best dimension minus that in the second best, relative to the factor's entropy.

    Dimensions and numeric factors are cut into 20 bins of equal size, or fewer to keep 10 items per bin. With few items
    everything looks informative, so the information about a shuffled factor, I_0, is subtracted: (I − I_0) / (H − I_0).
    """
    vectors, known = _checked(vectors, factors)
    random = np.random.default_rng(seed)
    information = np.empty((vectors.shape[1], len(known)))
    for column, (items, values) in enumerate(known.values()):
        count = min(BINS, max(2, len(items) // 10))
        codes = quantile_bins(values, count)[0] if values.dtype.kind == "f" else values
        bins = np.stack([quantile_bins(dimension, count)[0] for dimension in vectors[items].T], axis=1)
        mutual = _mutual_information(bins, codes)
        chance = np.mean([_mutual_information(bins, random.permutation(codes)) for _ in range(SHUFFLES)], axis=0)
        entropy = entr(np.bincount(codes) / len(codes)).sum()
        information[:, column] = np.maximum(mutual - chance, 0) / np.maximum(entropy - chance, 1e-12)
    ordered = np.sort(np.vstack([np.zeros((1, len(known))), information]), axis=0)  # 0 if there is no second best
    gaps = dict(zip(known, (ordered[-1] - ordered[-2]).tolist(), strict=True))
    return MIG(float(np.mean(list(gaps.values()))), gaps, information)


def _mutual_information(bins: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(dims,) mutual information of every column of bins (items, dims) with codes (items,)."""
    dims, values = bins.shape[1], int(codes.max()) + 1
    cells = (np.arange(dims) * BINS + bins) * values + codes[:, None]
    joint = np.bincount(cells.ravel(), minlength=dims * BINS * values).reshape(dims, BINS, values) / len(codes)
    parts = joint.sum(axis=2), joint.sum(axis=1), joint.reshape(dims, -1)
    h_dim, h_factor, h_both = (entr(part).sum(axis=1) for part in parts)
    return h_dim + h_factor - h_both


def _checked(
    vectors: np.ndarray, factors: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The vectors, and per factor the items with a known value and their numbers (float) or label codes (int)."""
    vectors = np.asarray(vectors, dtype=np.float64)
    if not factors:
        raise DataError("no factors given; pass at least one, such as {'price': prices}")
    return vectors, {name: _known(name, np.asarray(values), len(vectors)) for name, values in factors.items()}


def _known(name: str, values: np.ndarray, items: int) -> tuple[np.ndarray, np.ndarray]:
    if len(values) != items:
        raise DataError(f"factor '{name}' has {len(values):,} values for {items:,} items")
    if values.dtype == object and all(map(_is_number_or_none, values.tolist())):
        values = values.astype(np.float64)  # None becomes NaN
    numeric, known = values.dtype.kind in "fiu", np.flatnonzero(is_known(values))
    if len(known) < FEWEST_KNOWN:
        raise DataError(f"factor '{name}' is known for {len(known)} items; at least {FEWEST_KNOWN} are needed")
    values = values[known].astype(np.float64 if numeric else str)
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) == 1:
        raise DataError(f"factor '{name}' is {distinct[0]} for all items, so it cannot be measured; remove it")
    return known, values if numeric and len(distinct) > MOST_DISTINCT else codes


def is_known(values: np.ndarray) -> np.ndarray:
    """(items,) whether a value is neither None nor NaN."""
    if values.dtype.kind in "fiu":
        return np.isfinite(values)
    return np.array([value is not None and value == value for value in values.tolist()], dtype=bool)


def _is_number_or_none(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool))
