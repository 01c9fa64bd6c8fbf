"""Steering: move what a user is after along a dimension, an attribute or between concepts, and recommend again.

A component has length 1 where only directions matter. Setting its coordinate along an axis e to v turns it in the plane
of itself and e, and leaves the proportions of everything else:

    z' = v · e + sqrt(1 − v²) · (z − (z·e) e) / |z − (z·e) e|

A concept's share is the part of the recommended probability that comes from it, Z_k / Z with
Z_k = sum_i c_ik exp(z_k · h_i / tau); changing it multiplies the concept's terms by a common factor.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macrid.concepts.directions import Direction, along, directions_towards
from macrid.concepts.space import Space, digest, space_of
from macrid.control.moves import Move
from macrid.data.ids import Id
from macrid.errors import RangeWarning, RequestError
from macrid.models.base import Recommendations, Recommender, ScoredItem
from macrid.ops.topk import best_of

FURTHEST = 1 - 1e-6  # of a coordinate of unit vectors: at 1 nothing would be left of all others to come back to


@dataclass(frozen=True)
class Effect:
    """What a move did to one component, or to the share of one concept."""

    concept: int
    dimension: int | None
    """None for a share, and for an attribute that is not on an axis."""
    before: float
    after: float
    low: float | None = None
    """The range seen in real users, where it is known."""
    high: float | None = None
    name: str | None = None
    """Of the dimension or attribute, where it has one."""

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


@dataclass(frozen=True)
class Change:
    """An item that is in another place than before; places count from 1, None is not in the list."""

    id: Id
    title: str | None
    before: int | None
    after: int | None

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.id), "title": self.title, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class Steered(Recommendations):
    """Recommendations after some moves, and what the moves changed."""

    before: Recommendations = field(default_factory=lambda: Recommendations(()))
    """What was recommended without any move."""
    moves: tuple[Move, ...] = ()
    effects: tuple[Effect, ...] = ()
    shares: tuple[float, ...] = ()
    """(concepts,) how much of the recommended probability comes from each."""
    asked: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def moved(self) -> dict[str, list[Change]]:
        """Items that came in, went out, went up or down."""
        was = {item.id: rank for rank, item in enumerate(self.before, start=1)}
        now = {item.id: rank for rank, item in enumerate(self.items, start=1)}
        found: dict[str, list[Change]] = {"in": [], "out": [], "up": [], "down": []}
        for item in self.items:
            before, after = was.get(item.id), now[item.id]
            if before != after:
                found["in" if before is None else "up" if after < before else "down"].append(
                    Change(item.id, item.title, before, after)
                )
        found["out"] = [Change(item.id, item.title, was[item.id], None) for item in self.before if item.id not in now]
        return found

    def steer(self, **move: Any) -> Steered:
        """One more move after those so far."""
        return steer(**{**self.asked, "moves": (*self.moves, Move(**move))})

    def undo(self, count: int = 1) -> Steered:
        """Without the last moves."""
        if not 1 <= count <= len(self.moves):
            raise RequestError(f"undo {count}; there are {len(self.moves)} moves to undo")
        return steer(**{**self.asked, "moves": self.moves[: len(self.moves) - count]})

    def as_json(self) -> dict[str, Any]:
        return {
            "unknown": [str(value) for value in self.unknown],
            "items": [item.as_json() for item in self.items],
            "moved": {name: [change.as_json() for change in changes] for name, changes in self.moved.items()},
            "moves": [move.as_json() for move in self.moves],
            "effects": [effect.as_json() for effect in self.effects],
            "shares": list(self.shares),
        }


def steer(
    model: Recommender,
    history: Iterable[Id],
    *,
    moves: Sequence[Move | Mapping[str, Any]] = (),
    n: int = 10,
    exclude_seen: bool = True,
    include: Iterable[Id] | None = None,
    exclude: Iterable[Id] | None = None,
    bounded: bool = True,
    **move: Any,
) -> Steered:
    """Recommend n items for a history after some moves, and tell what they changed.

    moves: one after the other, as `Move` or as its JSON. move: one more of them, by its fields: concept=2,
    dimension=3, to=0.4. The same moves, sent again, give the same list; fewer of them undo the others.
    bounded: go only as far as real users do, with a `RangeWarning` where more was asked for; False goes all the way,
    with the same warning.
    """
    given = tuple(Move.read(value) for value in moves) + ((Move(**_known(move)),) if move else ())
    space = space_of(model)
    history, include, exclude = _listed(history), _listed(include), _listed(exclude)
    known, unknown = model.lookup(history)
    histories = model.matrix([known])
    with torch.no_grad():
        state = State.of(space, torch.from_numpy(space.components(histories)[0]))
        moved, effects = state, []
        given = tuple(with_axis(space, own) for own in given)
        for own in given:
            moved, own_effects, beyond = moved.after(own, bounded)
            effects += own_effects
            if beyond is not None:
                warnings.warn(beyond, RangeWarning, stacklevel=2)
        allowed = model.candidates(include, exclude)
        model.check_enough(histories, n, histories if exclude_seen else None, allowed)
        hidden = known if exclude_seen else known[:0]
        before, after = (Recommendations(now.best(n, hidden, allowed), tuple(unknown)) for now in (state, moved))
    asked = {"model": model, "history": history, "n": n, "exclude_seen": exclude_seen, "include": include,
             "exclude": exclude, "bounded": bounded}  # fmt: skip
    return Steered(
        after.items, after.unknown, before, given, tuple(effects), tuple(moved.shares().tolist()), asked
    )  # fmt: skip


@dataclass(frozen=True)
class State:
    """A user in the middle of being moved."""

    space: Space
    components: Tensor
    """(concepts, dim)"""
    weights: Tensor
    """(concepts,) log of what the terms of each concept are multiplied by."""

    @classmethod
    def of(cls, space: Space, components: Tensor) -> State:
        return cls(space, components, torch.zeros(len(components)))

    def after(self, move: Move, bounded: bool) -> tuple[State, list[Effect], str | None]:
        """After one move, what it did, and what is to be said if it asks for more than real users have."""
        concept = None if move.concept is None else self.space.concept_number(move.concept)
        if move.share is not None:
            assert concept is not None
            return *self._with_share(concept, move.share), None
        if move.towards is not None:
            directions = directions_towards(self.space, move.towards, concept)
        else:
            assert concept is not None
            assert move.dimension is not None
            directions = [along(self.space, concept, move.dimension, move.axis)]
        components, effects, beyond = self.components.clone(), [], []
        for direction in directions:
            z = components[direction.concept].numpy()
            before = float(z @ direction.vector)
            asked = _aim(move, direction, before)
            value = _reachable(asked, before, direction, bounded, self.space.is_cosine)
            if not direction.reaches(asked, before) or (self.space.is_cosine and abs(asked) > 1):
                beyond.append((direction, asked, value))
            components[direction.concept] = torch.from_numpy(placed(z, direction.vector, value, self.space.is_cosine))
            seen = direction.low, direction.high, direction.name
            effects.append(Effect(direction.concept, direction.dimension, before, value, *seen))
        told = _beyond(beyond, bounded) if beyond else None
        return replace(self, components=components), effects, told

    def _with_share(self, concept: int, share: float) -> tuple[State, list[Effect]]:
        """Factors such that the concept has this share of the probability, the others keeping their proportions."""
        log_z = self.terms.logsumexp(dim=1).double().cpu()
        others = log_z[torch.arange(len(log_z)) != concept].logsumexp(dim=0)
        if log_z[concept].isinf() or others.isinf():
            some = "no" if log_z[concept].isinf() else "every"
            raise RequestError(f"{some} item belongs to concept {concept}; its share cannot change")
        share = min(max(share, 1e-6), 1 - 1e-6)  # nothing is left out for good: a list may be longer than a concept
        weights = self.weights.clone()
        weights[concept] += float(np.log(share / (1 - share)) + others - log_z[concept])
        before, moved = float(self.shares()[concept]), replace(self, weights=weights)
        return moved, [Effect(concept, None, before, float(moved.shares()[concept]), 0.0, 1.0)]

    @cached_property
    def terms(self) -> Tensor:
        """z_k · h_i / tau + log c_ik + the concept's factor: (concepts, items)."""
        space, device = self.space, self.space.directions.device
        terms = (self.components.to(device) / space.model.settings.temperature) @ space.directions.t()
        return terms.add_(space.log_terms).add_(self.weights.to(device)[:, None])

    def shares(self) -> Tensor:
        """Z_k / Z: (concepts,)."""
        return torch.softmax(self.terms.logsumexp(dim=1), dim=0).cpu()

    @cached_property
    def log_probabilities(self) -> Tensor:
        """(items,)"""
        return torch.logsumexp(self.terms, dim=0).log_softmax(dim=0)

    def best(self, n: int, hidden: np.ndarray, allowed: np.ndarray | None) -> tuple[ScoredItem, ...]:
        """The n best items with their log-probabilities."""
        log_p = self.log_probabilities[None].clone()
        places = torch.from_numpy(hidden).to(log_p.device)
        values, positions = best_of(
            log_p, n, hidden=(torch.zeros_like(places), places),
            allowed=None if allowed is None else torch.from_numpy(allowed).to(log_p.device),
        )  # fmt: skip
        return self.space.model.describe(positions[0].cpu().numpy(), values[0].cpu().numpy(), self.space.concept_of)


