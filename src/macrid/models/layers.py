"""Parts that several networks share."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor, nn

from macrid.ops import kernels
from macrid.ops.sparse import Dropout, Histories


def draw_mask(shape: tuple[int, ...], rate: float, like: Tensor, generator: Generator) -> Tensor:
    """0 with probability `rate`, else 1 / (1 − rate)."""
    uniform = torch.rand(shape, device=like.device, dtype=like.dtype, generator=generator)
    return (uniform >= rate).to(like.dtype) / (1 - rate)


def draw_dropout(histories: Histories, rate: float, table: Tensor, generator: Generator) -> Tensor | Dropout:
    """Which interactions to hide from the encoder: a mask (interactions,), or on a GPU a seed."""
    if not kernels.serve(table):
        return draw_mask((len(histories.items),), rate, table, generator)
    return Dropout(torch.randint(2**31, (1,), device=table.device, generator=generator), rate)


@torch.no_grad()
def initialise(layers: Iterable[nn.Module], generator: Generator) -> None:
    """The usual uniform bounds."""
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        bound = layer.in_features**-0.5
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
