"""What two lists of items differ in, in the attributes' own terms: year 1996 and 1988, 12 and 5 comedies of 24."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from macrid.control.thesaurus import SCALES
from macrid.control.vocabulary import key_of
from macrid.data.attributes import Column

LEAST = 1.1  # standard errors: one item of 24 is no news, two are
MOST = 8


@dataclass(frozen=True)
class Contrast:
    """One attribute, or one value of it, in two lists."""

    name: str
    """Such as "year" or "genres: Comedy"."""
    attribute: str
    value: str | None
    """The category or tag, if items either have it or not."""
    kind: Literal["number", "share"]
    left: float
    """The mean over the items whose value is known, or the share of them that have it."""
    right: float
    left_known: int
    right_known: int
    strength: float
    """The difference in standard errors, as if the lists were drawn at random from both together."""
    left_is: str | None = None
    """What the left list is, against the right one, such as "older"; None where there is no word for it."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def contrasts(columns: Sequence[Column], left: np.ndarray, right: np.ndarray) -> list[Contrast]:
    """The attributes in which two lists differ most, clearest first. left, right: positions of items."""
    found = [_contrast(column, column.values[left], column.values[right]) for column in columns]
    clear = [each for each in found if each is not None and each.strength >= LEAST]
    return sorted(clear, key=lambda each: (-each.strength, each.name))[:MOST]


def _contrast(column: Column, left: np.ndarray, right: np.ndarray) -> Contrast | None:
    """None if it is unknown in one of the lists, or the same throughout."""
    left, right = left[np.isfinite(left)], right[np.isfinite(right)]
    if not len(left) or not len(right):
        return None
    spread = float(np.concatenate([left, right]).std())
    if spread == 0:
        return None
    means = float(left.mean()), float(right.mean())
    strength = abs(means[0] - means[1]) / (spread * float(np.sqrt(1 / len(left) + 1 / len(right))))
    kind: Literal["number", "share"] = "number" if column.value is None else "share"
    known, word = (len(left), len(right)), _word(column, means[0] > means[1])
    return Contrast(column.name, column.attribute, column.value, kind, *means, *known, strength, word)


def _word(column: Column, is_more: bool) -> str | None:
    """A comparative for more, or less, of a number."""
    if column.value is not None:
        return None
    scale = next((scale for scale in SCALES if key_of(column.attribute) in scale.columns), None)
    if scale is None:
        return None
    word = (scale.more if is_more else scale.less)[0]
    return word if word.endswith("er") or word == "worse" else f"more {word}"
