"""Lists of items, and what moves changed in them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from macrid.serving.schemas.rules import Rules
from macrid.serving.schemas.wire import ItemRef, Move, Placed, Wire


class Pull(ItemRef):
    """An item of the history and its effect on the score of a recommended item."""

    amount: float
    """The score minus the score without this item."""


AccountKind = Literal["everybody", "history", "neighbours", "rule", "move"]


class AccountStage(Wire):
    """An item's place and score after one more thing is taken into account."""

    kind: AccountKind
    label: str
    rank: int
    """Among the items that may be listed, from 1."""
    score: float
    """Boosts included; whole thousandths."""


class AccountPart(Wire):
    """What one thing changed."""

    kind: AccountKind
    label: str
    """A title, or the rule or move in words."""
    places: int
    """Positive: up."""
    amount: float
    """Of score; whole thousandths."""
    item: str | None = None
    """The item of the history."""
    count: int | None = None
    """How many items of the history it is about, if several."""
    move: Move | None = None
    rule: str | None = None
    """The name of a rule, such as "boosts"."""
    standing: bool | None = None
    """Whether it is a rule of the service."""


class Account(Wire):
    """Why an item has its place: from the list for everybody (what is popular) to the list at hand, through the history
    by the model, the history by neighbours, each rule and each move. The places of all parts add up to the first rank
    less the last, their amounts to the last score less the first. The last stage before any move is the list without
    moves."""

    rank: int
    """In the list, or where the item would follow."""
    of: int
    """Number of items that may be listed."""
    listed: bool
    score: float
    """Boosts included."""
    stages: list[AccountStage]
    parts: list[AccountPart]
    """Those that changed something; items of the history that changed little are one part."""
    left_out: list[str]
    """Why the item may not be listed; its rank is then the one that it would have otherwise."""


class Reason(Wire):
    """Why an item is recommended."""

    share: float | None
    """Share of the history in the item's concept."""
    pulls: list[Pull]
    """The most influential items of the history, ignoring moves and rules, strongest first. They need not add up."""
    placed: str | None = None
    """How an item that came after training was placed."""
    account: Account | None = None


class Explanation(Placed):
    """Why an item has its place in a list."""

    share: float | None
    """Share of the history in the item's concept."""
    account: Account


class Explained(Wire):
    unknown: list[str]
    """Ids of the history that are not in the catalogue."""
    items: list[Explanation]
    moves: list[Move] | None = None
    """The applied moves, with their axes and names."""
    fallback: bool = False
    """The list is simply what is popular, because no item of the history is known."""
    warnings: list[str] = Field([])


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


class Difference(Wire):
    """An attribute in which two lists differ."""

    name: str
    """Such as "year", or "genres: Comedy" for one value."""
    value: str | None
    """The value, if it counts items that have one."""
    before: float
    """The mean over the list's items, or how many of them have the value."""
    after: float


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


class Shelf(Wire):
    """The best items of a concept, by probability times membership."""

    concept: int
    name: str
    share: float
    """Share of the concept in the recommendations."""
    items: list[Scored]


class DiversityCost(Wire):
    """What diversity changed, against the same list without it."""

    kept: float
    """Share of the items that are in both lists."""
    score: float
    """Mean score given up."""
    similarity: float
    """Mean similarity of two items of the list, from 0 to 1."""
    similarity_without: float


class CarriedOver(Wire):
    """A move or rule from another run that this one has under another number, or not at all."""

    kind: Literal["move", "rule"]
    what: str
    """Such as "size (bags)" or "price < 30"."""
    kept: bool
    """Whether it applies here; otherwise it was left out."""
    warning: str
    """The same in words, as in `warnings`."""


class AnsweredBy(Wire):
    """Another run than the served one."""

    run: str
    run_id: str
    concepts: list[str]
    """Display texts, by number."""


class Recommended(Wire):
    """Items, best first."""

    unknown: list[str]
    """Ids of the history that are not in the catalogue."""
    items: list[Scored]
    concepts: list[ConceptItems] | None = None
    """With `by_concept`; largest share first."""
    moved: Moved | None = None
    """With moves."""
    differences: list[Difference] | None = None
    """With moves: the attributes in which the list now differs most from the list before; moved ones first."""
    before: list[Scored] | None = None
    """With `before`: the list without the moves."""
    moves: list[Move] | None = None
    """The applied moves, with their axes and names."""
    effects: list[Effect] | None = None
    shares: list[float] | None = None
    """Share of each concept in the recommendations after the moves; with moves, `concept` or `by_concept`."""
    fallback: bool = False
    """The items are simply popular, because no item of the history is known."""
    shelves: list[Shelf] | None = None
    """With the rule `shelves`; largest share first."""
    diversity: DiversityCost | None = None
    """With the rule `diversity`."""
    carried: list[CarriedOver] | None = None
    """Moves and rules from another run, or along other axes, that are not as they were."""
    rules: Rules | None = None
    """With rules from another run: those of the request that are in force."""
    answered_by: AnsweredBy | None = None
    """With `beside`."""
    error: str | None = None
    """In a batch: why this history has no items."""
    warnings: list[str] = Field([])


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
    warnings: list[str] = Field([])


class Contrast(Wire):
    """An attribute, or one value of it, in two lists."""

    name: str
    """Such as "year" or "genres: Comedy"."""
    attribute: str
    value: str | None
    """The category or tag, if items either have it or not."""
    kind: Literal["number", "date", "share"]
    left: float
    """The mean over the items whose value is known, in seconds since 1970 for dates, or the share that have it."""
    right: float
    left_known: int
    """Items whose value is known."""
    right_known: int
    strength: float
    """The difference in standard errors, as if the lists were drawn at random from both together."""
    left_is: str | None
    """What the left list is, against the right one, such as "older"; null where there is no word for it."""


class Contrasts(Wire):
    """What two lists differ in."""

    both: int
    """Items in both lists."""
    attributes: list[Contrast]
    """The clearest differences first; none if the lists differ by no more than chance."""


class Similar(Wire):
    """Items similar to an item; scores are cosines."""

    item: str
    items: list[Scored]


class Stop(ItemRef):
    value: float
    """Its coordinate."""
    start: bool
    """Whether the walk starts here."""
    differs: list[str]
    """What was held, but the item does not have as the start has it."""


class Traversed(Wire):
    """Items by increasing coordinate, otherwise as alike as possible."""

    concept: int
    dimension: int
    name: str | None
    range: list[float]
    open: list[bool]
    start: float
    steps: int
    held: list[str]
    """Attributes and named dimensions that the items keep wherever the catalogue allows it."""
    tied: list[str]
    """Other attributes that necessarily move with the dimension."""
    items: list[Stop]
