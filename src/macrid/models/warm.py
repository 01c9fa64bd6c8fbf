"""A warm start: the weights of an earlier model as the start of a training, its concepts under their old numbers.

A trained model has learned its users by heart to some degree, and trained further on much the same users it would do
so more. So items start half-way between their vectors in the earlier model and those that a fresh training would start
with, turned into the coordinates of the earlier one; layers start afresh. Prototypes stay, and with them concepts.

A new item has no earlier vector. Its neighbours stand in: the items that share most of its users, and, where it has few
users, the items with the most similar attributes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.attributes import POPULARITY, Catalogue, columns_of
from macrid.data.ids import Ids, first_few, places_in
from macrid.errors import DataError, SettingsError
from macrid.ops.vectors import unit

if TYPE_CHECKING:
    from macrid.models.base import Recommender
    from macrid.models.macridvae import MacridVAE

TRAINING: dict[str, Any] = {"epochs": 30, "patience": 2, "beta_warmup": 0}
"""Training settings of a warm start, which is close to its best from the beginning."""
SAME = ("dim", "hidden_layers", "width", "similarity")
"""Settings that decide the shape of the weights, or what they mean."""
KEPT_SHARE = 0.5  # of the earlier vectors; with more, lists are less accurate than those of a fresh training
NEAREST = 20  # items that a new one starts from
FEW = 5.0  # users of a new item from which on they say more than its attributes
AT_ONCE = 1 << 23  # similarities computed at once


@dataclass(frozen=True)
class Origin:
    """The items of a training among those of the earlier model."""

    places: np.ndarray
    """(items,) their positions in the earlier model, −1 if new."""
    dropped: int
    """Items of the earlier model that are gone."""

    @property
    def kept(self) -> np.ndarray:
        """(kept,) positions of the items that both have."""
        return np.flatnonzero(self.places >= 0)

    @property
    def new(self) -> np.ndarray:
        """(new,) positions of the others."""
        return np.flatnonzero(self.places < 0)


def origin_of(items: Ids, old: MacridVAE) -> Origin:
    """A `DataError` if the two have no item in common."""
    places = np.full(len(items), -1, dtype=np.int64)
    found = places_in(items, old.items)  # (old items,)
    places[found[found >= 0]] = np.flatnonzero(found >= 0)
    if not (places >= 0).any():
        raise DataError(
            f"the run to start from shares no item with the data: it has {first_few(old.items, 3)}, the data"
            f" {first_few(items, 3)}; ids must be the same in both"
        )
    return Origin(places, int((found < 0).sum()))


def check_possible(settings: Any, old: Any) -> None:
    """A `SettingsError` if weights of this model cannot be the start of one with these settings."""
    from macrid.models.macridvae import MacridVAE

    if not isinstance(old, MacridVAE):
        kind = type(old).__name__
        raise SettingsError(f"a warm start needs a run of a MacridVAE, not of {kind}; name another one, or none")
    old.check_fitted()
    if settings.concepts == "merge":
        raise SettingsError("concepts is 'merge', but a warm start keeps its concepts; give a number, or leave it out")
    for name in SAME:
        if name == "width" and not settings.hidden_layers:
            continue
        now, before = getattr(settings, name), getattr(old.settings, name)
        if now != before:
            raise SettingsError(f"{name} is {now!r}, but {before!r} in the run to start from; leave it out")


def settings_from(old: MacridVAE, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the earlier model, its number of concepts included, except those given."""
    return {**old.settings.model_dump(), "concepts": old.network.concepts, **given}


def training_from(old: Recommender, given: Mapping[str, Any]) -> dict[str, Any]:
    """The training settings of the earlier model, with a shorter schedule, except those given."""
    before = {} if old.training is None else old.training.model_dump(exclude={"device", "item_shards"})
    return {**before, **TRAINING, **given}


