"""What a MacridVAE has been understood to mean: axes of its concepts, and names. A run keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from macrid.concepts.names import DimensionName, Names
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE


class Fit(NamedTuple):
    """An axis that was fitted to an attribute."""

    concept: int
    dimension: int
    attribute: str
    """The name of a column."""
    strength: float
    """Rank correlation on items that it was not fitted to, along what earlier axes have left."""
    p: float
    """How often the best of as many shuffled attributes does as well; 1 in 200 also stands for less."""


@dataclass(frozen=True)
class Axes:
    """One kind of axes of a model."""

    by: str
    rotation: np.ndarray = field(repr=False)
    """(concepts, dim, dim); rows are axes, orthonormal."""
    low: np.ndarray | None = field(default=None, repr=False)
    """(concepts, dim) where the coordinates of real users begin; None if no users were at hand."""
    high: np.ndarray | None = field(default=None, repr=False)
    """(concepts, dim) where they end."""
    fits: tuple[Fit, ...] = ()


@dataclass
class Meaning:
    """Axes and names of one model."""

    axes: dict[str, Axes] = field(default_factory=dict)
    """By their kind."""
    in_use: tuple[str, ...] = ()
    """The kind that `traverse`, `steer` and names go by, for every concept; the original one if empty."""
    names: Names | None = None

    @property
    def dimensions(self) -> tuple[DimensionName, ...]:
        """What is known about each dimension along the axes in use; empty before it has been named."""
        return () if self.names is None else self.names.dimensions

    def concept_name(self, concept: int) -> str | None:
        return None if self.names is None else self.names.concept_name(concept)


def meaning_of(model: Recommender) -> Meaning:
    """A model's meaning, empty at first; a model without concepts never has any."""
    if not isinstance(model, MacridVAE):
        return Meaning()
    if model.meaning is None:
        model.meaning = Meaning()
    assert isinstance(model.meaning, Meaning)
    return model.meaning


def unturned(concepts: int, dim: int) -> np.ndarray:
    """The rotations of the original axes: (concepts, dim, dim)."""
    return np.broadcast_to(np.eye(dim, dtype=np.float32), (concepts, dim, dim))
