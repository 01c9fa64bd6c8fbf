"""Moves: changes to a user, in a form that can be stored and sent.

{"concept": 2, "dimension": 3, "to": 0.4}        set a coordinate of the component
{"concept": 2, "dimension": 3, "by": -0.1}       change a coordinate by an amount
{"towards": "year", "amount": 0.5}               along an attribute, in every concept that predicts it; −0.5 leads away
{"concept": 2, "towards": "size", "amount": 1}   in one concept only
{"concept": 2, "share": 0.6}                     a concept's share of the recommendations
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from macrid.errors import RequestError

SHAPES = "{concept, dimension, to}, {concept, dimension, by}, {towards, amount} or {concept, share}"


@dataclass(frozen=True)
class Move:
    """One change. Exactly one of `to`, `by`, `amount` and `share` says how far."""

    concept: int | str | None = None
    """Number or name."""
    dimension: int | str | None = None
    """Number or name."""
    to: float | None = None
    by: float | None = None
    towards: str | None = None
    """The name of an attribute, such as "year" or "genres: Comedy"."""
    amount: float | None = None
    """1 is half the range of real users; negative amounts lead away."""
    share: float | None = None
    axis: str | None = None
    """Fingerprint of a numbered dimension's axis. `steer` adds it: a stored move keeps its meaning when axes turn."""
    name: str | None = None
    """Of a numbered dimension. `steer` adds both names: a stored move can be carried over to another run."""
    concept_name: str | None = None
    """Of a numbered concept."""

    def __post_init__(self) -> None:
        for name in ("to", "by", "amount", "share"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise RequestError(f"{name} is {value!r}; give a number")
            if not _is_finite(value):
                raise RequestError(f"{name} is {value!s:.40}; give a finite number")
        if self.towards is not None and not isinstance(self.towards, str):
            raise RequestError(f"towards is {self.towards!r}; give the name of an attribute")
        if self.share is not None and not 0 <= self.share <= 1:
            raise RequestError(f"share is {self.share}; give a number from 0 to 1")
        far = [name for name in ("to", "by", "amount", "share") if getattr(self, name) is not None]
        along = self.dimension is not None, self.towards is not None
        shapes = {"to": (True, False), "by": (True, False), "amount": (False, True), "share": (False, False)}
        if len(far) != 1 or shapes[far[0]] != along or (self.towards is None and self.concept is None):
            raise RequestError(f"a move is one of {SHAPES}; this one is {self.as_json() or 'empty'}")

    def as_json(self) -> dict[str, Any]:
        """Without the fields that are None."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in fields.items()}

    @classmethod
    def read(cls, value: Move | Mapping[str, Any]) -> Self | Move:
        """The inverse of `as_json`."""
        if isinstance(value, Move):
            return value
        if not isinstance(value, Mapping):
            raise RequestError(f"a move is one of {SHAPES}, not {value!r}")
        unknown = [str(name) for name in value if name not in cls.__dataclass_fields__]
        if unknown:
            raise RequestError(f"a move has no '{unknown[0]}'; it is one of {SHAPES}")
        return cls(**value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of more than 300 digits
        return False
