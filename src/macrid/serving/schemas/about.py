"""Responses about items, users, concepts and the service itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from macrid.concepts.effects import KnobEffect
from macrid.concepts.names import ConceptName, DimensionName
from macrid.serving.schemas.wire import Placed, Wire


class Found(Placed):
    """A listed item."""

    popularity: int
    """Number of users who had it in training."""


class LookedUp(Found):
    """An item by its id."""

    attributes: dict[str, JsonValue] | None = None
    """If they were requested."""


class Hit(Found):
    """An item that a search found."""

    matched: list[str]
    """What it was found by other than its title: values of attributes, such as "Sci-Fi", or its id, as "id 17"."""


class ItemPage(Wire):
    total: int
    offset: int
    items: list[Hit]


class ItemList(Wire):
    """The requested items, in order, without duplicates."""

    items: list[LookedUp]
    unknown: list[str]


class NewItem(Wire):
    """An added item."""

    id: str
    title: str | None
    concept: int
    attributes: list[str]
    """Columns that it was placed by."""
    events: int
    """Histories that it was placed by."""
    strength: float
    """How well vectors are predicted like this: 0 is chance, 1 perfect."""
    placed: str
    """The same in words."""


class MapStrength(Wire):
    """How well the map from attributes to vectors places trained items, each without itself."""

    strength: float
    """Mean cosine of predicted and trained vectors, without the mean vector: 0 is chance, 1 perfect."""
    concepts: float
    """Share of items whose concept is predicted right."""
    largest: float
    """Share of the largest concept, for comparison."""
    found: float | None
    """How often a user prefers one of their own items to another, all placed by the map; 0.5 is chance."""
    found_trained: float | None
    """The same with trained vectors."""
    items: int
    attributes: list[str]
    with_events: dict[str, float]
    """Number of events beside attributes → strength."""
    events_only: dict[str, float]
    """Number of events without attributes → strength."""


class AddedItems(Wire):
    items: list[NewItem]
    skipped: list[str]
    """Items that nothing usable is known about."""
    strength: MapStrength
    notes: list[str]
    """Such as unknown columns."""
    total: int
    """Items of the catalogue."""


class RemovedItems(Wire):
    removed: list[str]
    total: int
    """Items of the catalogue."""


class Item(Found, json_schema_serialization_defaults_required=True):
    """Everything known about an item."""

    concepts: list[float] | None
    """Probability of each concept."""
    attributes: dict[str, JsonValue]
    picture: str | None
    """Path of its picture."""


class User(Wire):
    id: str
    items: int
    """Number of items in the history."""
    shares: list[float] | None
    """Share of the history in each concept; null without concepts."""
    taste: float | None
    """Share of the history in what `q` names, if it names a taste."""


class NamedTaste(Wire):
    name: str
    concepts: list[int]
    """Empty for the value of an attribute."""


class UserPage(Wire):
    total: int
    offset: int
    users: list[User]
    compared: int | None
    """How many users were sorted, or searched by taste, if not all."""
    taste: NamedTaste | None
    """What `q` was understood to be about, besides ids."""


class UserHistory(Wire):
    id: str
    history: list[Found]


class EventsAdded(Wire):
    """They are on disk."""

    added: int
    known: int
    """Events with an id that this user had already; they are left as they were."""
    unknown_items: list[str]
    """Stored, too: they count once the model knows them."""


class UserEvent(Wire):
    id: str
    item: str
    time: str
    kind: str | None
    weight: float | None
    rating: float | None
    received: str


class UserEvents(Wire):
    """Everything that is stored about a user."""

    user: str
    events: list[UserEvent]
    """Oldest first."""
    items: list[str]
    """Items from the users' file, or from the run if there is none."""


class UserErased(Wire):
    user: str
    deleted: int
    """Events."""


class Histogram(Wire):
    """Counts of real users along a dimension, or of items if the run keeps no users."""

    of: Literal["users", "items"]
    low: float
    """Lower edge of the first bin."""
    high: float
    counts: list[int]


class MeasuredEffect(KnobEffect, json_schema_serialization_defaults_required=True):
    """What a knob does to the lists of validation users."""

    label: str
    """Display text: the move in the attribute's units, such as "29 → 64 % of the list"; empty if unknown."""


class GeneralEffect(MeasuredEffect, json_schema_serialization_defaults_required=True):
    """What an attribute does to lists, moved in all concepts together."""

    attribute: str
    """The column of the items table, such as "genres"."""
    value: str | None
    """Its value, such as "Comedy"; None for a number."""
    less: str
    """Describes the low end in a word, such as "older"."""
    more: str


class Dimension(DimensionName, json_schema_serialization_defaults_required=True):
    """A dimension of a concept, along the axes in use."""

    label: str
    """Display text: the name, or else the number."""
    low: str
    """Describes the low end."""
    high: str
    range: list[float]
    """Range of real users and of a slider: [low, high]."""
    histogram: Histogram
    effect: MeasuredEffect | None
    """None if it was not measured."""


