"""A model with more items than it was trained on."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from macrid.cold.placing import Placed, Strength
from macrid.data.everyone import wider
from macrid.data.ids import Ids
from macrid.models.macridvae import MacridVAE
from macrid.models.neighbours import Neighbours
from macrid.models.results import Placement


@dataclass(frozen=True, eq=False)
class Added:
    """Items that came after training, in order, with all that a model has of an item."""

    ids: Ids
    table: pa.Table | None
    """Columns as those of the trained items; None if these have none."""
    item_vectors: Tensor
    """(new, dim)"""
    context_vectors: Tensor
    """(new, dim)"""
    placements: tuple[Placement, ...]
    strength: Strength
    """Of the latest map."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def popularity(self) -> np.ndarray:
        """The events each was placed by: (new,)."""
        return np.array([placement.events for placement in self.placements], dtype=np.int64)

    @classmethod
    def of(cls, ids: Ids, table: pa.Table | None, placed: Placed, strength: Strength) -> Added:
        return cls(ids, table, placed.item_vectors, placed.context_vectors, placed.how, strength)

    def take(self, places: np.ndarray) -> Added:
        """Some of them, in this order."""
        at = torch.from_numpy(places)
        return Added(
            self.ids.take(places),
            None if self.table is None else self.table.take(pa.array(places)),
            self.item_vectors[at],
            self.context_vectors[at],
            tuple(self.placements[place] for place in places),
            self.strength,
        )

    def followed_by(self, other: Added) -> Added:
        """All items of both."""
        return Added(
            Ids(pa.concat_arrays([self.ids.array, other.ids.array])),
            stacked(self.table, other.table),
            torch.cat([self.item_vectors, other.item_vectors]),
            torch.cat([self.context_vectors, other.context_vectors]),
            self.placements + other.placements,
            other.strength,
        )


def widen(model: MacridVAE, added: Added) -> None:
    """Append items to a model, in place; its names, axes and trained weights stay as they are."""
    network, count = model.network, len(model.items) + len(added)
    model.items = Ids(pa.concat_arrays([model.items.array, added.ids.array]))
    model.table = stacked(model.table, added.table)
    model.popularity = np.concatenate([model.popularity, added.popularity])
    for name in ("item_vectors", "context_vectors"):
        table = getattr(network, name).detach()
        setattr(network, name, nn.Parameter(torch.cat([table, getattr(added, name).to(table)])))
    if model.neighbours is not None:
        model.neighbours = _resized(model.neighbours, count)
    if model.sample is not None:
        model.sample = wider(model.sample, count)
    model.placements = (*model.placements, *added.placements)
    model.map_strength = added.strength
    model.kept_decoder = model.cached = None


def added_of(model: MacridVAE) -> Added | None:
    """The items of a model that came after training, if any."""
    count = model.trained_items
    if count == len(model.items):
        return None
    network = model.network
    vectors = (network.item_vectors.detach()[count:].cpu(), network.context_vectors.detach()[count:].cpu())
    table = None if model.table is None else model.table.slice(count)
    assert isinstance(model.map_strength, Strength)
    return Added(Ids(model.items.array[count:]), table, *vectors, model.placements, model.map_strength)


def narrowed(model: MacridVAE) -> MacridVAE:
    """A copy of the model as it was trained, sharing its tables."""
    count = model.trained_items
    base, network = copy.copy(model), copy.copy(model.network)
    network._parameters = dict(model.network._parameters)
    for name in ("item_vectors", "context_vectors"):
        setattr(network, name, nn.Parameter(getattr(model.network, name).detach()[:count]))
    base.network, base.items = network, Ids(model.items.array[:count])
    base.table = None if model.table is None else model.table.slice(0, count)
    base.popularity, base.placements = model.popularity[:count], ()
    base.validation = model.validation
    if model.neighbours is not None:
        base.neighbours = _resized(model.neighbours, count)
    if model.sample is not None:
        base.sample = sp.csr_array(model.sample[:, :count])
    base.kept_decoder = base.cached = None
    return base


def stacked(first: pa.Table | None, second: pa.Table | None) -> pa.Table | None:
    """One table above the other; a column of whole numbers may become one of decimal numbers."""
    if first is None or second is None:
        return first
    return pa.concat_tables([first, second], promote_options="permissive").combine_chunks()


def _resized(neighbours: Neighbours, items: int) -> Neighbours:
    """For more items, which have no neighbours, or for fewer, if the others have none."""
    offsets = neighbours.offsets[: items + 1]
    more = offsets[-1:].expand(items + 1 - len(offsets))
    return Neighbours(torch.cat([offsets, more]), neighbours.targets, neighbours.weights, items)
