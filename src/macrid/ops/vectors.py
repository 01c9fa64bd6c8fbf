"""Vectors of unit length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

EPSILON = 1e-8  # "We add 10^-8 to prevent division-by-zero wherever appropriate."


def unit(vectors: Tensor) -> Tensor:
    """vectors / max(|vectors|, epsilon) along the last dimension, as `F.normalize`, in fewer passes over memory."""
    return _Unit.apply(vectors)


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        radial = (length > EPSILON).to(vectors.dtype)  # shorter vectors are scaled by a constant
        length = length.clamp_(min=EPSILON)
        result = vectors / length
        ctx.save_for_backward(result, length, radial)
        return result

    @staticmethod
    def backward(ctx: Any, by_result: Tensor) -> Tensor:
        result, length, radial = ctx.saved_tensors
        along = (by_result * result).sum(dim=-1, keepdim=True).mul_(radial)
        return torch.addcmul(by_result, result, along, value=-1).div_(length)
