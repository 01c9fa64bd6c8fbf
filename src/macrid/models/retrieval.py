"""Recommendations from large catalogues without scoring every item: a model's index, and how well it does.

An index says which items share a cell (`macrid.ops.cells`). Bounds follow from the model's weights, so they hold even
if the weights or the items have changed since: an exact search is exact with any index.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.errors import RequestError
from macrid.ops.cells import Cells, Grouping, arrange, group
from macrid.ops.search import PROBES, Found, Question, search
from macrid.ops.topk import Mixture, pairs, top

if TYPE_CHECKING:
    from macrid.models.macridvae import MacridVAE

INDEXED_ITEMS = 500_000  # from which a run gets an index: with fewer, scoring everything is about as fast
WORTHWHILE = 16  # questions for which it pays to arrange the items by cell
TOGETHER_ON_GPU = 8  # questions; for more, a GPU scores everything at once in less time
DEEPEST = 0.01  # of all items: longer lists are found by scoring everything
TRIED = 64  # users that an index is tried on
LISTED = 10  # items listed for each of them
RECALL = 0.98
MOST_PROBES = 1024  # cells searched for an approximate list


@dataclass(frozen=True, eq=False)
class Index:
    """How a model finds the best items."""

    grouping: Grouping
    probes: int | None = None
    """Search only this many cells, which is approximate; None: all that may have one of the best items."""
    trial: dict[str, Any] | None = None
    """What it did for some users when it was built."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "exact" if self.probes is None else "approximate",
            "cells": len(self.grouping.directions),
            "probes": self.probes,
            "trial": self.trial,
        }


def build_index(
    model: MacridVAE,
    *,
    approximate: bool = False,
    recall: float = RECALL,
    progress: Callable[[int, int], None] | None = None,
) -> Index:
    """An index of a model's items, tried on users whose histories the model keeps.

    approximate: search as few cells as give this recall, the share of the exact list that is found.
    progress: called with (items done, items).
    """
    model.check_fitted()
    if not 0 < recall <= 1:
        raise RequestError(f"recall is {recall:g}; it must be above 0 and at most 1")
    count = model.trained_items
    with torch.no_grad():
        grouping = group(model.decoder.items[:count], progress=progress)
        cells = arrange(model.decoder, grouping.extended(model.decoder.items))
        index = Index(grouping)
        histories = _tried(model)
        if histories is None:
            if approximate:
                raise RequestError("the model keeps no histories to measure recall on; build an exact index")
            return index
        return _tried_on(model, cells, index, histories, recall if approximate else None)


def find(
    model: MacridVAE,
    cells: Cells,
    histories: sp.csr_array,
    n: int,
    hidden: sp.csr_array | None,
    allowed: np.ndarray | None,
    probes: int | None,
) -> Found:
    """The n best items of each history, by the model's index."""
    device = model.device
    return search(
        model.decoder, cells, question_of(model, histories), n,
        hidden=None if hidden is None else pairs(hidden, device),
        allowed=None if allowed is None else torch.from_numpy(allowed).to(device), probes=probes,
    )  # fmt: skip


def question_of(model: MacridVAE, histories: sp.csr_array) -> Question:
    encoded = model.network.encode(model.to_device(histories), model.decoder.log_assignment)
    linear = None if model.neighbours is None else model.neighbours.sparse_scores(histories)
    return Question(encoded.mean, encoded.log_weights, linear)


class VectorSearch(NamedTuple):
    """A model's scores as inner products, for a vector database.

    Without its linear part, the score of item i is logsumexp_k(queries[k] · vectors[i]) / temperature, up to a constant
    for the user; so the best items are among the best of each query, if lists are long enough.
    """

    vectors: Tensor
    """[h_i, tau · log c_i1, …, tau · log c_iK]: (items, dim + concepts); log c is at least −80"""
    temperature: float

    def queries(self, components: Tensor, log_weights: Tensor | None = None) -> Tensor:
        """[z_k, e_k], asked once for each concept: (…, concepts, dim + concepts).

        components: (…, concepts, dim). To a result of concept k, add tau · log_weights[k].
        """
        concepts = components.shape[-2]
        which = torch.eye(concepts, dtype=components.dtype, device=components.device)
        return torch.cat([components, which.expand(*components.shape[:-2], concepts, concepts)], dim=-1)

    def scores(self, products: Tensor, log_weights: Tensor | None = None) -> Tensor:
        """Scores from products of vectors and queries (…, concepts, items), log Z aside: (…, items)."""
        weighted = products / self.temperature
        weighted = weighted if log_weights is None else weighted + log_weights[..., None]
        return weighted.logsumexp(dim=-2)


@torch.no_grad()
def vector_search(model: MacridVAE) -> VectorSearch:
    """One vector per item, for all concepts: queries choose the concept."""
    decoder = model.decoder
    log_c = decoder.log_assignment.clamp(min=-80.0)
    return VectorSearch(torch.cat([decoder.items, decoder.temperature * log_c], dim=1), decoder.temperature)


def _tried(model: MacridVAE) -> sp.csr_array | None:
    if model.sample is None or not model.sample.shape[0]:
        return None
    return sp.csr_array(model.sample[:TRIED])


def _tried_on(model: MacridVAE, cells: Cells, index: Index, histories: sp.csr_array, recall: float | None) -> Index:
    """With figures measured on some users, and if a recall is wanted, with as many probes as it needs."""
    n = min(LISTED, len(model.items) - int(np.diff(histories.indptr).max()))
    users = histories.shape[0]
    start = time.perf_counter()
    exact = find(model, cells, histories, n, histories, None, None)
    seconds = time.perf_counter() - start
    trial = {
        "users": users,
        "milliseconds": round(1000 * seconds / users, 3),
        "everything": round(1000 * _seconds_of_everything(model, histories[:4], n) / min(4, users), 3),
        "proved_at_once": round(float(exact.at_once.float().mean()), 4),
        "candidates": round(float(exact.candidates.float().mean()), 1),
        "compared": round(float(exact.compared.float().mean()) / len(model.items), 4),
    }
    if recall is None:
        return replace(index, trial=trial)
    probes = PROBES // 4
    while True:
        start = time.perf_counter()
        found = find(model, cells, histories, n, histories, None, probes)
        seconds = time.perf_counter() - start
        reached = float((found.positions[:, :, None] == exact.positions[:, None]).any(dim=2).float().mean())
        if reached >= recall or probes >= min(MOST_PROBES, len(cells)):
            break
        probes *= 2
    trial |= {"recall": round(reached, 4), "wanted": recall, "milliseconds": round(1000 * seconds / users, 3)}
    return replace(index, probes=probes, trial=trial)


def _seconds_of_everything(model: MacridVAE, histories: sp.csr_array, n: int) -> float:
    start = time.perf_counter()
    question = question_of(model, histories)
    mixture: Mixture = question.mixture()
    top(model.decoder, mixture, n, hidden=pairs(histories, model.device))[1].cpu()
    return time.perf_counter() - start
