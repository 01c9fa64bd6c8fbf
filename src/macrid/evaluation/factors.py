"""Whether single dimensions stand for single factors: DCI (Eastwood & Williams, 2018), MIG (Chen et al., 2018).

Vectors are (items, dims). A factor is something known about items: numbers, or labels of any kind; None and NaN mean
that it is not known of an item, which then does not count for that factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import entr
from scipy.stats import rankdata

from macrid.data.attributes import FEW, quantile_bins
from macrid.errors import DataError, RequestError

BINS = 20
SHUFFLES = 10
LEAST = 10  # items that a factor must be known of


@dataclass(frozen=True)
class DCI:
    """All between 0 and 1."""

    disentanglement: float
    """1 if each dimension matters for one factor only; a mean over dimensions, weighted by how much they matter.

    NaN if there is one factor only: any dimension then matters for no other, noise as well.
    """
    completeness: float
    """1 if each factor needs one dimension only; a mean over factors. NaN if there is one dimension only."""
    informativeness: float
    """How well factors can be predicted for other items; the mean of `scores`."""
    scores: dict[str, float]
    """For each factor: numbers by R² of their ranks, labels by accuracy, 0 being the most frequent one's."""
    importance: np.ndarray = field(repr=False)
    """(dims, factors) a column sums to 1"""


def dci(
    vectors: np.ndarray, factors: Mapping[str, np.ndarray], *, seed: int = 0, folds: int = 3, trees: int = 20
) -> DCI:
    """Predict each factor by a random forest, and see which dimensions it needs.

    Items are predicted by forests that never saw them (`folds` of items). The importance of a dimension is its share
    of the decrease of impurity. Where a factor cannot be predicted, all dimensions share in fitting noise, which
    lowers disentanglement and completeness: read them beside the scores.
    """
    vectors, known = _checked(vectors, factors)
    importance, scores = np.empty((vectors.shape[1], len(known))), {}
    for column, (name, (items, values)) in enumerate(known.items()):
        importance[:, column], scores[name] = _forest(vectors[items], values, seed, folds, trees)
    disentanglement = _concentration(importance)
    completeness = _concentration(importance.T)
    return DCI(disentanglement, completeness, float(np.mean(list(scores.values()))), scores, importance)


