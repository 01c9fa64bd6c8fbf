"""Ranked lists of held-out users, and what metrics need to know about their items."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.attributes import read_attribute
from macrid.data.ids import first_few
from macrid.errors import RequestError, SettingsError
from macrid.ops.topk import pairs

if TYPE_CHECKING:
    from macrid.models.base import Recommender


class Catalogue:
    """The items of a model as metrics see them; each view is computed once, when first needed."""

    def __init__(self, model: Recommender, items: int) -> None:
        self.model, self.items = model, items
        self._groups: dict[str | None, sp.csr_array] = {}

    @cached_property
    def information(self) -> Tensor:
        """(items,) −log2 of an item's share of all training interactions; an item without any counts as one."""
        counts = np.asarray(self.model.popularity, dtype=np.float64)
        if len(counts) != self.items or counts.sum() == 0:
            raise SettingsError(f"this {type(self.model).__name__} does not know how popular items are; omit novelty")
        return torch.from_numpy(np.log2(counts.sum()) - np.log2(np.maximum(counts, 1)))

    @cached_property
    def directions(self) -> Tensor:
        """(items, dim) item vectors of length 1; zero vectors stay."""
        try:
            vectors = self.model.item_vectors().detach()
        except RequestError:
            raise SettingsError(
                f"{type(self.model).__name__} has no item vectors; name an attribute, such as diversity:genres@10"
            ) from None
        return torch.nn.functional.normalize(vectors, dim=1, eps=1e-12)

    def groups(self, attribute: str | None) -> sp.csr_array:
        """(items, values) rows that add up to 1, or are empty where the attribute is unknown; None: by concept."""
        if attribute not in self._groups:
            self._groups[attribute] = self._concepts() if attribute is None else self._values(attribute)
        return self._groups[attribute]

    def _concepts(self) -> sp.csr_array:
        concepts = self.model.concepts_of_items()
        if concepts is None:
            raise SettingsError(
                f"{type(self.model).__name__} has no concepts; name an attribute, such as calibration:genres@10"
            )
        return sp.csr_array((np.ones(len(concepts)), concepts, np.arange(len(concepts) + 1)))

    def _values(self, name: str) -> sp.csr_array:
        table = self.model.table
        names = [] if table is None else [column for column in table.column_names if column != "title"]
        if table is None or name not in names:
            known = f"items have {first_few(names)}" if names else "items have no attributes"
            raise SettingsError(f"unknown attribute '{name}'; {known}")
        attribute = read_attribute(name, table.column(name))
        if attribute is None:
            raise SettingsError(f"attribute '{name}' defines no groups of items; choose another")
        place = sp.csr_array(
            (np.ones(len(attribute.items)), (attribute.items, np.arange(len(attribute.items)))),
            shape=(self.items, len(attribute.items)),
        )
        return sp.csr_array(place @ attribute.shares)


@dataclass(frozen=True, eq=False)
class Lists:
    """A batch of users: what was ranked for them, and what they were known and hidden to have."""

    positions: Tensor
    """(users, depth) items, best first; those of the history come last."""
    history: sp.csr_array
    target: sp.csr_array
    catalogue: Catalogue = field(repr=False)

    @cached_property
    def hits(self) -> Tensor:
        """(users, depth) 1 where a ranked item is in the target, else 0."""
        return hits_of(self.positions, self.target)

    @cached_property
    def targets(self) -> Tensor:
        """(users,) number of items to predict."""
        return torch.from_numpy(np.diff(self.target.indptr).astype(np.int64)).to(self.positions.device)

    @cached_property
    def lengths(self) -> Tensor:
        """(users,) number of items that are not in the history."""
        seen = torch.from_numpy(np.diff(self.history.indptr).astype(np.int64))
        return self.catalogue.items - seen.to(self.positions.device)

    def shown(self, k: int) -> tuple[Tensor, Tensor]:
        """The first k items, and whether they are recommended rather than of the history: (users, k) each."""
        first = self.positions[:, :k]
        return first, torch.arange(first.shape[1], device=first.device) < self.lengths[:, None]

    def matrix(self, k: int) -> sp.csr_array:
        """(users, items) 1 for the first k."""
        first, shown = (part.cpu().numpy() for part in self.shown(k))
        stops = np.append(0, shown.sum(axis=1).cumsum())
        shape = len(first), self.catalogue.items
        return sp.csr_array((np.ones(stops[-1]), first[shown], stops), shape=shape)


def hits_of(positions: Tensor, target: sp.csr_array) -> Tensor:
    """(users, depth) 1 where a ranked item, of positions (users, depth), is in the target, else 0."""
    users, items = target.shape
    rows, columns = pairs(target, positions.device)
    wanted = (rows * items + columns).sort().values
    ranked = positions + items * torch.arange(users, device=positions.device)[:, None]
    place = torch.searchsorted(wanted, ranked).clamp_(max=len(wanted) - 1)
    return (wanted[place] == ranked).double()
