"""The small steps of Algorithm 1 between its sums and its network; on a GPU, each is one fused kernel.

    affine       a layer of f_nn
    assign       item vectors, prototypes  →  directions of the items, log c_i
    normalise    the encoder's two sums  →  their quotient
    sample       output of f_nn, noise  →  directions of the components, KL divergence
    log_shares   how much of a history lies in each concept  →  log of its share

The direction of a vector is the vector scaled to unit length (cosine), or the vector itself (inner products).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from macrid.ops import kernels
from macrid.ops.vectors import EPSILON, by_unit, to_unit, unit

SMALLEST = 0.02  # share added to that of every concept


def direction(vectors: Tensor, cosine: bool) -> Tensor:
    return unit(vectors) if cosine else vectors


def log_assignment(
    vectors: Tensor, prototypes: Tensor, temperature: float, cosine: bool, gumbel: Tensor | None = None
) -> Tensor:
    """log c_i: Gumbel-Softmax over s_ik, plain softmax without noise: (items, concepts)."""
    logits = direction(vectors, cosine) @ direction(prototypes, cosine).mT / temperature
    return F.log_softmax(logits if gumbel is None else logits + gumbel, dim=-1)


def assign(
    vectors: Tensor, prototypes: Tensor, temperature: float, cosine: bool, gumbel: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Directions of the items (items, dim), and `log_assignment`."""
    if kernels.serve(vectors):
        from macrid.ops.encoder_triton import Assign, fits

        if fits(*prototypes.shape):
            return Assign.apply(vectors, prototypes, gumbel, temperature, cosine)
    log_c = log_assignment(vectors, prototypes, temperature, cosine, gumbel)
    return direction(vectors, cosine), log_c


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer: inputs (…, in), weight (out, in), bias (out,) → (…, out)."""
    return _Affine.apply(inputs, weight, bias) if kernels.serve(inputs) else F.linear(inputs, weight, bias)


class _Affine(torch.autograd.Function):
    """`F.linear`, whose backward sums over all users for the bias; a product with ones does so several times faster."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return F.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, by_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        flat, by_weight, by_bias = by_outputs.flatten(0, -2), torch.empty_like(weight), weight.new_empty(len(weight))
        ones = flat.new_ones(len(flat))
        with kernels.beside(weight):
            torch.mm(flat.t(), inputs.flatten(0, -2), out=by_weight)
            torch.mv(flat.t(), ones, out=by_bias)
        by_inputs = by_outputs @ weight
        kernels.join(weight)  # before autograd may add these to other gradients
        return by_inputs, by_weight, by_bias


def normalise(sums: Tensor, squares: Tensor) -> Tensor:
    """sums (batch, concepts, dim) over the roots of squares (batch, concepts)."""
    if kernels.serve(sums):
        from macrid.ops.encoder_triton import Normalise

        return Normalise.apply(sums, squares)
    return sums / (squares + EPSILON**2).sqrt()[..., None]


def log_shares(mass: Tensor) -> Tensor:
    """log of (s_k + SMALLEST) / (1 + SMALLEST · concepts), s_k = mass_k / sum of mass: (batch, concepts)."""
    share = mass / mass.sum(dim=1, keepdim=True).clamp(min=EPSILON)
    return torch.log((share + SMALLEST) / (1 + SMALLEST * mass.shape[1]))


def posterior(hidden: Tensor) -> tuple[Tensor, Tensor]:
    """mu and b, with sigma = sigma_0 · exp(−b / 2), from a and b side by side: (batch, concepts, 2 · dim)."""
    a, b = hidden.chunk(2, dim=-1)
    return unit(a), b


def sample(hidden: Tensor, normal: Tensor | None, prior_std: float, cosine: bool) -> tuple[Tensor, Tensor]:
    """Directions of z = mu + normal · sigma (batch, concepts, dim), and the KL divergence of every user (batch,).

    hidden: as in `posterior`. normal: (batch, concepts, dim), or None for no noise.
    """
    if kernels.serve(hidden):
        from macrid.ops.encoder_triton import Sample

        directions, kl = Sample.apply(hidden, normal, prior_std, cosine)
        return directions, kl.sum(dim=1)
    return _Sample.apply(hidden, normal, prior_std, cosine)


class _Sample(torch.autograd.Function):
    """`sample` in few passes over memory. With mu = unit(a), e = exp(−b / 2) and sigma = sigma_0 e,

    z = mu + normal · sigma,    D_KL(N(mu, sigma²) || N(0, sigma_0²)) = sum_j (b + e² − 1) / 2 + mu² / (2 sigma_0²).
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, normal: Tensor | None, prior_std: float, cosine: bool
    ) -> tuple[Tensor, Tensor]:
        a, b = hidden.chunk(2, dim=-1)
        mean, length, is_unit = to_unit(a)
        e = torch.mul(b, -0.5).exp_()
        z = mean if normal is None else torch.addcmul(mean, normal, e, value=prior_std)
        directions, *scale = to_unit(z) if cosine else (z,)
        kl = 0.5 * (b.sum(dim=-1) + _square(e) - b.shape[-1]) + _square(mean) / (2 * prior_std**2)
        ctx.prior_std, ctx.cosine = prior_std, cosine
        ctx.save_for_backward(mean, length, is_unit, e, normal, directions, *scale)
        return directions, kl.sum(dim=1)

    @staticmethod
    def backward(ctx: Any, by_directions: Tensor, by_kl: Tensor) -> tuple[Tensor | None, ...]:
        mean, length, is_unit, e, normal, directions, *scale = ctx.saved_tensors
        by_z = by_unit(by_directions, directions, *scale) if ctx.cosine else by_directions
        half, by_hidden = 0.5 * by_kl[:, None, None], mean.new_empty(*mean.shape[:-1], 2 * mean.shape[-1])
        by_a, by_b = by_hidden.chunk(2, dim=-1)
        along = (by_z * mean).sum(dim=-1, keepdim=True).mul_(is_unit)
        along -= 2 * half / ctx.prior_std**2 * (1 - is_unit)  # the length of a unit vector does not change the KL
        torch.addcmul(by_z, mean, along, value=-1, out=by_a).div_(length)
        # by b: half (1 − e²) − by_z normal sigma / 2
        torch.mul(e, -half, out=by_b)
        if normal is not None:
            by_b.addcmul_(by_z, normal, value=-0.5 * ctx.prior_std)
        by_b.mul_(e).add_(half)
        return by_hidden, None, None, None


def _square(vectors: Tensor) -> Tensor:
    """|v|²: (…, dim) → (…)."""
    return torch.linalg.vector_norm(vectors, dim=-1).square_()
