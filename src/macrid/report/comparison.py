"""How two models over much the same items differ: concepts, names, knobs and the lists of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import entr

from macrid.concepts.names import ConceptName, label
from macrid.concepts.space import Space, space_of
from macrid.data.ids import first_few, places_in
from macrid.errors import DataError
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.warm import crossing

LIST = 10  # items that overlap and the top are measured on
DEEP = 50  # items that rank-biased overlap is measured on
PERSISTENCE = 0.9  # of its reader, who goes on to the next item with this probability
SAME_KNOB = 0.7  # correlation of items' coordinates along two axes that are the same knob
MOVED = 5  # items that are shown as examples of those that left a concept


@dataclass(frozen=True)
class Pair:
    """Two models and the items that both know."""

    before: Recommender
    after: Recommender
    places: np.ndarray
    """(common,) positions in the first model."""
    kept: np.ndarray
    """(common,) positions in the second."""

    @classmethod
    def of(cls, before: Recommender, after: Recommender) -> Pair:
        found = places_in(before.items, after.items)
        kept = np.flatnonzero(found >= 0)
        if not len(kept):
            few = f"the first has {first_few(before.items, 3)}, the second {first_few(after.items, 3)}"
            raise DataError(f"the two runs share no item: {few}; ids must be the same in both")
        return cls(before, after, found[kept], kept)

    @property
    def weights(self) -> np.ndarray:
        """(common,) how often items were chosen, at least once."""
        return np.maximum(self.after.popularity[self.kept], 1).astype(np.float64)

    def spaces(self) -> tuple[Space, Space] | None:
        """None unless both have concepts."""
        if isinstance(self.before, MacridVAE) and isinstance(self.after, MacridVAE):
            return space_of(self.before), space_of(self.after)
        return None


def items(pair: Pair) -> dict[str, int]:
    common = len(pair.kept)
    return {"common": common, "new": len(pair.after.items) - common, "gone": len(pair.before.items) - common}


def concepts(pair: Pair) -> dict[str, Any]:
    """Concepts of both, matched by their items, with names and sizes, and what moved."""
    from scipy.optimize import linear_sum_assignment

    both = pair.spaces()
    assert both is not None
    first, second = both
    before, after = first.concept_of[pair.places], second.concept_of[pair.kept]
    joint = crossing(before, after, pair.weights, (first.concepts, second.concepts))
    found = joint + 1e-9 * max(1.0, joint.max()) * np.eye(*joint.shape)
    counterpart = dict(zip(*(side.tolist() for side in linear_sum_assignment(found, maximize=True)), strict=True))
    rows = [_concept(pair, first, second, k, counterpart.get(k), joint) for k in range(first.concepts)]
    extra = sorted(set(range(second.concepts)) - set(counterpart.values()))
    rows += [_new_concept(second, k) for k in extra]
    named = [row for row in rows if row["name_before"] is not None]
    kept = [row for row in named if row["name_after"] == row["name_before"]]
    edited = [row for row in named if row["edited"]]
    return {
        "ari": weighted_ari(joint),
        "nmi": weighted_nmi(joint),
        "numbers_kept": float(np.mean([row["after"] == row["before"] for row in rows])),
        "names_kept": len(kept) / len(named) if named else None,
        "edited_lost": sum(row not in kept for row in edited),
        "concepts": rows,
    }


def _concept(pair: Pair, first: Space, second: Space, k: int, other: int | None, joint: np.ndarray) -> dict[str, Any]:
    entry, mass = _entry(first, k), float(joint[k].sum())
    counterpart = None if other is None else _entry(second, other)
    gone = np.zeros(len(pair.kept), dtype=bool)
    if other is not None:
        gone = (first.concept_of[pair.places] == k) & (second.concept_of[pair.kept] != other)
    moved = np.flatnonzero(gone)
    moved = moved[np.argsort(-pair.weights[moved], kind="stable")]
    return {
        "before": k, "after": other, "name_before": entry.name, "label_before": label(entry), "edited": entry.edited,
        "name_after": None if counterpart is None else counterpart.name,
        "label_after": None if counterpart is None else label(counterpart),
        "items_before": len(first.members(k)), "items_after": 0 if other is None else len(second.members(other)),
        "stay": None if other is None or not mass else float(joint[k, other]) / mass,
        "moved_items": int(gone.sum()),
        "moved": [
            {"id": str(item.id), "title": item.title, "to": item.concept}
            for item in second.described(pair.kept[moved[:MOVED]])
        ],
    }  # fmt: skip


def _new_concept(second: Space, k: int) -> dict[str, Any]:
    entry = _entry(second, k)
    return {
        "before": None, "after": k, "name_before": None, "label_before": None, "edited": False,
        "name_after": entry.name, "label_after": label(entry), "items_before": 0,
        "items_after": len(second.members(k)), "stay": None, "moved_items": 0, "moved": [],
    }  # fmt: skip


def _entry(space: Space, k: int) -> ConceptName:
    names = space.meaning.names
    return ConceptName(concept=k, name=None) if names is None else names.concepts[k]


def knobs(pair: Pair, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The named dimensions of the first model in the second: kept, moved to another number, reversed or lost."""
    both = pair.spaces()
    assert both is not None
    first, second = both
    found = []
    for row in rows:
        k, other = row["before"], row["after"]
        if k is None:
            continue
        named = [entry for entry in first.meaning.dimensions if entry.concept == k and entry.name is not None]
        rho = _coordinates_agree(pair, first, second, k, other, [entry.dimension for entry in named])
        for entry, agreement in zip(named, rho, strict=True):
            place = None if other is None or not len(agreement) else int(np.abs(agreement).argmax())
            strongest = 0.0 if place is None else float(agreement[place])
            here = float(agreement[entry.dimension]) if place is not None and entry.dimension < len(agreement) else 0.0
            if here >= SAME_KNOB and other == k:
                status, strongest, place = "kept", here, entry.dimension
            elif abs(strongest) < SAME_KNOB:
                status = "lost"
            else:
                status = "moved" if strongest > 0 else "reversed"
            found.append(
                {"concept": k, "dimension": entry.dimension, "name": entry.name, "edited": entry.edited,
                 "status": status, "correlation": strongest,
                 "to": None if status == "lost" else [other, place]}
            )  # fmt: skip
    kept = sum(knob["status"] == "kept" for knob in found)
    return {"knobs_kept": kept / len(found) if found else None, "knobs": found}


def _coordinates_agree(
    pair: Pair, first: Space, second: Space, k: int, other: int | None, named: list[int]
) -> np.ndarray:
    """Correlations of items' coordinates along dimensions of two concepts: (named, dim of the second)."""
    if other is None or not named:
        return np.zeros((len(named), 0))
    both = (first.concept_of[pair.places] == k) & (second.concept_of[pair.kept] == other)
    if both.sum() < 3:
        return np.zeros((len(named), second.dim))
    x = first.items[pair.places[both]] @ first.axes(k)[named].T
    y = second.items[pair.kept[both]] @ second.axes(other).T
    x, y = (each - each.mean(axis=0) for each in (x, y))
    lengths = np.sqrt(np.outer(np.square(x).sum(axis=0), np.square(y).sum(axis=0)))
    return np.asarray(x.T @ y / np.maximum(lengths, 1e-12))


def lists(pair: Pair, histories: sp.csr_array) -> dict[str, Any]:
    """How much the lists of users agree. histories: users × the items of the second model.

    Both models rank the items that both know, except those in the history; new items are counted separately.
    """
    history = sp.csr_array(histories[:, pair.kept])
    users = np.flatnonzero(np.diff(history.indptr) > 0)
    left = len(pair.kept) - int(np.diff(history.indptr)[users].max(initial=0))
    depth = min(DEEP, left)
    if not len(users) or depth < 1:
        return {"users": 0, "overlap": None, "rbo": None, "same_top": None, "new_items": None}
    history = history[users]
    ranked = [
        _ranked(model, history, positions, depth)
        for model, positions in ((pair.before, pair.places), (pair.after, pair.kept))
    ]
    agree = agreement(*ranked)
    n = min(LIST, depth)
    whole = pair.after.rank(histories[users], n, hidden=histories[users])[0].cpu().numpy()
    return {
        "users": len(users),
        "overlap": float(agree[:, n - 1].mean()),
        "rbo": float(rank_biased_overlap(agree).mean()),
        "same_top": float((ranked[0][:, 0] == ranked[1][:, 0]).mean()),
        "new_items": float((~np.isin(whole, pair.kept)).mean()),
    }


def _ranked(model: Recommender, history: sp.csr_array, positions: np.ndarray, depth: int) -> np.ndarray:
    """(users, depth) the best of the common items, by their place among them."""
    count = len(model.items)
    spread = sp.csr_array((history.data, positions[history.indices], history.indptr), (history.shape[0], count))
    spread.sort_indices()
    allowed = np.zeros(count, dtype=bool)
    allowed[positions] = True
    place = np.full(count, -1)
    place[positions] = np.arange(len(positions))
    return place[model.rank(spread, depth, hidden=spread, allowed=allowed)[0].cpu().numpy()]


def agreement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The share of the first d items that two lists have in common, for every d: (users, depth).

    first, second: (users, depth) distinct items, best first.
    """
    users, depth = first.shape
    user, one, other = np.nonzero(first[:, :, None] == second[:, None, :])
    counts = np.zeros((users, depth))
    np.add.at(counts, (user, np.maximum(one, other)), 1)
    return np.asarray(counts.cumsum(axis=1) / np.arange(1, depth + 1))


def rank_biased_overlap(agree: np.ndarray, p: float = PERSISTENCE) -> np.ndarray:
    """Extrapolated rank-biased overlap (Webber, Moffat and Zobel, 2010) of `agreement` (users, depth): (users,)."""
    depth = np.arange(1, agree.shape[1] + 1)
    return np.asarray(agree[:, -1] * p ** depth[-1] + (1 - p) / p * (agree * p**depth).sum(axis=1))


def weighted_ari(joint: np.ndarray) -> float:
    """Adjusted Rand index of two partitions whose items count by weight; joint: `crossing` of both."""
    total = joint.sum() ** 2
    both, one, other = (np.square(part).sum() / total for part in (joint, joint.sum(axis=1), joint.sum(axis=0)))
    by_chance = one * other
    return 1.0 if one == other == 1 else float((both - by_chance) / ((one + other) / 2 - by_chance))


def weighted_nmi(joint: np.ndarray) -> float:
    """Normalised mutual information, likewise."""
    share = joint / joint.sum()
    one, other, both = (float(entr(part).sum()) for part in (share.sum(axis=1), share.sum(axis=0), share))
    return 1.0 if one + other == 0 else 2 * (one + other - both) / (one + other)
