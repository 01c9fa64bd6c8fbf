"""Rules as they apply to one model: ids as positions, conditions as masks, attributes as similarities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.control.choosing import Demands, Limit, Pin
from macrid.control.columns import Column, NumberColumn
from macrid.control.rules import Boost, Rules
from macrid.control.where import Selection, Selector, did_you_mean
from macrid.data.ids import Id, Ids, first_few
from macrid.errors import RequestError
from macrid.models.base import Recommender
from macrid.models.forks import new_lock

RULES_KEPT = 64
CONDITIONS_KEPT = 256
CONCEPT = "concept"
"""An attribute in `at_most` and `diversity_by`, unless the items table has a column of that name."""
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Applied:
    """Rules as they apply to a model's items."""

    allowed: np.ndarray | None = None
    """(items,) whether an item may be chosen; None allows all."""
    boost: np.ndarray | None = None
    """(items,) added to scores; None for nothing."""
    pins: tuple[Pin, ...] = ()
    """By rank."""
    are_in_order: bool = False
    """Whether pins move up where others cannot be placed."""
    demands: Demands = field(default_factory=Demands)
    shelves: int = 0
    strict: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def reorders(self) -> bool:
        """Whether a list is more than the best items by score."""
        return bool(self.pins or self.demands.limits or self.demands.diversity)


class Step(NamedTuple):
    """One rule, to be followed after others."""

    rule: str
    """The name of its field in `Rules`."""
    label: str
    is_standing: bool
    applied: Applied
    """A filter alone; any other rule with those before it that are no filters."""


