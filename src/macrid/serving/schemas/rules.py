"""Rules in requests, and what they can be about."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from macrid.control.rules import LARGEST_BOOST, MOST_ATTRIBUTES, MOST_BOOSTS, MOST_PINS
from macrid.control.where import LONGEST
from macrid.serving.schemas.wire import FirstError, Ids, Name, Wire

Condition = Annotated[str, StringConstraints(max_length=LONGEST)]
Rank = Annotated[int, Field(strict=True, ge=1)]


class Boost(Wire):
    """A change of score for the items that meet a condition."""

    where: Condition
    amount: float = Field(ge=-LARGEST_BOOST, le=LARGEST_BOOST)
    """Added to the score; where that is a log-probability, 0.7 makes an item twice as likely."""


class Rules(
    Wire, json_schema_extra={"examples": [{"where": "price < 30", "diversity": 0.3, "at_most": {"colour": 2}}]}
):
    """What a list must look like. Filters of the request and of the service both apply; of everything else, what the
    request says counts."""

    where: Condition | None = None
    """A condition on the attributes of `GET /v1/attributes`, such as "price < 30 and genre = 'Comedy'"."""
    include: Ids | None = None
    """Choose only among these; unknown ids are ignored, and `warnings` say so."""
    exclude: Ids | None = None
    """Leave these out."""
    pins: (
        Annotated[Ids, Field(max_length=MOST_PINS)] | Annotated[dict[Name, Rank], Field(max_length=MOST_PINS)] | None
    ) = None
    """At the top in this order; or an object that gives each its rank, from 1."""
    boosts: Annotated[list[Boost], FirstError, Field(max_length=MOST_BOOSTS)] | None = None
    at_most: Annotated[dict[Name, Rank], Field(max_length=MOST_ATTRIBUTES)] | None = None
    """Items per value of an attribute; an item with several values counts for each."""
    diversity: float | None = Field(None, ge=0, le=1)
    """0: by score alone; 1: as unlike each other as possible. `diversity` in the response says what it cost."""
    diversity_by: Annotated[list[Name], Field(max_length=MOST_ATTRIBUTES)] | None = None
    """Attributes; empty for item vectors, the default."""
    shelves: bool | Annotated[int, Field(strict=True, ge=0)] | None = None
    """Rows by concept: how many at most, or true for all."""
    strict: bool | None = None
    """Fewer items than requested, unknown ids and histories without known items are errors."""


class StandingRules(Wire):
    """Rules of every answer."""

    rules: Rules
    excluded_by_file: int | None
    """Ids in the file of excluded items; null without one."""
    included_by_file: int | None
    items: int
    """Items that may be recommended at all."""
    warnings: list[str]
    problem: str | None
    """Why the latest change of a file is not in force, if so."""


class ValueCount(Wire):
    value: str
    items: int


class ItemAttribute(Wire):
    """What rules can be about."""

    name: str
    kind: Literal["number", "date", "boolean", "text", "id"]
    missing: int
    """Items without a value."""
    distinct: int
    """Number of values."""
    low: float | str | None
    """Of numbers and dates."""
    high: float | str | None
    middle: float | None
    """Median of numbers."""
    values: list[ValueCount]
    """Of text and booleans, the most frequent first."""
    has_several: bool
    """Whether an item may have several values."""


class ItemAttributes(Wire):
    attributes: list[ItemAttribute]
