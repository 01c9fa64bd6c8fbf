"""What the name of a concept claims about its items: that they have a value, or one of two; and how far that is true.

Items count as often as people chose them. The best claim on a random half of the items is checked on the other half,
many times over: a concept is named after the claim found most often, if it holds on the items it was not found on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from macrid.concepts.evidence import Values
from macrid.concepts.names import clean
from macrid.concepts.space import space_of
from macrid.data.attributes import MOST_DISTINCT, Catalogue, Column, columns_of
from macrid.models.base import Recommender

LEAST_SHARE = 0.6  # of a concept's choices that carry its name
LEAST_RATIO = 2.0  # of that share to the share of all other choices
LEAST_GAIN = 0.3  # of that share over the share of all choices
LEAST_SHARE_OF_RANGE, LEAST_RATIO_OF_RANGE = 0.8, 3.0  # every concept leans to some range
LEAST_KNOWN = 0.5  # of a concept's choices for which a claim is known to be true or false
SPLITS = 100
MAJORITY = 0.5  # of the splits, that must find a claim
NEARLY = 0.9
TINY = 1e-12
MOST_VALUES = 12  # considered for one concept
EXTRA_VALUE = 0.1  # difference of shares that makes a second value worthwhile
LESS_TELLING = 0.1  # difference of shares that makes a range or a word better than a category
UP_TO, FROM = (0.1, 0.2, 0.3, 0.4), (0.6, 0.7, 0.8, 0.9)  # quantiles of choices where ranges end and begin
POPULAR = 100  # items that names are measured on
Format = Callable[[str, float], str]
"""Writes a number of an attribute."""


class Range(Column):
    """A number as a value: at most or at least so much."""


class Claim(NamedTuple):
    """Values of which an item has at least one, and how many of a concept's choices do."""

    values: tuple[int, ...]
    """Their places, the most certain first."""
    share: float
    base: float
    """Share of all choices."""
    held_out: float
    """Like `share`, on items the claim was not found on."""


class Shares(NamedTuple):
    """Of the choices in a concept, in all others, and of all choices, those that make claims true: (…, claims) each."""

    inside: np.ndarray
    outside: np.ndarray
    overall: np.ndarray


class Demands(NamedTuple):
    """On each of several claims: (claims,) all."""

    share: np.ndarray
    """The least, of a concept's choices."""
    ratio: np.ndarray
    """The least, of that share to the share of all other choices."""
    cost: np.ndarray
    """How much better it must be than a claim without any."""

    def are_met(self, shares: Shares) -> np.ndarray:
        inside, outside, overall = shares
        return (inside >= self.share) & (inside >= self.ratio * outside) & (inside >= overall + LEAST_GAIN)

    def are_nearly_met(self, shares: Shares) -> np.ndarray:
        """Well enough to check the claim on other items, where one that looks worse here than it is looks better."""
        return self.are_met(shares._replace(inside=shares.inside / NEARLY))


class PopularFit(NamedTuple):
    """How many of the most popular items carry the name of their concept, if it has one with evidence."""

    share: float
    base: float
    """Mean share of all choices that carry these names."""
    items: int
    """Popular items whose concept has such a name."""


def name_fit(model: Recommender, popular: int = POPULAR) -> PopularFit | None:
    """Of the names in use; None if no popular item is in a concept with such a name."""
    space = space_of(model)
    names = space.meaning.names
    top = np.argsort(-model.popularity, kind="stable")[:popular]
    columns = {column.name: column.values[top] for column in value_columns(model)}
    rows: list[tuple[float, float]] = []  # whether an item carries the name of its concept, and that name's base
    for entry in () if names is None else names.concepts:
        if entry.fit is not None and set(entry.fit.columns) <= set(columns):
            claimed = np.max([columns[name] for name in entry.fit.columns], axis=0)  # NaN where unknown
            members = claimed[(space.concept_of[top] == entry.concept) & np.isfinite(claimed)]
            rows += [(carries, entry.fit.base) for carries in members.tolist()]
    if not rows:
        return None
    share, base = np.mean(rows, axis=0).tolist()
    return PopularFit(share, base, len(rows))


def choices(items: Catalogue) -> np.ndarray:
    """How often each item was chosen, at least once: (items,)."""
    return np.maximum(items.popularity, 1).astype(np.float64)


def value_columns(items: Catalogue) -> list[Column]:
    """Everything a name can claim: categories, tags, words, single numbers where there are few, or else ranges."""
    columns = [column for column in columns_of(items, words=True) if clean(column.value or column.name)]
    written, weights = number_format(items.table), choices(items)
    values = [column for column in columns if column.value is not None]
    for column in columns:
        if column.kind == "number":
            values += _single_numbers(column, written) or _ranges(column, weights, written)
    return values


def _single_numbers(column: Column, written: Format) -> list[Column]:
    distinct = np.unique(column.values[np.isfinite(column.values)])
    if len(distinct) > MOST_DISTINCT:
        return []
    return _values(Column, column, {written(column.name, number): column.values == number for number in distinct})


def _ranges(column: Column, weights: np.ndarray, written: Format) -> list[Column]:
    known = np.isfinite(column.values)
    ends, starts = (
        np.quantile(column.values[known], cuts, weights=weights[known], method="inverted_cdf") for cuts in (UP_TO, FROM)
    )
    ranges = {f"up to {written(column.name, cut)}": column.values <= cut for cut in ends}
    ranges |= {f"from {written(column.name, cut)}": column.values >= cut for cut in starts}
    return _values(Range, column, ranges)


