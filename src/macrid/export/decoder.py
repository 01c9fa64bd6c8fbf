"""The part of a graph that scores all items, and the part that chooses the best of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from macrid.control.sources import popular_scores
from macrid.errors import MacridError
from macrid.export.encoder import Components, array, encode
from macrid.export.graph import Graph
from macrid.export.histories import HistoryInput, known
from macrid.models.base import Recommender
from macrid.models.neighbours import Neighbours
from macrid.models.neural import NeuralRecommender
from macrid.models.reference import EASE, Popularity
from macrid.ops.topk import Decoder


def score(g: Graph, model: Recommender, history: HistoryInput) -> str:
    """Scores of all items, as the model gives them; without a known item, what is popular: (batch, items)."""
    if isinstance(model, Popularity):
        shape = g.joined(history.batch, g.constant([len(model.items)]))
        return g.node("Expand", g.constant(array(model.shares), "shares"), shape)
    if isinstance(model, EASE):
        scores, popular = _ease(g, model, history), array(model.shares)
    elif isinstance(model, NeuralRecommender):
        scores, popular = _neural(g, model, history), popular_scores(model).numpy()
        if len(popular) != len(model.items):  # a model made by hand
            return scores
    else:
        raise MacridError(
            f"{type(model).__name__} cannot be exported; MacridVAE, MultVAE, MultDAE, EASE and Popularity can"
        )
    return g.node("Where", history.is_empty, g.constant(popular, "popular"), scores, name="all_scores")


def choose(g: Graph, scores: str, history: HistoryInput, items: int, inputs: Collection[str] = ()) -> tuple[str, str]:
    """Inputs `n` and `exclude_seen`, and `hidden` and `allowed` if they are among `inputs`; positions and scores of
    the best items, (batch, n) each.

    At most all items. If fewer than n are left, −1 with a score of −inf follows.
    """
    n, exclude_seen = g.input("n", np.int64, ()), g.input("exclude_seen", np.bool_, ())
    lowest = g.constant(np.float32(-np.inf))
    scores = _hide(g, scores, history.positions, g.node("And", history.counts, exclude_seen))
    if "hidden" in inputs:
        scores = _hide(g, scores, *known(g, g.input("hidden", np.int64, ("batch", "hidden_length")), items))
    if "allowed" in inputs:
        scores = g.node("Where", g.input("allowed", np.bool_, (items,)), scores, lowest)
    count = g.node("Max", g.node("Min", g.node("Reshape", n, g.constant([1])), g.constant([items])), g.constant([0]))
    best, places = g.nodes("TopK", scores, count, axis=1, names=("best_scores", "best_places"))
    is_left = g.node("Greater", best, lowest)
    return g.node("Where", is_left, places, g.constant(-1)), best


def _hide(g: Graph, scores: str, positions: str, is_hidden: str) -> str:
    """Scores with −inf at these positions, where `is_hidden` says so."""
    lowest, highest = (g.constant(np.float32(value)) for value in (-np.inf, np.inf))
    limits = g.node("Where", is_hidden, lowest, highest)
    return g.node("ScatterElements", scores, positions, limits, axis=1, reduction="min")


def _neural(g: Graph, model: NeuralRecommender, history: HistoryInput) -> str:
    components = encode(g, model, history)
    decoder = model.decoder
    scores = _hard(g, decoder, components) if decoder.is_hard else _soft(g, decoder, components)
    if model.neighbours is not None:
        scores = g.node("Add", scores, _linear(g, model.neighbours, history))
    return g.node("LogSoftmax", scores, axis=1, name="log_probabilities")


def _soft(g: Graph, decoder: Decoder, components: Components) -> str:
    """log sum_k w_k c_ik exp(z_k · h_i / tau): (batch, items)."""
    vectors = g.constant(array(decoder.items.t() / decoder.temperature), "item_vectors")  # (dim, items)
    log_c = g.constant(array(decoder.log_assignment.t()), "log_membership")  # (concepts, items)
    terms = g.node("Add", g.node("MatMul", components.vectors, vectors), log_c)  # (batch, concepts, items)
    if components.log_weights is not None:
        terms = g.node("Add", terms, components.log_weights)
    if decoder.log_assignment.shape[1] == 1:
        return g.node("Squeeze", terms, g.constant([1]))
    largest = g.node("ReduceMax", terms, g.constant([1]))
    sums = g.total(g.node("Exp", g.node("Sub", terms, largest)), 1)
    return g.node("Squeeze", g.node("Add", g.node("Log", sums), largest), g.constant([1]), name="log_sums")


def _hard(g: Graph, decoder: Decoder, components: Components) -> str:
    """log w_k + z_k · h_i / tau, each item in its own concept only: (batch, items)."""
    assert decoder.order is not None
    parts = []
    for concept in np.unique(decoder.likeliest).tolist():
        members = decoder.items[decoder.concept_of == concept]
        vectors = g.constant(array(members.t() / decoder.temperature), f"item_vectors_{concept}")  # (dim, members)
        number = g.constant(concept)
        part = g.node("MatMul", g.node("Gather", components.vectors, number, axis=1), vectors)
        if components.log_weights is not None:
            part = g.node("Add", part, g.node("Gather", components.log_weights, number, axis=1))
        parts.append(part)
    by_concept = g.node("Concat", *parts, axis=1)
    return g.node("Gather", by_concept, g.constant(decoder.place.cpu().numpy(), "places_by_concept"), axis=1)


def _linear(g: Graph, neighbours: Neighbours, history: HistoryInput) -> str:
    """What the neighbours of a history's items add, (batch, items): the entries of their rows of B, and no others."""
    table = neighbours.state()
    offsets, width = table["offsets"].numpy(), g.constant([neighbours.items])
    pairs = g.node("Transpose", g.node("NonZero", history.counts), perm=[1, 0])  # (interactions, 2)
    users = g.node("Gather", pairs, g.constant(0), axis=1)
    items = g.node("GatherND", history.positions, pairs)  # (interactions,)
    lengths = g.node("Gather", g.constant(np.diff(offsets), "neighbour_counts"), items)
    starts = g.node("Gather", g.constant(offsets[:-1], "neighbour_starts"), items)
    rows = _Rows(g, lengths)
    entries = g.node("Add", rows.numbers, rows.spread(g.node("Sub", starts, rows.begins)))
    targets = g.node("Gather", g.constant(table["targets"].numpy(), "neighbours"), entries)
    values = g.node("Gather", g.constant(table["weights"].numpy(), "neighbour_weights"), entries)
    if history.is_weighted:
        count = g.node("Squeeze", g.size(items, 0))
        interaction = rows.spread(g.node("Range", g.constant(0), count, g.constant(1)))
        values = g.node("Mul", values, g.node("Gather", g.node("GatherND", history.weights, pairs), interaction))
    cells = g.node("Add", rows.spread(g.node("Mul", users, width)), g.cast(targets, np.int64))
    empty = g.filled(g.node("Mul", history.batch, width), np.array([0], np.float32))
    sums = g.node("ScatterElements", empty, cells, values, axis=0, reduction="add")
    return g.node("Reshape", sums, g.joined(history.batch, width), name="linear")


