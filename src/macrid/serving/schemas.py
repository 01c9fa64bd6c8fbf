"""What goes over the wire: requests, with examples, and answers; `schemas_about` has those about the model itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    PlainValidator,
    StrictInt,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

MOST_LETTERS = 1_000  # of an id


def _id(value: object) -> object:
    if type(value) is int or (type(value) is str and len(value) <= MOST_LETTERS):
        return value
    raise PydanticCustomError("id", "give an id: text, or a whole number")


Id = Annotated[
    str | int,
    PlainValidator(_id),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": MOST_LETTERS}, {"type": "integer"}]}),
]


class _First(FailFast):
    """Who sends a million wrong ones is told of the first."""

    __hash__ = object.__hash__


Ids = Annotated[list[Id], _First()]
Name = Annotated[str, StringConstraints(max_length=200)]
Count = Annotated[int, Field(strict=True, ge=1)]


class Wire(BaseModel):
    """The base of all of them."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


# Requests


class Move(Wire):
    """One thing that a person changes: a coordinate `to` a value or `by` an amount, `amount` towards an attribute, or
    the `share` of a concept."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"concept": "bags", "dimension": "size", "to": 0.3}]})

    concept: StrictInt | Name | None = None
    """Its number or name."""
    dimension: StrictInt | Name | None = None
    """Its number or name."""
    to: float | None = None
    """The coordinate to move to."""
    by: float | None = None
    """How far to move from where the user is."""
    towards: Name | None = None
    """An attribute, such as "year" or "genres: Comedy"."""
    amount: float | None = None
    """1 is half of the range seen in real users; negative amounts lead away."""
    share: float | None = Field(None, ge=0, le=1)
    """How much of what is recommended comes from the concept."""
    axis: Name | None = None
    """Fingerprint of a numbered axis; answers have it."""
    name: Name | None = None
    """Name of a numbered dimension; answers have it."""
    concept_name: Name | None = None
    """Name of a numbered concept; answers have it."""


class Who(Wire):
    """Somebody: a history, or a user that the service knows."""

    history: Ids | None = None
    """Ids of items; those that are unknown are left aside and named in the answer."""
    user: Id | None = None
    """A user of `GET /v1/users`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Who:
        if (self.history is None) == (self.user is None):
            raise ValueError("give a history or a user, one of them")
        return self


class Moving(Who):
    """Somebody, and what is moved."""

    moves: Annotated[list[Move], _First()] = Field(default_factory=list)
    """One after the other; the same moves, sent again, give the same list."""
    bounded: bool = True
    """Go only as far as real users do."""
    run: Name | None = None
    """The `run_id` of the run that stored moves were made with. Those of another run are carried over along axes that
    are still there, or by name, and left out where that cannot be; `warnings` say so."""


class RecommendRequest(Moving):
    """What to recommend, and to whom."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"history": ["bag-0001", "bag-0012"], "n": 5},
                {
                    "user": "test-0",
                    "n": 8,
                    "moves": [{"concept": "bags", "dimension": "size", "to": 0.3}],
                    "explain": True,
                },
            ]
        }
    )

    n: Count = 10
    """How many items; with `by_concept`, for each concept at most."""
    exclude_seen: bool = True
    """Leave out the items of the history."""
    include: Ids | None = None
    """Choose among these only, all of them known."""
    exclude: Ids | None = None
    """Leave these out."""
    concept: Annotated[int, Field(strict=True, ge=0)] | None = None
    """List the best items of this concept only, and compare with those before the moves; fewer where it has fewer."""
    by_concept: bool = False
    """Also the best items of every concept, in `concepts`."""
    explain: bool = False
    """Say of every item why it is recommended."""
    before: bool = False
    """Also the list without the moves."""
    run: Name | None = None
    """The run that the moves were made with, as `GET /v1/model` gives it."""


class BatchRequest(Wire):
    """Many at once, each as in `/v1/recommend`, without moves."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"histories": [["bag-0001"], ["mug-0004", "mug-0007"]], "n": 5}]}
    )

    histories: Annotated[list[Ids], _First()]
    n: Count = 10
    exclude_seen: bool = True
    exclude: Ids | None = None
    """Left out for everybody."""


