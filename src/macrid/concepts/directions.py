"""Directions that a component can be moved along: a dimension of its concept, or where an attribute grows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from macrid.concepts.axes import MOST_ITEMS, attribute_axes, weights_of
from macrid.concepts.meaning import meaning_of
from macrid.concepts.space import SEEN, Space, digest, seen
from macrid.data.attributes import named_column
from macrid.errors import RequestError


@dataclass(frozen=True)
class Direction:
    """A unit vector in one concept, and where real users are along it; its items, where no users are at hand."""

    concept: int
    dimension: int | None
    """Along the axes in use; None if it is no axis."""
    vector: np.ndarray = field(repr=False)
    """(dim,)"""
    low: float | None = None
    high: float | None = None
    name: str | None = None

    @property
    def half(self) -> float:
        """Half of the range of real users."""
        return 0.5 if self.low is None or self.high is None else (self.high - self.low) / 2

    def reaches(self, value: float, before: float) -> bool:
        """Whether a value is one that real users have, or no further out than before."""
        if self.low is None or self.high is None:
            return True
        margin = 1e-4 * max(self.high - self.low, 1e-4)
        return min(self.low, before) - margin <= value <= max(self.high, before) + margin

    def __str__(self) -> str:
        name = "" if self.name is None else self.name if self.dimension is None else f" ({self.name})"
        return f"concept {self.concept}, {'' if self.dimension is None else f'dimension {self.dimension}'}{name}"


def along(space: Space, concept: int, dimension: int | str, axis: str | None = None) -> Direction:
    """A dimension by its number, or by its name in this concept.

    axis: by which the axis that is meant is known again (`space.digest`), should others be in use by now.
    """
    space.check(concept)
    number = numbered(space, concept, dimension) if isinstance(dimension, str) else dimension
    space.check(concept, number)
    if axis is not None and axis != digest(space.axes(concept)[number]):
        return _by_digest(space, concept, number, axis)
    seen = space.range_of(concept)
    low, high = (None, None) if seen is None else (float(seen[0][number]), float(seen[1][number]))
    return Direction(concept, int(number), space.axes(concept)[number], low, high, _name(space, concept, number))


def _by_digest(space: Space, concept: int, dimension: int, axis: str) -> Direction:
    """The axis of a stored move: another number in use by now, or one that the model has, but does not use."""
    for number, vector in enumerate(space.axes(concept)):
        if digest(vector) == axis:
            return along(space, concept, number)
    for kind, axes in {"original": space.original, **meaning_of(space.model).axes}.items():
        for number, vector in enumerate(axes.rotation[concept]):
            if digest(vector) == axis:
                low, high = (None if end is None else float(end[concept, number]) for end in (axes.low, axes.high))
                return Direction(concept, None, vector, low, high, f"dimension {number} by {kind}")
    raise RequestError(
        f"the move along dimension {dimension} of concept {concept} was made along axes that are no longer there; move"
        " by the name of a dimension, or towards an attribute"
    )


def numbered(space: Space, concept: int, name: str) -> int:
    """The number of a dimension that has a name."""
    known = names_in(space, concept)
    for number, own in known.items():
        if name.casefold() in (text.casefold() for text in own):
            return number
    told = ", ".join(own[0] for own in known.values())
    none = "none has a name; `macrid.understand(model)`, or `macrid axes RUN --by attributes`, finds names"
    raise RequestError(f"no dimension '{name}' in concept {concept}; {f'it has {told}' if told else none}")


def names_in(space: Space, concept: int) -> dict[int, list[str]]:
    """What the named dimensions of a concept are called: their name, and the attribute they go with."""
    found: dict[int, list[str]] = {}
    names, axes = meaning_of(space.model).names, space.axes_in_use(concept)
    kind = "original" if axes is None else axes.by
    for entry in () if names is None else names.dimensions:
        if (entry.concept, entry.axes) == (concept, kind) and entry.name is not None:
            found[entry.dimension] = [entry.name, *([entry.attribute] if entry.attribute else [])]
    for fit in () if axes is None else axes.fits:
        if fit.concept == concept:
            found.setdefault(fit.dimension, []).append(fit.attribute)
    return dict(sorted(found.items()))


def directions_towards(space: Space, attribute: str, concept: int | None = None) -> list[Direction]:
    """Where an attribute grows, in every concept that tells it or in one of them."""
    if attribute not in space.towards:
        space.towards[attribute] = _towards(space, attribute)
    found = space.towards[attribute]
    chosen = [direction for direction in found if concept is None or direction.concept == concept]
    if not chosen:
        told = ", ".join(str(direction.concept) for direction in found)
        where = "in any concept" if concept is None else f"in concept {concept}"
        raise RequestError(
            f"attribute '{attribute}' cannot be told from the item vectors {where}"
            f"{f'; it can in {told}' if told else '; choose another'}"
        )
    return chosen


def _towards(space: Space, attribute: str) -> list[Direction]:
    model, found = space.model, []
    column = named_column(model, attribute)
    users = None if model.sample is None else (space.components(model.sample), space.confidence(model.sample))
    for k in range(space.concepts):
        axes = space.axes_in_use(k)
        fit = next((fit for fit in axes.fits if (fit.concept, fit.attribute) == (k, attribute)), None) if axes else None
        if fit is not None:
            found.append(along(space, k, fit.dimension))
            continue
        own, random = space.own(k), np.random.default_rng(k)
        if not column.is_usable(own):
            continue
        own = own if len(own) <= MOST_ITEMS else np.sort(random.choice(own, MOST_ITEMS, replace=False))
        vectors = space.items[own].astype(np.float64)
        for vector in attribute_axes(vectors, weights_of(model.popularity[own]), own, [column], random, k)[0]:
            if users is None:
                low, high = np.percentile(vectors @ vector, SEEN)
            else:
                low, high = seen(users[0][:, k], users[1][:, k], vector)
            found.append(Direction(k, None, vector.astype(np.float32), float(low), float(high), attribute))
    return found


def _name(space: Space, concept: int, dimension: int) -> str | None:
    return next(iter(names_in(space, concept).get(dimension, [])), None)
