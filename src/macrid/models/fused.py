"""Algorithm 1 once more, from fused kernels: what `MacridNetwork.loss` does on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from macrid.ops.fused_triton import Assign, Normalise, Sample, assignable
from macrid.ops.partition import bounded
from macrid.ops.sparse import Dropout, Histories
from macrid.ops.sparse_triton import Likelihood, SumByConcept

if TYPE_CHECKING:
    from macrid.models.macridvae import LocalTables, MacridNetwork, Noise


def loss(
    network: MacridNetwork, histories: Histories, noise: Noise, beta: float | Tensor, local: LocalTables | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, negative log-likelihood and KL, means per user."""
    s = network.settings
    unit = s.similarity == "cosine"
    assert noise.keep is None or isinstance(noise.keep, Dropout)

    vectors, contexts = (network.item_vectors, network.context_vectors) if local is None else local[:2]
    if assignable(network.concepts, s.dim):
        items, log_assignment = Assign.apply(vectors, network.prototypes, noise.gumbel, s.temperature, unit)
    else:
        items, log_assignment = network._direction(vectors), network.log_assignment(noise.gumbel, vectors)
    sums, squares = SumByConcept.apply(contexts, log_assignment, histories, noise.keep, network.precision)
    hidden = network.transform(Normalise.apply(sums, squares), noise)
    components, kl = Sample.apply(hidden, noise.normal, s.prior_std, unit)
    if local is None:
        likelihood = Likelihood.apply(
            components, items, log_assignment, histories, s.temperature, network.precision,
            bounded(1 / s.temperature if unit else None),
        )  # fmt: skip
    else:
        likelihood = network.likelihood(components, items, log_assignment, histories, local.sample)
    nll = -likelihood / histories.batch
    kl = kl.sum() / histories.batch
    guidance = network.guidance(vectors, None if local is None else local.sample)
    return nll + beta * kl + guidance, nll, kl
