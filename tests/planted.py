"""A world whose item vectors are known: in it a knob does what its name says, exactly.

Dimensions 0 and 1 tell two concepts apart; 2 is the size of an item, 3 its price, 4 a taste nobody has a name for, and
5 what is missing to length 1. Items come in pairs that differ in price only, and so do histories and targets: no user
cares for prices, and lists of the best hold whole pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

import macrid
from macrid.data.ids import Ids
from macrid.data.split import HeldOut

PAIRS = 50  # in each concept
SIZE, PRICE, TASTE = 2, 3, 4
BELONGS, COST = 0.6, 0.3


def vectors(seed: int = 0) -> np.ndarray:
    """Of items, of length 1: (200, 6). Concept 0 first; an item and its dearer twin follow each other."""
    random = np.random.default_rng(seed)
    found = np.zeros((4 * PAIRS, 6))
    for concept in (0, 1):
        own = slice(2 * PAIRS * concept, 2 * PAIRS * (concept + 1))
        found[own, concept] = BELONGS
        found[own, SIZE] = np.repeat(random.permutation(np.linspace(-0.45, 0.45, PAIRS)), 2)
        found[own, TASTE] = np.repeat(random.permutation(np.linspace(-0.4, 0.4, PAIRS)), 2)
        found[own, PRICE] = np.tile([-COST, COST], PAIRS)
    found[:, 5] = np.sqrt(1 - (found**2).sum(axis=1))
    return found


def planted(users: int = 60, seed: int = 0, **settings: Any) -> tuple[macrid.MacridVAE, HeldOut]:
    """The model of this world, and users with five pairs in each concept."""
    items = vectors(seed)
    model = macrid.MacridVAE(concepts=2, dim=6, assignment="hard", **settings)
    model.items = Ids([f"item-{place:03}" for place in range(len(items))])
    model.table = pa.table(
        {
            "title": [f"{'AB'[place // (2 * PAIRS)]} {row[SIZE]:+.2f}" for place, row in enumerate(items)],
            "size": items[:, SIZE],
            "price": items[:, PRICE],
            "maker": ["the same"] * len(items),
            "colour": pa.nulls(len(items), pa.string()),
        }
    )
    random = np.random.default_rng(seed + 1)
    model.popularity = random.integers(1, 100, len(items))
    model.network = model._build(len(items))
    contexts = items.copy()
    contexts[:, [PRICE, 5]] = 0
    with torch.no_grad():
        network = model.network
        network.item_vectors.copy_(torch.from_numpy(items))
        network.context_vectors.copy_(torch.from_numpy(contexts))
        network.prototypes.copy_(torch.eye(6)[:2])
        network.layers[0].weight.copy_(torch.eye(12)[:, :6])
        network.layers[0].bias.zero_()
    heldout = _heldout(users, random)
    model.sample = heldout.history
    return model, heldout


def _heldout(users: int, random: np.random.Generator) -> HeldOut:
    history, target = np.zeros((2, users, 4 * PAIRS), dtype=np.float32)
    for user in range(users):
        for concept in (0, 1):
            pairs = PAIRS * concept + random.choice(PAIRS, 8, replace=False)
            for matrix, chosen in ((history, pairs[:5]), (target, pairs[5:])):
                matrix[user, np.concatenate([2 * chosen, 2 * chosen + 1])] = 1
    return HeldOut(sp.csr_array(history), sp.csr_array(target), Ids.range(users))
