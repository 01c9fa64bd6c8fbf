"""What goes over the wire about items, users, concepts, and the service itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from macrid.serving.schemas import ItemRef, Wire


class Found(ItemRef):
    """An item that was searched for."""

    concept: int | None = None
    """The likeliest."""
    concept_share: float | None = None
    """How likely it is: 1 if the item is of this concept only."""
    popularity: int


class ItemPage(Wire):
    """Some of the items that a search found, the best first."""

    total: int
    offset: int
    items: list[Found]


class ItemList(Wire):
    """Items that were asked for by their ids, in that order, each once."""

    items: list[Found]
    unknown: list[str]


class Item(ItemRef):
    """Everything known about an item."""

    concept: int | None
    concept_share: float | None
    concepts: list[float] | None
    """How probable each concept is."""
    popularity: int
    """How many users had it in training."""
    attributes: dict[str, JsonValue]
    picture: str | None
    """Where its picture is."""


class User(Wire):
    """Somebody the service knows."""

    id: str
    items: int
    """How many are in the history."""


class UserPage(Wire):
    total: int
    offset: int
    users: list[User]


class UserHistory(Wire):
    """What a known user has."""

    id: str
    history: list[Found]


class Histogram(Wire):
    """How many real users, or items where no users are kept, are where along a dimension."""

    of: Literal["users", "items"]
    low: float
    """Where the first bin begins."""
    high: float
    counts: list[int]


class Dimension(Wire):
    """A knob: a dimension of a concept, along the axes in use."""

    concept: int
    dimension: int
    name: str | None
    label: str
    """What to show: the name, else the number."""
    low: str
    """What is found at the low end."""
    high: str
    attribute: str | None
    kind: str | None
    strength: float | None
    """Size of the rank correlation with the attribute: 0 to 1."""
    p: float | None
    cross_validated: bool
    edited: bool
    why: str | None
    """Why there is no name."""
    range: list[float]
    """That real users have: [low, high]; a slider goes from one to the other."""
    histogram: Histogram
    examples: dict[Literal["low", "high"], list[ItemRef]]
    evidence: list[dict[str, JsonValue]]
    """Attributes that go with it, and how much."""


class Concept(Wire):
    """A concept, and its best knobs."""

    concept: int
    name: str | None
    label: str
    """What to show: the name, else a typical item, else the number."""
    edited: bool
    items: int
    share: float
    """Of all items."""
    interactions: float
    """Of all interactions in training."""
    strength: float | None
    p: float | None
    why: str | None
    """Why there is no name."""
    evidence: list[dict[str, JsonValue]]
    typical: list[ItemRef]
    dimensions: list[Dimension]
    """Those with the best evidence first."""


class Attribute(Wire):
    """A column of the items table that a map can be coloured by and items can be moved towards."""

    name: str
    kind: Literal["number", "category"]


class Limits(Wire):
    """What one request may ask for."""

    n: int
    history: int
    batch: int
    moves: int
    body: int
    """Bytes."""


class Model(Wire):
    """What is served: the model card."""

    run: str
    """The name of its folder."""
    run_id: str
    """Of the weights: another after retraining, the same after `macrid axes`. Stored moves are sent with it."""
    digest: str
    """Changes whenever another run is swapped in, or something is renamed."""
    version: str
    """Of macrid."""
    model: str
    settings: dict[str, JsonValue]
    training: dict[str, JsonValue] | None
    data: dict[str, JsonValue]
    items: int
    users: int
    """Known users."""
    has_concepts: bool
    has_titles: bool
    has_pictures: bool
    can_rename: bool
    score_name: str
    metrics: dict[str, JsonValue] | None
    """As metrics.json has them."""
    attributes: list[Attribute]
    """By which a map can be coloured."""
    towards: list[str]
    """Attributes that a move can go towards."""
    limits: Limits
    concepts: list[Concept]


class Dimensions(Wire):
    """All dimensions of a concept."""

    concept: int
    dimensions: list[Dimension]


class Map(Wire):
    """All items on a plane, in the order of `id`; of very many, the most popular ones."""

    state: Literal["ready", "computing", "failed"]
    """While "computing", positions are rough; ask again later."""
    message: str | None = None
    x: list[float]
    y: list[float]
    concept: list[int]
    id: list[str]


class MapValues(Wire):
    """An attribute of all items on the map, in its order."""

    name: str
    kind: Literal["number", "category"]
    values: list[float | None]
    """Numbers, or places in `labels`; null where unknown."""
    labels: list[str]
    """Of a category, the most frequent first."""
    has_several: bool = False
    """Whether items may have several; the most frequent of theirs is given."""


class Report(Wire):
    """How good it is, and how far it comes apart."""

    state: Literal["ready", "computing", "failed"]
    """Of `inspection`, which takes a while the first time."""
    message: str | None = None
    metrics: dict[str, JsonValue] | None
    log: list[dict[str, JsonValue]]
    """One entry an epoch."""
    inspection: dict[str, JsonValue] | None
    """What `macrid inspect --json` tells."""


class Reloaded(Wire):
    """What is served now."""

    run: str
    digest: str


class Health(Wire):
    status: Literal["ok"]
    version: str


class Ready(Health):
    run: str
    digest: str


class Problem(BaseModel):
    """An error (RFC 9457): what is wrong, and what to do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "n is 0; ask for a whole number of items, at least 1",
                    "instance": "/v1/recommend",
                }
            ]
        }
    )

    type: str = "about:blank"
    title: str
    """Of the status."""
    status: int
    detail: str
    """For a person."""
    instance: str
    """The path that was asked for."""
    errors: list[dict[str, Any]] | None = None
    """Which fields are wrong: `at` and `message`."""