class Rulebook:
    """Applies rules to the items of one model. Thread-safe."""

    def __init__(self, model: Recommender) -> None:
        self._items, self._table, self._popularity = model.items, model.table, model.popularity
        self._concepts = model.concepts_of_items()
        self.selector = Selector(_Catalogue(model.items, model.table, model.popularity), len(model.placements))
        self._applied: dict[Hashable, Applied] = {}
        self._selections: dict[str, Selection] = {}
        self._lock = new_lock()

    def is_current(self, model: Recommender) -> bool:
        return (
            model.items is self._items
            and model.table is self._table
            and model.popularity is self._popularity
            and _is_same(model.concepts_of_items(), self._concepts)
        )

    def apply(self, rules: Sequence[Rules], standing: Sequence[Rules] = ()) -> Applied:
        """Rules together: all filters apply; otherwise the last rules that say something, standing ones first.

        Standing rules add no warnings. A `RequestError` says which rule is wrong, and where.
        """
        rules, standing = ([each for each in group if each] for group in (rules, standing))
        if not rules and not standing:
            return NO_RULES
        key = tuple(each.key for each in standing), tuple(each.key for each in rules)
        with self._lock:
            return _kept(self._applied, key, RULES_KEPT, lambda: self._apply(standing, rules))

    def _apply(self, standing: Sequence[Rules], rules: Sequence[Rules]) -> Applied:
        allowed, warnings, quiet = None, list[str](), list[str]()
        every = (*standing, *rules)
        strict = bool(_last(every, "strict"))
        for group, notes in ((standing, quiet), (rules, warnings)):
            for mask in (mask for each in group for mask in self._filters(each, notes, strict)):
                allowed = mask if allowed is None else allowed & mask
        boosts, by = _last(every, "boosts") or (), _last(every, "diversity_by") or ()
        diversity = _last(every, "diversity") or 0.0
        are_own = {name: _last(rules, name) is not None for name in ("pins", "boosts")}
        notes = warnings if are_own["pins"] else quiet
        pins, are_in_order = self._pins(_last(every, "pins"), notes, strict)
        limits = tuple(
            Limit(name, most, self._attribute(name, "at_most").values())
            for name, most in (_last(every, "at_most") or {}).items()
        )
        rows = self._likeness(by) if diversity and by else None
        shelves = _last(every, "shelves")
        return Applied(
            allowed,
            self._boost(boosts, warnings if are_own["boosts"] else quiet) if boosts else None,
            pins,
            are_in_order,
            Demands(limits, diversity, rows),
            len(self._items) if shelves is True else int(shelves or 0),
            strict,
            tuple(dict.fromkeys(warnings)),
        )

    def one_by_one(self, rules: Sequence[Rules], standing: Sequence[Rules] = ()) -> list[Step]:
        """The rules that count, one at a time: filters, boosts, limits, diversity, pins."""
        every, steps, given = (*standing, *rules), list[Step](), dict[str, Any]()
        with self._lock:
            for place, each in enumerate(every):
                for rule, label, own in _filters_of(each):
                    for mask in self._filters(own, [], False):
                        steps.append(Step(rule, label, place < len(standing), Applied(mask)))
            for rule, label, values in _others_of(every):
                given |= values
                is_standing = _last(rules, rule) is None
                steps.append(Step(rule, label, is_standing, self._apply((), [Rules(**given)])))
        return steps

    def _filters(self, rules: Rules, warnings: list[str], strict: bool) -> Iterator[np.ndarray]:
        if rules.where is not None:
            selection = self._selection(rules.where)
            warnings += selection.warnings
            yield selection.mask
        for name, ids in (("include", rules.include), ("exclude", rules.exclude)):
            if ids is not None:
                mask = np.full(len(self._items), name == "exclude")
                positions = self._positions(name, ids, warnings, strict)
                mask[positions[positions >= 0]] = name == "include"
                yield mask

    def positions(self, ids: Sequence[Id]) -> np.ndarray:
        """Of ids in rules; −1 for unknown ones."""
        parse = self._items.parse if self._items.are_integers else str  # keys of JSON objects are always text
        return self._items.positions(parse(value) if isinstance(value, str) else value for value in ids)

    def _positions(self, name: str, ids: Sequence[Id], warnings: list[str], strict: bool) -> np.ndarray:
        """As `positions`; unknown ids are an error if rules are strict."""
        positions = self.positions(ids)
        unknown = [value for value, position in zip(ids, positions, strict=True) if position < 0]
        if unknown:
            message = f"{len(unknown):,} unknown item{'s' * (len(unknown) > 1)}: {first_few(unknown)}"
            if strict:
                kind = "integers" if self._items.are_integers else "strings"
                hint = f"ids are {kind} such as {', '.join(map(repr, self._items[:3]))}"
                raise RequestError(f"{name}: {message}; {hint}")
            warnings.append(f"{name}: ignored {message}")
        return positions

    def _pins(self, pins: Any, warnings: list[str], strict: bool) -> tuple[tuple[Pin, ...], bool]:
        if not pins:
            return (), False
        positions = self._positions("pins", list(pins), warnings, strict).tolist()
        if isinstance(pins, tuple):
            known = dict.fromkeys(position for position in positions if position >= 0)
            return tuple(Pin(position, rank) for rank, position in enumerate(known, start=1)), True
        by_rank = {position: rank for position, rank in zip(positions, pins.values(), strict=True) if position >= 0}
        pairs = sorted(by_rank.items(), key=lambda pair: pair[1])
        return tuple(Pin(position, rank) for position, rank in pairs), False

    def _boost(self, boosts: Sequence[Boost], warnings: list[str]) -> np.ndarray:
        total = np.zeros(len(self._items), dtype=np.float32)
        for place, boost in enumerate(boosts):
            try:
                selection = self._selection(boost.where)
            except RequestError as error:
                raise RequestError(f"boosts[{place}].{error}") from None
            warnings += [f"boosts[{place}].{warning}" for warning in selection.warnings]
            total[selection.mask] += boost.amount
        return total

    def _selection(self, condition: str) -> Selection:
        return _kept(self._selections, condition, CONDITIONS_KEPT, lambda: self.selector(condition))

    def _attribute(self, name: str, rule: str) -> Column:
        if name == CONCEPT and self._concepts is not None and name not in self.selector.names:
            return NumberColumn(self._concepts, np.ones(len(self._items), dtype=bool))
        try:
            return self.selector.column(name)
        except ValueError as error:
            concept = [CONCEPT] if self._concepts is not None else []
            hint = "" if ";" in str(error) else did_you_mean(name, [*self.selector.names, *concept])
            raise RequestError(f"{rule}: '{name[:80]}' {error}{hint}") from None

    def _likeness(self, names: Sequence[str]) -> Callable[[np.ndarray], np.ndarray]:
        """The mean cosine over attributes.

        Values of text, booleans and concepts are orthogonal. Numbers and dates lie on a quarter of a circle by their
        rank among all items, so that the lowest and the highest have nothing in common.
        """
        tables = []
        for name in names:
            column = self._attribute(name, "diversity_by")
            if isinstance(column, NumberColumn) and column.kind in ("number", "date") and name != CONCEPT:
                tables.append(_on_a_circle(column))
            else:
                tables.append(_of_length_1(column.values()))
        table = sp.csr_array(sp.hstack(tables, format="csr")) * np.float32(len(tables) ** -0.5)

        def rows(positions: np.ndarray) -> np.ndarray:
            chosen = table[positions]
            present, columns = np.unique(chosen.indices, return_inverse=True)
            dense = np.zeros((len(positions), len(present)), dtype=np.float32)
            dense[np.repeat(np.arange(len(positions)), np.diff(chosen.indptr)), columns] = chosen.data
            return dense

        return rows


