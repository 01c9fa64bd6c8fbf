"""The part of a graph that reads histories: padded positions of items in, what counts of them out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from macrid.export.graph import Graph


class HistoryInput(NamedTuple):
    """A batch of histories in a graph."""

    positions: str
    """(batch, length) int64, 0 where nothing is."""
    counts: str
    """(batch, length) bool: a known item that did not occur before."""
    weights: str
    """(batch, length) of interactions, 1 on average for each user, 0 where nothing counts."""
    is_empty: str
    """(batch, 1) bool: without a known item."""
    batch: str
    """(1,) int64"""
    is_weighted: bool


def read_histories(g: Graph, items: int, weighted: bool) -> HistoryInput:
    """Inputs `items` and, if weighted, `weights`; and what counts of them.

    A position that is not from 0 to items − 1 is padding. An item counts once, with the first of its weights.
    """
    given = g.input("items", np.int64, ("batch", "length"))
    batch = g.size(given, 0)
    padding = g.node("Expand", g.constant([[-1]]), g.joined(batch, g.constant([1])))
    padded = g.node("Concat", given, padding, axis=1, name="padded")  # never of length 0
    positions, is_known = known(g, padded, items)
    # The first place of each item, in a row per user: (batch, items)
    length = g.node("Squeeze", g.size(padded, 1))
    places = g.node("Range", g.constant(0), length, g.constant(1), name="places")
    nowhere = np.array([np.iinfo(np.int64).max])
    claims = g.node("Where", is_known, places, g.constant(nowhere))
    free = g.filled(g.joined(batch, g.constant([items])), nowhere)
    first = g.node("ScatterElements", free, positions, claims, axis=1, reduction="min", name="first_places")
    is_first = g.node("Equal", g.node("GatherElements", first, positions, axis=1), places)
    counts = g.node("And", is_known, is_first, name="counts")
    most = g.node("ReduceMax", g.cast(counts, np.int64), g.constant([1]))
    is_empty = g.node("Not", g.cast(most, np.bool_), name="without_history")
    weights = _weights(g, counts, padding) if weighted else g.cast(counts, np.float32)
    return HistoryInput(positions, counts, weights, is_empty, batch, weighted)


def _weights(g: Graph, counts: str, padding: str) -> str:
    """Input `weights`, 1 on average over what counts of each user: (batch, length)."""
    given = g.input("weights", np.float32, ("batch", "length"))
    nothing = g.constant(np.float32(0))
    kept = g.node("Where", counts, g.node("Concat", given, g.cast(padding, np.float32), axis=1), nothing)
    scaled = g.node("Mul", kept, g.total(g.cast(counts, np.float32), 1))
    return g.node("Where", counts, g.node("Div", scaled, g.total(kept, 1)), nothing, name="history_weights")


def known(g: Graph, positions: str, items: int) -> tuple[str, str]:
    """Positions with 0 for those that are no item's, and which are one's: int64 and bool of the same shape."""
    is_known = g.node(
        "And",
        g.node("GreaterOrEqual", positions, g.constant(0)),
        g.node("Less", positions, g.constant(items)),
    )
    return g.node("Where", is_known, positions, g.constant(0)), is_known
