"""Interactions that do not fit on a device: each batch of users goes there while the one before is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.ops import kernels
from macrid.ops.batches import DeviceHistories
from macrid.ops.sparse import Histories

SHARE = 0.5  # of the device's free memory, that interactions may take
CHUNK = 1 << 24  # interactions


def histories_on(
    matrix: sp.csr_array, device: torch.device, balance: float = 0.0, limit_mib: int | None = None
) -> DeviceHistories:
    """The interactions on a device or, if they do not fit on it, beside it.

    limit_mib: what they may take of its memory; by default half of what is free. A CPU reads them where they are.
    """
    if device.type == "cpu" and limit_mib is None:
        return DeviceHistories(matrix, device, balance)
    if limit_mib is None:
        limit = int(torch.cuda.mem_get_info(device)[0] * SHARE) if device.type == "cuda" else 2**62
    else:
        limit = limit_mib << 20
    kind = DeviceHistories if bytes_on_device(matrix) <= limit else StreamedHistories
    return kind(matrix, device, balance)


def fits(matrix: sp.csr_array, device: torch.device) -> bool:
    """Whether a GPU has room for a matrix and its transpose, with their values."""
    return device.type == "cuda" and 16 * matrix.nnz <= torch.cuda.mem_get_info(device)[0] * SHARE


def bytes_on_device(matrix: sp.csr_array) -> int:
    """Of all interactions and where each user's begin."""
    per_interaction = 4 if matrix.data.strides == (0,) else 8
    return int(matrix.nnz) * per_interaction + 8 * (matrix.shape[0] + 1)


class Loaded(NamedTuple):
    """The interactions of a batch on the device, once `ready` has happened."""

    items: Tensor
    values: Tensor | None
    ready: torch.cuda.Event | None


class StreamedHistories(DeviceHistories):
    """Interactions in main memory or in a map of a file; a thread gathers the next batch into a pinned buffer and
    copies it on a stream of its own."""

    is_resident = False

    def _keep(self, items: np.ndarray, values: np.ndarray | None, device: torch.device) -> None:
        self._device, self._host = device, (items, values)
        self._host_starts = self.starts.cpu().numpy()
        self._planned: deque[tuple[Tensor, np.ndarray]] = deque()
        self._next: tuple[Tensor, Future[Loaded]] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._buffers: dict[tuple[str, int], tuple[Tensor, torch.cuda.Event | None]] = {}
        self._turn = 0

    def plan(self, batches: Sequence[Tensor]) -> None:
        users = torch.cat(list(batches)).cpu().numpy()
        parts = np.split(users, np.cumsum([len(batch) for batch in batches])[:-1])
        self._planned = deque(zip(batches, parts, strict=True))
        self._load_next()

    def popularity(self, items: int) -> Tensor:
        host, counts = self._host[0], np.zeros(items, dtype=np.int64)
        for start in range(0, len(host), CHUNK):
            counts += np.bincount(host[start : start + CHUNK], minlength=items)
        return torch.from_numpy(counts).to(self._device)

    def batch(self, users: Tensor) -> Histories:
        if not kernels.serve(self.starts):
            return self.copied(users)
        loaded = self._take(users)
        starts, stops = self._bounds(users)
        totals = None if self.totals is None else self.totals[users]
        return Histories(loaded.items, starts, stops, self.longest, None, self.balance, loaded.values, totals)

    def copied(self, users: Tensor, interactions: int | None = None) -> Histories:
        loaded = self._take(users)
        starts, stops = self._bounds(users)
        rows = torch.repeat_interleave(stops - starts, output_size=len(loaded.items))
        totals = None if self.totals is None else self.totals[users]
        return Histories(loaded.items.long(), starts, stops, self.longest, rows, self.balance, loaded.values, totals)

    def all(self) -> Histories:
        return self.batch(torch.arange(self.users, device=self._device))

    def _bounds(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """Where the interactions of each user begin and end within the batch."""
        counts = self.starts[users + 1] - self.starts[users]
        ends = counts.cumsum(0)
        return ends - counts, ends

    def _take(self, users: Tensor) -> Loaded:
        """The interactions of these users, loaded ahead if they were planned: the same tensor, as nobody waits for a
        device to compare numbers."""
        if self._next is not None and _is_same(self._next[0], users):
            loaded = self._next[1].result()
            self._load_next()
        else:
            loaded = self._worker.submit(self._load, users.cpu().numpy()).result()
        if loaded.ready is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(loaded.ready)
            for tensor in (loaded.items, loaded.values):
                if tensor is not None:
                    tensor.record_stream(stream)
        return loaded

    def _load_next(self) -> None:
        self._next = None
        if self._planned:
            batch, users = self._planned.popleft()
            self._next = batch, self._worker.submit(self._load, users)

    def _load(self, users: np.ndarray) -> Loaded:
        starts = self._host_starts[users]
        counts = self._host_starts[users + 1] - starts
        ends = np.cumsum(counts)
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
        self._turn = 1 - self._turn
        items, values = (self._sent(name, host, positions) for name, host in zip("iv", self._host, strict=True))
        assert items is not None
        ready = None
        if self._stream is not None:
            ready = torch.cuda.Event()
            ready.record(self._stream)
        for name in "iv":
            if (name, self._turn) in self._buffers:
                self._buffers[name, self._turn] = self._buffers[name, self._turn][0], ready
        return Loaded(items, values, ready)

    def _sent(self, name: str, host: np.ndarray | None, positions: np.ndarray) -> Tensor | None:
        """Some numbers on the device, or on their way there."""
        if host is None:
            return None
        if self._stream is None:
            return torch.from_numpy(host[positions])
        buffer = self._buffer(name, host.dtype, len(positions))
        np.take(host, positions, out=buffer.numpy(), mode="clip")
        with torch.cuda.stream(self._stream):
            return buffer.to(self._device, non_blocking=True)

    def _buffer(self, name: str, kind: np.dtype, count: int) -> Tensor:
        """Pinned memory for so many numbers, which no copy reads any more; two take turns."""
        buffer, busy = self._buffers.get((name, self._turn), (None, None))
        if busy is not None:
            busy.synchronize()
        if buffer is None or len(buffer) < count:
            dtype = torch.from_numpy(np.empty(0, kind)).dtype
            buffer = torch.empty(count + count // 4, dtype=dtype, pin_memory=True)
            self._buffers[name, self._turn] = buffer, None
        return buffer[:count]


def _is_same(first: Tensor, second: Tensor) -> bool:
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape
