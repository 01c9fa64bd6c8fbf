"""What runs beside other kernels on a GPU: memory that it reads must not be used again before it is done."""

from __future__ import annotations

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from macrid.ops import kernels
from macrid.ops.encoder import _Affine


class Reads(TorchDispatchMode):
    """The storages of all tensors that operations are given."""

    def __init__(self):
        super().__init__()
        self.storages = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [*args, *(kwargs or {}).values()]
        self.storages += [
            StorageWeakRef(tensor.untyped_storage()) for tensor in given if isinstance(tensor, torch.Tensor)
        ]
        return func(*args, **(kwargs or {}))


def test_what_a_layer_reads_beside_the_others_is_held_until_all_is_joined(monkeypatch):
    reads, freed = Reads(), []

    @contextmanager
    def beside(tensor):
        with reads:
            yield

    monkeypatch.setattr(kernels, "beside", beside)
    monkeypatch.setattr(kernels, "join", lambda *_: freed.extend(storage.expired() for storage in reads.storages))
    weight, bias, start = torch.randn(4, 3), torch.randn(4), torch.randn(5, 2, 3)
    for leaf in (weight, bias, start):
        leaf.requires_grad_()
    _Affine.apply(start.tanh(), weight, bias).square().sum().backward()
    assert len(freed) >= 6  # two operations, each of two tensors into a third
    assert not any(freed)
    by_torch = F.linear(start.tanh(), weight, bias).square().sum()
    expected = torch.autograd.grad(by_torch, (weight, bias, start))
    for leaf, gradient in zip((weight, bias, start), expected, strict=True):
        torch.testing.assert_close(leaf.grad, gradient)
