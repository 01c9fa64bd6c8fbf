"""Where Triton kernels are used. Only ops need to know."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

import torch
from torch import Tensor


def serve(tensor: Tensor) -> bool:
    """Whether to use kernels: on a GPU, in single precision, with Triton installed."""
    return tensor.is_cuda and tensor.dtype != torch.float64 and _has_triton()


@contextmanager
def beside(tensor: Tensor) -> Iterator[None]:
    """Launch kernels that may run at the same time as those launched between this and `join`.

    They must not allocate memory: it would belong to another stream. The caller must hold what they read and write
    until it joins, or the allocator hands that memory to other kernels.
    """
    stream = _second_stream(tensor.device) if tensor.is_cuda else None
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        yield


def join(tensor: Tensor) -> None:
    """What is launched from here on runs after what was launched `beside`."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).wait_stream(_second_stream(tensor.device))


@cache
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
