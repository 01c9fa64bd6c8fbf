"""What the speed benchmarks compare: macrid's training as it is, and the dense ways of `benchmarks.dense`."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
import torch
from benchmarks.dense import DenseMacridVAE, PartitionDense, train_epoch
from torch import Tensor

from macrid.models.macridvae import MacridNetwork
from macrid.ops.batches import DeviceHistories
from macrid.settings import ADDED, MacridVAESettings, TrainingSettings
from macrid.training.adam import Adam
from macrid.training.step import Step, products

LEARNING_RATE = 3e-3


class Ours:
    """macrid's steps; an epoch shuffles, takes all of them and reads the mean loss, as `macrid.training.loop` does."""

    def __init__(
        self, matrix: sp.csr_array, device: torch.device, *, batch: int, concepts: int = 7, dim: int = 100,
        precision: str = "fp32", **training: Any,
    ) -> None:  # fmt: skip
        self.batch, self.device = batch, device
        settings = TrainingSettings.make(training, batch_size=batch, precision=precision)
        self.sampled = settings.likelihood == "sampled"
        with device:
            self.network = MacridNetwork(matrix.shape[1], MacridVAESettings.make(ADDED, concepts=concepts, dim=dim))
        self.generator = torch.Generator(device).manual_seed(0)
        self.network.initialise(self.generator)
        self.network.precision = precision
        self.data = DeviceHistories(matrix, device)
        self.optimiser = Adam(self.network.parameters(), LEARNING_RATE, l2=0.0)
        self.step = Step(self.network, self.optimiser, self.data, self.generator, settings)
        self.step.beta.fill_(1.0)

    def epoch(self) -> float:
        """The mean loss per user."""
        batches = self._shuffled().split(self.batch)
        sizes = self.data.sizes(batches) if self.sampled else [None] * len(batches)
        losses = [self.step(users, size) * len(users) for users, size in zip(batches, sizes, strict=True)]
        return (torch.stack(losses).double().sum(dim=0) / self.data.users).tolist()[0]

    def some_steps(self, count: int) -> list[tuple[Tensor, int]]:
        """Users and interactions of so many full batches; the same user may be in several."""
        batches = [self._shuffled()[: self.batch] for _ in range(count)]
        return list(zip(batches, self.data.sizes(batches), strict=True))

    def _shuffled(self) -> Tensor:
        return torch.randperm(self.data.users, generator=self.generator, device=self.device)

    @property
    def parameter_bytes(self) -> int:
        return sum(parameter.nbytes for parameter in self.network.parameters())

    @property
    def data_bytes(self) -> int:
        return self.data.starts.nbytes + self.data.items.nbytes


class Dense:
    """One of the dense ways; products may be taken in tf32 on a GPU, as macrid takes them unless told otherwise."""

    def __init__(
        self, matrix: sp.csr_array, device: torch.device, *, batch: int, concepts: int = 7, dim: int = 100,
        at_once: bool = False, compiled: bool = False, tf32: bool = False,
    ) -> None:  # fmt: skip
        self.matrix, self.device, self.batch, self.tf32 = matrix, device, batch, tf32
        kind = PartitionDense if at_once else DenseMacridVAE
        with device:
            self.model = kind(
                matrix.shape[1], MacridVAESettings.make(ADDED, concepts=concepts, dim=dim), compiled=compiled
            )
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE, fused=True)
        self.generator = torch.Generator(device).manual_seed(0)

    def epoch(self, matrix: sp.csr_array | None = None) -> float:
        """The mean loss per user, of all users or of those given."""
        with products("tf32" if self.tf32 else "fp32", self.device):
            matrix = self.matrix if matrix is None else matrix
            return train_epoch(self.model, self.optimiser, matrix, self.batch, self.generator, self.device)

    @property
    def parameter_bytes(self) -> int:
        return sum(parameter.nbytes for parameter in self.model.parameters())


DENSE_LOOP = "dense loop"
EXACT = "macrid, exact"
BF16 = "macrid, exact, bf16"
ON_CPU: dict[str, tuple[type[Ours] | type[Dense], dict[str, Any]]] = {
    EXACT: (Ours, {}),
    BF16: (Ours, {"precision": "bf16"}),
    "macrid, sampled, 1,024 negatives": (Ours, {"likelihood": "sampled", "negatives": 1024}),
    "macrid, sampled, 256 negatives": (Ours, {"likelihood": "sampled", "negatives": 256}),
    DENSE_LOOP: (Dense, {}),
    "dense, all concepts at once": (Dense, {"at_once": True}),
    "dense loop, compiled": (Dense, {"compiled": True}),
}
