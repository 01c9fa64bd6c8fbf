"""Many different questions to one model, answered together: who, what must not be chosen, which moves.

A concept's share after a move multiplies its terms by exp(w_uk). One more coordinate does that inside the usual
product: z_uk · h_i / tau + w_uk = (z_uk, tau w_uk) · (h_i, 1) / tau.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from macrid.control.moves import Move
from macrid.control.steer import Effect, State, with_axis
from macrid.interpret.space import Space
from macrid.models.base import Recommender
from macrid.models.devices import on_device
from macrid.ops.topk import pairs, top

FEW_MOVES = 3
FEW = 128  # items: who asks for so few does not wait for longer lists


@dataclass(frozen=True, eq=False)
class Ask:
    """One question. Items are positions in the model's catalogue."""

    known: np.ndarray
    """The history."""
    n: int
    hidden: np.ndarray
    """What must not be chosen."""
    allowed: np.ndarray | None = None
    """(items,) True where an item may be chosen; all may if None."""
    moves: tuple[Move, ...] = ()
    bounded: bool = True
    by_concept: bool = False
    concept: int | None = None
    """The only concept whose items may be chosen."""

    @property
    def is_heavy(self) -> bool:
        """Whether it takes as long as many others, who should not wait for it."""
        return self.by_concept or len(self.moves) > FEW_MOVES


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items, best first."""

    positions: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, eq=False)
class Answer:
    """What is recommended, and what led to it."""

    best: Ranking
    before: Ranking | None = None
    """Without the moves, if there are some."""
    moves: tuple[Move, ...] = ()
    effects: tuple[Effect, ...] = ()
    shares: np.ndarray | None = None
    """(concepts,) of what is recommended; with moves or `by_concept`."""
    of_concepts: dict[int, Ranking] = field(default_factory=dict)
    """With `by_concept`, the largest share first."""
    of_concepts_before: dict[int, Ranking] = field(default_factory=dict)
    """Without the moves, if there are some."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Turn:
    """Somebody before and after all moves."""

    before: State
    after: State
    moves: tuple[Move, ...] = ()
    effects: tuple[Effect, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, before: State, moves: Sequence[Move], bounded: bool) -> Turn:
        after, effects, warnings = before, [], []
        moves = tuple(with_axis(before.space, move) for move in moves)
        for move in moves:
            after, own, beyond = after.after(move, bounded)
            effects += own
            warnings += [] if beyond is None else [beyond]
        return cls(before, after, moves, tuple(effects), tuple(warnings))


