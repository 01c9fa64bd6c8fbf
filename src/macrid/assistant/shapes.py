"""What tools return, beside their text. Everything has a default: an answer may be just a question."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Item(Shape):
    id: str
    title: str | None = None
    concept: str | None = None
    """The group of similar items it belongs to."""
    attributes: dict[str, Any] = {}
    score: float | None = None
    """Higher is better; comparable within one list only."""


class Answer(Shape):
    understood: list[str] = []
    """How names of items and wishes were read."""
    question: str | None = None
    """What to ask the person, if it was unclear which item is meant; the rest is empty then."""
    warnings: list[str] = []


class Items(Answer):
    items: list[Item] = []
    """Best first."""


class Found(Items):
    total: int = 0
    """Number of matches, including those not listed."""


class Steered(Items):
    not_understood: list[str] = []
    """Parts of the wish that had no effect, and why."""
    where: str | None = None
    """The condition that all items meet."""
    moves: list[dict[str, Any]] = []
    came_in: list[str] = []
    """Titles that the wish brought into the list."""
    went_out: list[str] = []


class Moved(Shape):
    by: str
    """An item that is liked, or several."""
    places: int
    """Positive: up."""


class Reason(Shape):
    item: Item
    share: float | None = None
    """Share of the liked items in the item's concept: 0 to 1."""
    raised_by: list[str] = []
    """Titles of liked items that raised its score, strongest first."""
    place: int | None = None
    """In the list of recommendations."""
    place_for_everybody: int | None = None
    """By popularity."""
    moved: list[Moved] = []
    """What the difference is due to; places add up."""


class Explained(Answer):
    reasons: list[Reason] = []


class Step(Shape):
    item: Item
    value: float
    """Position along the dimension."""
    is_start: bool
    differs: list[str] = []
    """What else is not as at the start."""


class Varied(Answer):
    dimension: str | None = None
    low: str | None = None
    """What the low end is like."""
    high: str | None = None
    steps: list[Step] = []
    """From the low end to the high end; otherwise as alike as possible."""


class Concept(Shape):
    number: int
    name: str
    items: int
    typical: list[str]
    dimensions: list[str]
    """Knobs that work in this concept, by name, with both ends."""


class Known(Answer):
    model: str = ""
    items: int = 0
    concepts: list[Concept] = []
    attributes: dict[str, list[str]] = {}
    """Columns of the items with their most frequent values, or their range; for `where`."""
    towards: list[str] = []
    """Attributes that wishes can raise or lower, strongest effect first."""
