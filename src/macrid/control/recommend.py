"""Recommendations for one history, by rules: what `model.recommend` does."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import label
from macrid.control.engine import POPULAR, Answer, Engine, Question
from macrid.control.rules import Rules
from macrid.data.ids import Id
from macrid.errors import FallbackWarning, RulesWarning, UnknownItemsWarning
from macrid.models.base import Recommender
from macrid.models.results import Recommendations, Shelf

STRICT = Rules(strict=True)


def recommend(
    model: Recommender,
    history: Iterable[Id],
    n: int = 10,
    *,
    exclude_seen: bool = True,
    include: Iterable[Id] | None = None,
    exclude: Iterable[Id] | None = None,
    where: str | None = None,
    rules: Rules | Mapping[str, Any] | None = None,
    strict: bool = False,
    depth: int = 0,
) -> Recommendations:
    """As `model.recommend`. depth: calls between this one and the user's code, for warnings."""
    together = all_rules(include, exclude, where, rules, strict)
    known, unknown = model.lookup(history, required=is_strict(together), stacklevel=3 + depth)
    question = Question(known, n, known if exclude_seen else known[:0], rules=together)
    answer = Engine(model).ask(question)
    warn(answer.notes, bool(unknown), stacklevel=3 + depth)
    return described(model, answer, unknown)


def all_rules(
    include: Iterable[Id] | None,
    exclude: Iterable[Id] | None,
    where: str | None,
    rules: Rules | Mapping[str, Any] | None,
    strict: bool,
) -> tuple[Rules, ...]:
    """Rules, and filters given beside them."""
    together = [Rules.read(rules)]
    if include is not None or exclude is not None or where is not None:
        together.append(Rules(where, _listed(include), _listed(exclude)))
    return tuple(each for each in (*together, *([STRICT] if strict else [])) if each)


def is_strict(rules: Iterable[Rules]) -> bool:
    return any(each.strict for each in rules)


def warn(notes: Iterable[str], has_unknown: bool = False, *, stacklevel: int) -> None:
    """Issue the notes of an answer as warnings; that of a fallback only if the history has unknown items."""
    for note in notes:
        if note == POPULAR:
            if has_unknown:
                warnings.warn(note, FallbackWarning, stacklevel=stacklevel)
        else:
            kind = UnknownItemsWarning if " unknown item" in note else RulesWarning
            warnings.warn(note, kind, stacklevel=stacklevel)


def described(model: Recommender, answer: Answer, unknown: Iterable[Id] = ()) -> Recommendations:
    """An answer with ids, titles and names."""
    return Recommendations(
        model.describe(answer.ranking.positions, answer.ranking.scores),
        tuple(unknown),
        fallback=answer.is_fallback,
        shelves=shelves_of(model, answer),
        diversity=answer.cost,
        warnings=answer.notes,
        pictures=model.pictures,
    )


def shelves_of(model: Recommender, answer: Answer) -> tuple[Shelf, ...]:
    return tuple(
        Shelf(
            shelf.concept,
            shelf_name(model, shelf.concept),
            shelf.share,
            model.describe(shelf.ranking.positions, shelf.ranking.scores),
        )
        for shelf in answer.shelves
    )


def shelf_name(model: Recommender, concept: int) -> str:
    """A concept's name, or else its typical items or its number."""
    names = meaning_of(model).names
    return f"concept {concept}" if names is None else label(names.concepts[concept])


def _listed(ids: Any) -> Any:
    """Iterators as tuples; anything else is checked by the rules."""
    if isinstance(ids, np.ndarray):
        return tuple(ids.tolist())
    return tuple(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else ids
