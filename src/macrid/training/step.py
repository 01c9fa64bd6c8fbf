"""One step of training: loss, gradients, Adam. Nothing in an exact step waits for the device.

On a GPU the exact step is captured once for every batch size and replayed, so that small data sets are not bound by
kernel launches. A sampled step touches a different part of the tables each time and is run as it is.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor

from macrid.models.macridvae import LocalTables
from macrid.ops import kernels
from macrid.ops.batches import DeviceHistories
from macrid.ops.sampled import Sampler, gather
from macrid.settings import TrainingSettings
from macrid.training.adam import Adam

EAGER_STEPS = 2  # of every batch size before its capture; they load kernels and warm the allocator


class Step:
    """Takes a batch of users and changes the network."""

    def __init__(
        self, network: Any, optimiser: Adam, data: DeviceHistories, generator: Generator, settings: TrainingSettings
    ) -> None:
        self.network, self.optimiser, self.data, self.generator = network, optimiser, data, generator
        self.settings = settings
        device = data.starts.device
        self.beta = torch.zeros((), device=device)
        self._sampler = None
        if settings.likelihood == "sampled":
            popularity = torch.bincount(data.items, minlength=len(network.item_vectors))
            self._sampler = Sampler(popularity, settings.sampling)
        self._run = Captured(self._exact, generator, device)

    def __call__(self, users: Tensor, interactions: int | None = None) -> Tensor:
        """Loss and KL of the batch before the step, means per user: (2,).

        interactions: how many the batch has; a sampled step on a GPU need not ask for it then.
        """
        return self._run(users) if self._sampler is None else self._sampled(users, interactions)

    def _exact(self, users: Tensor) -> Tensor:
        with products(self.network.precision, self.beta.device):
            histories = self.data.batch(users)
            loss = self.network.loss(histories, self.network.draw_noise(histories, self.generator), self.beta)
            self.optimiser.zero_grad()
            loss.total.backward()
            self.optimiser.step(self.settings.clip)
            return torch.stack([loss.total.detach(), loss.kl.detach()])

    def _sampled(self, users: Tensor, interactions: int | None) -> Tensor:
        network = self.network
        with products(network.precision, self.beta.device):
            assert self._sampler is not None
            histories = self.data.copied(users, interactions)
            local = gather(histories, self._sampler, self.settings.negatives, self.generator)
            tables = network.item_vectors, network.context_vectors
            own = [table.detach()[local.rows].requires_grad_() for table in tables]
            noise = network.draw_noise(local.histories, self.generator, items=len(local.rows))
            loss = network.loss(local.histories, noise, self.beta, LocalTables(own[0], own[1], local))
            self.optimiser.zero_grad()
            loss.total.backward()
            rows = {table: part.grad for table, part in zip(tables, own, strict=True)}
            self.optimiser.step(self.settings.clip, rows, local.rows, local.count)
            return torch.stack([loss.total.detach(), loss.kl.detach()])


class Captured:
    """A function of a batch of users; on a GPU captured for every batch size and replayed."""

    def __init__(self, function: Callable[[Tensor], Tensor], generator: Generator, device: torch.device) -> None:
        self.function, self.generator = function, generator
        self.captures = device.type == "cuda" and kernels.serve(torch.empty(0, device=device))
        self._seen: dict[int, int] = {}
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}

    def __call__(self, users: Tensor) -> Tensor:
        size = len(users)
        if size not in self._graphs:
            self._seen[size] = self._seen.get(size, 0) + 1
            if not self.captures or self._seen[size] <= EAGER_STEPS:
                return self.function(users)
            self._graphs[size] = self._capture(users)
        graph, own_users, result = self._graphs[size]
        own_users.copy_(users)
        graph.replay()
        return result.clone()

    def _capture(self, users: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        own_users = users.clone()
        with without_collection(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = self.function(own_users)
        return graph, own_users, result


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect cyclic garbage before, not meanwhile: what an earlier training left on the device, freed during a
    capture, makes the capture fail."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """How torch takes products of float32 matrices on a GPU meanwhile."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "ieee" if precision == "fp32" else "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before
