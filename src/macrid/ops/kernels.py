"""Where Triton kernels are used. Only ops need to know."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch
from torch import Tensor


def serve(tensor: Tensor) -> bool:
    """Whether to use kernels: on a GPU, in single precision, with Triton installed."""
    return tensor.is_cuda and tensor.dtype != torch.float64 and _has_triton()


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
