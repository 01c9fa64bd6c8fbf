"""Axes and names after a warm start: those of the earlier model, wherever they still mean the same.

Training starts from the earlier vectors, so both models share their coordinates, and an axis of one is an axis of the
other. It stays, with its fingerprint, if its named dimensions still order items as before; stored moves then keep their
meaning. Otherwise axes are found again and take the places and signs of the earlier ones that they resemble most.

A name stays if its concept still has most of its items and, unless a person chose it, if it is still nearly as true of
them as a name has to be. Concepts without a name stay so, rather than getting one that might not last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from macrid.concepts.axes import concept_axes
from macrid.concepts.claims import checked, number_format, value_columns
from macrid.concepts.evidence import LEAST_CORRELATION, correlations
from macrid.concepts.meaning import Axes, Fit, Meaning, meaning_of
from macrid.concepts.names import ConceptName, DimensionName, Names, clean, label, without_repeats
from macrid.concepts.naming import Compared, compare, examples_of, name_concepts, name_dimensions
from macrid.concepts.space import Space, digest, space_of, with_range
from macrid.concepts.understanding import understand
from macrid.data.attributes import Column, columns_of
from macrid.models.macridvae import MacridVAE
from macrid.models.warm import Origin, crossing, origin_of

LEAST_OVERLAP = 0.5  # of a concept's choices that must stay for it to be the same concept
LEAST_AGREEMENT = 0.7  # correlation of the coordinates of items, before and after, along a dimension that stays
NEARLY = 0.9  # of the correlation that a name needs
HALF = 0.5  # of a dimension's earlier correlation, and of the named dimensions of a concept, that must be left


@dataclass(frozen=True)
class Carried:
    """What became of the concepts, names and dimensions of the earlier model."""

    concepts: int
    """Concepts that still have most of their items."""
    names: int
    """Names that concepts had."""
    names_kept: int
    edited_kept: int
    """Of those, how many a person chose; dimensions count too."""
    dimensions: int
    """Dimensions that had a name."""
    dimensions_kept: int
    changes: tuple[str, ...] = ()
    """What was not kept, and why."""

    def as_json(self) -> dict[str, Any]:
        return {
            "concepts_matched": self.concepts, "names": self.names, "names_kept": self.names_kept,
            "edited_names_kept": self.edited_kept, "dimensions": self.dimensions,
            "dimensions_kept": self.dimensions_kept, "changes": list(self.changes),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Both:
    """A model and the earlier one."""

    now: Space
    before: Space
    origin: Origin
    overlap: np.ndarray
    """(concepts,) the share of a concept's choices that stay in it, of those before or after, whichever are more."""

    @property
    def meaning(self) -> Meaning:
        return meaning_of(self.now.model)

    @property
    def names(self) -> Names:
        names = meaning_of(self.before.model).names
        assert names is not None
        return names

    def stays(self, concept: int) -> bool:
        return bool(self.overlap[concept] >= LEAST_OVERLAP)

    def common(self, concept: int) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of the items that are in a concept before and after: (items, dim) each."""
        kept, places = self.origin.kept, self.origin.places[self.origin.kept]
        both = (self.now.concept_of[kept] == concept) & (self.before.concept_of[places] == concept)
        return self.before.items[places[both]], self.now.items[kept[both]]


def understand_anew(model: MacridVAE, histories: sp.csr_array | None = None, *, seed: int = 0) -> Carried | None:
    """Axes and names of a trained model: the earlier ones after a warm start, new ones otherwise (and None)."""
    old, model.started_from = model.started_from, None
    if old is None:
        understand(model, histories=histories, seed=seed)
        return None
    return carry_over(model, old, histories, seed=seed)


def carry_over(model: MacridVAE, old: MacridVAE, histories: sp.csr_array | None = None, *, seed: int = 0) -> Carried:
    """Give a model the axes and names of the one it started from, as far as they still mean the same."""
    names = meaning_of(old).names
    named = [] if names is None else [entry for entry in names.concepts if entry.name is not None]
    dimensions = [] if names is None else [entry for entry in names.dimensions if entry.name is not None]
    if names is None or model.network.concepts != old.network.concepts:
        understand(model, histories=histories, seed=seed)
        counts = f"{model.network.concepts} concepts instead of {old.network.concepts}: names and axes are new"
        return Carried(0, len(named), 0, 0, len(dimensions), 0, () if names is None else (counts,))
    both = _both(model, old)
    model.labelled = old.labelled if model.labelled is None else model.labelled
    lost = _carry_axes(both, model.sample if histories is None else histories, seed)
    concepts, changes = _carry_concepts(both, seed)
    carried, more = _carry_dimensions(both, lost, seed)
    aside = names.aside + tuple(entry for entry in dimensions if entry.edited and entry.concept in lost)
    both.meaning.names = Names(tuple(concepts), tuple(carried), aside)
    both.meaning.effects = ()
    kept = [entry for entry in named if concepts[entry.concept].name == entry.name]
    here = {(entry.concept, entry.axis): entry for entry in carried if entry.name is not None}
    same = [entry for entry in dimensions if (entry.concept, entry.axis) in here]
    return Carried(
        concepts=sum(both.stays(k) for k in range(both.now.concepts)),
        names=len(named),
        names_kept=len(kept),
        edited_kept=sum(entry.edited for entry in kept) + sum(entry.edited for entry in same),
        dimensions=len(dimensions),
        dimensions_kept=len(same),
        changes=(*changes, *more),
    )


def _both(model: MacridVAE, old: MacridVAE) -> _Both:
    now, before, origin = space_of(model), space_of(old), origin_of(model.items, old)
    weights = np.maximum(model.popularity[origin.kept], 1).astype(np.float64)
    concepts = now.concept_of[origin.kept], before.concept_of[origin.places[origin.kept]]
    joint = crossing(*concepts, weights, (now.concepts, before.concepts))
    larger = np.maximum(joint.sum(axis=0), joint.sum(axis=1))
    return _Both(now, before, origin, np.where(larger > 0, np.diag(joint) / np.maximum(larger, 1e-12), 1.0))


# Axes


def _carry_axes(both: _Both, histories: sp.csr_array | None, seed: int) -> set[int]:
    """Use the earlier axes, or new ones in the concepts where they no longer say the same; returns these."""
    earlier, meaning = meaning_of(both.before.model), both.meaning
    lost = {k for k in range(both.now.concepts) if not (both.stays(k) and _still_order(both, k))}
    columns = columns_of(both.now.model) if lost else []
    for kind, axes in earlier.axes.items():
        rotation, fits = np.array(axes.rotation, dtype=np.float32), list(axes.fits)
        for k in lost if kind != "original" else ():
            turned, own = concept_axes(both.now, k, kind, columns, seed)
            rotation[k], own = aligned(turned, own, axes.rotation[k], both.common(k))
            fits = [fit for fit in fits if fit.concept != k] + own
        meaning.axes[kind] = with_range(Axes(kind, rotation, fits=tuple(fits)), both.now, histories)
    meaning.in_use = earlier.in_use
    both.now.towards.clear()
    _remeasure_fits(both)
    return lost


def _still_order(both: _Both, k: int) -> bool:
    """Whether at least half of a concept's named dimensions order its items as before; true without names."""
    named = [entry.dimension for entry in both.names.dimensions if entry.concept == k and entry.name is not None]
    before, now = both.common(k)
    if not named or len(before) < 3:
        return True
    axes = both.before.axes(k)[named]
    return bool((_column_correlations(before @ axes.T, now @ axes.T) >= LEAST_AGREEMENT).mean() >= HALF)


