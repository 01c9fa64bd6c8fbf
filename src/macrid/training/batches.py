"""The interactions on the device, and batches cut from them without a loop over users."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.ops.sparse import Histories


class DeviceHistories:
    """A users × items matrix as CSR tensors on a device."""

    def __init__(self, matrix: sp.csr_array, device: torch.device) -> None:
        self.users = matrix.shape[0]
        self.starts = torch.from_numpy(np.array(matrix.indptr, dtype=np.int64)).to(device)
        self.items = torch.from_numpy(np.array(matrix.indices, dtype=np.int32)).to(device)

    def batch(self, users: Tensor) -> Histories:
        """The histories of these users, in this order."""
        starts = self.starts[users]
        counts = self.starts[users + 1] - starts
        offsets = torch.zeros(len(users) + 1, dtype=torch.long, device=users.device)
        torch.cumsum(counts, 0, out=offsets[1:])
        rows = torch.repeat_interleave(counts)
        positions = torch.arange(len(rows), device=users.device) + (starts - offsets[:-1])[rows]
        return Histories(offsets, self.items[positions].long(), rows)

    def all(self) -> Histories:
        return self.batch(torch.arange(self.users, device=self.starts.device))
