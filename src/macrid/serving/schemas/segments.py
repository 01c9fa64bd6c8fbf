"""Segments: some items, and what sets them apart."""

from __future__ import annotations

from macrid.serving.schemas.about import Found
from macrid.serving.schemas.wire import Ids, Wire


class SegmentRequest(Wire, json_schema_extra={"examples": [{"ids": ["bag-0001", "bag-0012", "bag-0031"]}]}):
    ids: Ids
    """The items; unknown ids are ignored and listed in the response."""


class SegmentValue(Wire):
    """A value, and how many items have it, here and elsewhere, among those where the attribute is known."""

    attribute: str
    value: str
    concept: int | None
    """If the value is a concept."""
    label: str
    """Display text."""
    items: int
    """Of the segment."""
    inside: float
    """Share of the segment."""
    outside: float
    """Share of all other items."""
    lift: float | None
    """`inside` over `outside`; null if no other item has the value."""
    z: float
    """Standard deviations from what chance would give."""


class SegmentNumber(Wire):
    """A number, such as a price, of the segment and of all other items."""

    attribute: str
    inside: float
    """Median; of dates, in seconds since 1970."""
    outside: float
    inside_mean: float
    outside_mean: float
    inside_text: str
    """The median as display text."""
    outside_text: str
    higher: float
    """How often an item of the segment has a higher number than another item, ties counting half."""
    z: float


class SegmentCustomers(Wire):
    """Known users who have items of the segment, without those who only have events."""

    total: int
    """All known users."""
    at_least: list[int]
    """How many have at least one item, at least two, and so on."""
    a_tenth: int
    """How many have at least a tenth of their history in the segment."""


class SegmentProfile(Wire):
    """What sets a segment apart from all other items; only clear differences, the clearest first."""

    items: int
    unknown: list[str]
    examples: list[Found]
    """The most popular items."""
    more: list[SegmentValue]
    """Values that are more frequent here."""
    less: list[SegmentValue]
    """Values that are frequent elsewhere and rarer here."""
    numbers: list[SegmentNumber]
    """Numbers that are higher or lower here."""
    customers: SegmentCustomers
