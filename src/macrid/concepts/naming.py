"""How names are found: by values more common in a concept than elsewhere, and columns that grow along a dimension.

A concept is compared with all other items, value by value; `macrid.concepts.claims` decides which of them name it. A
dimension is named after the column with the strongest rank correlation over the concept's items, and its ends after the
values found there. Shuffled items show how much chance alone gives the best of so many candidates. An axis fitted to an
attribute brings its own evidence, from items it was not fitted to.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from macrid.concepts.claims import (
    Claim,
    Format,
    best_claims,
    choices,
    claim_text,
    number_format,
    options_of,
    shared_out,
    spaced,
    value_columns,
)
from macrid.concepts.evidence import (
    LARGEST_P,
    LEAST_CORRELATION,
    MOST_CORRELATED_ITEMS,
    Correlations,
    LogOdds,
    Values,
    between,
    chance,
    correlations,
    matrix_of,
    null_of_labels,
    of_labels,
    values_of,
)
from macrid.concepts.names import (
    ConceptName,
    Correlation,
    DimensionName,
    Example,
    Examples,
    NameFit,
    Names,
    Share,
    clean,
    without_repeats,
)
from macrid.concepts.space import Space, digest, draw, space_of
from macrid.data.attributes import FEWEST_ITEMS, POPULARITY, Column, columns_of
from macrid.models.macridvae import MacridVAE
from macrid.models.results import ScoredItem

CLEAR = 3.0  # z of a value that is shown
LEANING = 2.0  # z of one of several values that together cover an end of a number
AS_STRONG = 0.9  # share of the best correlation that a preferred kind of column needs
NEAR_STRONGEST = 0.5  # share of a column's strongest correlation that a dimension named after it needs
MAJORITY = 0.5  # by how much more of the items at an end have its words
PRESENT = 0.3  # share of the items at an end that have the value it is named after
ORDER = {POPULARITY: 0, "number": 0, "category": 1, "tag": 2, "word": 3}
MOST_COMPARED_ITEMS = 20_000  # in all concepts, the most popular
MOST_COLUMNS = 300
SHOWN_VALUES = 5  # as evidence for a concept
SHOWN_COLUMNS = 3  # as evidence for a dimension
MOST_WORDS = 3  # in the name of an end
FEWEST_PER_WORD = 3  # items with a word, and without it
EXAMPLES = 3


class Ends(NamedTuple):
    """Names of both ends of a dimension, and the values behind them."""

    low: str
    high: str
    low_evidence: tuple[Share, ...] = ()
    high_evidence: tuple[Share, ...] = ()


def find(model: MacridVAE, *, seed: int = 0) -> Names:
    """Names of a model's concepts, and of its dimensions along the axes in use, from attributes of items."""
    space = space_of(model)
    columns = [column for column in columns_of(model, words=True) if clean(column.value or column.name)]
    written = number_format(model.table)
    dimensions = [entry for k in range(space.concepts) for entry in name_dimensions(space, k, columns, written, seed)]
    return Names(tuple(name_concepts(space, compare(space), seed)), tuple(dimensions))


class Compared(NamedTuple):
    """The most popular items, value by value, in each concept against all others."""

    values: Values
    labels: np.ndarray
    """(items,) their concepts."""
    weights: np.ndarray
    """(items,) how often they were chosen."""
    effective: np.ndarray
    """(items,) weights for tests of chance."""
    odds: LogOdds
    """(concepts, values)"""

    def unnamed(self, space: Space) -> list[ConceptName]:
        """Every concept with its evidence and typical items."""
        parts = zip(*self.odds, space.typical_items(), strict=True)
        return [_unnamed(k, self.values, LogOdds(*odds), typical) for k, (*odds, typical) in enumerate(parts)]


def compare(space: Space, more: Sequence[Column] = ()) -> Compared:
    """more: columns besides those that follow from the items."""
    items = np.argsort(-space.model.popularity, kind="stable")[:MOST_COMPARED_ITEMS]
    weights, labels = choices(space.model)[items], space.concept_of[items]
    values = values_of([*value_columns(space.model), *more], items)
    effective = _effective(weights)
    odds = of_labels(values, labels, space.concepts, effective)
    shares = of_labels(values, labels, space.concepts, weights)
    odds = odds._replace(inside=shares.inside, outside=shares.outside)
    return Compared(values, labels, weights, effective, odds)


