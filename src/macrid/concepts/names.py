"""Names of concepts, of dimensions and of both their ends, with evidence; edits by people are kept.

`macrid.concepts.naming` finds them. Without evidence the name is None, `why` says so, and typical items take its place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from macrid import markup
from macrid.data.tables import FrameKind, to_frame
from macrid.errors import RequestError

T = TypeVar("T")
E = TypeVar("E", bound=BaseModel)
LONGEST_NAME = 80  # characters
YEAR = re.compile(r"(\s*\([^()]*\))*\s*\(\d{4}\)$")
ARTICLE = re.compile(r"^(.+), (The|An?)$")
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # would reorder text around a name


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Example(_Entry):
    """An item that illustrates a concept or an end."""

    id: str
    title: str | None = None


class Examples(_Entry):
    """From the more popular half of a concept's items, those nearest to each end, outermost first."""

    low: tuple[Example, ...] = ()
    high: tuple[Example, ...] = ()


class Share(_Entry):
    """A value more common on one side: in a concept than in all others, or at one end than at the other."""

    attribute: str
    value: str
    inside: float
    """Share of the items on this side that have it, among those where it is known."""
    outside: float
    log_odds: float
    """With the prior of Monroe, Colaresi and Quinn (2008)."""
    z: float


class Correlation(_Entry):
    """A column that grows or falls along a dimension."""

    attribute: str
    """The name of a column, such as "year" or "genres: Comedy"."""
    correlation: float
    """Rank correlation; negative if the column falls towards the high end."""
    p: float
    """How often chance gives as much in any column and dimension of the concept."""
    items: int
    """Number of items where it is known."""
    cross_validated: bool = False
    """Whether it is measured on items the axis was not fitted to; p then allows for all columns it could be."""


class NameFit(_Entry):
    """How many of the choices in a concept its name is true of."""

    columns: tuple[str, ...]
    """What the name claims: that an item has at least one of these values, such as "genres: Horror"."""
    share: float
    """Share of the choices in the concept that carry the name: its items, weighted by how often people chose them."""
    base: float
    """Share of all choices that do."""
    held_out: float
    """Like `share`, on items the name was not found on."""


class ConceptName(_Entry):
    """What a concept is about."""

    concept: int
    name: str | None
    strength: float | None = None
    """Share of its choices that carry its name, less the share of all choices: 0 to 1."""
    p: float | None = None
    """How often shuffled concepts give as much for any concept and value."""
    fit: NameFit | None = None
    """None for names set by a person or by training labels, and for those of earlier versions."""
    evidence: tuple[Share, ...] = ()
    """Items of a concept and of the others are weighted by how often people chose them."""
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
    """Fingerprint of the axis itself."""
    name: str | None
    low: str | None = None
    """Name of the low end."""
    high: str | None = None
    attribute: str | None = None
    """The name of a column."""
    kind: Literal["popularity", "number", "category", "tag", "word"] | None = None
    strength: float | None = None
    """Absolute rank correlation with the column: 0 to 1."""
    direction: Literal[1, -1] | None = None
    """Whether the column grows (1) or falls (−1) towards the high end."""
    p: float | None = None
    cross_validated: bool = False
    evidence: tuple[Correlation, ...] = ()
    low_evidence: tuple[Share, ...] = ()
    """Values more common at the low end than at the high end."""
    high_evidence: tuple[Share, ...] = ()
    examples: Examples = Examples()
    why: str | None = None
    edited: bool = False


