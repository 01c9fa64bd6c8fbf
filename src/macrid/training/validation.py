"""Validation in several processes: each ranks its users, over its items; the score is that of one process."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from macrid.data.split import HeldOut
from macrid.evaluation.ranking import evaluate
from macrid.models.neural import ENCODED
from macrid.ops.shards import Shards
from macrid.ops.topk import Mixture, pairs, top_scores
from macrid.training.mesh import Mesh
from macrid.training.parallel import DividedHistories

METRIC = "ndcg@100"


def validation_ndcg(model: Any, validation: HeldOut, mesh: Mesh | None) -> float:
    """NDCG@100, the mean over users with something to predict."""
    if mesh is None:
        return evaluate(model, validation, (METRIC,))[METRIC].mean
    users = np.flatnonzero(np.diff(validation.target.indptr) > 0)
    mine = users[mesh.users(len(users))]
    part = HeldOut(validation.history[mine], validation.target[mine], validation.users.take(mine))
    ranked: Any = model if mesh.shards.is_whole else DividedRanking(model, mesh.shards)
    own = evaluate(ranked, part, (METRIC,)).per_user[METRIC]
    everyone = mesh.each(torch.from_numpy(np.asarray(own, dtype=np.float64)).to(mesh.device), len(users))
    return float(everyone.mean())


class DividedRanking:
    """The rankings of a model whose items are divided over processes, which must all ask for the same."""

    def __init__(self, model: Any, shards: Shards) -> None:
        self.model, self.shards = model, shards

    @torch.no_grad()
    def rank(self, histories: sp.csr_array, n: int, hidden: sp.csr_array | None = None) -> tuple[Tensor, Tensor]:
        """As `Recommender.rank`, over all items."""
        decoder, device = self.model.decoder, self.model.device
        at_once = max(1, ENCODED // (decoder.log_assignment.shape[1] * decoder.items.shape[1]))
        positions, log_p = [torch.empty(0, n, dtype=torch.long, device=device)], [decoder.items.new_empty(0, n)]
        for start in range(0, histories.shape[0], at_once):
            users = slice(start, start + at_once)
            own = DividedHistories(histories[users], device, 0.0, self.shards).own.all()
            encoded = self.model.network.encode(own, decoder.log_assignment)
            seen = None if hidden is None else pairs(hidden[users][:, self.shards.rows], device)
            count = min(n, self.shards.count)
            mixture = Mixture(encoded.mean, encoded.log_weights)
            best, scores, log_z = top_scores(decoder, mixture, count, hidden=seen)
            merged = self._merged(best + self.shards.first, scores, n)
            positions.append(merged[0])
            log_p.append(merged[1] - self.shards.log_sum_exp(log_z)[:, None])
        return torch.cat(positions), torch.cat(log_p)

    def _merged(self, positions: Tensor, scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The best of all processes, (users, n) each."""
        counts = [min(n, last - first) for first, last in pairwise(self.shards.bounds)]

        def everyone(own: Tensor) -> Tensor:
            parts = self.shards.each(F.pad(own, (0, max(counts) - own.shape[1])))
            return torch.cat([part[:, :count] for part, count in zip(parts, counts, strict=True)], dim=1)

        best = everyone(scores).topk(n, dim=1)
        return everyone(positions).gather(1, best.indices), best.values
