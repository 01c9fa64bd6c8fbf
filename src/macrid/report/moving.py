"""The best items of many users while their components move, a few concepts at a time.

Along a knob only the components of some concepts change: what the other concepts add to an item's score is computed
once for all knobs of these concepts, and all positions of a knob are ranked together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.control.state import faded
from macrid.models.neighbours import Neighbours
from macrid.ops.topk import BLOCK, Decoder, best_of, pairs


@dataclass(frozen=True, eq=False)
class Moving:
    """Some users before moves, and some items: item i scores log sum_k w_k c_ik exp(z_k · h_i / tau) + l_i."""

    decoder: Decoder
    components: np.ndarray
    """(users, concepts, dim)"""
    log_weights: np.ndarray
    """(users, concepts)"""
    histories: sp.csr_array
    """(users, all items)"""
    items: np.ndarray
    """Positions of the items to choose from."""
    neighbours: Neighbours | None = None
    _rest: dict[tuple[int, ...], Tensor] = field(default_factory=dict, repr=False)

    @torch.no_grad()
    def best(self, components: np.ndarray, concepts: Sequence[int], n: int) -> np.ndarray:
        """The n best unseen items as positions in `items`: (users, positions, n).

        components: (positions, users, concepts, dim), which differ from those before moves in these concepts only.
        """
        at_once = max(1, BLOCK["cpu"] // max(1, components.shape[1] * len(self.items)))
        parts = [
            self._best(components[start : start + at_once], tuple(sorted(set(concepts))), n)
            for start in range(0, len(components), at_once)
        ]
        return np.concatenate(parts, axis=1)

    def _best(self, components: np.ndarray, concepts: tuple[int, ...], n: int) -> np.ndarray:
        z = torch.from_numpy(np.ascontiguousarray(components)).to(self._vectors)  # (positions, users, concepts, dim)
        scores = self._apart_from(concepts).expand(len(z), -1, -1)
        for k in concepts:
            scores = torch.logaddexp(scores, self._term(z[:, :, k], k))
        if self._linear is not None:
            factor = faded((self._z, self._log_w), (z, self._log_w), self.decoder.temperature)  # (positions, users)
            scores = scores + factor[..., None] * self._linear
        rows, columns = self._seen
        repeats = torch.arange(len(z), device=rows.device)[:, None] * z.shape[1]
        hidden = (repeats + rows).flatten(), columns.expand(len(z), -1).flatten()
        scores = scores.reshape(-1, len(self.items)).clone() if not len(concepts) else scores.flatten(0, 1)
        best = best_of(scores, n, hidden=hidden)[1].view(len(z), -1, n)
        return best.transpose(0, 1).cpu().numpy()

    def _term(self, z: Tensor, k: int) -> Tensor:
        """What concept k adds, in logs: (…, users, items); z: (…, users, dim)."""
        products = (z / self.decoder.temperature) @ self._vectors.t()
        return products.add_(self._log_w[:, k, None]).add_(self._log_assignment[:, k])

    def _apart_from(self, concepts: tuple[int, ...]) -> Tensor:
        """What all other concepts add: (users, items)."""
        if concepts not in self._rest:
            rest = self._vectors.new_full((len(self._z), len(self.items)), -torch.inf)
            for k in range(self._z.shape[1]):
                if k not in concepts:
                    rest = torch.logaddexp(rest, self._term(self._z[:, k], k))
            self._rest.clear()  # knobs of the same concepts follow each other
            self._rest[concepts] = rest
        return self._rest[concepts]

    @cached_property
    def _chosen(self) -> Tensor | slice:
        everything = len(self.items) == len(self.decoder.items)
        return slice(None) if everything else torch.from_numpy(self.items).to(self.decoder.items.device)

    @cached_property
    def _vectors(self) -> Tensor:
        return self.decoder.items[self._chosen]

    @cached_property
    def _log_assignment(self) -> Tensor:
        return self.decoder.log_assignment[self._chosen]

    @cached_property
    def _z(self) -> Tensor:
        return torch.from_numpy(self.components).to(self._vectors)

    @cached_property
    def _log_w(self) -> Tensor:
        return torch.from_numpy(self.log_weights).to(self._vectors)

    @cached_property
    def _linear(self) -> Tensor | None:
        """The part that is linear in histories, before moves: (users, items)."""
        return None if self.neighbours is None else self.neighbours.scores(self.histories)[:, self._chosen]

    @cached_property
    def _seen(self) -> tuple[Tensor, Tensor]:
        return pairs(sp.csr_array(self.histories[:, self.items]), self._vectors.device)
