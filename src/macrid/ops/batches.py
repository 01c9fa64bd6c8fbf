"""The interactions on a device, and batches of them without a loop over users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.ops import kernels
from macrid.ops.sparse import Histories


class DeviceHistories:
    """A users × items matrix as CSR tensors on a device."""

    def __init__(self, matrix: sp.csr_array, device: torch.device, balance: float = 0.0) -> None:
        self.users, self.balance = matrix.shape[0], balance
        self.longest = int(np.diff(matrix.indptr).max(initial=0))
        self.starts = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64)).to(device)
        self.items = torch.from_numpy(np.array(matrix.indices, dtype=np.int32)).to(device)

    def batch(self, users: Tensor) -> Histories:
        """The histories of these users, in order; nothing is copied where kernels read the CSR itself."""
        if kernels.serve(self.starts):
            starts, stops = self.starts[users], self.starts[users + 1]
            return Histories(self.items, starts, stops, self.longest, balance=self.balance)
        return self.copied(users)

    def copied(self, users: Tensor, interactions: int | None = None) -> Histories:
        """The same with a copy of these users' interactions; knowing their number saves waiting for the device."""
        starts, stops = self.starts[users], self.starts[users + 1]
        counts = stops - starts
        ends = counts.cumsum(0)
        rows = torch.repeat_interleave(counts, output_size=interactions)
        positions = torch.arange(len(rows), device=users.device) + (stops - ends)[rows]
        return Histories(self.items[positions].long(), ends - counts, ends, self.longest, rows, self.balance)

    def sizes(self, batches: Sequence[Tensor]) -> list[int]:
        """The number of interactions of each batch of users."""
        return torch.stack([(self.starts[users + 1] - self.starts[users]).sum() for users in batches]).tolist()

    def all(self) -> Histories:
        """The histories of all users, in order."""
        starts, stops = self.starts[:-1], self.starts[1:]
        if kernels.serve(self.starts):
            return Histories(self.items, starts, stops, self.longest, balance=self.balance)
        rows = torch.repeat_interleave(stops - starts)
        return Histories(self.items.long(), starts, stops, self.longest, rows, self.balance)
