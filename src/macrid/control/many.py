"""Many users at once: moved like `macrid.control.state` moves one, and ranked together.

Where a user's list is the answer to a question, these give the same lists without a question for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.concepts.space import Space
from macrid.control.moves import Move
from macrid.control.sources import Ranker
from macrid.control.state import check_share, directions_of, faded, placed, reachable, target_of, weight_change
from macrid.models.base import Recommender
from macrid.models.devices import on_device
from macrid.models.neighbours import Neighbours
from macrid.ops.topk import BLOCK, Mixture, pairs, top

MOST_KEPT = 1 << 26  # bytes of the linear part; where it is larger, it is computed for every ranking
MARGIN = 1e-4  # of a range: moves that end this close to their target were not stopped


class Candidates(NamedTuple):
    """The best items of many users, best first: (users, depth) each."""

    positions: np.ndarray
    values: np.ndarray
    """What they are ranked by: scores and boosts, up to a constant for each user; −inf for what may not be listed."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """Which items, and how many."""

    depth: int
    hidden: sp.csr_array
    """(users, items) must not be listed."""
    allowed: np.ndarray | None = None
    """(items,)"""
    boost: np.ndarray | None = None
    """(items,) added to scores."""


class People(Protocol):
    """Users that can be ranked together."""

    def best(self, wanted: Wanted, check: Callable[[], None]) -> Candidates:
        """check: called now and then; an error that it raises ends the work."""
        ...

    def take(self, users: np.ndarray) -> Self:
        """Some of them."""
        ...


@dataclass(frozen=True, eq=False)
class Histories:
    """Users of any model, as their histories say."""

    model: Recommender
    histories: sp.csr_array

    def best(self, wanted: Wanted, check: Callable[[], None]) -> Candidates:
        ranker, parts = Ranker(self.model, wanted.allowed, wanted.boost), []
        at_once = max(1, BLOCK["cpu"] // len(self.model.items))
        for start in range(0, self.histories.shape[0], at_once):
            check()
            users = slice(start, start + at_once)
            parts.append(ranker.rank(self.histories[users], wanted.depth, wanted.hidden[users]))
        return Candidates(*(np.concatenate(part) for part in list(zip(*parts, strict=True))[:2]))

    def take(self, users: np.ndarray) -> Histories:
        return replace(self, histories=self.histories[users])


class Linear:
    """The part of scores that is linear in histories, kept where it is small enough."""

    def __init__(self, neighbours: Neighbours, histories: sp.csr_array, kept: Tensor | None = None) -> None:
        self._neighbours, self._histories, self._kept = neighbours, histories, kept

    def of(self, users: slice) -> Tensor:
        """(users, items)"""
        count, items = self._histories.shape
        if self._kept is None and 4 * count * items <= MOST_KEPT:
            self._kept = self._neighbours.scores(self._histories)
        return self._neighbours.scores(self._histories[users]) if self._kept is None else self._kept[users]

    def take(self, users: np.ndarray) -> Linear:
        kept = None if self._kept is None else self._kept[torch.from_numpy(users).to(self._kept.device)]
        return Linear(self._neighbours, self._histories[users], kept)


@dataclass(frozen=True, eq=False)
class States:
    """Users of a model with concepts, before, between or after moves."""

    space: Space
    components: np.ndarray
    """(users, concepts, dim)"""
    weights: np.ndarray
    """(users, concepts) log of each concept's weight."""
    linear: Linear | None = None
    unmoved: States | None = None
    """The users before all moves; None if there were none."""

    @classmethod
    def of(cls, space: Space, histories: sp.csr_array) -> States:
        """A user for each history, before moves."""
        neighbours = space.model.neighbours
        linear = None if neighbours is None else Linear(neighbours, histories)
        return cls(space, *space.encode(histories), linear)

    def take(self, users: np.ndarray) -> States:
        linear = None if self.linear is None else self.linear.take(users)
        unmoved = None if self.unmoved is None else self.unmoved.take(users)
        return States(self.space, self.components[users], self.weights[users], linear, unmoved)

    def after(self, moves: Sequence[Move], bounded: bool = True) -> tuple[States, np.ndarray]:
        """Moved in order; and whether a move was stopped at the range of real users: (users,)."""
        state, stopped = self, np.zeros(len(self.components), dtype=bool)
        for move in moves:
            concept = None if move.concept is None else self.space.concept_number(move.concept)
            if move.share is not None:
                assert concept is not None
                state = state._with_share(concept, move.share)
            else:
                state, beyond = state._along(move, concept, bounded)
                stopped |= beyond
        return state, stopped

    def _along(self, move: Move, concept: int | None, bounded: bool) -> tuple[States, np.ndarray]:
        components, is_unit = self.components.copy(), self.space.is_cosine
        stopped = np.zeros(len(components), dtype=bool)
        for direction in directions_of(self.space, move, concept):
            z = components[:, direction.concept]
            before = z @ direction.vector
            target = target_of(move, direction, before)
            value = reachable(target, before, direction, bounded, is_unit)
            components[:, direction.concept] = placed(z, direction.vector, value, is_unit)
            stopped |= np.abs(target - value) > MARGIN * max(2 * direction.half, MARGIN)
        return replace(self, components=components, unmoved=self.unmoved or self), stopped

    def _with_share(self, concept: int, share: float) -> States:
        change = weight_change(torch.from_numpy(self._log_sums + self.weights), concept, share).numpy()
        check_share(change, concept)
        weights = self.weights.copy()
        weights[:, concept] += change
        moved = replace(self, weights=weights, unmoved=self.unmoved or self)
        moved.__dict__["_log_sums"] = self._log_sums  # weights do not change them
        return moved

    @cached_property
    def _log_sums(self) -> np.ndarray:
        """log Z_k without the weights: (users, concepts)."""
        decoder = self.space.decoder
        return decoder.log_sums(torch.from_numpy(self.components).to(decoder.items)).cpu().numpy()

    @torch.no_grad()
    def best(self, wanted: Wanted, check: Callable[[], None]) -> Candidates:
        decoder = self.space.decoder
        device, parts = decoder.items.device, list[tuple[Tensor, Tensor]]()
        allowed = None if wanted.allowed is None else torch.from_numpy(wanted.allowed).to(device)
        at_once = max(1, BLOCK[device.type] // len(decoder.items))
        with on_device(device):
            for start in range(0, len(self.components), at_once):
                check()
                users = slice(start, start + at_once)
                hidden = pairs(wanted.hidden[users], device)
                mixture = self._mixture(users, wanted.boost)
                parts.append(top(decoder, mixture, wanted.depth, hidden=hidden, allowed=allowed))
        return Candidates(*(torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)))

    def _mixture(self, users: slice, boost: np.ndarray | None) -> Mixture:
        """With boosts in the linear part: they change which items are best, as they would by score."""
        like = self.space.decoder.items
        z, log_w = (torch.from_numpy(part[users]).to(like) for part in (self.components, self.weights))
        linear = None if self.linear is None else self.linear.of(users)
        if linear is not None and self.unmoved is not None:
            start = (torch.from_numpy(part[users]).to(like) for part in (self.unmoved.components, self.unmoved.weights))
            before_z, before_w = start
            factor = faded((before_z, before_w), (z, log_w), self.space.decoder.temperature)
            linear = factor[:, None] * linear
        if boost is not None:
            added = torch.from_numpy(boost).to(like)
            linear = added.expand(len(z), -1) if linear is None else linear + added
        return Mixture(z, log_w, linear)
