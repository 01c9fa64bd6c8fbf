"""How names are found: what a concept's items have that others have not, and what grows along a dimension.

A concept is compared with all other items, value by value; a number counts as the values "up to" and "from" its
quartiles. A dimension is named by the column with the strongest rank correlation over the concept's own items, and its
ends by what is found there. Shuffled items tell how much chance gives to whoever may choose among so many; an axis that
was fitted to an attribute brings its evidence along, from items it was not fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow.types as types

from macrid.concepts.evidence import (
    Correlations,
    Counts,
    LogOdds,
    Values,
    chance,
    correlations,
    log_odds,
    null_of_labels,
    of_labels,
    values_of,
)
from macrid.concepts.meaning import Fit
from macrid.concepts.names import (
    ConceptName,
    Correlation,
    DimensionName,
    Example,
    Examples,
    Names,
    Share,
    clean,
    said,
    told_apart,
)
from macrid.concepts.space import Space, digest, space_of
from macrid.data.attributes import FEWEST_ITEMS, POPULARITY, TITLE, Column, columns_of
from macrid.models.macridvae import MacridVAE

LEAST_P = 0.01
LEAST_STRENGTH = 0.2  # of a rank correlation
LEAST_GAIN = 0.1  # of a concept's items more than of all others have the value it is named by
LEAST_SECOND = 0.05  # likewise, a second value
LEAST_RATIO = 1.5  # by which a value that names a concept is more frequent than among all others
CLEAR = 3.0  # z of a value that is shown
LEANING = 2.0  # z of one of several that together are had by most items at an end of a number
AS_GOOD = 0.75  # of the best z, for a kind that goes before others
AS_STRONG = 0.9  # of the best correlation, likewise
TOLD_HERE = 0.5  # of the strongest correlation of a column with any dimension, for a dimension that is named by it
COMPARABLE = 0.6  # of the first value's z, for a second one in a name
MOST = 0.5  # share of items that a name says enough about
SAME = 0.7  # correlation of two values that say the same
PRESENT = 0.3  # share of the items at an end that have the value it is named by
ORDER = {POPULARITY: 0, "number": 0, "category": 1, "tag": 2, "word": 3}
MOST_COMPARED = 20_000  # items
MOST_ITEMS = 2_000  # of a concept
MOST_COLUMNS = 300
SHOWN = 5  # values that are evidence for a concept
CLOSEST = 3  # columns that are evidence for a dimension
WORDS = 3  # for an end
FEWEST_OF_WORDS = 3  # items that have a word, and that have it not
EXAMPLES = 3
Say = Callable[[str, float], str]
"""How a number of an attribute is written."""


class Ends(NamedTuple):
    """What both ends of a dimension are called, and the values that say so."""

    low: str
    high: str
    low_evidence: tuple[Share, ...] = ()
    high_evidence: tuple[Share, ...] = ()


def find(model: MacridVAE, *, seed: int = 0) -> Names:
    """Names of a model's concepts, and of its dimensions along the axes in use, from attributes of its items."""
    space = space_of(model)
    columns = [column for column in columns_of(model, words=True) if clean(column.value or column.name)]
    say, titles = _sayer(model), _titles(model)
    dimensions = [entry for k in range(space.concepts) for entry in _dimensions(space, k, columns, say, titles, seed)]
    concepts = _concepts(space, [*columns, *_ranges(columns, say)], seed)
    return Names(tuple(concepts), tuple(dimensions))


def _concepts(space: Space, columns: Sequence[Column], seed: int) -> list[ConceptName]:
    random = np.random.default_rng([seed, space.concepts])
    items = _draw(np.arange(len(space.concept_of)), MOST_COMPARED, random)
    labels, values = space.concept_of[items], values_of(columns, items)
    odds = of_labels(values, labels, space.concepts)
    null = null_of_labels(values, labels, space.concepts, random)
    found, more = [], []
    for k, typical in enumerate(space.typical_items()):
        examples = tuple(Example(id=str(item.id), title=item.title) for item in typical)
        entry, longer = _concept(k, values, LogOdds(*(part[k] for part in odds)), null, examples)
        found.append(entry)
        more.append([*longer, *(f"{entry.name}, like {said(example)}" for example in examples)])
    apart = told_apart([entry.name for entry in found], more)
    return [entry.model_copy(update={"name": name}) for entry, name in zip(found, apart, strict=True)]


