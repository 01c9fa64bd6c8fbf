"""The interactions on a device, and batches of them without a loop over users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.interactions import are_weighted
from macrid.ops import kernels
from macrid.ops.sparse import Histories


class DeviceHistories:
    """A users × items matrix as CSR tensors on a device; its values are weights, of which only the ratios count."""

    def __init__(self, matrix: sp.csr_array, device: torch.device, balance: float = 0.0) -> None:
        self.users, self.balance = matrix.shape[0], balance
        self.longest = int(np.diff(matrix.indptr).max(initial=0))
        self.starts = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64)).to(device)
        self.items = torch.from_numpy(np.array(matrix.indices, dtype=np.int32)).to(device)
        self.values = self.totals = None
        if are_weighted(matrix):
            values = relative(matrix).data
            sums = np.add.reduceat(np.append(values, np.float64(0)), matrix.indptr[:-1]) * (np.diff(matrix.indptr) > 0)
            self.values = torch.from_numpy(values).to(device)
            self.totals = torch.from_numpy(sums.astype(np.float32)).to(device)

    def batch(self, users: Tensor) -> Histories:
        """The histories of these users, in order; nothing is copied where kernels read the CSR itself."""
        if kernels.serve(self.starts):
            from macrid.ops.rows_triton import bounds_of

            starts, stops = bounds_of(users, self.starts)
            return Histories(self.items, starts, stops, self.longest, None, self.balance, *self._weights(users))
        return self.copied(users)

    def copied(self, users: Tensor, interactions: int | None = None) -> Histories:
        """The same with a copy of these users' interactions; knowing their number saves waiting for the device."""
        starts, stops = self.starts[users], self.starts[users + 1]
        counts = stops - starts
        ends = counts.cumsum(0)
        rows = torch.repeat_interleave(counts, output_size=interactions)
        positions = torch.arange(len(rows), device=users.device) + (stops - ends)[rows]
        values, totals = self._weights(users)
        return Histories(
            self.items[positions].long(), ends - counts, ends, self.longest, rows, self.balance,
            None if values is None else values[positions], totals,
        )  # fmt: skip

    def sizes(self, batches: Sequence[Tensor]) -> list[int]:
        """The number of interactions of each batch of users."""
        return torch.stack([(self.starts[users + 1] - self.starts[users]).sum() for users in batches]).tolist()

    def all(self) -> Histories:
        """The histories of all users, in order."""
        starts, stops = self.starts[:-1], self.starts[1:]
        if kernels.serve(self.starts):
            return Histories(self.items, starts, stops, self.longest, None, self.balance, self.values, self.totals)
        rows = torch.repeat_interleave(stops - starts)
        items = self.items.long()
        return Histories(items, starts, stops, self.longest, rows, self.balance, self.values, self.totals)

    def _weights(self, users: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The values of all interactions, and the totals of these users."""
        return self.values, None if self.totals is None else self.totals[users]


def relative(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix with values that are 1 on average: only their ratios count."""
    if not len(matrix.data) or (matrix.data[0] == 1 and not are_weighted(matrix)):
        return matrix
    values = (matrix.data / np.mean(matrix.data, dtype=np.float64)).astype(np.float32)
    return sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
