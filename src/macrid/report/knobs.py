"""The knobs of a model: attributes in every concept that predicts them, and dimensions that follow an attribute."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, replace

from macrid.concepts.directions import Direction, along, directions_towards
from macrid.concepts.space import digest, space_of
from macrid.data.attributes import Column, columns_of
from macrid.errors import RequestError
from macrid.models.base import Recommender


@dataclass(frozen=True)
class Knob:
    """A direction in one concept, or one in each of several, and the attribute that should grow along it."""

    directions: tuple[Direction, ...]
    column: Column
    is_reversed: bool = False
    """Whether the direction is opposite to its dimension, along which the attribute falls."""
    is_general: bool = False
    """Whether it is meant for all items, even if it moves one concept only."""

    @property
    def concept(self) -> int | None:
        """None for all concepts."""
        return None if self.is_general or len(self.directions) > 1 else self.directions[0].concept

    @property
    def dimension(self) -> int | None:
        return None if self.concept is None else self.directions[0].dimension

    @property
    def axis(self) -> str:
        """Fingerprint of its dimension's axis; empty for all concepts."""
        vector = self.directions[0].vector
        return "" if self.concept is None else digest(-vector if self.is_reversed else vector)


def knobs_of(model: Recommender, without: Container[str] = ()) -> list[Knob]:
    """All knobs: attributes first, except those left out, then dimensions."""
    return attribute_knobs(model, without) + named_knobs(model)


def attribute_knobs(model: Recommender, without: Container[str] = ()) -> list[Knob]:
    """A knob per attribute that some concept predicts: what moves `towards` it do."""
    space, knobs = space_of(model), []
    for column in (column for column in space.columns if column.name not in without):
        with suppress(RequestError):  # no concept predicts it
            knobs.append(Knob(tuple(directions_towards(space, column.name)), column, is_general=True))
    return knobs


def named_knobs(model: Recommender) -> list[Knob]:
    """A knob per dimension with an attribute."""
    space = space_of(model)
    columns = {column.name: column for column in columns_of(model, words=True)}
    chosen: dict[tuple[int, int], tuple[str, bool]] = {}
    for fit in (fit for k in range(space.concepts) for fit in space.fits(k)):
        chosen[fit.concept, fit.dimension] = fit.attribute, True
    for entry in space.meaning.dimensions:
        axis = digest(space.axes(entry.concept)[entry.dimension])
        if entry.attribute is not None and entry.strength is not None and entry.axis in ("", axis):
            chosen.setdefault((entry.concept, entry.dimension), (entry.attribute, entry.direction != -1))
    knobs = []
    for (k, dimension), (name, upwards) in sorted(chosen.items()):
        if name not in columns:
            continue
        direction = along(space, k, dimension)
        if not upwards:
            low, high = (None if end is None else -end for end in (direction.high, direction.low))
            direction = replace(direction, vector=-direction.vector, low=low, high=high)
        knobs.append(Knob((direction,), columns[name], is_reversed=not upwards))
    return knobs
