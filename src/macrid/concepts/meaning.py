"""What a MacridVAE means to people: axes of its concepts, names, and what knobs do. Saved with the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from macrid.concepts.effects import KnobEffect
from macrid.concepts.names import DimensionName, Names
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE


class Fit(NamedTuple):
    """An axis fitted to an attribute."""

    concept: int
    dimension: int
    attribute: str
    """The name of a column."""
    strength: float
    """Rank correlation on items it was not fitted to, after earlier axes have taken their part."""
    p: float
    """How often the best of as many shuffled attributes does as well; 1 in 200 at the least."""


@dataclass(frozen=True)
class Axes:
    """One kind of axes of a model."""

    by: str
    rotation: np.ndarray = field(repr=False)
    """(concepts, dim, dim); rows are axes, orthonormal."""
    low: np.ndarray | None = field(default=None, repr=False)
    """(concepts, dim) the lowest coordinates of real users; None if no users were available."""
    high: np.ndarray | None = field(default=None, repr=False)
    """(concepts, dim) the highest."""
    fits: tuple[Fit, ...] = ()


@dataclass
class Meaning:
    """Axes and names of one model."""

    axes: dict[str, Axes] = field(default_factory=dict)
    """By kind."""
    in_use: tuple[str, ...] = ()
    """For every concept, the kind that `traverse`, `steer` and names use; the original one if empty."""
    names: Names | None = None
    effects: tuple[KnobEffect, ...] = ()
    """Of the knobs along the axes in use; empty until they are measured."""

    @property
    def dimensions(self) -> tuple[DimensionName, ...]:
        """All dimensions along the axes in use; empty until they are named."""
        return () if self.names is None else self.names.dimensions

    def concept_name(self, concept: int) -> str | None:
        return None if self.names is None else self.names.concept_name(concept)


def meaning_of(model: Recommender) -> Meaning:
    """A model's meaning, empty at first, and always for a model without concepts."""
    if not isinstance(model, MacridVAE):
        return Meaning()
    if model.meaning is None:
        model.meaning = Meaning()
    assert isinstance(model.meaning, Meaning)
    return model.meaning


def unturned(concepts: int, dim: int) -> np.ndarray:
    """The rotations of the original axes: (concepts, dim, dim)."""
    return np.broadcast_to(np.eye(dim, dtype=np.float32), (concepts, dim, dim))