def _concept(
    k: int, values: Values, odds: LogOdds, null: np.ndarray, typical: tuple[Example, ...]
) -> tuple[ConceptName, list[str]]:
    """The name of a concept, and longer ones, should another have the same."""
    best = sorted(np.flatnonzero(odds.z >= CLEAR).tolist(), key=lambda value: -odds.z[value])
    sure = [value for value in best if chance(odds.z[value], null) <= LEAST_P]
    gain = odds.inside - odds.outside
    often = [value for value in sure if odds.inside[value] >= LEAST_RATIO * odds.outside[value]]
    telling = [value for value in often if gain[value] >= LEAST_GAIN]
    if not telling:
        why = "no value is much more frequent among its items than among others"
        why = "nothing is known about its items" if not values.columns else why
        why = "it has no items" if not typical else why
        evidence = _shares(values, odds, best[:SHOWN])
        return ConceptName(concept=k, name=None, evidence=evidence, typical=typical, why=why), []
    good = [value for value in telling if odds.z[value] >= AS_GOOD * odds.z[telling[0]]]
    first = min(good, key=lambda value: ORDER[values.columns[value].kind])  # the best of those of the first kind
    others = [value for value in often if gain[value] >= LEAST_SECOND and not _is_same(values, first, value)]
    others = [value for value in others if odds.z[value] >= COMPARABLE * odds.z[first]]
    second = others[:1] if odds.inside[first] < MOST else []
    entry = ConceptName(
        concept=k,
        name=_joined(values, [first, *second]),
        strength=float(gain[first]),
        p=chance(odds.z[first], null),
        evidence=_shares(values, odds, [first, *(value for value in best if value != first)][:SHOWN]),
        typical=typical,
    )
    return entry, [_joined(values, [first, value]) for value in others]


def _dimensions(
    space: Space, k: int, columns: Sequence[Column], say: Say, titles: Sequence[str | None], seed: int
) -> list[DimensionName]:
    """Of one concept, in the axes in use."""
    own, axes, random = space.own(k), space.axes_in_use(k), np.random.default_rng([seed, k])
    coordinates = space.items[own] @ space.axes(k).T  # (own, dim)
    chosen = _draw(np.arange(len(own)), MOST_ITEMS, random)
    items, points = own[chosen], coordinates[chosen]
    fits = [] if axes is None else [fit for fit in axes.fits if fit.concept == k]
    keep = {fit.attribute for fit in fits}
    usable, words = (_known_of(columns, items, fewest, keep) for fewest in (FEWEST_ITEMS, FEWEST_OF_WORDS))
    values = values_of(words, np.arange(len(items)))
    places = {column.name: place for place, column in reversed(list(enumerate(usable)))}  # the first of a name
    fits = [fit for fit in fits if fit.attribute in places]
    fitted = {fit.dimension: fit for fit in fits}
    free = [j for j in range(space.dim) if j not in fitted]
    found = correlations(points[:, free], _matrix(usable, len(items)), random)
    strongest = np.abs(found.rho).max(axis=1, initial=0)  # (columns,)
    for fit in fits:
        strongest[places[fit.attribute]] = max(strongest[places[fit.attribute]], fit.strength)
    entries = []
    place: int | None
    for j in range(space.dim):
        kind, axis = "original" if axes is None else axes.by, digest(space.axes(k)[j])
        entry = DimensionName(concept=k, dimension=j, axes=kind, axis=axis, name=None)
        if j in fitted:
            place = places[fitted[j].attribute]
            update = _of_fit(fitted[j], usable[place])
        else:
            place, update = _of_correlations(usable, found, free.index(j), strongest)
        if place is not None:
            update |= _named(usable[place], update["evidence"][0])
            update |= _ends(usable[place], update["direction"], points[:, j], values, say)._asdict()
        entries.append(entry.model_copy(update=update | {"examples": _examples(space, own, coordinates[:, j], titles)}))
    return entries


