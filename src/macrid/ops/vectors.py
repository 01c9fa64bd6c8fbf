"""Vectors of unit length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def unit(vectors: Tensor, epsilon: float) -> Tensor:
    """vectors / max(|vectors|, epsilon) along the last dimension, as `F.normalize`, in fewer passes over memory."""
    return _Unit.apply(vectors, epsilon)


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, epsilon: float) -> Tensor:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        radial = (length > epsilon).to(vectors.dtype)  # shorter vectors are scaled by a constant
        length = length.clamp_(min=epsilon)
        result = vectors / length
        ctx.save_for_backward(result, length, radial)
        return result

    @staticmethod
    def backward(ctx: Any, by_result: Tensor) -> tuple[Tensor, None]:
        result, length, radial = ctx.saved_tensors
        along = (by_result * result).sum(dim=-1, keepdim=True).mul_(radial)
        return torch.addcmul(by_result, result, along, value=-1).div_(length), None