class _Rows:
    """The entries of rows of different lengths, one row after the other."""

    def __init__(self, g: Graph, lengths: str) -> None:
        self._g = g
        self.begins = g.node("Sub", g.node("CumSum", lengths, g.constant(0)), lengths)
        self._total = g.total(lengths, 0)  # (1,)
        self.numbers = g.node("Range", g.constant(0), g.node("Squeeze", self._total), g.constant(1))  # (entries,)

    def spread(self, values: str) -> str:
        """The whole number of each row, repeated for its entries: from 0, what each row adds, summed up."""
        g = self._g
        before = g.node("Concat", g.constant([0]), g.node("Slice", values, g.constant([0]), g.constant([-1])), axis=0)
        none = g.filled(g.node("Add", self._total, g.constant([1])), np.array([0]))  # a last row may be empty
        more = g.node("Sub", values, before)
        steps = g.node("ScatterElements", none, self.begins, more, axis=0, reduction="add")
        return g.node("Slice", g.node("CumSum", steps, g.constant(0)), g.constant([0]), self._total)


def _ease(g: Graph, model: EASE, history: HistoryInput) -> str:
    """x B: (batch, items)."""
    shape = g.joined(history.batch, g.constant([len(model.items)]))
    empty = g.filled(shape, np.array([0], np.float32))
    x = g.node("ScatterElements", empty, history.positions, history.weights, axis=1, reduction="add")
    return g.node("MatMul", x, g.constant(array(model.weights), "item_weights"))