def digest_of(model: MacridVAE) -> str:
    """Identifies the weights that a training starts from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]


def turned(vectors: Tensor, old: MacridVAE, origin: Origin, popularity: np.ndarray) -> Tensor:
    """Unit vectors (items, dim) rotated to be as near as possible to the earlier ones (orthogonal Procrustes)."""
    kept, before = torch.from_numpy(origin.kept), unit(_kept_rows(old.network.item_vectors, origin))
    weights = torch.from_numpy(np.sqrt(np.maximum(popularity[origin.kept], 1))).to(vectors.dtype)
    left, _, right = torch.linalg.svd(vectors[kept].T @ (weights[:, None] * before))
    return vectors @ (left @ right)


@torch.no_grad()
def move_towards(model: MacridVAE, old: MacridVAE, matrix: sp.csr_array, origin: Origin) -> None:
    """Move the vectors of a network that a fresh training could start with half-way to the earlier ones.

    Prototypes are copied if there are equally many; otherwise they are up to the caller.
    """
    network, earlier = model.network, old.network
    if network.prototypes.shape == earlier.prototypes.shape:
        network.prototypes.copy_(earlier.prototypes)
    if network.share_power is not None and earlier.share_power is not None:
        network.share_power.copy_(earlier.share_power)
    kept, new = torch.from_numpy(origin.kept), torch.from_numpy(origin.new)
    weights = neighbour_weights(model, matrix, origin) if len(new) else None
    for name in ("item_vectors", "context_vectors"):
        table, before = network.get_parameter(name), _kept_rows(earlier.get_parameter(name), origin)
        table[kept] = torch.lerp(table[kept], before, KEPT_SHARE)
        if weights is not None:
            stand_ins = blended(before, weights, torch.Generator().manual_seed(0))
            table[new] = torch.lerp(table[new], stand_ins, KEPT_SHARE)


def _kept_rows(table: Tensor, origin: Origin) -> Tensor:
    """(kept, dim) on the CPU"""
    return table.detach().cpu()[torch.from_numpy(origin.places[origin.kept])]


def neighbour_weights(items: Catalogue, matrix: sp.csr_array, origin: Origin) -> sp.csr_array:
    """How much of each kept item a new one starts as, in rows that add up to 1: (new, kept)."""
    by_users = _nearest_by_users(matrix, origin)
    users = np.bincount(matrix.indices, minlength=len(origin.places))[origin.new]
    trust = np.where(np.diff(by_users.indptr) > 0, users / (users + FEW), 0.0)
    by_attributes = _nearest_by_attributes(items, origin)
    if by_attributes is None:
        trust = (np.diff(by_users.indptr) > 0).astype(np.float64)
        by_attributes = sp.csr_array(by_users.shape)
    weights = sp.diags_array(trust) @ by_users + sp.diags_array(1 - trust) @ by_attributes
    usual = np.maximum(items.popularity[origin.kept], 1e-3)
    unknown = np.flatnonzero(weights.sum(axis=1) <= 0)  # nothing is known about them
    if len(unknown):
        rows = sp.csr_array(np.repeat(usual[None] / usual.sum(), len(unknown), axis=0))
        place = sp.csr_array((np.ones(len(unknown)), (unknown, np.arange(len(unknown)))), (len(users), len(unknown)))
        weights = weights + place @ rows
    return sp.csr_array(sp.diags_array(1 / np.asarray(weights.sum(axis=1)).ravel()) @ weights)


def blended(kept: Tensor, weights: sp.csr_array, generator: torch.Generator) -> Tensor:
    """Weighted means of vectors (kept, dim), made as long as these by a random part: (new, dim).

    A mean that is just scaled up would be closer to everybody than any of its neighbours, and lead every list.
    """
    shares = weights.astype(np.float32)
    means = torch.from_numpy(shares @ kept.numpy())
    lengths = torch.from_numpy(shares @ kept.norm(dim=1).numpy())
    random = torch.randn(means.shape, generator=generator)
    along = unit(means)
    random = unit(random - (random * along).sum(dim=1, keepdim=True) * along)
    missing = (lengths.square() - means.square().sum(dim=1)).clamp(min=0).sqrt()
    return means + missing[:, None] * random


def _nearest_by_users(matrix: sp.csr_array, origin: Origin) -> sp.csr_array:
    """The kept items with most users in common, by cosine, in rows that add up to 1 or are empty: (new, kept)."""
    columns = matrix.tocsc()
    kept = sp.csr_array(columns[:, origin.kept])
    popularity = np.sqrt(np.maximum(np.asarray(kept.sum(axis=0)).ravel(), 1e-12))
    rows = []
    at_once = max(1, AT_ONCE // max(1, kept.shape[1]))
    for start in range(0, len(origin.new), at_once):
        together = sp.csr_array(columns[:, origin.new[start : start + at_once]].T) @ kept
        rows.append(_strongest(together.toarray() / popularity))
    return sp.csr_array(sp.vstack(rows))


def _nearest_by_attributes(items: Catalogue, origin: Origin) -> sp.csr_array | None:
    """The kept items with the most similar attributes, in the same form; None if nothing is known about items."""
    columns = [column for column in columns_of(items) if column.kind != POPULARITY and column.is_usable()]
    if not columns:
        return None
    values = np.stack([column.values for column in columns], axis=1)
    values = (values - np.nanmean(values, axis=0)) / np.maximum(np.nanstd(values, axis=0), 1e-12)
    values = np.nan_to_num(values)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    kept, rows = values[origin.kept].T, []
    at_once = max(1, AT_ONCE // max(1, kept.shape[1]))
    for start in range(0, len(origin.new), at_once):
        rows.append(_strongest(np.maximum(values[origin.new[start : start + at_once]] @ kept, 0)))
    return sp.csr_array(sp.vstack(rows))


def _strongest(similarity: np.ndarray) -> sp.csr_array:
    """Only the largest of every row, divided by their sum."""
    count = min(NEAREST, similarity.shape[1])
    best = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    values = np.take_along_axis(similarity, best, axis=1)
    values = values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12)
    rows = np.repeat(np.arange(len(best)), count)
    matrix = sp.csr_array((values.ravel(), (rows, best.ravel())), shape=similarity.shape)
    matrix.eliminate_zeros()
    return matrix


def crossing(now: np.ndarray, before: np.ndarray, weights: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The weight of the items in each concept of one partition and each of another: `shape`.

    now, before, weights: (items,) concepts in both, and how much an item counts.
    """
    joint = np.zeros(shape)
    np.add.at(joint, (now, before), weights)
    return joint


