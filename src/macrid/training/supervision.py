"""Training with labels: concepts and attributes of a few items, spread to the others through the interactions.

On their own, a few labels would affect only the labelled items. Items that share users are similar, so labels are
spread first (`spread`); then each item is pulled towards its given or predicted labels, the more the surer they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.special import softmax
from torch import Tensor

from macrid.data.interactions import binary_csr
from macrid.data.labels import Labels
from macrid.evaluation.agreement import ranks_of
from macrid.models.macridvae import MacridNetwork, MacridVAE
from macrid.models.start import item_factors, spherical_kmeans

if TYPE_CHECKING:
    from macrid.models.neural import NeuralRecommender
    from macrid.ops.sampled import Local
    from macrid.settings import TrainingSettings
from macrid.training.anchoring import Together, anchor_of

RANK = 100  # dimensions of the embedding used to spread labels
PENALTY = 0.1  # on squared regression weights, relative to the labels' log-likelihood
ROUNDS = 5
BELIEF = 0.2  # weight of a predicted label, relative to a given one
PRIOR = 0.1  # pseudo-count of labels per user
CLICKS = 10  # users of an item beyond these add no evidence
FEW = 4  # directions to fit an attribute in, at least; one for every two labels
RIDGE = 0.3  # penalty of that regression, times the variance
KMEANS_ROUNDS = 30
NUMBERS = 1 << 22  # interactions × concepts at once


@contextmanager
def supervised(
    model: NeuralRecommender, labels: Labels | None, matrix: sp.csr_array, training: TrainingSettings
) -> Iterator[None]:
    """Add the labels, and the concepts of an earlier model, to the loss of a MacridVAE.

    Training also starts from labels, unless it starts at random or from an earlier model.
    """
    anchor = anchor_of(model, matrix) if isinstance(model, MacridVAE) else None
    parts: list[Any] = [] if anchor is None else [anchor.to(model.device)]
    if labels is not None:
        assert isinstance(model, MacridVAE)  # no other model reads labels
        matrix = binary_csr(matrix.indptr, matrix.indices, matrix.shape)  # labels spread to whatever users have
        supervision = supervision_from(labels, matrix, model.network.concepts, training.label_weight, training.seed)
        if model.settings.start != "random" and model.started_from is None:
            begin(model.network, supervision)
        model.labelled = {"concepts": list(labels.concept_names), "dimensions": list(labels.attributes)}
        parts.append(supervision.to(model.device))
    if not parts:
        yield
        return
    model.network.supervision = parts[0] if len(parts) == 1 else Together(tuple(parts))
    try:
        yield
    finally:
        model.network.supervision = None


def embed(matrix: sp.csr_array, seed: int) -> Tensor:
    """V · S of a truncated SVD of the degree-normalised interactions, scaled to unit length: (items, rank)."""
    sizes = np.maximum(np.diff(matrix.indptr), 1)
    popularity = np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[1]), 1)
    values = np.repeat(sizes**-0.5, np.diff(matrix.indptr)) * popularity[matrix.indices] ** -0.5
    return _unit_factors(matrix, torch.Generator().manual_seed(seed), values.astype(np.float32))


def _unit_factors(matrix: sp.csr_array, generator: torch.Generator, values: np.ndarray | None = None) -> Tensor:
    rank = max(1, min(RANK, *(side - 1 for side in matrix.shape)))
    return F.normalize(item_factors(matrix, rank, generator, values), dim=1)


def regress(vectors: Tensor, codes: np.ndarray, classes: int) -> np.ndarray:
    """log p(class | item) by multinomial logistic regression on the items whose code is not −1: (items, classes)."""
    x = F.pad(vectors.double(), (0, 1), value=1.0)  # the last weight is the bias
    known = torch.from_numpy(codes >= 0)
    labelled, target = x[known], torch.from_numpy(codes[codes >= 0])
    weights = torch.zeros(classes, x.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        fit = F.cross_entropy(labelled @ weights.T, target, reduction="sum")
        total = fit + PENALTY / 2 * weights[:, :-1].square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    return torch.log_softmax(x @ weights.detach().T, dim=1).numpy()


def believe(matrix: sp.csr_array, vectors: Tensor, codes: np.ndarray, classes: int) -> np.ndarray:
    """p(class | item) by `spread` or by regression alone: (items, classes).

    Histories say much where users choose among many items, and little where they have most of them anyway. So each
    half of the labels is predicted from the other, and the method with more correct predictions is used.
    """
    known = np.flatnonzero(codes >= 0)
    half = known[np.argsort(codes[known], kind="stable")]
    correct = np.zeros(2, dtype=np.int64)
    for fold in (0, 1):
        rest = codes.copy()
        rest[half[fold::2]] = -1
        first = regress(vectors, rest, classes)
        for method, prediction in enumerate((first, spread(matrix, rest, first))):
            correct[method] += (prediction.argmax(axis=1) == codes)[half[fold::2]].sum()
    first = regress(vectors, codes, classes)
    if correct[1] >= correct[0]:
        return spread(matrix, codes, first)
    belief = np.exp(first)
    belief[known] = np.eye(classes)[codes[known]]
    return belief


def spread(matrix: sp.csr_array, codes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """p(class | item) of every item from its users' other items: (items, classes).

    codes: (items,) the labels, −1 where missing. first: the initial log p(class | item).
    For each user of an item, the rest of the history says how much likelier than usual a class is. Repeated, so that
    predicted items inform others.
    """
    columns = matrix.T.tocsr()
    popularity = np.diff(columns.indptr)
    known = codes >= 0
    labels = np.zeros_like(first)
    labels[known, codes[known]] = 1
    share = (labels.sum(axis=0) + 1) / (labels.sum() + labels.shape[1])
    worth = np.where(known, 1.0, BELIEF)[:, None]
    belief = np.where(known[:, None], labels, np.exp(first))
    for step in range(ROUNDS):
        weights = worth * belief
        usual = popularity @ weights
        usual = np.maximum(usual / max(usual.sum(), 1e-300), 1e-12)
        evidence = _evidence(columns, matrix @ weights, weights, usual)
        if step == ROUNDS - 1:  # the users of an item are not independent
            evidence *= np.minimum(1, CLICKS / np.maximum(popularity, 1))[:, None]
        belief = softmax(first + np.log(share) + evidence, axis=1)
        belief[known] = labels[known]
    return belief


def _evidence(columns: sp.csr_array, of_users: np.ndarray, weights: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Sum over an item's users of the log of how much likelier than usual each class is: (items, classes).

    columns: items × users. of_users: (users, classes) the sum of `weights` over each history.
    """
    result = np.zeros_like(weights)
    starts, most = columns.indptr, max(1, NUMBERS // weights.shape[1])
    first = 0
    while first < len(weights):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + most, side="right")) - 1)
        block = slice(starts[first], starts[last])
        counts = np.diff(starts[first : last + 1])
        others = of_users[columns.indices[block]] - np.repeat(weights[first:last], counts, axis=0)
        others = np.maximum(others, 0)
        logs = np.log((others / usual + PRIOR) / (others.sum(axis=1, keepdims=True) + PRIOR))
        place = starts[first : last + 1] - starts[first]
        add = sp.csr_array((np.ones(len(logs)), np.arange(len(logs)), place), (last - first, len(logs)))
        result[first:last] = add @ logs
        first = last
    return result


