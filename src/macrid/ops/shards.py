"""Item tables divided over processes, and the sums that cross them.

Each process of a group holds consecutive rows of the tables of item and context vectors. As in tensor-parallel
language models (Shoeybi et al., 2019), a tensor that all of them have *enters* the divided part, where backward adds up
their gradients; what they compute there *leaves* it as a sum, whose gradient is the same for all. So every gradient is
complete: that of a row where the row is, that of anything else in every process.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

TABLES = ("item_vectors", "context_vectors")
"""Parameters of which each process has its rows."""


class Shards:
    """The rows `first` to `first + count` of a catalogue, out of as many parts as a group has processes."""

    def __init__(self, items: int = 0, group: Any = None) -> None:
        """group: of processes that together have all items; None for a single one."""
        self.group = group
        self.index, self.size = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
        self.bounds = [items * part // self.size for part in range(self.size + 1)]
        self.items, self.first = items, self.bounds[self.index]
        self.count = self.bounds[self.index + 1] - self.first

    @property
    def is_whole(self) -> bool:
        return self.size == 1

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.count)

    def entering(self, tensor: Tensor) -> Tensor:
        """The same tensor, where it is used with rows; backward sums its gradient over processes."""
        return tensor if self.is_whole else _Entering.apply(tensor, self.group)

    def summed(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Sums over processes, in one message; backward passes gradients on."""
        return tensors if self.is_whole else _Leaving.apply(self.group, *tensors)

    def log_sum_exp(self, values: Tensor) -> Tensor:
        """log of the sum over processes of exp(values), by their maximum and then their sum; any shape."""
        return values if self.is_whole else _LogSumExp.apply(values, self.group)

    @torch.no_grad()
    def total(self, tensor: Tensor) -> Tensor:
        """The sum over processes, without gradient."""
        if self.is_whole:
            return tensor
        tensor = tensor.clone()
        dist.all_reduce(tensor, group=self.group)
        return tensor

    @torch.no_grad()
    def each(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, of one shape."""
        if self.is_whole:
            return [tensor]
        tensors = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(tensors, tensor.contiguous(), group=self.group)
        return tensors

    def of_table(self, table: Tensor) -> Tensor:
        """The rows of a whole table that belong to this process."""
        return table if self.is_whole else table[self.rows]


WHOLE = Shards()
"""A single process has all rows; nothing is sent."""


def leads() -> bool:
    """Whether this is the only process, or the first of several that train together."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


class _Entering(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Leaving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat, group=group)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *gradients


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any) -> Tensor:
        top = values.clone()
        dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        top = top.clamp_(min=-1e30)  # a process without items has −inf
        total = torch.exp(values - top)
        dist.all_reduce(total, group=group)
        result = top + total.log()
        ctx.save_for_backward(values, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        values, result = ctx.saved_tensors
        return gradient * torch.exp(values - result.clamp(min=-1e30)), None
