"""Learning the number of concepts ("The number of macro factors" in the paper's supplement).

Training starts with many concepts and merges similar ones after each epoch. The distance of two concepts is the
Jensen–Shannon divergence of p_{i|k} = c_ik / sum_i' c_i'k. It depends on dimensions, temperature and epoch more than on
the items, so it is compared with its mean over all pairs, not with a fixed number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from macrid.models.macridvae import MANY, MacridNetwork
from macrid.ops.vectors import unit
from macrid.training.adam import Adam

SETTLED_AFTER = 3
"""Epochs without a merge after which the number is final. In a long training, concepts drift together."""


def settled(counts: Sequence[int]) -> bool:
    """Whether the number of concepts is final. counts: after each epoch so far."""
    merged = bool(counts) and counts[-1] < MANY
    return merged and len(counts) > SETTLED_AFTER and len(set(counts[-SETTLED_AFTER - 1 :])) == 1


@torch.no_grad()
def merge_alike(network: MacridNetwork, optimiser: Adam, below: float) -> bool:
    """Merge the closest two concepts until none differ by less than `below` times the mean; whether any were merged."""
    before = network.concepts
    while network.concepts > 1:
        assignment = network.log_assignment().double().exp()  # (items, concepts)
        first, second = torch.triu_indices(network.concepts, network.concepts, 1, device=assignment.device)
        distances = divergences(assignment, network.shards.total)[first, second]
        closest = int(distances.argmin())
        if not distances[closest] < below * distances.mean():
            break
        mass = network.shards.total(assignment.sum(dim=0))
        merge(network, optimiser, int(first[closest]), int(second[closest]), mass)
    return network.concepts < before


def divergences(assignment: Tensor, total: Callable[[Tensor], Tensor] = lambda part: part) -> Tensor:
    """JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2 in nats, of the items of every two concepts: (concepts, concepts).

    assignment: c, (items, concepts). total: the sum over processes, if each has some of the items.
    """
    mass = total(assignment.sum(dim=0)).clamp(min=torch.finfo(assignment.dtype).tiny)  # never 0
    p = (assignment / mass).T.contiguous()  # p_{i|k}: (concepts, items)
    entropy = total(torch.special.entr(p).sum(dim=1))
    middle = total(torch.stack([torch.special.entr((p + one) / 2).sum(dim=1) for one in p]))
    return (middle - (entropy + entropy[:, None]) / 2).clamp(min=0)


@torch.no_grad()
def merge(network: MacridNetwork, optimiser: Adam, first: int, second: int, mass: Tensor) -> None:
    """Make one concept of two. The heavier keeps its place and its moments of Adam.

    mass: how many items belong to each concept, sum_i c_ik: (concepts,).
    """
    both = torch.tensor([first, second], device=mass.device)
    prototypes, share = network.prototypes.data, (mass[both] / mass[both].sum()).to(network.prototypes.dtype)
    direction = unit(share @ unit(prototypes[both]))
    stays, goes = (first, second) if mass[first] >= mass[second] else (second, first)
    prototypes[stays] = direction * (share @ prototypes[both].norm(dim=1))  # their mean length
    rows = torch.tensor([k for k in range(network.concepts) if k != goes], device=mass.device)
    network.prototypes.data, network.prototypes.grad = prototypes[rows], None
    optimiser.keep_rows(network.prototypes, rows)