def name_concepts(space: Space, compared: Compared, seed: int) -> list[ConceptName]:
    """Every concept with the name that suits it best, if any."""
    random = np.random.default_rng([seed, space.concepts])
    values, labels, weights, effective, odds = compared
    null = null_of_labels(values, labels, space.concepts, random, weights=effective)
    entries, claims, chances = compared.unnamed(space), [], []
    for k in range(space.concepts):
        options = options_of(values, _clear(odds.z[k]))
        chances.append({option: chance(z, null) for option, z in _certainty(values, options, labels == k, effective)})
        likely = [option for option in options if chances[k][option] <= LARGEST_P]
        claims.append(best_claims(values, likely, labels == k, weights, np.random.default_rng([seed, k])))
    for k, claim in enumerate(shared_out(claims)):
        if claim is not None:
            here = LogOdds(*(part[k] for part in odds))
            entries[k] = _named_concept(entries[k], values, here, claim, chances[k][claim.values])
    return without_repeats(entries)


def _effective(weights: np.ndarray) -> np.ndarray:
    """Weights for tests of chance: a few very popular items must not be all that counts.

    They add up to the number of equally weighted items that would tell as much.
    """
    roots = np.sqrt(weights)
    return np.asarray(roots * roots.sum() / np.square(roots).sum())


def _certainty(
    values: Values, options: Sequence[tuple[int, ...]], inside: np.ndarray, weights: np.ndarray
) -> Iterable[tuple[tuple[int, ...], float]]:
    """Options with their z."""
    if not options:
        return ()
    odds = of_labels(values.either(options), inside.astype(np.int64), 2, weights)
    return zip(options, odds.z[1].tolist(), strict=True)


def _clear(z: np.ndarray) -> list[int]:
    """Values that are clearly more common here, the most certain first."""
    return sorted(np.flatnonzero(z >= CLEAR).tolist(), key=lambda value: -z[value])


def _unnamed(k: int, values: Values, odds: LogOdds, typical: Sequence[ScoredItem]) -> ConceptName:
    clear = _clear(odds.z)
    why = "no value is common enough among its popular items and rare enough elsewhere"
    if clear:
        closest = max(clear, key=lambda value: odds.inside[value] - odds.outside[value])
        shares = f"{odds.inside[closest]:.0%}, others {odds.outside[closest]:.0%}"
        why += f"; the closest is {_joined(values, [closest])} ({shares})"
    why = why if values.columns else "nothing is known about its items"
    return ConceptName(
        concept=k,
        name=None,
        evidence=_shares(values, odds, clear[:SHOWN_VALUES]),
        typical=_as_examples(typical),
        why=why if typical else "it has no items",
    )


def _named_concept(entry: ConceptName, values: Values, odds: LogOdds, claim: Claim, p: float) -> ConceptName:
    columns, claimed = [values.columns[value] for value in claim.values], _shares(values, odds, claim.values)
    update = {
        "name": claim_text(columns),
        "strength": claim.share - claim.base,
        "p": p,
        "fit": NameFit(
            columns=tuple(column.name for column in columns),
            share=claim.share,
            base=claim.base,
            held_out=claim.held_out,
        ),
        "evidence": (*claimed, *(share for share in entry.evidence if share not in claimed))[:SHOWN_VALUES],
        "why": None,
    }
    return entry.model_copy(update=update)


def name_dimensions(space: Space, k: int, columns: Sequence[Column], written: Format, seed: int) -> list[DimensionName]:
    """Names of one concept's dimensions along the axes in use."""
    members, axes, random = space.members(k), space.axes_in_use(k), np.random.default_rng([seed, k])
    coordinates = space.turned(k)
    drawn = draw(np.arange(len(members)), MOST_CORRELATED_ITEMS, random)
    items, points = members[drawn], coordinates[drawn]
    keep = {fit.attribute for fit in space.fits(k)}
    usable, words = (_usable(columns, items, fewest, keep) for fewest in (FEWEST_ITEMS, FEWEST_PER_WORD))
    values = values_of(words, np.arange(len(items)))
    places = {column.name: place for place, column in reversed(list(enumerate(usable)))}  # the first with each name
    fitted = {fit.dimension: fit for fit in space.fits(k) if fit.attribute in places}
    free = [j for j in range(space.dim) if j not in fitted]
    correlated = correlations(points[:, free], matrix_of(usable, np.arange(len(items))), random)
    strongest = np.abs(correlated.rho).max(axis=1, initial=0)  # (columns,)
    for fit in fitted.values():
        strongest[places[fit.attribute]] = max(strongest[places[fit.attribute]], fit.strength)
    entries, examples = [], examples_of(space, k, coordinates)
    place: int | None
    for j in range(space.dim):
        kind, axis = "original" if axes is None else axes.by, digest(space.axes(k)[j])
        entry = DimensionName(concept=k, dimension=j, axes=kind, axis=axis, name=None)
        if j in fitted:
            fit, place = fitted[j], places[fitted[j].attribute]
            update: dict[str, Any] = {"evidence": (_correlation(usable[place], fit.strength, fit.p, is_fitted=True),)}
        else:
            place, update = _of_correlations(usable, correlated, free.index(j), strongest)
        if place is not None:
            update |= _named(usable[place], update["evidence"][0], points[:, j], values, written)
        entries.append(entry.model_copy(update=update | {"examples": examples[j]}))
    return entries