def _values(kind: type[Column], column: Column, masks: Mapping[str, np.ndarray]) -> list[Column]:
    """One for each text that describes some of the numbers; masks are (items,)."""
    known, name = np.isfinite(column.values), spaced(column.name)
    values = (
        kind(f"{column.name}: {name} {text}", column.name, "category", np.where(known, mask, np.nan))
        for text, mask in masks.items()
    )
    return [value for value in values if value.is_usable()]


def options_of(values: Values, places: Sequence[int]) -> list[tuple[int, ...]]:
    """What may be claimed: any of the values at these places, or one of two that one attribute has.

    places: the most certain first.
    """
    ranges = [place for place in places if isinstance(values.columns[place], Range)]
    others = [place for place in places if place not in ranges][:MOST_VALUES]
    pairs = [
        (one, other)
        for one, other in combinations(others, 2)
        if values.columns[one].kind != "word"
        and values.columns[one].attribute == values.columns[other].attribute
        and not values.are_same(one, other)
    ]
    return [*((place,) for place in (*others, *ranges)), *pairs]


def best_claims(
    values: Values,
    options: Sequence[tuple[int, ...]],
    inside: np.ndarray,
    weights: np.ndarray,
    random: np.random.Generator,
) -> list[Claim]:
    """The options that hold for a concept, the one found most often first.

    inside, weights: (items,) whether an item is in the concept, and how much it counts.
    """
    if not options:
        return []
    either, demands = values.either(options), _demands(values, options)
    halves = random.random((SPLITS, len(inside))) < 0.5
    seen, unseen, whole = (_shares(either, inside, part * weights) for part in (halves, ~halves, 1))
    is_known = (inside * weights) @ either.known[:, either.pattern] >= LEAST_KNOWN * (inside @ weights)
    holds = is_known & demands.are_nearly_met(seen)  # (splits, options)
    best = np.where(holds, seen.inside - seen.outside - demands.cost, -np.inf).argmax(axis=1)
    is_found = holds.any(axis=1)
    claims = []
    for place, _ in Counter(best[is_found].tolist()).most_common():
        splits = is_found & (best == place)
        held_out = Shares(*(part[splits].mean(axis=0) for part in unseen))
        if demands.are_met(held_out)[place]:
            shares = (whole.inside, whole.overall, held_out.inside)
            claims.append(Claim(options[place], *(float(share[place]) for share in shares)))
    return claims if is_found.mean() > MAJORITY else []


def checked(values: Values, option: tuple[int, ...], inside: np.ndarray, weights: np.ndarray) -> tuple[Claim, bool]:
    """An earlier claim measured on these items, and whether it is still nearly as true as a name has to be."""
    shares = _shares(values.either([option]), inside, weights)
    share, base = (float(part[0]) for part in (shares.inside, shares.overall))
    is_true = bool(_demands(values, [option]).are_nearly_met(shares)[0])
    return Claim(option, share, base, share), is_true


def _demands(values: Values, options: Sequence[tuple[int, ...]]) -> Demands:
    is_range = np.array([isinstance(values.columns[option[0]], Range) for option in options])
    is_word = np.array([values.columns[option[0]].kind == "word" for option in options])
    extra = np.array([len(option) - 1 for option in options])
    return Demands(
        np.where(is_range, LEAST_SHARE_OF_RANGE, LEAST_SHARE),
        np.where(is_range, LEAST_RATIO_OF_RANGE, LEAST_RATIO),
        EXTRA_VALUE * extra + LESS_TELLING * (is_range | is_word),
    )


def _shares(values: Values, inside: np.ndarray, weights: np.ndarray) -> Shares:
    """Among items where a value is known. weights: (…, items)"""
    parts = ((side @ values.has, side @ values.known) for side in (weights * inside, weights * ~inside, weights))
    return Shares(*(have / np.maximum(known[..., values.pattern], TINY) for have, known in parts))


def shared_out(claims: Sequence[Sequence[Claim]]) -> list[Claim | None]:
    """One for each concept, if it has any: its best that no concept it suits better has, or else its best."""
    chosen: list[Claim | None] = [None] * len(claims)
    taken: set[frozenset[int]] = set()
    named = [k for k, options in enumerate(claims) if options]
    for k in sorted(named, key=lambda k: claims[k][0].base - claims[k][0].share):
        claim = next((claim for claim in claims[k] if frozenset(claim.values) not in taken), claims[k][0])
        chosen[k] = claim
        taken.add(frozenset(claim.values))
    return chosen


def claim_text(columns: Sequence[Column]) -> str:
    """What a name says: "Horror or Sci-Fi"; "on sale" or "not on sale"; "size 3 or 4"."""
    name = spaced(columns[0].attribute)
    first, *rest = (clean(str(column.value)) for column in columns)
    if first in ("True", "False") and not rest:
        return name if first == "True" else clean(f"not {name}")
    first = first if any(map(str.isalpha, first)) else f"{name} {first}"
    return clean(" or ".join([first, *(text.removeprefix(f"{name} ") for text in rest)]))


def spaced(name: str) -> str:
    """The name of a column in words."""
    return clean(name.replace("_", " "))


def number_format(table: pa.Table | None) -> Format:
    """Numbers as people write them: dates as dates, years without a comma."""
    kinds = {} if table is None else {field.name: field.type for field in table.schema}
    kinds = {name: kind.value_type if types.is_dictionary(kind) else kind for name, kind in kinds.items()}

    def written(attribute: str, number: float) -> str:
        kind = kinds.get(attribute)
        if kind is not None and (types.is_timestamp(kind) or types.is_date(kind)):
            return str(np.datetime64(int(number), "s").astype("datetime64[D]"))
        if abs(number) >= 10_000:
            return f"{number:,.0f}"
        return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"

    return written