class Concept(ConceptName, json_schema_serialization_defaults_required=True):
    """A concept and its best dimensions."""

    label: str
    """Display text: the name, or else typical items, or else the number."""
    items: int
    share: float
    """Share of all items."""
    interactions: float
    """Share of all training interactions."""
    dimensions: list[Dimension]
    """Strongest effect first, without those that do nothing; best evidence first if effects were not measured."""


class Attribute(Wire):
    name: str
    kind: Literal["number", "category"]


class Limits(Wire):
    n: int
    history: int
    batch: int
    moves: int
    body: int
    """Bytes."""


class Model(Wire):
    run: str
    """Folder name."""
    run_id: str
    """Identifies the weights: changes with retraining, not with `macrid axes`. Send it with stored moves."""
    digest: str
    """Changes when another run is loaded or something is renamed."""
    version: str
    """Of macrid."""
    model: str
    preset: str | None
    """best, paper or custom; null for a model without concepts."""
    neighbours: int
    """Other items that add to the score of an item, on average."""
    settings: dict[str, JsonValue]
    training: dict[str, JsonValue] | None
    data: dict[str, JsonValue]
    items: int
    users: int
    """Known users."""
    new_items: int
    """Items added after training."""
    has_concepts: bool
    has_titles: bool
    has_pictures: bool
    can_edit: bool
    """Whether clients may rename, reload, add items, change rules and ask other runs."""
    can_rename: bool
    can_train: bool
    """Whether people may train on a file of their own."""
    score_name: str
    metrics: dict[str, JsonValue] | None
    """As in metrics.json."""
    attributes: list[Attribute]
    """To colour the map by."""
    towards: list[str]
    """Attributes that moves can go towards, strongest effect first."""
    towards_effects: list[GeneralEffect]
    """What moves towards these attributes do, from −2 to 2; without those that do nothing."""
    limits: Limits
    concepts: list[Concept]


class Dimensions(Wire):
    concept: int
    dimensions: list[Dimension]


class Map(Wire):
    """All items on a plane, in the order of `id`; in a very large catalogue, the most popular."""

    state: Literal["ready", "computing", "failed"]
    """While "computing", positions are rough; try again later."""
    message: str | None = None
    x: list[float]
    y: list[float]
    concept: list[int]
    id: list[str]


class MapValues(Wire):
    """An attribute of the items on the map, in the same order."""

    name: str
    kind: Literal["number", "category"]
    values: list[float | None]
    """Numbers, or indices into `labels`; null where unknown."""
    labels: list[str]
    """Categories, most frequent first."""
    has_several: bool = False
    """Whether items may have several values; `values` has the most frequent of each."""
    counts: list[int] | None = None
    """Number of values of each item, if there may be several."""
    all: list[int] | None = None
    """The values of the first item, then those of the second, and so on; most frequent first."""


class Report(Wire):
    """How good the model is, and how cleanly tastes are separated."""

    state: Literal["ready", "computing", "failed"]
    """State of `inspection`, which takes a while the first time."""
    message: str | None = None
    metrics: dict[str, JsonValue] | None
    log: list[dict[str, JsonValue]]
    """One entry per epoch."""
    inspection: dict[str, JsonValue] | None
    """As printed by `macrid inspect --json`."""


class Diff(Wire):
    """How the served run differs from an earlier one."""

    before: str | None
    """Folder name of the earlier run; null if there is none to compare with."""
    after: str
    diff: dict[str, JsonValue] | None
    """As printed by `macrid diff --json`."""


class RunBeside(Wire):
    """A run in the folder of the served one."""

    name: str
    """Its folder, for `beside` and `POST /v1/reload`."""
    run_id: str
    model: str
    source: str | None
    """Of its data, such as file or demo."""
    items: int
    """Without those added after training."""
    trained: str
    """When its weights were written, in UTC."""
    accuracy: float | None
    """NDCG@100 of its own test users; null if it was not measured."""
    is_current: bool
    """Whether it is the served one."""


class RunsBeside(Wire):
    """The served run, then the newest."""

    runs: list[RunBeside]


class Reloaded(Wire):
    run: str
    digest: str


class Health(Wire):
    status: Literal["ok"]
    version: str


class Ready(Health):
    run: str
    digest: str
    warnings: list[str]
    """What somebody should look after: a file of users or rules that cannot be read, an event store that is away."""


PROBLEM: dict[str, JsonValue] = {
    "type": "about:blank",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "n: input should be greater than or equal to 1",
    "instance": "/v1/recommend",
}


class Problem(BaseModel, json_schema_extra={"examples": [PROBLEM]}):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    """Standard text of the status."""
    status: int
    detail: str
    """What is wrong and what to do, for people."""
    instance: str
    """The requested path."""
    errors: list[dict[str, Any]] | None = None
    """Invalid fields, each with `at` and `message`."""
