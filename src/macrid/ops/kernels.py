"""Which tensors Triton kernels work on. Every op asks here, so that nothing above `ops` needs to know."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch
from torch import Tensor


def serve(tensor: Tensor) -> bool:
    """On a GPU, in single precision, where Triton is installed."""
    return tensor.is_cuda and tensor.dtype != torch.float64 and _has_triton()


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
