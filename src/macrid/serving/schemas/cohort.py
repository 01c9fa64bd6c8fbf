"""A cohort of users: who is in it, and what moves and rules would do to them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt, model_validator

from macrid.serving.schemas.requests import Movable
from macrid.serving.schemas.rules import Rules
from macrid.serving.schemas.wire import Count, Ids, Name, Wire

MOST_USERS = 2_000
LONGEST_LIST = 100


class TasteFilter(Wire):
    """Users with at least a share of a concept in their history."""

    concept: StrictInt | Name
    """Its number or name."""
    at_least: float = Field(0.25, ge=0, le=1)
    """Share of the history."""


class CohortRequest(
    Movable,
    json_schema_extra={
        "examples": [
            {"moves": [{"towards": "price", "amount": -0.5}]},
            {"taste": {"concept": "bags", "at_least": 0.3}, "rules": {"where": "price < 40"}},
        ]
    },
):
    """Moves and rules to try on known users, by default on all of them. With several filters, all apply."""

    users: Annotated[Ids, Field(max_length=MOST_USERS)] | None = None
    """Only these users of `GET /v1/users`; unknown ones are ignored, and `warnings` say so."""
    taste: TasteFilter | None = None
    items: Ids | None = None
    """Only users who have some of these items."""
    at_least: Count = 1
    """How many of the items."""
    most: Annotated[int, Field(strict=True, ge=1, le=MOST_USERS)] = MOST_USERS
    """Compute lists for at most this many of them, drawn evenly."""
    rules: Rules | None = None
    """Besides the standing rules, which apply before and after."""
    n: Annotated[int, Field(strict=True, ge=1, le=LONGEST_LIST)] = 10
    """Length of the lists."""
    exclude_seen: bool = True
    """Leave out items of the history."""
    per_user: bool = False
    """Also what happens to each user."""

    @model_validator(mode="after")
    def _is_unambiguous(self) -> CohortRequest:
        if self.users is not None and (self.taste is not None or self.items is not None):
            raise ValueError("give either users, or a taste and items to choose them by")
        return self


class MetricValue(Wire):
    mean: float | None
    se: float | None
    """Standard error."""


class MetricComparison(Wire):
    """Over the same users."""

    before: MetricValue
    after: MetricValue
    difference: MetricValue
    """Mean of the users' differences, and its standard error."""


class CohortAccuracy(Wire):
    """On what users had next; over those who had something."""

    users: int
    gained: int
    """Users whose NDCG@100 rises."""
    lost: int
    same: int
    metrics: dict[str, MetricComparison]
    """ndcg@100 and recall@20; the list is continued with the best of the rest."""


class CohortAttribute(Wire):
    """How an attribute of the lists moves, on average over users."""

    name: str
    is_share: bool
    """Whether it is a share of the list."""
    is_date: bool
    """Whether `before` and `after` are seconds since 1970."""
    before: float
    after: float
    moves: float
    """In standard deviations over the items; of numbers, over their ranks."""
    label: str
    """Display text, such as "29 → 41 % of the list"."""


class SharesChange(Wire):
    before: list[float]
    after: list[float]


class CountChange(Wire):
    before: int
    after: int


class MeanChange(Wire):
    before: float
    after: float


class CohortTaste(Wire):
    """Users with the largest part of their history in one concept."""

    concept: int
    users: int
    new: float
    """Mean share of the list that is new."""
    before: float | None
    """Mean NDCG@100."""
    after: float | None


class CohortUser(Wire):
    """What happens to one user."""

    id: str
    items: int
    """Number of items in the history."""
    new: int
    """Items of the list that were not in it before."""
    length: int
    """Of the list."""
    before: float | None
    """NDCG@100; null if nothing is to be predicted."""
    after: float | None


class CohortResult(Wire):
    """Lists before, which users get today by the standing rules, and after moves and rules."""

    n: int
    users: int
    """Users whose lists were computed."""
    chosen: int
    """Users who were meant."""
    skipped: int
    """Users without a known item."""
    new: float
    """Mean share of the list that was not in it before."""
    kept: float
    """Mean share of the list that was."""
    unchanged: int
    """Users with the same list in the same order."""
    changed_places: list[float]
    """Share of users with another item at each place."""
    attributes: list[CohortAttribute]
    """Those that move most, furthest first."""
    shares: SharesChange
    """Mean share of each concept in the lists; empty without concepts."""
    coverage: CountChange
    """Items that are in at least one list."""
    popularity: MeanChange | None
    """Mean number of training users of a listed item."""
    accuracy: CohortAccuracy | None
    """null if nothing is known that users had next."""
    tastes: list[CohortTaste]
    losses: list[CohortUser]
    """Largest losses of accuracy."""
    gains: list[CohortUser]
    changes: list[CohortUser]
    """Largest changes of the list."""
    short: list[CohortUser]
    """Some of those whose lists cannot be filled."""
    short_users: int
    stopped: int
    """Users for whom a move was stopped at the range of real users."""
    per_user: list[CohortUser] | None = None
    """With `per_user`."""
    warnings: list[str]
