"""A trained MacridVAE as people see it and move it: item vectors and concepts, computed once, and the axes in use.

Every score is made of inner products z_k · h_i and h_i · m_k. Rotating all vectors of one concept together changes none
of them, so each concept can have axes of its own: `axes(k) @ vector` gives the coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from macrid.concepts.meaning import Axes, Fit, Meaning, meaning_of, unturned
from macrid.concepts.names import check_number
from macrid.data.attributes import Attribute, Column, columns_of, read_attributes
from macrid.errors import MacridError, RequestError
from macrid.models.base import Recommender
from macrid.models.devices import on_device
from macrid.models.macridvae import MacridVAE
from macrid.models.results import ScoredItem
from macrid.ops.topk import Decoder

if TYPE_CHECKING:
    from macrid.concepts.directions import Direction
    from macrid.concepts.facts import Facts

USER_PERCENTILES = (1, 99)  # the range of real users along an axis
FEWEST_USERS = 20  # that a range is computed from
TYPICAL = 3  # items that represent a concept
SHARED = 0.25  # of the share of an item's best concept, that a second one needs to be shown


@dataclass(frozen=True)
class Space:
    """Everything about a model that stays the same until its weights change."""

    model: MacridVAE
    decoder: Decoder
    version: tuple[Any, ...]
    """Of the weights and the items table it was computed from."""
    towards: dict[str, list[Direction]] = field(default_factory=dict, repr=False)
    """Cached directions of attributes."""
    facts: dict[int, Facts] = field(default_factory=dict, repr=False)
    """Cached attributes of each concept's items."""
    _turned: dict[int, tuple[Axes | None, np.ndarray]] = field(default_factory=dict, repr=False)
    _sample: list[tuple[sp.csr_array, tuple[np.ndarray, np.ndarray]]] = field(default_factory=list, repr=False)

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
        """(concepts, dim), of length 1 where similarity is cosine."""
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
        """Attributes that distinguish items, without the words of titles."""
        return [column for column in columns_of(self.model, attributes=self.attributes) if column.is_usable()]

    @cached_property
    def attributes(self) -> list[Attribute]:
        """Of the items, as groups."""
        return read_attributes(self.model.table)

    def members(self, concept: int) -> np.ndarray:
        """Positions of a concept's items."""
        return self._members[concept]

    @cached_property
    def _members(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.concept_of == k) for k in range(self.concepts)]

    def is_popular(self, concept: int) -> np.ndarray:
        """Whether a concept's items are in its more popular half: (members,)."""
        popularity = self.model.popularity[self.members(concept)]
        return popularity >= (np.median(popularity) if len(popularity) else 0)

    def typical_items(self, most: int = TYPICAL) -> list[tuple[ScoredItem, ...]]:
        """A few for each concept: those that most people chose and that belong to it much more than to any other."""
        weights = np.maximum(self.model.popularity, 1) * (self._assignment.max(axis=1) - self.second[1])
        orders = (members[np.argsort(-weights[members], kind="stable")] for members in self._members)
        return [self.described(order[:most]) for order in orders]

    @cached_property
    def second(self) -> tuple[np.ndarray, np.ndarray]:
        """The second most likely concept of each item, and how likely it is: (items,) each."""
        others = self._assignment.copy()
        np.put_along_axis(others, self.concept_of[:, None], 0, axis=1)
        return others.argmax(axis=1), others.max(axis=1)

    @cached_property
    def is_shared(self) -> np.ndarray:
        """(items,) whether an item belongs to a second concept too."""
        return np.asarray(self.second[1] >= SHARED * self._assignment.max(axis=1))

    def described(self, positions: np.ndarray) -> tuple[ScoredItem, ...]:
        """Items with their titles and concepts, and no score."""
        return self.model.describe(positions, np.zeros(len(positions)))

    def turned(self, concept: int) -> np.ndarray:
        """The vectors of a concept's items along its axes in use: (members, dim). Do not modify them."""
        axes = self.axes_in_use(concept)
        cached = self._turned.get(concept)
        if cached is None or cached[0] is not axes:
            vectors = self.items[self.members(concept)]
            cached = self._turned[concept] = axes, vectors if axes is None else vectors @ axes.rotation[concept].T
        return cached[1]

    def components(self, histories: sp.csr_array) -> np.ndarray:
        """(users, concepts, dim)"""
        return self.encode(histories)[0]

    @property
    def sample(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Components and confidence of the users that the model keeps, encoded once; None if there are none."""
        users = self.model.sample
        if users is None:
            return None
        if not self._sample or self._sample[0][0] is not users:
            self._sample[:] = [(users, (self.components(users), self.confidence(users)))]
        return self._sample[0][1]

    def encode(self, histories: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Components (users, concepts, dim), and the log of each concept's weight (users, concepts)."""
        with on_device(self.model.device):
            mean, _, log_weights = self.model.network.encode(self.model.to_device(histories), self.log_assignment)
        weights = mean.new_zeros(mean.shape[:2]) if log_weights is None else log_weights
        return mean.cpu().numpy(), weights.cpu().numpy()

    def confidence(self, histories: sp.csr_array) -> np.ndarray:
        """(users, concepts)"""
        return histories @ self._assignment

    @cached_property
    def _assignment(self) -> np.ndarray:
        return self.log_assignment.exp().cpu().numpy()

    def axes(self, concept: int) -> np.ndarray:
        """The axes in use, as rows: (dim, dim)."""
        axes = self.axes_in_use(concept)
        return np.eye(self.dim, dtype=np.float32) if axes is None else axes.rotation[concept]

    def axes_in_use(self, concept: int) -> Axes | None:
        """None for the original axes."""
        in_use = self.meaning.in_use
        return self.meaning.axes.get(in_use[concept]) if in_use else None

    def fits(self, concept: int) -> list[Fit]:
        """Those of the axes in use."""
        axes = self.axes_in_use(concept)
        return [] if axes is None else [fit for fit in axes.fits if fit.concept == concept]

    def range_of(self, concept: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The lowest and highest coordinates of real users along the axes in use: (dim,) each; None if unknown."""
        axes = self.axes_in_use(concept) or self.original
        return None if axes.low is None or axes.high is None else (axes.low[concept], axes.high[concept])

    @cached_property
    def original(self) -> Axes:
        """The axes that training produced."""
        axes = Axes("original", unturned(self.concepts, self.dim))
        return self.meaning.axes.get("original") or with_range(axes, self, self.model.sample)

    @cached_property
    def log_terms(self) -> Tensor:
        """log c_ik as (concepts, items), on the model's device."""
        return self.log_assignment.t().contiguous()

    def concept_number(self, concept: int | str) -> int:
        """The number of a concept given by number or name."""
        if isinstance(concept, str):
            names = self.meaning.names
            entries = () if names is None else names.concepts
            named = {entry.concept: entry.name for entry in entries if entry.name is not None}
            matches = [k for k, name in named.items() if name.casefold() == concept.casefold()]
            if len(matches) != 1:
                problem = f"several concepts are called '{concept}'" if matches else f"no concept '{concept}'"
                choices = "there are " + ", ".join(f"{k} {name}" for k, name in named.items())
                raise RequestError(f"{problem}; {choices if named else f'give a number up to {self.concepts - 1}'}")
            return matches[0]
        self.check(concept)
        return int(concept)

    def check(self, concept: int, dimension: int | None = None) -> None:
        """Raise a `RequestError` for numbers that do not exist."""
        check_number("concept", concept, self.concepts)
        if dimension is not None:
            check_number("dimension", dimension, self.dim)


def with_range(axes: Axes, space: Space, histories: sp.csr_array | None) -> Axes:
    """With the range of these users' coordinates; `user_range` says which of them count."""
    if histories is None or not histories.shape[0]:
        return axes
    components, confidence = space.components(histories), space.confidence(histories)
    ends = [user_range(components[:, k], confidence[:, k], axes.rotation[k]) for k in range(space.concepts)]
    low, high = np.stack(ends, axis=1).astype(np.float32)
    return replace(axes, low=low, high=high)


def user_range(components: np.ndarray, confidence: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The lowest and highest coordinates of users along directions (…, dim) of one concept: (2, …).

    Users count who have at least one item's worth of the concept in their history, or everybody if those are too few.
    components: (users, dim). confidence: (users,).
    """
    chosen = confidence >= 1
    chosen = chosen if chosen.sum() >= FEWEST_USERS else np.ones(len(chosen), dtype=bool)
    return np.percentile(components[chosen] @ directions.T, USER_PERCENTILES, axis=0)


def draw(positions: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """All positions, or as many as allowed, drawn at random and in order."""
    return positions if len(positions) <= most else np.sort(random.choice(positions, most, replace=False))


def digest(axis: np.ndarray) -> str:
    """A short fingerprint of an axis, whatever its number."""
    return sha256(np.round(1000 * axis).astype(np.int16).tobytes()).hexdigest()[:12]


def space_of(model: Recommender) -> Space:
    """The space of a trained model; computed again only when the model has changed."""
    model.check_fitted()
    if not isinstance(model, MacridVAE):
        raise MacridError(f"{type(model).__name__} has no concepts to look at or move; train a macridvae")
    version = model.version(), id(model.table), id(model.popularity)
    cached = model.cached
    if cached is None or cached.model is not model or cached.version != version:
        space = Space(model, model.decoder, version)
        if model.is_training:
            return space
        model.cached = space
    assert isinstance(model.cached, Space)
    return model.cached
