"""One training step in several processes, with the result of one process (`macrid.training.step`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from macrid.data.interactions import are_weighted, binary_csr
from macrid.models.macridvae import LocalTables, Noise
from macrid.ops import kernels
from macrid.ops.batches import DeviceHistories, relative
from macrid.ops.sampled import Local, Sampler, gather
from macrid.ops.sharded import some_users
from macrid.ops.shards import TABLES, Shards
from macrid.ops.sparse import Dropout, Histories
from macrid.settings import TrainingSettings
from macrid.training.adam import Adam
from macrid.training.mesh import Mesh
from macrid.training.step import products

BLOCK = 1 << 24  # interactions read at once


class DividedHistories:
    """The interactions with the items of one process, and how long histories are as a whole."""

    def __init__(self, matrix: sp.csr_array, device: torch.device, balance: float, shards: Shards) -> None:
        self.users, self.balance, self.shards = matrix.shape[0], balance, shards
        self.counts = torch.from_numpy(np.diff(matrix.indptr).astype(np.int64)).to(device)  # (users,)
        if shards.is_whole:
            self.own = DeviceHistories(matrix, device, balance)
            return
        places = _places(matrix, shards)
        starts = np.searchsorted(places, matrix.indptr)
        columns = (matrix.indices[places] - shards.first).astype(np.int32)
        self.own = DeviceHistories(binary_csr(starts, columns, (self.users, shards.count)), device, balance)
        before = (places - np.repeat(matrix.indptr[:-1], np.diff(starts))).astype(np.int32)
        self.before = torch.from_numpy(before).to(device)
        """(interactions,) how many of a user's items come before each, whoever has them."""
        totals = np.diff(matrix.indptr).astype(np.float32)
        if are_weighted(matrix):
            values = relative(matrix).data
            totals = np.add.reduceat(np.append(values, np.float64(0)), matrix.indptr[:-1]) * (totals > 0)
            self.own.values = torch.from_numpy(values[places]).to(device)
        self.own.totals = torch.from_numpy(totals.astype(np.float32)).to(device)  # of whole histories

    @property
    def starts(self) -> Tensor:
        return self.own.starts

    def plan(self, batches: Sequence[Tensor]) -> None:
        """Nothing: all interactions are on the device."""

    def sizes(self, batches: Sequence[Tensor]) -> list[int]:
        """The number of interactions of each batch of users, with any item."""
        return torch.stack([self.counts[users].sum() for users in batches]).tolist()

    def popularity(self) -> Tensor:
        """The users of every item of the catalogue: (items,)"""
        own = torch.bincount(self.own.items, minlength=self.shards.count)
        if self.shards.is_whole:
            return own
        longest = max(stop - start for start, stop in zip(self.shards.bounds, self.shards.bounds[1:], strict=False))
        parts = self.shards.each(torch.nn.functional.pad(own, (0, longest - len(own))))
        sizes = np.diff(self.shards.bounds).tolist()
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def whole(self, users: Tensor, interactions: int | None = None) -> Histories:
        """The batch as one process would see it, without its items: lengths, mass and weights."""
        counts = self.counts[users]
        ends = counts.cumsum(0)
        totals = None if self.own.totals is None else self.own.totals[users]
        nothing = torch.empty(1, device=users.device).expand(int(ends[-1]) if interactions is None else interactions)
        return Histories(nothing, ends - counts, ends, self.own.longest, None, self.balance, totals=totals)

    def noise_of(self, noise: Noise, whole: Histories, users: Tensor, mine: slice, histories: Histories) -> Noise:
        """What was drawn for a whole batch, for some of its users and the items of this process."""
        keep = noise.keep
        if isinstance(keep, Dropout):
            keep = keep._replace(seed=keep.seed + self.shards.index)  # positions are those of this process
        elif keep is not None and self.shards.is_whole:
            keep = keep[int(whole.starts[mine][0]) : int(whole.stops[mine][-1])]
        elif keep is not None:
            rows = histories.own_rows
            at = torch.arange(len(rows), device=rows.device) - histories.starts[rows]
            keep = keep[whole.starts[mine][rows] + self.before[self.starts[users[mine]][rows] + at]]
        normal = None if noise.normal is None else noise.normal[mine]
        return Noise(noise.gumbel, normal, keep, tuple(mask[mine] for mask in noise.keep_hidden))


def _places(matrix: sp.csr_array, shards: Shards) -> np.ndarray:
    """Where a matrix has items of this process, a block at a time: it may be larger than memory."""
    first, last, found = shards.first, shards.first + shards.count, [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(matrix.indices), BLOCK):
        items = matrix.indices[start : start + BLOCK]
        found.append(np.flatnonzero((items >= first) & (items < last)) + start)
    return np.concatenate(found)


