"""What requests and responses are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StrictInt, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

LONGEST_ID = 1_000  # characters


def _id(value: object) -> object:
    if (type(value) is int and abs(value) < 10**LONGEST_ID) or (type(value) is str and len(value) <= LONGEST_ID):
        return value
    raise PydanticCustomError("id", "an id is a string or an integer")


Id = Annotated[
    str | int,
    PlainValidator(_id),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": LONGEST_ID}, {"type": "integer"}]}),
]


FirstError = Field(fail_fast=True)  # report only the first of many invalid entries
Ids = Annotated[list[Id], FirstError]
Name = Annotated[str, StringConstraints(max_length=200)]
Count = Annotated[int, Field(strict=True, ge=1)]


class Wire(BaseModel):
    """Base class of requests and responses."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class Move(Wire, json_schema_extra={"examples": [{"concept": "bags", "dimension": "size", "to": 0.3}]}):
    """A coordinate `to` a value or `by` an amount, an `amount` towards an attribute, or the `share` of a concept."""

    concept: StrictInt | Name | None = None
    """Its number or name."""
    dimension: StrictInt | Name | None = None
    """Its number or name."""
    to: float | None = None
    """The coordinate to move to."""
    by: float | None = None
    """How far to move from the user's position."""
    towards: Name | None = None
    """An attribute, such as "year" or "genres: Comedy"."""
    amount: float | None = None
    """1 is half the range of real users; negative amounts move away."""
    share: float | None = Field(None, ge=0, le=1)
    """Share of the recommendations that come from the concept."""
    axis: Name | None = None
    """Fingerprint of a numbered axis; set in responses."""
    name: Name | None = None
    """Name of a numbered dimension; set in responses."""
    concept_name: Name | None = None
    """Name of a numbered concept; set in responses."""


class ItemRef(Wire):
    id: str
    title: str | None = None


class Placed(ItemRef):
    concept: int | None = None
    """The most likely concept."""
    concept_share: float | None = None
    """Its probability."""
    second_concept: int | None = None
    """Only for items that a second concept shares."""
    second_share: float | None = None
    facts: list[str] | None = None
    """A few facts for a card, such as the year and the genres."""
    new: bool | None = None
    """True for an item that came after training."""
    placed: str | None = None
    """How such an item was placed, and how well that works."""
