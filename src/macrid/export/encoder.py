"""The part of a graph that turns histories into components: the encoders of MacridVAE, MultVAE and MultDAE.

Only the means are needed, so the other half of the last layer stays behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from macrid.export.graph import Graph
from macrid.export.histories import HistoryInput
from macrid.models.macridvae import STRONGEST, MacridVAE
from macrid.models.multvae import MultVAE
from macrid.models.neural import NeuralRecommender
from macrid.ops.encoder import SMALLEST
from macrid.ops.vectors import EPSILON


class Components(NamedTuple):
    """Users in a graph, as the decoder sees them."""

    vectors: str
    """(batch, concepts, dim)"""
    log_weights: str | None
    """(batch, concepts, 1); None if all concepts weigh the same."""


def encode(g: Graph, model: NeuralRecommender, history: HistoryInput) -> Components:
    return _macridvae(g, model, history) if isinstance(model, MacridVAE) else _multvae(g, model, history)


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().float().numpy()


def _macridvae(g: Graph, model: MacridVAE, history: HistoryInput) -> Components:
    n, dim = model.network, model.settings.dim
    assigned = _assigned(g, model, history)  # x_ui c_ik: (batch, length, concepts)
    sums, mean = _normalised_sums(g, n.context_vectors, assigned, history)  # (batch, concepts, dim) each
    hidden = _layers(g, n.layers, mean, dim)
    if n.whole is not None:
        whole = g.unit(g.total(sums, 1), EPSILON, "whole_history")  # (batch, 1, dim)
        hidden = g.node("Add", hidden, g.node("MatMul", whole, g.constant(array(n.whole[:dim].t()), "whole_weights")))
    log_weights = None
    if n.share_power is not None:
        mass = g.node("Transpose", g.total(assigned, 1), perm=[0, 2, 1])  # (batch, concepts, 1)
        share = g.node("Div", mass, g.node("Max", g.total(mass, 1), g.constant(EPSILON)), name="shares")
        smoothed = g.node("Add", share, g.constant(SMALLEST))
        log_share = g.node("Log", g.node("Div", smoothed, g.constant(1 + SMALLEST * n.concepts)))
        power = float(n.share_power.detach().clamp(0, STRONGEST))
        log_weights = g.node("Mul", log_share, g.constant(power), name="log_shares")
    return Components(g.unit(hidden, EPSILON, "components"), log_weights)


def _assigned(g: Graph, model: MacridVAE, history: HistoryInput) -> str:
    """How much each interaction counts in each concept: (batch, length, concepts)."""
    decoder, n = model.decoder, model.network
    if decoder.is_hard:
        concepts = g.node(
            "Gather", g.constant(decoder.likeliest.astype(np.int64), "concept_of_item"), history.positions
        )
        membership = g.node("OneHot", concepts, g.constant(n.concepts), g.constant(np.array([0, 1], np.float32)))
    else:
        table = g.constant(array(decoder.log_assignment.exp()), "membership")
        membership = g.node("Gather", table, history.positions)
    return g.node("Mul", membership, g.node("Unsqueeze", history.weights, g.constant([2])), name="assigned")


def _multvae(g: Graph, model: NeuralRecommender, history: HistoryInput) -> Components:
    assert isinstance(model, MultVAE)
    n = model.network
    weights = g.node("Unsqueeze", history.weights, g.constant([2]))  # of the only concept: (batch, length, 1)
    _, mean = _normalised_sums(g, n.context_vectors, weights, history)
    hidden = g.node("Tanh", g.node("Add", mean, g.constant(array(n.context_bias), "context_bias")))
    hidden = _layers(g, n.encoder, hidden, model.settings.dim, ends_in_tanh=not n.variational)
    return Components(_layers(g, n.decoder, hidden, model.settings.dim, ends_in_tanh=True), None)


def _normalised_sums(g: Graph, contexts: Tensor, assigned: str, history: HistoryInput) -> tuple[str, str]:
    """Sums of context vectors by concept, and the same over the roots of the sums of squares."""
    vectors = g.node("Gather", g.constant(array(contexts), "context_vectors"), history.positions)
    by_concept = g.node("Transpose", assigned, perm=[0, 2, 1])  # (batch, concepts, length)
    sums = g.node("MatMul", by_concept, vectors, name="sums")
    squares = g.total(g.node("Mul", by_concept, by_concept), 2)  # (batch, concepts, 1)
    root = g.node("Sqrt", g.node("Add", squares, g.constant(EPSILON**2)))
    return sums, g.node("Div", sums, root, name="normalised_sums")


def _layers(g: Graph, layers: Iterable[torch.nn.Module], hidden: str, dim: int, ends_in_tanh: bool = False) -> str:
    """Linear layers with tanh in between; of the last one the first `dim` numbers."""
    together = list(layers)
    for depth, layer in enumerate(together):
        is_last = depth == len(together) - 1
        kept = slice(dim) if is_last else slice(None)
        weight = g.constant(np.ascontiguousarray(array(layer.get_parameter("weight")[kept]).T))
        hidden = g.node("Add", g.node("MatMul", hidden, weight), g.constant(array(layer.get_parameter("bias")[kept])))
        if not is_last or ends_in_tanh:
            hidden = g.node("Tanh", hidden)
    return hidden
