"""One training step: loss, gradients, Adam. An exact step never waits for the device.

On a GPU the exact step is captured once per batch size and replayed, so that kernel launches do not dominate on small
data. A sampled step touches different rows each time and is not captured.
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

EAGER_STEPS = 2  # per batch size before its capture, to load kernels and warm up the allocator


class Step:
    """Updates the network from a batch of users."""

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

    def rehearsal(self) -> Step:
        """The same step with an optimiser and random numbers of its own."""
        optimiser = Adam(self.optimiser.parameters, self.optimiser.learning_rate, self.optimiser.l2)
        step = Step(self.network, optimiser, self.data, Generator(self.beta.device), self.settings)
        step._run.captures = False
        return step

    def __call__(self, users: Tensor, interactions: int | None = None) -> Tensor:
        """Loss and KL of the batch before the step, means per user: (2,).

        interactions: of the batch, if known; saves a sampled step on a GPU from waiting for it.
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
            parts = [table.detach()[local.rows].requires_grad_() for table in tables]
            noise = network.draw_noise(local.histories, self.generator, items=len(local.rows))
            loss = network.loss(local.histories, noise, self.beta, LocalTables(parts[0], parts[1], local))
            self.optimiser.zero_grad()
            loss.total.backward()
            rows = {table: part.grad for table, part in zip(tables, parts, strict=True)}
            self.optimiser.step(self.settings.clip, rows, local.rows, local.count)
            return torch.stack([loss.total.detach(), loss.kl.detach()])


class Captured:
    """A function of a batch of users; on a GPU, captured once per batch size and replayed."""

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
        graph, input_users, result = self._graphs[size]
        input_users.copy_(users)
        graph.replay()
        return result.clone()

    def _capture(self, users: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        input_users = users.clone()
        with without_collection(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = self.function(input_users)
        return graph, input_users, result


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect garbage first, then pause collection: freeing an earlier training's tensors breaks a capture."""
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
    """Set the precision of float32 matrix products on a GPU."""
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
