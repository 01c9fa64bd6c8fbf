"""The parts of a model's KL term: information about users, dependence between dimensions, and the rest.

With q(z) the mixture of all users' posteriors and q(z_j) its marginals, the KL term of the evidence lower bound,
averaged over users, is (Chen et al., 2018)

    mean of KL(q(z | x_u) || p(z))  =  I(x; z)  +  KL(q(z) || prod of q(z_j))  +  sum over j of KL(q(z_j) || p(z_j))

The left side has a closed form, and so has the right side except for two parts: the entropies of the marginals, which
are one-dimensional integrals taken by quadrature, and I(x; z), which is estimated from samples, each compared with all
users. The total correlation is the remainder, so the parts add up and share one error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import entr

from macrid.errors import DataError

SCRATCH = 1 << 22  # numbers in a block: 32 MiB
REACH = 8.0  # standard deviations beyond which a normal distribution has negligible mass
NODES = 5  # of the Gauss–Legendre rule on a panel, which is at most one standard deviation wide
POINTS_AT_ONCE = 400  # few, because only users who reach them are looked at
FINEST_STD = 1e-10  # as a share of the range of the means; narrower distributions are widened to it


@dataclass(frozen=True)
class KLDecomposition:
    """In nats, means over users; kl = mutual_information + total_correlation + dimension_wise_kl."""

    kl: float
    mutual_information: float
    """Between users and their components; at most ln(users) for any model."""
    total_correlation: float
    """How far the dimensions are from independent, over all users."""
    dimension_wise_kl: float
    """How far each dimension, over all users, is from the prior."""
    error: float
    """Standard error of mutual_information, and of total_correlation; the other two are exact."""
    users: int
    per_dimension: np.ndarray = field(repr=False)
    """(dims,) terms of dimension_wise_kl"""

    def as_json(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if name != "per_dimension"}


def decompose_kl(
    mean: np.ndarray,
    std: np.ndarray,
    prior_std: float,
    *,
    samples: int = 4,
    seed: int = 0,
    entropies: np.ndarray | None = None,
) -> KLDecomposition:
    """For q(z | x_u) = N(mean_u, diag(std_u²)), both (users, dims), and the prior N(0, prior_std²).

    samples: draws per user. entropies: the result of `marginal_entropies`, if already known.
    """
    mean, std = _checked(mean, std, prior_std, samples)
    second_moment = (np.square(mean) + np.square(std)).mean(axis=0) / prior_std**2  # (dims,)
    cross_entropy = 0.5 * (second_moment + np.log(2 * np.pi * prior_std**2))  # −E ln p(z_j)
    entropy_given_user = (0.5 * np.log(2 * np.pi * np.e) + np.log(std)).mean(axis=0)
    entropies = marginal_entropies(mean, std) if entropies is None else entropies
    kl, per_dimension = float((cross_entropy - entropy_given_user).sum()), cross_entropy - entropies
    values = _information(mean, std, samples, seed)  # (samples, users)
    information, rest = float(values.mean()), float(per_dimension.sum())
    error = np.sqrt(values.var(axis=0, ddof=1).mean() / values.size)
    return KLDecomposition(kl, information, kl - information - rest, rest, float(error), len(mean), per_dimension)


def marginal_entropies(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Entropy of each q(z_j), the mixture of all users' N(mean_uj, std_uj²): (dims,).

    Standard deviations below 1e-10 of the range of the means are raised to it: below that, float64 is too coarse to
    integrate over.
    """
    mean, std = np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)
    low, high = mean.min(axis=0), mean.max(axis=0)
    mean, std = mean - (low + high) / 2, np.maximum(std, FINEST_STD * (high - low))
    return np.array([_entropy(*column) for column in zip(mean.T, std.T, strict=True)])


def _panels(low: np.ndarray, high: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(panels,) starts and widths of panels no wider than the narrowest distribution that reaches into them."""
    places, ends = np.unique(np.concatenate([low, high]), return_inverse=True)
    narrowest = np.full(len(places), -1)  # the user with the narrowest distribution from each place to the next
    for user in np.argsort(-std, kind="stable").tolist():
        narrowest[ends[user] : ends[len(low) + user]] = user
    first = np.flatnonzero(np.diff(narrowest, prepend=-1))
    owners, lengths = narrowest[first], np.diff(places[first], append=places[-1])
    first, owners, lengths = (part[owners >= 0] for part in (first, owners, lengths))  # no user, no mass
    counts = np.ceil(lengths / std[owners]).astype(np.int64)
    widths = np.repeat(lengths / counts, counts)
    place = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)  # 0, 1, … up to each count in turn
    return np.repeat(places[first], counts) + widths * place, widths


def _entropy(mean: np.ndarray, std: np.ndarray) -> float:
    """−∫ q ln q, q the mixture of N(mean_u, std_u²), both (users,)."""
    low, high = mean - REACH * std, mean + REACH * std
    starts, widths = _panels(low, high, std)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    points = (starts[:, None] + widths[:, None] / 2 * (1 + nodes)).ravel()
    weights = (widths[:, None] / 2 * weights).ravel()
    height, precision = 1 / (std * np.sqrt(2 * np.pi) * len(mean)), 1 / std
    total, at_once = 0.0, max(1, min(POINTS_AT_ONCE, SCRATCH // (2 * len(mean))))
    for start in range(0, len(points), at_once):
        block = points[start : start + at_once]
        near = (low <= block[-1]) & (high >= block[0])
        scaled = np.subtract.outer(block, mean[near])  # (points, users)
        scaled *= precision[near]
        np.square(scaled, out=scaled)
        scaled *= -0.5
        total += float(weights[start : start + at_once] @ entr(np.exp(scaled, out=scaled) @ height[near]))
    return total


def _information(mean: np.ndarray, std: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """(samples, users) ln q(z | x_u) − ln q(z) at samples of every user."""
    random = np.random.default_rng(seed)
    users, dims = mean.shape
    mean = mean - mean.mean(axis=0)
    precision = 1 / np.square(std)
    constant = -0.5 * (np.square(mean) * precision).sum(axis=1) - np.log(std).sum(axis=1)  # (users,)
    linear, quadratic = (mean * precision).T, -0.5 * precision.T  # (dims, users)
    values = np.empty((samples, users))
    at_once = max(1, SCRATCH // (2 * users + 2 * dims))
    for sample in range(samples):
        for start in range(0, users, at_once):
            block = np.arange(start, min(start + at_once, users))
            z = mean[block] + std[block] * random.standard_normal((len(block), dims))
            log_q = z @ linear
            log_q += np.square(z) @ quadratic
            log_q += constant  # (block, users) ln q(z | x_v) of every user v, up to a constant
            log_q -= log_q[np.arange(len(block)), block][:, None]
            highest = log_q.max(axis=1)
            log_q -= highest[:, None]
            values[sample, block] = np.log(users) - highest - np.log(np.exp(log_q, out=log_q).sum(axis=1))
    return values


def _checked(mean: np.ndarray, std: np.ndarray, prior_std: float, samples: int) -> tuple[np.ndarray, np.ndarray]:
    mean, std = np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)
    if mean.ndim != 2 or mean.shape != std.shape or not mean.size:
        raise DataError(f"mean has shape {mean.shape} and std {std.shape}; both must be (users, dims)")
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all() and prior_std > 0):
        raise DataError("means must be finite; standard deviations, the prior's too, must be finite and above zero")
    if samples < 2:
        raise DataError(f"samples is {samples}; a standard error needs at least 2")
    return mean, std
