"""A running mean of the weights at the ends of epochs: it scores better than the weights of any one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Follows a network's parameters; each epoch counts 1 / `epochs`, those before it the rest."""

    def __init__(self, network: nn.Module, epochs: float) -> None:
        self.network, self.share = network, 1 / epochs
        self.weights: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self) -> None:
        if self.share == 1:
            return
        for name, parameter in self.network.named_parameters():
            if name in self.weights:
                self.weights[name].lerp_(parameter.detach(), self.share)
            else:
                self.weights[name] = parameter.detach().clone()

    @contextmanager
    def used(self) -> Iterator[None]:
        """The network has the averaged weights meanwhile."""
        with torch.no_grad():
            now = {name: p.detach().clone() for name, p in self.network.named_parameters() if name in self.weights}
            self._put(self.weights)
            try:
                yield
            finally:
                self._put(now)

    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, value in weights.items():
            self.network.get_parameter(name).copy_(value)