def _column_correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of each column of one array with the same column of another, both (n, columns): (columns,)."""
    first, second = (each - each.mean(axis=0) for each in (first, second))
    lengths = np.sqrt(np.square(first).sum(axis=0) * np.square(second).sum(axis=0))
    return np.asarray((first * second).sum(axis=0) / np.maximum(lengths, 1e-12))


def aligned(
    axes: np.ndarray, fits: list[Fit], earlier: np.ndarray, common: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, list[Fit]]:
    """Axes (dim, dim) in the order, and with the signs, of the earlier ones that order the same items alike.

    common: vectors of items before and after, (items, dim) each. A fitted axis keeps its sign, which has a meaning.
    """
    from scipy.optimize import linear_sum_assignment

    before, now = (points - points.mean(axis=0) if len(points) else points for points in common)
    x, y = before @ earlier.T, now @ axes.T
    lengths = np.sqrt(np.outer(np.square(x).sum(axis=0), np.square(y).sum(axis=0)))
    rho = x.T @ y / np.maximum(lengths, 1e-12)  # (earlier, now)
    order = linear_sum_assignment(np.abs(rho) + 1e-9 * np.eye(len(rho)), maximize=True)[1]
    signs = np.where(np.take_along_axis(rho, order[:, None], axis=1)[:, 0] < 0, -1.0, 1.0)
    fitted = {fit.dimension for fit in fits}
    signs[[place for place, dimension in enumerate(order.tolist()) if dimension in fitted]] = 1.0
    place_of = {dimension: place for place, dimension in enumerate(order.tolist())}
    return axes[order] * signs[:, None], [fit._replace(dimension=place_of[fit.dimension]) for fit in fits]


def _remeasure_fits(both: _Both) -> None:
    """Strengths of fitted axes that stayed: scaled by how much weaker the attribute now follows the axis."""
    names = {fit.attribute for axes in both.meaning.axes.values() for fit in axes.fits}
    spaces = (both.before, both.now)
    columns = [{column.name: column for column in columns_of(space.model) if column.name in names} for space in spaces]
    for kind, axes in both.meaning.axes.items():
        fits = []
        earlier = meaning_of(both.before.model).axes[kind].rotation
        for fit in axes.fits:
            axis = axes.rotation[fit.concept, fit.dimension]
            if digest(axis) == digest(earlier[fit.concept, fit.dimension]):
                if any(fit.attribute not in known for known in columns):
                    continue  # the attribute is gone
                was, now = (
                    _along(s, c[fit.attribute], fit.concept, axis) for s, c in zip(spaces, columns, strict=True)
                )
                fit = fit._replace(strength=fit.strength * float(np.clip(now / max(was, 1e-12), 0, 1)))
            fits.append(fit)
        both.meaning.axes[kind] = replace(axes, fits=tuple(fits))


def _along(space: Space, column: Column, k: int, axis: np.ndarray) -> float:
    """The rank correlation of a column with an axis (dim,), over a concept's items."""
    members = space.members(k)
    points, values = (space.items[members] @ axis)[:, None], column.values[members][:, None]
    return float(correlations(points, values, np.random.default_rng(0), shuffles=0).rho[0, 0])


