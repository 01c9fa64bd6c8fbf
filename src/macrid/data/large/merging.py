"""The pairs of some users, in memory: duplicates merged, users with too few items dropped, sorted by user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macrid.data.interactions import stable_order
from macrid.data.store import write_array
from macrid.data.weighing import SMALLEST, aged


@dataclass(frozen=True)
class Merged:
    """The interactions of consecutive users, one user after the other."""

    counts: np.ndarray
    """(users,) of interactions; 0 of a user who was dropped"""
    items: np.ndarray
    """(interactions,) codes"""
    places: np.ndarray | None
    """(interactions,) the first row of each in the file, if the order of rows counts"""
    weights: np.ndarray | None
    """(interactions,) of the heaviest event, float32"""
    facts: dict[str, Any]

    def write(self, folder: Path) -> dict[str, Any]:
        for name in ("counts", "items", "places", "weights"):
            if getattr(self, name) is not None:
                write_array(folder / f"{name}.npy", getattr(self, name))
        return self.facts


def latest(pairs: dict[str, np.ndarray], first: int, users: int, items: int, min_items: int) -> int | None:
    """The time of the last event of users with enough items, from which ages are counted; see `merge`."""
    rows = pairs["user"].astype(np.int64) - first
    keys = np.sort(rows * items + pairs["item"])
    enough = np.bincount(keys[_starts_run(keys)] // items, minlength=users) >= min_items
    times = pairs["time"][enough[rows]]
    return int(times.max()) if len(times) else None


def weigh(pairs: dict[str, np.ndarray], now: int, half_life: float) -> dict[str, np.ndarray]:
    """Pairs with the weights they have at a moment instead of times."""
    others = {name: column for name, column in pairs.items() if name != "time"}
    weights = pairs.get("weight", np.ones(len(pairs["time"])))
    return others | {"weight": aged(weights, pairs["time"], now, half_life)}


def merge(pairs: dict[str, np.ndarray], first: int, users: int, items: int, min_items: int) -> Merged:
    """Merge the pairs of the users with the codes `first` … `first + users − 1`.

    The items of a user are in the order of their first rows or, if that does not count, of their codes.
    """
    codes, columns = pairs["user"], pairs["item"]
    places, weights = pairs.get("place"), pairs.get("weight")
    keys = (codes.astype(np.int64) - first) * items + columns
    if places is None and weights is None:
        keys = np.sort(keys)
        keys = keys[_starts_run(keys)]
    else:
        keys, places, weights = _merged(keys, places, weights)
    rows, columns = (part.astype(np.int32) for part in np.divmod(keys, items))
    if places is not None and len(rows):
        order = np.argsort(places)
        order = order[stable_order(rows[order])]
        rows, columns, places = rows[order], columns[order], places[order]
        weights = None if weights is None else weights[order]
    counts = np.bincount(rows, minlength=users)
    enough = counts >= min_items
    dropped = counts[~enough]
    keep = enough[rows]
    weights = None if weights is None else np.maximum(weights[keep], SMALLEST).astype(np.float32)
    facts = {
        "duplicates": len(codes) - len(rows),
        "dropped_users": int(np.count_nonzero(dropped)),
        "dropped_rows": int(dropped.sum()),
        "longest": int(counts.max(initial=0)),
        "users": int(np.count_nonzero(counts * enough)),
        "interactions": int(keep.sum()),
        "weight": None if weights is None else float(weights.sum(dtype=np.float64)),
    }
    kept_places = None if places is None else places[keep]
    return Merged((counts * enough).astype(np.int32), columns[keep], kept_places, weights, facts)


def _merged(
    keys: np.ndarray, places: np.ndarray | None, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Distinct keys in order, the first place of each and its highest weight."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(_starts_run(keys))
    if len(starts):
        places = None if places is None else np.minimum.reduceat(places[order], starts)
        weights = None if weights is None else np.maximum.reduceat(weights[order], starts)
    return keys[starts], places, weights


def _starts_run(values: np.ndarray) -> np.ndarray:
    """Which sorted values differ from the one before."""
    starts = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts
