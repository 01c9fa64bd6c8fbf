"""Parts that several networks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from macrid.ops import kernels
from macrid.ops.sparse import Dropout, Histories
from macrid.ops.topk import Decoder, pairs, top

ENCODED = 1 << 22  # numbers in the components of users ranked at once


@torch.no_grad()
def rank(
    decoder: Decoder,
    components_of: Callable[[sp.csr_array], Tensor],
    histories: sp.csr_array,
    n: int,
    hidden: sp.csr_array | None,
    allowed: np.ndarray | None,
) -> tuple[Tensor, Tensor]:
    """Positions and log-probabilities of the n best items, best first: (users, n) each; as `Recommender.rank`."""
    device = decoder.items.device
    chosen = None if allowed is None else torch.from_numpy(allowed).to(device)
    at_once = max(1, ENCODED // (decoder.log_assignment.shape[1] * decoder.items.shape[1]))
    blocks = [(torch.empty(0, n, dtype=torch.long, device=device), decoder.items.new_empty(0, n))]
    for start in range(0, histories.shape[0], at_once):
        users = slice(start, start + at_once)
        blocks.append(
            top(
                decoder, components_of(histories[users]), n,
                hidden=None if hidden is None else pairs(hidden[users], device), allowed=chosen,
            )
        )  # fmt: skip
    positions, log_p = zip(*blocks, strict=True)
    return torch.cat(positions), torch.cat(log_p)


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
