"""What knobs do to the lists of held-out users: measured after training, kept with the run, and used to order knobs.

A knob is a dimension of one concept, or an attribute in every concept that predicts it. `macrid.report.controllability`
measures them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

LEAST_MONOTONICITY = 0.3  # fewer than 1 in 100 random directions reach this and `LEAST_MOVE`
LEAST_MOVE = 0.2  # standard deviations


class KnobEffect(BaseModel):
    """What one knob does from end to end, averaged over users."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    name: str
    """The attribute it should move, such as "year" or "genres: Comedy"."""
    concept: int | None
    """None for a knob of several concepts."""
    dimension: int | None
    axis: str = ""
    """Fingerprint of the dimension's axis; empty for a knob of several concepts."""
    users: int
    low: float | None
    """The attribute at the low end: its mean in the lists, a share of the list if items either have it or not."""
    high: float | None
    """The same at the high end; both are None if no listed item has a known value."""
    is_share: bool
    """Whether `low` and `high` are shares."""
    moves: float
    """How far the attribute moves, in standard deviations over the items; negative if it moves the wrong way."""
    monotonicity: float
    """Rank correlation of the knob's position with the attribute; negative likewise."""
    other: str | None
    """The other attribute that moves most, if there is one."""
    other_moves: float | None
    """How far it moves."""
    leakage: float | None
    """How far other attributes move, relative to this one; None if it does not move, or there is no other."""
    drift: float | None
    """Rank correlation of the knob's position with other attributes, in absolute value."""
    retention: float | None
    """Share of NDCG@100 kept by a moderate move; None if users have nothing to predict."""
    overlap: float
    """Share of the ten best of all items kept by such a move."""
    smoothness: float
    """Share of a list kept from one position to the next."""
    age: int = 0
    """Warm starts since it was measured."""

    @property
    def strength(self) -> float:
        """How far and how steadily it moves its attribute; 0 if it does neither."""
        return max(self.moves, 0.0) * max(self.monotonicity, 0.0)

    @property
    def is_clear(self) -> bool:
        """Whether it does more than a random direction would."""
        return self.moves >= LEAST_MOVE and self.monotonicity >= LEAST_MONOTONICITY

    @property
    def span(self) -> str:
        """The move in the attribute's units: "29 → 64 %" or "1988 → 1996"; empty if unknown."""
        return "" if self.low is None or self.high is None else span(self.low, self.high, self.is_share)

    @property
    def text(self) -> str:
        """The same, with what it is a share of: "29 → 64 % of the list"."""
        return f"{self.span} of the list" if self.span and self.is_share else self.span


def span(low: float, high: float, is_share: bool) -> str:
    """From one value of an attribute to another, in its units: "29 → 64 %" or "1988 → 1996"."""
    if is_share:
        return f"{100 * low:.0f} → {100 * high:.0f} %"
    return " → ".join(f"{end:.0f}" if abs(end) >= 100 else f"{end:.3g}" for end in (low, high))


def strongest_first(effects: tuple[KnobEffect, ...]) -> list[KnobEffect]:
    """Those that do something, attributes in several concepts before single dimensions."""
    clear = (effect for effect in effects if effect.is_clear)
    return sorted(clear, key=lambda effect: (effect.concept is not None, -effect.strength))


def effects_from_json(content: str | bytes) -> tuple[KnobEffect, ...]:
    """Effects from a JSON list; a `ValueError` says what is wrong and where."""
    try:
        return TypeAdapter(tuple[KnobEffect, ...]).validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'effects'}: {first['msg']}") from None