def _of_fit(fit: Fit, column: Column) -> dict[str, Any]:
    """An axis that was fitted: what was found on items it was not fitted to."""
    known = int(np.isfinite(column.values).sum())
    found = Correlation(attribute=fit.attribute, correlation=fit.strength, p=fit.p, items=known, cross_validated=True)
    return {"evidence": (found,)}


def _of_correlations(
    columns: Sequence[Column], found: Correlations, j: int, strongest: np.ndarray
) -> tuple[int | None, dict[str, Any]]:
    """Another one: the column with the strongest correlation, of those about as strong one of the first kind.

    strongest: (columns,) correlation with any dimension; what another one tells much better does not name this one.
    """
    if not columns:
        return None, {"why": "nothing is known that tells enough of its items from others"}
    rho, z = np.clip(found.rho[:, j], -1, 1), np.abs(found.z[:, j])
    best = np.argsort(-z, kind="stable").tolist()
    sure = [place for place in best if abs(rho[place]) >= LEAST_STRENGTH and chance(z[place], found.null) <= LEAST_P]
    here = [place for place in sure if abs(rho[place]) >= TOLD_HERE * strongest[place]]
    strong = [place for place in here if z[place] >= AS_STRONG * z[here[0]]]
    chosen = min(strong, key=lambda place: ORDER[columns[place].kind], default=None)
    first = best[0] if chosen is None else chosen
    evidence = tuple(
        Correlation(
            attribute=columns[place].name,
            correlation=float(rho[place]),
            p=chance(z[place], found.null),
            items=int(np.isfinite(columns[place].values).sum()),
        )
        for place in [first, *(place for place in best if place != first)][:CLOSEST]
    )
    if chosen is not None:
        return chosen, {"evidence": evidence}
    closest = f"{clean(columns[first].name)} (rank correlation {rho[first]:.2f}, p {evidence[0].p:.3g})"
    why = f"no attribute goes with it clearly enough; the closest is {closest}"
    return None, {"evidence": evidence, "why": f"other dimensions tell {closest} much better" if sure else why}


def _named(column: Column, evidence: Correlation) -> dict[str, Any]:
    return {
        "name": clean(column.value or _spoken(column.name)),
        "attribute": column.name,
        "kind": column.kind,
        "strength": abs(evidence.correlation),
        "direction": 1 if evidence.correlation >= 0 else -1,
        "p": evidence.p,
        "cross_validated": evidence.cross_validated,
    }


def _ends(column: Column, direction: int, coordinate: np.ndarray, values: Values, say: Say) -> Ends:
    """Both ends of a dimension (n,) that goes with a column."""
    if column.kind == POPULARITY:
        ends = Ends("niche", "popular")
    elif column.kind == "number":
        ends = _ends_in_words(column, direction * coordinate, values) or _ends_in_numbers(
            column, direction * coordinate, say
        )
    else:
        ends = _ends_of_value(column, direction * coordinate, values)
    return ends if direction > 0 else Ends(ends.high, ends.low, ends.high_evidence, ends.low_evidence)


