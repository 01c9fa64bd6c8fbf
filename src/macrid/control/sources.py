"""Where lists come from: the best candidates of a user, as many as needed, and scores of single items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.control.choosing import Candidates
from macrid.models.base import Recommender
from macrid.ops.topk import BLOCK, best_of, pairs


class Source(Protocol):
    """The candidates of one user."""

    def best(self, depth: int) -> Candidates:
        """At least this many of the best, if there are as many."""
        ...

    def scores(self, positions: np.ndarray) -> np.ndarray:
        """Of these items, without boosts."""
        ...


class Ranked(NamedTuple):
    """The best items of many users: (users, n) each."""

    positions: np.ndarray
    values: np.ndarray
    """Scores with boosts, best first."""
    scores: np.ndarray


class Ranker:
    """Ranks items for many histories: by the model, with or without boosts, or by popularity."""

    def __init__(
        self,
        model: Recommender,
        allowed: np.ndarray | None = None,
        boost: np.ndarray | None = None,
        by_popularity: bool = False,
    ) -> None:
        self.model, self.allowed, self.boost, self.by_popularity = model, allowed, boost, by_popularity

    def rank(self, histories: sp.csr_array, n: int, hidden: sp.csr_array | None) -> Ranked:
        """The n best items that are allowed and not hidden; others follow with −inf."""
        if self.boost is None and not self.by_popularity:
            positions, scores = (part.cpu().numpy() for part in self.model.rank(histories, n, hidden, self.allowed))
            return Ranked(positions, scores, scores)
        at_once = max(1, BLOCK["cpu"] // len(self.model.items))
        starts = range(0, histories.shape[0], at_once)
        parts = [self._rank(histories, n, hidden, slice(start, start + at_once)) for start in starts]
        return Ranked(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def rank_only(self, histories: sp.csr_array, positions: Sequence[int]) -> Ranked:
        """These items, whatever else is allowed."""
        only = np.zeros(len(self.model.items), dtype=bool)
        only[list(positions)] = True
        return Ranker(self.model, only, by_popularity=self.by_popularity).rank(histories, int(only.sum()), None)

    def _rank(self, histories: sp.csr_array, n: int, hidden: sp.csr_array | None, users: slice) -> Ranked:
        scores = self._scores(histories[users])
        values = scores.clone() if self.boost is None else scores + torch.from_numpy(self.boost).to(scores.device)
        best, positions = best_of(
            values,
            n,
            hidden=None if hidden is None else pairs(hidden[users], values.device),
            allowed=None if self.allowed is None else torch.from_numpy(self.allowed).to(values.device),
        )
        return Ranked(*(part.cpu().numpy() for part in (positions, best, scores.gather(1, positions))))

    def _scores(self, histories: sp.csr_array) -> Tensor:
        if self.by_popularity:
            return popular_scores(self.model).repeat(histories.shape[0], 1)
        return self.model.scores(histories)


def popular_scores(model: Recommender) -> Tensor:
    """The log of each item's share of all interactions, each item counted once more: (items,)."""
    counts = model.popularity + 1.0
    return torch.from_numpy(np.log(counts / counts.sum()).astype(np.float32))


class Many(NamedTuple):
    """Users ranked together."""

    ranker: Ranker
    histories: sp.csr_array
    hidden: sp.csr_array
    ranked: Ranked
    pinned: Ranked | None = None
    """Pins in any order, with their scores."""


class OneOfMany:
    """Candidates of a user who was ranked with others."""

    def __init__(self, many: Many, user: int) -> None:
        self._many, self._user = many, user
        self._ranked = Ranked(*(part[user] for part in many.ranked))

    def best(self, depth: int) -> Candidates:
        if depth > len(self._ranked.positions):
            many, user = self._many, [self._user]
            deeper = many.ranker.rank(many.histories[user], depth, many.hidden[user])
            self._ranked = Ranked(*(part[0] for part in deeper))
        return Candidates(self._ranked.positions, self._ranked.values)

    def scores(self, positions: np.ndarray) -> np.ndarray:
        known = dict(zip(self._ranked.positions.tolist(), self._ranked.scores, strict=True))
        if self._many.pinned is not None:
            pinned = (part[self._user] for part in (self._many.pinned.positions, self._many.pinned.scores))
            known |= zip(*(part.tolist() for part in pinned), strict=True)
        return np.array([known[position] for position in positions.tolist()], dtype=np.float32)


class OneAlone:
    """Candidates of a user whose scores are all known."""

    def __init__(
        self,
        values: Tensor,
        scores: Tensor,
        boost: np.ndarray | None,
        allowed: np.ndarray | None,
        hidden: np.ndarray,
    ) -> None:
        """values: what to rank by, before boosts: (items,). scores: the model's own: (items,)."""
        is_free = np.ones(len(scores), dtype=bool) if allowed is None else allowed.copy()
        is_free[hidden] = False
        self.left = int(is_free.sum())
        boosted = values if boost is None else values + torch.from_numpy(boost).to(values.device)
        self._values = boosted.masked_fill(~torch.from_numpy(is_free).to(values.device), -torch.inf)[None]
        self._scores = scores

    def best(self, depth: int) -> Candidates:
        values, positions = best_of(self._values, min(depth, self.left))
        return Candidates(positions[0].cpu().numpy(), values[0].cpu().numpy())

    def scores(self, positions: np.ndarray) -> np.ndarray:
        return self._scores[torch.from_numpy(positions).to(self._scores.device)].cpu().numpy()