def _correlation(column: Column, rho: float, p: float, *, is_fitted: bool = False) -> Correlation:
    """With an axis; a fitted one brings its correlation from items it was not fitted to."""
    known = int(np.isfinite(column.values).sum())
    return Correlation(attribute=column.name, correlation=rho, p=p, items=known, cross_validated=is_fitted)


def _of_correlations(
    columns: Sequence[Column], correlated: Correlations, j: int, strongest: np.ndarray
) -> tuple[int | None, dict[str, Any]]:
    """For any other axis: the column of the preferred kind among those that correlate about as strongly as the best.

    strongest: (columns,) correlation with any dimension; a column that follows another one much better does not count.
    """
    if not columns:
        return None, {"why": "no attribute distinguishes enough of its items"}
    rho, z = np.clip(correlated.rho[:, j], -1, 1), np.abs(correlated.z[:, j])
    ranked = np.argsort(-z, kind="stable").tolist()
    strong = [place for place in ranked if abs(rho[place]) >= LEAST_CORRELATION]
    significant = [place for place in strong if chance(z[place], correlated.null) <= LARGEST_P]
    here = [place for place in significant if abs(rho[place]) >= NEAR_STRONGEST * strongest[place]]
    best = [place for place in here if z[place] >= AS_STRONG * z[here[0]]]
    chosen = min(best, key=lambda place: ORDER[columns[place].kind], default=None)
    first = ranked[0] if chosen is None else chosen
    evidence = tuple(
        _correlation(columns[place], float(rho[place]), chance(z[place], correlated.null))
        for place in [first, *(place for place in ranked if place != first)][:SHOWN_COLUMNS]
    )
    if chosen is not None:
        return chosen, {"evidence": evidence}
    closest = f"{clean(columns[first].name)} (rank correlation {rho[first]:.2f}, p {evidence[0].p:.3g})"
    why = f"no attribute follows it clearly enough; the closest is {closest}"
    return None, {"evidence": evidence, "why": f"other dimensions follow {closest} much better" if significant else why}


def _named(
    column: Column, evidence: Correlation, coordinate: np.ndarray, values: Values, written: Format
) -> dict[str, Any]:
    """A dimension (n,) that follows a column, and its ends."""
    direction = 1 if evidence.correlation >= 0 else -1
    coordinate = direction * coordinate
    if column.kind == POPULARITY:
        ends = Ends("niche", "popular")
    elif column.kind == "number":
        ends = _ends_in_words(column, coordinate, values) or _ends_in_numbers(column, coordinate, written)
    else:
        ends = _ends_of_value(column, coordinate, values)
    ends = ends if direction > 0 else Ends(ends.high, ends.low, ends.high_evidence, ends.low_evidence)
    return {
        "name": clean(column.value or spaced(column.name)),
        "attribute": column.name,
        "kind": column.kind,
        "strength": abs(evidence.correlation),
        "direction": direction,
        "p": evidence.p,
        "cross_validated": evidence.cross_validated,
        **ends._asdict(),
    }


def _ends_in_words(column: Column, coordinate: np.ndarray, values: Values) -> Ends | None:
    """Values such as "tiny" and "huge": most items have them where the number is low or high, few at the other end."""
    quarters = [_outer(coordinate, np.isfinite(column.values)), _outer(column.values)]  # by coordinate, by number
    odds, z_of_number = between(values, *quarters[0]), between(values, *quarters[1]).z
    options = []
    for attribute in dict.fromkeys(each.attribute for each in values.columns):
        same = np.array([each.attribute == attribute for each in values.columns])
        low, high = (
            _covering(values, same & (np.minimum(sign * odds.z, sign * z_of_number) >= LEANING), sign * odds.z, pairs)
            for sign, pairs in ((-1, [pair[::-1] for pair in quarters]), (1, quarters))
        )
        if low and high:
            options.append((ORDER[values.columns[low[0]].kind], len(low) + len(high), low, high))
    if not options:
        return None
    low, high = (
        sorted(end, key=lambda word: np.nanmean(column.values[values.has[:, word] > 0])) for end in min(options)[2:]
    )
    evidence = _shares(values, odds.reversed(), low), _shares(values, odds, high)
    return Ends(_joined(values, low), _joined(values, high), *evidence)