@dataclass(frozen=True)
class Names:
    """Names of all concepts, and of all dimensions along the axes in use."""

    concepts: tuple[ConceptName, ...]
    dimensions: tuple[DimensionName, ...]
    """By concept, then by dimension; equally many in each."""
    aside: tuple[DimensionName, ...] = ()
    """Edited names of axes that are not in use."""
    __pydantic_config__ = ConfigDict(extra="forbid")

    def concept_name(self, concept: int) -> str | None:
        """None without evidence; `label` always has something to show."""
        return self.concept(concept).name

    def concept(self, concept: int) -> ConceptName:
        check_number("concept", concept, len(self.concepts))
        return self.concepts[concept]

    def dimension(self, concept: int, dimension: int) -> DimensionName:
        return self.dimensions[self._place(concept, dimension)]

    def renamed(self, concept: int, name: str) -> Names:
        """With a concept renamed by a person."""
        name = checked_name(name)
        _check_free(name, (entry.name for entry in self.concepts if entry.concept != concept), "concept")
        new = self.concept(concept).model_copy(update={"name": name, "fit": None, "edited": True, "why": None})
        return replace(self, concepts=_with(self.concepts, concept, new))

    def renamed_dimension(
        self, concept: int, dimension: int, *, low: str | None = None, high: str | None = None, name: str | None = None
    ) -> Names:
        """With a dimension or its ends renamed by a person; omitted names stay."""
        place = self._place(concept, dimension)
        texts = {"name": name, "low": low, "high": high}
        update = {field: checked_name(text) for field, text in texts.items() if text is not None}
        if not update:
            raise RequestError("nothing to rename; give a name for the dimension, or for its low or high end")
        if "name" in update:
            others = (entry for entry in self.dimensions if entry.concept == concept and entry.dimension != dimension)
            _check_free(update["name"], (entry.name for entry in others), "dimension of the concept")
        new = self.dimensions[place].model_copy(update={**update, "edited": True, "why": None})
        return replace(self, dimensions=_with(self.dimensions, place, new))

    def as_json(self) -> dict[str, Any]:
        """The input of `from_json`."""
        return dict(TypeAdapter(Names).dump_python(self, mode="json"))

    @staticmethod
    def from_json(value: Any) -> Names:
        """Read the output of `as_json`; a `ValueError` says what is wrong and where."""
        try:
            names = TypeAdapter(Names).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "names"
            raise ValueError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
        numbers = [entry.concept for entry in names.concepts]
        if numbers != list(range(len(numbers))):
            raise ValueError(f"concepts: numbered {numbers[:5]}, not 0, 1, 2, … in order")
        count, dimensions = len(numbers), len(names.dimensions)
        dim = dimensions // max(1, count)
        grid = [(k, j) for k in range(count) for j in range(dim)]
        if [(entry.concept, entry.dimension) for entry in names.dimensions] != grid:
            raise ValueError(f"dimensions: {dimensions} entries, not every dimension of {count} concepts in order")
        return names

    def to_frame(self, as_: FrameKind = "arrow", *, of: Literal["concepts", "dimensions"] = "concepts") -> Any:
        """One row per concept: concept, name, strength, edited, typical; or one per dimension: concept, dimension,
        name, low, high, attribute, strength, edited.

        A name is null without evidence. typical: titles, else ids. as_: "arrow", "pandas" or "polars".
        """
        if of not in FRAME_COLUMNS:
            raise RequestError(f"of is {of!r}; choose {' or '.join(FRAME_COLUMNS)}")
        entries: tuple[Any, ...] = getattr(self, of)
        kinds = FRAME_COLUMNS[of]
        columns = {name: pa.array([getattr(entry, name) for entry in entries], kinds[name]) for name in kinds}
        if of == "concepts":
            columns["typical"] = pa.array([[*map(caption, e.typical)] for e in entries], pa.list_(pa.string()))
        return to_frame(pa.table(columns), as_)

    def _repr_html_(self) -> str:
        rows = [
            (
                entry.concept,
                label(entry),
                ", ".join(map(caption, entry.typical[:5])),
                dimensions_text(self, entry.concept),
            )
            for entry in self.concepts
        ]
        return markup.fragment(markup.table(("concept", "name", "typical items", "dimensions"), rows, ("concept",)))

    def _place(self, concept: int, dimension: int) -> int:
        check_number("concept", concept, len(self.concepts))
        dim = len(self.dimensions) // len(self.concepts)
        check_number("dimension", dimension, dim)
        return concept * dim + dimension


FRAME_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "concepts": {"concept": pa.int64(), "name": pa.string(), "strength": pa.float64(), "edited": pa.bool_()},
    "dimensions": {
        "concept": pa.int64(), "dimension": pa.int64(), "name": pa.string(), "low": pa.string(), "high": pa.string(),
        "attribute": pa.string(), "strength": pa.float64(), "edited": pa.bool_(),
    },
}  # fmt: skip


def dimensions_text(names: Names, concept: int) -> str:
    """What changes along the named dimensions of a concept, strongest first and each name once, with both ends."""
    found = [entry for entry in names.dimensions if entry.concept == concept and entry.name is not None]
    strongest = {entry.name: entry for entry in sorted(found, key=lambda entry: entry.strength or 0.0)}
    entries = list(strongest.values())[::-1]
    return ", ".join(f"{entry.name} ({' → '.join(ends(entry))})" for entry in entries)


def with_edits(fresh: Names, edited: Names) -> Names:
    """Fresh names, except where people have edited a concept, or a dimension along the same axis.

    Edited dimensions of other axes are set aside until those axes are in use again.
    """
    edits = {_key(entry): entry for entry in (*edited.aside, *edited.dimensions) if entry.edited}
    edited_concepts = {entry.concept: entry for entry in edited.concepts if entry.edited}
    concepts = [_edited(entry, edited_concepts.get(entry.concept), "name", "fit") for entry in fresh.concepts]
    concepts = without_repeats(concepts, kept=edited_concepts)
    dimensions = [_edited(entry, edits.pop(_key(entry), None), "name", "low", "high") for entry in fresh.dimensions]
    return Names(tuple(concepts), tuple(dimensions), tuple(edits.values()))