class EncodeRequest(Moving):
    """Where somebody is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"history": ["bag-0001", "bag-0012"]}]})


class TraverseRequest(Wire):
    """From an item, or from somebody's component in a concept, along a dimension."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"item": "bag-0001", "dimension": "size", "steps": 8, "keep_start": True}]}
    )

    item: Id | None = None
    history: Ids | None = None
    user: Id | None = None
    concept: StrictInt | Name | None = None
    """With a history or a user; an item has one already."""
    dimension: StrictInt | Name
    """Its number or name."""
    steps: int = Field(8, ge=1, le=50)
    """How many items at most."""
    min_users: int = Field(0, ge=0)
    """Choose among items that so many users had."""
    keep_start: bool = False
    """Have the item itself among them in any case."""


class ItemsRequest(Wire):
    """Which items."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["bag-0001", "mug-0004"]}]})

    ids: Ids


class ConceptRename(Wire):
    """Another name for a concept."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "handbags"}]})

    name: str


class DimensionRename(Wire):
    """Other names for a dimension or its ends; those not given stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "size", "low": "small", "high": "large"}]})

    name: str | None = None
    low: str | None = None
    high: str | None = None


class ReloadRequest(Wire):
    """Which run to serve from now on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"run": "run-2026-11"}]})

    run: Annotated[str, StringConstraints(max_length=255)] | None = None
    """The name of a folder beside the one served now; the same one, read again, if none is given."""


# Answers


class ItemRef(Wire):
    """An item, by id and title."""

    id: str
    title: str | None = None


class Pull(ItemRef):
    """An item of the history, and what it does to the score of a recommended one."""

    amount: float
    """The score less what it would be without this item."""


class Reason(Wire):
    """Why an item is recommended, before any move."""

    share: float | None
    """Of the history, that lies in the item's concept."""
    pulls: list[Pull]
    """The items of the history that count most for it, the strongest first."""


class Scored(ItemRef):
    """A recommended or similar item."""

    score: float
    concept: int | None = None
    """The likeliest."""
    concept_share: float | None = None
    """How likely it is: 1 if the item is of this concept only."""
    reason: Reason | None = None


class Change(ItemRef):
    """How an item moved; ranks count from 1."""

    before: int | None
    after: int | None


class Moved(BaseModel):
    """Items that came in, went out, went up or down because of the moves."""

    model_config = ConfigDict(populate_by_name=True)

    came_in: list[Change] = Field(alias="in")
    out: list[Change]
    up: list[Change]
    down: list[Change]


class Effect(Wire):
    """What a move did to one component, or to the share of a concept."""

    concept: int
    dimension: int | None
    name: str | None
    before: float
    after: float
    range: list[float] | None
    """That real users have, where it is known."""


class ConceptItems(Wire):
    """The best items of one concept."""

    concept: int
    items: list[Scored]
    moved: Moved | None = None
    """With moves."""


class Recommended(Wire):
    """Items, best first."""

    unknown: list[str]
    """Ids of the history that the model does not know."""
    items: list[Scored]
    concepts: list[ConceptItems] | None = None
    """With `by_concept`, those with the largest share first."""
    moved: Moved | None = None
    """With moves."""
    before: list[Scored] | None = None
    """With `before`: the list without the moves."""
    moves: list[Move] | None = None
    """As they were made, with their axes and names; those that could not be made are left out."""
    effects: list[Effect] | None = None
    shares: list[float] | None = None
    """Of the concepts in what is recommended, after the moves; with moves, `concept` or `by_concept`."""
    warnings: list[str] = []


class BatchRecommended(Wire):
    """A list for every history, in their order."""

    results: list[Recommended]


class Place(Wire):
    """Somebody in one concept."""

    concept: int
    share: float
    """Of the history."""
    confidence: float
    """How much of the history lies in the concept, in items."""
    recommended: float
    """The concept's share of what is recommended."""
    coordinates: list[float]
    """Of the component, along the axes in use."""
    x: float | None = None
    """On the map, once there is one: among the items that are closest to the component."""
    y: float | None = None


class Encoded(Wire):
    """Where somebody is: one component for every concept."""

    unknown: list[str]
    concepts: list[Place]
    warnings: list[str] = []


class Similar(Wire):
    """Items close to an item; scores are cosines."""

    item: str
    items: list[Scored]


class Stop(ItemRef):
    """One item of a walk."""

    value: float
    """Its coordinate."""
    start: bool
    """Whether the walk began here."""


class Traversed(Wire):
    """Items by growing coordinate, alike in everything else as far as there are such items."""

    concept: int
    dimension: int
    name: str | None
    range: list[float]
    open: list[bool]
    start: float
    steps: int
    items: list[Stop]