@dataclass(frozen=True)
class _Catalogue:
    """What conditions are about; the model itself would never be released."""

    items: Ids
    table: pa.Table | None
    popularity: np.ndarray


NO_RULES = Applied()
_BOOKS: WeakKeyDictionary[Recommender, Rulebook] = WeakKeyDictionary()


def rulebook_of(model: Recommender) -> Rulebook:
    """The rulebook of a model; a new one when its items have changed."""
    model.check_fitted()
    book = _BOOKS.get(model)
    if book is None or not book.is_current(model):
        book = _BOOKS[model] = Rulebook(model)
    return book


def vector_rows(model: Recommender) -> Callable[[np.ndarray], np.ndarray]:
    """Item vectors of length 1, whose inner products are cosines."""

    def rows(positions: np.ndarray) -> np.ndarray:
        vectors = model.item_vectors()[positions].float().cpu().numpy()
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    return rows


def _filters_of(rules: Rules) -> Iterator[tuple[str, str, Rules]]:
    """Each with its name and a label."""
    if rules.where is not None:
        yield "where", f"filter: {rules.where}", Rules(where=rules.where)
    if rules.include is not None:
        yield "include", f"{_count(rules.include, 'chosen item')} only", Rules(include=rules.include)
    if rules.exclude is not None:
        yield "exclude", f"{_count(rules.exclude, 'item')} excluded", Rules(exclude=rules.exclude)


def _others_of(every: Sequence[Rules]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What counts besides filters: names, labels and fields of `Rules`, where later ones replace earlier ones."""
    boosts, at_most, pins = (_last(every, name) for name in ("boosts", "at_most", "pins"))
    for count, boost in enumerate(boosts or (), start=1):
        yield "boosts", f"boost {boost.amount:+g}: {boost.where}", {"boosts": boosts[:count]}
    for count, (attribute, most) in enumerate((at_most or {}).items(), start=1):
        yield "at_most", f"at most {most} per {attribute}", {"at_most": dict(list(at_most.items())[:count])}
    diversity = _last(every, "diversity")
    if diversity:
        by = _last(every, "diversity_by")
        yield "diversity", f"diversity {diversity:g}", {"diversity": diversity, "diversity_by": by}
    if pins:
        yield "pins", _count(pins, "pinned item"), {"pins": pins}


def _count(ids: Collection[Id], what: str) -> str:
    return f"{len(ids):,} {what}{'s' * (len(ids) != 1)}"


def _is_same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _on_a_circle(column: NumberColumn) -> sp.csr_array:
    """(items, 2)"""
    known = np.flatnonzero(column.known)
    distinct, codes, counts = np.unique(column.numbers[known], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts + 1) / 2  # mean rank of equal numbers
    spread = max(1e-12, float(middle[-1] - middle[0])) if len(distinct) else 1.0
    angle = ((middle - middle[:1]) / spread)[codes] * np.pi / 2
    values = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32).ravel()
    places = np.repeat(known, 2), np.tile([0, 1], len(known))
    return sp.csr_array((values, places), (len(column.known), 2))


def _of_length_1(values: sp.csr_array) -> sp.csr_array:
    counts = np.diff(values.indptr)
    return sp.csr_array((np.repeat(np.maximum(counts, 1) ** -0.5, counts), values.indices, values.indptr), values.shape)


def _last(rules: Sequence[Rules], name: str) -> Any:
    """The value of the last rules that have one."""
    return next((value for each in reversed(rules) if (value := getattr(each, name)) is not None), None)


def _kept(cache: dict[Any, T], key: Hashable, most: int, make: Callable[[], T]) -> T:
    """From a cache, where the least recently used leave first."""
    value = cache.pop(key) if key in cache else make()
    cache[key] = value
    while len(cache) > most:
        del cache[next(iter(cache))]
    return value
