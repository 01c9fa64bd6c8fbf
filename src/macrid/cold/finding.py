"""How well users find their own items when all items are placed by a map, and how often such items are listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from macrid.models.macridvae import MacridVAE
from macrid.ops.topk import Mixture

MOST_USERS = 300
MOST_ITEMS = 3_000  # to choose among
FEWEST_USERS = 20
HIDDEN = 0.2  # of a history, to be found
LISTED = 20  # items in a list
USERS_COUNTED = 100  # whose lists are counted
ITEMS_COUNTED = 1_000
SCORES_COUNTED = 1 << 25  # of these users and all items
AT_ONCE = 1 << 24  # terms of scores
HALVINGS = 12
FURTHEST = 2.0  # that vectors are pushed


@dataclass(frozen=True)
class Finders:
    """Users of whom some items are hidden."""

    model: MacridVAE
    mixture: Mixture
    """By what is left of their histories."""
    among: np.ndarray
    """(items,) places, among the placed items, of those to choose among."""
    hidden: np.ndarray
    """(users, items) whether an item is to be found."""
    unseen: np.ndarray
    """(users, items) whether it is not in the rest of the history."""
    trained: Tensor
    """(counted users, items of the model) scores of trained items, −inf for those left in the history."""
    counts: Tensor
    """(counted users, items of the model) 0 for items left in the history; hidden ones count for these, too."""
    threshold: Tensor
    """(counted users, 1) the score of the last of these in each list."""

    @classmethod
    def of(cls, model: MacridVAE, used: np.ndarray) -> Finders | None:
        """From the users that a model keeps; None if they are too few. used: positions of items that are placed."""
        sample = model.sample
        if sample is None:
            return None
        random = np.random.default_rng(0)
        among = np.sort(random.permutation(len(used))[:MOST_ITEMS])
        place = np.full(len(model.items), -1)
        place[used[among]] = np.arange(len(among))
        histories, hidden = [], []
        for row in range(min(sample.shape[0], MOST_USERS)):
            items = sample.indices[sample.indptr[row] : sample.indptr[row + 1]]
            chosen = random.permutation(items[place[items] >= 0])[: max(1, int(HIDDEN * len(items)))]
            if len(items) >= 5 and len(chosen):
                histories.append(np.setdiff1d(items, chosen))
                hidden.append(chosen)
        if len(histories) < FEWEST_USERS:
            return None
        rest = model.matrix(histories)
        encoded = model.network.encode(model.to_device(rest), model.decoder.log_assignment)
        linear = None if model.neighbours is None else model.neighbours.scores(rest)
        mixture = Mixture(encoded.mean, encoded.log_weights, linear)
        is_hidden = np.zeros((len(hidden), len(among)), dtype=bool)
        for row, items in enumerate(hidden):
            is_hidden[row, place[items]] = True
        unseen = rest[:, used[among]].toarray() == 0
        counted = int(np.clip(SCORES_COUNTED // len(model.items), FEWEST_USERS, USERS_COUNTED))
        seen = rest[:counted].astype(bool).toarray()
        trained = _trained(model, mixture, seen)
        counts = (~seen).astype(np.float32)
        for row, items in enumerate(hidden[:counted]):
            counts[row, items] = 1 + len(histories[row]) / len(items)
        threshold = trained.topk(min(LISTED, trained.shape[1]), dim=1).values[:, -1:]
        of_lists = trained, torch.from_numpy(counts).to(trained.device), threshold
        return cls(model, mixture, among, is_hidden, unseen, *of_lists)

    def ranks(self, directions: np.ndarray) -> np.ndarray:
        """From 0, of every item for every user, seen ones last: (users, items). directions: of placed items."""
        scores = _scores(self.model, self.mixture, directions[self.among]).cpu().numpy()
        return np.argsort(np.argsort(-np.where(self.unseen, scores, -np.inf), axis=1, kind="stable"), axis=1)

    def gain(self, directions: np.ndarray) -> float:
        """Mean of 1 / log2(2 + rank) over the hidden items of a user, averaged over users."""
        gains = 1 / np.log2(2 + self.ranks(directions))
        return float(((gains * self.hidden).sum(axis=1) / self.hidden.sum(axis=1)).mean())

    def preferred(self, directions: np.ndarray) -> float:
        """How often a hidden item is ranked before one that the user never had, averaged over users."""
        ranks, found = self.ranks(directions), self.hidden.sum(axis=1)
        others = self.unseen.sum(axis=1) - found
        before = (ranks * self.hidden).sum(axis=1) - found * (found - 1) / 2  # others before hidden items
        return float(np.mean(1 - before / np.maximum(found * others, 1)))

    def push(self, directions: np.ndarray, items: np.ndarray) -> float:
        """How far to push placed items from what suits everybody, to be listed as often as with trained vectors.

        A predicted vector is an average, and averages suit everybody a little too well.
        directions: of placed items. items: their positions in the model.
        """
        chosen = np.random.default_rng(0).permutation(len(items))[:ITEMS_COUNTED]
        some, few = directions[chosen], slice(0, len(self.threshold))
        weights = self.mixture.log_weights
        mixture = Mixture(self.mixture.components[few], None if weights is None else weights[few])
        places = torch.from_numpy(items[chosen]).to(self.trained.device)
        fair = self._listed(self.trained[:, places], places)
        low, high = -FURTHEST, FURTHEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            scores = _scores(self.model, mixture, pushed(self.model, self.generic, some, middle))
            low, high = (middle, high) if self._listed(scores, places) > fair else (low, middle)
        return (low + high) / 2

    def _listed(self, scores: Tensor, items: Tensor) -> float:
        """How often items would be in a list if nobody had them yet. scores: (users, items)."""
        counts = self.counts[:, items]
        return float(((scores >= self.threshold) * counts).sum() / counts.sum())

    @property
    def generic(self) -> np.ndarray:
        """What suits everybody, in each concept: (concepts, dim)."""
        z, log_weights = self.mixture.components, self.mixture.log_weights
        weights = torch.ones_like(z[..., 0]) if log_weights is None else log_weights.exp()
        mean = (weights[..., None] * z).sum(dim=0) / weights.sum(dim=0)[:, None]
        return mean.cpu().double().numpy()


def pushed(model: MacridVAE, generic: np.ndarray, directions: np.ndarray, amount: float) -> np.ndarray:
    """Item vectors moved away from what suits everybody in their concepts: (items, dim)."""
    network = model.network
    with torch.no_grad():
        vectors = network.direction(torch.from_numpy(np.ascontiguousarray(directions)).to(network.item_vectors))
        membership = network.log_assignment(vectors=vectors).exp()
    away = membership.cpu().double().numpy() @ generic
    return np.asarray(vectors.cpu().double().numpy() - amount * away)


@torch.no_grad()
def _scores(model: MacridVAE, mixture: Mixture, directions: np.ndarray) -> Tensor:
    """log p of items, up to a constant of each user: (users, items)."""
    network = model.network
    vectors = torch.from_numpy(np.ascontiguousarray(directions)).to(network.item_vectors)
    items, log_c = network.direction(vectors), network.log_assignment(vectors=vectors).t()
    z = mixture.components / model.settings.temperature
    log_w = z.new_zeros(z.shape[:2]) if mixture.log_weights is None else mixture.log_weights
    at_once = max(1, AT_ONCE // max(log_c.numel(), 1))
    parts = [
        (z[start : start + at_once] @ items.t() + log_c + log_w[start : start + at_once, :, None]).logsumexp(dim=1)
        for start in range(0, len(z), at_once)
    ]
    return torch.cat(parts)


def _trained(model: MacridVAE, mixture: Mixture, seen: np.ndarray) -> Tensor:
    """Scores of trained items for the first users, −inf for seen ones: (users, items). seen: (users, items)."""
    components, log_weights, linear = (None if part is None else part[: len(seen)] for part in mixture)
    assert components is not None
    scores = _scores(model, Mixture(components, log_weights), model.network.item_vectors.detach().cpu().numpy())
    scores = scores if linear is None else scores + linear
    return scores.masked_fill(torch.from_numpy(seen).to(scores.device), -torch.inf)
