"""Traversing: from an item, or a user's component, to items that differ from it in one dimension (section 2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from macrid.concepts.directions import along
from macrid.concepts.space import space_of
from macrid.control.walk import GAMMA, WIDTH, closest_prototype, walk
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.models.base import Recommender


@dataclass(frozen=True)
class Stop:
    """One item of a traversal."""

    id: Id
    title: str | None
    value: float
    """Its coordinate."""
    is_start: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.id), "title": self.title, "value": self.value, "start": self.is_start}


@dataclass(frozen=True)
class Traversal:
    """Items by growing coordinate, alike in everything else as far as there are such items."""

    concept: int
    dimension: int
    low: float
    """Below this, another prototype becomes the closest; or, if it is open, items do not reach further."""
    high: float
    is_open: tuple[bool, bool]
    items: tuple[Stop, ...]
    steps: int
    """How many were asked for; there are fewer items where the concept has fewer in the range."""
    start: float
    """The coordinate it began from."""
    name: str | None = None
    """Of the dimension."""

    @property
    def ids(self) -> list[Id]:
        return [item.id for item in self.items]

    def as_json(self) -> dict[str, Any]:
        return {
            "concept": self.concept,
            "dimension": self.dimension,
            "name": self.name,
            "range": [self.low, self.high],
            "open": list(self.is_open),
            "start": self.start,
            "steps": self.steps,
            "items": [item.as_json() for item in self.items],
        }

    def __str__(self) -> str:
        return "\n".join(f"{item.value:+.3f}  {item.id}  {item.title or ''}".rstrip() for item in self.items)


def traverse(
    model: Recommender,
    item: Id | None = None,
    dimension: int | str | None = None,
    steps: int = 8,
    *,
    history: Iterable[Id] | None = None,
    concept: int | str | None = None,
    min_users: int = 0,
    gamma: float = GAMMA,
    width: int = WIDTH,
    keep_start: bool = False,
) -> Traversal:
    """Walk along a dimension from an item, or from the component of a history in a concept.

    dimension: a number, or a name that the concept's dimensions have, along the axes in use.
    steps: how many items at most; one from each of so many subranges of about equally many items.
    min_users: choose among items that at least so many users had in training, and the start; of rarer ones a model
    knows little, so that they look alike.
    gamma: how much it counts that the items are like each other, against that they are like the start.
    width: of the beam; wider is slower and better.
    keep_start: have the item itself among the items in any case, which the objective alone does not promise.
    Where no other prototype becomes closer as far as items reach, an end of the range is open, and given as the
    furthest item. The item itself is nearly always the best of its subrange. A component that is closer to the
    prototype of another concept than to its own, as where a history says little about a concept, walks over all items
    of its concept. A component whose concept has no item in the range is an error.
    """
    space = space_of(model)
    if (item is None) == (history is None):
        raise RequestError("start from an item, or from a history and a concept: give one of them")
    if dimension is None:
        raise RequestError(f"give a dimension: a number from 0 to {space.dim - 1}, or a name")
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise RequestError(f"steps is {steps!r}; ask for a whole number of items, at least 1")
    position = -1
    if item is not None:
        if concept is not None:
            raise RequestError("an item has a concept already; give a concept with a history only")
        (position,) = model.positions([item], "item")
        vector, concept = space.items[position], int(space.concept_of[position])
    else:
        if concept is None:
            raise RequestError(f"a history has a component in each concept; give one, from 0 to {space.concepts - 1}")
        concept = space.concept_number(concept)
        known, _ = model.lookup(history or [])
        vector = space.components(model.matrix([known]))[0, concept]
    direction = along(space, concept, dimension)
    assert direction.dimension is not None
    own, axes, turned = space.members(concept), space.axes(concept), space.turned(concept)
    if min_users:
        enough = (model.popularity[own] >= min_users) | (own == position)
        own, turned = own[enough], turned[enough]
        if not len(own):
            raise RequestError(f"no item of concept {concept} was had by {min_users} users; ask for fewer")
    prototypes = space.prototypes
    if closest_prototype(vector, prototypes) != concept:
        prototypes = prototypes[[concept]]
    found = walk(
        axes @ vector, direction.dimension, turned, prototypes @ axes.T, steps=steps, gamma=gamma,
        temperature=model.settings.temperature, width=width, limit=0.0,
        keep=int(np.searchsorted(own, position)) if keep_start and item is not None else None,
    )  # fmt: skip
    if not len(found.positions):
        raise RequestError(
            f"concept {concept} has no item with dimension {direction.dimension} between {found.low:.2f} and"
            f" {found.high:.2f}; start from an item, or choose another dimension"
        )
    here, reach = float(direction.vector @ vector), turned[:, direction.dimension]
    low = min(here, float(reach.min())) if found.open_low else found.low
    high = max(here, float(reach.max())) if found.open_high else found.high
    chosen = own[found.positions]
    told = model.describe(chosen, found.values)
    stops = tuple(
        Stop(entry.id, entry.title, entry.score, bool(at == position)) for entry, at in zip(told, chosen, strict=True)
    )
    is_open = found.open_low, found.open_high
    return Traversal(concept, direction.dimension, low, high, is_open, stops, int(steps), here, direction.name)
