"""What a history does to an item's place and score, split among the items of the history.

A *push* of item h on item i against item j is what h adds to the score of i less what it adds to that of j. Every item
j that i overtakes counts one place, shared among the items that pushed i past j in proportion to their pushes; every
item that overtakes i counts one place lost, shared among those that pushed the other way. So places add up to the
change of rank, and nobody gets more of them than there were items to pass.

What h adds is its Shapley value, the mean over all orders of the history, estimated from both ends: of m terms, the
first (h alone) counts once, and the last (what is missing without h) stands for the m − 1 others. Two items or fewer
have their exact Shapley values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.concepts.space import space_of
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.ops.topk import Decoder, Mixture

MOST_OPPONENTS = 256  # items passed by an item, or passing it, that are looked at; of more, these stand for all
COMPETITORS = 256  # best items that scores are relative to
USERS = 128  # scored at once
SCORES_AT_ONCE = 1 << 22  # users × items

Additions = Callable[[np.ndarray], np.ndarray]
"""What each item of a history adds to the scores of some items, up to a number that they share: (history, items)."""


class Crossing(NamedTuple):
    """An item between two orders of the same candidates."""

    item: int
    overtaken: np.ndarray
    """Positions of the items that it left behind."""
    overtaking: np.ndarray
    """Positions of those that passed it."""


class Split(NamedTuple):
    """Per item of the history: (history,) each."""

    scores: np.ndarray
    places: np.ndarray


def split(additions: Additions, crossings: Sequence[Crossing]) -> list[Split]:
    """For every crossing, its places by their pushes, and the additions to the item's score."""
    groups = [(_some(crossing.overtaken), _some(crossing.overtaking)) for crossing in crossings]
    columns = np.unique(np.concatenate([*([c.item] for c in crossings), *(part for pair in groups for part in pair)]))
    columns = columns.astype(np.int64)
    added = additions(columns)  # (history, columns)
    splits = []
    for crossing, opponents in zip(crossings, groups, strict=True):
        own = added[:, np.searchsorted(columns, crossing.item)]
        places = np.zeros(len(added))
        for sign, some, all_ in zip((1, -1), opponents, (crossing.overtaken, crossing.overtaking), strict=True):
            if len(some):
                pushes = sign * (own[:, None] - added[:, np.searchsorted(columns, some)])
                places += sign * len(all_) * _fractions(pushes).mean(axis=1)
        splits.append(Split(own, places))
    return splits


def apportioned(parts: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers near the parts that add up to a total, by largest remainders; what is missing is spread evenly."""
    if not len(parts):
        return np.zeros(0, dtype=np.int64)
    exact = parts + (total - parts.sum()) / len(parts)
    whole = np.floor(exact)
    short = round(total - float(whole.sum()))
    whole[np.argsort(whole - exact, kind="stable")[:short]] += 1
    return whole.astype(np.int64)


def additions_of_history(model: Recommender, history: np.ndarray, start: np.ndarray, end: np.ndarray) -> Additions:
    """By the model, without the linear part of a MacridVAE. start, end: scores without and with it: (items,)."""
    count = len(history)
    best = np.argsort(-end, kind="stable")[:COMPETITORS]

    def additions(columns: np.ndarray) -> np.ndarray:
        alone = scores_among(model, [history[place : place + 1] for place in range(count)], columns, best)
        alone -= start[columns]
        if count == 1:
            return alone
        left_out = [np.delete(history, place) for place in range(count)]
        whole, *without = scores_among(model, [history, *left_out], columns, best)
        return (alone + (count - 1) * (whole - np.stack(without))) / count

    return additions


def additions_of_neighbours(model: MacridVAE, history: np.ndarray) -> Additions:
    """Those of the linear part, which are exact."""
    neighbours, alone = model.neighbours, [history[place : place + 1] for place in range(len(history))]
    assert neighbours is not None
    return lambda columns: _in_parts(model, neighbours.scores, alone, columns)


@torch.no_grad()
def scores_among(
    model: Recommender, histories: Sequence[np.ndarray], columns: np.ndarray, best: np.ndarray
) -> np.ndarray:
    """Scores of some items: (users, columns). Those of a MacridVAE are without its linear part, and log-probabilities
    relative to the best items, which stand for all."""
    if not isinstance(model, MacridVAE):
        return _in_parts(model, model.scores, histories, columns)
    space = space_of(model)
    whole, device = space.decoder, space.decoder.items.device
    at = torch.from_numpy(np.concatenate([columns, best])).to(device)
    decoder = Decoder(whole.items[at], whole.log_assignment[at], whole.temperature, whole.is_hard)
    scores = []
    for start in range(0, len(histories), USERS):
        encoded = space.encode(model.matrix(histories[start : start + USERS]))
        log_p = decoder.log_probabilities(Mixture(*(torch.from_numpy(part).to(device) for part in encoded)))
        relative = log_p[:, : len(columns)] - log_p[:, len(columns) :].logsumexp(dim=1, keepdim=True)
        scores.append(relative.cpu().numpy())
    return np.concatenate(scores)


def _in_parts(
    model: Recommender, score: Callable[[sp.csr_array], Tensor], histories: Sequence[np.ndarray], columns: np.ndarray
) -> np.ndarray:
    """Some columns of scores that can be computed for all items only: (users, columns)."""
    at_once = max(1, SCORES_AT_ONCE // len(model.items))
    parts = (model.matrix(histories[at : at + at_once]) for at in range(0, len(histories), at_once))
    return np.concatenate([score(part)[:, columns].cpu().numpy() for part in parts])


def _fractions(pushes: np.ndarray) -> np.ndarray:
    """Shares of what pushes in the right direction, column by column; equal ones where nothing does."""
    right = np.maximum(pushes, 0)
    total = right.sum(axis=0)
    return np.where(total > 0, right / np.where(total > 0, total, 1), 1 / len(pushes))


def _some(positions: np.ndarray) -> np.ndarray:
    """All positions, or as many as are looked at, evenly spaced."""
    count = min(len(positions), MOST_OPPONENTS)
    return positions[np.linspace(0, max(0, len(positions) - 1), count).astype(int)]