def _forest(vectors: np.ndarray, values: np.ndarray, seed: int, folds: int, trees: int) -> tuple[np.ndarray, float]:
    """Shares of the dimensions in the prediction (dims,), and its score on items that were held out."""
    ensemble, selection = _sklearn("ensemble"), _sklearn("model_selection")
    numeric = values.dtype.kind == "f"
    target = rankdata(values) / len(values) if numeric else values
    kind = ensemble.RandomForestRegressor if numeric else ensemble.RandomForestClassifier
    # splits that choose among all dimensions, in leaves that are not too small, keep noise out of the importances
    choices = {"max_features": 1.0, "min_samples_leaf": min(10, 1 + len(values) // 50), "random_state": seed}
    shares, predicted = np.zeros(vectors.shape[1]), np.empty_like(target)
    for train, test in selection.KFold(folds, shuffle=True, random_state=seed).split(vectors):
        forest = kind(trees, **choices).fit(vectors[train], target[train])
        predicted[test] = forest.predict(vectors[test])
        shares += forest.feature_importances_ / folds
    if numeric:
        wrong, at_most = np.square(predicted - target).sum(), np.square(target - target.mean()).sum()
    else:
        wrong, at_most = (predicted != target).sum(), len(target) - np.bincount(target).max()
    return shares / max(shares.sum(), 1e-12), max(0.0, float(1 - wrong / at_most))


def _concentration(importance: np.ndarray) -> float:
    """1 − the entropy of each row, in units of its largest possible, a mean weighted by the rows' sums."""
    if importance.shape[1] < 2:
        return float("nan")  # one alone has nothing to share with
    weights = importance.sum(axis=1)
    if weights.sum() == 0:
        return 0.0
    used = weights > 0
    p = importance[used] / weights[used, None]
    entropy = entr(p).sum(axis=1) / np.log(importance.shape[1])
    return float((weights[used] * (1 - entropy)).sum() / weights.sum())


@dataclass(frozen=True)
class MIG:
    """Mutual information gap: 1 if a factor is told by one dimension and by no other."""

    mean: float
    gaps: dict[str, float]  # of each factor
    information: np.ndarray = field(repr=False)  # (dims, factors) 0 as chance would have it, 1 if it tells all


def mig(vectors: np.ndarray, factors: Mapping[str, np.ndarray], *, seed: int = 0) -> MIG:
    """What the best dimension tells of a factor less what the second best does, as shares of the factor's entropy.

    Dimensions, and factors that are numbers, are cut into 20 bins of equal size, fewer if a bin were to have less than
    10 items. Few items make everything look informative, so what is found when the factor is shuffled, I_0, is taken
    off: (I − I_0) / (H − I_0).
    """
    vectors, known = _checked(vectors, factors)
    random = np.random.default_rng(seed)
    information = np.empty((vectors.shape[1], len(known)))
    for column, (items, values) in enumerate(known.values()):
        count = min(BINS, max(2, len(items) // 10))
        codes = quantile_bins(values, count)[0] if values.dtype.kind == "f" else values
        bins = np.stack([quantile_bins(dimension, count)[0] for dimension in vectors[items].T], axis=1)
        found = _mutual_information(bins, codes)
        chance = np.mean([_mutual_information(bins, random.permutation(codes)) for _ in range(SHUFFLES)], axis=0)
        entropy = entr(np.bincount(codes) / len(codes)).sum()
        information[:, column] = np.maximum(found - chance, 0) / np.maximum(entropy - chance, 1e-12)
    ordered = np.sort(np.vstack([np.zeros((1, len(known))), information]), axis=0)  # one dimension has no second best
    gaps = dict(zip(known, (ordered[-1] - ordered[-2]).tolist(), strict=True))
    return MIG(float(np.mean(list(gaps.values()))), gaps, information)


def _mutual_information(bins: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Of every column of bins (items, dims) with codes (items,): (dims,)."""
    dims, values = bins.shape[1], int(codes.max()) + 1
    cells = (np.arange(dims) * BINS + bins) * values + codes[:, None]
    joint = np.bincount(cells.ravel(), minlength=dims * BINS * values).reshape(dims, BINS, values) / len(codes)
    parts = joint.sum(axis=2), joint.sum(axis=1), joint.reshape(dims, -1)
    h_dim, h_factor, h_both = (entr(part).sum(axis=1) for part in parts)
    return h_dim + h_factor - h_both


def _checked(
    vectors: np.ndarray, factors: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The vectors, and for each factor the items it is known of with numbers (float) or codes of labels (int)."""
    vectors = np.asarray(vectors, dtype=np.float64)
    if not factors:
        raise DataError("no factor was given; give at least one, such as {'price': prices}")
    return vectors, {name: _known(name, np.asarray(values), len(vectors)) for name, values in factors.items()}


def _known(name: str, values: np.ndarray, items: int) -> tuple[np.ndarray, np.ndarray]:
    if len(values) != items:
        raise DataError(f"factor '{name}' has {len(values):,} values for {items:,} items")
    if values.dtype == object and all(map(_is_number_or_none, values.tolist())):
        values = values.astype(np.float64)  # None becomes NaN
    numeric = values.dtype.kind in "fiu"
    if numeric:
        values = values.astype(np.float64)
        known = np.flatnonzero(np.isfinite(values))
    else:
        known = np.flatnonzero([value is not None and value == value for value in values.tolist()])
    if len(known) < LEAST:
        raise DataError(f"factor '{name}' is known of {len(known)} items; at least {LEAST} are needed")
    own = values[known] if numeric else values[known].astype(str)
    different, codes = np.unique(own, return_inverse=True)
    if len(different) == 1:
        raise DataError(f"factor '{name}' is {different[0]} for all items, so nothing can tell it; leave it out")
    return known, own if numeric and len(different) > FEW else codes


def _is_number_or_none(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool))


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise RequestError("DCI needs scikit-learn; pip install 'macrid[plot]'") from None
