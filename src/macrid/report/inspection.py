"""Everything that `macrid inspect` reports about a model, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from macrid.concepts.axes import concept_axes
from macrid.concepts.effects import strongest_first
from macrid.concepts.evidence import axes_evidence
from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import label
from macrid.concepts.space import Space, draw, space_of
from macrid.data.attributes import POPULARITY, Column, columns_of, read_attributes
from macrid.errors import RequestError
from macrid.evaluation.agreement import agreement, ari, effective_concepts, independence, is_collapsed, ranks_of
from macrid.evaluation.decomposition import decompose_kl, marginal_entropies
from macrid.evaluation.factors import FEWEST_KNOWN, dci, is_known, mig
from macrid.recipe import preset_of

if TYPE_CHECKING:
    from macrid.models.base import Recommender
    from macrid.models.results import Posterior

POPULAR = 100  # items
MOST_USERS = 1000  # more are slower and hardly more accurate
MOST_ITEMS = 1000  # for DCI and MIG, because forests are slow
MOST_FACTORS = 10
MOST_SHARED = 10  # items listed with two concepts
FEWEST_ITEMS = 20  # per concept, for a correlation within it
MOST_ITEMS_WITHIN = 400  # of a concept, for DCI within it
MOST_FACTORS_WITHIN = 4
FIGURES = ("std", "kl", "attribute", "correlation")  # of a dimension
Factors = dict[str, np.ndarray]


def inspect(
    model: Recommender, histories: sp.csr_array | None, *, seed: int = 0, is_final: bool = False
) -> dict[str, Any]:
    """What a model has learned: its concepts, their agreement with item attributes, how disentangled it is.

    histories: of held-out users; None skips what is measured on users. What does not apply to a model is null or empty,
    and `notes` say why. docs/disentanglement.md explains the numbers. is_final: the model was also trained on these
    users.
    """
    notes: list[str] = []
    concepts, attributes = model.concepts_of_items(), read_attributes(model.table)
    posterior = _posterior(model, histories, seed, notes)
    if is_final and posterior is not None:
        notes.append("the final model was also trained on these users")
    factors: Factors = {}
    for attribute in attributes:
        factors |= attribute.factors(len(model.items))
    report: dict[str, Any] = {
        "model": type(model).__name__,
        "preset": preset_of(model.settings),
        "neighbours": neighbours_of(model),
        "items": len(model.items),
        "users": 0 if posterior is None else len(posterior.mean),
        "concepts": [] if concepts is None else _concepts(model, concepts),
        "shared_items": [] if concepts is None else _shared(model),
        "effective_concepts": None if concepts is None else effective_concepts(concepts),
        "best_share": None if concepts is None else _best_share(model),
        **_of_users(model, posterior, seed, notes),
        "attributes": {} if concepts is None else {a.name: agreement(concepts, a) for a in attributes},
        **_of_factors(model, factors, seed, notes),
    }
    report["dimensions"] = _dimensions(model, posterior, factors, report.pop("per_dimension"), notes)
    report["axes"] = None if concepts is None else _axes(model)
    report["knobs"] = [effect.model_dump(mode="json") for effect in strongest_first(meaning_of(model).effects)]
    report["dci_within"] = None if concepts is None or report["dci"] is None else _dci_within(space_of(model), seed)
    report["warnings"] = _warnings(report)
    return {**report, "notes": notes}


def neighbours_of(model: Recommender) -> int:
    """How many other items add to the score of an item, 0 if it has no such part."""
    part = getattr(model, "neighbours", None)
    return 0 if part is None else round(len(part.weights) / max(1, len(model.items)))


def _best_share(model: Any) -> dict[str, float]:
    """How much items belong to their likeliest concept: the mean, and the median of the most popular."""
    best = model.membership().max(axis=1)
    popular = np.argsort(-model.popularity, kind="stable")[:POPULAR]
    return {"mean": float(best.mean()), "popular": float(np.median(best[popular]))}


def compare(models: Sequence[Recommender]) -> dict[str, Any]:
    """How far the concepts of several models agree on the items that all of them have: the ARI of every pair."""
    if any(model.concepts_of_items() is None for model in models):
        raise RequestError("only models with concepts can be compared; train a macridvae")
    common = set.intersection(*(set(model.items) for model in models))
    if not common:
        raise RequestError("the runs have no items in common; compare runs of the same data")
    ids = [item for item in models[0].items if item in common]
    labels = [model.concepts_of_items()[model.items.positions(ids)] for model in models]  # type: ignore[index]
    pairs = [ari(first, second) for first, second in combinations(labels, 2)]
    return {"runs": len(models), "items": len(ids), "ari": float(np.mean(pairs)), "pairs": pairs}


def _posterior(model: Recommender, histories: sp.csr_array | None, seed: int, notes: list[str]) -> Posterior | None:
    """Components of a sample of users."""
    if not model.has_components:
        notes.append(f"{type(model).__name__} has no components, so no dimensions to inspect")
        return None
    if histories is None or histories.shape[0] == 0:
        notes.append("the run has no held-out users, so independence and KL are missing")
        return None
    if histories.shape[0] > MOST_USERS:
        notes.append(f"measured on a random sample of {MOST_USERS:,} of {histories.shape[0]:,} held-out users")
    return model.posterior(histories[_draw(histories.shape[0], MOST_USERS, seed)])


def _concepts(model: Recommender, concepts: np.ndarray) -> list[dict[str, Any]]:
    """Size, weight and typical items of each concept."""
    typical = space_of(model).typical_items()
    count = len(typical)
    sizes = np.bincount(concepts, minlength=count)
    weights = np.bincount(concepts, weights=model.popularity, minlength=count) / max(1, model.popularity.sum())
    return [
        {
            "concept": k,
            **_name(model, k),
            "items": int(sizes[k]),
            "share": float(sizes[k] / len(concepts)),
            "interactions": float(weights[k]),
            "typical": [{"id": str(item.id), "title": item.title} for item in typical[k]],
        }
        for k in range(count)
    ]


def _name(model: Recommender, concept: int) -> dict[str, Any]:
    """Its name, what to show if it has none, and how many choices carry it."""
    names = meaning_of(model).names
    if names is None:
        return {"name": None, "label": f"concept {concept}", "fit": None}
    entry = names.concept(concept)
    return {"name": entry.name, "label": label(entry), "fit": entry.model_dump(mode="json")["fit"]}


def _shared(model: Recommender) -> list[dict[str, Any]]:
    """The most popular items that belong to two concepts, with both."""
    space = space_of(model)
    items = np.flatnonzero(space.is_shared)
    most = items[np.argsort(-model.popularity[items], kind="stable")[:MOST_SHARED]]
    memberships = space.log_assignment[most].exp().cpu().numpy()  # (items, concepts)
    concepts = np.stack([space.concept_of[most], space.second[0][most]], axis=1)
    return [
        {
            "id": str(item.id),
            "title": item.title,
            "concepts": [{"concept": k, "share": float(row[k])} for k in both],
        }
        for item, both, row in zip(space.described(most), concepts.tolist(), memberships, strict=True)
    ]


def _of_users(model: Recommender, posterior: Posterior | None, seed: int, notes: list[str]) -> dict[str, Any]:
    """Independence and KL, overall and per concept."""
    names = ("independence", "independence_per_concept", "kl", "kl_per_concept", "per_dimension")
    figures: dict[str, Any] = dict.fromkeys(names)
    if posterior is None:
        return figures
    mean, std = (part.astype(np.float64) for part in posterior)
    users, count, dim = mean.shape
    flat = mean.reshape(users, -1), std.reshape(users, -1)
    figures["independence"] = independence(flat[0])
    figures["independence_per_concept"] = [independence(mean[:, k]) for k in range(count)]
    if not (std > 0).all():
        reason = f"{type(model).__name__} has no distribution over components"
        if std.any():
            reason = "some components have a standard deviation of 0, so their KL is infinite"
        notes.append(f"KL is missing: {reason}")
        return figures
    prior = float(getattr(model.settings, "prior_std", 1.0))
    entropies = marginal_entropies(*flat)
    whole = decompose_kl(*flat, prior, seed=seed, entropies=entropies)
    of_concepts = enumerate(entropies.reshape(count, dim))
    parts = [decompose_kl(mean[:, k], std[:, k], prior, seed=seed, entropies=each) for k, each in of_concepts]
    if users > 1 and whole.mutual_information > 0.99 * np.log(users):
        notes.append(
            f"mutual information is at its limit, ln {users:,}: all these users are distinguished, and further"
            " information about them counts as total correlation"
        )
    per_concept = [part.as_json() for part in parts]
    return figures | {"kl": whole.as_json(), "kl_per_concept": per_concept, "per_dimension": whole.per_dimension}


def _of_factors(model: Recommender, factors: Factors, seed: int, notes: list[str]) -> dict[str, Any]:
    """DCI and MIG of the item vectors."""
    nothing = {"dci": None, "mig": None}
    if not model.has_components:
        return nothing
    chosen = _draw(len(model.items), MOST_ITEMS, seed)
    usable = {name: values[chosen] for name, values in factors.items() if _is_usable(values[chosen])}
    if len(usable) < 2:
        notes.append("DCI and MIG need at least two item attributes")
        return nothing
    if len(chosen) < len(model.items):
        notes.append(f"DCI and MIG: measured on a random sample of {len(chosen):,} of {len(model.items):,} items")
    best_known = sorted(usable, key=lambda name: -int(is_known(usable[name]).sum()))[:MOST_FACTORS]
    if len(best_known) < len(usable):
        notes.append(f"DCI and MIG: only the {len(best_known)} of {len(usable)} factors known for most items")
    usable = {name: usable[name] for name in usable if name in best_known}
    vectors = _item_vectors(model)[chosen]
    gaps = mig(vectors, usable, seed=seed)
    information = {"mean": gaps.mean, "factors": gaps.gaps}
    if find_spec("sklearn") is None:
        notes.append("DCI needs scikit-learn; pip install 'macrid[plot]'")
        return {"dci": None, "mig": information}
    scores = dci(vectors, usable, seed=seed)
    names = ("disentanglement", "completeness", "informativeness")
    return {"dci": {name: getattr(scores, name) for name in names} | {"factors": scores.scores}, "mig": information}


def _dci_within(space: Space, seed: int) -> dict[str, Any] | None:
    """DCI within concepts, along the original axes and those in use; None if no concept predicts two attributes.

    Mean disentanglement over concepts, weighted by items. The factors are the attributes that a concept's vectors
    predict. Axes fitted to attributes are cross-validated: fitted on one half of the items and scored on the other,
    both ways.
    """
    columns = columns_of(space.model)
    rows: list[tuple[float, float, int]] = []  # original, in use, items
    for k in range(space.concepts):
        members, turned = space.members(k), space.axes_in_use(k)
        _, fits = concept_axes(space, k, "attributes", columns, seed)
        predicted = [fit.attribute for fit in fits if fit.attribute != POPULARITY][:MOST_FACTORS_WITHIN]
        items = draw(members, MOST_ITEMS_WITHIN, np.random.default_rng([seed, k]))
        halves = np.random.default_rng([seed, k, 1]).permutation(len(items)) % 2
        parts = [items[halves == half] for half in (0, 1)]
        factors = [column for column in columns if column.name in predicted]
        factors = [column for column in factors if all(column.is_usable(part, FEWEST_KNOWN) for part in parts)]
        if len(factors) < 2:
            continue
        original = [_disentanglement(space.items[part], factors, part, seed) for part in parts]
        in_use = original
        if turned is not None:
            rotations = [turned.rotation[k]] * 2
            if turned.by == "attributes":
                is_whole = len(items) == len(members)
                others = [np.setdiff1d(members, part) for part in parts] if is_whole else parts[::-1]
                rotations = [concept_axes(space, k, "attributes", columns, seed, each)[0] for each in others]
            pairs = zip(parts, rotations, strict=True)
            in_use = [_disentanglement(space.items[part] @ turn.T, factors, part, seed) for part, turn in pairs]
        rows.append((float(np.mean(original)), float(np.mean(in_use)), len(items)))
    if not rows:
        return None
    *scores, weights = zip(*rows, strict=True)
    means = (float(np.average(values, weights=weights)) for values in scores)
    return {**dict(zip(("original", "in_use"), means, strict=True)), "concepts": len(rows)}


def _disentanglement(vectors: np.ndarray, factors: Sequence[Column], items: np.ndarray, seed: int) -> float:
    known = {column.name: column.values[items] for column in factors}
    return dci(vectors, known, seed=seed, folds=2, trees=10).disentanglement


def _dimensions(
    model: Recommender,
    posterior: Posterior | None,
    factors: Factors,
    per_dimension: np.ndarray | None,
    notes: list[str],
) -> list[dict[str, Any]]:
    """Spread over users, and the most correlated attribute over the concept's items, along the axes in use.

    KL to the prior is along the original axes: turned axes have no distribution of their own.
    """
    if posterior is None:
        nothing = dict.fromkeys(FIGURES)
        return [_dimension(model, entry.concept, entry.dimension, nothing) for entry in meaning_of(model).dimensions]
    concepts, (_, count, dim) = model.concepts_of_items(), posterior.mean.shape
    turned = bool(meaning_of(model).in_use)
    axes = [space_of(model).axes(k).astype(np.float64) if turned else np.eye(dim) for k in range(count)]
    spread = np.stack([(posterior.mean[:, k] @ axes[k].T).std(axis=0) for k in range(count)])  # (concepts, dim)
    kl = None if per_dimension is None else per_dimension.reshape(spread.shape)
    measured = {
        name: values if values.dtype.kind == "f" else np.array([np.nan if v is None else float(v) for v in values])
        for name, values in factors.items()
        if values.dtype.kind == "f" or all(v is None or isinstance(v, bool) for v in values)
    }
    if len(getattr(getattr(model, "network", None), "decoder", ())):
        notes.append(
            "attributes of dimensions are missing: with hidden layers, components and items do not share dimensions"
        )
        measured = {}
    tests = spread.size * max(1, len(measured))
    vectors, dimensions = _item_vectors(model), []
    for k, row in enumerate(spread):
        items = np.arange(len(vectors)) if concepts is None else np.flatnonzero(concepts == k)
        of_items = {name: values[items] for name, values in measured.items()}
        best = _correlations(vectors[items] @ axes[k].T, of_items, tests)
        for j, value in enumerate(row):
            figures = dict(zip(FIGURES, (float(value), None if kl is None else float(kl[k, j]), *best[j]), strict=True))
            dimensions.append(_dimension(model, None if concepts is None else k, j, figures))
    return dimensions


def _dimension(model: Recommender, concept: int | None, dimension: int, figures: dict[str, Any]) -> dict[str, Any]:
    """A dimension of the axes in use: its figures, its name, and the evidence for it."""
    row = {"concept": concept, "dimension": dimension, **figures}
    parts = ("name", "low", "high", "strength", "p", "evidence", "examples", "why", "edited")
    names = meaning_of(model).names
    if names is None or concept is None:
        return row | dict.fromkeys(parts)
    entry = names.dimension(concept, dimension).model_dump(mode="json")
    return row | {part: entry[part] for part in parts} | {"axes": entry["axes"], "named_by": entry["attribute"]}


def _axes(model: Any) -> dict[str, Any]:
    """Which axes are in use, and how well they and the original ones predict attributes."""
    space, meaning = space_of(model), meaning_of(model)
    used = meaning.in_use or ("original",) * space.concepts
    strength = {
        kind: axes_evidence(space, None if kind == "original" else meaning.axes[kind]) for kind in {"original", *used}
    }
    lists = {"original": strength["original"].tolist(), "in_use": [strength[kind][k] for k, kind in enumerate(used)]}
    evidence = {
        f"evidence_{name}": [None if np.isnan(value) else float(value) for value in values]
        for name, values in lists.items()
    }
    return {"in_use": list(used), "found": sorted(meaning.axes), **evidence}


def _correlations(
    vectors: np.ndarray, measured: Mapping[str, np.ndarray], tests: int
) -> list[tuple[str | None, float | None]]:
    """Each dimension's factor with the largest rank correlation, if beyond chance for this many tests."""
    best: list[tuple[str | None, float | None]] = [(None, None)] * vectors.shape[1]
    for name, values in measured.items():
        known = np.isfinite(values)
        if known.sum() < FEWEST_ITEMS or np.ptp(values[known]) == 0:
            continue
        ranks = ranks_of(np.column_stack([values[known], vectors[known]]))
        ranks -= ranks.mean(axis=0)
        lengths = np.sqrt(np.square(ranks).sum(axis=0))
        correlations = (ranks[:, 1:].T @ ranks[:, 0]) / np.maximum(lengths[1:] * lengths[0], 1e-12)
        chance = -ndtri(0.005 / tests) / np.sqrt(known.sum() - 1)
        for j, value in enumerate(correlations.tolist()):
            if abs(value) > max(chance, abs(best[j][1] or 0)):
                best[j] = (name, value)
    return best


def _warnings(report: dict[str, Any]) -> list[str]:
    warnings, count, used = [], len(report["concepts"]), report["effective_concepts"]
    if count and is_collapsed(used, count):
        warnings.append(
            f"collapse: only {used:.1f} of {count} concepts are in effective use; train with fewer concepts"
        )
    empty = [str(entry["concept"]) for entry in report["concepts"] if entry["items"] == 0]
    if empty:
        warnings.append(f"no item belongs to concept {', '.join(empty)}")
    kl = report["kl"]
    if kl is not None and kl["users"] > 1 and kl["mutual_information"] < 0.05 * np.log(kl["users"]):
        warnings.append("the components hardly distinguish users; train longer, or with a smaller beta")
    return warnings


def _item_vectors(model: Recommender) -> np.ndarray:
    """(items, dim), of length 1 if only directions matter to the model."""
    vectors = model.item_vectors().cpu().numpy().astype(np.float64)
    is_cosine = getattr(model.settings, "similarity", None) == "cosine"
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) if is_cosine else vectors


def _is_usable(values: np.ndarray) -> bool:
    known = values[is_known(values)]
    return len(known) >= FEWEST_ITEMS and bool((known != known[0]).any())


def _draw(count: int, most: int, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).permutation(count)[:most])
