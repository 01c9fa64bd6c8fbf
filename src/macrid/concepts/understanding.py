"""Which axes to look along: those that tell most about the items, concept by concept; and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

from macrid.concepts import names, naming
from macrid.concepts.axes import FEWEST_ITEMS, find, tied
from macrid.concepts.evidence import correlations
from macrid.concepts.meaning import Axes, meaning_of
from macrid.concepts.space import Space, space_of
from macrid.data.attributes import POPULARITY, Column
from macrid.models.macridvae import MacridVAE

MOST_ITEMS = 2000  # of a concept that evidence is taken from
AS_GOOD = 0.02  # differences of evidence that do not matter
UNSUPERVISED = "independence"  # axes that need no attribute


@dataclass(frozen=True)
class Choice:
    """How well each kind of axes tells the attributes of items, and which is in use."""

    evidence: dict[str, np.ndarray]
    """Kind → (concepts,) the mean over attributes of the strongest rank correlation of a dimension with it, less what
    chance gives to the best of so many (in squares); NaN where there is no attribute. Axes that were fitted to an
    attribute count as they do on items they were not fitted to."""
    in_use: tuple[str, ...]
    """(concepts,) the kinds."""


def understand(
    model: MacridVAE,
    by: Sequence[str] | None = None,
    *,
    attributes: Sequence[str] | None = None,
    histories: sp.csr_array | None = None,
    always: bool = False,
    seed: int = 0,
) -> Choice:
    """Find axes, use them where they tell more than all others found so far, and name what they tell.

    by: kinds of axes to find; by attributes and by independence unless given. "original" alone goes back to those of
    the training. attributes: only these. histories: of users, for the range of moves.
    always: use the last kind in every concept, whatever the evidence.
    Names that people have edited are kept.
    """
    space, meaning = space_of(model), meaning_of(model)
    kinds = ("attributes", UNSUPERVISED) if by is None else (by,) if isinstance(by, str) else tuple(by)
    for kind in kinds:
        chosen = attributes if kind == "attributes" else None
        found = find(model, kind, attributes=chosen, histories=histories, seed=seed)
        meaning.axes[kind] = found if kind == "original" else oriented(space, found, seed)
    space.towards.clear()
    found_so_far = (*kinds, *(kind for kind in meaning.axes if kind not in (*kinds, "original")))
    told = {kind: evidence(space, meaning.axes[kind], seed) for kind in found_so_far if kind != "original"}
    told = {"original": evidence(space, None, seed), **told}
    in_use = []
    for k in range(space.concepts):
        own = {kind: float(values[k]) for kind, values in told.items()}
        if kinds == ("original",) or len(space.own(k)) < FEWEST_ITEMS:
            in_use.append("original")
        else:
            in_use.append(kinds[-1] if always else _best(own, kinds[-1]))
    meaning.in_use = tuple(in_use)
    meaning.names = named_anew(model, seed)
    return Choice(told, meaning.in_use)


def named_anew(model: MacridVAE, seed: int = 0, *, keep_edited: bool = True) -> names.Names:
    """Names along the axes in use: from labels of the training, from attributes, and those people have edited."""
    found = _with_labels(model, naming.find(model, seed=seed))
    before = meaning_of(model).names
    return found if before is None or not keep_edited else names.renewed(before, found)


def _with_labels(model: MacridVAE, found: names.Names) -> names.Names:
    """Concepts and dimensions that labels were given for in training are called by these."""
    if model.labelled is None:
        return found
    concepts, dimensions = list(found.concepts), list(found.dimensions)
    for k, name in enumerate(model.labelled["concepts"]):
        concepts[k] = concepts[k].model_copy(update={"name": names.clean(str(name)), "why": None})
    dim = space_of(model).dim
    for place, (number, name) in enumerate(tied(model).items()):
        ends = {"name": names.clean(name), "low": names.clean(f"less {name}"), "high": names.clean(f"more {name}")}
        for k, kind in enumerate(meaning_of(model).in_use):
            at = k * dim + (number if kind == "original" else place)
            dimensions[at] = dimensions[at].model_copy(update={**ends, "why": None})
    return replace(found, concepts=tuple(concepts), dimensions=tuple(dimensions))


def oriented(space: Space, axes: Axes, seed: int = 0) -> Axes:
    """The same axes, turned round where what they tell best falls instead of growing."""
    columns = space.columns
    rotation = axes.rotation.copy()
    low, high = (None if end is None else end.copy() for end in (axes.low, axes.high))
    for k in range(space.concepts):
        rho = _correlations(space, axes, k, columns, seed)[1]
        falls = np.zeros(space.dim, dtype=bool)
        if len(rho):
            falls = np.take_along_axis(rho, np.abs(rho).argmax(axis=0)[None], axis=0)[0] < 0
        falls[[fit.dimension for fit in axes.fits if fit.concept == k]] = False
        falls[: len(tied(space.model))] = False
        rotation[k, falls] *= -1
        if low is not None and high is not None:
            low[k, falls], high[k, falls] = -high[k, falls], -low[k, falls]
    return replace(axes, rotation=rotation, low=low, high=high)


def evidence(space: Space, axes: Axes | None, seed: int = 0) -> np.ndarray:
    """How well axes tell attributes, for every concept: (concepts,); None stands for the original axes.

    Popularity does not count: all turned axes begin with it.
    """
    columns = [column for column in space.columns if column.kind != POPULARITY]
    return np.array([_of_concept(space, axes, k, columns, seed) for k in range(space.concepts)])


def _of_concept(space: Space, axes: Axes | None, k: int, columns: Sequence[Column], seed: int) -> float:
    usable, rho = _correlations(space, axes, k, columns, seed)
    if not usable:
        return float("nan")
    fits = {fit.attribute: fit.strength for fit in (() if axes is None else axes.fits) if fit.concept == k}
    known = np.array([np.isfinite(column.values[space.own(k)]).sum() for column in usable]).clip(max=MOST_ITEMS)
    by_chance = norm.isf(0.025 / space.dim) / np.sqrt(np.maximum(known - 1, 1))  # the best of so many dimensions
    best = np.abs(rho).max(axis=1)
    strongest = np.sqrt(np.maximum(best**2 - by_chance**2, 0)).tolist()
    return float(np.mean([fits.get(column.name, value) for column, value in zip(usable, strongest, strict=True)]))


def _correlations(
    space: Space, axes: Axes | None, k: int, columns: Sequence[Column], seed: int
) -> tuple[list[Column], np.ndarray]:
    """Attributes that a concept's items differ in, and their rank correlations with its dimensions: (columns, dim)."""
    random = np.random.default_rng([seed, k])
    own = space.own(k)
    own = own if len(own) <= MOST_ITEMS else np.sort(random.choice(own, MOST_ITEMS, replace=False))
    usable = [column for column in columns if column.is_usable(own)]
    if not usable or len(own) < FEWEST_ITEMS:
        return [], np.zeros((0, space.dim))
    coordinates = space.items[own] if axes is None else space.items[own] @ axes.rotation[k].T
    known = np.stack([column.values[own] for column in usable], axis=1)
    return usable, correlations(coordinates, known, random, shuffles=0).rho


def _best(told: dict[str, float], without: str) -> str:
    """The original axes if none tells more, else the first of the others that are about as good as the best.

    without: what to take where there is no attribute to tell.
    """
    known = {kind: value for kind, value in told.items() if not np.isnan(value)}
    if not known:
        return without
    most = max(known.values())
    good = [kind for kind, value in known.items() if value >= most - AS_GOOD]
    return "original" if known.get("original", -1.0) >= most else next(kind for kind in good if kind != "original")
