"""Directions along which a component can move: a dimension of its concept, or the growth of an attribute."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from macrid.concepts.axes import MOST_FITTED_ITEMS, attribute_axes, direction_of, weights_of
from macrid.concepts.space import USER_PERCENTILES, Space, digest, draw, user_range
from macrid.data.attributes import named_column
from macrid.errors import RequestError


@dataclass(frozen=True)
class Direction:
    """A unit vector in one concept, with the range of real users along it, or of items if there are no users."""

    concept: int
    dimension: int | None
    """Along the axes in use; None if it is not one of them."""
    vector: np.ndarray = field(repr=False)
    """(dim,)"""
    low: float | None = None
    high: float | None = None
    name: str | None = None

    @property
    def half(self) -> float:
        """Half the range of real users."""
        return 0.5 if self.low is None or self.high is None else (self.high - self.low) / 2

    def reaches(self, value: float, before: float) -> bool:
        """Whether a value is within the range of real users, or no further out than before."""
        if self.low is None or self.high is None:
            return True
        margin = 1e-4 * max(self.high - self.low, 1e-4)
        return min(self.low, before) - margin <= value <= max(self.high, before) + margin

    def __str__(self) -> str:
        name = "" if self.name is None else self.name if self.dimension is None else f" ({self.name})"
        return f"concept {self.concept}, {'' if self.dimension is None else f'dimension {self.dimension}'}{name}"


def along(space: Space, concept: int, dimension: int | str, axis: str | None = None) -> Direction:
    """A dimension by its number, or by its name in this concept.

    axis: fingerprint (`space.digest`) of the axis meant, in case other axes are in use by now.
    """
    space.check(concept)
    number = dimension_number(space, concept, dimension) if isinstance(dimension, str) else dimension
    space.check(concept, number)
    if axis is not None and axis != digest(space.axes(concept)[number]):
        return _by_digest(space, concept, number, axis)
    ends = space.range_of(concept)
    low, high = (None, None) if ends is None else (float(ends[0][number]), float(ends[1][number]))
    name = next(iter(dimension_names(space, concept).get(number, [])), None)
    return Direction(concept, int(number), space.axes(concept)[number], low, high, name)


def _by_digest(space: Space, concept: int, dimension: int, axis: str) -> Direction:
    """The axis of a stored move: under another number by now, or kept but not in use."""
    for number, vector in enumerate(space.axes(concept)):
        if digest(vector) == axis:
            return along(space, concept, number)
    for kind, axes in {"original": space.original, **space.meaning.axes}.items():
        for number, vector in enumerate(axes.rotation[concept]):
            if digest(vector) == axis:
                low, high = (None if end is None else float(end[concept, number]) for end in (axes.low, axes.high))
                return Direction(concept, None, vector, low, high, f"dimension {number} by {kind}")
    raise RequestError(
        f"the move along dimension {dimension} of concept {concept} was made along axes that no longer exist; name a"
        " dimension, or move towards an attribute"
    )


def dimension_number(space: Space, concept: int, name: str) -> int:
    """The number of a named dimension."""
    names = dimension_names(space, concept)
    for number, aliases in names.items():
        if name.casefold() in (alias.casefold() for alias in aliases):
            return number
    choices = "it has " + ", ".join(aliases[0] for aliases in names.values())
    none = "none has a name; `macrid.understand(model)`, or `macrid axes RUN --by attributes`, finds names"
    raise RequestError(f"no dimension '{name}' in concept {concept}; {choices if names else none}")


def dimension_names(space: Space, concept: int) -> dict[int, list[str]]:
    """The named dimensions of a concept: for each its name, and the attribute it follows."""
    aliases: dict[int, list[str]] = {}
    axes = space.axes_in_use(concept)
    kind = "original" if axes is None else axes.by
    for entry in space.meaning.dimensions:
        if (entry.concept, entry.axes) == (concept, kind) and entry.name is not None:
            aliases[entry.dimension] = [entry.name, *([entry.attribute] if entry.attribute else [])]
    for fit in space.fits(concept):
        aliases.setdefault(fit.dimension, []).append(fit.attribute)
    return dict(sorted(aliases.items()))


def directions_towards(space: Space, attribute: str, concept: int | None = None) -> list[Direction]:
    """Where an attribute grows, in every concept that predicts it or in one of them."""
    if attribute not in space.towards:
        space.towards[attribute] = _towards(space, attribute)
    directions = space.towards[attribute]
    chosen = [direction for direction in directions if concept is None or direction.concept == concept]
    if not chosen:
        where = "in any concept" if concept is None else f"in concept {concept}"
        others = ", ".join(str(direction.concept) for direction in directions)
        remedy = f"they do in concepts {others}" if others else "choose another"
        raise RequestError(f"item vectors do not predict attribute '{attribute}' {where}; {remedy}")
    return chosen


def _towards(space: Space, attribute: str) -> list[Direction]:
    """The attribute's own direction in each concept: its axis, if it has one, lacks what axes before it have taken."""
    model, directions = space.model, []
    known = {column.name: column for column in space.columns}
    column = known[attribute] if attribute in known else named_column(model, attribute)
    users = space.sample
    for k in range(space.concepts):
        items, random = space.members(k), np.random.default_rng(k)
        if not column.is_usable(items):
            continue
        items = draw(items, MOST_FITTED_ITEMS, random)
        vectors, weights = space.items[items].astype(np.float64), weights_of(model.popularity[items])
        if any(fit.attribute == attribute for fit in space.fits(k)):  # known to be predicted
            found = direction_of(vectors, weights, column.values[items])[None]
        else:
            found = attribute_axes(vectors, weights, items, [column], random, k)[0]
        for vector in found:
            if users is None:
                low, high = np.percentile(vectors @ vector, USER_PERCENTILES)
            else:
                low, high = user_range(users[0][:, k], users[1][:, k], vector)
            directions.append(Direction(k, None, vector.astype(np.float32), float(low), float(high), attribute))
    return directions