def _covering(
    values: Values, words: np.ndarray, z: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[int]:
    """The fewest words that most items at the second end of every pair have, and few at the first; or none.

    words, z: (values,) whether a value may be used, and how much it leans to the second end.
    """
    chosen: list[int] = []
    for word in sorted(np.flatnonzero(words).tolist(), key=lambda word: -z[word]):
        if not any(values.are_same(word, other) for other in chosen):
            chosen.append(word)
            covered = values.has[:, chosen].max(axis=1)
            if min(covered[there].mean() - covered[here].mean() for here, there in pairs) >= MAJORITY:
                return chosen
        if len(chosen) == MOST_WORDS:
            break
    return []


def _ends_in_numbers(column: Column, coordinate: np.ndarray, written: Format) -> Ends:
    """Medians of the outer tenths."""
    tenths = _outer(coordinate, np.isfinite(column.values), parts=10)
    low, high = (float(np.median(column.values[tenth])) for tenth in tenths)
    name = spaced(column.name)
    ends = [clean(f"{name} {written(column.name, number)}") for number in (low, high)]
    if low >= high or ends[0] == ends[1]:
        ends = [clean(f"low {name}"), clean(f"high {name}")]
    return Ends(ends[0], ends[1])


def _ends_of_value(column: Column, coordinate: np.ndarray, values: Values) -> Ends:
    """The value, and its opposite: another value of the attribute that is clearly more common at the low end."""
    odds = between(values, *_outer(coordinate, np.isfinite(column.values)))
    places = [place for place, each in enumerate(values.columns) if each.name == column.name]
    name = clean(column.value or "")
    opposites = [
        place
        for place in np.flatnonzero((odds.z <= -CLEAR) & (odds.outside >= PRESENT)).tolist()
        if values.columns[place].attribute == column.attribute
    ]
    opposite = sorted(opposites, key=lambda place: odds.z[place])[:1]
    low = _joined(values, opposite) if opposite else clean(f"other than {name}")
    return Ends(low, name, _shares(values, odds.reversed(), opposite), _shares(values, odds, places))


def examples_of(space: Space, k: int, coordinates: np.ndarray) -> list[Examples]:
    """Items at both ends of every dimension; coordinates: (members, dim)."""
    popular = np.flatnonzero(space.is_popular(k))
    order = popular[np.argsort(coordinates[popular], axis=0, kind="stable")]  # (popular, dim)
    ends = np.stack([order[:EXAMPLES], order[::-1][:EXAMPLES]]).transpose(2, 0, 1)  # (dim, ends, examples)
    described = iter(_as_examples(space.described(space.members(k)[ends.ravel()])))
    per_end = ends.shape[2]
    return [
        Examples(low=tuple(islice(described, per_end)), high=tuple(islice(described, per_end)))
        for _ in range(len(ends))
    ]


def _as_examples(items: Sequence[ScoredItem]) -> tuple[Example, ...]:
    return tuple(Example(id=str(item.id), title=item.title) for item in items)


def _outer(numbers: np.ndarray, known: np.ndarray | None = None, parts: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the lowest and the highest numbers (n,), each one quarter (or other part) of those known."""
    places = np.flatnonzero(np.isfinite(numbers) if known is None else known)
    order = places[np.argsort(numbers[places], kind="stable")]
    size = max(1, len(order) // parts)
    return order[:size], order[-size:]


def _shares(values: Values, odds: LogOdds, places: Sequence[int]) -> tuple[Share, ...]:
    return tuple(
        Share(
            attribute=values.columns[place].attribute,
            value=str(values.columns[place].value),
            inside=float(odds.inside[place]),
            outside=float(odds.outside[place]),
            log_odds=float(odds.delta[place]),
            z=float(odds.z[place]),
        )
        for place in places
    )


def _joined(values: Values, places: Sequence[int]) -> str:
    return clean(", ".join(clean(str(values.columns[place].value)) for place in places))


def _usable(columns: Sequence[Column], items: np.ndarray, fewest: int, keep: Container[str]) -> list[Column]:
    """Columns to keep, and those that distinguish enough of these items: all numbers, the most common values."""
    usable = [column for column in columns if column.name in keep or column.is_usable(items, fewest)]
    usable = [replace(column, values=column.values[items]) for column in usable]
    first = [column for column in usable if column.name in keep or column.value is None]
    rest = [column for column in usable if not (column.name in keep or column.value is None)]
    return [*first, *sorted(rest, key=lambda column: -float(np.nanmean(column.values)))[:MOST_COLUMNS]]
