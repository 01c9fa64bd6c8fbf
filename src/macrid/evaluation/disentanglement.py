"""How well learned concepts agree with known groups of items."""

from __future__ import annotations

import numpy as np


def nmi(first: np.ndarray, second: np.ndarray) -> float:
    """Normalised mutual information 2 · I(a; b) / (H(a) + H(b)) of two labellings; 1 for the same partition."""
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1 / len(a))
    h_a, h_b, h_ab = _entropy(joint.sum(axis=1)), _entropy(joint.sum(axis=0)), _entropy(joint.ravel())
    return 1.0 if h_a + h_b == 0 else float(2 * (h_a + h_b - h_ab) / (h_a + h_b))


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())
