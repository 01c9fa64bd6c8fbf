"""A user between moves: a component per concept, and each concept's weight.

Where only directions matter, a component has length 1. Setting its coordinate along an axis e to v rotates it in the
plane of itself and e, and keeps the proportions of everything else:

    z' = v · e + sqrt(1 − v²) · (z − (z·e) e) / |z − (z·e) e|

A concept's share is the part of the total probability that comes from it, Z_k / Z with
Z_k = w_k sum_i c_ik exp(z_k · h_i / tau). The weight w_k follows from the history; changing the share replaces it.

The linear part of a score (`macrid.models.neighbours`) knows the history only, so it would hold a moved list back. It
fades with the overlap of the concepts' weights, which add up to 1 here, and with the component moved furthest:

    l' = l · (sum_k min(w_k, w'_k) · min_k exp((cos(z_k, z'_k) − 1) / tau))²
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.concepts.directions import Direction, along, directions_towards
from macrid.concepts.space import Space, digest
from macrid.control.moves import Move
from macrid.errors import RequestError
from macrid.ops.cells import Cells
from macrid.ops.search import Question, log_sums, search
from macrid.ops.topk import best_of

FURTHEST = 1 - 1e-6  # largest coordinate of a unit vector: at 1 the others would be lost


@dataclass(frozen=True)
class Effect:
    """What a move did to one component or one concept's share."""

    concept: int
    dimension: int | None
    """None for a share, or an attribute off the axes."""
    before: float
    after: float
    low: float | None = None
    """The range of real users, if known."""
    high: float | None = None
    name: str | None = None
    """Of the dimension or attribute, if any."""

    @property
    def is_share(self) -> bool:
        return self.dimension is None and self.name is None

    def as_json(self) -> dict[str, Any]:
        return {
            "concept": self.concept,
            "dimension": self.dimension,
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "range": None if self.low is None else [self.low, self.high],
        }


@dataclass(frozen=True, eq=False)
class Ranking:
    """Positions of items, best first, and their log-probabilities."""

    positions: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, eq=False)
class Moved:
    state: State
    moves: tuple[Move, ...] = ()
    """With their axes and names."""
    effects: tuple[Effect, ...] = ()
    warnings: tuple[str, ...] = ()
    """About moves beyond the range of real users."""


