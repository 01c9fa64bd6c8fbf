"""A running mean of the weights after each epoch, which scores better than those of any one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """A moving average of a network's parameters, in which each new epoch counts 1 / `epochs`."""

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
        """Give the network the averaged weights."""
        with torch.no_grad():
            current = {name: p.detach().clone() for name, p in self.network.named_parameters() if name in self.weights}
            self._put(self.weights)
            try:
                yield
            finally:
                self._put(current)

    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, value in weights.items():
            self.network.get_parameter(name).copy_(value)
