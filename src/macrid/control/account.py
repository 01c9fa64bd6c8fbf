"""Why an item has its place: stages from the list for everybody to the list at hand, and what changed between them.

everybody → history, by the model → history, by its neighbours → each rule → each move, in order

At every stage the item has a score and a rank among the items that may be listed; the parts of the account are what one
thing changed of both. Places are whole numbers, scores whole thousandths: both add up exactly. The stage before the
moves is the list that an answer has as `before`. `macrid.control.accounting` computes accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from macrid import markup
from macrid.control.moves import Move
from macrid.data.ids import Id

Kind = Literal["everybody", "history", "neighbours", "rule", "move"]


@dataclass(frozen=True)
class Stage:
    """An item's place and score after one more thing is taken into account."""

    kind: Kind
    label: str
    rank: int
    """From 1, among the items that may be listed."""
    score: float
    """With boosts, in thousandths."""

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "label": self.label, "rank": self.rank, "score": self.score}


@dataclass(frozen=True)
class Part:
    """What one thing changed."""

    kind: Kind
    label: str
    places: int
    """Positive: up."""
    amount: float
    """Of score, in thousandths."""
    item: Id | None = None
    """Of the history."""
    count: int | None = None
    """How many items of the history it is about, if several."""
    move: Move | None = None
    rule: str | None = None
    """The name of a rule, such as "boosts"."""
    is_standing: bool = False
    """Whether it is a rule of the service."""

    def __str__(self) -> str:
        return f"{self.places:+,}".replace("-", "−") + f" {self.label}"

    def as_json(self) -> dict[str, Any]:
        """Without the fields that say nothing."""
        content: dict[str, Any] = {
            "kind": self.kind, "label": self.label, "places": self.places, "amount": self.amount
        }  # fmt: skip
        content |= {} if self.item is None else {"item": str(self.item)}
        content |= {} if self.move is None else {"move": self.move.as_json()}
        named = {"count": self.count, "rule": self.rule, "standing": self.is_standing or None}
        return content | {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class Account:
    """Why an item has its place: stages, and the parts between them, which add up."""

    rank: int
    """In the list, or where it would follow."""
    of: int
    """How many items may be listed."""
    is_listed: bool
    stages: tuple[Stage, ...]
    parts: tuple[Part, ...]
    """Those that changed something; the strongest items of a history first, and the rest of it together."""
    left_out: tuple[str, ...] = ()
    """Why it may not be listed, if so."""

    @property
    def score(self) -> float:
        """With boosts."""
        return self.stages[-1].score

    @property
    def before(self) -> Stage:
        """Without moves, if any."""
        return next(stage for stage in reversed(self.stages) if stage.kind != "move")

    @property
    def merged(self) -> tuple[Part, ...]:
        """Parts with one for each item of the history, by the model and by neighbours together."""
        merged: dict[Any, Part] = {}
        for place, part in enumerate(self.parts):
            key = part.item if part.item is not None else "others" if part.count else (place,)
            old = merged.get(key)
            if old is not None:
                part = replace(old, places=old.places + part.places, amount=round(old.amount + part.amount, 3))
            merged[key] = part
        return tuple(merged.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "rank": self.rank, "of": self.of, "listed": self.is_listed, "score": self.score,
            "stages": [stage.as_json() for stage in self.stages], "parts": [part.as_json() for part in self.parts],
            "left_out": list(self.left_out),
        }  # fmt: skip

    def _repr_html_(self) -> str:
        first, last = self.stages[0], self.stages[-1]
        rows = [(first.label, f"{first.rank:,}", f"{first.score:.3f}")]
        rows += [(part.label, f"{part.places:+,}", f"{part.amount:+.3f}") for part in self.parts]
        rows.append(("; ".join(self.left_out) or "place", f"{self.rank:,} of {self.of:,}", f"{last.score:.3f}"))
        return markup.fragment(markup.table(("", "places", "score"), rows, numbers=("places", "score")))

    def __str__(self) -> str:
        """In one line: "place 6 of 3,467, 444 for everybody: +372 Help!, +147 Yellow Submarine, …"."""
        changed = [str(part) for part in self.merged if part.places]
        place = f"place {self.rank:,} of {self.of:,}, {self.stages[0].rank:,} for {self.stages[0].label}"
        place = f"left out ({'; '.join(self.left_out)}), otherwise {place}" if self.left_out else place
        return f"{place}: {', '.join(changed)}" if changed else place
