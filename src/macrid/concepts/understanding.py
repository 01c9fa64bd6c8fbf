"""Which axes to use in each concept: those that say most about its items; and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from macrid.blas import one_blas_thread
from macrid.concepts import names, naming
from macrid.concepts.axes import find, tied_dimensions
from macrid.concepts.evidence import FEWEST_MEMBERS, axes_evidence, axis_correlations
from macrid.concepts.meaning import Axes, meaning_of
from macrid.concepts.space import Space, space_of
from macrid.models.macridvae import MacridVAE

TOLERANCE = 0.02  # differences in evidence that do not matter
UNSUPERVISED = "independence"  # axes that need no attribute


@dataclass(frozen=True)
class Choice:
    """How well each kind of axes follows the attributes of items, and which kind is in use."""

    evidence: dict[str, np.ndarray]
    """Kind → (concepts,) each attribute's strongest rank correlation with a dimension, less what chance gives the best
    of so many (in squares), averaged over attributes; NaN without attributes. For an axis fitted to an attribute, the
    correlation is that on items it was not fitted to."""
    in_use: tuple[str, ...]
    """(concepts,) kinds."""


@one_blas_thread
def understand(
    model: MacridVAE,
    by: Sequence[str] | None = None,
    *,
    attributes: Sequence[str] | None = None,
    histories: sp.csr_array | None = None,
    always: bool = False,
    seed: int = 0,
) -> Choice:
    """Find axes, use them where they say more about items than all others found so far, and name them.

    by: kinds of axes to find, attributes and independence by default. "original" alone restores the axes that training
    produced. attributes: only these. histories: of users, for the range of moves.
    always: use the last kind in every concept, whatever the evidence.
    Edited names are kept. Effects of knobs are dropped, because they were measured along other axes.
    """
    space, meaning = space_of(model), meaning_of(model)
    kinds = ("attributes", UNSUPERVISED) if by is None else (by,) if isinstance(by, str) else tuple(by)
    for kind in kinds:
        chosen = attributes if kind == "attributes" else None
        axes = find(model, kind, attributes=chosen, histories=histories, seed=seed)
        meaning.axes[kind] = axes if kind == "original" else oriented(space, axes, seed)
    space.towards.clear()
    turned = [kind for kind in dict.fromkeys((*kinds, *meaning.axes)) if kind != "original"]
    evidence = {kind: axes_evidence(space, meaning.axes[kind], seed) for kind in turned}
    evidence = {"original": axes_evidence(space, None, seed), **evidence}
    in_use = []
    for k in range(space.concepts):
        if kinds == ("original",) or len(space.members(k)) < FEWEST_MEMBERS:
            in_use.append("original")
        else:
            here = {kind: float(values[k]) for kind, values in evidence.items()}
            in_use.append(kinds[-1] if always else _best(here, kinds[-1]))
    meaning.in_use = tuple(in_use)
    meaning.effects = ()
    meaning.names = fresh_names(model, seed)
    return Choice(evidence, meaning.in_use)


def fresh_names(model: MacridVAE, seed: int = 0, *, keep_edited: bool = True) -> names.Names:
    """Names along the axes in use: from training labels and attributes, with those that people have edited."""
    fresh = _with_labels(model, naming.find(model, seed=seed))
    current = meaning_of(model).names
    return fresh if current is None or not keep_edited else names.with_edits(fresh, current)


def _with_labels(model: MacridVAE, unlabelled: names.Names) -> names.Names:
    """Concepts and dimensions that were trained with labels take their names from these."""
    if model.labelled is None:
        return unlabelled
    concepts, dimensions = list(unlabelled.concepts), list(unlabelled.dimensions)
    for k, name in enumerate(model.labelled["concepts"]):
        concepts[k] = concepts[k].model_copy(update={"name": names.clean(str(name)), "fit": None, "why": None})
    concepts = names.without_repeats(concepts, kept=range(len(model.labelled["concepts"])))
    dim = space_of(model).dim
    for first, (number, name) in enumerate(tied_dimensions(model).items()):
        ends = {"name": names.clean(name), "low": names.clean(f"less {name}"), "high": names.clean(f"more {name}")}
        for k, kind in enumerate(meaning_of(model).in_use):
            place = k * dim + (number if kind == "original" else first)
            dimensions[place] = dimensions[place].model_copy(update={**ends, "why": None})
    return replace(unlabelled, concepts=tuple(concepts), dimensions=tuple(dimensions))


def oriented(space: Space, axes: Axes, seed: int = 0) -> Axes:
    """The same axes, reversed where the attribute they follow best falls instead of growing."""
    columns = space.columns
    rotation = axes.rotation.copy()
    low, high = (None if end is None else end.copy() for end in (axes.low, axes.high))
    for k in range(space.concepts):
        rho = axis_correlations(space, axes, k, columns, seed)[1]
        falls = np.zeros(space.dim, dtype=bool)
        if len(rho):
            falls = np.take_along_axis(rho, np.abs(rho).argmax(axis=0)[None], axis=0)[0] < 0
        falls[[fit.dimension for fit in axes.fits if fit.concept == k]] = False
        falls[: len(tied_dimensions(space.model))] = False
        rotation[k, falls] *= -1
        if low is not None and high is not None:
            low[k, falls], high[k, falls] = -high[k, falls], -low[k, falls]
    return replace(axes, rotation=rotation, low=low, high=high)


def _best(evidence: dict[str, float], default: str) -> str:
    """The original axes if no others say more, else the first of those that say about as much as the best.

    default: for a concept without attributes.
    """
    known = {kind: value for kind, value in evidence.items() if not np.isnan(value)}
    if not known:
        return default
    most = max(known.values())
    good = [kind for kind, value in known.items() if value >= most - TOLERANCE]
    return "original" if known.get("original", -1.0) >= most else next(kind for kind in good if kind != "original")
