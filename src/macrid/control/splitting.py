"""What a history does to an item's place and score, split among the items of the history.

A *push* of item h on item i against item j is what h adds to the score of i less what it adds to that of j. Every item
j that i overtakes counts one place, shared among the items that pushed i past j in proportion to their pushes; every
item that overtakes i counts one place lost, shared among those that pushed the other way. So places add up to the
change of rank, and nobody gets more of them than there were items to pass.

What h adds is its Shapley value, the mean over all orders of the history, estimated from both ends: of m terms, the
first (h alone) counts once, and the last (what is missing without h) stands for the m − 1 others. Two items or fewer
have their exact Shapley values. What that leaves of a score is spread evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from macrid.concepts.space import space_of
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.ops.topk import Decoder, Mixture

MOST_OPPONENTS = 1 << 11  # items overtaken, or overtaking, that are looked at; of more, some stand for all
FEWEST_OPPONENTS = 16  # per item to account for
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
    most = max(FEWEST_OPPONENTS, MOST_OPPONENTS // max(1, len(crossings)))
    groups = [(_some(crossing.overtaken, most), _some(crossing.overtaking, most)) for crossing in crossings]
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


def additions_of_history(model: Recommender, history: np.ndarray, start: np.ndarray) -> Additions:
    """By the model, without the linear part of a MacridVAE. start: scores without a history: (items,)."""
    count = len(history)

    def additions(columns: np.ndarray) -> np.ndarray:
        left_out = [np.delete(history, place) for place in range(count if count > 1 else 0)]
        alone = scores_among(model, [history[place : place + 1] for place in range(count)], columns) - start[columns]
        whole, *without = scores_among(model, [history, *left_out], columns)
        if not without:
            return alone
        return (alone + (count - 1) * (whole - np.stack(without))) / count

    return additions


def additions_of_neighbours(model: MacridVAE, history: np.ndarray) -> Additions:
    """Those of the linear part, which are exact."""
    neighbours = model.neighbours
    assert neighbours is not None

    def additions(columns: np.ndarray) -> np.ndarray:
        chosen = neighbours.columns(torch.from_numpy(columns).to(neighbours.device))
        return chosen.scores(model.matrix([history[place : place + 1] for place in range(len(history))])).cpu().numpy()

    return additions


@torch.no_grad()
def scores_among(model: Recommender, histories: Sequence[np.ndarray], columns: np.ndarray) -> np.ndarray:
    """Scores of some items up to a number per user, without the linear part of a MacridVAE: (users, columns)."""
    if not isinstance(model, MacridVAE):
        at_once = max(1, SCORES_AT_ONCE // len(model.items))
        parts = (model.matrix(histories[at : at + at_once]) for at in range(0, len(histories), at_once))
        return np.concatenate([model.scores(part)[:, columns].cpu().numpy() for part in parts])
    space = space_of(model)
    whole, at = space.decoder, torch.from_numpy(columns).to(space.decoder.items.device)
    decoder = Decoder(whole.items[at], whole.log_assignment[at], whole.temperature, whole.is_hard)
    scores = []
    for start in range(0, len(histories), USERS):
        encoded = space.encode(model.matrix(histories[start : start + USERS]))
        mixture = Mixture(*(torch.from_numpy(part).to(at.device) for part in encoded))
        scores.append(decoder.log_probabilities(mixture).cpu().numpy())
    return np.concatenate(scores)


def _fractions(pushes: np.ndarray) -> np.ndarray:
    """Shares of what pushes in the right direction, column by column; equal ones where nothing does."""
    right = np.maximum(pushes, 0)
    total = right.sum(axis=0)
    return np.where(total > 0, right / np.where(total > 0, total, 1), 1 / len(pushes))


def _some(positions: np.ndarray, most: int) -> np.ndarray:
    """All positions, or as many as allowed, evenly spaced."""
    return positions if len(positions) <= most else positions[np.linspace(0, len(positions) - 1, most).astype(int)]
