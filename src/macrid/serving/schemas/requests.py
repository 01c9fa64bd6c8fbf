"""Requests, with examples."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    PlainValidator,
    StrictInt,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from macrid.data.eventlog import Event
from macrid.serving.schemas.rules import Rules
from macrid.serving.schemas.wire import Count, FirstError, Id, Ids, Move, Name, Wire

T = TypeVar("T", str, str | int)
LONGEST_KEY = 200  # characters in the id of an event, or of a user with events
MOST_EVENTS = 1_000  # in a request
CLOCK_DIFFERENCE = timedelta(minutes=5)  # between machines


class Who(Wire):
    """A history, or a user known to the service."""

    history: Ids | None = None
    """Item ids; unknown ones are ignored and listed in the response. If none is known, the list has what is popular."""
    user: Id | None = None
    """A user from `GET /v1/users`."""

    @model_validator(mode="after")
    def _is_unambiguous(self) -> Who:
        if (self.history is None) == (self.user is None):
            raise ValueError("give either a history or a user")
        return self


class Movable(Wire):
    """Moves."""

    moves: Annotated[list[Move], FirstError] = Field([])
    """Applied in order; the same moves give the same list."""
    bounded: bool = True
    """Stay within the range of real users."""
    run: Name | None = None
    """The `run_id` of the run that stored moves and rules were made with. Those from another run are carried over by
    axis or by name where possible, otherwise left out; `warnings` say which."""


class Moving(Who, Movable):
    """A user and moves."""


class Listing(Wire):
    """The items to list."""

    n: Count = 10
    """Number of items per list; with `by_concept`, at most this many per concept."""
    exclude_seen: bool = True
    """Leave out items of the history."""
    exclude: Ids | None = None
    """Leave these out; unknown ids are ignored, and `warnings` say so."""
    rules: Rules | None = None
    """Filters, pins, boosts, limits, diversity and shelves, besides the standing rules of `GET /v1/rules`."""


RECOMMEND_EXAMPLES: list[JsonValue] = [
    {"history": ["bag-0001", "bag-0012"], "n": 5},
    {"history": ["bag-0001"], "rules": {"where": "price < 40", "at_most": {"category": 3}, "diversity": 0.3}},
    {"user": "test-0", "n": 8, "moves": [{"concept": "bags", "dimension": "size", "to": 0.3}], "explain": True},
]


class Asking(Moving, Listing):
    """One list for one user."""

    include: Ids | None = None
    """Choose only among these; unknown ids are ignored, and `warnings` say so."""
    concept: Annotated[int, Field(strict=True, ge=0)] | None = None
    """List the best items of this concept only, and compare them with its list before the moves."""


class RecommendRequest(Asking, json_schema_extra={"examples": RECOMMEND_EXAMPLES}):
    """What to recommend and to whom."""

    by_concept: bool = False
    """Also return the best items of every concept, in `concepts`."""
    explain: bool = False
    """Give the reason for every item."""
    before: bool = False
    """Also return the list without the moves."""
    beside: Annotated[str, StringConstraints(max_length=255)] | None = None
    """Ask a run from `GET /v1/runs` instead, for those who may edit. Users are those of the served run, and moves and
    rules are carried over."""


EXPLAIN_EXAMPLES: list[JsonValue] = [
    {"history": ["bag-0001", "bag-0012"], "items": ["bag-0003"]},
    {
        "user": "test-0",
        "items": ["mug-0004"],
        "moves": [{"towards": "price", "amount": -1}],
        "rules": {"diversity": 0.3},
    },
]


class ExplainRequest(Asking, json_schema_extra={"examples": EXPLAIN_EXAMPLES}):
    """A list, as in `/v1/recommend`, and items that need not be in it."""

    items: Annotated[list[Id], Field(min_length=1, fail_fast=True)]


class BatchRequest(Listing, json_schema_extra={"examples": [{"histories": [["bag-0001"], ["mug-0004"]], "n": 5}]}):
    """Many histories, each as in `/v1/recommend` without moves. What is wrong with one is the `error` of its result."""

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
    hold: bool | list[Name] = True
    """Keep the item's other attributes wherever the catalogue allows it; names hold just those."""


class ItemsRequest(Wire, json_schema_extra={"examples": [{"ids": ["bag-0001", "mug-0004"]}]}):
    ids: Ids
    attributes: bool = False
    """Also return what the items table has about each."""


