"""Ridge regression with weights, an unpenalised mean, and leave-one-out predictions in closed form.

    B minimises sum_i w_i |y_i − m − x_i B|^2 + penalty |B|^2.

Its prediction for y_i without item i is (ŷ_i − l_i y_i) / (1 − l_i), where l_i = w_i (1 / sum w + x_i (X' W X +
penalty)^-1 x_i') and x_i is centred. The penalty is the one of PENALTIES whose leave-one-out predictions are closest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

PENALTIES = tuple(10.0**power for power in np.arange(-1, 2.5, 0.5))  # for weights of mean 1
LANDMARKS = 600  # items that a kernel compares others with
LARGEST_LEVERAGE = 1 - 1e-9


@dataclass(frozen=True)
class Ridge:
    """A fitted regression."""

    centre: np.ndarray
    """(features,)"""
    mean: np.ndarray
    """(targets,)"""
    slopes: np.ndarray
    """(features, targets)"""
    penalty: float
    left_out: np.ndarray
    """(items, targets) the prediction for each item without it."""
    explained: float
    """Share of the variance of the targets that these predictions explain; may be negative."""

    @classmethod
    def fit(cls, x: np.ndarray, y: np.ndarray, weights: np.ndarray, penalties: tuple[float, ...] = PENALTIES) -> Ridge:
        """x: (items, features). y: (items, targets). weights: (items,) positive."""
        w = weights * len(weights) / weights.sum()
        centre, mean = (np.average(part, axis=0, weights=w) for part in (x, y))
        xc, yc = x - centre, y - mean
        scale, basis = np.linalg.eigh(xc.T @ (w[:, None] * xc))
        turned = xc @ basis  # (items, features)
        products = turned.T @ (w[:, None] * yc)  # (features, targets)
        scale = np.maximum(scale, 0)
        best: tuple[float, float, np.ndarray, np.ndarray] | None = None
        total = np.average((yc**2).sum(axis=1), weights=w)
        for penalty in penalties:
            inner = products / (scale + penalty)[:, None]
            leverage = w * (1 / w.sum() + (turned**2 / (scale + penalty)).sum(axis=1))
            leverage = np.minimum(leverage, LARGEST_LEVERAGE)[:, None]
            left_out = (turned @ inner - leverage * yc) / (1 - leverage)
            error = np.average(((left_out - yc) ** 2).sum(axis=1), weights=w)
            if best is None or error < best[0]:
                best = error, penalty, inner, left_out
        assert best is not None
        error, penalty, inner, left_out = best
        return cls(centre, mean, basis @ inner, penalty, left_out + mean, 1 - error / max(total, 1e-12))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """(items, targets)"""
        return (x - self.centre) @ self.slopes + self.mean


@dataclass(frozen=True)
class Kernel:
    """exp(sharpness · (alike − 1)), where `alike` is the inner product of two items, as features.

    A small sharpness adds up what columns say; a large one looks for the most similar items. Items are compared with
    some landmarks only (Nyström), so that any number of them can be fitted.
    """

    sharpness: float
    landmarks: sp.csr_array
    """(landmarks, features)"""
    whitening: np.ndarray
    """(landmarks, landmarks)"""

    @classmethod
    def fit(cls, features: sp.csr_array, sharpness: float, weights: np.ndarray) -> Kernel:
        """features: of trained items. weights: (items,) of their being landmarks."""
        items = features.shape[0]
        chosen = np.arange(items)
        if items > LANDMARKS:
            random = np.random.default_rng(0)
            chosen = np.sort(random.choice(items, LANDMARKS, replace=False, p=weights / weights.sum()))
        landmarks = features[chosen]
        among = _similarity(landmarks, landmarks, sharpness)
        scale, basis = np.linalg.eigh(among)
        whitening = basis * np.where(scale > 1e-8 * scale[-1], 1 / np.sqrt(np.maximum(scale, 1e-30)), 0)
        return cls(sharpness, landmarks, whitening)

    def of(self, features: sp.csr_array) -> np.ndarray:
        """(items, landmarks), whose inner products are the kernel's values."""
        return _similarity(features, self.landmarks, self.sharpness) @ self.whitening


def _similarity(first: sp.csr_array, second: sp.csr_array, sharpness: float) -> np.ndarray:
    return np.exp(sharpness * ((first @ second.T).toarray() - 1))
