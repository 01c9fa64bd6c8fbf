"""What two lists of items differ in, in the attributes' own terms: year 1996 and 1988, 12 and 5 comedies of 24."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from macrid.control.vocabulary import comparatives
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


def contrasts(
    columns: Sequence[Column], left: np.ndarray, right: np.ndarray, *, first: Collection[str] = (), most: int = MOST
) -> list[Contrast]:
    """The attributes in which two lists differ most, clearest first. left, right: positions of items.

    first: names of attributes that come first, however little they differ.
    """
    if not columns or not len(left) or not len(right):
        return []
    values = np.stack([column.values[np.concatenate([left, right])] for column in columns])  # (columns, both lists)
    of_left, of_right = values[:, : len(left)], values[:, len(left) :]
    known = np.stack([np.isfinite(part).sum(axis=1) for part in (of_left, of_right)])  # (2, columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns that are unknown in a list
        means = np.stack([np.nanmean(part, axis=1) for part in (of_left, of_right)])
        error = np.nanstd(values, axis=1) * np.sqrt((1 / np.maximum(known, 1)).sum(axis=0))
    strength = np.round(np.abs(means[0] - means[1]) / np.where(error > 0, error, np.inf), 9)  # the same both ways
    is_first = np.array([column.name in first for column in columns])
    clear = (known > 0).all(axis=0) & (strength >= np.where(is_first, 1e-9, LEAST))
    order = sorted(np.flatnonzero(clear).tolist(), key=lambda at: (not is_first[at], -strength[at], columns[at].name))
    return [_contrast(columns[at], means[:, at], known[:, at], float(strength[at])) for at in order[:most]]


def _contrast(column: Column, means: np.ndarray, known: np.ndarray, strength: float) -> Contrast:
    """means, known: (2,)"""
    kind: Literal["number", "share"] = "number" if column.value is None else "share"
    (left, right), (left_known, right_known) = means.tolist(), known.tolist()
    word = _word(column, left > right)
    return Contrast(
        column.name, column.attribute, column.value, kind, left, right, left_known, right_known, strength, word
    )


def _word(column: Column, is_more: bool) -> str | None:
    """A comparative for more, or less, of a number."""
    words = None if column.value is not None else comparatives(column.attribute)
    if words is None:
        return None
    word = words[is_more]
    return word if word.endswith("er") or word == "worse" else f"more {word}"