@dataclass(frozen=True)
class Scorer:
    """A model ready to answer many at once."""

    model: Recommender
    space: Space | None
    """None for a model without concepts."""

    @torch.no_grad()
    def answer(self, asks: Sequence[Ask]) -> list[Answer | Exception]:
        """In their order; what is wrong with one question is the answer to that one only."""
        if self.space is None:
            return [Answer(found) for found in self._rank(asks, None)]
        components = self.space.components(self.model._matrix([ask.known for ask in asks]))  # (asks, concepts, dim)
        turns = [self._turn(self.space, own, ask) for own, ask in zip(components, asks, strict=True)]
        rows, states = [], []  # one for each list that is needed: after moves there are two
        for ask, turn in zip(asks, turns, strict=True):
            if isinstance(turn, Turn):
                states += [turn.after, turn.before] if ask.moves else [turn.after]
                rows += [ask] * (2 if ask.moves else 1)
        found = iter(self._rank(rows, states))
        return [
            turn
            if not isinstance(turn, Turn)
            else self._told(ask, turn, next(found), next(found) if ask.moves else None)
            for ask, turn in zip(asks, turns, strict=True)
        ]

    def _turn(self, space: Space, components: np.ndarray, ask: Ask) -> Turn | Exception:
        try:
            return Turn.of(State.of(space, torch.from_numpy(components)), ask.moves, ask.bounded)
        except Exception as error:  # whatever it is, it belongs to this question
            return error

    def _told(self, ask: Ask, turn: Turn, best: Ranking, before: Ranking | None) -> Answer:
        shares, of_concepts, unmoved = None, {}, {}
        if ask.concept is not None:
            best = self._within(ask, turn.after, ask.concept)
            before = self._within(ask, turn.before, ask.concept) if ask.moves else None
        if ask.moves or ask.by_concept:
            shares = turn.after.shares().numpy()
        if ask.by_concept:
            assert shares is not None
            of_concepts = {int(k): self._within(ask, turn.after, int(k)) for k in np.argsort(-shares, kind="stable")}
            unmoved = {k: self._within(ask, turn.before, k) for k in of_concepts} if ask.moves else {}
        return Answer(best, before, turn.moves, turn.effects, shares, of_concepts, unmoved, turn.warnings)

    def _within(self, ask: Ask, state: State, concept: int) -> Ranking:
        """The best items of a concept; fewer than asked for where it has fewer."""
        own = state.space.own(concept)
        may = np.ones(len(state.space.items), dtype=bool) if ask.allowed is None else ask.allowed.copy()
        may[ask.hidden] = False
        own = own[may[own]]
        log_p = state.log_probabilities.cpu().numpy()[own]
        best = np.argsort(-log_p, kind="stable")[: ask.n]
        return Ranking(own[best], log_p[best])

    def _rank(self, asks: Sequence[Ask], states: Sequence[State] | None) -> list[Ranking]:
        """The n best items of each; states: of those asking, for a model with concepts."""
        found: list[Ranking | None] = [None] * len(asks)
        for places in _groups(asks):
            own, n = [asks[place] for place in places], max(asks[place].n for place in places)
            allowed = own[0].allowed
            hidden = self.model._matrix([ask.hidden for ask in own])
            if states is None:
                positions, scores = self.model._top(self.model._matrix([ask.known for ask in own]), n, hidden, allowed)
            else:
                device = self.model.device
                with on_device(device):
                    positions, scores = top(
                        *self._directions([states[place] for place in places]), self.model.settings.temperature, n,
                        hidden=pairs(hidden, device), concept_of=self._concept_of,
                        allowed=None if allowed is None else torch.from_numpy(allowed).to(device),
                    )  # fmt: skip
            rows = zip(places, positions.cpu().numpy(), scores.cpu().numpy(), strict=True)
            for place, row, values in rows:
                found[place] = Ranking(row[: asks[place].n], values[: asks[place].n])
        return [ranking for ranking in found if ranking is not None]

    def _directions(self, states: Sequence[State]) -> tuple[Tensor, Tensor, Tensor]:
        """Components, items and concepts of items, with the coordinate of weights where somebody has some."""
        assert self.space is not None
        space = self.space
        components = torch.stack([state.components for state in states]).to(self.model.device)
        if not any(state.weights.any() for state in states):
            return components, space.directions, space.log_assignment
        weights = torch.stack([state.weights for state in states]).to(components) * self.model.settings.temperature
        return torch.cat([components, weights[:, :, None]], dim=2), self._with_ones, space.log_assignment

    @cached_property
    def _with_ones(self) -> Tensor:
        """(items, dim + 1)"""
        assert self.space is not None
        directions = self.space.directions
        return torch.cat([directions, directions.new_ones(len(directions), 1)], dim=1)

    @cached_property
    def _concept_of(self) -> Tensor | None:
        """Where an item counts in one concept only."""
        if self.space is None or self.model.settings.assignment != "hard":
            return None
        return self.space.log_assignment.argmax(dim=1)


def _groups(asks: Sequence[Ask]) -> Iterator[list[int]]:
    """Places of those who can be ranked together: for short lists, for long ones, and each with its own `allowed`."""
    for is_long in (False, True):
        together = [at for at, ask in enumerate(asks) if ask.allowed is None and (ask.n > FEW) == is_long]
        if together:
            yield together
    yield from ([at] for at, ask in enumerate(asks) if ask.allowed is not None)