@dataclass(eq=False)
class Supervision:
    """The target of each item, as far as it is known, and the term of the loss that enforces it."""

    targets: Tensor  # (items, concepts or 0) p(concept | item)
    trust: Tensor  # (items,) weight of the target: 1 for labels, 0 for unknown
    scores: Tensor  # (items, attributes) in [−1, 1]; attribute a is dimension a
    score_trust: Tensor  # (items, attributes)
    groups: Tensor  # (items,) scores are compared within a group
    count: int  # number of groups
    classes: int  # the first concepts, which have a label
    weight: float

    def to(self, device: torch.device) -> Supervision:
        for name in ("targets", "trust", "scores", "score_trust", "groups"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def loss(self, network: MacridNetwork, vectors: Tensor, drawn: Local | None) -> Tensor:
        """weight · (cross-entropy of concepts, mean over items, + sum over attributes of 1 − correlation): ().

        vectors: (rows, dim) of all items, or of those drawn.
        """
        rows = slice(None) if drawn is None else drawn.rows
        real = None
        if drawn is not None and drawn.count is not None:
            real = (torch.arange(len(vectors), device=vectors.device) < drawn.count).to(vectors.dtype)
        total = vectors.new_zeros(())
        if self.classes:
            trust = self.trust[rows] if real is None else self.trust[rows] * real
            logs = network.log_assignment(vectors=vectors)[:, : self.classes]
            items = len(vectors) if real is None else real.sum()
            total = total - ((self.targets[rows, : self.classes] * logs).sum(dim=1) * trust).sum() / items
        if self.scores.shape[1]:
            trust = self.score_trust[rows] if real is None else self.score_trust[rows] * real[:, None]
            values = network.direction(vectors)[:, : self.scores.shape[1]]
            total = total + (1 - correlations(values, self.scores[rows], trust, self.groups[rows], self.count)).sum()
        return self.weight * total


def correlations(values: Tensor, scores: Tensor, trust: Tensor, groups: Tensor, count: int) -> Tensor:
    """Weighted correlation of each column with its scores, averaged over groups by weight: (columns,).

    values, scores, trust: (items, columns); groups: (items,) below `count`.
    """

    def within(each: Tensor) -> Tensor:  # (groups, columns)
        return each.new_zeros(count, each.shape[1]).index_add(0, groups, each)

    mass = within(trust)
    divisor = mass.clamp(min=1e-12)
    x = values - (within(trust * values) / divisor).index_select(0, groups)
    y = scores - (within(trust * scores) / divisor).index_select(0, groups)
    xy, xx, yy = (within(trust * product) for product in (x * y, x * x, y * y))
    by_group = xy / (xx * yy + 1e-12).sqrt()
    return (by_group * mass).sum(dim=0) / mass.sum(dim=0).clamp(min=1e-12)


def supervision_from(labels: Labels, matrix: sp.csr_array, concepts: int, weight: float, seed: int) -> Supervision:
    """Spread the labels to all items of the interactions.

    concepts: of the model; those without a label, and items likelier in them, stay free.
    """
    items, classes = matrix.shape[1], len(labels.concept_names)
    vectors = embed(matrix, seed)
    targets, trust, groups, count = np.zeros((items, 0)), np.zeros(items), np.zeros(items, dtype=np.int64), 1
    if classes:
        codes = stand_ins(matrix, labels.concept, classes, concepts, seed)
        targets = believe(matrix.astype(np.float64), vectors, codes, concepts)
        groups, count = targets.argmax(axis=1), concepts
        trust = np.where(groups < classes, (targets.max(axis=1) * concepts - 1) / (concepts - 1), 0.0)
    scores, score_trust = np.zeros((2, items, len(labels.attributes)))
    for place, values in enumerate(labels.attributes.values()):
        scores[:, place], score_trust[:, place] = spread_attribute(vectors.numpy(), values, groups, count)
    scale = weight * matrix.nnz / max(1, matrix.shape[0])  # a user's likelihood is a sum over this many interactions
    tables = [torch.from_numpy(table).float() for table in (targets, trust, scores, score_trust)]
    return Supervision(tables[0], tables[1], tables[2], tables[3], torch.from_numpy(groups), count, classes, scale)


def stand_ins(matrix: sp.csr_array, codes: np.ndarray, classes: int, concepts: int, seed: int) -> np.ndarray:
    """The labels, plus some items as examples of each concept without a label: (items,).

    Without these every item would have to be in a labelled concept. They are the clearest members of the other clusters
    of a spherical k-means whose first clusters are the labelled concepts.
    """
    codes = codes.copy()
    if classes == concepts:
        return codes
    generator = torch.Generator().manual_seed(seed)
    vectors = _unit_factors(matrix, generator)
    known, label = torch.from_numpy(codes >= 0), torch.from_numpy(codes)
    centres = _middles(vectors[known], label[known], classes)
    others = spherical_kmeans(vectors, concepts, generator)
    order = (others @ centres.T).amax(dim=1).argsort(stable=True)  # those least like the labelled concepts first
    centres = torch.cat([centres, others[order[: concepts - classes]]])
    for _ in range(KMEANS_ROUNDS):
        cluster = (vectors @ centres.T).argmax(dim=1)
        cluster[known] = label[known]
        centres = _middles(vectors, cluster, concepts)
    first, second = (vectors @ centres.T).topk(2, dim=1).values.T
    popularity = np.bincount(matrix.indices, minlength=len(codes))
    clear = (first - second).numpy() * np.minimum(popularity, 2 * CLICKS)
    most = max(2, round((codes >= 0).sum() / classes))
    for concept in range(classes, concepts):
        members = np.flatnonzero((cluster == concept).numpy())
        codes[members[np.argsort(-clear[members], kind="stable")[:most]]] = concept
    return codes


def _middles(vectors: Tensor, cluster: Tensor, count: int) -> Tensor:
    """(count, dim) of unit length"""
    return F.normalize(vectors.new_zeros(count, vectors.shape[1]).index_add_(0, cluster, vectors), dim=1)


def spread_attribute(
    vectors: np.ndarray, values: np.ndarray, groups: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all items and how far to trust them, both (items,), separately for each group.

    vectors: (items, rank); values: (items,), NaN where missing; groups: (items,) below `count`.
    A labelled item has the rank of its value and is trusted fully. Others are predicted by ridge regression on the
    group's main directions, and trusted as far as it predicts left-out labels.
    """
    scores, trust = np.zeros(len(values)), np.zeros(len(values))
    for group in range(count):
        members = np.flatnonzero(groups == group)
        is_labelled = ~np.isnan(values[members])
        labelled = members[is_labelled]
        if len(labelled) < 2 or np.ptp(values[labelled]) == 0:
            continue
        known = rank_scores(values[labelled])
        scores[members], trust[members] = _predict(vectors[members], is_labelled, known)
        scores[labelled], trust[labelled] = known, 1.0
    return scores, trust


def _predict(vectors: np.ndarray, is_labelled: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, float]:
    """Scores (items,) by ridge regression on the labelled items, and its leave-one-out R²."""
    rank = max(FEW, len(known) // 2)
    left, scale, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    x = left[:, :rank] * scale[:rank]
    variance = (x**2).sum(axis=1).mean()
    x = x - x[is_labelled].mean(axis=0)
    inverse = np.linalg.inv(x[is_labelled] @ x[is_labelled].T + RIDGE * max(variance, 1e-12) * np.eye(len(known)))
    weights = inverse @ known
    explained = 1 - ((weights / np.diag(inverse)) ** 2).sum() / (known**2).sum()
    return np.clip(x @ (x[is_labelled].T @ weights), -1, 1), float(np.clip(explained, 0, 1))


def rank_scores(values: np.ndarray) -> np.ndarray:
    """Ranks from −1 to 1, ties averaged: (n,)."""
    return 2 * (ranks_of(values) - 1) / max(1, len(values) - 1) - 1


@torch.no_grad()
def begin(network: MacridNetwork, supervision: Supervision) -> None:
    """Move each prototype to the centre of its items; one without items stays."""
    if supervision.classes:
        vectors = F.normalize(network.item_vectors.cpu(), dim=1)
        middles = F.normalize(supervision.targets.T @ vectors, dim=1)
        has_items = supervision.targets.sum(dim=0) >= 1
        network.prototypes.copy_(torch.where(has_items[:, None], middles, network.prototypes.cpu()))