def old_numbers(joint: np.ndarray) -> np.ndarray:
    """The number that every concept gets, so that as many choices as possible stay under theirs: (concepts,).

    joint: `crossing` of the new concepts and the old ones. Concepts without a counterpart get the numbers left over.
    """
    from scipy.optimize import linear_sum_assignment

    concepts = len(joint)
    numbers = np.full(concepts, -1)
    as_they_are = 1e-9 * max(1.0, float(joint.max(initial=0))) * np.eye(*joint.shape)  # where it makes no difference
    for now, before in zip(*linear_sum_assignment(joint + as_they_are, maximize=True), strict=True):
        if before < concepts:
            numbers[now] = before
    free = iter(number for number in range(concepts) if number not in set(numbers.tolist()))
    return np.array([next(free) if number < 0 else number for number in numbers.tolist()])


@torch.no_grad()
def keep_numbers(model: MacridVAE, old: MacridVAE, origin: Origin) -> int:
    """Number the concepts of a trained network like those of the earlier one; how many had changed their number."""
    weights = np.maximum(model.popularity[origin.kept], 1).astype(np.float64)
    now, before = model.concepts_of_items()[origin.kept], old.concepts_of_items()[origin.places[origin.kept]]
    joint = crossing(now, before, weights, (model.network.concepts, old.network.concepts))
    numbers = old_numbers(joint)
    if (numbers == np.arange(len(numbers))).all():
        return 0
    prototypes = model.network.prototypes
    prototypes.copy_(prototypes[torch.from_numpy(np.argsort(numbers)).to(prototypes.device)].clone())
    return int((numbers != np.arange(len(numbers))).sum())
