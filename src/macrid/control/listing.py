"""Lists that follow rules, with what that costs and what may surprise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from macrid.control.choosing import Demands, Pin, choose, mean_similarity
from macrid.control.rulebook import NO_RULES, Applied, vector_rows
from macrid.control.sources import Source
from macrid.control.state import Ranking
from macrid.data.ids import first_few
from macrid.errors import RequestError
from macrid.models.base import Recommender
from macrid.models.results import DiversityCost


class Listed(NamedTuple):
    ranking: Ranking
    notes: tuple[str, ...] = ()
    """What may surprise."""
    cost: DiversityCost | None = None


def listed(
    model: Recommender,
    source: Source,
    n: int,
    left: int,
    rules: Applied,
    allowed: np.ndarray | None,
    hidden: np.ndarray,
) -> Listed:
    """A list by pins, limits and diversity; n is fewer if fewer can be had.

    left: candidates of the source. allowed (items,) and hidden say which pins are among them.
    """
    pins, notes = placeable(model, rules, allowed, hidden)
    demands = rules.demands
    if demands.diversity and demands.rows is None:
        demands = replace(demands, rows=vector_rows(model))
    chosen = choose(source.best, left, n, pins, demands)
    ranking = Ranking(chosen, source.scores(chosen))
    notes += tuple(_beyond_limits(demands, chosen, pins))
    return Listed(ranking, notes, _cost(source, ranking, n, left, pins, demands) if demands.diversity else None)


def shortage(model: Recommender, n: int, have: int, left: int, rules: Applied) -> tuple[str, ...]:
    """A note if a list is shorter than requested; an error if rules are strict.

    left: items that filters allow.
    """
    if have >= n:
        return ()
    if rules.strict:
        model.check_enough(n, left)
        raise RequestError(f"{n} items requested, but rules allow only {have}; request fewer or relax at_most")
    why = "rules allow no more" if have < left else "no more are left"
    return (f"only {have} of {n} items: {why}{'' if rules is NO_RULES or have < left else ' after rules'}",)


def placeable(
    model: Recommender, rules: Applied, allowed: np.ndarray | None, hidden: np.ndarray
) -> tuple[list[Pin], tuple[str, ...]]:
    """The pins that may be listed, and a note about the others."""
    if not rules.pins:
        return [], ()
    is_free = np.ones(len(model.items), dtype=bool) if allowed is None else allowed.copy()
    is_free[hidden] = False
    pins = [pin for pin in rules.pins if is_free[pin.position]]
    if len(pins) == len(rules.pins):
        return pins, ()
    if rules.are_in_order:
        pins = [Pin(pin.position, rank) for rank, pin in enumerate(pins, start=1)]
    lost = [model.items[pin.position] for pin in rules.pins if not is_free[pin.position]]
    return pins, (f"pins: left out {first_few(lost)}, which the history or other rules exclude",)


def both(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """Masks together; None allows all."""
    return other if one is None else one if other is None else one & other


def _beyond_limits(demands: Demands, chosen: np.ndarray, pins: list[Pin]) -> Iterator[str]:
    """Where pins alone exceed a limit."""
    if not pins or not demands.limits:
        return
    pinned = np.intersect1d(chosen, [pin.position for pin in pins])
    for limit in demands.limits:
        count = int(limit.values[pinned].sum(axis=0).max(initial=0))
        if count > limit.most:
            yield f"at_most: {count} pins share a value of '{limit.attribute}', more than {limit.most}"


def _cost(source: Source, ranking: Ranking, n: int, left: int, pins: list[Pin], demands: Demands) -> DiversityCost:
    assert demands.rows is not None
    plain = choose(source.best, left, n, pins, replace(demands, diversity=0.0))
    if not len(plain):
        return DiversityCost(1.0, 0.0, 0.0, 0.0)
    return DiversityCost(
        float(np.isin(ranking.positions, plain).mean()),
        float(source.scores(plain).mean() - ranking.scores.mean()),
        mean_similarity(demands.rows(ranking.positions)),
        mean_similarity(demands.rows(plain)),
    )
