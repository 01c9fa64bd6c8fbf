"""Names with evidence: of concepts, and of both ends of dimensions; what people have written instead is kept.

`macrid.concepts.naming` finds them. Where there is no evidence the name is None, `why` says so, and typical items
stand for it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from macrid.errors import RequestError

T = TypeVar("T")
MOST_LETTERS = 80
BIDI = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # change what stands beside


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Example(_Entry):
    """An item that shows what is meant."""

    id: str
    title: str | None = None


class Examples(_Entry):
    """Of the more popular half of a concept's items those nearest to both ends, the outermost first."""

    low: tuple[Example, ...] = ()
    high: tuple[Example, ...] = ()


class Share(_Entry):
    """A value that one side has more often than the other: a concept than all others, or one end than the other."""

    attribute: str
    value: str
    inside: float
    """Share of the items on this side that have it, of those of which it is known."""
    outside: float
    log_odds: float
    """With the prior of Monroe, Colaresi and Quinn (2008)."""
    z: float


class Correlation(_Entry):
    """A column that grows, or falls, along a dimension."""

    attribute: str
    """The name of a column, such as "year" or "genres: Comedy"."""
    correlation: float
    """Rank correlation; negative if the column falls towards the high end."""
    p: float
    """How often chance gives as much, with all columns and dimensions of the concept to choose from."""
    items: int
    """Of which it is known."""
    cross_validated: bool = False
    """Whether it is over items that the axis was not fitted to; then p is of all columns that it could be."""


class ConceptName(_Entry):
    """What a concept is about."""

    concept: int
    name: str | None
    strength: float | None = None
    """Share of its items that have the first value of the name, less the share of all others: 0 to 1."""
    p: float | None = None
    """How often shuffled concepts give as much, with all concepts and values to choose from."""
    evidence: tuple[Share, ...] = ()
    typical: tuple[Example, ...] = ()
    why: str | None = None
    """Why there is no name."""
    edited: bool = False


class DimensionName(_Entry):
    """What changes along a dimension."""

    concept: int
    dimension: int
    axes: str
    """The kind of axes it belongs to."""
    axis: str = ""
    """By which the axis itself is known again, see `space.digest`."""
    name: str | None
    low: str | None = None
    """What is found at the low end."""
    high: str | None = None
    attribute: str | None = None
    """The name of a column."""
    kind: Literal["popularity", "number", "category", "tag", "word"] | None = None
    strength: float | None = None
    """Size of the rank correlation with the column: 0 to 1."""
    direction: Literal[1, -1] | None = None
    """Whether the column grows (1) or falls (−1) towards the high end."""
    p: float | None = None
    cross_validated: bool = False
    evidence: tuple[Correlation, ...] = ()
    low_evidence: tuple[Share, ...] = ()
    """Values that the low end has more often than the high end."""
    high_evidence: tuple[Share, ...] = ()
    examples: Examples = Examples()
    why: str | None = None
    edited: bool = False


class _File(_Entry):
    concepts: tuple[ConceptName, ...]
    dimensions: tuple[DimensionName, ...]
    aside: tuple[DimensionName, ...] = ()


@dataclass(frozen=True)
class Names:
    """Of all concepts, and of all dimensions in the axes in use."""

    concepts: tuple[ConceptName, ...]
    dimensions: tuple[DimensionName, ...]
    """By concept, then by dimension; as many in each."""
    aside: tuple[DimensionName, ...] = ()
    """Edited ones of axes that are not in use."""

    def concept_name(self, concept: int) -> str | None:
        """None if there is no evidence for one; `label` has something to show all the same."""
        return self.concept(concept).name

    def concept(self, concept: int) -> ConceptName:
        _check("concept", concept, len(self.concepts))
        return self.concepts[concept]

    def dimension(self, concept: int, dimension: int) -> DimensionName:
        return self.dimensions[self._place(concept, dimension)]

    def renamed(self, concept: int, name: str) -> Names:
        """With a name that a person has chosen for a concept."""
        name = checked_name(name)
        _check_free(name, (entry.name for entry in self.concepts if entry.concept != concept), "concept")
        new = self.concept(concept).model_copy(update={"name": name, "edited": True, "why": None})
        return replace(self, concepts=_with(self.concepts, concept, new))

    def renamed_dimension(
        self, concept: int, dimension: int, *, low: str | None = None, high: str | None = None, name: str | None = None
    ) -> Names:
        """With names that a person has chosen for a dimension or its ends; those not given stay."""
        place = self._place(concept, dimension)
        given = {"name": name, "low": low, "high": high}
        chosen = {what: checked_name(text) for what, text in given.items() if text is not None}
        if not chosen:
            raise RequestError("nothing to rename; give a name for the dimension, or for its low or high end")
        if "name" in chosen:
            own = (entry for entry in self.dimensions if entry.concept == concept and entry.dimension != dimension)
            _check_free(chosen["name"], (entry.name for entry in own), "dimension of the concept")
        new = self.dimensions[place].model_copy(update={**chosen, "edited": True, "why": None})
        return replace(self, dimensions=_with(self.dimensions, place, new))

    def as_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        parts = {"concepts": self.concepts, "dimensions": self.dimensions, "aside": self.aside}
        return {name: [entry.model_dump(mode="json") for entry in part] for name, part in parts.items()}

    @classmethod
    def from_json(cls, value: Any) -> Names:
        """What `as_json` gave; a `ValueError` says what is wrong and where."""
        try:
            file = TypeAdapter(_File).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "names"
            raise ValueError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
        numbers = [entry.concept for entry in file.concepts]
        if numbers != list(range(len(numbers))):
            raise ValueError(f"concepts: are numbered {numbers[:5]}, not from 0 on without gaps")
        count, left = len(numbers), len(file.dimensions)
        dim = left // max(1, count)
        grid = [(k, j) for k in range(count) for j in range(dim)]
        if [(entry.concept, entry.dimension) for entry in file.dimensions] != grid:
            raise ValueError(f"dimensions: these {left} are not all dimensions of {count} concepts in their order")
        return cls(file.concepts, file.dimensions, file.aside)

    def _place(self, concept: int, dimension: int) -> int:
        _check("concept", concept, len(self.concepts))
        dim = len(self.dimensions) // len(self.concepts)
        _check("dimension", dimension, dim)
        return concept * dim + dimension


