"""What models give: lists of items, and users as a model sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from macrid import markup
from macrid.data.ids import Id
from macrid.data.pictures import NO_PICTURES, Pictures
from macrid.data.tables import FrameKind, to_frame


@dataclass(frozen=True)
class Placement:
    """How an item that came after training got its vectors."""

    attributes: tuple[str, ...] = ()
    """Columns of the items table."""
    events: int = 0
    """Users with a history who had it."""
    strength: float = 0.0
    """How well vectors are predicted like this: 0 is chance, 1 perfect; see `macrid.cold.Strength`."""

    def __str__(self) -> str:
        parts = [f"{self.events:,} event{'s' * (self.events != 1)}"] if self.events else []
        parts += [f"its attributes: {', '.join(self.attributes)}"] if self.attributes else []
        return f"placed by {' and '.join(parts) or 'nothing known'}; strength {self.strength:.2f}"


@dataclass(frozen=True)
class ScoredItem:
    """One recommended or similar item."""

    id: Id
    score: float
    title: str | None = None
    concept: int | None = None
    new: Placement | None = None
    """Of an item that came after training."""

    def as_json(self) -> dict[str, Any]:
        item = {"id": str(self.id), "title": self.title, "score": self.score, "concept": self.concept}
        return item if self.new is None else item | {"new": True, "placed": str(self.new)}


@dataclass(frozen=True)
class Shelf:
    """A row of items of one concept."""

    concept: int
    name: str
    """Of the concept, or else its typical items or its number."""
    share: float
    """Of the concept, in the recommendations."""
    items: tuple[ScoredItem, ...]

    def as_json(self) -> dict[str, Any]:
        items = [item.as_json() for item in self.items]
        return {"concept": self.concept, "name": self.name, "share": self.share, "items": items}


@dataclass(frozen=True)
class DiversityCost:
    """What diversity changed, against the same list without it."""

    kept: float
    """Share of the items that are in both lists."""
    score: float
    """Mean score given up."""
    similarity: float
    """Mean similarity of two items of the list."""
    similarity_without: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"diversity keeps {self.kept:.0%} of the items; similarity {self.similarity_without:.2f} →"
            f" {self.similarity:.2f}, mean score {round(-self.score, 2) + 0:+.2f}"
        )


@dataclass(frozen=True)
class Recommendations(Sequence[ScoredItem]):
    """Items, best first, and the ids in the history that the model does not know."""

    items: tuple[ScoredItem, ...]
    unknown: tuple[Id, ...] = ()
    pictures: Pictures = field(default=NO_PICTURES, repr=False, compare=False, kw_only=True)
    fallback: bool = field(default=False, kw_only=True)
    """Whether the items are simply popular, because no item of the history is known."""
    shelves: tuple[Shelf, ...] = field(default=(), kw_only=True)
    """With the rule of that name, largest share first."""
    diversity: DiversityCost | None = field(default=None, kw_only=True)
    """What that rule cost."""
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    """Fewer items than requested, what rules ignored, a fallback."""

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> ScoredItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ScoredItem, ...]: ...
    def __getitem__(self, index: int | slice) -> ScoredItem | tuple[ScoredItem, ...]:
        return self.items[index]

    def __iter__(self) -> Iterator[ScoredItem]:
        return iter(self.items)

    @property
    def ids(self) -> list[Id]:
        return [item.id for item in self.items]

    def as_json(self) -> dict[str, Any]:
        """Rules appear only where they did something."""
        content: dict[str, Any] = {
            "unknown": [str(value) for value in self.unknown],
            "items": [item.as_json() for item in self.items],
        }
        if self.fallback:
            content["fallback"] = True
        if self.shelves:
            content["shelves"] = [shelf.as_json() for shelf in self.shelves]
        if self.diversity is not None:
            content["diversity"] = self.diversity.as_json()
        if self.warnings:
            content["warnings"] = list(self.warnings)
        return content

    def to_frame(self, as_: FrameKind = "arrow") -> Any:
        """One row per item: rank, item, score and, where available, concept and title.

        as_: "arrow" for a `pyarrow.Table`, "pandas" or "polars".
        """
        columns = {"item": self.ids, "score": [item.score for item in self.items]}
        for name in ("concept", "title"):
            values = [getattr(item, name) for item in self.items]
            if any(value is not None for value in values):
                columns[name] = values
        return to_frame(pa.table({"rank": range(1, len(self) + 1), **columns}), as_)

    def __str__(self) -> str:
        return "\n".join(
            f"{rank:>3}  {item.score:8.3f}  {item.id}{'' if item.title is None else '  ' + item.title}"
            for rank, item in enumerate(self.items, start=1)
        )

    def _notes(self) -> tuple[str, dict[Id, str]]:
        """What to say about the list in a notebook, and a word to put on each item."""
        return "", {}

    def _repr_html_(self) -> str:
        about, marks = self._notes()
        cards = (
            markup.Card(
                item.title or str(item.id), [f"{rank} · {item.score:.3f}"], self.pictures.of(item.id),
                item.concept, marks.get(item.id, ""),
            )
            for rank, item in enumerate(self.items, start=1)
        )  # fmt: skip
        return markup.fragment(markup.heading("", about), markup.cards(cards))


class Encoding(NamedTuple):
    """A history as the model sees it."""

    confidence: np.ndarray  # (concepts,) how much of the history lies in each concept
    components: np.ndarray  # (concepts, dim)


class Posterior(NamedTuple):
    """Independent normal distributions over the components of many users: (users, concepts, dim) each."""

    mean: np.ndarray
    std: np.ndarray
