"""Requests, with examples, and responses; those about the model itself are in `schemas_about`."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    StrictInt,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

LONGEST_ID = 1_000  # characters


def _id(value: object) -> object:
    if type(value) is int or (type(value) is str and len(value) <= LONGEST_ID):
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

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


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


class Who(Wire):
    """A history, or a user known to the service."""

    history: Ids | None = None
    """Item ids; unknown ones are ignored and listed in the response."""
    user: Id | None = None
    """A user from `GET /v1/users`."""

    @model_validator(mode="after")
    def _is_unambiguous(self) -> Who:
        if (self.history is None) == (self.user is None):
            raise ValueError("give either a history or a user")
        return self


class Moving(Who):
    """A user and moves."""

    moves: Annotated[list[Move], FirstError] = []
    """Applied in order; the same moves give the same list."""
    bounded: bool = True
    """Stay within the range of real users."""
    run: Name | None = None
    """The `run_id` of the run that stored moves were made with. Moves from another run are carried over by axis or by
    name where possible, otherwise left out; `warnings` say which."""


class Listing(Wire):
    """The items to list."""

    n: Count = 10
    """Number of items per list; with `by_concept`, at most this many per concept."""
    exclude_seen: bool = True
    """Leave out items of the history."""
    exclude: Ids | None = None
    """Leave these out."""


RECOMMEND_EXAMPLES: list[JsonValue] = [
    {"history": ["bag-0001", "bag-0012"], "n": 5},
    {"user": "test-0", "n": 8, "moves": [{"concept": "bags", "dimension": "size", "to": 0.3}], "explain": True},
]


class RecommendRequest(Moving, Listing, json_schema_extra={"examples": RECOMMEND_EXAMPLES}):
    """What to recommend and to whom."""

    include: Ids | None = None
    """Choose only among these; all must be known."""
    concept: Annotated[int, Field(strict=True, ge=0)] | None = None
    """List the best items of this concept only, and compare them with its list before the moves."""
    by_concept: bool = False
    """Also return the best items of every concept, in `concepts`."""
    explain: bool = False
    """Give the reason for every item."""
    before: bool = False
    """Also return the list without the moves."""


class BatchRequest(Listing, json_schema_extra={"examples": [{"histories": [["bag-0001"], ["mug-0004"]], "n": 5}]}):
    """Many histories, each as in `/v1/recommend` without moves."""

    histories: Annotated[list[Ids], FirstError]


class EncodeRequest(Moving, json_schema_extra={"examples": [{"history": ["bag-0001", "bag-0012"]}]}):
    """Whose position to return."""


class TraverseRequest(Wire, json_schema_extra={"examples": [{"item": "bag-0001", "dimension": "size", "steps": 8}]}):
    """A walk along a dimension, from an item or from a user's position in a concept."""

    item: Id | None = None
    history: Ids | None = None
    user: Id | None = None
    concept: StrictInt | Name | None = None
    """With a history or a user; an item determines its own."""
    dimension: StrictInt | Name
    """Its number or name."""
    steps: int = Field(8, ge=1, le=50)
    """Maximum number of items."""
    min_users: int = Field(0, ge=0)
    """Choose only items that at least this many users had."""
    keep_start: bool = False
    """Always include the item itself."""


class ItemsRequest(Wire, json_schema_extra={"examples": [{"ids": ["bag-0001", "mug-0004"]}]}):
    ids: Ids


class ConceptRename(Wire, json_schema_extra={"examples": [{"name": "handbags"}]}):
    name: str


class DimensionRename(Wire, json_schema_extra={"examples": [{"name": "size", "low": "small", "high": "large"}]}):
    """New names for a dimension or its ends; omitted ones stay."""

    name: str | None = None
    low: str | None = None
    high: str | None = None


class ReloadRequest(Wire, json_schema_extra={"examples": [{}, {"run": "run-2026-11"}]}):
    run: Annotated[str, StringConstraints(max_length=255)] | None = None
    """Name of a folder beside the current run; default: the current run again."""


class ItemRef(Wire):
    id: str
    title: str | None = None


class Pull(ItemRef):
    """An item of the history and its effect on the score of a recommended item."""

    amount: float
    """The score minus the score without this item."""


class Reason(Wire):
    """Why an item is recommended, ignoring moves."""

    share: float | None
    """Share of the history in the item's concept."""
    pulls: list[Pull]
    """The most influential items of the history, strongest first."""


class Placed(ItemRef):
    concept: int | None = None
    """The most likely concept."""
    concept_share: float | None = None
    """Its probability."""


class Scored(Placed):
    """A recommended or similar item."""

    score: float
    reason: Reason | None = None


class Change(ItemRef):
    """Ranks of an item before and after the moves, from 1."""

    before: int | None
    after: int | None


class Moved(BaseModel):
    """Items that the moves brought in, out, up or down."""

    model_config = ConfigDict(populate_by_name=True)

    came_in: list[Change] = Field(alias="in")
    out: list[Change]
    up: list[Change]
    down: list[Change]


class Effect(Wire):
    """The effect of a move on a coordinate or on the share of a concept."""

    concept: int
    dimension: int | None
    name: str | None
    before: float
    after: float
    range: list[float] | None
    """Range of real users, if known."""


class ConceptItems(Wire):
    concept: int
    items: list[Scored]
    moved: Moved | None = None
    """With moves."""


class Recommended(Wire):
    """Items, best first."""

    unknown: list[str]
    """Ids of the history that are not in the catalogue."""
    items: list[Scored]
    concepts: list[ConceptItems] | None = None
    """With `by_concept`; largest share first."""
    moved: Moved | None = None
    """With moves."""
    before: list[Scored] | None = None
    """With `before`: the list without the moves."""
    moves: list[Move] | None = None
    """The applied moves, with their axes and names."""
    effects: list[Effect] | None = None
    shares: list[float] | None = None
    """Share of each concept in the recommendations after the moves; with moves, `concept` or `by_concept`."""
    warnings: list[str] = []


class BatchRecommended(Wire):
    """One list per history, in order."""

    results: list[Recommended]


class Place(Wire):
    """A user's position in one concept."""

    concept: int
    share: float
    """Share of the history."""
    confidence: float
    """Number of history items in the concept, as a sum of probabilities."""
    recommended: float
    """Share of the recommendations."""
    coordinates: list[float]
    """Along the axes in use."""
    x: float | None = None
    """Position on the map, among the nearest items; null until the map is ready."""
    y: float | None = None


class Encoded(Wire):
    """A user's position in each concept."""

    unknown: list[str]
    concepts: list[Place]
    warnings: list[str] = []


class Similar(Wire):
    """Items similar to an item; scores are cosines."""

    item: str
    items: list[Scored]


class Stop(ItemRef):
    value: float
    """Its coordinate."""
    start: bool
    """Whether the walk starts here."""


class Traversed(Wire):
    """Items by increasing coordinate, otherwise as alike as possible."""

    concept: int
    dimension: int
    name: str | None
    range: list[float]
    open: list[bool]
    start: float
    steps: int
    items: list[Stop]
