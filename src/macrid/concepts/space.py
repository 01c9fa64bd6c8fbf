"""A trained MacridVAE as people look at it and move it: vectors and concepts of items, worked out once, and the axes.

Every score is made of inner products z_k · h_i and h_i · m_k. Turning all vectors of one concept by the same rotation
changes none of them, so each concept may be looked at along axes of its own: `axes[k] @ vector` are its coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.concepts.meaning import Axes, Meaning, meaning_of, unturned
from macrid.data.attributes import Column, columns_of
from macrid.errors import MacridError, RequestError
from macrid.models.base import Recommender, ScoredItem
from macrid.models.devices import on_device
from macrid.models.macridvae import MacridVAE
from macrid.ops.topk import Decoder

if TYPE_CHECKING:
    from macrid.concepts.directions import Direction

SEEN = (1, 99)  # percentiles of users between which a coordinate is usual
FEWEST_USERS = 20
TYPICAL = 3  # items that stand for a concept


@dataclass(frozen=True)
class Space:
    """What does not change while a model is looked at."""

    model: MacridVAE
    decoder: Decoder
    version: tuple[Any, ...]
    """Of the weights and the items table that it was worked out from."""
    towards: dict[str, list[Direction]] = field(default_factory=dict, repr=False)
    """Directions of attributes that were asked for."""
    _turned: dict[int, tuple[Axes | None, np.ndarray]] = field(default_factory=dict, repr=False)

    @property
    def log_assignment(self) -> Tensor:
        """(items, concepts) on the model's device."""
        return self.decoder.log_assignment

    @cached_property
    def items(self) -> np.ndarray:
        """(items, dim), of length 1 where only directions matter."""
        return self.decoder.items.cpu().numpy()

    @cached_property
    def prototypes(self) -> np.ndarray:
        """(concepts, dim), of length 1 where only directions matter."""
        network = self.model.network
        return network.direction(network.prototypes.detach()).cpu().numpy()

    @property
    def concept_of(self) -> np.ndarray:
        """(items,) the most likely concept."""
        return self.decoder.likeliest

    @cached_property
    def concepts(self) -> int:
        return self.log_assignment.shape[1]

    @cached_property
    def dim(self) -> int:
        return self.decoder.items.shape[1]

    @property
    def meaning(self) -> Meaning:
        return meaning_of(self.model)

    @property
    def is_cosine(self) -> bool:
        return self.model.settings.similarity == "cosine"

    @cached_property
    def columns(self) -> list[Column]:
        """What is known about the items and tells some from others, words of titles aside."""
        return [column for column in columns_of(self.model) if column.is_usable()]

    def own(self, concept: int) -> np.ndarray:
        """Positions of a concept's items."""
        return self._own[concept]

    @cached_property
    def _own(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.concept_of == k) for k in range(self.concepts)]

    def typical_items(self) -> list[tuple[ScoredItem, ...]]:
        """A few of every concept: of the more popular half of its own items those surest to be in it."""
        popularity, found = self.model.popularity, []
        for k in range(self.concepts):
            own = self.own(k)
            known = own[popularity[own] >= np.median(popularity[own])] if len(own) else own
            order = np.lexsort((-popularity[known], -np.round(self._assignment[known, k], 2)))
            chosen = known[order[:TYPICAL]]
            found.append(self.model.describe(chosen, np.zeros(len(chosen))))
        return found

    def turned(self, concept: int) -> np.ndarray:
        """The vectors of a concept's items along its axes in use: (n, dim). Do not change them."""
        axes = self.axes_in_use(concept)
        found = self._turned.get(concept)
        if found is None or found[0] is not axes:
            own = self.items[self.own(concept)]
            found = self._turned[concept] = axes, own if axes is None else own @ axes.rotation[concept].T
        return found[1]

    def components(self, histories: sp.csr_array) -> np.ndarray:
        """Of many users: (users, concepts, dim)."""
        with torch.no_grad(), on_device(self.model.device):
            return self.model.network.components(self.model.to_device(histories), self.log_assignment).cpu().numpy()

    def confidence(self, histories: sp.csr_array) -> np.ndarray:
        """(users, concepts)"""
        return histories @ self._assignment

    @cached_property
    def _assignment(self) -> np.ndarray:
        return self.log_assignment.exp().cpu().numpy()

    def axes(self, concept: int) -> np.ndarray:
        """Those in use, as rows: (dim, dim)."""
        found = self.axes_in_use(concept)
        return np.eye(self.dim, dtype=np.float32) if found is None else found.rotation[concept]

    def axes_in_use(self, concept: int) -> Axes | None:
        """None for the original ones."""
        meaning = self.meaning
        return None if not meaning.in_use else meaning.axes.get(meaning.in_use[concept])

    def range_of(self, concept: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Between which coordinates real users are, along the axes in use: (dim,) each; None if that is not known."""
        axes = self.axes_in_use(concept) or self.original
        return None if axes.low is None or axes.high is None else (axes.low[concept], axes.high[concept])

    @cached_property
    def original(self) -> Axes:
        """Those of the training."""
        same = Axes("original", unturned(self.concepts, self.dim))
        return self.meaning.axes.get("original") or with_range(same, self, self.model.sample)

    @cached_property
    def log_terms(self) -> Tensor:
        """log c_ik as (concepts, items), on the model's device."""
        return self.log_assignment.t().contiguous()

    def numbered(self, concept: int | str) -> int:
        """The number of a concept, given as such or by its name."""
        if isinstance(concept, str):
            names = self.meaning.names
            known = [] if names is None else [entry.name for entry in names.concepts]
            found = [k for k, name in enumerate(known) if name is not None and name.casefold() == concept.casefold()]
            if len(found) != 1:
                told = ", ".join(f"{k} {name}" for k, name in enumerate(known) if name is not None)
                wrong = f"several concepts are called '{concept}'" if found else f"no concept '{concept}'"
                raise RequestError(
                    f"{wrong}; {f'there are {told}' if told else f'give a number up to {self.concepts - 1}'}"
                )
            return found[0]
        self.check(concept)
        return int(concept)

    def check(self, concept: int, dimension: int | None = None) -> None:
        """A `RequestError` for numbers that do not exist."""
        for what, number, count in (("concept", concept, self.concepts), ("dimension", dimension, self.dim)):
            if number is None and what == "dimension":
                continue
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < count:
                raise RequestError(f"{what} is {number!r}; this model has {what}s 0 to {count - 1}")


def with_range(axes: Axes, space: Space, histories: sp.csr_array | None) -> Axes:
    """With the range of the coordinates of these users, those who have a concept telling of it."""
    if histories is None or not histories.shape[0]:
        return axes
    components, confidence = space.components(histories), space.confidence(histories)
    ends = [seen(components[:, k], confidence[:, k], axes.rotation[k]) for k in range(space.concepts)]
    low, high = np.stack(ends, axis=1).astype(np.float32)
    return replace(axes, low=low, high=high)


def seen(components: np.ndarray, confidence: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Where users begin and end along directions (…, dim) in one concept: (2, …).

    Of the components (users, dim) those of users with an item's worth of the concept in their history, if they are
    enough; confidence: (users,).
    """
    chosen = confidence >= 1
    chosen = chosen if chosen.sum() >= FEWEST_USERS else np.ones(len(chosen), dtype=bool)
    return np.percentile(components[chosen] @ directions.T, SEEN, axis=0)


def digest(axis: np.ndarray) -> str:
    """A few letters by which an axis is known again: the same for the same axis, whatever its number."""
    return sha256(np.round(1000 * axis).astype(np.int16).tobytes()).hexdigest()[:12]


def space_of(model: Recommender) -> Space:
    """Of a trained model; worked out again only when the model has changed."""
    model.check_fitted()
    if not isinstance(model, MacridVAE):
        raise MacridError(f"{type(model).__name__} has no concepts to look at or move; train a macridvae")
    version = model.version(), id(model.table), id(model.popularity)
    known = model.cached
    if known is None or known.model is not model or known.version != version:
        space = Space(model, model.decoder, version)
        if model.is_training:
            return space
        model.cached = space
    assert isinstance(model.cached, Space)
    return model.cached