class ContrastRequest(
    Wire, json_schema_extra={"examples": [{"left": ["bag-0001", "mug-0004"], "right": ["bag-0012"]}]}
):
    """Two lists of items; unknown ids are ignored."""

    left: Ids
    right: Ids


def storable(text: T) -> T:
    """Databases cannot store a zero character."""
    if str(text) == "" or "\0" in str(text):
        raise PydanticCustomError("text", "it must not be empty or contain a zero character")
    return text


def storable_key(text: T) -> T:
    """PostgreSQL's indices have a limit."""
    if len(str(text)) > LONGEST_KEY:
        raise PydanticCustomError("text", "it may have at most {most} characters", {"most": LONGEST_KEY})
    return storable(text)


def _moment(value: object) -> datetime:
    """A time in the past, from ISO 8601 or seconds since 1970; without a time zone it is in UTC."""
    try:
        if type(value) is str:
            time = datetime.fromisoformat(value)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
        elif type(value) in (int, float):
            time = datetime.fromtimestamp(value, UTC)  # type: ignore[arg-type]
        else:
            raise ValueError
        time = time.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise PydanticCustomError(
            "time", "not a time; use ISO 8601, such as 2026-01-31T12:00:00Z, or seconds since 1970"
        ) from None
    if time > datetime.now(UTC) + CLOCK_DIFFERENCE:
        raise PydanticCustomError("time", "{time} is in the future; check the clock, and that numbers are seconds",
                                  {"time": time.isoformat(timespec="seconds")})  # fmt: skip
    if time.timestamp() < 0:
        raise PydanticCustomError("time", "a time before 1970; check the clock that it comes from")
    return time


Moment = Annotated[
    datetime,
    PlainValidator(_moment),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}),
]


class NewEvent(Wire):
    """Something that a user did with an item."""

    id: Annotated[Id, AfterValidator(storable_key)] | None = None
    """Unique among the user's events: one that is sent again is stored once. Without an id, an event with the same
    item, time, kind, weight and rating is the same event."""
    item: Annotated[Id, AfterValidator(storable)]
    time: Moment | None = None
    """ISO 8601, in UTC unless it names a zone, or seconds since 1970; by default now, which requires an id."""
    kind: Annotated[str, StringConstraints(max_length=100), AfterValidator(storable)] | None = None
    """Such as view or purchase."""
    weight: float | None = Field(None, gt=0)
    """How much it counts in training, for your own queries; in a history every item counts once."""
    rating: float | None = None
    """Items rated below the run's threshold count as seen, but not as history."""

    @model_validator(mode="after")
    def _is_identified(self) -> NewEvent:
        if self.id is None and self.time is None:
            raise ValueError("give an id, or a time to tell it from other events")
        return self

    def event(self) -> Event:
        time, item = self.time or datetime.now(UTC), str(self.item)
        content = json.dumps([item, time.isoformat(), self.kind, self.weight, self.rating])
        id = f"sha256-{sha256(content.encode()).hexdigest()[:32]}" if self.id is None else str(self.id)
        return Event(id, item, time, self.kind, self.weight, self.rating)


EVENTS_EXAMPLES: list[JsonValue] = [
    {"events": [{"id": "e-17", "item": "bag-0001", "time": "2026-01-31T12:00:00Z", "kind": "purchase"}]},
]


class EventsRequest(Wire, json_schema_extra={"examples": EVENTS_EXAMPLES}):
    """New events of a user."""

    events: Annotated[list[NewEvent], Field(min_length=1, max_length=MOST_EVENTS, fail_fast=True)]


ADD_EXAMPLES: list[JsonValue] = [
    {"items": [{"id": "bag-9001", "title": "Small red leather bag", "category": "bags", "price": 59.0}]},
    {"items": [{"id": "bag-9001", "category": "bags"}], "histories": [["bag-0001", "bag-9001"]]},
]


class AddItemsRequest(Wire, json_schema_extra={"examples": ADD_EXAMPLES}):
    """Items that came after training."""

    items: Annotated[list[dict[str, JsonValue]], Field(min_length=1, fail_fast=True)]
    """Each with an `id`, and the attributes of the items table; unknown ones are ignored, missing ones null."""
    histories: Annotated[list[Ids], FirstError] | None = None
    """Of users who had some of these items: all items they had."""
    update: bool = False
    """Items that were added before may occur, and are placed again."""
    dry_run: bool = False
    """Only report what would be added."""


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
