"""Requests, with examples."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, StrictInt, StringConstraints, model_validator

from macrid.serving.schemas.wire import Count, FirstError, Id, Ids, Move, Name, Wire


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

    moves: Annotated[list[Move], FirstError] = Field([])
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
