"""Which users and items each process trains on: a grid of processes, users along one side and items along the other.

With item_shards 1, all processes have the whole network and divide the users of every batch (data parallel). Otherwise
neighbouring processes divide the items, and such groups divide the users. Random numbers are drawn for the whole batch
in every process, which uses its part of them, so the result is that of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from macrid.errors import MacridError, RunError
from macrid.models.devices import memory_left
from macrid.ops.shards import TABLES, WHOLE, Shards

NUMBERS = 1 << 22  # in one message, when tables are divided or put together


class Mesh:
    """The place of this process."""

    def __init__(self, items: int, item_shards: int, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        self.parts, self.device = dist.get_world_size() // item_shards, device
        kind = "cuda" if dist.get_backend() == "nccl" else "cpu"
        grid = init_device_mesh(kind, (self.parts, item_shards), mesh_dim_names=("users", "items"))
        self.part, self.group = grid.get_local_rank("users"), grid.get_group("users")
        self.shards = Shards(items, grid.get_group("items") if item_shards > 1 else None)

    @property
    def leads(self) -> bool:
        return dist.get_rank() == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """What fails in one process fails in all of them."""
        error: MacridError | None = None
        try:
            yield
        except MacridError as reason:
            error = reason
        if self.any(error is not None):
            raise error or RunError("another process could not write the checkpoint; continue with --resume")

    def users(self, count: int) -> slice:
        """The users of this process, among so many."""
        return slice(count * self.part // self.parts, count * (self.part + 1) // self.parts)

    @torch.no_grad()
    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sums over the processes that have the same items, in one message."""
        if self.parts == 1:
            return list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat, group=self.group)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def norm(self, shared: Sequence[Tensor], of_rows: Sequence[Tensor]) -> Tensor:
        """The norm of all gradients: those that every process has, and those of its own rows."""
        rows = [tensor.norm().square() for tensor in of_rows]
        squares = [tensor.norm().square() for tensor in shared]
        return (self.shards.total(torch.stack(rows).sum()) + torch.stack(squares).sum()).sqrt()

    def each(self, values: Tensor, count: int) -> Tensor:
        """Numbers about all users (count,), of which every process has those of its own."""
        longest = -(-count // self.parts)
        padded = torch.zeros(longest, dtype=values.dtype, device=self.device)
        padded[: len(values)] = values
        everyone = [torch.empty_like(padded) for _ in range(self.parts)]
        dist.all_gather(everyone, padded, group=self.group)
        bounds = [count * part // self.parts for part in range(self.parts + 1)]
        lengths = [stop - start for start, stop in pairwise(bounds)]
        return torch.cat([part[:length] for part, length in zip(everyone, lengths, strict=True)])

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        tensor = torch.tensor(int(flag), device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return bool(tensor)

    @torch.no_grad()
    def divide(self, network: Any) -> None:
        """Give every process its part of the network that the first one has, on its device."""
        for name, parameter in network.named_parameters():
            source = parameter.data.reshape(len(parameter), -1) if parameter.dim() else parameter.data.reshape(1, 1)
            is_table = name in TABLES and not self.shards.is_whole
            first, count = (self.shards.first, self.shards.count) if is_table else (0, len(source))
            own = torch.empty(count, source.shape[1], dtype=source.dtype, device=self.device)
            height = max(1, NUMBERS // source.shape[1])
            for start in range(0, len(source), height):
                rows = source[start : start + height]
                rows = rows.to(self.device) if dist.get_rank() == 0 else torch.empty_like(rows, device=self.device)
                dist.broadcast(rows, src=0)
                begin, end = max(start, first), min(start + len(rows), first + count)
                if begin < end:
                    own[begin - first : end - first] = rows[begin - start : end - start]
            parameter.data = own.view(count, *parameter.shape[1:]) if parameter.dim() else own.view(())
        network.shards = self.shards
        if getattr(network, "supervision", None) is not None:
            network.supervision = network.supervision.of(self.shards, self.device)

    @torch.no_grad()
    def collect(self, network: Any) -> None:
        """Put the whole network together in the first process; the others keep their parts."""
        if self.shards.is_whole or self.part > 0:
            return
        leads = self.leads
        for name in TABLES:
            parameter = network.get_parameter(name)
            whole = torch.empty(self.shards.items, parameter.shape[1]) if leads else None
            height = max(1, NUMBERS // parameter.shape[1])
            for owner in range(self.shards.size):
                first, last = self.shards.bounds[owner], self.shards.bounds[owner + 1]
                for start in range(first, last, height):
                    rows = slice(start - first, min(start + height, last) - first)
                    part = parameter.data[rows].contiguous() if owner == self.shards.index else None
                    if part is None:
                        part = parameter.data.new_empty(rows.stop - rows.start, parameter.shape[1])
                    dist.broadcast(part, group=self.shards.group, group_src=owner)
                    if whole is not None:
                        whole[start : start + len(part)] = part.cpu()
            if whole is not None:
                parameter.data = whole
        if leads:
            become_whole(network, self.device)


def become_whole(network: nn.Module, device: torch.device) -> None:
    """After training in parts: all of a network on one device, or on the CPU if it does not fit."""
    network.shards = WHOLE  # type: ignore[assignment]
    size = sum(parameter.numel() * parameter.element_size() for parameter in network.parameters())
    network.to(device if device.type == "cpu" or 2 * size < memory_left(device) else torch.device("cpu"))