class ParallelStep:
    """Updates the network of this process from its part of a batch of users."""

    def __init__(
        self,
        network: Any,
        optimiser: Adam,
        data: DividedHistories,
        generator: Generator,
        settings: TrainingSettings,
        mesh: Mesh,
    ) -> None:
        self.network, self.optimiser, self.data, self.generator = network, optimiser, data, generator
        self.settings, self.mesh, self.shards = settings, mesh, mesh.shards
        self.beta = torch.zeros((), device=data.starts.device)
        self._sampler = None
        if settings.likelihood == "sampled":
            self._sampler = Sampler(data.popularity(), settings.sampling)

    def __call__(self, users: Tensor, interactions: int | None = None) -> Tensor:
        """Loss and KL of the whole batch before the step, means per user: (2,)."""
        with products(self.network.precision, self.beta.device):
            self.optimiser.zero_grad()
            return self._exact(users) if self._sampler is None else self._sampled(users, interactions)

    def _exact(self, users: Tensor) -> Tensor:
        mine, size = self.mesh.users(len(users)), 0 if kernels.serve(users) else None  # kernels draw a seed only
        whole = self.data.whole(users, size)
        items = {} if self.shards.is_whole else {"items": self.shards.items}
        noise = self.network.draw_noise(whole, self.generator, **items)
        loss = self.beta.new_zeros(2)
        if mine.start < mine.stop:
            histories = replace(self.data.own.batch(users[mine]), user_weights=whole.weights[mine])
            own = self.data.noise_of(noise, whole, users, mine, histories)
            if not self.shards.is_whole and own.gumbel is not None:
                own = replace(own, gumbel=own.gumbel[self.shards.rows])
            loss = self._backward(histories, own, len(users))
        return self._step(loss)

    def _sampled(self, users: Tensor, interactions: int | None) -> Tensor:
        network, mine = self.network, self.mesh.users(len(users))
        assert self._sampler is not None
        whole = self.data.whole(users, interactions)
        histories = self.data.own.copied(users, interactions if self.shards.is_whole else None)
        histories = replace(histories, user_weights=whole.weights)
        within = None if self.shards.is_whole else self.shards.rows
        local = gather(histories, self._sampler, self.settings.negatives, self.generator, within)
        rows, count = local.rows, local.count
        local, noise = self._drawn(local, whole)
        tables = network.item_vectors, network.context_vectors
        parts = [table.detach()[local.rows].requires_grad_() for table in tables]
        loss = self.beta.new_zeros(2)
        if mine.start < mine.stop:
            part = some_users(local.histories, mine)
            own = self.data.noise_of(noise, whole, users, mine, part)
            local = replace(local, histories=part, hidden=local.hidden[mine])
            loss = self._backward(part, own, len(users), LocalTables(parts[0], parts[1], local))
        gradients = [torch.zeros_like(part) if part.grad is None else part.grad for part in parts]
        by_rows = {table: part[: len(rows)] for table, part in zip(tables, gradients, strict=True)}
        return self._step(loss, by_rows, rows, count)

    def _drawn(self, local: Local, whole: Histories) -> tuple[Local, Noise]:
        """The noise of a sampled step, and what it is for: at least one row."""
        if self.shards.is_whole:
            return local, self.network.draw_noise(local.histories, self.generator, items=len(local.rows))
        device = local.rows.device
        counts = torch.cat(self.shards.each(torch.tensor([len(local.rows)], device=device))).tolist()
        rows, first = sum(counts), sum(counts[: self.shards.index])
        if kernels.serve(local.rows):  # where a single process has a buffer of fixed size
            rows = min(len(whole.items) + self.settings.negatives, self.shards.items)
        noise = self.network.draw_noise(whole, self.generator, items=rows)
        assert noise.gumbel is not None
        gumbel = noise.gumbel[first : first + len(local.rows)]
        if not len(local.rows):
            local = replace(local, rows=local.rows.new_zeros(1), count=torch.tensor(0, device=device))
            gumbel = noise.gumbel.new_zeros(1, noise.gumbel.shape[1])
        return local, replace(noise, gumbel=gumbel)

    def _backward(self, histories: Histories, noise: Noise, users: int, *tables: LocalTables) -> Tensor:
        """Gradients of this process's part of the loss, and that part of loss and KL: (2,)"""
        loss = self.network.loss(histories, noise, self.beta, *tables)
        share = histories.batch / users
        (loss.total * share).backward()
        return torch.stack([loss.total.detach(), loss.kl.detach()]) * share

    def _step(
        self,
        loss: Tensor,
        by_rows: dict[Tensor, Tensor] | None = None,
        rows: Tensor | None = None,
        count: Tensor | None = None,
    ) -> Tensor:
        """Adam with the sums of all gradients; the loss of the whole batch."""
        by_rows = by_rows or {}
        whole = {name: p for name, p in self.network.named_parameters() if p not in set(by_rows)}
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in whole.values()]
        loss, *sums = self.mesh.add([loss, *gradients, *by_rows.values()])
        for parameter, gradient in zip(whole.values(), sums, strict=False):
            parameter.grad = gradient
        by_rows = dict(zip(by_rows, sums[len(whole) :], strict=True))
        norm = None
        if not self.shards.is_whole:
            of_rows = [p.grad for name, p in whole.items() if name in TABLES] + list(by_rows.values())
            norm = self.mesh.norm([p.grad for name, p in whole.items() if name not in TABLES], of_rows)
        self.optimiser.step(self.settings.clip, by_rows, rows, count, norm)
        return loss
