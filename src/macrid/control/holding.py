"""What a walk holds: what is known about its start, except what it walks along and what moves with that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from macrid.concepts.facts import Fact, Number, Values, facts_of
from macrid.concepts.space import Space, digest
from macrid.data.attributes import POPULARITY, Column
from macrid.errors import RequestError


@dataclass(frozen=True, eq=False)
class Held:
    """What a walk from an item holds, over the items of its concept."""

    names: tuple[str, ...]
    lost: np.ndarray = field(repr=False)
    """(members, names) how much of the start's value an item lacks: 0 to 1."""
    tied: tuple[str, ...] = ()
    """Attributes that move with what is walked along, and are not held."""
    along: np.ndarray | None = field(default=None, repr=False)
    """(members,) the attribute walked along, in spreads, growing with the dimension; NaN where unknown."""

    def only(self, members: np.ndarray) -> Held:
        """Over some of the items."""
        return replace(self, lost=self.lost[members], along=None if self.along is None else self.along[members])

    def differing(self, member: int) -> tuple[str, ...]:
        """What an item does not have as the start has it."""
        return tuple(name for name, lost in zip(self.names, self.lost[member], strict=True) if lost > 0)


class _Followed(NamedTuple):
    """A named dimension, and the column it follows: upwards (1) or downwards (−1)."""

    name: str
    column: Column | None
    sign: int


def nothing_held(members: int) -> Held:
    return Held((), np.zeros((members, 0)))


def held_of(space: Space, concept: int, dimension: int, start: int, wanted: Sequence[str] | None = None) -> Held:
    """What a walk along a dimension holds of what is known about an item.

    start: its place among the members of the concept. wanted: just these, even if they move with the dimension.
    """
    named, facts, coordinates = _named(space, concept), facts_of(space, concept), space.turned(concept)
    walked = named.pop(dimension, _Followed("", None, 1))
    if walked.column is None:
        key, values = digest(space.axes(concept)[dimension]), coordinates[:, dimension]
    else:
        key, values = walked.column.name, walked.column.values[space.members(concept)]
    apart = facts.apart_from(key, values)
    free = {fact.name: fact for fact in apart.facts if fact.is_known(start)}
    for place, entry in named.items():
        attribute = entry.name if entry.column is None else entry.column.attribute
        if attribute not in (POPULARITY, *free, *apart.tied):  # which say more than the dimension that follows them
            free[entry.name] = Number(entry.name, coordinates[:, place], is_interval=True)
    own = None if walked.column is None else walked.column.attribute
    if wanted is not None:
        free = _chosen(wanted, {**{fact.name: fact for fact in facts.all if fact.name != own}, **free}, start)
    lost = np.column_stack([np.zeros((len(values), 0)), *(fact.lost(start) for fact in free.values())])
    known = {fact.name for fact in facts.all if fact.is_known(start)}
    tied = tuple(name for name in apart.tied if name in known and name not in (own, *free))
    names = tuple(map(_label, free.values()))
    if walked.column is None:
        return Held(names, lost, tied)
    followed = next((fact for fact in facts.all if fact.name == key), Number(key, values))
    along = walked.sign * (followed.scaled if isinstance(followed, Number) else values)
    return Held(names, lost, tied, along)


def _label(fact: Fact) -> str:
    return f"other {fact.name}" if isinstance(fact, Values) and fact.is_part else fact.name


def _chosen(wanted: Sequence[str], free: dict[str, Fact], start: int) -> dict[str, Fact]:
    """Those wanted, by name or label."""
    labelled = {**{_label(fact): fact for fact in free.values()}, **free}
    for name in wanted:
        if name not in labelled:
            choices = f"choose from {', '.join(free)}" if free else "nothing else is known about the items"
            raise RequestError(f"cannot hold '{name}'; {choices}")
        if not labelled[name].is_known(start):
            raise RequestError(f"cannot hold '{name}', which the start has no value of; choose another")
    return {fact.name: fact for fact in map(labelled.__getitem__, wanted)}


def _named(space: Space, concept: int) -> dict[int, _Followed]:
    """The named dimensions of a concept along the axes in use, except those of words: titles are not attributes."""
    axes, columns = space.axes_in_use(concept), {column.name: column for column in space.columns}
    kind = "original" if axes is None else axes.by
    named = {fit.dimension: _Followed(fit.attribute, columns.get(fit.attribute), 1) for fit in space.fits(concept)}
    for entry in space.meaning.dimensions:
        if (entry.concept, entry.axes) == (concept, kind) and (entry.edited or entry.kind != "word") and entry.name:
            named[entry.dimension] = _Followed(entry.name, columns.get(entry.attribute or ""), entry.direction or 1)
    return named