@dataclass(frozen=True, eq=False)
class State:
    """A user, before, between or after moves."""

    space: Space
    components: Tensor
    """(concepts, dim)"""
    weights: Tensor
    """(concepts,) log of each concept's weight."""
    linear: Tensor | None = None
    """(items,) the part of the scores that is linear in the history, on the model's device."""
    unmoved: State | None = None
    """The user before all moves; None if there were none."""

    @classmethod
    def all_of(cls, space: Space, histories: sp.csr_array) -> Iterator[State]:
        """A user for each history, before moves."""
        neighbours = space.model.neighbours
        linear = [None] * histories.shape[0] if neighbours is None else neighbours.scores(histories)
        for components, log_weights, part in zip(*space.encode(histories), linear, strict=True):
            yield cls(space, torch.from_numpy(components), torch.from_numpy(log_weights), part)

    def after(self, moves: Sequence[Move], bounded: bool = True) -> Moved:
        """Apply moves in order; bounded: within the range of real users."""
        state, applied, effects, warnings = self, [], [], []
        for move in moves:
            concept = None if move.concept is None else self.space.concept_number(move.concept)
            if move.share is not None:
                assert concept is not None
                state, effect = state._with_share(concept, move.share)
                effects.append(effect)
                applied.append(_with_concept_name(self.space, move, concept))
                continue
            directions = directions_of(self.space, move, concept)
            state, along_each, warning = state._along(directions, move, bounded)
            effects += along_each
            warnings += [] if warning is None else [warning]
            applied.append(_with_concept_name(self.space, _identified(move, directions), concept))
        return Moved(state, tuple(applied), tuple(effects), tuple(warnings))

    def _along(
        self, directions: Sequence[Direction], move: Move, bounded: bool
    ) -> tuple[State, list[Effect], str | None]:
        components, effects, beyond = self.components.clone(), [], []
        for direction in directions:
            z = components[direction.concept].numpy()
            before = float(z @ direction.vector)
            target = float(target_of(move, direction, before))
            value = float(reachable(target, before, direction, bounded, self.space.is_cosine))
            if not direction.reaches(target, before) or (self.space.is_cosine and abs(target) > 1):
                beyond.append((direction, target, value))
            components[direction.concept] = torch.from_numpy(placed(z, direction.vector, value, self.space.is_cosine))
            usual = direction.low, direction.high, direction.name
            effects.append(Effect(direction.concept, direction.dimension, before, value, *usual))
        moved = replace(self, components=components, unmoved=self.unmoved or self)
        return moved, effects, _range_warning(beyond, bounded) if beyond else None

    def _with_share(self, concept: int, share: float) -> tuple[State, Effect]:
        """Give a concept this share of the probability; the others keep their proportions."""
        change = float(weight_change(self.log_sums.cpu(), concept, share))
        check_share(change, concept)
        weights = self.weights.clone()
        weights[concept] += change
        moved = replace(self, weights=weights, unmoved=self.unmoved or self)
        moved.__dict__["sums"] = self.sums  # weights change neither these nor the terms
        if "terms" in self.__dict__:
            moved.__dict__["terms"] = self.terms
        return moved, Effect(concept, None, float(self.shares()[concept]), float(moved.shares()[concept]), 0.0, 1.0)

    @cached_property
    def terms(self) -> Tensor:
        """z_k · h_i / tau + log c_ik: (concepts, items)."""
        decoder = self.space.decoder
        terms = (self.components.to(decoder.items.device) / decoder.temperature) @ decoder.items.t()
        return terms.add_(self.space.log_terms)

    @cached_property
    def sums(self) -> Tensor:
        """log Z_k without the weights, estimated where the model has an index: (concepts,)."""
        if (cells := self._cells(1)) is not None:
            decoder = self.space.decoder
            return log_sums(decoder, cells, self.components[None].to(decoder.items.device))[0]
        return self.terms.logsumexp(dim=1)

    @cached_property
    def log_sums(self) -> Tensor:
        """log Z_k: (concepts,)."""
        return self.sums + self.weights.to(self.sums.device)

    def shares(self) -> Tensor:
        """Z_k / Z: (concepts,)."""
        return torch.softmax(self.log_sums, dim=0).cpu()

    def best(self, n: int, hidden: np.ndarray, allowed: np.ndarray | None, concept: int | None = None) -> Ranking:
        """The n best items, of all or of one concept; fewer if fewer are left."""
        may = np.ones(len(self.space.items), dtype=bool) if allowed is None else allowed.copy()
        may[hidden] = False
        if concept is None and may.any() and (cells := self._cells(n)) is not None:
            return self._search(cells, min(n, int(may.sum())), may)
        scores, device = self.scores, self.scores.device
        items = None if concept is None else self.space.members(concept)
        if items is not None:
            scores, may = scores[torch.from_numpy(items).to(device)], may[items]
        n = min(n, int(may.sum()))
        values, positions = best_of(scores.clone()[None], n, allowed=torch.from_numpy(may).to(device))
        chosen = positions[0].cpu().numpy()
        return Ranking(chosen if items is None else items[chosen], values[0].cpu().numpy())

    def _cells(self, n: int) -> Cells | None:
        """Of the model's index; None if all scores are known already or have to be computed."""
        return None if "terms" in self.__dict__ else self.space.model.arranged(1, n)

    def _search(self, cells: Cells, n: int, may: np.ndarray) -> Ranking:
        """The n best items that may be listed, by the model's index."""
        decoder, index, linear = self.space.decoder, self.space.model.index, None
        if self.linear is not None:
            linear = sp.csr_array((self._fade * self.linear).cpu().numpy()[None])
        device = decoder.items.device
        question = Question(self.components[None].to(device), self.weights[None].to(device), linear)
        probes = None if index is None else index.probes
        found = search(decoder, cells, question, n, allowed=torch.from_numpy(may).to(device), probes=probes)
        return Ranking(found.positions[0].cpu().numpy(), found.log_p[0].cpu().numpy())

    @property
    def _fade(self) -> float:
        """The factor on the linear part."""
        if self.unmoved is None:
            return 1.0
        before, after = (self.unmoved.components, self.unmoved.weights), (self.components, self.weights)
        return float(faded(before, after, self.space.decoder.temperature))

    @cached_property
    def log_p(self) -> Tensor:
        """log-probabilities without the linear part: (items,)."""
        return (self.terms + self.weights.to(self.terms.device)[:, None]).logsumexp(dim=0).log_softmax(dim=0)

    @cached_property
    def scores(self) -> Tensor:
        """log-probabilities: (items,)."""
        if self.linear is None:
            return self.log_p
        return (self.log_p + self._fade * self.linear).log_softmax(dim=0)