def _ends_in_words(column: Column, coordinate: np.ndarray, values: Values) -> Ends | None:
    """Values such as "tiny" and "huge" that most items have where the number is low, or high, and few at the other."""
    both = [_quarters(coordinate, np.isfinite(column.values)), _quarters(column.values)]
    odds, also = _between(values, *both[0]), _between(values, *both[1]).z
    found = []
    for attribute in dict.fromkeys(each.attribute for each in values.columns):
        own = np.array([each.attribute == attribute for each in values.columns])
        low, high = (
            _covering(
                values, np.flatnonzero(own & (sign * odds.z >= LEANING) & (sign * also >= LEANING)), sign * odds.z, ways
            )
            for sign, ways in ((-1, [way[::-1] for way in both]), (1, both))
        )
        if low and high:
            found.append((ORDER[values.columns[low[0]].kind], len(low) + len(high), low, high))
    if not found:
        return None
    low, high = (sorted(end, key=lambda word: _mean_of(column, values.has[:, word])) for end in min(found)[2:])
    evidence = _shares(values, _turned(odds), low), _shares(values, odds, high)
    return Ends(_joined(values, low), _joined(values, high), *evidence)


def _covering(
    values: Values, words: np.ndarray, z: np.ndarray, ways: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[int]:
    """The fewest of these words that most items at the second end of all ways have, and few at the first; or none."""
    chosen: list[int] = []
    for word in sorted(words.tolist(), key=lambda word: -z[word]):
        if not any(_is_same(values, word, other) for other in chosen):
            chosen.append(word)
            has = values.has[:, chosen].max(axis=1)
            if min(has[there].mean() - has[here].mean() for here, there in ways) >= MOST:
                return chosen
        if len(chosen) == WORDS:
            break
    return []


def _ends_in_numbers(column: Column, coordinate: np.ndarray, say: Say) -> Ends:
    """Medians of the outer tenths."""
    low, high = (
        float(np.median(column.values[tenth])) for tenth in _quarters(coordinate, np.isfinite(column.values), 10)
    )
    name = _spoken(column.name)
    ends = [clean(f"{name} {say(column.name, number)}") for number in (low, high)]
    if low >= high or ends[0] == ends[1]:
        ends = [clean(f"low {name}"), clean(f"high {name}")]
    return Ends(ends[0], ends[1])


def _ends_of_value(column: Column, coordinate: np.ndarray, values: Values) -> Ends:
    """The value, and what stands against it: another of its attribute that the low end has clearly more often."""
    odds = _between(values, *_quarters(coordinate, np.isfinite(column.values)))
    own = [place for place, each in enumerate(values.columns) if each.name == column.name]
    name = clean(column.value or "")
    against = [
        place
        for place in np.flatnonzero((odds.z <= -CLEAR) & (odds.outside >= PRESENT)).tolist()
        if values.columns[place].attribute == column.attribute
    ]
    against = sorted(against, key=lambda place: odds.z[place])[:1]
    low = _joined(values, against) if against else clean(f"other than {name}")
    return Ends(low, name, _shares(values, _turned(odds), against), _shares(values, odds, own))


def _examples(space: Space, own: np.ndarray, coordinate: np.ndarray, titles: Sequence[str | None]) -> Examples:
    popularity = space.model.popularity[own]
    known = np.flatnonzero(popularity >= np.median(popularity)) if len(own) else own
    order = own[known[np.argsort(coordinate[known], kind="stable")]].tolist()
    low, high = (
        tuple(Example(id=str(space.model.items[place]), title=titles[place]) for place in ends[:EXAMPLES])
        for ends in (order, order[::-1])
    )
    return Examples(low=low, high=high)


def _quarters(numbers: np.ndarray, known: np.ndarray | None = None, parts: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the lowest and of the highest numbers (n,), a quarter of those known each."""
    places = np.flatnonzero(np.isfinite(numbers) if known is None else known)
    order = places[np.argsort(numbers[places], kind="stable")]
    size = max(1, len(order) // parts)
    return order[:size], order[-size:]


def _between(values: Values, low: np.ndarray, high: np.ndarray) -> LogOdds:
    """Items of the high end against those of the low end: (values,)."""
    groups = np.zeros((2, len(values.has)))
    groups[0, low], groups[1, high] = 1, 1
    have, known = values.counts(groups)
    return log_odds(Counts(have[1], known[1]), Counts(have[0], known[0]), values.total)


def _turned(odds: LogOdds) -> LogOdds:
    """The other side against this one."""
    return LogOdds(odds.outside, odds.inside, -odds.delta, -odds.z)


def _mean_of(column: Column, has: np.ndarray) -> float:
    return float(np.nanmean(np.where(has > 0, column.values, np.nan)))


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


def _spoken(name: str) -> str:
    """The name of a column as people would say it."""
    return clean(name.replace("_", " "))


def _joined(values: Values, places: Sequence[int]) -> str:
    return clean(", ".join(clean(str(values.columns[place].value)) for place in places))


def _is_same(values: Values, one: int, other: int) -> bool:
    """Whether two values say the same: a category and a word of all its titles, or one part of another."""
    first, second = values.columns[one], values.columns[other]
    if one == other:
        return True
    known = np.flatnonzero(values.known[:, values.pattern[one]] * values.known[:, values.pattern[other]])
    pair = values.has[known][:, [one, other]]
    if not len(known) or (np.ptp(pair, axis=0) == 0).any():
        return False
    nested = bool(pair.prod(axis=1).sum() == pair.sum(axis=0).min()) and first.attribute == second.attribute
    return nested or bool(np.corrcoef(pair.T)[0, 1] >= SAME)


def _ranges(columns: Sequence[Column], say: Say) -> list[Column]:
    """Numbers as values: up to and from their quartiles."""
    found = {}
    for column in columns:
        known = np.isfinite(column.values)
        if column.kind != "number" or not known.any():
            continue
        name = _spoken(column.name)
        for cut in np.quantile(column.values[known], (0.25, 0.5, 0.75), method="nearest"):
            for word, has in (("up to", column.values <= cut), ("from", column.values >= cut)):
                values = np.where(known, has.astype(np.float64), np.nan)
                title = f"{column.name}: {name} {word} {say(column.name, cut)}"
                made = Column(title, column.name, "tag", values)
                if made.is_usable():
                    found[title] = made
    return list(found.values())


def _sayer(model: MacridVAE) -> Say:
    """Numbers as people write them: dates as dates, years without a comma."""
    kinds = {} if model.table is None else {field.name: field.type for field in model.table.schema}
    kinds = {name: kind.value_type if types.is_dictionary(kind) else kind for name, kind in kinds.items()}

    def say(attribute: str, number: float) -> str:
        kind = kinds.get(attribute)
        if kind is not None and (types.is_timestamp(kind) or types.is_date(kind)):
            return str(np.datetime64(int(number), "s").astype("datetime64[D]"))
        if abs(number) >= 10_000:
            return f"{number:,.0f}"
        return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"

    return say


def _titles(model: MacridVAE) -> list[str | None]:
    """(items,)"""
    if model.table is None or TITLE not in model.table.column_names:
        return [None] * len(model.items)
    return [None if title is None else str(title) for title in model.table.column(TITLE).to_pylist()]


def _known_of(columns: Sequence[Column], items: np.ndarray, fewest: int, keep: Container[str]) -> list[Column]:
    """Columns to keep, and those that tell so many of these items from others: numbers, the most frequent values."""
    usable = [column for column in columns if column.name in keep or column.is_usable(items, fewest)]
    usable = [replace(column, values=column.values[items]) for column in usable]
    first = [column for column in usable if column.name in keep or column.value is None]
    rest = [column for column in usable if not (column.name in keep or column.value is None)]
    return [*first, *sorted(rest, key=lambda column: -float(np.nanmean(column.values)))[:MOST_COLUMNS]]


def _matrix(columns: Sequence[Column], count: int) -> np.ndarray:
    """(items, columns)"""
    return np.stack([column.values for column in columns], axis=1) if columns else np.zeros((count, 0))


def _draw(positions: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    return positions if len(positions) <= most else np.sort(random.choice(positions, most, replace=False))