# Names of concepts


def _carry_concepts(both: _Both, seed: int) -> tuple[list[ConceptName], list[str]]:
    """Every concept under its earlier name, if that is still true; else under a new one."""
    earlier, changes = both.names.concepts, []
    labelled = 0 if both.now.model.labelled is None else len(both.now.model.labelled["concepts"])
    compared = compare(both.now, _missing_columns(both))
    places = {column.name: place for place, column in reversed(list(enumerate(compared.values.columns)))}
    entries, lost = compared.unnamed(both.now), []
    for k, before in enumerate(earlier):
        if k < labelled:
            entries[k] = entries[k].model_copy(update={**_name_fields(before), "why": None})
            continue
        name, problem = _checked_name(both, compared, before, places)
        if problem is not None:
            lost.append((k, problem))
        elif name is not None:
            entries[k] = entries[k].model_copy(update=name)
        elif before.why is not None and entries[k].typical:
            entries[k] = entries[k].model_copy(update={"why": before.why})
    if lost:
        fresh = name_concepts(both.now, compared, seed)
        for k, _ in lost:
            entries[k] = fresh[k]
    given_up = {k for k, _ in lost}
    entries = without_repeats(entries, kept=[k for k in range(len(entries)) if k not in given_up])
    for k, problem in lost:
        changes.append(f"concept {k}: '{earlier[k].name}' is now '{label(entries[k])}' ({problem})")
    return entries, changes


def _checked_name(
    both: _Both, compared: Compared, before: ConceptName, places: dict[str, int]
) -> tuple[dict[str, Any] | None, str | None]:
    """The fields of a name that stays, if there is one, or why it cannot."""
    k, gone = before.concept, 1 - both.overlap[before.concept]
    if before.name is None:
        return None, None
    if not both.stays(k):
        return None, f"{gone:.0%} of its choices are of other items now"
    if before.edited or before.fit is None:
        return {**_name_fields(before), "why": None}, None
    if not set(before.fit.columns) <= set(places):
        return None, f"nothing is known any more about {', '.join(before.fit.columns)}"
    option = tuple(places[name] for name in before.fit.columns)
    claim, is_true = checked(compared.values, option, compared.labels == k, compared.weights)
    if not is_true:
        was = f"{before.fit.share:.0%} of its choices carried it, {before.fit.base:.0%} of all"
        return None, f"{was}; now {claim.share:.0%} and {claim.base:.0%}"
    held_out = min(1.0, before.fit.held_out * claim.share / max(before.fit.share, 1e-12))
    fit = before.fit.model_copy(update={"share": claim.share, "base": claim.base, "held_out": held_out})
    return {"name": before.name, "strength": claim.share - claim.base, "p": before.p, "fit": fit, "why": None}, None