def faded(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor], temperature: float) -> Tensor:
    """The factor on the linear part: (…).

    before, after: components (…, concepts, dim) and log weights (…, concepts).
    """
    (z, log_w), (moved_z, moved_log_w) = before, after
    overlap = torch.minimum(log_w.softmax(dim=-1), moved_log_w.softmax(dim=-1)).sum(dim=-1)
    cosine = torch.nn.functional.cosine_similarity(z, moved_z, dim=-1).amin(dim=-1)
    return (overlap.clamp(max=1) * torch.exp((cosine.clamp(max=1) - 1) / temperature)).square()


def weight_change(log_sums: Tensor, concept: int, share: float) -> Tensor:
    """What to add to the log weight of a concept for it to have this share of the probability: (…).

    log_sums: log Z_k (…, concepts). Infinite where no item, or every item, belongs to the concept.
    """
    share = min(max(share, 1e-6), 1 - 1e-6)  # keep every item: a list may be longer than a concept
    log_z = log_sums.double()
    others = log_z[..., torch.arange(log_z.shape[-1]) != concept].logsumexp(dim=-1)
    return float(np.log(share / (1 - share))) + others - log_z[..., concept]


def check_share(change: Any, concept: int) -> None:
    """Refuse a `weight_change` that cannot be made: (…)."""
    infinite = np.asarray(change)[np.isinf(change)]
    if infinite.size:
        some = "no" if infinite[0] > 0 else "every"
        raise RequestError(f"{some} item belongs to concept {concept}; its share cannot change")


def placed(component: np.ndarray, axis: np.ndarray, value: Any, is_unit: bool = True) -> np.ndarray:
    """Components (…, dim) with their coordinate along an axis (dim,) set to a value; is_unit: keep their length 1."""
    rest = component - (component @ axis)[..., None] * axis
    value = np.asarray(value)[..., None]
    if is_unit:
        rest = rest / np.maximum(np.linalg.norm(rest, axis=-1, keepdims=True), 1e-12) * np.sqrt(1 - value**2)
    return (rest + value * axis).astype(component.dtype)


def directions_of(space: Space, move: Move, concept: int | None) -> list[Direction]:
    """Of a move that is not about a share."""
    if move.towards is not None:
        return directions_towards(space, move.towards, concept)
    assert concept is not None
    assert move.dimension is not None
    return [along(space, concept, move.dimension, move.axis)]


def _with_concept_name(space: Space, move: Move, concept: int | None) -> Move:
    """Add the name of a numbered concept."""
    if concept is None or isinstance(move.concept, str) or move.concept_name is not None:
        return move
    return replace(move, concept_name=space.meaning.concept_name(concept))


def _identified(move: Move, directions: Sequence[Direction]) -> Move:
    """Add the axis and name of a numbered dimension."""
    if move.towards is not None or isinstance(move.dimension, str):
        return move
    (direction,) = directions
    name = move.name or (None if direction.dimension is None else direction.name)
    return replace(move, axis=move.axis or digest(direction.vector), name=name)


def target_of(move: Move, direction: Direction, before: Any) -> np.ndarray:
    """Where a move leads from some coordinates, limits aside: (…)."""
    before = np.asarray(before, dtype=np.float64)
    if move.to is not None:
        return np.full_like(before, float(move.to))
    if move.by is not None:
        return before + float(move.by)
    assert move.amount is not None
    return before + float(move.amount) * direction.half


def reachable(target: Any, before: Any, direction: Direction, bounded: bool, is_unit: bool) -> np.ndarray:
    """Targets within limits: `to`, `by` and `towards` all stop at the range of real users, and at length 1: (…)."""
    target = np.asarray(target, dtype=np.float64)
    if bounded and direction.low is not None and direction.high is not None:
        target = np.clip(target, np.minimum(direction.low, before), np.maximum(direction.high, before))
    furthest = np.abs(target).max(initial=0)
    if not is_unit and furthest > float(np.finfo(np.float32).max):
        raise RequestError(f"{furthest:g} is too far for {direction}; move less")
    return np.clip(target, -FURTHEST, FURTHEST) if is_unit else target


def _range_warning(beyond: Sequence[tuple[Direction, float, float]], bounded: bool) -> str:
    direction, target, value = beyond[0]
    others = f", and {len(beyond) - 1} more likewise" if len(beyond) > 1 else ""
    if direction.low is None:
        return f"{target:.2f} is beyond ±1, the limit of {direction}; moved to {value:.2f}{others}"
    done = f"moved to {value:.2f}" if bounded else "moved there anyway"
    if not bounded and abs(target) > 1 and abs(value) <= 1:
        done = f"moved to {value:.2f}, the limit"
    return (
        f"{target:.2f} is beyond the range of real users in {direction} ({direction.low:.2f} to {direction.high:.2f});"
        f" {done}{others}"
    )