def label(entry: ConceptName) -> str:
    """What to show for a concept: its name, else as many of its typical items as fit, else its number."""
    if entry.name is not None:
        return entry.name
    captions = [short_title(caption(example)) for example in entry.typical]
    texts = (f"like {', '.join(captions[:count])}" for count in range(len(captions), 1, -1))
    first = f"like {captions[0]}" if captions else f"concept {entry.concept}"
    return next((text for text in texts if len(text) <= LONGEST_NAME), first)


def ends(entry: DimensionName) -> tuple[str, str]:
    """What to show at the low and high ends: their names, else the most typical item of each."""
    low, high = (caption(items[0]) if items else "" for items in (entry.examples.low, entry.examples.high))
    return (low if entry.low is None else entry.low, high if entry.high is None else entry.high)


def without_repeats(entries: Sequence[ConceptName], kept: Container[int] = ()) -> list[ConceptName]:
    """The same concepts; a name that a kept or a stronger concept has is completed by a typical item, or a number.

    kept: concepts whose names stay as they are.
    """
    result = list(entries)
    taken: set[str] = set()
    for entry in sorted(entries, key=lambda entry: (entry.concept not in kept, -(entry.strength or 0.0))):
        if entry.name is None:
            continue
        longer = (f"{entry.name}, like {caption(example)}" for example in entry.typical)
        numbered = (f"{clean(entry.name, LONGEST_NAME - 5)} {number}" for number in range(2, len(result) + 2))
        options = [entry.name] if entry.concept in kept else [entry.name, *longer, *numbered]
        name = next((text for text in map(clean, options) if text.casefold() not in taken), entry.name)
        result[entry.concept] = entry.model_copy(update={"name": name})
        taken.add(name.casefold())
    return result


def clean(text: str, longest: int = LONGEST_NAME) -> str:
    """The text on one line, without invisible characters, shortened if need be; may be empty."""
    text = "".join(" " if _is_hidden(letter) else letter for letter in text)
    text = " ".join(text.split()) if _is_visible(text) else ""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def checked_name(name: str) -> str:
    """A name chosen by a person; a `RequestError` if it is unusable."""
    if not isinstance(name, str):
        raise RequestError(f"a name must be text, not {name!r}")
    name = name.strip()
    if not _is_visible(name) and not any(map(_is_hidden, name)):
        raise RequestError("the name is empty; give at least one letter")
    if len(name) > LONGEST_NAME:
        raise RequestError(f"the name has {len(name)} characters; use at most {LONGEST_NAME}")
    hidden = [letter for letter in name if _is_hidden(letter)]
    if hidden:
        raise RequestError(f"the name contains {hidden[0]!a}, a control character; remove it")
    return name


def _is_hidden(letter: str) -> bool:
    return letter in BIDI or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def _is_visible(text: str) -> bool:
    """Whether any of it shows: spaces and zero-width marks do not."""
    return any(unicodedata.category(letter)[0] not in "CZ" for letter in text)


def caption(example: Example) -> str:
    """Its title, else its id, on one line."""
    return clean(example.title or "") or clean(example.id)


def short_title(title: str) -> str:
    """Without the year at its end and what is in brackets before it, the article in front: "The Matrix"."""
    title = YEAR.sub("", title) or title
    return ARTICLE.sub(r"\2 \1", title)


def _edited(entry: E, edit: E | None, *fields: str) -> E:
    """An entry with the fields that a person has edited."""
    if edit is None:
        return entry
    return entry.model_copy(update={**{field: getattr(edit, field) for field in fields}, "edited": True, "why": None})


def _key(entry: DimensionName) -> tuple[int, str]:
    """Identifies an axis of a concept, whatever its number."""
    return entry.concept, entry.axis or f"{entry.axes} {entry.dimension}"


def _check_free(name: str, others: Iterable[str | None], what: str) -> None:
    """Names must differ because moves refer to them."""
    if name.casefold() in (other.casefold() for other in others if other is not None):
        raise RequestError(f"another {what} is called '{name}'; choose a different name")


def _with(entries: tuple[T, ...], place: int, new: T) -> tuple[T, ...]:
    return (*entries[:place], new, *entries[place + 1 :])


def check_number(what: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < count:
        raise RequestError(f"{what} is {number!r}; this model has {what}s 0 to {count - 1}")
