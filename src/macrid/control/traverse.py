"""Traversing: from an item, or a user's component, to items that differ from it in one dimension (section 2.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from macrid import markup
from macrid.concepts import names
from macrid.concepts.directions import along
from macrid.concepts.space import Space, space_of
from macrid.control.holding import Held, held_of, nothing_held
from macrid.control.walk import GAMMA, WIDTH, closest_prototype, walk
from macrid.data.ids import Id
from macrid.data.pictures import NO_PICTURES, Pictures
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import RequestError
from macrid.models.base import Recommender


@dataclass(frozen=True)
class Stop:
    id: Id
    title: str | None
    value: float
    """The item's coordinate."""
    is_start: bool = False
    differs: tuple[str, ...] = ()
    """What was held and the item does not have as the start has it."""

    @property
    def also_differs(self) -> str:
        """The same as text; empty if nothing does."""
        return f"also differs: {', '.join(self.differs)}" if self.differs else ""

    def as_json(self) -> dict[str, Any]:
        fields = {"id": str(self.id), "title": self.title, "value": self.value, "start": self.is_start}
        return {**fields, "differs": list(self.differs)}


@dataclass(frozen=True)
class Traversal:
    """Items by increasing coordinate, otherwise as alike as possible."""

    concept: int
    dimension: int
    low: float
    """Below this, another prototype is closer; or, if open, there are no items."""
    high: float
    is_open: tuple[bool, bool]
    items: tuple[Stop, ...]
    steps: int
    """Requested; there are fewer items if the range has fewer."""
    start: float
    """The starting coordinate."""
    name: str | None = None
    """Of the dimension."""
    ends: tuple[str, str] = ("", "")
    """Names of the low and the high end, empty if the dimension has no name."""
    held: tuple[str, ...] = ()
    """Attributes and named dimensions of the start that the items keep where the catalogue allows it."""
    tied: tuple[str, ...] = ()
    """Other attributes that necessarily move with the dimension."""
    pictures: Pictures = field(default=NO_PICTURES, repr=False, compare=False)

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
            "held": list(self.held),
            "tied": list(self.tied),
            "items": [item.as_json() for item in self.items],
        }

    def to_frame(self, as_: FrameKind = "arrow") -> Any:
        """One row per item: step, item, title, value, start; as_: "arrow", "pandas" or "polars"."""
        fields = {"item": "id", "title": "title", "value": "value", "start": "is_start"}
        columns = {name: [getattr(stop, field) for stop in self.items] for name, field in fields.items()}
        return to_frame(pa.table({"step": range(1, len(self.items) + 1), **columns}), as_)

    def _repr_html_(self) -> str:
        title = f"concept {self.concept}, {self.name or f'dimension {self.dimension}'}"
        cards = (
            markup.Card(
                stop.title or str(stop.id), list(filter(None, (f"{stop.value:+.2f}", stop.also_differs))),
                self.pictures.of(stop.id), self.concept, "start" if stop.is_start else "", stop.is_start,
            )
            for stop in self.items
        )  # fmt: skip
        return markup.fragment(markup.heading(title), markup.ends(*self.ends), markup.cards(cards, in_a_row=True))

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
    hold: bool | Sequence[str] = True,
) -> Traversal:
    """Walk along a dimension from an item, or from a history's component in a concept.

    dimension: number or name, along the axes in use.
    steps: at most this many items, one from each of as many subranges with about equally many items.
    min_users: choose among items that at least this many users had in training, and the start. Models know little
    about rarer items, so these look alike.
    gamma: weight of the items' similarity to each other, relative to their similarity to the start.
    width: of the beam; wider is slower and better.
    keep_start: always include the item itself; without it, the item is nearly always the best of its subrange.
    hold: from an item, keep its other attributes and named dimensions wherever the catalogue allows it, before anything
    else; names hold just those. False is the walk of the paper, which compares vectors only.
    An end of the range is open, and given as the furthest item, if no other prototype becomes closer within reach of
    the items. A component closer to another concept's prototype than to its own, as when a history says little about
    a concept, walks over all items of its concept. An empty range is an error.
    """
    space = space_of(model)
    if (item is None) == (history is None):
        raise RequestError("give an item, or a history and a concept, to start from")
    if dimension is None:
        raise RequestError(f"give a dimension: a number from 0 to {space.dim - 1}, or a name")
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise RequestError(f"steps is {steps!r}; give a whole number, at least 1")
    position = -1
    if item is not None:
        if concept is not None:
            raise RequestError("an item has its own concept; give a concept only with a history")
        (position,) = model.positions([item], "item")
        vector, concept = space.items[position], int(space.concept_of[position])
    else:
        if concept is None:
            raise RequestError(f"a history needs a concept: a number from 0 to {space.concepts - 1}, or a name")
        concept = space.concept_number(concept)
        known, _ = model.lookup(history or [])
        vector = space.components(model.matrix([known]))[0, concept]
    direction = along(space, concept, dimension)
    assert direction.dimension is not None
    held = _held(space, concept, direction.dimension, position, hold)
    members, axes, turned = space.members(concept), space.axes(concept), space.turned(concept)
    if min_users:
        enough = (model.popularity[members] >= min_users) | (members == position)
        members, turned, held = members[enough], turned[enough], held.only(enough)
        if not len(members):
            raise RequestError(f"no item of concept {concept} has {min_users} users; lower min_users")
    prototypes = space.prototypes
    if closest_prototype(vector, prototypes) != concept:
        prototypes = prototypes[[concept]]
    path = walk(
        axes @ vector, direction.dimension, turned, prototypes @ axes.T, steps=steps, gamma=gamma,
        temperature=model.settings.temperature, width=width, limit=0.0,
        keep=int(np.searchsorted(members, position)) if keep_start and item is not None else None,
        lost=held.lost.sum(axis=1) if held.names else None, along=held.along,
    )  # fmt: skip
    if not len(path.positions):
        raise RequestError(
            f"concept {concept} has no item with dimension {direction.dimension} between {path.low:.2f} and"
            f" {path.high:.2f}; start from an item, or choose another dimension"
        )
    here, reach = float(direction.vector @ vector), turned[:, direction.dimension]
    low = min(here, float(reach.min())) if path.open_low else path.low
    high = max(here, float(reach.max())) if path.open_high else path.high
    stops = tuple(
        Stop(entry.id, entry.title, entry.score, bool(members[at] == position), held.differing(at))
        for entry, at in zip(model.describe(members[path.positions], path.values), path.positions, strict=True)
    )
    is_open, all_names, ends = (path.open_low, path.open_high), space.meaning.names, ("", "")
    if direction.name is not None and all_names is not None:
        ends = names.ends(all_names.dimension(concept, direction.dimension))
    return Traversal(
        concept, direction.dimension, low, high, is_open, stops, int(steps), here, direction.name, ends,
        held.names, held.tied, model.pictures,
    )  # fmt: skip


def _held(space: Space, concept: int, dimension: int, position: int, hold: bool | Sequence[str]) -> Held:
    """What to hold of the item at a position, −1 for a history."""
    is_list = isinstance(hold, list | tuple) and all(isinstance(name, str) for name in hold)
    if not is_list and not isinstance(hold, bool):
        raise RequestError(f"hold is {hold!r}; give True, False or a list of attributes")
    if position < 0 and hold and hold is not True:
        raise RequestError("a history has no attributes to hold; start from an item, or give no names")
    if position < 0 or not hold:
        return nothing_held(len(space.members(concept)))
    start = int(np.searchsorted(space.members(concept), position))
    return held_of(space, concept, dimension, start, None if hold is True else hold)