def placed(component: np.ndarray, axis: np.ndarray, value: Any, is_unit: bool = True) -> np.ndarray:
    """Components (…, dim) with their coordinate along an axis (dim,) set to a value; of length 1 if they have to be."""
    rest = component - (component @ axis)[..., None] * axis
    value = np.asarray(value)[..., None]
    if is_unit:
        rest = rest / np.maximum(np.linalg.norm(rest, axis=-1, keepdims=True), 1e-12) * np.sqrt(1 - value**2)
    return (rest + value * axis).astype(component.dtype)


def with_axis(space: Space, move: Move) -> Move:
    """A move along a numbered dimension remembers which axis that was."""
    if move.axis is not None or move.concept is None or not isinstance(move.dimension, int | np.integer):
        return move
    concept = space.concept_number(move.concept)
    space.check(concept, int(move.dimension))
    return replace(move, axis=digest(space.axes(concept)[move.dimension]))


def _aim(move: Move, direction: Direction, before: float) -> float:
    """The coordinate that a move asks for."""
    if move.to is not None:
        return float(move.to)
    if move.by is not None:
        return before + float(move.by)
    assert move.amount is not None
    return before + float(move.amount) * direction.half


def _reachable(asked: float, before: float, direction: Direction, bounded: bool, is_unit: bool) -> float:
    """As far as a move may go: `to`, `by` and `towards` all stop at the range of real users, and at length 1."""
    if bounded and direction.low is not None and direction.high is not None:
        asked = float(np.clip(asked, min(direction.low, before), max(direction.high, before)))
    if not is_unit and abs(asked) > float(np.finfo(np.float32).max):
        raise RequestError(f"{asked:g} is too far for {direction}; move less")
    return float(np.clip(asked, -FURTHEST, FURTHEST)) if is_unit else asked


def _beyond(beyond: Sequence[tuple[Direction, float, float]], bounded: bool) -> str:
    direction, asked, value = beyond[0]
    others = f", and so for {len(beyond) - 1} more" if len(beyond) > 1 else ""
    if direction.low is None:
        return f"{asked:.2f} is beyond {direction}, which ends at ±1; moved to {value:.2f}{others}"
    done = f"moved to {value:.2f}, as far as they go" if bounded else "moved there all the same"
    if not bounded and abs(asked) > 1 and abs(value) <= 1:
        done = f"moved to {value:.2f}, where it ends"
    return (
        f"{asked:.2f} is beyond what real users have in {direction} ({direction.low:.2f} to {direction.high:.2f});"
        f" {done}{others}"
    )


def _known(move: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = [name for name in move if name not in Move.__dataclass_fields__]
    if unknown:
        raise TypeError(f"steer() got an unexpected keyword argument '{unknown[0]}'")
    return move


def _listed(ids: Any) -> Any:
    """To be gone through more than once; what is no list of ids is told of where they are looked up."""
    return list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else ids