def _name_fields(entry: ConceptName) -> dict[str, Any]:
    return {field: getattr(entry, field) for field in ("name", "edited", "strength", "p")}


def _missing_columns(both: _Both) -> list[Column]:
    """Values that earlier names claim and items no longer suggest: a range that now ends elsewhere, a rarer word."""
    claimed = {name for entry in both.names.concepts if entry.fit is not None for name in entry.fit.columns}
    missing = claimed - {column.name for column in value_columns(both.now.model)}
    if not missing:
        return []
    places, count = both.origin.places, len(both.origin.places)
    carried = []
    for column in value_columns(both.before.model):
        if column.name in missing:
            values = np.full(count, np.nan)
            values[places >= 0] = column.values[places[places >= 0]]
            carried.append(replace(column, values=values))
    return carried


# Names of dimensions


def _carry_dimensions(both: _Both, lost: set[int], seed: int) -> tuple[list[DimensionName], list[str]]:
    """Names along the axes in use; new ones only in concepts with new axes."""
    model, earlier = both.now.model, both.names.dimensions
    columns = {column.name: column for column in reversed(columns_of(model, words=True))}
    entries: list[DimensionName] = []
    changes: list[str] = []
    for k in range(both.now.concepts):
        before = [entry for entry in earlier if entry.concept == k]
        if k in lost:
            usable = [column for column in columns.values() if clean(column.value or column.name)][::-1]
            entries += name_dimensions(both.now, k, usable, number_format(model.table), seed)
            named = sum(entry.name is not None for entry in before)
            changes.append(f"concept {k}: new axes; {named} named dimensions of the old ones are gone")
            continue
        coordinates = both.now.turned(k)
        examples = examples_of(both.now, k, coordinates)
        for entry in before:
            update: dict[str, Any] = {"examples": examples[entry.dimension]}
            if entry.attribute is not None and entry.strength is not None:
                more, problem = _checked_dimension(both, entry, columns, coordinates[:, entry.dimension])
                update |= more
                if problem is not None:
                    changes.append(f"concept {k}, dimension {entry.dimension}: '{entry.name}' is gone ({problem})")
            entries.append(entry.model_copy(update=update))
    return entries, changes


def _checked_dimension(
    both: _Both, entry: DimensionName, columns: dict[str, Column], coordinate: np.ndarray
) -> tuple[dict[str, Any], str | None]:
    """The fields of a dimension whose attribute is measured again, and why it has lost its name if it has."""
    assert entry.attribute is not None
    assert entry.strength is not None
    column = columns.get(entry.attribute)
    strength = 0.0
    if column is not None:
        values = column.values[both.now.members(entry.concept)][:, None]
        rho = correlations(coordinate[:, None], values, np.random.default_rng(0), shuffles=0).rho[0, 0]
        strength = float(rho) * (entry.direction or 1)
        fits = {fit.dimension: fit for fit in both.now.fits(entry.concept) if fit.attribute == entry.attribute}
        strength = min(strength, fits[entry.dimension].strength) if entry.dimension in fits else strength
    evidence = tuple(
        each.model_copy(update={"correlation": strength * (entry.direction or 1)}) if not place else each
        for place, each in enumerate(entry.evidence)
    )
    if entry.edited or strength >= max(NEARLY * LEAST_CORRELATION, HALF * entry.strength):
        return {"strength": max(strength, 0.0), "evidence": evidence}, None
    problem = f"rank correlation with {entry.attribute} {strength:.2f}, was {entry.strength:.2f}"
    problem = problem if column is not None else f"nothing is known any more about {entry.attribute}"
    none = dict.fromkeys(("name", "low", "high", "attribute", "kind", "strength", "direction", "p"))
    return {**none, "low_evidence": (), "high_evidence": (), "evidence": (), "why": problem}, problem
