"""The number of concepts found in training ("The number of macro factors" in the paper's supplement).

Training begins with many concepts, and after each epoch those whose items are alike are merged. How far the items of
two concepts differ is the Jensen–Shannon divergence of p_{i|k} = c_ik / sum_i' c_i'k. Its size hangs on dimensions,
temperature and epoch more than on the items, so it is held against its mean over all pairs, not against a number.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from macrid.models.macridvae import MANY, MacridNetwork
from macrid.ops.vectors import unit
from macrid.training.adam import Adam

QUIET = 3
"""Epochs without a merge after which the number is settled. Concepts drift together when training goes on for long."""


def settled(counts: Sequence[int]) -> bool:
    """Whether the number of concepts stays as it is. counts: after every epoch so far."""
    merged = bool(counts) and counts[-1] < MANY
    return merged and len(counts) > QUIET and len(set(counts[-QUIET - 1 :])) == 1


@torch.no_grad()
def merge_alike(network: MacridNetwork, optimiser: Adam, below: float) -> bool:
    """Merge the closest two concepts, and again, until none differ less than `below` times the mean; if any did."""
    before = network.concepts
    while network.concepts > 1:
        assignment = network.log_assignment().double().exp()  # (items, concepts)
        first, second = torch.triu_indices(network.concepts, network.concepts, 1, device=assignment.device)
        found = divergences(assignment)[first, second]
        closest = int(found.argmin())
        if not found[closest] < below * found.mean():
            break
        merge(network, optimiser, int(first[closest]), int(second[closest]), assignment.sum(dim=0))
    return network.concepts < before


def divergences(assignment: Tensor) -> Tensor:
    """JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2 in nats, of the items of every two concepts: (concepts, concepts).

    assignment: c, (items, concepts).
    """
    mass = assignment.sum(dim=0).clamp(min=torch.finfo(assignment.dtype).tiny)  # that of a concept no item is near
    p = (assignment / mass).T.contiguous()  # p_{i|k}: (concepts, items)
    own = torch.special.entr(p).sum(dim=1)
    middle = torch.stack([torch.special.entr((p + one) / 2).sum(dim=1) for one in p])
    return (middle - (own + own[:, None]) / 2).clamp(min=0)


@torch.no_grad()
def merge(network: MacridNetwork, optimiser: Adam, first: int, second: int, mass: Tensor) -> None:
    """One concept out of two. The heavier keeps its place and its moments of Adam.

    mass: how many items belong to each concept, sum_i c_ik: (concepts,).
    """
    both = torch.tensor([first, second], device=mass.device)
    prototypes, share = network.prototypes.data, (mass[both] / mass[both].sum()).to(network.prototypes.dtype)
    direction = unit(share @ unit(prototypes[both]))
    stays, goes = (first, second) if mass[first] >= mass[second] else (second, first)
    prototypes[stays] = direction * (share @ prototypes[both].norm(dim=1))  # in length their mean
    rows = torch.tensor([k for k in range(network.concepts) if k != goes], device=mass.device)
    network.prototypes.data, network.prototypes.grad = prototypes[rows], None
    optimiser.keep_rows(network.prototypes, rows)