def renewed(old: Names, new: Names) -> Names:
    """Names found anew, with what people have edited: concepts, and dimensions whose axis is the same.

    Edited dimensions of other axes are kept aside until these are in use again.
    """
    edits = {_key(entry): entry for entry in (*old.aside, *old.dimensions) if entry.edited}
    concepts = [
        entry.model_copy(update={"name": before.name, "edited": True, "why": None})
        if before and before.edited
        else entry
        for entry, before in zip(new.concepts, [*old.concepts, *[None] * len(new.concepts)], strict=False)
    ]
    dimensions = []
    for entry in new.dimensions:
        before = edits.pop(_key(entry), None)
        if before is not None:
            update = {"name": before.name, "low": before.low, "high": before.high, "edited": True, "why": None}
            entry = entry.model_copy(update=update)
        dimensions.append(entry)
    return Names(tuple(concepts), tuple(dimensions), tuple(edits.values()))


def label(entry: ConceptName) -> str:
    """What to show for a concept: its name, else its most typical item, else its number."""
    if entry.name is not None:
        return entry.name
    return f"like {said(entry.typical[0])}" if entry.typical else f"concept {entry.concept}"


def ends(entry: DimensionName) -> tuple[str, str]:
    """What to show at the low and the high end: their names, else the most typical item of each."""
    low, high = (said(items[0]) if items else "" for items in (entry.examples.low, entry.examples.high))
    return (low if entry.low is None else entry.low, high if entry.high is None else entry.high)


def told_apart(names: Sequence[str | None], more: Sequence[Sequence[str]]) -> list[str | None]:
    """The same names, but where several are equal each with the first of its `more` that no other has."""
    found, count = list(names), Counter(names)
    taken = {name for name in names if name is not None}
    for place, name in enumerate(names):
        if name is None or count[name] == 1:
            continue
        longer = [clean(way) for way in more[place]] + [
            clean(f"{name} {number}") for number in range(1, len(found) + 2)
        ]
        found[place] = next(way for way in longer if way not in taken)
        taken.add(str(found[place]))
    return found


def clean(text: str, most: int = MOST_LETTERS) -> str:
    """On one line, without what cannot be seen, and not too long; may be empty."""
    seen = "".join(" " if _is_hidden(letter) else letter for letter in text)
    seen = " ".join(seen.split()) if _is_seen(seen) else ""
    return seen if len(seen) <= most else seen[: most - 1].rstrip() + "…"


def checked_name(name: str) -> str:
    """A name that a person has chosen; a `RequestError` if it is none."""
    if not isinstance(name, str):
        raise RequestError(f"a name is text, not {name!r}")
    name = name.strip()
    if not _is_seen(name) and not any(map(_is_hidden, name)):
        raise RequestError("the name is empty; give at least one letter")
    if len(name) > MOST_LETTERS:
        raise RequestError(f"the name has {len(name)} letters; give at most {MOST_LETTERS}")
    hidden = [letter for letter in name if _is_hidden(letter)]
    if hidden:
        raise RequestError(f"the name holds {hidden[0]!a}, a control character; leave it out")
    return name


def _is_hidden(letter: str) -> bool:
    return letter in BIDI or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def _is_seen(text: str) -> bool:
    """Whether anything of it shows: spaces and marks without a width do not."""
    return any(unicodedata.category(letter)[0] not in "CZ" for letter in text)


def said(example: Example) -> str:
    """Its title, else its id, on one line."""
    return clean(example.title or "") or clean(example.id)


def _key(entry: DimensionName) -> tuple[int, str]:
    """An axis of a concept, whatever its number."""
    return entry.concept, entry.axis or f"{entry.axes} {entry.dimension}"


def _check_free(name: str, others: Iterable[str | None], what: str) -> None:
    """No two are called the same: moves go by names."""
    if name.casefold() in (other.casefold() for other in others if other is not None):
        raise RequestError(f"another {what} is called '{name}'; give another name")


def _with(entries: tuple[T, ...], place: int, new: T) -> tuple[T, ...]:
    return (*entries[:place], new, *entries[place + 1 :])


def _check(what: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise RequestError(f"{what} is {number!r}; there are {what}s 0 to {count - 1}")
